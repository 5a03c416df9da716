"""What the program has written and reads again: state, its marker, exports, saved plans, envelopes, the cache."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from base64 import b64encode
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from resource_api.model.values.errors import StateError, UsageError
from resource_api.runtime import saved_plan
from resource_api.runtime.environment import read_saved_plan
from resource_api.state import export
from resource_api.state.encryption.keys import key_from_url
from resource_api.state.encryption.secret_encryption import DataKey
from resource_api.state.sqlite.recovery import read_marker
from resource_api.state.sqlite.store import SqliteStore, _digest
from resource_api.state.store import StackName
from tests.fuzz import things
from tests.fuzz.target import target

#: Files there are never written to a disk.
MEMORY: Final = "/dev/shm"  # noqa: S108 - a new directory of our own is made in it
MANIFEST: Final[dict[str, Any]] = {
    "project": "site",
    "inputs": {"word": {"type": "String", "default": "x"}},
    "resources": {
        "Thing[a]": {"size": 1, "parts": ["x", "y"], "tree": {"k": [1, None, "${inputs.word}"]}},
        "Thing[b]": {"require": "Thing[a]", "mode": "0644", "lifecycle": {"protect": True, "replace": "never"}},
        "Thing[c]": {"size": "${Thing[a].size}", "origin": "here", "lifecycle": {"deleted_with": "Thing[b]"}},
    },
    "outputs": {"size": "${Thing[a].size}"},
}
SECRETS: Final[dict[str, Any]] = {
    **MANIFEST,
    "resources": {**MANIFEST["resources"], "Thing[s]": {"token": "swordfish-42", "pin": "swordfish-43"}},
}
JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10)
    | st.text(max_size=5)
    | st.sampled_from(["Thing[a]", "ready", "x@y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WORDS: Final = """
    "state_format" "format_version" "project" "stack" "lineage" "serial" "manifest" "salt" "resources" "owed" "outputs"
    "reference" "urn" "type" "title" "name" "inputs" "should" "is" "owned" "requires" "value_requires" "protect"
    "retain" "replace" "deleted_with" "external" "provider" "schema_version" "status" "parent" "last_run" "sealing"
    "sealed_salt" "box" "digest" "$resource_api" "sealed" "asset" "archive" "sha256" "files" "text" "kind" "wrapped"
    "ready" "tainted" "steps" "drift" "summary" "applicable" "complete" "options" "directory" "files" "data" "include"
    null true false 1 -1 1e999 [] {} "Thing[a]" "urn:resource:default::site::thing::a" NaN Infinity \\ud800 \\u0000
"""


@cache
def directory() -> Path:
    """Return a directory for what must be a file, in memory where there is ``/dev/shm``; removed at the end."""
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    result = tempfile.mkdtemp(prefix=f"fuzz-{os.getpid()}-", dir=memory)
    atexit.register(shutil.rmtree, result, ignore_errors=True)
    return Path(result)


@cache
def key() -> Any:
    """Return a key in a file."""
    path = directory() / "key"
    path.write_bytes(b64encode(bytes(range(32))))
    path.chmod(0o600)
    return key_from_url(f"file:{path}", {})


def _applied(manifest: dict[str, Any], path: str, with_key: Any = None) -> Any:
    """Return a runtime whose state is in a new database, after an apply of the manifest."""
    things.reset()
    runtime = things.runtime(state=f"sqlite:{path}")
    runtime.key = with_key
    assert runtime.apply(manifest).exit_code == 0
    return runtime


@cache
def exports() -> tuple[str, str]:
    """Return the export of a state, and an encrypted one."""
    entries = []
    for number, arguments in enumerate((None, key())):
        path = directory() / f"export{number}"
        shutil.rmtree(path, ignore_errors=True)
        runtime = _applied(SECRETS, str(path / "state.db"), arguments)
        state = runtime.store.load(StackName("site", "default"))._replace(lineage="l" * 32, salt=bytes(32))
        entries.append(json.dumps(export.to_document(state, arguments)))
    return entries[0], entries[1]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(entry for at, item in inner for entry in _paths(item, (*path, at)))]


def _changed(text: str, changes: list[tuple[int, Any]]) -> bytes:
    """Return a JSON document in which the values at some places are others; ``...`` removes one."""
    document = json.loads(text)
    for number, value in changes:
        *outer, last = (paths := _paths(document))[number % len(paths)] or (None,)
        if last is None:
            continue
        result = document
        for step in outer:
            result = result[step]
        if value is ...:
            del result[last]
        else:
            result[last] = value
    return json.dumps(document).encode()


CHANGES: Final = st.lists(st.tuples(st.integers(0, 500), JSON | st.just(...)), max_size=4)


@target(generate=st.builds(lambda which, how: _changed(exports()[which], how), st.integers(0, 1), CHANGES), words=WORDS)
def state_export(data: bytes) -> None:
    """Documents of `state export`, plain and encrypted, read as `state import` does."""
    text = data.decode("utf-8", "surrogateescape")
    arguments = key() if '"sealing"' in text else None
    document = export.from_document(text, "export.json", arguments)
    again = export.from_document(json.dumps(export.to_document(document)), "export.json")
    assert again.records.keys() == document.records.keys(), "an imported state is not what it exports"
    with suppress(StateError):
        export.check_replacement(document, document._replace(serial=document.serial + 1), "export.json", force=False)
    path = str(directory() / "imported" / "state.db")
    shutil.rmtree(directory() / "imported", ignore_errors=True)
    store = SqliteStore(path)
    name = StackName(document.project, document.stack)
    with store.lock("state import", 0):
        store.overwrite(name, export.remove_secrets(document))
    assert SqliteStore(path).load(name).records.keys() == document.records.keys(), (
        "a stored state is not what was imported"
    )


@cache
def plans() -> tuple[str, str]:
    """Return a saved plan, and an encrypted one with secrets."""
    entries = []
    for number, (manifest, arguments) in enumerate(((MANIFEST, None), (SECRETS, key()))):
        things.reset()
        path = directory() / f"plan{number}.json"
        saved_plan.write(things.runtime().plan(manifest), str(path), arguments)
        entries.append(path.read_text(encoding="utf-8"))
    return entries[0], entries[1]


@target(generate=st.builds(lambda which, how: _changed(plans()[which], how), st.integers(0, 1), CHANGES), words=WORDS)
def plan_file(data: bytes) -> None:
    """Saved plans, plain and encrypted, read and applied."""
    path = directory() / "given.json"
    path.write_bytes(data)
    if (document := read_saved_plan(str(path))) is None:
        return
    things.reset()
    runtime = things.runtime()
    runtime.key = key() if b'"sealing"' in data else None
    report = runtime.apply_saved(saved_plan.SavedPlan(document, "given.json", runtime.key), {})
    assert report.exit_code in {0, 1}


@cache
def _database() -> dict[str, bytes]:
    """Return the files of a state, by name."""
    file = directory() / "whole"
    shutil.rmtree(file, ignore_errors=True)
    _applied(MANIFEST, str(file / "state.db"))
    return {str(path.relative_to(file)): path.read_bytes() for path in sorted(file.rglob("*")) if path.is_file()}


EDIT: Final = st.builds(
    lambda value, subject: value.to_bytes(3, "big") + bytes([len(subject)]) + subject,
    st.integers(0, 1 << 17),
    st.binary(max_size=8),
)


@target(
    generate=st.builds(
        lambda which, edits: bytes([which]) + b"".join(edits), st.integers(0, 7), st.lists(EDIT, max_size=6)
    )
)
def state_files(data: bytes) -> None:
    """State on disk: the database, its marker and its copies, with bytes changed, cut off or removed.

    The first byte chooses the file and whether to cut it or its marker; then each edit has a place, a length, bytes.
    """
    file = directory() / "damaged"
    shutil.rmtree(file, ignore_errors=True)
    files = _database()
    names = sorted(files)
    which, at = (data[:1] or b"\0")[0], 1
    name = names[which % len(names)]
    content = bytearray(files[name])
    while at + 4 <= len(data):
        offset, size = int.from_bytes(data[at : at + 3], "big") % (len(content) + 1), data[at + 3]
        content[offset : offset + size] = data[at + 4 : at + 4 + size]
        at += 4 + size
        if which & 0x80:
            del content[offset:]
    for key, whole in files.items():
        (file / key).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (file / key).write_bytes(bytes(content) if key == name else whole)
        (file / key).chmod(0o600)
    if which & 0x40:
        (file / names[which % 5 % len(names)]).unlink()
    path = str(file / "state.db")
    read_marker(path)
    with suppress(StateError):
        SqliteStore(path).check()
    with suppress(StateError):
        SqliteStore(path).load(StackName("site", "default"))
    things.reset()
    try:
        things.runtime(state=f"sqlite:{path}").apply(MANIFEST)
    finally:
        with suppress(StateError):
            SqliteStore(path).recover(0)


@cache
def _envelope() -> tuple[dict[str, Any], str]:
    result = DataKey.generate(key(), "the plan")
    return dict(result.wrapped), result.encrypt({"a": 1}, "bound")


@target(
    generate=st.builds(
        lambda how: _changed(json.dumps([_envelope()[0], _envelope()[1], b64encode(bytes(range(32))).decode()]), how),
        CHANGES,
    ),
    words=WORDS + ' "format" "file" "passphrase" "age" "n" "r" "p" 32768 -----BEGIN',
)
def envelope(data: bytes) -> None:
    """Encrypted envelopes: a wrapped data key, a ciphertext and the content of a key file."""
    with suppress(ValueError, RecursionError):
        document = json.loads(data)
        if not isinstance(document, list) or len(document) != 3:
            return
        wrapped, box, content = document
        if isinstance(wrapped, dict) and wrapped.get("kind") == "passphrase" and wrapped.get("n") != 2:
            return  # the cost of scrypt is bounded, and half a second is what it is for
        path = directory() / "other-key"
        path.write_text(str(content), encoding="utf-8", errors="surrogatepass")
        path.chmod(0o600)
        kind = str(wrapped.get("kind")) if isinstance(wrapped, dict) else ""
        for url in {f"file:{path}", f"{kind if kind in {'age', 'passphrase'} else 'file'}:{path}"}:
            with suppress(StateError, UsageError):
                DataKey.open(key_from_url(url, {}), wrapped, "given").decrypt(box, "bound")
        DataKey.open(key(), wrapped, "given").decrypt(box, "bound")


@cache
def _conclusion() -> tuple[str, str, Path, str]:
    """Return the database, the manifest, the cache entry of a run that had nothing to do, and its content."""
    target = directory() / "cached"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    manifest = target / "site.json"
    resources = {f"Fixed[{name}]": {"size": 1} for name in "abc"}
    resources["Fixed[d]"] = {"size": 1, "require": "Fixed[a]"}
    manifest.write_text(json.dumps({"project": "site", "resources": resources}), encoding="utf-8")
    path = str(target / "state.db")
    for _ in range(2):
        assert things.runtime(state=f"sqlite:{path}").apply(str(manifest), use_cache=True).exit_code == 0
    (entry,) = (file for file in Path(f"{path}.converged").iterdir() if len(file.name) == 32)
    return path, str(manifest), entry, entry.read_text(encoding="utf-8").partition("\n")[2]


@target(
    generate=st.lists(st.tuples(st.integers(-90, 20), JSON), max_size=3).map(lambda item: json.dumps(item).encode())
)
def cached_conclusion(data: bytes) -> None:
    """The no-change cache: an entry with a valid digest in which values at some places are others.

    The input is a list of places and values; one that is no such list is the content of the entry itself.
    """
    path, manifest, entry, whole = _conclusion()
    content = data
    with suppress(ValueError, TypeError, LookupError, RecursionError):
        content = _changed(whole, [(int(number), value) for number, value in json.loads(data)[:5]])
    entry.write_bytes(_digest(content).encode() + b"\n" + content)
    things.runtime(state=f"sqlite:{path}").plan(manifest, use_cache=True)
