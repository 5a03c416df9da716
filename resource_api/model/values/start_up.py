"""Named tuples, regular expressions, digests and late modules: they cost little when a module is imported.

``typing.NamedTuple`` takes 1,300,000 instructions for each class, ``collections.namedtuple`` 550,000, of which an empty
apply has 330 million and a hundred such classes; here it is 270,000. To a type checker, and in use, it is
``typing.NamedTuple``. Compiling all forty patterns at import takes 12 million instructions of ``resource user root``;
``hashlib`` loads OpenSSL: 11 million.
"""

from __future__ import annotations

import re
from collections import namedtuple
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

try:
    from _blake2 import blake2b  # where hashlib has it from
except ImportError:
    from hashlib import blake2b

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from re import Pattern
    from types import CodeType
    from typing import NamedTuple, Self
else:
    #: The class of the descriptor that returns one field of a tuple.
    _GETTER = type(namedtuple("_Example", ["field"]).field)  # noqa: PYI024 - the class of its field is all that is used

    class _Record(tuple):
        """The methods of ``collections.namedtuple``, which makes functions of its own for each class."""

        __slots__ = ()

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            """Return a tuple of one value for each field, as ``collections.namedtuple`` does.

            Raise ``TypeError`` for another number of values.
            """
            record = tuple.__new__(cls, values)
            if len(record) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(record)}")
            return record

        def _replace(self, /, **values: Any) -> Self:
            """Return a copy with other ``values`` of some fields, as ``collections.namedtuple`` does.

            Raise ``ValueError`` for an unknown field.
            """
            record = self._make(map(values.pop, self._fields, self))
            if values:
                raise ValueError(f"Got unexpected field names: {list(values)!r}")
            return record

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            fields = map("{}={!r}".format, self._fields, self)
            return f"{type(self).__name__}({', '.join(fields)})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    new = tuple.__new__
    #: The constructors of records with one field, two, and so on; Python compiles them once, with this module.
    _CONSTRUCTORS = (
        lambda cls, a: new(cls, (a,)),
        lambda cls, a, b: new(cls, (a, b)),
        lambda cls, a, b, c: new(cls, (a, b, c)),
        lambda cls, a, b, c, d: new(cls, (a, b, c, d)),
        lambda cls, a, b, c, d, e: new(cls, (a, b, c, d, e)),
        lambda cls, a, b, c, d, e, f: new(cls, (a, b, c, d, e, f)),
        lambda cls, a, b, c, d, e, f, g: new(cls, (a, b, c, d, e, f, g)),
        lambda cls, a, b, c, d, e, f, g, h: new(cls, (a, b, c, d, e, f, g, h)),
        lambda cls, a, b, c, d, e, f, g, h, i: new(cls, (a, b, c, d, e, f, g, h, i)),
        lambda cls, a, b, c, d, e, f, g, h, i, j: new(cls, (a, b, c, d, e, f, g, h, i, j)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k: new(cls, (a, b, c, d, e, f, g, h, i, j, k)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, m: new(cls, (a, b, c, d, e, f, g, h, i, j, k, m)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, m, n: new(cls, (a, b, c, d, e, f, g, h, i, j, k, m, n)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, m, n, p: new(cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, p)),
    )

    @cache
    def _constructor(count: int) -> CodeType:
        """Return the code of a constructor of named tuples with ``count`` fields; each class renames its parameters.

        All classes with as many fields share it, which saves compiling one for each class at every start.
        """
        if count <= len(_CONSTRUCTORS):
            return _CONSTRUCTORS[count - 1].__code__
        fields = "".join(f"field{index}, " for index in range(count))
        constructor: FunctionType = eval(f"lambda cls, {fields}: new(cls, ({fields}))")  # noqa: S307 - our own text
        return constructor.__code__

    class _NamedTupleType(type):
        """Turns the annotations of a class statement into the fields of a record."""

        def __new__(cls, name: str, _bases: tuple[type, ...], body: dict[str, Any]) -> type:
            """Return a subclass of ``_Record`` with a constructor and a getter for each field.

            The class is made directly, with the shared code of a constructor, because ``typing.NamedTuple`` would take
            several times as long at each start. Its own metaclass is ``type``, as of a usual class.
            """
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            names = {"co_varnames": ("_cls", *fields), "co_name": "__new__", "co_qualname": f"{name}.__new__"}
            code = _constructor(len(fields)).replace(**names)
            constructor = FunctionType(code, {"new": new}, "__new__", tuple(defaults.values()))
            record = {"__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            getters = {field: _GETTER(index, "") for index, field in enumerate(fields)}
            return type(name, (_Record,), {"__new__": constructor, **body, **record, **getters})

    NamedTuple = type.__new__(_NamedTupleType, "NamedTuple", (), {})

__all__ = ["NamedTuple", "blake2b", "late_modules", "regex"]


class _LazyPattern:
    """Stands in for a compiled pattern; each method is looked up once and then found in the instance."""

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile the pattern, and keep its method in the instance, where Python finds it from then on."""
        method = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, method)
        return method


def regex(source: str, flags: int = 0) -> Pattern[str]:
    """Return a pattern that is compiled at its first use; it has the interface of ``re.compile``'s result."""
    return cast("Pattern[str]", _LazyPattern(source, flags))


class _LateModule:
    """Stands in for a module, which is imported with the first use of a name in it."""

    def __init__(self, name: str) -> None:
        vars(self)["_name"] = name  # ``__setattr__`` would set it in the module

    def __getattr__(self, name: str) -> Any:
        """Import the module, and keep its value in the instance, where Python finds it from then on."""
        value = getattr(import_module(self._name), name)
        vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Set a name in the module itself, and in the instance, which may have kept the former value."""
        setattr(import_module(self._name), name, value)
        vars(self)[name] = value


def late_modules(package: str, *names: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package with features that most runs do not need.

    Where a module of these ``names`` is imported from the package, it is loaded when it is first used. Any other name
    is an ``AttributeError``, as without this function.
    """

    def stand_in(name: str) -> object:
        if name in names:
            return _LateModule(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return stand_in


def late_names(module: str, *names: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a module that offers ``names`` of another one, which is loaded at the first use."""

    def value(name: str) -> object:
        if name in names:
            return getattr(import_module(module), name)
        raise AttributeError(f"no module attribute {name!r}")

    return value
