"""What histories are made of: one question to a store, or time that passes."""

from __future__ import annotations

from typing import Any, NamedTuple

# Operations whose first argument is a list; of these, some items can be left out.
BATCHES = frozenset((
    "claim", "skip", "finish", "release", "record_manual", "renew", "look", "unfinished", "trigger",
))  # fmt: skip
LONG = 1000  # characters; all longer texts of a history are one letter, many times
TIMES = frozenset(("advance", "step", "boot"))


class Step(NamedTuple):
    """One thing that happens, with everything that it is given.

    `what` is an operation of a backend, or what happens to time: it passes (`advance`), the
    store's wall clock steps (`step`), the host is booted (`boot`). `why` is for readers.
    """

    what: str
    items: tuple[Any, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody writes to it
    why: str = ""

    def __str__(self) -> str:
        options = [f"{name}={shown(value)}" for name, value in self.options.items()]
        items = [*map(shown, self.items)]
        if self.what in BATCHES:
            items = [f"[{', '.join(items)}]"]
        text = f"{self.what}({', '.join([*items, *options])})"
        return f"{text}  # {self.why}" if self.why else text


def shown(value: Any) -> str:
    """Return a value as Python text, without what goes without saying."""
    if isinstance(value, str):
        return f"{value[0]!r} * {len(value)}" if len(value) > LONG else repr(value)
    if not hasattr(value, "_field_defaults"):
        return repr(value)
    defaults = value._field_defaults
    fields = (
        f"{name}={shown(field)}"
        for name, field in value._asdict().items()
        if name not in defaults or defaults[name] != field
    )
    return f"{type(value).__name__}({', '.join(fields)})"


class Raised(NamedTuple):
    """An operation raised instead of answering; texts may differ from store to store."""

    error: str
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Raised) and self.error == other.error

    def __hash__(self) -> int:
        return hash(self.error)


def asked(backend: Any, step: Step) -> Any:
    """Ask one store, and return its answer, or what it raised."""
    call = getattr(backend, step.what)
    try:
        if step.what in BATCHES:
            return call(list(step.items), **step.options)
        return call(*step.items, **step.options)
    except Exception as error:
        return Raised(type(error).__name__, str(error))
