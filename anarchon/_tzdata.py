"""Which edition of the time zone database schedules are computed with."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

_LONGEST = 32


def tzdata_version() -> str:
    """Return the edition that `zoneinfo` reads, such as ``2026a``, or ``unknown``.

    It reads the system's files first, as `zoneinfo` does, then the ``tzdata`` package.
    """
    import zoneinfo

    for folder in zoneinfo.TZPATH:
        path = Path(folder)
        if path.is_dir():
            found = _first_word(path / "tzdata.zi", 2) or _first_word(path / "+VERSION", 0)
            return found or "unknown"
    try:
        return str(import_module("tzdata").IANA_VERSION)
    except ImportError:
        return "unknown"


def _first_word(path: Path, number: int) -> str:
    """Return the word of that number in the first line (``# version 2026a``), or nothing."""
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            words = file.readline(200).split()
    except OSError:
        return ""
    return words[number][:_LONGEST] if len(words) > number else ""
