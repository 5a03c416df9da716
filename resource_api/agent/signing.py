"""Sign and verify with OpenSSH: ``ssh-keygen -Y``, and its list of allowed signers (ssh-keygen(1)).

The signature of a bundle is in a file beside it, ``X.bundle.sig``.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Final

from resource_api.agent.bundle import LARGEST_FILE
from resource_api.agent.root_only_files import Untrusted, check_file
from resource_api.model.values.errors import CommandError, ResourceError, UsageError
from resource_api.provider.command import Command
from resource_api.system.filesystem import reading
from resource_api.system.filesystem.directories import in_memory

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The purpose of a signature: signatures for another purpose, such as a git commit, are refused.
NAMESPACE: Final = "resource-api"
SUFFIX: Final = ".sig"
#: Largest signature in bytes, and number of principals of one key.
LARGEST_SIGNATURE: Final = 64 << 10
_MAX_PRINCIPALS: Final = 16
#: Variables for the key agent, and for the questions of hardware keys.
_ASK: Final = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY")

_keygen: Final = Command("ssh-keygen", read_only=True)


def sign(raw: bytes, key: str) -> bytes:
    """Return the signature of bytes by the key in a file, or by the agent's. Raise ``ResourceError``."""
    variables = {name: os.environ[name] for name in _ASK if name in os.environ}
    argv = ("-Y", "sign", "-q", "-n", NAMESPACE, "-f", os.path.abspath(key))
    try:
        return _keygen(*argv, input=raw, env=variables, log="debug").stdout.encode()
    except CommandError as error:
        msg = f"{key}: cannot sign: {_last_line(error.stderr, str(error))}"
        raise ResourceError(msg) from error


def verify(raw: bytes, signature: bytes, signers: str) -> str:
    """Return the name of the allowed signer of the bytes. Raise ``Untrusted``."""
    with in_memory(signature) as path:
        principals, untimely = _principals(path, signers)
        error = "" if principals else f"no key in {signers} has signed it{untimely}"
        for principal in principals:
            argv = ("-Y", "verify", "-n", NAMESPACE, "-I", principal, "-s", path, "-f", signers)
            result = _keygen.attempt(*argv, input=raw, log="debug")
            if result.exit_code == 0:
                return principal
            error = f"the signature of {principal} is not valid: {_last_line(result.stderr, result.stdout)}"
    raise Untrusted(error)


def signers_valid_now(signature: bytes, signers: str) -> list[str]:
    """Return the allowed signers with the key of a signature that are valid now. Nothing is verified.

    git verifies the signature of a commit, but checks validity at the commit's date, which its author chooses.
    """
    with in_memory(signature) as path:
        return _principals(path, signers)[0]


def read_signed(path: str) -> tuple[bytes, bytes]:
    """Return the content of a file and its signature. Raise ``Untrusted`` without a signature, ``OSError``."""
    raw = reading.read(path, LARGEST_FILE)
    try:
        return raw, reading.read(path + SUFFIX, LARGEST_SIGNATURE)
    except FileNotFoundError as error:
        msg = f"it is not signed: there is no {path}{SUFFIX}"
        raise Untrusted(msg) from error
    except OSError as error:
        msg = f"its signature cannot be read: {error.strerror}"
        raise Untrusted(msg) from error


def check_signers(path: str, exempt: Iterable[str]) -> str:
    """Return the absolute path of a list of allowed signers.

    Raise ``UsageError`` if it does not exist, ``Untrusted`` if other users can change it.
    """
    absolute = os.path.abspath(path)
    try:
        check_file(absolute, exempt)
    except OSError as error:
        msg = f"--signers {path}: {error.strerror}"
        raise UsageError(msg) from error
    return absolute


def _principals(signature: str, signers: str) -> tuple[list[str], str]:
    """Return the principals of a signature's key; without any, also the message about an invalid time."""
    result = _keygen.attempt("-Y", "find-principals", "-s", signature, "-f", signers, log="debug")
    if result.exit_code == 0:
        return result.stdout.splitlines()[:_MAX_PRINCIPALS], ""
    untimely = (line for line in result.stderr.splitlines() if "verify time" in line)
    return [], "".join(f": {line.strip()}" for line in islice(untimely, 1))


def _last_line(*texts: str) -> str:
    """Return the last line of the first text that has one, or a message that there is none."""
    lines = [line.strip() for text in texts for line in reversed(text.splitlines()) if line.strip()]
    return lines[0] if lines else "ssh-keygen does not say why"
