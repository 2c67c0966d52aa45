"""The plot of the demo: a graceful stop, a kill, and what the other instances make of it.

Each act waits until some instance runs `report`, lets it work for a moment, sends its
process a signal, and waits for the same run to start elsewhere as the next attempt. What
is seen here comes from the instances' own output; the summary checks it in the history.
"""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._demo_instance import HEARTBEAT_SECONDS, LEASE_SECONDS
from ._named import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._demo_fleet import Fleet, Said
    from ._demo_screen import Screen

NAMES = ("one", "two", "three")
_BOOT_SECONDS = 20.0
_EXIT_SECONDS = 15.0


class Plan(NamedTuple):
    """How long things take, in seconds."""

    report_every: float
    report_work: float
    limit: float  # when the show ends, whatever was seen
    encore: bool  # go on until the limit, after both acts

    @property
    def pause(self) -> float:
        """How long a run may work before its process gets the signal."""
        return min(5.0, self.report_work / 4)

    @property
    def least_seconds(self) -> float:
        """How long even the quickest show takes: two runs of report, and one lease between."""
        return self.pause + self.report_work + self.pause + LEASE_SECONDS


class Attempt(NamedTuple):
    """A run of `report` that an instance said it started."""

    name: str
    instance_id: str
    slot: int
    number: int
    at_ms: int


@dataclass
class Act:
    """What was done to whom, and the attempt that came after."""

    signum: signal.Signals
    victim: Attempt
    at_ms: int
    successor: Attempt | None = None


class TimeUp(Exception):
    """The limit of the whole show was reached."""


class Died(Exception):
    """An instance ended that nobody asked to."""


class Show:
    """Runs the acts, and prints everything that is said meanwhile."""

    def __init__(self, fleet: Fleet, screen: Screen, plan: Plan) -> None:
        self.acts: dict[signal.Signals, Act] = {}
        self.names: dict[str, str] = {}  # instance_id -> name, of every process there was
        self.began_ms = time.time_ns() // 1_000_000
        self.given_up: set[signal.Signals] = set()  # acts for which there was time enough
        self._fleet = fleet
        self._screen = screen
        self._plan = plan
        self._end = time.monotonic() + plan.limit
        self._running: set[str] = set()
        self._current: Attempt | None = None  # the report that is being worked on
        self._expected: set[str] = set()  # processes that were told to end

    def play(self) -> None:
        """Play both acts, then wait for the run that was taken over to end."""
        for name in NAMES:
            self._fleet.start(name)
        with contextlib.suppress(TimeUp):
            self._act(signal.SIGTERM)
            self._act(signal.SIGKILL)
            self._wait(lambda: self._current is None, self._plan.report_work + 5)
            if self._plan.encore:
                self._screen.narrate("Going on until the time is up; Ctrl-C ends it.")
                self._wait(lambda: False, self._plan.limit)

    def close(self) -> None:
        """Ask every instance to stop, and show its last lines."""
        self._end = time.monotonic() + _EXIT_SECONDS
        self._screen.narrate("The end: SIGTERM to all.")
        for name in self._fleet.names:
            self._send(name, signal.SIGTERM)
        with contextlib.suppress(TimeUp):
            self._wait(lambda: not self._fleet.names, _EXIT_SECONDS)

    def _act(self, signum: signal.Signals) -> None:
        victim = self._next_runner()
        if victim is None:
            self.given_up.add(signum)
            return
        self._screen.narrate(_ANNOUNCEMENTS[signum].format(name=victim.name))
        act = Act(signum, victim, self._send(victim.name, signum))
        self.acts[signum] = act
        self._wait(lambda: self._follows(act), LEASE_SECONDS + 6 * HEARTBEAT_SECONDS)
        if act.successor is None:
            self.given_up.add(signum)
            self._screen.narrate("Nobody went on with that run.")
        self._wait(lambda: victim.name not in self._fleet.names, _EXIT_SECONDS)
        if victim.name not in self._fleet.names:
            self._screen.narrate(f"Starting {victim.name} again.")
            self._fleet.start(victim.name)

    def _next_runner(self) -> Attempt | None:
        """Wait for a first attempt at a run that no act has used, and let it work."""
        patience = _BOOT_SECONDS + self._plan.report_work + 2 * self._plan.report_every
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            self._wait(self._on_stage, deadline - time.monotonic())
            chosen = self._current
            self._wait(lambda: self._current != chosen, self._plan.pause)  # noqa: B023 - called here only
            if chosen is not None and self._current == chosen:
                return chosen
        return None

    def _on_stage(self) -> bool:
        """Say whether all are up and one of them runs a fresh report."""
        used = {act.victim.slot for act in self.acts.values()}
        one = self._current
        fresh = one is not None and one.number == 1 and one.slot not in used
        return fresh and len(self._running) == len(NAMES)

    def _follows(self, act: Act) -> bool:
        """Say whether the next attempt of an act's run was started elsewhere."""
        one, victim = self._current, act.victim
        if one is not None and one.slot == victim.slot and one.number > victim.number:
            act.successor = one
        return act.successor is not None

    def _send(self, name: str, signum: signal.Signals) -> int:
        self._expected.add(name)
        return self._fleet.send(name, signum)

    def _wait(self, reached: Callable[[], bool], seconds: float) -> None:
        """Show what is said until `reached`, for at most `seconds`."""
        deadline = time.monotonic() + seconds
        while not reached():
            now = time.monotonic()
            if now >= self._end:
                raise TimeUp
            if now >= deadline:
                return
            for said in self._fleet.pump(min(deadline, self._end) - now):
                self._hear(said)

    def _hear(self, said: Said) -> None:
        if said.kind == "line":
            self._screen.line(said.name, said.facts["text"])
        elif said.kind == "running":
            self._running.add(said.name)
            self.names[said.facts["instance_id"]] = said.name
        elif said.kind == "ended":
            self._hear_end(said)
        elif said.facts["run"]["job"] == "report":
            self._hear_report(said, said.facts["run"])

    def _hear_end(self, said: Said) -> None:
        code = said.facts["code"]
        self._screen.line(said.name, f"(process ended with {_exit_text(code)})")
        self._running.discard(said.name)
        if self._current is not None and self._current.name == said.name:
            self._current = None
        if said.name not in self._expected:
            raise Died(f"instance {said.name} ended by itself with {_exit_text(code)}")
        self._expected.discard(said.name)

    def _hear_report(self, said: Said, run: dict[str, Any]) -> None:
        if said.kind == "started":
            self._current = Attempt(
                said.name, run["instance_id"], run["slot"], run["attempt"], said.at_ms
            )
        elif self._current is not None and self._current.name == said.name:
            self._current = None


_ANNOUNCEMENTS = {
    signal.SIGTERM: "Instance {name} runs report. SIGTERM to it, as in a rolling deploy: it "
    "should stop and hand the run over.",
    signal.SIGKILL: "Instance {name} runs report. SIGKILL to it (kill -9), as in a crash: it can "
    "tell nobody, so its lease has to run out first.",
}


def _exit_text(code: int) -> str:
    return f"exit status {code}" if code >= 0 else signal.Signals(-code).name
