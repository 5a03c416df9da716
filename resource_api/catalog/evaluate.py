"""What each entry should be: references resolved, defaults filled in, values checked and canonical, identities known.

What only another resource's state tells stays pending. Pure.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from resource_api.catalog import canonicalize
from resource_api.model.entry import EMPTY
from resource_api.model.values import expression
from resource_api.model.values.columnar import batches
from resource_api.model.values.errors import nearest
from resource_api.model.values.expression import Expression, Path
from resource_api.model.values.reference import Reference
from resource_api.model.values.text import show
from resource_api.model.values.values import UNKNOWN, is_secret, is_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.resources import ResourceTable
    from resource_api.manifest.scope import Scope
    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import Name, Resource

T = TypeVar("T")


class Evaluator:
    """Values the entries of a table; ``references`` tells who refers to whom."""

    def __init__(self, table: ResourceTable, diagnostics: Diagnostics, scope: Scope) -> None:
        """Prepare to value what stands in ``table``."""
        self.references: dict[Entry, list[Entry]] = {}
        self._table = table
        self._diagnostics = diagnostics
        self._scope = scope
        #: The named values that something uses.
        self._used: set[str] = set()
        self._resolve = scope.resolver(self._of_resource)
        #: The names of what resources are given: of ten thousand nearly all are given the same.
        self._shapes: dict[tuple[str, ...], tuple[str, ...]] = {}

    def value(self) -> None:
        """Settle what refers to no resource type by type at once, then the others in the order of their references."""
        plain: dict[str, list[Entry]] = {}
        for entry in self._literal(plain):
            given = _given(entry)
            if paths := self._paths(entry, given):
                entry.sources = {name: found for name, each in paths.items() if (found := self._sources(each))}
                self.references[entry] = [first for each in paths.values() for first in self._before(each)]
            else:
                self._evaluate(entry)
                plain.setdefault(entry.instance, []).append(entry)
        for entries in plain.values():
            for some in batches(entries):
                self._settle(some)
        for entry in _by_reference(self.references):
            self._evaluate(entry)
            self._settle([entry])

    def _literal(self, plain: dict[str, list[Entry]]) -> Iterator[Entry]:
        """Note what is given as it stands, by instance; give the others."""
        for some in batches(self._table.entries):
            certain = expression.are_literal([value for entry in some for value in _given(entry).values()])
            for entry in some:
                if certain or all(map(expression.is_literal, _given(entry).values())):
                    plain.setdefault(entry.definition.instance, []).append(entry)
                else:
                    yield entry

    def values(self) -> None:
        """Complain of values with a name that cannot be, used or not, as far as that takes no resource.

        Those that others use come first, so that a mistake is said where it stands and nowhere else.
        """
        written = self._diagnostics.manifest.values
        for name in _by_reference({name: _used(value) for name, value in written.items()}):
            try:
                expression.evaluate(_named(name), self._resolve)
            except ValueError as error:
                self._diagnostics.of_value(name, (), str(error), "expression")
                self._scope.mark_invalid(name)

    def unused(self) -> None:
        """Complain of values with a name that nothing uses and that cannot be."""
        for name in self._diagnostics.manifest.values:
            if name not in self._used:
                try:
                    self.check(_named(name))
                except ValueError as error:
                    self._diagnostics.of_value(name, (), str(error), "expression")

    def check(self, value: Any) -> Any:
        """Give a value that belongs to no resource (an output), as far as it is known; raises ``ValueError``."""
        for path in self._paths_in(value):
            if isinstance(path.root, Reference) and (message := self._dangling(path)):
                raise ValueError(message)
        return expression.evaluate(value, self._resolve)

    def referred(self, value: Any) -> list[Entry]:
        """Give the entries that must come first for a value that belongs to no resource."""
        return self._before([path for path in self._paths_in(value) if isinstance(path.root, Reference)])

    def _paths_in(self, value: Any) -> Iterator[Path]:
        """Yield the paths of a value, and note which named values it uses."""
        for path in self._scope.paths(value):
            if path.root == "values":
                self._used.add(path.keys[0])
            yield path

    def _paths(self, entry: Entry, given: dict[str, Any]) -> dict[str, list[Path]]:
        """Give the paths into resources in each value; a reference to nothing is a problem of the attribute."""
        found = {}
        for name, value in given.items():
            if expression.is_literal(value):
                continue
            try:
                paths = [path for path in self._paths_in(value) if isinstance(path.root, Reference)]
                if message := next(filter(None, map(self._dangling, paths)), ""):
                    raise ValueError(message)  # noqa: TRY301 - the same answer to both
            except ValueError as error:
                self._diagnostics.of(entry, name, str(error), "expression")
                given[name] = UNKNOWN
                continue
            if paths:
                found[name] = paths
        return found

    def _sources(self, paths: Sequence[Path]) -> list[Entry]:
        """Give the resources that a value is made from, also by way of a component's output."""
        return list(filter(None, map(self._find, paths)))

    def _before(self, paths: Sequence[Path]) -> list[Entry]:
        """Give the resources that must come first for a value: those, and all of a component whose output it uses."""
        groups = [self._table.components.get(path.root) for path in paths if isinstance(path.root, Reference)]
        return [*self._sources(paths), *(member for group in groups if group is not None for member in group.members)]

    def _find(self, path: Path) -> Entry | None:
        assert isinstance(path.root, Reference)
        return self._table.find(path.root)

    def _dangling(self, path: Path) -> str:
        """Give what is wrong with a path into a resource: no such resource, or no such attribute."""
        target = self._find(path)
        if target is None:
            assert isinstance(path.root, Reference)
            # That a component gives no such output is found where it is looked up.
            if self._table.broken(path.root.type) or path.root in self._table.components:
                return ""
            titled = self._table.by_title.items()
            known = [
                *(Reference(name, title) for name, titles in titled for title in titles),
                *self._table.components,
            ]
            hint = nearest(str(path.root), map(str, known))
            message = f"{path}: unknown resource '{path.root}'"
        elif path.keys[0] not in target.definition.attributes:
            hint = nearest(path.keys[0], target.definition.attributes)
            message = f"{path}: unknown attribute '{path.keys[0]}'"
        else:
            return ""
        return f"{message}; {hint}" if hint else message

    def _settle(self, entries: Sequence[Entry]) -> None:
        """Fill in defaults, check and canonicalize resources of one type; note their identities."""
        tools = self._table.tools(entries[0].instance)
        filled = [self._fill(entry) for entry in entries]
        settled, problems = canonicalize.canonicalize(tools, filled)
        for place, (entry, before, should) in enumerate(zip(entries, filled, settled, strict=True)):
            entry.should = should
            if should is not before:
                _spell(entry, before)
            found = problems.get(place, ()) if problems else ()
            for problem in found:
                self._diagnostics.report(entry, problem)
            if not found or not any(problem.severity == "error" for problem in found):
                self._identify(entry)

    def _fill(self, entry: Entry) -> Resource:
        """Give what is declared of an entry with its defaults; of what was written the names will do, mostly."""
        given = _given(entry)
        if entry.pending or entry.definition.sensitive:
            entry.written = given.copy()
        else:
            names = tuple(given)
            entry.written = self._shapes.setdefault(names, names)
        return canonicalize.fill_defaults(entry.definition, given)

    def _evaluate(self, entry: Entry) -> None:
        """Replace every reference in an entry's values; what only a state tells is unknown, and pending."""
        values = _given(entry)
        pending = {}
        for name, value in values.items():
            if expression.is_literal(value):
                continue
            try:
                found = self._scope.attribute_value(entry, name, value, self._resolve)
            except ValueError as error:
                self._diagnostics.of(entry, name, str(error), "expression")
                found = UNKNOWN
            if found is not value and is_unknown(found):
                pending[name] = value
                found = UNKNOWN
            values[name] = found
        entry.pending = pending or EMPTY

    def _of_resource(self, path: Path) -> Any:
        """Give what a resource declares; what only its state tells is unknown here."""
        target = self._find(path)
        if target is None or path.keys[0] not in target.should:
            return UNKNOWN
        if target.meta.lifecycle.external or path.keys[0] in target.meta.lifecycle.ignore_changes:
            # It stays as it is, whatever is declared: only reading tells.
            return UNKNOWN
        return expression.follow_keys(target.should[path.keys[0]], path, path.keys[1:])

    def _identify(self, entry: Entry) -> None:
        definition, names = entry.definition, entry.definition.namevars
        name = entry.should.get(names[0]) if len(names) == 1 else tuple(map(entry.should.get, names))
        if type(name) is not str and (unfit := _unfit(name)):
            if not any(self._scope.uses_invalid(entry.pending.get(each)) for each in names):
                self._diagnostics.of(entry, None, *unfit)
            return
        entry.name = name
        twin = self._table.by_name.setdefault(definition.instance, {}).setdefault(name, entry)
        if twin is not entry:
            what = f"is the same resource as {twin.reference} at {self._diagnostics.where(twin)}"
            self._diagnostics.of(entry, None, what, "duplicate")
        wanted = entry.meta.lifecycle.import_
        if wanted is not None and wanted not in entry.own_names:
            # What it is called decides what it is, also when this line has been taken away again.
            what = f"lifecycle.import: it is declared as {show(name)}, not {show(wanted)}"
            hint = f"to take that over, write {names[0]}: {show(wanted)} too" if len(names) == 1 else "name it so"
            self._diagnostics.of(entry, "lifecycle", what, "import", hint)


def _unfit(name: Name) -> tuple[str, str] | None:
    """Give why a value can be nobody's identity, and the problem's code."""
    if is_unknown(name):
        return "a namevar must be known before anything is done", "unknown"
    if is_secret(name):
        return "a namevar cannot be a secret: it is shown and recorded wherever its resource is", "secret"
    return None


def _named(value: str) -> Expression:
    return Expression((Path("values", (value,)),))


def _used(value: Any) -> list[str]:
    """Give the names of the values that a value uses; of one that cannot be read, whoever evaluates it says so."""
    try:
        return [path.keys[0] for path in expression.find_paths(value) if path.root == "values"]
    except ValueError:
        return []


def _given(entry: Entry) -> Resource:
    """Give the values of an entry that has not been settled, as they are written."""
    assert type(entry.written) is dict
    return entry.written


def _spell(entry: Entry, before: Resource) -> None:
    """Keep how the values of an entry were written ``before`` canonicalize, where it has changed any of them."""
    names, should = entry.written, entry.should
    if type(names) is tuple and not all(map(is_, map(should.get, names), map(before.get, names))):
        entry.written = {name: before.get(name) for name in names}


def _by_reference(references: Mapping[T, Sequence[T]]) -> list[T]:
    """Give what refers to others, those referred to first; a circle comes in any order, it is refused as a cycle."""
    done: dict[T, None] = {}
    for start in references:
        stack = [start]
        inside = {start}
        while stack:
            following = next(
                (t for t in references[stack[-1]] if t in references and t not in done and t not in inside), None
            )
            if following is None:
                done[stack.pop()] = None
            else:
                inside.add(following)
                stack.append(following)
    return list(done)
