"""What the files of a project say about starting its scheduler; they are read, never run."""

from __future__ import annotations

import ast
import importlib.util
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from ..._named import NamedTuple

_SERVERS = ("WSGI_APPLICATION", "ASGI_APPLICATION")
_GUNICORN = "gunicorn.conf.py"


class GunicornFile(NamedTuple):
    """What ``gunicorn.conf.py`` says, if there is one where gunicorn would look for it."""

    name: str
    preloads: bool
    has_hooks: bool


def gunicorn_file() -> GunicornFile:
    """Read ``gunicorn.conf.py`` in the working directory, or else in the project's."""
    for folder in (Path.cwd(), Path(str(getattr(settings, "BASE_DIR", ".")))):
        tree = _tree_of(folder / _GUNICORN)
        if tree is not None:
            names = _names_in(tree)
            starts = {"hooks", "post_worker_init"} & names
            return GunicornFile(_GUNICORN, _preloads(tree), bool(starts))
    return GunicornFile("", preloads=False, has_hooks=False)


def starts_in_server_modules() -> str:
    """Return the module with the WSGI or ASGI application that calls `start`, or ""."""
    for setting in _SERVERS:
        module = str(getattr(settings, setting, None) or "").rpartition(".")[0]
        path = _path_of(module)
        tree = None if path is None else _tree_of(path)
        if tree is not None and _calls_start(tree):
            return module
    return ""


def _path_of(module: str) -> Path | None:
    """Return the file of a module without importing it, though the package above is imported."""
    with suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            return Path(spec.origin)
    return None


def _tree_of(path: Path) -> ast.Module | None:
    with suppress(OSError, SyntaxError, ValueError):
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    return None


def _names_in(tree: ast.Module) -> set[str]:
    """Return the names that are called or defined."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = {ast.unparse(call).rpartition(".")[2] for call in calls}
    return found | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def _calls_start(tree: ast.Module) -> bool:
    """Whether `start` of this package is called: a module may well start something else."""
    imports = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, _IMPORTS)]
    ours = any("anarchon" in text for text in imports)
    return ours and bool({"start", "attach"} & _names_in(tree))


def _preloads(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            targets = {ast.unparse(target) for target in node.targets}
            if "preload_app" in targets and node.value.value is True:
                return True
    return False


_IMPORTS = (ast.Import, ast.ImportFrom)
