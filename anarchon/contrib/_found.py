"""The scheduler that a server is given: an object, or the text that leads to it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .._durations import shown
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..scheduler import Scheduler


def checked(found: object, what: str) -> Scheduler:
    """Return a scheduler; raises `ConfigurationError` if it is something else."""
    from ..scheduler import Scheduler

    if isinstance(found, Scheduler):
        return found
    hint = ", not its class" if found is Scheduler else ""
    raise ConfigurationError(
        f"{what}: {shown(found)} is no scheduler; give the object that Scheduler(...) made{hint}"
        f"{_inside(found)}"
    )


def _inside(found: object) -> str:
    """Return a hint at the scheduler of what has one, as the extension of a Flask app."""
    from ..scheduler import Scheduler

    try:
        inside = getattr(found, "scheduler", None)
        return ", here its .scheduler" if isinstance(inside, Scheduler) else ""
    except Exception:  # an extension without an app, or an object that can't be asked
        return ""


def check_text(text: str, what: str) -> tuple[str, list[str]]:
    """Return the module and the attributes that text such as ``"app:scheduler"`` names.

    Raises:
        ConfigurationError: It names none.
    """
    module, colon, attributes = text.partition(":")
    names = attributes.split(".")
    if colon and all(part.isidentifier() for part in (*module.split("."), *names)):
        return module, names
    raise ConfigurationError(
        f'{what}: {shown(text)} names no scheduler; write "module:attribute", such as'
        ' "app:scheduler" for `scheduler` in app.py'
    )


def imported(text: str, what: str) -> Scheduler:
    """Import the scheduler that text names.

    Raises:
        ConfigurationError: There is none. What the import raised is the cause.
    """
    from importlib import import_module

    module, names = check_text(text, what)
    found: object = None
    try:
        found = import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"{what}: {module} of {shown(text)} can't be imported ({error}); is it spelled as the"
            f" application imports it, and can it be imported from {_first_place()}?"
        ) from error
    for name in names:
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise ConfigurationError(
                f"{what}: {shown(text)} leads nowhere, {shown(found)} has no {name!r}; name what"
                " the scheduler was assigned to"
            ) from error
    return checked(found, f"{what}, {text}")


def _first_place() -> str:
    return shown(sys.path[0] if sys.path else "")
