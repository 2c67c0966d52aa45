"""Where pages lead, what names can do to them, and what is shown when something is wrong."""

from __future__ import annotations

import math

import pytest

from anarchon import MemoryBackend, Scheduler
from anarchon.testing import FaultyBackend
from anarchon.web import dashboard
from tests.web.client import Browser
from tests.web.conftest import NOON_MS

HOUR = 3_600_000
HOSTILE = [
    "a/b//c",
    "..",
    "./act",
    "//evil.example/x",
    "100% sure %2F %00",
    "a?b=c&d;e#f+g",
    "javascript:alert(1)",
    "<script>alert(1)</script>",
    """it's "quoted" & <b>bold</b>""",
    "{{ 7 * 7 }}{% x %}",
    "🦄 émoji ✓",
    "דוח יומי",
    "تقرير",
    "名" * 200,
]


def names_of(answer):
    return answer.page.values("data-job")


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_leads_from_page_to_page(name, scheduler, browse, past):
    scheduler.every(name, "1h", lambda: None, description=name, tags=[name.strip()])
    past.write(name, NOON_MS - HOUR, "failed", error=f"{name}\n{name}", traceback=name, detail=name)
    browser = browse("act", prefix="/ops/jobs")
    answers = [browser.get("/")]
    assert names_of(answers[0]) == [name]
    for words in (name, "2026-10-10 11:00:00"):
        page = answers[-1].page
        link = next(link for link, text in page.links if " ".join(text.split()) == words)
        answers.append(browser.follow(answers[-1], link))
        assert answers[-1].status == 200
        assert name in answers[-1].page.text
    runs = browser.get("/runs")
    link = next(link for link, text in runs.page.links if text == name)
    answers += [runs, browser.follow(runs, link)]
    done = browser.press(answers[1].page, "pause", name)
    answers.append(browser.follow(done))
    assert f"“{name}” is paused." in answers[-1].page.text
    for answer in answers:
        tags = [tag for tag, _ in answer.page.tags]
        assert tags.count("script") == 1  # ours
        assert "b" not in tags


@pytest.mark.parametrize(
    "path", ["/", "/job", "/runs", "/run", "/instances", "/nowhere", "/no/where", "/act"]
)
def test_no_page_leads_or_asks_elsewhere_and_nothing_is_inside_of_it(path, scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    past.write("sync", NOON_MS - HOUR, "failed", error="e", traceback="t")
    browser = browse("act", prefix="/deep/down")
    answer = browser.get(f"{path}?name=sync&slot={NOON_MS - HOUR}")
    page = answer.page
    for address in page.addresses:
        assert not address.startswith("/"), address
        assert ":" not in address, address
    for tag, given in page.tags:
        assert "style" not in given
        assert not any(name.startswith("on") for name in given), (tag, given)
    assert {given["src"].partition("?")[0] for tag, given in page.tags if tag == "script"} == {
        f"{'../' * (path.count('/') - 1) or './'}static/dashboard.js"
    }
    for tag, given in page.tags:
        if tag in ("script", "link"):
            found = browser.follow(answer, given.get("src") or given["href"])
            assert found.status == 200
            assert found.headers["Cache-Control"].endswith("immutable")


def test_a_fragment_is_the_part_that_changes(scheduler, browse):
    scheduler.every("sync", "1h", lambda: None)
    whole, part = browse().get("/"), browse().get("/?fragment=1")
    assert "<html" not in part.page.source
    assert "<form" not in part.page.source
    assert part.body.strip() in whole.body


def test_what_is_asked_wrongly_is_told(scheduler, browse):
    scheduler.every("sync", "1h", lambda: None)
    for address, status in {
        "/job": 400,
        "/run?name=sync": 400,
        "/run?name=sync&slot=noon": 400,
        "/run?name=sync&slot=999999999999999": 400,
        "/run?name=%FF&slot=1": 400,
        f"/?{'&'.join('a=1' for _ in range(100))}": 400,
        "/?from=x&q=&unknown=1": 200,
        "/job?name=sync&before=x": 200,
        "/nowhere": 404,
        "/static/": 404,
        "/static/../_guard.py": 404,
        "/static/templates": 404,
        "/act": 405,
    }.items():
        answer = browse("act").get(address)
        assert answer.status == status, address
        assert "<h1>" in answer.page.source
    answer = browse().get("/", method="DELETE")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_a_head_is_a_page_without_its_body(browse):
    answer = browse().get("/", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 500


@pytest.mark.parametrize(
    "address", ["/", "/job?name=sync", "/runs", "/run?name=sync&slot=0", "/instances"]
)
def test_a_store_that_is_down_is_a_page(address):
    backend = FaultyBackend(MemoryBackend())
    scheduler = Scheduler(backend)
    scheduler.every("sync", "1h", lambda: None)
    browser = Browser(dashboard(scheduler))
    assert browser.get(address).status in (200, 404)
    backend.fail(times=math.inf)
    answer = browser.get(address)
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "5"
    assert "The store can't be reached" in answer.page.text
    assert answer.page.values("data-refresh") == ["5000"]
    assert "Traceback" not in answer.page.source
    backend.heal()
    assert browser.get(address).status in (200, 404)


def test_a_server_that_nobody_answers_at_is_a_page_without_its_password():
    from anarchon import RedisBackend

    scheduler = Scheduler(RedisBackend("redis://user:pass-word@127.0.0.1:1/0"))
    scheduler.every("sync", "1h", lambda: None)
    answer = Browser(dashboard(scheduler)).get()
    assert answer.status == 503
    assert "pass-word" not in answer.page.source
