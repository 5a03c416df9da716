"""The SHA-256 of a content; of a small one without importing ``hashlib``, which loads OpenSSL: 3 ms."""

from __future__ import annotations

from typing import Final

try:
    from _sha256 import sha256 as _sha256  # where hashlib has it from: Python 3.11
except ImportError:  # pragma: no cover - depends on the version
    try:
        from _sha2 import sha256 as _sha256  # from Python 3.12 on
    except ImportError:
        from hashlib import sha256 as _sha256

#: From this size on, OpenSSL, which is six times as fast, is worth its loading.
_LARGE: Final = 1 << 16


def sha256(content: bytes) -> str:
    """Return the SHA-256 of a content, in hexadecimal digits."""
    if len(content) < _LARGE:
        return str(_sha256(content).hexdigest())
    import hashlib

    return hashlib.sha256(content).hexdigest()
