"""Files of inputs: the one of a stack, those of ``--inputs``, inventories; plain, or encrypted with age (`*.age`).

An encrypted file is decrypted in memory; its text is in no message (contract §10.10).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from resource_api.manifest.input_values import FileInput, LocatedValue
from resource_api.manifest.read import READERS
from resource_api.manifest.value_sources import kind_of, literal, source_of, source_problem
from resource_api.model.values.document import AGE, MAX_BYTES, manifest_error
from resource_api.model.values.errors import ManifestError, Problem, UsageError
from resource_api.system import document_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from resource_api.model.values.document import Document
    from resource_api.system.age import Identities
    from resource_api.system.filesystem.code_trust import CodeTrust


def suffix(path: str) -> str:
    """Return the suffix that says how the content of a file is written, before that of encryption."""
    return os.path.splitext(path.removesuffix(AGE))[1].lower()


class InputFiles:
    """Reads files of inputs and the sources that they name."""

    def __init__(self, trust: CodeTrust, identities: Identities | None = None) -> None:
        """``trust`` checks files that name programs; ``identities`` decrypt those that are encrypted."""
        self._trust = trust
        self._identities = identities

    def document(self, path: str) -> Document:
        """Return the content of a file, YAML unless it is called JSON.

        Raise ``UsageError`` for an unreadable file and for an encrypted one without identities, ``ManifestError`` for a
        wrong one.
        """
        try:
            with open(path, "rb") as file:
                raw = file.read(MAX_BYTES + 1)
        except OSError as error:
            msg = f"cannot read {path}: {error.strerror or error}"
            raise UsageError(msg) from error
        return self.parse(raw, path)

    def parse(self, raw: bytes, path: str) -> Document:
        """Return the document in the bytes of a file. Raise as ``document`` does."""
        reader = READERS[".json" if suffix(path) == ".json" else ".yaml"]
        if not path.endswith(AGE):
            return reader(raw, path)
        try:
            return reader(self.decrypt(raw, path), path)
        except ManifestError as error:
            raise ManifestError(map(_without_text, error.problems)) from None

    def decrypt(self, raw: bytes, path: str) -> bytes:
        """Return the content of an encrypted file. Raise as ``document`` does."""
        if self._identities is None:
            msg = f"{path} is encrypted; name its key with --inputs-key age:PATH or RESOURCE_API_INPUTS_KEY"
            raise UsageError(msg)
        try:
            return self._identities.decrypt(raw)
        except ValueError as error:
            message = f"cannot be decrypted with --inputs-key age:{self._identities.path}: {error}"
            raise manifest_error(path, (0, 0), "inputs", message) from error

    def values(self, path: str) -> dict[str, LocatedValue]:
        """Return the values of a file of inputs by name. Raise as ``document`` and ``check`` do."""
        document = self.document(path)
        document_schema.check("inputs", document, "inputs")
        values = {name: LocatedValue(value, path, *document.position((name,))) for name, value in document.data.items()}
        self.check(path, values.values())
        return values

    def check(self, path: str, values: Collection[LocatedValue]) -> None:
        """Check the sources in a file.

        Raise ``ManifestError`` for malformed ones, ``UntrustedCode`` for one that names a program in a file that other
        users can change.
        """
        problems = [
            value.locate(Problem(None, message, code="input"))
            for value in values
            if (message := source_problem(value.value))
        ]
        if problems:
            raise ManifestError(problems)
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
        return [source.path for source in sources if source is not None and source.kind == "file"]

    def resolve(self, values: Mapping[str, LocatedValue]) -> dict[str, Any]:
        """Return the values of inputs by name, those with a source as its text. Raise ``ManifestError``."""
        resolved, problems = dict[str, Any](), list[Problem]()
        for name, value in values.items():
            source = source_of(value.value, value.directory)
            try:
                resolved[name] = literal(value.value) if source is None else FileInput(source.read(self._trust))
            except ValueError as error:
                problems.append(value.locate(Problem(name, f"input '{name}': {error}", code="input")))
        if problems:
            raise ManifestError(problems)
        return resolved


def _without_text(problem: Problem) -> Problem:
    """Return a problem of an encrypted file without a part of its text: only messages of the parser are constant."""
    message = problem.message if problem.code == "syntax" else f"cannot be read here ({problem.code})"
    return problem._replace(message=message, hint="", paste="")
