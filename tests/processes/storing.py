"""Programs whose store gives trouble; the test says what to do, one word a line."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import time
from contextlib import suppress
from pathlib import Path

from anarchon.errors import BackendError
from tests.processes.instance import heard, make_scheduler, on_another_thread, say

ALL_POWERS = 0x20080522  # the version of the structures of capset(2)
NEW_NAMESPACE = 0x00020000  # CLONE_NEWNS


def obey(options):
    """Do what the test says until it says nothing more."""
    if options.get("powerless"):
        lose_powers()
    if options.get("tmpfs"):
        mount_small_disk(Path(options["database"]).parent)
    scheduler = make_scheduler(options)
    say("ready")
    while word := heard():
        WORDS[word](scheduler, Path(options["database"]))
        say("done", word=word)


def start(scheduler, database):
    """Start, and say what came of it."""
    began = time.monotonic()
    try:
        scheduler.start()
    except BackendError as error:
        cause = type(error.__cause__).__name__
        names = [one.__name__ for one in type(error).__mro__]
        took = time.monotonic() - began
        say("refused", names=names, cause=cause, text=str(error), state=scheduler.state, took=took)
    else:
        say("started", state=scheduler.state)


def start_patiently(scheduler, database):
    """Start in the background, and say when it runs."""
    began = time.monotonic()
    scheduler.start(retry=True)
    say("returned", state=scheduler.state, took=time.monotonic() - began)

    def watch():
        while scheduler.state == "starting":
            time.sleep(0.005)
        say("no more starting", state=scheduler.state)

    on_another_thread(watch)


def stop(scheduler, database):
    scheduler.stop()
    say("stopped", state=scheduler.state)


# --- what takes powers away, also those of the superuser ---


def lose_powers():
    """Give up every capability, so that permissions hold for this process as for anybody."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("=Ii", ALL_POWERS, 0)
    if libc.capset(header, struct.pack("=6I", *[0] * 6)):
        raise OSError(ctypes.get_errno(), "capset")


def mount_small_disk(folder):
    """Put a disk of eight megabytes on a folder, for this process alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    private = 1 << 18 | 1 << 14  # MS_PRIVATE | MS_REC: nobody else may see it
    done = (
        not libc.unshare(NEW_NAMESPACE)
        and not libc.mount(b"none", b"/", None, private, None)
        and not libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=8m")
    )
    say("mounted", done=done)


def fill(scheduler, database):
    """Leave no byte on the small disk."""
    with suppress(OSError), (database.parent / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


def empty(scheduler, database):
    (database.parent / "filler").unlink()


def limit(scheduler, database):
    """Allow this process no file of more than some bytes; what exceeds it fails to be written."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))


def unlimit(scheduler, database):
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


WORDS = {
    "start": start,
    "start patiently": start_patiently,
    "stop": stop,
    "fill": fill,
    "empty": empty,
    "limit": limit,
    "unlimit": unlimit,
}
