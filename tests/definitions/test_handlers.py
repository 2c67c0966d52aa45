"""Which handlers are accepted, who gets the context, and what is refused."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import itertools
from unittest.mock import AsyncMock, Mock, create_autospec

import pytest

from anarchon._jobs_options import Defaults
from anarchon.errors import ConfigurationError
from anarchon.jobs import build_job
from anarchon.schedules import Every


def job(handler, **options):
    return build_job("sync", Every(10), handler, options, Defaults())


def refusal(handler, **options) -> str:
    with pytest.raises(ConfigurationError) as caught:
        job(handler, **options)
    message = str(caught.value)
    assert message.startswith("job 'sync': ")
    return message


def nothing(): ...
def one(ctx): ...
def one_of_any_name(run, /): ...
def one_and_more(ctx, *args, flag=False, **kwargs): ...
def optional_ctx(ctx=None): ...
def optional_context(context=None, verbose=False): ...
def optional_other(verbose=False): ...
def optional_ctx_second(verbose=False, ctx=None): ...
def optional_keyword_ctx(*, ctx=None): ...
def only_keywords(**kwargs): ...
def optional_and_any(verbose=False, *args): ...
async def async_nothing(): ...
async def async_one(ctx): ...
def two(a, b): ...


class Reports:
    def digest(self): ...
    def sync(self, ctx): ...
    async def mail(self, ctx): ...
    @staticmethod
    def static(): ...
    @staticmethod
    def static_one(ctx): ...
    @classmethod
    def of_class(cls): ...
    @classmethod
    def of_class_one(cls, ctx): ...


class Callable0:
    def __call__(self): ...


class Callable1:
    async def __call__(self, ctx): ...


def closure():
    seen = []
    return lambda ctx: seen.extend([ctx])


@functools.wraps(one)
def wrapped(*args, **kwargs): ...


@pytest.mark.parametrize(
    ("handler", "with_context"),
    [
        (nothing, False),
        (one, True),
        (one_of_any_name, True),
        (one_and_more, True),
        (optional_ctx, True),
        (optional_context, True),
        (optional_other, False),
        (optional_ctx_second, False),
        (optional_keyword_ctx, False),
        (only_keywords, False),
        (optional_and_any, False),
        (async_nothing, False),
        (async_one, True),
        (lambda: None, False),
        (lambda ctx: ctx, True),
        (closure(), True),
        (functools.partial(two, 1, 2), False),
        (functools.partial(two, 1), True),
        (functools.partial(two, b=2), True),
        (functools.partial(one, ctx=1), False),
        (Reports().digest, False),
        (Reports().sync, True),
        (Reports().mail, True),
        (Reports.static, False),
        (Reports.static_one, True),
        (Reports.of_class, False),
        (Reports().of_class_one, True),
        (Reports.__dict__["static_one"], True),
        (Callable0(), False),
        (Callable1(), True),
        (wrapped, True),
        (gc.collect, False),
        ([].append, True),
        (len, True),
        (create_autospec(nothing), False),
        (create_autospec(one), True),
    ],
)
def test_who_gets_the_context(handler, with_context):
    # BR-088, BR-089
    made = job(handler)
    assert made.pass_context is with_context
    assert made.handler is handler


@pytest.mark.parametrize("handler", [lambda *args: None, print, Mock(), AsyncMock(), max])
@pytest.mark.parametrize("with_context", [True, False])
def test_where_the_signature_does_not_tell_the_option_does(handler, with_context):
    # BR-088
    assert job(handler, pass_context=with_context).pass_context is with_context


@pytest.mark.parametrize("handler", [lambda *args: None, lambda *a, **k: None, print, Mock()])
def test_any_arguments_do_not_tell(handler):
    # BR-089
    assert "takes any arguments, so it doesn't say whether it wants the context; say" in refusal(
        handler
    )


class Obscure:
    __signature__ = property(lambda self: 1 // 0)

    def __call__(self): ...


@pytest.mark.parametrize("handler", [max, Obscure()])
def test_no_signature_does_not_tell(handler):
    message = refusal(handler)
    assert "doesn't say which arguments it takes; say pass_context=True or" in message


@pytest.mark.parametrize(
    ("handler", "with_context", "words"),
    [
        (nothing, True, "pass_context=True calls the handler <function nothing"),
        (nothing, True, "with the context, but its signature is () (too many positional"),
        (one, False, "without arguments, but its signature is (ctx) (missing a required"),
        (two, True, "but its signature is (a, b) ("),
        (two, False, "correct one of the two"),
    ],
)
def test_the_option_must_agree_with_the_signature(handler, with_context, words):
    assert words in refusal(handler, pass_context=with_context)


@pytest.mark.parametrize(
    ("handler", "names"),
    [
        (two, "arguments a, b"),
        (lambda ctx, db: None, "arguments ctx, db"),
        (lambda *, db: None, "argument db"),
        (lambda ctx, *, db: None, "arguments ctx, db"),
        (Reports.sync, "arguments self, ctx"),
        (functools.partial(lambda a, b, c: None, 1), "arguments b, c"),
    ],
)
def test_more_than_the_context_is_refused(handler, names):
    # BR-089
    message = refusal(handler)
    assert f"requires the {names}, but is called with the context or with" in message
    assert "bind them with functools.partial" in message


def test_a_method_without_its_object_is_refused():
    # BR-089
    assert refusal(Reports.digest) == (
        "job 'sync': the handler Reports.digest is a method without its object, and would get"
        " the context as `self`; pass it through an object, or say pass_context=True"
    )
    assert job(Reports.digest, pass_context=True).pass_context is True


def test_a_class_is_refused():
    assert refusal(Reports) == (
        "job 'sync': the handler Reports is a class; pass a method of an object of it, such as"
        " Reports(...).run, or a function"
    )


@pytest.mark.parametrize(
    "value", [None, 5, "do_it", [], ..., NotImplemented, inspect.Parameter.empty]
)
def test_the_result_of_a_call_is_refused(value):
    # BR-128
    message = refusal(value)
    if isinstance(value, type):
        assert "is a class" in message
    else:
        assert f"the handler {value!r} can't be called; pass the function itself" in message
        assert message.endswith("pass `do_it`, not `do_it()`")


def test_a_coroutine_is_closed_and_refused():
    # BR-128
    coroutine = async_one(None)
    assert refusal(coroutine) == (
        "job 'sync': the handler is a coroutine, the result of a call;"
        " pass `async_one`, not `async_one()`"
    )
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def test_a_future_is_refused():
    loop = asyncio.new_event_loop()
    try:
        assert "can't be called" in refusal(loop.create_future())
    finally:
        loop.close()


def generate():
    yield


async def generate_async(ctx):
    yield ctx


class Generating:
    def __call__(self, ctx):
        yield ctx

    def method(self):
        yield

    async def async_method(self):
        yield


@pytest.mark.parametrize(
    "handler",
    [
        generate,
        generate_async,
        functools.partial(generate_async, 1),
        Generating(),
        Generating().method,
        Generating().async_method,
    ],
)
def test_a_generator_function_is_refused(handler):
    message = refusal(handler)
    assert "is a generator function (it has `yield`), which does nothing when called" in message
    assert "is a generator function" in refusal(handler, pass_context=True)


@pytest.mark.parametrize("made", [generate(), generate_async(1), (n for n in [1])])
def test_a_generator_is_refused(made):
    message = refusal(made)
    assert "the handler is a generator, the result of a call" in message
    assert "pass a function that loops over it" in message


def test_a_bare_classmethod_is_refused():
    bare = Reports.__dict__["of_class"]
    assert "is a bare classmethod; pass it through its class or an object" in refusal(bare)


def test_an_iterator_that_can_not_be_called_is_refused():
    assert "can't be called" in refusal(itertools.count())
