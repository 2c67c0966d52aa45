"""The part of the scheduler that asks the store, whether it runs or not."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, TypeVar, get_args

from ._durations import check_askable, shown
from ._instants import instant_ms
from ._jobs_registry import check_name, checked_text
from ._texts import clean, said
from ._values import Status, instant
from .errors import ConfigurationError
from .schedules import slot_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ._clock import Clock
    from ._explanations import Explanation, Plan
    from ._jobs_registry import Registry
    from ._messages import SlotSource
    from ._runs import Run
    from ._scheduler_options import Options
    from .backends.base import ClaimBackend
    from .instances import Instance
    from .jobs import Job

T = TypeVar("T")

MOST_RUNS = 1000
MOST_SLOTS = 1000
# As many skips of a job are kept, so that no search for another run goes further.
_PAGE = 50


class Asking:
    """The methods of a scheduler that read history and compute slots.

    Each may be called in every state and from any thread; the backend opens a short
    connection of its own where nothing is open.
    """

    _registry: Registry
    _options: Options
    _clock: Clock

    _inside: set[int]
    """The threads that are asking right now."""

    def _life(self) -> object:
        """Return the life that is going on in this process; a forked child has none."""
        raise NotImplementedError

    def _ask(self, question: Callable[[ClaimBackend], T]) -> T:
        """Ask the backend; the thread is marked, since it may hold a lock of the store's.

        A signal handler that interrupts it here and calls `stop` must not wait for that.
        """
        self._life()
        here = get_ident()
        nested = here in self._inside
        try:
            self._inside.add(here)
            return question(self._options.backend)
        finally:
            if not nested:
                self._inside.discard(here)

    def next_slots(self, name: str, n: int = 5) -> list[datetime]:
        """Return the next `n` slots of a job (at most 1000) as aware datetimes in UTC.

        Fewer when the schedule ends. Computed here; the store isn't asked.

        Raises:
            JobNotFound: There is no job of this name here.
            ConfigurationError: The name is no text, `n` is no such number, or the schedule
                can't be computed.
        """
        job = self._registry.get(name)
        source = slot_source(job.schedule)
        t_ms: int | None = int(self._clock.wall() * 1000)
        slots: list[datetime] = []
        for _ in range(counted_to(n, "n", MOST_SLOTS)):
            t_ms = None if t_ms is None else next_after(job, source, t_ms)
            if t_ms is not None:
                slots.append(instant(t_ms))
        return slots

    def history(
        self,
        name: str | None = None,
        *,
        limit: int = 20,
        before: Run | None = None,
        status: Status | None = None,
    ) -> list[Run]:
        """Return attempts of one job or of all, newest first, from the store.

        Args:
            name: The job; None for all. A name that nobody knows has no runs.
            limit: At most so many, 1 to 1000.
            before: The last run of the page before this one.
            status: Only attempts with this status.

        Raises:
            BackendUnavailable: The store can't be reached.
            ConfigurationError: An argument is wrong.
        """
        check_name(name)
        _check_status(status)
        _check_before(before)
        count = counted_to(limit, "limit", MOST_RUNS)
        return self._ask(
            lambda store: store.history(name, limit=count, before=before, status=status)
        )

    def last_run(self, name: str, *, status: Status | None = None) -> Run | None:
        """Return the newest attempt of a job that is no skip, from the store.

        Raises:
            BackendUnavailable: The store can't be reached.
            ConfigurationError: An argument is wrong.
        """
        if status is not None:
            found = self.history(name, limit=1, status=status)
            return found[0] if found and status != "skipped" else None
        page = self.history(name, limit=_PAGE)
        while page:
            for run in page:
                if run.status != "skipped":
                    return run
            page = self.history(name, limit=_PAGE, before=page[-1])
        return None

    def instances(self) -> list[Instance]:
        """Return the processes that share the store, by name, as it heard from each last.

        An instance says that it is there with the calls to the store that it makes anyway, so one
        without work is heard from when its next slot is due: see `Instance`. In any state, from
        any thread; a store that keeps nothing of the kind shows none.

        Raises:
            BackendUnavailable: The store can't be reached.
        """
        from .instances import instances_of

        return instances_of(self._ask(lambda store: store.instances()))

    def explain(self, name: str, slot: int | datetime | str) -> Explanation:
        """Return what became of a slot of a job: who ran it, when and how, or why nobody did.

        What has a record is told from the store alone, by any process. Why there is none can
        only be said where the job is defined.

        Args:
            name: The job.
            slot: The instant it was due: milliseconds since 1970 UTC, as `Run.slot`; an aware
                datetime; or ISO text with an offset, such as ``"2026-12-01T09:00:00Z"``.

        Raises:
            BackendUnavailable: The store can't be reached.
            ConfigurationError: An argument is wrong, or the schedule can't be computed.
            JobNotFound: The slot has no record, and there is no job of this name here.
        """
        from ._explanations import lines_around, plan_of, told, untold

        slot_ms = instant_ms(slot, "slot", "slot")
        plan = self._plan(checked_text(name))
        lines = self._ask(lambda store: lines_around(store, name, slot_ms))
        if (found := told(name, slot_ms, lines, plan)) is not None:
            return found
        job = self._registry.get(name)
        try:
            now_ms = int(self._clock.wall() * 1000)
            return untold(name, slot_ms, lines, plan_of(job, self._options.backend), now_ms)
        except ConfigurationError:
            raise
        except Exception as error:
            raise _not_computed(job, error) from error

    def _plan(self, name: str) -> Plan | None:
        """Return when a job is due; None if it isn't defined here."""
        from ._explanations import plan_of

        job = self._registry.find(name)
        return None if job is None else plan_of(job, self._options.backend)


def _check_status(status: object) -> None:
    check_askable(status, "status")
    known = get_args(Status)
    if status is not None and not (isinstance(status, str) and status in known):
        raise ConfigurationError(
            f"status: {shown(status)} is not known; give one of {', '.join(known)}, or None"
        )


def _check_before(before: object) -> None:
    if before is None:
        return
    from ._runs import Run

    check_askable(before, "before")
    if not isinstance(before, Run):
        raise ConfigurationError(
            f"before: {shown(before)} is no run; give the last one of the page before"
        )


def next_after(job: Job, source: SlotSource, t_ms: int) -> int | None:
    """Return the slot after an instant; `ConfigurationError` when it can't be computed."""
    try:
        return source.next_after_ms(t_ms)
    except ConfigurationError:
        raise
    except Exception as error:
        raise _not_computed(job, error) from error


def _not_computed(job: Job, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"job {job.name!r}: its schedule {shown(job.schedule)} can't be computed:"
        f" {clean(said(error))}"
    )


def counted_to(number: object, what: str, most: int) -> int:
    """Return a number from 1 to `most`, or raise `ConfigurationError`."""
    check_askable(number, what)
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= most:
        return number
    raise ConfigurationError(f"{what}: {shown(number)} is no number from 1 to {most}; give one")
