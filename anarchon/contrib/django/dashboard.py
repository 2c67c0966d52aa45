"""The dashboard as pages of a Django project: users, permissions and sessions are Django's.

::

    urlpatterns = [
        path("jobs/", include("anarchon.contrib.django.dashboard")),
    ]

Who isn't logged in is sent to ``LOGIN_URL``. Who has the permissions ``anarchon.view_job`` and
``anarchon.view_run`` may look; who also has ``anarchon.run_job``, ``anarchon.pause_job`` and
``anarchon.resume_job`` may act. It needs the extra ``anarchon[web]``.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.db import connections
from django.http import HttpResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt

from ...web import dashboard
from ._scheduler import project_scheduler

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from ...web import Dashboard
    from ...web._guard import Permission

app_name = "anarchon_dashboard"

_LOOK = ("anarchon.view_job", "anarchon.view_run")
_ACT = ("anarchon.run_job", "anarchon.pause_job", "anarchon.resume_job")
_USER = "anarchon.user"


@csrf_exempt  # its forms have tokens of their own, which need no template of Django's
def show(request: HttpRequest, path: str = "") -> HttpResponseBase:
    """Show a page of the dashboard, or do what one of its forms asks for."""
    user: Any = request.user  # of the project's own class
    if not user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    said: list[tuple[str, list[tuple[str, str]]]] = []
    body = _board()(
        _environ(request, path),
        lambda status, headers, *_: said.append((status, headers)),  # type: ignore[arg-type]
    )
    [(status, headers)] = said
    answer = HttpResponse(b"".join(body), status=int(status.partition(" ")[0]))
    for name, value in headers:
        if name == "Set-Cookie":
            answer.cookies.load(value)
        else:
            answer.headers[name] = value
    return answer


# The scheduler writes over a connection of its own, which on SQLite would wait for the
# transaction of the request (ATOMIC_REQUESTS), and that one for us.
show._non_atomic_requests = set(connections)  # type: ignore[attr-defined] # noqa: SLF001 - as `transaction` sets it


def _environ(request: HttpRequest, path: str) -> dict[str, Any]:
    """Return the request as WSGI has it, under ASGI as well."""
    body = request.body
    return {
        **request.META,
        "REQUEST_METHOD": request.method or "GET",
        "SCRIPT_NAME": request.path.removesuffix(path).rstrip("/"),
        "PATH_INFO": f"/{path}",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.url_scheme": request.scheme,
        "wsgi.input": BytesIO(body),
        _USER: request.user,
        "REMOTE_USER": request.user.get_username(),
    }


@cache
def _board() -> Dashboard:
    secret = f"anarchon.contrib.django {settings.SECRET_KEY}"
    return dashboard(project_scheduler(), authorize=_allowed, secret=secret)


def _allowed(environ: dict[str, Any]) -> Permission | None:
    user = environ[_USER]
    if not user.has_perms(_LOOK):
        return None
    return "act" if user.has_perms(_ACT) else "read"


urlpatterns = [re_path(r"^(?P<path>.*)$", show, name="page")]
