"""A manifest's files, or a program's mapping → one ``Manifest``: its fixed structure checked, nothing interpreted.

All problems of all files are collected and raised once. Types, attributes and where references lead are unknown here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import includes
from resource_api.manifest.sections import Gatherer
from resource_api.model.declaration import Manifest
from resource_api.model.values import document
from resource_api.model.values.errors import ManifestError, Problem
from resource_api.model.values.reference import STACK_NAME
from resource_api.model.values.text import show

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from resource_api.manifest.includes import Reader
    from resource_api.model.values.document import Document

MAPPING: Final = "<mapping>"


def read(source: str | os.PathLike[str] | Mapping[str, Any], python: Reader | None = None) -> Manifest:
    """Read a manifest from a file (``.yaml``, ``.yml``, ``.json``, ``.py``) or from a mapping like the YAML's.

    ``python`` reads Python manifests, which need inputs and facts.

    Raises ``ManifestError`` with every problem of every file, ``UsageError`` for a suffix that nothing reads.
    """
    if isinstance(source, Mapping):
        from resource_api.manifest import json_reader  # noqa: PLC0415 - only programs come this way

        adopted = json_reader.adopt(source, MAPPING)
        if adopted.data.get("include") is not None:
            message = "include needs a file that it is relative to"
            raise document.refusal(MAPPING, (0, 0), "include", message)
        return assemble([adopted])
    documents, problems = includes.load(os.fsdecode(source), python)
    return assemble(documents, problems)


def reduced(documents: Iterable[Document], keys: Collection[str]) -> Manifest:
    """Put documents together without the resources that stand there as ``keys``, and defaults for them alone.

    Raises ``ManifestError``.
    """
    kept = []
    for each in documents:
        resources = {key: body for key, body in (each.data.get("resources") or {}).items() if key not in keys}
        types = {key.partition("[")[0].lower() for key in resources}
        defaults = {name: body for name, body in (each.data.get("defaults") or {}).items() if name.lower() in types}
        kept.append(each.holding({**each.data, "resources": resources, "defaults": defaults}))
    return assemble(kept)


def restore(files: Iterable[Mapping[str, Any]], root: str = "") -> Manifest:
    """Make a manifest again from what its ``text`` was; places are then not known. Raises ``ManifestError``.

    ``root``: where relative names of files began.
    """
    from resource_api.manifest import json_reader  # noqa: PLC0415 - only saved plans come this way

    return assemble([json_reader.adopt(each["data"], each["file"]) for each in files])._replace(root=root)


def assemble(documents: Sequence[Document], problems: Iterable[Problem] = ()) -> Manifest:
    """Put documents together, the first file's last. Raises ``ManifestError``, for earlier ``problems`` too."""
    gathered = Gatherer(list(problems))
    for each in documents:
        gathered.gather(each, first=each is documents[-1])
    if gathered.problems:
        raise ManifestError(gathered.problems)
    file = documents[-1].file if documents else MAPPING
    return Manifest(
        file=file,
        project=gathered.project or _stem(file),
        project_given=gathered.project is not None,
        inputs=gathered.inputs,
        defaults=gathered.defaults,
        providers=gathered.providers,
        values=gathered.named["values"],
        resources=tuple(gathered.resources),
        moved=tuple(gathered.moved),
        removed=tuple(gathered.removed),
        outputs=gathered.named["outputs"],
        documents=tuple(documents),
    )


def _stem(file: str) -> str:
    """Give the name of a file without its directory and suffix, and without what may stand before a name."""
    if file == MAPPING:
        return MAPPING.strip("<>")
    stem = os.path.splitext(os.path.basename(file))[0]  # noqa: PTH119, PTH122 - pathlib costs more than the file
    return stem.lstrip("-._") or stem


def project(manifest: Manifest) -> str:
    """Give the project of a manifest, under which its state is kept.

    Raises ``ManifestError`` where it has none and no project can be called like its file: made to fit, two files with
    different names would share what is recorded.
    """
    if not STACK_NAME.match(manifest.project):
        message = f"no project can be called {show(manifest.project)}, like this file; write 'project: NAME' into it"
        hint = "a name has 1 to 100 letters, digits, '.', '_' and '-', and begins with a letter or digit"
        raise ManifestError([Problem("project", message, file=manifest.file, code="project", hint=hint)])
    return manifest.project
