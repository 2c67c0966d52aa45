"""Registering what was declared on the methods of an object or in a module."""

from __future__ import annotations

import functools
import types

import pytest

import anarchon.decorators as declare
from anarchon.schedules import Cron, Every, Once
from tests.definitions.host import NOON, SUNSETS, Host, handler, refusal


class Base:
    def __init__(self):
        self.calls = []

    @declare.every("sync", "10s")
    def sync(self, ctx):
        self.calls.append(("base", ctx))

    @declare.cron("digest", "0 8 * * 1-5", timezone="Europe/Athens", timeout=5)
    def digest(self):
        self.calls.append("digest")

    @declare.cron("night", "0 2 * * *")
    async def night(self, ctx): ...


def test_the_methods_of_an_object():
    host, reports = Host(timezone="Asia/Tokyo", max_attempts=9), Base()
    assert host.register(reports) is host
    sync, digest, night = host.jobs
    assert (sync.name, sync.schedule, sync.pass_context) == ("sync", Every(10), True)
    assert (digest.name, digest.timeout, digest.pass_context) == ("digest", 5.0, False)
    assert digest.schedule == Cron("0 8 * * 1-5", "Europe/Athens")
    assert night.schedule == Cron("0 2 * * *", "Asia/Tokyo")
    assert {job.max_attempts for job in host.jobs} == {9}
    sync.handler("ctx")
    digest.handler()
    assert reports.calls == [("base", "ctx"), "digest"]
    assert host.told == [("defined", "sync"), ("defined", "digest"), ("defined", "night")]


def test_two_objects_with_two_prefixes():
    host = Host().register(Base(), "eu.").register(Base(), prefix="us.")
    assert host.names == [
        f"{where}.{name}" for where in ("eu", "us") for name in ("sync", "digest", "night")
    ]


def test_two_objects_without_prefixes_collide_and_nothing_is_defined():
    # BR-090
    host = Host().every("night", 10, handler)
    assert "job 'night': there is one of this name already" in refusal(host.register, Base())
    assert host.names == ["night"]
    assert host.told == [("defined", "night")]


def test_two_modules_with_one_name_are_both_told():
    text = SOURCE.replace("10s", "20s")
    host = Host().register(module_of(SOURCE, "shop.jobs"))
    message = refusal(host.register, module_of(text, "mail.jobs"))
    assert "job 'a': there is one of this name already, on Every('10s') for shop.jobs.a;" in message
    assert "choose another name for mail.jobs.a, or" in message
    again = refusal(host.register, module_of(SOURCE, "shop.jobs"))
    assert "for shop.jobs.a; choose another name, or" in again


def test_whatever_a_handler_is_it_is_told():
    class Call:
        def __call__(self): ...

    first = functools.partial(functools.partial(Base().sync, None))
    message = refusal(Host().every("a", 10, first).every, "a", 20, Call())
    assert f"on Every('10s') for {__name__}.Base.sync;" in message
    assert f"choose another name for <{__name__}." in message


class Derived(Base):
    @declare.every("sync", "20s")
    def sync(self, ctx):
        self.calls.append(("derived", ctx))

    def digest(self):
        self.calls.append("derived digest")

    night = None

    @declare.every("more", "1m")
    def more(self): ...


def test_inherited_methods_and_overridden_ones():
    host, derived = Host(), Derived()
    host.register(derived)
    assert [(j.name, type(j.schedule)) for j in host.jobs] == [
        ("digest", Cron),
        ("sync", Every),
        ("more", Every),
    ]
    digest, sync, _ = host.jobs
    assert sync.schedule == Every(20)
    sync.handler(1)
    digest.handler()
    assert derived.calls == [("derived", 1), "derived digest"]


class Mixed:
    @declare.every("static", "10s")
    @staticmethod
    def static(ctx): ...

    @staticmethod
    @declare.every("static below", "10s")
    def static_below(): ...

    @declare.every("of class", "10s")
    @classmethod
    def of_class(cls): ...

    @classmethod
    @declare.every("of class below", "10s")
    def of_class_below(cls, ctx): ...

    @declare.every("first", "10s")
    @declare.cron("second", "0 8 * * *")
    @declare.once("third", NOON)
    @declare.schedule("fourth", SUNSETS)
    def several(self): ...

    @property
    def explosive(self):
        raise AssertionError("a property was read")


def test_every_kind_of_method_in_the_order_of_the_text():
    host = Host().register(Mixed())
    assert host.names == [
        *["static", "static below", "of class", "of class below"],
        *["first", "second", "third", "fourth"],
    ]
    assert [job.pass_context for job in host.jobs] == [True, False, False, True, *[False] * 4]
    assert [job.schedule for job in host.jobs[4:]] == [
        Every(10),
        Cron("0 8 * * *"),
        Once(NOON),
        SUNSETS,
    ]


def module_of(source: str, name: str = "reports") -> types.ModuleType:
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


SOURCE = """
from anarchon.decorators import cron, every

@every("a", "10s")
def a(ctx): ...

@cron("b", "0 8 * * *")
async def b(): ...

alias = a

class Unused:
    @every("c", "10s")
    def c(self): ...
"""


def test_the_functions_of_a_module():
    module = module_of(SOURCE)
    host = Host().register(module, prefix="m/")
    assert [(job.name, job.handler) for job in host.jobs] == [("m/a", module.a), ("m/b", module.b)]


def test_imported_functions_belong_to_their_own_module():
    module = module_of(SOURCE)
    importing = types.ModuleType("other")
    importing.a = module.a
    assert "imported functions with their module" in refusal(Host().register, importing)


def test_a_single_function():
    module = module_of(SOURCE)
    host = Host().register(module.a)
    assert [(job.name, job.handler) for job in host.jobs] == [("a", module.a)]
    host.register(Base().digest)
    assert host.names == ["a", "digest"]


def test_a_class_is_not_registered():
    assert refusal(Host().register, Base) == (
        "register(Base): it is a class; give an object of it, such as register(Base(...)),"
        " so that its methods have a self"
    )


@pytest.mark.parametrize("obj", [object(), None, 5, handler, {}, Every(10)])
def test_an_object_that_declares_nothing(obj):
    message = refusal(Host().register, obj)
    assert message.endswith(
        "no job is declared there; decorate its methods with every, cron, once, rrule or schedule"
        " of anarchon"
    )
    assert message.startswith("register(")


def test_the_name_of_a_module_is_no_module():
    assert refusal(Host().register, "app.jobs") == (
        "register('app.jobs'): it is text; import the module and give the module itself"
    )


def test_a_module_that_declares_nothing():
    message = refusal(Host().register, types)
    assert message.startswith("register(<module 'types'")
    assert "no job is declared there; decorate its functions with every, cron, once" in message


@pytest.mark.parametrize("prefix", [None, 5, b"x"])
def test_a_prefix_is_text(prefix):
    assert refusal(Host().register, Base(), prefix) == f"prefix {prefix!r} is not text; give a str"


def test_a_prefix_that_makes_a_bad_name():
    assert "job ' sync': the name begins" in refusal(Host().register, Base(), " ")


def test_one_bad_method_and_none_is_defined():
    class Odd:
        @declare.every("fine", "10s")
        def fine(self): ...

        @declare.every("odd", "10s")
        def odd(self, a, b): ...

    host = Host()
    assert refusal(host.register, Odd()).startswith("job 'odd': the handler")
    assert (host.jobs, host.told) == ((), [])


def test_one_name_twice_in_an_object_and_none_is_defined():
    class Twice:
        @declare.every("same", "10s")
        def one(self): ...

        @declare.every("same", "20s")
        def two(self): ...

    host = Host()
    assert "job 'same': there is one of this name already" in refusal(host.register, Twice())
    assert (host.jobs, host.told) == ((), [])


def test_a_declaration_may_replace():
    class Newer:
        @declare.every("a", "20s", replace=True)
        def a(self): ...

    host = Host().every("a", 10, handler)
    host.register(Newer())
    assert host.jobs[0].schedule == Every(20)
