"""The transitions of an attempt that is held here, and how it is recorded, as tables.

An attempt has two lives that need not end together. Its *handler* waits for its slot,
runs and is done; a handler that ignores its abort outlives its record. Its *record* is
open until there is a result, is then being settled with the store, and at last is
settled, or taken by somebody else. The core forgets an attempt when both are over.

Nothing here acts: `_core_held.py` applies the first two tables, `_core.py` the third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from ._named import NamedTuple

if TYPE_CHECKING:
    from ._values import AbortReason, Status

HandlerState: TypeAlias = Literal["pending", "live", "done"]
HandlerEvent: TypeAlias = Literal["start", "drop", "end"]
RecordState: TypeAlias = Literal["open", "settling", "settled", "taken"]
RecordEvent: TypeAlias = Literal["result", "settle", "lose"]

HANDLER: dict[tuple[HandlerState, HandlerEvent], HandlerState] = {
    ("pending", "start"): "live",
    ("pending", "drop"): "done",  # handed over before the handler was called
    ("live", "end"): "done",
}

RECORD: dict[tuple[RecordState, RecordEvent], RecordState] = {
    ("open", "result"): "settling",
    ("open", "lose"): "taken",
    ("settling", "settle"): "settled",
    ("settling", "lose"): "taken",
}


class Ending(NamedTuple):
    """What to ask of the store when a handler has ended so."""

    call: Literal["finish", "release"]
    status: Status
    detail: str | None = None
    counted: bool = False


HANDED_OVER = "handed over"
NOT_HANDED_OVER = "not handed over"
NOT_RECORDED = "not recorded"
NO_LONGER_HELD = "no longer held"
AFTER_STOP = "after stop"
TIMEOUT = "timeout"
UNCOMMITTED = "the handler returned, but the transaction given to ctx.complete() was not committed"

# The signal's state when the handler ended decides, never the exception's type.
# A timeout is missing here: its record is settled at the limit, not when the thread ends.
ENDINGS: dict[tuple[AbortReason | None, Literal["returned", "raised"]], Ending] = {
    (None, "returned"): Ending("finish", "success"),
    (None, "raised"): Ending("finish", "failed"),
    ("stop", "returned"): Ending("finish", "success", AFTER_STOP),
    ("stop", "raised"): Ending("release", "interrupted", HANDED_OVER),
    ("lost", "returned"): Ending("finish", "success"),
    ("lost", "raised"): Ending("release", "interrupted", HANDED_OVER, counted=True),
    ("cancel", "returned"): Ending("finish", "success"),
    ("cancel", "raised"): Ending("release", "interrupted", "cancelled"),
}

# A win whose handler was never called costs nobody anything: it is handed over free.
UNSTARTED = Ending("release", "interrupted", HANDED_OVER)

TIMED_OUT = Ending("finish", "failed", TIMEOUT)


def ending(
    abort: AbortReason | None, how: Literal["returned", "raised"], *, follows: bool
) -> Ending:
    """Return how an attempt is recorded; `follows`: another attempt may follow it."""
    found = ENDINGS[abort, how]
    if found.call == "release" and not follows:
        return Ending("finish", "interrupted", NOT_HANDED_OVER)
    return found
