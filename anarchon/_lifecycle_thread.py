"""The beginning of a life's thread, which comes about once or is called off once.

`start` may be interrupted by a signal anywhere: by an exception, or by a handler that calls
`stop`. Whoever comes first decides, by a single step, whether there will be a thread.
"""

from __future__ import annotations

from _thread import start_new_thread
from queue import Empty, SimpleQueue
from threading import Thread, get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._clock import Clock


class LifeThread:
    """The thread of a life. It is started by a helper: `Thread.start` waits under a lock.

    Threads: any. `failed` is called, on the thread that found out, when there can be none.
    """

    def __init__(
        self,
        clock: Clock,
        body: Callable[[], object],
        failed: Callable[[RuntimeError], object],
    ) -> None:
        self._clock = clock
        self._failed = failed
        self._thread = Thread(target=body, name="anarchon-life", daemon=True)
        self._helper: int | None = None
        self._choice: SimpleQueue[None] = SimpleQueue()
        self._choice.put(None)

    def launch(self) -> None:
        """Start the thread, unless that was called off.

        Raises:
            RuntimeError: No thread can be had here.
        """
        self._clock.enrol(self._thread)
        try:
            start_new_thread(self._help, ())
        except RuntimeError as error:
            if self.call_off():
                self._failed(no_thread(error))
            raise no_thread(error) from error

    def call_off(self) -> bool:
        """Return whether there will be no thread, now and for ever, because of this call."""
        decided = self._decide()
        if decided:
            self._clock.dismiss(self._thread)
        return decided

    def is_current(self) -> bool:
        """Return whether this is the caller's thread, or the caller is about to start it."""
        return get_ident() in (self._thread.ident, self._helper)

    def _help(self) -> None:
        if not self._decide():
            self._clock.dismiss(self._thread)
            return
        self._helper = get_ident()
        try:
            self._thread.start()
        except RuntimeError as error:
            self._clock.dismiss(self._thread)
            self._failed(no_thread(error))
        finally:
            self._helper = None

    def _decide(self) -> bool:
        try:
            self._choice.get_nowait()
        except Empty:
            return False
        return True


def no_thread(error: RuntimeError) -> RuntimeError:
    """Return what `start` raises when no thread can be had."""
    told = RuntimeError(
        f"the scheduler can't have the threads it needs: {error}; let this process have more of"
        " them (ulimit -u, the limit of its container), or start the scheduler before the"
        " interpreter ends"
    )
    told.__cause__ = error
    return told
