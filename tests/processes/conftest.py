"""A fleet of processes for each test."""

from __future__ import annotations

import pytest

from tests.processes.fleet import Fleet


@pytest.fixture
def fleet(tmp_path):
    """Give a test its processes; whatever it leaves is killed, and fails it."""
    fleet = Fleet(tmp_path)
    yield fleet
    wrong = fleet.clean_up()
    assert not wrong, "\n".join(wrong)
