"""A history played on a store and on its model: the same answers, or the shortest failure."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from anarchon._values import Limits
from anarchon.backends.memory import MemoryBackend
from tests.model.referee import Referee
from tests.model.steps import BATCHES, TIMES, Raised, Step, asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.model.stores import Store

MANY = 20  # lines of history: to write down more of them takes longer than to ask for them
FEW = 16  # items that are left out one by one
LONGEST_SHRINKING = 60.0  # seconds


class Script(Protocol):
    """What says what happens next."""

    def steps(self) -> Iterator[Step]:
        """Give one step after the other."""
        ...

    def hear(self, step: Step, answer: Any) -> None:
        """Take what was answered to the last one."""
        ...


class Given:
    """A history that is written down."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    def steps(self) -> Iterator[Step]:
        return iter(self._steps)

    def hear(self, step: Step, answer: Any) -> None:
        """Take it: the next steps are known."""


class Difference(AssertionError):
    """A store answered otherwise than its model, or both broke a promise."""

    def __init__(self, steps: list[Step], wrong: str) -> None:
        self.steps = steps
        self.wrong = wrong
        told = [f"{number:4}  {step}" for number, step in enumerate(steps, 1)]
        super().__init__("\n".join([wrong, *told]))


class Twins:
    """A store and its model on one clock, both empty."""

    def __init__(self, store: Store) -> None:
        self.clock, self.store = store.fresh()
        self.model = MemoryBackend()
        self.model._steady = store.steady
        self.model._time = self.clock
        for backend in (self.model, self.store):
            backend._boot = "boot 0" if store.steady else ""
            backend.open(Limits())

    def close(self) -> None:
        self.model.close()
        self.store.close()

    def play(self, step: Step) -> tuple[Any, Any]:
        """Do one step; return what the model says, and what the store does."""
        if step.what not in TIMES:
            return asked(self.model, step), asked(self.store, step)
        if step.what == "boot":
            self.model._boot = self.store._boot = step.items[0]
        else:
            getattr(self.clock, step.what)(*step.items)
        return None, None


@contextmanager
def twins(store: Store) -> Iterator[Twins]:
    both = Twins(store)
    try:
        yield both
    finally:
        both.close()


def play(store: Store, script: Script, tell: Callable[[str], object] | None = None) -> list[Step]:
    """Play a history to its end; return its steps, or raise the first `Difference`."""
    played: list[Step] = []
    referee = Referee()
    with twins(store) as both:
        for step in script.steps():
            played.append(step)
            expected, told = both.play(step)
            if tell:
                tell(f"{len(played):4}  {step}\n      {told!r}")
            wrong = compared(expected, told) or referee.judged(step, expected)
            if wrong:
                raise Difference(played, wrong)
            script.hear(step, expected)
    return played


def compared(expected: Any, told: Any) -> str:
    """Say how two answers differ; equal ones also have to look alike, as 1 and True don't."""
    same = expected == told
    if same and not isinstance(told, Raised) and not (isinstance(told, list) and len(told) > MANY):
        same = repr(expected) == repr(told)
    return "" if same else f"the model says {expected!r}\nthe store says {told!r}"


def check(store: Store, script: Script, *, shorten: bool = True) -> list[Step]:
    """Play a history; when it fails, raise the shortest one found that fails as well."""
    try:
        return play(store, script)
    except Difference as difference:
        if not shorten:
            raise
        shortest = shortened(store, difference)
    raise shortest


# --- shortening -------------------------------------------------------------------


def shortened(store: Store, difference: Difference) -> Difference:
    """Leave out steps, then items of steps, for as long as the rest fails as well."""
    shortening = Shortening(store, difference)
    before = None
    while before is not shortening.least:
        before = shortening.least
        shortening.leave_out_steps()
        shortening.leave_out_items()
        shortening.join_waits()
    return shortening.least


class Shortening:
    """Tries ever shorter histories; `least` is the shortest failure so far."""

    def __init__(self, store: Store, difference: Difference) -> None:
        self.least = difference
        self._store = store
        self._deadline = time.monotonic() + LONGEST_SHRINKING

    def leave_out_steps(self) -> None:
        """Leave out neighbours: many at once first, and each time from the end to the start."""
        size = len(self.least.steps)
        while size := size // 2:
            end = len(self.least.steps)
            while end > 0:
                start = max(0, end - size)
                self._try(start, end, [])
                end = min(start, len(self.least.steps))

    def leave_out_items(self) -> None:
        """Have every step ask for less; of many items, not for one less and again one less."""
        for at in reversed(range(len(self.least.steps))):
            size = self._items(at)
            fewest = max(1, size // FEW)
            while (size := size // 2) >= fewest:
                end = self._items(at)
                while end > 0:
                    start = max(0, end - size)
                    step = self.least.steps[at]
                    left = step.items[:start] + step.items[end:]
                    self._try(at, at + 1, [step._replace(items=left)])
                    end = min(start, self._items(at))

    def join_waits(self) -> None:
        """Let time pass once where it passes twice in a row."""
        for at in reversed(range(1, len(self.least.steps))):
            pair = self.least.steps[at - 1 : at + 1]
            if [step.what for step in pair] == ["advance"] * 2:
                passed_ms = sum(step.items[0] for step in pair)
                self._try(at - 1, at + 1, [Step("advance", (passed_ms,))])

    def _items(self, at: int) -> int:
        """Return how many items of a step may be left out; a shorter history may lack it."""
        steps = self.least.steps
        return len(steps[at].items) if at < len(steps) and steps[at].what in BATCHES else 0

    def _try(self, start: int, end: int, instead: list[Step]) -> None:
        if time.monotonic() > self._deadline:
            return
        steps = self.least.steps
        try:
            play(self._store, Given([*steps[:start], *instead, *steps[end:]]))
        except Difference as difference:
            self.least = difference
