"""``NamedTuple``, whose class statement runs ten times as fast as that of ``typing``.

``typing`` compiles the annotation of every field, and ``collections`` a constructor for every class: 250 and 100
microseconds for each of a hundred classes. Here the constructors of as many fields are copies of one, with other names.
To a type checker, and in use, this is ``typing.NamedTuple``. Nothing else belongs here.
"""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined] # as collections.namedtuple reads a field
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import NamedTuple, Self
else:

    class _NamedTupleType(type):
        """Turns the annotations of a class statement into the fields of a tuple."""

        def __new__(cls, name: str, _bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                msg = f"{name}: a field without a default follows one with a default"
                raise TypeError(msg)
            getters = {field: _tuplegetter(number, "") for number, field in enumerate(fields)}
            body |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, "__slots__": ()}
            return type(name, (_Tuple,), {"__new__": _constructor(fields, defaults), **body, **getters})

    NamedTuple = type.__new__(_NamedTupleType, "NamedTuple", (), {})


class _Tuple(tuple[Any, ...]):
    """What all classes have; see ``collections.namedtuple``."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            msg = f"Expected {len(cls._fields)} arguments, got {len(made)}"
            raise TypeError(msg)
        return made

    def _replace(self, /, **values: Any) -> Self:
        made = self._make(map(values.pop, self._fields, self))
        if values:
            msg = f"Got unexpected field names: {list(values)!r}"
            raise ValueError(msg)
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        shown = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({shown})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


def _constructor(fields: tuple[str, ...], defaults: dict[str, Any]) -> FunctionType:
    """Return the ``__new__`` of a class with these fields."""
    template = _template(len(fields))
    code = template.__code__.replace(co_varnames=("_cls", *fields), co_name="__new__", co_qualname="__new__")
    return FunctionType(code, template.__globals__, "__new__", tuple(defaults.values()))


@cache
def _template(count: int) -> Callable[..., Any]:
    """Return the ``__new__`` of classes with so many fields, as ``collections.namedtuple`` compiles it."""
    fields = "".join(f"_{number}, " for number in range(count))
    made: Callable[..., Any] = eval(  # noqa: S307 - numbers alone
        f"lambda _cls, {fields}: _new(_cls, ({fields}))", {"_new": tuple.__new__, "__builtins__": {}}
    )
    return made


__all__ = ["NamedTuple"]
