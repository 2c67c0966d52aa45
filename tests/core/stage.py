"""One core on a stage: its inputs, its calls, what it says, and a clock for all of it."""

from __future__ import annotations

from math import inf
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from anarchon._core import Core
from anarchon._messages import (
    Abort,
    Alert,
    Answered,
    Claim,
    Emit,
    Ended,
    Failed,
    Finish,
    Look,
    Note,
    Now,
    Ordered,
    RecordManual,
    Release,
    Renew,
    RunNow,
    Settings,
    Skip,
    StartRun,
    Stop,
    Stopped,
    StoreDown,
    StoreUp,
    Tick,
    Unfinished,
)
from anarchon._values import (
    Alerts,
    Claims,
    Lease,
    Looked,
    Lost,
    Recorded,
    Released,
    Renewed,
    RunKey,
    Settled,
)
from tests.core.words import ME, T0, ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from anarchon._messages import (
        Action,
        Input,
        JobSpec,
    )
    from anarchon._runs import Run
    from anarchon._values import (
        Answer,
        OpenRun,
        Wish,
    )

MONO0 = 4096.0
LANE = Claim | Finish | Release | Skip | Unfinished | RecordManual | Alert
KEEPER = Renew | Look


class Chance(Random):
    """A die that always shows the same share, until a test turns it."""

    def __init__(self, share: float = 0.5) -> None:
        super().__init__(0)
        self.share = share

    def random(self) -> float:
        return self.share


class Seen(NamedTuple):
    """An event as most tests want to see it."""

    event: str
    job: str
    slot: float
    attempt: int
    detail: str | None


class Stage:
    """A core at a chosen time, what it sent, and what it said."""

    def __init__(
        self,
        *jobs: JobSpec,
        chance: float = 0.5,
        workers: int = 10,
        lease: float = 30,
        heartbeat: float = 10,
        leases: bool = True,
        control: float | None = None,
        start: bool = True,
    ) -> None:
        self.settings = Settings(lease, heartbeat, workers, "here:1", ME, leases, control)
        self.chance = Chance(chance)
        self.core = Core(self.settings, self.chance)
        self.mono = MONO0
        self.shift_ms = 0  # how far the wall clock was stepped
        self.store_stepped = 0.0  # and the store's, in seconds
        self.lane: LANE | None = None
        self.keeper: KEEPER | None = None
        self.sent_at: dict[str, float] = {}
        self.log: list[tuple[float, Action]] = []
        self._read = 0
        for spec in jobs:
            self.core.add(spec, self.now)
        if start:
            self.tick()
            while isinstance(self.lane, Unfinished):
                self.nothing_open()

    # time

    @property
    def t(self) -> float:
        """Seconds since the story began."""
        return self.mono - MONO0

    @property
    def now(self) -> Now:
        return Now(T0 + int(self.t * 1000 + 1e-4) + self.shift_ms, self.mono)

    def wakeup(self) -> float:
        """Return when the core wants to be woken, in seconds of the story."""
        at = self.core.next_wakeup(self.now)
        return inf if at is None else at - MONO0

    def go(self, t: float) -> list[Action]:
        """Let time pass until `t`, waking the core whenever it asked for that."""
        done: list[Action] = []
        for _ in range(10_000):
            at = self.wakeup()
            if at > t + 1e-9:
                break
            self.mono = MONO0 + at
            done += self.tick()
        else:
            raise AssertionError("the core is awake all the time")
        self.mono = max(self.mono, MONO0 + t)
        surprise = self.tick()
        assert not surprise, f"due at {self.t}, but the core didn't ask to be woken: {surprise}"
        return done

    def wait(self, seconds: float) -> list[Action]:
        return self.go(self.t + seconds)

    def jump(self, t: float) -> list[Action]:
        """Wake up at `t` only: the process was frozen, or nobody asked."""
        self.mono = MONO0 + t
        return self.tick()

    def step_wall(self, seconds: float) -> list[Action]:
        """Step the wall clock; the core sees that with the next input."""
        self.shift_ms += round(seconds * 1000)
        return self.tick()

    def until(self, kind: object, within: float = 120) -> object:
        """Let time pass until the core sends such a call."""
        limit = self.t + within
        while True:
            for call in (self.lane, self.keeper):
                if isinstance(call, kind):
                    return call
            assert self.lane is None, f"waiting for {kind}, and nobody answers {self.lane}"
            at = self.wakeup()
            assert at <= limit, f"no {kind} until {limit}"
            self.mono = MONO0 + at
            self.tick()

    # inputs

    def feed(self, message: Input) -> list[Action]:
        """Give the core an input, and check what must hold after each."""
        actions = self.core.handle(message, self.now)
        for action in actions:
            self.log.append((self.t, action))
            for kind, slot in ((LANE, "lane"), (KEEPER, "keeper")):
                if isinstance(action, kind):
                    assert getattr(self, slot) is None, f"a second call in the {slot}"
                    assert action[0], "a call about nothing"
                    setattr(self, slot, action)
                    self.sent_at[slot] = self.mono
        at = self.core.next_wakeup(self.now)
        assert at is None or at > self.mono, "a wake-up that isn't ahead"
        return actions

    def tick(self) -> list[Action]:
        return self.feed(Tick())

    def _slot(self, kind: object) -> str:
        for slot in ("lane", "keeper"):
            if isinstance(getattr(self, slot), kind):
                return slot
        raise AssertionError(f"no {kind} in flight, but {self.lane} and {self.keeper}")

    def answer(
        self,
        kind: object,
        answer: object,
        *,
        agrees: bool = True,
        sent: float | None = None,
        received: float | None = None,
    ) -> list[Action]:
        """Answer the call of this kind that is in flight."""
        slot = self._slot(kind)
        call = getattr(self, slot)
        setattr(self, slot, None)
        sent_at = self.sent_at[slot] if sent is None else MONO0 + sent
        got = self.mono if received is None else MONO0 + received
        return self.feed(Answered(call, answer, sent_at, got, agrees))

    def fail(self, kind: object = LANE, error: BaseException | None = None) -> list[Action]:
        """Give the call of this kind no answer."""
        slot = self._slot(kind)
        call = getattr(self, slot)
        setattr(self, slot, None)
        return self.feed(Failed(call, error or ConnectionError("no route")))

    def claimed(
        self,
        *answers: Callable[[Wish], Answer],
        also: tuple[OpenRun, ...] = (),
        closing: tuple[Run, ...] = (),
        store: float | None = None,
        **how: object,
    ) -> list[Action]:
        """Answer the claim in flight: one answer for all runs, or one for each."""
        call = getattr(self, self._slot(Claim | Skip))
        each = answers * len(call.wishes) if len(answers) == 1 else answers
        said = tuple(a(wish) for a, wish in zip(each, call.wishes, strict=True))
        store_ms = self.store_ms if store is None else ms(store)
        return self.answer(Claim | Skip, Claims(said, also, closing, store_ms), **how)

    @property
    def store_ms(self) -> int:
        """The store's clock, in milliseconds."""
        return self.now.wall_ms + round(self.store_stepped * 1000)

    def looked(
        self, *wrong: OpenRun, others: int | None = None, end: float | None = None, **how: object
    ) -> list[Action]:
        """Answer the look in flight."""
        count = len(wrong) if others is None else others
        end_ms = None if end is None else round(end * 1000)
        return self.answer(Look, Looked(wrong, count, end_ms, self.store_ms), **how)

    def open_runs(self, *runs: OpenRun, **how: object) -> list[Action]:
        """Answer the question for unfinished runs."""
        return self.answer(Unfinished, Looked(runs, len(runs), None, self.store_ms), **how)

    def nothing_open(self) -> list[Action]:
        return self.open_runs()

    def renewed(
        self, *lost: Lease, cancelled: tuple[Lease, ...] = (), **how: object
    ) -> list[Action]:
        return self.answer(Renew, Renewed(lost, cancelled, self.now.wall_ms), **how)

    def settled(self, *answers: object) -> list[Action]:
        """Answer the finish, release or manual record in flight; without answers: as asked."""
        call = getattr(self, self._slot(Finish | Release | RecordManual))
        if not answers:
            leases = [(Lease(r.key, r.attempt), r) for r in call.results]
            answers = tuple(
                Released(of) if isinstance(call, Release) else Recorded(of, r.status, r.detail)
                for of, r in leases
            )
        return self.answer(type(call), Settled(answers, self.now.wall_ms))

    def lost(self) -> list[Action]:
        """Answer the finish or release in flight: none of it is ours."""
        call = getattr(self, self._slot(Finish | Release))
        return self.settled(*(Lost(Lease(r.key, r.attempt)) for r in call.results))

    def alerted(self, *tells: bool) -> list[Action]:
        """Answer the question whether late slots are to be told of here."""
        return self.answer(Alert, Alerts(tells, self.store_ms))

    def returns(self, run: Lease) -> list[Action]:
        return self.feed(Ended(run))

    def raises(self, run: Lease, error: str = "ValueError: no") -> list[Action]:
        return self.feed(Ended(run, error, "Traceback"))

    def obeys(self, run: Lease) -> list[Action]:
        """The handler raises because its signal was aborted."""
        return self.feed(Ended(run, "Aborted: stop", "Traceback", aborted=True))

    def run_now(self, name: str = "sync", token: str = "m1", **how: object) -> Lease:
        run = RunKey(name, self.now.wall_ms, token)
        self.feed(RunNow(run, how.get("data"), "data" in how))
        return Lease(run, 1)

    def ordered(self, name: str = "sync") -> list[Action]:
        """This process has asked the fleet for a run."""
        return self.feed(Ordered(name))

    def unstarted(self, run: Lease) -> list[Action]:
        """No thread could be had for the handler."""
        return self.feed(Ended(run, "no thread", unstarted=True))

    def stop(self, timeout: float = 30, *spare: Lease) -> list[Action]:
        return self.feed(Stop(timeout, frozenset(spare)))

    # what came out

    def read(self) -> list[Action]:
        """Return what the core has said since the last reading."""
        actions = [action for _, action in self.log[self._read :]]
        self._read = len(self.log)
        return actions

    def all(self, kind: type) -> list[Action]:
        return [action for _, action in self.log if isinstance(action, kind)]

    def started(self) -> list[Lease]:
        return [action.lease for action in self.all(StartRun)]

    def aborted(self) -> list[tuple[Lease, str]]:
        return [(action.lease, action.reason) for action in self.all(Abort)]

    def events(self) -> list[Seen]:
        """Return all events but those that a handler started."""
        return [
            Seen(a.event, a.run.job, (a.run.slot - T0) / 1000, a.run.attempt, a.run.detail)
            for a in self.all(Emit)
            if a.event != "started"
        ]

    def notes(self) -> list[tuple[str, str, str]]:
        return [(a.kind, a.key.job, a.detail) for a in self.all(Note)]

    def down(self) -> bool:
        return len(self.all(StoreDown)) > len(self.all(StoreUp))

    def is_stopped(self) -> bool:
        return bool(self.all(Stopped))
