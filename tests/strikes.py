"""Something that happens between any two lines of a call, as a signal may: at each in turn."""

from __future__ import annotations

import sys
from pathlib import Path

import anarchon

PACKAGE = str(Path(anarchon.__file__).parent)
MOST = 3000


class Strike:
    """Calls `what` once, at the `nth` line or call inside the package on this thread.

    Code that is run by an import doesn't count: it is the import's own.
    """

    def __init__(self, nth, what):
        self.nth, self.what = nth, what
        self.seen, self.where = 0, ""

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    @property
    def has_struck(self):
        return self.seen >= self.nth

    def _trace(self, frame, event, _argument):
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name == "<module>":
            return None
        if event in ("call", "line"):
            self.seen += 1
            if self.seen == self.nth:
                self.where = f"{code.co_qualname}:{frame.f_lineno}"
                sys.settrace(self._before)
                self.what()
        return self._trace


def everywhere(call, what):
    """Call something until it has been struck everywhere; return where.

    `call` is called with a `Strike`, around whatever is to be struck.
    """
    places = []
    for nth in range(1, MOST):
        strike = Strike(nth, what)
        call(strike)
        if not strike.has_struck:
            return places
        places.append(strike.where)
    raise AssertionError("there is no end")
