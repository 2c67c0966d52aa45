"""Signals: stopping because of one, beside whoever else handles it.

Python calls a signal handler on the main thread, between any two steps of what that does.
So a handler here only puts requests into inboxes and passes the signal on; the lives'
own threads do the rest. Where the signal would have ended the process, the last life
that has stopped sends it again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from ._durations import shown
from ._lifecycle_callers import caller_of, refuse_own
from ._lifecycle_requests import Await, Halt
from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from ._lifecycle import Life
    from ._lifecycle_requests import Answer

    FindLife: TypeAlias = Callable[[], "Life | None"]

ENDING = (signal.SIGTERM, signal.SIGINT)

# What comes so soon after the first is the same wish, told twice: by a wrapper that signals its
# child and then the group (as `timeout` does), or a terminal and a parent that both do. Nobody
# presses a key again so quickly.
REPEAT_SECONDS = 0.1

# Lives that a signal has asked to stop, with the time each has for it. A signal that is
# about to end the process waits for them, whoever of several handlers asked them.
_struck: dict[Life, float] = {}


class Chained:
    """A handler put in front of another one: stops its schedulers and passes the signal on.

    Several schedulers share one, so that the process doesn't end before all have stopped.
    """

    def __init__(self, previous: Any) -> None:
        self.previous = previous
        self.targets: dict[FindLife, float] = {}
        self._first = _First()
        self._ends = False  # whether all has stopped, so that the signal may end the process

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Handle a signal; takes no lock."""
        for find, timeout in tuple(self.targets.items()):
            _strike(find(), timeout)
        if callable(self.previous):
            self.previous(signum, frame)
        elif self.previous is signal.SIG_DFL:
            if self._first.is_this():
                signal.signal(signum, self)  # alone: who came in front of us has been told
                _end_process_after_stops(signum, self)
            elif self._ends or not self._first.is_repeated():
                signal.signal(signum, signal.SIG_DFL)
                signal.raise_signal(signum)

    def let_end(self) -> None:
        """Let the next signal end the process, however soon it comes. Any thread may call it."""
        self._ends = True


class _First:
    """Tells the first signal from one that only repeats it, and from a second wish."""

    def __init__(self) -> None:
        self._at: float | None = None

    def is_this(self) -> bool:
        """Whether nothing came before; from now on something has."""
        if self._at is not None:
            return False
        self._at = time.monotonic()
        return True

    def is_repeated(self) -> bool:
        """Whether what comes now is the first one, told twice."""
        return self._at is not None and time.monotonic() - self._at < REPEAT_SECONDS


def _strike(life: Life | None, timeout: float) -> None:
    for over in [struck for struck in tuple(_struck) if struck.inbox.over]:
        _struck.pop(over, None)
    if life is not None:
        _struck[life] = timeout
        life.inbox.put(Halt(timeout))


_installed: dict[int, Chained] = {}


def install(signals: Iterable[int], find: FindLife, timeout: float) -> bool:
    """Put a handler in front of those of these signals; return whether all are there.

    They are not, and nothing is changed, on another thread than the main one, under
    uWSGI (which never calls them), and where something else than Python handles one.
    """
    wanted = tuple(signals)
    if not _may_install():
        return False
    current = {signum: signal.getsignal(signum) for signum in wanted}
    if None in current.values():
        return False
    done = [_install(signum, current[signum], find, timeout) for signum in wanted]
    return all(done)


def uninstall(find: FindLife) -> None:
    """Take a scheduler off, and put back what was there where we are still in front.

    Elsewhere, and on another thread than the main one, the handler stays and only passes
    signals on, until this is called again where it can be put back.
    """
    for signum, chained in tuple(_installed.items()):
        chained.targets.pop(find, None)
        if chained.targets:
            continue
        current: Any = signal.getsignal(signum)
        if _on_main_thread() and current is chained:
            signal.signal(signum, chained.previous)
            _installed.pop(signum, None)


def check_signals(signals: object) -> tuple[signal.Signals, ...]:
    """Return the signals; raises `ConfigurationError` for what can't be handled."""
    if not isinstance(signals, tuple | list | set | frozenset) or not signals:
        what = "names no signal" if hasattr(signals, "__len__") else "is no sequence of signals"
        raise ConfigurationError(
            f"signals: {shown(signals)} {what}; give at least one in a tuple, such as"
            " (signal.SIGTERM,)"
        )
    return tuple(_check_signal(one) for one in signals)


@contextmanager
def caught(signals: Iterable[int] = ENDING) -> Iterator[Answer]:
    """Put signals into a queue for a while, where they can be handled; what repeats one isn't."""
    answer: Answer = SimpleQueue()
    first = _First()

    def handler(signum: int, _frame: FrameType | None) -> None:
        if first.is_this() or not first.is_repeated():
            answer.put(signum)

    with _handled(signals, handler):
        yield answer


@contextmanager
def program() -> Iterator[Answer]:
    """Put the first SIGTERM or SIGINT into a queue, for as long as a program runs and stops.

    Another one has its usual effect, unless it only repeats the first.
    """
    answer: Answer = SimpleQueue()
    first = _First()

    def handler(signum: int, _frame: FrameType | None) -> None:
        if first.is_this():
            answer.put(signum)
        elif not first.is_repeated():
            signal.signal(signum, before[signum])
            signal.raise_signal(signum)

    with _handled(ENDING, handler) as before:
        yield answer


@contextmanager
def _handled(
    signals: Iterable[int], handler: Callable[[int, FrameType | None], object]
) -> Iterator[dict[int, Any]]:
    """Put a handler in the place of those of Python, where that can be done, for a while."""
    before: dict[int, Any] = {}
    if _on_main_thread():
        found = {signum: signal.getsignal(signum) for signum in signals}
        before = {signum: one for signum, one in found.items() if one is not None}
    try:
        for signum in before:
            signal.signal(signum, handler)
        yield before
    finally:
        for signum, previous in before.items():
            if signal.getsignal(signum) is handler:
                signal.signal(signum, previous)


def wait(life: Life | None, answer: Answer, timeout: float | None) -> signal.Signals | None:
    """Wait until a life is over, the timeout, or a signal that was `caught`."""
    if life is None:
        return None
    refuse_own(life, "wait()")
    inside = not caller_of(life).may_wait
    life.inbox.put(Await(answer, inside))
    said = life.inbox.receive(answer, timeout, inside=inside)
    return signal.Signals(said) if isinstance(said, int) else None


def _install(signum: int, current: Any, find: FindLife, timeout: float) -> bool:
    chained = _installed.get(signum)
    if chained is None or current is not chained:
        # Somebody came in front of us. If they call us, that one is there to pass it on.
        fresh = Chained(current)
        signal.signal(signum, fresh)
        there: Any = signal.getsignal(signum)
        if there is not fresh:
            return False
        if chained is not None:
            fresh.targets.update(chained.targets)
            chained.targets.clear()
        chained = _installed[signum] = fresh
    chained.targets[find] = timeout
    return True


def _end_process_after_stops(signum: int, chained: Chained) -> None:
    """Send the signal again when the lives it has struck are over, or now if none is."""
    pid = os.getpid()
    struck = {life: timeout for life, timeout in tuple(_struck.items()) if life.pid == pid}
    _struck.clear()
    left = set(struck)

    def end() -> None:
        chained.let_end()
        os.kill(pid, signum)

    def over(life: Life) -> None:
        left.discard(life)
        if not left:
            end()

    for life, timeout in struck.items():
        life.inbox.put(Halt(timeout, after=partial(over, life)))
        if life.inbox.over:
            over(life)
    if not struck:
        end()


def _may_install() -> bool:
    return _on_main_thread() and "uwsgi" not in sys.modules


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _check_signal(one: object) -> signal.Signals:
    try:
        if isinstance(one, int) and not isinstance(one, bool):
            signum = signal.Signals(one)
            if signum.name not in ("SIGKILL", "SIGSTOP"):
                return signum
    except ValueError:
        pass
    raise ConfigurationError(
        f"signals: {shown(one)} is no signal that can be handled; give some of the signal module,"
        " such as (signal.SIGTERM,)"
    )
