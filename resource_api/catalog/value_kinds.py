"""Infer the data types of expressions' values, to report references that can never fit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.datatypes import messages, referred_values
from resource_api.model.values.expression import Expression, ExpressionPath, parse
from resource_api.model.values.reference import Reference
from resource_api.model.values.values import Sensitive, place_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api.catalog.expression_scope import Scope
    from resource_api.model.attribute import Attribute
    from resource_api.model.datatypes.referred_values import Kinds
    from resource_api.model.entry import Entry


class ValueKinds:
    """Infers the data types of attributes, of functions' results, of named values and of outputs."""

    def __init__(self, scope: Scope, find: Callable[[ExpressionPath], Entry | None]) -> None:
        """Look names up in ``scope``, and resources with ``find``."""
        self._scope = scope
        self._find = find

    def misfits(self, name: str, attribute: Attribute, value: Any) -> Iterator[str]:
        """Yield a message for each reference in a value, or text with references, that can never fit an attribute."""
        for key_path, expected, actual, written in referred_values.misfits(attribute.datatype, value, self.of_path):
            wants, is_ = messages.alternatives(expected, attribute.must_be), messages.alternatives(actual)
            yield f"{name}{place_text(key_path)} must be {wants}, and {written} is {is_}"

    def of_path(self, path: ExpressionPath) -> Kinds:
        """Return the data types of a path's value, or nothing if they are not known."""
        if path.root == "values":
            name, call = path.keys[0], self._scope.calls.get(path.keys[0])
            if call is not None:
                return _within(call.function.datatype.leaves, path.keys[1:])
            return () if name in self._scope.calls else self._as_written(self._scope.named(name), path.keys[1:])
        written = path.root if isinstance(path.root, Reference) else None
        root = self._scope.resolve_name(written) if written is not None else None
        if root is None:
            return ()
        if (component := self._scope.components.get(root)) is not None:
            return self._as_written(component.outputs.get(path.keys[0]), path.keys[1:])
        target = self._find(path._replace(root=root))
        attribute = target.definition.attributes.get(path.keys[0]) if target is not None else None
        return _within(attribute.datatype.leaves, path.keys[1:]) if attribute is not None else ()

    def _as_written(self, written: Any, keys: tuple[str, ...]) -> Kinds:
        """Return the data types at ``keys`` in a named value or an output."""
        while keys and type(written) in {dict, list}:
            written, keys = _item(written, keys[0]), keys[1:]
        parsed = parse(written) if type(written) is str and "${" in written else written
        if type(parsed) is Sensitive:
            return self._as_written(parsed.reveal(), keys)
        if not isinstance(parsed, Expression):
            return ()
        first = parsed.parts[0]
        if len(parsed.parts) == 1 and isinstance(first, ExpressionPath):
            return self.of_path(first._replace(keys=(*first.keys, *keys)))
        return () if keys else referred_values.kinds_as_written(parsed, self.of_path)


def _item(written: Any, key: str) -> Any:
    if type(written) is dict:
        return written.get(key)
    return written[int(key)] if key.lstrip("-").isdecimal() and -len(written) <= int(key) < len(written) else None


def _within(kinds: Kinds, keys: tuple[str, ...]) -> Kinds:
    for key in keys:
        kinds = referred_values.part_kinds(kinds, key)
    return kinds
