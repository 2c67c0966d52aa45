"""Makes a failing seed small: fewer faults, fewer instances, fewer jobs, less time.

Each cut is tried on the whole simulation, and kept if the same invariant still fails. What is
left out changes everything that comes after it, so a cut that fails may succeed later, beside
others: rounds go on until none of them succeeds.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from .scenario import Scenario
from .world import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .shape import Shape

    Say = Callable[[str], object]


def fails(seed: int, shape: Shape) -> Violation | None:
    """Simulate; return what doesn't hold."""
    try:
        Scenario(seed, shape).run()
    except Violation as violation:
        return violation
    return None


def shrink(seed: int, shape: Shape, say: Say = print) -> Shape:
    """Return the smallest shape found in which the same invariant fails."""
    found = fails(seed, shape)
    if found is None:
        say(f"nothing fails: {shape.command(seed)}")
        return shape
    scenario = Scenario(seed, shape)
    small = shape._replace(
        hosts=len(scenario.hosts),
        jobs=len(scenario.jobs),
        faults=tuple(one.number for one in scenario.faults),
        seconds=scenario.noise_seconds,
    )
    tries, again = 1, True
    while again:
        again = False
        for cut in _cuts(small):
            tries += 1
            other = fails(seed, cut)
            if other is not None and other.name == found.name:
                small, again = cut, True
                say(f"{_size(small)}: {other}")
                break
    say(f"smallest of {tries} simulations: {_size(small)}")
    say(small.command(seed))
    return small


def _size(shape: Shape) -> str:
    assert shape.faults is not None
    assert shape.seconds is not None
    return (
        f"{len(shape.faults)} faults, {shape.hosts} hosts, {shape.jobs} jobs,"
        f" {shape.seconds:.1f} s of noise"
    )


def _cuts(shape: Shape) -> Iterator[Shape]:
    """Yield what is a little smaller, the largest steps first."""
    assert shape.faults is not None
    assert shape.hosts is not None
    assert shape.jobs is not None
    assert shape.seconds is not None
    faults = shape.faults
    if shape.seconds > 1.0:
        yield shape._replace(seconds=round(shape.seconds / 2, 1))
    size = ceil(len(faults) / 2)
    while size:
        for first in range(0, len(faults), size):
            yield shape._replace(faults=faults[:first] + faults[first + size :])
        size = size // 2
    for hosts in sorted({1, shape.hosts // 2, shape.hosts - 1} - {0, shape.hosts}):
        yield shape._replace(hosts=hosts)
    for jobs in sorted({1, shape.jobs - 1} - {0, shape.jobs}):
        yield shape._replace(jobs=jobs)
    if shape.seconds > 1.0:
        yield shape._replace(seconds=round(shape.seconds * 0.9, 1))
