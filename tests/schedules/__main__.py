"""The long forms of the proof that schedules are right.

    python -m tests.schedules --cases 50000     random cases against the oracle, with the laws,
                                                the bound on steps and that on CPU time
    python -m tests.schedules --fuzz 200000     garbage: refused in one way, and nothing hangs
    python -m tests.schedules --hard            what looks as if it could take long
    ... --seed 7 --jobs 2                       another seed; on several cores
    ... --seed 7 --case 123                     one case of a seed, or one garbage with --fuzz 1

The exit status is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from typing import TYPE_CHECKING

from .hard import HARD
from .parts import fuzzed, swept

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


CHUNK = 250
MOST_SHOWN = 20


def run(work: Callable[..., tuple], kind: str, seed: int, numbers: Sequence[int], jobs: int):
    """Do all the work in parts; prints progress, figures and what was wrong."""
    parts = [(kind, seed, numbers[at : at + CHUNK]) for at in range(0, len(numbers), CHUNK)]
    begun, done, wrong, total = time.perf_counter(), 0, [], None
    print(f"{kind}: {len(numbers)} with seed {seed}, {jobs} at a time", flush=True)
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for figures, found in pool.imap(work, parts):
            done += 1
            for line in found[: max(0, MOST_SHOWN - len(wrong))]:
                print(f"WRONG  {line}", flush=True)
            wrong += found
            if total is None:
                total = figures
            else:
                total.add(figures)
            if done % 20 == 0 or done == len(parts):
                seconds = time.perf_counter() - begun
                print(f"{min(done * CHUNK, len(numbers))} done in {seconds:.0f} s", flush=True)
    print(f"{total}\n{len(wrong)} wrong; seed {seed}", flush=True)
    return len(wrong)


def main() -> int:
    """Run what the command line says."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.schedules", description=__doc__, formatter_class=form
    )
    parser.add_argument("--cases", type=int, default=0, help="how many random cases")
    parser.add_argument("--fuzz", type=int, default=0, help="how many definitions of garbage")
    parser.add_argument("--hard", action="store_true", help="the cases known as hard")
    parser.add_argument("--seed", type=int, default=0, help="of the random cases and the garbage")
    parser.add_argument("--case", type=int, help="only this one")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    args = parser.parse_args()
    wrong = 0

    def chosen(count: int) -> Sequence[int]:
        return range(count) if args.case is None else [args.case]

    if args.hard:
        wrong += run(swept, "hard", args.seed, range(len(HARD)), args.jobs)
    if args.cases or (args.case is not None and not args.fuzz):
        wrong += run(swept, "cases", args.seed, chosen(args.cases), args.jobs)
    if args.fuzz:
        wrong += run(fuzzed, "fuzz", args.seed, chosen(args.fuzz), args.jobs)
    if not (args.hard or args.cases or args.fuzz or args.case is not None):
        parser.error("say what to run: --cases N, --fuzz N or --hard")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
