"""Read and make private keys and certificates with the module ``cryptography``; imported where it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from lib import protected_file
from resource_api import ResourceError, Sensitive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

CURVES = {curve.name: curve for curve in (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)}


def generate(should: Mapping[str, Any]) -> PrivateKeyTypes:
    """Return a new private key of the declared type and size or curve; by default one of an elliptic curve."""
    kind = should.get("type") or "ec"
    if kind == "rsa":
        return rsa.generate_private_key(65537, should.get("size") or 4096)
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(CURVES[should.get("curve") or "secp256r1"]())


def describe(key: PrivateKeyTypes) -> dict[str, Any]:
    """Return the type of a key, and its size or curve, as attributes. Raise ``ResourceError`` for other types."""
    if isinstance(key, rsa.RSAPrivateKey):
        return {"type": "rsa", "size": key.key_size}
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return {"type": "ec", "curve": key.curve.name}
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return {"type": "ed25519"}
    raise ResourceError(f"is a key of another type: {type(key).__name__}")


def public_pem(key: PublicKeyTypes) -> bytes:
    """Return a public key in PEM; equal for equal keys."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def private_pem(key: PrivateKeyTypes, passphrase: Sensitive[str] | None) -> bytes:
    """Return a private key in PEM (PKCS #8) for its file, encrypted if there is a passphrase (None: there is none)."""
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase.reveal().encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def is_encrypted(content: bytes) -> bool:
    """Return whether a private key in PEM needs a passphrase."""
    return b"ENCRYPTED" in content


def load_key(content: bytes, passphrase: Sensitive[str] | None) -> PrivateKeyTypes:
    """Return the private key of a PEM text.

    Raise ``ResourceError`` for any other text, and for an encrypted key without its passphrase.
    """
    if is_encrypted(content) and passphrase is None:
        raise ResourceError("is encrypted, and no passphrase is declared")
    secret = passphrase.reveal().encode() if passphrase is not None and is_encrypted(content) else None
    try:
        return serialization.load_pem_private_key(content, secret)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        reason = "is encrypted with another passphrase" if secret is not None else "is not a private key in PEM"
        raise ResourceError(reason) from None


def read_key(path: str, passphrase: Sensitive[str] | None) -> PrivateKeyTypes:
    """Return the private key in a file. Raise ``ResourceError`` with the path."""
    return key_of(path, protected_file.content(path), passphrase)


def key_of(path: str, content: bytes, passphrase: Sensitive[str] | None) -> PrivateKeyTypes:
    """Return the private key in the ``content`` of a file.

    Raise ``ResourceError`` with the file's path, as the key of a certificate is in another file than the certificate.
    """
    try:
        return load_key(content, passphrase)
    except ResourceError as error:
        raise protected_file.at(path, error) from None
