"""Runs the simulations on weakened sources, each of which an invariant has to notice.

    python -m tests.sim.mutants [NAME ...]

A mutant is the package with a small change, in a temporary folder, where another Python runs
the simulations of its hunt one after another until an invariant fails. It counts as dead only
by the name of one of the invariants that it is about, not by an error of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import anarchon

from . import bounds
from .rare_weaknesses import MUTANTS
from .scenario import Scenario
from .shape import Shape
from .world import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from .weaknesses import Mutant

PACKAGE = Path(anarchon.__file__).resolve().parent
CHECKOUT = Path(__file__).resolve().parents[2]
SEEDS = 100  # so many simulations a mutant may survive before it counts as alive
CALL = "from tests.sim.mutants import hunt; import sys; print(hunt(sys.argv[1], int(sys.argv[2])))"
# Where rare ones were noticed lately: their hunts begin there, and go round.
LATELY = {
    "deadline from the reply, not from the request": 1,
    "a claim without an answer is not repeated": 54,
    "a result is sent once": 7,
    "takeover without a witness": 3,
    "a claim wins whatever attempt it names": 3,
    "no overlap guard": 3,
    "hand-overs are counted": 1,
    "the latest slot is not caught up": 2,
    "a starved worker never claims": 1,
    "claims go on after stop": 1,
    "early start": 3,
    "a beat that is counted twice is one renewal": 29,
    "own runs that came back are claimed without a worker": 43,
    "what is mine already doesn't count as a win": 7,
    "another slot is begun beside a dead run that nobody has closed": 3,
    "a store's clock that moved agrees": 3,
    "a store's clock agrees from the first reply on": 3,
}


def _noisy(*kinds: str) -> Callable[[int], object]:
    return lambda seed: Scenario(seed, Shape(kinds=kinds or None)).run()


# What is simulated, by seed.
HUNTS: dict[str, Callable[[int], object]] = {
    "noise": _noisy(),
    "crashes": _noisy("crash", "noise"),
    "steps": _noisy("step_clock"),
    "mixed1": _noisy("noise"),
    "mixed2": _noisy("noise", "outage"),
    "mixed3": _noisy("step_clock", "noise", "slow_keeper"),
    "stops": _noisy("stop", "crash"),
    "freezes": _noisy("freeze", "outage"),
    "busy": _noisy("all_busy"),
    "pauses": _noisy("pause", "stop", "crash"),
    "wrong clocks": _noisy("step_host"),
    "seeds": lambda seed: Scenario(1100 + seed, Shape(instances=50)).run(),
    "failovers": _noisy("failover", "slew_host"),
    "failovers in noise": _noisy("failover", "outage", "crash", "noise", "slow_keeper"),
    "busy crashes": _noisy("all_busy", "crash"),
    "flushes": _noisy("flush", "stop"),
    "flushes and steps": _noisy("flush", "step_clock"),
    "busy noise": _noisy("noise", "all_busy"),
    "stops in noise": _noisy("stop", "noise", "outage"),
    "deploys": _noisy("deploy", "crash"),
    "cancels": _noisy("cancel", "crash"),
    "steps in outages": _noisy("step_clock", "outage", "step_host"),
    "holds": _noisy("gil", "freeze", "suspend"),
    "orders": _noisy("trigger", "backfill", "crash"),
    "orders in outages": _noisy("backfill", "outage", "freeze"),
    "busy orders": _noisy("trigger", "all_busy"),
    "looks for orders": lambda seed: bounds.asked_for(seed, 3, control=5.0),
    "orders in a row": lambda seed: bounds.asked_for(seed, 3),
    "hand-over": lambda seed: bounds.handed_over(seed, 2, times=3),
    "takeover": lambda seed: bounds.crashed(seed, 2, times=3),
    "restart": lambda seed: bounds.crashed(seed, 1, times=3, restarts=True),
    "one job": lambda seed: bounds.one_job(seed, 3, ticks=500),
    "long": lambda seed: bounds.one_job(seed, 1, ticks=1250, warm=1, fair=False),
    "ten jobs": lambda seed: bounds.ten_jobs(seed, 10, ticks=15, warm=12),
}


def seeds_from(first: int) -> list[int]:
    """Return all seeds in the order of a hunt that begins there."""
    return [*range(first, SEEDS), *range(first)]


def hunt(name: str, first: int = 0) -> str:
    """Run a hunt on the package that is imported; return the seed, the invariant, the text."""
    for seed in seeds_from(first):
        try:
            HUNTS[name](seed)
        except Violation as violation:
            return f"{seed}\n{violation.name}\n{violation}"
    return f"{SEEDS}\nalive\n"


@cache
def unchanged(name: str, seed: int) -> None:
    """Run one simulation of a hunt on the package as it is; raises `Violation`."""
    HUNTS[name](seed)


def verdict(mutant: Mutant) -> tuple[int, str, str]:
    """Return the seed at which a mutant was noticed, by which invariant, and the whole text."""
    with tempfile.TemporaryDirectory(prefix="anarchon-mutant-") as folder:
        copy = Path(folder) / "anarchon"
        # Links suffice, and what is compiled comes along; what a mutant changes is a new file.
        shutil.copytree(PACKAGE, copy, copy_function=os.symlink)
        for change in ((mutant.file, mutant.old, mutant.new), *mutant.also):
            _apply(copy, *change)
        done = subprocess.run(
            [sys.executable, "-c", CALL, mutant.hunt, str(LATELY.get(mutant.name, 0))],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((folder, str(CHECKOUT)))},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    if done.returncode:
        return SEEDS, "an error of its own", done.stderr
    seed, name, text = done.stdout.split("\n", 2)
    return int(seed), name, text.strip()


def _apply(package: Path, name: str, old: str, new: str) -> None:
    file = package / name
    source = file.read_text(encoding="utf-8")
    if source.count(old) != 1:
        raise ValueError(f"this is in {name} {source.count(old)} times, not once: {old}")
    file.unlink()
    file.write_text(source.replace(old, new), encoding="utf-8")


def main() -> int:
    """Tell how each mutant fares."""
    wanted = sys.argv[1:]
    alive = 0
    for mutant in MUTANTS:
        if not wanted or mutant.name in wanted:
            _, name, text = verdict(mutant)
            dead = name in mutant.invariants
            alive += not dead
            print(f"{'dead' if dead else 'ALIVE'}  {mutant.name}: {text or name}", flush=True)
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
