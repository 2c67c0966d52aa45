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
from typing import TYPE_CHECKING

from . import _threads_handler
from ._clock import HANDLER_PATIENCE
from ._log_lines import no_thread, trouble, write
from ._messages import Ended
from ._named import NamedTuple
from ._texts import clean, message_of
from ._threads_handler import run_attempt
from ._traces import described

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._clock import Clock
    from ._log_lines import Say
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


class WorkerFell(NamedTuple):
    """A worker's word that its thread ends, whatever it was doing."""

    worker: Worker


class Worker:
    """One thread for handlers, and the queue that brings it work.

    What is known of its attempt is written by who has it at the moment: the scheduler
    thread before it puts the attempt into the queue, the worker from then on.
    """

    def __init__(self, name: str, run: Callable[[Worker], None]) -> None:
        self.tasks: SimpleQueue[Attempt | None] = SimpleQueue()
        self.thread = Thread(target=run, args=(self,), name=name, daemon=True)
        self.attempt: Attempt | None = None
        self.begun = False
        self.ended: Ended | None = None
        self.fate: tuple[str, str] = ("the thread of the handler was ended", "")

    def give(self, attempt: Attempt) -> None:
        """Have an attempt run."""
        self.attempt = attempt
        self.begun, self.ended = False, None
        self.tasks.put(attempt)


class Workers:
    """The worker threads of one engine, and which attempt each of them has."""

    def __init__(
        self,
        clock: Clock,
        size: int,
        report: Callable[[HandlerEnded | WorkerFell], None],
        say: Say = write,
    ) -> None:
        self._clock = clock
        self._size = size
        self._report = report
        self._say = say
        self._idle: list[Worker] = []
        self._busy: dict[Lease, Worker] = {}
        self._made = 0
        self._here = local()
        self.refused: str | None = None
        """Why no thread could be had the last time that one was needed; for any thread."""

    def current_lease(self) -> Lease | None:
        """Return the lease of the attempt whose handler is calling; from any thread."""
        return getattr(self._here, "lease", None)

    def start(self, attempt: Attempt) -> bool:
        """Run an attempt on a thread; False when no thread can be had."""
        manual = attempt.lease.key.is_called
        worker = None if manual else self._idle_one()
        if worker is None:
            worker = self._new(manual=manual)
            if not self._launch(worker):
                return False
        self.refused = None
        self._busy[attempt.lease] = worker
        worker.give(attempt)
        return True

    def heard(self, word: HandlerEnded | WorkerFell) -> Ended | None:
        """Take a worker back or replace it; return how its attempt has ended, if it has."""
        if isinstance(word, WorkerFell):
            return self._replace(word.worker)
        self._take_back(word.worker, word.ended.lease)
        return word.ended

    def fallen(self) -> list[Worker]:
        """Return the busy workers whose threads have ended without a word."""
        return [worker for worker in self._busy.values() if not worker.thread.is_alive()]

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

    def _take_back(self, worker: Worker, lease: Lease) -> None:
        """Have a worker idle; one that was replaced meanwhile has its thread ended."""
        if self._busy.get(lease) is worker:
            del self._busy[lease]
        worker.attempt = None
        if len(self._idle) < self._size and not lease.key.is_called:
            self._idle.append(worker)
        else:
            worker.tasks.put(None)

    def _replace(self, worker: Worker) -> Ended | None:
        """Do without a worker whose thread has ended.

        An attempt whose handler was not called yet is given to another one.
        """
        if worker in self._idle:
            self._idle.remove(worker)
        attempt, worker.attempt = worker.attempt, None
        if attempt is None or self._busy.get(attempt.lease) is not worker:
            return None
        del self._busy[attempt.lease]
        if worker.ended is not None:
            return worker.ended
        if worker.begun:
            return Ended(attempt.lease, *worker.fate)
        if self.start(attempt):
            return None
        return Ended(attempt.lease, self.refused, unstarted=True)

    def _idle_one(self) -> Worker | None:
        while self._idle:
            worker = self._idle.pop()
            if worker.thread.is_alive():
                return worker
        return None

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
            if self.refused is None:
                self._say(no_thread(error))
            self.refused = f"no thread could be had: {clean(message_of(error))}"
            return False
        return True

    def _work(self, worker: Worker) -> None:
        """Run one attempt after the other; the body of every worker's thread.

        Nothing here raises by itself. But what another thread raises in this one, meaning
        a handler that ended a moment ago, may strike anywhere; then this thread ends, and
        says so.
        """
        over = False
        try:
            while not over:
                over = self._serve(worker)
        except BaseException as error:
            worker.fate = described(error)
            what = "another thread raised this in a worker's thread, which is replaced"
            self._say(trouble(what, error, logging.WARNING))
        finally:
            if not over:
                self._report(WorkerFell(worker))

    def _serve(self, worker: Worker) -> bool:
        """Run the next attempt; return whether there will be none."""
        attempt = self._clock.get(worker.tasks, None)
        if attempt is None:
            return True
        self._here.lease = attempt.lease
        worker.begun = True
        ended = worker.ended = run_attempt(attempt)
        self._here.lease = None
        # Kept here, the attempt would keep its context alive until the next one.
        del attempt
        self._report(HandlerEnded(worker, ended))
        return False
