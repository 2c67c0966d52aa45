"""A span for each attempt: what it says, what is below it, and how attempts are linked."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import StatusCode

from anarchon import Aborted, MemoryBackend, SqliteBackend
from anarchon.contrib._identity import identity_of
from anarchon.contrib._opentelemetry_spans import key_of, trace_id_of
from anarchon.contrib.opentelemetry import instrument

SLOT = 1_791_633_660_000  # 2026-10-10T12:01:00Z
ROOT = Path(__file__).resolve().parent.parent.parent


def nothing():
    pass


class Traced:
    """A provider of tracers that keeps the spans which have ended."""

    def __init__(self, service="shop", **options):
        resource = Resource({"service.name": service})
        self.provider = TracerProvider(resource=resource, **options)
        self._kept = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    @property
    def spans(self):
        return self._kept.get_finished_spans()

    @property
    def runs(self):
        return [span for span in self.spans if span.name.startswith("run ")]


@pytest.fixture
def traced():
    return Traced()


@pytest.fixture
def run_once(make, clock, traced):
    """Run a handler once, at a slot, with the spans of `traced`."""

    def run(handler, scheduler=None, **options):
        scheduler = scheduler or make(instance_id="web:1")
        scheduler.every("job", "1m", handler, **options)
        instrument(scheduler, tracer_provider=traced.provider)
        clock.attach(scheduler)
        with scheduler:
            clock.advance("80s")
        [span] = traced.runs
        return span

    return run


def test_an_attempt_is_a_span_with_what_is_known_of_it(run_once):
    span = run_once(nothing)
    assert (span.name, span.parent, span.links) == ("run job", None, ())
    assert span.instrumentation_scope.name == "anarchon"
    assert dict(span.attributes) == {
        "anarchon.namespace": "anarchon",
        "anarchon.job.name": "job",
        "anarchon.run.id": f"job@{SLOT}",
        "anarchon.run.slot": SLOT,
        "anarchon.run.scheduled_at": "2026-10-10T12:01:00.000Z",
        "anarchon.run.attempt": 1,
        "anarchon.run.reason": "scheduled",
        "anarchon.instance.id": "web:1",
        "code.function.name": f"{__name__}.nothing",
    }
    assert span.status.status_code is StatusCode.UNSET


def test_tags_of_the_job_are_an_attribute(run_once):
    assert run_once(nothing, tags=["money", "night"]).attributes["anarchon.job.tags"] == (
        "money",
        "night",
    )


def test_spans_of_the_handler_are_below_it(run_once, traced):
    tracer = traced.provider.get_tracer("of the application")

    def handler():
        with tracer.start_as_current_span("inside"):
            pass

    span = run_once(handler)
    inside = next(span for span in traced.spans if span.name == "inside")
    assert inside.parent.span_id == span.context.span_id
    assert inside.context.trace_id == span.context.trace_id


def test_spans_of_a_coroutine_are_below_it(run_once, traced):
    tracer = traced.provider.get_tracer("of the application")

    async def handler():
        with tracer.start_as_current_span("inside"):
            pass

    span = run_once(handler)
    inside = next(span for span in traced.spans if span.name == "inside")
    assert inside.parent.span_id == span.context.span_id


def test_the_users_around_is_inside(make, run_once):
    seen = []

    @contextmanager
    def around(ctx):
        seen.append(trace.get_current_span().get_span_context().span_id)
        yield
        seen.append("left")

    span = run_once(lambda: seen.append("called"), make(around=around))
    assert seen == [span.context.span_id, "called", "left"]
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_it_is_a_root_whatever_is_current(make, clock, traced):
    """Else it would be in another trace than the attempts before it."""
    scheduler, tracer = make(), traced.provider.get_tracer("of the application")
    scheduler.every("job", "1m", nothing)
    instrument(scheduler, tracer_provider=traced.provider)
    options = scheduler._options

    @contextmanager
    def outside(ctx):
        with tracer.start_as_current_span("outside"), options.around(ctx):
            yield

    scheduler._options = options._replace(around=outside)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1m")
    [span] = traced.runs
    assert span.parent is None
    assert {span.name for span in traced.spans} == {"outside", "run job"}


class Odd(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("no such table"), "ValueError", "ValueError: no such table"),
        (SystemExit(3), "SystemExit", "SystemExit: 3"),
        (Odd(), f"{__name__}.Odd", "Odd: (no text: its str() raised RuntimeError)"),
        (Aborted("by myself", "stop"), "anarchon.errors.Aborted", "Aborted: by myself"),
    ],
)
def test_a_failure_is_recorded(run_once, error, kind, text):
    def handler():
        raise error

    span = run_once(handler)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, text)
    assert span.attributes["error.type"] == kind
    [event] = span.events
    assert event.name == "exception"
    assert event.attributes["exception.type"] == kind
    assert "in handler" in event.attributes["exception.stacktrace"]


def test_a_timeout_is_an_error_without_the_exception_that_it_sets_off(run_once):
    span = run_once(lambda ctx: ctx.signal.sleep("50s"), timeout="5s")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "timeout"
    assert span.attributes["anarchon.run.abort_reason"] == "timeout"
    assert span.events == ()


def test_attempts_of_a_run_are_linked_and_an_interruption_is_no_error(handed_over):
    one, two = Traced(), Traced()
    providers = iter((one.provider, two.provider))
    handed_over(lambda scheduler: instrument(scheduler, tracer_provider=next(providers)))
    [first], [second] = one.runs, two.runs
    assert first.status.status_code is StatusCode.UNSET
    assert first.attributes["anarchon.run.abort_reason"] == "stop"
    assert first.events == ()
    assert second.attributes["anarchon.run.attempt"] == 2
    [link] = second.links
    assert (link.context.trace_id, link.context.span_id) == (
        first.context.trace_id,
        first.context.span_id,
    )
    assert link.context.is_remote
    assert dict(link.attributes) == {"anarchon.run.attempt": 1}
    assert second.context.trace_id == first.context.trace_id
    assert second.context.span_id != first.context.span_id
    assert second.parent is None


FIRST = """
    import sys, threading
    from datetime import datetime
    from anarchon import Scheduler, SqliteBackend
    from anarchon.contrib.opentelemetry import instrument
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    provider, begun = TracerProvider(resource=Resource({"service.name": "shop"})), threading.Event()

    def handler(ctx):
        found = trace.get_current_span().get_span_context()
        print(found.trace_id, found.span_id)
        begun.set()
        ctx.signal.wait(20)
        ctx.signal.raise_if_aborted()

    scheduler = Scheduler(SqliteBackend("jobs.db"), lease=3)
    scheduler.once("job", datetime.fromisoformat(sys.argv[1]), handler)
    instrument(scheduler, tracer_provider=provider)
    with scheduler:
        begun.wait(20)
"""


def test_attempts_of_two_processes_are_linked(tmp_path, make, traced):
    import textwrap
    from datetime import UTC, datetime

    slot = datetime.now(UTC).replace(microsecond=0)
    program = textwrap.dedent(FIRST)
    done = subprocess.run(
        [sys.executable, "-c", program, slot.isoformat()],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    ended = threading.Event()
    scheduler = make(SqliteBackend(tmp_path / "jobs.db"), catch_up="1h")
    scheduler.once("job", slot, ended.set)
    instrument(scheduler, tracer_provider=traced.provider)
    with scheduler:
        assert ended.wait(20)
    [span] = traced.runs
    [link] = span.links
    ids = (link.context.trace_id, link.context.span_id)
    assert ids == tuple(map(int, done.stdout.split()))


def ids_of(make, clock, traced, backend):
    scheduler = make(backend)
    scheduler.every("job", "1m", lambda: None)
    instrument(scheduler, tracer_provider=traced.provider)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1m")
    return traced.runs[-1].context


def test_other_fleets_have_other_ids(make, clock, tmp_path):
    """By their stores, their namespaces, and their services."""
    from datetime import UTC, datetime

    from anarchon.testing import ManualClock

    stores = [
        MemoryBackend(),
        MemoryBackend(),
        SqliteBackend(tmp_path / "one.db"),
        SqliteBackend(tmp_path / "two.db"),
        SqliteBackend(tmp_path / "two.db", namespace="other"),
    ]
    found = set()
    for store in stores:
        at_noon = ManualClock(datetime(2026, 10, 10, 12, 0, tzinfo=UTC))
        context = ids_of(make, at_noon, Traced(), store)
        found.add(context.trace_id)
        found.add(context.span_id)
    assert len(found) == 10


def test_other_services_have_other_ids(make, clock, tmp_path):
    backend = SqliteBackend(tmp_path / "one.db")
    context = ids_of(make, clock, Traced("bakery"), backend)
    ids = {
        name: trace_id_of(key_of(identity_of(backend, ["", name, "", ""])), f"job@{SLOT}")
        for name in ("bakery", "shop")
    }
    assert context.trace_id == ids["bakery"] != ids["shop"]


def test_containers_that_share_a_file_are_one_fleet(tmp_path):
    (tmp_path / "one.db").touch()
    (tmp_path / "two.db").hardlink_to(tmp_path / "one.db")
    (tmp_path / "other.db").touch()
    one, two, other, no = (
        identity_of(SqliteBackend(tmp_path / f"{name}.db"), ())
        for name in ("one", "two", "other", "no")
    )
    assert one == two
    assert len({one, other, no}) == 3


def test_the_samplers_word_counts(make, clock):
    """There is no parent that overrules it, and computed ids are spread as random ones are."""
    traced = Traced(sampler=ParentBased(ALWAYS_OFF))
    scheduler = make()
    scheduler.every("job", "1m", nothing)
    instrument(scheduler, tracer_provider=traced.provider)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1m")
        assert scheduler.last_run("job").status == "success"
    assert traced.spans == ()
    sampler = TraceIdRatioBased(0.3)
    ids = [trace_id_of(b"fleet", f"job@{slot}") for slot in range(3000)]
    kept = [found for found in ids if sampler.should_sample(None, found, "").decision.is_sampled()]
    assert 800 < len(kept) < 1000


def test_the_global_provider_may_come_after_the_start(make, clock, monkeypatch):
    traced, scheduler = Traced(), make()
    scheduler.every("job", "1m", lambda: None)
    instrument(scheduler)
    clock.attach(scheduler)
    with scheduler:
        clock.advance("1m")
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", traced.provider)
        clock.advance("1m")
    [span] = traced.runs
    assert span.attributes["anarchon.run.slot"] == SLOT + 60_000
    identity = identity_of(scheduler._options.backend, ["", "shop", "", ""])
    assert span.context.trace_id == trace_id_of(key_of(identity), f"job@{SLOT + 60_000}")


class Foreign(trace.TracerProvider):
    """A provider whose tracers have no generator of ids."""

    def __init__(self):
        self.started = []

    def get_tracer(self, *_, **__):
        return self

    def start_span(self, name, context=None, **options):
        self.started.append((name, options["links"]))
        return trace.INVALID_SPAN


def test_where_ids_can_not_be_known_nothing_is_linked(handed_over):
    foreign = Foreign()
    handed_over(lambda scheduler: instrument(scheduler, tracer_provider=foreign))
    assert foreign.started == [("run job", [])] * 2


def test_tracing_that_raises_is_told_once_and_handlers_run(make, clock, caplog):
    class Broken(trace.TracerProvider):
        def get_tracer(self, *_, **__):
            raise OSError("no tracer")

    scheduler, ran = make(), []
    scheduler.every("job", "1m", lambda: ran.append(1))
    instrument(scheduler, tracer_provider=Broken())
    clock.attach(scheduler)
    with scheduler:
        clock.advance("3m")
        assert scheduler.last_run("job").status == "success"
    assert len(ran) == 3
    assert [r.message.splitlines()[0] for r in caplog.records] == ["a run could not be traced"]


def test_two_schedulers_on_one_provider(make, clock, traced):
    for name in ("one", "two"):
        scheduler = make(MemoryBackend(namespace=name))
        scheduler.every("job", "1m", lambda: None)
        instrument(scheduler, tracer_provider=traced.provider)
        clock.attach(scheduler)
        scheduler.start()
    clock.advance("2m")
    assert len({span.context.span_id for span in traced.runs}) == 4
    assert {span.attributes["anarchon.namespace"] for span in traced.runs} == {"one", "two"}
