"""The engine with the real core: claims, runs, aborts and stops, on a manual clock."""

from __future__ import annotations

from anarchon._manual_clock import ManualClock
from anarchon._values import Stopped
from anarchon.backends.memory import MemoryBackend

from tests.threads.rig import Rig, attached, job, running


def test_a_due_slot_runs_once_with_its_context():
    seen = []
    with running(job("a", seen.append, data={"x": 1})) as rig:
        rig.clock.advance("10s")
        rig.clock.advance("1s")
        assert rig.names() == ["started", "success"]
        (ctx,) = seen
        assert ctx.slot == rig.events()[0][1].slot == 1767225610000
        assert (ctx.name, ctx.attempt, ctx.reason, ctx.manual) == ("a", 1, "scheduled", False)
        assert (ctx.data, ctx.instance_id) == ({"x": 1}, "a")
        assert ctx.previous_slot == ctx.slot - 10_000


def test_two_instances_on_one_clock_share_the_slots():
    ran = []
    clock = ManualClock()
    store = attached(clock, MemoryBackend())
    rigs = [
        Rig(clock, store, job("a", lambda c: ran.append((c.slot, c.instance_id)), 1), name=name)
        for name in ("a", "b")
    ]
    clock.advance("30s")
    slots = [slot for slot, _ in ran]
    assert len(slots) == len(set(slots))
    assert len(slots) in (29, 30)
    assert {who for _, who in ran} == {"a", "b"}
    for rig in rigs:
        assert rig.stop()
        assert isinstance(rig.told[-1], Stopped)
