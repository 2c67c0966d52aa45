"""What may go wrong, or be asked for, in a noisy simulation: one function for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon._clock import SAMPLES
from anarchon.backends._rules import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from anarchon._values import RunKey

    from .instance import Instance
    from .scenario import Scenario
    from .world import Host

BROKEN_FOR = 61.0  # a schedule that raised is asked again after a minute


def _some(scenario: Scenario) -> Instance | None:
    up = [inst for inst in scenario.fleet.up() if inst.stopping_at is None]
    return scenario.world.rng.choice(up) if up else None


def crash(scenario: Scenario) -> None:
    """Kill an instance; its host starts another one some time later."""
    inst = _some(scenario)
    if inst is not None:
        inst.crash()
        _again(scenario, inst.host)


def _again(scenario: Scenario, host: Host) -> None:
    lease, rng = scenario.settings.lease, scenario.world.rng
    scenario.world.after(rng.choice((0.01, rng.uniform(0, 2 * lease))), scenario.start, host)


def stop(scenario: Scenario) -> None:
    """Stop an instance gracefully; its process ends, and another one starts."""
    inst = _some(scenario)
    if inst is None or inst.frozen:
        return
    rng = scenario.world.rng
    timeout = rng.choice((0.0, 0.5, 3.0, 10.0))
    spare = sorted(inst.handlers)[: rng.choice((0, 0, 1))]  # a stop out of a handler
    inst.stop(timeout, frozenset(spare))
    scenario.world.after(timeout + inst.settings.heartbeat + 1.5, _end_process, inst)
    scenario.world.after(timeout + inst.settings.heartbeat + 2.0, scenario.start, inst.host)


def _end_process(inst: Instance) -> None:
    if inst.alive:
        inst.crash()


def freeze(scenario: Scenario) -> None:
    """Freeze a process, for less or for longer than its lease."""
    inst = _some(scenario)
    if inst is None or inst.frozen:
        return
    rng, lease = scenario.world.rng, scenario.settings.lease
    inst.freeze()
    scenario.world.after(rng.choice((0.5, rng.uniform(0.0, 2.5 * lease))), _wake, inst)


def _wake(inst: Instance) -> None:
    if inst.alive and inst.frozen:
        inst.wake()


def outage(scenario: Scenario) -> None:
    """Take the store away: it refuses, or swallows, every call."""
    rng, lease = scenario.world.rng, scenario.settings.lease
    if scenario.store.down is None:
        scenario.store.down = rng.choice(("refused", "hole"))
        scenario.world.after(rng.uniform(0.1, rng.choice((1.0, 2 * lease))), _back, scenario)


def _back(scenario: Scenario) -> None:
    scenario.store.down = None


def noise(scenario: Scenario) -> None:
    """Lose, delay and repeat many messages for a while."""
    rng = scenario.world.rng
    before = scenario.noise.rate
    scenario.noise.rate = rng.choice((0.1, 0.3, 0.6))
    scenario.world.after(rng.uniform(0.5, 2 * scenario.settings.lease), _calm, scenario, before)


def _calm(scenario: Scenario, rate: float) -> None:
    scenario.noise.rate = 0.0 if scenario.healing else min(rate, 0.05)


def step_host(scenario: Scenario) -> None:
    """Step a host's wall clock, a little or by far."""
    rng = scenario.world.rng
    host = rng.choice(scenario.hosts)
    set_host(scenario, host, rng.choice((0.0, 0.5, -0.5, 0.95, -0.95, 5.0, -5.0, 300.0, -300.0)))


def set_host(scenario: Scenario, host: Host, offset: float) -> None:
    """Set a host's wall clock; until the next reply its instance has only that."""
    host.offset = offset
    for seen in scenario.referee.seen.values():
        if seen.inst.host is host:
            seen.unsure = max(1, seen.unsure)
            scenario.referee.costs.stir(seen.inst)


def step_clock(scenario: Scenario) -> None:
    """Step the store's wall clock; two steps are some leases apart."""
    ledger, lease = scenario.referee.ledger, scenario.settings.lease
    if scenario.world.now - ledger.stepped_at < 4 * lease:
        return
    rng = scenario.world.rng
    step_store(scenario, rng.choice((0.5, -0.5, 1.5, -1.5, 2 * lease, -2 * lease, 3600, -3600)))


def step_store(scenario: Scenario, seconds: float) -> None:
    """Step the store's wall clock by so much."""
    referee = scenario.referee
    scenario.store.step(seconds)
    referee.ledger.stepped_at = scenario.world.now
    referee.liveness.forget_slots()
    for seen in referee.seen.values():
        seen.unsure = SAMPLES  # an older sample with a shorter round trip may count until then
        referee.costs.stir(seen.inst)


def slow_keeper(scenario: Scenario) -> None:
    """Have the thread that renews and looks come late for a while."""
    inst = _some(scenario)
    if inst is not None:
        rng = scenario.world.rng
        inst.keeper_delay = rng.uniform(0.05, inst.settings.heartbeat)
        scenario.world.after(rng.uniform(1.0, 2 * inst.settings.lease), _quicken, scenario, inst)


def _quicken(scenario: Scenario, inst: Instance) -> None:
    inst.keeper_delay = 0.0
    scenario.referee.seen[inst.token].reached = scenario.world.now


def all_busy(scenario: Scenario) -> None:
    """Have every handler that starts within a while take very long."""
    lease = scenario.settings.lease
    scenario.long_until = scenario.world.now + scenario.world.rng.uniform(0.5, lease)


def remove_job(scenario: Scenario) -> None:
    """Remove a job from one instance, and define it again some time later."""
    inst = _some(scenario)
    if inst is None or inst.frozen:
        return
    rng = scenario.world.rng
    name = rng.choice(sorted(scenario.jobs))
    scenario.referee.seen[inst.token].jobs.pop(name, None)
    inst.remove(name)
    scenario.referee.costs.stir(inst)
    scenario.world.after(rng.choice((0.0, rng.uniform(0.0, 8.0))), complete, scenario, inst)


def complete(scenario: Scenario, inst: Instance) -> None:
    """Define the jobs that this instance has not, or no longer."""
    seen = scenario.referee.seen[inst.token]
    if not inst.up or inst.frozen:
        return
    for name, live in scenario.jobs.items():
        if name not in seen.jobs:
            seen.jobs[name] = scenario.world.now
            scenario.referee.costs.stir(inst)
            inst.add(live.spec(inst.settings))


def replace_job(scenario: Scenario) -> None:
    """Put a new definition in the place of a job."""
    inst = _some(scenario)
    if inst is None or inst.frozen:
        return
    name = scenario.world.rng.choice(sorted(scenario.jobs))
    seen = scenario.referee.seen[inst.token]
    if name in seen.jobs:
        seen.jobs[name] = scenario.world.now
        scenario.referee.costs.stir(inst)
        inst.add(scenario.jobs[name].spec(inst.settings))


def break_schedule(scenario: Scenario) -> None:
    """Have a schedule raise for a while."""
    rng = scenario.world.rng
    live = scenario.jobs[rng.choice(sorted(scenario.jobs))]
    live.grid.broken = True
    scenario.world.after(rng.uniform(0.1, 5.0), _mend_schedule, scenario, live.name)
    scenario.referee.liveness.doubtful[live.name] = scenario.world.now + 1e6


def _mend_schedule(scenario: Scenario, name: str) -> None:
    live, liveness = scenario.jobs[name], scenario.referee.liveness
    live.grid.broken = False
    liveness.doubtful[name] = scenario.world.now + BROKEN_FOR


def pause(scenario: Scenario) -> None:
    """Pause a job, or all of them, for a while."""
    rng, store = scenario.world.rng, scenario.store
    name = rng.choice((None, *sorted(scenario.jobs)))
    duration_ms = rng.choice((500, 3000, 10_000, None))
    store.backend.pause(name, duration_ms=duration_ms)
    wall_ms = store.time.wall_ms()
    scenario.paused[name] = FOREVER if duration_ms is None else wall_ms + duration_ms
    if duration_ms is None:
        scenario.world.after(rng.uniform(0.5, 10.0), resume, scenario, name)


def resume(scenario: Scenario, name: str | None) -> None:
    """End a pause."""
    scenario.store.backend.resume(name)
    scenario.paused.pop(name, None)


def run_now(scenario: Scenario) -> None:
    """Run a job by a call."""
    inst = _some(scenario)
    if inst is None or inst.frozen:
        return
    rng, seen = scenario.world.rng, scenario.referee.seen[inst.token]
    if not seen.jobs:
        return
    key = scenario.fleet.manual_key(inst, rng.choice(sorted(seen.jobs)))
    seen.manual.add(key.manual)
    inst.run_now(key)


def cancel(scenario: Scenario) -> None:
    """Cancel an open run, whoever has it."""
    ledger = scenario.referee.ledger
    keys: list[RunKey] = sorted(ledger.open)
    if keys:
        key = scenario.world.rng.choice(keys)
        if scenario.store.backend.cancel(key):
            ledger.cancelled(key)


KINDS: dict[str, Callable[[Scenario], None]] = {
    "all_busy": all_busy,
    "break_schedule": break_schedule,
    "cancel": cancel,
    "crash": crash,
    "freeze": freeze,
    "noise": noise,
    "outage": outage,
    "pause": pause,
    "remove_job": remove_job,
    "replace_job": replace_job,
    "run_now": run_now,
    "slow_keeper": slow_keeper,
    "step_clock": step_clock,
    "step_host": step_host,
    "stop": stop,
}
