"""A context that a test makes and holds in its hands, to call a handler with.

It is a real one, apart from what it is connected to: there is no store and no scheduler, and the
waits of its signal take no time.
"""

from __future__ import annotations

import sqlite3
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, cast, get_args

from ._clock import Clock
from ._durations import check_askable, parse_ms, shown
from ._handler_calls import json_text
from ._instants import instant_ms
from ._listening import UNSET
from ._messages import JobSpec, StartRun
from ._named import NamedTuple
from ._signal import Switch
from ._values import AbortReason, Lease, Reason, RunKey, Terms, instant
from .backends import _user_connections as connections
from .context import _NOT_HELD, Context
from .errors import ConfigurationError

if TYPE_CHECKING:
    from datetime import datetime
    from typing import TypeAlias

    from ._durations import Duration
    from ._signal import Signal

    Moment: TypeAlias = datetime | int | str

START_MS = 1_767_225_600_000  # 2026-01-01 UTC, as a manual clock begins
_MANUAL = "by hand"  # stands for the token of a manual run
_NO_TERMS = Terms(lease_ms=30_000, heartbeat_ms=10_000, budget=3, skip_overlap=True, catch_up_ms=0)


class PassingClock(Clock):
    """A clock on which waits for a signal are over at once, with their time passed.

    Whoever waits without a limit, for a signal that nobody has planned to abort, really waits:
    another thread of the test may abort it.
    """

    def __init__(self) -> None:
        self._passed = 0.0
        self._lock = Lock()
        self.ends: _Ends | None = None

    def mono(self) -> float:
        """Return the seconds of the host's clock, and those that passed in waits."""
        return super().mono() + self._passed

    def wait(self, signal: Signal, timeout: float | None) -> bool:
        """Let the time of a wait pass, and abort the signal if its time has come."""
        ends = self.ends
        if signal.is_set() or (timeout is None and ends is None):
            return super().wait(signal, timeout)
        seconds = inf if timeout is None else max(0.0, timeout)
        with self._lock:
            left = inf if ends is None else max(0.0, ends.after - self._passed)
            self._passed += min(seconds, left)
        if ends is not None and left <= seconds:
            signal._switch.abort(signal, ends.reason)  # noqa: SLF001 - of this package
        return signal.is_set()


class _Ends(NamedTuple):
    """When a signal aborts, in seconds of waiting, and why."""

    after: float
    reason: AbortReason


class ManualContext(Context):
    """A context for calling a handler in a test; `make_context` makes it.

    Its signal aborts when the test says so, by `abort` or by ``abort_after``. Waits of the
    signal (``sleep``, ``wait``) take no real time, unless they have no limit.

    Attributes:
        saves: What the handler has saved, oldest first, as the next attempt would find it.
        fenced_by: The connections that `fenced` was called with.
        completed_by: The connection that `complete` was called with, or None.
    """

    def __init__(self, start: StartRun, previous_slot: int | None, **about: Any) -> None:
        self._clock = PassingClock()
        switch = Switch(self._clock)
        super().__init__(start, about["instance_id"], switch, about["data"])
        self._given: set[str] = about["given"]
        self._previous_slot = previous_slot
        self.saves: list[Any] = []
        self.fenced_by: list[object] = []
        self.completed_by: object | None = None

    @property
    def previous_slot(self) -> int | None:
        """The slot before this one in milliseconds, as the test gave it."""
        return self._previous_slot

    @property
    def saved(self) -> Any:
        """What the handler has saved last, or None."""
        return self.saves[-1] if self.saves else None

    def abort(self, reason: AbortReason = "stop") -> None:
        """Abort the signal, as the scheduler does; the first reason stays. Any thread may call it.

        Args:
            reason: ``"stop"``, ``"timeout"``, ``"lost"`` or ``"cancel"``.

        Raises:
            ConfigurationError: There is no such reason.
        """
        self._switch.abort(self.signal, _one_of(reason, AbortReason, "reason"))

    def save(self, value: Any) -> None:
        """Keep a checkpoint in `saves`; checked as in production, and refused once "lost".

        A manual run keeps nothing, and neither does one that is completed.

        Raises:
            Aborted: The signal has aborted, by ``"lost"``.
            ConfigurationError: The value is no JSON, or too long.
        """
        import json

        text = json_text(value, f"checkpoint of {self.name}")
        if self.manual or self.completed_by is not None:
            return
        self._check_held()
        self.saves.append(json.loads(text))

    def fenced(self, connection: object) -> None:
        """Note the connection in `fenced_by`, if it has a transaction; nothing is sent.

        Raises:
            Aborted: The signal has aborted, by ``"lost"``.
            ConfigurationError: That is no connection which `Context.fenced` could take, or it
                has no transaction.
        """
        check_transaction(connection)
        self._check_held()
        self.fenced_by.append(connection)

    def complete(self, connection: object) -> None:
        """Note the connection in `completed_by`, if it has a transaction; nothing is sent.

        Raises:
            Aborted: The signal has aborted, by ``"lost"``; or it was called before.
            ConfigurationError: That is no connection which `Context.complete` could take, or it
                has no transaction.
        """
        check_transaction(connection)
        self._check_held()
        if self.completed_by is not None:
            self._switch.end(_NOT_HELD["done"], "lost")
        self.completed_by = connection

    # --- of this package ---

    def belongs_to(self, name: str, slot_ms: int, previous_slot: int | None, data: Any) -> None:
        """Take from a job what the test hasn't said."""
        if "slot" not in self._given:
            self.slot, self.scheduled_at = slot_ms, instant(slot_ms)
        if "fence" not in self._given:
            self.fence = _fence(self.slot, self.attempt)
        if "previous_slot" not in self._given:
            self._previous_slot = previous_slot
        if "data" not in self._given:
            self.data = data
        self.name = name
        self._given |= {"name", "slot", "previous_slot", "data"}

    def says(self, field: str) -> bool:
        """Say whether the test gave a field."""
        return field in self._given

    def _check_held(self) -> None:
        if self.signal.reason == "lost":
            self._switch.end(_NOT_HELD["lost"], "lost")


def make_context(  # noqa: PLR0913 - the fields of a context, all but two by keyword
    name: str = UNSET,
    slot: Moment = UNSET,
    *,
    attempt: int = 1,
    reason: Reason | None = None,
    data: Any = UNSET,
    checkpoint: Any = None,
    previous_slot: Moment | None = UNSET,
    fence: int = UNSET,
    instance_id: str = "test",
    abort_after: Duration | None = None,
    abort_reason: AbortReason = "stop",
) -> ManualContext:
    """Return a context to call a handler with, or to give to `run_job`.

    Args:
        name: The job's name; default ``"job"``.
        slot: When the run was due: an aware datetime, milliseconds since 1970 UTC, or text such
            as ``"2026-10-10T09:00Z"``; default the first instant of 2026, in UTC.
        attempt: 1 for the first try.
        reason: None for ``"scheduled"``, or for ``"takeover"`` where `attempt` is more than 1.
            With ``"manual"`` the run is a manual one.
        data: What the handler finds as ``ctx.data``.
        checkpoint: What an earlier attempt has saved.
        previous_slot: The slot before that one; default None.
        fence: Default a number that grows with the slot and with the attempt.
        instance_id: The name of the instance.
        abort_after: Abort the signal when the handler has waited so long, by ``ctx.signal``;
            0 for from the beginning, None for never.
        abort_reason: Why it aborts then.

    Raises:
        ConfigurationError: A field can't be as given; the message names it.
    """
    said = {
        "name": name,
        "slot": slot,
        "data": data,
        "previous_slot": previous_slot,
        "fence": fence,
    }
    given = {field for field, value in said.items() if value is not UNSET}
    count = _number(attempt, "attempt")
    why = "takeover" if reason is None and count > 1 else reason or "scheduled"
    manual = _MANUAL if _one_of(why, Reason, "reason") == "manual" else ""
    slot_ms = instant_ms(slot, "slot") if "slot" in given else START_MS
    key = RunKey(_text(name, "name") if "name" in given else "job", slot_ms, manual)
    start = StartRun(
        Lease(key, count),
        why,
        _number(fence, "fence") if "fence" in given else _fence(slot_ms, count),
        None if checkpoint is None else json_text(checkpoint, f"checkpoint of {key.job}"),
        JobSpec(key.job, cast("Any", None), _NO_TERMS, 0.0, None),
    )
    before = None
    if "previous_slot" in given and previous_slot is not None:
        before = instant_ms(previous_slot, "previous_slot")
    made = ManualContext(
        start,
        before,
        instance_id=_text(instance_id, "instance_id"),
        data=data if "data" in given else None,
        given=given,
    )
    _plan_abort(made, abort_after, _one_of(abort_reason, AbortReason, "abort_reason"))
    return made


def check_transaction(connection: object) -> None:
    """Refuse what no store could share a transaction with.

    Raises:
        ConfigurationError: It is no connection of a blocking library that is known, or it has no
            transaction.
    """
    raw: Any = connections._of_session(connection)  # noqa: SLF001 - of this package
    if connections._is_sqlalchemy(raw):  # noqa: SLF001 - it begins with its first statement
        return
    if connections._is_django(raw):  # noqa: SLF001
        raw = connections._raw_of_django(raw)  # noqa: SLF001
    if isinstance(raw, sqlite3.Connection):
        connections.sqlite_connection(raw)
    else:
        connections._check_postgres(raw, connection)  # noqa: SLF001


def _plan_abort(context: ManualContext, after: Duration | None, reason: AbortReason) -> None:
    if after is None:
        return
    seconds = parse_ms(after, what="abort_after") / 1000
    context._clock.ends = _Ends(seconds, reason)  # noqa: SLF001 - of this module
    if not seconds:
        context.abort(reason)


def _fence(slot_ms: int, attempt: int) -> int:
    """Return a number as large as real ones, which are microseconds, and in their order."""
    return slot_ms * 1000 + attempt


def _one_of(value: Any, known: Any, what: str) -> Any:
    check_askable(value, what)
    if isinstance(value, str) and value in get_args(known):
        return value
    raise ConfigurationError(
        f"{what}: {shown(value)} is not known; give one of {', '.join(get_args(known))}"
    )


def _number(value: object, what: str) -> int:
    check_askable(value, what)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ConfigurationError(f"{what}: {shown(value)} is no number from 1 on; give one")


def _text(value: object, what: str) -> str:
    check_askable(value, what)
    if isinstance(value, str) and value:
        return value
    raise ConfigurationError(f"{what}: {shown(value)} is no name; give text")
