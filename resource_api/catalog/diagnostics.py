"""Collects what is wrong while a catalog is being made, each with its place, so that all is told at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from resource_api.model.component_instance import ComponentInstance
    from resource_api.model.declaration import ConfiguredProvider, Declaration, Manifest, Moved, Removed
    from resource_api.model.entry import Entry


class Diagnostics:
    """Problems and warnings about one manifest."""

    def __init__(self, manifest: Manifest, problems: Iterable[Problem] = ()) -> None:
        """Begin with ``problems`` found before."""
        self.manifest = manifest
        self.problems = list(problems)
        self.warnings: list[Problem] = []

    def of(
        self, entry: Entry | ComponentInstance, attribute: str | None, message: str, code: str, hint: str = ""
    ) -> None:
        """Complain of a resource or component, or of an attribute or metaparameter of it."""
        self.report(entry, Problem(attribute, message, code=code, hint=hint))

    def report(self, entry: Entry | ComponentInstance, problem: Problem) -> None:
        """Take over a problem that does not know its place; a warning is kept apart."""
        place = self.manifest.place(entry.declaration, problem.attribute)
        placed = problem._replace(reference=str(entry.reference), file=place.file, line=place.line, column=place.column)
        (self.problems if problem.severity == "error" else self.warnings).append(placed)

    def of_declaration(self, declaration: Declaration, message: str, code: str, attribute: str | None = None) -> None:
        """Complain of a declaration that did not become an entry."""
        shown = str(declaration.reference)
        place = self.manifest.place(declaration, attribute)
        self.problems.append(Problem(attribute, message, "error", shown, *place, code=code))

    def of_provider(self, declared: ConfiguredProvider, where: str | tuple[str, str], message: str) -> None:
        """Complain of a configured provider, or of what stands in it."""
        inner = (where,) if isinstance(where, str) else where
        shown = f"provider '{declared.name}': {message}"
        self.problems.append(Problem(None, shown, "error", "", *declared.place(*inner), code="provider"))

    def of_value(self, name: str, where: tuple[str, ...], message: str, code: str = "function") -> None:
        """Complain of a value with a name, or of what stands in it."""
        place = self.manifest.place(("values", name, *where))
        self.problems.append(Problem(None, f"value '{name}': {message}", "error", "", *place, code=code))

    def of_output(self, name: str, message: str) -> None:
        """Complain of an output."""
        place = self.manifest.place(("outputs", name))
        self.problems.append(Problem(None, f"output '{name}': {message}", "error", "", *place, code="expression"))

    def of_wish(self, wish: Moved | Removed, message: str, *where: str) -> None:
        """Complain of what stands under ``moved`` or ``removed``, or of a key in it."""
        self.problems.append(Problem(None, message, "error", "", *wish.place(*where), code="moved"))

    def where(self, entry: Entry | ComponentInstance) -> str:
        """Give ``site.yaml:14`` for a resource."""
        place = self.manifest.place(entry.declaration)
        return f"{place.file}:{place.line}" if place.line else place.file
