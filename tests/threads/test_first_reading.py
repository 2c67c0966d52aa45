"""The first reading of the store's clock: a slow opening doesn't pass for a clock that is ahead."""

from __future__ import annotations

from anarchon import MemoryBackend, Scheduler
from anarchon.testing import ManualClock


class Late(MemoryBackend):
    """Takes its time to open, as one does that loads a driver; the clock is asked at the end."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def open(self, limits):
        self._clock._mono += 1.6  # nobody waits on it yet
        info = super().open(limits)
        self._clock._mono += 0.2
        return info._replace(trip=0.0, age=0.2)


def test_a_slot_right_after_a_slow_opening_is_run():
    clock, ran = ManualClock(), []
    begun = round(clock.now().timestamp() * 1000)
    scheduler = Scheduler(Late(clock))
    scheduler.every("tick", "500ms", lambda ctx: ran.append(ctx.slot - begun), catch_up=0)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1s")
    assert ran == [2000, 2500]
