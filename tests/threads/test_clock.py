"""The host's clock in slices, and the estimate of the store's clock."""

from __future__ import annotations

import math
import signal
import threading
import time
from queue import SimpleQueue

import pytest

from anarchon._clock import MOST_SPANS, SIGNAL_WAIT, Clock, StoreClock
from anarchon._messages import (
    Settings,
)
from anarchon._signal import Signal, Switch
from anarchon._values import (
    Pace,
)

SETTINGS = Settings(lease=30.0, heartbeat=10.0, workers=1, instance_id="a")
WITNESS = 27.0  # lease less margin
WALL = 1_800_000_000.0


class Store:
    """A store's clock and ours, told apart by numbers alone."""

    def __init__(self, *, steady=False, ahead=0.0):
        self.clock = StoreClock(SETTINGS, steady=steady)
        self.ahead = ahead  # the store's clock minus our wall clock
        self.apart = WALL  # our wall clock minus our monotonic one

    def reply(self, mono, rtt=0.0, skew=0.0):
        """Have a reply received at `mono`; its stamp is `skew` off the middle."""
        middle = mono - rtt / 2
        store = middle + self.apart + self.ahead + skew
        self.clock.heard(mono - rtt, mono, mono + self.apart, round(store * 1000))
        return self.clock.agrees(mono - rtt)

    def reading(self, mono):
        """Return by how many seconds the reading is ahead of our wall clock."""
        return self.clock.reading(mono + self.apart, mono) / 1000 - mono - self.apart


# --- the host's clock ---


def test_a_get_ends_with_the_item_or_with_the_timeout():
    queue = SimpleQueue()
    queue.put("x")
    assert Clock().get(queue, None) == "x"
    assert Clock().get(queue, 0) is None
    assert Clock().get(queue, -1) is None
    assert Clock().get(queue, 0.01) is None


@pytest.mark.parametrize("timeout", [1e20, math.inf, threading.TIMEOUT_MAX * 2])
def test_a_wait_longer_than_the_platform_can_is_no_error(timeout):
    clock, queue = Clock(), SimpleQueue()
    told = Signal(switch := Switch(clock))
    queue.put("x")
    assert clock.get(queue, timeout) == "x"
    threading.Timer(0.02, switch.abort, (told, "stop")).start()
    assert told.wait(timeout)


def slices_of_a_wait(*, main):
    slices = []

    class Queue:
        def get(self, timeout):
            slices.append(timeout)
            if len(slices) == 3:
                return "x"
            from queue import Empty

            raise Empty

    def wait():
        assert Clock().get(Queue(), 10_000) == "x"

    if main:
        wait()
    else:
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    return slices


def test_long_waits_are_cut_into_slices():
    assert slices_of_a_wait(main=False) == [60.0, 60.0, 60.0]


def test_waits_of_the_main_thread_are_cut_into_short_slices_for_signals():
    assert slices_of_a_wait(main=True) == [SIGNAL_WAIT] * 3


def test_a_signal_that_does_not_end_the_wait_of_the_main_thread_is_handled_soon():
    queue = SimpleQueue()
    before = signal.signal(signal.SIGUSR1, lambda *_: queue.put("handled"))
    # Raised on another thread, it interrupts that one only.
    timer = threading.Timer(0.05, signal.raise_signal, (signal.SIGUSR1,))
    try:
        timer.start()
        began = time.monotonic()
        assert Clock().get(queue, 10) == "handled"
        assert time.monotonic() - began < 5
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("timeout", [0, -1, 0.01, math.nan])
def test_a_signal_waits_as_an_event_does(timeout):
    told = Signal(Switch(Clock()))
    assert told.wait(timeout) is False


# --- the estimate ---


def test_without_a_reply_the_reading_is_the_own_clock():
    store = Store()
    assert store.reading(5.0) == 0
    assert store.clock.offset == 0


def test_the_reply_with_the_least_error_counts():
    store = Store(ahead=0.2)
    store.reply(1.0, rtt=0.002)
    store.reply(2.0, rtt=0.4, skew=0.15)
    assert store.reading(2.0) == pytest.approx(0.2, abs=0.0015)


def test_a_good_reply_ages():
    store = Store()
    store.reply(0.0, rtt=0.01)  # error 5 ms
    store.ahead = 0.04
    store.reply(50.0, rtt=0.014)  # error 7 ms; after 50 s the first one's is 7.5 ms
    assert store.reading(50.0) == pytest.approx(0.04, abs=0.0015)


def test_only_the_last_eight_replies_count():
    store = Store(ahead=0.5)
    store.reply(0.0)
    store.ahead = 0.0
    for i in range(8):
        store.reply(0.1 + i / 100, rtt=0.1)
    assert store.reading(0.2) == pytest.approx(0.0, abs=0.0015)


@pytest.mark.parametrize("step", [0.11, -0.11, 3600.0])
def test_a_step_of_the_wall_clock_throws_the_replies_away(step):
    store = Store(ahead=0.3)
    store.reply(1.0)
    assert store.reading(2.0) == pytest.approx(0.3, abs=0.0015)
    store.apart += step
    assert store.reading(3.0) == pytest.approx(0.0, abs=0.0015)
    store.ahead = 0.3 - step if abs(step) < 1 else 0.3
    store.reply(4.0)
    assert store.reading(4.0) == pytest.approx(store.ahead, abs=0.0015)


def test_slewing_is_no_step():
    store = Store(ahead=0.3)
    store.reply(0.0)
    for second in range(1, 50):
        store.apart += 0.09
        store.ahead -= 0.09
        assert store.clock._samples, second
        store.reading(float(second))


def test_a_step_while_a_call_was_out_leaves_that_reply():
    store = Store(ahead=0.3)
    store.reply(1.0)
    store.reading(2.0)
    store.apart += 5.0
    store.ahead -= 5.0
    store.reply(3.0)
    assert store.reading(3.0) == pytest.approx(min(0.0, store.ahead), abs=0.0015)


@pytest.mark.parametrize(("ahead", "expected"), [(300.0, 0.0), (-300.0, -300.0)])
def test_beyond_a_second_the_earlier_reading_counts(ahead, expected):
    store = Store(ahead=ahead)
    store.reply(1.0)
    assert store.reading(1.0) == pytest.approx(expected, abs=0.0015)
    assert store.clock.far
    assert store.clock.offset == pytest.approx(ahead, abs=0.0015)


def test_far_ends_below_nine_tenths_of_a_second():
    store = Store()
    seen = []
    for i, ahead in enumerate([0.95, 1.05, 0.95, 0.91, 0.89, 0.95]):
        store.ahead = ahead
        for part in range(8):
            store.reply(i + part / 10)
        seen.append((store.reading(i + 0.9) > 0.5, store.clock.far))
    near, far = (True, False), (False, True)
    assert seen == [near, far, far, far, near, near]


def test_a_reading_is_never_ahead_of_the_clock_it_is_read_from():
    store = StoreClock(SETTINGS, steady=True)
    assert store.reading(1.9999, 0.0) == 1999
    assert store.reading(2.0, 0.0001) == 2000
    assert store.reading(1_767_225_610.0, 0.0002) == 1_767_225_610_000


# --- agreement ---


def beats(store, first, last, every=10.0, rtt=0.01):
    """Have replies from `first` to `last`; return whether the last one agrees."""
    agreed, mono = False, first
    while mono <= last:
        agreed = store.reply(mono, rtt)
        mono += every
    return agreed


def test_a_young_process_never_agrees():
    assert not beats(Store(), 0.0, 20.0)
    assert beats(Store(), 0.0, 30.0)


def test_a_steady_store_always_agrees():
    store = Store(steady=True)
    assert store.reply(1.0)
    assert store.clock.pace(2.0) == Pace(2.0)


@pytest.mark.parametrize("step", [1.6, -1.6, 3600.0])
def test_a_step_of_half_the_margin_ends_agreement_for_a_witness(step):
    store = Store()
    assert beats(store, 0.0, 60.0)
    store.ahead += step
    assert not beats(store, 70.0, 90.0)
    assert beats(store, 100.0, 100.0)


def test_a_smaller_step_is_borne():
    store = Store()
    beats(store, 0.0, 60.0)
    store.ahead += 1.4
    assert beats(store, 70.0, 70.0)


def test_steps_of_our_wall_clock_play_no_part():
    store = Store()
    beats(store, 0.0, 60.0)
    store.apart += 3600
    store.ahead -= 3600
    assert beats(store, 70.0, 70.0)


def test_a_step_that_the_round_trips_explain_is_none():
    store = Store()
    beats(store, 0.0, 30.0, rtt=4.0)
    store.ahead += 1.6
    assert beats(store, 40.0, 40.0, rtt=4.0)


def test_small_steps_add_up():
    store = Store()
    agreed = []
    for i in range(10):
        store.ahead += 0.6
        agreed.append(store.reply(i * 10.0, 0.01))
    assert not any(agreed)


def test_a_silence_of_more_than_one_and_a_half_heartbeats_starts_anew():
    store = Store()
    beats(store, 0.0, 60.0)
    assert store.reply(74.9)
    assert not store.reply(91.0)
    assert not beats(store, 101.0, 111.0)
    assert beats(store, 121.0, 121.0)


def test_a_claim_says_what_store_time_should_be_and_since_when():
    store = Store(ahead=7.0)
    beats(store, 0.0, 40.0, rtt=0.0)
    pace = store.clock.pace(44.0)
    assert pace.sent == 44.0
    assert pace.expected_ms == round((44.0 + WALL + 7.0) * 1000)
    assert pace.steady_ms == 44_000
    assert store.clock.pace(56.0).steady_ms == 0  # too long a silence before it
    assert Store().clock.pace(1.0) == Pace(1.0)


def test_the_expected_time_is_the_least_upper_bound():
    store = Store()
    store.reply(10.0, rtt=1.0)
    store.reply(20.0, rtt=0.2)
    # The second request took 0.1 s to the store, so no request finds less than that.
    assert store.clock.pace(21.0).expected_ms == round((21.1 + WALL) * 1000)


def test_what_is_long_ago_is_forgotten():
    store = Store()
    beats(store, 0.0, 1000.0)
    assert 120_000 <= store.clock.pace(1000.0).steady_ms <= 130_000
    assert len(store.clock._spans) < 20


def test_a_flood_of_replies_takes_bounded_memory():
    store = Store()
    for i in range(4_000):
        agreed = store.reply(i / 50, rtt=0.001)
    assert agreed
    assert len(store.clock._spans) <= MOST_SPANS
    store.ahead += 2.0
    assert not store.reply(80.1)
