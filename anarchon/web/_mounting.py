"""One WSGI application below another: for hosts that have no way of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._durations import shown
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


def mounted(application: WSGIApplication, prefix: str, below: WSGIApplication) -> WSGIApplication:
    """Return an application that passes what is below a prefix on to another one.

    Args:
        application: Answers everything else.
        prefix: A path such as ``"/jobs"``, decoded, without a slash at the end.
        below: Answers ``/jobs`` and all that begins with ``/jobs/``.

    Raises:
        ConfigurationError: The prefix is no such path.
    """
    if not isinstance(prefix, str) or not prefix.startswith("/") or prefix.endswith("/"):
        raise ConfigurationError(
            f'mounted(prefix): {shown(prefix)} is no path to mount at; write one such as "/jobs"'
        )
    # As servers put paths into an environ.
    start = prefix.encode().decode("latin-1")

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path: str = environ.get("PATH_INFO", "")
        if path != start and not path.startswith(f"{start}/"):
            return application(environ, start_response)
        script = environ.get("SCRIPT_NAME", "")
        moved = {**environ, "SCRIPT_NAME": script + start, "PATH_INFO": path[len(start) :]}
        return below(moved, start_response)

    return serve
