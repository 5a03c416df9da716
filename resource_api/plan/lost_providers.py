"""Replacements that would put out of reach what a configured provider has made: its configuration comes from there.

Where the value after the replacement is not known, the provider may be led elsewhere, and nothing could delete what it
has made before. Pure.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.values.reference import Reference, split_instance
from resource_api.model.values.values import is_unknown
from resource_api.plan import unknowns
from resource_api.plan.replacement import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.provider_instance import ProviderInstance
    from resource_api.model.record import RecordKey
    from resource_api.model.step import Step
    from resource_api.prior.match import Prior


def fail_with_lost_providers(
    steps: Sequence[Step],
    catalog: Catalog,
    prior: Prior,
    functions: Callable[[str], ProviderFunctions],
    *,
    noop: bool,
) -> list[Step]:
    """Fail the replacements that would put what a provider has made out of reach; ``noop``: the run is noop.

    ``functions`` returns those of a provider instance. What is ``deleted_with`` the source of its configuration is made
    anew, unless the provider itself compares configurations: then it refuses the new one.
    """
    replaced = {
        step.entry.index: step
        for step in steps
        if step.action is Action.REPLACE and not (step.decision.error or step.is_noop(noop_run=noop))
    }
    pending = [instance for instance in catalog.instances.values() if instance.pending] if replaced else []
    lost = {}
    for instance in pending:
        for step in _sources(instance, catalog, replaced):
            compares = functions(instance.name).diff_config is not None
            kept = () if compares else _hosted(step, catalog, prior)
            if made := next(_made(instance, prior, kept), ""):
                lost[step.entry.index] = _error(instance, step, made, compares=compares)
    return [fail(step, lost[step.entry.index]) if step.entry.index in lost else step for step in steps]


def _sources(instance: ProviderInstance, catalog: Catalog, replaced: dict[int, Step]) -> Iterator[Step]:
    """Yield the replacements that change a value of a configuration, as far as is known."""
    for path in catalog.scope.paths(dict(instance.pending)):
        entry = catalog.find(path.root) if isinstance(path.root, Reference) else None
        if entry is not None and (step := replaced.get(entry.index)) is not None:
            with suppress(ValueError):
                if not is_unknown(unknowns.predicted_value(path, step)):
                    continue
            yield step


def _hosted(source: Step, catalog: Catalog, prior: Prior) -> set[RecordKey]:
    """Return the keys of the recorded resources that are gone with the source."""
    return {
        record.key
        for index, record in prior.records.items()
        if catalog.entries[index].meta.lifecycle.deleted_with == str(source.reference)
    }


def _made(instance: ProviderInstance, prior: Prior, hosted: Collection[RecordKey]) -> Iterator[str]:
    """Yield what an instance has made, apart from what is ``hosted``."""
    for key, record in prior.state.records.items():
        if record.instance == instance.name and record.owned and exists(record.is_) and key not in hosted:
            yield str(record.reference)


def _error(instance: ProviderInstance, source: Step, made: str, *, compares: bool) -> str:
    name = split_instance(instance.name)[1] or instance.name
    hosted = f"; if it is gone with that, declare 'lifecycle: {{deleted_with: \"{source.reference}\"}}' there"
    return (
        f"cannot be replaced: the provider '{name}' is configured with it, and {made}, which that has made, would be"
        f" out of reach; delete {made} before{'' if compares else hosted}"
    )
