"""The named tuples of this package are those of `typing`, and nobody can tell which made them."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
import typing
from typing import Any, Generic, TypeVar

import pytest

from anarchon import _named

A = TypeVar("A")


def classes(base: Any) -> dict[str, Any]:
    """Make the same classes on either kind of named tuple."""

    class Bare(base):
        pass

    class Told(base):
        """A docstring."""

    class Pair(base):
        name: str
        counts: tuple[int, ...] = ()

        @property
        def total(self) -> int:
            """Say how many."""
            return sum(self.counts)

        @classmethod
        def of(cls, name: str) -> Pair:
            return cls(name, (1, 2))

        def __str__(self) -> str:
            return f"{self.name}: {self.total}"

    class Step(base, Generic[A]):
        """A step."""

        answer: A
        kept: bool = False

        def done(self) -> Step[A]:
            return self._replace(kept=True)

    made = {"Bare": Bare, "Told": Told, "Pair": Pair, "Step": Step}
    for name, kind in made.items():
        kind.__qualname__ = name
    return made


OURS, THEIRS = classes(_named.NamedTuple), classes(typing.NamedTuple)
KINDS = ["Bare", "Told", "Pair", "Step"]
MADE = [("Bare", ()), ("Told", ()), ("Pair", ("a",)), ("Pair", ("a", (1,))), ("Step", (1, True))]


def told(kind: Any) -> dict[str, Any]:
    return {
        "name": kind.__name__,
        "qualname": kind.__qualname__,
        "module": kind.__module__,
        "doc": kind.__doc__,
        "fields": kind._fields,
        "defaults": kind._field_defaults,
        "pattern": kind.__match_args__,
        "slots": kind.__slots__,
        "names": list(kind.__annotations__),
        "signature": list(inspect.signature(kind).parameters),
    }


@pytest.mark.parametrize("name", KINDS)
def test_the_classes_are_alike(name):
    assert told(OURS[name]) == told(THEIRS[name])


@pytest.mark.parametrize("name", ["Bare", "Told", "Pair"])
def test_plain_ones_are_tuples_and_nothing_between(name):
    assert OURS[name].__mro__ == (OURS[name], tuple, object)


@pytest.mark.parametrize(("name", "values"), MADE)
def test_the_values_are_alike(name, values):
    ours, theirs = OURS[name](*values), THEIRS[name](*values)
    assert ours == theirs == tuple(theirs)
    assert hash(ours) == hash(theirs)
    assert (repr(ours), str(ours)) == (repr(theirs), str(theirs))
    assert ours._asdict() == theirs._asdict()
    assert sys.getsizeof(ours) == sys.getsizeof(theirs)
    assert not hasattr(ours, "__dict__")
    assert copy.deepcopy(ours) == ours


def test_methods_and_properties_are_there():
    pair = OURS["Pair"].of("a")
    assert (pair.total, str(pair), pair._replace(counts=()).total) == (3, "a: 3", 0)
    assert OURS["Pair"].total.__doc__ == "Say how many."
    assert type(pair._replace(counts=())) is OURS["Pair"]


def test_what_is_missing_or_too_much_is_refused():
    for values in ((), ("a", (), 3)):
        with pytest.raises(TypeError, match="Pair"):
            OURS["Pair"](*values)


def test_generic_ones_can_be_given_their_types():
    step = OURS["Step"][int]
    assert step(1).done() == (1, True)
    assert (typing.get_origin(step), typing.get_args(step)) == (OURS["Step"], (int,))
    assert OURS["Step"].__parameters__ == (A,)


def test_values_of_the_package_survive_pickling():
    from anarchon._values import Lease, RunKey

    lease = Lease(RunKey("job", 5), 2)
    again = pickle.loads(pickle.dumps(lease))
    assert (again, type(again), type(again.key)) == (lease, Lease, RunKey)


def test_their_types_can_be_asked_for():
    from anarchon._values import Lease, RunKey

    assert Lease.__annotations__ == {"key": "RunKey", "attempt": "int"}
    assert typing.get_type_hints(Lease) == {"key": RunKey, "attempt": int}
    assert str(inspect.signature(Lease)) == "(key: 'RunKey', attempt: 'int')"
