"""The setting `ANARCHON` of a project, checked."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from ..._durations import check_askable, shown
from ..._named import NamedTuple
from ...backends._storable import checked_namespace
from ...errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = "ANARCHON"
KEYS = ("BACKEND", "NAMESPACE", "AUTOSTART", "OPTIONS")


class Given(NamedTuple):
    """What a project says. `autostart` is None where it says nothing about that."""

    backend: object
    namespace: str | None
    autostart: Literal["server"] | bool | None
    options: dict[str, Any]


def read() -> Given:
    """Return the setting.

    Raises:
        ConfigurationError: It can't be meant; the message names the key, and the near one of a
            key that isn't known. Or Django has no settings yet.
    """
    try:
        found = getattr(settings, NAME, {})
    except ImproperlyConfigured as error:
        raise ConfigurationError(
            f"Django's settings are needed and not there: {error} Call django.setup() before the"
            " scheduler is used, as manage.py and wsgi.py do."
        ) from error
    given = _table(found, NAME, KEYS)
    backend = given.get("BACKEND", "default")
    check_askable(backend, f'{NAME}["BACKEND"]')
    return Given(
        backend,
        _namespace(given.get("NAMESPACE")),
        _autostart(given.get("AUTOSTART")),
        dict(_table(given.get("OPTIONS", {}), f'{NAME}["OPTIONS"]', None)),
    )


def check_keys(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse keys that aren't known, and name the near one of each.

    Raises:
        ConfigurationError: There are some.
    """
    there = list(known)
    wrong = [key for key in given if key not in there]
    if len(wrong) == 1:
        raise ConfigurationError(
            f"{what}[{wrong[0]!r}] is no key that is known; {_hint(wrong[0], there)}"
        )
    if wrong:
        told = ", ".join(f"{key!r} ({_hint(key, there)})" for key in wrong)
        raise ConfigurationError(f"{what} has keys that are not known: {told}")


def _hint(key: str, there: list[str]) -> str:
    nearest = get_close_matches(key.lower(), [name.lower() for name in there], n=1)
    near = [name for name in there if name.lower() in nearest]
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(there)}"


def _table(value: object, what: str, known: Iterable[str] | None) -> Mapping[str, Any]:
    check_askable(value, what)
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        # It isn't shown, since it may be the address of a store, with a password.
        example = '{"BACKEND": "default"}' if what == NAME else '{"lease": "20s"}'
        raise ConfigurationError(
            f"{what} is no dict with text as keys; give one, such as {example}"
        )
    if known is not None:
        check_keys(value, known, what)
    return cast("Mapping[str, Any]", value)


def _namespace(value: object) -> str | None:
    if value is None:
        return None
    try:
        return checked_namespace(value)
    except ConfigurationError as error:
        raise ConfigurationError(f'{NAME}["NAMESPACE"]: {error}') from error


def _autostart(value: object) -> Literal["server"] | bool | None:
    if value is None or value is False or value == "server":
        return cast('Literal["server"] | bool | None', value)
    raise ConfigurationError(
        f'{NAME}["AUTOSTART"]: {shown(value)} is not known; give "server" to start with runserver,'
        " or False where something else starts the scheduler"
    )
