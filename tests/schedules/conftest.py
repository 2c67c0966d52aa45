"""The random cases of every run: asked once, used by several tests."""

from __future__ import annotations

import fcntl
import os
import pickle
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.schedules.cases import numbered
from tests.schedules.steps import Meter
from tests.schedules.sweep import Sweep

if TYPE_CHECKING:
    from tests.schedules.sweep import Answer, Figures

SEED, CASES = 0, 470


class Swept(NamedTuple):
    figures: Figures
    wrong: list[str]
    answers: list[Answer]


def sweep_all() -> Swept:
    wrong = []
    with Meter().running() as meter:
        sweep = Sweep(meter)
        for number in range(CASES):
            try:
                sweep.check(numbered(SEED, number))
            except AssertionError as error:
                wrong.append(f"{number}: {error}")
    return Swept(sweep.figures, wrong, sweep.answers)


@pytest.fixture(scope="session")
def swept(tmp_path_factory) -> Swept:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return sweep_all()
    # The first of several workers asks, the others wait for what it found.
    file = tmp_path_factory.getbasetemp().parent / "swept-schedules"
    with file.open("a+b") as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)
        shared.seek(0)
        content = shared.read()
        if not content:
            content = pickle.dumps(sweep_all())
            shared.write(content)
    return pickle.loads(content)
