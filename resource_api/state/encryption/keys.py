"""The keys that users hold, named by the URL after ``--key``: a key file, a passphrase, an age identity.

A key wraps and unwraps the data keys of stacks, documents and saved plans; it never encrypts a secret itself. It is
read when it is first needed, from a file that no other user can read. The cipher is AES-256-GCM. ``cryptography`` is
imported with the first secret, ``pyrage`` for age only.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from functools import cached_property
from hashlib import scrypt
from typing import TYPE_CHECKING, Any, Final, Protocol

from resource_api.model.values.errors import UsageError
from resource_api.model.values.start_up import blake2b
from resource_api.system import age
from resource_api.system.filesystem.private_files import create_private_file, read_private_file

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: Bytes of a key, and of a nonce (NIST SP 800-38D: 96 random bits, for up to 2**32 messages under one key).
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
#: A wrapped data key is bound to this purpose.
_PURPOSE: Final = b"resource-api data key"
PASSPHRASE_VARIABLE: Final = "RESOURCE_API_PASSPHRASE"  # noqa: S105 - a name
#: scrypt's cost, one of the equal choices of OWASP's Password Storage Cheat Sheet: 32 MiB; stored with the wrapped key.
_SCRYPT: Final = {"n": 2**15, "r": 8, "p": 3}
#: The highest cost that is accepted: altered parameters must not keep a machine busy.
_MAX_SCRYPT: Final = {"n": 2**20, "r": 32, "p": 16}


class Key(Protocol):
    """Wraps data keys. ``url`` names the key and is no secret."""

    url: str

    def wrap(self, data_key: bytes) -> dict[str, object]:
        """Return a data key as plain JSON data that only this key opens. Raises ``UsageError``."""

    def unwrap(self, wrapped: Mapping[str, object]) -> bytes:
        """Return the wrapped data key. Raises ``ValueError`` for a wrong key, ``UsageError`` for another kind."""


def key_from_url(url: str, environment: MutableMapping[str, str]) -> Key:
    """Return the key at ``file:PATH``, ``passphrase:[PATH]`` or ``age:PATH[?recipients=PATH]``; nothing is read yet.

    A passphrase is removed from ``environment``: no child process inherits it. Raises ``UsageError``.
    """
    scheme, colon, rest = url.partition(":")
    if scheme == "file" and rest:
        return FileKey(url, rest)
    if scheme == "passphrase" and colon:
        return PassphraseKey(url, rest, "" if rest else environment.pop(PASSPHRASE_VARIABLE, ""))
    if scheme == "age" and rest:
        path, _, recipients = rest.partition("?recipients=")
        return AgeKey(url, path, recipients)
    hint = "" if colon else f"; did you mean 'file:{url}'?"
    raise UsageError(f"the key {url}: write file:PATH, passphrase:, passphrase:PATH, or age:PATH{hint}")


class FileKey:
    """32 random bytes in a file, in base64."""

    def __init__(self, url: str, path: str) -> None:
        """Read nothing yet."""
        self.url = url
        self._path = path

    def wrap(self, data_key: bytes) -> dict[str, object]:
        """Encrypt a data key with the file's key."""
        return {"kind": "file", "wrapped": self._cipher.encrypt(data_key, _PURPOSE)}

    def unwrap(self, wrapped: Mapping[str, object]) -> bytes:
        """Decrypt a data key."""
        return self._cipher.decrypt(_wrapped_by("file", wrapped), _PURPOSE)

    @cached_property
    def _cipher(self) -> Cipher:
        """The cipher of the key in the file. Raises ``UsageError`` for another content."""
        try:
            key = b64decode(read_private_file(self._path).strip(), validate=True)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise UsageError(f"{self._path}: is not a key file; 'resource-api new key PATH' creates one")
        return Cipher(key)


class PassphraseKey:
    """A passphrase, turned into a key by scrypt (RFC 7914), with a different salt for each data key."""

    def __init__(self, url: str, path: str, passphrase: str) -> None:
        """Take the passphrase, or "" and the ``path`` of the file that holds it; nothing is read yet."""
        self.url = url
        self._path = path
        self._passphrase = passphrase.encode("utf-8", "surrogateescape")  # a variable may have any bytes
        #: Salt and cost → the cipher: a derivation takes long on purpose.
        self._ciphers: dict[tuple[object, ...], Cipher] = {}

    def wrap(self, data_key: bytes) -> dict[str, object]:
        """Encrypt a data key; the parameters of scrypt are stored with it, so that later versions may choose others."""
        salt = os.urandom(16)
        wrapped = self._derive(salt, _SCRYPT).encrypt(data_key, _PURPOSE)
        return {"kind": "passphrase", "salt": salt.hex(), **_SCRYPT, "wrapped": wrapped}

    def unwrap(self, wrapped: Mapping[str, Any]) -> bytes:
        """Decrypt a data key with the stored parameters of scrypt.

        Raise ``ValueError`` for a cost that is too high: altered parameters must not keep a machine busy.
        """
        text = _wrapped_by("passphrase", wrapped)
        cost = {name: wrapped.get(name) for name in _SCRYPT}
        if any(type(value) is not int or not 0 < value <= _MAX_SCRYPT[name] for name, value in cost.items()):
            raise ValueError("scrypt's parameters are out of range")
        return self._derive(bytes.fromhex(wrapped["salt"]), cost).decrypt(text, _PURPOSE)

    def _derive(self, salt: bytes, cost: Mapping[str, Any]) -> Cipher:
        """Return the cipher of the key that scrypt derives from the passphrase.

        The result is stored by salt and cost, because each derivation takes long on purpose.
        """
        parameters = (salt, *cost.values())
        if parameters not in self._ciphers:
            # By default OpenSSL refuses the memory that this cost needs.
            key = scrypt(self._read_passphrase(), salt=salt, **cost, maxmem=2**31 - 1, dklen=KEY_BYTES)
            self._ciphers[parameters] = Cipher(key)
        return self._ciphers[parameters]

    def _read_passphrase(self) -> bytes:
        """Return the passphrase of the variable or file. Raise ``UsageError`` if it is empty."""
        passphrase = self._passphrase or (read_private_file(self._path).strip(b"\r\n") if self._path else b"")
        if not passphrase:
            msg = f"--key {self.url}: " + (
                f"{self._path} is empty" if self._path else f"{PASSPHRASE_VARIABLE} is not set"
            )
            raise UsageError(msg)
        return passphrase


class AgeKey:
    """An age identity (https://age-encryption.org/v1); every recipient can open a data key wrapped by it."""

    def __init__(self, url: str, path: str, recipients: str) -> None:
        """Take the path of the user's identities and that of further recipients, such as the keys of a team, or "".

        Nothing is read yet.
        """
        self.url = url
        self._identities = age.Identities(path)
        self._recipients = recipients

    def wrap(self, data_key: bytes) -> dict[str, object]:
        """Encrypt a data key to the identities themselves and to the listed recipients: each of them can open it."""
        recipients = self._identities.recipients()
        if self._recipients:
            recipients += age.read_recipients(self._recipients)
        return {"kind": "age", "wrapped": b64encode(age.encrypt(data_key, recipients)).decode("ascii")}

    def unwrap(self, wrapped: Mapping[str, object]) -> bytes:
        """Decrypt a data key."""
        return self._identities.decrypt(b64decode(_wrapped_by("age", wrapped), validate=True))


def create_key_file(path: str) -> None:
    """Create a key file with mode 0600 at ``path``. Raises ``UsageError`` when the file exists or cannot be written."""
    create_private_file(path, b64encode(generate_key()) + b"\n")


def _wrapped_by(kind: str, wrapped: Mapping[str, Any]) -> str:
    """Return the encrypted data key in ``wrapped``, a result of ``wrap`` by a key of this ``kind``, such as ``age``.

    Raises ``UsageError`` when a key of another kind encrypted it.
    """
    if wrapped.get("kind") != kind:
        raise UsageError(f"it was encrypted with another kind of key, {wrapped.get('kind')}:...")
    text: str = wrapped["wrapped"]
    return text


# AES-256-GCM: authenticated encryption of bytes, bound to additional data


def generate_key() -> bytes:
    """Return a new random key for AES-256: of a key file, or of the data of one stack."""
    return os.urandom(KEY_BYTES)


def derive_key(key: bytes, purpose: str) -> bytes:
    """Return a key for one purpose; neither ``key`` nor the key of another purpose can be computed from it."""
    return blake2b(purpose.encode(), key=key, digest_size=KEY_BYTES).digest()


class Cipher:
    """Encrypts and decrypts with one key."""

    def __init__(self, key: bytes) -> None:
        """Take a key of ``KEY_BYTES``. Raises ``UsageError`` when the library is missing."""
        cipher, self._invalid_tag = _library()
        self._cipher = cipher(key)

    def encrypt(self, clear: bytes, bound: bytes) -> str:
        """Return nonce, ciphertext and tag in base64; they can only be decrypted with the same ``bound`` data."""
        nonce = os.urandom(_NONCE_BYTES)
        return b64encode(nonce + self._cipher.encrypt(nonce, clear, bound)).decode("ascii")

    def decrypt(self, text: str, bound: bytes) -> bytes:
        """Return the clear bytes of a ``text`` that ``encrypt`` returned.

        Raises ``ValueError`` if it was encrypted with another key, or with other ``bound`` data: this is for example
        the place of a secret, so that a ciphertext copied to another place cannot be decrypted there.
        """
        data = b64decode(text, validate=True)
        try:
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound)
        except self._invalid_tag:
            raise ValueError("it was not encrypted there with this key") from None


def _library() -> tuple[type[AESGCM], type[Exception]]:
    """Return the cipher and its error, imported with the first secret: most runs need no encryption.

    Raises ``UsageError`` when the library is missing.
    """
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        msg = "encryption needs the package 'cryptography': pip install 'resource-api[encryption]'"
        raise UsageError(msg) from None
    return AESGCM, InvalidTag
