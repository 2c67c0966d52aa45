"""The jobs of a project's apps: the modules ``jobs``, as Django finds ``admin.py``."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from ..._jobs_declared import declared_jobs
from ..._named import NamedTuple
from ...decorators import declarations, watchers
from ...errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import FrameType, ModuleType

    from ...decorators import Declaration
    from ...scheduler import Scheduler

MODULE = "jobs"
_OURS = "anarchon"


class Made(NamedTuple):
    """A declaration, and the module that made it."""

    declaration: Declaration
    module: str


class _Found:
    """What was read for a scheduler, and all that was declared meanwhile."""

    def __init__(self) -> None:
        self.modules: list[ModuleType] = []
        self.made: list[Made] = []

    def add(self, declaration: Declaration) -> None:
        self.made.append(Made(declaration, _caller()))


_found: WeakKeyDictionary[Scheduler, _Found] = WeakKeyDictionary()


def find_jobs(scheduler: Scheduler) -> None:
    """Import the module ``jobs`` of each installed app, and define what it declares.

    It may be a package; then its modules are imported as well, but for what nobody imports by
    itself, and for other apps. What was found before is left alone: Django gets ready again when
    tests change the installed apps.

    Raises:
        Exception: What such a module raises.
    """
    found = _found.setdefault(scheduler, _Found())
    watchers.append(found.add)
    try:
        for module in _modules():
            if module not in found.modules and _declares(module):
                scheduler.register(module)
            found.modules.append(module)
    finally:
        watchers.remove(found.add)


def lost_jobs(scheduler: Scheduler) -> list[Made]:
    """Return what was declared while modules of jobs were imported, and became no job."""
    found = _found.get(scheduler)
    if found is None:
        return []
    jobs = scheduler.jobs
    names = {job.name for job in jobs}  # a method that overrides one has no declaration itself
    numbers = {declared.number for job in jobs for declared in declarations(job.handler)}
    return [
        made
        for made in found.made
        if made.declaration.name not in names and made.declaration.number not in numbers
    ]


def _modules() -> Iterator[ModuleType]:
    configs = list(apps.get_app_configs())
    names = {config.name for config in configs}
    for config in configs:
        name = f"{config.name}.{MODULE}"
        if name in names or config.module is None:
            continue  # an app of that name, which has a module of jobs itself, or none
        if module_has_submodule(config.module, MODULE):
            yield from _with_submodules(import_module(name), names)


def _with_submodules(module: ModuleType, without: Collection[str]) -> Iterator[ModuleType]:
    yield module
    for info in iter_modules(getattr(module, "__path__", ()), f"{module.__name__}."):
        if info.name not in without and _is_for_import(info.name.rpartition(".")[2]):
            yield from _with_submodules(import_module(info.name), without)


def _is_for_import(name: str) -> bool:
    """Whether a module is for others: no program, and no tests, which need what only they have."""
    return name not in ("__main__", "tests", "conftest") and not name.startswith("test_")


def _declares(module: ModuleType) -> bool:
    """Whether there is anything to register: the decorators of a scheduler register by themselves.

    A module may be no module of jobs at all, since the name is a common one.
    """
    try:
        return bool(declared_jobs(module))
    except ConfigurationError:
        return False


def _caller() -> str:
    """Return the module that has called anarchon."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - documented, in spite of its name
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] != _OURS:
            return module
        frame = frame.f_back
    return "?"
