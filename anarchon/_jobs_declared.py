"""Finds the jobs that were declared on an object's methods or in a module."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from ._durations import check_askable, shown
from ._named import NamedTuple
from .decorators import declarations
from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .decorators import Declaration


class Declared(NamedTuple):
    """A declaration, and what to call: bound to its object if it has one."""

    declaration: Declaration
    handler: object


def declared_jobs(obj: object) -> list[Declared]:
    """Return what was declared on `obj`, in the order of the declarations.

    Raises:
        ConfigurationError: It is a class, or declares nothing.
    """
    check_askable(obj, "register()")
    if isinstance(obj, type):
        name = obj.__name__
        raise ConfigurationError(
            f"register({name}): it is a class; give an object of it, such as"
            f" register({name}(...)), so that its methods have a self"
        )
    if isinstance(obj, str):
        raise ConfigurationError(
            f"register({shown(obj)}): it is text; import the module and give the module itself"
        )
    if isinstance(obj, ModuleType):
        found = list(_in_module(obj))
        fix = (
            "decorate its functions with every, cron, once, rrule or schedule of anarchon; methods"
            " are registered with an object of their class, imported functions with their module"
        )
    elif own := declarations(obj):
        found = [Declared(declaration, obj) for declaration in own]
        fix = ""
    else:
        found = list(_on_methods(obj))
        fix = "decorate its methods with every, cron, once, rrule or schedule of anarchon"
    if not found:
        raise ConfigurationError(f"register({shown(obj)}): no job is declared there; {fix}")
    return sorted(found, key=lambda declared: declared.declaration.number)


def _in_module(module: ModuleType) -> Iterator[Declared]:
    seen: set[int] = set()
    for value in list(vars(module).values()):
        imported = isinstance(value, FunctionType) and value.__module__ != module.__name__
        if imported or isinstance(value, type) or id(value) in seen:
            continue
        seen.add(id(value))
        for declaration in declarations(value):
            yield Declared(declaration, value)


def _on_methods(obj: object) -> Iterator[Declared]:
    # What the nearest class declares counts; the handler is what the object has under
    # that name, so an override is called in any case, and None takes the job out.
    done: set[str] = set()
    for cls in type(obj).__mro__:
        for name, value in vars(cls).items():
            own = () if name in done else declarations(value)
            if not own:
                continue
            done.add(name)
            handler = getattr(obj, name)
            if handler is None:
                continue
            for declaration in own:
                yield Declared(declaration, handler)
