"""Named tuples, regular expressions and digests that cost little when a module is imported.

``typing.NamedTuple`` compiles the annotation of every field: 250 microseconds for each of ninety classes, 20 ms of
every start; here a class statement takes 50. To a type checker, and in use, it is ``typing.NamedTuple``.

A run uses few of the forty patterns that its modules define: compiling all of them at import takes 12 million
instructions of ``resource user root`` and 19 million of an empty apply, 5 and 8 percent of the time of ``import
click``. ``hashlib`` loads OpenSSL: 3 ms, or 11 million instructions, of each apply.
"""

from __future__ import annotations

import re
from collections import namedtuple
from typing import TYPE_CHECKING, Any, cast

try:
    from _blake2 import blake2b  # where hashlib has it from
except ImportError:
    from hashlib import blake2b

if TYPE_CHECKING:
    from re import Pattern
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

__all__ = ["NamedTuple", "blake2b", "regex"]


class _LazyPattern:
    """Stands in for a compiled pattern; each method is looked up once and then found in the instance."""

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, method)
        return method


def regex(source: str, flags: int = 0) -> Pattern[str]:
    """Return a pattern that is compiled at its first use; it has the interface of ``re.compile``'s result."""
    return cast("Pattern[str]", _LazyPattern(source, flags))
