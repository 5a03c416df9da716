"""One use of a component → the declarations of its resources: its inputs checked, its metaparameters handed down.

What an input refers to in another resource is handed on as an expression. Pure: what builds a component comes in as a
function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.sections import ManifestBuilder
from resource_api.model.declaration import METAPARAMETERS
from resource_api.model.values import expression
from resource_api.model.values.errors import DefinitionError, ManifestError, Problem, nearest
from resource_api.model.values.expression import Expression
from resource_api.model.values.reference import capitalize_type, component_chain, title_problem
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive, is_unknown, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.titles import Names
    from resource_api.manifest.scope import Scope
    from resource_api.model.component import ComponentDefinition, LoadedComponent
    from resource_api.model.component_instance import ComponentInstance
    from resource_api.model.declaration import Declaration

#: What is said of a component by ``lifecycle`` and holds for each of its resources; these say otherwise themselves.
_HANDED_DOWN: Final = ("protect", "retain", "owned", "replace", "replace_triggered_by", "deleted_with", "external")
#: Of these those of both hold.
_TRIGGERS: Final = "replace_triggered_by"
_OF_ONE: Final = ("ignore_changes", "replace_on_changes", "import")


class Expander:
    """Builds what a manifest declares of components."""

    def __init__(
        self, diagnostics: Diagnostics, scope: Scope, component: Callable[[str], LoadedComponent | None], names: Names
    ) -> None:
        """Complain of what is wrong; inputs see the inputs, values and facts of the manifest."""
        self._names = names
        self._manifest = diagnostics.manifest
        self._diagnostics = diagnostics
        self._component = component
        self._resolve = scope.resolver(lambda _path: UNKNOWN, expand_components=False)

    def expand(self, group: ComponentInstance, blueprint: LoadedComponent) -> list[Declaration] | None:
        """Give the declarations of a component's resources, and note its outputs; None when something is wrong."""
        if flaw := self._flaw(group):
            self._diagnostics.of(group, None, flaw, "component")
            return None
        before = len(self._diagnostics.problems)
        group.inputs = self._inputs(group, blueprint.definition)
        if len(self._diagnostics.problems) > before:
            return None
        try:
            made = blueprint.build(str(group.reference), group.title, group.inputs)
        except ManifestError as error:
            self._diagnostics.problems += [_named(problem, group) for problem in error.problems]
            return None
        problems: list[Problem] = []
        builder = ManifestBuilder(problems)
        builder.add(made, first=False)
        self._diagnostics.problems += [_named(problem, group) for problem in problems]
        group.outputs = builder.outputs
        self._check_outputs(group, blueprint.definition)
        within = (declared._replace(parent=str(group.reference)) for declared in builder.resources)
        return [self._inheriting(group, each) for each in filter(None, map(self._names.declaration, within))]

    def _flaw(self, group: ComponentInstance) -> str:
        """Say why a component cannot be built as it is declared; nothing when it can."""
        around = component_chain(group.parent)
        if group.type in {each.type for each in around}:
            names = [*map(str, around), f"{capitalize_type(group.type)}[{group.title}]"]
            return f"a component cannot hold itself: {' => '.join(names)}"
        if odd := next((word for word in _OF_ONE if word in (group.declaration.meta.get("lifecycle") or {})), ""):
            return f"lifecycle.{odd} is about one resource; its file says it of those that the component makes"
        return title_problem(group.title)

    # Inputs

    def _inputs(self, group: ComponentInstance, definition: ComponentDefinition) -> dict[str, Any]:
        defaults = self._manifest.defaults.get(group.declaration.file, {}).get(group.type, {})
        given = {**defaults, **group.declaration.attributes}
        known = definition.attributes
        for name in given.keys() - known.keys():
            hint = nearest(name, known.keys() | METAPARAMETERS)
            self._diagnostics.of(group, name, f"unknown input '{name}'", "unknown_attribute", hint)
        found = {}
        for name, attribute in known.items():
            if name not in given and attribute.has_default:
                value = attribute.fresh_default()
            else:
                value = self._value(group, name, given.get(name))
            if value is None and not attribute.datatype.optional:
                self._diagnostics.of(group, None, f"input '{name}' is missing; it is mandatory", "missing_attribute")
            elif value is not None:
                self._check(group, definition, name, value)
            secret = attribute.datatype.sensitive and value is not None
            found[name] = Sensitive(value) if secret else value
        return found

    def _value(self, group: ComponentInstance, name: str, value: Any) -> Any:
        try:
            return self._known(value)
        except ValueError as error:
            self._diagnostics.of(group, name, str(error), "expression")
            return UNKNOWN

    def _known(self, value: Any) -> Any:
        """Give a value as far as it is known now; what refers to another resource stays an expression."""
        if type(value) is str and "${" in value:
            found = expression.evaluate(value, self._resolve)
            return expression.parse(value) if is_unknown(found) else found
        if isinstance(value, dict):
            return {key: self._known(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._known(item) for item in value]
        return Sensitive(self._known(value.reveal())) if isinstance(value, Sensitive) else value

    def _check(self, group: ComponentInstance, definition: ComponentDefinition, name: str, value: Any) -> None:
        """Hold what is known to the data type; what is not is held to those of the attributes that it ends in."""
        datatype = definition.attributes[name].datatype
        if _pending(value) or datatype.accepts(reveal(value)):
            return
        from resource_api.model.datatypes import json_schema as schemas  # noqa: PLC0415 - the slow path

        for path, message in schemas.explain(datatype, value):
            place = "".join(f"[{step}]" for step in path)
            self._diagnostics.of(group, name, f"{name}{place} {message}", "type_mismatch")

    # What was built

    def _check_outputs(self, group: ComponentInstance, definition: ComponentDefinition) -> None:
        for name in group.outputs.keys() - definition.outputs.keys():
            hint = nearest(name, definition.outputs)
            self._diagnostics.of(group, None, f"gives an output '{name}' that it does not declare", "output", hint)
        for name in definition.outputs.keys() - group.outputs.keys():
            self._diagnostics.of(group, None, f"declares an output '{name}' and does not give it", "output")

    def _inheriting(self, group: ComponentInstance, declared: Declaration) -> Declaration:
        outer = group.declaration.meta
        return declared._replace(meta=self._handed_down(outer, declared)) if outer else declared

    def _handed_down(self, outer: Mapping[str, Any], declared: Declaration) -> dict[str, Any]:
        """Join what is said of a component with what is said of one of its resources, which wins; noop stays noop.

        Relationships are the component's own affair: they are bound once, for all that it has made.
        """
        meta = {name: outer[name] for name in ("noop", "loglevel", "timeout") if name in outer} | declared.meta
        if outer.get("noop"):
            meta["noop"] = True
        if "provider" in outer and self._provides(outer["provider"], declared.type):
            meta.setdefault("provider", outer["provider"])
        if tags := [*_listed(outer.get("tag")), *_listed(declared.meta.get("tag"))]:
            meta["tag"] = tags
        said = outer.get("lifecycle") or {}
        if lifecycle := {k: said[k] for k in _HANDED_DOWN if k in said} | (declared.meta.get("lifecycle") or {}):
            meta["lifecycle"] = lifecycle
            triggers = [*_listed(said.get(_TRIGGERS)), *_listed((declared.meta.get("lifecycle") or {}).get(_TRIGGERS))]
            lifecycle.update({_TRIGGERS: triggers} if triggers else {})
        return meta

    def _provides(self, name: str, type_name: str) -> bool:
        """Whether an entry of ``providers`` is for resources of a type; a component within hands it on."""
        configured = self._manifest.providers.get(name)
        if configured is None or configured.type == type_name:
            return True
        try:
            return self._component(type_name) is not None
        except DefinitionError:
            # Said where it is declared.
            return False


def _named(problem: Problem, group: ComponentInstance) -> Problem:
    return problem._replace(reference=f"{group.reference}{f'/{problem.reference}' if problem.reference else ''}")


def _pending(value: Any) -> bool:
    """Whether a value is not wholly known."""
    if type(value) in SCALAR_TYPES:
        return False
    if isinstance(value, (dict, list)):
        return any(map(_pending, value.values() if isinstance(value, dict) else value))
    if isinstance(value, Sensitive):
        return _pending(value.reveal())
    return isinstance(value, Expression) or value is UNKNOWN


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]
