"""How long a run waits for its next attempt, after a stop and after a death, on each store.

A few processes hold many runs between them. One after another is asked to stop, or killed, and
everything that it held is waited for. The ledger's moments are on one clock.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.figures import percentiles, waits
from tests.chaos.fleet import Fleet, Setting
from tests.chaos.ledger import Ledger, read
from tests.chaos.stores import Way, store_named
from tests.chaos.story import Story, Terms
from tests.chaos.work import Job, Plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.fleet import Member
    from tests.chaos.stores import File, Networked

RUNS = 100
PROCESSES = 4
HOUR_MS = 3_600_000
LATEST_SECONDS = 60.0
LOOK_SECONDS = 0.05


class Held(Plain):
    """Jobs of which each has one run, which goes on until somebody ends it."""

    def jobs(self, version: int) -> list[Job]:
        return [
            Job(f"job {n}", HOUR_MS, "cooperative", 7200.0, catch_up="1h", max_attempts=10_000)
            for n in range(RUNS)
        ]


WORK = Held


class Direct:
    """A store without anything between it and the processes."""

    is_networked = False  # so there is no clock to set wrong, either

    def __init__(self, store: File | Networked) -> None:
        self._url = store.url

    def way(self) -> Way:
        return Way(self._url, None)


class Runners:
    """Who runs what, as far as the ledger has been read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""
        self._of: dict[str, str] = {}

    def of_all(self) -> dict[str, str]:
        """Return the process of each job that is running, by the last line about it."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in map(json.loads, lines):
            if line["kind"] == "started":
                self._of[line["job"]] = line["who"]
        return self._of

    def wait_for(self, is_so: Callable[[dict[str, str]], bool]) -> None:
        """Read on until something is true of who runs what."""
        deadline = time.monotonic() + LATEST_SECONDS
        while not is_so(self.of_all()):
            assert time.monotonic() < deadline, self._of
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        self._file.close()


def measure(variant: str, count: int) -> str:
    """Measure at least so many hand-overs and takeovers; return a line of the table."""
    folder = Path(tempfile.mkdtemp(prefix="anarchon-chaos-"))
    store = store_named(variant, folder)
    setting = Setting(folder=folder, work="latencies", workers=RUNS, longest=3600)
    ledger = Ledger(folder / "ledger.jsonl", "driver")
    fleet = Fleet(setting, Direct(store), ledger)
    runners = Runners(ledger.path)
    try:
        for _ in range(PROCESSES):
            fleet.spawn(0)
        fleet.wait_until_up()
        runners.wait_for(lambda of: len(of) == RUNS)
        for strike in (fleet.ask, fleet.kill):
            strike_often(fleet, runners, strike, count)
        lines = read(ledger.path)  # before the end, when runs are handed to who stops next
        fleet.stop()
        assert not fleet.wrong, fleet.wrong
        return row(variant, Story(Terms(setting.lease, setting.heartbeat), {}, lines, {}))
    finally:
        runners.close()
        fleet.clean_up()
        ledger.close()
        store.delete()
        shutil.rmtree(folder)


def strike_often(
    fleet: Fleet, runners: Runners, strike: Callable[[Member], None], count: int
) -> None:
    """Strike whoever holds the most, again and again, until so many runs have moved."""
    moved = 0
    while moved < count:
        held = list(runners.of_all().values())
        victim = max(fleet.members, key=lambda member: held.count(member.name))
        moved += held.count(victim.name)
        strike(victim)
        fleet.spawn(0)
        runners.wait_for(lambda of, gone=victim.name: gone not in of.values())
        fleet.see_off()
        fleet.wait_until_up()


HEAD = ("store", "hand-over", "takeover after the lease's end", "takeover after the kill")


def row(variant: str, story: Story) -> str:
    found = waits(story)
    columns = (found.hand_overs, found.takeovers, found.since_kill)
    return " | ".join([variant, *map(percentiles, columns)])


def table(variants: list[str], count: int) -> str:
    """Measure several stores, one after another, so that none disturbs another one."""
    return "\n".join([" | ".join(HEAD), *(measure(variant, count) for variant in variants)])
