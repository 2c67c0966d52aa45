"""What the buttons do."""

from __future__ import annotations

from logging import INFO
from typing import TYPE_CHECKING, Any

from .._commands_fleet import MOST_AT_ONCE
from .._commands_slots import read_slot
from .._log_fields import fields
from .._log_lines import Line, write
from .._texts import message_of
from .._values import instant, moment
from ..errors import BackendError, Busy, ConfigurationError, JobNotFound, NotRunning
from ._answers import Refused, link
from ._pages import given, slot_of
from ._words import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..scheduler import Scheduler

PAUSES = (
    ("", "until it is resumed"),
    ("15m", "for 15 minutes"),
    ("1h", "for an hour"),
    ("1d", "for a day"),
)

# What is said on the page that follows; `{}` is the job.
DONE = {
    "run": "“{}” runs now, in this process. It is in history once it has begun.",
    "pause": "“{}” is paused. What falls due meanwhile is skipped.",
    "resume": "“{}” goes on with its next slot.",
    "pause-all": "All jobs are paused. What falls due meanwhile is skipped.",
    "resume-all": "Jobs go on with their next slots, except those that are paused by themselves.",
    "cancel": "The run of “{}” was told to end. Its instance hears of it with its next heartbeat.",
    "trigger": "The fleet is asked for a run of “{}”. It is in history once an instance has it.",
    "backfill": (
        "The fleet is asked for these slots of “{}”, the oldest first. Each is in history once an"
        " instance has it."
    ),
    "backfill-part": (
        f"The fleet is asked for the {MOST_AT_ONCE} oldest of these slots of “{{}}”. There are"
        " more: ask for them when history has these."
    ),
    "backfill-none": "No slot of “{}” was due in that time, so none is asked for.",
    "cancelled": "The run of “{}” had ended before, so there was nothing to cancel.",
}


def act(scheduler: Scheduler, form: Mapping[str, str], environ: Mapping[str, Any]) -> str:
    """Do what a form asks for; return the relative address of the page that follows.

    The log says who asked for it, as far as the server or the host application knows.

    Raises:
        Refused: It can't be done.
        BackendError: The store can't be asked.
    """
    what = form.get("do", "")
    if what not in _ACTIONS:
        raise Refused(400, "Not understood", "There is no such button.")
    try:
        done = _ACTIONS[what](scheduler, form)
    except BackendError:
        raise
    except JobNotFound as error:
        raise Refused(404, "No such job", message_of(error)) from error
    except (NotRunning, Busy) as error:
        raise Refused(409, "Not now", message_of(error)) from error
    except ConfigurationError as error:
        raise Refused(400, "It can't be done", message_of(error)) from error
    _write_down(scheduler, what, form, environ)
    return _next_page(form, done)


def _write_down(
    scheduler: Scheduler, what: str, form: Mapping[str, str], environ: Mapping[str, Any]
) -> None:
    who = str(environ.get("REMOTE_USER") or environ.get("REMOTE_ADDR") or "somebody")
    name = None if what.endswith("-all") else form["name"]
    slot = slot_of(form) if what == "cancel" else None
    about = "" if name is None else f" of {name!r}"
    at = "" if slot is None else f" @ {moment(instant(slot))}"
    if what == "backfill":
        at = f" from {form.get('first')} to {form.get('last')}"
    text = one_line(f"dashboard: {what}{about}{at}, asked for by {who}")
    told = fields("dashboard", action=what, job=name, slot=slot, user=who)
    write(Line(INFO, text, told), scheduler._options.logger)  # noqa: SLF001 - of this package


def _next_page(form: Mapping[str, str], done: str) -> str:
    name = form.get("name", "")
    if form.get("back") == "job":
        return link("job", name=name, done=done)
    if form.get("back") == "run":
        return link("run", name=name, slot=form.get("slot"), done=done)
    kept = {key: form.get(key) for key in ("q", "tag", "from")}
    return link("./", **kept, done=done, on=name)


def _job(scheduler: Scheduler, form: Mapping[str, str]) -> str:
    name = given(form, "name")
    if name not in {job.name for job in scheduler.jobs}:
        raise Refused(404, "No such job", f"“{name}” is not defined in this process.")
    return name


def _run(scheduler: Scheduler, form: Mapping[str, str]) -> str:
    scheduler.submit(_job(scheduler, form))
    return "run"


def _pause(scheduler: Scheduler, form: Mapping[str, str]) -> str:
    scheduler.pause(_job(scheduler, form), duration=_duration(form))
    return "pause"


def _resume(scheduler: Scheduler, form: Mapping[str, str]) -> str:
    scheduler.resume(_job(scheduler, form))
    return "resume"


def _pause_all(scheduler: Scheduler, form: Mapping[str, str]) -> str:
    scheduler.pause(duration=_duration(form))
    return "pause-all"


def _resume_all(scheduler: Scheduler, form: Mapping[str, str]) -> str:
    del form
    scheduler.resume()
    return "resume-all"


def _trigger(scheduler: Scheduler, form: Mapping[str, str]) -> str:
    scheduler.trigger(_job(scheduler, form))
    return "trigger"


def _backfill(scheduler: Scheduler, form: Mapping[str, str]) -> str:
    """Ask for past slots between two times, which are UTC unless they have an offset."""
    name = _job(scheduler, form)
    first_ms, last_ms = (read_slot(given(form, what), None, what) for what in ("first", "last"))
    asked = scheduler.backfill(name, first_ms, last_ms, limit=MOST_AT_ONCE)
    if not asked:
        return "backfill-none"
    found = scheduler._past_slots(name, first_ms, last_ms, len(asked) + 1)  # noqa: SLF001 - of this package
    return "backfill" if len(found) <= len(asked) else "backfill-part"


def _cancel(scheduler: Scheduler, form: Mapping[str, str]) -> str:
    """End a run, whose job needn't be defined here."""
    return "cancel" if scheduler.cancel(given(form, "name"), slot_of(form)) else "cancelled"


def _duration(form: Mapping[str, str]) -> str | None:
    for_how_long = form.get("for", "")
    if for_how_long not in {text for text, _ in PAUSES}:
        raise Refused(400, "Not understood", "There is no such time to pause for.")
    return for_how_long or None


_ACTIONS: dict[str, Callable[[Scheduler, Mapping[str, str]], str]] = {
    "run": _run,
    "pause": _pause,
    "resume": _resume,
    "pause-all": _pause_all,
    "resume-all": _resume_all,
    "cancel": _cancel,
    "trigger": _trigger,
    "backfill": _backfill,
}
