"""The attempts that this instance holds: leases, deadlines, results.

Pure, like the whole core. `Held` is one attempt with the two lives of `_states.py`;
`HeldRuns` keeps them by lease and answers the questions that need all of them: what is
due, which leases to renew, how many workers are free.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from ._messages import (
    StartRun,
)
from ._runs import Run
from ._states import HANDLER, RECORD
from ._values import (
    Lease,
    Result,
    instant,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._messages import (
        JobSpec,
        Settings,
    )
    from ._states import Ending, HandlerEvent, HandlerState, RecordEvent, RecordState
    from ._values import (
        AbortReason,
        Reason,
        RunKey,
        Status,
        Won,
    )

# How long a handler may take to notice its abort before it counts as stuck.
STUCK_AFTER = 5.0


class Held:
    """One attempt held here."""

    __slots__ = (
        "abort",
        "checkpoint",
        "completing",
        "data",
        "deadline",
        "fence",
        "fenced",
        "handler",
        "has_data",
        "known",
        "lease",
        "reason",
        "record",
        "result",
        "spec",
        "start_at",
        "started_mono",
        "started_ms",
        "stuck",
        "stuck_at",
        "timeout_at",
    )

    def __init__(self, lease: Lease, spec: JobSpec, reason: Reason, fence: int) -> None:
        self.lease = lease
        self.spec = spec
        self.reason: Reason = reason
        self.fence = fence
        self.checkpoint: str | None = None
        self.data: Any = None
        self.has_data = False
        self.handler: HandlerState = "pending"
        self.record: RecordState = "open"
        self.abort: AbortReason | None = None
        self.completing = False  # a transaction of the handler's decides how this ends
        self.result: Result | None = None
        self.deadline = inf  # past it the lease can't be proved any more
        self.fenced = False  # the deadline passed, or somebody took the run: final
        self.known = True  # the store has its record, so that it can be renewed
        self.start_at = -inf
        self.started_ms = 0
        self.started_mono = 0.0
        self.timeout_at = inf
        self.stuck_at = inf
        self.stuck = False

    @property
    def key(self) -> RunKey:
        """The run that this is an attempt of."""
        return self.lease.key

    @property
    def called(self) -> bool:
        """Whether this very instance was asked for the run by a call."""
        return self.lease.key.is_called

    @property
    def contested(self) -> bool:
        """Whether another attempt, or the next backfill, may begin when the lease has ended."""
        return not self.lease.key.manual or self.lease.key.is_backfill

    @property
    def over(self) -> bool:
        """Whether both lives have ended, so that the attempt can be forgotten."""
        return self.handler == "done" and self.record in ("settled", "taken")

    def handle(self, event: HandlerEvent) -> None:
        """Move the handler on; an event that its table doesn't have is a bug."""
        self.handler = HANDLER[self.handler, event]

    def note(self, event: RecordEvent) -> None:
        """Move the record on; an event that its table doesn't have is a bug."""
        self.record = RECORD[self.record, event]

    def extend(self, sent: float, left: float, margin: float) -> None:
        """Move the deadline: the lease is proved until `left` after the sending."""
        if not self.fenced and self.contested:
            self.deadline = sent + left - margin

    def hold_for_good(self) -> None:
        """The attempt is recorded as a success: nobody follows it, however long it goes on."""
        self.known = False
        if not self.fenced:
            self.deadline = inf

    def start(self, wall_ms: int, mono: float) -> StartRun:
        """Start the handler."""
        self.handle("start")
        self.started_ms = wall_ms
        self.started_mono = mono
        if self.spec.timeout is not None:
            self.timeout_at = mono + self.spec.timeout
        return StartRun(
            self.lease,
            self.reason,
            self.fence,
            self.checkpoint,
            self.spec,
            self.data,
            self.has_data,
            wall_ms,
        )

    def end(self, ending: Ending, mono: float, error: str | None, traceback: str | None) -> Result:
        """Give the attempt its result, which is final."""
        self.note("result")
        duration = mono - self.started_mono if self.started_ms else 0.0
        self.result = Result(
            self.key,
            self.lease.attempt,
            ending.status,
            self.reason,
            self.started_ms,
            int(duration * 1000),
            ending.detail,
            error,
            traceback,
            self.fence,
            ending.counted,
            self.completing,
        )
        return self.result

    def run(
        self, instance_id: str, status: Status, detail: str | None = None, error: str | None = None
    ) -> Run:
        """Return the public record of this attempt as it stands."""
        result = self.result
        # A success that a transaction has recorded stays one, whatever was raised afterwards.
        raised = None if status == "success" else result
        started = instant(self.started_ms) if self.started_ms else None
        return Run(
            run_id=self.key.run_id,
            job=self.key.job,
            slot=self.key.slot_ms,
            scheduled_at=instant(self.key.slot_ms),
            attempt=self.lease.attempt,
            status=status,
            detail=detail,
            reason=self.reason,
            manual=bool(self.key.manual),
            instance_id=instance_id,
            started_at=started,
            finished_at=(
                instant(self.started_ms + result.duration_ms) if result and started else None
            ),
            duration_ms=result.duration_ms if result else None,
            error=error if error is not None else raised.error if raised else None,
            traceback=raised.traceback if raised else None,
        )


class HeldRuns:
    """All attempts held here, by lease."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._runs: dict[Lease, Held] = {}
        self._by_key: dict[RunKey, Held] = {}
        self.orphaned: set[str] = set()  # jobs of runs that were lost, and have ended here

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, lease: Lease) -> Held | None:
        """Return the attempt of this lease, if it is held here."""
        return self._runs.get(lease)

    def of(self, key: RunKey) -> Held | None:
        """Return an attempt of this run that is held here or whose handler still lives."""
        return self._by_key.get(key)

    def add(self, held: Held) -> None:
        """Keep a new attempt."""
        self._runs[held.lease] = held
        self._by_key[held.key] = held

    def won(self, answer: Won, spec: JobSpec, reason: Reason, sent: float) -> Held:
        """Keep a won attempt; its lease counts from when the claim was sent."""
        held = Held(Lease(answer.key, answer.attempt), spec, reason, answer.fence)
        if answer.key.is_ordered:  # which keep no checkpoints, but what they were asked with
            held.data, held.has_data = answer.checkpoint, answer.checkpoint is not None
        else:
            held.checkpoint = answer.checkpoint
        if self._settings.leases:
            held.extend(sent, answer.left_ms / 1000, self._settings.margin)
        self.add(held)
        return held

    def drop_if_over(self, held: Held) -> None:
        """Forget an attempt of which nothing is left to do.

        Who has the run of one that was lost isn't known here; perhaps nobody, if the store
        lost its record. A run that must never start twice is left alone then.
        """
        if held.over:
            self._runs.pop(held.lease, None)
            self._by_key.pop(held.key, None)
            if held.record == "taken" and held.spec.terms.budget and not held.key.manual:
                self.orphaned.add(held.key.job)

    def complete(self, lease: Lease) -> bool:
        """Leave the record of an attempt to a transaction; False when it has a result already."""
        held = self._runs.get(lease)
        if held is None or held.handler != "live" or held.record != "open":
            return False
        held.completing = True
        return True

    def renewable(self) -> tuple[Lease, ...]:
        """Return the leases to renew: known, not given up, not recorded at a timeout."""
        return tuple(
            held.lease
            for held in self._runs.values()
            if held.known
            and not held.fenced
            and (held.abort != "timeout" or held.completing)
            and held.record in ("open", "settling")
        )

    def free_workers(self) -> int:
        """Return how many workers have nothing to do.

        A stuck handler's worker is replaced, up to as many times as there are workers.
        """
        busy = stuck = 0
        for held in self._runs.values():
            if not held.called and held.handler != "done":
                stuck += held.stuck
                busy += not held.stuck
        workers = self._settings.workers
        return max(0, workers - busy - max(0, stuck - workers))

    def stuck_count(self) -> int:
        """Return how many handlers ignored their abort and still run."""
        return sum(held.stuck and held.handler == "live" for held in self._runs.values())

    def live_count(self) -> int:
        """Return how many handlers are running."""
        return sum(held.handler == "live" for held in self._runs.values())

    def wakeups(self) -> Iterator[float]:
        """Yield every monotonic instant at which something here falls due."""
        for held in self._runs.values():
            if held.handler == "pending":
                yield held.start_at
            if not held.fenced and held.record == "open":
                yield held.deadline
            if held.handler == "live":
                if held.abort is None and held.record == "open":
                    yield held.timeout_at
                if not held.stuck:
                    yield held.stuck_at
