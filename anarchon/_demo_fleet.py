"""The processes of the demo: started, listened to, signalled, and ended for certain."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from ._named import NamedTuple

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Sequence

_READ_BYTES = 65_536


class Said(NamedTuple):
    """Something that an instance said, or (`ended`) the end of its process."""

    name: str
    at_ms: int
    kind: str
    facts: dict[str, Any]


class Instance:
    """A running process and the pipe that it talks through."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        # A group of its own: Ctrl-C in the terminal reaches the parent, which ends the rest.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "anarchon._demo_instance", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        assert self.process.stdout is not None
        self.fd = self.process.stdout.fileno()
        self._rest = b""

    def read(self) -> Iterator[Said]:
        """Yield what arrived; at the end of the pipe, the end of the process."""
        data = os.read(self.fd, _READ_BYTES)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield self._parse(line)
        if not data:
            yield Said(self.name, _now_ms(), "ended", {"code": self.process.wait()})

    def _parse(self, line: bytes) -> Said:
        """Read an object; anything else (a warning, a traceback) is shown as it is."""
        try:
            facts = json.loads(line)
            return Said(self.name, facts.pop("at_ms"), facts.pop("kind"), facts)
        except (ValueError, AttributeError, KeyError):
            text = line.decode(errors="replace")
            return Said(self.name, _now_ms(), "line", {"text": text})

    def end(self) -> None:
        """Kill the process if it is still there, and close both pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Fleet:
    """A few instances by name, all with the same command line."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._selector = selectors.DefaultSelector()
        self._instances: dict[str, Instance] = {}

    @property
    def names(self) -> list[str]:
        """The names of the instances whose process lives."""
        return list(self._instances)

    def start(self, name: str) -> None:
        """Start an instance of that name, which must not be there."""
        instance = Instance(name, self._command)
        self._instances[name] = instance
        self._selector.register(instance.fd, selectors.EVENT_READ, instance)

    def send(self, name: str, signum: signal.Signals) -> int:
        """Send a signal and return the moment, in milliseconds."""
        at_ms = _now_ms()
        self._instances[name].process.send_signal(signum)
        return at_ms

    def pump(self, seconds: float) -> list[Said]:
        """Wait at most `seconds` for anything to be said, and return it."""
        said: list[Said] = []
        if not self._instances:
            time.sleep(max(0.0, seconds))
            return said
        for key, _ in self._selector.select(max(0.0, seconds)):
            said.extend(key.data.read())
        for one in said:
            if one.kind == "ended":
                self._forget(one.name)
        return said

    def end_all(self) -> None:
        """Kill whatever is left; nothing of the fleet lives afterwards."""
        for name in self.names:
            self._forget(name)
        self._selector.close()

    def _forget(self, name: str) -> None:
        instance = self._instances.pop(name)
        self._selector.unregister(instance.fd)
        instance.end()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
