"""The options of jobs, read and checked where they are given.

Apart from ``jobs.py``, so that a scheduler can be made without the classes that hold a job:
defining the first one loads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._durations import check_askable, parse_ms, shown
from ._named import NamedTuple
from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .jobs import OnCrash, Overlap

_LONGEST_NAME = 200
_MOST_ATTEMPTS = 1_000_000


class Defaults(NamedTuple):
    """What a scheduler gives the jobs that don't say otherwise; durations in seconds."""

    overlap: Overlap = "skip"
    timeout: float | None = None
    max_attempts: int = 3
    catch_up: float = 3600.0
    jitter: float = 0.02
    data: Any = None
    on_crash: OnCrash = "takeover"


def make_defaults(**raw: object) -> Defaults:
    """Return the scheduler's own options, read and checked; those left out are the usual.

    Args:
        raw: Any of ``overlap timeout max_attempts catch_up jitter data on_crash``.

    Raises:
        ConfigurationError: One of them is wrong.
    """
    return Defaults(**{name: _READERS[name](value, name) for name, value in raw.items()})


class naming:  # noqa: N801 - a context manager that is read as a verb
    """Put the job in front of the message of a `ConfigurationError` from this block."""

    def __init__(self, job: str) -> None:
        self._job = job

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Raise the error anew if it is one of ours."""
        if isinstance(error, ConfigurationError):
            raise ConfigurationError(f"job {self._job!r}: {error}") from error.__cause__


def check_name(name: object) -> str:
    """Return a job's name as a plain `str`.

    Raises:
        ConfigurationError: It isn't 1 to 200 printable characters without a blank at
            either end.
    """
    check_askable(name, "name")
    if not isinstance(name, str):
        raise ConfigurationError(
            f"job {shown(name)}: the name is not text; give the name first, then the schedule"
        )
    name = str.__str__(name)
    if not name or len(name) > _LONGEST_NAME:
        raise ConfigurationError(
            f"job {shown(name)}: the name has {len(name)} characters; give 1 to {_LONGEST_NAME}"
        )
    if name != name.strip():
        raise ConfigurationError(
            f"job {shown(name)}: the name begins or ends with a blank; remove it"
        )
    if not name.isprintable():
        culprit = next(letter for letter in name if not letter.isprintable())
        raise ConfigurationError(
            f"job {shown(name)}: the name contains {culprit!r}, which can't be printed; remove it"
        )
    return name


# --- options ------------------------------------------------------------------------


def check_options(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options that were given, read and checked; durations in seconds.

    Raises:
        ConfigurationError: An option is unknown, or its value is wrong.
    """
    unknown = [option for option in options if option not in _READERS]
    if unknown:
        raise ConfigurationError(f"job {name!r}: {_unknown_options(unknown)}")
    with naming(name):
        return {option: _READERS[option](value, option) for option, value in options.items()}


def _unknown_options(options: Sequence[str]) -> str:
    if len(options) == 1:
        return f"unknown option {options[0]!r}; {_fix_of(options[0])}"
    told = ", ".join(f"{option!r} ({_fix_of(option)})" for option in options)
    return f"unknown options {told}"


def _fix_of(option: str) -> str:
    from difflib import get_close_matches

    if option == "timezone":
        return (
            "an interval has none, and a schedule object has its own:"
            " Cron(expression, timezone=...); use cron() for wall times"
        )
    if option in ("args", "kwargs"):
        return "give functools.partial(function, ...) as the handler, or data= for ctx.data"
    near = get_close_matches(option, _READERS, n=1)
    return f"did you mean {near[0]}?" if near else f"the options are {', '.join(_READERS)}"


def _seconds(value: object, what: str) -> float:
    return parse_ms(value, what=what) / 1000


def _limit(value: object, what: str) -> float | None:
    if value is None:
        return None
    ms = parse_ms(value, what=what)
    if ms == 0:
        raise ConfigurationError(
            f"{what}: {shown(value)} is no time at all; give None for no limit"
        )
    return ms / 1000


def _attempts(value: object, what: str) -> int:
    check_askable(value, what)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_ATTEMPTS:
        raise ConfigurationError(
            f"{what}: {shown(value)} is not a number of attempts; give 1 to {_MOST_ATTEMPTS}"
        )
    return value


def _word(*words: str) -> Callable[[object, str], object]:
    def read(value: object, what: str) -> object:
        check_askable(value, what)
        if not isinstance(value, str) or value not in words:
            fix = " or ".join(f'"{word}"' for word in words)
            raise ConfigurationError(f"{what}: {shown(value)} is not known; give {fix}")
        return value

    return read


def _flag(value: object, what: str) -> bool:
    check_askable(value, what)
    if not isinstance(value, bool):
        raise ConfigurationError(f"{what}: {shown(value)} is not a bool; give True or False")
    return value


def _flag_or_none(value: object, what: str) -> bool | None:
    return None if value is None else _flag(value, what)


def _text(value: object, what: str) -> str:
    check_askable(value, what)
    if not isinstance(value, str):
        raise ConfigurationError(f"{what}: {shown(value)} is not text; give a str")
    return value


def _tags(value: object, what: str) -> tuple[str, ...]:
    check_askable(value, what)
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
        raise ConfigurationError(
            f'{what}: {shown(value)} is not a list of words; give ["nightly", "mail"]'
        )
    tags = [_text(tag, what) for tag in value]
    # A set has no order that all instances share, so it gets one.
    return tuple(tags if isinstance(value, Sequence) else sorted(tags))


def _anything(value: object, _what: str) -> object:
    return value


_READERS: dict[str, Callable[[object, str], Any]] = {
    "overlap": _word("skip", "allow"),
    "timeout": _limit,
    "max_attempts": _attempts,
    "catch_up": _seconds,
    "jitter": _seconds,
    "data": _anything,
    "on_crash": _word("takeover", "abandon"),
    "expect_within": _limit,
    "pass_context": _flag_or_none,
    "replace": _flag,
    "enabled": _flag,
    "description": _text,
    "tags": _tags,
}
