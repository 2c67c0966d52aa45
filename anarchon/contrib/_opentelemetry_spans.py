"""A span for each attempt, by OpenTelemetry's API.

The ids of a span are computed from the run and the number of the attempt, so the process that
runs attempt 2 knows the ids of attempt 1 without having asked anybody. The API has no way to say
which id a span shall have, but the SDK's tracers ask a generator of theirs. Where a tracer has
none, ids stay random, and nothing can be linked.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

from opentelemetry import context, trace
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from .. import __version__
from .._named import NamedTuple
from .._texts import clean, said
from .._traces import described
from .._values import moment
from ._identity import identity_of
from ._watching import Watcher, handler_name, run_id_of, tags_of

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType

    from opentelemetry.trace import Span, Tracer, TracerProvider

    from ..context import Context
    from ..scheduler import Scheduler

    Attributes: TypeAlias = dict[str, str | int | tuple[str, ...]]

SCOPE = "anarchon"

# Of the attributes of a resource, those that set one service's spans apart from another's.
_SERVICE = (
    "service.namespace",
    "service.name",
    "deployment.environment.name",
    "deployment.environment",
)
_LONGEST_STATUS = 500


class Ids:
    """Generates the ids of the spans of one tracer: those that were asked for, else random ones."""

    def __init__(self, random: Any) -> None:
        self._random = random
        self._asked = threading.local()

    def ask(self, trace_id: int, span_id: int) -> None:
        """Have these ids in the next span that this thread starts."""
        self._asked.ids = trace_id, span_id

    def generate_trace_id(self) -> int:
        """Return the id of a trace."""
        ids = getattr(self._asked, "ids", None)
        return self._random.generate_trace_id() if ids is None else ids[0]  # type: ignore[no-any-return]

    def generate_span_id(self) -> int:
        """Return the id of a span."""
        ids, self._asked.ids = getattr(self._asked, "ids", None), None
        return self._random.generate_span_id() if ids is None else ids[1]  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        """Answer whatever else a tracer asks as the tracer's own generator does."""
        return getattr(self._random, name)


class Source(NamedTuple):
    """A tracer, and what it takes to know the ids of its spans, if they can be known."""

    provider: TracerProvider
    tracer: Tracer
    ids: Ids | None
    key: bytes  # what sets the ids of this fleet apart from those of others


def trace_id_of(key: bytes, run_id: str) -> int:
    """Return the id of the trace that all attempts of a run are in."""
    data = blake2b(run_id.encode(errors="backslashreplace"), digest_size=16, key=key)
    return int.from_bytes(data.digest(), "big") or 1


def span_id_of(trace_id: int, attempt: int) -> int:
    """Return the id of the span of an attempt."""
    data = blake2b(f"{trace_id:032x} {attempt}".encode(), digest_size=8)
    return int.from_bytes(data.digest(), "big") or 1


def key_of(identity: bytes) -> bytes:
    """Return what the ids of the spans of a fleet are computed with."""
    return blake2b(identity, digest_size=32).digest()


class Spans(Watcher):
    """Has each attempt run in a span of its own."""

    def __init__(self, scheduler: Scheduler, provider: TracerProvider | None) -> None:
        super().__init__(scheduler, "instrument()")
        self._provider = provider
        self._source: Source | None = None
        self._jobs: dict[str, tuple[object, Attributes]] = {}
        backend = scheduler._options.backend  # noqa: SLF001 - of this package
        self._namespace = str(getattr(backend, "namespace", ""))

    def attach(self) -> None:
        """Come in around each attempt."""
        self.watch({}, lambda ctx: AttemptSpan(self, ctx))

    def start(self, ctx: Context) -> Span:
        """Start the span of an attempt."""
        source = self._current_source()
        links: list[Link] = []
        if source.ids is not None:
            trace_id = trace_id_of(source.key, run_id_of(ctx))
            source.ids.ask(trace_id, span_id_of(trace_id, ctx.attempt))
            links = _links(trace_id, ctx.attempt - 1)
        # A root, whatever is current: what asked for a manual run has ended by then, perhaps.
        return source.tracer.start_span(
            f"run {ctx.name}", context.Context(), attributes=self._attributes(ctx), links=links
        )

    def finish(self, span: Span, ctx: Context, error: BaseException | None) -> None:
        """End a span with how the handler has ended."""
        reason = ctx.signal.reason
        if reason is not None:
            span.set_attribute("anarchon.run.abort_reason", reason)
        if reason == "timeout":
            span.set_attribute("error.type", "timeout")
            span.set_status(Status(StatusCode.ERROR, "TimeoutError: still running at its limit"))
        elif error is not None and reason is None:
            span.set_attribute("error.type", _type_of(error))
            span.set_status(Status(StatusCode.ERROR, clean(said(error), _LONGEST_STATUS)))
            _record(span, error)

    def _attributes(self, ctx: Context) -> Attributes:
        return {
            **self._of_job(ctx),
            "anarchon.run.id": run_id_of(ctx),
            "anarchon.run.slot": ctx.slot,
            "anarchon.run.scheduled_at": moment(ctx.scheduled_at),
            "anarchon.run.attempt": ctx.attempt,
            "anarchon.run.reason": ctx.reason,
            "anarchon.instance.id": ctx.instance_id,
        }

    def _of_job(self, ctx: Context) -> Attributes:
        """Return what is the same for each run of a job, computed once for each definition."""
        job = ctx._start.spec.job  # noqa: SLF001 - of this package
        known = self._jobs.get(ctx.name)
        if known is not None and known[0] is job:
            return known[1]
        attributes: Attributes = {
            "anarchon.namespace": self._namespace,
            "anarchon.job.name": ctx.name,
        }
        if (name := handler_name(ctx)) is not None:
            attributes["code.function.name"] = name
        if tags := tags_of(ctx):
            attributes["anarchon.job.tags"] = tags
        self._jobs[ctx.name] = job, attributes
        return attributes

    def _current_source(self) -> Source:
        """Return the tracer; the global provider may be set at any time."""
        provider = self._provider or trace.get_tracer_provider()
        source = self._source
        if source is None or source.provider is not provider:
            tracer = provider.get_tracer(SCOPE, __version__)
            self._source = source = Source(provider, tracer, _ids(tracer), self._key(provider))
        return source

    def _key(self, provider: TracerProvider) -> bytes:
        resource = getattr(getattr(provider, "resource", None), "attributes", {})
        backend = self.scheduler._options.backend  # noqa: SLF001 - of this package
        return key_of(identity_of(backend, [str(resource.get(name, "")) for name in _SERVICE]))


def _ids(tracer: Any) -> Ids | None:
    """Put our generator into a tracer that we alone use; None if it has none that we know."""
    own = getattr(tracer, "id_generator", None)
    if isinstance(own, Ids):  # the provider has given this tracer to another scheduler, too
        return own
    if not (hasattr(own, "generate_trace_id") and hasattr(own, "generate_span_id")):
        return None
    tracer.id_generator = ids = Ids(own)
    return ids


def _links(trace_id: int, attempt: int) -> list[Link]:
    if attempt < 1:
        return []
    before = SpanContext(trace_id, span_id_of(trace_id, attempt), True, TraceFlags())
    return [Link(before, {"anarchon.run.attempt": attempt})]


class AttemptSpan:
    """The span of an attempt, current while it runs. Nothing of it gets into the handler's way."""

    __slots__ = ("_ctx", "_span", "_spans", "_token")

    def __init__(self, spans: Spans, ctx: Context) -> None:
        self._spans = spans
        self._ctx = ctx
        self._span: Span | None = None
        self._token: Token[context.Context] | None = None

    def __enter__(self) -> None:
        try:
            self._span = self._spans.start(self._ctx)
            self._token = context.attach(trace.set_span_in_context(self._span))
        except Exception as error:
            self._spans.survive("a run could not be traced", error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        span = self._span
        if span is None:
            return
        try:
            if self._token is not None:
                context.detach(self._token)
            self._spans.finish(span, self._ctx, error)
        except Exception as second:
            self._spans.survive("a run could not be traced", second)
        with suppress(Exception):
            span.end()


def _record(span: Span, error: BaseException) -> None:
    try:
        span.record_exception(error)
    except Exception:  # what its text or its notes raise
        message, traceback = described(error)
        texts = {"exception.message": message, "exception.stacktrace": traceback}
        span.add_event("exception", {"exception.type": _type_of(error), **texts})


def _type_of(error: BaseException) -> str:
    kind = type(error)
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
