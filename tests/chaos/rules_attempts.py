"""What has to be true of attempts, as handlers told them. Each rule yields (job, slot, text)."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.chaos.rules_slots import Found
    from tests.chaos.story import Attempt, Story

# What is added to a bound for a busy machine.
BUSY_SECONDS = 0.75
# Clocks are read in milliseconds, and compared across processes.
TICK_SECONDS = 0.01


# --- ledger against history ---


def successes_were_run(story: Story) -> Iterator[Found]:
    """See that each success is a handler that returned, or completed, in that very process."""
    done = {
        (one.key, one.life.name)
        for one in story.attempts
        if one.how == "returned" or one.completing < inf
    }
    for key, run in story.records.items():
        if run["status"] == "success" and (key, run["instance_id"]) not in done:
            yield key.job, key.slot, f"success of attempt {key.number}, which nobody ran to its end"


def starts_are_recorded(story: Story) -> Iterator[Found]:
    for attempt in story.attempts:
        run = story.records.get(attempt.key)
        here = f"attempt {attempt.key.number} was started by {attempt.life.name}"
        if run is None:
            yield *attempt.key[:2], f"{here}, and has no record"
        elif run["instance_id"] != attempt.life.name:
            yield *attempt.key[:2], f"{here}, and recorded for {run['instance_id']}"


def each_attempt_starts_once(story: Story) -> Iterator[Found]:
    counts = Counter(attempt.key for attempt in story.attempts)
    for key, count in counts.items():
        if count > 1:
            yield key.job, key.slot, f"attempt {key.number} was started {count} times"
    abandoned = [key[:2] for key in counts if story.plan_of(key.job).is_abandoned]
    for (job, slot), count in Counter(abandoned).items():
        if count > 1:
            yield job, slot, f"{count} attempts were started, and it must never run twice"


def each_attempt_has_one_winner(story: Story) -> Iterator[Found]:
    for key, names in story.winners.items():
        if len(names) > 1:
            yield key.job, key.slot, f"attempt {key.number} was won by {', '.join(sorted(names))}"


def handlers_end(story: Story) -> Iterator[Found]:
    """See that a handler ends, unless its process is killed."""
    for attempt in story.attempts:
        if attempt.ended == inf and attempt.life.killed == inf:
            yield *attempt.key[:2], f"attempt {attempt.key.number} never ended"
    for line in story.strays:
        yield line["job"], line["slot"], f"a handler spoke that had not started, on {line['who']}"


# --- fences and times ---


def fences_grow(story: Story) -> Iterator[Found]:
    """See that each attempt of a run has a higher fence than those before, and none twice."""
    given: dict[str, dict[int, object]] = defaultdict(dict)
    highest: dict[tuple[str, int], int] = {}
    for key, fences in sorted(story.fences.items()):
        for fence in fences:
            if given[key.job].setdefault(fence, key) != key:
                yield key.job, key.slot, f"fence {fence} was given twice"
        if max(fences) <= highest.get(key[:2], -1):
            yield key.job, key.slot, f"attempt {key.number} has a lower fence than an earlier one"
        highest[key[:2]] = max(fences)
    for attempt in story.attempts:
        if attempt.fence not in story.fences[attempt.key]:
            yield *attempt.key[:2], f"a handler was told another fence, {attempt.fence}"


def nothing_starts_early(story: Story) -> Iterator[Found]:
    for attempt in story.attempts:
        early = story.moment_of(attempt.key.slot) - attempt.started
        if early > TICK_SECONDS:
            yield *attempt.key[:2], f"started {early:.3f} s before it was due"


def no_takeover_before_the_lease_ended(story: Story) -> Iterator[Found]:
    """See that a run was taken only when its runner had not renewed it for a whole lease."""
    for key, proofs in story.proofs.items():
        before = key._replace(number=key.number - 1)
        run = story.records.get(before)
        if run is None or run["status"] != "lost":
            continue
        ended = story.last_proof(before) + story.terms.lease
        taken = min(known for _, known in proofs)
        if taken < ended - TICK_SECONDS:
            early = f"{ended - taken:.3f} s before the lease's end"
            yield key.job, key.slot, f"attempt {key.number} was won {early}"


def runners_give_up_in_time(story: Story) -> Iterator[Found]:
    """See that a handler is told when its lease can't be proved, or as soon as it is awake."""
    terms = story.terms
    for attempt in story.attempts:
        proofs = sorted(story.proofs.get(attempt.key, []), key=lambda proof: proof[1])
        for number, (sent, _) in enumerate(proofs):
            deadline = sent + terms.lease - terms.margin
            renewed = proofs[number + 1][1] if number + 1 < len(proofs) else inf
            until = min(attempt.active_until, renewed)
            latest = _awake(attempt, deadline) + terms.heartbeat + BUSY_SECONDS
            if until > latest:
                late = until - deadline
                yield *attempt.key[:2], f"attempt {attempt.key.number} went on for {late:.3f} s"
                break


def _awake(attempt: Attempt, moment: float) -> float:
    """Return the first moment from this one on at which the runner could act."""
    for span in sorted(attempt.life.frozen):
        if span.begin <= moment + BUSY_SECONDS and span.end > moment:
            moment = span.end
    return moment


# --- who is active beside whom ---


def attempts_of_a_run_come_one_after_another(story: Story) -> Iterator[Found]:
    by_run = defaultdict(list)
    for attempt in story.attempts:
        by_run[attempt.key[:2]].append(attempt)
    for attempts in by_run.values():
        if len(attempts) > 1:
            yield from _beside_each_other(attempts, story)


def runs_of_a_job_come_one_after_another(story: Story) -> Iterator[Found]:
    """See that of a job that skips overlaps no two slots were worked on at once."""
    by_job = defaultdict(list)
    for attempt in story.attempts:
        if story.plan_of(attempt.key.job).skips_overlap:
            by_job[attempt.key.job].append(attempt)
    for attempts in by_job.values():
        yield from _beside_each_other(attempts, story)


def _beside_each_other(attempts: Iterable[Attempt], story: Story) -> Iterator[Found]:
    """Find those that started while another one was active, and had no excuse."""
    active: list[Attempt] = []
    for late in attempts:
        active = [one for one in active if one.active_until > late.started]
        for early in active:
            if not _had_to_sleep(early, late.started, story):
                which = f"attempt {early.key.number} of {early.key.slot} on {early.life.name}"
                text = f"{which} went on {early.active_until - late.started:.3f} s into it"
                yield *late.key[:2], f"two at once: {text}"
        active.append(late)


def _had_to_sleep(early: Attempt, moment: float, story: Story) -> bool:
    """Say whether a runner slept past the end of its lease, and gave up as soon as it woke."""
    terms = story.terms
    frozen = early.life.was_frozen(early.started, moment, seconds=terms.margin / 2)
    if frozen is None or frozen.begin > moment:
        return False
    return early.active_until <= _awake(early, frozen.begin) + terms.heartbeat + BUSY_SECONDS


def nobody_acts_after_death(story: Story) -> Iterator[Found]:
    for line in story.lines:
        life = story.lives.get(line["who"])
        if life is not None and line["at"] > life.gone:
            yield line.get("job", ""), line.get("slot", 0), f"{life.name} wrote after its death"
