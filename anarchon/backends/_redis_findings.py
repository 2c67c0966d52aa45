"""What a server says of itself: its version, and settings that may cost runs."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from .._values import Finding
from ..errors import ServerTooOld
from ._redis_talk import ReplyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._redis_talk import Talk

MINIMUM = {"redis": (6, 2), "valkey": (7, 2)}
OFFSET_MS = 1000

Facts = dict[str, str]


def facts_of(talk: Talk, deadline: float) -> Facts:
    """Ask for what we may know; what is forbidden is left out."""
    info, saves = talk.ask_all(deadline, [("INFO",), ("CONFIG", "GET", "save")])
    facts: Facts = {}
    if not isinstance(info, ReplyError):
        lines = (line.partition(":") for line in str(info).splitlines())
        facts = {name: value.strip() for name, _, value in lines if value}
    if isinstance(saves, list) and len(saves) == 2:
        facts["save"] = str(saves[1])
    return facts


def version_of(facts: Facts) -> tuple[str, str]:
    """Return the store and its version.

    Raises:
        ServerTooOld: It is older than the oldest that will do.
    """
    store = "valkey" if "valkey_version" in facts else "redis"
    version = facts.get(f"{store}_version", "")
    numbers = tuple(map(int, re.findall(r"\d+", version)))
    if numbers and numbers < MINIMUM[store]:
        raise too_old(f"{store.capitalize()} {version}")
    return store, version


def too_old(what: str) -> ServerTooOld:
    """Return the error about a server that is too old."""
    return ServerTooOld(f"{what} is too old: anarchon needs Redis 6.2 or Valkey 7.2, or newer.")


def findings(facts: Facts, replicas: int, offset_ms: float) -> Iterator[Finding]:
    """Name what may cost runs; what isn't known is no finding."""
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield Finding(
            "maxmemory-policy",
            f"maxmemory-policy is {policy}, so a full server may remove claims and history, and "
            "a slot could run twice: set maxmemory-policy noeviction, or use a server of its own.",
        )
    if facts.get("aof_enabled") == "0" and facts.get("save") == "":
        yield Finding(
            "persistence",
            "the server saves nothing to disk, so after a restart the latest slots run again "
            "and history is gone: set appendonly yes.",
        )
    connected = facts.get("connected_slaves", "")
    if connected.isdigit() and int(connected) < replicas:
        yield Finding(
            "replica-count",
            f'durability="wait:{replicas}" needs {replicas} replicas and the server has '
            f"{connected}, so no run will start: connect more of them.",
        )
    if abs(offset_ms) > OFFSET_MS:
        way = "ahead of" if offset_ms > 0 else "behind"
        yield Finding(
            "clock-offset",
            f"the server's clock is {abs(offset_ms) / 1000:.1f} s {way} this host's, and slots "
            "are judged by the server's: synchronise both with NTP.",
        )


def offset_between(store_ms: int, sent: float) -> float:
    """Return by how many ms the server's clock is ahead, beyond what the way there explains."""
    before_ms = sent * 1000
    after_ms = time.time() * 1000
    return max(0.0, store_ms - after_ms) + min(0.0, store_ms + 1 - before_ms)


def missing(answers: list[Any]) -> ReplyError | None:
    """Return what `prepare` found missing, as the error that the server gave.

    Raises:
        ServerTooOld: An option of a command is unknown.
    """
    for command, text in answers:
        error = ReplyError(text)
        if "syntax error" in text:
            raise too_old("The server")
        return ReplyError(f"NOPERM {command}: {error}") if error.code == "NOPERM" else error
    return None
