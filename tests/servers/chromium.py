"""The system's Chromium, without a window."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

from tests.servers.processes import Bringer, Missing

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def need_chromium() -> None:
    """Raise `Missing` where there is none."""
    if not CHROMIUM.exists():
        raise Missing("chromium", Bringer.SYSTEM)


@contextmanager
def launched():
    """Launch it, and close it at the end."""
    from playwright.sync_api import sync_playwright

    need_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()
