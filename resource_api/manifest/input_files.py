"""Files of inputs: the one of a stack, those of ``--inputs``, inventories; plain, or encrypted with age (`*.age`).

An encrypted file is decrypted in memory; its text is in no message (contract §10.10). A value in a file may be a
source, a mapping whose only key is ``file``, ``env``, ``command`` or ``terraform_state``: the outputs of a state file
of Terraform, the secret ones wrapped.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.input_values import FileInput, LocatedValue
from resource_api.manifest.read import READERS, read_file
from resource_api.model.values.document import AGE, MAX_BYTES, manifest_error
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ManifestError, Problem, UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import Sensitive
from resource_api.system import age, document_schema
from resource_api.system.filesystem.code_trust import CodeTrust
from resource_api.system.process import interactive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.manifest.read import Reader
    from resource_api.model.values.document import Document
    from resource_api.system.age import Identities

#: Stands for the name of a host in an inventory.
HOST: Final = "${host.name}"
#: Kind of source → its value in words.
_KINDS: Final = {
    "file": "the path of a file",
    "env": "the name of a variable of the environment",
    "command": "a program and its arguments",
    "terraform_state": "the path of a state file of Terraform",
}
#: The kinds whose value is a path.
_PATHS: Final = frozenset({"file", "terraform_state"})
#: The version of the state files that are understood.
_STATE_VERSION: Final = 4
#: The only key of a mapping around a literal mapping that would be a source.
_LITERAL: Final = "value"


class ValueSource(NamedTuple):
    """A file, a variable of the environment, a program that prints the value, or a state file of Terraform."""

    #: ``file``, ``env``, ``command`` or ``terraform_state``.
    kind: str
    #: The path, the name of the variable, or the command line in the syntax of a shell.
    text: str
    #: The directory that paths are relative to, that of the file with the source; empty: the working directory.
    directory: str

    @property
    def name(self) -> str:
        """The name for messages: the path, the variable, or the program without its arguments, which may be secret.

        A command that cannot be split into words, as with an open quote, has the name ``command``.
        """
        if self.kind == "command":
            try:
                return shlex.split(self.text)[0]
            except (LookupError, ValueError):
                return self.kind
        return self.path if self.kind in _PATHS else self.text

    @property
    def path(self) -> str:
        """The path of a file."""
        return os.path.join(self.directory, self.text)

    def document(self) -> dict[str, str]:
        """Return the source as an inventory declares it, its path relative to the working directory."""
        return {self.kind: self.path if self.kind in _PATHS else self.text}

    def outputs(self) -> dict[str, Any]:
        """Return a Terraform state's outputs by name, secrets wrapped. Raise ``ValueError`` for any other file."""
        with suppress(json.JSONDecodeError, LookupError, TypeError, AttributeError, RecursionError):
            document = json.loads(self.read())
            if document["version"] == _STATE_VERSION:
                rows = document.get("outputs", {}).items()
                return {name: Sensitive(row["value"]) if row.get("sensitive") else row["value"] for name, row in rows}
        msg = f"{self.name}: it is no state file of Terraform of version {_STATE_VERSION}, or an encrypted one"
        raise ValueError(msg)

    def read(self) -> str:
        """Return the text of the source without the last line end, which editors and programs add.

        Raise ``ValueError`` with the name and the reason, but without the value or a program's output, which may be
        secret.
        """
        try:
            raw = self._content()
            if len(raw) <= MAX_BYTES:
                return raw.decode().removesuffix("\n")
            reason = f"it is larger than {MAX_BYTES // 1_000_000} MB"
        except UnicodeDecodeError:
            reason = "it is not UTF-8"
        except OSError as error:
            reason = error.strerror or str(error)
        except ValueError as error:
            reason = str(error)
        raise ValueError(f"{self.name}: {reason}")

    def _content(self) -> bytes:
        """Return the bytes of a file or variable, or the output of a program. Raise ``ValueError``, ``OSError``.

        A program that other users could have changed is refused: it would run as this user, often root.
        """
        if self.kind in _PATHS:
            return read_file(self.path)[0]
        if self.kind == "env":
            if text := os.environ.get(self.text):
                return os.fsencode(text)
            raise ValueError("the environment has no such variable, or it is empty")
        words, directory = shlex.split(self.text), self.directory or "."
        program = shutil.which(os.path.join(directory, words[0]) if "/" in words[0] else words[0]) if words else None
        if program and (reason := CodeTrust().check_file(os.path.abspath(program))):
            raise ValueError(f"it is not executed, because others could have changed it: {reason}")
        # A program that asks for something needs the terminal; elsewhere its messages might end in a log.
        return interactive.output(words, directory, MAX_BYTES, quiet=not sys.stderr.isatty())


def kind_of(value: object) -> str | None:
    """Return the kind of source in an input's value, ``file`` for ``{file: PATH}``, or None for a literal value.

    A source is read when the inputs are resolved; a literal value is used as it is.
    """
    if type(value) is not dict or len(value) != 1:
        return None
    (kind,) = value
    return kind if kind in _KINDS else None


def source_problem(value: Any) -> str:
    """Return why an input's value is an invalid source, such as ``{env: [A, B]}``, or "" if it is valid or no source.

    A source has one text, as in ``{env: NAME}``; only ``command`` may also have a list of words.
    """
    if (kind := kind_of(value)) is None:
        return ""
    is_list = kind == "command" and type(value[kind]) is list
    words: Sequence[object] = value[kind] if is_list else [value[kind]]
    if words and words[0] and all(type(word) is str for word in words):
        return ""
    return f"{kind} must be {_KINDS[kind]}; a literal mapping is written {{value: {{{kind}: ...}}}}"


def source_advice(value: object) -> str:
    """Return advice on a literal value that may be meant as a source, such as ``{file: a, env: B}``, or "".

    It becomes the hint of a problem with the input, mostly that its data type refuses the mapping.
    """
    if type(value) is dict and len(value) > 1 and value.keys() <= _KINDS.keys():
        return f"a source has exactly one of {', '.join(_KINDS)}"
    return "a source is the whole value of an input, and no part of it" if _has_source(value) else ""


def _has_source(value: object) -> bool:
    """Return whether a value has, at any depth, a mapping such as ``{file: PATH}``."""
    parts = value.values() if type(value) is dict else value if type(value) is list else ()
    return any(kind_of(part) or _has_source(part) for part in parts)


def source_of(value: Any, directory: str, host: str = HOST) -> ValueSource | None:
    """Return the source that an input's value describes, as in ``{file: PATH}``, or None for a literal value.

    ``host`` replaces ``${host.name}`` in it, for a file of each host. A command in a list of words becomes one text.
    """
    if (kind := kind_of(value)) is None:
        return None
    text = shlex.join(value[kind]) if type(value[kind]) is list else value[kind]
    return ValueSource(kind, text.replace(HOST, host), directory)


def literal(value: Any) -> Any:
    """Return an input's value without ``{value: {...}}``, the escape around a mapping that looks like a source."""
    if type(value) is dict and value.keys() == {_LITERAL} and type(value[_LITERAL]) is dict:
        return value[_LITERAL]
    return value


def suffix(path: str) -> str:
    """Return the suffix of a file's format: ``.yaml`` for ``secrets.yaml.age``, which is encrypted."""
    return os.path.splitext(path.removesuffix(AGE))[1].lower()


#: The codes of problems whose messages never repeat the text of a file.
_CONSTANT: Final = frozenset({"syntax", "inputs"})


class InputFiles:
    """Reads files of inputs and the sources that they name."""

    def __init__(self, trust: CodeTrust, identities: Identities | None = None) -> None:
        """``trust`` checks files that name programs; ``identities`` decrypt those that are encrypted."""
        self._trust = trust
        self._identities = identities

    def parse(self, raw: bytes, path: str) -> Document:
        """Return the document of a file of inputs: YAML unless its suffix is JSON's; ``.age`` is decrypted.

        Raise ``UsageError`` for an encrypted file without identities, ``ManifestError`` for an invalid one, without its
        text if it is encrypted.
        """
        if not path.endswith(AGE):
            return reader_of(path)(raw, path)
        text = self.decrypt(raw, path)
        try:
            return reader_of(path)(text, path)
        except ManifestError as error:
            raise without_text(error) from None

    def decrypt(self, raw: bytes, path: str) -> bytes:
        """Return the content of a file that is encrypted with age, decrypted in memory.

        Raise ``UsageError`` without a key, and ``ManifestError`` for a wrong one or a file that is not encrypted.
        """
        if self._identities is None:
            raise UsageError(f"{path} is encrypted; name its key with --inputs-key age:PATH or RESOURCE_API_INPUTS_KEY")
        try:
            return self._identities.decrypt(raw)
        except ValueError as error:
            reason = error if age.is_encrypted(raw) else "it is not encrypted with age"
            message = f"cannot be decrypted with --inputs-key age:{self._identities.path}: {reason}"
            raise manifest_error(path, (0, 0), "inputs", message) from error

    def values(self, path: str) -> dict[str, LocatedValue]:
        """Return the values of a file of inputs by name, after the check of its programs.

        Sources are not read yet. Raise ``UsageError`` for an unreadable file, and as ``parse`` and ``check_programs``
        do.
        """
        with errors_as(UsageError, OSError, f"cannot read {path}: "), open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        values = located_values(self.parse(raw, path))
        self.check_programs(path, values.values())
        return values

    def check_programs(self, path: str, values: Iterable[LocatedValue]) -> None:
        """Raise ``UntrustedCode`` for a file with programs, which would be run, that other users can change."""
        if any(kind_of(value.value) == "command" for value in values):
            try:
                os.close(self._trust.open(path))  # opened only for the check
            except OSError as error:
                message = f"names programs, and cannot be checked: {error.strerror or error}"
                raise manifest_error(path, (0, 0), "inputs", message) from error

    @staticmethod
    def source_files(values: Iterable[LocatedValue]) -> list[str]:
        """Return the paths of the files of sources among the values, to be checked like files of inputs."""
        sources = [source_of(value.value, value.directory) for value in values]
        return [source.path for source in sources if source is not None and source.kind in _PATHS]

    def resolve(self, values: Mapping[str, LocatedValue]) -> dict[str, Any]:
        """Return the values of inputs by name: literal ones as they are, and for sources the text that is read now.

        Such a text is a ``FileInput``, which may be a secret and is converted to the input's data type later. Raise
        ``ManifestError`` with a problem for each source that cannot be read.
        """
        resolved, problems = dict[str, Any](), list[Problem]()
        for name, value in values.items():
            source = source_of(value.value, value.directory)
            try:
                if source is None:
                    resolved[name] = literal(value.value)
                elif source.kind == "terraform_state":
                    resolved[name] = source.outputs()
                else:
                    resolved[name] = FileInput(source.read())
            except ValueError as error:
                problems.append(value.locate(Problem(name, f"input '{name}': {error}", code="input")))
        if problems:
            raise ManifestError(problems)
        return resolved


def located_values(document: Document) -> dict[str, LocatedValue]:
    """Return the values of a document of inputs by name, each with its position for problems. Raise ``ManifestError``.

    A source such as ``{file: PATH}`` is only checked here, and read by ``InputFiles.resolve``.
    """
    document_schema.check("inputs", document, "inputs")
    file = document.file
    values = {name: LocatedValue(value, file, *document.position((name,))) for name, value in document.data.items()}
    problems = [
        value.locate(Problem(name, f"input '{name}': {message}", code="input"))
        for name, value in values.items()
        if (message := source_problem(value.value))
    ]
    if problems:
        raise ManifestError(problems)
    return values


def reader_of(path: str) -> Reader:
    """Return the reader of a file of inputs after decryption: YAML unless it is called JSON."""
    return READERS[".json" if suffix(path) == ".json" else ".yaml"]


def without_text(error: ManifestError) -> ManifestError:
    """Return the error of an encrypted file without any of the file's text, which may be secret.

    Hints are dropped, and of the messages only those are kept whose code always has the same words (``_CONSTANT``).
    """
    problems = []
    for problem in error.problems:
        message = problem.message if problem.code in _CONSTANT else f"cannot be read here ({problem.code})"
        problems.append(problem._replace(message=message, hint="", paste=""))
    return ManifestError(problems)
