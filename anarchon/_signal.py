"""The signal that asks a handler to stop, and the engine's side of it."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from ._clock import HANDLER_PATIENCE
from ._durations import parse_ms
from ._log_lines import trouble, write
from ._one_process import OneProcess
from ._trays import Tray
from .errors import Aborted

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ._clock import Clock
    from ._durations import Duration
    from ._log_lines import Say
    from ._values import (
        AbortReason,
    )

_WORDS: dict[AbortReason, str] = {
    "stop": "the scheduler is stopping",
    "timeout": "the run passed its timeout",
    "lost": "this instance can't prove any more that it holds the run",
    "cancel": "the run was cancelled",
}


class Switch:
    """The engine's side of a signal: its reason, its thread, and what an abort sets off.

    It doesn't know the signal, so that the two form no cycle that outlives the run.
    """

    def __init__(self, clock: Clock, say: Say = write) -> None:
        self.clock = clock
        self.say = say
        self.reason: AbortReason | None = None
        self._thread: int | None = None
        self._lock = threading.Lock()
        self._hooks: list[Callable[[], object]] = []

    def bind(self) -> None:
        """Make the calling thread the run's own."""
        self._thread = threading.get_ident()

    def is_bound_elsewhere(self) -> bool:
        """Say whether the calling thread isn't the run's own."""
        return self._thread is not None and self._thread != threading.get_ident()

    def end(self, words: str, reason: AbortReason) -> NoReturn:
        """Raise `Aborted`, or what stands for it where that would get lost."""
        if self.is_bound_elsewhere():
            raise RuntimeError(f"aborted: {words}; only the run's own thread can be ended so")
        if _in_event_loop():
            raise RuntimeError(f"aborted: {words}; a coroutine is cancelled instead")
        raise Aborted(words, reason)

    def abort(self, signal: Signal, reason: AbortReason) -> None:
        """Abort this switch's signal, once; called by the scheduler thread."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            hooks, self._hooks = self._hooks, []
        # On the class, because the signal's own `set` is refused.
        threading.Event.set(signal)
        for hook in hooks:
            hook()

    def hook(self, hook: Callable[[], object]) -> None:
        """Have a short function called when the signal aborts; at once if it has."""
        with self._lock:
            if self.reason is None:
                self._hooks.append(hook)
                return
        hook()

    def unhook(self, hook: Callable[[], object]) -> None:
        """Forget the function, if it wasn't called."""
        with self._lock:
            if hook in self._hooks:
                self._hooks.remove(hook)


class Signal(threading.Event):
    """Asks a handler to stop: a `threading.Event` that only the scheduler sets.

    It may be read and waited for on any thread, and given to whatever takes an event.
    Once aborted it stays so, and the first reason stays.
    """

    def __init__(self, switch: Switch) -> None:
        super().__init__()
        self._switch = switch

    @property
    def aborted(self) -> bool:
        """Whether the handler should stop."""
        return self.is_set()

    @property
    def reason(self) -> AbortReason | None:
        """Why it aborted, ``"stop"``, ``"timeout"``, ``"lost"`` or ``"cancel"``; None if not."""
        return self._switch.reason

    def raise_if_aborted(self) -> None:
        """Do nothing, or end the handler if it should stop.

        Raises:
            Aborted: The signal has aborted.
            RuntimeError: In place of `Aborted`, on a thread that is not the run's own or
                that has a running event loop: there a `BaseException` would get lost.
        """
        reason = self._switch.reason
        if reason is not None:
            self._switch.end(_WORDS[reason], reason)

    def sleep(self, duration: Duration) -> None:
        """Wait for a time, and end the handler as soon as it should stop.

        Args:
            duration: Seconds, a `timedelta`, or text such as ``"5s"``.

        Raises:
            Aborted: The signal has aborted, before the call or during it.
            RuntimeError: In place of `Aborted` on a thread that is not the run's own;
                and always where an event loop is running, which this would block.
            ConfigurationError: The duration is wrong.
        """
        seconds = parse_ms(duration, what="sleep") / 1000
        if _in_event_loop():
            raise RuntimeError(
                "signal.sleep() would block the event loop; await asyncio.sleep(), "
                "which is cancelled when the signal aborts"
            )
        self.wait(seconds)
        self.raise_if_aborted()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the signal aborts, for `timeout` seconds at most; say whether it has."""
        return self._switch.clock.wait(self, timeout)

    def on_abort(self, fn: Callable[[], object]) -> AbstractContextManager[None]:
        """Call a function if the signal aborts while a block runs.

        ``with signal.on_abort(connection.cancel): ...`` makes a thread when the block is
        entered, which calls `fn` once if the signal aborts inside the block or had
        aborted before. When the block is left `fn` has ended, or will never run. What it
        raises is logged.
        """
        return _OnAbort(self._switch, fn)

    def set(self) -> NoReturn:
        """Refuse: only the scheduler aborts a signal."""
        raise TypeError("only the scheduler aborts a run's signal; raise or return instead")

    def clear(self) -> NoReturn:
        """Refuse: an abort is final."""
        raise TypeError("an aborted signal can't be cleared: the run should stop")

    def __repr__(self) -> str:
        state = f"aborted: {self.reason}" if self.reason else "not aborted"
        return f"<Signal {state}>"


class AbortThread(threading.Thread):
    """The thread of a function given to `on_abort`; the handler of that run waits for it."""

    def __init__(self, watch: Callable[[], object], switch: Switch) -> None:
        super().__init__(target=watch, name="anarchon-abort", daemon=True)
        self.switch = switch


class _OnAbort:
    """A block with a thread of its own that calls a function if the signal aborts."""

    def __init__(self, switch: Switch, fn: Callable[[], object]) -> None:
        if not callable(fn):
            raise TypeError(f"on_abort needs a function, not {type(fn).__name__}")
        self._switch = switch
        self._fn = fn
        self._calls: Tray[bool] = Tray()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._thread is not None:
            raise RuntimeError("each `with signal.on_abort(...)` is entered once")
        self._thread = AbortThread(self._watch, self._switch)
        self._thread.start()
        self._switch.clock.enrol(self._thread, patience=HANDLER_PATIENCE)
        self._switch.hook(self._call)

    def __exit__(self, *exc: object) -> None:
        self._switch.unhook(self._call)
        self._calls.put(False)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _call(self) -> None:
        self._calls.put(True)

    def _watch(self) -> None:
        """Wait for the abort or the block's end, whichever comes first."""
        while (aborted := self._which()) is None:
            pass
        if not aborted:
            return
        try:
            with OneProcess():
                self._fn()
        except BaseException as error:
            self._switch.say(trouble("an on_abort function raised", error))

    def _which(self) -> bool | None:
        """Wait; None when another thread has raised something in this one meanwhile."""
        try:
            return self._calls.first(lambda bell: self._switch.clock.get(bell, None))
        except BaseException as error:
            self._switch.say(trouble("another thread raised this in an on_abort thread", error))
            return None


def _in_event_loop() -> bool:
    """Say whether this thread runs an event loop, without importing asyncio for it."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
