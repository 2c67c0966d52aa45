"""Who may look and act, and which forms are accepted."""

from __future__ import annotations

import re

import pytest

from anarchon import ConfigurationError, MemoryBackend, Scheduler
from anarchon.web import dashboard, mounted
from tests.web.client import HOST, SECRET, Browser

PAGES = ["/", "/job?name=sync", "/runs", "/run?name=sync&slot=0", "/nowhere"]


def board(may="act", secret=SECRET):
    scheduler = Scheduler(MemoryBackend())
    scheduler.every("sync", "1h", lambda: None)
    return dashboard(scheduler, authorize=lambda environ: may, secret=secret)


def pressed(browser, token=None, **headers):
    """Press a button as the page has it, or with another token."""
    token = browser.get("/").page.forms[-1]["token"] if token is None else token
    return browser.post({"do": "pause", "name": "sync", "token": token}, **headers).status


@pytest.fixture
def browser():
    return Browser(board())


def test_everybody_may_look_and_nobody_may_act_unless_it_is_said():
    scheduler = Scheduler(MemoryBackend())
    scheduler.every("sync", "1h", lambda: None)
    browser = Browser(dashboard(scheduler))
    answer = browser.get("/")
    assert answer.status == 200
    assert answer.page.buttons == []
    assert "Set-Cookie" not in answer.headers
    assert browser.post({"do": "pause", "name": "sync"}).status == 403


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("nothing", [None, False])
def test_who_may_do_nothing_sees_nothing(nothing, path):
    answer = Browser(board(nothing)).get(path)
    assert answer.status == 403
    assert "sync" not in answer.page.source
    assert "http" not in answer.page.source
    assert Browser(board(nothing)).get("/static/dashboard.css").status == 200


def test_it_is_asked_with_each_request_and_of_its_environ():
    asked = []

    def authorize(environ):
        asked.append(environ["PATH_INFO"])
        return "act" if environ.get("REMOTE_USER") == "boss" else "read"

    scheduler = Scheduler(MemoryBackend())
    scheduler.every("sync", "1h", lambda: None)
    browser = Browser(dashboard(scheduler, authorize=authorize, secret=SECRET))
    assert browser.get("/").page.buttons == []
    page = browser.get("/", REMOTE_USER="boss").page
    assert page.buttons
    fields = {**page.forms[-1], "do": "pause", "name": "sync"}
    assert browser.post(fields).status == 403
    assert browser.post(fields, REMOTE_USER="boss").status == 303
    assert asked == ["/", "/", "/act", "/act"]


@pytest.mark.parametrize("answer", [True, 1, "admin", "ACT", b"act", ["act"]])
def test_an_answer_that_says_nothing_is_an_error_of_the_server(answer):
    with pytest.raises(ConfigurationError, match="authorize"):
        board(answer)({"PATH_INFO": "/"}, lambda *_: None)


def test_what_it_raises_is_left_to_the_server():
    def authorize(environ):
        raise KeyError("session")

    app = dashboard(Scheduler(MemoryBackend()), authorize=authorize, secret=SECRET)
    with pytest.raises(KeyError):
        app({"PATH_INFO": "/"}, lambda *_: None)


# --- forms ----------------------------------------------------------------------------


def test_a_form_of_ours_is_accepted_again_and_again(browser):
    assert [pressed(browser) for _ in range(3)] == [303] * 3
    token = browser.get("/").page.forms[-1]["token"]
    assert [pressed(browser, token) for _ in range(2)] == [303] * 2


def test_a_form_without_its_token_or_its_cookie_is_refused(browser):
    token = browser.get("/").page.forms[-1]["token"]
    for wrong in ("", "x", token[:-1], token.upper(), f"{token} ", "\ud800é", token * 100):
        assert pressed(browser, wrong.encode("utf-8", "replace").decode()) == 403, wrong
    cookies, browser.cookies = browser.cookies, {}
    assert pressed(browser, token) == 403
    for wrong in ("", "x" * 32, '"', "é" * 16):
        browser.cookies = {"anarchon_form": wrong}
        assert pressed(browser, token) == 403
    browser.cookies = cookies
    assert pressed(browser, token) == 303


def test_a_token_of_somebody_else_is_refused(browser):
    other = Browser(browser.application)
    token = other.get("/").page.forms[-1]["token"]
    browser.get("/")
    assert browser.cookies != other.cookies
    assert pressed(browser, token) == 403


def test_what_is_refused_has_done_nothing(browser):
    assert pressed(browser, "x") == 403
    assert "paused" not in browser.get("/").page.text


def test_any_process_with_the_secret_accepts_what_another_one_gave_out():
    one, other = Browser(board()), Browser(board(secret=SECRET.encode()))
    token = one.get("/").page.forms[-1]["token"]
    other.cookies = one.cookies
    assert pressed(other, token) == 303
    strange = Browser(board(secret="another one, and long enough"))
    strange.cookies = one.cookies
    assert pressed(strange, token) == 403


def test_a_cookie_of_a_dashboard_above_does_no_harm(browser):
    token = browser.get("/").page.forms[-1]["token"]
    mine = browser.cookies["anarchon_form"]
    browser.cookies = {"anarchon_form": f"{'0' * 32}; anarchon_form={mine}; other=x; broken"}
    assert pressed(browser, token) == 303


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"HTTP_SEC_FETCH_SITE": "same-origin"}, 303),
        ({"HTTP_SEC_FETCH_SITE": "none"}, 303),
        ({"HTTP_SEC_FETCH_SITE": "cross-site"}, 403),
        ({"HTTP_SEC_FETCH_SITE": "same-site"}, 403),
        ({"HTTP_SEC_FETCH_SITE": "cross-site", "HTTP_ORIGIN": f"http://{HOST}"}, 403),
        ({"HTTP_ORIGIN": f"http://{HOST}"}, 303),
        ({"HTTP_ORIGIN": f"https://{HOST}:8443"}, 303),  # its proxy hides the port
        ({"HTTP_ORIGIN": f"http://{HOST}.evil.example"}, 403),
        ({"HTTP_ORIGIN": f"http://evil.example/{HOST}"}, 403),
        ({"HTTP_ORIGIN": "null"}, 403),
        ({"HTTP_ORIGIN": ""}, 403),
        ({"HTTP_ORIGIN": "http://[::1"}, 403),
        ({"HTTP_ORIGIN": "https://out.example", "HTTP_X_FORWARDED_HOST": "out.example"}, 303),
        ({"HTTP_ORIGIN": "https://out.example", "HTTP_X_FORWARDED_HOST": "b, out.example"}, 303),
        ({"HTTP_ORIGIN": "https://out.example"}, 403),
        ({"HTTP_ORIGIN": f"http://{HOST}:81", "HTTP_HOST": f"{HOST}:80"}, 403),
        ({"HTTP_ORIGIN": f"http://{HOST}:81", "HTTP_HOST": f"{HOST}:81"}, 303),
    ],
)
def test_a_form_that_another_site_may_have_sent_is_refused(headers, status, browser):
    assert pressed(browser, **headers) == status


def test_only_a_short_form_is_read(browser):
    token = browser.get("/").page.forms[-1]["token"]
    fields = {"do": "pause", "name": "sync", "token": token}
    for kind in ("", "application/json", "text/plain", "multipart/form-data; boundary=x"):
        assert browser.post(fields, CONTENT_TYPE=kind).status == 415
    assert browser.post({**fields, "q": "x" * 20_000}).status == 413
    assert browser.post(fields, CONTENT_LENGTH="9" * 50).status == 413
    assert browser.post({}, body=b"do=%FF").status == 400
    assert browser.post({}, body=b"&".join([b"a=b"] * 100)).status == 400
    # wsgiref's validator refuses these itself.
    bare = Browser(browser.application)
    bare.application = board()
    assert bare.post(fields, CONTENT_LENGTH="-1").status == 400


def test_the_cookie_is_for_no_script_and_no_other_site():
    answer = Browser(board()).get("/")
    assert re.fullmatch(
        r"anarchon_form=[0-9a-f]{32}; HttpOnly; SameSite=Lax", answer.headers["Set-Cookie"]
    )
    assert "Secure" in Browser(board(), scheme="https").get("/").headers["Set-Cookie"]
    for forwarded, outside in {"https": True, "HTTPS, http": True, "http, https": False}.items():
        answer = Browser(board()).get("/", HTTP_X_FORWARDED_PROTO=forwarded)
        assert ("Secure" in answer.headers["Set-Cookie"]) == outside


def test_the_cookie_is_set_once(browser):
    assert "Set-Cookie" in browser.get("/").headers
    assert "Set-Cookie" not in browser.get("/job?name=sync").headers


# --- headers --------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES, "/static/dashboard.js", "/static/x", "/act", ""])
@pytest.mark.parametrize("may", ["act", None])
def test_every_answer_has_the_headers_that_keep_others_out(may, path):
    headers = Browser(board(may), prefix="/jobs").get(path).headers
    policy = dict(
        part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "form-action", "connect-src")} == {
        "'self'"
    }
    assert {policy["frame-ancestors"], policy["base-uri"]} == {"'none'"}
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    if not path.startswith("/static/dashboard"):
        assert headers["Cache-Control"] == "no-store"


# --- where it is mounted ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "to"),
    [
        ("/jobs", "jobs/"),
        ("/deep/down", "down/"),
        ("//evil.example", "evil.example/"),
        ("/http://evil.example", "evil.example/"),
        ("/a:b?c", "a%3Ab%3Fc/"),
        ("/\u00c3\u00a9", "%C3%A9/"),
    ],
)
def test_without_its_slash_it_leads_there_and_nowhere_else(prefix, to):
    answers = []
    environ = {"SCRIPT_NAME": prefix, "PATH_INFO": "", "REQUEST_METHOD": "GET"}
    board()(environ, lambda status, headers: answers.append((status, dict(headers))))
    [(status, headers)] = answers
    assert status.startswith("308 ")
    assert headers["Location"] == to


@pytest.mark.parametrize("environ", [{"SCRIPT_NAME": ""}, {"SCRIPT_NAME": "/"}, {}])
def test_alone_it_needs_no_slash(environ):
    answers = []
    board()({**environ, "PATH_INFO": ""}, lambda status, _: answers.append(status))
    assert answers == ["200 OK"]


def test_below_another_application():
    def host(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [f"{environ['SCRIPT_NAME']}|{environ['PATH_INFO']}".encode()]

    browser = Browser(mounted(host, "/ops/jöbs", host), prefix="/site")
    for path, seen in {
        "/": b"/site|/",
        "/ops": b"/site|/ops",
        "/ops/j\u00c3\u00b6bsx": b"/site|/ops/j\xc3\x83\xc2\xb6bsx",
        "/ops/j\u00c3\u00b6bs": b"/site/ops/j\xc3\x83\xc2\xb6bs|",
        "/ops/j\u00c3\u00b6bs/": b"/site/ops/j\xc3\x83\xc2\xb6bs|/",
        "/ops/j\u00c3\u00b6bs/runs": b"/site/ops/j\xc3\x83\xc2\xb6bs|/runs",
    }.items():
        assert browser.get(path).body == seen
    for wrong in ("", "/", "jobs", "/jobs/", None):
        with pytest.raises(ConfigurationError, match="mounted"):
            mounted(host, wrong, host)
