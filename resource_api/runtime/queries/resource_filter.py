"""``--filter 'ATTR OP VALUE'`` of ``resource``: which of the listed resources are shown."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.codec import plain
from resource_api.model.datatypes import from_text
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import UsageError, hint
from resource_api.model.values.reference import capitalize_type
from resource_api.model.values.values import is_secret, same_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.attribute import Attribute
    from resource_api.model.type_definition import TypeDefinition

_FORM: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*([=!<>~]+)\s*(.*?)\s*\Z", re.DOTALL)
_ORDERS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_OPERATORS: Final = ("=", "!=", *_ORDERS, "~")
#: Operators of other languages → ours.
_FOREIGN: Final = {"==": "=", "=~": "~", "<>": "!=", "=>": ">=", "=<": "<="}


class Filter(NamedTuple):
    """One condition, as it is written."""

    attribute: str
    operator: str
    value: str

    def for_type(self, definition: TypeDefinition) -> Callable[[Mapping[str, Any]], bool]:
        """Return the test for rows of a type; none passes where the type does not have the attribute.

        Raise ``UsageError`` where the attribute is secret, or its data type has no such value or no order.
        """
        if (attribute := definition.attributes.get(self.attribute)) is None:
            return lambda _row: False
        if self.attribute in definition.secret:
            why = f"{self.attribute} of {capitalize_type(definition.name)} is secret; it cannot be compared"
            raise self._wrong(why)
        test = self._pattern() if self.operator == "~" else self._comparison(attribute)
        return lambda row: not is_secret(row.get(self.attribute)) and test(row.get(self.attribute))

    def _pattern(self) -> Callable[[Any], bool]:
        """Return whether the text of a value, or of one of its elements, contains the regular expression."""
        try:
            search = re.compile(self.value).search
        except re.error as error:
            why = f"this is no regular expression: {error}"
            raise self._wrong(why) from error

        def test(value: Any) -> bool:
            if isinstance(value, list):
                return any(map(test, value))
            return value is not None and search(_text(value)) is not None

        return test

    def _comparison(self, attribute: Attribute) -> Callable[[Any], bool]:
        try:
            wanted = from_text.coerce(attribute.datatype, self.value)
        except ValueError as error:
            raise self._wrong(str(error)) from error
        if self.operator in {"=", "!="}:

            def equal(value: Any) -> bool:
                # What a number may be given for is text, once it is canonical.
                return value == self.value if isinstance(value, str) else same_value(wanted, value)

            return equal if self.operator == "=" else lambda value: not equal(value)
        kind: Any = (int, float) if _is_number(wanted) else str
        if not isinstance(wanted, kind):
            why = f"{self.attribute} has no order; compare it with =, != or ~"
            raise self._wrong(why)
        compare = _ORDERS[self.operator]
        return lambda value: isinstance(value, kind) and not isinstance(value, bool) and bool(compare(value, wanted))

    def _wrong(self, why: str) -> UsageError:
        return UsageError(f"--filter '{self.attribute} {self.operator} {self.value}': {why}")


def parse(text: str) -> Filter:
    """Return the condition that a text of the command line means. Raise ``UsageError``."""
    found = _FORM.match(text)
    if found is None or found[2] not in _OPERATORS:
        meant = _FOREIGN.get(found[2]) if found is not None else None
        advice = f"; did you mean '{meant}'?" if meant else ""
        msg = f"--filter '{text}': write 'ATTR OP VALUE' with one of {' '.join(_OPERATORS)}{advice}"
        raise UsageError(msg)
    return Filter(*found.groups())


def check_attributes(filters: Sequence[Filter], definitions: Sequence[TypeDefinition]) -> None:
    """Raise ``UsageError`` for an attribute that none of the types has."""
    known = {name for definition in definitions for name in definition.attributes}
    for each in filters:
        if each.attribute not in known:
            types = ", ".join(capitalize_type(definition.name) for definition in definitions)
            where = f"of {types}" if len(definitions) == 1 else "of any of these types"
            msg = f"--filter: unknown attribute '{each.attribute}' {where}{hint(each.attribute, known)}"
            raise UsageError(msg)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(plain(value))
