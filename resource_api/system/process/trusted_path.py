"""Find programs that only root and the caller can change, and check what they are given: arguments, stdin, environment.

A program runs with the rights of this process, often root. It therefore gets an environment of known variables, and
neither a secret nor anything but text as an argument. Nothing must be started or logged here.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import CommandError
from resource_api.model.values.values import Sensitive
from resource_api.system.filesystem.code_trust import CodeTrust
from resource_api.system.filesystem.directories import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: How a program may execute what others can change.
_WAYS: Final = (
    "declare the 'user' as whom it runs; or, if you trust everybody who can write there, give --trust-path DIR"
)
SECURE_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@cache
def locate(name: str, user: int = 0) -> str:
    """Return the path of a program that only root, the caller and ``user`` can change; searched once per process.

    ``name`` is a full path, or a bare name on ``SECURE_PATH``. Raise ``CommandError`` for a program that is missing,
    not executable, or that another user could change.
    """
    if "/" in name and not name.startswith("/"):
        raise _refused(name, "is a relative path; give a full path or a bare name")
    places = [Path(name)] if name.startswith("/") else [Path(place, name) for place in SECURE_PATH.split(":")]
    found = [place for place in places if place.is_file()]
    usable = next((place for place in found if os.access(place, os.X_OK, effective_ids=True)), None)
    if usable is None and found:
        raise _refused(name, f"is not executable: {found[0]}")
    if usable is None:
        hint = "; its arguments are given in each call" if " " in name and _exists(name.partition(" ")[0]) else ""
        raise _refused(name, ("not found" if name.startswith("/") else f"not found in {SECURE_PATH}") + hint)
    if reason := CodeTrust(users={*ROOT, os.geteuid(), user}).why_not(str(usable)):
        raise _refused(name, f"is refused: {reason}")
    return str(usable)


def check_code(name: str, paths: Iterable[str], places: Iterable[str], trusted: Iterable[str]) -> None:
    """Raise ``CommandError`` if others can change a file or tree that a program executes besides itself.

    ``places``: directories to which others must not be able to add anything; beneath those that are ``trusted`` nothing
    is checked.
    """
    trust = CodeTrust(trusted)
    judged = [(path, trust.why_not_place) for path in places]
    trees: list[tuple[str, Callable[[str], str]]] = [(path, trust.why_not_tree) for path in paths]
    for path, judge in (*judged, *trees):
        try:
            reason = judge(path)
        except OSError as error:
            reason = f"'{error.filename or path}' cannot be checked: {error.strerror}"
        if reason:
            msg = f"is refused: it executes what is in '{path}', and others could have changed it: {reason}; or {_WAYS}"
            raise _refused(name, msg)


def _exists(name: str) -> bool:
    return any(Path(place, name).is_file() for place in SECURE_PATH.split(":"))


def environment(name: str, added: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a program: a few known variables, and the ``added`` ones.

    Raise ``CommandError`` for a variable that is sensitive or not text.
    """
    import pwd

    for variable, value in added.items():
        if not _text(name, "the name of a variable", variable) or "=" in variable:
            raise _refused(name, f"cannot be given a variable called '{variable}'")
        _text(name, f"the variable {variable}", value)
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        home = "/"
    base = {"PATH": SECURE_PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": home}
    zone = {"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}
    return {**base, **zone, "DEBIAN_FRONTEND": "noninteractive", **added}


def argument(name: str, value: Any) -> str:
    """Return one argument as text, bytes as surrogate escapes. Raise ``CommandError`` for a secret and for no text."""
    plain = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(plain, bytes):
        plain = plain.decode("utf-8", "surrogateescape")
    return _text(name, "an argument", str(plain) if type(plain) is int else plain)


def stdin(name: str, value: Any) -> bytes | None:
    """Return the bytes for stdin, also of a secret; None for None. Raise ``CommandError`` for other types."""
    plain = value.reveal() if isinstance(value, Sensitive) else value
    if plain is None or isinstance(plain, bytes):
        return plain
    if isinstance(plain, str):
        return plain.encode("utf-8", "surrogateescape")
    raise _refused(name, f"cannot be given input of type {type(plain).__name__}; it takes text or bytes")


def directory_error(directory: str) -> str:
    """Return why a program cannot run in ``directory``; empty when it can."""
    path = Path(directory)
    if not path.is_absolute():
        return "is not a full path"
    if not path.is_dir():
        return "is not a directory" if path.exists() else "does not exist"
    return "" if os.access(path, os.X_OK, effective_ids=True) else "cannot be entered"


def _text(name: str, what: str, value: Any) -> str:
    if isinstance(value, Sensitive):
        raise _refused(name, f"cannot be given {what} that is sensitive: others would see it; pass it by input=")
    if not isinstance(value, str):
        hint = "; give each one by itself" if isinstance(value, (list, tuple)) else ""
        raise _refused(name, f"cannot be given {what} of type {type(value).__name__}{hint}")
    if "\0" in value:
        raise _refused(name, f"cannot be given {what} with a NUL character")
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise _refused(name, f"cannot be given {what} with half a surrogate pair") from None
    return value


def _refused(name: str, why: str) -> CommandError:
    return CommandError(f"command '{name}' {why}", (name,))
