"""The long forms of the simulations.

python -m tests.sim --seeds 5000 [--from 0]     noisy fleets, every invariant
python -m tests.sim --seed 17 --trace           one of them, with everything that happens
python -m tests.sim --kinds crash,outage        only these faults
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from .faults import KINDS
from .scenario import Scenario
from .world import Violation


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--kinds", help="faults, separated by commas: " + " ".join(KINDS))
    parser.add_argument("--trace", action="store_true", help="print everything that happens")
    args = parser.parse_args()
    kinds = tuple(args.kinds.split(",")) if args.kinds else None
    seeds = [args.seed] if args.seed is not None else range(args.first, args.first + args.seeds)
    found: Counter[str] = Counter()
    started, steps = time.perf_counter(), 0
    for seed in seeds:
        scenario = Scenario(seed, kinds=kinds)
        if args.trace:
            scenario.referee.log = print
        try:
            scenario.run()
        except Violation as violation:
            found[violation.name] += 1
            print(violation)
        steps += scenario.world.steps
    seconds = time.perf_counter() - started
    print(f"{len(seeds)} seeds, {steps} events, {seconds:.1f} s; violations: {dict(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
