"""The clocks: this host's, on which everything waits, and the estimate of the store's.

`Clock` is the only place where the engine reads the time or waits, so that a test can put
another one in its place. `StoreClock` turns the replies of the store into the fleet's
reading of the time; it never reads a clock itself, and a simulator uses it as it is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from math import inf
from queue import Empty
from typing import TYPE_CHECKING, TypeVar

from ._named import NamedTuple
from ._values import Pace

if TYPE_CHECKING:
    from queue import SimpleQueue
    from random import Random

    from ._messages import (
        Settings,
    )
    from ._signal import Signal

T = TypeVar("T")

# How long, in real seconds, a test's clock stands still for a thread that is busy with
# something else: what never ends must not stop the time of everybody for ever.
HANDLER_PATIENCE = 0.25
ENGINE_PATIENCE = 2.0

# A signal ends a wait of the main thread only if it finds that thread inside the wait. One
# that comes a moment too early, or on another thread, is handled when the wait ends.
SIGNAL_WAIT = 0.2

SAMPLES = 8
DRIFT = 50e-6  # what two quartz clocks may drift apart, as a share of the time passed
STEP_SECONDS = 0.1  # wall and monotonic clock moving apart by more is a step or a suspend
FAR_SECONDS = 1.0
NEAR_SECONDS = 0.9
MOST_SPANS = 64


class Clock:
    """This host's clocks, and every wait on them.

    All methods may be called from any thread.
    """

    longest_wait = 60.0
    """The longest slice of a wait, in seconds."""

    def wall(self) -> float:
        """Return the seconds since 1970 UTC, on a clock that may step."""
        return time.time()

    def mono(self) -> float:
        """Return the seconds of a clock that never steps; its zero means nothing."""
        return time.monotonic()

    def get(self, queue: SimpleQueue[T], timeout: float | None) -> T | None:
        """Return the next item of a queue, or None after `timeout` seconds (None: never)."""
        for_signals = threading.get_ident() == threading.main_thread().ident
        if timeout is None and not for_signals:
            return queue.get()
        until = inf if timeout is None else self.mono() + timeout
        longest = min(self.longest_wait, SIGNAL_WAIT) if for_signals else self.longest_wait
        while True:
            left = until - self.mono()
            try:
                return queue.get(timeout=max(0.0, min(left, longest)))
            except Empty:
                if left <= longest:
                    return None

    def get_still(self, queue: SimpleQueue[T]) -> T | None:
        """Return the next item of a queue, for which no time has to pass on this clock."""
        return self.get(queue, None)

    def get_by_wall(self, queue: SimpleQueue[T], timeout: float | None) -> T | None:
        """Return as `get` does, but with None within a minute.

        For who waits for a wall time: that clock has to be looked at again and again.
        """
        return self.get(queue, None if timeout is None else min(timeout, self.longest_wait))

    def wait(self, signal: Signal, timeout: float | None) -> bool:
        """Wait for a run's signal as `threading.Event.wait` does, however long that is."""
        # Called on the class, because a signal's own `wait` comes here.
        wait = threading.Event.wait
        if timeout is None:
            return wait(signal)
        until = self.mono() + timeout
        while not wait(signal, min(until - self.mono(), self.longest_wait)):
            if not self.mono() < until:
                return signal.is_set()
        return True

    def enrol(self, thread: threading.Thread, *, patience: float = ENGINE_PATIENCE) -> None:
        """Tell of a thread, right before its start, that waits on this clock.

        It means something only to a clock that stands still while somebody is busy: the
        thread counts as busy whenever it isn't waiting here, for `patience` seconds.
        """

    def dismiss(self, thread: threading.Thread) -> None:
        """Take back an `enrol`: the thread could not be started."""

    def rng(self) -> Random:
        """Return what the engine draws its random times from."""
        from random import Random

        return Random()


class Span(NamedTuple):
    """Some neighbouring replies: when they came, and the bounds they set.

    `low` and `high` bound the store's clock minus our monotonic one: the store read its
    clock after the request was sent and before the reply was received.
    """

    first_received: float
    last_sent: float
    low: float
    high: float


class Basis(NamedTuple):
    """What a claim may say about the clocks, frozen so that another thread can say it."""

    ahead: float  # the store's clock minus our monotonic one, at most
    since: float  # since when it kept pace
    heard: float  # when the last reply came
    reach: float  # the longest silence over which it still counts
    steady: bool  # the store's lease clock can't step

    def pace(self, sent: float) -> Pace:
        """Return what a claim sent at this monotonic instant says."""
        if self.steady or self.heard == -inf:
            return Pace(sent)
        kept = sent - self.since if sent - self.heard <= self.reach else 0.0
        return Pace(sent, round((sent + self.ahead) * 1000), max(0, int(kept * 1000)))


class Sample(NamedTuple):
    """One reply's word on the store's clock: seconds ahead of our wall clock."""

    offset: float
    error: float  # half the round trip
    at: float  # monotonic


class StoreClock:
    """The fleet's reading of the time, and whether the store's clock keeps pace.

    Pure: every time is given. Used from one thread. `steady` says that the clock by
    which the store judges leases can't step.
    """

    def __init__(self, settings: Settings, *, steady: bool) -> None:
        self._steady = steady
        self._margin = settings.margin
        self._witness = settings.lease - settings.margin
        self._horizon = 4 * settings.lease
        self._reach = 1.5 * settings.heartbeat
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._apart: float | None = None  # wall minus monotonic at the last wake-up
        self._spans: list[Span] = []
        self.offset = 0.0
        """The store's clock minus this host's, in seconds, at the last reading."""
        self.far = False
        """Whether the two differ by more than a second."""

    def heard(self, sent: float, received: float, wall: float, store_ms: int) -> None:
        """Take the store's time from a reply.

        Args:
            sent: Our monotonic clock right before the request.
            received: Our monotonic clock right after the reply.
            wall: Our wall clock right after the reply.
            store_ms: The store's time in the reply.
        """
        self._watch(wall, received)
        half = (received - sent) / 2
        self._samples.append(Sample(store_ms / 1000 - (wall - half), half, received - half))
        self._keep_pace(sent, received, store_ms / 1000)

    def reading(self, wall: float, mono: float) -> int:
        """Return the fleet's time in milliseconds, given our two clocks now.

        Called at every wake-up: that is how a step of the wall clock is noticed.
        """
        self._watch(wall, mono)
        if not self._samples:
            self.offset = 0.0
            return _floor_ms(wall)
        best = min(self._samples, key=lambda s: s.error + DRIFT * (mono - s.at))
        self.offset = best.offset
        self.far = abs(best.offset) > (NEAR_SECONDS if self.far else FAR_SECONDS)
        return _floor_ms(wall + (min(0.0, best.offset) if self.far else best.offset))

    def basis(self) -> Basis:
        """Return what claims may say, as of the last reply."""
        if not self._spans:
            return Basis(0.0, -inf, -inf, self._reach, self._steady)
        high = min(span.high for span in self._spans)
        first, last = self._spans[0], self._spans[-1]
        return Basis(high, first.first_received, last.last_sent, self._reach, self._steady)

    def pace(self, sent: float) -> Pace:
        """Return what a claim sent at this monotonic instant says about our clock."""
        return self.basis().pace(sent)

    def agrees(self, sent: float) -> bool:
        """Say whether the store's clock kept pace with ours up to a request sent then.

        It did when all replies of the last lease - margin, the one before those and the
        request's own leave room for no step of half the margin, without a long silence.
        """
        return self._steady or self.pace(sent).steady_ms >= self._witness * 1000

    def _watch(self, wall: float, mono: float) -> None:
        apart = wall - mono
        if self._apart is not None and abs(apart - self._apart) > STEP_SECONDS:
            self._samples.clear()
        self._apart = apart

    def _keep_pace(self, sent: float, received: float, store: float) -> None:
        """Keep the newest replies that fit together; older ones never will again."""
        if self._steady:
            return
        spans = [*self._spans, Span(received, sent, store - received, store - sent)]
        low, high, kept = -inf, inf, len(spans)
        for i in range(len(spans) - 1, -1, -1):
            silence = 0.0 if kept == len(spans) else spans[kept].first_received - spans[i].last_sent
            low, high = max(low, spans[i].low), min(high, spans[i].high)
            if silence > self._reach or low - high >= self._margin / 2:
                break
            kept = i
        spans = spans[kept:]
        while len(spans) > 1 and spans[1].first_received <= received - self._horizon:
            del spans[0]
        self._spans = _halved(spans) if len(spans) > MOST_SPANS else spans


def _halved(spans: list[Span]) -> list[Span]:
    """Join neighbours two by two: the bounds stay, only their places get coarser."""
    pairs = zip(spans[::2], spans[1::2], strict=False)
    joined = [
        Span(a.first_received, b.last_sent, max(a.low, b.low), min(a.high, b.high))
        for a, b in pairs
    ]
    return joined + spans[len(joined) * 2 :]


def _floor_ms(seconds: float) -> int:
    """Return whole milliseconds: never ahead, but for what a float can't say exactly."""
    return int(seconds * 1000 + 0.001)
