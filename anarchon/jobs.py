"""Jobs: a name, a schedule, a handler and its options, checked once when defined."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast

from ._durations import shown
from ._jobs_handlers import check_callable, takes_context
from ._jobs_options import check_name, check_options, naming
from .schedules import slot_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ._durations import Duration
    from ._jobs_handlers import Handler
    from ._jobs_options import Defaults
    from ._messages import JobSpec
    from .schedules import Schedule

Overlap: TypeAlias = Literal["skip", "allow"]
OnCrash: TypeAlias = Literal["takeover", "abandon"]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is defined on a scheduler: immutable, every option filled in.

    Durations are seconds; ``timeout`` is None when there is no limit. ``pass_context``
    says whether the handler is called with the context. ``expect_within`` is None when nobody
    waits for its slots to be finished.
    """

    name: str
    schedule: Schedule
    handler: Handler = field(repr=False, compare=False)
    overlap: Overlap = "skip"
    timeout: float | None = None
    max_attempts: int = 3
    catch_up: float = 3600.0
    jitter: float = 0.02
    data: Any = field(default=None, repr=False, compare=False)
    on_crash: OnCrash = "takeover"
    expect_within: float | None = None
    pass_context: bool = False
    enabled: bool = True
    description: str = ""
    tags: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that is ready for JSON, without handler and data.

        The schedule is given as the text of its `repr`.
        """
        hidden = ("handler", "data")
        values = {name: getattr(self, name) for name in self.__slots__ if name not in hidden}
        return {**values, "schedule": shown(self.schedule), "tags": list(self.tags)}


class JobOptions(TypedDict, total=False):
    """The options of every definition; those left out are the scheduler's.

    Attributes:
        overlap: ``"skip"`` a slot while another run of the job goes on, or ``"allow"`` it.
        timeout: How long an attempt may take; None for no limit.
        max_attempts: How many attempts of a run may die before it has failed.
        catch_up: How late the latest slot may still start; 0 turns that off.
        jitter: The mean spacing of two instances' claims; 0 turns that off.
        data: What the handler finds as ``ctx.data``.
        on_crash: ``"takeover"`` by another instance, or ``"abandon"`` the run.
        expect_within: How long after a slot it is to be finished: else one instance tells, by the
            event ``overdue``; None for no such time.
        pass_context: Whether to call the handler with the context, where its signature
            doesn't tell.
        replace: Replace a job of this name instead of refusing the second.
        enabled: False to check the definition but never to run the job.
        description: A text for people.
        tags: Words for people and tools.
    """

    overlap: Overlap
    timeout: Duration | None
    max_attempts: int
    catch_up: Duration
    jitter: Duration
    data: Any
    on_crash: OnCrash
    expect_within: Duration | None
    pass_context: bool | None
    replace: bool
    enabled: bool
    description: str
    tags: Sequence[str]


def build_job(
    name: object,
    schedule: object,
    handler: object,
    options: Mapping[str, object],
    defaults: Defaults,
) -> Job:
    """Check a definition and return the job.

    Raises:
        ConfigurationError: Something can't be as given; the message names the job, the
            value and the fix.
    """
    checked_name = check_name(name)
    given = check_options(checked_name, options)
    check_callable(handler, checked_name)
    call = cast("Callable[..., object]", handler)
    given["pass_context"] = takes_context(
        call, checked_name, pass_context=given.get("pass_context")
    )
    given.pop("replace", None)
    with naming(checked_name):
        slot_source(schedule)
    return Job(
        name=checked_name,
        schedule=cast("Schedule", schedule),
        handler=call,
        **{**defaults._asdict(), **given},
    )


def spec_of(job: Job, *, lease_ms: int, heartbeat_ms: int) -> JobSpec:
    """Return a job in the form of the core, with the lease of its scheduler."""
    from ._messages import JobSpec
    from ._values import Terms

    terms = Terms(
        lease_ms=lease_ms,
        heartbeat_ms=heartbeat_ms,
        budget=0 if job.on_crash == "abandon" else job.max_attempts,
        skip_overlap=job.overlap == "skip",
        catch_up_ms=round(job.catch_up * 1000),
    )
    source = slot_source(job.schedule)
    expect_ms = None if job.expect_within is None else round(job.expect_within * 1000)
    return JobSpec(job.name, source, terms, job.jitter, job.timeout, job, expect_ms)
