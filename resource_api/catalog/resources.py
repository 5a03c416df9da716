"""Declarations → entries: the type, the title, the names of attributes, what defaults add.

A component stands for the resources that it makes, which are entered in its place. What the values are is not looked
at here. Pure: types and components come in through functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog import titles as naming
from resource_api.catalog.components import Expander
from resource_api.model.component_instance import ComponentInstance
from resource_api.model.declaration import METAPARAMETERS
from resource_api.model.entry import NO_META, Entry, make_meta
from resource_api.model.values import expression, reference
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DefinitionError, nearest
from resource_api.model.values.reference import capitalize_type, child_reference, component_chain, parse, split_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.manifest.scope import Scope
    from resource_api.model.attribute import Attribute
    from resource_api.model.component import LoadedComponent
    from resource_api.model.declaration import Declaration, Manifest
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.model.values.reference import Reference


class Definitions(NamedTuple):
    """What a reference's first word may be: each function gives what it knows or raises ``DefinitionError``."""

    #: Give a type's pure functions.
    tools: Callable[[str], ProviderFunctions]
    #: Give what builds a component; None where no component has that name.
    component: Callable[[str], LoadedComponent | None] = lambda _name: None
    #: Give the types that have a function of a name.
    functions: Callable[[str], Sequence[str]] = lambda _name: ()


class ResourceTable:
    """The entries of a manifest, found by title or alias (type → title → entry), or by identity (instance → name)."""

    def __init__(self, diagnostics: Diagnostics, scope: Scope, definitions: Definitions) -> None:
        """Begin empty."""
        self.entries: list[Entry] = []
        self.by_title: dict[str, dict[str, Entry]] = {}
        self.by_name: dict[str, dict[Any, Entry]] = {}
        #: Components by reference and alias, each with all resources beneath it.
        self.components: dict[Reference, ComponentInstance] = scope.components
        self._diagnostics = diagnostics
        self._scope = scope
        self._definitions = definitions
        self._names = naming.Names(diagnostics, scope)
        self._expander = Expander(diagnostics, scope, definitions.component, self._names)
        self._tools: dict[str, ProviderFunctions] = {}
        self._broken: dict[str, DefinitionError] = {}
        self._unbuilt: set[str] = set()

    def enter(self, manifest: Manifest) -> None:
        """Enter every declaration of a manifest, then their aliases."""
        plain = naming.are_plain(manifest.resources)
        for declaration in manifest.resources:
            if (named := declaration if plain else self._names.declaration(declaration)) is not None:
                self._enter(named, manifest)
            else:
                # It may be what others refer to.
                self._unbuilt.add(declaration.type)
        for entry in self.entries:
            for alias in entry.meta.aliases:
                name = child_reference(entry.parent, entry.type, alias)
                self._call(entry, alias, self.by_title[name.type].setdefault(name.title, entry))
        for group in list(self.components.values()):
            for alias in group.meta.aliases:
                name = child_reference(group.parent, group.type, alias)
                self._call(group, alias, self.components.setdefault(name, group))

    def _call(self, named: Entry | ComponentInstance, alias: str, twin: Entry | ComponentInstance) -> None:
        """Complain where the second name of a resource or component, within whatever has made it, is another's."""
        if twin is not named:
            message = f"the alias '{alias}' is taken; first at {self._diagnostics.where(twin)}"
            self._diagnostics.of(named, "alias", message, "duplicate")

    def find(self, wanted: Reference) -> Entry | None:
        """Give what a reference means: a title, an alias, or an identity."""
        type_name, title = wanted
        return self.by_title.get(type_name, {}).get(title) or self.by_name.get(type_name, {}).get(title)

    def instances(self) -> Mapping[str, TypeDefinition]:
        """Give the instances that were asked for, with their types."""
        return {name: tools.definition for name, tools in self._tools.items()}

    def broken(self, type_name: str) -> bool:
        """Whether a file is broken or a component could not be built: then they are no entries; that has been said."""
        return any(split_instance(instance)[0] == type_name for instance in self._broken) or type_name in self._unbuilt

    def attributes(self, name: str) -> Mapping[str, Attribute]:
        """Give the attributes of a type, or the inputs of a component. Raises ``DefinitionError``."""
        blueprint = None if name in self._tools else self._definitions.component(name)
        return blueprint.definition.attributes if blueprint is not None else self.tools(name).definition.attributes

    def tools(self, instance: str) -> ProviderFunctions:
        """Give an instance's pure functions, asked for once. Raises ``DefinitionError``, the same one each time."""
        tools = self._tools.get(instance)
        if tools is None:
            if instance in self._broken:
                raise self._broken[instance]
            try:
                tools = self._tools[instance] = self._definitions.tools(instance)
            except DefinitionError as error:
                self._broken[instance] = error
                raise
        return tools

    def _enter(self, declaration: Declaration, manifest: Manifest) -> None:
        try:
            instance = self._instance(declaration) if declaration.meta else declaration.type
            tools = self._tools.get(instance)
            blueprint = self._blueprint(declaration.type) if tools is None else None
            if tools is None and blueprint is None:
                tools = self.tools(instance)
        except DefinitionError as error:
            self._diagnostics.of_declaration(declaration, str(error), "type")
            return
        if tools is None:
            assert blueprint is not None
            self._build(ComponentInstance(declaration), blueprint, manifest)
            return
        entry = Entry(declaration, tools.definition)
        if (twin := self._titled(entry)) is not entry:
            self._twice(entry, twin)
            return
        if declaration.meta:
            entry.meta = make_meta(declaration.meta)
            if entry.meta is not NO_META:
                self._check_lifecycle(entry)
        entry.index = len(self.entries)
        self.entries.append(entry)
        defaults = manifest.defaults and manifest.defaults.get(declaration.file, {}).get(declaration.type, {})
        entry.written = self._gather(entry, defaults)

    def _titled(self, entry: Entry) -> Entry:
        """Let an entry be found by its title; gives the one that is."""
        parent, type_name, title = entry.declaration.parent, entry.declaration.type, entry.title
        if parent:
            type_name, title = child_reference(parent, type_name, title)
        return (self.by_title.get(type_name) or self.by_title.setdefault(type_name, {})).setdefault(title, entry)

    def _twice(self, named: Entry | ComponentInstance, twin: Entry | ComponentInstance) -> None:
        """Complain of a second one of a name."""
        message = f"declared twice; first at {self._diagnostics.where(twin)}"
        self._diagnostics.of(named, None, message, "duplicate")

    def _blueprint(self, name: str) -> LoadedComponent | None:
        """Give what builds a component; None where the name is a type's. Raises ``DefinitionError``."""
        if name in self._broken:
            return None
        try:
            return self._definitions.component(name)
        except DefinitionError as error:
            self._broken[name] = error
            raise

    def _build(self, group: ComponentInstance, blueprint: LoadedComponent, manifest: Manifest) -> None:
        """Enter what a component makes; when it cannot be built, what refers into it is not wrong as well."""
        if (twin := self.components.setdefault(group.reference, group)) is not group:
            self._twice(group, twin)
            return
        self._check_aliases(group)
        declared = self._expander.expand(group, blueprint)
        if declared is None:
            del self.components[group.reference]
            self._unbuilt.add(group.reference.type)
            return
        first = len(self.entries)
        for each in declared:
            self._enter(each, manifest)
        group.members = self.entries[first:]

    def _instance(self, declaration: Declaration) -> str:
        """Give the configured provider that a declaration picks; complain of one that there is not for it.

        A component picks one for those of its resources that it is for.
        """
        name = declaration.meta.get("provider")
        if name is None or name == declaration.type:
            return declaration.type
        declared = self._diagnostics.manifest.providers.get(name)
        if declared is not None and self._blueprint(declaration.type) is not None:
            return declaration.type
        if declared is None:
            advice = nearest(name, self._diagnostics.manifest.providers)
            problem = f"unknown provider '{name}'; name it under providers:" + (f"; {advice}" if advice else "")
        elif declared.type != declaration.type:
            meant, given = capitalize_type(declared.type), capitalize_type(declaration.type)
            problem = f"provider '{name}' is for {meant}, not for {given}"
        else:
            return declared.instance
        self._diagnostics.of_declaration(declaration, problem, "provider", "provider")
        return declaration.type

    def _check_lifecycle(self, entry: Entry) -> None:
        """Complain of attributes that do not exist: ignoring one of them would ignore nothing, in silence."""
        lifecycle, known = entry.meta.lifecycle, entry.definition.attributes
        self._check_aliases(entry)
        for word, names in (("ignore", lifecycle.ignore_changes), ("replace_on", lifecycle.replace_on_changes)):
            for name in names:
                if name not in known:
                    message = f"lifecycle.{word}_changes: unknown attribute '{name}'"
                    self._diagnostics.of(entry, "lifecycle", message, "unknown_attribute", nearest(name, known))

    def _check_aliases(self, named: Entry | ComponentInstance) -> None:
        for text in named.meta.lifecycle.aliases:
            try:
                reference.parse_alias(text, named.parent, named.type)
            except ValueError as error:
                self._diagnostics.of(named, "lifecycle", f"lifecycle.aliases: {error}", "reference")

    def _gather(self, entry: Entry, defaults: dict[str, Any]) -> dict[str, Any]:
        """Join defaults, attributes and the title's namevars; check the names of attributes."""
        given = {**defaults, **entry.declaration.attributes}
        known = entry.definition.attributes
        if not known:
            self._diagnostics.of(entry, None, "its type has functions, and no resources", "type")
            return {}
        odd = not given.keys() <= known.keys() or not entry.definition.special.isdisjoint(given)
        for name in list(given) if odd else ():
            if name not in known:
                hint = nearest(name, known.keys() | METAPARAMETERS)
                self._diagnostics.of(entry, name, f"unknown attribute '{name}'", "unknown_attribute", hint)
                del given[name]
            elif known[name].kind == "read_only" and given[name] is not None:
                self._diagnostics.of(entry, name, f"'{name}' is read_only; it is reported, never set", "read_only")
                del given[name]
            elif name in entry.definition.reference_types:
                try:
                    given[name] = self._referred(given[name], entry.definition.reference_types[name])
                except (ValueError, DefinitionError) as error:
                    self._diagnostics.of(entry, name, f"{name}: {error}", "reference")
                    del given[name]
        self._name_from_title(entry, given)
        return given

    def _referred(self, value: Any, types: frozenset[str]) -> Any:
        """Give what a reference to a resource stands for, its namevar; another value is what the resource is known by.

        Raises ``ValueError`` and ``DefinitionError``.
        """
        if isinstance(value, list):
            return [self._referred(item, types) for item in value]
        if not isinstance(value, str) or not value.endswith("]") or "${" in value.partition("[")[0]:
            return value
        if "[" not in value:
            return value
        found = component_chain(value)[-1].type
        if types and found not in types:
            msg = f"expects a reference to {' or '.join(map(capitalize_type, sorted(types)))}, got {value}"
            raise ValueError(msg)
        namevars = self.tools(found).definition.namevars
        if len(namevars) > 1:
            msg = f"{value} is known by {' and '.join(namevars)}; refer to one: ${{{value}.{namevars[0]}}}"
            raise ValueError(msg)
        return expression.Expression((expression.Path(parse(value), namevars),))

    def _name_from_title(self, entry: Entry, given: dict[str, Any]) -> None:
        definition = entry.definition
        if None not in map(given.get, definition.namevars):
            return
        if definition.title_is_name and "${" not in entry.title:
            given[definition.namevars[0]] = entry.title
            return
        captured = definition.namevars_from_title(entry.title)
        if captured is None:
            patterns = " or ".join(regex.pattern for regex in definition.title_regexes)
            self._diagnostics.of(entry, None, f"the title matches no title pattern ({patterns})", "title")
            return
        for namevar in definition.namevars:
            if given.get(namevar) is not None:
                continue
            attribute = definition.attributes[namevar]
            if namevar in captured:
                value = captured[namevar]
                # The title has been read already: what it came to is never read as an expression again.
                given[namevar] = value.replace("${", "$${") if isinstance(value, str) else value
            elif not attribute.datatype.optional and not attribute.has_default:
                self._diagnostics.of(entry, None, f"the namevar '{namevar}' is missing", "missing_attribute")
