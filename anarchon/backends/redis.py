"""The store on a Redis or Valkey server: alone, with sentinels, or a cluster.

Every operation is one script and so one atomic step in one round trip; the scripts, in
`lua/`, decide exactly as the rules in Python do. The server's clock judges everything.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from .._values import ServerInfo
from ..errors import BackendUnavailable
from . import _redis_findings as server
from ._redis_arguments import FINDINGS, replicas_of, way_to
from ._redis_doors import driver
from ._redis_errors import explained
from ._redis_link import RedisLink
from ._redis_scripts import given_back, prefix_of, reply_of, script_for, script_of, scripts
from ._redis_talk import ReplyError, seconds_left
from ._remote import RemoteBackend
from ._storable import checked_silence, position_in
from ._wire import Call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._values import Limits
    from ..errors import BackendError
    from ._redis_talk import Word
    from ._wire import Reply, Words

PAGE = 200  # how many lines of history are read at once
_IN_VAIN = {
    "claim": "a claim, so it was given back",
    "finish": "a result, so it is sent again",
    "trigger": "what the fleet was asked for, which a failover may forget",
}


class RedisBackend(RemoteBackend[RedisLink]):
    """A store on a Redis server (6.2 or newer) or a Valkey server (7.2 or newer).

    Nothing connects before `start`. A client that is passed in stays untouched and open: its
    connection class and arguments are used for connections of our own, at most two. Every
    method may be called from any thread.

    Args:
        redis: A URL (``redis://``, ``rediss://``, ``unix://``), a `redis.Redis`, a
            `redis.RedisCluster`, or for Sentinel what ``Sentinel(…).master_for(name)`` gives
            or a pair ``(Sentinel(…), name)``.
        namespace: Two services on one server use two namespaces and never see each other.
        durability: With ``"wait:1"`` a claim counts only when one replica has it as well
            (``"wait:2"``: two), so that a failover doesn't forget it; costs a round trip
            between the servers.
        silence: Names of findings about the server that are not to be warned about.

    Raises:
        ConfigurationError: An argument can't be meant. No password is ever shown.
    """

    def __init__(
        self,
        redis: Any,
        *,
        namespace: str = "anarchon",
        durability: str | None = None,
        silence: Iterable[str] = (),
    ) -> None:
        super().__init__(namespace)
        self._way, self._name = way_to(redis)
        self._replicas = replicas_of(durability)
        self._silence = checked_silence(silence, FINDINGS)

    def __repr__(self) -> str:
        return f"<RedisBackend {self._name} namespace={self.namespace!r}>"

    def _connected(self, deadline: float) -> RedisLink:
        return RedisLink(self._way, self._way.connected(deadline), self.namespace)

    def _explained(self, error: Exception) -> BackendError:
        return explained(error, self._name, prefix_of(self.namespace))

    # --- opening ----------------------------------------------------------------

    def open(self, limits: Limits) -> ServerInfo:
        """Connect and check the server; see `ClaimBackend.open`.

        Raises:
            ImportError: redis-py is not installed; the message names the extra.
        """
        # Importing it takes seconds when many processes start at once, and isn't the server's
        # fault; so that time doesn't count.
        driver()
        scripts()  # now, for by the time of stop() another version may have been installed
        return super().open(limits)

    def _inspected(self, link: RedisLink, deadline: float) -> ServerInfo:
        sent, wall = time.monotonic(), time.time()
        reply = self._answer(link, Call("look", ("",)), deadline)  # refuses a newer format
        received = time.monotonic()
        offset_ms = server.offset_between(reply.store_ms, wall)
        facts = server.facts_of(link.talk, deadline)
        store, version = server.version_of(facts)
        found = server.findings(facts, self._replicas, offset_ms)
        heard = tuple(finding for finding in found if finding.name not in self._silence)
        trip, age = received - sent, time.monotonic() - received
        return ServerInfo(store, version, reply.store_ms, False, heard, trip, age)

    def _prepared(self, link: RedisLink, deadline: float) -> None:
        (words,) = link.run(script_of("prepare"), [], deadline)
        error = server.missing(reply_of(words).answers)
        if error is not None:
            raise error
        if self._replicas:
            link.talk.ask(deadline, "WAIT", 0, 1)  # at once, whoever has replicated what

    # --- calls ------------------------------------------------------------------

    def _asked(self, link: RedisLink, call: Call, deadline: float) -> Reply:
        if call.operation == "history":
            return self._pages(link, call, deadline)
        if self._replicas and call.operation in ("claim", "finish", "trigger"):
            return self._replicated(link, call, deadline)
        return self._answer(link, call, deadline)

    def _answer(self, link: RedisLink, call: Call, deadline: float) -> Reply:
        (words,) = link.run(*script_for(call), deadline)
        return reply_of(words)

    def _replicated(self, link: RedisLink, call: Call, deadline: float) -> Reply:
        """Make a call and wait for the replicas, in one round trip.

        Half of the time is kept for giving back what was won in vain.
        """

        def wait() -> tuple[Word, ...]:
            return "WAIT", self._replicas, max(1, int(seconds_left(deadline) * 500))

        words, confirmed = link.run(*script_for(call), deadline, wait)
        reply = reply_of(words)
        kinds = {answer[0] for answer in reply.answers}
        if not kinds & {"won", "recorded", "yes"}:
            return reply
        if isinstance(confirmed, ReplyError):
            said = "WAIT was refused"
        elif confirmed < self._replicas:
            said = f"{confirmed} of {self._replicas} replicas confirmed"
        else:
            return reply
        if call.operation == "claim":
            # What is kept without being run, nobody else can run.
            self._answer(link, given_back(call, reply, said), deadline)
        if isinstance(confirmed, ReplyError):
            raise confirmed
        end = _IN_VAIN[call.operation]
        raise BackendUnavailable(f"Redis at {self._name}: {said} {end}: look at its replicas.")

    def _pages(self, link: RedisLink, call: Call, deadline: float) -> Reply:
        """Read history in pages, so that no script keeps the server for long.

        A page ends when it is full, or when its script has read enough, whatever it found.
        """
        limit, job, status, *position = cast("tuple[Any, ...]", call.head)
        if job is not None and position[0] is not None:
            position = [*position_in(job, tuple(position))]
        lines: list[Words] = []
        while True:
            page = call._replace(head=(min(PAGE, limit - len(lines)), job, status, *position))
            reply = self._answer(link, page, deadline)
            lines += reply.answers
            if not reply.open or len(lines) == limit:
                return reply._replace(answers=lines, open=[])
            ((ended, attempt),) = reply.open
            position = [None, None, None, attempt, ended]
