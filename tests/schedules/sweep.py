"""Asks the package and the oracle the same questions, and says where they differ."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from anarchon import schedules as ours
from anarchon.errors import ConfigurationError

from . import oracle
from .cases import shown
from .reading import Refused
from .steps import MOST_CPU_MS, MOST_STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from .cases import Case
    from .steps import Meter

# So far the oracle lists slots between two that follow each other.
LISTED_MS = 2 * 86_400_000


class Disagreement(AssertionError):
    """The package and the oracle differ, or a law or a bound is broken."""


class Figures:
    """What a sweep measured."""

    def __init__(self) -> None:
        self.cases = self.refused = 0
        self.steps: list[int] = []
        self.cpu_ms: list[float] = []
        self.worst: tuple[float, str] = (0.0, "")
        self.longest: tuple[int, str] = (0, "")

    def add(self, other: Figures) -> None:
        self.cases += other.cases
        self.refused += other.refused
        self.steps += other.steps
        self.cpu_ms += other.cpu_ms
        self.worst = max(self.worst, other.worst)
        self.longest = max(self.longest, other.longest)

    def __str__(self) -> str:
        median, steps = statistics.median(self.cpu_ms or [0]), statistics.median(self.steps or [0])
        return (
            f"{self.cases} cases ({self.refused} refused by both), {len(self.steps)} calls\n"
            f"CPU time of a call: median {median:.3f} ms, worst {self.worst[0]:.3f} ms"
            f" ({self.worst[1]})\n"
            f"steps of a call: median {steps:g}, most {self.longest[0]} ({self.longest[1]})"
        )


class Answer(NamedTuple):
    """A question that was put to the oracle, and what it said."""

    case: Case
    method: str
    t_ms: int
    right: int | None


def define(case: Case, schedules: ModuleType = ours):
    """Return the schedule of a case, or None if the package refuses it."""
    try:
        if case.kind == "interval":
            return schedules.Every(case.text)
        kind = {"once": "Once", "cron": "Cron", "rrule": "RRule"}[case.kind]
        return getattr(schedules, kind)(case.text, case.zone)
    except ConfigurationError:
        return None


def first_difference(answers: Iterable[Answer], schedules: ModuleType) -> str | None:
    """Return the first answer of `schedules` that is not the oracle's."""
    last, schedule = None, None
    for case, method, t_ms, right in answers:
        if case is not last:
            last, schedule = case, define(case, schedules)
            if (schedule is None) is not (method == "refused"):
                return f"{case}: {'is refused' if schedule is None else 'is accepted'}"
        if schedule is not None:
            found = getattr(schedule, f"{method}_ms")(t_ms)
            if found != right:
                return f"{case}: {method}({shown(t_ms)}) is {shown(found)}, not {shown(right)}"
    return None


class Sweep:
    """Checks one case after another."""

    def __init__(self, meter: Meter) -> None:
        self.figures = Figures()
        self.answers: list[Answer] = []
        self._meter = meter

    def check(self, case: Case) -> None:
        """Raise `Disagreement` if anything about a case is wrong."""
        self.figures.cases += 1
        schedule, right = self._defined(case)
        if schedule is None or right is None:
            return
        self._first_call(schedule, case)
        after = self._same(case, "next_after", schedule, right, case.t_ms)
        latest = self._same(case, "latest", schedule, right, case.t_ms)
        self._laws(case, schedule, right, (after, latest))

    def cost(self, case: Case) -> None:
        """Raise `Disagreement` if an answer costs too much; nobody says whether it is right."""
        self.figures.cases += 1
        schedule = define(case)
        if schedule is not None:
            self._first_call(schedule, case)
            self._ask(case, schedule.next_after_ms, case.t_ms)
            self._ask(case, schedule.latest_ms, case.t_ms)

    def _defined(self, case: Case):
        schedule = define(case)
        try:
            right = oracle.define(case.kind, case.text, case.zone)
        except Refused:
            right = None
        if (schedule is None) is not (right is None):
            said = "is refused" if schedule is None else "is accepted"
            raise Disagreement(f"{case}: {said}, but the oracle says otherwise")
        if schedule is None:
            self.figures.refused += 1
            self.answers.append(Answer(case, "refused", case.t_ms, None))
        return schedule, right

    def _first_call(self, schedule, case: Case) -> None:
        # The first call parses, and imports; it is not timed.
        schedule.next_after_ms(case.t_ms)
        schedule.latest_ms(case.t_ms)

    def _same(self, case: Case, method: str, schedule, right, t_ms: int) -> int | None:
        answer = self._ask(case, getattr(schedule, f"{method}_ms"), t_ms)
        expected = getattr(right, method)(t_ms)
        self.answers.append(Answer(case, method, t_ms, expected))
        if answer != expected:
            raise Disagreement(
                f"{case}: {method}({shown(t_ms)}) is {shown(answer)},"
                f" the oracle says {shown(expected)}"
            )
        return answer

    def _ask(self, case: Case, question: Callable[[int], int | None], t_ms: int) -> int | None:
        answer, steps, cpu_ms = self._meter.ask(question, t_ms)
        self.figures.steps.append(steps)
        self.figures.cpu_ms.append(cpu_ms)
        self.figures.worst = max(self.figures.worst, (cpu_ms, str(case)))
        self.figures.longest = max(self.figures.longest, (steps, str(case)))
        if steps > MOST_STEPS or cpu_ms > MOST_CPU_MS:
            raise Disagreement(f"{case}: {steps} steps and {cpu_ms:.1f} ms of CPU time at {t_ms}")
        return answer

    def _laws(self, case: Case, schedule, right, found: tuple[int | None, int | None]) -> None:
        after, latest = found
        next_after, before = schedule.next_after_ms, schedule.latest_ms
        pairs = []
        if after is not None:
            following = self._same(case, "next_after", schedule, right, after)
            self._same(case, "latest", schedule, right, after)
            pairs += [
                ("next_after increases", after > case.t_ms, True),
                ("latest(next_after(t))", before(after), after),
                ("next_after(next_after(t) - 1 ms)", next_after(after - 1), after),
                ("latest(next_after(t) - 1 ms)", before(after - 1), latest),
            ]
            if following is not None:
                pairs += [
                    ("next_after increases again", following > after, True),
                    ("latest before the one after the next", before(following - 1), after),
                ]
                if following - case.t_ms < LISTED_MS:
                    listed = right.between(case.t_ms, following)
                    pairs.append(("the next two", [after, following], listed))
        if latest is not None:
            pairs += [
                ("latest decreases", latest <= case.t_ms, True),
                ("latest(latest(t))", before(latest), latest),
                ("next_after(latest(t) - 1 ms)", next_after(latest - 1), latest),
                ("next_after(latest(t))", next_after(latest), after),
            ]
        for law, is_so, should_be in pairs:
            if is_so != should_be:
                raise Disagreement(f"{case}: {law} is {is_so}, not {should_be}")
