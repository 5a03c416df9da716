"""Configured provider instances: those of the manifest matched with the recorded ones.

Each instance is recorded like a resource, so that its resources can be deleted when the manifest no longer declares it.
If a provider reports that a new configuration cannot reach the resources of the old one, the old instance is kept under
another name until its resources are replaced. Pure: no configured provider is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.catalog import provider_config
from resource_api.model.datatypes import referred_values
from resource_api.model.record import Commit, Record, RecordKey, StackState
from resource_api.model.sealed_secrets import count_digests, has_sealed, open_sealed, seal_secrets
from resource_api.model.values import expression
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import DefinitionError, ManifestError, Problem, reason
from resource_api.model.values.reference import PROVIDER_TYPE, split_instance
from resource_api.model.values.reference import instance_name as instance_of
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import is_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import ProviderInstance
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.values.expression import ExpressionPath
    from resource_api.model.values.values import Values

#: Separates the name of an instance from the number of an older one that it has superseded: ``vm_host@lab~1``.
_OLDER = "~"


class ProviderInstances(NamedTuple):
    """The instances of a run, by name, and the state with each resource assigned to its present instance."""

    #: The state without the records of instances.
    state: StackState
    #: Configurations that are known, and the reasons why others cannot be configured.
    configs: Mapping[str, Values] = {}
    refused: Mapping[str, str] = {}
    #: To be written before anything is changed.
    commit: Commit = Commit()
    #: Older instances whose resources will be replaced, with the reason.
    replaced: Mapping[str, str] = {}
    #: The record of each instance.
    recorded: Mapping[str, Record] = {}


class ConfigurationError(Exception):
    """A configuration cannot be used; ``later``: that may change in this run, because a value is not yet known."""

    def __init__(self, message: str, *, later: bool = False) -> None:
        """Take the text; ``later``: a later step of this run may make the missing value known."""
        super().__init__(message)
        self.later = later


def provider_records(state: StackState) -> list[Record]:
    """Return the records of provider instances, which are stored among those of resources."""
    return [record for record in state.records.values() if record.type == PROVIDER_TYPE]


def unused_instances(records: Iterable[Record]) -> list[RecordKey]:
    """Return the keys of the recorded instances that no recorded resource uses, for a run to drop at its end.

    An instance is recorded only to reach its resources when the manifest no longer declares it.
    """
    stored = list(records)
    instances = {record.instance for record in stored if record.type != PROVIDER_TYPE}
    return [record.key for record in stored if record.type == PROVIDER_TYPE and record.name not in instances]


def provider_record(instance: ProviderInstance, config: Mapping[str, object], salt: bytes) -> Record:
    """Return the record of a provider instance with its configuration, by which a later run can delete its resources.

    Ephemeral values must not be recorded: only their names are, so that a later run takes the values from its inputs.
    """
    inputs: dict[str, object] = {"version": instance.version}
    if instance.implementation:
        inputs["implementation"] = instance.implementation
    if instance.ephemeral:
        inputs["ephemeral"] = list(instance.ephemeral)
    durable = {name: value for name, value in config.items() if name not in instance.ephemeral}
    return Record(
        PROVIDER_TYPE, instance.name, instance.name, inputs=inputs, should=seal_secrets(durable, salt), is_={}
    )


def match_instances(
    catalog: Catalog, state: StackState, functions: Callable[[str], ProviderFunctions]
) -> ProviderInstances:
    """Match the declared with the recorded instances; ``functions`` returns the pure functions of an instance.

    With a changed configuration the recorded resources may be out of reach, so only instances with resources are
    matched. A pending configuration, which refers to resources, is checked in the run (``deferred_configuration``).
    """
    recorded = {record.name: record for record in provider_records(state)}
    if not (recorded or catalog.instances):
        return ProviderInstances(state)
    matcher = _Matcher(state, recorded, functions)
    in_use = {entry.instance for entry in catalog.entries} | matcher.in_use
    called = {call.instance for call in catalog.scope.calls.values() if call is not None}
    pending = {name for name, instance in catalog.instances.items() if instance.pending}
    for name, instance in catalog.instances.items():
        if name in pending:
            continue
        if name in in_use:
            matcher.match_declared(instance)
        elif name in called:
            matcher.configs[name] = instance.config  # only its functions are used: it has no resources to match
    for name, record in list(matcher.recorded.items()):
        if name not in matcher.configs and name not in matcher.refused and name not in pending:
            matcher.match_undeclared(record)
    return matcher.result()


class _Matcher:
    """Compares declared with recorded instances, one after the other."""

    def __init__(
        self, state: StackState, recorded: Mapping[str, Record], functions: Callable[[str], ProviderFunctions]
    ) -> None:
        """Begin with the ``recorded`` instances by name; ``functions`` returns the pure functions of an instance."""
        #: Parts of the result, by the name of the instance: its record, its usable configuration, or the reason that it
        #: cannot be used.
        self.recorded = dict(recorded)
        self.configs: dict[str, Values] = {}
        self.refused: dict[str, str] = {}
        self._state = state
        self._functions = functions
        self._resources = {key: record for key, record in state.records.items() if record.type != PROVIDER_TYPE}
        #: The instances that have recorded resources.
        self.in_use = {record.instance for record in self._resources.values()}
        #: By name, the reason why the resources of an instance are replaced.
        self._replaced: dict[str, str] = {}
        #: The commit so far: records of instances, and resources assigned to other instances.
        self._put: dict[RecordKey, Record] = {}
        self._drop: dict[RecordKey, None] = {}  # as an ordered set

    def match_declared(self, instance: ProviderInstance) -> None:
        """Use the declared configuration, and record it if it is new or changed.

        If the recorded resources are out of reach with it, the recorded configuration is kept as an older instance, by
        which they are deleted. An instance whose ``diff_config`` fails cannot be used.
        """
        name, before = instance.name, self.recorded.get(instance.name)
        after = provider_record(instance, instance.config, self._state.salt)
        if before is not None and before.should != after.should:
            instance = self._check_change(instance, before)
            after = provider_record(instance, instance.config, self._state.salt)
        self.configs[name] = instance.config
        if before is not None and (before.inputs, before.should) == (after.inputs, after.should):
            # Unchanged, but recorded before the state was encrypted: now its secrets can be kept.
            if self._state.encrypted and count_digests(after.should) < count_digests(before.should):
                self._write(after)
            return
        if before is not None and before.should != after.should and name in self.in_use:
            try:
                changed = breaking_changes(before, instance.config, self._functions(name), self._state.salt)
            except ConfigurationError as error:
                self.refused[name] = str(error)
                return
            if changed:
                self._keep_older(before, f"the configuration of its provider changed: {', '.join(changed)}")
        self._restore_older(after)
        self._write(after)

    def _check_change(self, instance: ProviderInstance, before: Record) -> ProviderInstance:
        """Return an instance with its configuration as completed by the provider's ``check_config``.

        The method also receives the recorded configuration, of which it may keep values. Raises ``ManifestError`` if
        the provider refuses the change.
        """
        former = recorded_config(before, instance.config, self._state.salt)[0]
        config, problems = provider_config.validate_config(self._functions(instance.name), instance.config, former)
        if problems:
            prefix = f"provider '{split_instance(instance.name)[1] or instance.name}'"
            texts = [f"{prefix}: {problem.message}" for problem in problems]
            position = instance.position
            raise ManifestError([Problem(None, text, "error", "", *position, code="provider") for text in texts])
        return instance._replace(config=config)

    def match_undeclared(self, record: Record) -> None:
        """Use the recorded configuration of an instance that is not declared, so that its resources can be deleted.

        Secrets recorded as digests are taken from the declared configuration or ``check_config``; without them it
        cannot be used. The resources of an older instance, as ``lab~1`` of a declared ``lab``, are replaced.
        """
        name = current_name(record.name)
        if name != record.name and name in self.configs:
            self._replaced.setdefault(record.name, "its provider has another configuration")
        config, hidden = recorded_config(record, self.configs.get(name, {}), self._state.salt)
        try:
            self.configs[record.name] = self._with_secrets(record, config, hidden) if hidden else config
        except ConfigurationError as error:
            self.refused[record.name] = (
                f"the provider '{record.name}' is recorded without its secrets ({', '.join(hidden)}), of which only a"
                f" digest is kept; declare it under providers: and give the inputs that it needs ({error})"
            )

    def _with_secrets(self, record: Record, config: Mapping[str, object], hidden: Sequence[str]) -> dict[str, Any]:
        """Return the recorded configuration of an instance that the manifest no longer declares, with its secrets.

        Its resources are still to be deleted. The provider's ``check_config`` adds the secrets, from the environment.
        ``hidden``: the secrets that are missing, because only digests are recorded. Raises ``ConfigurationError`` if
        they are not all added, or if the recorded resources cannot be reached with them.
        """
        with errors_as(ConfigurationError, DefinitionError):
            functions = self._functions(record.name)
        checked, problems = provider_config.validate_config(functions, config)
        if problems or not checked.keys() >= set(hidden):
            messages = [problem.message for problem in problems] or ["check_config does not add them"]
            raise ConfigurationError("; ".join(messages))
        complete = {**config, **{name: checked[name] for name in hidden}}
        if changed := breaking_changes(record, complete, functions, self._state.salt):
            raise ConfigurationError(f"what it has made cannot be reached with other values of {', '.join(changed)}")
        return complete

    def result(self) -> ProviderInstances:
        """Return the matched instances, the state without them, and the commit of the changes, for ``match.match``.

        ``match`` compares the records in that state with the declared resources: the record of an instance among them
        would look like an undeclared resource, which ``--prune`` deletes.
        """
        state = self._state._replace(records=self._resources)
        commit = Commit(list(self._put.values()), list(self._drop))
        return ProviderInstances(
            state, self.configs, self.refused, commit=commit, replaced=self._replaced, recorded=self.recorded
        )

    def _keep_older(self, before: Record, cause: str) -> None:
        """Keep a recorded instance with its resources as ``NAME~1``: only its configuration can delete them.

        ``cause``: the reason why they are replaced, by resources of the present instance.
        """
        numbers = {name.partition(_OLDER)[2] for name in self.recorded}  # in use
        number = next(number for number in range(1, len(numbers) + 2) if str(number) not in numbers)
        type_name, provider = split_instance(before.name)
        older = f"{type_name}@{provider or type_name}{_OLDER}{number}"
        self._write(before._replace(name=older, title=older))
        self._reassign(before.name, older)
        self._replaced[older] = cause

    def _restore_older(self, after: Record) -> None:
        """Give the resources of an older instance, ``NAME~1``, back to the present one, so that they are not replaced.

        The configuration in ``after``, which is declared now, must be that of the older instance: then both reach the
        same resources. All stay with the older one if a name occurs in both instances: their keys would be the same.
        """
        names = {record.name for record in self._resources.values() if record.instance == after.name}
        for name, record in list(self.recorded.items()):
            if name == after.name or current_name(name) != after.name or record.should != after.should:
                continue
            if names.isdisjoint(resource.name for resource in self._resources.values() if resource.instance == name):
                self._reassign(name, after.name)
                self._drop[record.key] = None
                del self.recorded[name]

    def _reassign(self, source: str, target: str) -> None:
        """Assign the recorded resources of one instance to another, by whose configuration they are reached.

        A record's key contains its instance, so each is written under its new key, and dropped under the old one.
        """
        resources = {}
        for record in self._resources.values():
            if record.instance == source:
                moved = record._replace(provider=split_instance(target)[1])
                self._drop[record.key] = None
                self._put[moved.key] = resources[moved.key] = moved
            else:
                resources[record.key] = record
        self._resources = resources

    def _write(self, record: Record) -> None:
        """Use the record of an instance from now on, and commit it."""
        self.recorded[record.name] = record
        self._put[record.key] = record


def current_name(name: str) -> str:
    """Return the name without the number of an older instance: ``vm_host@lab`` of ``vm_host@lab~1``."""
    type_name, provider = split_instance(name)
    return instance_of(type_name, provider.partition(_OLDER)[0] if provider else None)


def recorded_config(record: Record, current: Mapping[str, object], salt: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return the recorded configuration, and the names of values that it lacks: secrets recorded as digests only.

    A secret in the ``current`` configuration is taken from there if its digest is the recorded one. Ephemeral values,
    of which nothing is recorded, are always taken from there.
    """
    ephemeral = record.inputs.get("ephemeral", ())
    config = {name: current[name] for name in ephemeral if name in current}
    hidden = [name for name in ephemeral if name not in current]
    for name, value in record.should.items():
        config[name] = open_sealed(value)
        if has_sealed(config[name]):
            del config[name]
            if name in current and seal_secrets(current[name], salt) == value:
                config[name] = current[name]
            else:
                hidden.append(name)
    return config, hidden


def breaking_changes(
    before: Record, config: Mapping[str, object], functions: ProviderFunctions, salt: bytes
) -> list[str]:
    """Return the changed values of a configuration that put the resources made with ``before`` out of reach.

    They are the result of the provider's ``diff_config``. Raises ``ConfigurationError`` if that fails.
    """
    if functions.diff_config is None:
        return []
    try:
        answer = functions.diff_config(recorded_config(before, config, salt)[0], config)
    except Exception as error:  # a method of a provider may raise anything
        msg = f"cannot decide what the changed configuration of provider '{before.name}' means: {reason(error)}"
        raise ConfigurationError(msg) from error
    attributes = functions.definition.config.attributes
    if answer is None:
        return []
    if isinstance(answer, (str, bool)) or not all(name in attributes for name in answer):
        msg = f"diff_config of provider '{before.name}' must return names of its configuration, not {answer!r}"
        raise ConfigurationError(msg)
    return sorted(answer)


def deferred_configuration(
    instance: ProviderInstance,
    resolve: Callable[[ExpressionPath], Any],
    functions: ProviderFunctions,
    prior: ProviderInstances,
) -> Values:
    """Return a configuration that refers to resources, evaluated and checked when the instance is first needed.

    ``resolve`` returns the value of a reference. Raise ``ConfigurationError`` if one is not known yet, or if the
    provider refuses the values. Raise it also if they put the recorded resources out of reach: the run is planned, so
    it is too late to replace these resources.
    """
    prefix = f"the configuration of its provider '{instance.name}'"
    values: dict[str, object] = {}
    for name, value in instance.pending.items():
        with errors_as(ConfigurationError, begin=f"{prefix}: "):
            result = expression.evaluate(value, resolve)
            datatype = functions.definition.config.attributes[name].datatype
            values[name] = referred_values.with_texts(datatype, value, result)
        if is_unknown(values[name]):
            raise ConfigurationError(f"{prefix} is only known after apply: {name}", later=True)
    before, inputs = prior.recorded.get(instance.name), {**instance.config, **values}
    former = recorded_config(before, inputs, prior.state.salt)[0] if before is not None else None
    config, problems = provider_config.validate_config(functions, inputs, former)
    if problems:
        raise ConfigurationError(f"{prefix}: {'; '.join(problem.message for problem in problems)}")
    if before is not None and (changed := breaking_changes(before, config, functions, prior.state.salt)):
        advice = "so that what it has made is out of reach; give the new one another name under providers:"
        raise ConfigurationError(f"{prefix} changed ({', '.join(changed)}) {advice}")
    return config
