"""Encryption with age (https://age-encryption.org/v1): identities, recipients, armour; `pyrage` is imported for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import UsageError
from resource_api.system.filesystem.private_files import MAX_BYTES, create_private_file, read_private_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

#: Begins a file in the format for text (RFC 7468).
ARMOUR: Final = b"-----BEGIN AGE ENCRYPTED FILE-----"
#: Begins a file in the binary format.
_BINARY: Final = b"age-encryption.org/v1\n"


def is_encrypted(data: bytes) -> bool:
    """Return whether data begins like the content of a file that age has encrypted."""
    return data.startswith((ARMOUR, _BINARY))


class Identities:
    """The age identities in a file that only its owner can read; it is read only when they are needed."""

    def __init__(self, path: str) -> None:
        """Take the path; nothing is read yet."""
        self.path = path

    def decrypt(self, data: bytes) -> bytes:
        """Return the content of encrypted data, armoured or not, such as of a file of inputs.

        Raise ``ValueError`` for data that is for other recipients or was altered, ``UsageError`` as ``_load`` does.
        """
        pyrage = _pyrage()
        try:
            content: bytes = pyrage.decrypt(data, self._load())
        except pyrage.DecryptError as error:
            raise ValueError(str(error)) from error
        return content

    def recipients(self) -> list[object]:
        """Return the recipients of the identities. Raise ``UsageError`` as ``_load`` does."""
        return [identity.to_public() for identity in self._load()]

    def _load(self) -> list[Any]:
        """Return the identities in the file. Raise ``UsageError`` if there are none."""
        pyrage = _pyrage()
        try:
            identities = [pyrage.x25519.Identity.from_str(line) for line in _lines(read_private_file(self.path))]
        except pyrage.IdentityError:
            identities = []
        if not identities:
            msg = f"{self.path}: is not a file of age identities (AGE-SECRET-KEY-1...); age-keygen creates one"
            raise UsageError(msg)
        return identities


def create_identity(path: str) -> str:
    """Write a new identity into a private file, as age-keygen, and return its recipient. Raise ``UsageError``."""
    identity = _pyrage().x25519.Identity.generate()
    recipient = str(identity.to_public())
    create_private_file(path, f"# public key: {recipient}\n{identity}\n".encode())
    return recipient


def encrypt(data: bytes, recipients: Sequence[object], *, armoured: bool = False) -> bytes:
    """Return data that each of the recipients can decrypt; if ``armoured``, as lines of ASCII."""
    encrypted: bytes = _pyrage().encrypt(data, recipients, armored=armoured)
    return encrypted


def read_recipients(path: str) -> list[object]:
    """Return the recipients in a file: one a line, of age or a public key of ssh. Raise ``UsageError``."""
    pyrage = _pyrage()
    with errors_as(UsageError, OSError, f"{path}: the recipients cannot be read: "), open(path, "rb") as file:
        lines = _lines(file.read(MAX_BYTES))
    return [_recipient(pyrage, line, path) for line in lines]


def _recipient(pyrage: ModuleType, line: str, path: str) -> object:
    """Return the recipient in a line of the file ``path``, a key of age or ssh. Raise ``UsageError`` for another."""
    kind = pyrage.ssh if line.startswith("ssh-") else pyrage.x25519
    try:
        return kind.Recipient.from_str(line)
    except pyrage.RecipientError as error:
        msg = f"{path}: '{line}' is not a recipient: {error}; write age1... or a public key of ssh"
        raise UsageError(msg) from error


def _lines(data: bytes) -> list[str]:
    """Return the lines of a file of keys, without comments and empty ones."""
    lines = (line.strip() for line in data.decode("utf-8", "replace").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _pyrage() -> Any:
    """Return the module ``pyrage``, an extra. Raise ``UsageError`` where it is not installed."""
    try:
        import pyrage  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError("an age key needs the package 'pyrage': pip install 'resource-api[age]'") from None
    return pyrage
