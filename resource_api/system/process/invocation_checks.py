"""Check and convert the environment, the arguments, the standard input and the directory of a program.

A program runs with the rights of this process, often root, and other users see its arguments. Therefore its environment
has a fixed set of variables, and its arguments are texts without secrets.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

from resource_api.model.values.values import Sensitive
from resource_api.system.process.trusted_path import SECURE_PATH, refused

if TYPE_CHECKING:
    from collections.abc import Mapping


def environment(name: str, added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program: a fixed set of variables, and the ``added`` ones.

    Raise ``CommandError`` for a variable that is sensitive or not text.
    """
    for variable, value in added.items():
        if not _text(name, "the name of a variable", variable) or "=" in variable:
            raise refused(name, f"cannot be given a variable called '{variable}'")
        _text(name, f"the variable {variable}", value)
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        home = "/"
    base = {"PATH": SECURE_PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": home}
    zone = {"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}
    return {**base, **zone, "DEBIAN_FRONTEND": "noninteractive", **added}


def argument(name: str, value: object) -> str:
    """Return an argument as text, bytes as surrogate escapes. Raise ``CommandError`` for a secret or another type."""
    plain = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(plain, bytes):
        plain = plain.decode("utf-8", "surrogateescape")
    return _text(name, "an argument", str(plain) if type(plain) is int else plain)


def stdin(name: str, value: object) -> bytes | None:
    """Return the bytes for stdin, also of a secret, or None. Raise ``CommandError`` for other types."""
    plain = value.reveal() if isinstance(value, Sensitive) else value
    if plain is None or isinstance(plain, bytes):
        return plain
    if isinstance(plain, str):
        return plain.encode("utf-8", "surrogateescape")
    raise refused(name, f"cannot be given input of type {type(plain).__name__}; it takes text or bytes")


def directory_error(directory: str) -> str:
    """Return the reason why a program cannot run in ``directory``, or ""."""
    path = Path(directory)
    if not path.is_absolute():
        return "is not a full path"
    if not path.is_dir():
        return "is not a directory" if path.exists() else "does not exist"
    return "" if os.access(path, os.X_OK, effective_ids=True) else "cannot be entered"


def _text(name: str, role: str, value: object) -> str:
    """Return ``value``. Raise ``CommandError``, which names the ``role`` of the value, unless it is a plain text."""
    if isinstance(value, Sensitive):
        raise refused(name, f"cannot be given {role} that is sensitive: others would see it; pass it by input=")
    if not isinstance(value, str):
        hint = "; give each one by itself" if isinstance(value, (list, tuple)) else ""
        raise refused(name, f"cannot be given {role} of type {type(value).__name__}{hint}")
    if "\0" in value:
        raise refused(name, f"cannot be given {role} with a NUL character")
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise refused(name, f"cannot be given {role} with half a surrogate pair") from None
    return value
