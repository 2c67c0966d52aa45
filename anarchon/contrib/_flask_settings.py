"""The settings of an app: read once, when it gets its scheduler."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from .._durations import shown
from .._named import NamedTuple
from .._store_urls import backend_at
from .._texts import type_name
from ..backends._storable import checked_namespace
from ..errors import ConfigurationError
from ..scheduler import Scheduler

if TYPE_CHECKING:
    from ..backends.base import ClaimBackend

PREFIX = "ANARCHON_"
BACKEND, NAMESPACE = f"{PREFIX}BACKEND", f"{PREFIX}NAMESPACE"
OPTIONS, AUTOSTART = f"{PREFIX}OPTIONS", f"{PREFIX}AUTOSTART"
KEYS = (BACKEND, NAMESPACE, OPTIONS, AUTOSTART)


class Settings(NamedTuple):
    """What the keys say. `backend` is None where a scheduler was made already."""

    backend: ClaimBackend | None
    options: dict[str, Any]
    autostart: bool | None


def settings_of(config: Mapping[str, Any], *, has_scheduler: bool) -> Settings:
    """Return the settings in the config of an app.

    Raises:
        ConfigurationError: One of them can't be meant; the message begins with its key.
    """
    _check_keys(config)
    autostart = config.get(AUTOSTART)
    if autostart is not None and not isinstance(autostart, bool):
        raise ConfigurationError(
            f"{AUTOSTART}: {shown(autostart)} is neither True nor False; give one of them"
        )
    if has_scheduler:
        for key in (BACKEND, NAMESPACE, OPTIONS):
            if config.get(key) is not None:
                raise ConfigurationError(
                    f"{key} is set, but Anarchon(scheduler=...) got a scheduler that has all of"
                    " this already; leave one of them out"
                )
        return Settings(None, {}, autostart)
    return Settings(_backend(config), _options(config.get(OPTIONS)), autostart)


def made_scheduler(settings: Settings) -> Scheduler:
    """Return the scheduler that settings describe.

    Raises:
        ConfigurationError: An option has a value that it can't have.
    """
    assert settings.backend is not None
    try:
        return Scheduler(settings.backend, **settings.options)
    except ConfigurationError as error:
        raise ConfigurationError(f"{OPTIONS}: {error}") from error


def _backend(config: Mapping[str, Any]) -> ClaimBackend:
    given = config.get(BACKEND)
    if given is None or given == "":
        raise ConfigurationError(
            f'{BACKEND} is not set; give a backend or an address, such as "sqlite:///jobs.db",'
            ' "redis://localhost:6379/0" or "postgresql://localhost/shop", and "memory://" in tests'
        )
    return backend_at(given, what=BACKEND, namespace=_namespace(config.get(NAMESPACE)))


def _namespace(given: object) -> str | None:
    """Return a namespace that any store takes, so that what a store refuses is its address."""
    if given is None:
        return None
    if not isinstance(given, str):
        raise ConfigurationError(f"{NAMESPACE}: {shown(given)} is not text; give a str")
    try:
        return checked_namespace(given)
    except ConfigurationError as error:
        raise ConfigurationError(f"{NAMESPACE}: {error}") from error


def _options(given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"{OPTIONS} is of the class {type_name(given)}; give a dict of options of Scheduler,"
            ' such as {"lease": "30s", "log": True}'
        )
    known = [name for name in inspect.signature(Scheduler).parameters if name != "backend"]
    wrong = {name: _option_hint(name, known) for name in given if name not in known}
    if len(wrong) == 1:
        [(name, hint)] = wrong.items()
        raise ConfigurationError(f"{OPTIONS}: Scheduler has no option {shown(name)}; {hint}")
    if wrong:
        raise ConfigurationError(f"{OPTIONS}: Scheduler has no options {_listed(wrong)}")
    return dict(given)


def _check_keys(config: Mapping[str, Any]) -> None:
    """Refuse keys that look like ours: a setting that is misspelled would do nothing."""
    ours = [key for key in config if isinstance(key, str) and key.startswith(PREFIX)]
    wrong = {key: _key_hint(key) for key in ours if key not in KEYS}
    if len(wrong) == 1:
        [(key, hint)] = wrong.items()
        raise ConfigurationError(f"{key}: there is no such setting; {hint}")
    if wrong:
        raise ConfigurationError(f"there are no such settings: {_listed(wrong)}")


def _key_hint(key: str) -> str:
    option = key.removeprefix(PREFIX).lower()
    if option in inspect.signature(Scheduler).parameters:
        return f'write {OPTIONS} = {{"{option}": ...}}'
    return _hint(key, KEYS)


def _option_hint(name: object, known: list[str]) -> str:
    return f"the store is set by {BACKEND}" if name == "backend" else _hint(name, known)


def _hint(word: object, known: tuple[str, ...] | list[str]) -> str:
    near = get_close_matches(word, known, n=1) if isinstance(word, str) else []
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def _listed(wrong: Mapping[Any, str]) -> str:
    return ", ".join(f"{shown(word)} ({hint})" for word, hint in wrong.items())
