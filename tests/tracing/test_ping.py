"""Pings: what a service is asked, and what one that is slow, refuses or redirects holds up."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from http.client import HTTPMessage
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import Request

import pytest

import anarchon
from anarchon import ConfigurationError
from anarchon.contrib import _ping_http, _ping_sending
from anarchon.contrib.ping import PingUrls, ping
from tests.tracing.ping_server import PATIENCE_SECONDS, Server, closed_port

ROOT = Path(__file__).resolve().parent.parent.parent
SECRET = "5f0c-secret"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(_ping_sending, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def server():
    made = Server()
    yield made
    made.end()


@pytest.fixture
def pinged(make):
    """Make a scheduler with a good and a bad job, whose pings are asked for."""

    def prepare(urls, **options):
        scheduler = make(instance_id="web:1")
        scheduler.every("good", "1h", lambda: None)
        scheduler.every("bad", "1h", lambda: 1 / 0)
        ping(scheduler, urls, **options)
        return scheduler

    return prepare


def sender_of(scheduler):
    return scheduler._listeners.of("success")[0].__self__.sender


def flush(scheduler):
    sender_of(scheduler).flush(PATIENCE_SECONDS)


def asked_by(pinged, server, urls, *jobs, **options):
    scheduler = pinged(urls, **options)
    with scheduler:
        for job in jobs:
            scheduler.run_now(job)
    flush(scheduler)
    return [(asked.method, asked.path) for asked in server.asked]


def test_a_success_is_two_pings_in_order(pinged, server):
    urls = {"good": f"{server.url}/{SECRET}"}
    assert asked_by(pinged, server, urls, "good", "bad") == [
        ("GET", f"/{SECRET}/start"),
        ("GET", f"/{SECRET}"),
    ]
    assert {asked.agent for asked in server.asked} == {f"anarchon/{anarchon.__version__}"}


def test_a_failure_brings_its_run_and_its_error(pinged, server):
    urls = {"bad": f"{server.url}/{SECRET}/?env=prod"}
    assert asked_by(pinged, server, urls, "bad") == [
        ("GET", f"/{SECRET}/start?env=prod"),
        ("POST", f"/{SECRET}/fail?env=prod"),
    ]
    head, error = server.asked[1].text.split("\n")
    assert head.startswith("bad @ 20")
    assert head.endswith(", on web:1")
    assert ": failed, attempt 1, " in head
    assert error == "ZeroDivisionError: division by zero"


def test_addresses_that_do_not_follow_from_one_another(pinged, server):
    urls = {
        "good": PingUrls(success=f"{server.url}/ok"),
        "bad": PingUrls(start=f"{server.url}/begin", fail=f"{server.url}/alarm"),
    }
    assert asked_by(pinged, server, urls, "good", "bad") == [
        ("GET", "/ok"),
        ("GET", "/begin"),
        ("POST", "/alarm"),
    ]


def test_no_address_is_no_ping(pinged, server):
    assert asked_by(pinged, server, {"good": None}, "good") == []


def test_an_interruption_says_nothing_until_somebody_ends_the_run(handed_over, server):
    schedulers = handed_over(lambda scheduler: ping(scheduler, {"job": f"{server.url}/id"}))
    for scheduler in schedulers:
        flush(scheduler)
    assert sorted(asked.path for asked in server.asked) == ["/id", "/id/start", "/id/start"]


def test_a_server_that_hangs_holds_up_no_run_and_no_listener(pinged, server):
    server.script = ["slow"] * 100
    scheduler = pinged({"good": f"{server.url}/{SECRET}"}, timeout=PATIENCE_SECONDS)
    heard = threading.Event()
    scheduler.on("success", lambda run: heard.set())
    began = time.monotonic()
    with scheduler:
        assert scheduler.run_now("good").status == "success"
        assert heard.wait(PATIENCE_SECONDS)
    assert time.monotonic() - began < PATIENCE_SECONDS / 2
    server.script.clear()
    server.let_go.set()
    flush(scheduler)


@pytest.mark.parametrize("answer", ["slow", "trickle"])
def test_a_try_has_a_limit_as_a_whole(server, answer):
    server.script = [answer]
    began = time.monotonic()
    problem = _ping_http.Http().send(f"{server.url}/{SECRET}", None, 0.3)
    assert problem == ("timed out", False)
    assert 0.25 < time.monotonic() - began < PATIENCE_SECONDS / 2


def test_pings_are_sent_on_a_thread_of_their_own(pinged, server, monkeypatch):
    names = []
    send = _ping_http.Http.send

    def spy(*arguments):
        names.append(threading.current_thread().name)
        return send(*arguments)

    monkeypatch.setattr(_ping_http.Http, "send", spy)
    assert len(asked_by(pinged, server, {"good": server.url}, "good")) == 2
    assert set(names) == {"anarchon-ping"}


def test_what_does_not_get_through_is_tried_again_and_told_once(pinged, server, caplog):
    caplog.set_level("INFO", "anarchon")
    server.script = [500, "garbage", 503, 500, 500, 500, 429, 200]
    scheduler = pinged({"good": PingUrls(success=f"{server.url}/{SECRET}")})
    with scheduler:
        for _ in range(4):
            scheduler.run_now("good")
    flush(scheduler)
    assert len(server.asked) == 3 + 3 + 2 + 1
    told = [r for r in caplog.records if "ping" in r.anarchon_event]
    assert [(r.levelname, r.message) for r in told] == [
        ("WARNING", "good: a ping did not get through: HTTP 503"),
        ("INFO", "good: pings get through again"),
    ]
    assert told[0].anarchon_job == "good"


def test_what_was_our_fault_is_not_tried_again(pinged, server, caplog):
    server.script = [404]
    urls = {"good": PingUrls(success=f"{server.url}/{SECRET}")}
    assert len(asked_by(pinged, server, urls, "good")) == 1
    assert "HTTP 404" in caplog.text


def test_no_secret_is_logged_whatever_happens(pinged, server, caplog):
    caplog.set_level("DEBUG")
    server.script = ["file", "ftp", "garbage", "round", 500, 404]
    urls = {
        "good": f"{server.url}/{SECRET}?{SECRET}",
        "bad": f"{closed_port()}/{SECRET}",
    }
    scheduler = pinged(urls, tries=1)
    with scheduler:
        for job in ("good", "bad") * 4:
            scheduler.run_now(job)
    flush(scheduler)
    assert "bad: a ping did not get through: Connection refused" in caplog.text
    assert "good: a ping did not get through" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in repr(PingUrls(f"{server.url}/{SECRET}", fail=SECRET))


def test_redirects_are_followed(server):
    http = _ping_http.Http()
    server.script = ["moved", 200]
    assert http.send(f"{server.url}/a", None, 5) is None
    server.script = ["kept", 200]
    assert http.send(f"{server.url}/b", b"text", 5) is None
    assert [(a.method, a.path, a.text) for a in server.asked] == [
        ("GET", "/a", ""),
        ("GET", "/moved", ""),
        ("POST", "/b", "text"),
        ("POST", "/kept", "text"),
    ]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("round", "HTTP 302"),
        ("file", "HTTP 302"),
        ("ftp", "redirected to what is not http"),
        ("onward", "HTTP 302"),
    ],
)
def test_redirects_in_a_circle_or_to_something_else_end(server, answer, problem):
    server.script = [answer]
    found = _ping_http.Http().send(f"{server.url}/a", None, 5)
    assert found.text == problem
    assert len(server.asked) <= 4


def test_a_redirect_never_leaves_tls():
    request = Request(f"https://127.0.0.1/{SECRET}")
    with pytest.raises(HTTPError) as raised:
        _ping_http._Redirects().redirect_request(
            request, None, 302, "Found", HTTPMessage(), "http://127.0.0.1/x"
        )
    raised.value.close()


def test_a_server_without_tls_is_a_problem_in_words(server):
    found = _ping_http.Http().send(server.url.replace("http:", "https:"), None, 5)
    assert found is not None
    assert server.url not in found.text


def test_of_too_many_that_wait_the_oldest_go(pinged, server, caplog, monkeypatch):
    monkeypatch.setattr(_ping_sending, "BOUND", 3)
    server.script = ["slow"]
    scheduler = pinged({"good": server.url})
    sender = sender_of(scheduler)
    sender.put(_ping_sending.Ping("good", f"{server.url}/first"))
    server.wait_for(1)
    for number in range(5):
        sender.put(_ping_sending.Ping("good", f"{server.url}/{number}"))
    server.let_go.set()
    sender.flush(PATIENCE_SECONDS)
    assert [asked.path for asked in server.asked][-3:] == ["/2", "/3", "/4"]
    assert "/0" not in {asked.path for asked in server.asked}
    assert caplog.text.count("1 ping was dropped") == 2


def test_a_forked_child_has_a_thread_of_its_own(pinged, server):
    sender = sender_of(pinged({"good": server.url}))
    sender._pid, sender._thread = -1, threading.Thread()
    sender._lock.acquire()  # by a thread that is not in the child
    sender.put(_ping_sending.Ping("good", server.url))
    assert len(server.wait_for(1)) == 1
    sender.flush(PATIENCE_SECONDS)


def test_without_a_thread_the_one_that_tells_sends(pinged, server, monkeypatch):
    class NoThread(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    sender = sender_of(pinged({"good": server.url}))
    monkeypatch.setattr(_ping_sending, "threading", SimpleNamespace(Thread=NoThread))
    sender.put(_ping_sending.Ping("good", server.url))
    sender.put(_ping_sending.Ping("good", server.url))
    assert len(server.asked) == 2


PROGRAM = """
    import sys
    from anarchon import MemoryBackend, Scheduler
    from anarchon.contrib.ping import ping

    scheduler = Scheduler(MemoryBackend(), catch_up=0)
    scheduler.every("job", "1h", lambda: None)
    ping(scheduler, {"job": sys.argv[1]})
    scheduler.start()
    scheduler.run_now("job")
"""


def test_the_end_of_the_process_waits_for_pings_that_are_on_their_way(tmp_path, server):
    subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM), f"{server.url}/{SECRET}"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "no_proxy": "*"},
        check=True,
        timeout=6 * PATIENCE_SECONDS,
    )
    assert [asked.path for asked in server.asked] == [f"/{SECRET}/start", f"/{SECRET}"]


@pytest.mark.parametrize(
    "url",
    [
        5,
        b"https://example.com/5f0c-secret",
        "5f0c-secret",
        "ftp://example.com/5f0c-secret",
        "file:///5f0c-secret",
        "https:///5f0c-secret",
        "https://example.com/5f0c-secret\n",
        "https://example.com/5f0c-secret x",
        "https://example.com/5f0c-secret/ü",
        "https://5f0c-secret:pass@example.com/",
        "https://example.com:5f0c-secret/",
        "https://[5f0c-secret/",
        PingUrls(success="5f0c-secret"),
    ],
)
def test_what_is_no_address_is_refused_and_not_shown(make, url):
    with pytest.raises(ConfigurationError, match=r"ping\(urls\), job 'good': the addr") as raised:
        ping(make(), {"good": url})
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"urls": "https://example.com"}, "no mapping"),
        ({"tries": 0}, r"ping\(tries\): 0"),
        ({"tries": True}, r"ping\(tries\): True"),
        ({"tries": 11}, r"ping\(tries\): 11"),
        ({"timeout": 0}, r"ping\(timeout\)"),
    ],
)
def test_what_can_not_be_meant_is_refused(make, options, text):
    with pytest.raises(ConfigurationError, match=text):
        ping(make(), **{"urls": {}, **options})


def test_a_name_that_no_job_has_is_a_warning_at_the_start(pinged, server, caplog):
    scheduler = pinged(dict.fromkeys(("godo", "later", "good"), server.url) | {"nope": None})
    scheduler.every("later", "1h", lambda: None)
    assert caplog.messages == []
    with scheduler:
        pass
    said = "ping(urls): no job 'godo' on this scheduler; did you mean 'good'?"
    assert [text for text in caplog.messages if "no job" in text] == [said]
