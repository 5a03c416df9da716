"""Evaluates the expressions in names: titles, and references in relationships, moves and removals.

The same text means the same name wherever it stands. Whether a resource of that name exists does not enter. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.attribute import RELATIONSHIPS
from resource_api.model.values import expression
from resource_api.model.values.reference import Reference, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.expression_scope import Scope
    from resource_api.model.declaration import Declaration, Manifest, Moved, Removed

#: The keys of ``lifecycle`` that hold references.
_LIFECYCLE_REFERENCES: Final = ("replace_triggered_by", "deleted_with")


def have_literal_names(declarations: Sequence[Declaration]) -> bool:
    """Whether no title and no metaparameter of the declarations holds an expression; one check for all of them."""
    values = [value for each in declarations for value in each.meta.values()]
    return expression.are_literal(values) and "${" not in "\n".join([each.title for each in declarations])


class NameEvaluator:
    """Evaluates names in a scope; invalid ones are reported."""

    def __init__(self, diagnostics: Diagnostics, scope: Scope) -> None:
        """Use the inputs, values and facts of ``scope``."""
        self._diagnostics = diagnostics
        self._scope = scope

    def evaluate_name_changes(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the names in its moves and removals evaluated, without the invalid ones."""
        moved = []
        for move in manifest.moved:
            source, target = self._name(move, move.source, "from"), self._name(move, move.target, "to")
            if source is not None and target is not None:
                moved.append(move._replace(source=source, target=target))
        pairs = ((removal, self._name(removal, removal.reference)) for removal in manifest.removed)
        removed = [removal._replace(reference=found) for removal, found in pairs if found is not None]
        return manifest._replace(moved=tuple(moved), removed=tuple(removed))

    def evaluate_declaration(self, declared: Declaration) -> Declaration | None:
        """Return a declaration with its title and relationships evaluated; None where the title is invalid."""
        if "${" in declared.title:
            try:
                found = self._scope.resolve_name(Reference(declared.type, declared.title))
            except ValueError as error:
                self._diagnostics.declaration_error(declared, str(error), "title")
                return None
            if found is None:
                return None
            declared = declared._replace(title=found.title)
        if all(map(expression.is_literal, declared.meta.values())):
            return declared
        meta = {
            key: self._references(declared, key, value) if key in RELATIONSHIPS else value
            for key, value in declared.meta.items()
        }
        if lifecycle := meta.get("lifecycle"):
            evaluated = {
                key: self._references(declared, "lifecycle", lifecycle[key], f"lifecycle.{key}")
                for key in _LIFECYCLE_REFERENCES
                if key in lifecycle
            }
            meta["lifecycle"] = {**lifecycle, **evaluated}
        return declared._replace(meta=meta)

    def _references(self, declared: Declaration, attribute: str, value: Any, shown: str = "") -> Any:
        """Return a reference or a list of references evaluated, without invalid ones."""
        if isinstance(value, list):
            found = [self._references(declared, attribute, text, shown) for text in value]
            return [each for each in found if each is not None]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            name = self._scope.resolve_name(parse(value))
        except ValueError as error:
            self._diagnostics.declaration_error(declared, f"{shown or attribute}: {error}", "reference", attribute)
            return None
        return None if name is None else str(name)

    def _name(self, change: Moved | Removed, written: Reference, *path: str) -> Reference | None:
        try:
            return self._scope.resolve_name(written)
        except ValueError as error:
            self._diagnostics.name_change_error(change, str(error), *path)
            return None
