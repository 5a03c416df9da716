"""Named tuples, made in less than half the time that ``typing`` takes.

That one compiles the annotation of every field, at import, and nobody reads them; a start of the command makes eighty
such classes. In every other way, and to a type checker, this is ``typing.NamedTuple``. Nothing else belongs here.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Named(type):
        def __new__(cls, name: str, _bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = body.get("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024 - the fields are annotated in the body
            return type(name, (made,), {"__slots__": (), **body})

    NamedTuple = type.__new__(_Named, "NamedTuple", (), {})

__all__ = ["NamedTuple"]
