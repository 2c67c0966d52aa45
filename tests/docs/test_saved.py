"""The first program of a page does its work when it is saved and run, until SIGTERM."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.docs.pages import blocks, environment

# As the page has it, but telling when it has started.
RUNNER = (
    "import logging, sys; logging.basicConfig(level='INFO'); "
    "exec(compile(open('app.py').read(), 'app.py', 'exec'))"
)


@pytest.mark.parametrize(("page", "printed"), [("index.md", "syncing\n"), ("handlers.md", "")])
def test_the_first_program_runs_until_it_is_told_to_stop(page, printed, tmp_path):
    program = blocks(page, "python")[0].text
    (tmp_path / "app.py").write_text(program, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", RUNNER],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while "scheduler started on" not in (line := process.stderr.readline()):
            assert line, "it ended"
        assert process.stdout.readline() == printed if printed else process.poll() is None
        process.terminate()
        err = process.communicate(timeout=30)[1]
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err
    assert "scheduler stopped on" in err
