"""A whole stack as a document, and back: for backups, other machines and other tools.

Secrets stay sealed, in an encrypted document under a data key of its own. The salt is part of the document, because
without it every secret would seem changed. A document is verified before it is used. No file is read or written here.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.model import codec
from resource_api.model.record import Record, RecordKey, StackState
from resource_api.model.values import reference
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ManifestError, Problem
from resource_api.state.encryption.secret_encryption import DataKey, remove_secrets
from resource_api.system.document_schema import find_violations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from resource_api.state.encryption import keys

#: The version of the document. Its key is not ``format_version``, because that marks a saved plan.
FORMAT: Final = 1

_FIELDS: Final = ("project", "stack", "lineage", "serial", "manifest")
#: The fields that records of older versions lack.
_DEFAULTS: Final[Mapping[str, object]] = {
    **dict.fromkeys(("parent", "last_run", "successor", "changed_at"), ""),
    **dict.fromkeys(("implementation", "private")),
}


def to_document(state: StackState, key: keys.Key | None = None) -> dict[str, object]:
    """Return the document of a stack as plain JSON data, without intents, which concern this machine only.

    With a ``key`` secrets are ciphertext and any alteration is detected; without one only their digests are included.
    """
    data_key = None if key is None else DataKey.generate(key, "the document")
    state = remove_secrets(state) if data_key is None else data_key.encrypt_state(state)
    document = {
        "state_format": FORMAT,
        **{key: getattr(state, key) for key in _FIELDS},
        "salt": "" if data_key else state.salt.hex(),
        "resources": [record_document(state, record) for record in state.records.values()],
        "owed": [[instance, name, sources] for (instance, name), sources in state.owed.items()],
        "outputs": state.outputs,
    }
    if data_key is not None:
        document["sealing"] = data_key.wrapped
        document["sealed_salt"] = data_key.encrypt(state.salt.hex(), document)
    plain: dict[str, object] = json.loads(codec.encode(document))
    return {key: plain[key] for key in document}  # the encoder sorts the keys


def record_document(state: StackState, record: Record) -> dict[str, object]:
    """Return one record as in the document, for export and for display; its secrets are still ``Sealed`` objects.

    ``private`` is the data of providers, and is left out where there is none.
    """
    fields = {("is" if key == "is_" else key): value for key, value in record.to_dict().items()}
    if record.private is None:
        del fields["private"]
    return {"reference": str(record.reference), "urn": record_urn(state, record), **fields}


def record_urn(state: StackState, record: Record) -> str:
    """Return the URN of a record."""
    reference_in_parent = reference.Reference(record.type, record.title)
    return str(reference.make_urn(state.stack, state.project, record.parent, reference_in_parent))


def from_document(text: str, file: str, key: keys.Key | None = None) -> StackState:
    """Return the state in a document; ``file`` is its name in messages.

    Raises ``ManifestError`` with every fault, ``UsageError`` or ``StateError`` when ``key`` does not open an encrypted
    document.
    """
    malformed = (ValueError, LookupError, TypeError, RecursionError)
    with errors_as(partial(_refusal, file), malformed, "is not a document of 'state export': "):
        document = codec.decode(text)
    if not isinstance(document, dict) or "state_format" not in document:
        raise _refusal(file, "is not a document of 'state export'")
    if document["state_format"] != FORMAT:
        raise _refusal(file, f"has format {document['state_format']!r}; this resource-api reads {FORMAT}")
    _raise_problems(file, map(str, find_violations("state-export", document)))
    data_key = None
    if "sealing" in document:  # the salt authenticates the document as written: before fields are added to records
        data_key = DataKey.open(key, document["sealing"], file)
        rest = {name: value for name, value in document.items() if name != "sealed_salt"}
        document["salt"] = data_key.decrypt(document.get("sealed_salt"), rest)
    document["resources"] = [{**_DEFAULTS, **resource} for resource in document["resources"]]
    problems: list[str] = []
    for resource in document["resources"]:
        problems += (f"{resource['reference']}: {text}" for text in _contradictions(resource, document))
    _raise_problems(file, problems)
    state = _state(document, file)
    return state if data_key is None else data_key.bind_state(state)


def _raise_problems(file: str, messages: Iterable[str]) -> None:
    """Raise ``ManifestError`` with all ``messages``, if there are any."""
    if problems := [Problem(None, message, file=file, code="state") for message in messages]:
        raise ManifestError(problems)


def check_replacement(recorded: StackState, new: StackState, file: str, *, force: bool) -> StackState:
    """Return the state that may replace the ``recorded`` one; its serial is never lower.

    Unless ``force``, raises ``ManifestError`` for another lineage, a lower serial, or other content under the same
    serial: the document may be an outdated copy or belong to another stack. A document without encryption must not
    replace an encrypted stack; an empty stack accepts every other one.
    """
    reason = replacement_problem(recorded, new)
    if not reason:
        return new
    if not force:
        raise _refusal(file, f"{reason}; --force imports it nevertheless", "stale")
    # Above both serials: an older copy of either state is not taken for a newer one.
    return new._replace(serial=max(recorded.serial, new.serial) + 1) if recorded.serial else new


def replacement_problem(recorded: StackState, new: StackState) -> str:
    """Return the reason not to replace the ``recorded`` state by another, as the end of a message on it; or ""."""
    if recorded.encrypted and not new.encrypted:
        return "is not encrypted, and a key is named"
    if not recorded.serial:
        return ""
    if new.lineage != recorded.lineage:
        return f"is of another lineage ({new.lineage}) than what is recorded ({recorded.lineage})"
    if new.serial < recorded.serial:
        return f"has serial {new.serial}, older than what is recorded, {recorded.serial}"
    # The path of the manifest, which may differ on another machine, does not count.
    if new.serial == recorded.serial and to_document(new) != to_document(recorded._replace(manifest=new.manifest)):
        return f"has other content under the serial {new.serial} that is recorded"
    return ""


def _contradictions(resource: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the contradictions in an exported resource, which an edit of the document may have caused.

    The reference and the URN must be those of its parent, type and title, and its references to others well-formed.
    """
    try:
        stated = reference.parse(resource["reference"])
    except ValueError as error:
        yield str(error)
        return
    try:
        reference_in_parent = reference.Reference(resource["type"], resource["title"])
        composed = reference.child_reference(resource["parent"], *reference_in_parent)
        urn = str(reference.make_urn(document["stack"], document["project"], resource["parent"], reference_in_parent))
    except ValueError as error:
        yield f"'parent': {error}"
        return
    if stated != composed:
        yield f"the reference {resource['reference']} is not its parent, type and title"
    if resource["urn"] != urn:
        yield f"'urn' is {resource['urn']}, and its project, stack, parent, type and title make {urn}"
    for field, text in _references(resource):
        try:
            reference.parse(str(text))
        except ValueError as error:
            yield f"'{field}': {error}"


def _references(resource: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield (field, reference) for each reference to another resource, to check its form: an edit may have broken it.

    The form alone is checked: the other resource need not be recorded.
    """
    for text in resource["requires"]:
        yield "requires", text
    for sources in resource["value_requires"].values():
        for text in sources:
            yield "value_requires", text
    if resource["deleted_with"] is not None:
        yield "deleted_with", resource["deleted_with"]
    if resource["successor"]:
        yield "successor", resource["successor"]


def _state(document: Mapping[str, Any], file: str) -> StackState:
    """Return the state in a document of verified form. Raises ``ManifestError`` for two records of one resource."""
    records: dict[RecordKey, Record] = {}
    for resource in document["resources"]:
        name = reference.hashable_name(resource["name"])
        record = Record.from_dict({**resource, "is_": resource["is"], "name": name})
        if record.key in records:
            raise _refusal(file, f"{record.reference} and {records[record.key].reference} are one resource")
        records[record.key] = record
    owed = {(instance, reference.hashable_name(name)): sources for instance, name, sources in document["owed"]}
    fields = {key: document[key] for key in _FIELDS}
    salt = bytes.fromhex(document["salt"])
    return StackState(**fields, salt=salt, records=records, owed=owed, outputs=document["outputs"])


def _refusal(file: str, message: str, code: str = "state") -> ManifestError:
    """Return the error for a document that is not imported."""
    return ManifestError([Problem(None, message, file=file, code=code)])
