"""Definitions out of garbage: refused with `ConfigurationError`, or answering like any other."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from anarchon.errors import ConfigurationError
from anarchon.schedules import Cron, Every, Once, RRule

from .cases import ZONES, cron, interval, once
from .oracle import EPOCH
from .recurrences import recurrence
from .steps import MOST_CPU_MS, MOST_STEPS

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from .steps import Meter

YEARS = [1900, 1970, 2026, 2099, 9999]
MOMENTS = [datetime(year, 7, 1, 2, 30, tzinfo=UTC) for year in YEARS]
# Characters that texts are mutated with: of the syntax, and strange to it.
SYNTAX = "0123456789*?/,-#LWHR@;:=TZ. \t\n\rMONSUFRIJAN"
STRANGE = "\x00\x07\x1b\x7f\x85\xa0\u0660\u2028\u200b\uff10\U0001f600\ud800\udfff\u00df\u0130"
LONGEST_SECONDS = 2.0  # so long a definition may take, on a busy machine


class Failure(AssertionError):
    """Something other than `ConfigurationError` came, or an answer took too many steps."""


def garbage(rng: Random) -> str:
    alphabet = rng.choice([SYNTAX, STRANGE, SYNTAX + STRANGE, "0123456789", "*,/-"])
    length = rng.choice([0, 1, 2, 3, 5, 10, 30, 100, 256, 257, 1000, 5000])
    return "".join(rng.choices(alphabet, k=rng.randint(0, length)))


def mutated(rng: Random, text: str) -> str:
    """Return a text with a few small changes."""
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        place = rng.randint(0, len(text))
        piece = rng.choice(
            [rng.choice(SYNTAX), rng.choice(SYNTAX), rng.choice(STRANGE), number(rng)]
        )
        cut = rng.choice([0, 0, 1, 1, 2, 10])
        text = text[:place] + rng.choice([piece, ""]) + text[place + cut :]
    return text * rng.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, 2])


def number(rng: Random) -> str:
    digits = rng.choice([1, 2, 3, 4, 5, 9, 10, 19, 40, 400, 5000])
    return rng.choice(["", "", "-", "+"]) + rng.choice("0123456789") * digits


def zone(rng: Random) -> object:
    key = rng.choice(list(ZONES))
    others = [
        "localtime",
        "posixrules",
        "right/UTC",
        "Etc/GMT+12",
        "../etc/passwd",
        "/UTC",
        "",
        ".",
    ]
    others += ["Europe", "tzdata.zi", "zone.tab", "Europe/", "C:UTC", "UTC\x00", "europe/berlin"]
    return rng.choice([key, key, key, mutated(rng, key), garbage(rng), rng.choice(others), None])


def wild(rng: Random) -> object:
    """Return something that is no text, or an unusual number."""
    return rng.choice(
        [
            *(None, True, b"* * * * *", 0, -1, 10**30, -(10**400), 1e308, float("nan")),
            *(float("inf"), 0.1, 1e-300, rng.random() * 1e6, [], {}, object()),
            *(datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)),
            *(MOMENTS[0] - EPOCH, MOMENTS[0], MOMENTS[0].date()),
        ]
    )


def draw(rng: Random) -> tuple[Callable[..., object], tuple[object, ...]]:
    """Return a call that defines something."""
    wall = datetime.fromtimestamp(rng.randint(0, 2**32), UTC).replace(tzinfo=None)
    make = rng.choice([Cron, Cron, Cron, RRule, RRule, Every, Once])
    right = {Cron: cron, RRule: recurrence, Once: once, Every: lambda rng, _: interval(rng)}
    text: object = mutated(rng, right[make](rng, wall))
    if rng.random() < 0.25:
        text = rng.choice([garbage, garbage, wild])(rng)
    if make is Every or rng.random() < 0.3:
        return make, (text,)
    return make, (text, zone(rng) if rng.random() < 0.3 else rng.choice(list(ZONES)))


class Tally:
    """What was measured."""

    def __init__(self) -> None:
        self.tried = self.accepted = self.calls = 0
        self.most_steps = 0
        self.worst_ms = 0.0

    def add(self, other: Tally) -> None:
        """Take in what another one measured."""
        self.tried += other.tried
        self.accepted += other.accepted
        self.calls += other.calls
        self.most_steps = max(self.most_steps, other.most_steps)
        self.worst_ms = max(self.worst_ms, other.worst_ms)

    def __str__(self) -> str:
        return (
            f"{self.tried} definitions, {self.accepted} accepted; {self.calls} calls,"
            f" at most {self.most_steps} steps and {self.worst_ms:.1f} ms of CPU time"
        )


class Fuzz:
    """Tries one definition after another."""

    def __init__(self, meter: Meter) -> None:
        self.figures = Tally()
        self._meter = meter

    def check(self, make: Callable[..., object], given: tuple[object, ...]) -> None:
        """Raise `Failure` if this definition does what none may do."""
        self.figures.tried += 1
        named = f"{make.__name__}{given!r}"[:2000]
        begun = time.thread_time()
        try:
            schedule = make(*given)
        except ConfigurationError:
            schedule = None
        except BaseException as error:
            raise Failure(f"{named} raised {error!r}") from error
        if time.thread_time() - begun > LONGEST_SECONDS:
            raise Failure(f"{named} took {time.thread_time() - begun:.1f} s")
        if schedule is not None:
            self.figures.accepted += 1
            self._ask(schedule, named)

    def _ask(self, schedule, named: str) -> None:
        for moment in MOMENTS:
            t_ms = (moment - EPOCH) // timedelta(milliseconds=1)
            for method in ("next_after", "latest"):
                in_ms = getattr(schedule, f"{method}_ms")
                try:
                    in_ms(t_ms)  # the first call is not measured
                    _, steps, cpu_ms = self._meter.ask(in_ms, t_ms)
                    slot = getattr(schedule, method)(moment)
                    repr(schedule)
                except BaseException as error:
                    raise Failure(f"{named}: {method}({moment}) raised {error!r}") from error
                self._judge(f"{named}: {method}({moment})", steps, cpu_ms)
                if slot is not None and (slot > moment) is not (method == "next_after"):
                    raise Failure(f"{named}: {method}({moment}) is {slot}")

    def _judge(self, named: str, steps: int, cpu_ms: float) -> None:
        self.figures.calls += 1
        self.figures.most_steps = max(self.figures.most_steps, steps)
        self.figures.worst_ms = max(self.figures.worst_ms, cpu_ms)
        if steps > MOST_STEPS or cpu_ms > MOST_CPU_MS:
            raise Failure(f"{named} took {steps} steps and {cpu_ms:.1f} ms of CPU time")
