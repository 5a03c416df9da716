"""Declarations and types → a catalog: validated, canonical resources in the order of execution.

Pure: no clock, no random, no log, no I/O. Canonicalizers and validators come in as plain functions. All problems
are collected, each with its place, and raised at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from resource_api.nouns import expression, reference
from resource_api.nouns.entry import NOTHING, Entry, meta
from resource_api.nouns.errors import DefinitionError, ManifestError, Problem, nearest, reason
from resource_api.nouns.expression import Path
from resource_api.nouns.reference import Reference, capital
from resource_api.nouns.values import UNKNOWN
from resource_api.stages import binding, relationships, settle
from resource_api.stages.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.nouns.tools import Tools
    from resource_api.nouns.declaration import Declaration, Manifest
    from resource_api.nouns.definition import Name
    from resource_api.stages.relationships import Edge


class Catalog(NamedTuple):
    """What should be: entries in the order of execution, and the relationships among them by index."""

    manifest: Manifest
    entries: Sequence[Entry]
    #: index → the indexes that must come before it, directly.
    requires: Mapping[int, Sequence[int]]
    #: index → the indexes that refresh it when they change.
    subscribes: Mapping[int, Sequence[int]]
    scope: Scope
    warnings: Sequence[Problem] = ()
    notes: Sequence[str] = ()

    def find(self, target: Reference) -> Entry | None:
        """Give the entry that a reference means: by title, by an alias, or by its identity."""
        return next((e for e in self.entries if e.reference == target), None) or next(
            (e for e in self.entries if e.type == target.type and target.title in (*e.meta.aliases, e.name)), None
        )


def compile(  # noqa: A001 - the arrow's name
    manifest: Manifest,
    inputs: Mapping[str, Any],
    facts: Mapping[str, Any],
    tools: Callable[[str], Tools],
) -> Catalog:
    """Give the catalog of a manifest. Raises ``ManifestError`` with every problem.

    ``inputs``: values by name; ``facts``: anything that answers ``[name]``; ``tools``: a type's pure functions.
    """
    return _Compiler(manifest, Scope(manifest, inputs, facts), tools).compile()


class _Compiler:
    """Collects entries and problems while a catalog is being made."""

    def __init__(self, manifest: Manifest, scope: Scope, tools: Callable[[str], Tools]) -> None:
        self.manifest = manifest
        self.scope = scope
        self.tools = tools
        self.problems: list[Problem] = list(scope.problems)
        self.warnings: list[Problem] = []
        self.entries: list[Entry] = []
        self.by_title: dict[tuple[str, str], Entry] = {}
        self.by_name: dict[tuple[str, Name], Entry] = {}
        self.broken: dict[str, str] = {}
        self.known_tools: dict[str, Tools] = {}
        self._given: dict[Entry, dict[str, Any]] = {}
        self._resolve = scope.resolver(self._of_resource)
        #: Entries whose values refer to resources, with the entries they refer to.
        self.references: dict[Entry, list[Entry]] = {}

    def compile(self) -> Catalog:
        for declaration in self.manifest.resources:
            self._enter(declaration)
        self._aliases()
        self._settle_all()
        bound = binding.bind(self.entries, self.references, self._target, self._complain)
        order = relationships.order(len(self.entries), bound)
        for cycle in order.cycles:
            names = [str(self.entries[index].reference) for index in (*cycle, cycle[0])]
            self._complain(self.entries[cycle[0]], None, f"dependency cycle: {' => '.join(names)}", "cycle")
        self._outputs()
        if self.problems:
            raise ManifestError(self.problems)
        return self._finish(order)

    # One declaration → one entry

    def _enter(self, declaration: Declaration) -> None:
        try:
            tools = self._tools(declaration.type)
        except DefinitionError as error:
            if str(error) not in self.broken.values() or declaration.type not in self.broken:
                self.broken[declaration.type] = str(error)
            self._place(declaration, None, str(error), "type")
            return
        try:
            title = expression.evaluate(declaration.title, self.scope.resolver(_no_resource_in_title))
        except ValueError as error:
            self._place(declaration, None, str(error), "title")
            return
        entry = Entry(declaration, tools.definition, str(title))
        key = (declaration.type, entry.title)
        if (twin := self.by_title.get(key)) is not None:
            where = self.manifest.place(twin.declaration)
            self._complain(entry, None, f"declared twice; first at {where.file}:{where.line}", "duplicate")
            return
        entry.meta = meta(declaration.meta)
        self.by_title[key] = entry
        self.entries.append(entry)
        self._given[entry] = self._gather(entry)

    def _tools(self, type_name: str) -> Tools:
        tools = self.known_tools.get(type_name)
        if tools is None:
            if type_name in self.broken:
                raise DefinitionError(self.broken[type_name])
            tools = self.known_tools[type_name] = self.tools(type_name)
        return tools

    def _gather(self, entry: Entry) -> dict[str, Any]:
        """Join defaults, attributes and the title's namevars; check the names of attributes."""
        definition, declaration = entry.definition, entry.declaration
        defaults = self.manifest.defaults.get(declaration.file)
        given = dict(defaults[declaration.type]) if defaults and declaration.type in defaults else {}
        given.update(declaration.attributes)
        known = definition.attributes
        for name in given:
            if name not in known:
                self._complain(entry, name, f"unknown attribute '{name}'", "unknown_attribute", nearest(name, known))
            elif known[name].kind == "read_only":
                self._complain(entry, name, f"'{name}' is read_only; it is reported, never set", "read_only")
        given = {k: v for k, v in given.items() if k in known and known[k].kind != "read_only"}
        self._name_from_title(entry, given)
        return given

    def _name_from_title(self, entry: Entry, given: dict[str, Any]) -> None:
        definition = entry.definition
        if all(given.get(namevar) is not None for namevar in definition.namevars):
            return
        captured = definition.from_title(entry.title)
        if captured is None:
            patterns = " or ".join(regex.pattern for regex in definition.title_regexes)
            self._complain(entry, None, f"the title matches no title pattern ({patterns})", "title")
            return
        for namevar in definition.namevars:
            if given.get(namevar) is None and namevar in captured:
                given[namevar] = captured[namevar]
            elif given.get(namevar) is None and not definition.attributes[namevar].datatype.optional:
                self._complain(entry, None, f"the namevar '{namevar}' is missing", "missing_attribute")

    def _aliases(self) -> None:
        for entry in self.entries:
            for alias in entry.meta.aliases:
                twin = self.by_title.setdefault((entry.type, alias), entry)
                if twin is not entry:
                    where = self.manifest.place(twin.declaration)
                    message = f"the alias '{alias}' is taken; first at {where.file}:{where.line}"
                    self._complain(entry, "alias", message, "duplicate")

    # Values

    def _settle_all(self) -> None:
        """Settle what refers to no resource type by type at once, then the others in the order of their references."""
        plain: dict[str, list[Entry]] = {}
        for entry in self.entries:
            if targets := self._targets(entry):
                self.references[entry] = targets
            else:
                plain.setdefault(entry.type, []).append(entry)
        for entries in plain.values():
            self._settle(entries)
        for entry in _by_reference(self.references):
            self._settle([entry])

    def _targets(self, entry: Entry) -> list[Entry]:
        """Give the entries that an entry's values refer to; a reference to nothing is a problem of the attribute."""
        found = []
        for name, value in self._given[entry].items():
            if type(value) is str and "${" not in value:
                continue
            try:
                paths = [path for path in self._paths(value) if isinstance(path.root, Reference)]
            except ValueError as error:
                self._complain(entry, name, str(error), "expression")
                self._given[entry][name] = UNKNOWN
                continue
            found += [target for path in paths if (target := self._target_of(entry, name, path)) is not None]
        return found

    def _paths(self, value: Any, seen: tuple[str, ...] = ()) -> Iterable[Path]:
        """Give the paths in a value, also those behind ``${values.x}``."""
        for path in expression.find(value):
            yield path
            if path.root == "values" and path.keys[0] in self.manifest.values and path.keys[0] not in seen:
                yield from self._paths(self.manifest.values[path.keys[0]], (*seen, path.keys[0]))

    def _target_of(self, entry: Entry, name: str, path: Path) -> Entry | None:
        assert isinstance(path.root, Reference)
        target = self._target(path.root)
        if target is None:
            self._complain(entry, name, f"{path}: unknown resource '{path.root}'", "unknown_resource", self._near(path.root))
            self._given[entry][name] = UNKNOWN
        elif path.keys[0] not in target.definition.attributes:
            hint = nearest(path.keys[0], target.definition.attributes)
            self._complain(entry, name, f"{path}: unknown attribute '{path.keys[0]}'", "unknown_attribute", hint)
            self._given[entry][name] = UNKNOWN
            return None
        return target

    def _target(self, wanted: Reference) -> Entry | None:
        return self.by_title.get((wanted.type, wanted.title)) or self.by_name.get((wanted.type, wanted.title))

    def _near(self, wanted: Reference) -> str:
        return nearest(str(wanted), [str(Reference(*key)) for key in self.by_title])

    def _settle(self, entries: list[Entry]) -> None:
        """Evaluate, fill in defaults, check and canonicalize resources of one type; note their identities."""
        tools = self._tools(entries[0].type)
        resources = [settle.fill(tools.definition, self._evaluate(entry)) for entry in entries]
        settled, problems = settle.settle(tools, resources)
        for entry, should, found in zip(entries, settled, problems, strict=True):
            entry.should = should
            for problem in found:
                self._report(entry, problem)
            if not any(problem.severity == "error" for problem in found):
                self._identify(entry)

    def _evaluate(self, entry: Entry) -> dict[str, Any]:
        """Give an entry's values with every reference replaced; what only another resource's state tells stays pending."""
        given = self._given[entry]
        values, pending = {}, {}
        for name, value in given.items():
            if type(value) is str and "${" not in value:
                values[name] = value
                continue
            try:
                values[name] = expression.evaluate(value, self._resolve)
            except ValueError as error:
                self._complain(entry, name, str(error), "expression")
                values[name] = UNKNOWN
                continue
            if values[name] is not value and settle.is_unknown(values[name]):
                values[name] = UNKNOWN
                pending[name] = value
        entry.spelling = values
        entry.pending = pending or NOTHING
        return values

    def _of_resource(self, path: Path) -> Any:
        """Give what a resource declares; what only its state tells is unknown here."""
        assert isinstance(path.root, Reference)
        target = self._target(path.root)
        if target is None or path.keys[0] not in target.should:
            return UNKNOWN
        return expression.walk(target.should[path.keys[0]], path, path.keys[1:])

    def _identify(self, entry: Entry) -> None:
        definition = entry.definition
        try:
            name = definition.name_of(entry.should)
        except KeyError:
            name = tuple(entry.should.get(namevar) for namevar in definition.namevars)
            name = name if len(definition.namevars) > 1 else entry.title
        if name is UNKNOWN or (isinstance(name, tuple) and UNKNOWN in name):
            self._complain(entry, None, "a namevar must be known before anything is done", "unknown")
            return
        entry.name = name
        twin = self.by_name.setdefault((entry.type, name), entry)
        if twin is not entry:
            where = self.manifest.place(twin.declaration)
            what = f"is the same resource as {twin.reference} at {where.file}:{where.line}"
            self._complain(entry, None, what, "duplicate")

    def _outputs(self) -> None:
        for name, value in self.manifest.outputs.items():
            try:
                for path in self._paths(value):
                    if isinstance(path.root, Reference):
                        self._check_output(path)
                expression.evaluate(value, self._resolve)
            except ValueError as error:
                place = self.manifest.place(("outputs", name))
                self.problems.append(Problem(None, f"output '{name}': {error}", "error", "", *place, code="expression"))

    def _check_output(self, path: Path) -> None:
        assert isinstance(path.root, Reference)
        target = self._target(path.root)
        if target is None:
            hint = self._near(path.root)
            msg = f"{path}: unknown resource '{path.root}'" + (f"; {hint}" if hint else "")
            raise ValueError(msg)
        if path.keys[0] not in target.definition.attributes:
            hint = nearest(path.keys[0], target.definition.attributes)
            msg = f"{path}: unknown attribute '{path.keys[0]}'" + (f"; {hint}" if hint else "")
            raise ValueError(msg)

    # Problems

    def _complain(self, entry: Entry, attribute: str | None, message: str, code: str, hint: str = "") -> None:
        self._report(entry, Problem(attribute, message, code=code, hint=hint))

    def _report(self, entry: Entry, problem: Problem) -> None:
        place = self.manifest.place(entry.declaration, problem.attribute)
        placed = problem._replace(reference=str(entry.reference), file=place.file, line=place.line, column=place.column)
        (self.problems if problem.severity == "error" else self.warnings).append(placed)

    def _place(self, declaration: Declaration, attribute: str | None, message: str, code: str) -> None:
        place = self.manifest.place(declaration, attribute)
        shown = f"{capital(declaration.type)}[{declaration.title}]"
        self.problems.append(Problem(attribute, message, "error", shown, *place, code=code))

    def _finish(self, order: relationships.Order) -> Catalog:
        entries = [self.entries[number] for number in order.sequence]
        place = {}
        for index, (number, entry) in enumerate(zip(order.sequence, entries, strict=True)):
            entry.index = index
            place[number] = index
        requires: dict[int, list[int]] = {}
        subscribes: dict[int, list[int]] = {}
        for edge in order.edges:
            requires.setdefault(place[edge.then], []).append(place[edge.first])
            if edge.refresh:
                subscribes.setdefault(place[edge.then], []).append(place[edge.first])
        return Catalog(
            self.manifest, entries, requires, subscribes, self.scope, self.warnings, self._notes(order.yielded)
        )

    def _notes(self, yielded: Sequence[Edge]) -> list[str]:
        return [
            f"the automatic relationship {self.entries[edge.first].reference} → {self.entries[edge.then].reference}"
            " gives way to explicit ones that say the contrary"
            for edge in yielded
        ]


def _no_resource_in_title(path: Path) -> Any:
    msg = f"{path}: a title cannot depend on another resource"
    raise ValueError(msg)


def _by_reference(references: Mapping[Entry, Sequence[Entry]]) -> list[Entry]:
    """Give the referring entries, those referred to first; what refers in a circle comes in any order (a cycle anyway)."""
    done: dict[Entry, None] = {}
    for start in references:
        stack = [(start, iter(references[start]))]
        inside = {start}
        while stack:
            entry, targets = stack[-1]
            following = next((t for t in targets if t in references and t not in done and t not in inside), None)
            if following is None:
                stack.pop()
                done[entry] = None
            else:
                inside.add(following)
                stack.append((following, iter(references[following])))
    return list(done)
