"""The long forms of the simulations.

    python -m tests.sim --seeds 5000 [--from 0]     noisy fleets, every invariant
    python -m tests.sim --seed 17 --trace           one of them, with everything that happens
    python -m tests.sim --kinds crash,outage        only these faults
    python -m tests.sim --bounds [--ticks 3000]     the bounds of claim timing, on five seeds

The bounds take about half an hour.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from . import bounds
from .faults import KINDS
from .scenario import Scenario
from .world import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BOUND_SEEDS = range(5)


def noisy(seeds: Iterable[int], kinds: tuple[str, ...] | None, *, trace: bool) -> int:
    """Run noisy fleets; return how many violations there were."""
    found: Counter[str] = Counter()
    started, runs, steps = time.perf_counter(), 0, 0
    for seed in seeds:
        scenario = Scenario(seed, kinds=kinds)
        if trace:
            scenario.referee.log = print
        try:
            scenario.run()
        except Violation as violation:
            found[violation.name] += 1
            print(violation, flush=True)
        runs += 1
        steps += scenario.world.steps
    seconds = time.perf_counter() - started
    print(f"{runs} seeds, {steps} events, {seconds:.1f} s; violations: {dict(found)}")
    return found.total()


def all_bounds(ticks: int) -> int:
    """Measure every bound, over so many ticks where a share of the wins counts."""
    failed = 0
    for seed in BOUND_SEEDS:
        for n in bounds.FAIR:
            failed += _bound(bounds.one_job, seed, n, ticks)
        for n in bounds.TAKE:
            failed += _bound(bounds.ten_jobs, seed, n, 200)
            failed += _bound(bounds.handed_over, seed, n, 50)
            failed += _bound(bounds.crashed, seed, n, 50)
        for n in (3, 10, 50):
            failed += _bound(bounds.thousand_jobs, seed, n, 3)
        for load in (0.5, 0.9, 1.25, 2.0):
            failed += _bound(bounds.loaded, seed, load, 10)
        for faster in (True, False):
            failed += _bound(bounds.one_differs, seed, ticks, faster=faster)
        failed += _bound(bounds.handed_over, seed, 2, 50)
        failed += _bound(bounds.crashed, seed, 2, 50)
        failed += _bound(bounds.crashed, seed, 1, 50, restarts=True)
    return failed


def _bound(measure: Callable[..., bounds.Figures], *how: float, **also: bool) -> int:
    name = f"{measure.__name__}{how}{also or ''}"
    try:
        figures = measure(*how, **also)
    except Violation as violation:
        print(f"FAILED  {name}: {violation}", flush=True)
        return 1
    print(f"held    {name}: {', '.join(f'{k} {v:g}' for k, v in figures.items())}", flush=True)
    return 0


def main() -> int:
    """Run what the command line says."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.sim", description=__doc__, formatter_class=form
    )
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--kinds", help="faults, separated by commas: " + " ".join(KINDS))
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    parser.add_argument("--bounds", action="store_true", help="the bounds of claim timing instead")
    parser.add_argument("--ticks", type=int, default=3000, help="of the bounds")
    args = parser.parse_args()
    if args.bounds:
        return 1 if all_bounds(args.ticks) else 0
    kinds = tuple(args.kinds.split(",")) if args.kinds else None
    seeds = range(args.first, args.first + args.seeds) if args.seed is None else [args.seed]
    return 1 if noisy(seeds, kinds, trace=args.trace) else 0


if __name__ == "__main__":
    sys.exit(main())
