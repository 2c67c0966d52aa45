"""A clock that a test moves by hand, so that hours pass in milliseconds and always alike.

Time stands still while anything is going on. `advance` goes from one instant at which
somebody's wait ends to the next, wakes one waiter at a time, and lets everything that
follows come to rest before it goes on.

How it knows that everything has come to rest is in ``_testing_rest.py``.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from random import Random
from threading import RLock, current_thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ._clock import Clock
from ._durations import parse_ms, shown
from ._testing_rest import Mark, Place, Rest
from .errors import ConfigurationError

if TYPE_CHECKING:
    from ._durations import Duration
    from ._signal import Signal
    from .scheduler import Scheduler

T = TypeVar("T")

_START = datetime(2026, 1, 1, tzinfo=UTC)
_NOISE_US = 0.001
_SOON = 0.005  # real seconds: for what comes from a thread that isn't on the clock


class _Earliest(Random):
    """Draws the least number each time: no delay of a claim, and of two bounds the lower."""

    def random(self) -> float:
        return 0.0


class _HostTime:
    """The time of local backends, on a manual clock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def wall_ms(self) -> int:
        return math.floor(self._clock.wall() * 1000 + 0.001)

    def lease_ms(self) -> int:
        return math.floor(self._clock.mono() * 1000 + 0.001)


class ManualClock(Rest, Clock):
    """A clock for tests: its time moves only in `advance`.

    Several schedulers may be attached to one clock, also such that share a
    `MemoryBackend`. The waits of `ctx.signal` are on this clock as well; a handler that
    waits for something else is given a moment of real time, then time goes on without it.

    The thread that makes a clock is the one that moves it: where that thread itself waits
    on the clock, as in `Scheduler.stop`, time passes as far as it has to.

    Nothing is left to chance: the random delay before a claim (``jitter``) is always 0,
    so a slot runs when time gets to it, and has run when `advance` returns::

        clock = ManualClock()
        scheduler = Scheduler(MemoryBackend())
        scheduler.every("sync", "10s", lambda: seen.append(clock.now()), catch_up=0)
        clock.attach(scheduler)
        with scheduler:
            clock.advance("10s")
            assert len(seen) == 1

    The default start lies on the grid of every usual interval. So it is a slot itself, and
    with the default ``catch_up`` that one runs at the start, before any time has passed;
    the ``catch_up=0`` above leaves it out.

    Args:
        start: The wall time to begin with, an aware datetime; default 2026-01-01 UTC.
    """

    def __init__(self, start: datetime = _START) -> None:
        if not isinstance(start, datetime) or start.utcoffset() is None:
            raise ConfigurationError(
                f"start: {shown(start)} is no time with a zone; give an aware datetime"
            )
        super().__init__()
        self._mono = 1000.0
        self._ahead = start.timestamp() - self._mono
        self._driver = RLock()
        self._maker = current_thread()
        self._numbers = 0

    # --- for tests ---

    def now(self) -> datetime:
        """Return the wall time as an aware datetime in UTC."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=round(self.wall(), 6))

    def attach(self, scheduler: Scheduler) -> None:
        """Put an idle scheduler, and its backend if that is a local one, on this clock.

        Raises:
            RuntimeError: The scheduler isn't idle.
        """
        if scheduler.state != "idle":
            raise RuntimeError("attach the clock before start(), or after stop()")
        scheduler._clock = self  # noqa: SLF001 - there is no public way, on purpose
        backend: Any = scheduler._options.backend  # noqa: SLF001
        while backend is not None:
            if hasattr(backend, "_time"):
                backend._time = _HostTime(self)  # noqa: SLF001
            backend = getattr(backend, "inner", None)

    def advance(self, duration: Duration) -> None:
        """Let time pass, and return when all that it sets off has come to rest.

        With 0 it only waits for that.

        Raises:
            ConfigurationError: The duration is wrong.
            RuntimeError: The caller is a handler or another thread of a scheduler.
        """
        seconds = parse_ms(duration, what="advance") / 1000
        if current_thread() in self._members:
            raise RuntimeError("only the test moves the clock, not what runs on it")
        with self._driver:
            target = round(self._mono + seconds, 6)
            self._forgive()
            self._settle()
            while self._step(target):
                self._settle()

    def step_wall(self, duration: Duration) -> None:
        """Step the wall clock, also back: a negative number or timedelta, or ``"-1h"``.

        As on a host, nothing that waits for a wall time notices before it wakes up,
        which is within a minute.
        """
        seconds = _signed_seconds(duration)
        with self._lock:
            self._ahead += seconds
            soon = self._mono + self.longest_wait
            for place in self._places.values():
                if place.by_wall:
                    place.deadline = min(place.deadline, soon)

    # --- for the engine ---

    def wall(self) -> float:
        """Return the seconds since 1970 UTC."""
        return self._mono + self._ahead

    def mono(self) -> float:
        """Return the monotonic seconds."""
        return self._mono

    def get(self, queue: SimpleQueue[T], timeout: float | None) -> T | None:
        """Return the next item of a queue, or None when so much time has passed."""
        if timeout is not None and timeout <= 0:
            return _item_soon(queue, 0.0)
        if current_thread() == self._maker:
            return self._drive(queue, timeout)
        return self._get(queue, self._enter(queue, timeout))

    def get_still(self, queue: SimpleQueue[T]) -> T | None:
        """Return the next item of a queue, in real time, when what follows is at rest."""
        item = super().get(queue, None)
        if current_thread() == self._maker:
            self.advance(0)
        return item

    def get_by_wall(self, queue: SimpleQueue[T], timeout: float | None) -> T | None:
        """Return as `get` does, but with None within a minute after a step of the wall clock."""
        if timeout is None or timeout <= 0:
            return self.get(queue, timeout)
        place = self._enter(queue, timeout)
        place.by_wall = True
        return self._get(queue, place)

    def wait(self, signal: Signal, timeout: float | None) -> bool:
        """Wait for a run's signal until so much time has passed."""
        if signal.is_set():
            return True
        wakes: SimpleQueue[bool] = SimpleQueue()
        signal._switch.hook(wake := lambda: wakes.put(True))  # noqa: SLF001
        try:
            self.get(wakes, timeout)
        finally:
            signal._switch.unhook(wake)  # noqa: SLF001
        return signal.is_set()

    def rng(self) -> Random:
        """Return a source of random times that gives the earliest one each time."""
        return _Earliest()

    # --- waiting ---

    def _get(self, queue: SimpleQueue[T], place: Place) -> T | None:
        try:
            while True:
                item = queue.get()
                if not isinstance(item, Mark):
                    return item
                if item.place is place and not item.round_number:
                    return None
                if item.place is place:
                    with self._lock:
                        place.marked = item.round_number
                        self._lock.notify_all()
        finally:
            self._leave(place)

    def _enter(self, queue: SimpleQueue[T], timeout: float | None) -> Place:
        with self._lock:
            deadline = math.inf if timeout is None else _end_of_wait(self._mono, timeout)
            self._numbers += 1
            marks = cast("SimpleQueue[object]", queue)
            place = self._places[current_thread()] = Place(marks, deadline, self._numbers)
            self._moves += 1
            member = self._members.get(current_thread())
            if member is not None:
                member.forgive()
            self._lock.notify_all()
            return place

    def _leave(self, place: Place) -> None:
        with self._lock:
            if self._places.get(current_thread()) is place:
                del self._places[current_thread()]
            member = self._members.get(current_thread())
            if member is not None:
                member.forgive()
            self._moves += 1
            self._lock.notify_all()

    # --- moving ---

    def _step(self, target: float) -> bool:
        """Go to the next end of a wait and end it; False when the target is reached."""
        with self._lock:
            ending = (p for p in self._places.values() if p.deadline < math.inf)
            waiting = [p for p in ending if not p.woken and p.deadline <= target]
            if not waiting:
                self._mono = self._mono if target == math.inf else max(self._mono, target)
                return False
            place = min(waiting, key=lambda p: (p.deadline, p.number))
            self._mono = max(self._mono, place.deadline)
            place.woken = True
            self._moves += 1
            place.queue.put(Mark(place, 0))
            return True

    def _drive(self, queue: SimpleQueue[T], timeout: float | None) -> T | None:
        """Wait on the thread that moves the clock: nobody else can, so time passes here."""
        with self._driver:
            until = math.inf if timeout is None else _end_of_wait(self._mono, timeout)
            self._forgive()
            while True:
                self._settle()
                item = _item_soon(queue, _SOON)
                if item is not None:
                    return item
                if not self._step(until) and until < math.inf:
                    return None


def _item_soon(queue: SimpleQueue[T], seconds: float) -> T | None:
    """Return the next item that is no mark, waiting in real time."""
    while True:
        try:
            item = queue.get(timeout=seconds)
        except Empty:
            return None
        if not isinstance(item, Mark):
            return item


def _end_of_wait(mono: float, timeout: float) -> float:
    """Return when a wait ends, in whole microseconds and after `mono`.

    Rounded up, so that no wait ends too early; but what sums of floats are off by is no
    microsecond, or a wait for an instant would end right after an `advance` to it.
    """
    exact = (mono + timeout) * 1e6
    end = round(exact) if abs(exact - round(exact)) < _NOISE_US else math.ceil(exact)
    return max(end, round(mono * 1e6) + 1) / 1e6


def _signed_seconds(duration: Duration) -> float:
    """Return a duration in seconds that may be negative, in any of its forms."""
    if isinstance(duration, str):
        backward, amount = duration.startswith("-"), duration.removeprefix("-")
        return (-1 if backward else 1) * parse_ms(amount, what="step_wall") / 1000
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return math.copysign(parse_ms(abs(seconds), what="step_wall") / 1000, seconds)
