"""What is done to a fleet and its jobs: deploys, restarts, jobs that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from .instance import Instance
    from .scenario import Scenario
    from .versions import Version
    from .world import Host

BROKEN_FOR = 61.0  # a schedule that raised is asked again after a minute


def end_process(inst: Instance) -> None:
    """End a process, stopped or not."""
    if inst.alive:
        inst.crash()


def _awake(scenario: Scenario, rng: Random) -> Instance | None:
    up = [i for i in scenario.fleet.up() if i.stopping_at is None and not i.frozen]
    return rng.choice(up) if up else None


def _on(scenario: Scenario, host: Host) -> Instance | None:
    return next((inst for inst in scenario.fleet.up() if inst.host is host), None)


# --- deploys ----------------------------------------------------------------------


def deploy(scenario: Scenario, rng: Random) -> bool:
    """Roll a version with other schedules out, instance by instance; some get stuck half way."""
    if scenario.deploying:
        return False
    scenario.deploying = True
    version = scenario.next_version(rng)
    hosts = rng.sample(scenario.hosts, len(scenario.hosts))
    if rng.random() < 0.2:
        hosts = hosts[: -(-len(hosts) // 2)]
    pause = rng.choice((0.1, 1.0, 3.0))
    at = 0.0
    for host in hosts:
        at += rng.uniform(0.0, 2 * pause)
        timeout = rng.choice((0.1, 1.0, 3.0))
        scenario.world.after(at, _roll, scenario, host, version, timeout)
    scenario.world.after(at, _deployed, scenario)
    return True


def _roll(scenario: Scenario, host: Host, version: Version, timeout: float) -> None:
    """Stop what runs on a host, and start the new version there."""
    if scenario.healing:
        return
    scenario.version_of[host] = version
    scenario.referee.say(host.name, "gets version", version.number)
    restart(scenario, host, timeout)


def _deployed(scenario: Scenario) -> None:
    scenario.deploying = False


def restart(scenario: Scenario, host: Host, timeout: float) -> None:
    """Stop what runs on a host gracefully, and start anew as soon as it has stopped."""
    inst = _on(scenario, host)
    if inst is None or inst.stopping_at is not None:
        return  # whatever ended it starts the next one
    if not inst.frozen:
        inst.stop(timeout)
    limit = timeout + inst.settings.heartbeat + 0.5
    scenario.world.after(0.05, _follow, scenario, inst, scenario.world.now + limit)


def _follow(scenario: Scenario, inst: Instance, until: float) -> None:
    """Start the next process when this one has stopped, or kill it when its time is over."""
    if inst.up and scenario.world.now < until:
        scenario.world.after(0.2, _follow, scenario, inst, until)
        return
    end_process(inst)
    scenario.start(inst.host)


def restarts(scenario: Scenario, rng: Random) -> bool:
    """Have every instance restarted every few seconds, for a while."""
    if scenario.restarting > scenario.world.now:
        return False
    scenario.restarting = until = scenario.world.now + rng.uniform(5.0, 15.0)
    for host in scenario.hosts:
        scenario.world.after(rng.uniform(0.0, 3.0), _cycle, scenario, host, until, rng)
    return True


def _cycle(scenario: Scenario, host: Host, until: float, rng: Random) -> None:
    if scenario.healing or scenario.world.now > until:
        return
    inst = _on(scenario, host)
    if rng.random() < 0.8:
        restart(scenario, host, rng.choice((0.1, 0.5, 2.0)))
    elif inst is not None and inst.stopping_at is None:
        inst.crash()
        scenario.start(host)
    scenario.world.after(rng.uniform(1.5, 4.0), _cycle, scenario, host, until, rng)


# --- jobs -------------------------------------------------------------------------


def remove_job(scenario: Scenario, rng: Random) -> bool:
    """Remove a job from one instance, and define it again some time later."""
    inst = _awake(scenario, rng)
    if inst is None:
        return False
    name = rng.choice(sorted(scenario.runs[inst].jobs))
    scenario.referee.undefines(inst, name)
    inst.remove(name)
    scenario.referee.costs.stir(inst)
    scenario.world.after(rng.choice((0.0, rng.uniform(0.0, 8.0))), complete, scenario, inst)
    return True


def complete(scenario: Scenario, inst: Instance) -> None:
    """Define the jobs that this instance has not, or no longer."""
    seen = scenario.referee.seen[inst.token]
    if not inst.up or inst.frozen:
        return
    for name, live in scenario.runs[inst].jobs.items():
        if name not in seen.jobs:
            scenario.referee.defines(inst, [live])
            scenario.referee.costs.stir(inst)
            inst.add(live.spec(inst.settings))


def replace_job(scenario: Scenario, rng: Random) -> bool:
    """Put a new definition in the place of a job."""
    inst = _awake(scenario, rng)
    if inst is None:
        return False
    live = rng.choice(list(scenario.runs[inst].jobs.values()))
    if live.name not in scenario.referee.seen[inst.token].jobs:
        return False
    scenario.referee.defines(inst, [live])
    scenario.referee.costs.stir(inst)
    inst.add(live.spec(inst.settings))
    return True


def break_schedule(scenario: Scenario, rng: Random) -> bool:
    """Have a schedule raise for a while."""
    live = rng.choice(list(scenario.jobs.values()))
    live.grid.broken = True
    liveness = scenario.referee.liveness
    liveness.doubtful[live.name] = scenario.world.now + 1e6

    def mend() -> None:
        live.grid.broken = False
        liveness.doubtful[live.name] = scenario.world.now + BROKEN_FOR

    scenario.world.after(rng.uniform(0.1, 5.0), mend)
    return True
