"""Collect the problems of compiling, each with its position, so that all are reported at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.model.declaration import DocumentPath
from resource_api.model.values.errors import Problem, suggested_word

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from resource_api.model.declaration import Declaration, FilePosition, Manifest, Moved, Purge, Removed
    from resource_api.model.entry import ComponentInstance, Entry

#: The number of problems from which on names are not compared for suggestions, which would take long.
_MANY: Final = 100
#: The most elements of one ``for_each`` for which errors of one kind at one position are shown.
_SHOWN: Final = 5


class Diagnostics:
    """The errors and warnings about one manifest."""

    def __init__(self, manifest: Manifest, problems: Iterable[Problem] = ()) -> None:
        """Collect the problems of compiling ``manifest``, after the ``problems`` of reading it."""
        self.manifest = manifest
        self.problems = list(problems)
        self.warnings: list[Problem] = []
        #: The errors of ``defaults``: file, type, key and message. They recur in all resources that inherit these.
        self._of_defaults: set[tuple[str, str, str | None, str]] = set()
        #: The errors of elements of ``for_each``: file, key of the declaration, attribute and message.
        self._of_elements: set[tuple[str, str, str | None, str]] = set()
        #: The indices in ``problems`` of errors that repeat an earlier one: ``distinct`` hides them.
        self._repeated: set[int] = set()
        #: Position and code → the indices of the errors of elements there: ``distinct`` shows only the first ones.
        self._by_position: dict[tuple[str, int, int, str], list[int]] = {}
        #: Entry's index → the attributes suggested for its unknown ones; they are not reported as missing too.
        self._suggested: dict[int, set[str]] = {}

    @property
    def distinct(self) -> list[Problem]:
        """The problems and warnings to show: one mistake may concern thousands of resources.

        An error of a default is shown for the first resource that inherits it, errors of one kind at one position for
        the first elements of ``for_each``, with the number of the rest.
        """
        problems, hidden = list(self.problems), set(self._repeated)
        for indices in self._by_position.values():
            if rest := indices[_SHOWN:]:
                last = problems[indices[_SHOWN - 1]]  # its message ends with the element in brackets
                problems[indices[_SHOWN - 1]] = last._replace(message=f"{last.message[:-1]}, and {len(rest):,} more)")
                hidden.update(rest)
        return [*(problem for at, problem in enumerate(problems) if at not in hidden), *self.warnings]

    @property
    def many(self) -> bool:
        """Whether there are too many problems to search a suggestion, among all names, for each further one."""
        return len(self.problems) >= _MANY

    def resource_error(
        self, declared: Entry | ComponentInstance, attribute: str | None, message: str, code: str, hint: str = ""
    ) -> None:
        """Add an error of a resource or component, or of its attribute or metaparameter ``attribute``."""
        self.add(declared, Problem(attribute, message, code=code, hint=hint))

    def attribute_error(self, entry: Entry, attribute: str, message: str, code: str, hint: str = "") -> None:
        """Add an error of an attribute that the type of a resource has."""
        self.add_of_attribute(entry, Problem(attribute, message, code=code, hint=hint))

    def unknown_attribute(self, entry: Entry, attribute: str, names: Collection[str]) -> None:
        """Add the error that a resource has no ``attribute``, with the nearest of ``names`` as the suggestion.

        The suggestion is recorded: if that attribute is mandatory, ``attribute`` is its misspelling, and one mistake
        must not be reported as a missing attribute too.
        """
        word, hint = suggested_word(attribute, names, "attribute", entry.definition.name)
        self._suggested.setdefault(entry.index, set()).add(word)
        self.resource_error(entry, attribute, f"unknown attribute '{attribute}'", "unknown_attribute", hint)

    def suggested(self, entry: Entry) -> Collection[str]:
        """Return the attributes that were suggested for a resource's misspelt ones: they are not missing then."""
        return self._suggested.get(entry.index, ())

    def component_error(
        self, component: ComponentInstance, output: str, message: str, code: str, hint: str = ""
    ) -> None:
        """Add an error of an output of a component, at its position in the component's own file."""
        assert component.document is not None
        position, name = DocumentPath(component.document, ("outputs", output)).place(), str(component.reference)
        self.problems.append(Problem(None, message, "error", name, *position, code=code, hint=hint))

    def add(self, declared: Entry | ComponentInstance, problem: Problem, *inner: str | int) -> None:
        """Add a problem, without a position yet, of a resource, component or metaparameter, at the keys ``inner``."""
        self._add_at(declared, problem, problem.attribute, *inner)

    def add_of_attribute(self, entry: Entry, problem: Problem) -> None:
        """Add a problem of an attribute, beside which a metaparameter may have the same name (contract §10.8)."""
        self._add_at(entry, problem, entry.definition.spelling(problem.attribute) if problem.attribute else None)

    def _add_at(
        self, declared: Entry | ComponentInstance, problem: Problem, key: str | None, *inner: str | int
    ) -> None:
        """Add a problem of a resource or component at ``key``, or at the keys ``inner`` below it.

        Thousands of resources may inherit one wrong default: its error is hidden for all but the first of them.
        """
        position = self.manifest.place(declared.declaration, key, *inner)
        located = problem._replace(reference=str(declared.reference), **position._asdict())
        if problem.severity != "error":
            self.warnings.append(located)
            return
        declaration = declared.declaration
        if key is not None and self.manifest.inherits(declaration, key):
            default = declaration.file, declaration.type, key, problem.message
            if default in self._of_defaults:
                self._repeated.add(len(self.problems))
            self._of_defaults.add(default)
        self._append(declaration, located)

    def _append(self, declared: Declaration, problem: Problem) -> None:
        """Add an error, with the element of ``for_each`` in its message; hide the same error of further elements.

        Elements share one declaration, so one mistake in it would otherwise be shown for each of them.
        """
        if (element := declared.element) is not None:
            key = declared.file, declared.key, problem.attribute, problem.message
            if key in self._of_elements:
                self._repeated.add(len(self.problems))
            else:
                position = problem.file, problem.line, problem.column, problem.code
                self._by_position.setdefault(position, []).append(len(self.problems))
            self._of_elements.add(key)
            problem = problem._replace(message=f"{problem.message} ({element.origin})")
        self.problems.append(problem)

    def declaration_error(
        self,
        declaration: Declaration,
        message: str,
        code: str,
        attribute: str | None = None,
        *inner: str | int,
        hint: str = "",
    ) -> None:
        """Add an error of a declaration that has no entry, or none yet, as for an unknown type or a wrong title.

        Its position is that of ``attribute``, or of the keys ``inner`` within the attribute's value.
        """
        position = self.manifest.place(declaration, attribute, *inner)
        name = str(declaration.reference)
        self._append(declaration, Problem(attribute, message, "error", name, *position, code=code, hint=hint))

    def value_error(self, name: str, path: tuple[str, ...], message: str, code: str = "function") -> None:
        """Add an error of a named value; ``path`` leads to a value in it."""
        self.error_at(self.manifest.place(("values", name, *path)), f"value '{name}': {message}", code)

    def output_error(self, name: str, message: str, *path: str | int, hint: str = "") -> None:
        """Add an error of an output; ``path`` leads to a key in it."""
        position = self.manifest.place(("outputs", name, *path))
        self.error_at(position, f"output '{name}': {message}", "expression", hint)

    def purge_error(self, purge: Purge, message: str, *path: str | int, hint: str = "") -> None:
        """Add an error of an item under ``purge``; ``path`` leads to a value in it."""
        self.error_at(purge.origin.place(*path), message, "purge", hint)

    def name_change_error(self, change: Moved | Removed, message: str, *path: str) -> None:
        """Add an error of an item under ``moved`` or ``removed``; ``path`` leads to a key in it."""
        self.error_at(change.origin.place(*path), message, "moved")

    def error_at(self, position: FilePosition, message: str, code: str, hint: str = "") -> None:
        """Add an error at a position."""
        self.problems.append(Problem(None, message, "error", "", *position, code=code, hint=hint))

    def location(self, declared: Entry | ComponentInstance) -> str:
        """Return a declaration's position for a message: ``site.yaml:14``, and its element of ``for_each`` if any."""
        position = self.manifest.place(declared.declaration)
        file_line = f"{position.file}:{position.line}" if position.line else position.file
        element = declared.declaration.element
        return f"{file_line}, {element.origin}" if element is not None else file_line
