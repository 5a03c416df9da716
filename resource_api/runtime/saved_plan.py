"""Saved plans: one JSON document that embeds the manifest and its inputs.

Applying a saved plan makes a new plan from the embedded manifest and compares the two: there is no second executor. The
whole plan is refused when state has changed, when a step could not be planned, or when a resource is not as the plan
saw it. With a key, what is embedded is encrypted and bound to the rest of the document; only then may it hold secrets.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import read as reading
from resource_api.model.codec import encode
from resource_api.model.options import INTERNAL, Options, check_execution, to_options
from resource_api.model.sealed_secrets import digest_secret, has_sealed, seal_secrets
from resource_api.model.values.assets import spell_contents
from resource_api.model.values.errors import ManifestError, Problem, ResourceAPIError, UsageError
from resource_api.model.values.values import is_secret, is_unknown, reveal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from resource_api.runtime.results import Plan, Report
    from resource_api.runtime.runtime import Runtime
    from resource_api.state.encryption.keys import Key

#: The options that can be given when a saved plan is applied.
_EXECUTION: Final = ("noop", "parallel", "fail_fast")
#: The fields of a step that must be as they were saved.
_COMPARED: Final = (
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
    """Save a plan. Raise ``ResourceAPIError`` as ``document`` does, and where the file cannot be written."""
    from resource_api.system.filesystem import files

    found = document(plan, key, os.getcwd())
    text = f"{json.dumps(found, indent=2, ensure_ascii=False)}\n".encode()
    try:
        files.write_output(path, text)
    except OSError as error:
        msg = f"cannot save the plan to {path}: {error.strerror}"
        raise ResourceAPIError(msg) from error


def write_beside(plan: Plan, path: str, key: Key | None = None) -> None:
    """Save a plan as ``write`` does. Raise ``UsageError`` when ``path`` is one of the manifest's files."""
    check_target(path, (document.file for document in plan.catalog.manifest.documents))
    write(plan, path, key)


def document(plan: Plan, key: Key | None = None, directory: str = "") -> dict[str, Any]:
    """Return the document of a saved plan; ``directory``: where the relative names of its files begin.

    Raise ``ResourceAPIError`` when it needs an ephemeral input, or holds a secret without a ``key`` to encrypt it with.
    """
    if name := next((name for name, each in plan.catalog.manifest.inputs.items() if each.ephemeral), ""):
        msg = f"a plan with the ephemeral input '{name}' cannot be saved: nothing of it is kept; apply the manifest"
        raise ResourceAPIError(msg)
    if key is None and (name := _find_secret(plan)):
        msg = f"a plan with secrets cannot be saved without a key: {name} holds one; name a key, or apply the manifest"
        raise ResourceAPIError(msg)
    from resource_api.render import json as documents

    found = documents.plan(plan)
    embedded = {
        "files": plan.catalog.manifest.text,
        "directory": directory,
        "path": plan.catalog.manifest.path,
        "inputs": spell_contents(reveal(dict(plan.catalog.scope.inputs))),
        "options": {name: _plain(value) for name, value in plan.options._asdict().items()},
    }
    found["manifest"] = embedded if key is None else _encrypted(plan, found, embedded, key)
    return found


def check_target(path: str, files: Iterable[str]) -> None:
    """Raise ``UsageError`` when ``path`` is one of the files that the plan is made of."""
    for file in files:
        with suppress(OSError):
            if os.path.samefile(path, file):
                msg = f"-o {path} would overwrite {file}, which the plan is made of"
                raise UsageError(msg)


def _find_secret(plan: Plan) -> str:
    """Return the name of a resource or input that holds a secret; empty when none does."""
    for entry in plan.catalog.entries:
        hidden = entry.definition.secret
        if any(map(is_secret, entry.should.values())) or not hidden.isdisjoint(entry.should):
            return str(entry.reference)
    return next((f"the input '{name}'" for name, value in plan.catalog.scope.inputs.items() if is_secret(value)), "")


def _encrypted(plan: Plan, document: Mapping[str, Any], embedded: Mapping[str, Any], key: Key) -> dict[str, Any]:
    """Return what is embedded, encrypted, with digests of the plan's secrets, bound to the rest of the document."""
    from resource_api.state.encryption.envelope import DataKey

    data_key, salt = DataKey.generate(key, "the plan"), os.urandom(32)
    kept = {**embedded, "salt": salt.hex(), "secrets": _secrets(plan, salt)}
    return {"sealing": data_key.wrapped, "box": data_key.encrypt(kept, document)}


def _decrypted(document: Mapping[str, Any], path: str, key: Key | None) -> Mapping[str, Any]:
    """Return what is embedded.

    Raise ``UsageError`` without the key, ``StateError`` for an altered plan, ``ManifestError`` for a plan that is not
    encrypted when a key is named.
    """
    embedded: Mapping[str, Any] = document["manifest"]
    if "sealing" not in embedded:
        if key is not None:
            raise refused(path, "the plan is not encrypted, and a key is named")
        return embedded
    from resource_api.state.encryption.envelope import DataKey

    rest = {name: value for name, value in document.items() if name != "manifest"}
    found: Mapping[str, Any] = DataKey.open(key, embedded["sealing"], path).decrypt(embedded.get("box"), rest)
    return found


def _secrets(plan: Plan, salt: bytes) -> list[list[str]]:
    """Return [URN, reference, digest] of each step with secrets in its two states, which the document masks."""
    found = []
    for step in plan.steps:
        states = seal_secrets([dict(step.is_ or {}), {k: v for k, v in step.should.items() if not is_unknown(v)}], salt)
        if has_sealed(states):
            found.append([step.urn, str(step.reference), digest_secret(encode(states), salt).digest])
    return found


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, (frozenset, tuple)) else value


def read(path: str) -> dict[str, Any] | None:
    """Return the document of a saved plan; None for any other file, as a manifest.

    The file's name is not considered. A file that does not begin with ``{`` is not read further, and one without the
    text ``"format_version"`` is not parsed.
    """
    try:
        # Opening a named pipe would wait for its other end, and its content could be read only once.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not (stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.peek().lstrip().startswith(b"{")):
                return None
            text = file.read()
        document = json.loads(text.decode()) if b'"format_version"' in text else None
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "format_version" in document else None


def load(path: str) -> dict[str, Any]:
    """Return the document of a saved plan. Raise ``ManifestError`` for anything else, ``UsageError`` for ``-``."""
    if (document := read(path)) is None:
        if path == "-":
            msg = "a saved plan is not read from standard input; give the name of its file"
            raise UsageError(msg)
        reason = "this is no saved plan, as plan -o writes it" if os.path.isfile(path) else "there is no such file"
        raise ManifestError([Problem(None, reason, file=path, code="plan")])
    _check_format(document, path)
    return document


def _check_format(document: Mapping[str, Any], path: str) -> None:
    from resource_api.render import json as documents

    if document.get("format_version") != documents.FORMAT_VERSION or "manifest" not in document:
        raise refused(path, f"format_version {document.get('format_version')!r} is not a plan that this version saved")


def apply(
    runtime: Runtime,
    document: Mapping[str, Any],
    path: str,
    given: Mapping[str, Any] = MappingProxyType({}),
    on_plan: Callable[[Plan], None] = lambda _plan: None,
) -> Report:
    """Apply a saved plan with the ``given`` execution options; ``on_plan`` receives the new plan when it is checked.

    Raise ``ManifestError`` when the saved plan is stale, not applicable, or no document of this program.
    """
    from resource_api.render import json as documents

    _check_format(document, path)
    if not document.get("applicable"):
        why = f"it is not applicable, because {_failing(document)} could not be planned"
        raise refused(path, f"the plan is stale: {why}")
    try:
        embedded = _decrypted(document, path, runtime.key)
        project, stack = str(document["project"]), str(document["stack"])
        options = _read_options(embedded["options"])
        inputs, place = dict(embedded["inputs"]), (str(embedded["directory"]), str(embedded["path"]))
        manifest = reading.from_texts(embedded["files"], *place)
        planned = {(step["urn"], step["action"]): step for step in document["steps"]}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise refused(path, f"this is not a plan as it was saved: {type(error).__name__}: {error}") from error
    options, manifest = options._replace(**{**given, "saved": True, "shown": False}), manifest._replace(saved_in=path)

    def check(plan: Plan) -> None:
        _check(document, planned, documents.plan(plan), path)
        if "salt" in embedded:
            _check_secrets(embedded, plan, path)
        on_plan(plan)

    return runtime.for_stack(project, stack).apply_manifest(manifest, inputs, options, check)


def confirmation(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return by what a plan that somebody has confirmed is known again: the state that it saw, and its steps.

    ``document`` is that of ``Plan.to_dict``, secrets masked; where a host has sent it, it may be anything.
    """
    steps = document.get("steps")
    known = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    return {
        "lineage": document.get("lineage"),
        "serial": document.get("serial"),
        "steps": [[step.get("urn"), step.get("reference"), _digest(step)] for step in known],
    }


def check_confirmation(confirmed: Mapping[str, Any], document: Mapping[str, Any], path: str) -> None:
    """Raise ``ManifestError`` unless the plan of ``document`` is the one that was confirmed. ``path``: the manifest."""
    now = confirmation(document)
    if why := state_difference(confirmed, now["lineage"], now["serial"]):
        raise refused(path, f"the plan is stale: {why}")
    before, after = ({tuple(step) for step in each["steps"]} for each in (confirmed, now))
    if changed := sorted({str(reference) for _, reference, _ in before ^ after}):
        raise refused(path, f"the plan is stale: {', '.join(changed)} changed since it was confirmed")


def _digest(step: Mapping[str, Any]) -> str:
    from hashlib import sha256

    text = json.dumps([step.get(field) for field in _COMPARED], sort_keys=True, default=str)
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _failing(document: Mapping[str, Any]) -> str:
    """Return the references of the steps of a saved plan that could not be planned, or words for them."""
    steps = document.get("steps")
    found = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    return ", ".join(str(step.get("reference")) for step in found if step.get("error")) or "a step of it"


def apply_file(
    runtime: Runtime,
    path: str,
    inputs: Mapping[str, Any] | None,
    given: Mapping[str, Any],
    on_plan: Callable[[Plan], None] | None,
) -> Report | None:
    """Apply the saved plan in a file as ``Runtime.apply`` is asked to; return None where the file is no saved plan.

    Raise as ``apply`` does, and ``UsageError`` for ``inputs``, for options that decide what a plan contains, and where
    the plan is about another project or stack than the runtime.
    """
    if (document := read(path)) is None:
        return None
    _check_format(document, path)
    to_options(given)
    check_execution(inputs, given, _EXECUTION, "a saved plan, which does what it shows")
    for kind, own in (("project", runtime.project), ("stack", runtime.stack)):
        if own is not None and own != document.get(kind):
            msg = f"{path}: the plan is about the {kind} '{document.get(kind)}', and the runtime about '{own}'"
            raise UsageError(msg)
    return apply(runtime, document, path, {"noop": False, **given}, on_plan or (lambda _plan: None))


def _read_options(found: Mapping[str, Any]) -> Options:
    """Return the options of a saved plan. Raise ``TypeError`` for one that does not exist or is of another kind."""
    try:
        options = to_options({name: value for name, value in found.items() if name not in INTERNAL})
    except UsageError as error:
        raise TypeError(str(error)) from error
    return options._replace(destroy=found.get("destroy") is True)


def _check(document: Mapping[str, Any], planned: Mapping[Any, Any], now: Mapping[str, Any], path: str) -> None:
    """Compare the saved steps with those of a new plan. Raise ``ManifestError`` when they differ."""
    if why := state_difference(document, now["lineage"], now["serial"]):
        raise refused(path, f"the plan is stale: {why}")
    if failing := next((step for step in now["steps"] if step.get("error")), None):
        why = f"{failing['reference']} cannot be done any more: {failing['error']}"
        raise refused(path, f"the plan is stale: {why}")
    current = {(step["urn"], step["action"]): step for step in now["steps"]}
    changed = [
        str((planned.get(key) or current[key]).get("reference"))
        for key in dict.fromkeys((*planned, *current))
        if _compared(planned.get(key)) != _compared(current.get(key)) or _does_more(current.get(key), planned.get(key))
    ]
    if changed:
        names = ", ".join(dict.fromkeys(changed))
        raise refused(path, f"the plan is stale: {names} changed since it was made")


def state_difference(document: Mapping[str, Any], lineage: str, serial: int) -> str:
    """Return how the recorded state, of ``lineage`` and ``serial``, is another than the plan saw; empty: it is not."""
    for field, now in (("lineage", lineage), ("serial", serial)):
        if document.get(field) != now:
            return f"{field} was {document.get(field)!r} and is {now!r}"
    return ""


def _check_secrets(embedded: Mapping[str, Any], plan: Plan, path: str) -> None:
    """Compare the digests of the saved plan's secrets with those of a new plan. Raise ``ManifestError``."""
    before = {urn: (reference, digest) for urn, reference, digest in embedded["secrets"]}
    now = {urn: (reference, digest) for urn, reference, digest in _secrets(plan, bytes.fromhex(embedded["salt"]))}
    if names := [(before.get(urn) or now[urn])[0] for urn in {**before, **now} if before.get(urn) != now.get(urn)]:
        raise refused(path, f"the plan is stale: secrets of {', '.join(names)} changed since it was made")


def _compared(step: Mapping[str, Any] | None) -> Any:
    return None if step is None else json.loads(json.dumps([step.get(field) for field in _COMPARED]))


def _does_more(now: Mapping[str, Any] | None, planned: Mapping[str, Any] | None) -> bool:
    """Return whether a step does something besides that it was not planned to do."""
    before, after = ((step or {}).get("side_effects") or () for step in (planned, now))
    return any(effect not in before for effect in after)


def refused(path: str, message: str) -> ManifestError:
    """Return the error for a saved plan that is not as it must be."""
    return ManifestError([Problem(None, message, file=path, code="plan", hint="plan again")])
