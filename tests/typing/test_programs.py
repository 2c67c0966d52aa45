"""What type checkers make of the programs of this folder (tox runs pyright on them as well)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def test_mypy_accepts_what_is_right_and_finds_each_mistake(tmp_path: Path) -> None:
    """The mistakes are the ignored lines: in strict mode a needless ignore is an error."""
    pytest.importorskip("mypy", reason="mypy is no part of the extra `test`")
    programs = [str(HERE / name) for name in ("definitions.py", "scheduler.py", "testing.py")]
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*command, "--cache-dir", str(tmp_path), *programs],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 source files" in done.stdout
