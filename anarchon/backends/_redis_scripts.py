"""The operations as Lua scripts, and how a `Call` is put into one and a `Reply` taken out."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from .._values import BACKFILLED, TRIGGERED
from . import _operations as operations
from . import _operations_kept as kept
from . import _rules as rules
from . import _rules_end as ends
from ._storable import FIRST_MS, LAST_MS
from ._wire import Call, Reply
from .base import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._redis_talk import Word

PARTS = (
    *("meta", "jobs", "runs", "lines", "checkpoints"),
    *("open", "kept", "skips", "order", "orders"),
    *("instances", "alerts"),
)
# Those that need none of lines.lua, and those that need heard.lua.
_WITHOUT_LINES = (
    *("alert", "instances", "look", "pause"),
    *("prepare", "present", "renew", "save"),
)
_WITH_HEARD = ("claim", "instances", "look", "present", "renew")

# The numbers and texts of the rules, which the scripts share with the stores in Python.
_SHARED = {
    "FORMAT": FORMAT_VERSION,
    "KEPT_RECORDS": ends.KEPT_RECORDS,
    "KEPT_SKIPS": ends.KEPT_SKIPS,
    "KEPT_ALWAYS": ends.KEPT_ALWAYS,
    "KEPT_MS": ends.KEPT_MS,
    "TRIM_AT_ONCE": operations.TRIM_AT_ONCE,
    "NAMED_OPEN": operations.NAMED_OPEN,
    "OTHER_JOBS": operations.OTHER_JOBS,
    "GONE_AFTER_MS": kept.GONE_AFTER_MS,
    "FENCE_LIMIT": rules.FENCE_LIMIT,
    "NO_FLOOR": rules.NO_FLOOR,
    "FOREVER": rules.FOREVER,
    "FIRST_MS": FIRST_MS,
    "LAST_MS": LAST_MS,
    "TRIGGERED": json.dumps(TRIGGERED),
    "BACKFILLED": json.dumps(BACKFILLED),
}


class Script(NamedTuple):
    """A script as the server is sent it, and the digest by which the server knows it."""

    name: str
    text: str
    digest: str

    def command(
        self, by: Literal["EVALSHA", "EVAL"], namespace: str, arguments: list[str]
    ) -> list[Word]:
        """Return the command that runs it."""
        body = self.digest if by == "EVALSHA" else self.text
        return [by, body, len(PARTS), *keys_of(namespace), *arguments]


@functools.cache
def keys_of(namespace: str) -> tuple[str, ...]:
    """Return the keys of a namespace: all with one hash tag, which nothing in a name can break."""
    return tuple(f"{prefix_of(namespace)}{part}" for part in PARTS)


def prefix_of(namespace: str) -> str:
    """Return what all keys of a namespace begin with, and no key of another one does."""
    return f"anarchon:{{{quote(namespace, safe='')}}}:"


@functools.cache
def scripts() -> Mapping[str, Script]:
    """Read all scripts, once: a process must not meet those of a version installed later."""
    from importlib.resources import files

    folder = files("anarchon.backends") / "lua"
    bodies = {
        entry.name.removesuffix(".lua"): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".lua")
    }
    common, lines, heard = (bodies.pop(name) for name in ("common", "lines", "heard"))
    common = "".join([*(f"local {word} = {value}\n" for word, value in _SHARED.items()), common])
    return {
        name: _script(
            name,
            common
            + ("" if name in _WITHOUT_LINES else lines)
            + (heard if name in _WITH_HEARD else "")
            + body,
        )
        for name, body in bodies.items()
    }


def _script(name: str, text: str) -> Script:
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def script_of(name: str) -> Script:
    """Return a script with what it shares with others in front of it."""
    return scripts()[name]


def script_for(call: Call) -> tuple[Script, list[str]]:
    """Return the script of a call, and its arguments.

    What goes along of the asker itself ends the head, which begins with the asker's token.
    """
    operation, head, items, present = call
    if operation in ("look", "unfinished"):
        operation, head = "look", (*head, int(operation == "unfinished"))
    heads = (*head, *present[1:])
    return script_of(operation), [_argument(words) for words in (heads, *items)]


def _argument(words: tuple[Any, ...]) -> str:
    return json.dumps(words, ensure_ascii=False, separators=(",", ":"))


def reply_of(words: list[Any]) -> Reply:
    """Return what a script answered."""
    return Reply(*words)


def given_back(call: Call, reply: Reply, why: str) -> Call:
    """Return the release of what a claim won."""
    owner, instance = call.head[:2]
    pairs = zip(call.items, reply.answers, strict=True)
    won = [(wish, answer[1]) for wish, answer in pairs if answer[0] == "won"]
    results = tuple(
        # job, slot, manual, attempt, status, reason; then no times, and the reason why.
        (*wish[:2], wish[12], attempt, "interrupted", wish[3], 0, 0, None, why, None, 0, 0)
        for wish, attempt in won
    )
    return Call("release", (owner, instance), results)
