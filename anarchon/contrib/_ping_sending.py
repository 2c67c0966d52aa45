"""Sends pings by HTTP, within limits, on a thread that is there while there are any."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakSet

from .._log_fields import fields, printable
from .._log_lines import Line, dropped, write
from .._named import NamedTuple
from .._texts import clean
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ._ping_http import Http

# So many pings may wait; then the oldest go, since the latest say how things are.
BOUND = 100
FIRST_PAUSE_SECONDS = 0.5
# What the end of the process waits at most for pings that are on their way.
EXIT_SECONDS = 5.0


class Ping(NamedTuple):
    """An address to ask for, or to send a text to."""

    job: str
    url: str
    text: str | None = None


def checked_url(url: object, what: str) -> str:
    """Return an address; raises `ConfigurationError`, which doesn't show it, if it is none."""
    wrong = "is no text" if not isinstance(url, str) else _wrong(url)
    if wrong is None:
        return str(url)
    raise ConfigurationError(
        f"{what}: the address {wrong}; give one such as https://example.com/5f0c (it is not shown"
        " here, because whoever knows it can send pings)"
    )


def _wrong(url: str) -> str | None:
    if not (url.isascii() and url.isprintable()) or " " in url:
        return "has blanks, or letters that would have to be percent-encoded"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "can't be read"
    if parts.scheme not in ("http", "https") or not host:
        return "is not one of http or https, with a host"
    return "has a user in it, which is not sent" if "@" in parts.netloc else None


def with_path(url: str, more: str) -> str:
    """Return an address with something at the end of its path."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + more))


class Sender:
    """Sends pings in the order in which they come.

    Threads: any for `put`, which waits for nothing, and `flush`. A forked child begins anew.
    """

    def __init__(self, seconds: float, tries: int, logger: logging.Logger) -> None:
        self._seconds = seconds
        self._tries = tries
        self._logger = logger
        self._failing: set[str] = set()
        self._begin()
        _remember(self)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: deque[Ping] = deque()
        self._thread: threading.Thread | None = None
        self._http: Http | None = None

    def put(self, ping: Ping) -> None:
        """Have a ping sent soon."""
        if self._pid != os.getpid():
            self._begin()  # the thread, and whoever held the lock, are in the parent
        drops = False
        with self._lock:
            if len(self._waiting) >= BOUND:
                self._waiting.popleft()
                drops = True
            self._waiting.append(ping)
            thread = None
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="anarchon-ping", daemon=True)
                self._thread = thread
        if drops:
            write(dropped(1, "ping"), self._logger)
        if thread is not None:
            try:
                thread.start()
            except RuntimeError:  # at the interpreter's exit, and at a limit of threads
                self._run()

    def flush(self, seconds: float) -> None:
        """Wait until nothing waits, at most so long."""
        thread = self._thread
        if thread is not None and self._pid == os.getpid() and thread.is_alive():
            thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                ping = self._waiting.popleft()
            try:
                self._deliver(ping)
            except BaseException as error:
                self._tell(ping, type(error).__name__)

    def _deliver(self, ping: Ping) -> None:
        from ._ping_http import Http

        http = self._http = self._http or Http()
        body = None if ping.text is None else clean(ping.text).encode()
        for turn in range(self._tries):
            problem = http.send(ping.url, body, self._seconds)
            if problem is None:
                self._tell(ping, None)
                return
            if problem.final or turn + 1 == self._tries:
                self._tell(ping, problem.text)
                return
            time.sleep(FIRST_PAUSE_SECONDS * 2.0**turn)

    def _tell(self, ping: Ping, problem: str | None) -> None:
        """Say that pings don't get through, once, and that they do again."""
        if problem is not None and ping.job not in self._failing:
            self._failing.add(ping.job)
            text = printable(f"{ping.job}: a ping did not get through: {problem}")
            told = fields("ping_failed", job=ping.job, error=problem)
            write(Line(logging.WARNING, text, told), self._logger)
        elif problem is None and ping.job in self._failing:
            self._failing.discard(ping.job)
            text = printable(f"{ping.job}: pings get through again")
            write(Line(logging.INFO, text, fields("ping_recovered", job=ping.job)), self._logger)


_senders: WeakSet[Sender] = WeakSet()


def _remember(sender: Sender) -> None:
    if not _senders:
        atexit.register(_flush_all)
    _senders.add(sender)


def _flush_all() -> None:
    """Let what is on its way arrive: of a stop at exit, the last pings come just before."""
    until = time.monotonic() + EXIT_SECONDS
    for sender in tuple(_senders):
        sender.flush(max(0.0, until - time.monotonic()))
