"""AES-256-GCM: authenticated encryption of bytes, bound to additional data.

The only module that imports ``cryptography``, with the first secret. Where keys come from must not enter here.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Final

from resource_api.model.values._blake2 import blake2b
from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: Bytes of a key, and of a nonce (NIST SP 800-38D: 96 random bits, for up to 2**32 messages under one key).
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


def generate_key() -> bytes:
    """Return a new random key."""
    return os.urandom(KEY_BYTES)


def derive_key(key: bytes, purpose: str) -> bytes:
    """Return a key for one purpose; neither ``key`` nor the key of another purpose can be computed from it."""
    return blake2b(purpose.encode(), key=key, digest_size=KEY_BYTES).digest()


class Cipher:
    """Encrypts and decrypts with one key."""

    def __init__(self, key: bytes) -> None:
        """Take a key of ``KEY_BYTES``. Raises ``UsageError`` when the library is missing."""
        self._cipher = _library()(key)

    def encrypt(self, clear: bytes, bound: bytes) -> str:
        """Return nonce, ciphertext and tag in base64; decryption needs the same ``bound`` data."""
        nonce = os.urandom(_NONCE_BYTES)
        return b64encode(nonce + self._cipher.encrypt(nonce, clear, bound)).decode("ascii")

    def decrypt(self, text: str, bound: bytes) -> bytes:
        """Return what was encrypted with this key and ``bound`` to the same data. Raises ``ValueError`` otherwise."""
        from cryptography.exceptions import InvalidTag

        data = b64decode(text, validate=True)
        try:
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound)
        except InvalidTag:
            msg = "it was not encrypted there with this key"
            raise ValueError(msg) from None


def _library() -> type[AESGCM]:
    try:
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError:
        msg = "encryption needs the package 'cryptography': pip install 'resource-api[encryption]'"
        raise UsageError(msg) from None
    return aead.AESGCM
