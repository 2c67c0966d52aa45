"""The threads that run handlers: made when first needed, kept, and never waited for.

`Workers` is used by the scheduler's thread only. A worker waits for its next attempt on a
queue of its own, and reports each end through `report`, on its own thread. The core
decides how many attempts run at once; here a thread is found for each.
"""

from __future__ import annotations

import logging
import sys
from queue import SimpleQueue
from threading import Thread, local
from typing import TYPE_CHECKING, NamedTuple

from . import _threads_handler
from ._clock import HANDLER_PATIENCE
from ._threads_handler import run_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._clock import Clock
    from ._messages import (
        Ended,
    )
    from ._threads_handler import Attempt
    from ._values import (
        AbortReason,
        Lease,
        RunKey,
    )


class HandlerEnded(NamedTuple):
    """A worker's word that its handler has ended."""

    worker: Worker
    ended: Ended


class Worker:
    """One thread for handlers, and the queue that brings it work."""

    def __init__(self, name: str, run: Callable[[Worker], None]) -> None:
        self.tasks: SimpleQueue[Attempt | None] = SimpleQueue()
        self.thread = Thread(target=run, args=(self,), name=name, daemon=True)
        self.attempt: Attempt | None = None


class Workers:
    """The worker threads of one engine, and which attempt each of them has."""

    def __init__(self, clock: Clock, size: int, report: Callable[[HandlerEnded], None]) -> None:
        self._clock = clock
        self._size = size
        self._report = report
        self._idle: list[Worker] = []
        self._busy: dict[Lease, Worker] = {}
        self._made = 0
        self._here = local()
        self._refused = False

    def current_lease(self) -> Lease | None:
        """Return the lease of the attempt whose handler is calling; from any thread."""
        return getattr(self._here, "lease", None)

    def start(self, attempt: Attempt) -> bool:
        """Run an attempt on a thread; False when no thread can be had."""
        manual = bool(attempt.lease.key.manual)
        worker = self._idle.pop() if self._idle and not manual else self._new(manual=manual)
        if worker.thread.ident is None and not self._launch(worker):
            return False
        worker.attempt = attempt
        self._busy[attempt.lease] = worker
        worker.tasks.put(attempt)
        if manual:
            worker.tasks.put(None)
        return True

    def freed(self, done: HandlerEnded) -> None:
        """Take a worker back; one that was replaced meanwhile has its thread ended."""
        lease = done.ended.lease
        if self._busy.get(lease) is done.worker:
            del self._busy[lease]
        done.worker.attempt = None
        if lease.key.manual:
            return
        if len(self._idle) < self._size:
            self._idle.append(done.worker)
        else:
            done.worker.tasks.put(None)

    def abort(self, lease: Lease, reason: AbortReason) -> None:
        """Abort the signal of an attempt that is running here."""
        worker = self._busy.get(lease)
        if worker is not None and worker.attempt is not None:
            worker.attempt.switch.abort(worker.attempt.context.signal, reason)

    def stack_of(self, key: RunKey) -> str:
        """Return the stack of the handler of this run, newest call last; "" if none runs."""
        import traceback

        frames = sys._current_frames()  # noqa: SLF001 - documented, in spite of its name
        for lease, worker in self._busy.items():
            frame = frames.get(worker.thread.ident or 0)
            if lease.key == key and frame is not None:
                stack = traceback.extract_stack(frame)
                ours = [
                    i for i, call in enumerate(stack) if call.filename == _threads_handler.__file__
                ]
                return "".join(traceback.format_list(stack[max(ours, default=-1) + 1 :]))
        return ""

    def close(self) -> Iterable[Thread]:
        """End the idle threads, and return them; a busy one ends with its handler."""
        ending = [worker.thread for worker in self._idle]
        for worker in [*self._idle, *self._busy.values()]:
            worker.tasks.put(None)
        self._idle.clear()
        return ending

    def _new(self, *, manual: bool) -> Worker:
        self._made += 1
        return Worker(f"anarchon-{'manual' if manual else 'worker'}-{self._made}", self._work)

    def _launch(self, worker: Worker) -> bool:
        """Start a thread; at interpreter exit and at a limit of threads that can fail."""
        self._clock.enrol(worker.thread, patience=HANDLER_PATIENCE)
        try:
            worker.thread.start()
        except RuntimeError as error:
            self._clock.dismiss(worker.thread)
            if not self._refused:
                logging.getLogger("anarchon").warning("no thread for a handler: %s", error)
            self._refused = True
            return False
        self._refused = False
        return True

    def _work(self, worker: Worker) -> None:
        """Run one attempt after the other; the body of every worker's thread."""
        while True:
            attempt = self._clock.get(worker.tasks, None)
            if attempt is None:
                return
            self._here.lease = attempt.lease
            ended = run_attempt(attempt)
            self._here.lease = None
            # Kept here, the attempt would keep its context alive until the next one.
            del attempt
            self._report(HandlerEnded(worker, ended))
            del ended
