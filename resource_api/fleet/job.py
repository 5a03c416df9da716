"""A job: the command for one host with its manifest, inputs and options, as a value with a digest.

The files of a manifest are parsed on the controller, where YAML can be read, and assembled on the host. They keep their
positions, so that messages name the same file, line and column. A Python manifest is sent as text and executed on the
host, because it may use the host's facts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.input_values import EnvironmentInput, FileInput, TextInput
from resource_api.manifest.read import STDIN, from_documents
from resource_api.model.values.document import Document, Node
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import Sensitive, reveal
from resource_api.plugins.worker import protocol
from resource_api.runtime.commands import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.model.declaration import Manifest

#: The commands of jobs; the changing ones run once, and the ledger records their runs.
COMMANDS: Final = {
    "apply",
    "plan",
    "destroy",
    "agent",
    "import",
    "refresh",
    "resource",
    "run",
    *(name.partition(" ")[0] for name in DOCUMENTS),
}
CHANGING: Final = frozenset({"apply", "destroy", "import", "refresh"})
#: Largest event of a host, and largest ``result`` of a command that reads, in bytes.
MAX_EVENT: Final = 1024 * 1024
MAX_RESULT: Final = 16 * 1024 * 1024
#: The kind of the frame that holds a job.
_KIND: Final = "job"
#: Function or type → the libraries in pure Python that it needs on a host, which are sent along if a manifest uses it.
_LIBRARIES: Final[Mapping[str, Sequence[str]]] = {
    "template": ("jinja2", "markupsafe"),
    "toml_setting": ("tomlkit",),
    **dict.fromkeys(("mysql_database", "mysql_grant", "mysql_user"), ("pymysql",)),
}


class HostJob(NamedTuple):
    """One command for one host."""

    #: One of ``COMMANDS``.
    command: str
    #: The random id of the run: equal commands of two runs are two jobs.
    run: str
    #: SHA-256 of the archive with this package.
    payload: str
    #: SHA-256 of the archive with the user's module path, or None.
    modules: str | None = None
    #: The manifest's files in the order of reading: parsed ones with their positions, Python manifests as text.
    documents: Sequence[Mapping[str, object]] = ()
    #: The other files of the manifest, by their paths there: contents of assets, templates.
    files: Mapping[str, bytes] = {}
    #: Values by name, secrets as ``Sensitive``; uncoerced texts as pairs with their source: ``decoded_inputs``.
    inputs: Mapping[str, object] = {}
    #: ``name``, ``groups`` and ``address``, for ``${host.…}``.
    host: Mapping[str, object] = {}
    #: The fields of ``Options`` and the other options of the command, by name.
    options: Mapping[str, object] = {}
    #: The trace of this run (W3C Trace Context), or None.
    traceparent: str | None = None
    #: The user and the machine of the controller, for messages on the host.
    operator: str = ""
    #: The digest of all other fields, with keyed digests of secrets; equal jobs have equal ids. "" before `with_id`.
    id: str = ""


def libraries_of(names: Iterable[str]) -> list[str]:
    """Return the sorted Python libraries that the functions and types among names need, to send them along."""
    return sorted({library for name in set(names) for library in _LIBRARIES.get(name, ())})


def with_id(job: HostJob, key: bytes = b"") -> HostJob:
    """Return a job with its inputs encoded for sending, and with its id, by which a host recognizes the job.

    An equal job has the same id, so a host that gets it twice runs it once. ``key``: up to 64 bytes for the digests of
    secrets in the id: without the key, no secret can be guessed from the id.
    """
    inputs = {name: _encoded_input(value) for name, value in job.inputs.items()}
    sent = job._replace(documents=list(job.documents), inputs=inputs, id="")
    return sent._replace(id=_digest(sent, key))


def for_host(
    shared: HostJob,
    host: Mapping[str, object],
    inputs: Mapping[str, object],
    options: Mapping[str, object],
    key: bytes = b"",
) -> HostJob:
    """Return the job of one host: ``shared``, the common job of all hosts, with its own inputs and further options.

    The common job was digested once, by ``with_id``, so the id of each host is cheap. ``key``: as for ``with_id``.
    """
    encoded = {name: _encoded_input(value) for name, value in inputs.items()}
    # The new id is the digest of the id of ``shared``, which stands for its fields, and the fields of this host.
    part = HostJob(command="", run="", payload="", inputs=encoded, host=host, options=options, id=shared.id)
    return shared._replace(id=_digest(part, key), inputs=encoded, host=host, options={**shared.options, **options})


def decoded_inputs(job: HostJob) -> dict[str, object]:
    """Return the inputs of a received job by name: the reverse of ``_encoded_input``, by which they were sent.

    A text that is not yet converted to its data type was sent as a pair such as ``("file", text)`` and becomes a
    ``FileInput`` again. The class is needed for its check: only a text from a file or variable may be a secret.
    """
    return {
        name: _TEXT_INPUTS[value[0]](reveal(value[1])) if type(value) is tuple else value
        for name, value in job.inputs.items()
    }


def encode(job: HostJob) -> bytes:
    """Return the bytes of a job for the host; secrets are in clear, as the channel is encrypted."""
    texts = _manifest_texts(job)  # of the two large fields, which are encoded once for all hosts
    encoded = {name: texts.get(name) or protocol.encode_value(value) for name, value in job._asdict().items()}
    return protocol.join(_KIND, encoded)


def decode(frame: protocol.Frame) -> HostJob:
    """Return the job of a frame that this host has received: the reverse of ``encode``.

    Raise ``ValueError`` for another frame, and for a job with other fields or an unknown command.
    """
    if frame.kind != _KIND or frame.body.keys() != set(HostJob._fields):
        raise ValueError("this is no job")
    job = HostJob(**frame.body)
    if job.command not in COMMANDS:
        raise ValueError(f"a job for the unknown command {job.command!r:.40}")
    return job


#: The source of a text input → its class. A text from a file or from the environment may be a secret.
_TEXT_INPUTS: Final[Mapping[str, type[TextInput]]] = {
    "text": TextInput,
    "file": FileInput,
    "environment": EnvironmentInput,
}
_SOURCES: Final = {kind: source for source, kind in _TEXT_INPUTS.items()}


def _encoded_input(value: Any) -> object:
    """Return an input for a job; a text input is a pair of its source and its text."""
    source = _SOURCES.get(type(value))
    return value if source is None else (source, str(value) if source == "text" else Sensitive(str(value)))


#: The documents and files of the last encoded job, and their texts: one value, which threads may share.
_last_manifest: list[tuple[object, object, Mapping[str, str]]] = [(None, None, {})]


def _manifest_texts(job: HostJob) -> Mapping[str, str]:
    """Return the encoded fields ``documents`` and ``files`` of a job, encoded again only if they are other objects.

    These two fields are large, and all jobs of a run share them, so the last encoding is cached.
    """
    documents, files, texts = _last_manifest[0]
    if documents is not job.documents or files is not job.files:
        texts = {name: protocol.encode_value(getattr(job, name)) for name in ("documents", "files")}
        _last_manifest[0] = (job.documents, job.files, texts)
    return texts


def _digest(job: HostJob, key: bytes) -> str:
    """Return the id of a job, by which a host that gets an equal job twice runs it once.

    Secrets enter it as digests with ``key``: without the key, no secret can be guessed from the id.
    """
    from hashlib import blake2b, sha256  # only the controller needs it

    def digested(value: object) -> Any:
        """Return a value in the form for the digest: with sorted keys, and keyed digests instead of secrets."""
        if isinstance(value, Sensitive):
            text = protocol.encode(_KIND, {"value": digested(value.reveal())})
            return ["sensitive", blake2b(text, key=key, digest_size=32).hexdigest()]
        if isinstance(value, dict):
            return {name: digested(value[name]) for name in sorted(value)}
        return list(map(digested, value)) if isinstance(value, (list, tuple)) else value

    without_secrets = job._replace(inputs=digested(job.inputs), options=digested(job.options))
    return sha256(protocol.encode(_KIND, without_secrets._asdict())).hexdigest()


def document_fields(document: Document) -> dict[str, Any]:
    """Return a file of a manifest as an item of a job's documents: JSON data, with positions for messages.

    So hosts need no YAML reader. A Python manifest is sent as text alone, to be executed on the host.
    """
    path = "" if document.file == STDIN else os.path.abspath(document.file)
    fields = {"file": document.file, "path": path, "raw": document.raw}
    if document.file.endswith(".py"):
        return fields
    positions = _flat(document.root) if document.root is not None else None
    return {**fields, "data": document.data, "positions": positions}


def read_manifest(documents: Sequence[Mapping[str, Any]], python: Callable[[bytes, str], Document]) -> Manifest:
    """Return the manifest of a job's documents; ``python`` executes those in Python. Raise ``ManifestError``."""
    files = [_document(fields) if "data" in fields else python(fields["raw"], fields["file"]) for fields in documents]
    return from_documents(files, documents[-1]["path"])  # state records the path on the controller


def _document(fields: Mapping[str, Any]) -> Document:
    """Return the file of a manifest for its ``document_fields``; positions are decoded only for a message."""
    flat = fields["positions"]
    return Document(fields["data"], fields["file"], fields["raw"], None if flat is None else lambda: _node(flat))


def _flat(node: Node) -> list[object]:
    """Return positions as JSON data: line, column, and for each child its key, the key's position, and the child."""
    (line, column), children = node
    return [line, column, [[key, *position, _flat(child)] for key, (position, child) in children.items()]]


def _node(flat: Sequence[Any]) -> Node:
    """Return positions from the form of ``_flat``."""
    line, column, children = flat
    return Node((line, column), {key: ((row, at), _node(child)) for key, row, at, child in children})
