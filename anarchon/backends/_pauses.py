"""Which jobs are paused, for pages that show it; nothing in scheduling asks this way.

A claim itself judges pauses, inside the store. So what is read here may be over a moment later,
and decides nothing.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any

from .._named import NamedTuple
from ._aside import aside
from ._local import LocalBackend
from ._rules import is_paused
from ._storable import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._postgres_links import PostgresLink
    from ._redis_link import RedisLink
    from ._rows import Rows
    from ._rules import Moment
    from .base import ClaimBackend
    from .postgres import PostgresBackend
    from .redis import RedisBackend

_REDIS = """
local time, all = redis.call('TIME'), redis.call('HGET', KEYS[1], 'paused')
return {time[1], time[2], all or '0', redis.call('HMGET', KEYS[2], unpack(ARGV))}
"""
_POSTGRES = """
SELECT convert_to(json_build_array(
    coalesce((SELECT s.paused_until_ms > n.now_ms FROM {schema}.anarchon_namespace s
              WHERE s.namespace = $1), false),
    (SELECT json_agg(j.job) FROM {schema}.anarchon_job j
     WHERE j.namespace = $1 AND j.paused_until_ms > n.now_ms))::text, 'UTF8')
FROM (SELECT {schema}.anarchon_now_v1() AS now_ms) n
"""


class Pauses(NamedTuple):
    """Whether every job is paused, and which ones are by themselves."""

    every: bool
    jobs: frozenset[str]


def pauses_in(backend: ClaimBackend, jobs: Sequence[str]) -> Pauses | None:
    """Return which of these jobs are paused; None for a store that can't be asked.

    It needn't be open. Any thread may call it.

    Args:
        backend: The store.
        jobs: The names of the jobs, at most some hundreds.

    Raises:
        BackendUnavailable: The store can't be reached.
    """
    if isinstance(backend, LocalBackend):
        return backend._read_once(lambda rows, now: _in_rows(rows, now, jobs), _seconds(backend))  # noqa: SLF001 - of this package
    # Their modules load drivers' parts; whoever has such an object has loaded them.
    kinds = {kind.__module__.rpartition(".")[2] for kind in type(backend).__mro__}
    if "postgres" in kinds:
        return _on_postgres(backend, jobs)  # type: ignore[arg-type] # by its module
    if "redis" in kinds:
        return _on_redis(backend, jobs)  # type: ignore[arg-type] # by its module
    return None


def _seconds(backend: Any) -> float:
    seconds: float = backend._limits.call  # noqa: SLF001 - of this package
    return seconds


def _in_rows(rows: Rows, now: Moment, jobs: Sequence[str]) -> Pauses:
    paused = (name for name in names(jobs) if is_paused(rows.job(name).paused_until_ms, now))
    return Pauses(is_paused(rows.paused_until(), now), frozenset(paused))


def _on_postgres(backend: PostgresBackend, jobs: Sequence[str]) -> Pauses:
    from . import _postgres_schema as schemas
    from . import _postgres_words as words
    from ._postgres_wait import ask

    deadline = time.monotonic() + _seconds(backend)
    space = words.text_of(backend.namespace)

    def read(link: PostgresLink) -> bytes | None:
        with link.session(deadline) as pgconn:
            schema = schemas.quoted(backend._schema_on(pgconn, deadline))  # noqa: SLF001 - of this package
            return ask(pgconn, _POSTGRES.format(schema=schema).encode(), (space,), deadline)

    answer = aside(lambda: backend._on(None, read, deadline, keep=False))  # noqa: SLF001 - of this package
    every, paused = json.loads(answer or b"[false, null]")
    stored = {words.text_of(name).decode(): name for name in names(jobs)}
    return Pauses(every, frozenset(stored[text] for text in paused or () if text in stored))


def _on_redis(backend: RedisBackend, jobs: Sequence[str]) -> Pauses:
    from ._redis_scripts import Script

    deadline = time.monotonic() + _seconds(backend)
    digest = hashlib.sha1(_REDIS.encode(), usedforsecurity=False).hexdigest()
    script = Script("pauses", _REDIS, digest)
    asked = names(jobs) or [""]

    def read(link: RedisLink) -> list[Any]:
        return link.run(script, asked, deadline)

    ((seconds, micros, every, kept),) = aside(
        lambda: backend._on(None, read, deadline, keep=False)  # noqa: SLF001 - of this package
    )
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    paused = (name for name, raw in zip(asked, kept, strict=True) if _until(raw) > now_ms)
    return Pauses(_number(every) > now_ms, frozenset(paused))


def _until(raw: str | None) -> float:
    """Return until when a job is paused, from what is kept of it; damage is no pause."""
    try:
        return _number(json.loads(raw or "[]")[2])
    except (ValueError, TypeError, IndexError, KeyError):
        return 0


def _number(value: Any) -> float:
    try:
        return float(value)
    except (ValueError, TypeError):
        return 0
