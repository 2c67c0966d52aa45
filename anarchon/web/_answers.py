"""What is asked and what is answered: requests and responses, without a framework."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from .._named import NamedTuple

MOST_BYTES = 16_384
_MOST_FIELDS = 30

# Nothing from elsewhere, nothing inside of the pages, and no page of ours inside of another one.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # Forms need their origin to be told, which "no-referrer" would hide.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
)


class Refused(Exception):
    """A request is answered with a page that says why not."""

    def __init__(self, status: int, title: str, text: str, *, allow: str = "") -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.text = text
        self.allow = allow


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def status_line(self) -> str:
        """The status as WSGI has it."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"


class Request(NamedTuple):
    """A request, as far as the pages look at it. `path` has one slash at its beginning."""

    environ: dict[str, Any]
    method: str
    path: str
    query: dict[str, str]

    @property
    def root(self) -> str:
        """What leads from the address of this page to the first one: links are relative.

        So they lead to the right place below any prefix, also one that a proxy has cut off.
        """
        return "../" * (self.path.count("/") - 1) or "./"


def read(environ: dict[str, Any]) -> Request:
    """Return what is asked for.

    Raises:
        Refused: It can't be read.
    """
    query = _fields(environ.get("QUERY_STRING", ""))
    path = environ.get("PATH_INFO", "") or "/"
    return Request(environ, environ.get("REQUEST_METHOD", "GET").upper(), path, query)


def read_form(environ: dict[str, Any]) -> dict[str, str]:
    """Return the fields of a form that was sent.

    Raises:
        Refused: It is no form, or too long.
    """
    kind = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "Not a form", "Only forms can be sent here.")
    length = environ.get("CONTENT_LENGTH") or "0"
    if not (length.isascii() and length.isdigit()):
        raise Refused(400, "Not understood", "The length of the form is no number.")
    if len(length) > 9 or int(length) > MOST_BYTES:
        raise Refused(413, "Too long", f"A form here has at most {MOST_BYTES} bytes.")
    body: bytes = environ["wsgi.input"].read(int(length))
    return _fields(body.decode("latin-1"))


def link(page: str, **query: object) -> str:
    """Return a relative address; values that are None or empty are left out.

    Names of jobs are in the query alone: a path is no place for slashes, dots and percent signs.
    """
    given = {key: value for key, value in query.items() if value not in (None, "")}
    # A name may begin with "//" or have a colon, so no address begins with what is given.
    return f"{page}?{urlencode(given, quote_via=quote, safe='')}" if given else page


def redirect(status: int, to: str) -> Answer:
    """Return an answer that leads to an address below this dashboard."""
    headers = (
        ("Location", to),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", "0"),
        ("Cache-Control", "no-store"),
    )
    return Answer(status, headers, b"")


def to_slash(script_name: str) -> Answer:
    """Return an answer that leads to the same address with a slash at its end.

    Only the last segment is named, without colons and slashes, so that it leads to no other host,
    whatever the path is.
    """
    last = script_name.rpartition("/")[2].encode("latin-1", "replace")
    return redirect(308, f"{quote(last, safe='')}/")


def _fields(text: str) -> dict[str, str]:
    """Return the first value of each field."""
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise Refused(400, "Not understood", "What was sent can't be read.") from error
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found
