"""A clock that servers are given instead of the machine's, and that can be stepped."""

from __future__ import annotations

import platform
from pathlib import Path

from tests.servers.processes import Bringer, Missing, new_folder

LIBRARY = Path(f"/usr/lib/{platform.machine()}-linux-gnu/faketime/libfaketime.so.1")


class SteppedClock:
    """A wall clock that is `offset` seconds ahead of the machine's; give it to a server.

    It works for the servers that come in wheels. What runs by a monotonic clock inside of a
    server isn't changed, as when somebody sets the clock of a machine.
    """

    def __init__(self) -> None:
        if not LIBRARY.exists():
            raise Missing("faketime", Bringer.SYSTEM)
        self._path = new_folder("clock") / "offset"
        self.set(0.0)

    def set(self, offset: float) -> None:
        """Make the clock so many seconds ahead of the machine's, from now on."""
        new = self._path.with_suffix(".new")
        new.write_text(f"{offset:+f}\n", encoding="ascii")
        new.chmod(0o644)
        new.replace(self._path)  # a server reads it whenever it asks for the time

    def environment(self) -> dict[str, str]:
        """Return what makes a process use it."""
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
