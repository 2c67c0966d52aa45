"""Runs the cases of a file inside of a project, and writes down what became of each."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from django.test.runner import DiscoverRunner

HERE = Path(__file__).resolve().parent


def cases_in(file: str) -> list[str]:
    """Return the names of the tests in a file."""
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return [
        f"{one.name}.{test.name}"
        for one in tree.body
        if isinstance(one, ast.ClassDef)
        for test in one.body
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
    ]


def run_cases(project, file: str, *words: str) -> dict[str, str]:
    """Run all tests of a file by ``manage.py test``; return "ok" or the traceback of each."""
    label = f"tests.embedding.{Path(file).stem}"
    outcomes = project.folder / "outcomes.json"
    outcomes.unlink(missing_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-W", "error", "manage.py", "test", label, *words, "-v", "0"),
            *("--testrunner", "tests.embedding.django_runner.Runner"),
        ],
        cwd=project.folder,
        env=project.environment(OUTCOMES=str(outcomes)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcomes.exists(), done.stdout + done.stderr
    return json.loads(outcomes.read_text(encoding="utf-8"))


class Result(unittest.TextTestResult):
    """Keeps the text of each failure, and of each success "ok"."""

    outcomes: dict[str, str]

    def startTest(self, test):  # noqa: N802 - a name of unittest's
        super().startTest(test)
        self._outcomes().setdefault(self._name(test), "ok")

    def addError(self, test, err):  # noqa: N802
        super().addError(test, err)
        self._outcomes()[self._name(test)] = self._exc_info_to_string(err, test)

    def addFailure(self, test, err):  # noqa: N802
        super().addFailure(test, err)
        self._outcomes()[self._name(test)] = self._exc_info_to_string(err, test)

    def addSubTest(self, test, subtest, err):  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._outcomes()[self._name(test)] = self._exc_info_to_string(err, test)

    def _outcomes(self) -> dict[str, str]:
        if not hasattr(self, "outcomes"):
            self.outcomes = {}
        return self.outcomes

    def _name(self, test) -> str:
        return ".".join(test.id().split(".")[-2:])


class Runner(DiscoverRunner):
    """Writes the outcomes into the file that the environment names."""

    def get_resultclass(self):
        return Result

    def run_suite(self, suite, **how):
        result = super().run_suite(suite, **how)
        Path(os.environ["OUTCOMES"]).write_text(json.dumps(result._outcomes()), encoding="utf-8")
        return result
