"""The providers of a Terraform provider's types: of its resources, data sources, ephemeral resources and functions.

The state that the program returned last is private data of the resource, in the form of Terraform's own state, never
rebuilt from attributes. Only the program's plan determines differences: it answers ``insync`` and ``plan``. A provider
calls the program with one configuration; the errors of an answer are raised, its warnings are logged.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from resource_api.model.provider_functions import Planned
from resource_api.model.sealed_secrets import conceal_like, has_sealed
from resource_api.model.values.errors import CannotList, Problem, ResourceError
from resource_api.model.values.values import UNKNOWN, Sensitive, is_secret, is_unknown, map_leaves, reveal
from resource_api.provider.base import BaseProvider
from resource_api.terraform import cty, schema
from resource_api.terraform.plugin_process import PluginError
from resource_api.terraform.schema import NAMEVAR, attribute_name, parameters, with_field_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.model.change import Change
    from resource_api.model.type_definition import Resource
    from resource_api.provider.context import Context
    from resource_api.terraform.messages import Message
    from resource_api.terraform.plugin_process import PluginProcess
    from resource_api.terraform.schema import SchemaField

#: The version of Terraform whose protocol this is, for providers that ask.
_TERRAFORM_VERSION: Final = "1.9.0"
#: The capabilities of this client.
_CAPABILITIES: Final = {"write_only_attributes_allowed": True}
#: The severity of a diagnostic that is an error.
_ERROR: Final = 1
#: Methods that any running program can answer, and the one that configures it.
_UNCONFIGURED: Final = frozenset(
    {"validate", "validate_data", "validate_ephemeral", "check_config", "upgrade", "configure"}
)
#: Seconds for a request to stop, and for the answer of the call that is stopped.
_STOP_LIMIT: Final = 5.0
#: Seconds for a call that begins at the end of its time.
_SHORTEST_LIMIT: Final = 0.1
#: The most resources of a listing.
_LONGEST_LIST: Final = 1_000_000


class _Program(Protocol):
    """The program of a provider: its schema, and its processes by configuration."""

    #: The name of the provider in the manifest.
    name: str
    #: The address of the provider, with a host; a guess where only the path of the program is declared.
    address: str
    #: The schemas of the program, requested at the first use; ``DefinitionError`` is raised for a failed request.
    schema: Message
    #: The fields of the provider's configuration.
    config_fields: Mapping[str, SchemaField]
    #: The schemas of identities by type; empty for a program without them.
    identities: Mapping[str, Message]
    #: Whether the provider is to plan deletions too.
    plans_destruction: bool

    def process(self, key: str | None = None) -> PluginProcess:
        """Return the process of a configuration; None: any that runs. Raise ``PluginError``."""

    def configure(self, key: str, call: Callable[[], object]) -> None:
        """Call ``call``, which configures the process of a configuration, unless that was done."""


class _ProgramSession(BaseProvider):
    """The calls of a provider's program, which configure it before the first one that needs that."""

    family: ClassVar[_Program]

    def __init__(self) -> None:
        """Begin without a configuration and a time limit; the program is started by the first call."""
        super().__init__()
        #: None until ``configure``.
        self._configuration: Mapping[str, object] | None = None
        #: The digest of it and its secrets, which selects the process; None until a call needs a configured one.
        self._key: str | None = None
        #: The time limit of the present ``set`` by ``time.monotonic``, or None.
        self._deadline: float | None = None

    def _call(self, context: Context, method: str, **fields: object) -> Message:
        """Call a method of the program, log the warnings in its answer, and raise ``ResourceError`` with its errors."""
        answer = self._call_unchecked(context, method, **fields)
        _check_diagnostics(context, answer)
        return answer

    def _call_unchecked(self, context: Context, method: str, **fields: object) -> Message:
        """Call a method within the deadline, after the configuration if it needs that.

        The answer may have errors, for callers that first use the rest of it, such as the state after a failed change.
        """
        if method not in _UNCONFIGURED:
            self._configure(context)
        with self._errors():
            if self._deadline is None:
                return self.family.process(self._key).call(method, None, **fields)
            return self._limited(method, max(self._deadline - time.monotonic(), _SHORTEST_LIMIT), fields)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise ``ResourceError`` with the provider's name for a failed call of its program."""
        try:
            yield
        except PluginError as error:
            raise ResourceError(f"the Terraform provider {self.family.name}: {error}") from error

    def _limited(self, method: str, seconds: float, fields: Mapping[str, object]) -> Message:
        """Call the program, ask it to stop after some seconds, and wait five more.

        In that time it can still return the state of an object that is made in part, which is then recorded.
        """
        stopping = threading.Timer(seconds, self.cancel)
        stopping.start()
        try:
            return self.family.process(self._key).call(method, seconds + _STOP_LIMIT, **fields)
        finally:
            stopping.cancel()

    def _configure(self, context: Context) -> None:
        """Configure the program's process for this configuration, unless that was done since its start.

        Raise ``ResourceError`` if the program refuses, or if ``configure`` was not called although it has fields.
        """
        if self._configuration is None and self.family.config_fields:
            raise ResourceError(f"the Terraform provider {self.family.name} is asked before it is configured")
        if self._key is None:
            text = json.dumps(reveal(dict(self._configuration or {})), sort_keys=True, default=str)
            self._key = hashlib.sha256(text.encode()).hexdigest()
        with self._errors():
            self.family.configure(self._key, partial(self._send_configuration, context))

    def _send_configuration(self, context: Context) -> None:
        """Send the configuration to the program. Raise ``ResourceError`` if it refuses it."""
        value = _config_value(self.family.config_fields, self._configuration or {})
        fields = {"terraform_version": _TERRAFORM_VERSION, "config": value, "client_capabilities": _CAPABILITIES}
        self._call(context, "configure", **fields)

    def _events(self, context: Context, method: str, **fields: object) -> Iterator[Message]:
        """Yield the answers of a listing as they come; log its warnings, raise ``ResourceError`` with its errors."""
        self._configure(context)
        with self._errors():
            for event in self.family.process(self._key).stream(method, None, **fields):
                _check_diagnostics(context, {"diagnostics": event.pop("diagnostic", ())})
                yield event

    def cancel(self) -> None:
        """Ask the program to end its present work, after an interrupt or at the time limit; a failure is no error."""
        if self._key is not None:
            with suppress(PluginError):
                self.family.process(self._key).call("stop", _STOP_LIMIT)


class Configurable(_ProgramSession):
    """A provider with a configuration."""

    def check_config(self, context: Context, config: Resource) -> Resource:
        """Return the configuration after the program has checked it. Raise ``ResourceError`` with its errors."""
        self._call(context, "check_config", config=_config_value(self.family.config_fields, config))
        return config

    def configure(self, context: Context, config: Mapping[str, object]) -> None:
        """Keep the configuration, and send it to its process. Raise ``ResourceError`` if that refuses it."""
        self._configuration = dict(config)
        self._configure(context)


class _State(NamedTuple):
    """The last state of a resource: its values, None where it does not exist, and the private bytes of the program."""

    values: dict[str, Any] | None = None
    private: bytes = b""


class _ProgramPlan(NamedTuple):
    """The program's plan of a resource, which is kept: every difference of the resource is taken from it."""

    #: The hash of the request, to find a plan that was made for an equal one.
    request: int
    prior: Mapping[str, object] | None
    planned: Mapping[str, object]
    #: The attributes whose change needs a replacement.
    replace: Sequence[str]
    private: bytes
    #: Whether the program uses the old SDK, whose plans may be inexact (``legacy_type_system``).
    tolerant: bool

    @property
    def changed(self) -> set[str]:
        """The attributes that the program would change."""
        prior = self.prior or {}
        return {attribute_name(key) for key, value in self.planned.items() if value != prior.get(key)}


class Resources(_ProgramSession):
    """Reads and changes the resources of one type."""

    type_name: ClassVar[str]

    def __init__(self) -> None:
        """Begin without states."""
        super().__init__()
        declared = self.family.schema["resource_schemas"][self.type_name]
        #: The schema: its fields, the type of a resource's values, and the version.
        self._fields = schema.fields_of_resource(declared["block"])
        self._kind = schema.object_type(self._fields)  # for ``cty``
        self._version: int = declared.get("version", 0)
        #: Name → the state that was read or made last in this run.
        self._states: dict[str, _State] = {}
        #: Name → the last plan: ``insync`` and ``plan`` ask for the same one.
        self._plans: dict[str, _ProgramPlan] = {}

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Yield the resources whose state is recorded and that still exist, or for None the listed ones.

        A state that differs from the recorded one is stored; one that cannot be read fails its resource alone.
        """
        if names is None:
            yield from self._listed(context)
        for name in names or ():
            try:
                data = context.private(name)
                state = self._states[name] = _State() if data is None else self._read(context, data)
            except (ResourceError, ValueError) as error:  # the latter for a state of another form
                context.failed(name, message=str(error))
                continue
            self._plans.pop(name, None)
            if state.values is not None:
                self._store(context, name, state, former=data)
                yield self._row(name, state.values)

    def _listed(self, context: Context) -> Iterator[Resource]:
        """Yield all resources of the type, as the program lists them, named by id or else by display name.

        Raise ``CannotList`` if the program cannot list them, or not without a selection.
        """
        declared = self.family.schema["list_resource_schemas"].get(self.type_name)
        if declared is None:
            raise CannotList("a Terraform provider reads single resources, by what was recorded of them")
        fields = schema.fields_of_block(declared["block"])
        if required := [name for name, field in fields.items() if field.required]:
            raise CannotList(f"its provider lists only what {', '.join(required)} selects")
        request = {"type_name": self.type_name, "include_resource_object": True, "limit": _LONGEST_LIST}
        for event in self._events(context, "list", config=_config_value(fields, {}), **request):
            values = cty.from_dynamic(self._kind, event.get("resource_object"))
            if values is not None:
                identifier = values.get("id")
                yield self._row(identifier if isinstance(identifier, str) else event["display_name"], values)

    def _read(self, context: Context, data: Mapping[str, Any]) -> _State:
        """Return a resource's present state, read by the program from ``data``, the recorded one.

        The program first converts data of an older schema, or of another type, from which the resource was moved.
        """
        raw, private = {"json": json.dumps(_revealed(data["state"])).encode()}, base64.b64decode(data["private"])
        if data.get("type", self.type_name) != self.type_name:
            return self._moved(context, data, raw, private)
        answer = self._call(context, "upgrade", type_name=self.type_name, version=data["version"], raw_state=raw)
        return self._refreshed(context, answer.get("upgraded_state"), private)

    def _refreshed(self, context: Context, state: Message | None, private: bytes) -> _State:
        """Return the present state of a resource, read by the program from its last ``state`` and ``private`` bytes."""
        if state is None:
            raise ResourceError("the provider has returned no state")
        answer = self._call(context, "read", type_name=self.type_name, current_state=state, private=private)
        values = cty.from_dynamic(self._kind, answer.get("new_state"))
        _check_known(values)
        return _State(values, answer.get("private", b""))

    def _moved(self, context: Context, data: Mapping[str, object], raw: Message, private: bytes) -> _State:
        """Return the present state of a resource recorded with another type, converted by the program."""
        answer = self._call(
            context,
            "move",
            source_provider_address=self.family.address,
            source_type_name=data["type"],
            source_schema_version=data["version"],
            source_state=raw,
            source_private=private,
            target_type_name=self.type_name,
        )
        return self._refreshed(context, answer.get("target_state"), answer.get("target_private", b""))

    def _row(self, name: str, values: Mapping[str, object]) -> Resource:
        """Return the row of ``get`` for an existing resource, without null values and those that are only written."""
        read = {key: value for key, value in cty.without_nulls(values).items() if not self._fields[key].write_only}
        return {NAMEVAR: name, "ensure": "present", **{attribute_name(key): value for key, value in read.items()}}

    def _store(
        self,
        context: Context,
        name: str,
        state: _State,
        *,
        former: object,
        declared: Mapping[str, object] | None = None,
    ) -> None:
        """Keep the state as private data of the resource, from which the next run reads it, unless ``former`` is equal.

        Values that are secret by the schema, as ``declared``, or in the former data are sealed.
        """
        raw = schema.sealed(self._fields, cty.to_json(self._kind, state.values))
        raw = conceal_like(conceal_like(raw, declared), former.get("state") if isinstance(former, dict) else None)
        private = base64.b64encode(state.private).decode()
        data = {"type": self.type_name, "version": self._version, "state": raw, "private": private}
        if data != former:
            context.store_private(name, data)

    @staticmethod
    def _check_secrets(context: Context, name: str, declared: Mapping[str, object]) -> None:
        """Raise ``ResourceError`` before a change if the state cannot keep a declared secret, for want of a key."""
        if is_secret(dict(declared)):
            former = context.private(name)
            context.store_private(name, Sensitive(name))  # a trial: it raises without a key
            context.store_private(name, former)

    def import_(self, context: Context, name: str, identifier: str) -> Resource:
        """Return the resource ``name``, found by an id of the provider's own or an identity in JSON; store its state.

        The program may import objects of several types for one id; only the one of this type counts. Raise
        ``ResourceError`` if there is none.
        """
        answer = self._call(context, "import", type_name=self.type_name, **self._identified(identifier))
        imported = [row for row in answer["imported_resources"] if row["type_name"] == self.type_name]
        if not imported:
            raise ResourceError(f"the provider has imported nothing of the type {self.type_name}")
        state = self._refreshed(context, imported[0].get("state"), imported[0].get("private", b""))
        if state.values is None:
            raise ResourceError(f"there is no {self.type_name} with the id {identifier}")
        self._states[name] = state
        self._store(context, name, state, former=context.private(name))
        return self._row(name, state.values)

    def _identified(self, identifier: str) -> dict[str, object]:
        """Return the fields of an import's request for a resource: an id, or an identity in JSON.

        An identity has several attributes, which newer providers ask for instead of one text. Raise ``ResourceError``
        for an identity of another form.
        """
        declared = self.family.identities.get(self.type_name)
        if declared is None or not identifier.startswith("{"):
            return {"id": identifier}
        kinds = {item["name"]: cty.parse_type(item["type"]) for item in declared["identity_attributes"]}
        try:
            values = json.loads(identifier)
            if unknown := values.keys() - kinds.keys():
                raise ResourceError(f"its identity has {', '.join(kinds)}, not {', '.join(sorted(unknown))}")
            return {"identity": {"identity_data": cty.to_dynamic(("object", kinds), values)}}
        except (ValueError, TypeError) as error:
            raise ResourceError(f"'{identifier}' is no identity in JSON: {error}") from error

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write the elements of sets in one order, each once: the program returns them in any order."""
        for resource in resources:
            for field in self._fields.values():
                value = resource.get(attribute_name(field.name))
                if isinstance(value, list) and field.type[0] == "set":
                    resource[attribute_name(field.name)] = cty.in_order(value)
        return resources

    def _config(self, should: Mapping[str, object]) -> dict[str, Any]:
        """Return a declared resource as the complete configuration that the program expects, by names of fields."""
        declared = {name: value for name, value in should.items() if name not in {NAMEVAR, "ensure"}}
        return schema.complete(self._fields, with_field_names(declared))

    def validate(self, context: Context, should: Mapping[str, object]) -> Iterator[Problem]:
        """Yield the problems that the program finds in a resource, at their attributes."""
        if should.get("ensure") == "absent":
            return
        config = cty.to_dynamic(self._kind, self._config(should))
        fields = {"type_name": self.type_name, "config": config, "client_capabilities": _CAPABILITIES}
        for row in self._call_unchecked(context, "validate", **fields)["diagnostics"]:
            steps = row.get("attribute", {}).get("steps", [])
            name = attribute_name(steps[0]["attribute_name"]) if steps and "attribute_name" in steps[0] else None
            yield Problem(name, _diagnostic_text(row), "error" if row.get("severity") == _ERROR else "warning")

    def _planned(self, context: Context, name: str, should: Mapping[str, object], *, creates: bool) -> _ProgramPlan:
        """Return the program's plan of a resource; ``creates``: from no prior state.

        The last plan is kept and returned again for an equal request: ``insync`` needs it for each attribute, and every
        plan is a call of the program.
        """
        state = _State() if creates else self._states.get(name, _State())
        config = self._config(should)
        request = hash(repr((creates, config)))
        if name in self._plans and self._plans[name].request == request:
            return self._plans[name]
        answer = self._ask_plan(context, state, config, schema.propose(self._fields, state.values, config))
        planned: dict[str, object] = cty.from_dynamic(self._kind, answer.get("planned_state")) or {}
        planned = state.values if state.values == planned else planned  # one object, which saves memory
        # A path may lead into an attribute: its first step is the attribute.
        paths = [path["steps"] for path in answer["requires_replace"] if path["steps"]]
        replace = sorted({attribute_name(steps[0]["attribute_name"]) for steps in paths})
        private, tolerant = answer.get("planned_private", b""), bool(answer.get("legacy_type_system"))
        plan = self._plans[name] = _ProgramPlan(request, state.values, planned, replace, private, tolerant)
        return plan

    def _ask_plan(self, context: Context, state: _State, config: object, proposed: object) -> Message:
        """Return the program's answer on a plan from a state to a configuration; None for both is a deletion."""
        return self._call(
            context,
            "plan",
            type_name=self.type_name,
            prior_state=cty.to_dynamic(self._kind, state.values),
            config=cty.to_dynamic(self._kind, config),
            proposed_new_state=cty.to_dynamic(self._kind, proposed),
            prior_private=state.private,
            client_capabilities=_CAPABILITIES,
        )

    def insync(
        self, context: Context, name: str, attribute: str, is_: Mapping[str, object], should: Mapping[str, object]
    ) -> bool | None:
        """Return whether the program's plan leaves a declared attribute as it is.

        For a creation or deletion return None: the runtime then compares the values itself.
        """
        if is_.get("ensure") != "present" or should.get("ensure") != "present":
            return None
        return attribute == "ensure" or attribute not in self._planned(context, name, should, creates=False).changed

    def plan(
        self, context: Context, name: str, is_: Mapping[str, object] | None, should: Mapping[str, object]
    ) -> Planned:
        """Return the planned values, the unknown ones, and the attributes whose change needs a replacement.

        The values are those that the runtime cannot take from the declaration: of undeclared attributes, and of
        declared objects with computed members. A declared attribute that the program would not change has the present
        value, because the manifest may declare the same value in another form.
        """
        present = is_ if is_ is not None and is_.get("ensure") == "present" else {}
        creates = not present
        plan = self._planned(context, name, should, creates=creates)
        changed, state, unknown = set() if creates else plan.changed, {}, []
        for key, value in plan.planned.items():
            attribute, field = attribute_name(key), self._fields[key]
            if attribute in should and attribute in present and attribute not in changed:
                state[attribute] = present[attribute]  # the program would not change it
            elif attribute not in should and is_unknown(value):
                unknown.append(attribute)
            elif not field.write_only and _is_shown(field, value, declared=attribute in should, creates=creates):
                state[attribute] = schema.sealed_value(field, cty.without_nulls(value))
        replace, changes = () if creates else plan.replace, self._undeclared(changed, should)
        return Planned(state, unknown, replace, changes=changes, tolerant=plan.tolerant)

    def _undeclared(self, changed: Collection[str], should: Mapping[str, object]) -> list[str]:
        """Return the undeclared attributes that a change alters, so that the plan shows the reason for the change.

        Attributes that only the provider computes follow from other changes: they are included if nothing else differs.
        """
        names = changed - should.keys()
        undeclared = [field for field in self._fields.values() if attribute_name(field.name) in names]
        declarable = [field for field in undeclared if field.is_declarable]
        fields = declarable or ([] if changed & should.keys() else undeclared)
        return [attribute_name(field.name) for field in fields]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Create, update or delete each resource as the program plans it."""
        self._deadline = context.deadline
        for name, (is_, should) in changes.items():
            creates = (is_ or {}).get("ensure") != "present"
            if should["ensure"] != "present":
                with context.deleting(name):
                    self._apply(context, name, None, creates=creates)
            else:
                with context.creating(name) if creates else context.updating(name):
                    self._apply(context, name, should, creates=creates)

    def _apply(self, context: Context, name: str, should: Mapping[str, object] | None, *, creates: bool) -> None:
        """Apply the program's plan of one resource, and store the state that it returns.

        ``creates``: there is no state yet. A state with an error is stored too, for the next run: the resource exists.
        """
        state = _State() if creates else self._states[name]
        declared = with_field_names(should or {})
        self._check_secrets(context, name, declared)
        if should is None:
            config, planned, private = None, None, self._planned_destruction(context, state)
        else:
            self._plans.pop(name, None)
            plan = self._planned(context, name, should, creates=creates)
            config, planned, private = self._config(should), plan.planned, plan.private
        answer = self._call_unchecked(
            context,
            "apply",
            type_name=self.type_name,
            prior_state=cty.to_dynamic(self._kind, state.values),
            config=cty.to_dynamic(self._kind, config),
            planned_state=cty.to_dynamic(self._kind, planned),
            planned_private=private,
        )
        new = cty.from_dynamic(self._kind, answer.get("new_state"))
        values = map_leaves(new, lambda leaf: None if leaf is UNKNOWN else leaf)
        if values is not None:  # also after an error: this exists now
            self._states[name] = _State(values, answer.get("private", b""))
            self._store(context, name, self._states[name], former=context.private(name), declared=declared)
        _check_diagnostics(context, answer)
        _check_known(new)
        if values is None:
            self._states[name] = _State()
            context.store_private(name, None)

    def _planned_destruction(self, context: Context, state: _State) -> bytes:
        """Return the private bytes for a deletion: those of its plan if the program plans deletions.

        They are data of the program itself, which it gets back unchanged with the next call about the resource.
        """
        if not self.family.plans_destruction:
            return state.private
        private: bytes = self._ask_plan(context, state, None, None).get("planned_private", b"")
        return private


def _is_shown(field: SchemaField, value: object, *, declared: bool, creates: bool) -> bool:
    """Return whether a plan shows a planned value beside the declared ones.

    A declared value is shown already, except for the computed members of an object. An undeclared value is shown unless
    it is null; in the plan of a creation it must be computed.
    """
    if declared:
        return bool(field.members) and value is not UNKNOWN
    return value is not None and (field.computed or not creates)


def _revealed(state: object) -> object:
    """Return a recorded state with its secrets. Raise ``ResourceError`` if only a digest is recorded, without a key."""
    if has_sealed(state):
        raise ResourceError("its state has a secret of which only a digest is recorded; use --key")
    return reveal(state)


class Functions(_ProgramSession):
    """Reads data sources, opens ephemeral resources, and calls functions."""

    def __init__(self) -> None:
        """Begin with nothing open."""
        super().__init__()
        #: The opened ephemeral resources: type, and private bytes of the program.
        self._opened: list[tuple[str, bytes]] = []

    def close(self) -> None:
        """Close ephemeral resources, the last first: it may need earlier ones. Raise ``ResourceError`` if one fails."""
        errors = list[str]()
        while self._opened:
            name, private = self._opened.pop()
            try:
                with self._errors():
                    answer = self.family.process(self._key).call("close", _STOP_LIMIT, type_name=name, private=private)
                errors += error_texts(answer)
            except ResourceError as error:
                errors.append(str(error))
        if errors:
            raise ResourceError("; ".join(errors))

    def get(self, _context: Context, _names: Collection[Any] | None = None) -> list[Resource]:
        """Return nothing: there are no resources."""
        return []

    def set(self, context: Context, changes: Mapping[Any, Change]) -> None:
        """Change nothing."""

    def read_data_source(self, context: Context, name: str, inputs: Mapping[str, object]) -> Any:
        """Return the attributes of the data source ``name``, read by the program for these ``inputs``."""
        fields = schema.fields_of_block(self.family.schema["data_source_schemas"][name]["block"])
        config = _config_value(fields, inputs)
        self._call(context, "validate_data", type_name=name, config=config)
        return _result(fields, self._call(context, "data", type_name=name, config=config).get("state"))

    def open_ephemeral(self, context: Context, name: str, inputs: Mapping[str, object]) -> Any:
        """Return the attributes of an ephemeral resource, such as a token; ``close`` ends it at the end of the run.

        Single secrets are not marked, because the type declares the whole result as sensitive.
        """
        fields = schema.fields_of_block(self.family.schema["ephemeral_resource_schemas"][name]["block"])
        config = _config_value(fields, inputs)
        self._call(context, "validate_ephemeral", type_name=name, config=config)
        answer = self._call(context, "open", type_name=name, config=config)
        self._opened.append((name, answer.get("private", b"")))
        return reveal(_result(fields, answer.get("result")))

    def call_function(self, context: Context, name: str, inputs: Mapping[str, object]) -> Any:
        """Return the result of the provider's function ``name``. Raise ``ResourceError`` with its error."""
        declared, values = self.family.schema["functions"][name], with_field_names(inputs)
        arguments = [cty.to_dynamic(kind, values.get(parameter["name"])) for parameter, kind in parameters(declared)]
        if "variadic_parameter" in declared:
            # Its list becomes one argument for each element.
            variadic, kind = list(parameters(declared))[-1]
            arguments[-1:] = [cty.to_dynamic(kind[1], value) for value in values.get(variadic["name"]) or ()]
        answer = self._call_unchecked(context, "call", name=name, arguments=arguments)
        if error := answer.get("error"):
            raise ResourceError(error.get("text", ""))
        return cty.without_nulls(cty.from_dynamic(cty.parse_type(declared["return"]["type"]), answer.get("result")))


def _result(fields: Mapping[str, SchemaField], state: Message | None) -> dict[str, Any]:
    """Return the attributes of a data source or ephemeral resource, its secrets wrapped, without null values."""
    values = cty.without_nulls(cty.from_dynamic(schema.object_type(fields), state)) or {}
    return schema.sealed(fields, values)


def _config_value(fields: Mapping[str, SchemaField], config: Mapping[str, object]) -> Message:
    """Return declared values as a whole configuration, with secrets in clear text."""
    declared = with_field_names(reveal(dict(config)))
    return cty.to_dynamic(schema.object_type(fields), schema.complete(fields, declared))


def _check_known(state: Mapping[str, object] | None) -> None:
    """Raise ``ResourceError`` for unknown values in a state: only a plan may have them."""
    if is_unknown(state):
        names = [name for name, value in state.items() if is_unknown(value)] if isinstance(state, dict) else []
        raise ResourceError(f"the state that the provider returned has unknown values: {', '.join(names) or 'all'}")


def _check_diagnostics(context: Context, answer: Message) -> None:
    """Log the warnings of an answer. Raise ``ResourceError`` with its errors, or if the program has deferred its work.

    A program may defer a plan or read that depends on unknown values: its answer is then no result.
    """
    for row in answer.get("diagnostics", ()):
        if row.get("severity") != _ERROR:
            context.warning(_diagnostic_text(row))
    errors = error_texts(answer)
    if answer.get("deferred"):
        errors.append("the provider has deferred this")
    if errors:
        raise ResourceError("; ".join(errors))


def error_texts(answer: Message) -> list[str]:
    """Return the errors among the diagnostics of an answer."""
    return [_diagnostic_text(row) for row in answer.get("diagnostics", ()) if row.get("severity") == _ERROR]


def _diagnostic_text(row: Message) -> str:
    """Return the text of a diagnostic of a program, on one line, with the path of its attribute."""
    steps = row.get("attribute", {}).get("steps", [])  # each of one field: a name or a key
    path = ".".join(str(next(iter(step.values()))) for step in steps if step)
    texts = dict.fromkeys(filter(None, (row.get("summary", ""), row.get("detail", ""))))
    return f"{path}{': ' if path else ''}{': '.join(texts)}".replace("\n", " ").strip()
