"""Saved plans: one JSON document that embeds the manifest and its inputs.

Applying one plans again, from what is embedded, and compares: there is no second executor. It is refused as a whole
when state has moved on, when a step could not be planned, or when a resource is no longer what the plan saw. With a key
what is embedded is ciphertext, bound to all that the plan shows; only then may there be secrets in it.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import read as reading
from resource_api.model.codec import digest_secret, encode, has_sealed, seal_secrets
from resource_api.model.values.assets import spell_contents
from resource_api.model.values.errors import ManifestError, Problem, ResourceAPIError, UsageError
from resource_api.model.values.values import is_secret, is_unknown, reveal
from resource_api.render import json as documents
from resource_api.runtime.options import to_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from resource_api.model.report import Report
    from resource_api.plan.planner import Plan
    from resource_api.runtime.runtime import Runtime
    from resource_api.state.encryption.keys import Key

#: What must be as the plan saw it, step by step.
_COMPARED: Final = ("reference", "action", "is", "should", "unknown", "changes", "previous", "refreshed_by")


def write(plan: Plan, path: str, key: Key | None = None) -> None:
    """Save a plan. Raises ``ResourceAPIError`` when it holds a secret and there is no ``key`` to encrypt it with."""
    if key is None and (what := _secret(plan)):
        msg = f"a plan with secrets cannot be saved without a key: {what} holds one; name a key, or apply the manifest"
        raise ResourceAPIError(msg)
    document = documents.plan(plan)
    embedded = {
        "files": plan.catalog.manifest.text,
        "directory": os.getcwd(),  # noqa: PTH109 - text
        "inputs": spell_contents(reveal(dict(plan.catalog.scope.inputs))),
        "options": {name: _plain(value) for name, value in plan.options._asdict().items()},
    }
    document["manifest"] = embedded if key is None else _locked(plan, document, embedded, key)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            json.dump(document, file, indent=2, ensure_ascii=False)
            file.write("\n")
    except OSError as error:
        msg = f"cannot save the plan to {path}: {error.strerror}"
        raise ResourceAPIError(msg) from error


def spare(path: str, files: Iterable[str]) -> None:
    """Raise ``UsageError`` where a plan that is saved at ``path`` would take the place of what it was made of."""
    for file in files:
        with suppress(OSError):
            if os.path.samefile(path, file):  # noqa: PTH121 - text
                msg = f"-o {path} would overwrite {file}, which the plan is made of"
                raise UsageError(msg)


def _secret(plan: Plan) -> str:
    """Give what holds a secret in a plan or in the manifest that goes with it; empty: nothing does."""
    for entry in plan.catalog.entries:
        hidden = entry.definition.sensitive | entry.definition.write_only
        if any(map(is_secret, entry.should.values())) or not hidden.isdisjoint(entry.should):
            return str(entry.reference)
    return next((f"the input '{name}'" for name, value in plan.catalog.scope.inputs.items() if is_secret(value)), "")


def _locked(plan: Plan, document: Mapping[str, Any], embedded: Mapping[str, Any], key: Key) -> dict[str, Any]:
    """Encrypt what is embedded, with what its secrets are compared by, bound to all the rest of the document."""
    from resource_api.state.encryption.envelope import DataKey  # noqa: PLC0415 - only with a key

    data_key, salt = DataKey.generate(key, "the plan"), os.urandom(32)
    kept = {**embedded, "salt": salt.hex(), "secrets": _secrets(plan, salt)}
    return {"sealing": data_key.wrapped, "box": data_key.encrypt(kept, document)}


def _unlocked(document: Mapping[str, Any], path: str, key: Key | None) -> Mapping[str, Any]:
    """Give what is embedded.

    Raises ``UsageError`` without the key, ``StateError`` for a plan that was altered, ``ManifestError`` for one that
    has no key where there is one.
    """
    embedded: Mapping[str, Any] = document["manifest"]
    if "sealing" not in embedded:
        if key is not None:
            raise _refused(path, "the plan is not encrypted, and a key is named")
        return embedded
    from resource_api.state.encryption.envelope import DataKey  # noqa: PLC0415 - only with a key

    rest = {name: value for name, value in document.items() if name != "manifest"}
    found: Mapping[str, Any] = DataKey.open(key, embedded["sealing"], path).decrypt(embedded.get("box"), rest)
    return found


def _secrets(plan: Plan, salt: bytes) -> list[list[str]]:
    """Give, by step, the digest of the secrets in its two states, which the document itself does not show."""
    found = []
    for step in plan.steps:
        states = seal_secrets([dict(step.is_ or {}), {k: v for k, v in step.should.items() if not is_unknown(v)}], salt)
        if has_sealed(states):
            found.append([step.urn, str(step.reference), digest_secret(encode(states), salt).digest])
    return found


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, (frozenset, tuple)) else value


def read(path: str) -> dict[str, Any] | None:
    """Give the document of a saved plan, whatever its file is called; None when it is none, but (it may be) a manifest.

    Of a file that does not begin like one no more than its beginning is read, and no manifest is parsed for this.
    """
    try:
        # A named pipe would wait for its other end, and what it holds could be read once only.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not (stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.peek().lstrip().startswith(b"{")):
                return None
            text = file.read()
        document = json.loads(text.decode()) if b'"format_version"' in text else None
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "format_version" in document else None


def apply(
    runtime: Runtime,
    document: Mapping[str, Any],
    path: str,
    how: Mapping[str, Any] = MappingProxyType({}),
    show: Callable[[Plan], None] = lambda _plan: None,
) -> Report:
    """Carry out a saved plan; ``how`` are the fields of ``Options`` that are no part of what it shows.

    Raises ``ManifestError`` when it is stale, not applicable, or not one of ours.
    """
    if document.get("format_version") != documents.FORMAT_VERSION or "manifest" not in document:
        raise _refused(path, f"format_version {document.get('format_version')!r} is not a plan that this version saved")
    if not document.get("applicable"):
        raise _refused(path, "the plan is not applicable: a step of it could not be planned")
    try:
        embedded = _unlocked(document, path, runtime.key)
        project, stack = str(document["project"]), str(document["stack"])
        options = to_options(embedded["options"])
        inputs, manifest = dict(embedded["inputs"]), reading.from_texts(embedded["files"], str(embedded["directory"]))
        planned = {(step["urn"], step["action"]): step for step in document["steps"]}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _refused(path, f"this is not a plan as it was saved: {type(error).__name__}: {error}") from error
    options = options._replace(**how, saved=True)

    def check(plan: Plan) -> None:
        _check(document, planned, documents.plan(plan), path)
        if "salt" in embedded:
            _check_secrets(embedded, plan, path)
        show(plan)

    return runtime.for_stack(project, stack).apply_manifest(manifest, inputs, options, check)


def _check(document: Mapping[str, Any], planned: Mapping[Any, Any], now: Mapping[str, Any], path: str) -> None:
    """Compare what was planned with what would be planned now."""
    for field in ("lineage", "serial"):
        if document.get(field) != now[field]:
            raise _refused(path, f"the plan is stale: {field} was {document.get(field)!r} and is {now[field]!r}")
    if failing := next((step for step in now["steps"] if step.get("error")), None):
        why = f"{failing['reference']} cannot be done any more: {failing['error']}"
        raise _refused(path, f"the plan is stale: {why}")
    current = {(step["urn"], step["action"]): step for step in now["steps"]}
    moved = [
        str((planned.get(key) or current[key]).get("reference"))
        for key in dict.fromkeys((*planned, *current))
        if _essence(planned.get(key)) != _essence(current.get(key))
    ]
    if moved:
        names = ", ".join(dict.fromkeys(moved))
        raise _refused(path, f"the plan is stale: {names} moved since it was made")


def _check_secrets(embedded: Mapping[str, Any], plan: Plan, path: str) -> None:
    """Compare the secrets that were planned with those that would be planned now."""
    before = {urn: (reference, digest) for urn, reference, digest in embedded["secrets"]}
    now = {urn: (reference, digest) for urn, reference, digest in _secrets(plan, bytes.fromhex(embedded["salt"]))}
    if moved := [(before.get(urn) or now[urn])[0] for urn in {**before, **now} if before.get(urn) != now.get(urn)]:
        raise _refused(path, f"the plan is stale: secrets of {', '.join(moved)} moved since it was made")


def _essence(step: Mapping[str, Any] | None) -> Any:
    return None if step is None else json.loads(json.dumps([step.get(field) for field in _COMPARED]))


def _refused(path: str, message: str) -> ManifestError:
    return ManifestError([Problem(None, message, file=path, code="plan", hint="plan again")])
