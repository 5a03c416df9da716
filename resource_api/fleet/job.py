"""A job: everything that one host needs for one command, as a value that has a digest.

What a host may answer is in ``fleet/channel``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.input_values import EnvironmentInput, FileInput, TextInput
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.values import Sensitive, reveal
from resource_api.plugins.worker import protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The commands that a job can carry out; those that change something are done once, and the ledger has their runs.
COMMANDS: Final = ("apply", "plan", "destroy", "refresh", "resource", "validate", "output", "state")
CHANGING: Final = frozenset({"apply", "destroy", "refresh"})
#: Bytes of one event of a host, and of the one ``result`` of a command that reads.
MAX_EVENT: Final = 1024 * 1024
MAX_RESULT: Final = 16 * 1024 * 1024
#: The kind of the frame that holds a job.
_KIND: Final = "job"


class Job(NamedTuple):
    """One command for one host."""

    #: One of ``COMMANDS``.
    command: str
    #: Counts up per project where jobs are made; a host does nothing that is older than what it has done.
    generation: int
    #: SHA-256 of the archive with this package.
    payload: str
    #: SHA-256 of the archive with the user's module path; None: there is none.
    modules: str | None = None
    #: The manifest's files in the order of reading: parsed ones with their positions, Python manifests as text.
    documents: Sequence[Mapping[str, Any]] = ()
    #: The other files that the manifest names, by their path as it is written there: contents of assets, templates.
    files: Mapping[str, bytes] = {}
    #: Values by name, secrets as ``Sensitive``; what is yet to be coerced with how it was given: ``given_inputs``.
    inputs: Mapping[str, Any] = {}
    #: ``name``, ``groups`` and ``address``: what ``${host.…}`` means there.
    host: Mapping[str, Any] = {}
    #: The fields of ``Options`` and the other options of that command, by name.
    options: Mapping[str, Any] = {}
    #: The trace that this run is part of (W3C Trace Context), None: none.
    traceparent: str | None = None
    #: The digest of all other fields, secrets by their keyed digest: the same job has the same id. Empty: none yet.
    id: str = ""


def with_id(job: Job, key: bytes = b"") -> Job:
    """Return a job as it is sent, with its id; its inputs may be those of ``manifest.input_values``.

    ``key``: up to 64 bytes with which secrets are digested for the id, so that nobody who knows the rest can guess
    them from it; the same key where the same job is made again.
    """
    inputs = {name: _sent(value) for name, value in job.inputs.items()}
    sent = job._replace(documents=list(job.documents), inputs=inputs, id="")
    return sent._replace(id=_digest(sent, key))


def for_host(
    shared: Job, host: Mapping[str, Any], inputs: Mapping[str, Any], options: Mapping[str, Any], key: bytes = b""
) -> Job:
    """Return a job for one host: with its inputs, and its ``options`` beside those that all hosts ``shared``.

    What is shared is digested once, so that the id of a further host costs little. ``key`` as for ``with_id``.
    """
    sent = {name: _sent(value) for name, value in inputs.items()}
    own = Job(command="", generation=0, payload="", inputs=sent, host=host, options=options, id=shared.id)
    return shared._replace(id=_digest(own, key), inputs=sent, host=host, options={**shared.options, **options})


def given_inputs(job: Job) -> dict[str, Any]:
    """Return the inputs of a job as ``Runtime`` takes them."""
    return {
        name: _GIVEN[value[0]](reveal(value[1])) if type(value) is tuple else value
        for name, value in job.inputs.items()
    }


def encode(job: Job) -> bytes:
    """Return the bytes of a job, secrets in clear: for a channel that nobody else reads.

    The manifest, which the jobs of a run have in common, is encoded for the first of them only.
    """
    texts = _manifest.texts(job)
    encoded = {name: texts.get(name) or protocol.encode_value(value) for name, value in job._asdict().items()}
    return protocol.join(_KIND, encoded)


def decode(frame: protocol.Frame) -> Job:
    """Return the job of a frame. Raise ``ValueError`` for a frame that holds none."""
    if frame.kind != _KIND or frame.body.keys() != set(Job._fields):
        msg = "this is no job"
        raise ValueError(msg)
    job = Job(**frame.body)
    if job.command not in COMMANDS:
        msg = f"a job for the unknown command {job.command!r:.40}"
        raise ValueError(msg)
    return job


#: How an input was given → its class. A text of a file or of the environment may be a secret.
_GIVEN: Final[Mapping[str, type[TextInput]]] = {"text": TextInput, "file": FileInput, "environment": EnvironmentInput}
_WORDS: Final = {kind: word for word, kind in _GIVEN.items()}


def _sent(value: Any) -> Any:
    """Return an input as a job holds it."""
    word = _WORDS.get(type(value))
    return value if word is None else (word, str(value) if word == "text" else Sensitive(str(value)))


class _Manifest:
    """The manifest of the last job as it is sent: its documents, and the files that these name."""

    def __init__(self) -> None:
        #: Both, and their texts. One value, so that threads may share it.
        self._known: tuple[Any, Any, Mapping[str, str]] = (None, None, {})

    def texts(self, job: Job) -> Mapping[str, str]:
        """Return the two fields as they are sent; those of the same two values are the same."""
        documents, files, texts = self._known
        if documents is not job.documents or files is not job.files:
            texts = {name: protocol.encode_value(getattr(job, name)) for name in ("documents", "files")}
            self._known = (job.documents, job.files, texts)
        return texts


_manifest: Final = _Manifest()


def _digest(job: Job, key: bytes) -> str:
    from hashlib import sha256

    return sha256(protocol.encode(_KIND, _without_secrets(job, key)._asdict())).hexdigest()


def _without_secrets(job: Job, key: bytes) -> Job:
    return job._replace(inputs=_digested(job.inputs, key), options=_digested(job.options, key))


def _digested(value: Any, key: bytes) -> Any:
    """Return a value with sorted keys, and with each secret in it replaced by its keyed digest."""
    if isinstance(value, Sensitive):
        from hashlib import blake2b

        text = protocol.encode(_KIND, {"value": _digested(value.reveal(), key)})
        return ["sensitive", blake2b(text, key=key, digest_size=32).hexdigest()]
    if isinstance(value, dict):
        return {name: _digested(value[name], key) for name in sorted(value)}
    return [_digested(item, key) for item in value] if isinstance(value, (list, tuple)) else value
