"""Declarations → entries: the type, the title, the names of attributes, inherited defaults.

A component becomes the entries of the resources that it makes. Values are not evaluated here. Pure: types and
components come in as functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog.components import Expander
from resource_api.catalog.defaults import defaults_of
from resource_api.catalog.identity import add_namevars
from resource_api.catalog.name_expressions import NameEvaluator, have_literal_names
from resource_api.catalog.provider_config import select_instance, unknown_implementation
from resource_api.model.attribute import METAPARAMETERS
from resource_api.model.entry import NO_META, ComponentInstance, Entry, make_meta
from resource_api.model.values import expression, reference
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DefinitionError, nearest
from resource_api.model.values.reference import (
    Reference,
    capitalize_type,
    child_reference,
    component_chain,
    parse,
    split_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.expression_scope import Scope
    from resource_api.model.attribute import Attribute
    from resource_api.model.component import LoadedComponent
    from resource_api.model.declaration import Declaration, Manifest
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import TypeDefinition


class Definitions(NamedTuple):
    """Looks types and components up by name; each function may raise ``DefinitionError``."""

    #: Provider instance → its type's definition and pure functions.
    provider: Callable[[str], ProviderFunctions]
    #: Name → component; None where no component has that name.
    component: Callable[[str], LoadedComponent | None] = lambda _name: None
    #: Name of a function → the types that have it.
    functions: Callable[[str], Sequence[str]] = lambda _name: ()


class ResourceTable:
    """The symbol table of a manifest: entries and components by name, and the definitions that they use."""

    def __init__(self, scope: Scope, definitions: Definitions) -> None:
        """Begin empty."""
        self.entries: list[Entry] = []
        #: Type → title or alias → entry.
        self.by_title: dict[str, dict[str, Entry]] = {}
        #: Provider instance → canonical name → entry.
        self.by_name: dict[str, dict[Any, Entry]] = {}
        #: Components by reference and alias.
        self.components: dict[Reference, ComponentInstance] = scope.components
        #: The types and components of which a declaration is invalid: references to them are not reported.
        self.incomplete: set[str] = set()
        self._definitions = definitions
        self._providers: dict[str, ProviderFunctions] = {}
        self._broken: dict[str, DefinitionError] = {}
        #: Provider instance → why its provider cannot be made before something is installed.
        self.missing: dict[str, str] = {}

    def find(self, wanted: Reference) -> Entry | None:
        """Return the entry with this title, alias, or canonical name."""
        type_name, title = wanted
        return self.by_title.get(type_name, {}).get(title) or self.by_name.get(type_name, {}).get(title)

    def references(self) -> list[Reference]:
        """Return every reference by title or alias that means a resource or a component."""
        titles = self.by_title.items()
        return [*(Reference(name, title) for name, entries in titles for title in entries), *self.components]

    def instances(self) -> Mapping[str, TypeDefinition]:
        """Return the provider instances that are in use, with their types."""
        return {name: provider.definition for name, provider in self._providers.items()}

    def is_broken(self, type_name: str) -> bool:
        """Whether a type or component is broken, or a declaration of it: its resources may be missing."""
        return type_name in self.incomplete or any(split_instance(name)[0] == type_name for name in self._broken)

    def attributes(self, name: str) -> Mapping[str, Attribute]:
        """Return the attributes of a type, or the inputs of a component. Raises ``DefinitionError``."""
        component = None if name in self._providers else self._definitions.component(name)
        return (component or self.provider(name)).definition.attributes

    def provider(self, instance: str) -> ProviderFunctions:
        """Return the pure functions of a provider instance. Raises ``DefinitionError``, each time the same."""
        found = self._providers.get(instance)
        if found is None:
            if instance in self._broken:
                raise self._broken[instance]
            try:
                found = self._providers[instance] = self._definitions.provider(instance)
            except DefinitionError as error:
                self._broken[instance] = error
                raise
            if found.missing:
                self.missing[instance] = found.missing
        return found

    def component(self, name: str) -> LoadedComponent | None:
        """Return a component; None where the name is a type's. Raises ``DefinitionError``."""
        if name in self._providers or name in self._broken:
            return None
        try:
            return self._definitions.component(name)
        except DefinitionError as error:
            self._broken[name] = error
            raise

    def add_title(self, entry: Entry) -> Entry:
        """Add an entry by its title; return the first one with that title."""
        parent, type_name, title = entry.declaration.parent, entry.declaration.type, entry.title
        if parent:
            type_name, title = child_reference(parent, type_name, title)
        return (self.by_title.get(type_name) or self.by_title.setdefault(type_name, {})).setdefault(title, entry)


class EntryBuilder:
    """Builds the entries of a manifest in a table, and reports what is wrong with declarations."""

    def __init__(self, table: ResourceTable, diagnostics: Diagnostics, scope: Scope, names: NameEvaluator) -> None:
        """Build in ``table``."""
        self._table = table
        self._diagnostics = diagnostics
        self._names = names
        self._expander = Expander(diagnostics, scope, table.component, names, table.incomplete)
        #: Provider instance → its type, of all entries so far: a short way for thousands of resources of one type.
        self._definitions: dict[str, TypeDefinition] = {}

    def build(self, manifest: Manifest) -> None:
        """Add an entry for every declaration of a manifest, then the aliases."""
        literal = have_literal_names(manifest.resources)
        for declaration in manifest.resources:
            if (named := declaration if literal else self._names.evaluate_declaration(declaration)) is not None:
                self._add(named, manifest)
            else:
                # Other declarations may refer to it.
                self._table.incomplete.add(declaration.type)
        for entry in self._table.entries:
            for alias in entry.meta.aliases:
                name = child_reference(entry.parent, entry.type, alias)
                self._check_alias(entry, alias, self._table.by_title[name.type].setdefault(name.title, entry))
        for component in list(self._table.components.values()):
            for alias in component.meta.aliases:
                name = child_reference(component.parent, component.type, alias)
                self._check_alias(component, alias, self._table.components.setdefault(name, component))

    def _check_alias(self, named: Entry | ComponentInstance, alias: str, first: Entry | ComponentInstance) -> None:
        if first is not named:
            message = f"the alias '{alias}' is taken; first at {self._diagnostics.location(first)}"
            self._diagnostics.resource_error(named, "alias", message, "duplicate")

    def _add(self, declaration: Declaration, manifest: Manifest) -> None:
        definition = None if "provider" in declaration.meta else self._definitions.get(declaration.type)
        if definition is not None:
            self._add_resource(Entry(declaration, definition), manifest)
            return
        try:
            component = self._table.component(declaration.type)
            instance = self._instance(declaration, component)
            if component is None:
                definition = self._definitions[instance] = self._table.provider(instance).definition
        except DefinitionError as error:
            self._diagnostics.declaration_error(declaration, str(error), "type")
            return
        if component is not None:
            self._add_component(ComponentInstance(declaration), component, manifest)
        elif definition is not None:
            self._add_resource(Entry(declaration, definition), manifest)

    def _add_resource(self, entry: Entry, manifest: Manifest) -> None:
        declaration = entry.declaration
        if (first := self._table.add_title(entry)) is not entry:
            self._report_duplicate(entry, first)
            return
        if declaration.meta:
            entry.meta = make_meta(declaration.meta)
            if entry.meta is not NO_META:
                self._check_lifecycle(entry)
                if entry.meta.implementation is not None:
                    self._check_implementation(entry)
        entry.index = len(self._table.entries)
        self._table.entries.append(entry)
        entry.written = self._given(entry, defaults_of(manifest, declaration) if manifest.defaults else {})

    def _report_duplicate(self, named: Entry | ComponentInstance, first: Entry | ComponentInstance) -> None:
        message = f"declared twice; first at {self._diagnostics.location(first)}"
        self._diagnostics.resource_error(named, None, message, "duplicate")

    def _add_component(self, component: ComponentInstance, loaded: LoadedComponent, manifest: Manifest) -> None:
        """Add the entries that a component makes; of an invalid one, references to its resources are not reported."""
        if (first := self._table.components.setdefault(component.reference, component)) is not component:
            self._report_duplicate(component, first)
            return
        self._check_former_names(component)
        if component.meta.implementation is not None:
            message = "implementation is for resources: declare it in defaults of their type"
            self._diagnostics.resource_error(component, "implementation", message, "provider")
        declared = self._expander.expand(component, loaded)
        if declared is None:
            del self._table.components[component.reference]
            self._table.incomplete.add(component.reference.type)
            return
        start = len(self._table.entries)
        for each in declared:
            self._add(each, manifest)
        component.members = self._table.entries[start:]

    def _instance(self, declaration: Declaration, component: LoadedComponent | None) -> str:
        """Return the provider instance that ``provider`` selects, or the default one; report an unsuitable one.

        On a component it selects the provider of those of its resources that have the provider's type.
        """
        name = declaration.meta.get("provider")
        if name is None or name == declaration.type:
            return declaration.type
        try:
            type_name = declaration.type if component is None else ""
            return select_instance(name, type_name, self._diagnostics.manifest)
        except ValueError as error:
            self._diagnostics.declaration_error(declaration, str(error), "provider", "provider")
            return declaration.type

    def _check_implementation(self, entry: Entry) -> None:
        """Report an implementation that the type does not have, or that a configured provider must state."""
        stated, functions = entry.meta.implementation, self._table.provider(entry.instance)
        if functions.definition.config.attributes:
            message, hint = "implementation of a type with a configuration belongs under providers:", ""
        elif (message := unknown_implementation(stated, functions)) == "":
            return
        else:
            hint = nearest(str(stated), functions.implementations)
        self._diagnostics.resource_error(entry, "implementation", message, "provider", hint)

    def _check_lifecycle(self, entry: Entry) -> None:
        """Report attributes that do not exist: to ignore one of them would have no effect."""
        lifecycle, known = entry.meta.lifecycle, entry.definition.attributes
        self._check_former_names(entry)
        if "*" in lifecycle.ignore_changes:
            lifecycle = lifecycle._replace(ignore_changes=entry.definition.managed)
            entry.meta = entry.meta._replace(lifecycle=lifecycle)
        for key, places in (
            ("ignore_changes", lifecycle.ignore_changes),
            ("replace_on_changes", lifecycle.replace_on_changes),
        ):
            for name in self._attributes_of(entry, key, places) if places else ():
                if name not in known:
                    message = f"lifecycle.{key}: unknown attribute '{name}'"
                    hint = nearest(name, known)
                    self._diagnostics.resource_error(entry, "lifecycle", message, "unknown_attribute", hint)

    def _attributes_of(self, entry: Entry, key: str, places: Sequence[str]) -> Iterator[str]:
        """Yield the attribute of each place in a member of ``lifecycle``; report a text that is none."""
        from resource_api.model.values.nested import parse_place

        for text in places:
            try:
                yield parse_place(text)[0]
            except ValueError as error:
                self._diagnostics.resource_error(entry, "lifecycle", f"lifecycle.{key}: {error}", "lifecycle")

    def _check_former_names(self, named: Entry | ComponentInstance) -> None:
        for text in named.meta.lifecycle.aliases:
            try:
                reference.parse_alias(text, named.parent, named.type)
            except ValueError as error:
                self._diagnostics.resource_error(named, "lifecycle", f"lifecycle.aliases: {error}", "reference")

    def _given(self, entry: Entry, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return defaults, attributes and the namevars from the title; report and leave out invalid attributes."""
        given = {**defaults, **entry.declaration.attributes}
        definition, known = entry.definition, entry.definition.attributes
        if not known:
            self._diagnostics.resource_error(entry, None, "its type has functions and no resources", "type")
            return {}
        if not given.keys() <= known.keys() or not definition.special.isdisjoint(given):
            for name in list(given):
                self._check_attribute(entry, name, given)
        add_namevars(entry, given, self._diagnostics)
        return given

    def _check_attribute(self, entry: Entry, name: str, given: dict[str, Any]) -> None:
        """Report and remove an invalid attribute; replace references to resources in a valid one."""
        definition, value = entry.definition, given[name]
        if name not in definition.attributes:
            message, code = f"unknown attribute '{name}'", "unknown_attribute"
            hint = nearest(name, definition.attributes.keys() | METAPARAMETERS, "attribute", definition.name)
        elif definition.attributes[name].kind == "read_only" and value is not None:
            message, code = f"'{name}' is read_only; it is reported, never set", "read_only"
            settable = [each for each, attribute in definition.attributes.items() if attribute.kind != "read_only"]
            hint = nearest(name, settable, "read_only", definition.name)
        elif name not in definition.reference_types:
            return
        else:
            try:
                given[name] = self._referenced_name(value, definition.reference_types[name])
            except (ValueError, DefinitionError) as error:
                message, code, hint = f"{name}: {error}", "reference", ""
            else:
                return
        self._diagnostics.resource_error(entry, name, message, code, hint)
        del given[name]

    def _referenced_name(self, value: Any, types: frozenset[str]) -> Any:
        """Return an expression for the namevar of a resource that is given by reference; other values as they are.

        Raises ``ValueError`` and ``DefinitionError``.
        """
        if isinstance(value, list):
            return [self._referenced_name(item, types) for item in value]
        if not isinstance(value, str) or not value.endswith("]") or "${" in value.partition("[")[0]:
            return value
        if "[" not in value:
            return value
        found = component_chain(value)[-1].type
        if types and found not in types:
            msg = f"must be a reference to {' or '.join(map(capitalize_type, sorted(types)))}, not {value}"
            raise ValueError(msg)
        namevars = self._table.provider(found).definition.namevars
        if len(namevars) > 1:
            msg = f"{value} is known by {' and '.join(namevars)}; refer to one: ${{{value}.{namevars[0]}}}"
            raise ValueError(msg)
        return expression.Expression((expression.Path(parse(value), namevars),))
