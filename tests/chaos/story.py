"""What happened in a chaos run, put together from the lines of the ledger. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from tests.chaos.spans import Span, without

WAKE_SECONDS = 0.05  # how long a process may need to run again after SIGCONT


class Terms(NamedTuple):
    """What holds for all instances, in seconds."""

    lease: float
    heartbeat: float

    @property
    def margin(self) -> float:
        return max(self.lease / 10, 0.25)


class Plan(NamedTuple):
    """A job as a version has it, as far as the checker has to know."""

    every_ms: int
    skips_overlap: bool
    is_abandoned: bool


class Key(NamedTuple):
    """One attempt."""

    job: str
    slot: int
    number: int


@dataclass
class Life:
    """One process: when it came and went, and when it could not do its work."""

    name: str
    version: int
    spawned: float
    running: float = inf
    asked: float = inf  # to stop
    killed: float = inf
    gone: float = inf
    frozen: list[Span] = field(default_factory=list)  # it could not run at all
    troubled: list[Span] = field(default_factory=list)  # its way to the store, or its clock

    unanswered: list[Span] = field(default_factory=list)  # renewals that failed

    @property
    def leaving(self) -> float:
        """When it could no longer take part."""
        return min(self.asked, self.killed, self.gone)

    def able(self, outages: list[Span]) -> list[Span]:
        """Return when it ran and nothing was in its way."""
        if self.running >= self.leaving:
            return []
        holes = [*self.frozen, *self.troubled, *outages]
        return without(Span(self.running, self.leaving), holes)

    def was_frozen(self, begin: float, end: float, *, seconds: float = 0.0) -> Span | None:
        """Return the last time between these moments that it could not run for so long."""
        found = [span for span in self.frozen if span.touches(begin, end)]
        return max((span for span in found if span.seconds >= seconds), default=None)


@dataclass
class Attempt:
    """One start of a handler, and what it told."""

    key: Key
    life: Life
    started: float
    fence: int
    aborted: float = inf
    completing: float = inf  # its success was in a transaction of its own
    ended: float = inf
    how: str = ""  # "returned", "raised" or "failed"

    @property
    def active_until(self) -> float:
        """Until when it worked as if nobody had told it to stop."""
        return min(self.aborted, self.completing, self.ended, self.life.gone)


@dataclass
class Story:
    """Everything that the checker asks about; records are those of history, by attempt."""

    terms: Terms
    plans: dict[int, dict[str, Plan]]  # by version and job
    lines: list[dict]
    records: dict[Key, dict]
    first: float = 0.0  # slots between these two moments have to be explained
    last: float = inf
    ahead: float = 0.0  # the wall clock, as the store has it, minus CLOCK_MONOTONIC
    lives: dict[str, Life] = field(default_factory=dict)
    outages: list[Span] = field(default_factory=list)  # nobody could reach the store
    attempts: list[Attempt] = field(default_factory=list)  # in the order of their starts
    proofs: dict[Key, list[tuple[float, float]]] = field(default_factory=dict)  # sent, known
    fences: dict[Key, set[int]] = field(default_factory=dict)  # as the winners were told
    winners: dict[Key, set[str]] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    strays: list[dict] = field(default_factory=list)  # lines of handlers that had not started

    def __post_init__(self) -> None:
        reader = _Reader(self)
        for line in self.lines:
            if (read := getattr(reader, f"on_{line['kind']}", None)) is not None:
                read(line)
        reader.finish()

    def moment_of(self, slot_ms: int) -> float:
        """Return when a slot was due, on CLOCK_MONOTONIC."""
        return slot_ms / 1000 - self.ahead

    def slot_at(self, moment: float) -> int:
        """Return a moment as a wall time in milliseconds."""
        return round((moment + self.ahead) * 1000)

    def plan_of(self, job: str) -> Plan:
        """Return what all versions have in common of a job."""
        return next(plans[job] for plans in self.plans.values() if job in plans)

    def last_proof(self, key: Key) -> float:
        """Return when the last renewal was sent that the store is known to have; -inf if none."""
        return max((sent for sent, _ in self.proofs.get(key, [])), default=-inf)


class _Reader:
    """Takes in the lines, one after another."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._open: dict[tuple[str, Key], Attempt] = {}
        self._frozen: dict[str, float] = {}
        self._troubles: dict[int, dict] = {}
        self._proofs = story.proofs = defaultdict(list)
        self._fences = story.fences = defaultdict(set)
        self._winners = story.winners = defaultdict(set)
        self._faults = story.faults = defaultdict(int)

    def finish(self) -> None:
        """Close what is still open when the lines end."""
        end = self._story.lines[-1]["at"] if self._story.lines else 0.0
        for name in list(self._frozen):
            self._thaw(name, end)
        for number in list(self._troubles):
            self.on_mended({"number": number, "at": end})

    # --- the driver's lines ---

    def on_begun(self, line: dict) -> None:
        self._story.first, self._story.ahead = line["at"], line["wall"] - line["at"]

    def on_calm(self, line: dict) -> None:
        self._story.last = line["at"]

    def on_spawned(self, line: dict) -> None:
        self._story.lives[line["name"]] = Life(line["name"], line["version"], line["at"])

    def on_fault(self, line: dict) -> None:
        self._faults[line["what"]] += 1

    def on_asked(self, line: dict) -> None:
        self._life(line["name"]).asked = line["at"]

    def on_killed(self, line: dict) -> None:
        self._life(line["name"]).killed = line["at"]

    def on_gone(self, line: dict) -> None:
        self._thaw(line["name"], line["at"])
        self._life(line["name"]).gone = line["at"]

    def on_frozen(self, line: dict) -> None:
        self._frozen[line["name"]] = line["at"]

    def on_thawed(self, line: dict) -> None:
        self._thaw(line["name"], line["at"] + WAKE_SECONDS)

    def on_trouble(self, line: dict) -> None:
        self._troubles[line["number"]] = line

    def on_mended(self, line: dict) -> None:
        begun = self._troubles.pop(line["number"])
        span = Span(begun["at"], line["at"])
        if begun["name"] is None:
            self._story.outages.append(span)
        else:
            self._life(begun["name"]).troubled.append(span)

    # --- those of the processes ---

    def on_running(self, line: dict) -> None:
        self._life(line["who"]).running = line["at"]

    def on_stalled(self, line: dict) -> None:
        span = Span(line["since"], line["at"])
        if line["who"] in self._story.lives:
            self._life(line["who"]).frozen.append(span)
        else:  # the driver, through which everybody's way to the store leads
            self._story.outages.append(span)

    def on_won(self, line: dict) -> None:
        key = _key(line)
        self._proofs[key].append((line["sent"], line["at"]))
        self._fences[key].add(line["fence"])
        self._winners[key].add(line["who"])

    def on_renewed(self, line: dict) -> None:
        for lease in line["kept"]:
            self._proofs[_key(lease)].append((line["sent"], line["at"]))

    def on_unanswered(self, line: dict) -> None:
        self._life(line["who"]).unanswered.append(Span(line["sent"], line["at"]))

    def on_started(self, line: dict) -> None:
        key = _key(line)
        attempt = Attempt(key, self._life(line["who"]), line["at"], line["fence"])
        self._story.attempts.append(attempt)
        self._open[line["who"], key] = attempt

    def on_aborted(self, line: dict) -> None:
        if (attempt := self._open.get((line["who"], _key(line)))) is None:
            self._story.strays.append(line)
        else:
            attempt.aborted = line["at"]

    def on_completing(self, line: dict) -> None:
        attempt = self._open[line["who"], _key(line)]
        attempt.completing = min(attempt.completing, line["at"])

    def on_ended(self, line: dict) -> None:
        if (attempt := self._open.pop((line["who"], _key(line)), None)) is None:
            self._story.strays.append(line)
        else:
            attempt.ended, attempt.how = line["at"], line["how"]

    def _life(self, name: str) -> Life:
        return self._story.lives[name]

    def _thaw(self, name: str, at: float) -> None:
        if (begun := self._frozen.pop(name, None)) is not None:
            self._life(name).frozen.append(Span(begun, at))


def _key(line: dict) -> Key:
    return Key(line["job"], line["slot"], line["attempt"])
