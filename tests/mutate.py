"""Mutation testing of one file: does some test notice each small change of the source?

    python -m tests.mutate anarchon/_core.py [--tests tests/core ...] [--limit N] [--jobs N]

Scripts and SQL are changed as well. A test may be a class, such as
`tests/contract/test_redis.py::TestRedis82`.

Every mutant gets a copy of the package in a temporary folder. The tests run there in one
pytest, the quickest files first, until one fails or the time is up; a mutant that loops or
eats memory runs into a limit of its process. Results are appended to
`.mutation/`, so a second call goes on where the first one ended; survivors are tried again
when the tests have changed. Survivors that can't be killed are explained in
`tests/mutants_explained.md` and not counted.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.mutations import mutants
from tests.mutations_of_scripts import mutants_of_script

if TYPE_CHECKING:
    from tests.mutations import Mutant

ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = ROOT / "tests" / "mutants_explained.md"
RESULTS = ROOT / ".mutation"
DEFAULT_TESTS = ("tests/core", "tests/sim")
LEAST_SECONDS = 20.0  # of the processor
WAITING = 10  # times as long by the clock, for what doesn't compute but hangs
MOST_BYTES = 3 << 30  # of address space: the tests need less than a third of it
# Sets the limits of its own process, and becomes the command that comes after them.
LIMITED = """
import os, resource, sys
most, seconds, *command = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_AS, (int(most), int(most)))
resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.execv(command[0], command)
"""


class Verdict(NamedTuple):
    """How a mutant fared: ``killed``, ``timeout`` (which counts as killed) or ``survived``."""

    mutant: Mutant
    result: str


class Bench:
    """Runs the tests against a changed copy of the package."""

    def __init__(self, file: Path, tests: list[str]) -> None:
        self.file = file
        self.tests = tests
        self.limit_seconds = 600.0

    def measure(self) -> None:
        """Time each test file on the unchanged source, which has to pass, and sort them.

        In processor time, so that a limit means the same on a machine that is busy.
        """
        source = self.file.read_text(encoding="utf-8")
        timed: list[tuple[float, str]] = []
        for test in test_files(self.tests):
            before = processor_seconds()
            if self.run(source, [test]) != "survived":
                sys.exit(f"{test} fails on the unchanged source; nothing can be said about mutants")
            timed.append((processor_seconds() - before, test))
        self.tests = [test for _, test in sorted(timed)]
        self.limit_seconds = max(LEAST_SECONDS, 4 * sum(seconds for seconds, _ in timed))

    def run(self, source: str, tests: list[str] | None = None) -> str:
        """Return the result of one mutant."""
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            package = Path(folder, "anarchon")
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / "anarchon", package, ignore=ignore)
            (package / self.file.relative_to(ROOT / "anarchon")).write_text(
                source, encoding="utf-8"
            )
            return self._pytest(folder, tests or self.tests)

    def _pytest(self, folder: str, tests: list[str]) -> str:
        # `python -m` puts the folder first on the path, so the mutant is what is imported.
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
        ]
        command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
        command += [str(ROOT / test) for test in tests]
        process = subprocess.Popen(
            limited(command, cpu_seconds=self.limit_seconds),
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            status = process.wait(WAITING * self.limit_seconds)
            return {0: "survived", -signal.SIGXCPU: "timeout"}.get(status, "killed")
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()


def processor_seconds() -> float:
    """Return what the children that have ended have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def limited(command: list[str], *, cpu_seconds: float) -> list[str]:
    """Return a command that does the same with limits on processor time and memory."""
    limits = [str(MOST_BYTES), str(math.ceil(cpu_seconds))]
    return [sys.executable, "-I", "-c", LIMITED, *limits, *command]


class Journal:
    """The results of earlier calls: one JSON object a line."""

    def __init__(self, file: Path, source: str, tests: list[str]) -> None:
        RESULTS.mkdir(exist_ok=True)
        self._path = RESULTS / f"{file.name}.jsonl"
        self._source = digest(source)
        self._tests = digest(*(path.read_text(encoding="utf-8") for path in test_paths(tests)))

    def known(self) -> dict[str, str]:
        """Return the results that still hold, by mutant: a survivor's only for the same tests."""
        found: dict[str, str] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                same_tests = entry["tests"] == self._tests or entry["result"] != "survived"
                if entry["source"] == self._source and same_tests:
                    found[entry["mutant"]] = entry["result"]
        return found

    def add(self, verdict: Verdict) -> None:
        """Append one result at once, so that nothing is lost when the run is broken off."""
        entry = {
            "source": self._source,
            "tests": self._tests,
            "mutant": verdict.mutant.name,
            "result": verdict.result,
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


def test_files(tests: list[str]) -> list[str]:
    """Return the test files among the given files and folders, and what is named in a file."""
    named = [test for test in tests if "::" in test]
    paths = test_paths([test for test in tests if "::" not in test])
    return named + [str(p.relative_to(ROOT)) for p in paths if p.name.startswith("test_")]


def changed_lines(source: str, mutant: Mutant) -> tuple[str, str]:
    """Return the first line that differs, before and after."""
    for before, after in zip(source.splitlines(), mutant.source.splitlines(), strict=False):
        if before != after:
            return before.strip(), after.strip()
    return "", ""


def explained(file: Path) -> set[tuple[str, str]]:
    """Read the lines ``- name.py: `before` -> `after`: why`` that are about this file."""
    pattern = re.compile(r"^- (\S+): `(.+)` -> `(.+)`: \S.*$", re.MULTILINE)
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
    parser.add_argument("--limit", type=int, help="try at most so many new mutants")
    parser.add_argument("--jobs", type=int, default=1)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    file = options.file.resolve()
    source = file.read_text(encoding="utf-8")
    everyone = mutants(source) if file.suffix == ".py" else mutants_of_script(source)
    journal = Journal(file, source, options.tests)
    known = journal.known()
    todo = [mutant for mutant in everyone if mutant.name not in known][: options.limit]
    bench = Bench(file, options.tests)
    if todo:
        bench.measure()
        print(f"{len(todo)} mutants to try, at most {bench.limit_seconds:.0f} s each", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, result in zip(todo, pool.map(lambda m: bench.run(m.source), todo), strict=True):
            journal.add(Verdict(mutant, result))
            known[mutant.name] = result
            print(f"{file.name}:{mutant.line}: {result}: {mutant.what}", flush=True)
    verdicts = [Verdict(m, known[m.name]) for m in everyone if m.name in known]
    unexplained = report(file, source, verdicts, len(everyone))
    return 1 if unexplained or len(verdicts) < len(everyone) else 0


if __name__ == "__main__":
    sys.exit(main())
