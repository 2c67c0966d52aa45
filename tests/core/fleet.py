"""A store that keeps to the protocol, rivals that act on it, and one core among them.

`Play` takes any sequence of steps, and after every input checks what must always hold:
the core asks to be woken in time and never for nothing, starts an attempt at most once,
uses no more workers than it has, and is silent after it has stopped.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from anarchon._core import Core
from anarchon._messages import (
    Abort,
    Answered,
    Claim,
    Ended,
    Failed,
    Finish,
    Look,
    Now,
    Ordered,
    RecordManual,
    Release,
    Renew,
    Return,
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
    Lease,
    Limits,
    Owner,
    Pace,
    Result,
    RunKey,
    Wish,
)
from anarchon.backends.memory import MemoryBackend
from tests.core.stage import KEEPER, LANE, MONO0
from tests.core.words import T0, job

if TYPE_CHECKING:
    from anarchon._messages import (
        Action,
        Input,
        StoreCall,
    )

HEARTBEAT, LEASE_SECONDS, WORKERS = 2, 6, 2
TERMS = {"lease": LEASE_SECONDS, "heartbeat": HEARTBEAT, "jitter": 0.02}
JOBS = [
    job("a", every=1, catch_up=60, **TERMS),
    job("b", every=5, catch_up=0, budget=1, timeout=2, **TERMS),
    job("c", every=30, catch_up=60, budget=0, **TERMS),
    job("d", every=3, catch_up=60, overlap="allow", **TERMS),
    job("e", schedule_at=7, catch_up=60, **TERMS),
]
ME, RIVALS = Owner("me", "here"), [Owner("r1", "there"), Owner("r2", "elsewhere")]


class Play:
    """One core, its store, its rivals, and the checks."""

    def __init__(self, seed: int, *, leases: bool, steady: bool = True) -> None:
        self.mono = MONO0
        self.shift_ms = 0
        self.store = MemoryBackend()
        self.store._time = self
        self.store._steady = self.steady = steady
        self.store.open(Limits())
        control = (None, 1.0, 5.0)[seed % 3]
        settings = Settings(LEASE_SECONDS, HEARTBEAT, WORKERS, "here", ME.token, leases, control)
        self.core = Core(settings, Random(seed))
        self.flying: dict[str, tuple[StoreCall, float, object]] = {}
        self.live: dict[Lease, StartRun] = {}
        self.stuck: set[Lease] = set()
        self.aborted: set[Lease] = set()
        self.ordered: dict[RunKey, str | None] = {}  # and with what data
        self.starts: list[Lease] = []
        self.manual = 0
        self.returns = 0
        self.down = False
        self.stopping = self.stopped = False
        self.idle_wakeups = 0
        self.rivals: list[tuple[Owner, RunKey, int]] = []
        for spec in JOBS:
            self.core.add(spec, self.now)
        self.feed(Tick())

    # the store's clocks

    def wall_ms(self) -> int:
        return T0 + int((self.mono - MONO0) * 1000 + 1e-4)

    def lease_ms(self) -> int:
        return int(self.mono * 1000)

    @property
    def now(self) -> Now:
        return Now(self.wall_ms() + self.shift_ms, self.mono)

    # inputs

    def feed(self, message: Input) -> list[Action]:
        actions = self.core.handle(message, self.now)
        assert not (self.stopped and actions), "it speaks after it has stopped"
        for action in actions:
            self._check(action)
        at = self.core.next_wakeup(self.now)
        assert at is None or at > self.mono, "a wake-up that isn't ahead"
        if self.stopped:
            assert at is None
            return actions
        view = self.core.view()
        assert view.running == len(self.live)
        working = [run for run in self.live if not run.key.is_called and run not in self.stuck]
        assert len(working) + view.free_workers <= WORKERS
        return actions

    def _check(self, action: Action) -> None:
        for kind, place in ((LANE, "lane"), (KEEPER, "keeper")):
            if isinstance(action, kind):
                assert place not in self.flying, f"a second call in the {place}"
                assert action[0], "a call about nothing"
                self.flying[place] = (action, self.mono, None)
        match action:
            case StartRun(lease=lease):
                self._check_ordered(action)
                assert not self.stopping, "a start after stop"
                assert lease not in self.starts, "an attempt starts twice"
                slots = [run for run in self.live if run.key == lease.key]
                assert not slots, "an attempt beside an older one of the same run"
                self.starts.append(lease)
                self.live[lease] = action
            case Abort(lease=lease, reason=reason):
                assert lease in self.live, "an abort of what doesn't run"
                assert reason != "lost" or not lease.key.manual or lease.key.is_backfill
                self.aborted.add(lease)
            case Return():
                self.returns += 1
                assert self.returns <= self.manual
            case StoreDown():
                assert not self.down
                self.down = True
            case StoreUp():
                assert self.down
                self.down = False
            case Stopped():
                self.stopped = True
        if getattr(action, "kind", "") == "stuck":
            self.stuck.update(run for run in self.live if run.key == action.key)

    def _check_ordered(self, start: StartRun) -> None:
        """What the fleet was asked for brings its data, and past slots come one at a time."""
        key = start.lease.key
        if key in self.ordered:
            data = self.ordered[key]
            assert (start.data, start.has_data) == (data, data is not None)
        if key.is_backfill:
            beside = [run for run in self.live if run.key.is_backfill and run.key.job == key.job]
            assert self.aborted.issuperset(beside), "a backfill beside another"

    def feed_tick(self) -> list[Action]:
        return self.feed(Tick())

    def probe(self, seconds: float) -> None:
        """Wake up before anybody asked for it: nothing may be due.

        The wall time is given in whole milliseconds, so a wake-up is up to one late.
        """
        at = self.core.next_wakeup(self.now)
        limit = self.mono + seconds if at is None else min(at - 0.001, self.mono + seconds)
        self.mono = max(self.mono, limit)
        assert self.feed(Tick()) == [], "something was due before the wake-up"
        again = self.core.next_wakeup(self.now)
        assert (again is None) == (at is None), "the wake-up is gone, or new"
        assert at is None or abs(again - at) < 0.0021, "the wake-up has moved"

    def wake(self) -> None:
        """Wake up when the core asked for it; it may find nothing to do, but not for ever."""
        at = self.core.next_wakeup(self.now)
        if at is None:
            return
        self.mono = at
        quiet = not self.feed(Tick())
        self.idle_wakeups = self.idle_wakeups + 1 if quiet else 0
        assert self.idle_wakeups < 40, "the core is awake all the time"

    # the store

    def ask(self, place: str) -> object:
        """Let the store execute the call in flight, unless it has before; return the answer."""
        call, sent, answer = self.flying[place]
        if answer is None:
            answer = self._execute(call, sent)
            self.flying[place] = (call, sent, answer)
        return answer

    def _execute(self, call: StoreCall, sent: float) -> object:  # noqa: PLR0911
        store, pace = self.store, Pace(sent)
        match call:
            case Claim(wishes=wishes, wins=wins):
                return store.claim(wishes, owner=ME, wins=wins, pace=pace)
            case Skip(wishes=slots):
                return store.skip(slots, owner=ME, pace=pace)
            case Finish(results=results):
                return store.finish(results, owner=ME)
            case Release(results=results):
                return store.release(results, owner=ME)
            case RecordManual(results=results):
                return store.record_manual(results, owner=ME, lease_ms=LEASE_SECONDS * 1000)
            case Renew(leases=leases):
                return store.renew(leases, owner=ME, lease_ms=LEASE_SECONDS * 1000)
            case Look(jobs=jobs):
                return store.look(jobs, owner=ME)
            case Unfinished(jobs=jobs):
                return store.unfinished(jobs, owner=ME)

    def reply(self, place: str) -> None:
        """Answer the call in flight."""
        answer = self.ask(place)
        call, sent, _ = self.flying.pop(place)
        self.feed(Answered(call, answer, sent, self.mono, self.steady))

    def lose(self, place: str) -> None:
        """Give the call in flight no answer, whether it had its effect or not."""
        call, _, _ = self.flying.pop(place)
        self.feed(Failed(call, ConnectionError("gone")))

    # rivals

    def rival(self, number: int) -> None:
        """Let somebody else claim, renew or end a run."""
        owner = RIVALS[number % 2]
        mine = [held for held in self.rivals if held[0] == owner]
        if number % 5 == 0 and self.ordered:
            key = list(self.ordered)[number % len(self.ordered)]
            terms = JOBS[0].terms._replace(budget=0)
            self._rival_claims(owner, Wish(key, 1, "manual", terms))
        elif number % 3 == 0 or not mine:
            spec = JOBS[number % len(JOBS)]
            slot = spec.schedule.latest_ms(self.wall_ms())
            if slot is not None:
                wish = Wish(RunKey(spec.name, slot), 1, "scheduled", spec.terms)
                self._rival_claims(owner, wish)
        elif number % 3 == 1:
            leases = [Lease(key, attempt) for _, key, attempt in mine]
            self.store.renew(leases, owner=owner, lease_ms=LEASE_SECONDS * 1000)
        else:
            held = mine[number % len(mine)]
            self.rivals.remove(held)
            ends = [Result(held[1], held[2], "success", "scheduled", self.wall_ms(), 1)]
            (self.store.finish if number % 2 else self.store.release)(ends, owner=owner)

    def _rival_claims(self, owner: Owner, wish: Wish) -> None:
        said = self.store.claim([wish], owner=owner, wins=1, pace=Pace(self.mono))
        if type(said.answers[0]).__name__ == "Won":
            self.rivals.append((owner, wish.key, 1))

    # handlers and calls of the user

    def end(self, number: int) -> None:
        """Let a handler end somehow."""
        if self.live:
            lease = list(self.live)[number % len(self.live)]
            error = [None, "ValueError: no", "Aborted: stop"][number % 3]
            del self.live[lease]
            self.stuck.discard(lease)
            self.feed(Ended(lease, error, aborted=number % 3 == 2, unstarted=number % 31 == 30))

    def run_now(self, number: int) -> None:
        if not self.stopped:
            self.manual += 1
            key = RunKey(JOBS[number % len(JOBS)].name, self.now.wall_ms, f"m{self.manual}")
            self.feed(RunNow(key, None))

    def order(self, number: int) -> None:
        """Ask the fleet for a run, or for two past slots, and perhaps tell the core of it."""
        spec, count, data = JOBS[number % len(JOBS)], len(self.ordered), None
        if number % 2:
            data = "[1]" if number % 4 == 1 else None
            asked_ms = self.wall_ms() + 1000 * (number % 7 - 3)  # by the clock of whoever asks
            keys = [RunKey(spec.name, asked_ms, f"trigger-{count}")]
        else:
            latest = spec.schedule.latest_ms(self.wall_ms())
            slots = [] if latest is None else [spec.schedule.latest_ms(latest - 1), latest]
            keys = [
                RunKey(spec.name, slot, f"backfill-{count}-{n}")
                for n, slot in enumerate(slot for slot in slots if slot is not None)
            ]
        self.ordered.update(dict.fromkeys(keys, data))
        self.store.trigger(keys, data=data)
        if number % 3:
            self.feed(Ordered(spec.name))

    def stop(self, seconds: float) -> None:
        self.stopping = True
        spare = frozenset(list(self.live)[:1]) if int(seconds) % 2 else frozenset()
        self.feed(Stop(seconds, spare))

    def change_job(self, number: int) -> None:
        spec = JOBS[number % len(JOBS)]
        if number % 2:
            self.core.remove(spec.name)
        else:
            self.core.add(spec, self.now)
        self.feed(Tick())
