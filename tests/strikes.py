"""Something that happens in the middle of a call, as a signal may: at each place in turn."""

from __future__ import annotations

import sys
from pathlib import Path

import anarchon

PACKAGE = str(Path(anarchon.__file__).parent)
MOST = 3000


class Strike:
    """Calls `what` once, at the `nth` place inside the package on this thread.

    The places are all lines and calls; or, `by_call`, the beginnings of functions and the
    ends of calls of built-in ones, which is where Python handles a signal. What an import
    does isn't struck.
    """

    def __init__(self, nth, what, *, by_call=False):
        self.nth, self.what = nth, what
        self.seen, self.where = 0, ""
        self._set = sys.setprofile if by_call else sys.settrace
        self._before = sys.getprofile() if by_call else sys.gettrace()
        self._events = ("call", "c_return") if by_call else ("call", "line")

    def __enter__(self):
        self._set(self._step)
        return self

    def __exit__(self, *_):
        self._set(self._before)

    @property
    def has_struck(self):
        return self.seen >= self.nth

    def _step(self, frame, event, _argument):
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name == "<module>":
            return None
        if event in self._events:
            self.seen += 1
            if self.seen == self.nth:
                self.where = f"{code.co_qualname}:{frame.f_lineno}"
                self._set(self._before)
                self.what()
        return self._step


def everywhere(call, what, *, by_call=False):
    """Call something until it has been struck everywhere; return where.

    `call` is called with a `Strike`, around whatever is to be struck.
    """
    places = []
    for nth in range(1, MOST):
        strike = Strike(nth, what, by_call=by_call)
        call(strike)
        if not strike.has_struck:
            return places
        places.append(strike.where)
    raise AssertionError("there is no end")
