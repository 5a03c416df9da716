"""``NamedTuple``, whose class statement runs five times as fast as with ``typing``.

``typing`` compiles the annotation of every field: 250 microseconds for each of ninety classes, 20 ms of every start;
here it is 50. To a type checker, and in use, this is ``typing.NamedTuple``. Nothing else belongs here.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _NamedTupleType(type):
        """Turns the annotations of a class statement into the fields of ``collections.namedtuple``."""

        def __new__(cls, name: str, _bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = tuple(body.get("__annotations__", ()))
            defaults = [body.pop(field) for field in fields if field in body]
            class_ = namedtuple(name, fields, defaults=defaults)  # noqa: PYI024 - the class annotates its fields
            for key, value in body.items():
                setattr(class_, key, value)
            return class_

    NamedTuple = type.__new__(_NamedTupleType, "NamedTuple", (), {})

__all__ = ["NamedTuple"]
