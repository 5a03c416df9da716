"""BLAKE2 without OpenSSL, which ``hashlib`` loads for other digests: that alone takes as long as a tenth of a start."""

try:
    # Where hashlib has it from.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["blake2b"]
