"""Sources of inventory values, above all of secrets: a file, or the output of a program.

A source is a mapping whose only key is `file` or `command`; `${host.name}` in it is the name of the host.
"""

from __future__ import annotations

import os
import shlex
import shutil
from typing import Any, Final

from resource_api.manifest.read import read_file
from resource_api.model.values.document import MAX_BYTES
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem.code_trust import CodeTrust
from resource_api.system.process import interactive

#: Stands for the name of a host.
HOST: Final = "${host.name}"
_KINDS: Final = ("file", "command")


class ValueSource(NamedTuple):
    """A file, or a program that prints the value; paths are relative to the inventory."""

    #: ``file`` or ``command``.
    kind: str
    #: The path, or the command line in the syntax of a shell.
    text: str
    #: The directory of the inventory; empty: the working directory.
    directory: str

    @property
    def name(self) -> str:
        """The name in messages: the path, or the program without its arguments."""
        try:
            return self._path if self.kind == "file" else shlex.split(self.text)[0]
        except (LookupError, ValueError):  # no word, or an open quote
            return self.kind

    def document(self) -> dict[str, str]:
        """Return the source as an inventory declares it, as JSON data."""
        return {self.kind: self._path if self.kind == "file" else self.text}

    def read(self) -> str:
        """Return the text without its last line end.

        Raise ``ValueError`` with the name and the reason; the message never quotes the value.
        """
        try:
            raw = read_file(self._path)[0] if self.kind == "file" else self._printed()
            if len(raw) > MAX_BYTES:
                reason = f"it is larger than {MAX_BYTES // 1_000_000} MB"
            else:
                return raw.decode().removesuffix("\n")
        except UnicodeDecodeError:
            reason = "it is not UTF-8"
        except OSError as error:
            reason = error.strerror or str(error)
        except ValueError as error:
            reason = str(error)
        msg = f"{self.name}: {reason}"
        raise ValueError(msg)

    @property
    def _path(self) -> str:
        return os.path.join(self.directory, self.text)

    def _printed(self) -> bytes:
        words, directory = shlex.split(self.text), self.directory or "."
        program = shutil.which(os.path.join(directory, words[0]) if "/" in words[0] else words[0]) if words else None
        if program and (reason := CodeTrust().check_file(os.path.abspath(program))):
            msg = f"it is not executed, because others could have changed it: {reason}"
            raise ValueError(msg)
        return interactive.output(words, directory, MAX_BYTES)


def kind_of(value: Any) -> str | None:
    """Return ``file`` or ``command`` for an inventory value that names its source, or None."""
    if type(value) is not dict or len(value) != 1:
        return None
    (kind,) = value
    source = value[kind]
    words = type(source) is list and bool(source) and all(type(word) is str for word in source)
    return kind if kind in _KINDS and (type(source) is str or (words and kind == "command")) else None


def source_of(value: Any, directory: str, host: str) -> ValueSource | None:
    """Return the source of a host's value, or None for a literal value; ``directory``: the inventory's."""
    if (kind := kind_of(value)) is None:
        return None
    text = shlex.join(value[kind]) if type(value[kind]) is list else value[kind]
    return ValueSource(kind, text.replace(HOST, host), directory)
