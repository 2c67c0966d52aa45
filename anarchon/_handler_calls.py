"""What a handler asks of the store by itself, on its own thread, while its attempt runs.

These calls bypass the scheduler thread, which never waits for a store. It is asked only
whether a transaction may decide how an attempt ends.
"""

from __future__ import annotations

import os
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal

from ._durations import shown
from ._messages import (
    Completing,
)
from ._values import Result
from .backends._storable import CHECKPOINT_BYTES
from .backends.base import LeaseBackend
from .errors import BackendError, BackendUnavailable, ConfigurationError, NotRunning

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._messages import StartRun
    from ._values import Lease, Owner
    from .backends.base import ClaimBackend, Holding

    Word = Holding | Literal["late"]

PATIENCE = 10.0  # seconds for the scheduler thread, which answers at once unless it starves
TURN = 0.1


class HandlerCalls:
    """The store as the handlers of one engine reach it. Every method belongs to their threads.

    `may_complete` says, once the engine has ended, whether a transaction may still decide how
    an attempt ends; while it runs, None.
    """

    def __init__(
        self,
        backend: ClaimBackend,
        owner: Owner,
        post: Callable[[object], None],
        may_complete: Callable[[Lease], bool | None],
    ) -> None:
        self._backend = backend
        self._owner = owner
        self._post = post
        self._may_complete = may_complete
        self._pid = os.getpid()

    def save(self, start: StartRun, text: str) -> bool:
        """Keep a checkpoint; asked again once, since that changes nothing."""
        backend = self._leases("ctx.save()")
        try:
            return backend.save(start.lease, owner=self._owner, value=text)
        except BackendUnavailable:
            return backend.save(start.lease, owner=self._owner, value=text)

    def fence(self, start: StartRun, connection: object) -> Word:
        """Make a takeover wait for the transaction of this connection."""
        backend = self._leases("ctx.fenced()")
        word = backend.fence(connection, start.lease, owner=self._owner)
        return _enforced(backend, connection, word)

    def complete(self, start: StartRun, connection: object, running: float) -> Word:
        """Record the success in the transaction of this connection.

        Written first and asked about afterwards: when the scheduler has recorded something
        else meanwhile, a timeout perhaps, this one must not be committed.
        """
        backend = self._leases("ctx.complete()")
        lease = start.lease
        result = Result(
            lease.key,
            lease.attempt,
            "success",
            start.reason,
            start.started_ms,
            int(running * 1000),
            fence=start.fence,
        )
        word: Word = backend.complete(connection, result, owner=self._owner)
        if word == "held" and not self._granted(lease):
            word = "late"
        return _enforced(backend, connection, word)

    def _granted(self, lease: Lease) -> bool:
        """Ask the scheduler whether the transaction may decide."""
        reply: SimpleQueue[bool] = SimpleQueue()
        self._post(Completing(lease, reply))
        for _ in range(round(PATIENCE / TURN)):
            try:
                return reply.get(timeout=TURN)
            except Empty:
                if (may := self._may_complete(lease)) is not None:
                    return may
        raise BackendError(
            f"The scheduler's thread didn't answer ctx.complete() within {PATIENCE:g} s: roll "
            "the transaction back; something keeps this process from running."
        )

    def _leases(self, what: str) -> LeaseBackend:
        if self._pid != os.getpid():
            raise NotRunning(
                f"{what} was called in a forked child; the run belongs to its parent process."
            )
        if not isinstance(self._backend, LeaseBackend):
            raise ConfigurationError(
                f"{what} needs a store with leases; {self._backend!r} has none, so that an "
                "interrupted run is never continued."
            )
        return self._backend


def _enforced(backend: LeaseBackend, connection: object, word: Word) -> Word:
    """See to it that a transaction which isn't held can't be committed, whoever tries."""
    if word != "held":
        backend.refuse(connection)
    return word


def data_of(start: StartRun, otherwise: Any) -> Any:
    """Return the data of an attempt: what its run was asked for with, or else the job's."""
    if not start.has_data:
        return otherwise
    if not start.lease.key.is_ordered:
        return start.data
    import json

    try:
        return json.loads(start.data)
    except ValueError:  # somebody else has written into the store
        return None


def json_text(value: Any, what: str) -> str:
    """Return what goes into the store with a run as JSON; `what` it is, for messages.

    Raises:
        ConfigurationError: It is no JSON, or too long.
    """
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except UnicodeEncodeError:  # a lone surrogate, which only its escape can say
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        size = len(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"The {what} is no JSON: {shown(value)} ({error}): give only dict, list, "
            "str, int, float, bool and None."
        ) from error
    if size > CHECKPOINT_BYTES:
        raise ConfigurationError(
            f"The {what} has {size} bytes as JSON, and at most {CHECKPOINT_BYTES} can be kept: "
            "give less of it, or keep it elsewhere and give a reference to it."
        )
    return text
