"""``resource --edit``: resources as YAML in the user's editor, and the application of the changes."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Final

from resource_api.cli.editor import edit_until_valid
from resource_api.manifest import yaml_reader
from resource_api.manifest.sections import assemble
from resource_api.model.values.document import manifest_error
from resource_api.model.values.expression import literal
from resource_api.render import yaml_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.cli.session import Session
    from resource_api.model.declaration import Manifest
    from resource_api.runtime.resource_selection import Listed

#: The name that problems of the text have.
_FILE: Final = "resources.yaml"


def edit(session: Session, listed: Listed, providers: Mapping[str, object]) -> int:
    """Let the user edit resources, apply those that have changed as ``ATTR=VALUE`` would, and return the exit code.

    ``providers`` is that section of a manifest, with the only provider of the resources; empty: they need none. A
    resource that is taken out is left as it is. Raise ``ManifestError`` for a problem that the user leaves as it is.
    """
    original = "\n".join(yaml_manifest.manifest(listed)) + "\n"
    before = yaml_reader.read(original.encode(), _FILE).data["resources"]
    with tempfile.TemporaryDirectory(prefix="resource-api-") as directory:
        path = f"{directory}/{_FILE}"
        code = edit_until_valid(
            session, "--edit", path, original, lambda text: _apply(session, _manifest(text, before, providers))
        )
    return code or 0


def _manifest(text: str, before: Mapping[str, object], providers: Mapping[str, object]) -> Manifest:
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
