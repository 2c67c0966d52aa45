"""What instances say of themselves, written by hand where SQLite keeps it."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from anarchon._tzdata import tzdata_version
from anarchon.backends.sqlite import SqliteBackend

if TYPE_CHECKING:
    from pathlib import Path

ROW = "INSERT INTO anarchon_instance VALUES (?, ?, ?, ?, ?, ?)"
MINUTE = 60_000


def present(path: Path, name: str, /, *, pid: int = 7, at_ms: int | None = None, **said) -> None:
    """Write an instance that was heard from a minute ago and is expected in an hour.

    Args:
        path: The file of the store.
        name: Its id.
        pid: That of its process.
        at_ms: What is now; that of this machine by default.
        said: `seen` and `expected` in milliseconds from now, and what else it says of itself.
    """
    SqliteBackend(path).resume(None)  # makes the tables
    now = int(time.time() * 1000) if at_ms is None else at_ms
    seen, expected = said.pop("seen", -MINUTE), said.pop("expected", 60 * MINUTE)
    state = {"next": now + expected, "offset": 0.012, "running": 0}
    state = {key: said.pop(key, value) for key, value in state.items()}
    about = {
        "name": name,
        "host": "box",
        "pid": pid,
        "version": "0.1.0",
        "tzdata": tzdata_version(),
        "started": now - 2 * 60 * MINUTE,
        "heartbeat": 500,
        "jobs": {"sync": "00000001"},
        **said,
    }
    words = (now + seen, now + expected, json.dumps(state), json.dumps(about))
    with closing(sqlite3.connect(path)) as connection, connection:
        count = connection.execute("SELECT count(*) FROM anarchon_instance").fetchone()[0]
        connection.execute(ROW, ("anarchon", f"token-{count}", *words))
