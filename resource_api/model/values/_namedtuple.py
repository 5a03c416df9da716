"""Named tuples, made in a tenth of the time that ``typing`` takes.

That one compiles the annotation of every field, which nobody reads, and a constructor for every class; a start of the
command makes eighty such classes. To a type checker, and in every other way, this is ``typing.NamedTuple``; here the
constructor of so many fields is compiled once, and given other names. Nothing else belongs here.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NamedTuple
else:

    class _Row(tuple):
        """What named tuples have in common."""

        __slots__ = ()
        _fields = ()

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                msg = f"expected {len(cls._fields)} values, got {len(made)}"
                raise TypeError(msg)
            return made

        def _replace(self, **values: Any) -> Self:
            made = self._make(map(values.pop, self._fields, self))
            if values:
                msg = f"no such fields: {list(values)}"
                raise TypeError(msg)
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            fields = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{self.__class__.__name__}({fields})"

    @cache
    def _model(count: int) -> type:
        return namedtuple("_", [f"field{number}" for number in range(count)])  # noqa: PYI024 - nothing annotates these

    class _Named(type):
        def __new__(cls, name: str, _bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = tuple(body.get("__annotations__", ()))
            model = _model(len(fields))
            defaults = {field: body[field] for field in fields if field in body}
            code = model.__new__.__code__.replace(co_varnames=("_cls", *fields), co_qualname=f"{name}.__new__")
            made = {
                "__slots__": (),
                "__new__": FunctionType(code, model.__new__.__globals__, "__new__", tuple(defaults.values())),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": defaults,
                **{field: getattr(model, same) for field, same in zip(fields, model._fields, strict=True)},
            }
            return type(name, (_Row,), body | made)

    NamedTuple = type.__new__(_Named, "NamedTuple", (), {})

__all__ = ["NamedTuple"]
