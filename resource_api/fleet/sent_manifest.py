"""A manifest on its way to a host: its files are parsed here, where YAML can be read, and assembled there.

Positions go along, so that a message on the host names the same file, line and column. A Python manifest goes as text:
it is executed on the host, because it may ask for the facts of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.manifest.read import STDIN, absolute
from resource_api.manifest.sections import assemble
from resource_api.model.values.document import Document, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.declaration import Manifest


def to_fields(document: Document) -> dict[str, Any]:
    """Return what a job holds of one file of a manifest."""
    path = "" if document.file == STDIN else absolute(document.file)
    sent = {"file": document.file, "path": path, "raw": document.raw}
    if document.file.endswith(".py"):
        return sent
    positions = _flat(document.root) if document.root is not None else None
    return {**sent, "data": document.data, "positions": positions}


def manifest(fields: Sequence[Mapping[str, Any]], python: Callable[[bytes, str], Document]) -> Manifest:
    """Return the manifest of the files in a job; ``python`` executes Python manifests. Raise ``ManifestError``.

    State on the host records the path that it has where the job was made.
    """
    read = [_document(each) if "data" in each else python(each["raw"], each["file"]) for each in fields]
    return assemble(read)._replace(path=fields[-1]["path"])


def _document(fields: Mapping[str, Any]) -> Document:
    flat = fields["positions"]
    return Document(fields["data"], fields["file"], fields["raw"], None if flat is None else lambda: _node(flat))


def _flat(node: Node) -> list[Any]:
    """Return positions as JSON data: line, column, and the parts, each with its key, the position of that, and it."""
    (line, column), children = node
    return [line, column, [[key, *place, _flat(child)] for key, (place, child) in children.items()]]


def _node(flat: Sequence[Any]) -> Node:
    line, column, children = flat
    return Node((line, column), {key: ((row, at), _node(child)) for key, row, at, child in children})
