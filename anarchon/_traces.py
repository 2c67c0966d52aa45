"""Tracebacks as texts, of whatever exception: nothing of it is trusted, and nothing is kept.

An exception is user code: its `__str__`, `__cause__`, `__notes__` and even the name of its
class may raise. Each part is tried by itself, so that one that can't be told hides no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._texts import clean, said

if TYPE_CHECKING:
    from types import TracebackType

UNTELLABLE = "an exception that can't be described"
# The real one, where a class may have put a property of that name.
_TRACEBACK = BaseException.__dict__["__traceback__"]


def described(error: BaseException, *, without: str = "") -> tuple[str, str]:
    """Return type and message of an exception, and its traceback, as texts for the store.

    Args:
        error: What was raised.
        without: A file; the traceback begins with the first frame that isn't of it.
    """
    try:
        return clean(said(error)), clean(traced(error, without=without))
    except BaseException:
        return UNTELLABLE, ""  # for want of memory


def traced(error: BaseException, *, without: str = "") -> str:
    """Return the traceback of an exception as Python prints it; "" when there is none to be had."""
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    while trace is not None and trace.tb_frame.f_code.co_filename == without:
        trace = trace.tb_next
    try:
        import traceback

        try:
            return "".join(traceback.format_exception(type(error), error, trace))
        except BaseException:
            calls = traceback.format_tb(trace)
            return "".join(["Traceback (most recent call last):\n", *calls, said(error)])
    except BaseException:
        return ""
