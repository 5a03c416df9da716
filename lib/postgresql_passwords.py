"""Stored passwords of a PostgreSQL server: verifiers of SCRAM-SHA-256 (RFC 5803), and hashes of MD5."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import unicodedata

#: Rounds of PBKDF2, the server's own default (scram_iterations).
ROUNDS = 4096
#: The texts that the server takes for a verifier, and stores as they are.
SCRAM = re.compile(r"SCRAM-SHA-256\$[1-9][0-9]{0,8}:[A-Za-z0-9+/]+={0,2}\$[A-Za-z0-9+/=]{44}:[A-Za-z0-9+/=]{44}")
MD5 = re.compile(r"md5[0-9a-f]{32}")
DIGEST = 32  # bytes


def verifier(password: str) -> str:
    """Return the verifier that the server stores: the password never reaches it or its log."""
    return password if is_verifier(password) else _scram(password, os.urandom(16), ROUNDS)


def is_verifier(text: str) -> bool:
    """Return whether a text is a verifier already, as the server decides it."""
    return bool(SCRAM.fullmatch(text) or MD5.fullmatch(text))


def matches(password: str, role: str, method: str, digest: str) -> bool:
    """Return whether the server's verifier is of a password or verifier.

    ``method``: the stored verifier without its secret part; ``digest``: the SHA-256 of the whole.
    """
    if is_verifier(password):
        stored = password
    elif method == "md5":
        stored = "md5" + hashlib.md5((password + role).encode(), usedforsecurity=False).hexdigest()
    else:
        rounds, _, salt = method.removeprefix("SCRAM-SHA-256$").partition(":")
        stored = _scram(password, base64.b64decode(salt), int(rounds)) if rounds.isdecimal() else ""
    return hmac.compare_digest(hashlib.sha256(stored.encode()).hexdigest(), digest)


def unmasked(bits: str, key: str, role: str) -> str:
    """Return a digest that the server has sent masked by that of ``key`` and the name of the role."""
    mask = int.from_bytes(hashlib.sha256((key + role).encode()).digest(), "big")
    return (int(bits, 2) ^ mask).to_bytes(DIGEST, "big").hex()


def _scram(password: str, salt: bytes, rounds: int) -> str:
    salted = hashlib.pbkdf2_hmac("sha256", unicodedata.normalize("NFKC", password).encode(), salt, rounds)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    first, second, third = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${rounds}:{first}${second}:{third}"
