"""Values of references into other resources and of outputs: planned, read, or unknown until a step was carried out.

Pure; the transaction uses the same functions once the values are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog import canonicalize
from resource_api.catalog.entry_values import is_completed
from resource_api.model.action import Action
from resource_api.model.change import Difference, exists
from resource_api.model.sealed_secrets import conceal_like, mark_secrets, referred_value, seal_secrets
from resource_api.model.values import expression
from resource_api.model.values.errors import Problem
from resource_api.model.values.values import UNKNOWN, is_unknown, same_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.step import Step
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.model.values.expression import ExpressionPath
    from resource_api.plan.diff import Resource

_CREATING = frozenset({Action.CREATE, Action.REPLACE, Action.RUN})


def predicted_value(path: ExpressionPath, step: Step) -> Any:
    """Return the value that a path, such as ``File[/a].mode``, has after a planned step.

    A declared value comes first, then one that the provider predicts, then one that was read. It is ``UNKNOWN`` if only
    carrying out the step yields it. Raise ``ValueError`` if there is no value, or the step deletes the resource.
    """
    attribute = path.keys[0]
    if attribute in step.should and step.should[attribute] is not UNKNOWN:
        if step.acts and is_completed(path, step.definition, step.should):
            return UNKNOWN  # the system adds parts to the declared value
        return _declared_value(path, step.definition, step.should)
    if step.decision.predicted.get(attribute) is UNKNOWN:
        return UNKNOWN
    if attribute in step.decision.predicted:
        marked = mark_secrets(step.definition, step.decision.predicted, step.should)
        return expression.follow_keys(marked[attribute], path, path.keys[1:])
    if step.deferred or step.decision.error or attribute in step.should or step.action in _CREATING:
        return UNKNOWN
    if step.action in {Action.UPDATE, Action.IMPORT} and step.definition.attributes[attribute].kind == "read_only":
        return UNKNOWN
    if step.action is Action.DELETE and step.acts:
        raise ValueError(f"{path}: {path.root} will not exist")
    return value_of(path, step.definition, step.should, step.is_)


def _declared_value(path: ExpressionPath, definition: TypeDefinition, should: Resource) -> Any:
    """Return the declared value at a path; secret if its attribute is."""
    attribute = path.keys[0]
    return referred_value(definition, attribute, expression.follow_keys(should[attribute], path, path.keys[1:]))


def value_of(path: ExpressionPath, definition: TypeDefinition, should: Resource, is_: Resource | None) -> Any:
    """Return the value that a reference has in a resource in sync: the declared value, or else the one that was read.

    Raises ``ValueError`` if there is neither.
    """
    attribute = path.keys[0]
    is_concrete = attribute in should and should[attribute] is not UNKNOWN
    if is_concrete and not is_completed(path, definition, should):
        return _declared_value(path, definition, should)
    if is_ is None or not exists(is_):
        raise ValueError(f"{path}: {path.root} does not exist")
    return expression.follow_keys(mark_secrets(definition, is_, should).get(attribute), path, path.keys[1:])


def pending_value(catalog: Catalog, entry: Entry, name: str, resolve: Callable[[ExpressionPath], Any]) -> Any:
    """Return the value of an attribute with references, ``UNKNOWN`` while the value of a reference is not known yet.

    Raise ``ValueError`` for a reference to a resource or value that does not exist. If the resource itself is declared
    absent, return None instead: its deletion needs only its parameters, and the other resource may be gone already.
    """
    try:
        return catalog.scope.attribute_value(entry, name, entry.pending[name], resolve)
    except ValueError:
        if entry.absent and name not in entry.definition.parameters:
            return None
        raise


def outputs(catalog: Catalog, resolve: Callable[[ExpressionPath], Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return name → value of the manifest's outputs, and the problems of outputs whose expressions fail.

    A value that is not known yet is ``UNKNOWN``. An output with the name of an input has the same secret parts, so that
    passing on a secret does not reveal it.
    """
    values, problems = {}, []
    for name, value in catalog.manifest.outputs.items():
        try:
            result = expression.evaluate(value, resolve)
        except expression.EvaluationError as error:
            result, position = UNKNOWN, catalog.manifest.place(("outputs", name))
            problems.append(Problem(None, f"output '{name}': {error}", "error", "", *position, code="output"))
        except ValueError:  # of a resource that does not exist, for example
            result = UNKNOWN
        values[name] = result if is_unknown(result) else conceal_like(result, catalog.scope.inputs.get(name))
    return values, problems


def complete_should(entry: Entry, values: Resource, functions: ProviderFunctions) -> tuple[Resource, str]:
    """Return ``should`` completed by the ``values`` of its references, checked and canonical, and an error or "".

    The compiler could not check values that were not known yet: the checks are repeated with those known now.
    """
    should = {name: value for name, value in {**entry.should, **values}.items() if value is not None}
    filled = canonicalize.fill_defaults(entry.definition, should)
    (canonical,), problems = canonicalize.canonicalize(functions, [filled], lambda _index: entry.pending)
    errors = [problem.message for problem in problems.get(0, ()) if problem.severity == "error"]
    if not errors and functions.check_policies is not None:
        return canonical, functions.check_policies(entry, canonical)
    return canonical, "; ".join(errors)


#: Stands for an output that is not recorded: None may be recorded.
_NONE = object()


def output_changes(recorded: Resource, outputs: Resource, salt: bytes) -> Sequence[Difference]:
    """Return the differences between the ``recorded`` outputs and those that a run records, for plans and commits.

    An added or removed output has None as the missing value. The order is that of the manifest, with removed outputs
    last. A value that is not known yet counts as a change.
    """
    changes = []
    for name, value in outputs.items():
        before = recorded.get(name, _NONE)
        if is_unknown(value) or before is _NONE or not same_value(before, seal_secrets(value, salt)):
            changes.append(Difference(name, None if before is _NONE else before, value))
    return [*changes, *(Difference(name, value, None) for name, value in recorded.items() if name not in outputs)]
