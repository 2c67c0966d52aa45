"""The part of the scheduler that asks something of the whole fleet, through the store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from ._durations import parse_ms
from ._instants import instant_ms
from ._jobs_registry import check_name, checked_text
from ._scheduler_asking import Asking, counted_to, next_after
from ._scheduler_options import check_watched
from ._values import BACKFILLED, TRIGGERED, RunKey
from .errors import BackendUnavailable, ConfigurationError
from .schedules import slot_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ._durations import Duration
    from ._lifecycle import Life
    from .backends.base import LeaseBackend
    from .jobs import Job

T = TypeVar("T")

MOST_BACKFILLED = 1000


class Commanding(Asking):
    """The methods of a scheduler that every instance on the same store obeys, beside `Asking`.

    Each may be called in every state and from any thread; the backend opens a short
    connection of its own where nothing is open.
    """

    def _life(self) -> Life | None:
        """Return the life that is going on in this process; a forked child has none."""
        raise NotImplementedError

    def _check(self, job: Job) -> None:
        """Refuse a job whose late slots nobody could tell of; see `Definitions`."""
        check_watched(job, self._options.backend)

    def trigger(self, name: str, *, data: Any = None) -> str:
        """Ask the fleet to run a job once, now: exactly one of the instances that have it does.

        Any process may ask that reaches the store, with the job or without it. Instances hear of
        it with the next claim or look that they make anyway, of whatever job, or, with
        ``Scheduler(control=…)``, within that period; this one at once, if it is running and has
        the job. It is a manual run: neither blocked by others, nor by a pause, nor blocking any;
        handed over by a stop, and ``lost`` if its runner dies. An order that nobody takes for 30
        days is forgotten.

        Args:
            name: The job, which needn't be defined here.
            data: What the handler finds as ``ctx.data``, in place of the job's own: anything of
                dict, list, str, int, float and bool, as JSON at most 64 KiB. None: the job's own.

        Returns:
            The ``run_id`` of the run, as in `history` once somebody has it.

        Raises:
            BackendUnavailable: The store didn't answer, twice; whether it has the order is not
                known.
            ConfigurationError: An argument is wrong, or the store keeps no leases.
        """
        from ._handler_calls import json_text

        name = checked_text(name)
        text = None if data is None else json_text(data, f"data for a run of {name}")
        key = RunKey(name, int(self._clock.wall() * 1000), TRIGGERED + os.urandom(8).hex())
        self._order([key], text)
        return key.run_id

    def backfill(
        self,
        name: str,
        start: int | datetime | str,
        end: int | datetime | str,
        *,
        limit: int = 100,
    ) -> list[str]:
        """Ask the fleet to run past slots of a job: the oldest first, one at a time.

        All slots from `start` to `end`, both included, that are due by now, whatever became of
        them before; each is a manual run of its slot with the reason ``catch-up``. They are taken
        as triggered runs are, but wait while the job is paused. Whoever has run one asks for the
        next at once.

        Args:
            name: The job, which has to be defined here: its schedule says which slots there are.
            start: The first instant: milliseconds since 1970 UTC, an aware datetime, or ISO text
                with an offset.
            end: The last instant, as well.
            limit: At most so many slots, the oldest, 1 to 1000. When as many are returned, ask
                again from the last one on.

        Returns:
            The ``run_id`` of each run, oldest slot first.

        Raises:
            JobNotFound: There is no job of this name here.
            BackendUnavailable: The store didn't answer, twice; whether it has the orders is not
                known.
            ConfigurationError: An argument is wrong, the schedule can't be computed, or the store
                keeps no leases.
        """
        first, last = instant_ms(start, "start"), instant_ms(end, "end")
        slots = self._past_slots(name, first, last, counted_to(limit, "limit", MOST_BACKFILLED))
        call = os.urandom(6).hex()
        keys = [
            RunKey(name, slot_ms, f"{BACKFILLED}{call}-{number}")
            for number, slot_ms in enumerate(slots, start=1)
        ]
        self._order(keys, None)
        return [key.run_id for key in keys]

    def _past_slots(self, name: str, first_ms: int, last_ms: int, most: int) -> list[int]:
        job = self._registry.get(name)
        if last_ms < first_ms:
            raise ConfigurationError(
                f"backfill of {name!r}: its end lies before its start; give them in order"
            )
        source = slot_source(job.schedule)
        until_ms = min(last_ms, int(self._clock.wall() * 1000))
        slots: list[int] = []
        slot_ms = next_after(job, source, first_ms - 1)
        while slot_ms is not None and slot_ms <= until_ms and len(slots) < most:
            slots.append(slot_ms)
            slot_ms = next_after(job, source, slot_ms)
        return slots

    def _order(self, keys: Sequence[RunKey], data: str | None) -> None:
        """Put orders into the store, which keeps each once, and have an own instance see them."""
        from ._messages import Ordered

        store = self._with_leases("by which one instance is found for it", "asked of the fleet")
        if not keys:
            return
        try:
            self._ask(lambda _: store.trigger(keys, data=data))
        except BackendUnavailable:
            self._ask(lambda _: store.trigger(keys, data=data))
        life = self._life()
        if life is not None and life.engine is not None:
            life.engine.give(Ordered(keys[0].job))

    def _with_leases(self, why: str, what: str) -> LeaseBackend:
        from .backends.base import LeaseBackend

        store = self._options.backend
        if not isinstance(store, LeaseBackend):
            raise ConfigurationError(
                f"{store!r} keeps no leases, {why}: a run on it can't be {what}"
            )
        return store

    def cancel(self, name: str, slot: int | datetime | str) -> bool:
        """End the run of a slot wherever it goes on, or forbid the one that waits to go on.

        Its signal aborts with the reason ``cancel``, at the runner's next heartbeat. However the
        handler ends then, unless it returns, the attempt is recorded as ``interrupted``, and
        nobody goes on with the run. A slot that nobody has claimed yet can't be cancelled: see
        `pause`.

        Args:
            name: The job, which needn't be defined here.
            slot: The slot, as in `explain`.

        Returns:
            Whether such a run was open.

        Raises:
            BackendUnavailable: The store can't be reached.
            ConfigurationError: An argument is wrong, or the store keeps no leases.
        """
        key = RunKey(checked_text(name), instant_ms(slot, "slot", "slot"))
        store = self._with_leases("through which a runner is told to end", "cancelled")
        return self._ask(lambda _: store.cancel(key))

    def pause(self, name: str | None = None, *, duration: Duration | None = None) -> None:
        """Stop starts of a job on every instance, or of all jobs; kept in the store.

        Slots that fall due meanwhile are skipped and never caught up, open runs wait, and
        a run that is going on goes on.

        Args:
            name: The job, which needn't be defined here; None for every job.
            duration: For how long; None for until `resume`.

        Raises:
            BackendUnavailable: The store can't be reached.
            ConfigurationError: An argument is wrong.
        """
        check_name(name)
        ms = None
        if duration is not None:
            ms = parse_ms(duration, what="pause(duration)", minimum_ms=1, allow_zero=False)
        self._ask(lambda store: store.pause(name, duration_ms=ms))

    def resume(self, name: str | None = None) -> None:
        """End a pause: that of one job, or (None) that of every job.

        Raises:
            BackendUnavailable: The store can't be reached.
            ConfigurationError: The name is no text.
        """
        check_name(name)
        self._ask(lambda store: store.resume(name))
