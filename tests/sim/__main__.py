"""The long forms of the simulations.

    python -m tests.sim --seeds 10000 --instances 50 [--from 0] [--jobs 2]
                                                    noisy fleets, every invariant
    python -m tests.sim --seed 17                   one of them; --trace: everything that happens
    python -m tests.sim --seed 17 --shrink          as few faults, instances and jobs as still fail
    python -m tests.sim --kinds crash,outage        only these faults
    python -m tests.sim --fleet 1000 --hours 1      one large fleet
    python -m tests.sim --bounds [--ticks 3000]     the bounds of claim timing, on five seeds

The bounds take about half an hour.
"""

from __future__ import annotations

import argparse
import sys
from math import inf
from typing import TYPE_CHECKING

from . import bounds
from .faults import KINDS
from .large import large
from .scenario import Scenario
from .shape import MOST_INSTANCES, Shape
from .shrink import shrink
from .sweep import sweep
from .trace import line
from .world import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

BOUND_SEEDS = range(5)


def traced(seed: int, shape: Shape) -> int:
    """Simulate one seed, and print everything that happens."""
    scenario = Scenario(seed, shape)
    scenario.referee.log = lambda now, words: print(line(now, words))
    try:
        scenario.run()
    except Violation as violation:
        print(violation)
        return 1
    return 0


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


def numbers(text: str) -> tuple[int, ...]:
    """Return numbers that are separated by commas; ``none`` is none of them."""
    return () if text == "none" else tuple(map(int, text.split(",")))


def parsed(words: list[str]) -> argparse.Namespace:
    """Return what the command line says."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.sim", description=__doc__, formatter_class=form
    )
    add = parser.add_argument
    add("--seeds", type=int, default=200, help="how many seeds")
    add("--from", type=int, default=0, dest="first", help="the first seed")
    add("--instances", type=int, default=MOST_INSTANCES, help="the most that a fleet may have")
    add("--jobs", type=int, default=1, help="how many processes simulate")
    add("--minutes", type=float, default=inf, help="end the sweep after so many")
    add("--kinds", help="faults, separated by commas: " + " ".join(KINDS))
    add("--seed", type=int, help="only this one")
    add("--trace", action="store_true", help="print everything that happens")
    add("--shrink", action="store_true", help="make a seed that fails small")
    add("--only-hosts", type=int, help="only the first hosts")
    add("--only-jobs", type=int, help="only the first jobs of the fleet")
    add("--only-faults", type=numbers, help="only the faults of these numbers, or none")
    add("--seconds", type=float, help="how long things go wrong")
    add("--fleet", type=int, help="one fleet of so many instances instead")
    add("--hours", type=float, default=1.0, help="of virtual time, for that fleet")
    add("--bounds", action="store_true", help="the bounds of claim timing instead")
    add("--ticks", type=int, default=3000, help="of the bounds")
    return parser.parse_args(words)


def shape_of(args: argparse.Namespace) -> Shape:
    """Return what of each seed is simulated."""
    kinds = tuple(args.kinds.split(",")) if args.kinds else None
    cuts = (args.only_hosts, args.only_jobs, args.only_faults, args.seconds)
    return Shape(args.instances, kinds, *cuts)


def main() -> int:
    """Run what the command line says; return 1 if anything doesn't hold."""
    args = parsed(sys.argv[1:])
    if args.bounds:
        return min(1, all_bounds(args.ticks))
    if args.fleet:
        return large(args.fleet, args.hours, args.seed or 0)
    shape = shape_of(args)
    if args.seed is None:
        seeds = range(args.first, args.first + args.seeds)
        return min(1, sweep(seeds, shape, args.jobs, args.minutes * 60))
    if args.shrink:
        shrink(args.seed, shape)
        return 1
    return traced(args.seed, shape) if args.trace else min(1, sweep([args.seed], shape, 1))


if __name__ == "__main__":
    sys.exit(main())
