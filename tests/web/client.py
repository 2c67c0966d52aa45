"""A browser without a window: asks a WSGI application, keeps cookies, and reads pages."""

from __future__ import annotations

import io
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import NamedTuple
from urllib.parse import urlencode, urljoin, urlsplit
from wsgiref.validate import validator

SECRET = "of a test, and long enough"
HOST = "site.example"
VOID = {"meta", "link", "input", "img", "br", "hr", "line", "rect", "circle"}


class Page(HTMLParser):
    """What is on a page: its links, forms and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.links: list[tuple[str, str]] = []  # address, text
        self.addresses: list[str] = []  # of everything that leads or is loaded
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.forms: list[dict[str, str]] = []  # hidden fields, "" is where it leads
        self.buttons: list[tuple[str, str]] = []  # value, job
        self._texts: list[str] = []
        self._link: str | None = None
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = {name: value or "" for name, value in attributes}
        self.tags.append((tag, given))
        if tag not in VOID:
            self.open.append(tag)
        self.addresses += [given[name] for name in ("href", "src", "action") if name in given]
        if tag == "a" and "href" in given:
            self.links.append((given["href"], ""))
        if tag == "form":
            self.forms.append({"": given["action"]})
        if tag == "input" and given.get("type") == "hidden":
            self.forms[-1][given["name"]] = given["value"]
        if tag == "button" and given.get("name") == "do":
            self.buttons.append((given["value"], self.forms[-1].get("name", "")))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, f"</{tag}> closes something else: {self.open}"

    def handle_data(self, data):
        self._texts.append(data)
        if self.links and "a" in self.open:
            address, text = self.links[-1]
            self.links[-1] = (address, text + data)

    @property
    def text(self) -> str:
        """The text in one line, with blanks between what stands in different elements."""
        return " ".join(" ".join(self._texts).split())

    def values(self, attribute: str) -> list[str]:
        """Return all values of an attribute, in order."""
        return [given[attribute] for _, given in self.tags if attribute in given]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    address: str

    @property
    def page(self) -> Page:
        page = Page(self.body.decode())
        assert page.open == [], f"never closed: {page.open}"
        return page


class Browser:
    """Asks for pages, as somebody who may `may`, below a prefix."""

    def __init__(self, application, *, prefix: str = "", scheme: str = "http", host=HOST) -> None:
        self.application = validator(application)
        self.prefix, self.scheme, self.host = prefix, scheme, host
        self.cookies: dict[str, str] = {}

    def get(self, address: str = "/", *, method: str = "GET", **headers: str) -> Answer:
        return self._ask(method, address, b"", headers)

    def post(
        self, fields, address: str = "/act", *, body: bytes | None = None, **headers
    ) -> Answer:
        data = urlencode(fields).encode() if body is None else body
        headers.setdefault("CONTENT_TYPE", "application/x-www-form-urlencoded")
        return self._ask("POST", address, data, headers)

    def press(self, page: Page, button: str, name: str = "", **more: str) -> Answer:
        """Press a button of a page, if it is there."""
        assert (button, name) in page.buttons, f"{button} of {name!r} not in {page.buttons}"
        form = next(form for form in page.forms if "token" in form and form.get("name", "") == name)
        fields = {key: value for key, value in form.items() if key}
        return self.post({**fields, "do": button, **more})

    def follow(self, answer: Answer, address: str | None = None) -> Answer:
        """Go where a page leads, or where a link on it does."""
        where = answer.headers["Location"] if address is None else address
        reached = urlsplit(urljoin(answer.address, where))
        assert reached.netloc == self.host, f"it leads away: {where}"
        assert reached.path.startswith(self.prefix), f"it leads out of the dashboard: {where}"
        path = reached.path[len(self.prefix) :]
        return self.get(f"{path}?{reached.query}" if reached.query else path)

    def _ask(self, method, address, body, headers) -> Answer:
        path, _, query = address.partition("?")
        environ = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": self.prefix,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "SERVER_NAME": "inside",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": self.host,
            "HTTP_COOKIE": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": self.scheme,
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            **headers,
        }
        said = []
        parts = self.application(environ, lambda *words, **_: said.append(words))
        try:
            body = b"".join(parts)
        finally:
            getattr(parts, "close", lambda: None)()
        status, found = said[0][:2]
        for name, value in found:
            if name == "Set-Cookie":
                self.cookies.update({k: v.value for k, v in SimpleCookie(value).items()})
        address = f"{self.scheme}://{self.host}{self.prefix}{address}"
        return Answer(int(status.split()[0]), dict(found), body, address)
