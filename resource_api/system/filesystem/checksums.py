"""The SHA-256 of a content, in a run with little content without importing ``hashlib``, which loads OpenSSL: 3 ms."""

from __future__ import annotations

from typing import Final

try:
    from _sha256 import sha256 as _sha256  # where hashlib has it from: Python 3.11
except ImportError:  # pragma: no cover - depends on the version
    try:
        from _sha2 import sha256 as _sha256  # from Python 3.12 on
    except ImportError:
        from hashlib import sha256 as _sha256

#: After so many bytes OpenSSL, which is six times as fast, has been worth its loading.
_LITTLE: Final = 1 << 18

_digested = 0


def sha256(content: bytes) -> str:
    """Return the SHA-256 of a content, in hexadecimal digits."""
    global _digested  # noqa: PLW0603 - of this process
    _digested += len(content)
    if _digested <= _LITTLE:
        return str(_sha256(content).hexdigest())
    import hashlib  # noqa: PLC0415 - see above

    return hashlib.sha256(content).hexdigest()
