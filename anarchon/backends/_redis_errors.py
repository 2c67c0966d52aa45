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
    "NOPERM": "grant what is missing; the documentation has the line for ACL SETUSER",
    "WRONGTYPE": "somebody else uses keys of this namespace: remove them, or take another one",
    "NOPROTO": "this is no server that anarchon knows",
}
_ANSWERED = ("WRONGTYPE", "NEWERFORMAT", "ERR")  # it works, and won't do what is asked


def explained(error: Exception, name: str) -> BackendError:
    """Return what an error of the server, or of the way to it, means."""
    if isinstance(error, ReplyError):
        return _refused(error, name)
    if isinstance(error, TypeError) and "keyword argument" in str(error):
        return BackendError(f"redis-py doesn't know an option of {name}: {error}")
    return BackendUnavailable(f"Redis at {name} can't be reached: {said(error)}")


def _refused(error: ReplyError, name: str) -> BackendError:
    if error.code == "NEWERFORMAT":
        return BackendError(
            f"What is stored in Redis at {name} was written by a newer anarchon (format "
            f"{str(error).partition(' ')[2]}): upgrade this one, or use another namespace."
        )
    code = error.code
    if "can't run this command" in str(error) or "has no permissions" in str(error):
        code = "NOPERM"
    advice = _ADVICE.get(code, "")
    kind = BackendError if code in _ANSWERED else BackendUnavailable
    return kind(f"Redis at {name} refused: {error}{advice and f' ({advice})'}")
