"""What a test needs of the store's clock; it is collected only where the store has that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_MARK = "__anarchon_needs__"


def needs(**attributes: object) -> Callable[[T], T]:
    """Mark a test, or all tests of a class, as one that needs these attributes of `Contract`."""

    def mark(test: T) -> T:
        for one in _tests_of(test) if isinstance(test, type) else [test]:
            setattr(one, _MARK, {**getattr(one, _MARK, {}), **attributes})
        return test

    return mark


def leave_out(contract: type) -> None:
    """Hide from pytest what a contract can't ask of its store.

    Where a class leaves an attribute undecided (None), the test is collected, and decides
    when it runs.
    """
    for name in dir(contract):
        wanted = getattr(getattr(contract, name), _MARK, {}) if name.startswith("test_") else {}
        if any(getattr(contract, one) not in (None, value) for one, value in wanted.items()):
            setattr(contract, name, None)


def _tests_of(part: type) -> list[Any]:
    return [test for name, test in vars(part).items() if name.startswith("test_")]
