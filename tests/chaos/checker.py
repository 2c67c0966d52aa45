"""Explains every slot of a chaos run, or says what is wrong. Pure.

It believes neither the scheduler nor the store: what a record says has to agree with what the
handlers told the ledger, and what the ledger tells has to be what the guarantee allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.chaos import rules_attempts, rules_slots
from tests.chaos.ledger import shown

if TYPE_CHECKING:
    from tests.chaos.story import Story

EXCERPT = 40  # lines of the ledger that are shown of one slot


class Violation(NamedTuple):
    """Something that may not be: its kind, and the slot that it is about."""

    kind: str
    job: str
    slot: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.job} @ {self.slot}: {self.text}"


RULES = (
    rules_slots.every_slot_is_explained,
    rules_slots.attempts_are_numbered_without_a_gap,
    rules_slots.runs_are_decided,
    rules_slots.at_most_one_success,
    rules_slots.skips_have_a_reason,
    rules_slots.nobody_is_interrupted_without_a_cause,
    rules_attempts.successes_were_run,
    rules_attempts.starts_are_recorded,
    rules_attempts.each_attempt_starts_once,
    rules_attempts.each_attempt_has_one_winner,
    rules_attempts.handlers_end,
    rules_attempts.fences_grow,
    rules_attempts.nothing_starts_early,
    rules_attempts.no_takeover_before_the_lease_ended,
    rules_attempts.runners_give_up_in_time,
    rules_attempts.attempts_of_a_run_come_one_after_another,
    rules_attempts.runs_of_a_job_come_one_after_another,
    rules_attempts.nobody_acts_after_death,
)


def check(story: Story) -> list[Violation]:
    """Return everything that is wrong."""
    return [Violation(rule.__name__, *found) for rule in RULES for found in rule(story)]


def excerpt(story: Story, violation: Violation) -> str:
    """Return what the ledger and history have of a slot, and what happened to its runners."""
    names = {a.life.name for a in story.attempts if a.key[:2] == violation[1:3]}
    own = [line for line in story.lines if _is_about(line, violation)]
    times = [line["at"] for line in own] or [story.moment_of(violation.slot)]
    begin, end = min(times) - story.terms.lease, max(times) + story.terms.lease
    around = [
        line
        for line in story.lines
        if begin <= line["at"] <= end
        and line["kind"] in _OF_DRIVER
        and line.get("name") in (None, *names)
    ]
    lines = sorted([*own, *around], key=lambda line: line["at"])
    records = [
        f"record {key.number}: {run['status']} {run['detail'] or ''} {run['error'] or ''}"
        f" by {run['instance_id']}, {run['started_at']} to {run['finished_at']}"
        for key, run in sorted(story.records.items())
        if key[:2] == violation[1:3]
    ]
    if len(lines) > EXCERPT:
        lines = [line for line in lines if line["kind"] != "renewed"]
    cut = [] if len(lines) <= EXCERPT else [f"... {len(lines) - EXCERPT} lines more"]
    return "\n".join([*map(shown, lines[:EXCERPT]), *cut, *records])


_OF_DRIVER = {
    *("spawned", "asked", "killed", "gone", "frozen", "thawed", "trouble", "mended", "running"),
    "stalled",
}


def _is_about(line: dict, violation: Violation) -> bool:
    if line["kind"] == "renewed":
        return any(_is_about({**lease, "kind": ""}, violation) for lease in line["kept"])
    return (line.get("job"), line.get("slot")) == violation[1:3]
