"""What a handler gets: the context of its attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._handler_calls import json_text
from ._signal import Signal
from ._values import instant
from .errors import NotRunning

if TYPE_CHECKING:
    from datetime import datetime

    from ._handler_calls import HandlerCalls, Word
    from ._messages import (
        StartRun,
    )
    from ._signal import Switch
    from ._values import (
        Reason,
    )

__all__ = ["Context", "Signal"]

_NOT_HELD = {
    "lost": "this instance doesn't hold the run any more",
    "done": "a transaction has completed this run before: roll this one back",
    "late": "the run was recorded before it was completed: roll the transaction back",
}


class Context:
    """What a handler is told about its attempt.

    Attributes:
        name: The job's name.
        slot: When the run was due, in milliseconds since 1970 UTC: the same on every
            instance and every attempt, so it can serve as an idempotency key.
        scheduled_at: The slot as an aware datetime in UTC.
        instance_id: The instance that runs it.
        attempt: 1 for the first try; more when another attempt was taken over.
        reason: ``"scheduled"``, ``"manual"``, ``"catch-up"`` or ``"takeover"``.
        manual: Whether somebody asked for this run by a call.
        signal: Aborts when the run should stop.
        data: What was given as ``data``; the object itself, not a copy.
        fence: A number that grows with every attempt of the job, for
            ``UPDATE ... WHERE fence < %s``.
    """

    def __init__(
        self,
        start: StartRun,
        instance_id: str,
        switch: Switch,
        data: Any,
        calls: HandlerCalls | None = None,
    ) -> None:
        key = start.lease.key
        self.name: str = key.job
        self.slot: int = key.slot_ms
        self.scheduled_at: datetime = instant(key.slot_ms)
        self.instance_id: str = instance_id
        self.attempt: int = start.lease.attempt
        self.reason: Reason = start.reason
        self.manual: bool = bool(key.manual)
        self.signal: Signal = Signal(switch)
        self.data: Any = data
        self.fence: int = start.fence
        self._start = start
        self._switch = switch
        self._calls = calls
        self._since = switch.clock.mono()
        self._completing = False

    @property
    def previous_slot(self) -> int | None:
        """The slot before this one in milliseconds, None for the first; computed when asked."""
        return self._start.spec.schedule.latest_ms(self.slot - 1)

    @property
    def checkpoint(self) -> Any:
        """What an earlier attempt of this run saved for this one, or None."""
        if self._start.checkpoint is None:
            return None
        import json

        return json.loads(self._start.checkpoint)

    def save(self, value: Any) -> None:
        """Keep a small checkpoint, which the next attempt of this run finds as `checkpoint`.

        It takes the place of what was saved before, also of what an earlier attempt saved; it
        is gone when the run has ended. A manual run has no next attempt, so nothing is kept.
        One call to the store, on a connection of this thread's. Any thread may call it.

        Args:
            value: Anything of dict, list, str, int, float, bool and None; as JSON at most
                64 KiB.

        Raises:
            Aborted: Another instance has this run by now, so nothing was saved.
            RuntimeError: The same, on a thread that is not the run's own or that runs an event
                loop.
            ConfigurationError: The value is no JSON or too long, or the store has no leases.
            BackendUnavailable: The store didn't answer, twice; whether the value was saved is
                not known.
        """
        text = json_text(value, f"checkpoint of {self.name}")
        # After `complete` there is no next attempt either, once its transaction is committed.
        if self.manual or self._store.save(self._start, text) or self._completing:
            return
        self._switch.end(_NOT_HELD["lost"], "lost")

    def fenced(self, connection: object) -> None:
        """Make sure that only the holder of this run can commit a transaction.

        Called in a transaction of yours on the scheduler's own database, anywhere before its
        commit: from then on, until the transaction ends, no other instance can take the run
        over. On PostgreSQL that waits for the transaction, while heartbeats go on. On SQLite,
        where the store has to be the same file, the transaction keeps every writer of the file
        waiting, heartbeats too: keep it in milliseconds.

        Args:
            connection: One of psycopg or sqlite3, or of Django or SQLAlchemy through them
                (psycopg2 works as well), with a transaction or about to begin one.

        Raises:
            Aborted: Another instance has this run by now; reason ``"lost"``. Let it pass, so
                that the transaction is rolled back.
            RuntimeError: The same, on a thread that is not the run's own or that runs an event
                loop.
            ConfigurationError: The store is another one, or the connection leads elsewhere or
                has no transaction.
            BackendError: On SQLite, less than half of the lease is left.
            Exception: What your database driver raises, a time-out of a lock perhaps.
        """
        self._go_on(self._store.fence(self._start, connection))

    def complete(self, connection: object) -> None:
        """Record this run's success in your own transaction, so that both commit or neither.

        It holds the run as `fenced` does. Once the transaction is committed the run is a
        success, even if this process dies in the next moment. Commit before the handler (and
        what `around` does) ends: a handler that returns without is recorded as failed. A
        timeout that passes meanwhile leaves the decision to the transaction.

        Args:
            connection: As for `fenced`.

        Raises:
            Aborted: Another instance has this run by now; or it was recorded already, by a
                timeout or by an earlier call; reason ``"lost"``. Let it pass, so that the
                transaction is rolled back.
            RuntimeError: The same, on a thread that is not the run's own or that runs an event
                loop.
            ConfigurationError: The store is another one, or the connection leads elsewhere or
                has no transaction.
            Exception: What your database driver raises.
        """
        running = self._switch.clock.mono() - self._since
        self._go_on(self._store.complete(self._start, connection, running))
        self._completing = True

    @property
    def _store(self) -> HandlerCalls:
        if self._calls is None:
            raise NotRunning("This context is of no running scheduler, so it has no store.")
        return self._calls

    def _go_on(self, word: Word) -> None:
        """Go on if the run is held; else end the handler."""
        if word != "held":
            self._switch.end(_NOT_HELD[word], "lost")

    def __repr__(self) -> str:
        when = self.scheduled_at.isoformat()
        return f"<Context {self.name} @ {when}, attempt {self.attempt}, {self.reason}>"
