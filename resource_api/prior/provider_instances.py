"""The configured providers of a run: those of the manifest beside those of earlier runs, and what became of whom.

Each is recorded like a resource, so that what it has made can be deleted when no manifest names it any more. Where a
provider says that a new configuration cannot reach what was made with the old one, the old one is kept beside it under
another name until its resources are replaced. Pure: what providers compare comes in as plain functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog import provider_config
from resource_api.model.codec import count_digests, has_sealed, open_sealed, seal_secrets
from resource_api.model.provider_instance import PROVIDER_TYPE, ProviderInstance
from resource_api.model.record import Commit, Record
from resource_api.model.values import expression
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import reason
from resource_api.model.values.reference import instance_name as instance_of
from resource_api.model.values.reference import split_instance
from resource_api.model.values.values import is_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Key, StackState
    from resource_api.model.values.expression import Path

#: Stands between the name of a provider and the number of an older one that it has taken the place of.
_OLDER = "~"


class ProviderInstances(NamedTuple):
    """Who of the configured providers answers for what is recorded and declared."""

    #: What is known of earlier runs, without the records of providers, and with who answers for each resource now.
    state: StackState
    #: What is known of the configuration of each; of those that cannot be configured, why.
    configs: Mapping[str, Mapping[str, Any]] = {}
    refused: Mapping[str, str] = {}
    #: What is to be written before anything is changed.
    commit: Commit = Commit()
    #: Older ones whose resources are to be replaced, and why.
    replaced: Mapping[str, str] = {}
    #: What is recorded of each, by name.
    recorded: Mapping[str, Record] = {}


def recorded(state: StackState) -> Iterable[Record]:
    """Give the records of providers."""
    return (record for record in state.records.values() if record.type == PROVIDER_TYPE)


def unused(records: Iterable[Record]) -> list[Key]:
    """Give the recorded providers of which nothing is recorded any more."""
    kept = list(records)
    used = {record.instance for record in kept if record.type != PROVIDER_TYPE}
    return [record.key for record in kept if record.type == PROVIDER_TYPE and record.name not in used]


def record_of(instance: ProviderInstance, config: Mapping[str, Any], salt: bytes) -> Record:
    """Give what is recorded of a provider with a configuration that is known."""
    inputs = {"version": instance.version}
    return Record(PROVIDER_TYPE, instance.name, instance.name, inputs, seal_secrets(dict(config), salt), {})


def settle(catalog: Catalog, state: StackState, tools: Callable[[str], ProviderFunctions]) -> ProviderInstances:
    """Give who answers for what; nothing is asked where nothing is configured."""
    known = {record.name: record for record in recorded(state)}
    if not (known or catalog.instances):
        return ProviderInstances(state)
    settler = _Settler(state, known, tools)
    used = {entry.instance for entry in catalog.entries} | settler.in_use
    for name, instance in catalog.instances.items():
        if name in used and not instance.pending:
            settler.declared(instance)
    for name, record in list(settler.recorded.items()):
        if name not in settler.configs and name not in settler.refused and not _late(catalog, name):
            settler.undeclared(record)
    return settler.instances()


def _late(catalog: Catalog, name: str) -> bool:
    return name in catalog.instances and bool(catalog.instances[name].pending)


class _Settler:
    """Compares what is declared with what is recorded, one provider after the other."""

    def __init__(
        self, state: StackState, recorded: Mapping[str, Record], tools: Callable[[str], ProviderFunctions]
    ) -> None:
        self.recorded = dict(recorded)
        self.configs: dict[str, Mapping[str, Any]] = {}
        self.refused: dict[str, str] = {}
        self._state = state
        self._tools = tools
        self._resources = {key: record for key, record in state.records.items() if record.type != PROVIDER_TYPE}
        self.in_use = {record.instance for record in self._resources.values()}
        self._replaced: dict[str, str] = {}
        self._put: dict[Key, Record] = {}
        self._drop: dict[Key, None] = {}

    def declared(self, instance: ProviderInstance) -> None:
        """Take over the configuration of the manifest; where it cannot reach what there is, the old one stays too."""
        name, before = instance.name, self.recorded.get(instance.name)
        after = record_of(instance, instance.config, self._state.salt)
        self.configs[name] = instance.config
        if before is not None and (before.inputs, before.should) == (after.inputs, after.should):
            if self._state.encrypted and count_digests(after.should) < count_digests(before.should):
                self._write(after)
            return
        if before is not None and before.should != after.should and name in self.in_use:
            try:
                changed = unreachable(before, instance.config, self._tools(name), self._state.salt)
            except ValueError as error:
                self.refused[name] = str(error)
                return
            if changed:
                self._retire(before, f"the configuration of its provider changed: {', '.join(changed)}")
        self._reinstate(after)
        self._write(after)

    def undeclared(self, record: Record) -> None:
        """Configure a provider as it was recorded, as far as that is known; an older one's resources are to go."""
        successor = current(record.name)
        if successor != record.name and successor in self.configs:
            self._replaced.setdefault(record.name, "its provider has another configuration")
        config, hidden = remembered(record, self.configs.get(successor, {}), self._state.salt)
        if hidden:
            self.refused[record.name] = (
                f"the provider '{record.name}' is recorded without its secrets ({', '.join(hidden)}), of which only a"
                " digest is kept; declare it under providers: and give the inputs that it needs"
            )
        else:
            self.configs[record.name] = config

    def instances(self) -> ProviderInstances:
        """Give what was found."""
        state = self._state._replace(records=self._resources)
        commit = Commit(list(self._put.values()), list(self._drop))
        return ProviderInstances(state, self.configs, self.refused, commit, self._replaced, self.recorded)

    def _retire(self, before: Record, why: str) -> None:
        """Keep a provider under another name, with all that it has made."""
        taken = {name.partition(_OLDER)[2] for name in self.recorded}
        number = next(number for number in range(1, len(taken) + 2) if str(number) not in taken)
        type_name, provider = split_instance(before.name)
        older = f"{type_name}@{provider or type_name}{_OLDER}{number}"
        self._write(before._replace(name=older, title=older))
        self._hand_over(before.name, older)
        self._replaced[older] = why

    def _reinstate(self, after: Record) -> None:
        """Give back what an older provider has made when its configuration has come back."""
        taken = {record.name for record in self._resources.values() if record.instance == after.name}
        for name, record in list(self.recorded.items()):
            if name == after.name or current(name) != after.name or record.should != after.should:
                continue
            if taken.isdisjoint(each.name for each in self._resources.values() if each.instance == name):
                self._hand_over(name, after.name)
                self._drop[record.key] = None
                del self.recorded[name]

    def _hand_over(self, source: str, target: str) -> None:
        """Let another provider answer for the resources of one."""
        resources = {}
        for key, record in self._resources.items():
            if record.instance == source:
                record = record._replace(provider=split_instance(target)[1])  # noqa: PLW2901 - the same one under another key
                self._drop[key] = None
                self._put[record.key] = record
            resources[record.key] = record
        self._resources = resources

    def _write(self, record: Record) -> None:
        self.recorded[record.name] = record
        self._put[record.key] = record


def current(name: str) -> str:
    """Give the provider that an older one was: ``vm_host@lab`` of ``vm_host@lab~1``."""
    type_name, provider = split_instance(name)
    return instance_of(type_name, provider.partition(_OLDER)[0] if provider else None)


def remembered(record: Record, other: Mapping[str, Any], salt: bytes) -> tuple[dict[str, Any], list[str]]:
    """Give the configuration that was recorded, and the names of secrets of which only a digest is known.

    A secret that has the digest of the one in ``other`` is that one.
    """
    config, hidden = {}, []
    for name, value in record.should.items():
        config[name] = open_sealed(value)
        if has_sealed(config[name]):
            del config[name]
            if name in other and seal_secrets(other[name], salt) == value:
                config[name] = other[name]
            else:
                hidden.append(name)
    return config, hidden


def unreachable(before: Record, config: Mapping[str, Any], tools: ProviderFunctions, salt: bytes) -> list[str]:
    """Give what of a configuration has changed so that what was made with the old one is out of reach.

    Raises ``ValueError`` with why the provider cannot say.
    """
    if tools.diff_config is None:
        return []
    try:
        answer = tools.diff_config(remembered(before, config, salt)[0], config)
    except Exception as error:  # a foreign method may fail in any way
        msg = f"what the changed configuration of provider '{before.name}' means cannot be told: {reason(error)}"
        raise ValueError(msg) from error
    known = tools.definition.config.attributes
    if answer is None:
        return []
    if isinstance(answer, (str, bool)) or not all(name in known for name in answer):
        msg = f"diff_config of provider '{before.name}' must return names of its configuration, not {answer!r}"
        raise ValueError(msg)
    return sorted(answer)


def deferred_configuration(
    instance: ProviderInstance, resolve: Callable[[Path], Any], tools: ProviderFunctions, instances: ProviderInstances
) -> tuple[Mapping[str, Any], str, bool]:
    """Give the configuration of a provider that waits for resources; or why not, and whether that may change."""
    prefix = f"the configuration of its provider '{instance.name}'"
    values: dict[str, Any] = {}
    for name, value in instance.pending.items():
        try:
            values[name] = expression.evaluate(value, resolve)
        except ValueError as error:
            return {}, f"{prefix}: {error}", False
        if is_unknown(values[name]):
            return {}, f"{prefix} is only known after apply: {name}", True
    config, problems = provider_config.validate_config(tools, {**instance.config, **values})
    if problems:
        return {}, f"{prefix}: {'; '.join(problem.message for problem in problems)}", False
    before = instances.recorded.get(instance.name)
    try:
        changed = unreachable(before, config, tools, instances.state.salt) if before is not None else []
    except ValueError as error:
        return {}, str(error), False
    if changed:
        advice = "so that what it has made is out of reach; give the new one another name under providers:"
        return {}, f"{prefix} changed ({', '.join(changed)}) {advice}", False
    return config, "", False
