"""Who may look, who may act, and whether a form came from one of our own pages.

A form is accepted when three things hold, none of which needs anything kept in a process, so
that any process behind a balancer can check what another one has given out:

- the browser says, where it says so at all, that the request comes from a page of this site;
- the form has a token, the HMAC of a random text under a secret that all processes share;
- a cookie has that random text, which another site can neither read nor set.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from .._durations import shown
from .._named import NamedTuple
from ..errors import ConfigurationError
from ._answers import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    Permission: TypeAlias = Literal["read", "act"]
    Authorize: TypeAlias = Callable[[dict[str, Any]], Permission | None]

COOKIE = "anarchon_form"
_LEAST_SECRET = 16
_NONCE_LENGTH = 32
_AGAIN = (
    "Go back, reload the page and press the button again. If that doesn't help, the processes that"
    " serve this dashboard were given different secrets, or the browser keeps no cookies."
)
_FOREIGN = (
    "The request comes from another site, as far as its headers tell. If it came from here, a proxy"
    " in between changes the Host header; it has to pass it on, or to say X-Forwarded-Host."
)


class Pass(NamedTuple):
    """What a page needs for its forms: the token, and the cookie to set if there is none yet."""

    token: str
    cookie: str | None


class Guard:
    """Decides about requests; it keeps nothing."""

    def __init__(self, authorize: Authorize | None, secret: object) -> None:
        if authorize is not None and not callable(authorize):
            raise ConfigurationError(
                f"dashboard(authorize): {shown(authorize)} is no function; give one that takes the"
                ' environ of a request and returns "read", "act" or None'
            )
        self._authorize = authorize
        self._key = _key_of(secret, needed=authorize is not None)

    def allowed(self, environ: dict[str, Any]) -> Permission | None:
        """Return what whoever asks may do."""
        if self._authorize is None:
            return "read"
        said: object = self._authorize(environ)
        if said is None or said is False:
            return None
        if said == "read":
            return "read"
        if said == "act":
            return "act"
        raise ConfigurationError(
            f'authorize() returned {shown(said)}; let it return "read", "act" or None'
        )

    def made(self, environ: dict[str, Any]) -> Pass:
        """Return the token for the forms of a page."""
        known = next(iter(_nonces(environ)), None)
        if known is not None:
            return Pass(self._token(known), None)
        nonce = secrets.token_hex(_NONCE_LENGTH // 2)
        # Without a path it goes to where the page was, as the browser sees that: a proxy may
        # have moved us. No script needs it.
        secure = "; Secure" if _is_encrypted(environ) else ""
        cookie = f"{COOKIE}={nonce}; HttpOnly; SameSite=Lax{secure}"
        return Pass(self._token(nonce), cookie)

    def check(self, environ: dict[str, Any], token: str) -> None:
        """Refuse a form that may not be from one of our pages."""
        if not _is_ours(environ):
            raise Refused(403, "Not from here", _FOREIGN)
        given = token.encode("utf-8", "replace")
        wanted = [self._token(nonce).encode() for nonce in _nonces(environ)]
        # All of them, in a time that tells nothing.
        if not any([hmac.compare_digest(one, given) for one in wanted]):  # noqa: C419
            raise Refused(403, "This form is no longer valid", _AGAIN)

    def _token(self, nonce: str) -> str:
        return hmac.new(self._key, nonce.encode(), hashlib.sha256).hexdigest()


def _key_of(secret: object, *, needed: bool) -> bytes:
    """Return the key of the tokens; a random one where no form is ever accepted."""
    if secret is None and not needed:
        return secrets.token_bytes(32)
    if secret is None:
        raise ConfigurationError(
            "dashboard(authorize=...): a secret is missing, which the forms are signed with; give"
            " secret=..., the same text in each process that serves the dashboard, such as the"
            " SECRET_KEY of Flask or Django"
        )
    raw = secret.encode("utf-8", "surrogatepass") if isinstance(secret, str) else secret
    if not isinstance(raw, bytes) or len(raw) < _LEAST_SECRET:
        raise ConfigurationError(
            f"dashboard(secret): a text or bytes of at least {_LEAST_SECRET} are needed; for"
            " example what secrets.token_hex() returned once, kept with your other secrets"
        )
    return hashlib.sha256(b"anarchon dashboard forms\0" + raw).digest()


def _nonces(environ: dict[str, Any]) -> list[str]:
    """Return the random texts in the cookies: two, where dashboards are below each other."""
    found = []
    for part in environ.get("HTTP_COOKIE", "").split(";"):
        try:
            cookie: SimpleCookie = SimpleCookie(part.strip())
        except CookieError:
            continue
        value = cookie[COOKIE].value if COOKIE in cookie else ""
        if len(value) == _NONCE_LENGTH and value.isascii() and value.isalnum():
            found.append(value)
    return found


def _is_encrypted(environ: dict[str, Any]) -> bool:
    forwarded = environ.get("HTTP_X_FORWARDED_PROTO", "").partition(",")[0]  # the outermost one
    return environ.get("wsgi.url_scheme") == "https" or forwarded.strip().lower() == "https"


def _is_ours(environ: dict[str, Any]) -> bool:
    """Whether nothing says that a page of another site has sent this.

    Browsers say from where a request comes, in a header that pages can't set, where the
    connection is encrypted; elsewhere there is the origin. Programs say nothing.
    """
    site = environ.get("HTTP_SEC_FETCH_SITE")
    if site is not None:
        return site in ("same-origin", "none")
    origin = environ.get("HTTP_ORIGIN")
    if origin is None:
        return True
    hosts = [environ.get("HTTP_HOST", ""), *environ.get("HTTP_X_FORWARDED_HOST", "").split(",")]
    return any(_is_same(origin, host.strip()) for host in hosts if host.strip())


def _is_same(origin: str, host: str) -> bool:
    """Whether an origin is at a host, which may have lost its port on the way."""
    try:
        there, here = urlsplit(origin), urlsplit(f"//{host}")
        if there.hostname is None or there.hostname != here.hostname:
            return False
        return here.port is None or there.port == here.port
    except ValueError:
        return False
