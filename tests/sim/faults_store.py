"""What may happen to the store, to the way there, and to the clocks of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._clock import SAMPLES
from anarchon.backends._rules import FOREVER
from anarchon.backends.memory import MemoryRows

from .store import READ_ONLY
from .truth import Kept

if TYPE_CHECKING:
    from random import Random

    from .instance import Instance
    from .scenario import Scenario
    from .world import Host


# --- outages ----------------------------------------------------------------------


def outage(scenario: Scenario, rng: Random) -> bool:
    """Take the store away: it refuses, swallows every call, or is read-only."""
    how = rng.choice(("refused", "hole", READ_ONLY))
    seconds = rng.uniform(0.1, rng.choice((1.0, 2 * scenario.settings.lease)))
    return _down(scenario, how, seconds)


def _down(scenario: Scenario, how: str, seconds: float) -> bool:
    if scenario.store.down is not None:
        return False
    scenario.store.down = how
    scenario.figures["outages"] += 1
    scenario.world.after(seconds, _up, scenario)
    return True


def _up(scenario: Scenario) -> None:
    scenario.store.down = None


def slow_store(scenario: Scenario, rng: Random) -> bool:
    """Have every answer take longer for a while."""
    if scenario.store.slow:
        return False
    scenario.store.slow = rng.uniform(0.02, 0.5 * scenario.settings.heartbeat)
    scenario.world.after(rng.uniform(0.5, scenario.settings.lease), quicken, scenario)
    return True


def quicken(scenario: Scenario) -> None:
    """Answer as fast as before; what is on its way may still be slow."""
    slow, scenario.store.slow = scenario.store.slow, 0.0
    for seen in scenario.referee.living:
        seen.reached = max(seen.reached, scenario.world.now + slow)


def noise(scenario: Scenario, rng: Random) -> bool:
    """Lose, delay and repeat many messages for a while."""
    before = scenario.noise.rate
    scenario.noise.rate = rng.choice((0.1, 0.3, 0.6))
    scenario.world.after(rng.uniform(0.5, 2 * scenario.settings.lease), _calm, scenario, before)
    return True


def _calm(scenario: Scenario, rate: float) -> None:
    scenario.noise.rate = 0.0 if scenario.healing else min(rate, 0.05)


# --- lost writes ------------------------------------------------------------------


class Replica:
    """The store, and what is known of it, as it was at one moment."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._rows = scenario.store.copy()
        self._kept = scenario.referee.ledger.keep()
        self._paused = dict(scenario.paused)

    def promote(self) -> None:
        """Go on from that moment: the writes since are lost."""
        scenario = self._scenario
        scenario.store.become(self._rows)
        scenario.referee.lose(self._kept)
        scenario.paused.clear()
        scenario.paused.update(self._paused)


def failover(scenario: Scenario, rng: Random) -> bool:
    """Promote a replica that has not had the last writes, after a short outage or at once."""
    if scenario.replica is not None:
        return False
    scenario.replica = Replica(scenario)
    lag = rng.choice((0.001, 0.02, rng.uniform(0.0, 1.0), rng.uniform(0.0, 3.0)))
    scenario.world.after(lag, _fail_over, scenario, rng)
    return True


def _fail_over(scenario: Scenario, rng: Random) -> None:
    """The old primary is gone; its replica takes over some time later."""
    seconds = rng.choice((0.0, rng.uniform(0.05, 1.0), rng.uniform(0.5, 3.0)))
    if seconds:
        _down(scenario, rng.choice(("refused", "hole")), seconds)
    # Just before the first call that it answers.
    scenario.world.after(max(0.0, seconds - 1e-6), promote, scenario)


def promote(scenario: Scenario) -> None:
    """Let the replica take over, if there is one."""
    replica, scenario.replica = scenario.replica, None
    if replica is not None:
        replica.promote()


def flush(scenario: Scenario, rng: Random) -> bool:
    """Empty the store: FLUSHALL, or a table truncated."""
    if scenario.replica is not None:
        return False
    del rng
    scenario.store.become(MemoryRows())
    scenario.referee.lose(Kept({}, {}, {}))
    scenario.paused.clear()
    return True


# --- clocks -----------------------------------------------------------------------


def step_clock(scenario: Scenario, rng: Random) -> bool:
    """Step the store's wall clock; two steps are some leases apart."""
    ledger, lease = scenario.referee.ledger, scenario.settings.lease
    if scenario.world.now - ledger.stepped_at < 4 * lease:
        return False
    steps = (0.5, 1.5, 1.5, 60.0, 2 * lease, 3600.0)
    step_store(scenario, rng.choice(steps) * rng.choice((1, -1)))
    return True


def step_store(scenario: Scenario, seconds: float) -> None:
    """Step the store's wall clock by so much."""
    referee = scenario.referee
    scenario.store.step(seconds)
    referee.ledger.stepped_at = scenario.world.now
    referee.liveness.forget_slots()
    for seen in referee.living:
        seen.unsure = SAMPLES  # an older sample with a shorter round trip may count until then
        referee.costs.stir(seen.inst)


def set_host(scenario: Scenario, host: Host, offset: float) -> None:
    """Set a host's wall clock; until the next reply its instance has only that."""
    host.offset = offset
    for seen in scenario.referee.living:
        if seen.inst.host is host:
            stir(scenario, seen.inst)


def stir(scenario: Scenario, inst: Instance) -> None:
    """A host's clocks moved apart: its instance has to hear of the store's again."""
    seen = scenario.referee.seen[inst.token]
    seen.unsure = max(1, seen.unsure)
    scenario.referee.costs.stir(inst)


# --- pauses -----------------------------------------------------------------------


def pause(scenario: Scenario, rng: Random) -> bool:
    """Pause a job, or all of them, for a while."""
    store = scenario.store
    name = rng.choice((None, *sorted(scenario.jobs)))
    duration_ms = rng.choice((500, 3000, 10_000, None))
    store.backend.pause(name, duration_ms=duration_ms)
    wall_ms = store.time.wall_ms()
    scenario.paused[name] = FOREVER if duration_ms is None else wall_ms + duration_ms
    if duration_ms is None:
        scenario.world.after(rng.uniform(0.5, 10.0), resume, scenario, name)
    return True


def resume(scenario: Scenario, name: str | None) -> None:
    """End a pause."""
    scenario.store.backend.resume(name)
    scenario.paused.pop(name, None)
