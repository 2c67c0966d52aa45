"""What every server is made of: a folder, a free port, a process, and its end."""

from __future__ import annotations

import atexit
import contextlib
import enum
import functools
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.servers.faketime import SteppedClock

STOP_SECONDS = 20.0
WAIT_SECONDS = 20.0
POLL_SECONDS = 0.005
# Below the ports that the kernel gives to clients: a client that keeps connecting to a server
# that is down could otherwise be given the server's own port, and would talk to itself.
PORTS = range(10_000, 22_000)
PORT_TRIES = 50
# Files in memory take a quarter of the time that they take on a disk.
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2**31
ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}

_lock = threading.Lock()
_numbers = itertools.count(1)
_sources = random.SystemRandom()  # what seeds `random` would give all workers the same ports


class ServerError(Exception):
    """A server did not start, or ended when it should not; the text has its log."""


class Missing(ServerError):
    """The programs of a server are not installed; `bringer` is what installs them.

    Wheels belong to the tests, so tests fail without them. A test that needs what only the
    system has may be skipped, except in continuous integration (see `fixtures.py`).
    """

    def __init__(self, what: str, bringer: Bringer) -> None:
        super().__init__(f"{what} is not installed")
        self.bringer = bringer


class Bringer(enum.Enum):
    """What installs the programs of a server."""

    WHEEL = enum.auto()
    SYSTEM = enum.auto()
    NOTHING = enum.auto()  # there is no wheel for this Python


class Reaper:
    """Tells `reaper.py` what to end; one for each process that starts servers."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        script = Path(__file__).with_name("reaper.py")
        # In a session of its own, so that a kill of our process group leaves it alone.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(self.owner)],
            stdin=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
        self.disk = self._new_folder(None)
        self.memory = self._new_folder(str(MEMORY)) if is_roomy(MEMORY) else self.disk

    def _new_folder(self, parent: str | None) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="anarchon-", dir=parent))
        folder.chmod(0o755)  # PostgreSQL runs as somebody else
        self.tell("folder", folder)
        return folder

    def tell(self, word: str, value: object) -> None:
        # One write of one line, so threads can't mix theirs.
        os.write(self._process.stdin.fileno(), f"{word} {value}\n".encode())

    def close(self) -> None:
        """End every server that is left and remove the folders."""
        if self.owner == os.getpid():
            self._process.stdin.close()
            self._process.wait()


@functools.cache
def _reaper_of(pid: int) -> Reaper:
    made = Reaper()
    atexit.register(made.close)
    return made


def reaper() -> Reaper:
    """Return the reaper of this process, started when it is first needed; a fork has its own."""
    with _lock:
        return _reaper_of(os.getpid())


def is_roomy(parent: Path) -> bool:
    """Say whether servers may keep their files there."""
    if not os.access(parent, os.W_OK):
        return False
    found = os.statvfs(parent)
    return found.f_bavail * found.f_frsize >= MEMORY_BYTES


def new_folder(name: str, *, durable: bool = False) -> Path:
    """Make a folder that is gone with this process, in memory where it need not be durable."""
    parent = reaper().disk if durable else reaper().memory
    folder = parent / f"{name}-{next(_numbers)}"
    folder.mkdir()
    folder.chmod(0o755)  # whatever the umask is: PostgreSQL runs as somebody else
    return folder


def free_port(*, beside: int = 0) -> int:
    """Find a port that nobody listens on now; with `beside`, port + beside is free as well."""
    for _ in range(PORT_TRIES):
        port = _sources.choice(PORTS)
        if all(_is_free(number) for number in {port, port + beside}):
            return port
    raise ServerError("found no free port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def wait_until(condition, what: str) -> None:
    """Ask again and again, for what gives no signal: another process's state."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"not so in {WAIT_SECONDS} s: {what}")
        time.sleep(POLL_SECONDS)


class Server:
    """One server: `start`, `kill`, `stop` and `restart` keep its port and its folder.

    `beside` is the distance to a second port that it opens, `clock` what it takes for the time;
    with `durable` its files are on a disk. A subclass gives `command` and `answers`, and may
    change `user`. Calls are for one thread at a time. Used in a `with` statement, it is started
    and, at the end, deleted.
    """

    host = "127.0.0.1"
    stop_signal = signal.SIGTERM

    def __init__(
        self,
        name: str,
        *,
        beside: int = 0,
        clock: SteppedClock | None = None,
        durable: bool = False,
    ) -> None:
        self.name = name
        self.clock = clock
        self.folder = new_folder(name, durable=durable)
        self._beside = beside
        self.port = free_port(beside=beside)
        self.log_path = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port_is_known = False

    def command(self) -> list[str]:
        """Return the program and its arguments; it must stay in the foreground."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Say whether the process that was started serves now."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return ENVIRONMENT | (self.clock.environment() if self.clock else {})

    def user(self) -> dict[str, object]:
        """Return the arguments of `subprocess` that say who runs it."""
        return {}

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc_info) -> None:
        self.delete()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError(f"{self.name} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """Return everything that all its processes wrote."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start the process and return when it serves.

        Somebody may take the port between our look and the server's: then another port is
        taken, but only before the first start was done, for afterwards the port is known.
        """
        if self.is_running:
            raise ServerError(f"{self.name} runs already")
        for _ in range(PORT_TRIES):
            self._spawn()
            if self._wait_for_answer():
                self._port_is_known = True
                return
            self._forget()
            if self._port_is_known or "ddress already in use" not in self.log:
                raise ServerError(f"{self.name} ended while starting:\n{self.log}")
            self.log_path.unlink()
            self.port = free_port(beside=self._beside)
        raise ServerError(f"{self.name} found every port taken")

    def kill(self) -> None:
        """End it with SIGKILL, as a crash does, and wait."""
        self._end(signal.SIGKILL)

    def stop(self, number: signal.Signals | None = None) -> None:
        """End it politely and wait; harmless when it has ended."""
        self._end(number or self.stop_signal)

    def restart(self) -> None:
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Stop it with SIGSTOP: connections stay open and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def delete(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _spawn(self) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment(),
                start_new_session=True,  # a Ctrl-C at the terminal is for the tests
                **self.user(),
            )
        reaper().tell("watch", self._process.pid)

    def _wait_for_answer(self) -> bool:
        """Return whether it serves; False when it ended instead."""

        def has_decided() -> bool:
            return self._process.poll() is not None or self.answers()

        try:
            wait_until(has_decided, f"{self.name} answers")
        except BaseException as error:
            error.add_note(self.log)
            self.kill()
            raise
        return self._process.poll() is None

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ServerError(f"{self.name} did not end:\n{self.log}") from None
        finally:
            self._forget()

    def _forget(self) -> None:
        reaper().tell("forget", self._process.pid)
        self._process = None
