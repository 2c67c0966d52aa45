"""`NamedTuple` as in `typing`, at a third of the cost.

There every annotation is compiled when the class is made, and every process that imports
this package would pay for that some seventy times. Here annotations stay the texts that
they are in modules with ``from __future__ import annotations``; others can't use this.
What type checkers refuse isn't checked again: a field without a default after one with.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Maker(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = body.setdefault("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            module = body["__module__"]
            made = namedtuple(name, fields, defaults=defaults, module=module)  # noqa: PYI024
            made.__new__.__annotations__ = fields  # for who asks for the signature
            if others := bases[1:]:
                return type(name, (made, *others), {"__slots__": (), **body})
            for attribute, value in body.items():
                setattr(made, attribute, value)
            return made

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})
