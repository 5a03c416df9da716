"""Build the entries of a manifest: types, titles, attribute names and inherited defaults; components are expanded.

A component becomes the declarations of its resources, which inherit its metaparameters; an input that refers to another
resource is passed on as an expression. Values are evaluated later. Pure: types and components come in as functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog import for_each
from resource_api.catalog.canonicalize import explain_refusal
from resource_api.catalog.expression_scope import NameEvaluator, have_literal_names
from resource_api.catalog.provider_config import select_instance, unknown_implementation
from resource_api.catalog.resource_table import ResourceTable, add_namevars
from resource_api.manifest.sections import ManifestBuilder
from resource_api.model.attribute import CARDINALITY, METAPARAMETERS
from resource_api.model.datatypes.referred_values import with_texts
from resource_api.model.entry import NO_META, ComponentInstance, Entry, make_meta
from resource_api.model.values import expression, reference
from resource_api.model.values.errors import DefinitionError, ManifestError, Problem, suggested_word, suggestion
from resource_api.model.values.expression import Expression
from resource_api.model.values.reference import (
    MAX_COMPONENTS,
    capitalize_type,
    child_reference,
    component_chain,
    parse,
    title_problem,
)
from resource_api.model.values.values import (
    UNKNOWN,
    Sensitive,
    as_list,
    attribute_of,
    is_unknown,
    leaves,
    parse_place,
    reveal,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.expression_scope import Scope
    from resource_api.model.attribute import Attribute
    from resource_api.model.datatypes.datatype import DataType
    from resource_api.model.declaration import Declaration, Manifest
    from resource_api.model.type_definition import ComponentDefinition, LoadedComponent, TypeDefinition


class EntryBuilder:
    """Builds the entries of a manifest in a table, and reports invalid declarations."""

    def __init__(self, table: ResourceTable, diagnostics: Diagnostics, scope: Scope, names: NameEvaluator) -> None:
        """Add entries to ``table``; ``scope`` and ``names`` evaluate inputs and names in declarations."""
        self._table = table
        self._diagnostics = diagnostics
        self._expander = Expander(table, diagnostics, scope, names)
        #: Provider instance → its type, of all entries so far: a short way for thousands of resources of one type.
        self._definitions: dict[str, TypeDefinition] = {}

    def build(self, manifest: Manifest) -> None:
        """Add an entry for each declaration, then the aliases of all entries and components.

        Aliases come last, so that in a clash of an alias with any title the alias is reported.
        """
        literal = have_literal_names(manifest.resources)
        for declaration in manifest.resources if literal else self._expander.declarations(manifest.resources):
            self._add(declaration, manifest)
        for entry in self._table.entries:
            for alias in entry.meta.aliases:
                name = child_reference(entry.parent, entry.type, alias)
                self._check_alias(entry, alias, self._table.by_title[name.type].setdefault(name.title, entry))
        for component in list(self._table.components.values()):
            for alias in component.meta.aliases:
                name = child_reference(component.parent, component.type, alias)
                self._check_alias(component, alias, self._table.components.setdefault(name, component))

    def _check_alias(self, declared: Entry | ComponentInstance, alias: str, first: Entry | ComponentInstance) -> None:
        """Report an alias of a resource or component if ``first``, another one, has it as its title or alias."""
        if first is not declared:
            message = f"the alias '{alias}' is taken; first at {self._diagnostics.location(first)}"
            self._diagnostics.resource_error(declared, "alias", message, "duplicate")

    def _add(self, declaration: Declaration, manifest: Manifest) -> None:
        """Add the resource of a declaration, or the resources of its component; report an unknown type."""
        # The type of an earlier entry is looked up quickly, unless ``provider`` selects a configured instance of it.
        definition = None if "provider" in declaration.meta else self._definitions.get(declaration.type)
        component = None
        if definition is None:
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
        """Add an entry to the table, with its metaparameters checked; report a duplicate title."""
        declaration = entry.declaration
        if (first := self._table.add_title(entry)) is not entry:
            self._report_duplicate(entry, first)
            return
        if declaration.meta:
            entry.meta = make_meta(declaration.meta)
            if entry.meta is not NO_META:
                # A second run of a command may do harm, so no ``retry`` is inherited (contract §10.8).
                if "imperative" in entry.definition.features and not declaration.states("retry"):
                    entry.meta = entry.meta._replace(retry=None)
                self._check_lifecycle(entry)
                if entry.meta.implementation is not None:
                    self._check_implementation(entry)
        entry.index = len(self._table.entries)
        self._table.entries.append(entry)
        entry.written = self._declared_values(entry, manifest.defaults_of(declaration) if manifest.defaults else {})

    def _report_duplicate(self, declared: Entry | ComponentInstance, first: Entry | ComponentInstance) -> None:
        """Report a title that the ``first`` resource has already, with its position.

        Elements of one ``for_each`` have the same position: their numbers are reported instead.
        """
        message, hint = f"declared twice; first at {self._diagnostics.location(first)}", ""
        element, former = declared.declaration.element, first.declaration.element
        if element is not None and former is not None and element.number > former.number:
            message = f"two elements have this title, [{former.number}] and [{element.number}]"
            hint = "write into the title what differs, such as ${each.key} or ${each.index}"
        self._diagnostics.resource_error(declared, None, message, "duplicate", hint)

    def _add_component(self, component: ComponentInstance, loaded: LoadedComponent, manifest: Manifest) -> None:
        """Add the entries of a component's resources.

        The type of a component that cannot be expanded becomes incomplete: references to its resources are no further
        errors.
        """
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
        for declaration in declared:
            self._add(declaration, manifest)
        component.members = self._table.entries[start:]

    def _instance(self, declaration: Declaration, component: LoadedComponent | None) -> str:
        """Return the provider instance that ``provider`` selects, or the type's default; report an unsuitable one.

        A component may select a provider of any type: its resources of that type inherit the selection.
        """
        name = declaration.meta.get("provider")
        if name is None or name == declaration.type:
            return declaration.type
        try:
            type_name = declaration.type if component is None else ""  # "" accepts any type
            return select_instance(name, type_name, self._diagnostics.manifest)
        except ValueError as error:
            self._diagnostics.declaration_error(declaration, str(error), "provider", "provider")
            return declaration.type

    def _check_implementation(self, entry: Entry) -> None:
        """Report an ``implementation`` that the type does not have.

        For a type with a configuration an entry under ``providers`` selects the implementation, so a resource must not.
        """
        stated, functions = entry.meta.implementation, self._table.provider(entry.instance)
        names = functions.implementations
        if functions.definition.config.attributes:
            message, names = "implementation of a type with a configuration belongs under providers:", ()
        else:
            message = unknown_implementation(stated, functions)
        if message:
            hint = suggestion(str(stated), names)
            self._diagnostics.resource_error(entry, "implementation", message, "provider", hint)

    def _check_lifecycle(self, entry: Entry) -> None:
        """Check ``lifecycle`` and set it in the entry with the type's own attribute names.

        Manifests may spell an attribute differently, as ``retry_``, and ``*`` stands for all managed attributes. It is
        replaced after the warnings, which concern only names that the user has written.
        """
        lifecycle, definition = entry.meta.lifecycle, entry.definition
        self._check_former_names(entry)
        if definition.spelt:
            lifecycle = lifecycle._replace(
                ignore_changes=_renamed_key_paths(entry, lifecycle.ignore_changes),
                replace_on_changes=_renamed_key_paths(entry, lifecycle.replace_on_changes),
            )
        for number, text in enumerate(lifecycle.ignore_changes):
            if reason := self._reason_without_effect(entry, text):
                message = f"lifecycle.ignore_changes: '{text}' can never have an effect: {reason}"
                problem = Problem("lifecycle", message, "warning", code="lifecycle", hint="take it away")
                self._diagnostics.add(entry, problem, "ignore_changes", number)
        if "*" in lifecycle.ignore_changes:
            lifecycle = lifecycle._replace(ignore_changes=definition.managed)
        entry.meta = entry.meta._replace(lifecycle=lifecycle)
        self._check_key_paths(entry, "ignore_changes", lifecycle.ignore_changes)
        self._check_key_paths(entry, "replace_on_changes", lifecycle.replace_on_changes)

    def _check_key_paths(self, entry: Entry, key: str, key_paths: Sequence[str]) -> None:
        """Report key paths in ``key`` of ``lifecycle`` that are invalid or begin with an unknown attribute."""
        for text in key_paths:
            try:
                name, _ = parse_place(text)
            except ValueError as error:
                self._diagnostics.resource_error(entry, "lifecycle", f"lifecycle.{key}: {error}", "lifecycle")
                continue
            if name not in entry.definition.attributes:
                message = f"lifecycle.{key}: unknown attribute '{name}'"
                hint = suggestion(name, entry.definition.attributes)
                self._diagnostics.resource_error(entry, "lifecycle", message, "unknown_attribute", hint)

    def _reason_without_effect(self, entry: Entry, text: str) -> str:
        """Return the reason that the key path ``text`` in ``ignore_changes`` can never have an effect, or "".

        It has none for an attribute that never has a change to ignore: a parameter, a namevar, a ``read_only``
        attribute, or an ``ensure`` with one value beside ``absent``. Nor has a path into a value without parts.
        """
        name, path = attribute_of(text), text[len(attribute_of(text)) :]
        attribute = entry.definition.attributes.get(name)
        if attribute is None:
            return ""
        if reason := _NEVER_CHANGED.get(attribute.kind or ""):
            return reason
        if path and not attribute.datatype.holds_collections:
            return f"its data type {attribute.datatype.text} has no parts"
        defaults = self._diagnostics.manifest.defaults_of(entry.declaration)
        stated = entry.declaration.attributes.get("ensure", defaults.get("ensure"))
        # To ignore ``ensure: absent``, or one that an expression may make absent, has an effect: the resource is kept.
        is_kept = stated == "absent" or (type(stated) is str and "${" in stated)
        if name == "ensure" and not is_kept and len(_enum_words(attribute.datatype) - {"absent"}) == 1:
            return "what exists is present, and what does not is created"
        return ""

    def _check_former_names(self, declared: Entry | ComponentInstance) -> None:
        """Report texts in ``lifecycle.aliases``, former names of a resource, that cannot be names of its type."""
        for text in declared.meta.lifecycle.aliases:
            try:
                reference.parse_alias(text, declared.parent, declared.type)
            except ValueError as error:
                self._diagnostics.resource_error(declared, "lifecycle", f"lifecycle.aliases: {error}", "reference")

    def _declared_values(self, entry: Entry, defaults: Mapping[str, object]) -> dict[str, Any]:
        """Return a resource's declared values: those of ``defaults``, its own, and the namevars in its title.

        Report invalid values, and omit them, so that the others are still checked.
        """
        values = {**defaults, **entry.declaration.attributes}
        if entry.definition.spelt:  # an attribute is called like a metaparameter, and written with an underscore
            values = entry.definition.renamed(values)
        definition, attributes = entry.definition, entry.definition.attributes
        if not attributes:
            self._diagnostics.resource_error(entry, None, "its type has functions and no resources", "type")
            return {}
        # For speed single attributes are checked only where one is unknown, ``read_only``, or may hold references.
        if not values.keys() <= attributes.keys() or not definition.special.isdisjoint(values):
            for name in list(values):
                self._check_attribute(entry, name, values)
        # References may use the namevar in place of the title. They differ if the namevar is declared beside the title,
        # or in a component, whose name precedes the title: Site[a]/File[b] has the namevar b.
        title_is_name = add_namevars(entry, values, self._diagnostics)
        if not title_is_name or entry.declaration.parent:
            self._table.add_namevar(entry, values)
        return values

    def _check_attribute(self, entry: Entry, name: str, values: dict[str, object]) -> None:
        """Report and remove an invalid attribute of ``values``, so that no later check reports it again.

        Replace references to resources by expressions, which are evaluated like those that a user writes.
        """
        definition, value = entry.definition, values[name]
        if name not in definition.attributes:
            names = {*map(definition.spelling, definition.attributes), *METAPARAMETERS}
            self._diagnostics.unknown_attribute(entry, name, names)
            del values[name]
        elif definition.attributes[name].kind == "read_only" and value is not None:
            message = f"'{definition.spelling(name)}' is read_only; it is reported, never set"
            settable = [key for key, attribute in definition.attributes.items() if attribute.kind != "read_only"]
            hint = suggestion(name, settable, "read_only", definition.name)
            self._diagnostics.attribute_error(entry, name, message, "read_only", hint)
            del values[name]
        elif name in definition.reference_types:
            try:
                values[name] = self._referenced_name(value, definition.reference_types[name], entry.declaration)
            except (ValueError, DefinitionError) as error:
                message = f"{definition.spelling(name)}: {error}"
                self._diagnostics.attribute_error(entry, name, message, "reference")
                del values[name]

    def _referenced_name(self, value: object, types: frozenset[str], declaration: Declaration) -> Any:
        """Return the value of an attribute that refers to resources, with ``Type[title]`` as an expression.

        The expression yields the resource's name, and orders that resource first; other values are names already.
        ``types``: the accepted types, any if empty. In a component ``Type[title]`` is the component's own resource if
        it declares one, otherwise the manifest's. Raise ``ValueError`` or ``DefinitionError``.
        """
        if isinstance(value, list):
            return [self._referenced_name(item, types, declaration) for item in value]
        if not isinstance(value, str):
            return value
        head, bracket, _ = value.partition("[")
        if not (bracket and value.endswith("]")) or "${" in head:  # a name, or an expression
            return value
        type_name = component_chain(value)[-1].type
        if types and type_name not in types:
            raise ValueError(f"must be a reference to {' or '.join(map(capitalize_type, sorted(types)))}, not {value}")
        namevars = self._table.provider(type_name).definition.namevars
        if len(namevars) > 1:
            raise ValueError(f"{value} is known by {' and '.join(namevars)}; refer to one: ${{{value}.{namevars[0]}}}")
        target = parse(value)
        if declaration.parent and declaration.document and str(target) in declaration.document.data["resources"]:
            target = child_reference(declaration.parent, *target)
        return expression.Expression((expression.ExpressionPath(target, namevars),))


#: Kind of an attribute → the reason that ignoring its changes has no effect.
_NEVER_CHANGED: Final[Mapping[str, str]] = {
    "parameter": "a parameter is never read, and no reason to change anything",
    "read_only": "a read_only attribute is reported, never set",
    "namevar": "a namevar is the resource's identity",
}


def _enum_words(datatype: DataType) -> set[str | bool | None]:
    """Return the words of an enumeration; None among them stands for all other values that the data type accepts.

    If ``ensure`` has one word beside ``absent``, a change of it can only create or delete the resource.
    """
    words: set[str | bool | None] = set()
    for leaf in datatype.leaves:
        if leaf.kind == "Enum":
            words |= set(leaf.words)
        elif leaf.kind != "Undef":
            words.add(None)
    return words


def _renamed_key_paths(entry: Entry, key_paths: Sequence[str]) -> Sequence[str]:
    """Return key paths with attributes as their type names them: ``timeout.x``, written ``timeout_.x`` in manifests."""
    heads = [(attribute_of(text), text) for text in key_paths]
    return tuple(entry.definition.attribute_spelt(head) + text[len(head) :] for head, text in heads)


#: The keys of a component's ``lifecycle`` that its resources inherit, unless they have them themselves.
_INHERITED: Final = ("protect", "retain", "owned", "replace", "replace_triggered_by", "deleted_with", "external")
#: The inherited key whose values are joined instead.
_TRIGGERS: Final = "replace_triggered_by"
#: The keys of ``lifecycle`` that concern one resource.
_NOT_FOR_COMPONENTS: Final = ("ignore_changes", "replace_on_changes", "import")


def _is_pending(value: object) -> bool:
    """Return whether an input of a component, or a part of it, is invalid or waits for a resource."""
    return any(isinstance(leaf, Expression) or leaf is UNKNOWN for _, leaf in leaves(value))


class Expander:
    """Expands components into the declarations of their resources."""

    def __init__(self, table: ResourceTable, diagnostics: Diagnostics, scope: Scope, names: NameEvaluator) -> None:
        """Look components up in ``table``; inputs may use the inputs, values and facts of ``scope``."""
        self._table = table
        self._names = names
        self._manifest = diagnostics.manifest
        self._diagnostics = diagnostics
        self._error = diagnostics.resource_error
        self._scope = scope
        #: Resolves a path into a resource or component as unknown: their values are evaluated after the expansion.
        self._resolve = scope.resolver(lambda _path: UNKNOWN, expand_components=False)

    def expand(self, component: ComponentInstance, loaded: LoadedComponent) -> list[Declaration] | None:
        """Return the declarations of a component's resources, and set the component's inputs and outputs.

        Return None, with the reasons reported, for a misuse, invalid inputs or a file that cannot be built with them.
        """
        if message := self._misuse(component):
            self._error(component, None, message, "component")
            return None
        before = len(self._diagnostics.problems)
        component.inputs = self._inputs(component, loaded.definition)
        if len(self._diagnostics.problems) > before:
            return None
        parent = str(component.reference)
        try:
            document = loaded.build(parent, component.title, component.inputs)
        except ManifestError as error:
            self._report_inside(component, error.problems)
            return None
        builder = ManifestBuilder()
        builder.add(document, first=False)
        self._table.incomplete.update(builder.incomplete)
        self._report_inside(component, builder.problems)
        component.document, component.outputs = document, builder.outputs
        self._check_outputs(component, loaded.definition)
        declarations = (declared._replace(parent=parent) for declared in builder.resources)
        return [
            self._with_inherited(component, declared) for declared in self.declarations(declarations, component.inputs)
        ]

    def declarations(
        self, written: Iterable[Declaration], inputs: Mapping[str, object] | None = None
    ) -> Iterator[Declaration]:
        """Yield the declarations that result from the ``written`` ones, with the expressions in their names evaluated.

        A written declaration with ``for_each`` or ``when`` results in any number of them. ``inputs`` are those of the
        component that contains the declarations. The type of an invalid one becomes incomplete, so that references to
        its resources are no further errors.
        """
        maker: for_each.DeclarationMaker | None = None
        for written_declaration in written:
            derived: Iterable[Declaration] = (written_declaration,)
            if not CARDINALITY.isdisjoint(written_declaration.meta):
                maker = maker or for_each.DeclarationMaker(self._table, self._diagnostics, self._scope, inputs)
                derived = maker.make(written_declaration)
            for declaration in derived:
                if (declared := self._names.evaluate_declaration(declaration)) is not None:
                    yield declared
                else:
                    self._table.incomplete.add(declaration.type)

    def _report_inside(self, component: ComponentInstance, problems: Sequence[Problem]) -> None:
        """Report problems in a component's file with the reference of this use of it, as ``Site[a]/File[b]``.

        One file may be used several times, with inputs of which only some are wrong.
        """
        for problem in problems:
            inner = f"/{problem.reference}" if problem.reference else ""
            self._diagnostics.problems.append(problem._replace(reference=f"{component.reference}{inner}"))

    def _misuse(self, component: ComponentInstance) -> str:
        """Return the error of a component within itself, too deep, or with a wrong lifecycle or title, or "".

        A component within itself would expand without end. Keys of ``lifecycle`` with attributes of one type, such as
        ``ignore_changes``, do not fit the resources of all types in a component.
        """
        chain = component_chain(component.parent)
        if component.type in {outer.type for outer in chain}:
            names = [*map(str, chain), f"{capitalize_type(component.type)}[{component.title}]"]
            return f"a component cannot hold itself: {' => '.join(names)}"
        if len(chain) == MAX_COMPONENTS:
            return f"components are nested deeper than {MAX_COMPONENTS}"
        lifecycle = component.declaration.meta.get("lifecycle") or {}
        for key in _NOT_FOR_COMPONENTS:
            if key in lifecycle:
                return f"lifecycle.{key} applies to single resources; set it in the component's file"
        return title_problem(component.title)

    def _inputs(self, component: ComponentInstance, definition: ComponentDefinition) -> dict[str, Any]:
        """Return the inputs of a component: arguments and defaults, converted and checked, the secret ones wrapped.

        Report unknown, missing and invalid ones; the input that a misspelt name stands for is not reported as missing.
        """
        arguments = {**self._manifest.defaults_of(component.declaration), **component.declaration.attributes}
        declared = definition.attributes
        names = declared.keys() | METAPARAMETERS
        misspelt = set()  # that such an input is missing is the same mistake
        for name in arguments.keys() - declared.keys():
            word, hint = suggested_word(name, names, "attribute")
            misspelt.add(word)
            self._error(component, name, f"unknown input '{name}'", "unknown_attribute", hint)
        inputs = {}
        for name, attribute in declared.items():
            written = arguments.get(name)
            if name not in arguments and attribute.has_default:
                value = attribute.fresh_default()
            else:
                value = self._input(component, name, attribute, written)
            if value is None and not (attribute.datatype.optional or name in misspelt):
                self._error(component, None, f"input '{name}' is missing; it is mandatory", "missing_attribute")
            # A pending value is checked with the attributes that use it.
            elif value is not None and not (_is_pending(value) or attribute.datatype.accepts(reveal(value))):
                for problem in explain_refusal(name, attribute, value, written):
                    self._diagnostics.add(component, problem)
            inputs[name] = attribute.datatype.conceal(value)
        return inputs

    def _input(self, component: ComponentInstance, name: str, attribute: Attribute, value: object) -> Any:
        """Return the evaluated value of a component's input; report an invalid one, and return ``UNKNOWN``.

        Assets and archives are made here, unless they wait for a resource, because their paths are relative to the
        manifest, not to the component.
        """
        try:
            result = with_texts(attribute.datatype, value, self._evaluate(value))
            if not attribute.datatype.holds_contents or _is_pending(result):
                return result
            return self._scope.make_contents(result, component.declaration.file)
        except ValueError as error:
            self._error(component, name, str(error), "expression")
            return UNKNOWN

    def _evaluate(self, value: object) -> Any:
        """Return an input of a component as far as its value can be known before resources are evaluated.

        An expression remains if only a resource yields its value. One with an ephemeral input remains too, because the
        check that no attribute records such an input searches the expressions in attributes.
        """
        if type(value) is str and "${" in value:
            result = expression.evaluate(value, self._resolve)
            return expression.parse(value) if is_unknown(result) or self._scope.ephemeral_input(value) else result
        if isinstance(value, dict):
            return {key: self._evaluate(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._evaluate(item) for item in value]
        return Sensitive(self._evaluate(value.reveal())) if isinstance(value, Sensitive) else value

    def _check_outputs(self, component: ComponentInstance, definition: ComponentDefinition) -> None:
        """Report outputs that a component sets without declaring them, or declares without setting them."""
        for name in component.outputs.keys() - definition.outputs.keys():
            hint = suggestion(name, definition.outputs)
            message = f"sets an output '{name}' that it does not declare"
            self._diagnostics.component_error(component, name, message, "output", hint)
        for name in definition.outputs.keys() - component.outputs.keys():
            message = f"declares an output '{name}' and does not set it"
            self._diagnostics.component_error(component, name, message, "output")
            # Unknown, so that its uses are not reported too.
            component.outputs = {**component.outputs, name: UNKNOWN}

    def _with_inherited(self, component: ComponentInstance, declared: Declaration) -> Declaration:
        """Return a declaration with the metaparameters that it inherits from its component.

        Its own metaparameters override these, except ``noop: true``, with which nothing in the component may change;
        tags and triggers are joined. Relationships are not inherited: edges to the component hold for all its
        resources. The component's element of ``for_each`` is inherited for messages.
        """
        if declared.element is None and component.declaration.element is not None:
            declared = declared._replace(derivation=component.declaration.derivation)
        outer, inner = component.declaration.meta, declared.meta
        if not outer:
            return declared
        meta = {
            name: outer[name] for name in ("noop", "loglevel", "timeout", "retry", "on_failure") if name in outer
        } | inner
        if outer.get("noop"):
            meta["noop"] = True
        if "provider" in outer and self._is_provider_for(outer["provider"], declared.type):
            meta.setdefault("provider", outer["provider"])
        if tags := [*as_list(outer.get("tag")), *as_list(inner.get("tag"))]:
            meta["tag"] = tags
        outer_options, options = outer.get("lifecycle") or {}, inner.get("lifecycle") or {}
        if lifecycle := {**{key: outer_options[key] for key in _INHERITED if key in outer_options}, **options}:
            if triggers := [*as_list(outer_options.get(_TRIGGERS)), *as_list(options.get(_TRIGGERS))]:
                lifecycle[_TRIGGERS] = triggers
            meta["lifecycle"] = lifecycle
        return declared._replace(meta=meta)

    def _is_provider_for(self, name: str, type_name: str) -> bool:
        """Return whether a resource of ``type_name`` in a component inherits the component's provider ``name``.

        Resources of the provider's type inherit it, and inner components, for their own resources. An unknown provider
        is inherited by all, so that the error is reported.
        """
        configured = self._manifest.providers.get(name)
        if configured is None or configured.type == type_name:
            return True
        try:
            return self._table.component(type_name) is not None
        except DefinitionError:
            # It is reported where the component is declared.
            return False
