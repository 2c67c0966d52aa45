"""What the long forms do in each of their processes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from . import fuzz
from .cases import numbered
from .hard import HARD
from .steps import Meter
from .sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .sweep import Figures


def swept(part: tuple[str, int, Sequence[int]]) -> tuple[Figures, list[str]]:
    """Check cases of a seed, or those that are known as hard."""
    kind, seed, numbers = part
    with Meter().running() as meter:
        sweep = Sweep(meter)
        wrong = []
        for number in numbers:
            case = HARD[number] if kind == "hard" else numbered(seed, number)
            _note(wrong, f"case {number}", lambda case=case: sweep.check(case))
    return sweep.figures, wrong


def fuzzed(part: tuple[str, int, Sequence[int]]) -> tuple[fuzz.Tally, list[str]]:
    """Try garbage of a seed."""
    _, seed, numbers = part
    with Meter().running() as meter:
        tried = fuzz.Fuzz(meter)
        wrong = []
        for number in numbers:
            given = fuzz.draw(Random(f"{seed}:{number}"))
            _note(wrong, f"garbage {number}", lambda given=given: tried.check(*given))
    return tried.figures, wrong


def _note(wrong: list[str], name: str, check: Callable[[], None]) -> None:
    try:
        check()
    except Exception as error:
        wrong.append(f"{name}: {type(error).__name__}: {error}")
