"""``resource --edit``: resources as YAML in the user's editor, and the application of the changes.

A text with a problem is opened again with the message above it, until it is right or saved without a change.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import yaml_reader
from resource_api.manifest.sections import assemble
from resource_api.model.values.document import manifest_error
from resource_api.model.values.errors import ManifestError, ResourceAPIError, UsageError
from resource_api.model.values.expression import literal
from resource_api.render import yaml_manifest
from resource_api.system.process import interactive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.model.declaration import Manifest
    from resource_api.model.values.errors import Problem
    from resource_api.runtime.resource_selection import Listed

#: The name that problems of the text have.
_FILE: Final = "resources.yaml"
_PROBLEM: Final = "#! "


def edit(session: Session, listed: Listed, providers: Mapping[str, Any]) -> int:
    """Let the user edit resources, apply those that have changed as ``ATTR=VALUE`` would, and return the exit code.

    ``providers`` is that section of a manifest, with the only provider of the resources; empty: they need none. A
    resource that is taken out is left as it is. Raise ``ManifestError`` for a problem that the user leaves as it is.
    """
    original = "\n".join(yaml_manifest.manifest(listed)) + "\n"
    before = yaml_reader.read(original.encode(), _FILE).data["resources"]
    current = original
    with tempfile.TemporaryDirectory(prefix="resource-api-") as directory:
        path = f"{directory}/{_FILE}"
        while True:
            text = _edited(session, path, current)
            body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_PROBLEM))
            if body == original or not body.strip():
                session.log.write("notice", "", "nothing has been edited, so nothing is changed")
                return 0
            try:
                return _apply(session, _manifest(body, before, providers))
            except ManifestError as error:
                if text == current:
                    raise
                current = _with_problems(body, error.problems)


def _edited(session: Session, path: str, text: str) -> str:
    """Return a text as it has been edited. Raise ``ResourceAPIError`` where the editor fails."""
    command = _editor()
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        session.output.flush()
        code = interactive.edit(path, command, session.output.stdout.fileno())
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            edited = file.read()
    except (OSError, ValueError) as error:
        msg = f"the editor '{command}' cannot be used: {getattr(error, 'strerror', None) or error}"
        raise ResourceAPIError(msg) from error
    if code:
        msg = f"the editor '{command}' ended with exit code {code}; nothing is changed"
        raise ResourceAPIError(msg)
    return edited


def _editor() -> str:
    """Return the command of the user's editor. Raise ``UsageError`` where none is named and there is no terminal."""
    if command := (os.environ.get("VISUAL") or os.environ.get("EDITOR") or "").strip():
        return command
    if not sys.stdin.isatty():
        msg = "--edit needs a terminal, or an editor in $VISUAL or $EDITOR"
        raise UsageError(msg)
    return "vi"


def _manifest(text: str, before: Mapping[str, Any], providers: Mapping[str, Any]) -> Manifest:
    """Return the manifest of the resources whose declaration is not as before. Raise ``ManifestError``."""
    document = yaml_reader.read(text.encode(errors="surrogateescape"), _FILE)
    data = document.data
    if type(data) is not dict or data.keys() != {"resources"} or type(data["resources"]) is not dict:
        raise manifest_error(_FILE, (1, 1), "structure", "here stands 'resources:' and nothing else beside it")
    changed = {reference: body for reference, body in data["resources"].items() if before.get(reference, ...) != body}
    for name in providers:
        changed = {title: {**body, "provider": name} if body else body for title, body in changed.items()}
    data = {"project": "resource", "resources": changed, "providers": literal(providers)}
    return assemble([document.with_data(data)])


def _apply(session: Session, manifest: Manifest) -> int:
    settings = session.settings
    report = session.runtime.change(manifest, noop=settings["noop"], strict=settings["strict"])
    session.output.print(str(report))
    return session.exit_code(report)


def _with_problems(text: str, problems: Sequence[Problem]) -> str:
    """Return a text below its problems, whose lines are those of the whole."""
    count = len(problems)
    moved = [problem._replace(line=problem.line + count if problem.line else 0) for problem in problems]
    return "".join(f"{_PROBLEM}{' '.join(str(problem).split())}\n" for problem in moved) + text
