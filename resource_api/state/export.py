"""The whole of one stack as a document, and back: for backups, other machines, and other tools.

Secrets stay sealed, each stack's document with a data key of its own; the salt goes with them, since without it each
would look changed. What comes in is verified before anything is written. No file is read or written here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from resource_api.model import codec
from resource_api.model.record import STATUSES, Record, StackState
from resource_api.model.values import reference
from resource_api.model.values.errors import ManifestError, Problem
from resource_api.model.values.reference import STACK_NAME
from resource_api.state.encryption.envelope import DataKey, placed, rewritten
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.model.record import Key
    from resource_api.state.encryption import keys

#: The version of the document; its key is not ``format_version``, which is what tells a saved plan.
FORMAT: Final = 1

_KINDS: Final = {"project": str, "stack": str, "lineage": str, "serial": int, "manifest": str, "salt": str}
_RECORD: Final = {
    "title": str,
    "inputs": dict,
    "should": dict,
    "is": (dict, type(None)),
    "owned": bool,
    "requires": list,
    "value_requires": dict,
    "protect": bool,
    "retain": bool,
    "replace": (str, type(None)),
    "deleted_with": (str, type(None)),
    "external": bool,
    "provider": (str, type(None)),
    "schema_version": int,
    "status": str,
    "parent": str,
    "last_run": str,
}


def to_document(state: StackState, key: keys.Key | None = None) -> dict[str, Any]:
    """Give the document of a stack: plain JSON data; changes in doubt are of this machine and stay here.

    With a ``key`` secrets are in it as ciphertext, and nobody without it can alter anything.
    """
    vault = None if key is None else DataKey.generate(key, "the document")
    state = rewritten(state, name_of(state), vault)
    document = {
        "state_format": FORMAT,
        **{key: getattr(state, key) for key in _KINDS if key != "salt"},
        "salt": "" if vault else state.salt.hex(),
        "resources": [record_document(state, record) for record in state.records.values()],
        "owed": [[kind, name, sources] for (kind, name), sources in state.owed.items()],
        "outputs": state.outputs,
    }
    if vault is not None:
        document["sealing"] = vault.wrapped
        document["sealed_salt"] = vault.encrypt(state.salt.hex(), document)
    plain: dict[str, Any] = json.loads(codec.encode(document))
    return {key: plain[key] for key in document}


def record_document(state: StackState, record: Record) -> dict[str, Any]:
    """Give one resource of a stack as the document has it; secrets are ``Sealed`` still."""
    kept = {("is" if key == "is_" else key): value for key, value in record.to_dict().items()}
    return {"reference": str(record.reference), "urn": record_urn(state, record), **kept}


def record_urn(state: StackState, record: Record) -> str:
    """Give the name of a resource across stacks."""
    own = reference.Reference(record.type, record.title)
    return str(reference.make_urn(state.stack, state.project, record.parent, own))


def from_document(text: str, file: str, key: keys.Key | None = None) -> StackState:
    """Give the state in a document.

    Raises ``ManifestError`` with everything that is wrong in it, ``UsageError`` or ``StateError`` for one that is
    encrypted and that ``key`` does not open.
    """
    try:
        document = codec.decode(text)
    except (ValueError, LookupError, RecursionError) as error:
        raise _refused(file, f"is no document of 'state export': {error}") from error
    if not isinstance(document, dict) or "state_format" not in document:
        raise _refused(file, "is no document of 'state export'")
    if document["state_format"] != FORMAT:
        raise _refused(file, f"has format {document['state_format']!r}; this resource-api knows {FORMAT}")
    problems = _wrong(document, {**_KINDS, "resources": list, "owed": list, "outputs": dict}, "") or [
        f"'{key}' cannot be {document[key]!r}" for key in ("project", "stack") if not STACK_NAME.match(document[key])
    ]
    if not problems:
        # Who wrote it may not have known of components, nor of runs.
        document["resources"] = [
            {"parent": "", "last_run": "", **each} if type(each) is dict else each for each in document["resources"]
        ]
        for number, each in enumerate(document["resources"], 1):
            problems += _wrong_record(each, f"resource {number}: ", document)
    if problems:
        raise ManifestError([Problem(None, message, file=file, code="state") for message in problems])
    vault = DataKey.open(key, document["sealing"], file) if "sealing" in document else None
    if vault is not None:
        rest = {name: value for name, value in document.items() if name != "sealed_salt"}
        document["salt"] = vault.decrypt(document.get("sealed_salt"), rest)
    state = _state(document, file)
    return state if vault is None else placed(state, name_of(state), vault)


def check_replacement(known: StackState, new: StackState, file: str, *, force: bool) -> StackState:
    """Give what is to be written in place of ``known``; serials never go down.

    Raises ``ManifestError`` for another lineage, a lower serial, or other content under the same serial, unless
    ``force``, and for what nobody has proven where a key proves all else. An empty stack admits anything but that.
    """
    why = ""
    if known.encrypted and not new.encrypted:
        why = "is not encrypted, and a key is named"
    elif not known.serial:
        return new
    elif new.lineage != known.lineage:
        why = f"is of another lineage ({new.lineage}) than what is recorded ({known.lineage})"
    elif new.serial < known.serial:
        why = f"has serial {new.serial}, older than what is recorded, {known.serial}"
    elif new.serial == known.serial and to_document(new) != to_document(known._replace(manifest=new.manifest)):
        why = f"has other content under the serial {new.serial} that is recorded"
    if not why:
        return new
    if not force:
        raise _refused(file, f"{why}; --force takes it all the same", "stale")
    return new._replace(serial=max(known.serial, new.serial) + 1) if known.serial else new


def _wrong(found: Any, kinds: Mapping[str, Any], where: str) -> list[str]:
    """Give what is wrong with the keys of a mapping; a truth value is no number."""
    if not isinstance(found, dict):
        return [f"{where}is no mapping"]
    return [
        f"{where}'{key}' is missing or of the wrong kind"
        for key, kind in kinds.items()
        if key not in found or not isinstance(found[key], kind) or (kind is int and isinstance(found[key], bool))
    ]


def _wrong_record(each: Any, where: str, document: Mapping[str, Any]) -> list[str]:
    """Give what is wrong with one resource: kinds, names that contradict each other, words that mean nothing."""
    problems = _wrong(each, {**_RECORD, "reference": str, "urn": str, "type": str}, where)
    if problems:
        return problems
    where = f"{where}{each['reference']}: "
    try:
        named = reference.parse(each["reference"])
    except ValueError as error:
        return [f"{where}{error}"]
    try:
        own = reference.Reference(each["type"], each["title"])
        whole = reference.child_reference(each["parent"], *own)
        across = str(reference.make_urn(document["stack"], document["project"], each["parent"], own))
    except ValueError as error:
        return [f"{where}'parent': {error}"]
    if named != whole:
        problems.append(f"{where}the reference {each['reference']} is not its parent, type and title")
    if each["urn"] != across:
        problems.append(f"{where}'urn' is {each['urn']}, and its project, stack, parent, type and title make {across}")
    if not _is_name(each.get("name")):
        problems.append(f"{where}'name' is no name")
    if each["status"] not in STATUSES:
        problems.append(f"{where}'status' is {each['status']!r}; it can be {', '.join(STATUSES)}")
    return problems + [f"{where}'{key}': {flaw}" for key, found in _named(each) if (flaw := _flaw(found))]


def _named(each: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Give what names other resources in one, each with where it stands; they need not be recorded (any more)."""
    sources = each["value_requires"].items()
    yield from (("requires", found) for found in each["requires"])
    yield from (("value_requires", found) for _, many in sources for found in (many if type(many) is list else [many]))
    if each["deleted_with"] is not None:
        yield "deleted_with", each["deleted_with"]


def _flaw(text: Any) -> str:
    """Say why something is no reference; or nothing."""
    try:
        reference.parse(str(text))
    except ValueError as error:
        return str(error)
    return ""


def _is_name(name: Any) -> bool:
    parts = name if isinstance(name, list) else [name]
    return bool(parts) and all(isinstance(part, (str, int, float)) for part in parts)


def _state(document: Mapping[str, Any], file: str) -> StackState:
    """Put together what was found to be of the right kinds; identities must be told apart."""
    if document["serial"] < 1 or not document["lineage"]:
        raise _refused(file, "has no lineage or serial: nothing was recorded in it")
    try:
        salt = bytes.fromhex(document["salt"])
        owed = {(str(kind), _name(name)): [str(each) for each in sources] for kind, name, sources in document["owed"]}
    except (ValueError, TypeError) as error:
        raise _refused(file, f"'salt' or 'owed' cannot be read: {error}") from error
    records: dict[Key, Record] = {}
    for each in document["resources"]:
        values = {**each, "is_": each["is"], "name": _name(each["name"])}
        record = Record.from_dict(values)
        if record.key in records:
            raise _refused(file, f"{record.reference} and {records[record.key].reference} are one resource")
        records[record.key] = record
    plain = {key: document[key] for key in _KINDS if key != "salt"}
    return StackState(**plain, salt=salt, records=records, owed=owed, outputs=document["outputs"])


def name_of(state: StackState) -> StackName:
    """Give whose state it is."""
    return StackName(state.project, state.stack)


def _name(name: Any) -> Any:
    return tuple(name) if isinstance(name, list) else name


def _refused(file: str, message: str, code: str = "state") -> ManifestError:
    return ManifestError([Problem(None, message, file=file, code=code)])
