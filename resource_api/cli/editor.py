"""Text and resources in the user's editor: opened again with the problems above it, until it is right or unchanged.

Resources of ``resource --edit`` are YAML, of which only the changes are applied.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from resource_api.manifest import yaml_reader
from resource_api.manifest.sections import assemble
from resource_api.model.values.document import manifest_error
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ManifestError, ResourceAPIError, UsageError
from resource_api.model.values.values import literal
from resource_api.render import yaml_manifest
from resource_api.system.process import interactive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.model.declaration import Manifest
    from resource_api.model.values.errors import Problem
    from resource_api.runtime.resource_selection import Listed

    R = TypeVar("R")

#: Begins the line of a problem.
_PROBLEM: Final = "#! "
#: How often a program that is no user's editor may repeat a mistake.
_MOST: Final = 10


def edit_until_valid(session: Session, used_for: str, path: str, original: str, accept: Callable[[str], R]) -> R | None:
    """Let the user edit a text in the file at ``path``; return the result of ``accept``, or None without a change.

    If ``accept`` raises ``ManifestError``, the editor is opened again with the problems above the text; if the user
    then changes nothing, that error is raised. Raise ``ResourceAPIError`` if the editor fails, ``UsageError`` without
    one. ``used_for``: the option or command, for messages.
    """
    current, refused, count = original, "", 0
    while True:
        text = _run_editor(session, used_for, path, current)
        # Without the lines about problems, which ``_with_problems`` has put above the text.
        body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_PROBLEM))
        if original in (text, body) or not body.strip():
            session.log.write("notice", "", "nothing has been edited, so nothing is changed")
            return None
        try:
            return accept(body)
        except ManifestError as error:
            count += 1
            # The user leaves the refused text as it is, or the editor is a program that repeats its mistake.
            if body == refused or (count == _MOST and not sys.stdin.isatty()):
                raise
            current, refused = _with_problems(body, error.problems), body


def _run_editor(session: Session, used_for: str, path: str, text: str) -> str:
    """Return a text after the user has edited it in the file ``path``, which only the user can read.

    Bytes that are no UTF-8, and line ends, pass unchanged. Raise ``ResourceAPIError`` or ``UsageError``.
    """
    command, private = _editor_command(used_for), partial(os.open, mode=0o600)
    with errors_as(ResourceAPIError, (OSError, ValueError), f"the editor '{command}' cannot be used: "):
        with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="", opener=private) as file:
            file.write(text)
        session.output.flush()
        code = interactive.edit(path, command, session.output.stdout.fileno())
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            edited = file.read()
    if code:
        raise ResourceAPIError(f"the editor '{command}' ended with exit code {code}; nothing is changed")
    return edited


def _editor_command(used_for: str) -> str:
    """Return the command of the user's editor, by default ``vi`` on a terminal. Raise ``UsageError`` without one."""
    if command := (os.environ.get("VISUAL") or os.environ.get("EDITOR") or "").strip():
        return command
    if not sys.stdin.isatty():
        raise UsageError(f"{used_for} needs a terminal, or an editor in $VISUAL or $EDITOR")
    return "vi"


def _with_problems(text: str, problems: Sequence[Problem]) -> str:
    """Return an edited text below one line for each of its problems, for the next round in the editor.

    Line numbers in the problems are moved down by the added lines, so that they are right in the editor.
    """
    count = len(problems)
    moved = [problem._replace(line=problem.line + count if problem.line else 0) for problem in problems]
    return "".join(f"{_PROBLEM}{' '.join(str(problem).split())}\n" for problem in moved) + text


#: The name that problems of the text have.
_FILE: Final = "resources.yaml"


def edit_resources(session: Session, listed: Listed, providers: Mapping[str, object]) -> int:
    """Let the user edit resources, apply those that have changed as ``ATTR=VALUE`` would, and return the exit code.

    ``providers``: the section ``providers`` of a manifest, with the one provider of the resources; empty if they need
    none. A resource that the user removes from the text stays as it is. Raise ``ManifestError`` for a problem that the
    user leaves.
    """
    original = "\n".join(yaml_manifest.manifest(listed)) + "\n"
    before = yaml_reader.read(original.encode(), _FILE).data["resources"]
    with tempfile.TemporaryDirectory(prefix="resource-api-") as directory:
        path = f"{directory}/{_FILE}"
        code = edit_until_valid(
            session, "--edit", path, original, lambda text: _apply(session, _changed_manifest(text, before, providers))
        )
    return code or 0


def _changed_manifest(text: str, before: Mapping[str, object], providers: Mapping[str, object]) -> Manifest:
    """Return a manifest of those resources that the user has changed, so that the others are not touched.

    ``before``: reference → attributes before the editing. ``providers``: as for ``edit_resources``; each resource then
    uses that provider. Raise ``ManifestError``.
    """
    document = yaml_reader.read(text.encode(errors="surrogateescape"), _FILE)
    data = document.data
    if type(data) is not dict or data.keys() != {"resources"} or type(data["resources"]) is not dict:
        raise manifest_error(_FILE, (1, 1), "structure", "here stands 'resources:' and nothing else beside it")
    # ``...`` differs from any body: a reference that is new counts as changed.
    changed = {reference: body for reference, body in data["resources"].items() if before.get(reference, ...) != body}
    for name in providers:
        changed = {title: {**body, "provider": name} if body else body for title, body in changed.items()}
    data = {"project": "resource", "resources": changed, "providers": literal(providers)}
    return assemble([document.with_data(data)])


def _apply(session: Session, manifest: Manifest) -> int:
    """Apply edited resources, print the summary, and return the exit code.

    State does not record them as ours: no manifest of the user declares them.
    """
    settings = session.settings
    report = session.runtime.change(manifest, noop=settings["noop"], strict=settings["strict"])
    session.output.print(str(report))
    return session.exit_code(report)
