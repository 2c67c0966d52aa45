"""Many seeds, in several processes if there are cores for them, and what they came to."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from math import inf
from multiprocessing import get_context
from typing import TYPE_CHECKING, NamedTuple

from .faults import KINDS
from .scenario import Scenario
from .trace import short_trace
from .world import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .shape import Shape

PROGRESS = 30.0  # seconds between two lines
CHUNK = 10  # seeds that a process takes at a time


class Outcome(NamedTuple):
    """What came of one seed: an invariant that failed, or none, and what happened."""

    seed: int
    violation: str
    text: str
    figures: Counter[str]
    cpu: float


def one(seed: int, shape: Shape) -> Outcome:
    """Simulate one seed."""
    began = time.process_time()
    scenario, name, text = Scenario(seed, shape), "", ""
    try:
        scenario.run()
    except Violation as violation:
        name, text = violation.name, str(violation)
    return Outcome(seed, name, text, scenario.counted(), time.process_time() - began)


def outcomes(seeds: Sequence[int], shape: Shape, jobs: int) -> Iterator[Outcome]:
    """Simulate all of them; yield in the order in which they are done."""
    if jobs == 1:
        yield from (one(seed, shape) for seed in seeds)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(partial(one, shape=shape), seeds, CHUNK)


def sweep(seeds: Sequence[int], shape: Shape, jobs: int, seconds: float = inf) -> int:
    """Simulate all seeds, or those that fit; tell of it, and return how many violated anything."""
    total: Counter[str] = Counter()
    found: list[Outcome] = []
    began = told = time.perf_counter()
    cpu = 0.0
    for outcome in outcomes(seeds, shape, jobs):
        total += outcome.figures
        cpu += outcome.cpu
        if outcome.violation:
            found.append(outcome)
            print("\n".join(short_trace(outcome.seed, shape)))
            print(f"{shape.command(outcome.seed)} --shrink", flush=True)
        now = time.perf_counter()
        if now - began > seconds:
            break
        if now - told > PROGRESS:
            told = now
            print(_progress(total, len(seeds), told - began, len(found)), flush=True)
    print("\n".join(closing(total, cpu, time.perf_counter() - began)))
    print(f"violations: {len(found)} {dict(Counter(one.violation for one in found))}")
    return len(found)


def _progress(total: Counter[str], seeds: int, seconds: float, found: int) -> str:
    done = total["seeds"]
    left = seconds / max(1, done) * (seeds - done)
    return (
        f"{done} of {seeds} seeds, {total['takeovers']} takeovers, {found} violations;"
        f" {seconds:.0f} s, {left:.0f} s to go"
    )


def closing(total: Counter[str], cpu: float, seconds: float) -> Iterable[str]:
    """Yield the figures of many seeds, in lines."""
    names = ("seeds", "instances", "runs", "attempts", "takeovers", "hand-overs", "outages")
    yield ", ".join(f"{total[name]:,} {name}" for name in (*names, "events"))
    yield "faults: " + ", ".join(f"{kind} {total[kind]:,}" for kind in KINDS)
    hours = total["virtual seconds"] / 3600
    yield f"{hours:,.1f} virtual hours, {cpu:,.0f} CPU seconds, {seconds:,.0f} seconds"
