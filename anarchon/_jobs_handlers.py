"""What may be a handler, and whether it is called with the context.

A handler is anything that can be called with the context or with nothing: functions,
lambdas, partials, methods, callable objects, ``async def`` as well. What can't be one is
refused where the job is defined, so that it doesn't fail at each slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ._durations import check_askable, shown
from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import Parameter, Signature

    from .context import Context

Handler: TypeAlias = "Callable[[], object] | Callable[[Context], object]"
"""A function of the context, or of nothing; plain or ``async def``."""

_CONTEXT_NAMES = ("ctx", "context")


def check_callable(handler: object, job: str) -> None:
    """Refuse what can't be a handler whatever its signature.

    A coroutine that was passed by mistake is closed, so that Python doesn't warn that it
    was never awaited.

    Raises:
        ConfigurationError: It names the job, the value and the fix.
    """
    import inspect

    check_askable(handler, f"job {job!r}: the handler")
    if inspect.isclass(handler):
        name = handler.__name__
        raise ConfigurationError(
            f"job {job!r}: the handler {name} is a class; pass a method of an object of it,"
            f" such as {name}(...).run, or a function"
        )
    if not callable(handler):
        raise ConfigurationError(f"job {job!r}: {_why_not_callable(handler)}")
    generates = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(test(handler) or test(_call_of(handler)) for test in generates):
        raise ConfigurationError(
            f"job {job!r}: the handler {shown(handler)} is a generator function (it has `yield`),"
            " which does nothing when called; pass a function that loops over it"
        )


def _call_of(handler: object) -> object:
    # The `__call__` of a callable object; a plain function has nothing of interest there.
    return getattr(type(handler), "__call__", None)  # noqa: B004 - the method itself is meant


def _why_not_callable(handler: object) -> str:
    import inspect

    if isinstance(handler, classmethod):
        return "the handler is a bare classmethod; pass it through its class or an object"
    name = getattr(handler, "__name__", None)
    name = name if isinstance(name, str) else "do_it"
    if inspect.iscoroutine(handler):
        handler.close()
        return f"the handler is a coroutine, the result of a call; pass `{name}`, not `{name}()`"
    if inspect.isgenerator(handler) or inspect.isasyncgen(handler):
        return (
            f"the handler is a generator, the result of a call; `{name}` has `yield`:"
            " pass a function that loops over it"
        )
    return (
        f"the handler {shown(handler)} can't be called; pass the function itself, not the"
        f" result of a call: pass `{name}`, not `{name}()`"
    )


def takes_context(handler: Callable[..., object], job: str, *, pass_context: bool | None) -> bool:
    """Return whether a handler is called with the context.

    With exactly one required positional parameter, or a first optional one named ``ctx``
    or ``context``: with it. With nothing required: without. `pass_context` decides where
    the signature doesn't tell, and must agree with it where it does.

    Raises:
        ConfigurationError: The handler can be called neither way, or the signature
            doesn't tell and `pass_context` doesn't either.
    """
    import inspect

    try:
        signature = inspect.signature(handler)
    except Exception:  # builtins without one, and objects that break when they are asked
        signature = None
    if pass_context is not None:
        _check_binds(signature, handler, job, pass_context=pass_context)
        return pass_context
    if signature is None:
        raise ConfigurationError(
            f"job {job!r}: the handler {shown(handler)} doesn't say which arguments it takes;"
            " say pass_context=True or pass_context=False"
        )
    return _by_signature(list(signature.parameters.values()), handler, job)


def _check_binds(
    signature: Signature | None, handler: object, job: str, *, pass_context: bool
) -> None:
    arguments = (None,) if pass_context else ()
    try:
        if signature is not None:
            signature.bind(*arguments)
    except TypeError as error:
        way = "with the context" if pass_context else "without arguments"
        raise ConfigurationError(
            f"job {job!r}: pass_context={pass_context} calls the handler {shown(handler)} {way},"
            f" but its signature is {signature} ({error}); correct one of the two"
        ) from None


def _by_signature(parameters: list[Parameter], handler: object, job: str) -> bool:
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in positional if p.default is p.empty]
    keyword_only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if keyword_only or len(required) > 1:
        missing = required + keyword_only
        names = f"argument{'s' * (len(missing) > 1)} {', '.join(missing)}"
        raise ConfigurationError(
            f"job {job!r}: the handler {shown(handler)} requires the {names}, but is"
            " called with the context or with nothing; bind them with functools.partial, or"
            " pass a method of an object"
        )
    if required in (["self"], ["cls"]):
        name = getattr(handler, "__qualname__", "the method")
        raise ConfigurationError(
            f"job {job!r}: the handler {name} is a method without its object, and would get"
            f" the context as `{required[0]}`; pass it through an object, or say pass_context=True"
        )
    if required:
        return True
    if positional:
        return positional[0].name in _CONTEXT_NAMES
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise ConfigurationError(
            f"job {job!r}: the handler {shown(handler)} takes any arguments, so it doesn't say"
            " whether it wants the context; say pass_context=True or pass_context=False"
        )
    return False
