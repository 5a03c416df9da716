"""Names as they are written → what they come to: titles, and the references in relationships, moves and removals.

The same text means the same thing wherever it stands. Whether anything is called so is not known here. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.declaration import RELATIONSHIPS
from resource_api.model.values import expression
from resource_api.model.values.reference import Reference, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.manifest.scope import Scope
    from resource_api.model.declaration import Declaration, Manifest, Moved, Removed

#: What ``lifecycle`` says of other resources.
_OTHERS: Final = ("replace_triggered_by", "deleted_with")


def are_plain(declarations: Sequence[Declaration]) -> bool:
    """Whether nothing in the names and metaparameters of thousands has to be read, told for all of them at once."""
    said = [value for each in declarations for value in each.meta.values()]
    return expression.are_literal(said) and "${" not in "\n".join([each.title for each in declarations])


class Names:
    """Reads what is written with ``${...}`` in it; what cannot be read is complained of."""

    def __init__(self, diagnostics: Diagnostics, scope: Scope) -> None:
        """Read inputs, values and facts in ``scope``."""
        self._diagnostics = diagnostics
        self._scope = scope

    def manifest(self, manifest: Manifest) -> Manifest:
        """Give a manifest whose moves and removals are between names that things have."""
        moved = []
        for move in manifest.moved:
            source, target = self._wished(move, "from", move.source), self._wished(move, "to", move.target)
            if source is not None and target is not None:
                moved.append(move._replace(source=source, target=target))
        pairs = ((removal, self._wished(removal, "", removal.reference)) for removal in manifest.removed)
        removed = [removal._replace(reference=found) for removal, found in pairs if found is not None]
        return manifest._replace(moved=tuple(moved), removed=tuple(removed))

    def declaration(self, declared: Declaration) -> Declaration | None:
        """Give a declaration with its own title and its relationships read; None where it has no title then."""
        if "${" in declared.title:
            try:
                found = self._scope.resolve_name(Reference(declared.type, declared.title))
            except ValueError as error:
                self._diagnostics.of_declaration(declared, str(error), "title")
                return None
            if found is None:
                return None
            declared = declared._replace(title=found.title)
        if all(map(expression.is_literal, declared.meta.values())):
            return declared
        meta = {
            word: self._related(declared, word, value) if word in RELATIONSHIPS else value
            for word, value in declared.meta.items()
        }
        if said := meta.get("lifecycle"):
            read = {word: self._related(declared, "lifecycle", said[word], word) for word in _OTHERS if word in said}
            meta["lifecycle"] = {**said, **read}
        return declared._replace(meta=meta)

    def _related(self, declared: Declaration, word: str, value: Any, inner: str = "") -> Any:
        """Give a relationship with its references read, without those that cannot be."""
        if isinstance(value, list):
            return [found for text in value if (found := self._related(declared, word, text, inner)) is not None]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            found = self._scope.resolve_name(parse(value))
        except ValueError as error:
            message = f"{word}.{inner}: {error}" if inner else f"{word}: {error}"
            self._diagnostics.of_declaration(declared, message, "reference", word)
            return None
        return None if found is None else str(found)

    def _wished(self, wish: Moved | Removed, key: str, written: Reference) -> Reference | None:
        try:
            return self._scope.resolve_name(written)
        except ValueError as error:
            self._diagnostics.of_wish(wish, str(error), *filter(None, [key]))
            return None
