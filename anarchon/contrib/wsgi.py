"""WSGI: what probes ask, as those of Kubernetes: does this process live, is it ready, is all well?

::

    from anarchon.contrib.wsgi import with_health

    application = with_health(application, scheduler)  # /health, /health/live, /health/ready

This is WSGI and no view of a framework, so that it works in front of any of them: no session, no
database, no list of allowed hosts and no redirect comes between a probe and its answer. It is in
the process whose scheduler it tells about, since nobody else can know; and it asks nobody, so it
answers while the store is down.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from .._durations import check_askable, shown
from .._scheduler_options import check_truth
from ..errors import ConfigurationError
from ..health import Health  # noqa: TC001 - loaded here, so that no request has to
from ._found import checked

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from ..scheduler import Scheduler

    Question: TypeAlias = Literal["well", "live", "ready"]

__all__ = ["health_app", "with_health"]

_QUESTIONS: dict[str, Question] = {"": "well", "/live": "live", "/ready": "ready"}
_PUBLIC = ("ok", "state")


def health_app(scheduler: Scheduler, *, details: bool = True) -> WSGIApplication:
    """Return a WSGI application that answers 200 or 503, with `Health` as JSON.

    - ``/live`` is 503 when only a restart of the process helps: as many handlers as there are
      workers ignore their abort, so that no job can run here any more.
    - ``/ready`` is 503 then as well, and while the scheduler is stopping.
    - ``/`` is 503 unless ``health().ok``.

    So a store that is down, or was never reached yet, changes ``/`` alone. Paths are those below
    the place where it is mounted. It answers GET and HEAD, sends nothing to the store, and waits
    for nobody.

    Args:
        scheduler: The scheduler of this process; it needn't run.
        details: False to tell no more than ``ok`` and ``state``: ``reasons`` may name hosts, jobs
            and what a driver said.

    Raises:
        ConfigurationError: That is no scheduler.

    Threads: any.
    """
    return _HealthApp(checked(scheduler, "health_app()"), details=check_truth(details, "details"))


def with_health(
    app: WSGIApplication, scheduler: Scheduler, *, path: str = "/health", details: bool = True
) -> WSGIApplication:
    """Return a WSGI application with `health_app` at a path, and another one everywhere else.

    Args:
        app: The application, which never sees requests for the path and what is below.
        scheduler: As for `health_app`.
        path: Where, beginning with a slash.
        details: As for `health_app`.

    Raises:
        ConfigurationError: An argument can't be as given; the message names it.
    """
    check_askable(app, "with_health(app)")
    if not callable(app):
        raise ConfigurationError(
            f"with_health(): {shown(app)} is no WSGI application; give the one that is served"
        )
    return _Mount(app, health_app(scheduler, details=details), _checked_path(path))


class _HealthApp:
    """Answers the three questions."""

    def __init__(self, scheduler: Scheduler, *, details: bool) -> None:
        self._scheduler = scheduler
        self._details = details

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        method = environ.get("REQUEST_METHOD", "GET")
        question = _QUESTIONS.get(environ.get("PATH_INFO", "").rstrip("/"))
        more: list[tuple[str, str]] = []
        if question is None:
            status, told = "404 Not Found", _error("there are /, /live and /ready")
        elif method not in ("GET", "HEAD"):
            status, told = "405 Method Not Allowed", _error("only GET and HEAD")
            more = [("Allow", "GET, HEAD")]
        else:
            health = self._scheduler.health()
            is_so = self._answer(question, health)
            status = "200 OK" if is_so else "503 Service Unavailable"
            told = health.to_dict()
        if not self._details:
            told = {name: told[name] for name in told if name in _PUBLIC or name == "error"}
        body = json.dumps(told).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
        ]
        start_response(status, [*headers, *more])
        return [b"" if method == "HEAD" else body]

    def _answer(self, question: Question, health: Health) -> bool:
        if question == "well":
            return health.ok
        is_alive = health.stuck < self._scheduler._options.workers  # noqa: SLF001 - of this package
        if question == "live":
            return is_alive
        return is_alive and health.state != "stopping"


class _Mount:
    """One application at a path, another one everywhere else."""

    def __init__(self, app: WSGIApplication, inside: WSGIApplication, path: str) -> None:
        self._app = app
        self._inside = inside
        self._path = path

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Pass one request on."""
        asked: str = environ.get("PATH_INFO", "")
        if asked != self._path and not asked.startswith(f"{self._path}/"):
            return self._app(environ, start_response)
        script = environ.get("SCRIPT_NAME", "") + self._path
        inner = {**environ, "SCRIPT_NAME": script, "PATH_INFO": asked[len(self._path) :]}
        return self._inside(inner, start_response)


def _error(text: str) -> dict[str, Any]:
    return {"error": text}


def _checked_path(path: object) -> str:
    check_askable(path, "path")
    if isinstance(path, str) and path.startswith("/") and path.rstrip("/"):
        return path.rstrip("/")
    raise ConfigurationError(
        f'path: {shown(path)} is no path; give text that begins with a slash, such as "/health"'
    )
