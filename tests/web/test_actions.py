"""What the buttons do, and who has them."""

from __future__ import annotations

import math

import pytest

from anarchon import MemoryBackend, Scheduler
from anarchon.testing import ClaimOnly, FaultyBackend
from anarchon.web import dashboard
from tests.facade.helpers import Blocked, until
from tests.web.client import SECRET, Browser
from tests.web.conftest import NOON_MS

HOUR = 3_600_000
ALL = [{"do": "run"}, {"do": "pause"}, {"do": "resume"}, {"do": "cancel", "slot": str(NOON_MS)}]
ALL += [{"do": "pause-all"}, {"do": "resume-all"}, {"do": "trigger"}]
ALL += [{"do": "backfill", "first": "2026-10-01T12:00", "last": "2026-10-09T12:00"}]


@pytest.fixture
def sync(scheduler):
    """A job that runs when it is told to, and what it was called with."""
    ran = []
    scheduler.every("sync", "1d", ran.append)
    return ran


def test_run_now_runs_it_here_and_says_so(scheduler, browse, sync):
    scheduler.start()
    browser = browse("act")
    answer = browser.press(browser.get("/").page, "run", "sync")
    assert (answer.status, answer.headers["Location"]) == (303, "./?done=run&on=sync")
    assert "“sync” runs now, in this process." in browser.follow(answer).page.text
    until(lambda: [run.status for run in scheduler.history("sync")] == ["success"], "a run")
    [ctx] = sync
    assert ctx.manual
    page = browser.get("/job?name=sync").page
    assert "by hand" in page.text
    answer = browser.press(page, "run", "sync")
    assert answer.headers["Location"] == "job?name=sync&done=run"


def test_where_nothing_runs_there_is_no_such_button(scheduler, browse, sync):
    browser = browse("act")
    for address in ("/", "/job?name=sync"):
        page = browser.get(address).page
        assert "run" not in {button for button, _ in page.buttons}
        assert "No scheduler runs in the process that shows this page" in page.text
    token = browser.get("/").page.forms[-1]["token"]
    answer = browser.post({"do": "run", "name": "sync", "token": token})
    assert answer.status == 409
    assert "is idle" in answer.page.text
    assert answer.page.values("data-refresh") == ["0"]  # it is no page that could be asked for


def test_more_by_hand_than_there_are_workers(scheduler, browse):
    stays = Blocked()
    busy = Scheduler(MemoryBackend(), catch_up=0, workers=1)
    busy.every("stays", "1d", stays)
    browser = Browser(dashboard(busy, authorize=lambda _: "act", secret=SECRET))
    with busy:
        for status in (303, 409):
            page = browser.get("/").page
            answer = browser.press(page, "run", "stays")
            assert answer.status == status
        stays.go_on.set()
    assert "Not now" in answer.page.text


def test_pause_and_resume_of_one(scheduler, browse, sync):
    browser = browse("act")
    page = browser.get("/").page
    assert ("resume", "sync") not in page.buttons
    page = browser.follow(browser.press(page, "pause", "sync")).page
    assert "“sync” is paused." in page.text
    assert ("pause", "sync") not in page.buttons
    page = browser.follow(browser.press(page, "resume", "sync")).page
    assert "“sync” goes on with its next slot." in page.text
    assert ("pause", "sync") in page.buttons


@pytest.mark.parametrize(("chosen", "minutes"), [("15m", 15), ("1h", 60), ("1d", 1440)])
def test_a_pause_for_a_time_ends_by_itself(chosen, minutes, browse, sync, clock):
    browser = browse("act")
    browser.press(browser.get("/job?name=sync").page, "pause", "sync", **{"for": chosen})
    clock.advance(f"{minutes - 1}m")
    assert "This job is paused." in browser.get("/job?name=sync").page.text
    clock.advance("2m")
    assert "paused" not in browser.get("/job?name=sync").page.text


def test_pause_and_resume_of_all(scheduler, browse, sync):
    browser = browse("act")
    page = browser.follow(browser.press(browser.get("/").page, "pause-all")).page
    assert "All jobs are paused. What falls due meanwhile is skipped." in page.text
    assert {button for button, name in page.buttons if name} == {"trigger"}
    page = browser.follow(browser.press(page, "resume-all")).page
    assert "Jobs go on with their next slots" in page.text
    assert ("pause", "sync") in page.buttons


def test_a_run_that_goes_on_elsewhere_is_cancelled(scheduler, browse, clock, past):
    reasons = []

    def handler(ctx):
        ctx.signal.wait(3000)
        reasons.append(ctx.signal.reason)
        ctx.signal.raise_if_aborted()

    other = Scheduler(past.store, catch_up=0, jitter=0, lease=30)
    clock.attach(other)
    other.every("long", "1h", handler)
    browser = browse("act")
    with other:
        clock.advance("1h")
        [run] = other.history("long")
        address = f"/run?name=long&slot={run.slot}"
        answer = browser.press(browser.get(address).page, "cancel", "long")
        assert answer.headers["Location"] == f"run?name=long&slot={run.slot}&done=cancel"
        assert "The run of “long” was told to end." in browser.follow(answer).page.text
        clock.advance("10s")
        assert reasons == ["cancel"]
        page = browser.get(address).page
        assert ("cancel", "long") not in page.buttons
        token = browser.get("/").page.forms[-1]["token"]
        fields = {"do": "cancel", "name": "long", "slot": str(run.slot), "token": token}
        answer = browser.post({**fields, "back": "run"})
        assert "had ended before" in browser.follow(answer).page.text


def test_a_run_is_asked_for_that_another_instance_gives(scheduler, browse, clock, past):
    scheduler.every("sync", "1h", lambda: None)
    ran, other = [], Scheduler(past.store, catch_up=0, jitter=0, lease=30)
    clock.attach(other)
    other.every("sync", "1h", ran.append)
    browser = browse("act")
    answer = browser.press(browser.get("/").page, "trigger", "sync")
    assert answer.headers["Location"] == "./?done=trigger&on=sync"
    assert "The fleet is asked for a run of “sync”." in browser.follow(answer).page.text
    browser.press(browser.get("/job?name=sync").page, "trigger", "sync")
    with other:
        clock.advance("1s")
    assert [(ctx.manual, ctx.reason) for ctx in ran] == [(True, "manual")] * 2
    assert scheduler.state == "idle"
    assert browser.get("/job?name=sync").page.text.count("triggered") == 2
    assert browser.get("/runs").page.text.count("manual (triggered)") == 2


def test_past_slots_are_asked_for(scheduler, browse, clock, past):
    scheduler.every("sync", "1h", lambda: None)
    ran, other = [], Scheduler(past.store, catch_up=0, jitter=0, lease=30)
    clock.attach(other)
    other.every("sync", "1h", lambda ctx: ran.append((ctx.slot, ctx.reason)))
    browser = browse("act")

    def asked(first, last):
        page = browser.get("/job?name=sync").page
        times = {
            tag["name"]: tag["type"]
            for kind, tag in page.tags
            if kind == "input" and "required" in tag
        }
        assert times == {"first": "datetime-local", "last": "datetime-local"}
        answer = browser.press(page, "backfill", "sync", first=first, last=last)
        assert answer.headers["Location"].startswith("job?name=sync&done=backfill")
        return browser.follow(answer).page.text

    said = asked("2026-10-09T09:30", "2026-10-09T12:00:00")
    assert "The fleet is asked for these slots of “sync”, the oldest first." in said
    assert "No slot of “sync” was due" in asked("2026-10-09T09:30", "2026-10-09T09:31")
    assert "No slot of “sync” was due" in asked("2026-10-10T12:00:01", "2026-10-11T12:00")
    with other:
        clock.advance("1s")
    slots = [NOON_MS - back * HOUR for back in (26, 25, 24)]
    assert ran == [(slot, "catch-up") for slot in slots]
    page = browser.get("/job?name=sync").page
    assert page.text.count("backfilled") == 4  # once in the legend
    assert browser.get("/runs").page.text.count("catch-up (backfilled)") == 3
    # The slot itself was never run, and its page tells both.
    page = browser.get(f"/run?name=sync&slot={slots[0]}").page
    assert "too late" in page.text
    assert "; backfilled: success" in page.text
    [one] = [tag for kind, tag in page.tags if "data-attempt" in tag]
    assert one["data-status"] == "success"
    run = scheduler.history("sync")[-1]
    page = browser.get(f"/run?name=sync&slot={slots[0]}&run={run.run_id}").page
    assert "catch-up (backfilled)" in page.text
    assert (f"run?name=sync&slot={slots[0]}", "What became of the slot") in page.links


def test_more_slots_than_are_asked_for_at_once(scheduler, browse, sync, past):
    scheduler.every("often", "1m", lambda: None)
    browser = browse("act")
    page = browser.get("/job?name=often").page
    times = {"first": "2026-10-09T09:30", "last": "2026-10-09T12:00"}
    page = browser.follow(browser.press(page, "backfill", "often", **times)).page
    assert "The fleet is asked for the 100 oldest of these slots of “often”." in page.text
    assert past.orders() == 100


def test_what_can_not_be_cancelled_has_no_button(scheduler, browse, past, sync):
    past.write("sync", NOON_MS - HOUR)
    past.write("sync", NOON_MS, "running", token="a" * 16)
    for query in (f"slot={NOON_MS - HOUR}", f"slot={NOON_MS}&run={'a' * 16}"):
        assert browse("act").get(f"/run?name=sync&{query}").page.buttons == []
    without_leases = Scheduler(ClaimOnly(MemoryBackend()))
    without_leases.every("sync", "1h", lambda: None)
    browser = Browser(dashboard(without_leases, authorize=lambda _: "act", secret=SECRET))
    token = browser.get("/").page.forms[-1]["token"]
    for address in ("/", "/job?name=sync"):
        assert not {"trigger", "backfill"} & {do for do, _ in browser.get(address).page.buttons}
    more = {"first": "0", "last": "1", "slot": "0", "token": token}
    for what in ("cancel", "trigger", "backfill"):
        answer = browser.post({"do": what, "name": "sync", **more})
        assert answer.status == 400
        assert "keeps no leases" in answer.page.text


@pytest.mark.parametrize("fields", ALL, ids=lambda fields: fields["do"])
@pytest.mark.parametrize("may", ["read", None])
def test_who_may_not_act_is_refused_and_nothing_is_done(may, fields, scheduler, browse, sync, past):
    allowed, browser = browse("act"), browse(may)
    token = allowed.get("/").page.forms[-1]["token"]
    browser.cookies = allowed.cookies
    page = browser.get("/").page
    assert page.buttons == []
    assert "token" not in page.source
    asked = scheduler._options.backend.asked
    answer = browser.post({**fields, "name": "sync", "token": token})
    assert answer.status == 403
    assert scheduler._options.backend.asked == asked
    assert past.orders() == 0
    assert scheduler.history() == []
    assert "paused" not in allowed.get("/").page.text


@pytest.mark.parametrize("fields", ALL, ids=lambda fields: fields["do"])
def test_nothing_is_done_by_asking_for_a_page(fields, scheduler, browse, sync, past):
    browser = browse("act")
    token = browser.get("/").page.forms[-1]["token"]
    query = "&".join(f"{k}={v}" for k, v in {**fields, "name": "sync", "token": token}.items())
    for method in ("GET", "HEAD", "PUT"):
        answer = browser.get(f"/act?{query}", method=method)
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    # Nor by what stands in the address of a form.
    assert browser.post({"token": token}, f"/act?{query}").status == 400
    assert past.orders() == 0
    assert "paused" not in browser.get("/").page.text


def test_what_can_not_be_meant_is_told(scheduler, browse, sync, past):
    browser = browse("act")
    token = browser.get("/").page.forms[-1]["token"]
    for fields, status in (
        ({}, 400),
        ({"do": "delete", "name": "sync"}, 400),
        ({"do": "pause"}, 400),
        ({"do": "pause", "name": "nobody"}, 404),
        ({"do": "run", "name": "nobody"}, 404),
        ({"do": "pause", "name": "sync", "for": "9w"}, 400),
        ({"do": "cancel", "name": "sync"}, 400),
        ({"do": "cancel", "name": "sync", "slot": "-1"}, 400),
        ({"do": "trigger"}, 400),
        ({"do": "trigger", "name": "nobody"}, 404),
        ({"do": "backfill", "name": "sync"}, 400),
        ({"do": "backfill", "name": "sync", "first": "2026-10-01T12:00"}, 400),
        ({"do": "backfill", "name": "sync", "first": "soon", "last": "2026-10-01T12:00"}, 400),
        ({"do": "backfill", "name": "sync", "first": "0", "last": "<b>"}, 400),
        ({"do": "backfill", "name": "sync", "first": "2026-10-01", "last": "2026-09-01"}, 400),
        ({"do": "backfill", "name": "nobody", "first": "0", "last": "1"}, 404),
    ):
        answer = browser.post({**fields, "token": token})
        assert answer.status == status, fields
        assert "<h1>" in answer.page.source
        assert "<b>" not in answer.page.source
    assert past.orders() == 0
    assert "paused" not in browser.get("/").page.text


def test_the_list_is_shown_as_it_was(scheduler, browse):
    for number in range(60):
        scheduler.every(f"job-{number:02}", "1h", lambda: None, tags=["x&y"])
    browser = browse("act")
    page = browser.get("/?q=job&tag=x%26y&from=25").page
    page = browser.follow(browser.press(page, "pause", "job-30")).page
    assert page.values("data-job")[0] == "job-25"
    assert "“job-30” is paused." in page.text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"do": "pause", "name": "sync"}, "pause of 'sync', asked for by "),
        ({"do": "resume-all"}, "resume-all, asked for by "),
        (
            {"do": "cancel", "name": "a\nb", "slot": str(NOON_MS)},
            r"cancel of 'a\nb' @ 2026-10-10T12:00:00.000Z, asked for by ",
        ),
        ({"do": "trigger", "name": "sync"}, "trigger of 'sync', asked for by "),
        (
            {"do": "backfill", "name": "sync", "first": "2026-10-09", "last": "2026-10-09 12:00"},
            "backfill of 'sync' from 2026-10-09 to 2026-10-09 12:00, asked for by ",
        ),
    ],
)
def test_the_log_says_who_asked_for_what(fields, text, browse, sync, caplog):
    caplog.set_level("INFO", logger="anarchon")
    browser = browse("act")
    token = browser.get("/").page.forms[-1]["token"]
    form = {**fields, "token": token}
    for who, headers in {
        "somebody": {},
        "10.0.0.7": {"REMOTE_ADDR": "10.0.0.7"},
        r"boss\nx": {"REMOTE_ADDR": "10.0.0.7", "REMOTE_USER": "boss\nx"},
    }.items():
        caplog.clear()
        browser.post(form, **headers)
        [record] = caplog.records
        assert (record.levelname, record.getMessage()) == ("INFO", f"dashboard: {text}{who}")
        assert record.anarchon_action == fields["do"]
        assert getattr(record, "anarchon_job", None) == fields.get("name")
    caplog.clear()
    browser.post({**form, "token": "x"})
    browser.post({**form, "name": "", "do": "pause"})
    assert caplog.records == []


@pytest.mark.parametrize("where", ["//evil.example", "https://evil.example/", "../..", "\r\nX: y"])
def test_nothing_that_is_sent_leads_elsewhere(where, browse, sync):
    browser = browse("act", prefix="/jobs")
    token = browser.get("/").page.forms[-1]["token"]
    fields = {"do": "pause", "name": "sync", "token": token}
    for more in ({"back": where}, {"q": where}, {"from": where}, {"tag": where}):
        answer = browser.post({**fields, **more})
        assert answer.headers["Location"].startswith("./?")
        assert browser.follow(answer).status == 200


def test_a_store_that_is_down_is_told_and_a_run_by_hand_needs_none():
    backend, ran = FaultyBackend(MemoryBackend()), []
    scheduler = Scheduler(backend, catch_up=0)
    scheduler.every("sync", "1d", lambda: ran.append(1))
    browser = Browser(dashboard(scheduler, authorize=lambda _: "act", secret=SECRET))
    token = browser.get("/").page.forms[-1]["token"]
    with scheduler:
        backend.fail(times=math.inf)
        answer = browser.post({"do": "pause", "name": "sync", "token": token})
        assert answer.status == 503
        # Who sends a form again by accident should not be led to do so.
        assert "tries again by itself" not in answer.page.text
        assert browser.post({"do": "run", "name": "sync", "token": token}).status == 303
        until(lambda: ran, "a run")
        backend.heal()
