"""AES-256-GCM: what is encrypted under a key and bound to a place is given back whole, there, or not at all.

The one module that owns ``cryptography``, imported with the first secret. Whose key it is does not enter here.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Final

from resource_api.model.values._blake2 import blake2b
from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: Bytes of a key, and of a nonce (NIST SP 800-38D: 96 bits at random, for up to 2**32 messages under one key).
KEY: Final = 32
_NONCE: Final = 12


def fresh_key() -> bytes:
    """Give a new key."""
    return os.urandom(KEY)


def derived(key: bytes, purpose: str) -> bytes:
    """Give a key for one purpose, from which neither ``key`` nor one for another purpose can be found."""
    return blake2b(purpose.encode(), key=key, digest_size=KEY).digest()


class Cipher:
    """Encrypts under one key."""

    def __init__(self, key: bytes) -> None:
        """Take the key. Raises ``UsageError`` where the library is missing."""
        self._cipher = _library()(key)

    def encrypt(self, clear: bytes, bound: bytes) -> str:
        """Give the ciphertext as text: nonce, ciphertext and tag in base64."""
        nonce = os.urandom(_NONCE)
        return b64encode(nonce + self._cipher.encrypt(nonce, clear, bound)).decode("ascii")

    def decrypt(self, text: str, bound: bytes) -> bytes:
        """Give what was encrypted under this key and bound to the same. Raises ``ValueError`` for anything else."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - only with a secret

        data = b64decode(text, validate=True)
        try:
            return self._cipher.decrypt(data[:_NONCE], data[_NONCE:], bound)
        except InvalidTag:
            msg = "it is not what was encrypted there with this key"
            raise ValueError(msg) from None


def _library() -> type[AESGCM]:
    try:
        from cryptography.hazmat.primitives.ciphers import aead  # noqa: PLC0415 - most runs have no key
    except ImportError:
        msg = "encryption needs the package 'cryptography': pip install 'resource-api[encryption]'"
        raise UsageError(msg) from None
    return aead.AESGCM
