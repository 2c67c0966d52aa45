"""A backend that fails when a test says so, around a real one."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from ._named import NamedTuple
from .backends.base import ClaimBackend, LeaseBackend
from .errors import BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from ._runs import Run
    from ._values import (
        Alerts,
        Claims,
        Lease,
        Limits,
        Looked,
        Owner,
        Pace,
        Presences,
        Renewed,
        Result,
        RunKey,
        ServerInfo,
        Settled,
        SkipWish,
        Status,
        Wish,
    )
    from .backends.base import Holding

T = TypeVar("T")
Moment = Literal["before", "after"]

LONGEST_HOLD = 60.0  # seconds: a test that forgot to let a call go fails, and doesn't hang
METHODS = frozenset((
    "open", "prepare", "close", "claim", "finish", "record_manual", "skip", "history", "pause",
    "resume", "renew", "look", "unfinished", "release", "save", "cancel", "trigger", "alert",
    "present", "instances", "fence", "complete",
))  # fmt: skip


class Hold:
    """Calls that wait until the test lets them go.

    `reached` is set as soon as a call waits here; `release` lets it and all later ones go.
    """

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._gone = threading.Event()

    def release(self) -> None:
        """Let the calls go on."""
        self._gone.set()

    def wait(self) -> None:
        """Wait for `release`; raises `BackendUnavailable` after a minute."""
        self.reached.set()
        if not self._gone.wait(LONGEST_HOLD):
            raise BackendUnavailable("A held call was never released: call release() on its Hold.")


class _Fault:
    """What happens to some calls: those from `first` to `last`, counted per fault."""

    def __init__(self, method: str | None, at: int, times: float, act: _Act) -> None:
        if method is not None and method not in METHODS:
            raise ConfigurationError(f"A backend has no method {method!r}: {sorted(METHODS)}")
        self.method = method
        self.first, self.last = at, at + times - 1
        self.act = act
        self.seen = 0

    def strikes(self, method: str) -> bool:
        """Count a call, and say whether it is one of those."""
        if self.method not in (None, method):
            return False
        self.seen += 1
        return self.first <= self.seen <= self.last


class _Act(NamedTuple):
    """What a fault does around the real call: raise before it, wait, raise or lie after it."""

    error: BaseException | None = None
    hold: Hold | None = None
    moment: Moment = "before"
    lies: bool = False
    lie: object = None

    def around(self, call: Callable[[], object]) -> object:
        """Make the real call, or not, and answer what was asked for."""
        if self.moment == "before":
            self._strike()
            answer = call()
        else:
            answer = call()
            self._strike()
        return self.lie if self.lies else answer

    def _strike(self) -> None:
        if self.hold is not None:
            self.hold.wait()
        if self.error is not None:
            raise self.error


class _Faults:
    """The plan of what goes wrong, and the count of what was called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plan: list[_Fault] = []
        self._calls: Counter[str] = Counter()

    @property
    def calls(self) -> Counter[str]:
        """How often each method was called, failed calls included; a copy."""
        with self._lock:
            return Counter(self._calls)

    def fail(
        self,
        method: str | None = None,
        *,
        at: int = 1,
        times: float = 1,
        error: BaseException | None = None,
    ) -> None:
        """Let calls raise before they have any effect.

        Args:
            method: The name of a method of a backend; None means any of them.
            at: Which call, counted from now; 1 is the next.
            times: How many in a row; ``math.inf`` means until `heal`.
            error: What is raised; default a `BackendUnavailable`.
        """
        self._add(method, at, times, _Act(error or _default()))

    def lose_reply(
        self,
        method: str | None = None,
        *,
        at: int = 1,
        times: float = 1,
        error: BaseException | None = None,
    ) -> None:
        """Let calls have their effect and then raise, as when a reply is lost."""
        self._add(method, at, times, _Act(error or _default(), moment="after"))

    def answer(
        self, value: object, method: str | None = None, *, at: int = 1, times: float = 1
    ) -> None:
        """Let calls have their effect and return `value` instead of their answer."""
        self._add(method, at, times, _Act(moment="after", lies=True, lie=value))

    def hold(
        self,
        method: str | None = None,
        *,
        at: int = 1,
        times: float = 1,
        moment: Moment = "before",
        error: BaseException | None = None,
    ) -> Hold:
        """Let calls wait, before or after their effect, and then go on or raise `error`."""
        hold = Hold()
        self._add(method, at, times, _Act(error, hold, moment))
        return hold

    def heal(self) -> None:
        """Forget every fault; calls that are held are let go."""
        with self._lock:
            plan, self._plan = self._plan, []
        for fault in plan:
            if fault.act.hold is not None:
                fault.act.hold.release()

    def _add(self, method: str | None, at: int, times: float, act: _Act) -> None:
        fault = _Fault(method, at, times, act)
        with self._lock:
            self._plan.append(fault)

    def _call(self, method: str, call: Callable[[], T]) -> T:
        with self._lock:
            self._calls[method] += 1
            struck = [fault for fault in self._plan if fault.strikes(method)]
            self._plan = [fault for fault in self._plan if fault.seen < fault.last]
        if not struck:
            return call()
        return cast("T", struck[0].act.around(call))


class FaultyBackend(_Faults, ClaimBackend):
    """A backend around another one that fails at chosen calls, and counts them.

    It has leases when the other one has. May be used from any thread. Of several faults
    that strike the same call the one asked for first happens.

    Args:
        backend: The real one; also found as `inner`.
    """

    def __new__(cls, backend: ClaimBackend) -> Self:
        """Return one with leases when `backend` has them."""
        leases = cls is FaultyBackend and isinstance(backend, LeaseBackend)
        return super().__new__(cast("type[Self]", _FaultyLeaseBackend) if leases else cls)

    def __init__(self, backend: ClaimBackend) -> None:
        super().__init__()
        self.inner = backend
        self.namespace = backend.namespace

    def __repr__(self) -> str:
        return f"<FaultyBackend around {self.inner!r}>"

    def open(self, limits: Limits) -> ServerInfo:
        """Call the real one, as everything below."""
        return self._call("open", lambda: self.inner.open(limits))

    def prepare(self, jobs: Sequence[str]) -> None:
        """See `ClaimBackend.prepare`."""
        self._call("prepare", lambda: self.inner.prepare(jobs))

    def close(self) -> None:
        """See `ClaimBackend.close`."""
        self._call("close", self.inner.close)

    def abandon(self) -> None:
        """See `ClaimBackend.abandon`; never fails, and isn't counted."""
        self._lock = threading.Lock()
        self.inner.abandon()

    def claim(self, wishes: Sequence[Wish], *, owner: Owner, wins: int, pace: Pace) -> Claims:
        """See `ClaimBackend.claim`."""
        return self._call(
            "claim", lambda: self.inner.claim(wishes, owner=owner, wins=wins, pace=pace)
        )

    def finish(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        """See `ClaimBackend.finish`."""
        return self._call("finish", lambda: self.inner.finish(results, owner=owner))

    def record_manual(self, results: Sequence[Result], *, owner: Owner, lease_ms: int) -> Settled:
        """See `ClaimBackend.record_manual`."""
        return self._call(
            "record_manual",
            lambda: self.inner.record_manual(results, owner=owner, lease_ms=lease_ms),
        )

    def skip(self, wishes: Sequence[SkipWish], *, owner: Owner, pace: Pace) -> Claims:
        """See `ClaimBackend.skip`."""
        return self._call("skip", lambda: self.inner.skip(wishes, owner=owner, pace=pace))

    def history(
        self,
        job: str | None,
        *,
        limit: int,
        before: Run | None = None,
        status: Status | None = None,
    ) -> list[Run]:
        """See `ClaimBackend.history`."""
        return self._call(
            "history",
            lambda: self.inner.history(job, limit=limit, before=before, status=status),
        )

    def present(self, owner: Owner) -> None:
        """See `ClaimBackend.present`."""
        self._call("present", lambda: self.inner.present(owner))

    def instances(self) -> Presences:
        """See `ClaimBackend.instances`."""
        return self._call("instances", self.inner.instances)

    def pause(self, job: str | None, *, duration_ms: int | None) -> None:
        """See `ClaimBackend.pause`."""
        self._call("pause", lambda: self.inner.pause(job, duration_ms=duration_ms))

    def resume(self, job: str | None) -> None:
        """See `ClaimBackend.resume`."""
        self._call("resume", lambda: self.inner.resume(job))


class _FaultyLeaseBackend(FaultyBackend, LeaseBackend):
    """The same, around a backend with leases."""

    @property
    def _leases(self) -> LeaseBackend:
        return cast("LeaseBackend", self.inner)

    def renew(self, leases: Sequence[Lease], *, owner: Owner, lease_ms: int) -> Renewed:
        return self._call(
            "renew", lambda: self._leases.renew(leases, owner=owner, lease_ms=lease_ms)
        )

    def look(self, jobs: Sequence[str], *, owner: Owner) -> Looked:
        return self._call("look", lambda: self._leases.look(jobs, owner=owner))

    def unfinished(self, jobs: Sequence[str], *, owner: Owner) -> Looked:
        return self._call("unfinished", lambda: self._leases.unfinished(jobs, owner=owner))

    def release(self, results: Sequence[Result], *, owner: Owner) -> Settled:
        return self._call("release", lambda: self._leases.release(results, owner=owner))

    def save(self, lease: Lease, *, owner: Owner, value: str) -> bool:
        return self._call("save", lambda: self._leases.save(lease, owner=owner, value=value))

    def cancel(self, key: RunKey) -> bool:
        return self._call("cancel", lambda: self._leases.cancel(key))

    def alert(self, keys: Sequence[RunKey], *, owner: Owner) -> Alerts:
        """See `LeaseBackend.alert`."""
        return self._call("alert", lambda: self._leases.alert(keys, owner=owner))

    def trigger(self, keys: Sequence[RunKey], *, data: str | None) -> None:
        """See `LeaseBackend.trigger`."""
        self._call("trigger", lambda: self._leases.trigger(keys, data=data))

    def fence(self, connection: object, lease: Lease, *, owner: Owner) -> Holding:
        return self._call("fence", lambda: self._leases.fence(connection, lease, owner=owner))

    def complete(self, connection: object, result: Result, *, owner: Owner) -> Holding:
        return self._call(
            "complete", lambda: self._leases.complete(connection, result, owner=owner)
        )

    def refuse(self, connection: object) -> None:
        self._leases.refuse(connection)


def _default() -> BackendUnavailable:
    return BackendUnavailable("The store can't be reached: a test asked for this fault.")
