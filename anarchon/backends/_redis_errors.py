"""What went wrong with a Redis server, in words that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._texts import said
from ..errors import BackendError, BackendUnavailable
from ._redis_talk import ReplyError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ADVICE: Mapping[str, str] = {
    "LOADING": "it answers when it has loaded its data",
    "BUSY": "a script of somebody keeps it busy; look at its slow log",
    "READONLY": "this is a replica; the next connection asks for the master again",
    "MASTERDOWN": "this replica has lost its master; wait for the failover, or end it",
    "CLUSTERDOWN": "the cluster is not complete; bring the missing nodes back",
    "TRYAGAIN": "the namespace is just moving to another node",
    "MOVED": "the nodes of the cluster disagree about where the namespace lives",
    "ASK": "the nodes of the cluster disagree about where the namespace lives",
    "CROSSSLOT": "something between here and the server changes the names of keys",
    "OOM": "its memory is full: raise maxmemory, or remove keys; anarchon's own are bounded",
    "MISCONF": "it can't save to its disk: make room there",
    "NOREPLICAS": "it has fewer replicas than min-replicas-to-write asks for",
    "NOAUTH": "it asks for a password: give one in the URL or to the client",
    "WRONGPASS": "the user or the password is wrong",
    "NOPERM": "grant what is missing: the commands that the documentation lists, and keys ~{keys}*",
    "WRONGTYPE": "somebody else uses keys of this namespace: remove them, or take another one",
}
_ANSWERED = ("WRONGTYPE", "NEWERFORMAT", "ERR")  # it works, and won't do what is asked


def explained(error: Exception, name: str, keys: str) -> BackendError:
    """Return what an error of the server, or of the way to it, means.

    `keys` is what the keys of the namespace begin with.
    """
    if isinstance(error, ReplyError):
        return _refused(error, name, keys)
    if isinstance(error, TypeError) and "keyword argument" in str(error):
        return BackendError(f"redis-py doesn't know an option of {name}: {error}")
    return BackendUnavailable(f"Redis at {name} can't be asked: {said(error)}")


def _refused(error: ReplyError, name: str, keys: str) -> BackendError:
    if error.code == "NEWERFORMAT":
        return BackendError(
            f"What is stored in Redis at {name} was written by a newer anarchon (format "
            f"{str(error).partition(' ')[2]}): upgrade this one, or use another namespace."
        )
    advice = _ADVICE.get(error.code, "").replace("{keys}", keys)
    if "unknown command" in str(error):
        advice = "anarchon needs Redis 6.2 or Valkey 7.2, or newer, with EVAL and EVALSHA"
    crowded = "max number of clients" in str(error)
    kind = BackendError if error.code in _ANSWERED and not crowded else BackendUnavailable
    return kind(f"Redis at {name} refused: {error}{advice and f' ({advice})'}")
