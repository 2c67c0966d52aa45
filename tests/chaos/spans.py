"""Arithmetic with spans of time: pairs of moments, in seconds."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """A stretch of time, both ends included."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    def touches(self, begin: float, end: float) -> bool:
        """Say whether any of it lies between these moments."""
        return self.begin <= end and self.end >= begin


def without(span: Span, holes: list[Span]) -> list[Span]:
    """Return what is left of a span when all holes are cut out of it."""
    left, begin = [], span.begin
    for hole in sorted(holes):
        if hole.end <= begin or hole.begin >= span.end:
            continue
        if hole.begin > begin:
            left.append(Span(begin, hole.begin))
        begin = max(begin, hole.end)
    if begin < span.end:
        left.append(Span(begin, span.end))
    return left
