"""Read a manifest's files, or a program's mapping, and return one ``Manifest``.

This module finds the files and chooses the reader of each by its suffix; ``sections`` checks the contents. A mapping
becomes a document like a file's, under the same limits.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import conditions, json_reader, yaml_reader, yaml_scalar
from resource_api.manifest.sections import MAPPING, assemble
from resource_api.model.declaration import DocumentPath, SkippedInclude
from resource_api.model.values import document
from resource_api.model.values.document import Document, Violation, unknown_keys
from resource_api.model.values.errors import ManifestError, Problem, UsageError, suggestion
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import Sensitive
from resource_api.system import document_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resource_api.model.declaration import Manifest
    from resource_api.model.values.document import Node, Position

    Reader = Callable[[bytes, str], Document]


def _yaml(raw: bytes, file: str) -> Document:
    return yaml_reader.read(raw, file)


def _json(raw: bytes, file: str) -> Document:
    return json_reader.read(raw, file)


#: Suffix → reader of such files; it raises ``ManifestError``. The module of each is imported at its first use.
READERS: Final[dict[str, Reader]] = {".yaml": _yaml, ".yml": _yaml, ".json": _json}
#: The name of standard input in messages.
STDIN: Final = "<stdin>"
#: How many files of a directory a message names.
_SHOWN: Final = 5


def read(
    source: str | os.PathLike[str] | Mapping[str, object],
    python: Reader | None = None,
    open_code: Callable[[str], int] | None = None,
) -> Manifest:
    """Read a manifest from a file (``.yaml``, ``.yml``, ``.json``, ``.py``) or from a mapping of the same structure.

    ``python`` reads Python manifests: they need inputs and facts. ``open_code`` opens their files, and raises
    ``UntrustedCode`` if other users could have changed them. Raises ``ManifestError`` with every problem of every file,
    ``UsageError`` for a suffix without a reader.
    """
    if not isinstance(source, Mapping):
        file = os.fsdecode(source)
        return _load(file, python, open_code).manifest()._replace(path=os.path.abspath(file))
    copied = read_mapping(source, MAPPING)
    if copied.data.get("include") is not None:
        raise document.manifest_error(MAPPING, (0, 0), "include", "include needs a file that it is relative to")
    return assemble([copied])


def read_stdin(raw: bytes) -> Manifest:
    """Read a manifest from standard input, JSON or YAML; includes are relative to the working directory.

    Raises ``ManifestError``, also for empty input: a program that failed before declares nothing.
    """
    if not raw.strip():
        raise document.manifest_error(STDIN, (0, 0), "unreadable", "standard input is empty: nothing has written to it")
    loader = _Loader(READERS, {})
    loader.add(_json_or_yaml(raw, STDIN), "", 0, loader.roots)
    return loader.manifest()


def _json_or_yaml(raw: bytes, file: str) -> Document:
    """Read standard input, which has no suffix, as JSON if it starts like JSON, otherwise as YAML.

    YAML too may begin with ``{"``: it is tried second, and if both fail, JSON's error is raised.
    """
    text = raw.lstrip()
    if text[:1] != b"{" or text[1:].lstrip()[:1] not in {b'"', b"}"}:
        return yaml_reader.read(raw, file)
    try:
        return json_reader.read(raw, file)
    except ManifestError as error:
        with suppress(ManifestError):
            return yaml_reader.read(raw, file)
        raise error from None


def parse(raw: bytes, file: str) -> Document:
    """Return the document in the bytes of a file with the suffix of one of ``READERS``. Raises ``ManifestError``."""
    return READERS[_suffix(file)](raw, file)


def read_providers(path: str) -> Manifest:
    """Read a ``providers.yaml``, the configurations for the command ``resource TYPE``, as a manifest.

    The file maps names to entries of ``providers``, or is a manifest with that section beside ``inputs`` and
    ``values``; the first form is put under the key ``providers``, for the one parser of manifests. Raise
    ``ManifestError``, also for a condition on an included file.
    """
    loader = _load(path)
    for pending in loader.pending:  # a command chooses an entry by its name, before there are inputs for a condition
        loader.report(pending.source, ("include", pending.number, "when"), "a file of providers has no conditions")
    documents, problems = loader.documents, loader.problems
    if not problems:
        for source in documents:
            document_schema.check("providers", source, "provider")
    sections = [
        # {cloud: {...}} becomes {providers: {cloud: {...}}}
        source.beneath("providers") if source.data and "providers" not in source.data else source
        for source in documents
    ]
    return assemble(sections, problems)


def from_texts(files: Sequence[Mapping[str, Any]], root: str = "", path: str = "") -> Manifest:
    """Return the manifest in a saved plan, from its files' names, data and positions of keys.

    So a plan is applied unchanged even if the files have changed. ``root``: the directory of relative file names.
    ``path``: the manifest's path, or "". Raise ``ManifestError``, and ``ValueError`` for a file without a name.
    """
    if not all(isinstance(file["file"], str) and file["file"] for file in files):
        raise ValueError("a file of the manifest has no name")
    documents = []
    for file in files:
        heads: dict[str, dict[str, Position]] = {}
        for section, positions in file.get("places", {}).items():
            heads[section] = {key: (line, column) for key, (line, column) in positions.items()}
        documents.append(read_mapping(file["data"], file["file"], heads=heads))
    return assemble(documents)._replace(root=root, path=path)


def load_documents(
    path: str, python: Reader | None = None, open_code: Callable[[str], int] | None = None
) -> tuple[list[Document], list[Problem]]:
    """Read ``path`` and every file that it may include, also on a condition, which another machine may judge later.

    Return the readable documents, included files before the file that includes them, and the problems, which the caller
    may raise. Raise ``UsageError`` for a suffix without a reader.
    """
    loader = _load(path, python, open_code)
    loader.resolve(lambda _documents, _when: "")  # every condition holds
    return loader.documents, loader.problems


def from_documents(documents: Sequence[Document], path: str = "") -> Manifest:
    """Return the manifest of the documents that ``load_documents`` has read; no file is read again.

    So a host compiles the manifest that its controller has read. The named file is the last document; which others
    belong to the manifest, the conditions of ``include`` decide. ``path``: the manifest's path. Raise
    ``ManifestError``.
    """
    loader = _Loader({}, {}, {source.file: source for source in documents})
    loader.add(documents[-1], os.path.dirname(documents[-1].file), 0, loader.roots)
    return loader.manifest()._replace(path=path)


def _load(path: str, python: Reader | None = None, open_code: Callable[[str], int] | None = None) -> _Loader:
    """Read ``path`` and the files that it includes without conditions; the returned loader can read the others later.

    Raise ``UsageError`` with advice for a suffix without a reader, mostly a directory or a misspelt name.
    """
    readers = {**READERS, **({".py": python} if python is not None else {})}
    if _suffix(path) not in readers:
        ends = ", ".join(readers)
        msg = f"{path}: a manifest is a file that ends in {ends}; apply also takes a saved plan, whatever it is called"
        missing = "" if os.path.exists(path) else "there is no such file"
        hint = suggestion(_suffix(path), readers, "suffix") or nearest_file(path, path) or missing
        raise UsageError(f"{msg}; {hint}" if hint else msg)
    loader = _Loader(readers, {".py": open_code} if open_code is not None else {})
    loader.load(path, path, 0, loader.roots)
    return loader


def manifest_names(directory: str) -> list[str]:
    """Return the sorted names of a directory's files with a manifest's suffix, for hints. Raise ``OSError``."""
    return sorted(name for name in os.listdir(directory) if _suffix(name) in {*READERS, ".py"})


def nearest_file(path: str, written: str) -> str:
    """Return the hint on a manifest that cannot be read: the file with the nearest name, or a directory's manifests.

    ``path`` is the name with which this process opens it, ``written`` the same name in the user's form, which the hint
    keeps. Return "" without such a file.
    """
    root, name = (path, "") if os.path.isdir(path) else os.path.split(path)
    try:
        names = manifest_names(root or ".")
    except OSError:
        return ""
    if not name:
        return f"name one of its files: {', '.join(names[:_SHOWN])}" if names else "it holds no manifest"
    above = written.removesuffix(name)
    return "" if name in names else suggestion(written, [above + candidate for candidate in names])


def _open(path: str) -> int:
    # A named pipe would block until another process opens it.
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def read_file(path: str, open_file: Callable[[str], int] = _open) -> tuple[bytes, tuple[int, int]]:
    """Return the bytes of a regular file, and its device and inode, which identify it under any name.

    At most one byte more than the limit is read, so that the parser refuses a larger file; a named pipe or a device
    would never end. Raise ``OSError``, or ``ValueError`` with the reason.
    """
    descriptor = open_file(path)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(document.MAX_BYTES + 1), (status.st_dev, status.st_ino)
    finally:
        os.close(descriptor)


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()


class _File(NamedTuple):
    """A file that was read, and the files that each of its ``include`` entries added."""

    document: Document
    included: Sequence[list[_File]]

    def documents(self) -> Iterator[Document]:
        """Yield the documents of the included files, then its own: the order in which resources are applied."""
        for files in self.included:
            for file in files:
                yield from file.documents()
        yield self.document


class _PendingInclude(NamedTuple):
    """An entry of ``include``: its number, file and condition, the directory of the file, and the list to add it to."""

    source: Document
    number: int
    name: str
    when: object
    root: str
    depth: int
    files: list[_File]


class _Loader:
    """Reads a file and its includes, depth first, each file once; those with a condition when that is judged."""

    def __init__(
        self,
        readers: Mapping[str, Reader],
        openers: Mapping[str, Callable[[str], int]],
        sent: Mapping[str, Document] | None = None,
    ) -> None:
        """Load no file yet; ``readers``, ``openers``: suffix → the function that parses, or opens, such files.

        ``sent``: label → document of files that were read before, such as by a controller for this host: these are the
        only files then, and no file of this machine is read. None: files are read.
        """
        self._readers = readers
        self._openers = openers
        self._sent = sent
        #: The files that were added: device and inode, or label.
        self._seen: set[object] = set()
        #: The named file, in a list like the files of an ``include`` entry.
        self.roots: list[_File] = []
        #: The entries of ``include`` whose conditions were not judged yet.
        self.pending: list[_PendingInclude] = []
        self.problems: list[Problem] = []

    @property
    def documents(self) -> list[Document]:
        """The files so far, included ones first."""
        return [document for file in self.roots for document in file.documents()]

    def manifest(self) -> Manifest:
        """Return the manifest of the files so far; ``with_includes`` adds conditional ones, given inputs and facts."""
        manifest = assemble(self.documents, self.problems)
        return manifest._replace(with_includes=self._with_includes) if self.pending else manifest

    def _with_includes(self, judge: Callable[[Manifest, Any], str]) -> Manifest:
        """Return the manifest with the included files whose conditions hold, once inputs and facts are known.

        ``judge`` returns the reason that a condition does not hold, or "". It gets the manifest of the files so far,
        marked by ``with_includes`` as incomplete: an undeclared input is no problem in it.
        """
        skipped = self.resolve(
            lambda documents, when: judge(assemble(documents)._replace(with_includes=self._with_includes), when)
        )
        return assemble(self.documents, self.problems)._replace(skipped_includes=tuple(skipped))

    def resolve(self, judge: Callable[[Sequence[Document], Any], str]) -> list[SkippedInclude]:
        """Read the files of ``include`` whose conditions hold, and the files in these; return the files left out.

        ``judge`` returns why a condition does not hold with the documents so far, or "". An invalid condition is
        reported at its entry.
        """
        skipped = []
        while self.pending:  # a file that is read may add more
            pending = self.pending.pop(0)
            path: tuple[str | int, ...] = ("include", pending.number, "when")
            try:
                reason = judge(self.documents, pending.when)
            except conditions.ConditionError as error:
                self.report(pending.source, (*path, *error.path), str(error), error.hint)
                continue
            if reason:
                label = os.path.join(os.path.dirname(pending.source.file), pending.name)
                skipped.append(SkippedInclude(label, reason, DocumentPath(pending.source, path)))
            else:
                self._include(pending)
        return skipped

    def load(self, path: str, label: str, depth: int, files: list[_File]) -> str:
        """Read a file and its includes into ``files``, unless it was read before; return why it cannot be read, or "".

        The caller reports that reason at the entry of ``include``; mistakes in the file's text are added to
        ``problems``. ``label``: the file's name in messages. ``depth``: the number of files above it, each of which
        includes the next, for the limit of nested includes.
        """
        if self._sent is not None:
            if label in self._sent and label not in self._seen:
                self._seen.add(label)
                self.add(self._sent[label], os.path.dirname(path), depth, files)
            return ""
        try:
            raw, identity = read_file(path, self._openers.get(_suffix(path), _open))
        except (OSError, ValueError) as error:
            reason = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            if depth == 0:  # no entry includes the named file
                self.problems.append(document.problem(label, (0, 0), "unreadable", reason, nearest_file(path, path)))
            return reason
        if identity in self._seen:
            return ""
        self._seen.add(identity)
        try:
            source = self._readers[_suffix(path)](raw, label)
        except ManifestError as error:
            self.problems.extend(error.problems)
        else:
            self.add(source, os.path.dirname(path), depth, files)
        return ""

    def add(self, source: Document, root: str, depth: int, files: list[_File]) -> None:
        """Add a parsed file to ``files``, and read its includes, beneath the directory ``root``.

        An entry with a condition waits in ``pending`` until inputs and facts are known. The empty list at its position
        is filled then, so that the order of files does not depend on the time of reading. ``depth`` as for ``load``.
        """
        names = source.data.get("include") if type(source.data) is dict else None
        if names is not None and type(names) is not list:
            self.report(source, ("include",), "include must be a list of files", "write include: [other.yaml]")
            names = None
        included: list[list[_File]] = [[] for _ in names or ()]
        files.append(_File(source, included))
        for number, entry in enumerate(names or ()):
            if type(entry) is dict and not self._is_valid(source, number, entry):
                continue
            name, when = (entry["file"], entry.get("when")) if type(entry) is dict else (entry, None)
            pending = _PendingInclude(source, number, name, when, root, depth, included[number])
            if when is None:
                self._include(pending)
            else:
                self.pending.append(pending)

    def _is_valid(self, source: Document, number: int, entry: dict[str, object]) -> bool:
        """Return whether an entry ``{file: F, when: C}`` of ``include`` is valid; report its mistakes."""
        path: tuple[str | int, ...] = ("include", number)
        violations = list(unknown_keys(path, entry, ("file", "when"), "include"))
        if "file" not in entry:
            message = "an entry of include that is a mapping has file"
            violations.insert(0, Violation(path, message, "write {file: F, when: ...}"))
        if entry.get("when") is not None:
            violations += conditions.violations((*path, "when"), entry["when"])
        for violation in violations:
            self.report(source, violation.path, violation.message, violation.hint)
        return not violations

    def _include(self, entry: _PendingInclude) -> None:
        """Read the file of an entry of ``include``, or report at the entry why it cannot be included.

        Files that were read before (``sent``) were checked then: the check needs their directories.
        """
        reason, hint = _refusal(entry.root, entry.name, entry.depth) if self._sent is None else ("", "")
        if not reason:
            # The path to open, and the name for messages, relative to the name of the including file.
            target = os.path.join(entry.root, entry.name)
            label = os.path.join(os.path.dirname(entry.source.file), entry.name)
            reason = self.load(target, label, entry.depth + 1, entry.files)
            hint = nearest_file(target, entry.name) if reason else ""
            reason = reason and f"the included file {reason}"
        if reason:
            self.report(entry.source, ("include", entry.number), reason, hint)

    def report(self, source: Document, path: tuple[str | int, ...], message: str, hint: str = "") -> None:
        """Add the problem of an entry of ``include``, or of the part of it at ``path``."""
        self.problems.append(document.problem(source.file, source.position(path), "include", message, hint))


def _refusal(root: str, name: object, depth: int) -> tuple[str, str]:
    """Return why a file in ``root`` may not include ``name``, such as one outside, and a hint; or two empty texts."""
    if type(name) is not str or not name:
        return "an included file must be a name", ""
    if "${" in name:
        return "an included file's name cannot hold ${...}", ""
    if _suffix(name) not in READERS:
        return f"an included file ends in {', '.join(READERS)}", ""
    if depth >= document.MAX_DEPTH:
        return f"files include each other more than {document.MAX_DEPTH} deep", ""
    hint = "an included file lies beneath the directory of the file that includes it"
    if os.path.isabs(name) or ".." in name.split("/"):
        return "the name leads out of this file's directory", hint
    real = os.path.realpath(root)
    target = os.path.realpath(os.path.join(real, name))
    if os.path.commonpath([real, target]) != real:
        return "a symbolic link leads out of this file's directory", hint
    return "", ""


def read_mapping(
    data: Mapping[Any, object],
    file: str,
    index: Callable[[], Node] | None = None,
    heads: Mapping[str, Mapping[str, Position]] | None = None,
    scalars: tuple[type, ...] = (Sensitive,),
) -> Document:
    """Return data from Python code as a document, so that later stages treat it like a file's.

    It is copied and checked: tuples become lists, sensitive values stay wrapped. ``index`` returns the positions of
    everything in ``data``; without it only ``heads`` are known: section → key → position. ``scalars``: the accepted
    classes of values beyond JSON's. Raise ``ManifestError`` for a value of any other class.
    """
    copier = _Copier(Document(None, file, b"", index), scalars)
    copied = copier.copy(data, ())
    if copier.problems:
        raise ManifestError(copier.problems)
    # The text form of a sensitive value is <sensitive>: no secret enters the bytes.
    return Document(copied, file, json.dumps(copied, default=str).encode(), index, heads)


class _Copier:
    """Copies nested values within the limits of depth and size, and collects problems."""

    def __init__(self, positions: Document, scalars: tuple[type, ...]) -> None:
        """Prepare to copy data from Python code; ``positions``: a document that has the positions for problems.

        ``scalars``: the accepted classes of values beyond JSON's.
        """
        self._positions = positions
        self._scalars = scalars
        self._weight = 0
        self.problems: list[Problem] = []

    def copy(self, value: object, path: tuple[str, ...]) -> Any:
        """Copy a value as plain dictionaries, lists and scalars; ``path``: the keys around the value.

        A collection beyond a limit is reported and becomes None. The limit of depth ends a list that contains itself,
        and the limit of size data that would fill the memory, with the same weight of each value as in a file.
        """
        self._weight += document.NODE_WEIGHT
        if not isinstance(value, (list, tuple, Mapping)):
            return self._scalar(value, path)
        if self._weight > document.MAX_EXPANSION:
            if not any(problem.code == "limit" for problem in self.problems):
                self._add((), "limit", "the data is larger than the limit")
            return None
        if len(path) >= document.MAX_DEPTH:
            # The outermost keys name the resource; all of them would not be readable.
            self._add(path[:3], "limit", f"nested deeper than {document.MAX_DEPTH}")
            return None
        if isinstance(value, Mapping):
            return {(text := self._key(key, path)): self.copy(value[key], (*path, text)) for key in value}
        return [self.copy(item, (*path, str(number))) for number, item in enumerate(value)]

    def _key(self, key: object, path: tuple[str, ...]) -> str:
        """Return the text of a mapping's key; report an invalid one, and go on with its ``repr`` to check its value."""
        if isinstance(key, str):
            text, message = str(key), document.character_problem(key, key=True)
        else:
            text, message = f"{key!r:.80}", "a key must be a string"
        if message:
            self._add(path, "encoding", message, text)
        return text

    def _scalar(self, value: object, path: tuple[str, ...]) -> Any:
        """Return a scalar, and report it if it would be invalid in a manifest file.

        A text of a subclass of ``str`` becomes a plain ``str``, because later stages compare types.
        """
        message = ""
        if isinstance(value, str):
            value = str(value)
            message = document.character_problem(value, key=False)
        elif isinstance(value, (int, float)):
            message = yaml_scalar.number_problem(value)
        elif value is not None and not isinstance(value, self._scalars):
            message = document.type_problem(value)
        if message:
            self._add(path, "value", message)
        return value

    def _add(self, path: tuple[str, ...], code: str, message: str, *key: str) -> None:
        """Add a problem of the value under the keys ``path``, or of the ``key`` in that mapping if one is passed."""
        prefix, position = ".".join(path), self._positions.position((*path, *key))
        message = f"{prefix}: {message}" if prefix else message
        self.problems.append(document.problem(self._positions.file, position, code, message))
