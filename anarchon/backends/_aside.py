"""Calls of the store beside the main thread, which Ctrl-C may end between any two steps.

Python raises `KeyboardInterrupt` on the main thread alone, also between taking something
and being ready to give it back: the lock of a queue, an open file, a place in a count. So
what must be given back is taken on another thread, and the main thread only waits for the
answer. When that wait is ended, the call still comes to its own end, within its limit.
"""

from __future__ import annotations

import threading
from _thread import start_new_thread
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SLICE = 0.5  # seconds until Ctrl-C ends a wait that was about to begin


def aside(call: Callable[[], T]) -> T:
    """Make a call, and return or raise what it does; on the main thread, from beside it.

    A thread without an object, made in one step, that keeps no process alive. Where none
    can be had (at the end of the interpreter, or too many) the call is made here.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return call()
    answer: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            answer.put((call(), None))
        except BaseException as error:
            answer.put((None, error))

    try:
        start_new_thread(work, ())
    except RuntimeError:
        return call()
    value, error = _awaited(answer)
    if error is None:
        return cast("T", value)
    try:
        raise error
    finally:
        del error  # lest it, its traceback and this frame keep each other


def _awaited(answer: SimpleQueue[T]) -> T:
    """Wait for an answer, in slices: a signal that comes right before a wait doesn't end it."""
    while True:
        try:
            return answer.get(timeout=SLICE)
        except Empty:
            pass


def within(call: Callable[[], T], seconds: float, *, late: Callable[[T], object]) -> T:
    """Make a call that nobody can cut short, on a thread of its own, and wait so long for it.

    What it returns after that goes to `late`, on its own thread. Where no thread can be had,
    as at the end of the interpreter, the call is made here, and takes as long as it takes:
    what has to be recorded then would else be lost.

    Raises:
        TimeoutError: It took longer.
    """
    answer: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
    guard, gone = threading.Lock(), threading.Event()

    def work() -> None:
        try:
            value, error = call(), None
        except BaseException as raised:
            value, error = None, raised
        with guard:
            if not gone.is_set():
                answer.put((value, error))
                return
        if error is None:
            late(cast("T", value))

    try:
        start_new_thread(work, ())
    except RuntimeError:
        return call()
    try:
        value, error = answer.get(timeout=max(0.0, seconds))
    except Empty:
        with guard:
            gone.set()
            if answer.empty():
                raise TimeoutError("a call took too long") from None
            value, error = answer.get()
    if error is None:
        return cast("T", value)
    try:
        raise error
    finally:
        del error
