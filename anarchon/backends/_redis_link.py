"""A connection that runs scripts, wherever in a cluster the namespace lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ._redis_talk import ReplyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._redis_scripts import Script
    from ._redis_talk import Address, Talk, Word
    from ._redis_ways import Way

HOPS = 6  # a script that must be sent, a slot that moves, and the same again
# What a node says that has no use for anybody now, while another one may do.
_USELESS = ("ASK", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "READONLY")


class RedisLink:
    """One connection to the server; another one takes its place when the namespace moved."""

    def __init__(self, way: Way, talk: Talk, namespace: str) -> None:
        self._way = way
        self._namespace = namespace
        self.talk = talk

    def close(self) -> None:
        """Close it; never raises."""
        self.talk.close()

    def run(
        self,
        script: Script,
        arguments: list[str],
        deadline: float,
        after: Callable[[], Sequence[Word]] | None = None,
    ) -> list[Any]:
        """Run a script; return its answer, and that to the command sent right behind it.

        That command is made for each time that the script has to be sent, since a server
        that doesn't know the script carries the command out all the same. An error of it is
        returned in its place, for the script has run; raises `ReplyError` when that fails.
        """
        try:
            return self._run(script, arguments, deadline, after)
        except (OSError, ReplyError) as error:
            if isinstance(error, OSError) or error.code in _USELESS:
                self._way.failed(self.talk.address)
            raise

    def _run(
        self,
        script: Script,
        arguments: list[str],
        deadline: float,
        after: Callable[[], Sequence[Word]] | None,
    ) -> list[Any]:
        by: Literal["EVALSHA", "EVAL"] = "EVALSHA"
        asked: Address | None = None
        for hop in range(HOPS):
            commands: list[Sequence[Word]] = [script.command(by, self._namespace, arguments)]
            if after is not None:
                commands.append(after())
            replies = self._said(commands, asked, deadline)
            error = replies[0]
            if not isinstance(error, ReplyError):
                return replies
            if hop == HOPS - 1:
                raise error
            match error.code:
                case "NOSCRIPT":
                    by = "EVAL"
                case "MOVED":
                    self._move(_address_in(error, asked or self.talk.address), deadline)
                    asked = None
                case "ASK":
                    asked = _address_in(error, asked or self.talk.address)
                case _:
                    raise error
        raise AssertionError("the last hop answers or raises")

    def _said(
        self, commands: Sequence[Sequence[Word]], asked: Address | None, deadline: float
    ) -> list[Any]:
        if asked is None:
            return self.talk.ask_all(deadline, commands)
        talk = self._way.asked(asked, deadline)
        try:
            may_ask, *replies = talk.ask_all(deadline, [("ASKING",), *commands])
        finally:
            talk.close()
        if isinstance(may_ask, ReplyError):
            raise may_ask  # it names the right that is missing
        return replies

    def _move(self, address: Address, deadline: float) -> None:
        self.talk.close()
        self.talk = self._way.moved(address, deadline)


def _address_in(error: ReplyError, answered: Address | None) -> Address:
    """Return where ``MOVED 3999 host:port`` sends us; without a host, to the one that answered."""
    host, _, port = str(error).split(" ")[2].rpartition(":")
    if host in ("", "?") and answered is not None:
        host = answered[0]
    return host, int(port)
