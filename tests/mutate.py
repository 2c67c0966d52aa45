"""Mutation testing of one file: does some test notice each small change of the source?

    python -m tests.mutate anarchon/_core.py [--tests tests/core ...] [--limit N] [--jobs N]

Scripts and SQL are changed as well. A test may be a class, such as
`tests/contract/test_redis.py::TestRedis82`, and `--only` chooses among them as `pytest -k` does.

Every job has a copy of the package in a temporary folder, and a process that is ready to run
the tests there (`mutate_forks.py`). Each mutant has a fork of it, which runs the tests until one
fails or the time is up, those first that failed lately; a mutant that loops or eats memory runs
into a limit of its process. The unchanged source has to pass, before the mutants and after them.
Results are appended to `.mutation/`, so a second call goes on where the first one ended;
survivors are tried again when the tests have changed. Survivors that can't be killed are
explained in `tests/mutants_explained.md` and not counted.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.mutate_forks import Order, Outcome
from tests.mutations import mutants
from tests.mutations_of_scripts import mutants_of_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mutations import Mutant

TOOL = Path(__file__).resolve().parent.parent
ROOT = TOOL
EXPLAINED = ROOT / "tests" / "mutants_explained.md"
RESULTS = ROOT / ".mutation"
CONTRACT = "anarchon/_testing_contract"  # the tests of many test files
DEFAULT_TESTS = ("tests/core", "tests/sim")
LEAST_SECONDS = 20.0  # of the processor
MOST_SECONDS = 600.0  # for the unchanged source
RESULTS_OF_RUNS = {"survived", "killed", "timeout"}
WAITING = 10  # times as long by the clock, for what doesn't compute but hangs


class Verdict(NamedTuple):
    """How a mutant fared: ``killed``, ``timeout`` (which counts as killed) or ``survived``."""

    mutant: Mutant
    result: str
    by: str = ""


class Bench:
    """A changed copy of the package, and the process that runs the tests against it."""

    def __init__(self, file: Path, tests: list[str], only: str, folder: str) -> None:
        package = Path(folder, "anarchon")
        shutil.copytree(ROOT / "anarchon", package)  # with what is compiled, which none adds to
        self._copy = package / file.relative_to(ROOT / "anarchon")
        self._source = file.read_text(encoding="utf-8")
        moment = "collected"
        if file.suffix == ".py":
            moment = "imported"
            Path(cache_from_source(str(self._copy))).unlink(missing_ok=True)
        command = [sys.executable, "-P", "-m", "tests.mutate_forks", moment]
        command += ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--capture=no", "--tb=no"]
        command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-k", only]
        path = f"{folder}{os.pathsep}{TOOL}"  # so that the mutant is what is imported
        self._process = subprocess.Popen(
            [*command, *(str(ROOT / test) for test in tests)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.limit = Order(MOST_SECONDS, MOST_SECONDS)

    def measure(self) -> float:
        """Run the tests on the unchanged source, which has to pass; return the limit in seconds.

        In processor time, so that a limit means the same on a machine that is busy.
        """
        outcome = self.run(self._source)
        if outcome.result != "survived":
            sys.exit(
                f"the tests don't pass on the unchanged source ({outcome.result}: {outcome.by}); "
                "nothing can be said about mutants"
            )
        seconds = max(LEAST_SECONDS, 4 * outcome.cpu_seconds)
        self.limit = Order(seconds, WAITING * seconds)
        return seconds

    def run(self, source: str) -> Outcome:
        """Return what became of one mutant.

        A test that fails for want of time may do so because others keep the machine busy, so
        then it is all tried again.
        """
        self._copy.write_text(source, encoding="utf-8")
        outcome = self._ask()
        return self._ask() if outcome.hung else outcome

    def _ask(self) -> Outcome:
        self._process.stdin.write(json.dumps(self.limit._asdict()) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            return Outcome("the tests can't be collected")
        return Outcome(**json.loads(answer))

    def close(self) -> None:
        with self._process:
            self._process.stdin.close()


@contextmanager
def benches(file: Path, tests: list[str], only: str, number: int) -> Iterator[list[Bench]]:
    """Give as many benches, each of which has seen the unchanged source pass, also at the end."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        found = []
        try:
            for n in range(number):
                found.append(Bench(file, tests, only, str(Path(folder, str(n)))))
            for bench in found:
                seconds = bench.measure()
            print(f"at most {seconds:.0f} s each", flush=True)
            yield found
            for bench in found:
                bench.measure()
        finally:
            for bench in found:
                bench.close()


class Journal:
    """The results of earlier calls: one JSON object a line."""

    def __init__(self, file: Path, source: str, tests: list[str], only: str = "") -> None:
        RESULTS.mkdir(exist_ok=True)
        self._path = RESULTS / f"{file.name}.jsonl"
        self._source = digest(source)
        self._tests = digest(
            only, *(path.read_text(encoding="utf-8") for path in test_paths([*tests, CONTRACT]))
        )

    def known(self) -> dict[str, str]:
        """Return the results that still hold, by mutant: a survivor's only for the same tests."""
        return {
            entry["mutant"]: entry["result"]
            for entry in self._entries()
            if entry["tests"] == self._tests or entry["result"] != "survived"
        }

    def tried(self) -> set[str]:
        """Return the mutants that were tried with any tests."""
        return {entry["mutant"] for entry in self._entries()}

    def _entries(self) -> list[dict[str, str]]:
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return [entry for entry in map(json.loads, lines) if entry["source"] == self._source]

    def add(self, verdict: Verdict) -> None:
        """Append one result at once, so that nothing is lost when the run is broken off."""
        entry = {
            "source": self._source,
            "tests": self._tests,
            "mutant": verdict.mutant.name,
            "result": verdict.result,
            "by": verdict.by,
        }
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(entry) + "\n")


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def test_paths(tests: list[str]) -> list[Path]:
    """Return every Python file under the given folders, and the given files."""
    found: set[Path] = set()
    for test in tests:
        path = ROOT / test.partition("::")[0]
        found.update(path.rglob("*.py") if path.is_dir() else [path])
    return sorted(found)


def changed_lines(source: str, mutant: Mutant) -> tuple[str, str]:
    """Return the first line that differs, before and after."""
    for before, after in zip(source.splitlines(), mutant.source.splitlines(), strict=False):
        if before != after:
            return before.strip(), after.strip()
    return "", ""


def explained(file: Path) -> set[tuple[str, str]]:
    """Read the lines ``- name.py: `before` -> `after`: why`` that are about this file."""
    pattern = re.compile(r"^- (\S+): `(.+)` -> `(.*)`: \S.*$", re.MULTILINE)
    found = pattern.findall(EXPLAINED.read_text(encoding="utf-8"))
    return {(before, after) for name, before, after in found if name == file.name}


def report(file: Path, source: str, verdicts: list[Verdict], total: int) -> int:
    """Print the unexplained survivors with their diffs, and return how many there are."""
    excuses = explained(file)
    survivors = [v.mutant for v in verdicts if v.result == "survived"]
    open_ones = [m for m in survivors if changed_lines(source, m) not in excuses]
    for mutant in open_ones:
        print(f"\n{file.name}:{mutant.line}: survived: {mutant.what}")
        after = mutant.source.splitlines()
        for line in list(difflib.unified_diff(source.splitlines(), after, lineterm="", n=1))[2:]:
            print(f"    {line}")
    killed = len(verdicts) - len(survivors)
    print(
        f"\n{total} mutants, {len(verdicts)} tried, {killed} killed, "
        f"{len(survivors) - len(open_ones)} explained, {len(open_ones)} unexplained"
    )
    return len(open_ones)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate")
    parser.add_argument("file", type=Path)
    parser.add_argument("--tests", nargs="+", default=list(DEFAULT_TESTS))
    parser.add_argument("--only", default="", help="which of the tests, as `pytest -k` has it")
    parser.add_argument("--limit", type=int, help="try at most so many new mutants")
    parser.add_argument("--jobs", type=int, default=1)
    return parser.parse_args(arguments)


def tried(todo: list[Mutant], ready: list[Bench]) -> Iterator[Verdict]:
    """Try mutants, each on whichever bench is free, and return what became of them in order."""
    free: queue.SimpleQueue[Bench] = queue.SimpleQueue()
    for bench in ready:
        free.put(bench)

    def run(mutant: Mutant) -> Verdict:
        bench = free.get()
        outcome = bench.run(mutant.source)
        free.put(bench)
        return Verdict(mutant, outcome.result, outcome.by)

    with ThreadPoolExecutor(len(ready)) as pool:
        for verdict in pool.map(run, todo):
            if verdict.result not in RESULTS_OF_RUNS:
                sys.exit(f"{verdict.mutant.name}: {verdict.result}: no test says what that means")
            yield verdict


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    file = options.file.resolve()
    source = file.read_text(encoding="utf-8")
    everyone = mutants(source) if file.suffix == ".py" else mutants_of_script(source)
    journal = Journal(file, source, options.tests, options.only)
    known = journal.known()
    tried_before = journal.tried()
    todo = [mutant for mutant in everyone if mutant.name not in known]
    todo = sorted(todo, key=lambda mutant: mutant.name in tried_before)[: options.limit]
    if todo:
        print(f"{len(todo)} mutants to try", flush=True)
        with benches(file, options.tests, options.only, options.jobs) as ready:
            for verdict in tried(todo, ready):
                journal.add(verdict)
                known[verdict.mutant.name] = verdict.result
                line, what = verdict.mutant.line, verdict.mutant.what
                print(f"{file.name}:{line}: {verdict.result}: {what}  {verdict.by}", flush=True)
    verdicts = [Verdict(m, known[m.name]) for m in everyone if m.name in known]
    unexplained = report(file, source, verdicts, len(everyone))
    return 1 if unexplained or len(verdicts) < len(everyone) else 0


if __name__ == "__main__":
    sys.exit(main())
