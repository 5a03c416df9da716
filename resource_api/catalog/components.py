"""One use of a component → the declarations of its resources: inputs checked, metaparameters inherited.

An input that refers to another resource is passed on as an expression. Pure: the function that builds a component comes
in with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.canonicalize import explain_refusal
from resource_api.catalog.defaults import defaults_of
from resource_api.manifest.sections import ManifestBuilder
from resource_api.model.attribute import METAPARAMETERS
from resource_api.model.values import expression
from resource_api.model.values.errors import DefinitionError, ManifestError, Problem, nearest
from resource_api.model.values.expression import Expression
from resource_api.model.values.reference import MAX_COMPONENTS, capitalize_type, component_chain, title_problem
from resource_api.model.values.values import SCALAR_TYPES, UNKNOWN, Sensitive, is_unknown, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.expression_scope import Scope
    from resource_api.catalog.name_expressions import NameEvaluator
    from resource_api.model.attribute import Attribute
    from resource_api.model.component import ComponentDefinition, LoadedComponent
    from resource_api.model.declaration import Declaration
    from resource_api.model.entry import ComponentInstance

#: The keys of a component's ``lifecycle`` that its resources inherit, unless they have them themselves.
_INHERITED: Final = ("protect", "retain", "owned", "replace", "replace_triggered_by", "deleted_with", "external")
#: The inherited key whose values are joined instead.
_TRIGGERS: Final = "replace_triggered_by"
#: The keys of ``lifecycle`` that concern one resource.
_NOT_FOR_COMPONENTS: Final = ("ignore_changes", "replace_on_changes", "import")


class Expander:
    """Expands components into the declarations of their resources."""

    def __init__(
        self,
        diagnostics: Diagnostics,
        scope: Scope,
        find_component: Callable[[str], LoadedComponent | None],
        names: NameEvaluator,
        incomplete: set[str],
    ) -> None:
        """Report to ``diagnostics``; inputs may use the inputs, values and facts of ``scope``.

        The types of which a declaration in a component is left out are added to ``incomplete``.
        """
        self._names = names
        self._incomplete = incomplete
        self._manifest = diagnostics.manifest
        self._diagnostics = diagnostics
        self._error = diagnostics.resource_error
        self._find_component = find_component
        self._scope = scope
        self._resolve = scope.resolver(lambda _path: UNKNOWN, expand_components=False)

    def expand(self, component: ComponentInstance, loaded: LoadedComponent) -> list[Declaration] | None:
        """Return the declarations of a component's resources, and set its inputs and outputs; None if it is invalid."""
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
        self._incomplete.update(builder.incomplete)
        self._report_inside(component, builder.problems)
        component.document, component.outputs = document, builder.outputs
        self._check_outputs(component, loaded.definition)
        declarations = (declared._replace(parent=parent) for declared in builder.resources)
        named = filter(None, map(self._names.evaluate_declaration, declarations))
        return [self._inherit(component, declared) for declared in named]

    def _report_inside(self, component: ComponentInstance, problems: Sequence[Problem]) -> None:
        for problem in problems:
            inner = f"/{problem.reference}" if problem.reference else ""
            self._diagnostics.problems.append(problem._replace(reference=f"{component.reference}{inner}"))

    def _misuse(self, component: ComponentInstance) -> str:
        """Return why a component cannot be built as it is declared; empty when it can."""
        chain = component_chain(component.parent)
        if component.type in {each.type for each in chain}:
            names = [*map(str, chain), f"{capitalize_type(component.type)}[{component.title}]"]
            return f"a component cannot hold itself: {' => '.join(names)}"
        if len(chain) == MAX_COMPONENTS:
            return f"components are nested deeper than {MAX_COMPONENTS}"
        lifecycle = component.declaration.meta.get("lifecycle") or {}
        if key := next((key for key in _NOT_FOR_COMPONENTS if key in lifecycle), ""):
            return f"lifecycle.{key} applies to single resources; set it in the component's file"
        return title_problem(component.title)

    def _inputs(self, component: ComponentInstance, definition: ComponentDefinition) -> dict[str, Any]:
        from resource_api.model.datatypes.referred_values import with_texts

        given = {**defaults_of(self._manifest, component.declaration), **component.declaration.attributes}
        known = definition.attributes
        for name in given.keys() - known.keys():
            hint = nearest(name, known.keys() | METAPARAMETERS, "attribute")
            self._error(component, name, f"unknown input '{name}'", "unknown_attribute", hint)
        found = {}
        for name, attribute in known.items():
            if name not in given and attribute.has_default:
                value = attribute.fresh_default()
            else:
                value = with_texts(attribute.datatype, given.get(name), self._input(component, name, given.get(name)))
            if value is None and not attribute.datatype.optional:
                self._error(component, None, f"input '{name}' is missing; it is mandatory", "missing_attribute")
            elif value is not None:
                self._check_type(component, name, attribute, value, given.get(name))
            secret = attribute.datatype.sensitive and value is not None
            found[name] = Sensitive(value) if secret else value
        return found

    def _input(self, component: ComponentInstance, name: str, value: Any) -> Any:
        try:
            return self._evaluate(value)
        except ValueError as error:
            self._error(component, name, str(error), "expression")
            return UNKNOWN

    def _evaluate(self, value: Any) -> Any:
        """Return a value as far as it is known now; one of another resource or ephemeral stays an expression."""
        if type(value) is str and "${" in value:
            found = expression.evaluate(value, self._resolve)
            return expression.parse(value) if is_unknown(found) or self._scope.ephemeral_input(value) else found
        if isinstance(value, dict):
            return {key: self._evaluate(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._evaluate(item) for item in value]
        return Sensitive(self._evaluate(value.reveal())) if isinstance(value, Sensitive) else value

    def _check_type(
        self, component: ComponentInstance, name: str, attribute: Attribute, value: Any, written: Any
    ) -> None:
        """Check a known value; a pending one is checked as part of the attributes that use it."""
        if not (_is_pending(value) or attribute.datatype.accepts(reveal(value))):
            for problem in explain_refusal(name, attribute, value, written):
                self._diagnostics.add(component, problem)

    def _check_outputs(self, component: ComponentInstance, definition: ComponentDefinition) -> None:
        for name in component.outputs.keys() - definition.outputs.keys():
            hint = nearest(name, definition.outputs)
            message = f"sets an output '{name}' that it does not declare"
            self._diagnostics.component_error(component, name, message, "output", hint)
        for name in definition.outputs.keys() - component.outputs.keys():
            message = f"declares an output '{name}' and does not set it"
            self._diagnostics.component_error(component, name, message, "output")
            # What uses it is not reported too.
            component.outputs = {**component.outputs, name: UNKNOWN}

    def _inherit(self, component: ComponentInstance, declared: Declaration) -> Declaration:
        """Return a declaration with the metaparameters of its component; its own ones win, but noop stays.

        Relationships are not inherited: they hold for all resources of a component at once.
        """
        outer, own = component.declaration.meta, declared.meta
        if not outer:
            return declared
        meta = {name: outer[name] for name in ("noop", "loglevel", "timeout") if name in outer} | own
        if outer.get("noop"):
            meta["noop"] = True
        if "provider" in outer and self._is_provider_for(outer["provider"], declared.type):
            meta.setdefault("provider", outer["provider"])
        if tags := [*_listed(outer.get("tag")), *_listed(own.get("tag"))]:
            meta["tag"] = tags
        outer_lifecycle, own_lifecycle = outer.get("lifecycle") or {}, own.get("lifecycle") or {}
        if lifecycle := {k: outer_lifecycle[k] for k in _INHERITED if k in outer_lifecycle} | own_lifecycle:
            if triggers := [*_listed(outer_lifecycle.get(_TRIGGERS)), *_listed(own_lifecycle.get(_TRIGGERS))]:
                lifecycle[_TRIGGERS] = triggers
            meta["lifecycle"] = lifecycle
        return declared._replace(meta=meta)

    def _is_provider_for(self, name: str, type_name: str) -> bool:
        """Whether a configured provider is for resources of a type; components within pass it on."""
        configured = self._manifest.providers.get(name)
        if configured is None or configured.type == type_name:
            return True
        try:
            return self._find_component(type_name) is not None
        except DefinitionError:
            # It is reported where the component is declared.
            return False


def _is_pending(value: Any) -> bool:
    """Whether a value is not wholly known."""
    if type(value) in SCALAR_TYPES:
        return False
    if isinstance(value, (dict, list)):
        return any(map(_is_pending, value.values() if isinstance(value, dict) else value))
    if isinstance(value, Sensitive):
        return _is_pending(value.reveal())
    return isinstance(value, Expression) or value is UNKNOWN


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]
