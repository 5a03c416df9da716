"""Compile a manifest and its types to a catalog: validated, canonical resources in the order of execution.

The stages are named values, names, entries, values, configured providers, relationships, order. Every problem is
collected with its position, and all are raised at once. Pure: types come in as functions. A catalog and its entries are
not changed afterwards.

``purge`` is compiled to rules that delete listed resources that nothing declares (contract §10.7).
``declaration_problems`` checks names and literal values without a host. Whatever the facts of a host are, compiling
reports these problems, too.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from resource_api.catalog import for_each, graph, provider_config
from resource_api.catalog.diagnostics import Diagnostics
from resource_api.catalog.entries import EntryBuilder
from resource_api.catalog.entry_values import Evaluator, check_named_values
from resource_api.catalog.expression_scope import NameEvaluator, Scope
from resource_api.catalog.resource_table import Definitions, LeftOut, LeftOuts, ResourceTable, matcher
from resource_api.manifest import conditions
from resource_api.model.provider_functions import ProviderFunctions
from resource_api.model.values import expression
from resource_api.model.values.errors import DefinitionError, ManifestError, Problem, hint, suggestion
from resource_api.model.values.reference import capitalize_type, split_component
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.catalog.graph import Edge, Order
    from resource_api.manifest.conditions import Test
    from resource_api.model.declaration import FilePosition, Manifest, Moved, ProviderInstance, Purge
    from resource_api.model.entry import ComponentInstance, Entry
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.model.values.reference import Reference


class PurgeRule(NamedTuple):
    """One checked entry of ``purge``."""

    #: The type, for the provider instance that lists it.
    definition: TypeDefinition
    #: The number of resources that one run may delete by it.
    at_most: int
    #: Titles that stay.
    exceptions: Collection[str]
    #: Tests of references, for the patterns among the exceptions.
    patterns: Sequence[Callable[[str], bool]]
    #: Attribute → the test of its value.
    where: Mapping[str, Test]
    position: FilePosition

    @property
    def subject(self) -> str:
        """Its name in messages."""
        return f"purge of {capitalize_type(self.definition.name)}"

    def includes(self, row: Mapping[str, object]) -> bool:
        """Return whether the rule may delete a listed resource: it passes all tests in ``where`` and is no exception.

        Raise ``ConditionError`` for a test that does not fit the type of the value.
        """
        for name, test in self.where.items():
            if conditions.test_failure(test, row.get(name), name):
                return False
        title = self.definition.title_of(row)
        name = f"{capitalize_type(self.definition.name)}[{title}]"
        return not (title in self.exceptions or any(matches(name) for matches in self.patterns))


class Catalog(NamedTuple):
    """The resources that should be: entries in the order of execution, and their relationships by index."""

    manifest: Manifest
    entries: Sequence[Entry]
    #: Index → the indexes that must come before it, directly.
    requires: Mapping[int, Sequence[int]]
    #: Index → the indexes whose changes refresh it.
    subscribes: Mapping[int, Sequence[int]]
    #: The pairs of indexes, first and then, whose relationship only a type declares.
    automatic: Collection[tuple[int, int]]
    scope: Scope
    #: Returns the entry with a title, an alias or a canonical name.
    find: Callable[[Reference], Entry | None]
    #: Components by reference and alias.
    components: Mapping[Reference, ComponentInstance] = {}
    warnings: Sequence[Problem] = ()
    notes: Sequence[str] = ()
    #: The provider instances that are named or needed, by name.
    instances: Mapping[str, ProviderInstance] = {}
    #: Provider instance → the reason that its provider cannot be made yet, before an installation. The values and names
    #: of its resources are as written: they are canonicalized and decided at their turn.
    missing: Mapping[str, str] = {}
    #: Index → the indexes of which one must have failed before it is carried out (contract §10.8).
    on_failure: Mapping[int, Collection[int]] = {}
    #: The declarations whose conditions do not hold.
    left_out: LeftOuts = LeftOuts()
    purges: Sequence[PurgeRule] = ()


def compile_catalog(manifest: Manifest, scope: Scope, definitions: Definitions) -> Catalog:
    """Return the catalog of a manifest: its resources, checked and in the order of execution.

    Each stage continues after a problem, so that the ``ManifestError`` at the end has every problem and warning.
    ``scope`` resolves the names in expressions; resources and components are added to it as soon as they are built.
    """
    diagnostics = Diagnostics(manifest, [*manifest.problems, *scope.problems])
    if manifest.values:
        scope.calls = provider_config.find_calls(diagnostics, definitions)
        # Names may use these values, so they are checked first; nothing of resources and components is known yet.
        unread = scope.resolver(lambda _path: UNKNOWN, expand_components=False, once=True)
        check_named_values(diagnostics, scope, unread)
    names = NameEvaluator(diagnostics, scope)
    manifest = names.evaluate_name_changes(manifest)
    table = ResourceTable(scope, definitions)
    table.incomplete.update(manifest.incomplete)
    scope.find = table.find
    for skipped in manifest.skipped_includes:
        table.left_out.add(LeftOut(skipped.file, skipped.reason, skipped.origin.place()))
    EntryBuilder(table, diagnostics, scope, names).build(manifest)
    if manifest.order:
        _arrange(table.entries, manifest.order)
    evaluator = Evaluator(table, diagnostics, scope)
    evaluator.recheck_named_values()
    evaluator.check_calls()
    evaluator.check_without_resource()
    evaluator.check_components()
    evaluator.evaluate_entries()
    rules = _purge_rules(table, diagnostics, scope) if manifest.purges else ()
    purged = {rule.definition.instance: (rule.position, rule.subject) for rule in rules}
    instances = provider_config.build_instances(table, evaluator, diagnostics, scope.calls, purged)
    # After the instances: their resources follow the references in configurations, which are among these by now.
    builder = graph.EdgeBuilder(table, diagnostics)
    edges = list(builder.edges(evaluator.references))
    if any(map(attrgetter("on_failure"), edges)):
        edges = graph.FailureHandlerCheck(edges, table, diagnostics).check(scope)
    order = graph.order(len(table.entries), edges)
    graph.check_cycles(table.entries, order, diagnostics)
    _check_moves(manifest, table, diagnostics)
    _check_removals(manifest, table, diagnostics)
    if manifest.output_conditions:
        manifest = for_each.choose_outputs(manifest, table, diagnostics, scope)
    _check_outputs(manifest, evaluator, diagnostics)
    evaluator.check_unused_values()
    evaluator.check_unused_defaults()
    if diagnostics.problems:
        _warn_of_missing(table, diagnostics)
        raise ManifestError(diagnostics.distinct)
    catalog = _catalog(manifest, table, order, scope)
    return catalog._replace(
        warnings=diagnostics.warnings,
        notes=[*catalog.notes, *builder.notes],
        instances=instances,
        missing=table.missing,
        left_out=table.left_out,
        purges=rules,
        # A handler whose targets are all left out, or components without resources, has an empty entry: they cannot
        # fail, so it never runs.
        on_failure={**{entry.index: () for entry in builder.failure_handlers}, **catalog.on_failure},
    )


def _check_outputs(manifest: Manifest, evaluator: Evaluator, diagnostics: Diagnostics) -> None:
    """Report outputs that cannot be evaluated, and those that would record an ephemeral input.

    Only the errors matter here: the plan evaluates the outputs again, with the values of the state.
    """
    for name, value in manifest.outputs.items():
        try:
            evaluator.refuse_ephemeral(value)
            evaluator.evaluate(value)
        except ValueError as error:
            diagnostics.output_error(name, str(error))


def _arrange(entries: list[Entry], order: Sequence[str]) -> None:
    """Sort and number entries by the references in ``order``, for a rehearsal that tries another order of a manifest.

    Entries without a reference in ``order`` come last. The numbers stand for the order in the manifest from now on:
    only relationships, which are added later, can change that order.
    """
    positions = {reference: index for index, reference in enumerate(order)}
    entries.sort(key=lambda entry: positions.get(str(entry.reference), len(positions)))
    for index, entry in enumerate(entries):
        entry.index = index


def _warn_of_missing(table: ResourceTable, diagnostics: Diagnostics) -> None:
    """Warn of resources whose provider is not installed, so that they are reported together with the errors.

    Compiling fails after this. Without errors the plan reports them.
    """
    for entry in table.entries:
        if message := table.missing.get(entry.instance):
            diagnostics.add(entry, Problem(None, message, "warning", code="type"))


def _check_moves(manifest: Manifest, table: ResourceTable, diagnostics: Diagnostics) -> None:
    """Report entries of ``moved`` whose former name is still declared, of another type, repeated or in a circle.

    By such entries the record of a resource in the state would get no clear new name.
    """
    sources, targets = set(), set()
    forward = {move.source: move.target for move in manifest.moved}
    for move in manifest.moved:
        if problem := _move_problem(move, table, forward):
            diagnostics.name_change_error(move, problem)
        if move.target in targets:
            diagnostics.name_change_error(move, f"two names have moved to {move.target}")
        if move.source in sources:
            diagnostics.name_change_error(move, f"{move.source} has moved to two names")
        sources.add(move.source)
        targets.add(move.target)


def _move_problem(move: Moved, table: ResourceTable, forward: Mapping[Reference, Reference]) -> str:
    """Return the error of a single entry of ``moved``, or ""; ``forward``: name → the next name of a resource."""
    source, target = (table.components.get(name) or table.find(name) for name in (move.source, move.target))
    if source is not None and source is not target:  # the former name may be an alias of the target
        return f"{move.source} is still declared, so it has not moved to {move.target}"
    resource = table.find(move.target)
    if resource is not None and not _may_have_moved(move.source, resource):
        return f"{move.source} cannot have moved to {move.target}: a resource keeps its type"
    if move.source in _names_after(move.source, forward):
        way = "" if move.source == move.target else f", by way of {move.target}"
        return f"{move.source} has moved to itself{way}"
    return ""


def _names_after(name: Reference, forward: Mapping[Reference, Reference]) -> set[Reference]:
    """Return the later names of a resource that were moved again, by ``forward`` (name → next name).

    They show a circle of ``moved``, in which ``name`` is one of them. For moves from a to b and b to c it is only b.
    """
    names: set[Reference] = set()
    while (name := forward.get(name, name)) not in names and name in forward:
        names.add(name)
    return names


def _may_have_moved(source: Reference, entry: Entry) -> bool:
    """Return whether a resource may have been called ``source``: of its type, or of one that this takes over."""
    former_type = split_component(source, entry.type)[1].type
    return former_type == entry.type or entry.definition.takes_over(former_type)


def _check_removals(manifest: Manifest, table: ResourceTable, diagnostics: Diagnostics) -> None:
    """Report entries of ``removed`` that are still declared, or to which ``moved`` renames a resource.

    Such an entry contradicts the rest of the manifest, which still manages the resource.
    """
    for removal in manifest.removed:
        declared = table.components.get(removal.reference) or table.find(removal.reference)
        if declared is not None:
            title = "" if declared.reference == removal.reference else f" as {declared.reference}"
            message = f"{removal.reference} is removed, and still declared{title} at {diagnostics.location(declared)}"
            diagnostics.name_change_error(removal, message)
            continue
        for move in manifest.moved:
            # The target is the removed name, or inside that component: Site[a]/File[b] for Site[a].
            if f"{move.target}/".startswith(f"{removal.reference}/"):
                message = f"{removal.reference} is removed, and {move.source} has moved to {move.target}"
                diagnostics.name_change_error(removal, f"{message} at {move.origin.place()}")


def _catalog(manifest: Manifest, table: ResourceTable, order: Order, scope: Scope) -> Catalog:
    """Return the catalog: the entries of ``table`` and relationships, renumbered in the order of execution.

    Edges have the numbers of entries in the manifest. Those of ``on_failure`` are not in ``requires``, because their
    second resource waits for the first one's failure, not for its success.
    """
    entries, index_of = table.entries, order.sequence
    # Nearly always it is the manifest's own order: a range, in which each number is its own index.
    if not isinstance(order.sequence, range):
        entries = [table.entries[number] for number in order.sequence]
        index_of = [0] * len(entries)
        for index, number in enumerate(order.sequence):
            entries[index].index = index_of[number] = index
    requires: dict[int, list[int]] = {}
    subscribes: dict[int, list[int]] = {}
    on_failure: dict[int, set[int]] = {}
    for first, then, refresh, _, needs_failure in order.edges:
        before, index = index_of[first], index_of[then]
        if needs_failure:
            on_failure.setdefault(index, set()).add(before)
            continue
        requires.setdefault(index, []).append(before)
        if refresh:
            subscribes.setdefault(index, []).append(before)
    for index, firsts in requires.items():
        if len(firsts) > 1:
            requires[index] = list(dict.fromkeys(firsts))
    notes = []
    for edge in order.yielded:
        pair = f"{table.entries[edge.first].reference} before {table.entries[edge.then].reference}"
        notes.append(f"the automatic relationship {pair} gives way to explicit ones that contradict it")
    return Catalog(
        manifest,
        entries,
        requires,
        subscribes=subscribes,
        automatic=_automatic_pairs(order.edges, index_of),
        scope=scope,
        find=table.find,
        components=table.components,
        notes=notes,
        on_failure=on_failure,
    )


def _automatic_pairs(edges: Sequence[Edge], index_of: Sequence[int]) -> set[tuple[int, int]]:
    """Return the pairs of indices that only automatic edges join, no declared one; ``index_of``: number → index.

    Preflight uses them: a declared relationship to a changed resource defers the findings about the resources after
    it, because its author may expect that the change meets their needs. An automatic one defers nothing.
    """
    automatic = {(index_of[edge.first], index_of[edge.then]) for edge in edges if edge.automatic}
    if automatic:
        automatic -= {(index_of[edge.first], index_of[edge.then]) for edge in edges if not edge.automatic}
    return automatic


def _purge_rules(table: ResourceTable, diagnostics: Diagnostics, scope: Scope) -> Sequence[PurgeRule]:
    """Return the rules by which the run deletes undeclared resources: the entries of ``purge`` whose conditions hold.

    Report invalid entries, and a second one for the same provider instance.
    """
    rules: dict[str, PurgeRule] = {}
    for purge in diagnostics.manifest.purges:
        definition = _purged_definition(purge, table, diagnostics)
        if definition is None or not _purge_holds(purge, table, diagnostics, scope):
            continue
        _check_purge_attributes(purge, definition, diagnostics)
        tests = {name: conditions.parse_test(test) for name, test in purge.where.items()}
        patterns = [matcher(f"{capitalize_type(purge.type)}[{pattern}]") for pattern in purge.exceptions]
        rule = PurgeRule(definition, purge.at_most, purge.exceptions, patterns, tests, purge.origin.place())
        first = rules.setdefault(definition.instance, rule)
        if first is not rule:
            diagnostics.purge_error(purge, f"{capitalize_type(purge.type)} is purged twice; first at {first.position}")
    return list(rules.values())


def _purged_definition(purge: Purge, table: ResourceTable, diagnostics: Diagnostics) -> TypeDefinition | None:
    """Return the type of an entry of ``purge``, as the provider instance that lists its resources defines it.

    Report an unknown type, an unsuitable ``provider`` and a type that cannot be purged: the result is then None.
    """
    name = capitalize_type(purge.type)
    try:
        if table.component(purge.type) is not None:
            diagnostics.purge_error(purge, f"{name} is a component: name the types of its resources", "type")
            return None
        instance = purge.type
        if purge.provider is not None and purge.provider != purge.type:
            instance = provider_config.select_instance(purge.provider, purge.type, diagnostics.manifest)
        definition = table.provider(instance).definition
    except DefinitionError as error:
        diagnostics.purge_error(purge, str(error), "type")
    except ValueError as error:
        diagnostics.purge_error(purge, str(error), "provider")
    else:
        if not (reason := _purge_refusal(definition)):
            return definition
        diagnostics.purge_error(purge, f"{name} cannot be purged: {reason}", "type")
    return None


def _purge_refusal(definition: TypeDefinition) -> str:
    """Return why a type cannot be purged, or "": purging lists its resources, and deletes those not declared."""
    if not definition.attributes:
        return "its type has functions and no resources"
    if "imperative" in definition.features:
        return "what it does cannot be listed"
    if definition.identity is not None:
        return "a listing does not tell which ones the manifest declares: their names are in manifests only"
    return "" if definition.ensurable else "resources of this type are configured, not deleted"


def _purge_holds(purge: Purge, table: ResourceTable, diagnostics: Diagnostics, scope: Scope) -> bool:
    """Return whether the condition of an entry of ``purge`` holds.

    Report an invalid condition. A rule whose condition is not met is recorded as left out, with the reason.
    """
    if purge.when is True:
        return True
    try:
        reason = for_each.unmet_condition(purge.when, scope)
    except conditions.ConditionError as error:
        if not for_each.is_reported(error, scope):
            diagnostics.purge_error(purge, str(error), "when", *error.path, hint=error.hint)
        return False
    if reason:
        table.left_out.add(LeftOut(f"purge of {capitalize_type(purge.type)}", reason, purge.origin.place("when")))
    return not reason


def _check_purge_attributes(purge: Purge, definition: TypeDefinition, diagnostics: Diagnostics) -> None:
    """Report attributes under ``where`` of a purge that cannot be tested: unknown, never read, or secret."""
    for name in purge.where:
        attribute = definition.attributes.get(name)
        if attribute is None:
            message, hint = f"unknown attribute '{name}'", suggestion(name, definition.attributes)
        elif attribute.kind == "parameter" or attribute.write_only:
            message, hint = f"'{name}' is never read, so it cannot be tested", ""
        elif name in definition.secret:
            message, hint = f"'{name}' is a secret, and a deletion would tell it", "test another attribute"
        else:
            continue
        diagnostics.purge_error(purge, message, "where", name, hint=hint)


def declaration_problems(
    manifest: Manifest, find_type: Callable[[str], TypeDefinition], is_component: Callable[[str], bool]
) -> Sequence[Problem]:
    """Return the problems of a manifest that every host would report, so that it is refused before any is contacted.

    Only types, literal values and the names of inputs are checked, because conditions, titles and other values may
    depend on a host's facts. ``find_type`` returns the type with a name; ``is_component`` tests a name.
    """
    if any(declared.is_program for declared in manifest.providers.values()):
        return ()  # the types of Terraform providers are known when these are started
    # A configured provider may be one of another version of the type.
    selected = {declared.type for declared in manifest.providers.values()}
    resources = [
        declared for declared in manifest.resources if declared.type not in selected and not is_component(declared.type)
    ]
    diagnostics = Diagnostics(manifest)
    scope = Scope(manifest, {}, {})
    table = ResourceTable(scope, Definitions(lambda name: ProviderFunctions(find_type(name), {})))
    table.empty += resources  # as if no resource were made of them: only their literal values are checked
    Evaluator(table, diagnostics, scope).check_without_resource()
    for declared in resources:
        for name, value in declared.attributes.items():
            for message in _unknown_inputs(manifest, value):
                diagnostics.declaration_error(declared, message, "expression", name)
    for name, value in manifest.outputs.items():
        for message in _unknown_inputs(manifest, value):
            diagnostics.output_error(name, message)
    return diagnostics.distinct


def _unknown_inputs(manifest: Manifest, value: object) -> Iterator[str]:
    """Yield an error for each ``${inputs.x}`` in a value whose input the manifest does not declare."""
    for path in expression.find_paths(value):
        if path.root == "inputs" and path.keys[0] not in manifest.inputs:
            yield f"{path}: unknown input '{path.keys[0]}'{hint(path.keys[0], manifest.inputs, 'input')}"
