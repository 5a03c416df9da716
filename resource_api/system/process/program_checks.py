"""Find programs that only root and the caller can change; check their environment, arguments, input and directory.

A program runs with the rights of this process, often root, and other users see its arguments. Therefore its environment
has a fixed set of variables, and its arguments are texts without secrets.
"""

from __future__ import annotations

import os
import pwd
import stat
from functools import cache
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import CommandError
from resource_api.model.values.values import Sensitive, unwrapped
from resource_api.system.filesystem.code_trust import CodeTrust
from resource_api.system.filesystem.directories import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: The two ways to execute code that other users can change.
_WAYS: Final = (
    "declare the 'user' as whom it runs; or, if you trust everybody who can write there, give --trust-path DIR"
)
SECURE_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@cache
def locate(name: str, user: int = 0) -> str:
    """Return the path of a program that only root, the caller and ``user``, as whom it runs, can change.

    Any other user could have the program do anything with the caller's rights. ``name``: a full path, or a bare name,
    which is looked up on ``SECURE_PATH``. The answer is cached for the process, as programs are called often. Raise
    ``CommandError`` for a program that is missing, not executable, or that another user could change.
    """
    if "/" in name and not name.startswith("/"):
        raise refused(name, "is a relative path; give a full path or a bare name")
    paths = [name] if name.startswith("/") else [f"{directory}/{name}" for directory in SECURE_PATH.split(":")]
    programs = list(filter(os.path.isfile, paths))
    usable = next((path for path in programs if os.access(path, os.X_OK, effective_ids=True)), None)
    if usable is None and programs:
        raise refused(name, f"is not executable: {programs[0]}")
    if usable is None:
        hint = "; its arguments are given in each call" if " " in name and _exists(name.partition(" ")[0]) else ""
        raise refused(name, ("not found" if name.startswith("/") else f"not found in {SECURE_PATH}") + hint)
    if reason := CodeTrust(users={*ROOT, os.geteuid(), user}).check_file(usable):
        raise refused(name, f"is refused: {reason}")
    return usable


def check_code(name: str, trees: Iterable[str], directories: Iterable[str], trusted: Iterable[str]) -> None:
    """Raise ``CommandError`` if other users can change code that a program executes besides itself.

    ``trees``: files and directories that it executes or loads, such as the script of an interpreter. ``directories``:
    those in which it looks for code, where no other user may add a file. ``trusted``: directories that are not checked.
    """
    trust = CodeTrust(trusted)
    checks: list[tuple[str, Callable[[str], str]]] = [(path, trust.check_directory) for path in directories]
    checks += [(path, trust.check_tree) for path in trees]
    for path, risk in checks:
        try:
            reason = risk(path)
        except OSError as error:
            reason = f"'{error.filename or path}' cannot be checked: {error.strerror}"
        if reason:
            msg = f"is refused: it executes what is in '{path}', and others could have changed it: {reason}; or {_WAYS}"
            raise refused(name, msg)


def _exists(name: str) -> bool:
    """Return whether a bare name is a program: then the words behind it in a name are meant as arguments."""
    return any(os.path.isfile(f"{directory}/{name}") for directory in SECURE_PATH.split(":"))


def refused(name: str, reason: str) -> CommandError:
    """Return the error of a program that is not executed."""
    return CommandError(f"command '{name}' {reason}", (name,))


def environment(name: str, added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program: a fixed set of variables, and the ``added`` ones.

    Nothing else of this process reaches it, so a run does not depend on who starts it. Raise ``CommandError`` for a
    variable that is sensitive or not text.
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
    """Return an argument of the program ``name`` as text, from a text, bytes, a path or an integer.

    Raise ``CommandError`` for another type, and for a secret, which other users would see in the list of processes.
    """
    plain = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(plain, bytes):
        plain = plain.decode("utf-8", "surrogateescape")
    return _text(name, "an argument", str(plain) if type(plain) is int else plain)


def stdin(name: str, value: object) -> bytes | None:
    """Return the bytes for standard input, which may be a secret, or None. Raise ``CommandError`` for other types."""
    plain = unwrapped(value)
    if plain is None or isinstance(plain, bytes):
        return plain
    if isinstance(plain, str):
        return plain.encode("utf-8", "surrogateescape")
    raise refused(name, f"cannot be given input of type {type(plain).__name__}; it takes text or bytes")


def directory_error(directory: str) -> str:
    """Return why a program cannot run in ``directory``, as the end of a message, or ""."""
    if not directory.startswith("/"):
        return "is not a full path"
    try:
        mode = os.stat(directory).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "does not exist"
    except (OSError, ValueError):
        return "cannot be entered"
    if not stat.S_ISDIR(mode):
        return "is not a directory"
    return "" if os.access(directory, os.X_OK, effective_ids=True) else "cannot be entered"


def _text(name: str, role: str, value: object) -> str:
    """Return ``value``, a text to pass to the program ``name``, which other users can see.

    Raise ``CommandError`` unless it is a plain text without secrets; ``role``: its name in the message.
    """
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
