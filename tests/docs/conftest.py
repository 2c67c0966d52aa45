"""A page of the documentation, run from top to bottom."""

from __future__ import annotations

import doctest
import sqlite3
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import anarchon
from anarchon import Scheduler
from anarchon.testing import ManualClock
from tests.docs.pages import blocks

if TYPE_CHECKING:
    from tests.docs.pages import Block


@pytest.fixture
def run_page(tmp_path, monkeypatch):
    """Return a function that runs a page and returns its names, and the schedulers it made."""
    monkeypatch.chdir(tmp_path)
    clock, made = ManualClock(), []

    class OnManualClock(Scheduler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            clock.attach(self)
            made.append(self)

        def run(self, **_):
            """Go on, as a session does; tests/docs/test_saved.py runs programs as they are."""
            self.start()

    monkeypatch.setattr(anarchon, "Scheduler", OnManualClock)
    names: dict = {"__name__": "a page"}

    def run(page: str) -> SimpleNamespace:
        for block in blocks(page, "python", "pycon"):
            if block.file is None and block.not_run is None:
                run_block(block, names)
        return SimpleNamespace(names=names, schedulers=made, clock=clock)

    yield run
    for scheduler in made:
        scheduler.stop(2)
    for value in names.values():
        if isinstance(value, sqlite3.Connection):
            value.close()


def run_block(block: Block, names: dict) -> None:
    if block.language == "python":
        # The blank lines make a traceback show the line of the page.
        code = compile("\n" * block.line + block.text, block.page, "exec")
        exec(code, names)
        return
    name = f"{block.page}, line {block.line}"
    session = doctest.DocTestParser().get_doctest(block.text, names, name, block.page, block.line)
    said: list[str] = []
    session.globs = names  # not the copy that it makes
    result = doctest.DocTestRunner().run(session, out=said.append, clear_globs=False)
    assert result.attempted, f"{name} has no prompt"
    assert not result.failed, "".join(said)
