"""What importing costs: a service pays it in every worker, a command line in every call."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
RUNS = 11

PROGRAM = """
import sys, time
started = time.perf_counter()
{statement}
print(time.perf_counter() - started, sys.modules["anarchon"].__file__)
"""


def import_seconds(statement: str, folder: Path) -> tuple[float, Path]:
    """Measure an import in a fresh isolated interpreter that runs in an empty folder."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM.format(statement=statement)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, file = done.stdout.split(maxsplit=1)
    return float(seconds), Path(file.strip())


# What is promised is 25 and 60 ms. The bounds leave room for a machine that is busy or slow: the
# second costs less than half of what is promised, where nothing else runs.
@pytest.mark.serial
@pytest.mark.parametrize(
    ("statement", "budget_ms"),
    [("import anarchon", 40), ("from anarchon import Scheduler, SqliteBackend", 60)],
)
def test_import_time(statement, budget_ms, tmp_path):
    import_seconds(statement, tmp_path)  # the first one may have to compile
    measured = [import_seconds(statement, tmp_path)[0] * 1000 for _ in range(RUNS)]
    # The least is what it costs; whatever else the machine does only adds to that.
    least = min(measured)
    assert least <= budget_ms, f"{statement}: {least:.1f} ms, of {sorted(measured)}"


@pytest.mark.skipif("ANARCHON_OUTCOMES" not in os.environ, reason="only tox installs the wheel")
def test_the_installed_wheel_is_what_is_measured(tmp_path):
    _, file = import_seconds("import anarchon", tmp_path)
    assert CHECKOUT / "anarchon" not in file.parents
    assert (file.parent / "py.typed").exists()
