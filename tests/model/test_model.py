"""The stores decide as the rules do; Redis 6.2, 8.2 and PostgreSQL 15 are in `tests/stores`.

And what checks that: it finds planted faults, and shows the few steps that they need.
"""

from __future__ import annotations

import pytest

from anarchon._testing_contract.bench import HandClock
from anarchon._values import (
    Owner,
    Pace,
    Recorded,
    RunKey,
    Settled,
    SkipWish,
    Terms,
    Wish,
)
from anarchon.backends import _rules_claim
from anarchon.backends._rules import NO_FLOOR
from anarchon.backends.memory import MemoryBackend
from tests.model import __main__ as command
from tests.model.author import Author
from tests.model.checker import Difference, Given, check, play
from tests.model.moods import long_mood
from tests.model.steps import Step
from tests.model.stores import Memory, store_on

SEED = 2031  # its first histories reach every kind of answer
NUMBERS = range(8)
STORES = ("sqlite", "valkey-8", "postgres-18")
FEW = 4  # histories on a server whose kind is played all of them in `tests/stores`


@pytest.fixture(scope="module", params=STORES)
def store(request, shared_server, tmp_path_factory):
    with store_on(request.param, shared_server, tmp_path_factory.mktemp("model")) as store:
        yield store


@pytest.mark.parametrize(
    ("store", "number"),
    [
        (store, number)
        for store in STORES
        for number in NUMBERS
        if store == "sqlite" or number < FEW
    ],
    indirect=["store"],
)
def test_a_random_history_is_decided_as_by_the_rules(store, number):
    check(store, Author(store, SEED, number))


def test_a_history_of_many_records_is_trimmed_as_by_the_rules(store):
    check(store, Author(store, SEED, 0, mood=long_mood))


ANN = Owner("ann", "ann")
NOW_MS, LATER_MS = HandClock().wall_ms(), 10**15  # a time that no store can hold
TERMS = Terms(3000, 1000, 3, skip_overlap=True, catch_up_ms=0)
CLAIM = Step(
    "claim",
    (Wish(RunKey("job", NOW_MS), 1, "scheduled", TERMS),),
    {"owner": ANN, "wins": 1, "pace": Pace(0.0)},
)
SKIP = Step(
    "skip",
    (SkipWish(RunKey("job", LATER_MS), LATER_MS + 1, "busy"),),
    {"owner": ANN, "pace": Pace(0.0)},
)


@pytest.mark.parametrize("steps", [(CLAIM, SKIP)], ids=["skip of what can't be kept"])
def test_what_was_found_once_is_decided_alike(store, steps):
    """Histories that failed, at their shortest."""
    check(store, Given(steps))


# --- the histories ----------------------------------------------------------------


class Listening(Author):
    """Remembers which kinds of answers there were."""

    def __init__(self, *how, heard, **options):
        super().__init__(*how, **options)
        self._heard = heard

    def hear(self, step, answer):
        super().hear(step, answer)
        self._heard.add(f"{step.what}: {type(answer).__name__}")
        if isinstance(answer, bool):
            self._heard.add(f"{step.what}: {answer}")
        if step.what == "renew":
            kinds = {"lost": answer.lost, "cancelled": answer.cancelled}
            self._heard |= {f"renew: {kind}" for kind, leases in kinds.items() if leases}
        for one in getattr(answer, "answers", ()):
            text = f"{step.what}: {type(one).__name__}"
            self._heard |= {text, f"{text} {getattr(one, 'status', '')}"}
            self._heard.add(f"{text} {getattr(one, 'detail', '')}")
            if step.what == "claim" and one.key.is_ordered:
                self._heard.add(f"{text} of an order")
        if step.what == "claim" and any(run.manual for run in getattr(answer, "closed", ())):
            self._heard.add("claim: closed an order in passing")


ANSWERS = {
    *("claim: Won", "claim: Held", "claim: Waiting", "claim: Free", "claim: Suspect"),
    *("claim: Early", "claim: Missing", "claim: Closed success", "claim: Closed trimmed"),
    *("claim: Closed newer slot", "claim: Closed paused", "claim: Closed overlap"),
    *("claim: Closed too old", "claim: Closed runner died", "claim: Closed cancelled"),
    *("skip: Early", "skip: Closed missed", "skip: Held", "skip: Waiting"),
    *("finish: Lost", "finish: Recorded success", "finish: Recorded failed"),
    *("release: Released", "release: Lost", "release: Recorded failed"),
    *("release: Recorded lost", "release: Recorded cancelled", "record_manual: Recorded"),
    *("renew: lost", "renew: cancelled", "look: Looked", "unfinished: Looked"),
    *("save: True", "save: False", "save: Raised", "cancel: True", "cancel: False"),
    *("trigger: NoneType", "trigger: Raised", "claim: closed an order in passing"),
    *(f"claim: {kind} of an order" for kind in ("Won", "Waiting", "Held", "Closed", "Missing")),
}


def test_the_histories_reach_every_answer():
    """Those of these tests: what none of them asks for is shown by none."""
    heard = set()
    for number in NUMBERS:
        store = Memory(steady=False)
        play(store, Listening(store, SEED, number, heard=heard))
    store = Memory(steady=False)
    play(store, Listening(store, SEED, 0, mood=long_mood, heard=heard))
    assert ANSWERS - heard == set()


def test_a_seed_and_a_number_are_always_the_same_history():
    first, second, other = (
        play(store, Author(store, SEED, number))
        for store, number in ((Memory(), 3), (Memory(), 3), (Memory(), 4))
    )
    assert first == second
    assert first != other


# --- what finds faults ------------------------------------------------------------


class Forgetting(MemoryBackend):
    """Keeps no checkpoint."""

    def save(self, lease, *, owner, value):
        kept = super().save(lease, owner=owner, value=value)
        self._rows._checkpoints.pop(lease.key, None)
        return kept


class Hurried(MemoryBackend):
    """Takes a lease that has ended for lost, whoever asks."""

    def renew(self, leases, *, owner, lease_ms):
        now = self._now()
        ended = [
            run for run in self._rows._runs.values() if 0 < run.end_ms < now.lease_ms and run.owner
        ]
        gone = {run.key for run in ended}
        renewed = super().renew(
            [lease for lease in leases if lease.key not in gone], owner=owner, lease_ms=lease_ms
        )
        lost = tuple(lease for lease in leases if lease in renewed.lost or lease.key in gone)
        return renewed._replace(lost=lost)


class Groundless(MemoryBackend):
    """Forgets which slots were trimmed."""

    def finish(self, results, *, owner):
        settled = super().finish(results, owner=owner)
        for name, job in self._rows._jobs.items():
            self._rows.put_job(name, job._replace(floor_ms=NO_FLOOR))
        return settled


class Deaf(MemoryBackend):
    """Never ends a pause."""

    def resume(self, job):
        """Do nothing."""


class Gullible(MemoryBackend):
    """Records every end that it is told of."""

    def finish(self, results, *, owner):
        settled = super().finish(results, owner=owner)
        told = zip(settled.answers, results, strict=True)
        return Settled(
            tuple(
                answer if isinstance(answer, Recorded) else Recorded(answer.lease, result.status)
                for answer, result in told
            ),
            settled.store_ms,
        )


def first_failure(store, mood=None):
    """Play one history after the other; return the shortest part of the first that fails."""
    for number in range(50):
        author = Author(store, SEED, number, **({"mood": mood} if mood else {}))
        try:
            check(store, author)
        except Difference as difference:
            return difference
    raise AssertionError("nothing was found")


@pytest.mark.parametrize(
    ("make", "mood", "needed"),
    [
        (Forgetting, None, ["claim", "save", "claim"]),
        (Hurried, None, ["advance", "renew"]),
        (Groundless, long_mood, ["finish", "claim"]),
        (Deaf, None, ["pause", "resume", "claim"]),
        (Gullible, None, ["finish"]),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_a_store_that_errs_is_shown_in_few_steps(make, mood, needed):
    """Those that the fault needs, in this order, and a few that prepare them."""
    failure = first_failure(Memory(steady=False, make=make), mood)
    shown = iter([step.what for step in failure.steps])
    assert all(what in shown for what in needed), failure
    assert len(failure.steps) <= 12, failure  # of some two hundred


def test_what_is_printed_can_be_played_again():
    store = Memory(steady=False, make=Deaf)
    failure = first_failure(store)
    with pytest.raises(Difference) as again:
        play(store, Given(failure.steps))
    assert str(again.value) == str(failure)


def test_a_rule_that_gives_one_fence_twice_is_noticed(monkeypatch):
    """Model and store share the rules; so what holds without them is looked at as well."""
    monkeypatch.setattr(_rules_claim, "next_fence", lambda *_: 5)
    assert "no higher fence" in first_failure(Memory()).wrong


def test_a_rule_that_lets_a_late_copy_win_another_attempt_is_noticed(monkeypatch):
    plain = _rules_claim.claim_known

    def careless(run, wish, ask, facts):
        return plain(run, wish._replace(wants=run.attempt + 1), ask, facts)

    monkeypatch.setattr("anarchon.backends._operations.claim_known", careless)
    assert "another attempt than the claim names" in first_failure(Memory()).wrong


def test_a_store_that_raises_differs_from_one_that_answers():
    class Broken(MemoryBackend):
        def look(self, jobs, *, owner):
            raise ZeroDivisionError("oops")

    asked = Given([Step("look", ("job",), {"owner": None})])
    with pytest.raises(Difference, match=r"(?s)model says Looked.*Raised.*oops"):
        check(Memory(make=Broken), asked)


# --- the command ------------------------------------------------------------------


def run(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["tests.model", *words])
    return command.main()


def test_the_long_form_counts_histories(monkeypatch, capsys):
    assert run(monkeypatch, "--store", "sqlite", "--cases", "2", "--steps", "20") == 0
    assert capsys.readouterr().out.startswith("sqlite: 2 histories, ")


def test_the_long_form_prints_what_fails(monkeypatch, capsys):
    monkeypatch.setattr("tests.model.stores.SqliteBackend.cancel", lambda *_: None)
    assert run(monkeypatch, "--store", "sqlite", "--case", "4", "--seed", str(SEED)) == 1
    told = capsys.readouterr().out
    assert f"sqlite, seed {SEED}, case 4:\nthe model says False\nthe store says None\n" in told
    assert told.count("cancel(") == 1
