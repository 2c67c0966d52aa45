"""What happens to the attempts held here: start, abort, end, and the way to the store.

Pure. A handler's end gives its attempt a result once; the result then waits in
`finishes` or `releases` until the store has answered for it, however often it has to be
sent. Events are emitted after the store has the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ._core_held import STUCK_AFTER, Held
from ._core_put_off import PutOff
from ._messages import (
    Abort,
    Emit,
    Note,
    Return,
)
from ._runs import Run
from ._states import (
    NO_LONGER_HELD,
    NOT_HANDED_OVER,
    NOT_RECORDED,
    TIMED_OUT,
    UNCOMMITTED,
    UNSTARTED,
    Ending,
    ending,
)
from ._values import (
    Lease,
    Lost,
    Recorded,
    Released,
    Result,
    Undecided,
    instant,
)

if TYPE_CHECKING:
    from ._core_held import HeldRuns
    from ._messages import (
        Action,
        Answered,
        Ended,
        JobSpec,
        Now,
        Renew,
        RunNow,
        Settings,
    )
    from ._values import (
        AbortReason,
        Renewed,
        RunEvent,
        RunKey,
        Settled,
        Status,
    )

EVENTS: dict[Status, RunEvent] = {
    "success": "success",
    "failed": "failure",
    "interrupted": "interrupted",
    "skipped": "skipped",
    "missed": "missed",
    "lost": "lost",
}


class Attempts:
    """Acts on the attempts held here, and keeps their results until they are recorded."""

    def __init__(self, settings: Settings, held: HeldRuns, out: list[Action]) -> None:
        self._settings = settings
        self._here = settings.instance_id
        self._held = held
        self._out = out
        self.finishes: dict[Lease, Result] = {}
        self.releases: dict[Lease, Result] = {}
        self.manuals: dict[Lease, Result] = {}  # manual runs to write down as running
        self.put_off = PutOff(settings.heartbeat)
        self.bereft: set[str] = set()  # jobs of which somebody else has a run of ours
        self.over: list[tuple[RunKey, Status]] = []  # runs that are recorded as over
        self.sought: set[str] = set()  # jobs whose next ordered run may be waiting by now
        self.handed_over: list[Lease] = []  # given up here, and open to everybody
        self._untold: dict[Lease, Held] = {}  # manual runs with a result not yet recorded

    # --- time ---

    def expire(self, now: Now) -> None:
        """Act on every deadline that has passed; the lease's comes first."""
        self.put_off.bring_back(now)
        for held in self._held:
            if not held.fenced and now.mono >= held.deadline and not held.over:
                self._fence(held, now)
            if held.handler == "live":
                if held.abort is None and held.record == "open" and now.mono >= held.timeout_at:
                    self._time_out(held, now)
                if not held.stuck and now.mono >= held.stuck_at:
                    held.stuck = True
                    self._out.append(Note("stuck", held.key, f"attempt {held.lease.attempt}"))

    def start_due(self, now: Now) -> None:
        """Call the handlers of the attempts whose slot has come."""
        for held in self._held:
            if held.handler == "pending" and held.start_at <= now.mono:
                self._start(held, now)

    def stop(self, now: Now) -> None:
        """Abort what runs, hand over what has not started."""
        for held in self._held:
            if held.handler == "pending":
                self.give_back(held, now)
            else:
                self._abort(held, "stop", now)

    def leave(self, left: list[Held]) -> None:
        """Stop has timed out: say which handlers are left, and which results nobody has."""
        self.tell_results()
        for held in left:
            if held.handler == "live":
                self._out.append(Note("left", held.key, f"attempt {held.lease.attempt}"))
                if held.called and held.record == "open":
                    run = held.run(self._here, "interrupted", NOT_HANDED_OVER)
                    self._out.append(Return(held.key, run))
            if held.record == "settling" and held.result is not None:
                status = held.result.status
                self._out.append(Emit(EVENTS[status], held.run(self._here, status, NOT_RECORDED)))

    def tell_results(self) -> None:
        """The store can't be told now: whoever waits for a manual run need not wait for that."""
        for held in self._untold.values():
            if held.result is not None:
                run = held.run(self._here, held.result.status, held.result.detail)
                self._out.append(Return(held.key, run))
        self._untold.clear()

    # --- inputs ---

    def give_back(self, held: Held, now: Now) -> None:
        """Hand over an attempt whose handler was never called."""
        held.handle("drop")
        self._result(held, _unstarted(held, self._settings), now)

    def run_now(self, message: RunNow, spec: JobSpec | None, now: Now, *, stopping: bool) -> None:
        """Start a manual run; the store hears of it afterwards."""
        if spec is None:  # removed a moment ago
            self._out.append(Return(message.key, _never_ran(message.key, self._settings)))
            return
        held = Held(Lease(message.key, 1), spec, "manual", now.wall_ms * 1000)
        held.data, held.has_data = message.data, message.has_data
        held.known = False
        self._held.add(held)
        if stopping:
            self.give_back(held, now)
            return
        self._start(held, now)
        self.manuals[held.lease] = Result(
            held.key, 1, "running", "manual", held.started_ms, 0, fence=held.fence
        )

    def ended(self, message: Ended, now: Now) -> None:
        """A handler has ended; what that means depends on its signal's state."""
        held = self._held.get(message.lease)
        if held is None or held.handler != "live":
            return
        held.handle("end")
        if held.record == "open" and message.unstarted:
            held.started_ms = 0  # whatever was told before, its handler was never called
            self._result(held, _unstarted(held, self._settings), now, message.error)
        elif held.record == "open":
            how = ending(
                held.abort,
                "returned" if message.error is None else "raised",
                follows=self._settings.leases and not held.called and held.spec.terms.budget > 0,
            )
            if message.aborted and how.status == "interrupted":
                self._result(held, how, now)
            else:
                self._result(held, how, now, message.error, message.traceback)
        elif held.record == "taken" and held.result is None:  # else it was told of
            self._out.append(Emit("lost", held.run(self._here, "lost", NO_LONGER_HELD)))
        self._held.drop_if_over(held)

    # --- answers ---

    def renewed(self, call: Renew, renewed: Renewed, how: Answered, now: Now) -> None:
        """Move the deadlines; abort what was lost or is to be cancelled."""
        lost, done = set(renewed.lost), set(renewed.done)
        for lease in call.leases:
            held = self._held.get(lease)
            if held is None:
                continue
            if lease in done:
                held.hold_for_good()
            elif lease not in lost:
                held.extend(how.sent, self._settings.lease, self._settings.margin)
            else:
                self.lose(lease, now)
        for lease in renewed.cancelled:
            held = self._held.get(lease)
            if held is not None and held.handler == "pending":
                self.give_back(held, now)
            elif held is not None:
                self._abort(held, "cancel", now)

    def lose(self, lease: Lease, now: Now) -> None:
        """Somebody else has the run: record nothing, become a backup."""
        held = self._held.get(lease)
        if held is None or held.record != "open" or not held.contested:
            return
        held.note("lose")
        self.bereft.add(held.key.job)
        if held.handler == "pending":
            held.handle("drop")
            self._out.append(Emit("lost", held.run(self._here, "lost", NO_LONGER_HELD)))
        self._abort(held, "lost", now)
        self._held.drop_if_over(held)

    def settled(self, settled: Settled, now: Now) -> None:
        """The store has answered for these results."""
        for answer in settled.answers:
            if isinstance(answer, Undecided):
                self.put_off.take(answer.lease, self.finishes, self.releases, now=now)
                continue
            self.finishes.pop(answer.lease, None)
            self.releases.pop(answer.lease, None)
            held = self._held.get(answer.lease)
            if held is not None and held.record == "settling":
                self._settle(held, answer)
                self._held.drop_if_over(held)

    def recorded_manual(self, settled: Settled) -> None:
        """The store has these manual runs, so that they can be renewed."""
        for answer in settled.answers:
            self.manuals.pop(answer.lease, None)
            held = self._held.get(answer.lease)
            if held is not None:
                held.known = True

    # --- inside ---

    def _start(self, held: Held, now: Now) -> None:
        # The time at which a run was called for is its slot, by another thread's reading.
        started_ms = max(now.wall_ms, held.key.slot_ms) if held.called else now.wall_ms
        action = held.start(started_ms, now.mono)
        run = held.run(self._here, "running")
        if held.reason == "takeover":
            self._out.append(Emit("takeover", run))
        self._out.append(Emit("started", run))
        self._out.append(action)

    def _abort(self, held: Held, reason: AbortReason, now: Now) -> None:
        """Abort the signal; the first reason stays."""
        if held.handler == "live" and held.abort is None:
            held.abort = reason
            if reason != "stop":
                held.stuck_at = now.mono + min(self._settings.heartbeat, STUCK_AFTER)
            self._out.append(Abort(held.lease, reason))

    def _fence(self, held: Held, now: Now) -> None:
        """The lease can't be proved any more: give the attempt up before anybody may take it."""
        held.fenced = True
        if held.handler == "pending":
            self.give_back(held, now)
        elif held.record == "open":
            self._abort(held, "lost", now)

    def _time_out(self, held: Held, now: Now) -> None:
        """Record the failure at the limit; whatever the thread does later is ignored."""
        self._abort(held, "timeout", now)
        error = f"TimeoutError: still running after {held.spec.timeout:g} s"
        self._result(held, TIMED_OUT, now, error)

    def _result(
        self,
        held: Held,
        how: Ending,
        now: Now,
        error: str | None = None,
        traceback: str | None = None,
    ) -> None:
        result = held.end(how, now.mono, error, traceback)
        # The run never has to be written down as running any more if it wasn't yet.
        self.manuals.pop(held.lease, None)
        (self.finishes if how.call == "finish" else self.releases)[held.lease] = result
        if held.called:
            self._untold[held.lease] = held

    def _settle(self, held: Held, answer: Recorded | Released | Lost) -> None:
        if held.key.is_ordered:
            self.sought.add(held.key.job)
        match answer:
            case Released():
                held.note("settle")
                self.handed_over.append(held.lease)
                self._emit(held, "interrupted", UNSTARTED.detail)
            case Recorded(status=status, detail=detail):
                held.note("settle")
                self.over.append((held.key, status))
                self._emit(held, status, detail)
            case Lost():
                held.note("lose")
                self.bereft.add(held.key.job)
                self._emit(held, "lost", NO_LONGER_HELD)
            case _:
                assert_never(answer)

    def _emit(self, held: Held, status: Status, detail: str | None) -> None:
        """Tell how the attempt ended, in the store's words where they differ from ours."""
        ours = held.result
        error = None
        if ours is not None and ours.status == status:
            detail = ours.detail if detail is None else detail
        elif status == "failed":
            # Nothing was committed, or a counted hand-over used the budget up.
            error = UNCOMMITTED if ours is not None and ours.status == "success" else detail
        run = held.run(self._here, status, detail, error)
        self._out.append(Emit(EVENTS[status], run))
        if self._untold.pop(held.lease, None) is not None:
            self._out.append(Return(held.key, run))


def _unstarted(held: Held, settings: Settings) -> Ending:
    """A win that never started is handed over free, also with `on_crash="abandon"`."""
    if settings.leases and not held.called:
        return UNSTARTED
    return Ending("finish", "interrupted", NOT_HANDED_OVER)


def _never_ran(key: RunKey, settings: Settings) -> Run:
    """Return the record of a manual run that its job's removal overtook."""
    return Run(
        key.run_id,
        key.job,
        key.slot_ms,
        instant(key.slot_ms),
        1,
        "interrupted",
        NOT_HANDED_OVER,
        "manual",
        manual=True,
        instance_id=settings.instance_id,
    )
