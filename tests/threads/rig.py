"""An engine with a store in memory on a manual clock, and all that it told."""

from __future__ import annotations

import contextlib
from random import Random
from types import SimpleNamespace

from anarchon._log_lines import Line, write
from anarchon._messages import (
    Emit,
    JobSpec,
    Note,
    Return,
    RunNow,
    Settings,
    Stopped,
)
from anarchon._testing_clock import ManualClock
from anarchon._threads import Engine
from anarchon._values import (
    Limits,
    Owner,
    RunKey,
    Terms,
)
from anarchon.backends.memory import MemoryBackend


class Every:
    """A grid of slots, in milliseconds."""

    def __init__(self, period_ms):
        self.period_ms = period_ms

    def next_after_ms(self, t_ms):
        return (t_ms // self.period_ms + 1) * self.period_ms

    def latest_ms(self, t_ms):
        return t_ms // self.period_ms * self.period_ms


def job(name, handler, period=10, *, timeout=None, data=None, with_context=True, **terms):
    """Return the spec of a job that runs every `period` seconds."""
    given = {"lease_ms": 6000, "heartbeat_ms": 1000, "budget": 3, "skip_overlap": True}
    return JobSpec(
        name,
        Every(round(period * 1000)),
        Terms(**{**given, "catch_up_ms": 0, **terms}),
        jitter=0.02,
        timeout=timeout,
        job=SimpleNamespace(handler=handler, pass_context=with_context, data=data),
    )


class Rig:
    """One engine, opened and started, and everything it told in `told`; lines are logged."""

    def __init__(self, clock, backend, *specs, name="a", workers=2, around=None, on_action=None):
        self.clock = clock
        self.told = []
        self.settings = Settings(lease=6.0, heartbeat=1.0, workers=workers, instance_id=name)
        self.engine = Engine(
            backend,
            self.settings,
            Owner(f"token-{name}", name),
            Limits(quick=0.2, call=0.4),
            clock,
            around=around,
            on_action=on_action or self.hear,
            rng=Random(name),
        )
        self.info = self.engine.open(specs)
        self.engine.start()

    def hear(self, told):
        if isinstance(told, Line):
            write(told)
        else:
            self.told.append(told)

    def events(self, *kinds):
        """Return the run events told, or those of some kinds, as (event, run)."""
        emits = [a for a in self.told if isinstance(a, Emit)]
        return [(a.event, a.run) for a in emits if not kinds or a.event in kinds]

    def names(self):
        """Return the names of the run events, in order."""
        return [event for event, _ in self.events()]

    def notes(self, kind):
        return [a for a in self.told if isinstance(a, Note) and a.kind == kind]

    def returned(self):
        return [a.run for a in self.told if isinstance(a, Return)]

    def run_now(self, name, token, data=None, *, has_data=False):
        slot_ms = int(self.clock.wall() * 1000)
        self.engine.give(RunNow(RunKey(name, slot_ms, token), data, has_data))

    def stop(self, timeout=5.0):
        """Stop the engine, and say whether it has ended."""
        self.engine.stop(timeout)
        return self.engine.join(timeout + 10)

    @property
    def stopped(self):
        return bool(self.told) and isinstance(self.told[-1], Stopped)


def attached(clock, backend):
    """Put a backend on a clock, as `attach` does for a scheduler's."""
    clock.attach(
        SimpleNamespace(state="idle", _clock=None, _options=SimpleNamespace(backend=backend))
    )
    return backend


@contextlib.contextmanager
def running(*specs, **options):
    """Yield a rig on a clock and a store of its own, stopped afterwards."""
    clock = ManualClock()
    rig = Rig(clock, attached(clock, MemoryBackend()), *specs, **options)
    try:
        yield rig
    finally:
        assert rig.stop()
