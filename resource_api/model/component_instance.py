"""One use of a component in a manifest: its declaration, its resources and its outputs.

It has no state and no operations of its own: relationships and metaparameters of it apply to its members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.entry import Meta, make_meta
from resource_api.model.values.reference import Reference, child_reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.declaration import Declaration
    from resource_api.model.entry import Entry
    from resource_api.model.values.document import Document


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
