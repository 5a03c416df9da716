"""Components, groups of resources under one name: their definition by an author, and each use in a manifest.

An instance has no state and no operations of its own: relationships and metaparameters of it apply to its members. How
it is expanded is for the catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.attribute import RESERVED, input_problems, keyword_problems
from resource_api.model.entry import Meta, make_meta
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DefinitionError
from resource_api.model.values.reference import TYPE_NAME, Reference, child_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Never

    from resource_api.model.attribute import Attribute
    from resource_api.model.declaration import Declaration
    from resource_api.model.entry import Entry
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


class ComponentInstance:
    """A declared component; ``members`` are its resources, including those of components within it."""

    __slots__ = ("declaration", "document", "inputs", "members", "meta", "outputs", "title")

    def __init__(self, declaration: Declaration) -> None:
        """Make an instance without members."""
        self.declaration = declaration
        self.title = declaration.title
        self.meta: Meta = make_meta(declaration.meta)
        self.members: Sequence[Entry] = ()
        self.inputs: Mapping[str, Any] = {}
        self.outputs: Mapping[str, Any] = {}
        #: What it declares, with the positions in its own file; None before it is built.
        self.document: Document | None = None

    @property
    def type(self) -> str:
        """The component's name."""
        return self.declaration.type

    @property
    def parent(self) -> str:
        """The reference of the component that declares it; empty if none does."""
        return self.declaration.parent

    @property
    def reference(self) -> Reference:
        """The user's name of it."""
        return child_reference(self.declaration.parent, self.declaration.type, self.title)

    def __repr__(self) -> str:
        """Show the reference."""
        return f"Group({self.reference})"
