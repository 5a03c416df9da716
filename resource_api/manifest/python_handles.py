"""What a Python manifest has in its hands: resources that it has declared, what they will be, and what is known.

How they become data is not known here.
"""

from __future__ import annotations

from typing import Any, NoReturn

from resource_api.model.values.expression import Expression, Path, escape_expressions
from resource_api.model.values.reference import Reference


class Value:
    """What an attribute of a declared resource will be; use it as a value, or in ``m.text``."""

    __slots__ = ("expression",)

    def __init__(self, expression: Expression) -> None:
        """Stand for ``expression``."""
        self.expression = expression

    def __getitem__(self, key: str | int) -> Value:
        """Stand for what is under a key of it, where it will be a mapping or a list."""
        *before, last = self.expression.parts
        if before or isinstance(last, str):
            msg = f"{self.expression} is text, and has no '{key}'"
            raise TypeError(msg)
        return Value(Expression((last._replace(keys=(*last.keys, str(key))),)))

    def __str__(self) -> NoReturn:
        """Refuse to become text before it is known."""
        msg = f"{self.expression} is not known yet; write m.text('... {{0}} ...', value)"
        raise TypeError(msg)

    def __format__(self, spec: str) -> NoReturn:
        """Refuse to become text before it is known."""
        str(self)
        raise AssertionError

    def __repr__(self) -> str:
        """Show what it stands for."""
        return str(self.expression)

    def __bool__(self) -> NoReturn:
        """Refuse to be asked: a manifest cannot depend on what is not known yet."""
        msg = f"{self.expression} is not known yet and cannot be tested"
        raise TypeError(msg)

    def __eq__(self, other: object) -> NoReturn:
        """Refuse to be compared: the answer would be no, whatever it will be."""
        bool(self)
        raise AssertionError

    __hash__ = object.__hash__


class Handle:
    """A declared resource: its attributes are references, itself goes into ``require=`` and the like."""

    def __init__(self, reference: Reference) -> None:
        """Stand for ``reference``."""
        self._reference = reference

    def __getattr__(self, attribute: str) -> Value:
        """Give a reference to an attribute; whether the type has it is found when the manifest is compiled."""
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        type_name, title = self._reference
        return Value(Expression((Path(Reference(type_name, escape_expressions(title)), (attribute,)),)))

    def __str__(self) -> str:
        """Give ``Type[title]``."""
        return str(self._reference)


class View(dict[str, Any]):
    """A mapping whose keys are attributes too: ``m.inputs.domain``, ``m.facts.os.name``."""

    def __getattr__(self, name: str) -> Any:
        """Give a key's value; raises ``AttributeError`` naming the key."""
        try:
            value = self[name]
        except KeyError:
            msg = f"there is no '{name}'; there is {', '.join(sorted(self)) or 'nothing'}"
            raise AttributeError(msg) from None
        return View(value) if isinstance(value, dict) else value


class Facts(View):
    """Facts, each read when it is first asked for."""

    def __init__(self, facts: Any) -> None:
        """Know none yet; ``facts`` answers ``[name]``."""
        super().__init__()
        self._facts = facts

    def __missing__(self, name: str) -> Any:
        """Read a fact."""
        value = self._facts[name]
        return View(value) if isinstance(value, dict) else value

    def __getattr__(self, name: str) -> Any:
        """Give a fact; raises ``AttributeError`` naming those that there are."""
        try:
            return self[name]
        except KeyError:
            msg = f"there is no fact '{name}'; there is {', '.join(self._facts.names())}"
            raise AttributeError(msg) from None
