"""Runs that the fleet is asked for, at any time, by whoever reaches the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._values import BACKFILLED, TRIGGERED, RunKey

if TYPE_CHECKING:
    from random import Random

    from .instance import Instance
    from .scenario import Scenario

AGAIN = 0.5  # seconds after which one who got no answer asks again


def trigger(scenario: Scenario, rng: Random) -> bool:
    """Ask for a run of a job now, or for a few, by clocks that are a little off."""
    if not scenario.settings.leases:
        return False
    name = rng.choice(sorted(scenario.jobs))
    wall_ms, call = scenario.store.time.wall_ms(), rng.getrandbits(32)
    keys = [
        RunKey(name, wall_ms + rng.choice((0, -400, 400, 30_000)), f"{TRIGGERED}{call:08x}{n}")
        for n in range(rng.choice((1, 1, 2, 4)))
    ]
    _ask(scenario, rng, keys)
    return True


def backfill(scenario: Scenario, rng: Random) -> bool:
    """Ask for the last slots of a job once more."""
    if not scenario.settings.leases:
        return False
    live = scenario.jobs[rng.choice(sorted(scenario.jobs))]
    last_ms = live.grid.slot_at(scenario.store.time.wall_ms())
    call, count = rng.getrandbits(32), rng.choice((1, 2, 3, 5))
    keys = [
        RunKey(live.name, last_ms - back * live.grid.period_ms, f"{BACKFILLED}{call:08x}-{back}")
        for back in reversed(range(count))
    ]
    _ask(scenario, rng, keys)
    return True


def _ask(scenario: Scenario, rng: Random, keys: list[RunKey]) -> None:
    if scenario.healing:
        return
    if scenario.store.down is not None:
        scenario.world.after(AGAIN, _ask, scenario, rng, keys)
        return
    scenario.store.backend.trigger(keys, data=None)
    scenario.referee.say("asked for", *keys)
    scenario.referee.orders.asked(keys)
    if rng.random() < 0.2:  # the answer was lost on its way
        scenario.world.after(AGAIN, _ask, scenario, rng, keys)
    inst = _who_asks(scenario, rng, keys[0].job)
    if inst is not None:
        scenario.referee.costs.stir(inst)
        inst.ordered(keys[0].job)


def _who_asks(scenario: Scenario, rng: Random, job: str) -> Instance | None:
    """Return an instance in the process that asks, if there is one there."""
    up = [inst for inst in scenario.fleet.up() if inst.stopping_at is None and not inst.frozen]
    inst = rng.choice(up) if up and rng.random() < 0.5 else None
    return inst if inst and job in scenario.referee.seen[inst.token].jobs else None
