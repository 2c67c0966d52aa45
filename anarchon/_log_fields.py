"""The fields of a log record: what a line says, as attributes that formatters can show.

The text of a line is for people. Formatters that write JSON show the attributes that a record
has beyond those of `logging`, so each line brings what is known as attributes too. All their
names begin with ``anarchon_``: none can be one of `logging`'s own (``name``, ``process`` …),
for which it refuses a record, nor one that the application gives to its records itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ._values import instant, moment

if TYPE_CHECKING:
    from ._messages import Note
    from ._runs import Run
    from ._values import RunEvent, RunKey

Fields: TypeAlias = "dict[str, str | int | float]"

PREFIX = "anarchon_"
INSTANCE = f"{PREFIX}instance_id"

_NOTES = {
    "taken": "taken",
    "stuck": "stuck",
    "schedule": "schedule_failed",
    "late": "heartbeat_late",
    "left": "left",
}


def fields(event: str, **known: str | float | None) -> Fields:
    """Return the attributes of a record: the kind of line, and what is known."""
    found: Fields = {f"{PREFIX}event": event}
    for name, value in known.items():
        if value is not None:
            found[PREFIX + name] = printable(value) if isinstance(value, str) else value
    return found


def run_fields(event: RunEvent, run: Run) -> Fields:
    """Return the attributes of the line of a run event."""
    return fields(
        event,
        job=run.job,
        slot=run.slot,
        scheduled_at=moment(run.scheduled_at),
        run_id=run.run_id,
        attempt=run.attempt,
        status=run.status,
        reason=run.reason,
        instance_id=run.instance_id,
        detail=run.detail,
        duration_ms=run.duration_ms,
        error=run.error,
    )


def note_fields(note: Note) -> Fields:
    """Return the attributes of the line of something that only the log is told."""
    works_again = note.kind == "schedule" and not note.detail
    event = "schedule_recovered" if works_again else _NOTES[note.kind]
    about_attempt = note.kind in ("stuck", "left")
    which, _, _ = note.detail.partition("\n")
    return {
        **fields(event, detail=which or None),
        **key_fields(note.key),
        **(_attempt(which) if about_attempt else {}),
    }


def key_fields(key: RunKey) -> Fields:
    """Return the attributes that name a run, a job (without a slot), or nothing (without both)."""
    if not key.job:
        return {}
    found: Fields = {f"{PREFIX}job": key.job}
    if key.slot_ms:
        found[f"{PREFIX}slot"] = key.slot_ms
        found[f"{PREFIX}scheduled_at"] = moment(instant(key.slot_ms))
        found[f"{PREFIX}run_id"] = key.run_id
    return found


def _attempt(detail: str) -> Fields:
    """Return the number out of "attempt 2", which is how the core names the attempt."""
    number = detail.removeprefix("attempt ")
    return {f"{PREFIX}attempt": int(number)} if number.isdecimal() else {}


def printable(text: str) -> str:
    """Return the text so that every stream can take it: NUL and lone surrogates escaped."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
