"""The application: which page answers, what is refused, and the frame around all of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from .._durations import parse_ms
from .._runs import called_for
from .._texts import message_of
from .._values import instant
from ..backends.base import LeaseBackend
from ..errors import AnarchonError, BackendError
from . import _words as words
from ._actions import DONE, PAUSES, act
from ._answers import SECURITY, Answer, Refused, link, read, read_form, redirect, to_slash
from ._pages import PAGES, now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

    from .._durations import Duration
    from ..scheduler import Scheduler
    from ._answers import Request
    from ._guard import Guard, Permission

_STATIC = Path(__file__).with_name("static")
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"
_DOWN = "The store can't be reached"
_NOT_ALLOWED = "Not allowed"


class Dashboard:
    """The WSGI application that `dashboard` returns."""

    def __init__(
        self, scheduler: Scheduler, guard: Guard, *, refresh: Duration, title: str
    ) -> None:
        self._scheduler = scheduler
        self._guard = guard
        self._refresh_ms = parse_ms(
            refresh, what="dashboard(refresh)", minimum_ms=1000, allow_zero=True
        )
        self._files = {
            path.name: (path.read_bytes(), _KINDS[path.suffix])
            for path in sorted(_STATIC.iterdir())
            if path.suffix in _KINDS
        }
        version = hashlib.sha256(b"".join(body for body, _ in self._files.values()))
        self._version = version.hexdigest()[:12]
        self._templates = _templates()
        self._templates.globals.update(title=title, version=self._version)

    def __repr__(self) -> str:
        return f"<Dashboard of {self._scheduler!r}>"

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        answer = self._answer(environ)
        headers = [*answer.headers, *SECURITY]
        start_response(answer.status_line, headers)
        return [] if environ.get("REQUEST_METHOD", "").upper() == "HEAD" else [answer.body]

    # --- inside ---

    def _answer(self, environ: dict[str, Any]) -> Answer:
        script: str = environ.get("SCRIPT_NAME", "")
        if not environ.get("PATH_INFO") and script.strip("/") and not script.endswith("/"):
            return to_slash(script)
        try:
            request = read(environ)
        except Refused as refused:
            return self._refusal(read({**environ, "QUERY_STRING": ""}), refused)
        if request.path.startswith("/static/"):
            # They say nothing about anybody's jobs, and a refusal is to look like one of ours.
            return self._refusing(request, lambda: self._file(request))
        may = self._guard.allowed(environ)
        return self._refusing(request, lambda: self._served(request, may))

    def _refusing(self, request: Request, answer: Callable[[], Answer]) -> Answer:
        """Answer with a page also when it can't be done."""
        try:
            return answer()
        except Refused as refused:
            return self._refusal(request, refused)
        except BackendError as error:
            return self._refusal(request, Refused(503, _DOWN, message_of(error)))
        except AnarchonError as error:
            return self._refusal(request, Refused(400, "It can't be shown", message_of(error)))

    def _served(self, request: Request, may: Permission | None) -> Answer:
        if may is None:
            raise Refused(403, _NOT_ALLOWED, "You may not see this page.")
        if request.path == "/act":
            return self._acted(request, may)
        if request.path not in PAGES:
            raise Refused(404, "No such page", "There is nothing at this address.")
        _check_method(request, "GET", "HEAD")
        template, page = PAGES[request.path]
        return self._page(request, template, page(self._scheduler, request.query), may)

    def _acted(self, request: Request, may: Permission) -> Answer:
        _check_method(request, "POST")
        if may != "act":
            raise Refused(403, "Only to look at", "You may look, but not do this.")
        form = read_form(request.environ)
        self._guard.check(request.environ, form.get("token", ""))
        # Seen by the browser as a page of its own, so that a reload repeats nothing.
        return redirect(303, act(self._scheduler, form, request.environ))

    def _page(
        self, request: Request, template: str, values: dict[str, Any], may: Permission
    ) -> Answer:
        forms = self._guard.made(request.environ) if may == "act" else None
        done = DONE.get(request.query.get("done", ""), "")
        name = request.query.get("on") or request.query.get("name", "")
        body = self._templates.get_template(template).render(
            **values,
            **self._frame(request),
            may_act=may == "act",
            runs_here=self._scheduler.state == "running",
            may_order=isinstance(self._scheduler._options.backend, LeaseBackend),  # noqa: SLF001 - of this package
            token="" if forms is None else forms.token,
            pauses=PAUSES,
            done=done.replace("{}", words.printable(name)),
        )
        more = () if forms is None or forms.cookie is None else (("Set-Cookie", forms.cookie),)
        return _html(200, body, *more)

    def _refusal(self, request: Request, refused: Refused) -> Answer:
        again = refused.status == 503 and request.method in ("GET", "HEAD")
        frame = self._frame(request)
        if not again:
            frame["refresh_ms"] = 0
        body = self._templates.get_template("trouble.html").render(
            **frame,
            status=refused.status,
            heading=refused.title,
            text=refused.text,
            again=again,
            may_look=refused.title != _NOT_ALLOWED,
        )
        more = []
        if refused.allow:
            more.append(("Allow", refused.allow))
        if refused.status == 503:
            more.append(("Retry-After", "5"))
        return _html(refused.status, body, *more)

    def _frame(self, request: Request) -> dict[str, Any]:
        return {
            "root": request.root,
            "path": request.path,
            "fragment": request.query.get("fragment") == "1",
            "refresh_ms": self._refresh_ms,
            "now": instant(now_ms(self._scheduler)),
            "namespace": self._scheduler._options.backend.namespace,  # noqa: SLF001 - of this package
        }

    def _file(self, request: Request) -> Answer:
        _check_method(request, "GET", "HEAD")
        found = self._files.get(request.path.removeprefix("/static/"))
        if found is None:
            raise Refused(404, "No such page", "There is nothing at this address.")
        body, kind = found
        fresh = request.query.get("v") == self._version
        headers = (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", _FOREVER if fresh else "no-cache"),
        )
        return Answer(200, headers, body)


def _check_method(request: Request, *methods: str) -> None:
    if request.method not in methods:
        raise Refused(
            405,
            "Not like this",
            f"This address takes {' and '.join(methods)} only.",
            allow=", ".join(methods),
        )


def _html(status: int, body: str, *more: tuple[str, str]) -> Answer:
    # What names and errors say can be anything; no page fails because of it.
    data = body.encode("utf-8", "backslashreplace")
    headers = (
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Length", str(len(data))),
        ("Cache-Control", "no-store"),
        *more,
    )
    return Answer(status, headers, data)


def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("anarchon.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        called=called_for,
        iso=words.iso,
        plain=words.printable,
        relative=words.relative,
        span=words.span,
        stamp=words.stamp,
    )
    made.globals.update(link=link)
    return made
