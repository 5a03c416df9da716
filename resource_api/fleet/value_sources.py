"""Where a value is that an inventory does not have itself, above all a secret: in a file, or printed by a program.

It is a mapping whose only key is `file` or `command`; `${host.name}` in it is the name of the host.
"""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest.read import read_file
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.document import MAX_BYTES
from resource_api.system.filesystem.code_trust import CodeTrust
from resource_api.system.process import interactive

if TYPE_CHECKING:
    from resource_api.fleet.inventory import Value

#: Stands for the name of a host.
HOST: Final = "${host.name}"
_KINDS: Final = ("file", "command")


class ValueSource(NamedTuple):
    """A file, or a program that prints the value; both from the directory of the inventory on."""

    #: ``file`` or ``command``.
    kind: str
    #: The path, or the words of the program as a shell has them.
    text: str
    #: The directory of the inventory; empty: the working directory.
    directory: str

    @property
    def name(self) -> str:
        """What messages call it: the path, or the program without its arguments."""
        try:
            return self._path if self.kind == "file" else shlex.split(self.text)[0]
        except (LookupError, ValueError):  # it has no word, or an open quote
            return self.kind

    def document(self) -> dict[str, str]:
        """Return it as JSON data, in the form that an inventory has."""
        return {self.kind: self._path if self.kind == "file" else self.text}

    def read(self) -> str:
        """Return the text without its last line end.

        Raise ``ValueError`` with the name and the reason, which never quotes what was read.
        """
        try:
            raw = read_file(self._path)[0] if self.kind == "file" else self._printed()
            if len(raw) > MAX_BYTES:
                why = f"it is larger than {MAX_BYTES // 1_000_000} MB"
            else:
                return raw.decode().removesuffix("\n")
        except UnicodeDecodeError:
            why = "it is not UTF-8"
        except OSError as error:
            why = error.strerror or str(error)
        except ValueError as error:
            why = str(error)
        msg = f"{self.name}: {why}"
        raise ValueError(msg)

    @property
    def _path(self) -> str:
        return os.path.join(self.directory, self.text)

    def _printed(self) -> bytes:
        words, directory = shlex.split(self.text), self.directory or "."
        found = shutil.which(os.path.join(directory, words[0]) if "/" in words[0] else words[0]) if words else None
        if found and (why := CodeTrust().why_not(os.path.abspath(found))):
            msg = f"it is not executed, because others could have changed it: {why}"
            raise ValueError(msg)
        return interactive.output(words, directory, MAX_BYTES)


def kind_of(value: Any) -> str | None:
    """Return ``file`` or ``command`` for a value of an inventory that only names its source, None for another."""
    if type(value) is not dict or len(value) != 1:
        return None
    (kind,) = value
    written = value[kind]
    words = type(written) is list and bool(written) and all(type(word) is str for word in written)
    return kind if kind in _KINDS and (type(written) is str or (words and kind == "command")) else None


def source_of(value: Value, host: str) -> ValueSource | None:
    """Return the source of a value for a host; None for one that is written in place."""
    if (kind := kind_of(value.value)) is None:
        return None
    written = value.value[kind]
    text = (shlex.join(written) if type(written) is list else written).replace(HOST, host)
    return ValueSource(kind, text, os.path.dirname(value.place[0]))
