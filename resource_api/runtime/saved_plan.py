"""Saved plans: one JSON document that embeds the manifest and its inputs.

Applying a saved plan makes a new plan from the embedded manifest and refuses it unless both are equal: there is no
second executor. With a key, the embedded part is encrypted and bound to the rest; only then may it hold secrets.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, cast

from resource_api.manifest import read as reading
from resource_api.model.action import Action
from resource_api.model.change import Difference, SideEffect, conceal_difference
from resource_api.model.codec import decode, encode
from resource_api.model.declaration import element_origin
from resource_api.model.options import EXECUTION, INTERNAL, Options, check_execution, to_options
from resource_api.model.report import Drifted, Summary
from resource_api.model.sealed_secrets import digest_secret, has_sealed, seal_secrets
from resource_api.model.step import split_reasons
from resource_api.model.values import reference
from resource_api.model.values.assets import spell_contents
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import DefinitionError, ManifestError, Problem, ResourceAPIError, UsageError
from resource_api.model.values.text import escape_json, shell_word
from resource_api.model.values.values import UNKNOWN, Sensitive, is_secret, is_unknown, map_leaves, reveal
from resource_api.plan.planner import first_causes
from resource_api.render import json as documents
from resource_api.render.plan import PlanDocument, StepDocument, uses_parameters
from resource_api.runtime.environment import read_saved_plan
from resource_api.state.encryption.secret_encryption import DataKey
from resource_api.state.store import StackName, StateStore
from resource_api.system.document_schema import find_violations
from resource_api.system.filesystem import files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import (
        ChangeJson,
        DriftJson,
        OutputChangeJson,
        PlanJson,
        PlannedChangeJson,
        PlanStepJson,
    )
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plugins.registry import Registry
    from resource_api.runtime.planning import Plan
    from resource_api.state.encryption.keys import Key

#: The fields of a step that must be as they were saved.
_COMPARED_FIELDS: Final = (
    "reference",
    "action",
    "is",
    "should",
    "unknown",
    "changes",
    "predicted",
    "previous",
    "refreshed_by",
)


def write(plan: Plan, path: str, key: Key | None = None) -> None:
    """Save a plan. Raise ``ResourceAPIError`` for one that cannot be saved, or a file that cannot be written."""
    write_document(path, document(plan, key, os.getcwd()))


def write_document(path: str, document: object) -> None:
    """Write the document of a saved plan, for ``apply``. Raise ``ResourceAPIError`` if the file cannot be written."""
    # Escaped: a name of a file may have bytes that are no UTF-8, and values may control a terminal.
    text = escape_json(json.dumps(document, indent=2, ensure_ascii=False))
    with errors_as(ResourceAPIError, OSError, f"cannot save the plan to {path}: "):
        files.write_output(path, f"{text}\n".encode())


def check_target(path: str, sources: Iterable[str]) -> None:
    """Raise ``UsageError`` if ``path``, to which a plan is to be saved, is a file of its manifest.

    The plan would overwrite it.
    """
    for source in sources:
        with suppress(OSError):
            if os.path.samefile(path, source):
                raise UsageError(f"-o {path} would overwrite {source}, which the plan is made of")


def document(plan: Plan, key: Key | None = None, directory: str = "", host: str = "") -> PlanJson:
    """Return the document of a saved plan, with its manifest and inputs, from which ``apply`` plans again.

    Relative names of its files begin at ``directory``. ``host``: the host of ``--on`` for which the plan was made, and
    the only one that can apply it. Raise ``ResourceAPIError`` if the plan needs an ephemeral input, or contains a
    secret and there is no ``key`` to encrypt it.
    """
    manifest = plan.catalog.manifest
    if ephemeral := [name for name, declared in manifest.inputs.items() if declared.ephemeral]:
        reason = "cannot be saved: nothing of it is kept; apply the manifest"
        raise ResourceAPIError(f"a plan with the ephemeral input '{ephemeral[0]}' {reason}")
    if key is None and (name := _find_secret(plan)):
        remedy = "name a key (--key), or apply the manifest"
        raise ResourceAPIError(f"a plan with secrets cannot be saved without a key: {name} holds one; {remedy}")
    saved = documents.plan(plan)
    embedded = {
        "files": manifest.text,
        "directory": directory,
        "path": manifest.path,
        **({"host": host} if host else {}),
        "inputs": spell_contents(reveal(dict(plan.catalog.scope.inputs))),
        "options": _written_options(plan.options),
    }
    saved["manifest"] = embedded if key is None else _encrypted(plan, saved, embedded, key)
    return saved


def _written_options(options: Options) -> dict[str, object]:
    """Return the options that a saved plan keeps, of types that JSON has."""
    values = {name: value for name, value in options._asdict().items() if name == "destroy" or name not in INTERNAL}
    return {name: sorted(value) if isinstance(value, (frozenset, tuple)) else value for name, value in values.items()}


def _find_secret(plan: Plan) -> str:
    """Return the name of a resource or input that holds a secret, for the refusal to save it in clear, or ""."""
    for entry in plan.catalog.entries:
        if any(map(is_secret, entry.should.values())) or not entry.definition.secret.isdisjoint(entry.should):
            return str(entry.reference)
    secret_inputs = list(plan.catalog.scope.secret_inputs)
    return f"the input '{secret_inputs[0]}'" if secret_inputs else ""


def _encrypted(plan: Plan, saved: Mapping[str, object], embedded: Mapping[str, object], key: Key) -> dict[str, Any]:
    """Return the embedded part of a plan, and digests of its secrets, encrypted with ``key``.

    The ciphertext is authenticated together with ``saved``, the rest of the document in clear: after an attacker's
    change of the steps there, it cannot be decrypted, and the plan is refused.
    """
    data_key, salt = DataKey.generate(key, "the plan"), os.urandom(32)
    content = {**embedded, "salt": salt.hex(), "secrets": _secret_digests(plan, salt)}
    return {"sealing": data_key.wrapped, "box": data_key.encrypt(content, saved)}


def _secret_digests(plan: Plan, salt: bytes) -> list[list[str]]:
    """Return [URN, reference, digest] of each step with secrets in its two states.

    The document masks them: only these digests show, when the plan is applied, that a secret has changed.
    """
    digests = []
    for step in plan.steps:
        should = {name: value for name, value in step.should.items() if not is_unknown(value)}
        states = seal_secrets([dict(step.is_ or {}), should], salt)
        if has_sealed(states):
            digests.append([step.urn, str(step.reference), digest_secret(encode(states), salt).digest])
    return digests


def load(path: str) -> PlanJson:
    """Return the document of a saved plan, to show it. Raise ``ManifestError`` for any other file.

    Raise ``UsageError`` for ``-``, standard input.
    """
    if (saved := read_saved_plan(path)) is None:
        if path == "-":
            raise UsageError("a saved plan is not read from standard input; give the name of its file")
        reason = "this is no saved plan, as plan -o writes it" if os.path.exists(path) else "there is no such file"
        raise ManifestError([Problem(None, reason, file=path, code="plan")])
    _check_format(saved, path)
    return validated(saved, path)


def _check_format(saved: Mapping[str, object], path: str) -> None:
    """Raise ``ManifestError`` for a document that another version of this program saved, or that is no plan."""
    version = saved.get("format_version")
    if version != documents.FORMAT_VERSION or "manifest" not in saved:
        raise _refusal(path, f"format_version {version!r} is not a plan that this version saved")


def validated(document: object, path: str) -> PlanJson:
    """Return a document from a file or a host. Raise ``ManifestError`` unless ``plan`` may have written it.

    A valid form is needed because the file may have been edited, and a host is untrusted. Fields that an older version
    did not have are empty, or 0.
    """
    if isinstance(document, dict):
        document = {"output_changes": {}, "unknown": [], **document}
        if isinstance(summary := document.get("summary"), dict):
            document["summary"] = {**Summary._field_defaults, **summary}
    if violations := find_violations("plan", document):
        raise _not_as_saved(path, str(violations[0]))
    return cast("PlanJson", document)


class SavedPlan:
    """A saved plan to be applied: its manifest, inputs, options, stack, and the comparison with a new plan."""

    def __init__(self, document: Mapping[str, object], path: str, key: Key | None, host: str = "") -> None:
        """Decrypt and check the ``document`` of the file ``path``; ``host``: the host of ``--on`` that applies it.

        Raise ``ManifestError`` if it is no document of this program or has failed steps; ``UsageError`` without its key
        or on another host than the plan's; ``StateError`` if it was altered.
        """
        _check_format(document, path)
        saved = validated(document, path)
        if not saved["applicable"]:
            failed = ", ".join(step["reference"] for step in saved["steps"] if "error" in step) or "a step of it"
            raise _stale(path, f"it is not applicable, because {failed} could not be planned")
        self.document = saved
        self.path = path
        self._embedded = embedded = _decrypted(document, path, key)
        if (own := embedded.get("host", host)) != host:
            raise UsageError(f"{path} is the plan of the host {own}; apply its directory with --on {shell_word(own)}")
        self.project, self.stack = saved["project"], saved["stack"]
        # It was made to be shown, and is applied now.
        self.options = _read_options(embedded["options"], path)._replace(saved=True, shown=False)
        self.inputs = dict(embedded["inputs"])
        manifest = reading.from_texts(embedded["files"], embedded["directory"], embedded["path"])
        self.manifest = manifest._replace(saved_in=path)
        #: URN and action → the saved step.
        self._steps = {(step["urn"], step["action"]): step for step in saved["steps"]}

    def check(self, plan: Plan) -> None:
        """Raise ``ManifestError`` unless a new plan has the saved steps: the user has approved these, and no others.

        First the state must be the same. Then each step must have the same compared fields and no further side effect,
        and in an encrypted plan the same secrets.
        """
        current = documents.plan(plan)
        if reason := _state_difference(self.document, current["lineage"], current["serial"]):
            raise _stale(self.path, reason)
        for step in current["steps"]:
            if step.get("error"):
                raise _stale(self.path, f"{step['reference']} cannot be done any more: {step['error']}")
        steps = {(step["urn"], step["action"]): step for step in current["steps"]}
        changed = []
        for key in {**self._steps, **steps}:
            saved, new = self._steps.get(key), steps.get(key)
            if _step_digest(saved) != _step_digest(new) or _does_more(new, saved):
                changed.append(str((saved or steps[key])["reference"]))
        if changed:
            raise _stale(self.path, f"{', '.join(dict.fromkeys(changed))} changed since it was made")
        if "salt" in self._embedded:
            self._check_secrets(plan)

    def _check_secrets(self, plan: Plan) -> None:
        """Raise ``ManifestError`` if the secrets of the steps differ from those of a new plan, by their digests.

        In the document itself secrets are masked, so that ``check`` sees no difference there.
        """
        before = {urn: (name, digest) for urn, name, digest in self._embedded["secrets"]}
        digests = _secret_digests(plan, bytes.fromhex(self._embedded["salt"]))
        after = {urn: (name, digest) for urn, name, digest in digests}
        changed = [urn for urn in {**before, **after} if before.get(urn) != after.get(urn)]
        if changed:
            names = ", ".join((before.get(urn) or after[urn])[0] for urn in changed)
            raise _stale(self.path, f"secrets of {names} changed since it was made")


def check_arguments(
    saved: Mapping[str, object],
    path: str,
    inputs: Mapping[str, object] | None,
    options: Mapping[str, object],
    stack: Mapping[str, str | None],
) -> None:
    """Raise ``UsageError`` for arguments that would contradict a saved plan: inputs, planning options, another stack.

    The plan was made with its own ones. ``stack``: the runtime's ``project`` and ``stack``, None for any. Raise
    ``ManifestError`` for another format.
    """
    _check_format(saved, path)
    to_options(options)
    check_execution(inputs, options, EXECUTION, "a saved plan, which does what it shows")
    for kind, name in stack.items():
        if name is not None and name != saved.get(kind):
            msg = f"{path}: the plan is about the {kind} '{saved.get(kind)}', and the runtime about '{name}'"
            raise UsageError(msg)


def _decrypted(saved: Mapping[str, Any], path: str, key: Key | None) -> Mapping[str, Any]:
    """Return the embedded part of a saved plan in clear: its manifest, inputs and options.

    Raise ``UsageError`` without the key, ``StateError`` for an altered plan, and ``ManifestError`` for a plan that is
    not encrypted when a key is named: an attacker may have replaced the encrypted one.
    """
    embedded: Mapping[str, object] = saved["manifest"]
    if "sealing" not in embedded:
        if key is not None:
            raise _refusal(path, "the plan is not encrypted, and a key is named")
        return embedded
    rest = {name: value for name, value in saved.items() if name != "manifest"}
    content: Mapping[str, object] = DataKey.open(key, embedded["sealing"], path).decrypt(embedded.get("box"), rest)
    if missing := [name for name in ("directory", "files", "inputs", "options", "path") if name not in content]:
        raise _not_as_saved(path, f"manifest: {missing[0]} is missing")
    return content


def _read_options(saved: Mapping[str, object], path: str) -> Options:
    """Return the options that a plan was made with. Raise ``ManifestError`` for an unknown one and for a wrong value.

    Internal options, which only the runtime may set, are ignored in the file, except ``destroy``: it belongs to the
    plan.
    """
    with errors_as(partial(_not_as_saved, path), UsageError):
        options = to_options({name: value for name, value in saved.items() if name not in INTERNAL})
    return options._replace(destroy=saved.get("destroy") is True)


def confirmation(plan_document: PlanJson) -> dict[str, Any]:
    """Return the identity of the plan that a user has confirmed: its state, and digests of its steps.

    A host plans again before it destroys anything, and compares by ``check_confirmation``, so that only the confirmed
    steps are done. Secrets are masked in the document.
    """
    return {
        "lineage": plan_document["lineage"],
        "serial": plan_document["serial"],
        "steps": [[step["urn"], step["reference"], _step_digest(step)] for step in plan_document["steps"]],
    }


def check_confirmation(confirmed: Mapping[str, Any], plan_document: PlanJson, path: str) -> None:
    """Raise ``ManifestError`` unless a new plan is the one that the user has confirmed; ``path``: the manifest."""
    current = confirmation(plan_document)
    if reason := _state_difference(confirmed, current["lineage"], current["serial"]):
        raise _stale(path, reason)
    before, after = ({tuple(step) for step in plan["steps"]} for plan in (confirmed, current))
    if changed := sorted({str(name) for _, name, _ in before ^ after}):
        raise _stale(path, f"{', '.join(changed)} changed since it was confirmed")


def _step_digest(step: Mapping[str, object] | None) -> str:
    """Return a digest of the fields by which a step is compared with the saved or confirmed one; "" without a step."""
    if step is None:
        return ""
    text = json.dumps([step.get(field) for field in _COMPARED_FIELDS], sort_keys=True, default=str)
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _state_difference(saved: Mapping[str, object], lineage: str, serial: int) -> str:
    """Return the reason why the plan or confirmation ``saved`` is stale, or "".

    It is stale if it was made for another state (another lineage), or if the state was written since (a higher serial).
    """
    for field, current in (("lineage", lineage), ("serial", serial)):
        before = saved.get(field)
        if before != current:
            event = "it is of another state" if field == "lineage" and before else "state has been written since then"
            return f"{event}: {field} was {before!r} and is {current!r}"
    return ""


def _does_more(current: PlanStepJson | None, saved: PlanStepJson | None) -> bool:
    """Return whether a new step has a side effect that the saved one does not show."""
    before, after = ((step.get("side_effects") if step else ()) or () for step in (saved, current))
    return any(effect not in before for effect in after)


def _refusal(path: str, message: str) -> ManifestError:
    """Return the error for a saved plan that is not applied."""
    return ManifestError([Problem(None, message, file=path, code="plan", hint="plan again")])


def _stale(path: str, reason: str) -> ManifestError:
    return _refusal(path, f"the plan is stale: {reason}")


def _not_as_saved(path: str, reason: str) -> ManifestError:
    return _refusal(path, f"this is not a plan as it was saved: {reason}")


def manifest_path(saved: PlanJson) -> str:
    """Return the path of a plan's manifest; an empty text for standard input, and for a plan that is encrypted."""
    return str(saved["manifest"].get("path", ""))


def show(saved: PlanJson, path: str, registry: Registry, *, verbose: bool = False) -> PlanDocument:
    """Return a valid document of a plan as text shows it. Raise ``ManifestError`` for values that no plan has.

    ``registry`` has the types, by which secrets and parameters are recognized; the steps of an unknown type are shown
    as saved. ``verbose``: with the resources in sync that are read again after a step, and those that the manifest
    leaves out by a condition.
    """
    # A text that is no reference, or no encoded value.
    with errors_as(partial(_not_as_saved, path), (LookupError, TypeError, ValueError)):
        return PlanDocument(
            list(_steps(saved["steps"], registry, verbose=verbose)),
            Summary(**saved["summary"]),
            drift=[_drift(row) for row in saved["drift"]],
            output_changes=[_output(name, row, saved["unknown"]) for name, row in saved["output_changes"].items()],
            stack_outputs=[(row["stack"], row["output"]) for row in saved.get("stacks", ())],
            failure_handlers=[(row["reference"], row["of"]) for row in saved.get("only_if_failed", ())],
            left_out=[(row["reference"], row["why"]) for row in saved.get("left_out", ()) if verbose],
        )


def refreshed(refresh_document: Mapping[str, Any]) -> tuple[Sequence[Drifted], Sequence[Difference]]:
    """Return the resources and outputs in a refresh's document. Raise ``LookupError`` or ``TypeError`` for another."""
    outputs = [_output(name, row, ()) for name, row in (refresh_document.get("output_changes") or {}).items()]
    return [_drift(row) for row in refresh_document.get("changes") or ()], outputs


def find_stale(saved: PlanJson, store: StateStore) -> str:
    """Return the difference between the recorded state and the plan's, or an empty text."""
    state = store.load(StackName(saved["project"], saved["stack"]).checked())
    return _state_difference(saved, state.lineage, state.serial)


def _steps(rows: Sequence[PlanStepJson], registry: Registry, *, verbose: bool) -> Iterator[StepDocument]:
    """Yield the steps to show: those that act, and those whose notification has no effect.

    The type of the latter cannot be refreshed, which the manifest's author should see. ``verbose``: also resources in
    sync that are read again after a step.
    """
    read_after = _read_after(rows) if verbose else {}
    subscribed, notified = set[str](), set[str]()
    for row in rows:
        subscribed.update(row["notifies"])
        if row["action"] != "same" and not row["options"]["noop"]:
            notified.update(row["notifies"])
    for row in rows:
        definition, name = _definition(registry, row), str(row["reference"])
        not_refreshable = definition is None or "refreshable" not in definition.features
        if documents.acts(row) or (not_refreshable and name in notified):
            step = _shown_step(row, definition, only_ordered=not_refreshable and name in subscribed)
            yield step._replace(read_after=read_after.get(name, ""))
        elif name in read_after:
            yield StepDocument(name, Action.SAME, read_after=read_after[name])


def _read_after(rows: Sequence[PlanStepJson]) -> dict[str, str]:
    """Return resource in sync → the step after which it is read again, because the resource depends on it.

    The detailed view of a plan shows that step; the dependency may be indirect.
    """
    nodes = []
    for row in rows:
        failed = bool(row.get("error"))
        acts = row["action"] not in {"same", "read"} and not failed and not row["options"]["noop"]
        nodes.append((row["reference"], acts, () if failed else row["depends_on"]))
    causes = first_causes(nodes)
    in_sync = (row["reference"] for row in rows if row["action"] == "same")
    return {name: causes[name] for name in in_sync if name in causes}


def _shown_step(saved: PlanStepJson, definition: TypeDefinition | None, *, only_ordered: bool) -> StepDocument:
    """Return a step of a saved plan in the form in which plans are rendered.

    ``definition``: its type, by which secrets are concealed; None for an unknown type, whose step is shown as saved.
    ``only_ordered``: the step subscribes to a resource but cannot be refreshed, so the relationship only orders both.
    """
    reasons, deferred = split_reasons(saved["reasons"])
    action, effects = Action[saved["action"].upper()], saved.get("side_effects", ())
    changes, parameters = [_difference(row, saved) for row in saved["changes"]], {}
    changes += map(_prediction, saved.get("predicted", ()))
    if definition is not None:
        changes = [conceal_difference(definition, change) for change in changes]
        if uses_parameters(action, definition.features):
            parameters = _parameters(definition, saved)
    return StepDocument(
        str(saved["reference"]),
        action,
        saved.get("error") or "",
        reasons,
        deferred,
        noop=bool(saved["options"]["noop"]),
        previous=saved["previous"] or "",
        refreshed_by=saved["refreshed_by"],
        only_ordered=only_ordered,
        create_first=_is_create_first(saved, definition),
        changes=changes,
        parameters=parameters,
        replaces_because=saved["replaces_because"],
        side_effects=None if effects is None else tuple(map(SideEffect.from_document, effects)),
        origin=element_origin(origin["key"], origin.get("index", 0)) if (origin := saved.get("origin")) else "",
        drifted=saved.get("corrective", False),
    )


def _is_create_first(saved: PlanStepJson, definition: TypeDefinition | None) -> bool:
    """Return whether a replacement creates first: it is declared so, and the new resource has another name."""
    declared = saved["options"].get("replace") == "create_first"
    return declared and (definition is None or not set(definition.namevars).isdisjoint(saved["replaces_because"]))


def _definition(registry: Registry, saved: PlanStepJson) -> TypeDefinition | None:
    """Return the type of a saved step's resource, by which its secrets and parameters are recognized, or None.

    It is None if the type is not on the module path of this machine, as for a plan of another one.
    """
    # ``Site[shop]/File[/srv]``, without its parent ``Site[shop]``.
    name = reference.parse(str(saved["reference"]).removeprefix(f"{saved['parent'] or ''}/"))
    try:
        return registry.type(name.type)
    except DefinitionError:
        return None


def _parameters(definition: TypeDefinition, saved: PlanStepJson) -> dict[str, Any]:
    """Return parameter → value of the parameters to show with a step: only those that differ from their defaults.

    They change how the step is done, so the user should see them. Secrets are concealed.
    """
    attributes = {name: definition.attributes[name] for name in definition.parameters if name in saved["should"]}
    values = {name: _should(name, saved["should"][name], saved) for name in attributes}
    return {
        name: attributes[name].conceal(value) for name, value in values.items() if attributes[name].default != value
    }


def _difference(change: ChangeJson, saved: PlanStepJson) -> Difference:
    """Return a change of a saved step."""
    name = change["attribute"]
    return Difference(name, _value(change["is"]), _should(name, change["should"], saved), change["message"] or "")


def _prediction(change: PlannedChangeJson) -> Difference:
    """Return a change of a saved step that its provider has predicted, to show it.

    Null as the new value means that it is unknown, unless ``kind`` is a deletion: then the value is removed.
    """
    value = _value(change["should"])
    should = UNKNOWN if value is None and not change["kind"].startswith("delete") else value
    return Difference(change["attribute"], _value(change["is"]), should, "predicted")


def _should(name: str, value: object, saved: PlanStepJson) -> Any:
    """Return the requested value of an attribute of a saved step, with ``UNKNOWN`` for unknown values.

    The document has null for an unknown value. So that other null values are not mistaken for unknown ones, it has the
    list ``unknown`` of such attributes, and the expressions from which their unknown parts would be computed.
    """
    if name not in saved["unknown"]:
        return _value(value)
    return UNKNOWN if value is None else _with_unknown(_value(value), saved["expressions"].get(name))


def _with_unknown(value: Any, expression: object) -> Any:
    """Return a saved value with ``UNKNOWN`` in place of each null for which the manifest has an expression.

    ``expression``: the declared value, in which an expression is a text: with ``{"a": "${x}"}``, ``{"a": None,
    "b": None}`` becomes ``{"a": UNKNOWN, "b": None}``.
    """
    if isinstance(value, dict) and isinstance(expression, dict):
        return {key: _with_unknown(item, expression.get(key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(expression, list):
        return [_with_unknown(item, part) for item, part in zip_longest(value, expression[: len(value)])]
    return UNKNOWN if value is None and isinstance(expression, str) else value


def _output(name: str, saved: OutputChangeJson, unknown: Collection[str]) -> Difference:
    """Return the change of an output in a saved plan; ``unknown``: outputs in which null means not known yet."""
    should = _value(saved["should"])
    if name in unknown:
        should = map_leaves(should, lambda leaf: UNKNOWN if leaf is None else leaf)
    return Difference(str(name), _value(saved["is"]), should)


def _drift(saved: DriftJson) -> Drifted:
    changes = [Difference(row["attribute"], _value(row["was"]), _value(row["is"])) for row in saved["changes"]]
    return Drifted(str(saved["reference"]), changes)


def _value(saved: object) -> Any:
    """Return the value of a document's JSON; a masked one is a secret, so that it stays masked."""
    if saved == "<sensitive>":
        return Sensitive(saved)
    # A mapping in it may be the encoded form of a value that JSON lacks.
    return decode(json.dumps(saved)) if isinstance(saved, (dict, list)) else saved
