"""Compile ``purge``: the rules that delete listed resources that nothing declares (contract §10.7). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.catalog import for_each
from resource_api.catalog.provider_config import select_instance
from resource_api.catalog.resource_table import LeftOut, matcher
from resource_api.manifest.conditions import ConditionError, parse_test, test_failure
from resource_api.model.values.errors import DefinitionError, suggestion
from resource_api.model.values.reference import capitalize_type
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.expression_scope import Scope
    from resource_api.catalog.resource_table import ResourceTable
    from resource_api.manifest.conditions import Test
    from resource_api.model.declaration import FilePosition, Purge
    from resource_api.model.type_definition import TypeDefinition


class PurgeRule(NamedTuple):
    """One checked entry of ``purge``."""

    #: The type, for the provider instance that lists it.
    definition: TypeDefinition
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
        """Return whether a row is one that the rule may delete.

        Raise ``ConditionError`` for a test that does not fit its value.
        """
        for name, test in self.where.items():
            if test_failure(test, row.get(name), name):
                return False
        title = self.definition.title_of(row)
        name = f"{capitalize_type(self.definition.name)}[{title}]"
        return not (title in self.exceptions or any(matches(name) for matches in self.patterns))


def purge_rules(table: ResourceTable, diagnostics: Diagnostics, scope: Scope) -> Sequence[PurgeRule]:
    """Return the rules of a manifest whose conditions hold.

    Report types that cannot be listed or whose resources cannot be deleted, attributes that cannot be tested, and
    invalid conditions.
    """
    rules: dict[str, PurgeRule] = {}
    for purge in diagnostics.manifest.purges:
        definition = _definition(purge, table, diagnostics)
        if definition is None or not _holds(purge, table, diagnostics, scope):
            continue
        _check_attributes(purge, definition, diagnostics)
        tests = {name: parse_test(test) for name, test in purge.where.items()}
        patterns = [matcher(f"{capitalize_type(purge.type)}[{pattern}]") for pattern in purge.exceptions]
        rule = PurgeRule(definition, purge.at_most, purge.exceptions, patterns, tests, purge.origin.place())
        first = rules.setdefault(definition.instance, rule)
        if first is not rule:
            message = f"{capitalize_type(purge.type)} is purged twice; first at {first.position}"
            diagnostics.purge_error(purge, message)
    return list(rules.values())


def _definition(purge: Purge, table: ResourceTable, diagnostics: Diagnostics) -> TypeDefinition | None:
    """Return the type of an entry, for its provider instance; report one that cannot be purged."""
    name = capitalize_type(purge.type)
    try:
        if table.component(purge.type) is not None:
            diagnostics.purge_error(purge, f"{name} is a component: name the types of its resources", "type")
            return None
        instance = purge.type
        if purge.provider is not None and purge.provider != purge.type:
            instance = select_instance(purge.provider, purge.type, diagnostics.manifest)
        definition = table.provider(instance).definition
    except DefinitionError as error:
        diagnostics.purge_error(purge, str(error), "type")
    except ValueError as error:
        diagnostics.purge_error(purge, str(error), "provider")
    else:
        if not (reason := _refusal(definition)):
            return definition
        diagnostics.purge_error(purge, f"{name} cannot be purged: {reason}", "type")
    return None


def _refusal(definition: TypeDefinition) -> str:
    """Return the reason for which a type cannot be purged, or an empty text."""
    if not definition.attributes:
        return "its type has functions and no resources"
    if "imperative" in definition.features:
        return "what it does cannot be listed"
    if definition.identity is not None:
        return "a listing does not tell which ones the manifest declares: their names are in manifests only"
    return "" if definition.ensurable else "resources of this type are configured, not deleted"


def _holds(purge: Purge, table: ResourceTable, diagnostics: Diagnostics, scope: Scope) -> bool:
    """Return whether the condition of an entry holds; otherwise leave it out. Report an invalid condition."""
    if purge.when is True:
        return True
    try:
        reason = for_each.unmet_condition(purge.when, scope)
    except ConditionError as error:
        if not for_each.is_reported(error, scope):
            diagnostics.purge_error(purge, str(error), "when", *error.path, hint=error.hint)
        return False
    if reason:
        name = f"purge of {capitalize_type(purge.type)}"
        table.left_out.add(LeftOut(name, reason, purge.origin.place("when")))
    return not reason


def _check_attributes(purge: Purge, definition: TypeDefinition, diagnostics: Diagnostics) -> None:
    """Report the attributes under ``where`` whose values ``get`` does not return, or that are secret."""
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
