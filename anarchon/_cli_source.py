"""Where a command finds its store and its jobs: ``--app``, ``--backend``, and the environment.

Both are options, the same ones for every command, and no arguments: names of jobs may look like
anything, so a first word could mean either; and what is the same in each call of an operator
belongs into the environment, which has one name for each option.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, cast

import click
from click.core import ParameterSource

from ._commands_answers import NOT_DONE, NOT_MEANT, in_one_line
from ._durations import shown
from ._texts import said
from .errors import AnarchonError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .scheduler import Scheduler

P = ParamSpec("P")

APP, BACKEND, NAMESPACE = "ANARCHON_APP", "ANARCHON_BACKEND", "ANARCHON_NAMESPACE"


class Refused(click.ClickException):
    """What was asked for can't be done; the message says why, in one line."""

    exit_code = NOT_MEANT

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._path = click.get_current_context().command_path

    def show(self, file: Any = None) -> None:
        """Write one line to stderr."""
        click.echo(f"{self._path}: {self.message}", file=file, err=True)


class NotDone(Refused):
    """It can be meant, but it could not be done, or not now."""

    exit_code = NOT_DONE


class Source:
    """What the options of a command say about where the store and the jobs are."""

    def __init__(
        self, app: str | None, backend: str | None, namespace: str | None, *, is_typed: bool = True
    ) -> None:
        self._app, self._backend, self._namespace = app, backend, namespace
        self.names_app = app is not None
        self.is_typed = is_typed
        """Whether the app was typed, and does not come from the environment."""
        self.started: set[str] = set()
        """What the app has called while it was imported, of ``start`` and ``run``."""

    def scheduler(self) -> Scheduler:
        """Return the scheduler of the app, or one without jobs on the store."""
        if self._app is not None:
            return self._found(self._app)
        if self._backend is None:
            raise Refused(
                f"which store? give --app module:scheduler (or set {APP}), or --backend URL (or"
                f" set {BACKEND})"
            )
        from ._store_urls import backend_at
        from .scheduler import Scheduler

        try:
            return Scheduler(backend_at(self._backend, what="--backend", namespace=self._namespace))
        except (AnarchonError, ImportError) as error:
            raise Refused(in_one_line(error)) from error

    def app(self) -> Scheduler:
        """Return the scheduler of the app, where only the code knows the answer."""
        if self._app is not None:
            return self._found(self._app)
        raise Refused(
            "only the code knows the jobs, so this needs --app module:scheduler (or set"
            f" {APP}); --backend shows what the store knows: history, explain, tail, export"
        )

    def _found(self, text: str) -> Scheduler:
        """Import the scheduler that text names; whatever its module raises is one line.

        What the module prints goes to stderr, since stdout is for what was asked.
        """
        try:
            with _starting_nothing() as self.started, redirect_stdout(sys.stderr):
                return _loaded(text)
        except (AnarchonError, ImportError) as error:
            raise Refused(in_one_line(error)) from error


def with_source(command: Callable[Concatenate[Source, P], None]) -> Callable[..., None]:
    """Add the options that name the app or the store; the command gets them as a `Source`."""

    @wraps(command)
    def called(
        app: str | None,
        backend: str | None,
        namespace: str | None,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        command(source_of(app, backend, namespace), *args, **kwargs)

    options = (
        ("--app", "MODULE:NAME", APP, "The scheduler in your code; module:create() calls."),
        ("--backend", "URL", BACKEND, "The store alone, where the code is not at hand."),
        ("--namespace", "NAME", NAMESPACE, "Of the service, with --backend [default: anarchon]"),
    )
    for name, metavar, variable, text in reversed(options):
        add = click.option(name, metavar=metavar, envvar=variable, show_envvar=True, help=text)
        called = add(called)
    return called


def source_of(app: str | None, backend: str | None, namespace: str | None) -> Source:
    """Return what the options mean together: what was typed wins over the environment."""
    context = click.get_current_context()

    def typed(name: str) -> bool:
        return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

    if typed("app") and typed("backend"):
        raise Refused("--app and --backend: give one of them; the app has its own store")
    if typed("app") or (app and not typed("backend")):
        if typed("namespace"):
            raise Refused("--namespace is for --backend; the app's own store has one already")
        return Source(app, None, None, is_typed=typed("app"))
    return Source(None, backend, namespace)


# --- loading the app -----------------------------------------------------------------


@contextmanager
def _starting_nothing() -> Iterator[set[str]]:
    """Pass over `start` and `run` in this block, and tell which of them were called.

    A program that ends in ``scheduler.run()`` would never be imported, and a command that asks
    for history must not become an instance, which claims slots and gives them up a moment later.
    """
    from .scheduler import Scheduler

    called: set[str] = set()

    def start(self: Scheduler, *, retry: bool = False) -> None:
        del self, retry
        called.add("start")

    def run(self: Scheduler) -> None:
        del self
        called.add("run")

    before = Scheduler.start, Scheduler.run
    Scheduler.start, Scheduler.run = start, run  # type: ignore[method-assign]
    try:
        yield called
    finally:
        Scheduler.start, Scheduler.run = before  # type: ignore[method-assign]


def _loaded(text: str) -> Scheduler:
    from functools import partial
    from inspect import isroutine

    from .contrib._found import check_text, checked

    path = text.removesuffix("()")
    module, names = check_text(path, "--app")
    found = _imported(module, path)
    for name in names:
        if not hasattr(found, name):
            raise ConfigurationError(
                f"--app: {module} has no {'.'.join(names)!r}; name what the scheduler was assigned"
                " to, as in shop:scheduler"
            )
        found = getattr(found, name)
    if path != text:
        if not callable(found) or _is_app(found):
            raise ConfigurationError(f"--app: {path} is no function; write it without ()")
        found = _called(found, text)
    elif isroutine(found) or isinstance(found, partial):
        raise ConfigurationError(f"--app: {path} is a function; to call it, write {path}()")
    return checked(_inside(found, text), f"--app {text}")


def _inside(found: object, text: str) -> object:
    """Return the scheduler of a Flask app; anything else as it is.

    An app of any kind can be called, as functions can, but what it needs is a request.
    """
    if _is_app(found):
        inside = cast("Any", found).extensions.get("anarchon")
        if inside is None:
            raise ConfigurationError(
                f"--app: {text} is a Flask app without a scheduler; give it one with"
                " anarchon.contrib.flask.Anarchon"
            )
        return inside
    if _is_app(found, "django.core.handlers.base", "BaseHandler"):
        raise ConfigurationError(
            f"--app: {text} is the handler of a Django project, whose commands are those of"
            " python manage.py anarchon"
        )
    return found


def _is_app(found: object, module: str = "flask.app", name: str = "Flask") -> bool:
    """Whether this is an app of that class; nothing is imported for the answer."""
    return any((kind.__module__, kind.__name__) == (module, name) for kind in type(found).__mro__)


def _imported(module: str, path: str) -> Any:
    from importlib import import_module

    here = os.getcwd()  # noqa: PTH109 - text is what sys.path takes
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"--app: there is no module {error.name!r} for {shown(path)}; run this in the"
                " folder that it is imported from, or set PYTHONPATH"
            ) from error
        raise _broken(f"{module} can't be imported", error) from error
    except (Exception, SystemExit) as error:
        raise _broken(f"{module} can't be imported", error) from error


def _called(make: Callable[[], object], text: str) -> object:
    try:
        return make()
    except (Exception, SystemExit) as error:
        raise _broken(f"{text} failed", error) from error


def _broken(what: str, error: BaseException) -> ConfigurationError:
    """Return an error that says what the user's own code raised, and where."""
    from sysconfig import get_paths

    others = (os.path.dirname(__file__), *map(get_paths().get, ("stdlib", "purelib", "platlib")))  # noqa: PTH120
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(("<", *(f"{other}{os.sep}" for other in others))):
            place = f", at line {trace.tb_lineno} of {file}"
        trace = trace.tb_next
    return ConfigurationError(f"--app: {what}: {' '.join(said(error).split())}{place}")
