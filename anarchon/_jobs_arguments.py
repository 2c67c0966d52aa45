"""What definitions take first: a name and a schedule, and hints when they were mixed up."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ._durations import check_askable, shown
from ._jobs_options import check_name, naming
from .errors import ConfigurationError
from .schedules import Cron, Every, Once, RRule

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_NOUNS = {
    "every": "interval",
    "cron": "expression",
    "once": "time",
    "rrule": "recurrence",
    "schedule": "schedule",
}
_EXAMPLES = {
    "every": '"sync", "10s"',
    "cron": '"digest", "0 8 * * 1-5"',
    "once": '"move", "2026-12-01T09:00:00Z"',
    "rrule": '"payday", "DTSTART:20260101T090000\\nRRULE:FREQ=MONTHLY;BYMONTHDAY=-1"',
    "schedule": '"sync", Every("10s")',
}


def with_parentheses(definition: Callable[P, R]) -> Callable[P, R]:
    """Have a decorator that takes arguments refuse to be put above a function without any."""
    form = definition.__name__
    is_method = "." in definition.__qualname__

    @wraps(definition)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) == 1 + is_method and not kwargs and _is_function(args[-1]):
            raise ConfigurationError(
                f"@{form} was put above {shown(args[-1])} without a name and {_a(form)}; write"
                f" @{form}({_EXAMPLES[form]})"
            )
        return definition(*args, **kwargs)

    return checked


def scheduled(form: str, name: str, given: object, make: Callable[..., S]) -> S:
    """Return the schedule of a definition, made of what was given for it.

    Raises:
        ConfigurationError: The name or what was given is wrong; it hints at what was
            probably meant.
    """
    with naming(check_name(name)):
        check_askable(given, _NOUNS[form])
        try:
            return make(given)
        except ConfigurationError:
            hint = _hint(form, name, given, make)
            if hint is None:
                raise
        raise ConfigurationError(f"{shown(given)} is no {_NOUNS[form]}; {hint}")


def _hint(form: str, name: str, given: object, make: Callable[..., object]) -> str | None:
    if _is_function(given) or _can(make, name):
        return (
            f"the name comes first, then the {_NOUNS[form]}, then the function:"
            f" {form}({_EXAMPLES[form]}, handler)"
        )
    others = {
        "every": (Every, "it is an interval, so use every()"),
        "cron": (Cron, "it is a cron expression, so use cron()"),
        "once": (Once, "it is an instant, so use once()"),
        "rrule": (RRule, "it is a recurrence, so use rrule()"),
    }
    for other, (kind, hint) in others.items():
        if other != form and isinstance(given, str) and _can(kind, given):
            return hint
    return None


def _can(make: Callable[..., object], given: object) -> bool:
    try:
        make(given)
    except Exception:
        return False
    return True


def _is_function(given: object) -> bool:
    return callable(given) and not isinstance(given, type) and hasattr(given, "__name__")


def _a(form: str) -> str:
    noun = _NOUNS[form]
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
