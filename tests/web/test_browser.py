"""The pages in a real browser: what is clicked, what is refused, and who can use them."""

from __future__ import annotations

import re
import threading
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest

from anarchon import MemoryBackend, Scheduler
from anarchon.testing import FaultyBackend
from anarchon.web import dashboard, mounted
from tests.commands.presences import present
from tests.facade.helpers import until
from tests.servers.chromium import launched
from tests.web.client import SECRET
from tests.web.conftest import NOON_MS, Past

PREFIX = "/ops/jobs"
TIMEOUT_MS = 20_000
HOUR = 3_600_000
NAME = 'a/b & "100%" <b>ת</b>'
FAILED = f"run?name=sync&slot={NOON_MS - 62 * HOUR}"
BACKFILLED = f"run?name=sync&slot={NOON_MS - 61 * HOUR}"
ADDRESSES = ["", "job?name=sync", "runs", f"run?name=sync&slot={NOON_MS}", FAILED, "nowhere"]
ADDRESSES += [BACKFILLED, f"{BACKFILLED}&run=backfill-1-1", "instances"]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        """Write no line for each request."""


class Site:
    """A host with a dashboard below a prefix; the cookie `may` says what somebody may do."""

    def __init__(self, past) -> None:
        self.release = threading.Event()
        self.scheduler = Scheduler(past.store, catch_up=0, lease=3, heartbeat="500ms", workers=1)
        self.scheduler.every("sync", "1d", lambda: None, description="Copies.", tags=["crm"])
        self.scheduler.every("bad", "1d", self.bad)
        self.scheduler.every(NAME, "1d", lambda: None)
        board = dashboard(
            self.scheduler, authorize=self.may, secret=SECRET, refresh="1s", title="Jobs of a shop"
        )
        self.server = make_server("127.0.0.1", 0, mounted(self.other, PREFIX, board), Server, Quiet)
        self.base = f"http://127.0.0.1:{self.server.server_port}{PREFIX}/"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def bad(self):
        raise ValueError("no such <table>")

    def may(self, environ):
        found = re.search(r"may=(\w+)", environ.get("HTTP_COOKIE", ""))
        return found[1] if found else None

    def other(self, environ, start_response):
        """Be a page of the same host that would send a form of its own."""
        start_response("200 OK", [("Content-Type", "text/html")])
        fields = "<input name=do value=pause><input name=name value=sync><input name=token>"
        return [f"<form method=post action={PREFIX}/act>{fields}<button>Go</button>".encode()]

    def __enter__(self):
        self.scheduler.start()
        self.thread.start()
        # The thread of the worker that stays is one of all tests, and none that a test leaves.
        self.scheduler.every("warm-up", "1d", lambda: None)
        self.scheduler.trigger("warm-up")
        until(lambda: self.scheduler.last_run("warm-up", status="success"), "a run")
        self.scheduler.remove("warm-up")
        return self

    def __exit__(self, *_):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        self.scheduler.stop(5)


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    past = Past(tmp_path_factory.mktemp("browser") / "jobs.db")
    for back in range(60):
        past.write("sync", NOON_MS - back * HOUR, "failed" if back % 9 == 4 else "success")
    slot = NOON_MS - 61 * HOUR
    past.write("sync", slot, "lost", detail="runner died", late=50)
    past.write("sync", slot, attempt=2, reason="takeover", late=31_000)
    past.write("sync", slot, token="backfill-1-1", reason="catch-up", late=62 * HOUR)
    error = {"error": "ValueError: no such <table>", "traceback": "File a\n" + "x" * 400}
    past.write("sync", slot - HOUR, "failed", **error)
    past.write("sync", slot - 2 * HOUR, "skipped", late=None, detail="overlap")
    past.write("sync", slot - 3 * HOUR, "missed", late=None)
    present(past.path, "web-1", tzdata="2020a")
    present(past.path, "a-very-long-name-" * 20, running=2, jobs={"sync": "2"})
    present(past.path, "web-3", expected=-HOUR)
    yield past
    past.close()


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def site(past):
    with Site(past) as site:
        yield site


@pytest.fixture
def opened(chromium, site):
    """Open a page as somebody who may `may`; nothing may be reported to its console."""
    contexts, said = [], []

    def opened(address="", *, may="act", where=site, **how):
        context = chromium.new_context(base_url=where.base, **how)
        contexts.append(context)
        context.add_cookies([{"name": "may", "value": may, "url": where.base}])
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.on("console", lambda line: said.append(line.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(address)
        page.said = said
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []


def button(page, name, about=""):
    return page.get_by_role("button", name=f"{name} {about}".strip(), exact=True)


def notice(page):
    return page.locator("[data-done]").inner_text()


def test_from_the_list_to_a_traceback(opened):
    page = opened(may="read")
    assert page.title() == "Jobs · Jobs of a shop"
    assert page.locator("tr[data-job]").count() == 3
    page.fill("#q", "copies")
    page.press("#q", "Enter")
    assert page.locator("tr[data-job]").count() == 1
    page.click("tr[data-job] a.name")
    assert page.locator("h1").inner_text() == "sync"
    assert page.locator("li[data-status]").count() == 40
    page.click("a[rel=next]")
    taken_over = page.locator("li[data-status]", has_text="2 attempts")
    assert taken_over.locator("svg rect").count() == 2
    assert taken_over.locator("svg circle").count() == 1
    assert "attempt 1 lost" in taken_over.locator("svg").get_attribute("aria-label")
    page.click("text=As a list, with filters")
    page.select_option("#status", "failed")
    page.click("button:text-is('Filter')")
    rows = page.locator("tr[data-status]")
    assert rows.count() > 5
    assert page.locator("tr[data-status=failed]").count() == rows.count()
    page.locator("tr[data-status] th a").last.click()
    assert page.locator("[data-attempt] .error").inner_text() == "ValueError: no such <table>"
    assert page.locator("[data-attempt] pre").inner_text().startswith("File a")
    # Wide tracebacks scroll by themselves, also with the keyboard.
    page.focus("pre")
    page.keyboard.press("ArrowRight")
    # `wait_for_function` of Playwright evaluates texts, which the policy of the pages forbids.
    until(lambda: page.evaluate("document.querySelector('pre').scrollLeft > 0"), "scrolled")


def test_who_is_there(opened, site):
    page = opened(may="read")
    page.click("nav >> text=Instances")
    assert page.locator("h1").inner_text() == "Instances"
    states = page.locator("tr[data-state]")
    assert sorted(one.get_attribute("data-state") for one in states.all()) == [
        *("idle", "idle", "running", "silent"),
    ]
    here = page.locator("tr", has_text=site.scheduler.instance_id)
    assert "idle" in here.inner_text()
    assert "silent" in page.locator("tr[data-state=silent]").inner_text()
    told = page.locator("[data-concern]").all_inner_texts()
    assert ["differs between" in told[0], "time zone databases" in told[1]] == [True, True]


def test_each_button(opened, site):
    page = opened()
    button(page, "Run now", NAME).click()
    assert f"“{NAME}” runs now" in notice(page)
    assert "done=" not in page.url  # so a reload says nothing again
    until(lambda: site.scheduler.last_run(NAME, status="success"), "a run")
    button(page, "Trigger", NAME).click()
    assert f"The fleet is asked for a run of “{NAME}”" in notice(page)
    until(lambda: site.scheduler.history(NAME)[0].run_id.startswith("trigger-"), "a run")
    button(page, "Pause", NAME).click()
    assert "is paused" in notice(page)
    page.locator("tr", has_text="paused").get_by_role("link", name=NAME).click()
    assert page.locator("h1").inner_text() == NAME
    assert "This job is paused." in page.locator("main").inner_text()
    button(page, "Resume").click()
    assert "goes on with its next slot" in notice(page)
    page.select_option("#pause-for", "1h")
    button(page, "Pause").click()
    button(page, "Resume").click()
    page.goto("")
    page.click("summary")
    button(page, "Pause all jobs").click()
    assert "All jobs are paused" in notice(page)
    page.click("summary")
    button(page, "Resume all jobs").click()
    assert page.locator(".notice.warn").count() == 0


def test_past_slots_are_backfilled(opened, site):
    page = opened("job?name=bad")
    page.click("summary")
    button(page, "Backfill").click()
    assert page.locator("[data-done]").count() == 0  # the browser asks for both times
    page.fill("#first", "2026-10-05T00:00")
    page.fill("#last", "2026-10-08T23:59:59")
    button(page, "Backfill").click()
    assert "The fleet is asked for these slots of “bad”" in notice(page)
    asked = page.locator("li[data-status=failed]", has_text="backfilled")
    until(lambda: asked.count() == 4, "four runs")
    asked.last.locator("a").click()
    assert "backfilled" in page.locator("[data-attempt]").inner_text()
    page.click("text=What became of the slot")
    assert "too late" in page.locator("main").inner_text()
    assert page.locator("[data-attempt][data-status=failed] .error").count() == 1


def test_a_run_is_cancelled(opened, site, past):
    begun, reasons = threading.Event(), []

    def handler(ctx):
        begun.set()
        ctx.signal.wait(30)
        reasons.append(ctx.signal.reason)
        ctx.signal.raise_if_aborted()

    other = Scheduler(past.store, catch_up=0, lease=3, heartbeat="500ms", jitter=0)
    other.every("long", "1s", handler)
    with other:
        assert begun.wait(20)
        [run] = [run for run in other.history("long") if run.status == "running"]
        page = opened(f"run?name=long&slot={run.slot}")
        page.click("summary")
        button(page, "Cancel the run").click()
        assert "was told to end" in notice(page)
        # The page hears of it by itself.
        page.locator("[data-attempt][data-status=interrupted]").wait_for()
        other.remove("long")
    assert reasons[0] == "cancel"


def test_who_may_only_look_has_no_button_and_is_refused(opened, site):
    page = opened(may="read")
    assert sorted(page.get_by_role("button").all_inner_texts()) == ["Filter", "Live"]
    answer = page.request.post("act", form={"do": "pause", "name": "sync"})
    assert answer.status == 403
    page = opened(may="act")
    answer = page.request.post("act", form={"do": "pause", "name": "sync", "token": "x"})
    assert answer.status == 403
    assert page.locator(".pill.paused").count() == 0


def test_a_form_of_another_page_is_refused(opened, site):
    page = opened()
    page.goto(site.base.replace(PREFIX, "/other"))
    page.click("button")
    assert "This form is no longer valid" in page.locator("main").inner_text()
    page.goto(site.base.replace("127.0.0.1", "localhost").replace(PREFIX, "/other"))
    page.evaluate(f"document.forms[0].action = '{site.base}act'")
    page.click("button")
    assert (
        "Not from here" in page.locator("main").inner_text()
        or "Not allowed" in page.locator("main").inner_text()
    )
    page.said.clear()  # Chromium reports the two refusals


def test_what_is_new_comes_by_itself_and_nothing_else_changes(opened, site, past):
    page = opened()
    page.click("summary")
    link = page.locator("tr[data-job=bad] a.name")
    link.focus()
    link.evaluate("one => { one.marked = true }")
    site.scheduler.run_now("bad")
    page.locator("tr[data-job=bad] .pill.failed").wait_for()
    assert link.evaluate("one => one === document.activeElement && one.marked")
    assert page.locator("details").get_attribute("open") is not None
    # What is paused by its reader stays as it is.
    live = button(page, "Live")
    live.click()
    assert live.get_attribute("aria-pressed") == "false"
    before = page.locator("#fresh").inner_text()
    site.scheduler.run_now("bad")
    page.wait_for_timeout(1500)
    assert page.locator("#fresh").inner_text() == before
    live.click()
    until(lambda: page.locator("#fresh").inner_text() != before, "something new")


def test_without_scripts_all_of_it_works(opened):
    page = opened(java_script_enabled=False)
    assert not button(page, "Live").is_visible()
    button(page, "Pause", "sync").click()
    assert "is paused" in notice(page)
    button(page, "Resume", "sync").click()
    assert "goes on" in notice(page)


def test_an_outage_is_told_and_its_end_is_noticed(opened):
    backend = FaultyBackend(MemoryBackend())

    class Shaky(Site):
        def __init__(self):
            super().__init__(type("Past", (), {"store": backend}))

    with Shaky() as shaky:
        page = opened("", where=shaky)
        backend.fail("history", times=10**6)
        page.locator("[data-stale]", has_text="The store can't be reached").wait_for()
        assert page.locator("tr[data-job]").count() == 3
        page.goto("runs")
        assert "The store can't be reached" in page.locator("h1").inner_text()
        backend.heal()
        page.locator("h1", has_text="Runs").wait_for()
        page.context.close()
    page.said.clear()  # Chromium reports each answer of 503


def test_the_keyboard_is_enough(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    reached = []
    page.keyboard.press("Tab")
    # After the last one comes the browser's own bar, or the first one again.
    while not page.evaluate("document.activeElement.matches('body, .skip')"):
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline in ("solid", "auto"), reached
        page.keyboard.press("Tab")
    assert {f"Run now {job}" for job in ("sync", "bad", NAME)} <= set(reached)
    assert "sync" in reached


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1280, "light")])
def test_everybody_can_use_it_on_any_screen(width, scheme, opened, tmp_path):
    """The rules of axe, all of them; and nothing is wider than the screen."""
    from axe_playwright_python.sync_playwright import Axe

    page = opened(viewport={"width": width, "height": 800}, color_scheme=scheme)
    for address in ADDRESSES:
        page.goto(address)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        page.screenshot(path=tmp_path / f"{re.sub(r'[^a-z]', '-', address)}.png", full_page=True)
        found = Axe().run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], address
        assert page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ), address
        small = page.evaluate(
            "[...document.querySelectorAll('button, select, input, summary')]"
            ".filter(one => one.offsetParent && one.type !== 'hidden' && one.offsetHeight < 24)"
            ".map(one => one.outerHTML)"
        )
        assert small == [], address
    page.said.clear()  # Chromium reports the answer of 404
