"""One request by `urllib`, with a limit on the whole of it, and nothing of it in any text.

A time limit of `urllib` is one for each wait, so that a server which sends a byte now and then
is waited for without end. Here each read waits for what is left of the limit at most.
"""

from __future__ import annotations

import io
import time
import urllib.request
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError

from .. import __version__
from .._named import NamedTuple
from .._texts import type_name

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPMessage
    from typing import IO
    from urllib.request import Request

_HEADERS = {"User-Agent": f"anarchon/{__version__}"}
_TEXT = {**_HEADERS, "Content-Type": "text/plain; charset=utf-8"}
_LEAST_SECONDS = 0.001
# Of the answers that say it was our fault, those after which trying again makes sense.
_PASSING = (408, 425, 429)
_KEEP_METHOD = (307, 308)


class Problem(NamedTuple):
    """Why a request didn't get through, in words that show nothing of its address."""

    text: str
    final: bool = False


class Http:
    """Sends requests, from one thread at a time."""

    def __init__(self) -> None:
        self._tls: ssl.SSLContext | None = None

    def send(self, url: str, body: bytes | None, seconds: float) -> Problem | None:
        """Ask for an address, or post a body to it; return None when the server says it's well."""
        deadline = time.monotonic() + seconds
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            url, data=body, headers=_HEADERS if body is None else _TEXT
        )
        try:
            with self._opener(deadline).open(request, timeout=seconds):
                return None
        except HTTPError as error:
            with error:
                is_ours = 300 <= error.code < 500 and error.code not in _PASSING
                return Problem(f"HTTP {error.code}", is_ours)
        except URLError as error:
            return Problem(_words(error.reason))
        except (OSError, HTTPException, ValueError) as error:
            return Problem(_words(error))

    def _opener(self, deadline: float) -> urllib.request.OpenerDirector:
        """Return what opens http and https alone: no redirect leads to a file."""
        opener = urllib.request.OpenerDirector()
        handlers: list[urllib.request.BaseHandler] = [
            urllib.request.ProxyHandler(),
            urllib.request.UnknownHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            _Redirects(),
            _Plain(deadline),
        ]
        for handler in handlers:
            opener.add_handler(handler)
        opener.add_handler(_Secure(deadline, self._context))
        return opener

    def _context(self) -> ssl.SSLContext:
        """Return the settings of TLS, which take long to load; made when they are needed."""
        if self._tls is None:
            import ssl

            self._tls = ssl.create_default_context()
        return self._tls


def _words(error: object) -> str:
    """Return what is wrong; of errors that may quote the address, the name alone."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, str):
        return "redirected to what is not http"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type_name(error)


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_repeats = 2
    max_redirections = 3

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> Request | None:
        """Return the next request: never one that is less secret, and a text stays a text."""
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise HTTPError(req.full_url, code, msg, headers, fp)
        if code in _KEEP_METHOD and req.data is not None:
            return urllib.request.Request(  # noqa: S310 - others have no handler
                newurl, data=req.data, headers=_TEXT
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: Request) -> HTTPResponse:
        """Open a connection with the limit."""
        connection: Any = partial(_Connection, self._deadline)
        return self.do_open(connection, req)


class _Secure(urllib.request.AbstractHTTPHandler):
    def __init__(self, deadline: float, context: Any) -> None:
        super().__init__()
        self._deadline = deadline
        self._make_context = context

    def https_open(self, req: Request) -> HTTPResponse:
        """Open a connection with the limit."""
        connection: Any = partial(_SecureConnection, self._deadline)
        return self.do_open(connection, req, context=self._make_context())

    https_request = urllib.request.AbstractHTTPHandler.do_request_


class _Connection(HTTPConnection):
    def __init__(self, deadline: float, host: str, timeout: float, **more: Any) -> None:
        super().__init__(host, timeout=min(timeout, _left(deadline)), **more)
        self.response_class = partial(_Response, deadline)  # type: ignore[assignment]


class _SecureConnection(HTTPSConnection):
    def __init__(self, deadline: float, host: str, timeout: float, **more: Any) -> None:
        super().__init__(host, timeout=min(timeout, _left(deadline)), **more)
        self.response_class = partial(_Response, deadline)  # type: ignore[assignment]


class _Response(HTTPResponse):
    def __init__(self, deadline: float, sock: Any, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.fp = io.BufferedReader(_Reader(deadline, sock, self.fp.detach()))


class _Reader(io.RawIOBase):
    """Reads from a socket until the deadline."""

    def __init__(self, deadline: float, sock: Any, raw: Any) -> None:
        super().__init__()
        self._deadline = deadline
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return max(left, _LEAST_SECONDS)
