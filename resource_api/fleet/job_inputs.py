"""The contents of jobs, read on the controller: the files of a manifest, and the inputs of each host.

YAML is parsed here, and the files of assets and archives are read here. Inputs are checked against the manifest before
any host is connected to; secrets are in no inventory, which names their sources (``input_files``).
"""

from __future__ import annotations

import ast
import glob
import json
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from resource_api.fleet import host_names
from resource_api.manifest import read as reading
from resource_api.manifest.input_files import HOST, ValueSource, kind_of, literal, source_of
from resource_api.manifest.input_values import FileInput, input_values
from resource_api.manifest.python_positions import literal_section
from resource_api.manifest.sections import assemble
from resource_api.model.datatypes import datatype as datatypes
from resource_api.model.values import expression
from resource_api.model.values.assets import ORIGINS
from resource_api.model.values.document import AGE, Document
from resource_api.model.values.errors import DataTypeError, ManifestError, Problem, UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem.asset_contents import list_directory, open_trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.fleet.inventory import HostSettings, Inventory
    from resource_api.manifest.input_values import LocatedValue
    from resource_api.model.declaration import Input, Manifest
    from resource_api.system.filesystem.code_trust import CodeTrust

#: Largest total size of a manifest's assets and archives in bytes.
LARGEST: Final = 64 << 20
#: The keys of an asset or archive whose value is a path on this machine.
_LOCAL_ORIGINS: Final = ("file", "directory")


def read_documents(path: str, open_code: Callable[[str], int] | None = None) -> list[Document]:
    """Return the files of a manifest in the order of assembly, to send them to hosts.

    A Python manifest is not executed here, as it may use the facts of a host. ``open_code`` opens it, unless other
    users can change it. Raise ``ManifestError``, ``UsageError``.
    """
    # The data of a Python manifest is only ``INCLUDE``, which must be a literal.
    documents, problems = reading.load_documents(path, partial(literal_section, constant="INCLUDE"), open_code)
    if problems:
        raise ManifestError(problems)
    return documents


def declared_manifest(documents: Sequence[Document]) -> Manifest:
    """Return the manifest whose declarations the controller needs to check the inputs of hosts.

    Of a file that is included under a condition, only the declared inputs are added: the condition depends on the facts
    of each host, and hosts where it holds need these inputs. Raise ``ManifestError``.
    """
    manifest = reading.from_documents(documents)
    conditional = [assemble([document]).inputs for document in documents if document not in manifest.documents]
    inputs = {name: declaration for declared in conditional for name, declaration in declared.items()}
    return manifest._replace(inputs={**inputs, **manifest.inputs})


def file_contents(documents: Sequence[Document], inputs: Mapping[str, object], trust: CodeTrust) -> dict[str, bytes]:
    """Return the contents of the files for a manifest's assets and archives, by their paths in the manifest.

    Hosts lack these files, so they are sent with the job. A directory has an entry ``PATH/`` with the list of its
    members, and each of its files an own entry. All files that match a name with ``${...}`` are sent, since its value
    may depend on the host. Unreadable files are omitted: the host reports them with their declaration. Raise
    ``UsageError`` beyond the largest size, ``ResourceError`` for a link out of a directory or on a path that other
    users can change.
    """
    contents, size = dict[str, bytes](), 0
    for path in _asset_paths(documents, inputs):
        with suppress(OSError):
            for name, content in _contents_at(path, trust):
                size += len(content) - len(contents.get(name, b""))
                contents[name] = content
                if size > LARGEST:
                    msg = f"{name}: the files of a manifest for other hosts are at most {LARGEST >> 20} MiB together"
                    raise UsageError(msg)
    return contents


def _asset_paths(documents: Sequence[Document], inputs: Mapping[str, object]) -> Iterator[str]:
    """Yield the existing paths that the assets and archives in a manifest and in ``inputs`` may name, to send them.

    A path that several patterns match is yielded several times; the caller stores it once.
    """
    for document in documents:
        if document.file.endswith(".py"):
            patterns = _patterns_in_calls(document.raw)
        else:
            patterns = _patterns_in_data([document.data, *inputs.values()])
        directory = glob.escape(os.path.dirname(document.file))
        for pattern in patterns:
            yield from glob.iglob(os.path.join(directory, pattern))


def _patterns_in_data(value: object) -> Iterator[str]:
    """Yield the glob patterns of the local files in data, as ``{asset: {file: PATH}}``, to send these files to hosts.

    An asset may be at any depth. A mapping with further keys is no asset itself, but its members may be.
    """
    if isinstance(value, dict):
        for word, body in value.items():
            if len(value) == 1 and word in ORIGINS and isinstance(body, dict):
                yield from (_pattern(str(body[key])) for key in _LOCAL_ORIGINS if key in body)
            yield from _patterns_in_data(body)
    elif isinstance(value, list):
        for item in value:
            yield from _patterns_in_data(item)


def _pattern(text: str) -> str:
    """Return the glob pattern of a file name: each ``${...}``, whose value is known to the host only, becomes ``*``."""
    try:
        parsed = expression.parse(text)
    except ValueError:
        return glob.escape(text)
    parts = (parsed,) if isinstance(parsed, str) else parsed.parts
    return "".join(glob.escape(part) if isinstance(part, str) else "*" for part in parts)


def _patterns_in_calls(raw: bytes) -> Iterator[str]:
    """Yield the glob patterns of files in the calls of ``m.asset`` and ``m.archive`` of a Python manifest.

    It is not executed here, as it may use the facts of the host.
    """
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(raw)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ORIGINS:
                yield from (_node_pattern(word.value) for word in node.keywords if word.arg in _LOCAL_ORIGINS)


def _node_pattern(node: ast.expr) -> str:
    """Return the glob pattern of a file name in code: ``f"{name}.conf"`` is ``*.conf``, as only hosts compute ``name``.

    Another expression than a text or an f-string has the empty pattern, which matches no file.
    """
    if isinstance(node, ast.Constant):
        return glob.escape(str(node.value))
    parts = node.values if isinstance(node, ast.JoinedStr) else ()
    return "".join(_node_pattern(part) if isinstance(part, ast.Constant) else "*" for part in parts)


def _contents_at(path: str, trust: CodeTrust) -> Iterator[tuple[str, bytes]]:
    """Yield a file's path and content; for a directory first the list of its members, under its path with a slash.

    The host unpacks directories by this list. Raise ``OSError``, and ``ResourceError`` as ``list_directory`` does.
    """
    if not os.path.isdir(path):
        with open_trusted(path, trust) as file:
            yield path, file.read(LARGEST + 1)
        return
    listing = list_directory(path, trust)
    # The fields of each ``Member`` and its digest; its last field, ``parts``, is the content, which is yielded below.
    yield f"{path}/", json.dumps([[*member[:-1], digest] for member, digest in listing]).encode()
    for member, _ in listing:
        if member.kind == "file":
            yield from _contents_at(f"{path}/{member.name}", trust)


class CommonInputs(NamedTuple):
    """Inputs for all hosts: an inventory overrides the ``weaker`` ones, and ``stronger`` ones override it."""

    weaker: Mapping[str, object]
    stronger: Mapping[str, object]


class HostInputs:
    """Resolves the inputs of hosts; hosts with the same settings share the result."""

    def __init__(
        self, manifest: Manifest | None, inputs: CommonInputs, read: Callable[[ValueSource], str] = ValueSource.read
    ) -> None:
        """Check inputs by the declarations of ``manifest``; None, for a Python manifest, leaves that to the host.

        ``read`` returns the text of a source (file or command), or raises ``ValueError``.
        """
        self._manifest = manifest
        self._common_inputs = inputs
        self._read = read
        declared = manifest.inputs.items() if manifest else ()
        #: The names of inputs that no inventory may contain in clear.
        self._sensitive = {name for name, declaration in declared if _is_sensitive(declaration)}
        #: Source → its text: each is read once.
        self._texts: dict[ValueSource, str] = {}
        #: The id of settings → the inputs of all their hosts.
        self._shared: dict[int, Mapping[str, object]] = {}
        #: Problem → the names of its hosts.
        self._problems: dict[Problem, list[str]] = {}

    def of_all(self, hosts: Iterable[tuple[str, Inventory]]) -> dict[str, Mapping[str, object]]:
        """Return host → its inputs, computed before any connection, so that a mistake stops the run before a change.

        Raise ``ManifestError`` with the problems of all hosts.
        """
        inputs = {name: self._of(name, inventory.settings_of(name)) for name, inventory in hosts}
        if self._problems:
            raise ManifestError(
                problem._replace(reference=",".join(host_names.fold(names)))
                for problem, names in self._problems.items()
            )
        return inputs

    def _of(self, host: str, settings: HostSettings) -> Mapping[str, object]:
        """Return the inputs of a host, and collect its problems.

        They are resolved once for all hosts with the same settings, unless a source contains the host's name. A result
        with problems is not shared, so that each problem gets the names of all its hosts.
        """
        by_name = any(HOST in str(item.value) for item in settings.inputs.values() if kind_of(item.value))
        if not by_name and (shared := self._shared.get(id(settings))) is not None:
            return shared
        problems = dict[Problem, None]()
        inputs = self._resolved(host, settings, problems)
        for problem in problems:
            self._problems.setdefault(problem, []).append(host)
        if not by_name and not problems:
            self._shared[id(settings)] = inputs
        return inputs

    def _resolved(self, host: str, settings: HostSettings, problems: dict[Problem, None]) -> Mapping[str, object]:
        """Return the inputs of one host, checked by the manifest, with secrets marked; add errors to ``problems``.

        The values of its inventory override those of ``CommonInputs.weaker``, and ``stronger`` overrides both. Values
        of the inventory for inputs that this manifest does not declare are ignored: they may be for other manifests.
        """
        weaker, stronger = self._common_inputs
        names = settings.inputs.keys() - stronger.keys()
        if self._manifest is not None:
            names &= self._manifest.inputs.keys()
        from_inventory = {name: value for name, value in settings.inputs.items() if name in names}
        values = {name: self._value(host, name, value, problems) for name, value in from_inventory.items()}
        merged = {**weaker, **values, **stronger}
        if self._manifest is None:
            return merged
        resolved, errors = input_values(self._manifest, merged)
        for problem in errors:
            value = from_inventory.get(problem.attribute or "")
            problems[problem if value is None else value.locate(problem)] = None
        return {name: value for name, value in resolved.items() if name in merged}  # the host adds its defaults

    def _value(self, host: str, name: str, value: LocatedValue, problems: dict[Problem, None]) -> object:
        """Return the value of an input; add problems with its position to ``problems``.

        A source (file or command) is read once for all hosts, and its text may be a secret (``FileInput``). A secret
        that is written in the inventory itself is a problem, unless the inventory is encrypted.
        """
        source = source_of(value.value, value.directory, host)
        if source is None:
            if name in self._sensitive and not value.file.endswith(AGE):
                message = f"input '{name}' is sensitive and cannot be written here"
                hint = f"write {name}: {{file: PATH}} or {name}: {{command: PROGRAM}}"
                problems[value.locate(Problem(name, message, code="secret", hint=hint))] = None
            return literal(value.value)
        try:
            if source not in self._texts:
                self._texts[source] = self._read(source)
        except ValueError as error:
            problems[value.locate(Problem(name, f"input '{name}': {error}", code="input"))] = None
            return FileInput("")  # never used: problems end the command
        return FileInput(self._texts[source])


def _is_sensitive(declared: Input) -> bool:
    """Return whether the value of an input is secret, so that no inventory may contain it in clear.

    An input with a wrong data type counts as secret: a mistake must not show a secret.
    """
    try:
        return declared.sensitive or declared.ephemeral or datatypes.parse(declared.type).sensitive
    except (DataTypeError, ValueError):
        return True  # reported where the type is checked
