"""Files of inputs: the one of a stack, those of ``--inputs``, inventories; plain, or encrypted with age (`*.age`).

An encrypted file is decrypted in memory; its text is in no message (contract §10.10).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.input_values import FileInput, LocatedValue
from resource_api.manifest.read import READERS
from resource_api.manifest.value_sources import kind_of, literal, source_of, source_problem
from resource_api.model.values.document import AGE, MAX_BYTES, manifest_error
from resource_api.model.values.errors import ManifestError, Problem, UsageError
from resource_api.system import age, document_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api.manifest.read import Reader
    from resource_api.manifest.value_sources import ValueSource
    from resource_api.model.values.document import Document
    from resource_api.system.age import Identities
    from resource_api.system.filesystem.code_trust import CodeTrust


def suffix(path: str) -> str:
    """Return the suffix that says how the content of a file is written, before that of encryption."""
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
        """Return the document in the bytes of a file, YAML unless it is called JSON.

        Raise ``UsageError`` for an encrypted file without identities, ``ManifestError`` for a wrong one.
        """
        if not path.endswith(AGE):
            return reader_of(path)(raw, path)
        text = self.decrypt(raw, path)
        try:
            return reader_of(path)(text, path)
        except ManifestError as error:
            raise without_text(error) from None

    def decrypt(self, raw: bytes, path: str) -> bytes:
        """Return the content of an encrypted file. Raise as ``parse`` does."""
        if self._identities is None:
            msg = f"{path} is encrypted; name its key with --inputs-key age:PATH or RESOURCE_API_INPUTS_KEY"
            raise UsageError(msg)
        try:
            return self._identities.decrypt(raw)
        except ValueError as error:
            reason = error if age.is_encrypted(raw) else "it is not encrypted with age"
            message = f"cannot be decrypted with --inputs-key age:{self._identities.path}: {reason}"
            raise manifest_error(path, (0, 0), "inputs", message) from error

    def values(self, path: str) -> dict[str, LocatedValue]:
        """Return the values of a file of inputs by name.

        Raise ``UsageError`` for an unreadable file, and as ``parse`` and ``check_programs`` do.
        """
        try:
            with open(path, "rb") as file:
                raw = file.read(MAX_BYTES + 1)
        except OSError as error:
            msg = f"cannot read {path}: {error.strerror or error}"
            raise UsageError(msg) from error
        values = located_values(self.parse(raw, path))
        self.check_programs(path, values.values())
        return values

    def check_programs(self, path: str, values: Iterable[LocatedValue]) -> None:
        """Raise ``UntrustedCode`` for a file that names programs and that other users can change."""
        if any(kind_of(value.value) == "command" for value in values):
            try:
                os.close(self._trust.open(path))
            except OSError as error:
                message = f"names programs, and cannot be checked: {error.strerror or error}"
                raise manifest_error(path, (0, 0), "inputs", message) from error

    @staticmethod
    def source_files(values: Iterable[LocatedValue]) -> list[str]:
        """Return the files that values are read from."""
        sources = [source_of(value.value, value.directory) for value in values]
        return [source.path for source in sources if source is not None and source.kind in {"file", "terraform_state"}]

    def resolve(self, values: Mapping[str, LocatedValue]) -> dict[str, Any]:
        """Return the values of inputs by name, those with a source as its text. Raise ``ManifestError``."""
        resolved, problems = dict[str, Any](), list[Problem]()
        for name, value in values.items():
            source = source_of(value.value, value.directory)
            try:
                resolved[name] = literal(value.value) if source is None else _value(source)
            except ValueError as error:
                problems.append(value.locate(Problem(name, f"input '{name}': {error}", code="input")))
        if problems:
            raise ManifestError(problems)
        return resolved


def _value(source: ValueSource) -> FileInput | dict[str, Any]:
    return source.outputs() if source.kind == "terraform_state" else FileInput(source.read())


def located_values(document: Document) -> dict[str, LocatedValue]:
    """Return the values of a document of inputs by name. Raise ``ManifestError``, also for malformed sources."""
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
    """Return the error of an encrypted file without a part of its text: only messages of the parser are constant."""
    return ManifestError(
        problem._replace(message=message, hint="", paste="")
        for problem in error.problems
        for message in [problem.message if problem.code in _CONSTANT else f"cannot be read here ({problem.code})"]
    )
