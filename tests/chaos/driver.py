"""Drives one chaos run on one store: a fleet, faults by a seed, and the history of it all."""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
from typing import TYPE_CHECKING

from anarchon import Scheduler
from anarchon.errors import BackendError
from tests.chaos.faults import faults_of
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger, read, tell_stalls
from tests.chaos.rules_slots import settle_seconds
from tests.chaos.story import Key, Plan, Story, Terms
from tests.chaos.work import work_named
from tests.processes.places import backend_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.fleet import Member, Setting
    from tests.chaos.stores import File, Networked

# History keeps only so many records of a job, and fewer of those that were skipped.
READ_SECONDS = 2.0
READ_LIMIT = 1000
# What is still open when the faults are over may have to be taken over first.
DECIDED_SECONDS = 30.0
OPEN = {"running", "interrupted"}


class Driver:
    """One run: `run` does everything; faults call the rest."""

    def __init__(
        self, setting: Setting, store: File | Networked, *, seed: str, pause: tuple[float, float]
    ) -> None:
        self.setting = setting
        self.store = store
        self.rng = random.Random(seed)
        self.version = 0
        self.ledger = Ledger(setting.folder / "ledger.jsonl", "driver")
        self.fleet = Fleet(setting, store, self.ledger)
        self.work = work_named(setting.work, store.url)
        self._pause = pause
        self._records: dict[Key, dict] = {}
        self._reader = Scheduler(backend_at(store.url, namespace="chaos"))
        self._book: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        self._is_over = threading.Event()
        self._stalls = threading.Thread(target=tell_stalls, args=(self.ledger, self._is_over))

    # --- for faults ---

    def choose(self) -> Member | None:
        """Choose whom to strike; somebody is always left alone."""
        free = [one for one in self.fleet.members if not one.is_struck]
        return self.rng.choice(free) if len(free) > 1 else None

    def replace(self, member: Member) -> None:
        """Ask a process to stop, with another one beside it."""
        self.fleet.ask(member)
        self.fleet.spawn(self.version)

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something after a while, or when the faults are over."""
        heapq.heappush(self._book, (time.monotonic() + seconds, next(self._numbers), do))

    def trouble(self, what: str, member: Member | None = None) -> int:
        """Tell the ledger that somebody can't reach the store, or nobody; return its number."""
        number = next(self._numbers)
        name = None if member is None else member.name
        self.ledger.write("trouble", number=number, what=what, name=name)
        return number

    def mend(self, number: int | None) -> None:
        if number is not None:
            self.ledger.write("mended", number=number)

    # --- the run ---

    def run(self, seconds: float, processes: int, *, with_faults: bool = True) -> Story:
        """Let a fleet work for so long, and return what happened."""
        self._stalls.start()
        self.work.prepare()
        for _ in range(processes):
            self.fleet.spawn(self.version)
        self.fleet.wait_until_up()
        self.ledger.write("begun", wall=time.time())
        self._rage(time.monotonic() + seconds, with_faults=with_faults)
        self._calm_down()
        self.fleet.stop()
        self._read()
        return self.story()

    def story(self) -> Story:
        """Put together what the ledger and history have."""
        terms = Terms(self.setting.lease, self.setting.heartbeat)
        plans = {
            version: {
                job.name: Plan(job.every_ms, job.overlap == "skip", job.on_crash == "abandon")
                for job in self.work.jobs(version)
            }
            for version in range(self.version + 1)
        }
        return Story(terms, plans, read(self.ledger.path), self._records)

    def close(self) -> None:
        self.fleet.clean_up()
        self._is_over.set()
        self._stalls.join()
        self.ledger.close()

    def _rage(self, until: float, *, with_faults: bool) -> None:
        faults = faults_of(self.store) if with_faults else ()
        strike_at = time.monotonic() + self.rng.uniform(*self._pause)
        read_at = time.monotonic() + READ_SECONDS
        while (now := time.monotonic()) < until and not self.fleet.wrong:
            while self._book and self._book[0][0] <= now:
                heapq.heappop(self._book)[2]()
            self.fleet.see_off()
            if faults and now >= strike_at:
                self._strike(faults)
                strike_at = time.monotonic() + self.rng.uniform(*self._pause)
            if now >= read_at:
                self._read()
                read_at = time.monotonic() + READ_SECONDS
            due = [until, read_at, *(entry[0] for entry in self._book[:1])]
            soonest = min([*due, strike_at] if faults else due)
            time.sleep(max(0.0, soonest - time.monotonic()))

    def _strike(self, faults) -> None:
        """Let one of the faults strike that can."""
        left = list(faults)
        while left:
            fault = self.rng.choices(left, [one.weight for one in left])[0]
            if (name := fault.strike(self)) is not None:
                self.ledger.write("fault", what=name)
                return
            left.remove(fault)

    def _calm_down(self) -> None:
        """End all faults, and let the fleet settle what they left behind."""
        while self._book:
            heapq.heappop(self._book)[2]()
        self.fleet.wait_until_up()
        if self.fleet.wrong:
            return
        calm = self.ledger.write("calm")
        story = self.story()
        time.sleep(settle_seconds(story) + 1.0)
        self.fleet.see_off()
        while time.monotonic() < calm + DECIDED_SECONDS:
            self._read()
            if not self._is_anything_open(story):
                return
            time.sleep(0.3)

    def _is_anything_open(self, story: Story) -> bool:
        until = story.slot_at(story.last)
        last = {key[:2]: run for key, run in sorted(self._records.items()) if key.slot <= until}
        ends = [(run["status"], run["detail"]) for run in last.values()]
        return any(status in OPEN and detail != "not handed over" for status, detail in ends)

    def _read(self) -> None:
        """Keep what history says now: later it may have been trimmed."""
        for job in self.work.jobs(self.version):
            try:
                runs = self._reader.history(job.name, limit=READ_LIMIT)
            except BackendError:  # the server may be down just now
                return
            for run in runs:
                self._records[Key(run.job, run.slot, run.attempt)] = run.to_dict()
