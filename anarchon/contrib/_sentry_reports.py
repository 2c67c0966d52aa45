"""What Sentry is told: by listeners, when the store has the record.

Whether an exception is a failure is only known then: the run may have been handed over, or be
somebody else's by now. So the exception is kept from the end of the handler until the event, with
a copy of the context variables of the handler, in which the scopes of the SDK are.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import Context as Variables
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import sentry_sdk
from sentry_sdk.crons import capture_checkin
from sentry_sdk.scope import add_global_event_processor
from sentry_sdk.utils import event_from_exception

from .. import _threads_handler
from .._named import NamedTuple
from .._states import TIMEOUT
from .._values import moment
from ._sentry_monitors import Monitors, check_in_id_of
from ._watching import Watcher, run_id_of, tags_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from sentry_sdk.scope import Scope

    from .._runs import Run
    from ..context import Context
    from ..scheduler import Scheduler

# So many attempts may wait for their records. Of those that come on top, the oldest failures are
# reported without their exceptions.
BOUND = 1000

_processing: list[bool] = []


class Kept(NamedTuple):
    """What is kept of an attempt until it is recorded."""

    variables: Variables
    error: BaseException | None = None


class Reports(Watcher):
    """Reports the failures of a scheduler, and checks its jobs in."""

    def __init__(self, scheduler: Scheduler, monitors: object) -> None:
        super().__init__(scheduler, "report()")
        self._monitors = Monitors(monitors)
        self._backend = scheduler._options.backend  # noqa: SLF001 - of this package
        self._kept: dict[tuple[str, int], Kept] = {}

    def attach(self) -> None:
        """Come in around each attempt, and begin to listen."""
        if not _processing:
            _processing.append(True)
            add_global_event_processor(_without_log_line)
        registry = self.scheduler._registry  # noqa: SLF001 - of this package
        registry.mention("report(monitors)", self._monitors.names)
        self.watch(
            {
                "started": self._started,
                "success": self._succeeded,
                "failure": self._failed,
                "interrupted": self._forget,
                "lost": self._forget,
            },
            lambda ctx: AttemptScope(self, ctx),
        )

    # --- on the handler's thread ---

    def begin(self, ctx: Context, scope: Scope) -> None:
        """Fill the scope of an attempt."""
        tags = {"job": ctx.name, "attempt": ctx.attempt, "reason": ctx.reason}
        _fill(scope, ctx.name, {**tags, "instance": ctx.instance_id}, self._told(ctx))
        while len(self._kept) >= BOUND:
            with suppress(StopIteration, RuntimeError):  # others come and go
                self._kept.pop(next(iter(self._kept)), None)
        self._kept[run_id_of(ctx), ctx.attempt] = Kept(copy_context())

    def end(self, ctx: Context, error: BaseException | None) -> None:
        """Keep what the handler raised, if that can be why the run has failed."""
        key = run_id_of(ctx), ctx.attempt
        if error is not None and not ctx.signal.aborted and key in self._kept:
            self._kept[key] = Kept(copy_context(), error)

    def _told(self, ctx: Context) -> dict[str, Any]:
        return {
            "namespace": str(getattr(self._backend, "namespace", "")),
            "job": ctx.name,
            "slot": ctx.slot,
            "scheduled_at": moment(ctx.scheduled_at),
            "run_id": run_id_of(ctx),
            "attempt": ctx.attempt,
            "reason": ctx.reason,
            "instance_id": ctx.instance_id,
            "tags": list(tags_of(ctx)),
        }

    # --- on the thread of the listeners ---

    def _started(self, run: Run) -> None:
        self._check_in(run, "in_progress")

    def _succeeded(self, run: Run) -> None:
        self._forget(run)
        self._check_in(run, "ok")

    def _failed(self, run: Run) -> None:
        kept = self._kept.pop((run.run_id, run.attempt), None)
        # A timeout is recorded at the limit, whatever the handler did in that moment.
        error = kept.error if kept is not None and run.detail != TIMEOUT else None
        variables = Variables() if kept is None else kept.variables
        variables.run(partial(self._report, run, error))
        self._check_in(run, "error")

    def _forget(self, run: Run) -> None:
        self._kept.pop((run.run_id, run.attempt), None)

    def _report(self, run: Run, error: BaseException | None) -> None:
        client = sentry_sdk.get_client()
        if not client.is_active():
            return
        with sentry_sdk.isolation_scope() as scope:
            tags = {"job": run.job, "attempt": run.attempt, "reason": run.reason}
            # Of this attempt, or by whom it was found dead.
            job = self.scheduler._registry.find(run.job)  # noqa: SLF001 - of this package
            told = {
                **run.to_dict(),
                "namespace": str(getattr(self._backend, "namespace", "")),
                "tags": [] if job is None else list(job.tags),
            }
            _fill(scope, run.job, {**tags, "instance": run.instance_id}, told)
            if error is not None:
                mechanism = {"type": "anarchon", "handled": False}
                event, hint = event_from_exception(
                    _raised(error), client_options=client.options, mechanism=mechanism
                )
                sentry_sdk.capture_event(event, hint=hint)
                return
            message = f"{run.job} failed: {run.error or run.detail or 'no reason given'}"
            sentry_sdk.capture_event({"level": "error", "message": message})

    def _check_in(self, run: Run, status: str) -> None:
        job = self.scheduler._registry.find(run.job)  # noqa: SLF001 - of this package
        monitor = None if job is None else self._monitors.of(job)
        if monitor is None:
            return
        capture_checkin(
            monitor.slug,
            check_in_id_of(self._backend, run.run_id),
            status,
            None if run.duration_ms is None else run.duration_ms / 1000,
            monitor.config,  # type: ignore[arg-type]
        )


class AttemptScope:
    """An isolation scope around an attempt. Nothing of it gets into the handler's way."""

    __slots__ = ("_ctx", "_entered", "_reports")

    def __init__(self, reports: Reports, ctx: Context) -> None:
        self._reports = reports
        self._ctx = ctx
        self._entered: AbstractContextManager[Scope] | None = None

    def __enter__(self) -> None:
        try:
            isolated = sentry_sdk.isolation_scope()
            scope = isolated.__enter__()
            self._entered = isolated
            self._reports.begin(self._ctx, scope)
        except Exception as error:
            self._reports.survive("a run could not be given a scope of Sentry's", error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._reports.end(self._ctx, error)
            if self._entered is not None:
                self._entered.__exit__(None, None, None)
        except Exception as second:
            self._reports.survive("a run could not leave its scope of Sentry's", second)


def _fill(scope: Scope, job: str, tags: dict[str, Any], told: dict[str, Any]) -> None:
    for name, value in tags.items():
        if value is not None:
            scope.set_tag(f"anarchon.{name}", value)
    texts = ("error", "traceback")
    scope.set_context("anarchon", {k: v for k, v in told.items() if k not in texts})
    scope.set_transaction_name(job, source="task")


def _raised(error: BaseException) -> tuple[type[BaseException], BaseException, Any]:
    """Return what was raised with its traceback, without our own calls above the handler's."""
    trace = error.__traceback__
    ours = _threads_handler.__file__
    while trace is not None and trace.tb_frame.f_code.co_filename == ours:
        trace = trace.tb_next
    return type(error), error, trace


def _without_log_line(event: Any, hint: Any) -> Any:
    """Drop the event that the SDK makes of the log line of a failure, which is reported here."""
    record = (hint or {}).get("log_record")
    return None if getattr(record, "anarchon_event", None) == "failure" else event
