"""Texts: such as every store can hold, whatever an error says, and such as people read."""

from __future__ import annotations

LIMIT_BYTES = 8192
_GAP = " … "
# The class's own name, where a metaclass may have put something else that raises.
_NAME = type.__dict__["__name__"]


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


def type_name(value: object) -> str:
    """Return the name of the class of any object, without asking the object or its class."""
    name: str = _NAME.__get__(type(value))
    return name


def message_of(error: BaseException) -> str:
    """Return what an exception says, whatever its `str()` does."""
    try:
        # What it returns may be of a class of the user's as well; the copy is a plain `str`.
        return str.__str__(str(error))
    except BaseException as second:
        return f"(no text: its str() raised {type_name(second)})"


def said(error: BaseException) -> str:
    """Return the type and the message of an exception, whatever its `str()` does."""
    message = message_of(error)
    return f"{type_name(error)}: {message}" if message else type_name(error)


def _encoded(text: str) -> bytes:
    return text.replace("\0", "\\x00").encode(errors="backslashreplace")
