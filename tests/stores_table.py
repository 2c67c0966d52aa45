"""Stores by kinds of tests: how many passed on each, from the outcomes of a whole run.

    python -m tests.stores_table OUTCOMES

Ends with 1 when a test of a store failed or was skipped, or a store has no tests of a kind.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

from tests.servers.places import STORES

# How the tests of a store are named: by their parameter, or by their class.
NAMES = {store: re.compile(rf"\[(.*-)?{re.escape(store)}\b") for store in STORES}
CLASSES = {
    "TestRedis62": "redis-6.2",
    "TestRedis70": "redis-7.0",
    "TestRedis82": "redis-8.2",
    "TestRedisByHand": "redis-8.2",
    "TestValkey8": "valkey-8",
    "TestCluster": "redis-cluster",
}
KINDS = {
    "contract": "tests/contract/",
    "fleets": "tests/on_servers/test_fleets.py",
    "races": "tests/on_servers/test_races.py",
    "lost replies": "tests/on_servers/test_lost_replies.py",
    "outages": "tests/on_servers/test_outages.py",
    "own": "tests/stores/",
}
# One address doesn't lead to a cluster, so nothing can stand before it; and what every
# Redis, or every PostgreSQL, does alike is shown on one or two of them.
EVERYWHERE = ("contract", "fleets", "races")


def store_of(test: str) -> str | None:
    """Return the store that a test is on, if it is on a server."""
    for name, store in CLASSES.items():
        if f"::{name}::" in test:
            return store
    return next((store for store, name in NAMES.items() if name.search(test)), None)


def kind_of(test: str) -> str | None:
    return next((kind for kind, start in KINDS.items() if test.startswith(start)), None)


def counted(outcomes: list[tuple[str, str]]) -> Counter[tuple[str, str, str]]:
    """Count the outcomes by store, kind and outcome."""
    return Counter(
        (store, kind, outcome)
        for test, outcome in outcomes
        if (store := store_of(test)) and (kind := kind_of(test))
    )


def table(counts: Counter[tuple[str, str, str]]) -> list[str]:
    """Return the lines of the table."""
    width = max(map(len, STORES))
    lines = [" ".join([" " * width, *(f"{kind:>12}" for kind in KINDS), f"{'skipped':>12}"])]
    for store in STORES:
        cells = [counts[store, kind, "passed"] for kind in KINDS]
        cells.append(sum(counts[store, kind, "skipped"] for kind in KINDS))
        lines.append(" ".join([f"{store:<{width}}", *(f"{cell:>12}" for cell in cells)]))
    return lines


def trouble(counts: Counter[tuple[str, str, str]]) -> list[str]:
    """Return what is wrong with a run."""
    bad = [
        f"{store}, {kind}: {number} {outcome}"
        for (store, kind, outcome), number in sorted(counts.items())
        if outcome != "passed"
    ]
    return bad + [
        f"{store}: no test of kind {kind!r}"
        for store in STORES
        for kind in EVERYWHERE
        if not counts[store, kind, "passed"]
    ]


def main(arguments: list[str]) -> int:
    lines = Path(arguments[0]).read_text(encoding="utf-8").splitlines()
    counts = counted([(test, outcome) for test, outcome, *_ in map(json.loads, lines)])
    wrong = trouble(counts)
    print("\n".join([*table(counts), *wrong]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
