"""What definitions take first: a name and a schedule, and hints when they were mixed up."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from ._durations import check_askable, shown
from ._jobs_options import check_name, naming
from .errors import ConfigurationError
from .schedules import Cron, Every, Once, RRule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FunctionType

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
    """Have a decorator that takes arguments refuse too few of them, none, and too many."""
    form = definition.__name__
    is_method = "." in definition.__qualname__
    # What may be given by place: the name, the schedule, and to a scheduler the handler.
    code = cast("FunctionType", definition).__code__
    places: tuple[str, ...] = code.co_varnames[is_method : code.co_argcount]

    @wraps(definition)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = args[is_method:]
        if not 2 <= len(given) <= len(places) or "handler" in kwargs:
            _check_given(form, places, given, kwargs)
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


def _check_given(
    form: str, places: tuple[str, ...], given: tuple[object, ...], named: Mapping[str, object]
) -> None:
    """Refuse a definition whose arguments can't be what is asked for.

    Args:
        form: Its name, such as ``"every"``.
        places: The names of what may be given by place: name, schedule, maybe the handler.
        given: What was given by place.
        named: What was given by name.
    """
    if len(given) == 1 and not named and _is_function(given[0]):
        raise ConfigurationError(
            f"@{form} was put above {shown(given[0])} without a name and {_a(form)}; write"
            f" @{form}({_EXAMPLES[form]})"
        )
    lacking = [word for word in places[len(given) : 2] if word not in named]
    if lacking:
        raise _too_few(form, given, lacking)
    if "handler" not in places and ("handler" in named or any(map(callable, given[2:3]))):
        raise _no_handler(form)
    if len(given) > len(places):
        raise _too_many(form, given, places)


def _too_few(form: str, given: tuple[object, ...], lacking: list[str]) -> ConfigurationError:
    nouns = [word if word == "name" else _NOUNS[form] for word in lacking]
    call = f"{form}({shown(given[0])})" if given else f"{form}()"
    return ConfigurationError(
        f"{call} has {' and '.join(f'no {noun}' for noun in nouns)}: the name comes first, then"
        f" the {_NOUNS[form]}; write {form}({_EXAMPLES[form]})"
    )


def _no_handler(form: str) -> ConfigurationError:
    example = _EXAMPLES[form]
    return ConfigurationError(
        f"{form}() of anarchon declares a job on the function below it, and takes no handler;"
        f" write @{form}({example}) above the function, or call the method of a scheduler:"
        f" scheduler.{form}({example}, handler)"
    )


def _too_many(form: str, given: tuple[object, ...], places: tuple[str, ...]) -> ConfigurationError:
    return ConfigurationError(
        f"{form}({shown(given[0])}, ...) was given {len(given)} arguments without their names;"
        f" only {', '.join(places)} go without, so give each other one as name=value"
    )


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
