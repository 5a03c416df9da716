"""The definition of a provider's function, and one call of it in a manifest.

A function only reads. How it is called is for ``plugins``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.attribute import AttributeSet, input_problems, keyword_problems
from resource_api.model.datatypes import build as datatypes
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DataTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

    from resource_api.model.attribute import Attribute
    from resource_api.model.datatypes.datatype import DataType

_KEYWORDS: Final = ("docs", "inputs", "output")


class Function:
    """A function that a type's provider implements: documentation, inputs by name, data type of the result.

    ``inputs`` are attributes without a kind; the ``TypeDefinition`` that holds the function checks it.
    """

    datatype: DataType

    def __init__(
        self, docs: str = "", *, inputs: Mapping[str, Attribute] | None = None, output: str = "Any", **unknown: Never
    ) -> None:
        """Declare a function; the provider's method of that name takes the context, and its inputs by name."""
        self.docs = docs
        self.inputs = AttributeSet({} if inputs is None else inputs)
        self.output = output
        self.unknown: Mapping[str, object] = unknown

    def __repr__(self) -> str:
        """Show the inputs and the output."""
        return f"Function({', '.join(self.inputs.attributes)} → {self.output})"


class Call(NamedTuple):
    """One call in a manifest: ``values: {address: {invoke: ..., with: {...}}}``."""

    #: The configured provider, as ``inventory_host@lab``.
    instance: str
    name: str
    function: Function
    #: Its arguments as written, by name.
    given: Mapping[str, Any]

    def __str__(self) -> str:
        """Return the function's name as manifests write it."""
        return f"{self.instance.partition('@')[0]}.{self.name}"


def function_problems(functions: Mapping[str, Function]) -> list[str]:
    """Return what is wrong with the functions of a type, each with its name; parse their data types."""
    return [f"function '{name}': {problem}" for name, each in functions.items() for problem in _problems(name, each)]


def _problems(name: object, function: object) -> list[str]:
    if not isinstance(function, Function):
        return [f"must be a Function(...), not {type(function).__name__}"]
    found = keyword_problems(function.unknown, _KEYWORDS)
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        found.append("the name must be that of a method, without a leading underscore")
    found += input_problems(function.inputs.attributes, "input")
    try:
        function.datatype = datatypes.parse(function.output)
    except (DataTypeError, TypeError) as error:
        found.append(f"output {function.output!r}: {error}")
    return found
