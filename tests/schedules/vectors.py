"""The worked examples, as cases."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from .cases import Case
from .oracle import EPOCH


class Vector(NamedTuple):
    """What is asked, and what is right; `latest` is False where nothing is said of it."""

    name: str
    case: Case
    expect: list[int] | None  # None: the definition is refused
    latest: int | bool | None


def ms(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


def _vector(found: dict) -> Vector:
    t_ms = ms(found.get("after") or "2026-01-01T00:00:00Z")
    latest = found.get("latest", False)
    return Vector(
        name=found["id"],
        case=Case(found["kind"], found["expr"], found["timezone"], t_ms),
        expect=None if found.get("error") else [ms(text) for text in found["expect"]],
        latest=ms(latest) if latest else latest,
    )


_FILE = Path(__file__).resolve().parent.parent / "data" / "schedules.json"
VECTORS = [_vector(found) for found in json.loads(_FILE.read_text("utf-8"))]
RIGHT = [vector for vector in VECTORS if vector.expect is not None]


def following(next_after, t_ms: int, count: int = 5) -> list[int]:
    """Return the next few slots."""
    found: list[int] = []
    while len(found) < count and (slot := next_after(found[-1] if found else t_ms)) is not None:
        found.append(slot)
    return found
