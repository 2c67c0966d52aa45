"""What the tests of the contract have in common: a store, a clock, and short ways to ask."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pytest

from .._values import (
    Lease,
    Limits,
    Owner,
    Pace,
    Result,
    RunKey,
    SkipWish,
    Terms,
    Wish,
)
from .needs import leave_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .._runs import Run
    from .._values import (
        Answer,
        Claims,
        Looked,
        OpenRun,
        Renewed,
        ServerInfo,
        Settlement,
        Status,
    )
    from ..backends.base import ClaimBackend

ANY_JOB = "job"


class MovableClock(Protocol):
    """How a test lets time pass, in milliseconds."""

    def mono(self) -> float:
        """Return the asker's monotonic clock in seconds."""
        ...

    def advance(self, ms: float) -> None:
        """Let time pass."""
        ...

    def step(self, ms: float) -> None:
        """Step the store's wall clock, as a wrong time server would."""
        ...


class HandClock:
    """The time of a store on this machine, moved by hand."""

    def __init__(self) -> None:
        self._lease_ms = 5_000_000
        self._ahead_ms = 1_800_000_000_000

    def wall_ms(self) -> int:
        """Return the wall time."""
        return self._lease_ms + self._ahead_ms

    def lease_ms(self) -> int:
        """Return the time that judges leases; it never steps."""
        return self._lease_ms

    def mono(self) -> float:
        """Return the asker's monotonic clock in seconds."""
        return self._lease_ms / 1000

    def advance(self, ms: float) -> None:
        """Let time pass on both clocks."""
        self._lease_ms += round(ms)

    def step(self, ms: float) -> None:
        """Step the wall clock alone."""
        self._ahead_ms += round(ms)


class RealClock:
    """The time of a store that keeps its own: a test can only wait."""

    def mono(self) -> float:
        """Return the asker's monotonic clock in seconds."""
        return time.monotonic()

    def advance(self, ms: float) -> None:
        """Wait; a test that would take minutes is skipped."""
        if ms > 60_000:
            pytest.skip("needs a store whose clock can be moved")
        time.sleep(ms / 1000)

    def step(self, ms: float) -> None:
        """Skip the test: nobody steps the clock of a real server."""
        del ms
        pytest.skip("needs a store whose clock can be stepped")


class Wishes:
    """One backend under test, and what is asked of it. Slots are seconds from the start."""

    def __init__(self, backend: ClaimBackend, clock: MovableClock, lease_ms: int) -> None:
        self.any: Any = backend  # for operations that only some backends have
        self.backend = backend
        self.clock = clock
        self.lease_ms = lease_ms
        self.margin_ms = max(lease_ms / 10, 250)
        self.witness_ms = lease_ms - self.margin_ms
        self.limits = Limits()
        self.info: ServerInfo = backend.open(self.limits)
        self._begun = clock.mono()
        self.start_ms = self.info.store_ms
        backend.prepare([ANY_JOB])

    # --- time -------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return store time, if nothing stepped."""
        return self.start_ms + round((self.clock.mono() - self._begun) * 1000)

    def pass_leases(self, leases: float) -> None:
        """Let so many leases pass."""
        self.clock.advance(leases * self.lease_ms)

    def pace(self) -> Pace:
        """Return what an asker says whose clock and the store's always agreed."""
        return Pace(self.clock.mono(), self.now_ms(), 100 * self.lease_ms)

    # --- keys and wishes --------------------------------------------------------

    def key(self, slot: float, job: str = ANY_JOB) -> RunKey:
        """Return the run of a slot."""
        return RunKey(job, self.start_ms + round(slot * 1000))

    def lease(self, slot: float, attempt: int = 1, job: str = ANY_JOB) -> Lease:
        """Return the right to an attempt."""
        return Lease(self.key(slot, job), attempt)

    def terms(self, **changes: Any) -> Terms:
        """Return terms with some of them changed."""
        plain = Terms(self.lease_ms, self.lease_ms // 3, 3, True, 0)
        return plain._replace(**changes)

    def wish(self, slot: float, **wants: Any) -> Wish:
        """Return a wish; what isn't a field of it changes its terms.

        `unseen` is for how many milliseconds, at `sent` (now), the asker has seen that
        (attempt, beat).
        """
        key = self.key(slot, wants.pop("job", ANY_JOB))
        unseen_ms, sent = wants.pop("unseen", None), wants.pop("sent", self.clock.mono())
        fields = {name: wants.pop(name) for name in Wish._fields if name in wants}
        attempt = fields.pop("wants", 1)
        reason = fields.pop("reason", "scheduled" if attempt == 1 else "takeover")
        if unseen_ms is not None:
            fields["first_seen"] = sent - unseen_ms / 1000
        return Wish(key, attempt, reason, self.terms(**wants), **fields)

    def owner(self, by: str) -> Owner:
        """Return an owner of that token."""
        return Owner(by, f"instance-{by}")

    def result(self, slot: float, attempt: int = 1, **fields: Any) -> Result:
        """Return the result of an attempt, a success unless it says otherwise."""
        key = fields.pop("key", None) or self.key(slot, fields.pop("job", ANY_JOB))
        status: Status = fields.pop("status", "success")
        started_ms = fields.pop("started_ms", self.now_ms())
        reason = fields.pop("reason", "scheduled")
        return Result(key, attempt, status, reason, started_ms, 5, **fields)

    def skip_wish(self, slot: float, next_slot: float, job: str = ANY_JOB) -> SkipWish:
        """Return the wish to close a slot as missed."""
        return SkipWish(self.key(slot, job), self.key(next_slot).slot_ms, "no free worker")


class Bench(Wishes):
    """The same, and short ways to ask."""

    def claims(
        self, *wishes: Wish, by: str = "a", wins: int | None = None, pace: Pace | None = None
    ) -> Claims:
        """Claim several runs at once; by default as many may be won."""
        bound = len(wishes) if wins is None else wins
        owner = self.owner(by)
        return self.backend.claim(wishes, owner=owner, wins=bound, pace=pace or self.pace())

    def claim(
        self, slot: float, *, by: str = "a", wins: int = 1, pace: Pace | None = None, **wants: Any
    ) -> Answer:
        """Claim one run and return its answer."""
        pace = pace or self.pace()
        wish = self.wish(slot, sent=pace.sent, **wants)
        return self.claims(wish, by=by, wins=wins, pace=pace).answers[0]

    def finish(self, slot: float, attempt: int = 1, *, by: str = "a", **fields: Any) -> Settlement:
        """Finish one attempt."""
        result = self.result(slot, attempt, **fields)
        return self.backend.finish([result], owner=self.owner(by)).answers[0]

    def run_through(self, slot: float, *, by: str = "a", **wants: Any) -> None:
        """Claim a slot and finish it at once."""
        self.claim(slot, by=by, **wants)
        self.finish(slot, by=by, job=wants.get("job", ANY_JOB))

    def release(self, slot: float, attempt: int = 1, *, by: str = "a", **fields: Any) -> Settlement:
        """Hand one attempt over."""
        result = self.result(slot, attempt, status="interrupted", **fields)
        answer: Settlement = self.any.release([result], owner=self.owner(by)).answers[0]
        return answer

    def renew(self, slot: float, attempt: int = 1, *, by: str = "a", job: str = ANY_JOB) -> bool:
        """Renew one lease; False when it is lost, or done."""
        lease = self.lease(slot, attempt, job)
        renewed: Renewed = self.any.renew([lease], owner=self.owner(by), lease_ms=self.lease_ms)
        return lease not in (*renewed.lost, *renewed.done)

    def manual(self, token: str, slot: float = 0, *, by: str = "a", job: str = ANY_JOB) -> Lease:
        """Record a manual run as running and return its lease."""
        key = self.key(slot, job)._replace(manual=token)
        result = self.result(0, key=key, status="running", reason="manual")
        self.backend.record_manual([result], owner=self.owner(by), lease_ms=self.lease_ms)
        return Lease(key, 1)

    def skip(self, slot: float, next_slot: float, *, by: str = "a", job: str = ANY_JOB) -> Answer:
        """Close a slot as missed."""
        wish = self.skip_wish(slot, next_slot, job)
        return self.backend.skip([wish], owner=self.owner(by), pace=self.pace()).answers[0]

    def look(self, *jobs: str, by: str = "z") -> Looked:
        """Look at jobs, as somebody who holds nothing unless told otherwise."""
        looked: Looked = self.any.look(jobs or (ANY_JOB,), owner=self.owner(by))
        return looked

    def unfinished(self, *jobs: str, by: str = "z") -> tuple[OpenRun, ...]:
        """Return all open runs."""
        looked: Looked = self.any.unfinished(jobs or (ANY_JOB,), owner=self.owner(by))
        return looked.wrong

    def open_run(self, slot: float = 0, job: str = ANY_JOB) -> OpenRun:
        """Return one open run; fails when it isn't open."""
        key = self.key(slot, job)
        return next(run for run in self.unfinished(job) if run.key == key)

    def history(self, job: str | None = ANY_JOB, **options: Any) -> list[Run]:
        """Return history, all of it unless told otherwise."""
        options.setdefault("limit", 100_000)
        return self.backend.history(job, **options)

    def told(self, job: str | None = ANY_JOB) -> list[tuple[float, int, str, str | None]]:
        """Return history as (slot, attempt, status, detail), newest first."""
        start_ms = self.start_ms
        return [
            ((run.slot - start_ms) / 1000, run.attempt, run.status, run.detail)
            for run in self.history(job)
        ]


def same(answer: object, expected: object) -> bool:
    """Compare answers with their types: named tuples of two types may well be equal."""
    return repr(answer) == repr(expected)


class Contract:
    """What a subclass says about the backend it tests."""

    lease_ms = 30_000
    """The lease of the tests; for a store with a clock of its own something like 1000."""

    lease_clock: Literal["steady", "may step"] | None = None
    """Whether the clock that judges leases can step; None: found out by each test, which is
    then skipped where it says nothing."""

    clock_can_be_set: bool | None = None
    """Whether `make_clock` returns a clock that can be stepped, and moved by days or by an
    exact millisecond; None: as above."""

    clock_stands_still: bool | None = None
    """Whether that clock moves only when a test says so; None: it isn't taken to."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Leave out the tests that need another clock."""
        super().__init_subclass__(**arguments)
        leave_out(cls)

    def make_backend(self, folder: Path) -> ClaimBackend:
        """Return a backend that isn't open, on a store of its own that is empty.

        Args:
            folder: An empty folder for this test alone.
        """
        raise NotImplementedError

    def make_clock(self, backend: ClaimBackend) -> MovableClock:
        """Return the clock of a test, and put the backend on it where that is possible."""
        store: Any = backend
        while hasattr(store, "inner"):
            store = store.inner
        if not hasattr(store, "_time"):
            return RealClock()
        store._time = clock = HandClock()  # noqa: SLF001 - our own stores can be put on a clock
        return clock

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        """Open a backend for one test."""
        backend = self.make_backend(tmp_path)
        yield Bench(backend, self.make_clock(backend), self.lease_ms)
        backend.close()

    @pytest.fixture
    def still(self, bench: Bench) -> Bench:
        """Have a store whose clock a test can stop."""
        if not self.clock_stands_still:
            pytest.skip("needs a store whose clock stands still")
        return bench
