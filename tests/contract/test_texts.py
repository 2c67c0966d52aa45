"""Texts of errors: whatever is in them, something readable is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anarchon._texts import clean

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=60)


@given(ANYTHING, st.integers(min_value=0, max_value=80))
def test_it_is_encodable_without_nul_and_fits(text, limit):
    kept = clean(text, limit)
    assert "\0" not in kept
    assert len(kept.encode()) <= max(limit, 5)


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=60))
def test_a_short_clean_text_is_kept_as_it_is(text):
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\0b", "a\\x00b"),
        ("\ud800", "\\ud800"),
        ("caf\udce9", "caf\\udce9"),
        ("😀", "😀"),
        ("", ""),
    ],
)
def test_what_no_store_takes_is_spelled_out(text, kept):
    assert clean(text) == kept


@pytest.mark.parametrize("letter", ["x", "é", "日", "😀", "\0", "\ud800"])
@pytest.mark.parametrize("length", [8192, 8193, 5_000_000])
def test_a_long_text_loses_its_middle(letter, length):
    kept = clean("first" + letter * length + "last")
    assert kept.startswith("first")
    assert kept.endswith("last")
    assert " … " in kept
    assert 8000 < len(kept.encode()) <= 8192


def test_the_limit_itself_fits():
    assert clean("x" * 8192) == "x" * 8192
    assert clean("é" * 4096) == "é" * 4096
    assert clean("é" * 4097) != "é" * 4097
