"""One core against a store that answers what the test says, told like a story.

Time is counted in seconds from `T0`, slots as well: slot 10 of a job is ten seconds after
the story begins. `Story.go` moves through every wake-up that the core asks for, and checks
that it asked for all of them: at the instant reached nothing more may have become due.

Branch coverage from this folder alone (100 % of `_core.py` and `_states.py`):

    python -m coverage run --branch --source=anarchon -m pytest tests/core -q -p no:cacheprovider
    python -m coverage report -m --include='anarchon/_core.py,anarchon/_states.py,...'
"""

from __future__ import annotations

from math import inf
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from anarchon._core import Core
from anarchon._values import (
    Abort,
    Answered,
    Claim,
    Claims,
    Closed,
    Early,
    Emit,
    Ended,
    Failed,
    Finish,
    Free,
    Held,
    JobSpec,
    Lease,
    Look,
    Looked,
    Lost,
    Missing,
    Note,
    Now,
    OpenRun,
    Recorded,
    RecordManual,
    Release,
    Released,
    Renew,
    Renewed,
    Run,
    RunKey,
    RunNow,
    Settings,
    Settled,
    Skip,
    StartRun,
    Stop,
    Stopped,
    Suspect,
    Terms,
    Tick,
    Unfinished,
    Waiting,
    Won,
    instant,
)
from anarchon.schedules import Every

if TYPE_CHECKING:
    from collections.abc import Callable

    from anarchon._values import Action, Answer, Input, Wish

T0 = 1_800_000_000_000  # milliseconds; a whole hour, so that slots lie on it
MONO0 = 4096.0
ME, OTHER = "me", "other"
LANE = Claim | Finish | Release | Skip | Unfinished | RecordManual
KEEPER = Renew | Look


class Chance(Random):
    """A die that always shows the same share, until a test turns it."""

    def __init__(self, share: float = 0.5) -> None:
        super().__init__(0)
        self.share = share

    def random(self) -> float:
        return self.share


def ms(seconds: float) -> int:
    """Return the wall time, in milliseconds, of an instant of the story."""
    return T0 + round(seconds * 1000)


def key(job: str, slot: float) -> RunKey:
    return RunKey(job, ms(slot))


def lease(job: str, slot: float, attempt: int = 1) -> Lease:
    return Lease(key(job, slot), attempt)


class Once:
    """A schedule with the slots given, in seconds of the story."""

    def __init__(self, *slots: float) -> None:
        self._slots = sorted(map(ms, slots))

    def next_after_ms(self, t_ms: int) -> int | None:
        return next((slot for slot in self._slots if slot > t_ms), None)

    def latest_ms(self, t_ms: int) -> int | None:
        return next((slot for slot in reversed(self._slots) if slot <= t_ms), None)


def job(
    name: str = "sync",
    every: float = 10,
    *,
    schedule: object = None,
    budget: int = 3,
    catch_up: float = 0,
    overlap: str = "skip",
    jitter: float = 0.02,
    timeout: float | None = None,
    lease: float = 30,
    heartbeat: float = 10,
) -> JobSpec:
    """Return a job of the story; its catch-up is off unless a test is about that."""
    terms = Terms(
        round(lease * 1000), round(heartbeat * 1000), budget, overlap == "skip", ms(catch_up) - T0
    )
    return JobSpec(name, schedule or Every(every), terms, jitter, timeout)


# --- what a store says ------------------------------------------------------------


def running(
    run: RunKey,
    attempt: int = 1,
    *,
    beat: int = 0,
    left: float = 30,
    lease: float = 30,
    heartbeat: float = 10,
    by: str = OTHER,
) -> OpenRun:
    """Return an open run that somebody runs."""
    left_ms, lease_ms, heartbeat_ms = (round(s * 1000) for s in (left, lease, heartbeat))
    return OpenRun(
        run, "running", attempt, beat, left_ms, lease_ms, heartbeat_ms, by, mine=by == ME
    )


def handed_over(run: RunKey, attempt: int = 1) -> OpenRun:
    """Return an open run that waits for its next attempt."""
    return OpenRun(run, "waiting", attempt)


def record(run: RunKey, status: str, attempt: int = 1, detail: str | None = None) -> Run:
    """Return a line of history."""
    return Run(run.run_id, run.job, run.slot_ms, instant(run.slot_ms), attempt, status, detail)


def won(left: float = 30, fence: int = 1, attempt: int | None = None) -> Callable[[Wish], Answer]:
    return lambda wish: Won(wish.key, attempt or wish.wants, round(left * 1000), fence)


def held(attempt: int = 1, **how: object) -> Callable[[Wish], Answer]:
    return lambda wish: Held(wish.key, running(wish.key, attempt, **how))


def waiting(attempt: int = 1) -> Callable[[Wish], Answer]:
    return lambda wish: Waiting(wish.key, attempt)


def closed(
    status: str = "success", by: str = OTHER, detail: str | None = None, attempt: int = 1
) -> Callable[[Wish], Answer]:
    """Say that a run is decided; what this very instance decided comes with its record."""

    def answer(wish: Wish) -> Answer:
        run = record(wish.key, status, attempt, detail) if by == ME else None
        return Closed(wish.key, status, detail, by, run)

    return answer


def free() -> Callable[[Wish], Answer]:
    return lambda wish: Free(wish.key)


def early(seconds: float) -> Callable[[Wish], Answer]:
    return lambda wish: Early(wish.key, round(seconds * 1000))


def suspect(other: OpenRun) -> Callable[[Wish], Answer]:
    return lambda wish: Suspect(wish.key, other)


def missing() -> Callable[[Wish], Answer]:
    return lambda wish: Missing(wish.key)


class Seen(NamedTuple):
    """An event as most tests want to see it."""

    event: str
    job: str
    slot: float
    attempt: int
    detail: str | None


# --- the story --------------------------------------------------------------------


class Story:
    """A core at a chosen time, what it sent, and what it said."""

    def __init__(
        self,
        *jobs: JobSpec,
        chance: float = 0.5,
        workers: int = 10,
        lease: float = 30,
        heartbeat: float = 10,
        leases: bool = True,
        start: bool = True,
    ) -> None:
        self.settings = Settings(lease, heartbeat, workers, "here:1", ME, leases)
        self.chance = Chance(chance)
        self.core = Core(self.settings, self.chance)
        self.mono = MONO0
        self.shift_ms = 0  # how far the wall clock was stepped
        self.lane: LANE | None = None
        self.keeper: KEEPER | None = None
        self.sent_at: dict[str, float] = {}
        self.log: list[tuple[float, Action]] = []
        self._read = 0
        for spec in jobs:
            self.core.add(spec, self.now)
        if start:
            self.tick()
            if isinstance(self.lane, Unfinished):
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
        store_ms = self.now.wall_ms if store is None else ms(store)
        return self.answer(Claim | Skip, Claims(said, also, closing, store_ms), **how)

    def looked(
        self, *wrong: OpenRun, others: int | None = None, end: float | None = None, **how: object
    ) -> list[Action]:
        """Answer the look in flight."""
        count = len(wrong) if others is None else others
        end_ms = None if end is None else round(end * 1000)
        return self.answer(Look, Looked(wrong, count, end_ms, self.now.wall_ms), **how)

    def open_runs(self, *runs: OpenRun, **how: object) -> list[Action]:
        """Answer the question for unfinished runs."""
        return self.answer(Unfinished, Looked(runs, len(runs), None, self.now.wall_ms), **how)

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

    def is_stopped(self) -> bool:
        return bool(self.all(Stopped))

    # what many stories begin with

    def win(self, name: str = "sync", slot: float = 10, left: float = 30) -> Lease:
        """Win a slot and start its handler."""
        self.go(slot)
        call = self.until(Claim)
        assert [wish.key for wish in call.wishes] == [key(name, slot)]
        self.claimed(won(left))
        run = lease(name, slot)
        assert self.started()[-1] == run
        return run

    def back_up(self, name: str = "sync", slot: float = 10, **how: object) -> None:
        """Lose a slot to another instance."""
        self.go(slot)
        call = self.until(Claim)
        assert [wish.key for wish in call.wishes] == [key(name, slot)]
        self.claimed(held(**how))

    def see_fleet(self, size: int) -> None:
        """Let the core see so many instances, this one included."""
        for number in range(size - 1):
            self.core._race.answers.fleet.note(f"instance {number}", self.mono)

    def fail_renewals_until(self, t: float) -> None:
        """Let time pass while no renewal is answered."""
        while True:
            if isinstance(self.keeper, Renew):
                self.fail(Renew)
            elif isinstance(self.keeper, Look):
                self.looked(others=1)
            at = self.wakeup()
            if at > t:
                break
            self.mono = MONO0 + at
            self.tick()
        self.go(t)

    def until_looked(self, *wrong: OpenRun, **how: object) -> None:
        """Let time pass until a look, answering renewals, and answer it."""
        self.renewing_until(Look)
        self.looked(*wrong, **how)

    def renewing_until(self, kind: object) -> object:
        """As `until`, with every renewal answered."""
        while True:
            call = self.until(Renew | kind)
            if not isinstance(call, Renew):
                return call
            self.renewed()

    def outage(self, kind: object) -> None:
        """Fail such a call until the store counts as down; its next one is in flight then."""
        for _ in range(2):
            self.until(kind)
            self.fail(kind)
        self.until(kind)

    def claimed_by_job(self, **answers: Callable[[Wish], Answer]) -> list[Action]:
        """Answer the claim in flight, whatever its order."""
        call = getattr(self, self._slot(Claim))
        return self.claimed(*(answers[wish.key.job] for wish in call.wishes))

    def looking_until_claim(self, *wrong: OpenRun, **how: object) -> Claim:
        """Let time pass until a claim; every look shows the same."""
        while isinstance(call := self.until(Look | Claim), Look):
            self.looked(*wrong, **how)
        return call
