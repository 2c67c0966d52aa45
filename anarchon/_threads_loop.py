"""The scheduler thread: the core's inputs and actions, and the estimate of the store's clock.

`Loop` waits on the inbox until the core's next wake-up, and never for a store, a handler
or a lock. Whatever goes wrong in it, in the core or in the facade is logged and survived:
inputs are taken on as they come, only the passing of time pauses for a moment.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakSet

from ._backlog import Backlog
from ._clock import StoreClock
from ._core import Core, CoreView
from ._handler_calls import data_of
from ._log_lines import not_stopped, saying, trouble
from ._messages import (
    Abort,
    Alert,
    Answered,
    Claim,
    Completing,
    Ended,
    Failed,
    Finish,
    Granted,
    Later,
    Look,
    Note,
    Now,
    Ordered,
    RecordManual,
    Release,
    Renew,
    RunNow,
    Skip,
    StartRun,
    Stop,
    Stopped,
    StoreDown,
    StoreUp,
    Tick,
    Unfinished,
)
from ._named import NamedTuple
from ._signal import Switch
from ._texts import clean, said
from ._threads_changes import MOST_CHANGES, Add, Changes, apply
from ._threads_handler import Attempt
from ._threads_lanes import Reply
from ._threads_presence import Herald
from ._threads_schedules import untimed
from ._threads_workers import HandlerEnded, WorkerFell
from ._values import (
    RunKey,
)
from .context import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from queue import SimpleQueue
    from random import Random

    from ._clock import Clock
    from ._handler_calls import HandlerCalls
    from ._log_lines import Line
    from ._messages import (
        Action,
        Drained,
        Emit,
        Input,
        JobSpec,
        Overdue,
        Return,
        Settings,
    )
    from ._threads_changes import Remove
    from ._threads_handler import Around
    from ._threads_lanes import Lane
    from ._threads_workers import Workers
    from ._trays import Tray
    from ._values import (
        ServerInfo,
    )

    Told: TypeAlias = (
        Line | Emit | Overdue | Note | StoreDown | StoreUp | Return | Drained | Stopped
    )

LONGEST_PAUSE = 5.0
STOP_GRACE = 1.0


class EngineStats(NamedTuple):
    """How an engine is doing. `last_contact` is our monotonic clock at the last reply."""

    running: int
    free_workers: int
    stuck: int
    suspended: tuple[str, ...]
    heartbeat_late: float
    last_contact: float | None
    clock_offset: float
    clock_far: bool
    store_up: bool
    no_thread: str | None  # why handlers can't be called, if that is so


class Join(NamedTuple):
    """Put True into the mailbox when all is over."""

    mailbox: SimpleQueue[bool]


class Handling(NamedTuple):
    """What every handler is given: the user's `around`, and a way to the store."""

    around: Around | None
    calls: HandlerCalls


class Loop:
    """Owns the core. All methods but `stats` belong to the scheduler thread."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        inbox: Tray[object],
        workers: Workers,
        lanes: tuple[Lane, Lane],
        *,
        handling: Handling,
        on_action: Callable[[Told], None],
        rng: Random,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._inbox = inbox
        self._workers = workers
        self._store, self._keeper = lanes
        self._handling = handling
        self._on_action = on_action
        self._say = saying(on_action)
        self.switches: WeakSet[Switch] = WeakSet()
        self._core = Core(settings, rng)
        self.complete = self._core.complete
        self._store_clock = StoreClock(settings, steady=True)
        self.herald = Herald(settings, self._core, self._store_clock)
        self._view = CoreView(0, settings.workers, 0)
        self._suspended: tuple[str, ...] = ()
        self._wakeup: float | None = None
        self._due = 0.0  # when what is being done now was due
        self.changes: Backlog[Add | Remove] = Backlog(partial(inbox.put, Changes()))
        self._failures = 0
        self._resume_at = -inf  # no tick before: the last one failed
        self._stop_by = inf
        self._late = 0.0
        self._late_told = False
        self._last_contact: float | None = None
        self._store_up = True
        self.stopped = False
        self.joiners: list[SimpleQueue[bool]] = []

    def opened(self, info: ServerInfo, sent: float, received: float, wall: float) -> None:
        """Take the store's word from its opening; before the thread exists."""
        self._store_clock = self.herald.clock = StoreClock(self._settings, steady=info.steady)
        self._last_contact = received
        if info.trip is not None:
            # Else half of the time that a driver took to load would be taken for an offset.
            passed = min(info.age, received - sent)
            received, wall = received - passed, wall - passed
            sent = max(sent, received - info.trip)
        self._store_clock.heard(sent, received, wall, info.store_ms)

    def run(self, specs: Sequence[JobSpec]) -> None:
        """Take inputs until the core has stopped."""
        for spec in specs:
            self.changes.put(spec.name, Add(spec))
        while not self.stopped:
            try:
                self._turn()
            except BaseException as error:
                self._survive(error)

    def abandon(self) -> None:
        """Have nothing to show any more: this is a forked child."""
        self.stopped = True
        self._view = CoreView(0, self._settings.workers, 0)
        self._late = 0.0

    def stats(self) -> EngineStats:
        """Return how it is going, from any thread."""
        view, wakeup, late = self._view, self._wakeup, self._late
        if view.running and wakeup is not None and not self.stopped:
            overdue = self._clock.mono() - wakeup
            late = max(late, overdue if overdue > self._settings.heartbeat else 0.0)
        return EngineStats(
            running=view.running,
            free_workers=view.free_workers,
            stuck=view.stuck,
            suspended=self._suspended,
            heartbeat_late=late,
            last_contact=self._last_contact,
            clock_offset=self._store_clock.offset,
            clock_far=self._store_clock.far,
            store_up=self._store_up,
            no_thread=self._workers.refused,
        )

    # --- inputs ---

    def _turn(self) -> None:
        """Wait for the next input or the next wake-up, and deal with it."""
        message = self._inbox.next(lambda bell: self._clock.get_by_wall(bell, self._timeout()))
        mono = self._clock.mono()
        is_early = mono < min(self._stop_by, inf if self._wakeup is None else self._wakeup)
        if message is None and is_early and self._core.is_behind:
            self._guarded(lambda now: self._do(self._core.look_ahead(now), now))
            return
        self._due = mono if self._wakeup is None else min(self._wakeup, mono)
        if self._view.running and mono - self._due > self._settings.heartbeat:
            self._beat(mono - self._due)
        self._take(Tick() if message is None else message)
        if mono >= self._stop_by and not self.stopped:
            self.stopped = True
            self._say(not_stopped())

    def _timeout(self) -> float | None:
        if self._core.is_behind:
            return 0.0
        until = max(inf if self._wakeup is None else self._wakeup, self._resume_at)
        left = min(until, self._stop_by) - self._clock.mono()
        return None if left == inf else max(0.0, left)

    def _take(self, message: object) -> None:
        match message:
            case Tick() | Ended() | Completing() | Ordered():
                self._handle(message)
            case RunNow(key=key):
                if (change := self.changes.pop(key.job)) is not None:
                    self._change([change])
                self._handle(message)
            case Reply():
                self._replied(message)
            case HandlerEnded() | WorkerFell():
                if (ended := self._workers.heard(message)) is not None:
                    self._handle(ended)
            case Stop(timeout=timeout):
                grace = self._settings.heartbeat + STOP_GRACE
                self._stop_by = min(self._stop_by, self._clock.mono() + timeout + grace)
                self._handle(message)
            case Changes() | Later():
                changes: Sequence[Add | Remove | Later] = (
                    [message] if isinstance(message, Later) else self.changes.take(MOST_CHANGES)
                )
                # Once it stops, no job has to come or go any more.
                self._change(changes if self._stop_by == inf else ())
                self._handle(Tick())
            case Join(mailbox=mailbox):
                self.joiners.append(mailbox)

    def _change(self, changes: Iterable[Add | Remove | Later]) -> None:
        for change in changes:
            self._guarded(partial(apply, self._core, change))

    def _replied(self, reply: Reply) -> None:
        call, answer = reply.ask.call, reply.answer
        if not reply.lane.heard(reply.ask):
            return  # it was told of already
        if isinstance(call, Renew):
            self._beat(reply.sent - reply.ask.due)
        if isinstance(answer, BaseException):
            if reply.ask.presence is not None:
                self.herald.unheard()
            self._handle(Failed(call, answer))
            return
        self._last_contact = reply.received
        self._store_clock.heard(reply.sent, reply.received, reply.wall, answer.store_ms)
        agrees = self._store_clock.agrees(reply.sent)
        self._handle(Answered(call, answer, reply.sent, reply.received, agrees))

    def _handle(self, message: Input) -> None:
        """Give the core an input and do what it says."""
        error = self._guarded(lambda now: self._do(self._core.handle(message, now), now))
        if error is None:
            if isinstance(message, Tick):
                self._failures, self._resume_at = 0, -inf
        elif isinstance(message, Answered):
            # Whatever the core made of the answer, the call must not stay in flight.
            failed = Failed(message.call, error)
            self._guarded(lambda now: self._do(self._core.handle(failed, now), now))
        elif isinstance(message, Ended | Stop):
            self._guarded(lambda now: self._do(self._core.handle(message, now), now))

    def _do(self, actions: Iterable[Action], now: Now) -> None:
        """Do what the core said at that instant."""
        for action in actions:
            try:
                self._act(action)
            except BaseException as error:
                self._log_error(f"the scheduler couldn't do a {type(action).__name__}", error)
        # Asked for the instant just handled: what falls due while we are busy is still ahead.
        self._wakeup = self._core.next_wakeup(now)
        self._view, self._suspended = self._core.view(), self._core.suspended()
        if not self._view.running:
            self._late, self._late_told = 0.0, False

    def _now(self) -> Now:
        wall, mono = self._clock.wall(), self._clock.mono()
        return Now(self._store_clock.reading(wall, mono), mono)

    def _guarded(self, step: Callable[[Now], object]) -> BaseException | None:
        try:
            step(self._now())
        except BaseException as error:
            self._survive(error)
            return error.with_traceback(None)
        return None

    def _survive(self, error: BaseException) -> None:
        """Log what went wrong, and put the next tick off; inputs are still taken at once."""
        self._log_error("an error in the scheduler's loop", error)
        pause = min(LONGEST_PAUSE, 0.1 * 2.0 ** min(self._failures, 16))
        self._failures += 1
        self._resume_at = self._wakeup = self._clock.mono() + pause

    def _log_error(self, text: str, error: BaseException) -> None:
        with suppress(BaseException):  # this is where the loop is saved, so nothing may end it
            self._say(trouble(text, error))

    # --- actions ---

    def _act(self, action: Action) -> None:
        match action:
            case Renew() | Look():
                self._keeper.send(self.herald.ask(action, self._due, self._now()))
                for worker in self._workers.fallen():
                    self._inbox.put(WorkerFell(worker))
            case Claim() | Finish() | Release() | Skip() | Unfinished() | RecordManual() | Alert():
                self._store.send(self.herald.ask(action, self._due, self._now()))
            case StartRun():
                self._start_run(action)
            case Abort(lease=lease, reason=reason):
                self._workers.abort(lease, reason)
            case Granted(reply=reply, granted=granted):
                reply.put(granted)
            case Stopped():
                self.stopped = True  # told when the threads have ended
            case Note(kind="stuck", key=key, detail=detail):
                self._tell(action._replace(detail=f"{detail}\n{self._workers.stack_of(key)}"))
            case StoreDown() | StoreUp():
                self._store_up = isinstance(action, StoreUp)
                self._tell(action)
            case _:
                self._tell(action)

    def _tell(self, told: Told) -> None:
        """Tell the facade; what goes wrong there is no business of ours."""
        try:
            self._on_action(told)
        except BaseException as error:
            self._log_error(f"an error while a {type(told).__name__} was told", error)

    def _start_run(self, action: StartRun) -> None:
        """Find a thread for an attempt; without one, say that its handler never ran."""
        try:
            job = action.spec.job
            data = data_of(action, job.data)
            switch = Switch(self._clock, self._say)
            self.switches.add(switch)
            own = action._replace(spec=untimed(action.spec))
            around, calls = self._handling
            context = Context(own, self._settings.instance_id, switch, data, calls)
            started = self._workers.start(
                Attempt(action.lease, context, switch, job.handler, job.pass_context, around)
            )
            why = self._workers.refused
        except BaseException as error:
            self._log_error(f"no start of {action.spec.name}", error)
            started, why = False, clean(said(error))
        if not started:
            self._inbox.put(Ended(action.lease, why, unstarted=True))

    def _beat(self, late: float) -> None:
        """Note by how much a heartbeat was late, and say so once until one is in time."""
        too_late = late > self._settings.heartbeat
        self._late = max(0.0, late)
        if too_late and not self._late_told:
            self._late_told = True
            self._tell(Note("late", RunKey("", 0), f"{late:.1f} s"))
        self._late_told = too_late
