"""Runs the same tests again and again, each time in a fork of a process that is ready for them.

    python -P -m tests.mutate_forks MOMENT PYTEST_ARGUMENTS...

For `tests.mutate`, which writes a mutant before it asks for a run. Starting Python and pytest,
and the servers that the tests ask for, is done once, in the leader; each run is a fork of it,
which goes on as any pytest does. MOMENT is what is known by then: `imported` forks before any
`conftest.py` is loaded, so that nothing of the package is imported yet, and `collected` when
the tests are, for files that the package reads but doesn't import.

Orders are lines of the standard input, JSON objects with the fields of `Order`; the answers
are lines of the standard output with those of `Outcome`.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.servers.fixtures import SharedServers

MOST_BYTES = 3 << 30  # of address space: the tests need less than a third of it
HEAVY = ("hypothesis", "psycopg", "redis")  # imported when first needed, else by each run
HANGS_SECONDS = 1.5  # longer than usual, and a server may be busy with what was asked
RUNS_BETWEEN_STARTS = 50  # of the servers: mutants leave databases behind


class Order(NamedTuple):
    """One run: its limits in seconds, of the processor and by the clock."""

    cpu_seconds: float
    clock_seconds: float


class Outcome(NamedTuple):
    """What became of a run.

    `result` is ``survived``, ``killed``, ``timeout``, or how pytest or its process ended
    without a failed test. `by` is the test that failed first, and `hung` whether that took so
    long that something must have been waited for in vain.
    """

    result: str
    by: str = ""
    cpu_seconds: float = 0.0
    hung: bool = False


class Notes:
    """What a fork tells the leader when it ends."""

    def __init__(self) -> None:
        self.by = ""
        self.seconds: dict[str, float] = {}
        self.variants: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.by = self.by or report.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.by = self.by or report.nodeid


class Leader:
    """A plugin of pytest that answers orders where the first `conftest.py` or the tests come in.

    In the leader those hooks end when there are no more orders; in each fork they return
    at once, and let the others of that name do their work.
    """

    def __init__(self, moment: str, orders: Iterable[str], answers: int) -> None:
        self.moment = moment
        self.orders = orders
        self.answers = answers
        self.pipe: int | None = None  # of a fork, to the leader
        self.notes = Notes()
        self.order: list[str] = []  # of the tests: those that killed lately, then as collected
        self.usual: dict[str, float] = {}  # how long each took in the first run
        self.variants: list[str] = []  # of servers that were asked for
        self.servers: SharedServers | None = None
        self.lent: dict[str, object] = {}  # the same by variant, for forks: they can't wait for it
        self.runs = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        for module in HEAVY:
            with suppress(ImportError):
                importlib.import_module(module)
        # It is imported by the leader or here, before a conftest.py names it as a plugin.
        pytest.register_assert_rewrite("tests.servers.fixtures")
        if self.moment != "imported":
            return
        if any(name.partition(".")[0] == "anarchon" for name in sys.modules):
            raise pytest.UsageError("the package is imported before anything is asked")
        if self._lead():
            sys.exit()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if self.pipe is None and (self.moment == "imported" or self._lead()):
            return True
        place = {nodeid: number for number, nodeid in enumerate(self.order)}
        session.items.sort(key=lambda item: place.get(item.nodeid, len(place)))
        return None

    def _lead(self) -> bool | None:
        """Carry out orders; return True in the leader, after the last one, and None in a fork."""
        for line in self.orders:
            self._start_servers()
            reading, writing = os.pipe()
            order = Order(**json.loads(line))
            pid = os.fork()
            if pid == 0:
                os.close(reading)
                self._become_fork(writing, order)
                return None
            os.close(writing)
            os.write(self.answers, json.dumps(self._awaited(pid, reading, order)).encode() + b"\n")
        self._end_servers()
        return True

    # --- the leader -------------------------------------------------------------

    def _awaited(self, pid: int, reading: int, order: Order) -> dict[str, Any]:
        said, in_time = everything_from(reading, order.clock_seconds)
        if not in_time:
            os.killpg(pid, signal.SIGKILL)
        _, status, used = os.wait4(pid, 0)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what the run left behind
        notes = json.loads(said) if said and in_time else {"by": "", "seconds": {}, "variants": []}
        code = os.waitstatus_to_exitcode(status)
        if not in_time or code == -signal.SIGXCPU:
            result = "timeout"
        elif code == 0:
            result = "survived"
        else:
            result = "killed" if notes["by"] else f"ended with {code}"
        hung = self._learn(result, notes)
        return Outcome(result, notes["by"], used.ru_utime + used.ru_stime, hung)._asdict()

    def _learn(self, result: str, notes: dict[str, Any]) -> bool:
        """Order what comes next by what was seen; return whether the run hung."""
        by, seconds = notes["by"], notes["seconds"]
        self.usual = self.usual or seconds
        self.variants += [one for one in notes["variants"] if one not in self.variants]
        if by:
            self.order = [by, *(one for one in self.order if one != by)]
        hung = seconds.get(by, 0.0) > self.usual.get(by, 0.0) + HANGS_SECONDS
        self.runs += 1
        if hung or result == "timeout" or self.runs % RUNS_BETWEEN_STARTS == 0:
            self._end_servers()
        return hung

    def _start_servers(self) -> None:
        if self.variants and self.servers is None:
            from tests.servers.fixtures import SharedServers

            self.servers = SharedServers()
            self.lent = {variant: self.servers(variant) for variant in self.variants}

    def _end_servers(self) -> None:
        if self.servers is not None:
            self.servers.close()
            self.servers, self.lent = None, {}

    # --- a fork -----------------------------------------------------------------

    def _become_fork(self, writing: int, order: Order) -> None:
        os.setsid()
        self.pipe = writing
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        seconds = max(1, round(order.cpu_seconds))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._lend_servers()

    def _lend_servers(self) -> None:
        """Let tests be given the servers that the leader has started; it ends them as well."""
        from tests.servers import fixtures

        lent, asked = self.lent, self.notes.variants

        class Lent(fixtures.SharedServers):
            def __call__(self, variant: str) -> object:
                asked.append(variant)
                return lent[variant] if variant in lent else super().__call__(variant)

        fixtures.SharedServers = Lent

    def end_of_fork(self, status: int) -> None:
        """Tell the leader what is known, and end without the leader's own ends."""
        assert self.pipe is not None
        if status == pytest.ExitCode.USAGE_ERROR and not self.notes.by:
            self.notes.by = "conftest.py"  # it imports the package, which fails
        os.write(self.pipe, json.dumps(vars(self.notes)).encode())
        os._exit(status)


def everything_from(reading: int, seconds: float) -> tuple[bytes, bool]:
    """Read until the other end is closed; return what came, and whether it did so in time."""
    deadline = time.monotonic() + seconds
    parts = []
    try:
        while select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = os.read(reading, 1 << 16)
            if not part:
                return b"".join(parts), True
            parts.append(part)
        return b"".join(parts), False
    finally:
        os.close(reading)


def main(moment: str, *arguments: str) -> int:
    """Lead until the orders end; what pytest prints goes nowhere."""
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    leader = Leader(moment, iter(sys.stdin.readline, ""), answers)
    status = pytest.main(list(arguments), plugins=[leader, leader.notes])
    if leader.pipe is not None:
        leader.end_of_fork(int(status))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
