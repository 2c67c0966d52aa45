"""Texts: such as every store can hold, whatever an error says, and such as people read."""

from __future__ import annotations

LIMIT_BYTES = 8192
_GAP = " … "


def clean(text: str, limit_bytes: int = LIMIT_BYTES) -> str:
    r"""Return `text` as something that every store takes, in at most `limit_bytes` of UTF-8.

    NUL becomes ``\x00`` and a lone surrogate its escape, in letters. Of a longer text the
    middle goes: the first words say what happened, the last lines of a traceback where.
    The cost doesn't grow with the length of the text.
    """
    if len(text) <= limit_bytes:
        data = _encoded(text)
        if len(data) <= limit_bytes:
            return data.decode()
    half = max(0, limit_bytes - len(_GAP.encode())) // 2
    head = _encoded(text[:half])[:half].decode(errors="ignore")
    tail = _encoded(text[-half:])[-half:].decode(errors="ignore") if half else ""
    return head + _GAP + tail


def counted(number: int, noun: str) -> str:
    """Return how many there are of something: ``1 job``, ``2 jobs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _encoded(text: str) -> bytes:
    return text.replace("\0", "\\x00").encode(errors="backslashreplace")
