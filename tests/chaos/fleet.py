"""The processes of a chaos run: who is there, who leaves, and what the ledger is told of it."""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from tests.processes.fleet import Process

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.ledger import Ledger
    from tests.chaos.stores import File, Networked, Way

LEAVING_SECONDS = 60.0  # a process that was asked to stop, and is there for longer, is stuck
RUNNING_SECONDS = 60.0


class Setting(NamedTuple):
    """What all processes of a run have in common."""

    folder: Path
    lease: float = 3.0
    heartbeat: float = 0.6
    work: str = "plain"
    workers: int = 10
    plant: str | None = None
    longest: int = 600  # seconds until a process ends by itself, whatever happens


class Member:
    """One process, its way to the store, and its clock."""

    def __init__(self, process: Process, way: Way, clock: Path, version: int) -> None:
        self.process = process
        self.way = way
        self.version = version
        self.is_struck = False
        self.asked_at: float | None = None
        self.codes: tuple[int, ...] = (0, -signal.SIGTERM)  # SIGTERM may come before its handler
        self._clock = clock

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def is_up(self) -> bool:
        return bool(self.process.said("up"))

    def shift_clock(self, seconds: float) -> None:
        with self._clock.open("r+b") as file:
            file.write(struct.pack("d", seconds))


class Fleet:
    """Starts and ends processes; those that were asked to stop leave in their own time."""

    def __init__(self, setting: Setting, store: File | Networked, ledger: Ledger) -> None:
        self.members: list[Member] = []
        self.leaving: list[Member] = []
        self.wrong: list[str] = []  # how processes ended that should have ended otherwise
        self._setting = setting
        self._store = store
        self._ledger = ledger
        self._news = threading.Condition()
        self._count = 0

    def spawn(self, version: int) -> Member:
        """Start a process without waiting for it."""
        self._count += 1
        name, folder, way = f"p{self._count}", self._setting.folder, self._store.way()
        clock = folder / f"{name}.clock"
        clock.write_bytes(struct.pack("d", 0.0))
        common = self._setting._asdict()
        own = {
            "name": name,
            "version": version,
            "url": way.url,
            "clock": str(clock) if self._store.is_networked else None,
            "log": str(folder / f"{name}.log"),
            "ledger": str(self._ledger.path),
            "folder": str(folder),
        }
        self._ledger.write("spawned", name=name, version=version)
        process = Process(self._news, "chaos.worker:work", {**common, **own}, folder, name)
        member = Member(process, way, clock, version)
        self.members.append(member)
        return member

    def kill(self, member: Member) -> None:
        self._ledger.write("killed", name=member.name)
        self.members.remove(member)
        member.process.send(signal.SIGKILL)
        self._bury(member, -signal.SIGKILL)

    def ask(self, member: Member) -> None:
        """Ask a process to stop; it leaves when it has."""
        if member.is_up:
            member.codes = (0,)
        member.asked_at = self._ledger.write("asked", name=member.name)
        member.process.send(signal.SIGTERM)
        self.members.remove(member)
        self.leaving.append(member)

    def freeze(self, member: Member) -> None:
        """Stop a process where it is, and see that it stands."""
        self._ledger.write("frozen", name=member.name)
        member.process.send(signal.SIGSTOP)
        os.waitid(os.P_PID, member.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self, member: Member) -> None:
        self._ledger.write("thawed", name=member.name)
        member.process.send(signal.SIGCONT)

    def see_off(self) -> None:
        """Take leave of those that are gone."""
        for member in list(self.leaving):
            if member.process.is_silent() or time.monotonic() > member.asked_at + LEAVING_SECONDS:
                self.leaving.remove(member)
                self._bury(member, *member.codes)
        for member in list(self.members):
            if member.process.is_silent():
                self.members.remove(member)
                self.wrong.append(f"{member.name} ended by itself\n{member.process.report()}")

    def wait_until_up(self) -> None:
        """Wait until every process has reached the store and runs."""
        deadline = time.monotonic() + RUNNING_SECONDS
        for member in self.members:
            try:
                member.process.expect("up", within=max(0.0, deadline - time.monotonic()))
            except AssertionError as error:
                self.wrong.append(str(error))

    def stop(self) -> None:
        """Ask all to stop, and wait until they are gone."""
        for member in list(self.members):
            self.ask(member)
        for member in self.leaving:
            self._bury(member, *member.codes)
        self.leaving.clear()

    def clean_up(self) -> None:
        """Kill whatever is left."""
        for member in [*self.members, *self.leaving]:
            with suppress(ProcessLookupError):
                member.process.send(signal.SIGKILL)
            member.process.clean_up()
            member.way.close()

    def _bury(self, member: Member, *codes: int) -> None:
        """Wait for a process's end, and say so; it has to be the right one."""
        try:
            member.process.end(*codes, within=LEAVING_SECONDS)
            if member.process.code == -signal.SIGTERM:
                self._ledger.write("killed", name=member.name)
        except AssertionError as error:
            self.wrong.append(str(error))
        member.process.clean_up()
        self._ledger.write("gone", name=member.name)
        member.way.close()
