"""Calls and replies as JSON, which is what the functions in the database take and give.

It is ASCII on its way there and UTF-8 on its way back, so no client encoding has a say.
PostgreSQL's texts hold everything but NUL. In its place stands a letter that nobody uses,
with a digit behind it, and the letter itself is doubled.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ._wire import Reply

if TYPE_CHECKING:
    from ._wire import Call

_STAND_IN = "\u2400"  # the picture of a NUL
_SENT = {"\\u0000": "\\u24000", "\\u2400": "\\u2400\\u2400"}
_BACK = {_STAND_IN + "0": "\\u0000", _STAND_IN * 2: _STAND_IN}
# An escaped backslash comes first, so that what follows one is not taken for an escape.
_TO_SEND = re.compile(r"\\\\|\\u0000|\\u2400")
_SENT_BACK = re.compile(f"{_STAND_IN}[0{_STAND_IN}]")


def head_of(call: Call) -> bytes:
    """Return what a call says once, as JSON."""
    return _json(call.head)


def items_of(call: Call) -> bytes:
    """Return what a call says of each run, as JSON."""
    return _json(call.items)


def present_of(call: Call) -> bytes | None:
    """Return what goes along with a call as JSON; None: nothing does."""
    return _json(call.present) if call.present else None


def text_of(name: str) -> bytes:
    """Return a name as the functions get it beside the JSON."""
    return name.replace(_STAND_IN, _STAND_IN * 2).encode()


def reply_of(answer: bytes) -> Reply:
    """Return what a function answered."""
    text = answer.decode()
    if _STAND_IN in text:
        text = _SENT_BACK.sub(lambda found: _BACK[found[0]], text)
    return Reply(*json.loads(text))


def _json(value: object) -> bytes:
    text = json.dumps(value, separators=(",", ":"))
    if "\\u0000" in text or "\\u2400" in text:
        text = _TO_SEND.sub(lambda found: _SENT.get(found[0], found[0]), text)
    return text.encode()
