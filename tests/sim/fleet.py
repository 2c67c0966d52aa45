"""A fleet: instances on their hosts around one store, what they are asked to do, who watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anarchon._messages import (
    JobSpec,
    Settings,
)
from anarchon._values import RunKey, Terms

from .instance import Instance

if TYPE_CHECKING:
    from collections.abc import Callable

    from anarchon._messages import (
        Action,
        Input,
        Now,
        StartRun,
        StoreCall,
    )
    from anarchon._threads_lanes import StoreAnswer

    from .instance import Handler, Plan
    from .store import Store
    from .world import Host, World


class Grid:
    """The slots of `every`, in milliseconds; `broken` makes it raise, like careless user code."""

    def __init__(self, period_ms: int, phase_ms: int = 0) -> None:
        self.period_ms = period_ms
        self.phase_ms = phase_ms
        self.broken = False

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`."""
        return self._at(t_ms) + self.period_ms

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`."""
        return self._at(t_ms)

    def _at(self, t_ms: int) -> int:
        if self.broken:
            raise ValueError("no such slot")
        return self.slot_at(t_ms)

    def slot_at(self, t_ms: int) -> int:
        """Return the greatest slot at or before `t_ms`, broken or not."""
        return (t_ms - self.phase_ms) // self.period_ms * self.period_ms + self.phase_ms


class Monitor:
    """Sees everything that happens, and by itself finds nothing wrong."""

    def joined(self, inst: Instance) -> None:
        """Hear that an instance begins."""

    def died(self, inst: Instance) -> None:
        """Hear that an instance is killed; its handlers are still known."""

    def woke(self, inst: Instance) -> None:
        """Hear that a frozen instance goes on."""

    def stopped(self, inst: Instance) -> None:
        """Hear that a core says that it has stopped."""

    def handled(self, inst: Instance, message: Input, now: Now, wakeup: float | None) -> None:
        """Hear that an input was dealt with."""

    def sends(self, inst: Instance, call: StoreCall) -> None:
        """Hear that a call is to be sent."""

    def replied(
        self, inst: Instance, call: StoreCall, answer: StoreAnswer, executed_at: float
    ) -> None:
        """Hear that an answer reached the asker."""

    def unanswered(self, inst: Instance, call: StoreCall) -> None:
        """Hear that a call got no answer."""

    def starts(self, inst: Instance, action: StartRun) -> None:
        """Hear that a handler is called."""

    def aborts(self, inst: Instance, handler: Handler, reason: str) -> None:
        """Hear that a signal aborts."""

    def ended(self, inst: Instance, handler: Handler) -> None:
        """Hear that a handler ends."""

    def told(self, inst: Instance, action: Action) -> None:
        """Hear of an event, a note, an outage or a result."""


class Fate(NamedTuple):
    """What becomes of a message: seconds there and back (None: lost), and of an old copy."""

    there: float | None
    back: float | None
    copy: float | None = None


class Noise:
    """What the network does to messages; without a rate, nothing but a little jitter."""

    def __init__(self, rate: float = 0.0, longest: float = 1.0) -> None:
        self.rate = rate
        self.longest = longest

    def fate(self, host: Host) -> Fate:
        """Return what becomes of the next message from this host."""
        rng, trip = host.rng, host.trip
        there, back = trip * rng.uniform(0.9, 1.1), trip * rng.uniform(0.9, 1.1)
        if not self.rate or rng.random() >= self.rate:
            return Fate(there, back)
        kind = rng.randrange(6)
        if kind == 0:
            return Fate(None, back)
        if kind == 1:
            return Fate(there, None)
        if kind == 2:  # the request arrives after the asker gave up, maybe much later
            return Fate(there + rng.uniform(0.0, self.longest), back)
        if kind == 3:
            return Fate(there, back + rng.uniform(0.0, self.longest))
        copy = rng.uniform(0.0, 3 * self.longest)
        return Fate(there if kind == 4 else None, back, copy)


class Fleet:
    """Makes instances and keeps them."""

    def __init__(
        self,
        world: World,
        store: Store,
        plan: Callable[[Instance, StartRun], Plan],
        monitor: Monitor | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.world = world
        self.store = store
        self.plan = plan
        self.monitor = monitor or Monitor()
        self.noise = noise or Noise()
        self.instances: list[Instance] = []
        self._up: list[Instance] = []
        self._tokens = 0

    def start(self, host: Host, settings: Settings) -> Instance:
        """Make one instance, in a process of its own; `begin` gives it its jobs."""
        self._tokens += 1
        name = f"i{self._tokens}"
        inst = Instance(self, host, name, settings._replace(instance_id=name, token=f"t-{name}"))
        self.instances.append(inst)
        self._up.append(inst)
        self.monitor.joined(inst)
        return inst

    def up(self) -> list[Instance]:
        """Return the instances that live and have not stopped."""
        self._up = [inst for inst in self._up if inst.up]
        return self._up[:]

    def manual_key(self, inst: Instance, job: str) -> RunKey:
        """Return the identity of a run that is asked for now."""
        self._tokens += 1
        return RunKey(job, int(inst.host.wall() * 1000), f"m{self._tokens}")


def job(
    name: str,
    schedule: Grid,
    settings: Settings,
    *,
    budget: int = 3,
    skip_overlap: bool = True,
    catch_up: float = 3600.0,
    jitter: float = 0.02,
    timeout: float | None = None,
) -> JobSpec:
    """Return a job as the facade would make it."""
    terms = Terms(
        round(settings.lease * 1000),
        round(settings.heartbeat * 1000),
        budget,
        skip_overlap,
        round(catch_up * 1000),
    )
    return JobSpec(name, schedule, terms, jitter, timeout)


def settings(lease: float = 30.0, heartbeat: float | None = None, workers: int = 10) -> Settings:
    """Return settings with the defaults of the scheduler."""
    return Settings(lease, heartbeat or lease / 3, workers, "")
