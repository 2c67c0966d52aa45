"""The page about fates: its examples run, and its tables name every outcome there is."""

from __future__ import annotations

from typing import get_args

from anarchon._explanations import Outcome
from anarchon._values import Status
from tests.docs.pages import coded, rows, text_of


def test_its_examples(run_page):
    run_page("fates.md")


def test_its_tables_name_every_outcome_once():
    kept = [
        coded(row[0])[0] for row in rows("fates.md", "outcome", "what happened", "what to look at")
    ]
    others = [
        coded(row[0])[0] for row in rows("fates.md", "outcome", "what happened", "what to do")
    ]
    assert sorted(kept) == sorted(get_args(Status))
    assert sorted(kept + others) == sorted(get_args(Outcome))


def test_the_words_of_a_pattern_are_those_that_are_told():
    from tests.contract.fates import TABLE

    texts = [line for _, _, lines in TABLE for line in lines]
    shown = next(line for line in text_of("fates.md").splitlines() if "slots in a row" in line)
    words = shown.partition(": ")[2].partition("; ")[0]
    assert any(text.startswith(words) for text in texts)
