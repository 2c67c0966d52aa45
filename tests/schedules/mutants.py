"""Small faults, at least one for each rule, that the sweep has to notice.

Each is a change of the package's source. The changed modules are loaded beside the real ones
for as long as it takes to ask them what the oracle was asked before.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from importlib.abc import SourceLoader
from importlib.util import spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import anarchon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PACKAGE = Path(anarchon.__file__).resolve().parent
SOURCES = {
    f"anarchon.{file.stem}": file.read_text("utf-8")
    for file in sorted(PACKAGE.glob("*schedules*.py"))
    if not file.stem.startswith("_core")
}


class Mutant(NamedTuple):
    """A fault: the rule that it breaks, and what of the source is replaced by what."""

    rule: str
    name: str
    old: str
    new: str


MUTANTS = [
    Mutant(
        *("S2", "seconds come last"),
        '[*["0"][: len(parts) == 5], *parts, *["*"][: len(parts) < 7]]',
        '[*(["0", *parts] if len(parts) == 5 else [parts[5], *parts[:5], *parts[6:]]),'
        ' *["*"][: len(parts) < 7]]',
    ),
    Mutant(
        *("S3", "weekday 7 is no Sunday"),
        "return (number - field.low) % field.span + field.low",
        "return min(number, field.high) if number == 7 else"
        " (number - field.low) % field.span + field.low",
    ),
    Mutant(
        *("S3", "the step starts again after a wrap"),
        "        end += field.span\n",
        "        return (*range(start, field.high + 1, step), *range(field.low, end + 1, step))\n",
    ),
    Mutant(
        *("S3", "a-a is the whole field"),
        "    if end < start:\n        if field is _YEAR",
        "    if end <= start:\n        if field is _YEAR",
    ),
    Mutant(
        *("S3", "a/n is the value alone"),
        "    return range(_folded(field, start), field.high + 1, step)\n",
        "    return (_folded(field, start),)\n",
    ),
    Mutant(
        *("S4", "nW leaves the month"),
        "return day - 1 if day > 1 else day + 2",
        "return day - 1",
    ),
    Mutant(
        *("S4", "L-n counts from the first of the next month"),
        "return lambda _first, last: last - back",
        "return lambda _first, last: last + 1 - (back or 1)",
    ),
    Mutant(
        *("S4", "the fifth weekday may be the fourth"),
        "return lambda first, _last: (weekday - first) % 7 + 7 * nth - 6",
        "return lambda first, _last: (weekday - first) % 7 + 7 * min(nth, 4) - 6",
    ),
    Mutant(
        *("S5", "two restricted day fields mean and"),
        "(fields.days, fields.weekdays) if days is not None] or [None]",
        "(_both(fields.days, fields.weekdays),) if days is not None] or [None]\n\n\n"
        "def _both(one: Days | None, other: Days | None) -> Days | None:\n"
        "    if one is None or other is None:\n"
        "        return one or other\n"
        "    both = {key: days & other.by_shape[key] for key, days in one.by_shape.items()}\n"
        "    return one._replace(specials=('both',), by_shape=both)",
    ),
    Mutant(
        *("S5", "*/n is not restricted"),
        'if text in ("*", "?"):',
        'if text[0] in ("*", "?"):',
    ),
    Mutant(
        *("S6", "what can never match is accepted"),
        "if not any(is_possible(days, fields) for days in day_legs(fields)):",
        "if not fields.months:",
    ),
    Mutant(
        *("S6", "each day field has to be possible"),
        "if not any(is_possible(days, fields) for days in day_legs(fields)):",
        "if not all(is_possible(days, fields) for days in day_legs(fields)):",
    ),
    Mutant(
        *("S7", "a gap's slot is at the time shifted"),
        "self._change_between(wall - new, wall - old)",
        "wall - old",
    ),
    Mutant(
        *("S7", "fixed times run in the second pass"),
        "        return wall - old\n\n    def last_wall",
        "        return wall - new\n\n    def last_wall",
    ),
    Mutant(
        *("S7", "fixed times run twice"),
        "wildcard=len(hours) == _HOUR.span or ",
        "wildcard=True or ",
    ),
    Mutant(
        *("S7", "no job goes by the clock"),
        "wildcard=len(hours) == _HOUR.span or ",
        "wildcard=False and ",
    ),
    Mutant(
        *("S7", "all 24 hours are fixed times"),
        "wildcard=len(hours) == _HOUR.span or ",
        "wildcard=",
    ),
    Mutant(
        *("S7", "latest knows one pass"),
        "return second if second <= t else found - shift.old",
        "return found - shift.old",
    ),
    Mutant(
        *("S7", "the second pass is not gone back to"),
        "if overlap is not None and t < overlap.at:",
        "if overlap is not None and t < overlap.old:",
    ),
    Mutant(
        *("S8", "the grid begins at midnight"),
        "return (t_ms // self._period_ms + 1) * self._period_ms",
        "return t_ms // 86_400_000 * 86_400_000 + (t_ms % 86_400_000 // self._period_ms + 1)"
        " * self._period_ms",
    ),
    Mutant(
        *("S9", "a one-off in a gap is shifted"),
        "        return self.first_instant(wall) * 1000 + rest_ms",
        "        return (wall - self._readings(wall)[0]) * 1000 + rest_ms",
    ),
    Mutant(
        *("S9", "a one-off without an offset is in UTC"),
        "slot_ms = zone.first_instant_ms(wall_ms)",
        "slot_ms = wall_ms",
    ),
    Mutant(
        *("S10", "every zone is UTC"),
        "    return Zone(found)\n",
        "    return Zone(UTC)\n",
    ),
    Mutant(
        *("S10", "an offset is whole minutes"),
        "return 0 if offset is None else offset // _SECOND",
        "return 0 if offset is None else offset // _SECOND // 60 * 60",
    ),
    Mutant(
        *("S11", "what EXDATE names stays"),
        "        excluded=frozenset(excluded),\n",
        "        excluded=frozenset(),\n",
    ),
    Mutant(
        *("S11", "what RDATE names is left out"),
        "added=tuple(sorted(added if rule is not None else {start, *added}))",
        "added=tuple(sorted(() if rule is not None else {start}))",
    ),
    Mutant(
        *("S11", "a rule goes by the clock"),
        "self._source = WallSlots(walk, found.zone, wildcard=False)",
        "self._source = WallSlots(walk, found.zone, wildcard=True)",
    ),
]


class _Source(SourceLoader):
    """Gives one module with a fault."""

    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source

    def find_spec(self, name: str, _path: object, _target: object = None) -> ModuleSpec | None:
        return spec_from_loader(name, self) if name == self._name else None

    def get_filename(self, fullname: str) -> str:
        return f"<{fullname} with a fault>"

    def get_data(self, _path: str) -> bytes:
        return self._source.encode()


@contextmanager
def planted(mutant: Mutant) -> Iterator[ModuleType]:
    """Load the package's schedules with a fault; gives the module `schedules`."""
    places = [name for name, source in SOURCES.items() if mutant.old in source]
    if len(places) != 1 or SOURCES[places[0]].count(mutant.old) != 1:
        raise ValueError(f"this is in {places}, and not once: {mutant.old}")
    loader = _Source(places[0], SOURCES[places[0]].replace(mutant.old, mutant.new))
    kept = {name: sys.modules.pop(name) for name in SOURCES if name in sys.modules}
    attributes = dict(vars(anarchon))
    sys.meta_path.insert(0, loader)
    try:
        yield importlib.import_module("anarchon.schedules")
    finally:
        sys.meta_path.remove(loader)
        for name in SOURCES:
            sys.modules.pop(name, None)
        sys.modules.update(kept)
        vars(anarchon).clear()
        vars(anarchon).update(attributes)
