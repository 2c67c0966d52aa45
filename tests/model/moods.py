"""What kinds of histories there are: each has few of all things that can happen, but much of them.

A history in which everything is equally likely never comes far with anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import random

    from tests.model.stores import Store

WEIGHTS = {
    "claim": 8,
    "finish": 4,
    "release": 3,
    "renew": 3,
    "look": 2,
    "wait": 4,
    "skip": 1,
    "manual": 1,
    "order": 2,
    "queue": 1,
    "unwanted": 1,
    "save": 1,
    "cancel": 1,
    "pause": 1,
    "history": 1,
    "step_clock": 1,
    "boot": 1,
    "flood": 1,
    "relay": 1,
    "vigil": 3,
    "age": 1,
    "brink": 1,
    "lateness": 1,
    "forgotten": 1,
}
RARE = ("boot", "flood", "forgotten", "unwanted", "step_clock", "pause", "cancel")


class Mood(NamedTuple):
    """What a history is like.

    `grid_ms`: slots are multiples of it, so that runs meet on a coarse one. `leases_ms`: those
    of the instances. `doubt`: how often a reply is lost, or a copy delivered late.
    """

    jobs: tuple[str, ...]
    leases_ms: tuple[int, ...]
    grid_ms: int
    doubt: float
    weights: dict[str, int]


# Whole ones, odd ones (a tenth of which is no whole number), short ones, whose margin is fixed.
LEASES_MS = ((10_000, 10_000, 2000), (3000, 6000), (2503, 4001), (300, 1000), (60_000,))


def any_mood(dice: random.Random, store: Store) -> Mood:
    """Draw a mood."""
    weights = {what: weight * dice.choice((0, 1, 1, 2, 4)) for what, weight in WEIGHTS.items()}
    weights |= {what: weights[what] * dice.choice((0, 1)) for what in RARE}
    weights["boot"] *= store.steady  # a server's leases know nothing of boots
    return Mood(
        tuple(dice.sample(store.jobs, dice.choice((1, 2, 3, 6)))),
        dice.choice(LEASES_MS),
        dice.choice((1, 50, 1000, 5000)),
        dice.choice((0.0, 0.1, 0.3)),
        weights | {"claim": max(weights["claim"], 4), "wait": max(weights["wait"], 2)},
    )


def long_mood(dice: random.Random, store: Store) -> Mood:
    """Draw one in which records pile up and are trimmed."""
    weights = {**WEIGHTS, "flood": 3, "history": 2, "step_clock": 0, "boot": 0, "look": 1}
    return Mood(tuple(dice.sample(store.jobs, 3)), (10_000,), 1000, 0.1, weights)
