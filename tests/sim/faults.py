"""What may go wrong with processes and hosts, or be asked for, in a noisy simulation.

One function for each kind; what may happen to the store is in `faults_store.py`, what is done to
whole fleets in `faults_fleet.py`. Each draws what it needs from `rng`, so that one fault stays
as it is when another one is left out, and returns whether there was anything to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import faults_fleet, faults_orders, faults_store
from .faults_store import set_host, stir

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from .instance import Instance
    from .scenario import Scenario
    from .world import Host

    Kind = Callable[[Scenario, Random], bool]

LONGEST_HOLD = 3.0  # seconds that a C call may hold the GIL


def some(scenario: Scenario, rng: Random, *, busy: bool = False) -> Instance | None:
    """Return an instance that is awake and not stopping; `busy`: with a handler, if one has."""
    up = [
        inst
        for inst in scenario.fleet.up()
        if inst.stopping_at is None and not inst.frozen and (inst.handlers or not busy)
    ]
    return rng.choice(up) if up else None


# --- processes --------------------------------------------------------------------


def crash(scenario: Scenario, rng: Random) -> bool:
    """Kill an instance, or all that run something; each host starts another one later."""
    hit = _hit(scenario, rng)
    for inst in hit:
        inst.crash()
        wait = rng.choice((0.01, rng.uniform(0, 2 * scenario.settings.lease)))
        scenario.world.after(wait, scenario.start, inst.host)
    return bool(hit)


def stop(scenario: Scenario, rng: Random) -> bool:
    """Stop an instance, or all that run something; their processes end, and others start."""
    hit = _hit(scenario, rng)
    for inst in hit:
        timeout = rng.choice((0.0, 0.5, 3.0, 10.0))
        spare = sorted(inst.handlers)[: rng.choice((0, 0, 1))]  # a stop out of a handler
        inst.stop(timeout, frozenset(spare))
        ends = timeout + inst.settings.heartbeat + 1.5
        scenario.world.after(ends, faults_fleet.end_process, inst)
        scenario.world.after(ends + 0.5, scenario.start, inst.host)
    return bool(hit)


def _hit(scenario: Scenario, rng: Random) -> list[Instance]:
    """Return whom a crash or a stop hits: rather those that run something, at times all of them."""
    up = [i for i in scenario.fleet.up() if i.stopping_at is None and not i.frozen]
    busy = [inst for inst in up if inst.handlers]
    if busy and rng.random() < 0.3:
        return busy
    if busy and rng.random() < 0.8:
        return [rng.choice(busy)]
    return [rng.choice(up)] if up else []


def freeze(scenario: Scenario, rng: Random) -> bool:
    """Freeze a process, for less or for longer than its lease."""
    inst = some(scenario, rng)
    if inst is None:
        return False
    seconds = rng.choice((0.5, rng.uniform(0.0, 2.5 * scenario.settings.lease)))
    inst.freeze(seconds)
    scenario.world.after(seconds, _wake, inst)
    return True


def gil(scenario: Scenario, rng: Random) -> bool:
    """Have a C call of a handler hold the GIL: nothing else runs in that process, clocks go on.

    Afterwards all its threads go on at once, in any order.
    """
    inst = some(scenario, rng, busy=True) or some(scenario, rng)
    if inst is None:
        return False
    seconds = rng.uniform(0.05, LONGEST_HOLD)
    inst.freeze(seconds)
    scenario.world.after(seconds, _wake, inst, True)
    return True


def _wake(inst: Instance, in_any_order: bool = False) -> None:
    if inst.alive and inst.frozen:
        inst.wake(in_any_order=in_any_order)


def suspend(scenario: Scenario, rng: Random) -> bool:
    """Suspend a machine: its monotonic clock stands still, the time of day goes on."""
    inst = some(scenario, rng)
    if inst is None:
        return False
    inst.freeze()
    inst.host.suspend()
    scenario.world.after(rng.uniform(0.2, 2 * scenario.settings.lease), resume_host, scenario, inst)
    return True


def resume_host(scenario: Scenario, inst: Instance) -> None:
    """Let a suspended machine go on."""
    slept = inst.host.resume()
    if slept and inst.up:
        scenario.referee.slept(inst, slept)
        stir(scenario, inst)
    _wake(inst)


def slow_keeper(scenario: Scenario, rng: Random) -> bool:
    """Have the thread that renews and looks come late for a while."""
    inst = some(scenario, rng)
    if inst is None:
        return False
    inst.keeper_delay = rng.uniform(0.05, inst.settings.heartbeat)
    scenario.world.after(rng.uniform(1.0, 2 * inst.settings.lease), _quicken, scenario, inst)
    return True


def _quicken(scenario: Scenario, inst: Instance) -> None:
    inst.keeper_delay = 0.0
    scenario.referee.seen[inst.token].reached = scenario.world.now


def all_busy(scenario: Scenario, rng: Random) -> bool:
    """Have every handler that starts within a while take very long: workers are saturated."""
    scenario.long_until = scenario.world.now + rng.uniform(0.5, scenario.settings.lease)
    return True


# --- the clocks of hosts ----------------------------------------------------------


def step_host(scenario: Scenario, rng: Random) -> bool:
    """Step a host's wall clock, a little or by far."""
    host: Host = rng.choice(scenario.hosts)
    steps = (0.0, 0.5, -0.5, 0.95, -0.95, 5.0, -5.0, 300.0, -300.0, 3600.0, -3600.0)
    set_host(scenario, host, rng.choice(steps))
    return True


def slew_host(scenario: Scenario, rng: Random) -> bool:
    """Have the time service of a host correct its wall clock slowly."""
    host: Host = rng.choice(scenario.hosts)
    host.slew(rng.choice((500e-6, -500e-6, 100e-6, 0.0)))
    return True


# --- requests ---------------------------------------------------------------------


def run_now(scenario: Scenario, rng: Random) -> bool:
    """Run a job by a call."""
    inst = some(scenario, rng)
    seen = None if inst is None else scenario.referee.seen[inst.token]
    if inst is None or seen is None or not seen.jobs:
        return False
    key = scenario.fleet.manual_key(inst, rng.choice(sorted(seen.jobs)))
    seen.manual.add(key.manual)
    inst.run_now(key)
    return True


def cancel(scenario: Scenario, rng: Random) -> bool:
    """Cancel an open run, whoever has it."""
    ledger = scenario.referee.ledger
    if not ledger.open:
        return False
    key = rng.choice(sorted(ledger.open))
    if scenario.store.backend.cancel(key):
        ledger.cancelled(key)
    return True


KINDS: dict[str, Kind] = {
    "all_busy": all_busy,
    "backfill": faults_orders.backfill,
    "break_schedule": faults_fleet.break_schedule,
    "cancel": cancel,
    "crash": crash,
    "deploy": faults_fleet.deploy,
    "failover": faults_store.failover,
    "flush": faults_store.flush,
    "freeze": freeze,
    "gil": gil,
    "noise": faults_store.noise,
    "outage": faults_store.outage,
    "pause": faults_store.pause,
    "remove_job": faults_fleet.remove_job,
    "replace_job": faults_fleet.replace_job,
    "restarts": faults_fleet.restarts,
    "run_now": run_now,
    "slew_host": slew_host,
    "slow_keeper": slow_keeper,
    "slow_store": faults_store.slow_store,
    "step_clock": faults_store.step_clock,
    "step_host": step_host,
    "stop": stop,
    "suspend": suspend,
    "trigger": faults_orders.trigger,
}
