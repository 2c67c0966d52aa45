"""Which edition of the time zone database schedules are computed with."""

from __future__ import annotations

import os
from importlib import import_module

_LONGEST = 32


def tzdata_version() -> str:
    """Return the edition that `zoneinfo` reads, such as ``2026a``, or ``unknown``.

    It reads the system's files first, as `zoneinfo` does, then the ``tzdata`` package.
    """
    import zoneinfo

    for folder in zoneinfo.TZPATH:
        if os.path.isdir(folder):  # noqa: PTH112 - pathlib takes longer to load than this file
            found = _first_word(f"{folder}/tzdata.zi", 2) or _first_word(f"{folder}/+VERSION", 0)
            return found or "unknown"
    return package_version() or "unknown"


def package_version() -> str:
    """Return the edition of the ``tzdata`` package, or nothing if that isn't installed."""
    try:
        return str(import_module("tzdata").IANA_VERSION)
    except ImportError:
        return ""


def _first_word(path: str, number: int) -> str:
    """Return the word of that number in the first line (``# version 2026a``), or nothing."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - as above
            words = file.readline(200).split()
    except OSError:
        return ""
    return words[number][:_LONGEST] if len(words) > number else ""
