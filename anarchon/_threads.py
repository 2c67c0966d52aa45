"""The engine: the only place where the core meets threads.

Each thread owns what it changes, and hands frozen values on through a `SimpleQueue`:

* *scheduler* owns the core, the estimate of the store's clock and every deadline
  (`_threads_loop.py`);
* *store* and *keeper* ask the store, one question at a time each (`_threads_lanes.py`);
* *workers* call handlers (`_threads_workers.py`);
* *schedules*, if there is need of it, asks the schedules of others (`_threads_schedules.py`).

All are daemon threads of our own, and exist before a stop needs them: at interpreter exit
no thread can be made any more, and one that isn't a daemon would be joined before anybody
could ask it to stop.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Thread, current_thread
from typing import TYPE_CHECKING

from ._handler_calls import HandlerCalls
from ._log_lines import saying, trouble
from ._measures import StoreCounts
from ._messages import (
    Completing,
    Stop,
    Stopped,
)
from ._threads_changes import Add, Remove
from ._threads_lanes import Lane, LaneEnded
from ._threads_loop import EngineStats, Handling, Join, Loop
from ._threads_schedules import Askers
from ._threads_workers import Workers
from ._trays import Tray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from ._clock import Clock
    from ._messages import (
        JobSpec,
        Ordered,
        RunNow,
        Settings,
    )
    from ._threads_handler import Around
    from ._threads_loop import Told
    from ._values import (
        Lease,
        Limits,
        Owner,
        ServerInfo,
    )
    from .backends.base import ClaimBackend

THREAD_END = 1.0  # for a thread that has nothing left to do but to end

__all__ = ["Engine", "EngineStats"]


class Engine:
    """Runs one core on threads of its own, against one backend, from `open` to `Stopped`.

    `on_action` is called on the scheduler thread with what the facade has to know, in
    order; `Stopped` is the last. What it raises is logged. A `Line` for the log may come at
    any time, also afterwards, and on any thread.
    """

    def __init__(
        self,
        backend: ClaimBackend,
        settings: Settings,
        owner: Owner,
        limits: Limits,
        clock: Clock,
        *,
        around: Around | None,
        on_action: Callable[[Told], None],
        rng: Random | None = None,
    ) -> None:
        import random

        if not settings.token:
            settings = settings._replace(token=owner.token)
        self._backend = backend
        self._limits = limits
        self._clock = clock
        self._on_action = on_action
        self._say = say = saying(on_action)
        self._inbox: Tray[object] = Tray()
        self._workers = Workers(clock, settings.workers, self._inbox.put, say)
        lease_ms = round(settings.lease * 1000)
        store, keeper = (Lane(backend, owner, lease_ms, clock, self._report, say) for _ in range(2))
        self._lanes = (store, keeper)
        self.counts = StoreCounts()  # or those that are put here before `open`
        calls = HandlerCalls(
            backend,
            owner,
            self._inbox.put,
            lambda lease: self._loop.complete(lease) if self._done else None,
        )
        self._loop = Loop(
            settings,
            clock,
            self._inbox,
            self._workers,
            self._lanes,
            handling=Handling(around, calls),
            on_action=on_action,
            rng=rng or random.Random(),
        )
        self.switches = self._loop.switches
        self._askers = Askers(clock, self._inbox.put)
        self._specs: Sequence[JobSpec] = ()
        self._threads: tuple[Thread, ...] = ()
        self._to_close: SimpleQueue[ClaimBackend] = SimpleQueue()
        self._close_late = False
        self._done = True

    # --- for the facade ---

    def open(self, specs: Sequence[JobSpec]) -> ServerInfo:
        """Open and prepare the backend, in the caller's thread; no thread exists yet.

        Whatever this raises, the backend is closed again.
        """
        for lane in self._lanes:
            lane.counts = self.counts
        self.counts.calls["open"] += 1
        try:
            sent = self._clock.mono()
            info = self._backend.open(self._limits)
            received, wall = self._clock.mono(), self._clock.wall()
            self._backend.prepare([spec.name for spec in specs])
        except BaseException:
            self.counts.errors["open"] += 1
            self._backend.close()
            raise
        self._loop.opened(info, sent, received, wall)
        if _shows_instances(self._backend):
            self._loop.herald.begin(specs, wall)
        self._specs = [self._askers.timed(spec) for spec in specs]
        self._to_close.put(self._backend)
        return info

    def start(self) -> None:
        """Start the threads. Raises `RuntimeError`, all closed, when none can be had."""
        store, keeper = self._lanes
        bodies = {"store": store.run, "keeper": keeper.run, "scheduler": self._run}
        self._threads = tuple(
            Thread(target=body, name=f"anarchon-{name}", daemon=True)
            for name, body in bodies.items()
        )
        self._done = False
        try:
            for thread in self._threads:
                self._clock.enrol(thread)
                thread.start()
        except RuntimeError:
            for thread in self._threads:
                self._clock.dismiss(thread)
            self._done = True
            self.close()
            raise

    def close(self) -> None:
        """Close what `open` opened, when there is no scheduler thread to do it."""
        for lane in self._lanes:
            lane.asks.put(None)
        self._close_backend()

    def add(self, spec: JobSpec) -> None:
        """Schedule a job, in place of one of the same name. Never blocks."""
        self._loop.herald.changed(spec.name, spec)
        self._loop.changes.put(spec.name, Add(self._askers.timed(spec)))

    def remove(self, name: str) -> None:
        """Stop scheduling and watching a job. Never blocks."""
        self._loop.herald.changed(name, None)
        self._loop.changes.put(name, Remove(name))

    def give(self, message: RunNow | Ordered) -> None:
        """Tell the core what was asked for by a call; `Return` brings a record. Never blocks."""
        self._inbox.put(message)

    def stop(self, timeout: float, spare: frozenset[Lease] = frozenset()) -> None:
        """Stop within `timeout` seconds. Never blocks; a signal handler may call it."""
        self._inbox.put(Stop(timeout, spare))

    def current_lease(self) -> Lease | None:
        """Return the lease of the run whose handler is calling on this thread."""
        return self._workers.current_lease()

    def is_engine_thread(self) -> bool:
        """Say whether this is a thread that mustn't wait for the engine to stop."""
        return current_thread() in self._threads or self._askers.is_current()

    def stats(self) -> EngineStats:
        """Return how the engine is doing, from any thread, without asking anybody."""
        return self._loop.stats()

    def join(self, timeout: float) -> bool:
        """Wait until the engine has stopped; say whether it has. On its own threads: at once."""
        if self.has_ended() or self.is_engine_thread():
            return self.has_ended()
        mailbox: SimpleQueue[bool] = SimpleQueue()
        self._inbox.put(Join(mailbox))
        # The engine has ended for us before it looks into its inbox for the last time.
        if not self.has_ended() and self._clock.get(mailbox, timeout) is None:
            return self.has_ended()
        for thread in self._threads:
            thread.join(THREAD_END)
        return True

    def has_ended(self) -> bool:
        """Say whether `Stopped` was told, or nothing was ever started."""
        return self._done

    def abandon(self) -> None:
        """Forget everything in a forked child: no thread is left, any lock may be held."""
        self._done = True
        self._threads = ()
        self._inbox = Tray()
        self._to_close = SimpleQueue()
        self._loop.abandon()
        self._backend.abandon()

    # --- on the threads ---

    def _run(self) -> None:
        """Be the scheduler thread: the loop, then the end of everything else."""
        self._loop.run(self._specs)
        ending = [*self._workers.close(), *self._askers.close()]
        try:
            self._end_lanes()
            for thread in ending:
                thread.join(THREAD_END)
        except BaseException as error:
            self._say(trouble("an error while the scheduler's threads ended", error))
        try:
            self._on_action(Stopped())
        except BaseException as error:
            self._say(trouble("an error while the scheduler's end was told", error))
        self._done = True
        self._await(set(), 0.0)
        for mailbox in self._loop.joiners:
            mailbox.put(True)

    def _end_lanes(self) -> None:
        """End the lanes, waiting for a call in flight as long as it may take, and close."""
        for lane in self._lanes:
            lane.asks.put(None)
        now = self._clock.mono()
        longest = max(self._limits.call, self._limits.quick)
        since = min((at for lane in self._lanes if (at := lane.asking_since)), default=None)
        limit = THREAD_END if since is None else max(0.0, since + longest - now) + THREAD_END
        left = self._await(set(self._lanes), limit)
        if left:
            # A lane that still hangs closes the backend itself, should its call ever end.
            self._close_late = True
            left = self._await(left, 0.0)
        if not left:
            self._close_backend()

    def _await(self, lanes: set[Lane], seconds: float) -> set[Lane]:
        """Wait until these lanes have ended; return those that haven't. No lanes: look once."""
        until = self._clock.mono() + seconds
        while True:
            match self._inbox.next(lambda bell: self._clock.get(bell, self._left(until))):
                case None:
                    return lanes
                case LaneEnded(lane=lane):
                    lanes.discard(lane)
                case Join(mailbox=mailbox):
                    self._loop.joiners.append(mailbox)
                case Completing(lease=lease, reply=reply):
                    reply.put(self._loop.complete(lease))
            if not lanes and seconds:
                return lanes

    def _left(self, until: float) -> float:
        return max(0.0, until - self._clock.mono())

    def _report(self, message: object) -> None:
        self._inbox.put(message)
        if isinstance(message, LaneEnded) and self._close_late:
            self._close_backend()

    def _close_backend(self) -> None:
        """Close the backend, whoever comes first and once."""
        try:
            self._to_close.get_nowait().close()
        except Empty:
            pass
        except BaseException as error:
            self._say(trouble("the backend raised while it was closed", error))


def _shows_instances(backend: ClaimBackend) -> bool:
    """Whether the store keeps what is said to it of instances."""
    from .backends.base import ClaimBackend

    return type(backend).instances is not ClaimBackend.instances
