"""One life of a scheduler: from `start` until it is idle again.

Every life has a thread of its own. It opens the store, gives the engine its jobs, and is
the only one that moves the state, by the table in ``_lifecycle_states.py``. Whoever wants
something (`start`, `stop`, `run_now`, an exit hook, a signal handler) puts a request into
its inbox and waits for the answer on a private queue.

So there is no lock to be held by anybody, and that is the point: a signal handler that
calls `stop` has interrupted the main thread anywhere, perhaps inside `start` or `stop`
itself, and whatever lock that thread holds stays held until the handler returns. For the
same reason the life's thread neither logs nor calls listeners (see ``_lifecycle_journal.py``), and
is itself started by a helper (see ``_lifecycle_thread.py``).
"""

from __future__ import annotations

import os
from queue import SimpleQueue
from typing import TYPE_CHECKING

from . import _lifecycle_exits
from . import _log_lines as lines
from ._lifecycle_callers import Place, caller_of
from ._lifecycle_dues import Answers, Awaits, Calls, GivenJobs, Halts
from ._lifecycle_journal import Journal
from ._lifecycle_requests import (
    Await,
    Call,
    Changed,
    Halt,
    Inbox,
    Join,
    Word,
    await_stop,
    not_running,
)
from ._lifecycle_states import LIFECYCLE
from ._lifecycle_thread import LifeThread, no_thread
from ._log_lines import Line
from ._messages import Drained, Emit, Note, Overdue, Return, RunNow, Stopped, StoreDown, StoreUp
from ._values import Owner
from .errors import BackendUnavailable, NotRunning

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._clock import Clock
    from ._jobs_registry import Registry
    from ._lifecycle_requests import Answer, Request
    from ._lifecycle_states import LifecycleEvent, State
    from ._listening import Listeners
    from ._measures import Measures
    from ._scheduler_options import Options
    from ._threads import Engine
    from ._threads_loop import Told
    from ._values import ServerInfo

# How long after its timeout a stop is still waited for by whoever began it: the engine ends
# by itself at the timeout, so this passes only when something in it hangs.
GRACE_SECONDS = 2.0
# What listeners and logging handlers get at least for what waits at the end.
LEAST_FLUSH_SECONDS = 0.5
JOIN_SECONDS = 1.0
FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 30.0


class Life:
    """One life of a scheduler.

    Threads: `call_off`, `stop`, `abandon`, the inbox and the attributes are for everybody;
    the rest belongs to the life's own thread. `call_off` and `stop` take no lock.
    """

    def __init__(
        self,
        options: Options,
        registry: Registry,
        listeners: Listeners,
        clock: Clock,
        *,
        patient: bool,
        measures: Measures,
        forget: Callable[[Life], object],
    ) -> None:
        self.pid = os.getpid()
        self.options = options
        self.owner = Owner(os.urandom(16).hex(), options.instance_id_now())
        self.state: State = "starting"
        self.inbox = Inbox(clock)
        self.journal = Journal(options, listeners, measures, clock, self.owner.instance_id)
        self.engine: Engine | None = None
        self.info: ServerInfo | None = None
        self.exit_until: float | None = None
        self._clock = clock
        self._patient = patient
        self._forget = forget
        self._jobs = GivenJobs(registry, options, clock, self.journal.say)
        self._calls = Calls(options.workers)
        self._halts = Halts(clock)
        self.thread = LifeThread(clock, self._live, self._fail)
        self._joins, self._awaits = Answers(), Awaits()
        self._failure: BaseException | None = None
        self._ran = self._stopped = False
        # The engine lets a handler that called `stop` itself go on for one heartbeat more.
        self._longest_end = options.heartbeat_ms / 1000 + 2 * GRACE_SECONDS
        for line in lines.doubtful(registry.unapplied(), registry.unknown()):
            self.journal.say(line)

    # --- for everybody ---

    def call_off(self) -> bool:
        """Be over before there is a thread; False when there is one, or soon will be."""
        if not self.thread.call_off():
            return False
        self._step("stop")
        self._step("stopped")
        self._forget(self)
        self._answer_everybody()
        return True

    def stop(self, timeout: float, *, wait: bool = True) -> None:
        """Ask to stop, and wait until that is done, at most the timeout."""
        if self.call_off():
            return
        caller = caller_of(self)
        grace = GRACE_SECONDS if self.state == "running" else 0.0
        answer: Answer = SimpleQueue()
        self.inbox.put(Halt(timeout, answer, caller.lease, caller.place is Place.LISTENER))
        if wait and caller.place not in (Place.ABORT, Place.OWN):
            await_stop(self, answer, timeout + grace, inside=not caller.may_wait)

    def abandon(self) -> None:
        """Forget everything without touching it: this is a forked child."""
        self.journal.abandon()
        self.inbox.closing = self.inbox.over = True
        self.state = "idle"
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.abandon()

    # --- the thread ---

    def _live(self) -> None:
        try:
            try:
                self.journal.start()
            except RuntimeError as error:
                raise no_thread(error) from error
            _lifecycle_exits.enter(self)
            if self._open():
                self._serve()
        except BaseException as error:
            self._failure = error
            if self.state == "running" and self.engine is not None:
                self.journal.bug("the lifecycle", error)
                self._step("stop")
                self.engine.stop(0.0)
        finally:
            self._end()

    def _fail(self, error: RuntimeError) -> None:
        """Be over for want of a thread, on whatever thread found out."""
        self._failure = error
        self._end()

    def _step(self, event: LifecycleEvent) -> None:
        self.state = LIFECYCLE[self.state, event]

    # --- starting ---

    def _open(self) -> bool:
        """Open the store, now or (patient) some time; return whether it runs now."""
        failures = 0
        while True:
            for request in self.inbox.waiting():
                self._handle(request)
            if self.state == "stopping":
                return False
            error = self._try_open()
            if error is None:
                return self._opened()
            if not (self._patient and isinstance(error, BackendUnavailable)):
                self._failure = error
                return False
            self.journal.store_down(error)
            self._joins.give(error)
            self._rest(failures)
            failures += 1

    def _try_open(self) -> Exception | None:
        try:
            self.engine = _make_engine(self, self._clock, self._on_action)
            self.info = self.engine.open(self._jobs.begin())
        except Exception as error:
            self.engine = None
            return error
        return None

    def _opened(self) -> bool:
        """Go on to running, unless a stop has come while the store was opened."""
        for request in self.inbox.waiting():
            self._handle(request)
        engine = self.engine
        assert engine is not None
        if self.state == "stopping":
            self.options.backend.close()
            return False
        try:
            engine.start()
        except RuntimeError as error:
            self._failure = no_thread(error)
            return False
        self._step("opened")
        self._ran = True
        self.journal.store_up()
        for name in self._jobs.changed():
            self.inbox.changed(name)
        assert self.info is not None
        self.journal.started(self.owner.instance_id, len(self._jobs), self.info)
        if _lifecycle_exits.has_twin(self):
            self.journal.say(lines.twins(repr(self.options.backend)))
        self._joins.give(Word.RUNNING)
        return True

    def _rest(self, failures: int) -> None:
        """Wait between two tries, longer each time, unless somebody wants a result now."""
        pause = min(FIRST_RETRY_SECONDS * 2.0 ** min(failures, 16), LONGEST_RETRY_SECONDS)
        until = self._clock.mono() + pause * self._clock.rng().uniform(0.5, 1.0)
        while self.state == "starting" and not self._joins:
            left = until - self._clock.mono()
            request = self.inbox.next(left) if left > 0 else None
            if request is None:
                return
            self._handle(request)

    # --- running and stopping ---

    def _serve(self) -> None:
        """Handle requests until the engine has stopped, or hangs."""
        while not self._stopped:
            stopping = self.state == "stopping"
            limit = self._halts.left() + self._longest_end if stopping else None
            try:
                request = self.inbox.next(limit)
            except BaseException as error:  # raised in this thread by another one
                self.journal.bug("the lifecycle", error)
                continue
            if request is None:
                return
            self._handle(request)

    def _on_action(self, action: Told) -> None:
        """Pass on what the engine reports, lines on any thread; never blocks."""
        match action:
            case Emit(event=event, run=run):
                self.journal.run(event, run)
                if self.engine is not None:
                    stats = self.engine.stats()
                    self.journal.clock(stats.clock_offset, far=stats.clock_far)
            case Note() | Line() | Overdue():
                self.journal.say(action)
            case StoreDown(error=error):
                self.journal.store_down(error)
            case StoreUp():
                self.journal.store_up()
            case Return() | Drained() | Stopped():
                self.inbox.put(action)

    def _handle(self, request: Request) -> None:
        try:
            self._take(request)
        except Exception as error:
            self.journal.bug("the lifecycle", error)

    def _take(self, request: Request) -> None:
        match request:
            case Join():
                self._join(request)
            case Halt():
                self._halt(request)
            case Await():
                self._awaits.add(request, self.state)
            case Changed():
                names = self.inbox.changes()
                if self.state == "running" and self.engine is not None:
                    self._jobs.keep(self.engine, names)
            case Call():
                self._call(request)
            case Return(key=key, run=run):
                self._calls.returned(key, run)
            case Drained():
                self._halts.drained()
            case Stopped():
                self._stopped = True

    def _join(self, join: Join) -> None:
        if self.state == "stopping":
            self._awaits.add(Await(join.answer), self.state)
            return
        self._patient = self._patient or join.patient
        if self.state == "running" or join.patient:
            join.answer.put(Word.RUNNING)
        else:
            self._joins.add(join.answer)

    def _halt(self, halt: Halt) -> None:
        """Begin to stop, or join the stop in progress."""
        was = self.state
        if was != "stopping":
            self._step("stop")
            self._halts.begin(halt.timeout)
            self._awaits.stopping()
        one_more_spared = self._halts.add(halt)
        if self.engine is not None and (was == "running" or one_more_spared):
            self.engine.stop(halt.timeout, self._halts.spare)

    def _call(self, call: Call) -> None:
        engine, name = self.engine, call.key.job
        if engine is not None and self.state == "running":
            self._jobs.keep(engine, [name])
        if engine is None or not self._ran or self.inbox.closing or name not in self._jobs:
            call.answer.put(not_running(name, self.state))
        elif self._calls.accept(call):
            engine.give(RunNow(call.key, call.data, call.has_data))

    # --- the end ---

    def _end(self) -> None:
        """Finish what can be finished in time, become idle, and answer everybody."""
        halts = self._halts
        # What comes next is to wait for listeners, so none of them may wait for us: nobody
        # is left to handle what they ask for from here on.
        self.inbox.closing = True
        for request in self.inbox.waiting():
            self._handle(request)
        halts.answer_inside()
        self._calls.give_up()
        if self.engine is not None and self._ran:
            self.engine.join(JOIN_SECONDS)
        told = self.journal.close_events(max(halts.left(), LEAST_FLUSH_SECONDS))
        if self._ran:
            took, in_time = halts.took(), self._stopped and told
            self.journal.say(lines.scheduler_stopped(self.owner.instance_id, took, in_time=in_time))
        elif self._failure is not None and not self._joins:
            self.journal.say(lines.start_failed(self.owner.instance_id, self._failure))
        self.journal.close_log(LEAST_FLUSH_SECONDS)
        _lifecycle_exits.leave(self)
        self._step("stopped" if self.state == "stopping" else "failed")
        self._forget(self)
        self._answer_everybody()

    def _answer_everybody(self) -> None:
        for request in self.inbox.close():
            if isinstance(request, Call):
                request.answer.put(not_running(request.key.job, self.state))
            elif isinstance(request, Halt):
                self._halts.add(request)
            elif isinstance(request, Join) and not self._ran:
                self._joins.add(request.answer)
            elif isinstance(request, Join | Await):
                self._awaits.add(Await(request.answer), self.state)
        self._joins.give(self._failure or _cancelled())
        self._calls.give_up()
        self._awaits.over()
        self._halts.answer_all()


def _make_engine(life: Life, clock: Clock, on_action: Callable[[Told], None]) -> Engine:
    from ._threads import Engine

    options = life.options
    engine = Engine(
        options.backend,
        options.settings(life.owner.instance_id),
        life.owner,
        options.limits,
        clock,
        around=options.around,
        on_action=on_action,
        rng=clock.rng(),
    )
    engine.counts = life.journal.measures.store()
    return engine


def _cancelled() -> NotRunning:
    return NotRunning(
        "stop() was called before the scheduler had started, so it is idle; call start() again if"
        " it is to run"
    )
