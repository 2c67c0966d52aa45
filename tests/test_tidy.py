"""The house rules: sizes, what may import what, who makes threads, and docstrings."""

from __future__ import annotations

import ast
import logging
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = sorted((ROOT / "anarchon").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

FILE_LINES = 400
FUNCTION_LINES = 70
MEDIAN_FUNCTION_LINES = 10
CLASS_LINES = 300
CLASS_METHODS = 20
FACADE = "Scheduler"  # the one class that may have more methods

# Decisions only: what they import is listed, so that nothing can creep in.
PURE = (
    "_core*.py",
    "_states.py",
    "_texts.py",
    "_values.py",
    "_messages.py",
    "_named.py",
    "_runs.py",
    "backends/_rules*.py",
)
PURE_IMPORTS = {
    "__future__",
    "bisect",
    "collections",
    "collections.abc",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "heapq",
    "itertools",
    "math",
    "operator",
    "typing",
}

# The only modules that make threads.
THREAD_MAKERS = {
    "_demo_instance.py",  # watches the pipe from its parent
    "_aside.py",  # calls that Ctrl-C must not cut in two
    "_lifecycle_thread.py",  # a start in the background, and the one that leads a running scheduler
    "_lifecycle_outlet.py",  # listeners and log lines
    "_prometheus_shared.py",  # writes files that several processes share
    "_threads.py",
    "_threads_schedules.py",  # asks the schedules of others
    "_threads_workers.py",
    "context.py",  # `on_abort`
    "_ping_sending.py",  # waits for other people's servers, while there is something to send
}

# Loaded neither by `import anarchon` nor with its names: each costs milliseconds.
HEAVY = {
    "asyncio",
    "click",
    "concurrent.futures",
    "cron_descriptor",
    "croniter",
    "dataclasses",
    "dateutil",
    "inspect",
    "multiprocessing",
    "psycopg",
    "redis",
    "rich",
    "sqlite3",
}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions(path: Path):
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: ast.AST) -> int:
    """Count lines, without decorators: those belong to whoever reads the call."""
    return node.end_lineno - node.lineno + 1


def pure_files() -> list[Path]:
    return sorted({path for pattern in PURE for path in (ROOT / "anarchon").glob(pattern)})


def runtime_imports(path: Path) -> set[str]:
    """Return the modules that a file imports, except what only type checkers see."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree_of(path))
    return found


@pytest.mark.parametrize("path", PACKAGE + TESTS, ids=relative)
def test_no_file_and_no_function_is_too_long(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= FILE_LINES, f"{relative(path)} has {lines} lines"
    long = {node.name: length(node) for node in functions(path) if length(node) > FUNCTION_LINES}
    assert not long, f"functions over {FUNCTION_LINES} lines in {relative(path)}: {long}"


def test_the_median_function_is_short():
    median = statistics.median(length(node) for path in PACKAGE for node in functions(path))
    assert median <= MEDIAN_FUNCTION_LINES


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_no_class_is_too_big(path):
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.ClassDef):
            continue
        names = {n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert length(node) <= CLASS_LINES, f"{node.name}: {length(node)} lines"
        if node.name != FACADE:
            assert len(names) <= CLASS_METHODS, f"{node.name}: {len(names)} methods"


def test_every_pure_module_is_there():
    found = {path.name for path in pure_files()}
    assert {"_core.py", "_states.py", "_values.py", "_rules.py"} <= found


@pytest.mark.parametrize("path", pure_files(), ids=relative)
def test_pure_modules_import_no_threads_no_clock_and_no_driver(path):
    ours = {"." * dots + other.stem for other in pure_files() for dots in (1, 2)}
    strange = runtime_imports(path) - PURE_IMPORTS - ours - {"."}
    assert not strange, f"{relative(path)} imports {sorted(strange)}"


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_only_a_few_modules_make_threads(path):
    makers = {"Thread", "Timer", "start_new_thread", "ThreadPoolExecutor", "start_joinable_thread"}
    made = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and (getattr(node.func, "attr", None) in makers or getattr(node.func, "id", None) in makers)
    ]
    assert not made or path.name in THREAD_MAKERS, f"{relative(path)} makes threads: lines {made}"


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_only_one_module_logs(path):
    """Handlers and filters are user code, so a logger is called where that is survived."""
    methods = {*logging.getLevelNamesMapping(), "LOG", "EXCEPTION", "WARN", "HANDLE"}
    calls = [
        f"{node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.upper() in methods
        and "log" in ast.unparse(node.func.value).lower()
    ]
    assert len(calls) == (path.name == "_log_lines.py"), f"{relative(path)} logs: {calls}"


@pytest.mark.parametrize("name", sorted(THREAD_MAKERS))
def test_the_list_of_thread_makers_has_no_dead_entry(name):
    assert any(path.name == name for path in PACKAGE)


@pytest.mark.parametrize(
    "statement", ["import anarchon", "from anarchon import Scheduler, SqliteBackend"]
)
def test_importing_loads_nothing_heavy(statement, tmp_path):
    program = (
        f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {
        heavy
        for heavy in HEAVY
        for name in done.stdout.split()
        if name == heavy or name.startswith(f"{heavy}.")
    }
    assert not loaded


def public_definitions(tree: ast.Module):
    """Yield every public function, class and method, except overloads and setters."""
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        prefix, parent = stack.pop()
        for node in parent.body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            marks = {ast.unparse(mark) for mark in node.decorator_list}
            spared = any(m.endswith(("overload", ".setter", ".deleter")) for m in marks)
            if node.name.startswith("_") or spared:
                continue
            yield f"{prefix}{node.name}", node
            if isinstance(node, ast.ClassDef):
                stack.append((f"{prefix}{node.name}.", node))


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_every_public_name_has_a_docstring(path):
    tree = tree_of(path)
    bare = [name for name, node in public_definitions(tree) if not ast.get_docstring(node)]
    assert ast.get_docstring(tree), f"{relative(path)} has no docstring"
    assert not bare, f"without a docstring in {relative(path)}: {bare}"


def test_every_exported_name_has_a_docstring_of_its_own():
    import anarchon

    for name in anarchon.__all__:
        value = getattr(anarchon, name)
        if callable(value):
            assert value.__doc__, name
