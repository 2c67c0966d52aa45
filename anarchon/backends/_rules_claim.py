"""The guards of a claim, in the order of the protocol; pure, as everything in `_rules`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._values import (
    Early,
    Free,
    Held,
    Missing,
    Suspect,
    Waiting,
    Won,
)
from ._rules import (
    AttemptRow,
    Ending,
    RunState,
    Step,
    alive,
    close_new,
    close_run,
    closed_answer,
    continuable,
    died_text,
    has_ended,
    holds,
    next_fence,
    open_run,
    renewed,
    too_old,
    trimmed,
)

if TYPE_CHECKING:
    from .._values import (
        Answer,
        Closed,
        Wish,
    )
    from ._rules import (
        Ask,
        Facts,
        JobState,
        Moment,
    )


def claim_known(run: RunState, wish: Wish, ask: Ask, facts: Facts) -> Step[Answer]:
    """Judge a wish for a run that is recorded."""
    if run.state == "closed":
        return Step(closed_answer(run))
    if holds(run, wish.wants, ask.owner):
        lease_ms = wish.terms.lease_ms
        won = Won(run.key, run.attempt, lease_ms, run.fence)
        return Step(won, run=renewed(run, lease_ms, ask.now), extends=True)
    if run.key.manual:
        return _claim_manual(run, wish, ask, facts)
    if run.state == "waiting":
        return _claim_waiting(run, wish, ask, facts)
    return _claim_running(run, wish, ask, facts)


def _claim_manual(run: RunState, wish: Wish, ask: Ask, facts: Facts) -> Step[Answer]:
    """Give a run that the fleet was asked for; one that runs is nobody's to take over."""
    if run.state != "waiting":
        return Step(Held(run.key, open_run(run, ask.owner, ask.now)))
    if not run.key.is_backfill:
        return _claim_waiting(run, wish, ask, facts._replace(paused=False))
    rivals = [one for one in facts.orders if one.key.is_backfill and one.key != run.key]
    if any(alive(one, ask.now) or (one.state == "waiting" and one.key < run.key) for one in rivals):
        return Step(Waiting(run.key, run.attempt))
    step = _claim_waiting(run, wish, ask, facts)
    if not step.starts:
        return step
    died = Ending("lost", "runner died", ask.now.wall_ms)
    dead = (close_run(one, ask, died) for one in rivals if one.state == "running")
    return step._replace(also=tuple(dead))


def _claim_running(run: RunState, wish: Wish, ask: Ask, facts: Facts) -> Step[Answer]:
    held: Step[Answer] = Step(Held(run.key, open_run(run, ask.owner, ask.now)))
    seen = wish.wants == run.attempt + 1 and wish.beat == run.beat
    if not (seen and has_ended(run, wish, ask)):
        return held
    if not continuable(run, ask.now, wish.terms.catch_up_ms):
        return _close_dead(run, ask)
    if facts.paused or facts.wins <= 0:
        return held
    died = Ending("lost", "taken over", ask.now.wall_ms)
    return _next_attempt(run, wish, ask, facts)._replace(ended=run.attempt, ending=died)


def _claim_waiting(run: RunState, wish: Wish, ask: Ask, facts: Facts) -> Step[Answer]:
    waiting: Step[Answer] = Step(Waiting(run.key, run.attempt))
    if wish.wants != run.attempt + 1:
        return waiting
    if too_old(run, ask.now, wish.terms.catch_up_ms):
        return close_run(run, ask, Ending("lost", "too old", None))
    if facts.paused or facts.wins <= 0:
        return waiting
    return _next_attempt(run, wish, ask, facts)


def _next_attempt(run: RunState, wish: Wish, ask: Ask, facts: Facts) -> Step[Answer]:
    step = _start(wish, ask, facts.job)
    assert step.run is not None
    deaths = run.deaths + (1 if run.state == "running" else 0)
    return step._replace(run=step.run._replace(deaths=deaths))


def _close_dead(run: RunState, ask: Ask) -> Step[Closed]:
    """Close a run that died for good, under the name its death deserves."""
    deaths, wall_ms = run.deaths + 1, ask.now.wall_ms
    if run.cancel:
        ending = Ending("interrupted", "cancelled", wall_ms)
    elif run.budget and deaths >= run.budget:
        ending = Ending("failed", None, wall_ms, error=died_text(deaths))
    else:
        ending = Ending("lost", "too old" if run.budget else "runner died", wall_ms)
    return close_run(run._replace(deaths=deaths), ask, ending)


def claim_new(wish: Wish, ask: Ask, facts: Facts) -> Step[Answer]:
    """Judge a wish for a run that has no record."""
    refused = _refused(wish, ask, facts.job)
    if refused is not None:
        return Step(refused)
    if facts.newer or facts.paused:
        return close_new(wish.key, ask, "skipped", "newer slot" if facts.newer else "paused")
    if not wish.terms.skip_overlap:
        return _first_attempt(wish, ask, facts)
    stale = tuple(run for run in facts.others if _is_stale(run, wish, ask.now))
    also = tuple(close_run(run, ask, Ending("lost", "too old", None)) for run in stale)
    return _behind(wish, ask, facts)._replace(also=also)


def _refused(wish: Wish, ask: Ask, job: JobState) -> Answer | None:
    wait_ms = wish.key.slot_ms - ask.now.wall_ms
    if wish.key.manual:
        return Missing(wish.key)
    if wish.key.slot_ms <= job.floor_ms:
        return trimmed(wish.key)
    if wish.wants > 1:
        return Missing(wish.key)
    if wait_ms > ask.pace.tolerance_ms:
        return Early(wish.key, wait_ms)
    return None


def _is_stale(run: RunState, wish: Wish, now: Moment) -> bool:
    return run.state == "waiting" and too_old(run, now, wish.terms.catch_up_ms)


def _behind(wish: Wish, ask: Ask, facts: Facts) -> Step[Answer]:
    """Apply the overlap guard: any other slot of the job that is open counts."""
    dead = None
    for run in facts.others:
        if alive(run, ask.now) or continuable(run, ask.now, wish.terms.catch_up_ms):
            return close_new(wish.key, ask, "skipped", "overlap")
        if run.state == "running" and dead is None:
            dead = run
    if dead is not None:
        return Step(Suspect(wish.key, open_run(dead, ask.owner, ask.now)))
    return _first_attempt(wish, ask, facts)


def _first_attempt(wish: Wish, ask: Ask, facts: Facts) -> Step[Answer]:
    if facts.wins <= 0:
        return Step(Free(wish.key))
    return _start(wish, ask, facts.job)


def _start(wish: Wish, ask: Ask, job: JobState) -> Step[Answer]:
    """Give the attempt that the wish names to the asker."""
    now, terms = ask.now, wish.terms
    run = RunState(
        wish.key,
        "running",
        wish.wants,
        owner=ask.owner.token,
        end_ms=now.lease_ms + terms.lease_ms,
        wall_end_ms=now.wall_ms + terms.lease_ms,
        boot=now.boot,
        lease_ms=terms.lease_ms,
        heartbeat_ms=terms.heartbeat_ms,
        fence=next_fence(job.fence, wish.fence_seen, now),
        budget=terms.budget,
        catch_up_ms=terms.catch_up_ms,
        since_ms=now.wall_ms,
    )
    row = AttemptRow(
        wish.key,
        wish.wants,
        "running",
        None,
        wish.reason,
        ask.owner.instance_id,
        started_ms=now.wall_ms,
    )
    return Step(Won(wish.key, wish.wants, terms.lease_ms, run.fence), run=run, opened=row)
