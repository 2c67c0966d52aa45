"""Prints the slots of all worked examples and of a hundred random cases.

What is printed must not depend on the machine's zone, its language or its hash seed.
"""

from __future__ import annotations

import locale
import time

from .cases import numbered
from .sweep import define
from .vectors import VECTORS, following

CASES = 100


def main() -> None:
    """Print the machine's side first, then a line of slots for each definition."""
    locale.setlocale(locale.LC_ALL, "")
    print(time.strftime("%Z", time.localtime(0)), hash("slot"))
    cases = [vector.case for vector in VECTORS] + [numbered(0, n) for n in range(CASES)]
    for case in cases:
        schedule = define(case)
        if schedule is None:
            print(case, "refused")
        else:
            slots = following(schedule.next_after_ms, case.t_ms)
            print(case, *slots, schedule.latest_ms(case.t_ms))
