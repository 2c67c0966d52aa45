"""What is on the pages."""

from __future__ import annotations

import pytest

from anarchon import ConfigurationError, MemoryBackend, Scheduler
from anarchon.testing import ClaimOnly
from anarchon.web import dashboard
from tests.web.client import Browser
from tests.web.conftest import NOON_MS

HOUR = 3_600_000


def names_of(answer):
    return answer.page.values("data-job")


def walked(browser, address, word):
    """Return a page and those after it, to which a link leads that begins with a word."""
    answers = [browser.get(address)]
    for _ in range(10):
        found = [link for link, text in answers[-1].page.links if text.startswith(word)]
        if not found:
            return answers
        answers.append(browser.follow(answers[-1], found[0]))
    raise AssertionError(f"there is always one more page: {[one.address for one in answers]}")


def keys_of(answer):
    return [key for key in answer.page.values("data-key") if key.endswith("-1")]


def test_the_list_has_each_job_with_schedule_next_slot_and_tags(scheduler, browse):
    scheduler.every("sync", "90m", lambda: None, description="Copies & <cleans>.", tags=["crm"])
    scheduler.cron("digest", "0 8 * * *", lambda: None, timezone="Europe/Athens")
    scheduler.every("off", "1h", lambda: None, enabled=False)
    scheduler.once("past", "2020-01-01T00:00:00Z", lambda: None)
    answer = browse().get()
    assert answer.status == 200
    assert names_of(answer) == ["sync", "digest", "off", "past"]
    text = answer.page.text
    assert "every 1h30m Copies & <cleans>. crm" in text
    assert "in 1 h 30 m 2026-10-10 13:30:00" in text
    assert "Europe/Athens" in text
    assert "disabled" in text
    assert "no more slots" in text
    assert "4 jobs" in text


def test_a_schedule_that_can_not_be_computed_spares_the_page(scheduler, browse):
    class Broken:
        def next_after(self, t):
            raise ValueError("no moon today")

        latest = next_after

        def describe(self):
            raise RuntimeError

    scheduler.schedule("moon", Broken(), lambda: None)
    scheduler.every("sync", "1h", lambda: None)
    assert "ValueError: no moon today" in browse().get().page.text
    assert "no moon today" in browse().get("/job?name=moon").page.text


def test_the_strip_shows_the_last_runs_and_says_what_they_are(scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    for back, status in enumerate(["failed", "success", "success"], start=1):
        past.write("sync", NOON_MS - back * HOUR, status)
    past.write("sync", NOON_MS - 4 * HOUR, "lost")
    past.write("sync", NOON_MS - 4 * HOUR, attempt=2, reason="takeover", late=9000)
    page = browse().get().page
    assert "The last 4 runs: 3 success, 1 failed" in page.values("aria-label")
    bars = [given["class"] for tag, given in page.tags if tag == "rect"]
    assert bars == ["fill success", "fill success", "fill success", "fill failed"]
    assert sum(given.get("class") == "took-over" for _, given in page.tags) == 1
    assert "✕ failed 59 m ago , took 100 ms" in page.text


def test_a_skip_is_no_last_run(scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    past.write("sync", NOON_MS - 2 * HOUR, took=7)
    past.write("sync", NOON_MS - HOUR, "skipped", late=None, detail="overlap")
    assert "took 7 ms" in browse().get().page.text


def test_pauses_are_shown(scheduler, browse):
    scheduler.every("one", "1h", lambda: None)
    scheduler.every("two", "1h", lambda: None)
    scheduler.pause("one")
    assert browse().get().page.source.count('class="pill paused"') == 1
    assert "This job is paused." in browse().get("/job?name=one").page.text
    assert "paused" not in browse().get("/job?name=two").page.text
    scheduler.pause()
    assert browse().get().page.source.count('class="pill paused"') == 2
    for address in ("/", "/job?name=two"):
        assert "All jobs are paused." in browse().get(address).page.text


def test_a_store_that_can_not_say_what_is_paused_is_shown_all_the_same(browse):
    scheduler = Scheduler(ClaimOnly(MemoryBackend()))
    scheduler.every("one", "1h", lambda: None)
    board = dashboard(scheduler, authorize=lambda _: "act", secret="of this one, all the same")
    page = Browser(board).get().page
    assert "paused" not in page.text
    # Which of them is needed nobody knows, so both are there.
    assert {("pause", "one"), ("resume", "one")} < set(page.buttons)


def test_jobs_are_searched_and_filtered_by_tag(scheduler, browse):
    scheduler.every("sync-users", "1h", lambda: None, tags=["crm", "fast"])
    scheduler.every("Sync-orders", "1h", lambda: None, tags=["shop"])
    scheduler.every("report", "1h", lambda: None, description="after the SYNC of users")
    assert names_of(browse().get("/?q=sync")) == ["sync-users", "Sync-orders", "report"]
    assert names_of(browse().get("/?q=users+sync")) == ["sync-users", "report"]
    assert names_of(browse().get("/?tag=shop")) == ["Sync-orders"]
    assert "1 of 3 jobs" in browse().get("/?tag=shop").page.text
    assert "No job is like that. Show all 3" in browse().get("/?q=%3Cb%3E").page.text


def test_many_jobs_are_paged_and_the_filter_is_kept(scheduler, browse):
    for number in range(60):
        scheduler.every(f"job-{number:02}", "1h", lambda: None)
    scheduler.every("other", "1h", lambda: None)
    browser = browse()
    answers = walked(browser, "/?q=job", "Next")
    seen = [name for answer in answers for name in names_of(answer)]
    assert seen == [f"job-{number:02}" for number in range(60)]
    answer = answers[-1]
    [back] = [link for link, text in answer.page.links if text.endswith("Previous")]
    assert names_of(browser.follow(answer, back))[0] == "job-25"


def test_no_job_and_no_run(browse):
    assert "No job is defined on this scheduler." in browse().get().page.text
    assert "No runs." in browse().get("/runs").page.text


# --- one job ------------------------------------------------------------------------


def test_a_job_has_its_slots_in_its_zone_and_its_options(scheduler, browse):
    scheduler.cron("digest", "0 8 * * *", lambda: None, timezone="Europe/Athens", timeout="90s")
    page = browse().get("/job?name=digest").page
    assert "2026-10-11 05:00:00 2026-10-11 08:00:00+03:00 in Europe/Athens in 17 h" in page.text
    assert "timeout 1 m 30 s" in page.text
    assert "No runs yet." in page.text


def test_a_lane_tells_lateness_attempts_and_takeovers(scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    slot = NOON_MS - HOUR
    past.write("sync", slot, "lost", late=200, detail="runner died")
    past.write("sync", slot, attempt=2, reason="takeover", late=31_000, took=2000)
    past.write("sync", slot - HOUR, "skipped", late=None, detail="overlap")
    past.write("sync", slot - 2 * HOUR, "running", late=50)
    page = browse().get("/job?name=sync").page
    lanes = [given for tag, given in page.tags if given.get("class") == "lane"]
    assert [lane["aria-label"] for lane in lanes] == [
        "started 200 ms after its slot; attempt 1 lost (runner died); attempt 2 success after 2 s",
        "skipped (overlap)",
        "started 50 ms after its slot; attempt 1 lost (runner died)",
    ]
    kinds = [given.get("class") for _, given in page.tags]
    assert kinds.count("late") == 2
    assert kinds.count("took-over") == 1
    assert page.values("data-status") == ["success", "skipped", "lost"]
    assert "2 attempts" in page.text
    assert "Successful 50 %" in page.text
    assert "Takeovers 1" in page.text


def test_lanes_are_paged_and_none_is_shown_twice(scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    slots = [NOON_MS - back * HOUR for back in range(1, 91)]
    for slot in slots:
        past.write("sync", slot)
    first, *others = answers = walked(browse(), "/job?name=sync", "Older")
    assert "The 40 newest runs" in first.page.text
    assert not any("newest runs" in answer.page.text for answer in others)
    keys = [key for answer in answers for key in answer.page.values("data-key") if "@" in key]
    assert keys == [f"{slot}-sync@{slot}" for slot in slots]


def test_a_job_that_is_gone_is_shown_as_long_as_it_has_records(browse, past):
    past.write("old", NOON_MS - HOUR)
    page = browse("act").get("/job?name=old").page
    assert "not defined in the process that shows this page" in page.text
    assert page.buttons == []
    answer = browse().get("/job?name=never-heard-of")
    assert answer.status == 404
    assert "“never-heard-of” is not defined here" in answer.page.text


# --- runs ---------------------------------------------------------------------------


def test_runs_are_filtered_by_job_and_status(scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    past.write("sync", NOON_MS - HOUR, "failed", error="ValueError: <no> such table")
    past.write("sync", NOON_MS - 2 * HOUR)
    past.write("gone", NOON_MS - 3 * HOUR, "failed", error="x" * 500)
    browser = browse()
    assert browser.get("/runs").page.values("data-status") == ["failed", "success", "failed"]
    assert browser.get("/runs?job=sync&status=failed").page.values("data-status") == ["failed"]
    page = browser.get("/runs?job=gone").page
    assert page.values("data-status") == ["failed"]
    assert ("option", {"value": "gone", "selected": ""}) in page.tags
    assert f"{'x' * 117}..." in page.text
    assert "ValueError: <no> such table" in browser.get("/runs").page.text
    assert browser.get("/runs?status=great").status == 400


@pytest.mark.parametrize("query", ["", "job=a%2Fb", "status=success", "job=a%2Fb&status=success"])
def test_runs_are_paged_also_where_many_are_of_one_slot(query, scheduler, browse, past):
    wanted = []
    for number in range(160):
        job = "a/b" if "job" in query or number % 2 else f"other {number}"
        token = f"{number:016x}" if number % 3 == 0 else ""
        past.write(job, NOON_MS + (number if job == "a/b" and not token else 0), token=token)
        wanted.append(token or f"{job}@{NOON_MS + (number if job == 'a/b' else 0)}")
    browser = browse()
    answers = walked(browser, f"/runs?{query}", "Older")
    seen = [key for answer in answers for key in keys_of(answer)]
    assert len(answers) == 4
    assert sorted(seen) == sorted(f"{run_id}-1" for run_id in wanted)
    answer = answers[-1]
    [newest] = [link for link, text in answer.page.links if text.endswith("Newest")]
    assert browser.follow(answer, newest).page.values("data-key")[1:] == seen[:50]


# --- one run ------------------------------------------------------------------------


def test_a_run_has_all_its_attempts_with_error_and_traceback(scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    slot = NOON_MS - HOUR
    past.write("sync", slot, "lost", late=200, detail="runner died", instance="web-1:7")
    trace = 'Traceback:\n  File "jobs.py", line 4\nValueError: <no>\x1b[31m\u202e such table\n'
    more = {"error": "ValueError: <no> such table", "traceback": trace, "instance": "web-2:9"}
    past.write("sync", slot, "failed", attempt=2, reason="takeover", late=31_000, **more)
    past.write("sync", slot - HOUR)
    page = browse().get(f"/run?name=sync&slot={slot}").page
    assert page.values("data-attempt") == ["1", "2"]
    assert "failed at attempt 2: ValueError: <no> such table" in page.text.replace("✕ ", "")
    for fact in ("web-1:7", "web-2:9", "runner died", "takeover", "2026-10-10 11:00:31.100"):
        assert fact in page.text
    # What would colour, hide or turn round the text is written out.
    assert r"ValueError: <no>\x1b[31m\u202e such table" in page.text
    before = next(link for link, text in page.links if "Run before" in text)
    assert browse().get(before.removeprefix(".")).page.values("data-status") == ["success"]


def test_two_by_hand_and_a_slot_of_one_millisecond_have_three_pages(scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    past.write("sync", NOON_MS, token="a" * 16, took=1, reason="manual")
    past.write("sync", NOON_MS, token="b" * 16, took=2, reason="manual")
    past.write("sync", NOON_MS, took=3)
    browser = browse()
    answer = browser.get("/runs")
    links = [link for link, text in answer.page.links if "2026-10-10 12:00:00" in text]
    pages = [browser.follow(answer, link).page for link in links]
    assert sorted(page.text.count(f"Took {ms} ms") for page in pages for ms in (1, 2, 3)) == [
        *[0] * 6,
        *[1] * 3,
    ]
    assert "Run id" in "".join(page.text for page in pages)
    assert browser.get(f"/run?name=sync&slot={NOON_MS}&run={'c' * 16}").status == 404


def test_a_slot_without_a_record_is_explained(scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    browser = browse()
    explained = {
        NOON_MS + HOUR: "future it is due in 1h",
        NOON_MS - HOUR: "too late no instance with this job asked",
        NOON_MS - 5: "no slot the job is not due then",
    }
    for slot, words in explained.items():
        assert words in browser.get(f"/run?name=sync&slot={slot}").page.text
    assert browser.get(f"/run?name=nobody&slot={NOON_MS}").status == 404


def test_a_slot_that_was_missed_together_with_a_later_one(scheduler, browse, past):
    scheduler.every("sync", "1h", lambda: None)
    detail = f"3 slots, since {NOON_MS - 3 * HOUR}"
    past.write("sync", NOON_MS - HOUR, "missed", late=None, detail=detail)
    answer = browse().get(f"/run?name=sync&slot={NOON_MS - HOUR}")
    assert answer.status == 200
    assert answer.page.values("data-status")[0] == "missed"


# --- options --------------------------------------------------------------------------


def test_options_that_can_not_be_meant_are_refused():
    scheduler = Scheduler(MemoryBackend())
    for options in (
        {"refresh": "10ms"},
        {"refresh": "soon"},
        {"authorize": "act", "secret": "s" * 16},
        {"authorize": lambda environ: "act"},
        {"authorize": lambda environ: "act", "secret": "short"},
        {"authorize": lambda environ: "act", "secret": 42},
    ):
        with pytest.raises(ConfigurationError, match="dashboard"):
            dashboard(scheduler, **options)
    with pytest.raises(ConfigurationError, match="no scheduler"):
        dashboard(Scheduler)
    page = Browser(dashboard(scheduler, title="Jobs of <shop>", refresh=0)).get().page
    assert "Jobs of <shop>" in page.text
    assert page.values("data-refresh") == ["0"]
