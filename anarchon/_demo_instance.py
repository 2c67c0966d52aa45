"""One instance of the demo: an ordinary service that runs two jobs.

Started by `anarchon.demo`, three at a time. What it has to say goes to stdout as one
JSON object a line, each with the moment (`at_ms`); its stdin is a pipe from the parent.
When that pipe closes without a word the parent is gone, and this process ends as well.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from anarchon import AnarchonError, Scheduler, SqliteBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anarchon import Context, Run
    from anarchon._values import RunEvent
    from anarchon.backends.base import LeaseBackend

LEASE_SECONDS = 6.0
HEARTBEAT_SECONDS = 1.0
NAMESPACE = "demo"

_EVENTS: tuple[RunEvent, ...] = ("started", "success", "failure", "interrupted", "lost")
_STDOUT = 1


class Mouth(logging.Handler):
    """Writes log lines and events to stdout, whole lines only, from any thread."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say a log line, with the logger's name as `log=True` shows it."""
        text = f"[{record.name}] {self.format(record)}"
        self.say(int(record.created * 1000), "line", text=text)

    def event(self, name: str, **facts: Any) -> None:
        """Say that something happened just now."""
        self.say(time.time_ns() // 1_000_000, name, **facts)

    def say(self, at_ms: int, kind: str, **facts: Any) -> None:
        """Write one object; when nobody listens any more, that is no error."""
        data = json.dumps({"at_ms": at_ms, "kind": kind, **facts}).encode() + b"\n"
        try:
            with self.lock or threading.Lock():
                while data:
                    data = data[os.write(_STDOUT, data) :]
        except OSError:
            return


def open_backend(database: str, factory: str | None = None) -> LeaseBackend:
    """Return the backend of the demo; `factory` is ``module:function`` of another one."""
    if factory is None:
        return SqliteBackend(database, namespace=NAMESPACE)
    module, _, name = factory.partition(":")
    backend: LeaseBackend = getattr(importlib.import_module(module), name)(database)
    return backend


def make_scheduler(options: argparse.Namespace, mouth: Mouth) -> Scheduler:
    """Define the two jobs, and tell what happens to their runs."""
    scheduler = Scheduler(
        open_backend(options.database, options.backend),
        lease=LEASE_SECONDS,
        heartbeat=HEARTBEAT_SECONDS,
        log=_logger(mouth),
    )

    def sync(ctx: Context) -> None:
        ctx.signal.sleep(0.2)

    def report(ctx: Context) -> None:
        ctx.signal.sleep(options.report_work)  # raises when it should stop

    scheduler.every("sync", options.sync_every, sync)
    scheduler.every("report", options.report_every, report)
    for name in _EVENTS:
        scheduler.on(name, _teller(mouth, name))
    return scheduler


def _logger(mouth: Mouth) -> logging.Logger:
    logger = logging.getLogger("anarchon")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(mouth)
    return logger


def _teller(mouth: Mouth, name: RunEvent) -> Callable[[Run], None]:
    def tell(run: Run) -> None:
        mouth.event(name, run=run.to_dict())

    return tell


def _watch_parent(scheduler: Scheduler, orphaned: threading.Event, folder: str | None) -> None:
    """Stop as soon as the pipe from the parent is closed, and clean up in its place."""
    while os.read(0, 1024):
        pass
    orphaned.set()
    scheduler.stop(timeout=1)
    # The main thread ends the process now. If it was still starting, it won't.
    time.sleep(1)
    _remove(folder)
    os._exit(1)


def _remove(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the options that the parent passes on."""
    parser = argparse.ArgumentParser(prog="python -m anarchon._demo_instance")
    parser.add_argument("--database", required=True)
    parser.add_argument("--sync-every", required=True)
    parser.add_argument("--report-every", required=True)
    parser.add_argument("--report-work", required=True)
    parser.add_argument("--backend")
    parser.add_argument("--remove", help="the folder to remove if the parent dies")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, or until the parent is gone."""
    options = parse(arguments)
    mouth = Mouth()
    scheduler = make_scheduler(options, mouth)
    orphaned = threading.Event()
    watch = (scheduler, orphaned, options.remove)
    threading.Thread(target=_watch_parent, args=watch, name="demo-parent", daemon=True).start()
    try:
        scheduler.start()
        mouth.event("running", instance_id=scheduler.instance_id)
        scheduler.run()
    except AnarchonError as error:
        print(error, flush=True)
        return 1
    finally:
        if orphaned.is_set():
            _remove(options.remove)
    return 0


if __name__ == "__main__":
    sys.exit(main())
