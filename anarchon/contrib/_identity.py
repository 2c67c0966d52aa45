"""What names a run beyond its fleet, without asking the store.

Every instance of a fleet computes the same text for a run, and no instance of another fleet
does: that is what ids in systems shared by many services are made from.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..backends._sqlite_files import boot_id
from ..backends.memory import MemoryBackend
from ..errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..backends.base import ClaimBackend

# Nobody else's, wherever process ids are the same, as they are in containers.
_HERE = secrets.token_hex(8)


def identity_of(backend: ClaimBackend, more: Iterable[str]) -> bytes:
    """Return what the instances on this store have in common; once it has been opened.

    Args:
        backend: The scheduler's.
        more: What sets this fleet apart from others, such as the service's name.
    """
    namespace = str(getattr(backend, "namespace", ""))
    return json.dumps([namespace, _place(backend), *more]).encode()


def _place(backend: ClaimBackend) -> str:
    """Return where the store is, if it can't be reached from everywhere.

    Processes with a store of their own each, or machines with a file each, all run the same
    slots; their runs are different ones. Of a server, addresses differ from one machine to the
    next, so they don't count.
    """
    if isinstance(backend, MemoryBackend):
        return f"{_HERE} {os.getpid()} {id(backend)}"
    database = getattr(backend, "database", None)
    if not isinstance(database, str):
        return ""
    try:
        # The same for containers that share the file, whatever path it has in each.
        found = Path(database).stat()
        return f"{_machine()} {found.st_dev} {found.st_ino}"
    except OSError:
        return f"{_machine()} {database}"


def _machine() -> str:
    with suppress(BackendUnavailable):  # too many files are open to tell
        if boot := boot_id():
            return boot
    return socket.gethostname()
