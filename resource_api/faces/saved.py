"""Saved plans: one JSON document that embeds the manifest and its inputs.

Applying one plans again, from what is embedded, and compares: there is no second executor. It is refused as a whole
when state has moved on, when a step could not be planned, or when a resource is no longer what the plan saw.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from resource_api.faces import documents
from resource_api.nouns.errors import ManifestError, Problem, ResourceAPIError
from resource_api.nouns.options import Options
from resource_api.nouns.values import is_secret
from resource_api.stages import manifest as reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.faces.runtime import Runtime
    from resource_api.nouns.step import Report
    from resource_api.stages.plan import Plan

#: What must be as the plan saw it, step by step.
_COMPARED: Final = ("reference", "action", "is", "should", "unknown", "changes", "previous", "refreshed_by")


def write(plan: Plan, path: str) -> None:
    """Save a plan. Raises ``ResourceAPIError`` when it holds a secret, which would be written in clear."""
    secret = next((str(step.reference) for step in plan.steps if any(map(is_secret, step.should.values()))), "")
    hidden = next((name for name, value in plan.catalog.scope.inputs.items() if is_secret(value)), "")
    if secret or hidden:
        what = secret or f"the input '{hidden}'"
        msg = f"a plan with secrets cannot be saved: {what} holds one; apply the manifest instead"
        raise ResourceAPIError(msg)
    document = documents.plan(plan)
    document["manifest"] = {
        "files": plan.catalog.manifest.text,
        "directory": os.getcwd(),  # noqa: PTH109 - text
        "inputs": dict(plan.catalog.scope.inputs),
        "options": {name: _plain(value) for name, value in plan.options._asdict().items()},
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            json.dump(document, file, indent=2, ensure_ascii=False)
            file.write("\n")
    except OSError as error:
        msg = f"cannot save the plan to {path}: {error.strerror}"
        raise ResourceAPIError(msg) from error


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, (frozenset, tuple)) else value


def read(path: str) -> dict[str, Any] | None:
    """Give the document of a saved plan; None when the file is none, but (it may be) a manifest."""
    if not path.endswith(".json"):
        return None
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs more than the file
            text = file.read()
        # A manifest is not read twice to see that it is none.
        document = json.loads(text.decode()) if b'"format_version"' in text else None
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "format_version" in document else None


def apply(runtime: Runtime, document: Mapping[str, Any], path: str, *, noop: bool = False) -> Report:
    """Carry out a saved plan. Raises ``ManifestError`` when it is stale, not applicable, or not one of ours."""
    if document.get("format_version") != documents.FORMAT_VERSION or "manifest" not in document:
        raise _refused(path, f"format_version {document.get('format_version')!r} is not a plan that this version saved")
    if not document.get("applicable"):
        raise _refused(path, "the plan is not applicable: a step of it could not be planned")
    try:
        embedded = document["manifest"]
        runtime.project, runtime.stack = str(document["project"]), str(document["stack"])
        options = Options(**{name: _restored(name, value) for name, value in embedded["options"].items()})
        inputs, manifest = dict(embedded["inputs"]), reading.restore(embedded["files"], str(embedded["directory"]))
        planned = {(step["urn"], step["action"]): step for step in document["steps"]}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _refused(path, f"this is not a plan as it was saved: {type(error).__name__}: {error}") from error
    options = options._replace(noop=noop, saved=True)
    return runtime.apply_planned(
        manifest, inputs, options, lambda plan: _check(document, planned, documents.plan(plan), path)
    )


def _restored(name: str, value: Any) -> Any:
    return frozenset(value) if name in {"tags", "skip_tags"} else tuple(value) if isinstance(value, list) else value


def _check(document: Mapping[str, Any], planned: Mapping[Any, Any], now: Mapping[str, Any], path: str) -> None:
    """Compare what was planned with what would be planned now."""
    for field in ("lineage", "serial"):
        if document.get(field) != now[field]:
            raise _refused(path, f"the plan is stale: {field} was {document.get(field)!r} and is {now[field]!r}")
    current = {(step["urn"], step["action"]): step for step in now["steps"]}
    moved = [
        str((planned.get(key) or current[key]).get("reference"))
        for key in dict.fromkeys((*planned, *current))
        if _essence(planned.get(key)) != _essence(current.get(key))
    ]
    if moved:
        names = ", ".join(dict.fromkeys(moved))
        raise _refused(path, f"the plan is stale: {names} moved since it was made")


def _essence(step: Mapping[str, Any] | None) -> Any:
    return None if step is None else json.loads(json.dumps([step.get(field) for field in _COMPARED]))


def _refused(path: str, message: str) -> ManifestError:
    return ManifestError([Problem(None, message, file=path, code="plan", hint="plan again")])
