"""The symbol table of a manifest: resources by title and by canonical name, components, and the definitions in use.

A resource's identity is its canonical name: the canonical value of its namevar, or the tuple of several namevars, which
may come from the title. No two resources of a provider instance have the same one. Pure.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from resource_api.model.provider_functions import canonical_name
from resource_api.model.values.errors import DefinitionError
from resource_api.model.values.reference import (
    TYPE_NAME,
    Reference,
    child_reference,
    component_chain,
    enclosing_components,
    split_instance,
)
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import show
from resource_api.model.values.values import is_secret, is_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.expression_scope import Scope
    from resource_api.model.attribute import Attribute
    from resource_api.model.declaration import Declaration, FilePosition
    from resource_api.model.entry import ComponentInstance, Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Record
    from resource_api.model.type_definition import LoadedComponent, Name, TypeDefinition


class Definitions(NamedTuple):
    """Look up types and components by name; each function may raise ``DefinitionError``."""

    #: Provider instance → its type's definition and pure functions.
    provider: Callable[[str], ProviderFunctions]
    #: Name → component, or None.
    component: Callable[[str], LoadedComponent | None] = lambda _name: None
    #: Name of a function → the types that have it.
    functions: Callable[[str], Sequence[str]] = lambda _name: ()


class LeftOut(NamedTuple):
    """A part of a manifest whose condition does not hold, and the reason (contract §10.6)."""

    #: The reference of a resource or component, as written where its title is not evaluated; ``output x``;
    #: ``purge of Cron``; a file.
    name: str
    reason: str
    position: FilePosition
    #: None for an output, an entry of ``purge``, and a file.
    declaration: Declaration | None = None

    @property
    def located_reason(self) -> str:
        """The reason and the position: ``facts.os.family is Debian, not RedHat (site.yaml:14)``."""
        return self.position.after(self.reason)


class LeftOuts:
    """The parts of a manifest that are left out; declarations by their names."""

    def __init__(self) -> None:
        """Begin with nothing left out; references to left-out declarations are explained by these records."""
        self.all: list[LeftOut] = []
        #: Reference as text → the declaration.
        self._by_name: dict[str, LeftOut] = {}
        #: The patterns of titles that are not evaluated.
        self._patterns: list[tuple[re.Pattern[str], LeftOut]] = []

    def add(self, left_out: LeftOut, names: Iterable[str] = (), pattern: re.Pattern[str] | None = None) -> None:
        """Add a left-out part under the references that may name it, by which an error finds its reason.

        ``pattern`` stands for the references to a title that is not evaluated.
        """
        self.all.append(left_out)
        for name in names:
            self._by_name.setdefault(name, left_out)
        if pattern is not None:
            self._patterns.append((pattern, left_out))

    def declarations(self) -> list[Declaration]:
        """Return the declarations of resources and components among them."""
        return [part.declaration for part in self.all if part.declaration is not None]

    def match(self, text: str, matches: Callable[[str], bool]) -> bool:
        """Return whether ``text``, a reference or a pattern on the command line, matches a left-out declaration."""
        return self._find(text) is not None or any(map(matches, self._by_name))

    def find(self, name: Reference) -> LeftOut | None:
        """Return the left-out declaration that has, or may have, this name or is a component around it, or None."""
        return self._find(str(name)) if self.all else None

    def _find(self, text: str) -> LeftOut | None:
        """Return the left-out declaration that a reference, as text, refers to, or None.

        A resource in a left-out component is left out with it, so the names of its components are tried too.
        """
        parent = text.rpartition("]/")[0] + "]" if "]/" in text else ""  # ``Site[a]`` of ``Site[a]/File[b]``
        for reference in (text, *enclosing_components(parent)):
            if (left_out := self._by_name.get(reference)) is not None:
                return left_out
        return next((left_out for pattern, left_out in self._patterns if pattern.match(text)), None)


class ResourceTable:
    """The symbol table of a manifest: entries and components by name, and the definitions that they use."""

    def __init__(self, scope: Scope, definitions: Definitions) -> None:
        """Begin without entries; ``scope`` shares the components, for expressions."""
        self.entries: list[Entry] = []
        #: Type → title or alias → entry.
        self.by_title: dict[str, dict[str, Entry]] = {}
        #: Provider instance → canonical name → entry.
        self.by_name: dict[str, dict[Any, Entry]] = {}
        #: Reference → entry, of namevars beside other titles: canonical names are known after values are evaluated.
        self._by_namevar: dict[Reference, Entry] = {}
        #: Components by reference and alias.
        self.components: dict[Reference, ComponentInstance] = scope.components
        #: The declarations whose conditions do not hold, and those of empty collections, which make no resource.
        self.left_out = LeftOuts()
        self.empty: list[Declaration] = []
        #: The types and components of which a declaration is invalid: references to them are not reported.
        self.incomplete: set[str] = set()
        self._definitions = definitions
        #: Provider instance → its functions, or the error of its definition: each is looked up once.
        self._providers: dict[str, ProviderFunctions] = {}
        self._broken: dict[str, DefinitionError] = {}
        #: Provider instance → the reason that its provider cannot be made before something is installed.
        self.missing: dict[str, str] = {}

    def find(self, name: Reference) -> Entry | None:
        """Return the entry of a reference, by title, alias, canonical name, or its namevar as written, or None."""
        type_name, title = name
        entry = self.by_title.get(type_name, {}).get(title) or self.by_name.get(type_name, {}).get(title)
        return entry or self._by_namevar.get(name)

    def references(self) -> list[Reference]:
        """Return every name of a resource or component, by title and alias, for suggestions."""
        titles = self.by_title.items()
        return [*(Reference(name, title) for name, entries in titles for title in entries), *self.components]

    def instances(self) -> Mapping[str, TypeDefinition]:
        """Return the provider instances that are in use, with their types."""
        return {name: provider.definition for name, provider in self._providers.items()}

    def is_broken(self, type_name: str) -> bool:
        """Return whether a type, component or declaration of it is invalid: references to it are not reported too."""
        return type_name in self.incomplete or any(split_instance(name)[0] == type_name for name in self._broken)

    def attributes(self, name: str) -> Mapping[str, Attribute]:
        """Return the attributes of a type, or the inputs of a component. Raises ``DefinitionError``."""
        component = None if name in self._providers else self._definitions.component(name)
        return (component or self.provider(name)).definition.attributes

    def provider(self, instance: str) -> ProviderFunctions:
        """Return the pure functions of a provider instance, looked up once. Repeat its ``DefinitionError`` if any."""
        functions = self._providers.get(instance)
        if functions is None:
            if instance in self._broken:
                raise self._broken[instance]
            try:
                functions = self._providers[instance] = self._definitions.provider(instance)
            except DefinitionError as error:
                self._broken[instance] = error
                raise
            if functions.missing:
                self.missing[instance] = functions.missing
        return functions

    def component(self, name: str) -> LoadedComponent | None:
        """Return the component with a name, or None for a type. Raise ``DefinitionError`` for a broken component.

        The error is recorded, and the result for the same name is None afterwards: ``provider``, which callers ask
        next, repeats the error.
        """
        if name in self._providers or name in self._broken:
            return None
        try:
            return self._definitions.component(name)
        except DefinitionError as error:
            self._broken[name] = error
            raise

    def add_title(self, entry: Entry) -> Entry:
        """Add an entry under its title unless that is taken; return the entry with the title.

        The caller reports a duplicate if that is another entry. A resource in a component is added under the type
        ``site`` and the title ``a]/File[b``, as references within components are cut at their first bracket.
        """
        parent, type_name, title = entry.declaration.parent, entry.declaration.type, entry.title
        if parent:
            type_name, title = child_reference(parent, type_name, title)
        return (self.by_title.get(type_name) or self.by_title.setdefault(type_name, {})).setdefault(title, entry)

    def add_namevar(self, entry: Entry, values: Mapping[str, object]) -> None:
        """Add an entry under its only namevar too, if that is literal: references may use it in place of the title.

        A literal namevar is known before any value is evaluated. An entry of a configured provider is not added: the
        same namevar may be another resource there.
        """
        definition = entry.definition
        value = values.get(definition.namevars[0]) if len(definition.namevars) == 1 else None
        is_title = value == entry.title and not entry.parent
        if type(value) is str and "${" not in value and not is_title and definition.instance == definition.name:
            self._by_namevar.setdefault(Reference(definition.name, value), entry)


def add_namevars(entry: Entry, values: dict[str, object], diagnostics: Diagnostics) -> bool:
    """Add to ``values``, the declared attributes, the namevars that the title has.

    The type's title patterns assign parts of the title to namevars (Puppet Resource API, "Composite namevars"). Report
    a title that matches no pattern, and a namevar that is neither declared nor in the title. Return whether the title
    as a whole is the namevar: references then need no second entry for it.
    """
    definition = entry.definition
    if None not in map(values.get, definition.namevars):
        return False
    if definition.title_is_name and "${" not in entry.title:
        values[definition.namevars[0]] = entry.title
        return True
    captured = definition.namevars_from_title(entry.title)
    if captured is None:
        patterns = " or ".join(regex.pattern for regex in definition.titles.regexes)
        diagnostics.resource_error(entry, None, f"the title matches no title pattern ({patterns})", "title")
        return False
    for namevar in definition.namevars:
        if values.get(namevar) is not None:
            continue
        attribute = definition.attributes[namevar]
        if namevar in captured:
            value = captured[namevar]
            # The title has been evaluated already: its text is never an expression again.
            values[namevar] = value.replace("${", "$${") if isinstance(value, str) else value
        elif not (attribute.datatype.optional or attribute.has_default) and namevar not in diagnostics.suggested(entry):
            diagnostics.resource_error(entry, None, f"the namevar '{namevar}' is missing", "missing_attribute")
    return False


def identify(entry: Entry, table: ResourceTable, diagnostics: Diagnostics, scope: Scope) -> None:
    """Set the identity of an entry, its canonical name, and add it to ``table``; report an invalid or repeated one.

    The name is the canonical value of the namevar, or a tuple of them. A value that ``scope`` reported as invalid is
    not reported again. An ``import`` with another name is an error too: removing it later would change the identity.
    """
    definition, names = entry.definition, entry.definition.namevars
    name = entry.should.get(names[0]) if len(names) == 1 else tuple(map(entry.should.get, names))
    if type(name) is not str and (problem := _name_problem(name)):
        # An unknown name is reported only if it waits for a resource, which none may: otherwise the mistake that makes
        # it unknown is reported already.
        pending = [entry.pending[namevar] for namevar in names if namevar in entry.pending]
        if not is_unknown(name) or (pending and not any(map(scope.uses_invalid, pending))):
            diagnostics.resource_error(entry, None, *problem)
        return
    entry.name = name
    first = table.by_name.setdefault(definition.instance, {}).setdefault(name, entry)
    if first is not entry:
        message = f"is the same resource as {first.reference} at {diagnostics.location(first)}"
        diagnostics.resource_error(entry, None, message, "duplicate")
    imported = None if "import" in definition.features else entry.meta.lifecycle.import_
    if imported is not None and not names_entry(imported, entry, table.provider(definition.instance)):
        # After the import the user removes this line: the identity must stay the same.
        declared = definition.title_of(definition.absent_row(name))
        message = f"lifecycle.import: it is declared as {show(declared)}, not {show(imported)}"
        hint = f"to import that, write {names[0]}: {show(imported)} too" if len(names) == 1 else "name it so"
        diagnostics.resource_error(entry, "lifecycle", message, "import", hint)


def names_entry(text: str, entry: Entry, functions: ProviderFunctions) -> bool:
    """Return whether ``text``, an id to import, is the name of an entry, in its canonical or another spelling.

    Only that resource can be imported by a type without a method ``import_``, which reads a resource by its name.
    """
    if text in entry.own_names:
        return True
    try:
        return bool(canonical_name(functions, text) == entry.name)
    except Exception:  # noqa: BLE001 - what the provider cannot canonicalize is another name
        return False


def _name_problem(name: Name) -> tuple[str, str] | None:
    """Return the error, and its code, of a namevar's value that cannot be an identity, or None."""
    if is_unknown(name):
        return "a namevar must be known before anything is done", "unknown"
    if is_secret(name):
        return "a namevar cannot be a secret: it is shown and recorded wherever its resource is", "secret"
    return None


def has_unsuitable_identity(entry: Entry) -> bool:
    """Return whether a namevar of an entry is missing or a secret, which is reported elsewhere.

    A function of the type may fail for such a value: its failure is then not reported too.
    """
    for name in entry.definition.namevars:
        value = entry.should.get(name)
        if is_secret(value) or (value is None and not entry.definition.attributes[name].datatype.optional):
            return True
    return False


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test of references for ``pattern``: a reference with the wildcards ``*`` and ``?``, or a type alone.

    The test takes linear time, because a pattern of a user may be compared with thousands of references.
    """
    text = pattern[:1].upper() + pattern[1:]
    if "[" not in text and TYPE_NAME.match(text.lower()):
        text += "[*]"
    least = len(text) - text.count("*")  # a shorter reference cannot match

    @cache
    def regex() -> re.Pattern[str]:
        """Return the regular expression of ``text``, the pattern, compiled at the first reference that is long enough.

        ``Ax*y*z?`` becomes ``Ax(?>.*?y).*z.``, of which the part in brackets is an atomic group.
        """
        first, *rest = ("".join("." if c == "?" else re.escape(c) for c in part) for part in re.split(r"\*+", text))
        # Atomic groups: only the first occurrence of a part counts, so there is no backtracking.
        inner = "".join(f"(?>.*?{part})" for part in rest[:-1])
        return re.compile(f"{first}{inner}.*{rest[-1]}" if rest else first, re.DOTALL)

    return lambda reference: len(reference) >= least and regex().fullmatch(reference) is not None


def selecting_names(entry: Entry | Record, *, whole: bool = False) -> list[str]:
    """Return the names by which ``--target`` and wildcards select a resource, its whole reference first.

    For ``Site[a]/File[b]`` they are also ``Site[a]``, which selects the whole component, and the short ``File[b]``.
    ``whole`` excludes short names, for a URN, which always has the whole reference.
    """
    names = [str(entry.reference)]
    if entry.parent:
        names += enclosing_components(entry.parent)
        if not whole:
            names += [str(Reference(entry.type, entry.title)), *map(str, component_chain(entry.parent))]
    return names


def matching_entries(name: Reference, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries of a reference with wildcards, by their own or a component's reference (contract §10.5)."""
    matches = matcher(str(name))
    # Outside of components the type is compared first, which is fast. A component's name has another type.
    return [
        entry
        for entry in entries
        if (entry.parent or entry.type == name.type) and any(map(matches, selecting_names(entry)))
    ]
