"""The page of instances: who is there, in words, and what they disagree about."""

from __future__ import annotations

import pytest

from anarchon import MemoryBackend, Scheduler
from anarchon.backends.base import ClaimBackend
from anarchon.web import _pages as pages
from anarchon.web import dashboard
from tests.commands.presences import present
from tests.web.client import Browser
from tests.web.conftest import NOON_MS
from tests.web.test_addresses import HOSTILE
from tests.web.test_pages import walked

HOUR = 3_600_000


@pytest.fixture
def there(past):
    """Write an instance, at the time of the clock."""

    def there(name, **said):
        present(past.path, name, at_ms=NOON_MS, **said)

    return there


def test_each_has_a_row_with_its_state_in_words(there, browse):
    there("web-1", jobs={"sync": "00000001", "digest": "1"})
    there("web-2", pid=9, running=2, next=None, offset=None, started=-1)
    there("web-3", expected=-HOUR, seen=-14 * HOUR)
    page = browse().get("/instances").page
    assert page.values("data-instance") == ["web-1", "web-2", "web-3"]
    assert page.values("data-state") == ["idle", "running", "silent"]
    text = page.text.replace("\u2013", "-")
    assert "web-1 box:7 ✓ idle expected at 13:00:00 0.1.0 2 2 h ago 1 m ago in 1 h +12 ms" in text
    assert "web-2 box:9 ▸ running 2 0.1.0 1 - 1 m ago - -" in text
    assert "? silent since 2026-10-09 22:00:00, was expected at 11:00:00" in text
    assert "3 instances" in text
    assert page.values("data-concern") == []


def test_what_they_disagree_about_stands_above(there, browse):
    there("web-1", tzdata="2025b")
    there("web-2", tzdata="2026a", jobs={"sync": "2"})
    there("web-2", pid=9, tzdata="2026a", jobs={"sync": "2"})
    page = browse().get("/instances").page
    assert page.values("data-concern") == ["schedules-differ", "tzdata-differs", "instance-id"]
    assert "Note: the schedule of sync differs between web-1, web-2" in page.text
    assert "Note: instances have different time zone databases: 2025b on web-1; " in page.text
    assert "Wrong: 2 processes have the id web-2: box:7 since " in page.text
    assert len(set(page.values("data-key"))) == len(page.values("data-key"))


def test_every_page_leads_there(scheduler, browse):
    browser = browse(prefix="/ops/jobs")
    for address in ("/", "/runs", "/instances"):
        answer = browser.get(address)
        [link] = [link for link, text in answer.page.links if text == "Instances"]
        assert browser.follow(answer, link).status == 200
    current = [
        given["href"] for tag, given in answer.page.tags if given.get("aria-current") == "page"
    ]
    assert current == ["./instances"]


def test_an_instance_that_runs_is_seen_on_its_own_page(scheduler, browse, clock):
    scheduler.every("sync", "1h", lambda: None)
    with scheduler:
        clock.advance("1s")
        page = browse().get("/instances").page
        assert page.values("data-instance") == [scheduler.instance_id]
    assert "No instance is known to the store." in browse().get("/instances").page.text


@pytest.mark.parametrize("name", HOSTILE)
def test_names_can_be_anything(name, there, browse):
    said = {"host": name, "version": name, "tzdata": name, "jobs": {name: "1"}}
    there(name, **said)
    there(f"{name} ", **{**said, "tzdata": "other", "jobs": {name: "2"}})
    there(name, pid=9, **said)
    page = browse().get("/instances").page
    assert page.values("data-instance") == [name, name, f"{name} "]
    assert f"the schedule of {name.strip()} differs between {name}" in page.text
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1  # ours
    assert "b" not in tags
    assert not any(attribute.startswith("on") for _, given in page.tags for attribute in given)


def test_many_are_on_several_pages(there, browse):
    for number in range(2 * pages.INSTANCES + 5):
        there(f"web-{number:03}")
    answers = walked(browse(), "/instances", "Next")
    assert [len(one.page.values("data-instance")) for one in answers] == [50, 50, 5]
    assert "105 instances, 101 to 105" in answers[-1].page.text
    back = walked(browse(), answers[-1].address.partition("example")[2], "← Previous")
    assert [len(one.page.values("data-instance")) for one in back] == [5, 50, 50]
    page = browse().get("/instances?from=1000").page
    assert "There are not so many. Show the first" in page.text


def test_a_store_that_keeps_nothing_of_the_kind(browse):
    class Other(MemoryBackend):
        instances = ClaimBackend.instances

    page = Browser(dashboard(Scheduler(Other()))).get("/instances").page
    assert "This store keeps nothing of instances." in page.text


def test_who_may_not_look_sees_none(there, browse):
    there("web-1")
    answer = browse(may=None).get("/instances")
    assert answer.status == 403
    assert "web-1" not in answer.page.text
