"""The long form of the histories on stores.

    python -m tests.model --store postgres --cases 5000 --seed 7    histories 0 to 4999 of a seed
    python -m tests.model --store redis-6.2 --seed 7 --case 41      one of them
    python -m tests.model --seed 7 --case 41 --trace                with every step and answer
    python -m tests.model --long --cases 200                        with many records

A store is one of the variants of `stores.py`, or `redis`, `valkey`, `postgres` for the newest
of a kind; `all` is every one. Of a history that fails, the shortest part that was found to
fail as well is printed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.model.author import LENGTH, Author
from tests.model.checker import Difference, check, play
from tests.model.moods import any_mood, long_mood
from tests.model.stores import SHORT, VARIANTS, store_on
from tests.servers.fixtures import SharedServers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.model.stores import Store


def histories(store: Store, variant: str, numbers: Iterable[int], how: argparse.Namespace) -> int:
    """Check these histories; return how many of them failed."""
    failed = played = steps = 0
    begun = time.perf_counter()
    for number in numbers:
        mood = long_mood if how.long else any_mood
        author = Author(store, how.seed, number, how.steps, mood)
        try:
            steps += len(play(store, author, print) if how.trace else check(store, author))
        except Difference as difference:
            failed += 1
            print(f"{variant}, seed {how.seed}, case {number}:\n{difference}\n", flush=True)
        played += 1
    seconds = time.perf_counter() - begun
    print(f"{variant}: {played} histories, {steps} steps, {seconds:.0f} s, {failed} failed")
    return failed


def main() -> int:
    """Run what the command line says."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.model", description=__doc__, formatter_class=form
    )
    choices = ("all", *SHORT, *VARIANTS)
    parser.add_argument("--store", default="all", choices=choices, metavar="STORE")
    parser.add_argument("--cases", type=int, default=100, help="how many histories")
    parser.add_argument("--seed", type=int, default=0, help="of the histories")
    parser.add_argument("--case", type=int, help="only this one")
    parser.add_argument("--steps", type=int, default=LENGTH, help="of each history")
    parser.add_argument("--long", action="store_true", help="those with many records")
    parser.add_argument("--trace", action="store_true", help="print every step and answer")
    how = parser.parse_args()
    variants = VARIANTS if how.store == "all" else (SHORT.get(how.store, how.store),)
    numbers = range(how.cases) if how.case is None else [how.case]
    servers = SharedServers()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="anarchon-model-") as folder:
        for variant in variants:
            with store_on(variant, servers, Path(folder)) as store:
                failed += histories(store, variant, numbers, how)
    servers.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
