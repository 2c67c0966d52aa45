"""What a store can hold: strange keys, numbers and texts are met here, before any row is.

A run that can't be held is answered, never raised about: one schedule that names the
year 300000, or one error text with a lone surrogate, must not cost the other jobs their
slots.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

from .._durations import shown
from .._texts import clean
from .._values import Closed, Owner, RunKey
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._runs import Run
    from .._values import Result, Wish
    from ._rows import Position

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years that datetime knows
LARGEST = 2**53
INSTANCE_BYTES = 1024
LONGEST_NAMESPACE = 200
CHECKPOINT_BYTES = 64 * 1024


def checked_namespace(namespace: object) -> str:
    """Return a namespace that names a part of any store, or raise `ConfigurationError`."""
    if (
        isinstance(namespace, str)
        and 0 < len(namespace) <= LONGEST_NAMESPACE
        and namespace.isprintable()
        and namespace == namespace.strip()
    ):
        return namespace
    raise ConfigurationError(
        f"The namespace {shown(namespace)} is no name: give 1 to {LONGEST_NAMESPACE} printable "
        "characters without blanks around them, such as the service's name."
    )


def checked_silence(silence: object, known: Iterable[str]) -> frozenset[str]:
    """Return the names of findings that nobody wants to hear of.

    Raises:
        ConfigurationError: One of them is none of the `known` ones, or it is no list of names.
    """
    findings, names = frozenset(known), None
    if not isinstance(silence, str):
        with suppress(TypeError):
            names = frozenset(cast("Iterable[str]", silence))
    if names is None or not names <= findings:
        raise ConfigurationError(
            f"silence={shown(silence)} is no list of findings: give a tuple with the names of "
            f"some; there are: {', '.join(sorted(findings))}."
        )
    return names


def check_manual(results: Iterable[Result]) -> None:
    """Raise `ConfigurationError` unless all of these are manual runs."""
    if not all(result.key.manual for result in results):
        raise ConfigurationError("A manual run needs a token of its own in `RunKey.manual`.")


def check_checkpoint(value: str) -> None:
    """Raise `ConfigurationError` unless every store can hold this checkpoint."""
    if not is_text(value) or len(value.encode()) > CHECKPOINT_BYTES:
        raise ConfigurationError(
            f"A checkpoint is text of at most {CHECKPOINT_BYTES} bytes; save less of it, or "
            "where to find it."
        )


def check_orders(keys: Iterable[RunKey], data: str | None) -> None:
    """Raise `ConfigurationError` unless the fleet can be asked for these runs."""
    if not all(key.is_ordered and is_storable(key) for key in keys):
        raise ConfigurationError(
            "A run of the fleet needs a job and a slot that a store can hold, and a token that "
            "says what it is; use Scheduler.trigger or Scheduler.backfill."
        )
    if data is not None:
        check_checkpoint(data)


def check_job(job: str | None) -> None:
    """Raise `ConfigurationError` unless this can be the name of a job, or None for every job."""
    if job is not None and not is_text(job):
        raise ConfigurationError(f"The job {shown(job)} is no name that a store can hold.")


def is_storable(key: RunKey) -> bool:
    """Whether a store can hold this key: encodable names, a slot between years 1 and 9999."""
    return is_text(key.job) and is_text(key.manual) and FIRST_MS <= key.slot_ms <= LAST_MS


def is_text(name: str) -> bool:
    """Whether a name has an encoding; a lone surrogate has none."""
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def position_of(run: Run) -> Position:
    """Return where in history a run is.

    Raises:
        ConfigurationError: No store can hold such a run, so no history has it.
    """
    numbers, texts = (run.slot, run.attempt), (run.job, run.run_id)
    if all(type(one) is int for one in numbers) and all(isinstance(one, str) for one in texts):
        key = RunKey(run.job, run.slot, run.run_id if run.manual else "")
        if is_storable(key) and 0 < run.attempt <= LARGEST:
            return run.slot, run.job, key.manual, run.attempt
    raise ConfigurationError(
        f"before: {shown(run)} is no run of a history; give the last one of the page before"
    )


def position_in(job: str, position: Position) -> Position:
    """Return the same position among the runs of one job, for a store that reads only those.

    Where slots are equal names decide: a job whose name comes later is passed as a whole.
    """
    slot_ms, other, _, _ = position
    return position if other == job else (slot_ms + (other > job), job, "", 1)


def is_sound(wish: Wish) -> bool:
    """Whether a wish names a run that can be held, in numbers that can be."""
    terms = wish.terms
    counts = (wish.wants, terms.lease_ms)
    others = (terms.heartbeat_ms, terms.budget, terms.catch_up_ms, wish.fence_seen, wish.beat + 1)
    return (
        is_storable(wish.key)
        and all(0 < value <= LARGEST for value in counts)
        and all(0 <= value <= LARGEST for value in others)
    )


def refusal(key: RunKey) -> Closed:
    """Return the answer for a run that no store can hold: nobody will ever run it."""
    return Closed(key, "lost", "this run can't be stored: its job, slot or terms", "")


def names(jobs: Iterable[str]) -> list[str]:
    """Return the jobs that can have records, each once, in their order."""
    return [job for job in dict.fromkeys(jobs) if is_text(job)]


def printable_owner(owner: Owner) -> Owner:
    """Return the owner with an instance id that every store can hold."""
    return Owner(owner.token, clean(owner.instance_id, INSTANCE_BYTES))


def owner_words(owner: Owner) -> tuple[str, str]:
    """Return the owner's token, and an instance id that every store can hold."""
    return printable_owner(owner)[:2]


def printable(result: Result) -> Result:
    """Return the result with texts that every store can hold, in numbers that fit."""
    started_ms = result.started_ms if 0 < result.started_ms <= LAST_MS else 0
    return result._replace(
        started_ms=started_ms,
        duration_ms=min(max(result.duration_ms, 0), LAST_MS - started_ms),
        detail=_cleaned(result.detail),
        error=_cleaned(result.error),
        traceback=_cleaned(result.traceback),
        fence=result.fence if 0 <= result.fence < LARGEST else 0,
    )


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean(text)
