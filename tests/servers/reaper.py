"""Ends servers and removes folders when the process that started them is gone, however it died.

Runs as a script with the process id to watch. Each line on the standard input is a word and a
value: `watch PID`, `forget PID`, `folder PATH`. It reads no code of the project.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

GRACE_SECONDS = 5.0


def follow(parent: int) -> tuple[dict[int, int], list[str]]:
    """Take orders until the parent closes the pipe or dies; return what is left to end."""
    # A fork of the parent may hold the pipe open, so its process is watched as well.
    end = os.pidfd_open(parent)
    servers: dict[int, int] = {}
    folders: list[str] = []
    rest = b""
    while True:
        ready, _, _ = select.select([0, end], [], [])
        data = os.read(0, 65536) if 0 in ready else b""
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            obey(line.decode("utf-8", "surrogateescape"), servers, folders)
        if not data:
            return servers, folders


def obey(line: str, servers: dict[int, int], folders: list[str]) -> None:
    """Carry out one order. A server is held by a descriptor, since its number may be reused."""
    word, value = line.split(" ", 1)
    if word == "folder":
        folders.append(value)
    elif word == "watch":
        try:
            servers[int(value)] = os.pidfd_open(int(value))
        except ProcessLookupError:
            return
    else:
        descriptor = servers.pop(int(value), None)
        if descriptor is not None:
            os.close(descriptor)
        remove_clock(int(value))


def remove_clock(pid: int) -> None:
    """Remove what libfaketime leaves of a process that was killed."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        with contextlib.suppress(OSError):
            Path("/dev/shm", name).unlink()


def end_all(servers: dict[int, int], folders: list[str]) -> None:
    """Kill every server, wait until all are gone, then remove the folders."""
    for descriptor in servers.values():
        try:
            # SIGQUIT makes PostgreSQL end its own children and free its shared memory.
            signal.pidfd_send_signal(descriptor, signal.SIGQUIT)
            signal.pidfd_send_signal(descriptor, signal.SIGCONT)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + GRACE_SECONDS
    for pid, descriptor in servers.items():
        left = max(0.0, deadline - time.monotonic())
        if not select.select([descriptor], [], [], left)[0]:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], GRACE_SECONDS)
        remove_clock(pid)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    # A Ctrl-C at the terminal reaches the whole group: the parent's end is what counts.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        left = follow(int(sys.argv[1]))
    except ProcessLookupError:
        sys.exit(0)
    end_all(*left)
