"""The definition of a component: its inputs and outputs, as its author declares them.

A component is a group of resources under one name. How it is expanded in a manifest is for the catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.attribute import RESERVED, input_problems, keyword_problems
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DefinitionError
from resource_api.model.values.reference import TYPE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Never

    from resource_api.model.attribute import Attribute
    from resource_api.model.values.document import Document

_KEYWORDS: Final = ("name", "docs", "inputs", "outputs")


class ComponentDefinition:
    """A group of resources that is declared like one resource.

    ``inputs``: name → ``Attribute`` without a kind; ``outputs``: name → documentation. Raises ``DefinitionError`` with
    everything that is wrong.
    """

    def __init__(
        self,
        *,
        name: str,
        docs: str = "",
        inputs: Mapping[str, Attribute] | None = None,
        outputs: Mapping[str, str] | None = None,
        **unknown: Never,
    ) -> None:
        """Declare the component ``name``; its file is ``components/<name>.py``."""
        self.name = name
        self.docs = docs
        self.attributes: Mapping[str, Attribute] = {} if inputs is None else inputs
        self.outputs: Mapping[str, str] = {} if outputs is None else outputs
        if problems := [*keyword_problems(unknown, _KEYWORDS), *_problems(self)]:
            raise DefinitionError("\n".join(f"component '{name}': {problem}" for problem in problems))

    def __repr__(self) -> str:
        """Show the name."""
        return f"ComponentDefinition(name={self.name!r})"


class LoadedComponent(NamedTuple):
    """A component with its ``build`` function: (parent, title, inputs) → document with ``resources`` and ``outputs``.

    ``build`` raises ``ManifestError`` with the position in the component's file.
    """

    definition: ComponentDefinition
    build: Callable[[str, str, Mapping[str, Any]], Document]


def _problems(definition: ComponentDefinition) -> list[str]:
    problems = []
    if not isinstance(definition.name, str) or not TYPE_NAME.match(definition.name):
        problems.append(f"the name {definition.name!r} must be lower case letters, digits and underscores")
    for word, mapping in (("inputs", definition.attributes), ("outputs", definition.outputs)):
        if not hasattr(mapping, "items"):
            return [*problems, f"{word} must be a mapping, not {type(mapping).__name__}"]
    problems += input_problems(definition.attributes, "input", RESERVED)
    for name, docs in definition.outputs.items():
        if not isinstance(name, str) or not TYPE_NAME.match(name):
            problems.append(f"output {name!r}: the name must be lower case letters, digits and underscores")
        elif not isinstance(docs, str):
            problems.append(f"output '{name}': the documentation must be a string, not {type(docs).__name__}")
    return problems
