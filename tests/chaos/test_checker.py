"""The checker against small stories, each of them right, or wrong in one thing."""

from __future__ import annotations

import pytest

from tests.chaos.checker import RULES, check, excerpt
from tests.chaos.spans import Span, without
from tests.chaos.tales import Tale


def due():
    """Begin a tale in which one slot of each job is due, and all but that of `tick` were run."""
    return Tale(due=True).run(job="free").run(job="once")


def killed(at=10.5):
    """Begin a tale of a runner that was killed."""
    return Tale().begin(10.0).driver("killed", at).driver("gone", at + 0.01)


def frozen(*, wakes=15.0):
    """Begin a tale of a runner that was frozen over its lease, and of the one that took over."""
    tale = Tale().begin(10.0).renew(10.5).driver("frozen", 10.6).driver("thawed", wakes)
    tale.record("lost", detail="taken over")
    return tale.begin(13.6, 2, who="p2").end(14.1, 2, who="p2").record("success", 2, who="p2")


# --- stories in which all is well ---

RIGHT = {
    "a slot was run": lambda: due().run(),
    "a slot was skipped for an overlap": lambda: due().record("skipped", detail="overlap"),
    "a slot was missed": lambda: due().record("missed", detail="store unreachable"),
    "the record of a later slot stands for it": lambda: due().record(
        "missed", slot=20_000, detail="store unreachable; slots since 1970-01-01T00:00:10.000Z"
    ),
    "a slot failed": lambda: (
        due().begin(10.0).end(10.1, how="failed").record("failed", error="ValueError: no")
    ),
    "nobody had the time to settle a slot": lambda: (
        due()
        .driver("killed", 12.0, "p1")
        .driver("gone", 12.1, "p1")
        .driver("killed", 12.0, "p2")
        .driver("gone", 12.1, "p2")
    ),
    "a runner died and was followed": lambda: (
        killed().record("lost", detail="taken over").run(13.1, 2, who="p2")
    ),
    "a runner died, of a job that is abandoned": lambda: (
        Tale()
        .begin(10.0, job="once")
        .driver("killed", 10.5)
        .driver("gone", 10.6)
        .record("lost", job="once", detail="runner died")
    ),
    "a run was handed over": lambda: (
        Tale()
        .begin(10.0)
        .driver("asked", 11.0)
        .abort(11.0)
        .end(11.0, how="raised")
        .driver("gone", 11.2)
        .record("interrupted", detail="handed over")
        .run(11.3, 2, who="p2")
    ),
    "a frozen runner gave up when it woke": lambda: (
        frozen(wakes=13.8).abort(13.9).end(13.9, how="raised")
    ),
    "a frozen runner was killed": lambda: frozen().driver("killed", 14.5).driver("gone", 14.6),
    "a runner stalled, and told so": lambda: (
        Tale()
        .begin(10.0)
        .tell("stalled", "p1", 13.8, since=10.1)
        .abort(13.9)
        .end(13.9, how="raised")
        .record("lost", detail="taken over")
        .run(13.2, 2, who="p2")
    ),
    "a stubborn runner was told, and went on": lambda: (
        Tale()
        .driver("trouble", 10.2, number=1, what="black_hole")
        .driver("mended", 20.0, number=1)
        .begin(10.0)
        .abort(12.7)
        .end(16.0, how="raised")
        .record("lost", detail="taken over")
        .run(13.2, 2, who="p2")
    ),
    "two slots at once, where that is allowed": lambda: (
        Tale().run(10.0, job="free").run(10.1, job="free", slot=9000, fence=7)
    ),
}


@pytest.mark.parametrize("tale", RIGHT.values(), ids=RIGHT)
def test_what_the_guarantee_allows_is_no_violation(tale):
    assert tale().wrong() == set()


# --- stories in which one thing is wrong, and what it is ---

WRONG = {
    "nothing is recorded of a slot": ("every_slot_is_explained", due),
    "the record of an outage begins later": (
        "every_slot_is_explained",
        lambda: due().record(
            "missed", slot=20_000, detail="store unreachable; slots since 1970-01-01T00:00:11Z"
        ),
    ),
    "one of two processes had the time": (
        "every_slot_is_explained",
        lambda: due().driver("killed", 12.0).driver("gone", 12.1),
    ),
    "a run was never decided": (
        "runs_are_decided",
        lambda: due().begin(10.0).renew(*range(12, 40, 2)).end(40.5).record("running"),
    ),
    "nobody went on with a run that was handed over": (
        "runs_are_decided",
        lambda: (
            due()
            .begin(10.0)
            .driver("asked", 11.0)
            .end(11.0, how="raised")
            .driver("gone", 11.1)
            .record("interrupted", detail="handed over")
        ),
    ),
    "a run was given up for lost": (
        "runs_are_decided",
        lambda: (
            due()
            .begin(10.0)
            .driver("killed", 10.5)
            .driver("gone", 10.6)
            .record("lost", detail="too old")
        ),
    ),
    "it says that it died more often than it did": (
        "runs_are_decided",
        lambda: (
            due()
            .begin(10.0)
            .driver("killed", 10.5)
            .driver("gone", 10.6)
            .record("failed", error="runner died 3 times")
        ),
    ),
    "an attempt is missing": (
        "attempts_are_numbered_without_a_gap",
        lambda: Tale().run(10.0, 2),
    ),
    "a success was followed by another attempt": (
        "attempts_are_numbered_without_a_gap",
        lambda: Tale().run(10.0).begin(11.0, 2).end(11.2, 2, how="failed").record("failed", 2),
    ),
    "there are two successes": ("at_most_one_success", lambda: Tale().run(10.0).run(14.0, 2)),
    "a skip without a reason": ("skips_have_a_reason", lambda: Tale().record("skipped")),
    "a skip for an overlap that is allowed": (
        "skips_have_a_reason",
        lambda: Tale().record("skipped", job="free", detail="overlap"),
    ),
    "a skip for a newer slot that isn't there": (
        "skips_have_a_reason",
        lambda: Tale().record("skipped", detail="newer slot"),
    ),
    "a healthy runner lost its run": (
        "nobody_is_interrupted_without_a_cause",
        lambda: (
            Tale()
            .begin(10.0)
            .abort(12.6)
            .end(12.6, how="raised")
            .record("lost", detail="taken over")
            .run(13.2, 2, who="p2")
        ),
    ),
    "success, and nobody ran it": ("successes_were_run", lambda: Tale().record("success")),
    "success of a handler that raised": (
        "successes_were_run",
        lambda: Tale().begin(10.0).end(10.1, how="failed").record("success"),
    ),
    "success of a process that didn't run it": (
        "successes_were_run",
        lambda: Tale().begin(10.0).end(10.5).record("success", who="p2"),
    ),
    "a start without a record": ("starts_are_recorded", lambda: Tale().begin(10.0).end(10.5)),
    "an attempt started twice": (
        "each_attempt_starts_once",
        lambda: Tale().run(10.0).begin(11.0).end(11.1),
    ),
    "a job that must never run twice did": (
        "each_attempt_starts_once",
        lambda: (
            Tale()
            .begin(10.0, job="once")
            .driver("killed", 10.5)
            .driver("gone", 10.6)
            .record("lost", job="once", detail="taken over")
            .run(13.2, 2, who="p2", job="once")
        ),
    ),
    "an attempt was won by two": (
        "each_attempt_has_one_winner",
        lambda: Tale().run(10.0).begin(10.6, who="p2").end(10.7, who="p2"),
    ),
    "a handler never ended": ("handlers_end", lambda: Tale().begin(10.0).record("success")),
    "a handler went on after its end": ("handlers_end", lambda: Tale().run(10.0).end(11.0)),
    "a fence that fell": (
        "fences_grow",
        lambda: killed().record("lost", detail="taken over").run(13.1, 2, who="p2", fence=9),
    ),
    "a fence that was given twice": (
        "fences_grow",
        lambda: Tale().run(10.0, fence=5).run(20.0, slot=20_000, fence=5),
    ),
    "a start before the slot": ("nothing_starts_early", lambda: Tale().run(9.9)),
    "a takeover before the lease's end": (
        "no_takeover_before_the_lease_ended",
        lambda: killed().record("lost", detail="taken over").run(12.9, 2, who="p2"),
    ),
    "a takeover from a runner that had renewed": (
        "no_takeover_before_the_lease_ended",
        lambda: killed(12.0).renew(11.9).record("lost", detail="taken over").run(13.1, 2, who="p2"),
    ),
    "a runner without a lease went on": (
        "runners_give_up_in_time",
        lambda: Tale().begin(10.0).end(15.0).record("success"),
    ),
    "a frozen runner went on when it woke": (
        "runners_give_up_in_time",
        lambda: frozen(wakes=13.8).end(18.0, how="raised"),
    ),
    "two attempts at once": (
        "attempts_of_a_run_come_one_after_another",
        lambda: (
            Tale()
            .begin(10.0, job="free")
            .renew(12.0, 14.0, job="free")
            .end(15.0, job="free")
            .record("lost", job="free")
            .run(13.2, 2, who="p2", job="free")
        ),
    ),
    "two attempts at once, and the first one slept too little": (
        "attempts_of_a_run_come_one_after_another",
        lambda: (
            Tale()
            .begin(10.0, job="free")
            .tell("stalled", "p1", 11.2, since=11.1)
            .end(13.4, job="free")
            .record("lost", job="free")
            .run(13.1, 2, who="p2", job="free")
        ),
    ),
    "two slots at once": (
        "runs_of_a_job_come_one_after_another",
        lambda: Tale().begin(10.0).renew(12.0).end(12.5).record("success").run(12.2, slot=12_000),
    ),
    "a dead process wrote": (
        "nobody_acts_after_death",
        lambda: killed().end(11.0).record("lost", detail="runner died"),
    ),
}


@pytest.mark.parametrize(("kind", "tale"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_found(kind, tale):
    assert kind in tale().wrong()


def test_each_rule_is_shown_to_find_something():
    assert {rule.__name__ for rule in RULES} == {kind for kind, _ in WRONG.values()}


def test_an_excerpt_has_the_ledger_of_the_slot_and_the_faults_of_its_runners():
    story = killed().record("lost", detail="taken over").run(12.9, 2, who="p2").story()
    (violation,) = check(story)
    text = excerpt(story, violation)
    kinds = [words[2] for words in map(str.split, text.splitlines()) if words[0] != "record"]
    assert kinds == ["won", "started", "killed", "gone", "won", "started", "ended"]
    assert "record 1: lost taken over" in text
    assert "record 2: success" in text


@pytest.mark.parametrize(
    ("holes", "left"),
    [
        ([], [(0, 10)]),
        ([(2, 3), (2.5, 4)], [(0, 2), (4, 10)]),
        ([(-1, 1), (9, 11)], [(1, 9)]),
        ([(0, 10)], []),
        ([(12, 13)], [(0, 10)]),
    ],
)
def test_holes_are_cut_out_of_a_span(holes, left):
    assert without(Span(0, 10), [Span(*hole) for hole in holes]) == left
