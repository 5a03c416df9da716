"""The trust of an agent in its files: signatures of OpenSSH, or else directories that no other user can change.

Signatures are made and verified by ``ssh-keygen -Y``, with its list of allowed signers (ssh-keygen(1)). An unsigned
file can be changed by root, the caller and sudo's user alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import CommandError, ResourceAPIError, ResourceError, StateError, UsageError
from resource_api.model.values.text import filled_lines
from resource_api.provider.command import Command
from resource_api.system.filesystem import directories
from resource_api.system.filesystem.code_trust import CodeTrust
from resource_api.system.filesystem.directories import in_memory

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Directories outside manifests: repositories of version control systems, and compiled Python.
IGNORED: Final = frozenset((".git", ".hg", ".svn", "__pycache__"))
#: The purpose of a signature: signatures for another purpose, such as a git commit, are refused.
NAMESPACE: Final = "resource-api"
#: The end of the name of a file's signature, which is beside it.
SIGNATURE_SUFFIX: Final = ".sig"
#: Largest signature in bytes, and number of principals of one key.
LARGEST_SIGNATURE: Final = 64 << 10
_MAX_PRINCIPALS: Final = 16
#: Variables for the key agent, and for the questions of hardware keys.
_SIGNING_VARIABLES: Final = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY")

_keygen: Final = Command("ssh-keygen", read_only=True)


class Untrusted(ResourceAPIError):  # noqa: N818 - the state of a source
    """A source cannot be verified, or is older than the applied version; nothing of it is applied."""

    exit_code = 65


def check_tree(directory: str, exempt: Iterable[str]) -> None:
    """Raise ``Untrusted`` if other users can change a file in a directory, ``ResourceError`` if it is unreadable.

    A directory has no signature, and whoever can change its files has commands of their choice executed as root.
    ``exempt``: directories that are trusted without a check. Links to directories are not followed, because code behind
    them is checked when it is loaded.
    """
    trust = CodeTrust(exempt)
    with errors_as(ResourceError, OSError, f"{directory}: ", names_file=True):
        for parent, inner, names in os.walk(directory, onerror=_fail):
            inner[:] = sorted(set(inner) - IGNORED)
            for name in (".", *sorted(names)):
                if reason := trust.check_file(os.path.abspath(f"{parent}/{name}")):
                    raise Untrusted(f"{directory}: is not used, because others could have changed it: {reason}")


def make_directory(directory: str) -> None:
    """Create the directory of an agent and its parents.

    Raise ``Untrusted`` if other users can write to it, because verified files are kept there; ``StateError`` if it
    cannot be created.
    """
    try:
        directories.make_directory(directory)
        _check_file(directory)
    except OSError as error:
        raise StateError(f"{error.filename or directory}: cannot be made: {error.strerror}") from error


def sign(raw: bytes, key: str) -> bytes:
    """Return the signature of bytes by the key in a file; for a public key, by the key agent's private one.

    Raise ``ResourceError`` with ssh-keygen's reason.
    """
    variables = {name: os.environ[name] for name in _SIGNING_VARIABLES if name in os.environ}
    argv = ("-Y", "sign", "-q", "-n", NAMESPACE, "-f", os.path.abspath(key))
    try:
        return _keygen(*argv, input=raw, env=variables, log="debug").stdout.encode()
    except CommandError as error:
        raise ResourceError(f"{key}: cannot sign: {_last_line(error.stderr, str(error))}") from error


def verify(raw: bytes, signature: bytes, signers: str) -> str:
    """Return the name of the allowed signer of the bytes. Raise ``Untrusted``.

    A key may have several names, each with its own period and purposes: the first with a valid signature counts.
    """
    with in_memory(signature) as path:
        principals, reason = _principals(path, signers)
        error = f"no key in {signers} has signed it{reason}"
        for principal in principals:
            argv = ("-Y", "verify", "-n", NAMESPACE, "-I", principal, "-s", path, "-f", signers)
            result = _keygen.attempt(*argv, input=raw, log="debug")
            if result.exit_code == 0:
                return principal
            error = f"the signature of {principal} is not valid: {_last_line(result.stderr, result.stdout)}"
    raise Untrusted(error)


def signers_valid_now(signature: bytes, signers: str) -> list[str]:
    """Return the allowed signers that have the key of a commit's signature and are valid now.

    git has verified the signature, but checks the signer's validity at the commit's date, which its author chooses.
    """
    with in_memory(signature) as path:
        return _principals(path, signers)[0]


def check_signers(path: str, exempt: Iterable[str]) -> str:
    """Return the full path of a list of allowed signers, to which other users could otherwise add their own key.

    Raise ``Untrusted`` if they can change it, ``UsageError`` if it cannot be examined.
    """
    absolute = os.path.abspath(path)
    with errors_as(UsageError, OSError, f"--signers {path}: "):
        _check_file(absolute, exempt)
    return absolute


def _check_file(path: str, exempt: Iterable[str] = ()) -> None:
    """Raise ``Untrusted`` if other users can change a file outside the exempt directories; ``OSError``."""
    if reason := CodeTrust(exempt).check_file(os.path.abspath(path)):
        raise Untrusted(f"{path}: is not used, because others could have changed it: {reason}")


def _fail(error: OSError) -> None:
    """Raise the error of a directory that ``os.walk`` cannot read and would otherwise skip."""
    raise error


def _principals(signature: str, signers: str) -> tuple[list[str], str]:
    """Return the names (principals) of a signature's key in the list of allowed signers, and "".

    For a key that is not in the list, or not valid now, return no names, and a text for the end of a message:
    ssh-keygen's line about the period of the key, or "".
    """
    result = _keygen.attempt("-Y", "find-principals", "-s", signature, "-f", signers, log="debug")
    if result.exit_code == 0:
        return result.stdout.splitlines()[:_MAX_PRINCIPALS], ""
    untimely = [line.strip() for line in result.stderr.splitlines() if "verify time" in line]
    return [], f": {untimely[0]}" if untimely else ""


def _last_line(*texts: str) -> str:
    """Return the reason of ssh-keygen for a message: the last line of the first of ``texts`` that is not empty."""
    for text in texts:
        if lines := filled_lines(text):
            return lines[-1]
    return "ssh-keygen does not say why"
