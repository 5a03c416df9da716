"""Read and issue certificates with the module ``cryptography``; imported where it is needed."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lib import protected_file, x509_files
from resource_api import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: In the order in which they are in a subject.
PARTS = {
    "C": NameOID.COUNTRY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "L": NameOID.LOCALITY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "CN": NameOID.COMMON_NAME,
    "serialNumber": NameOID.SERIAL_NUMBER,
    "emailAddress": NameOID.EMAIL_ADDRESS,
}
SHORT = {oid: name for name, oid in PARTS.items()}
USAGES = {
    "serverAuth": ExtendedKeyUsageOID.SERVER_AUTH,
    "clientAuth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "codeSigning": ExtendedKeyUsageOID.CODE_SIGNING,
    "emailProtection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "timeStamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "OCSPSigning": ExtendedKeyUsageOID.OCSP_SIGNING,
}
USAGE_NAMES = {oid: name for name, oid in USAGES.items()}
GENERAL_NAMES: Mapping[str, Callable[[str], x509.GeneralName]] = {
    "DNS": x509.DNSName,
    "email": x509.RFC822Name,
    "URI": x509.UniformResourceIdentifier,
    "IP": lambda text: x509.IPAddress(ipaddress.ip_address(text)),
}
HOST = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*)(\.[A-Za-z0-9_-]+)*")
KEY_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


#: The errors of the library for a part of a certificate; it reads most parts only when they are asked for.
UNREADABLE = (
    *(ValueError, TypeError, UnsupportedAlgorithm),
    *(x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType),
)


@contextmanager
def _readable() -> Iterator[None]:
    """Raise ``ResourceError`` if the block cannot read a part of a certificate or request.

    The library raises many kinds of errors for malformed or unknown parts (``UNREADABLE``).
    """
    try:
        yield
    except UNREADABLE:
        raise ResourceError("has a part that cannot be read") from None


class Authority(NamedTuple):
    """Who signs: the name, the key, and the public key; of a self-signed certificate its own."""

    name: x509.Name
    key: Any
    public: Any


def load(content: bytes) -> x509.Certificate:
    """Return the first certificate of a PEM text. Raise ``ResourceError`` for any other text."""
    try:
        return x509.load_pem_x509_certificate(content)
    except UNREADABLE:
        raise ResourceError("is not a certificate in PEM") from None


def certificate_of(path: str, content: bytes) -> x509.Certificate:
    """Return the certificate in the ``content`` of a file.

    Raise ``ResourceError`` with the file's path, as a certificate can depend on the files of others.
    """
    try:
        return load(content)
    except ResourceError as error:
        raise protected_file.at(path, error) from None


def request_of(path: str, content: bytes) -> x509.CertificateSigningRequest:
    """Return the signing request in a file's content. Raise ``ResourceError`` for any other content.

    The signature must be right: it proves that the requester has the private key of the public key to be certified.
    """
    try:
        request = x509.load_pem_x509_csr(content)
        is_valid = request.is_signature_valid
    except UNREADABLE:
        raise ResourceError(f"'{path}': is not a signing request in PEM") from None
    if not is_valid:
        raise ResourceError(f"'{path}': the signature of the request is wrong")
    return request


def describe(certificate: x509.Certificate) -> dict[str, Any]:
    """Return the attributes of a certificate. Raise ``ResourceError`` for one with a part that cannot be read."""
    with _readable():
        return _attributes(certificate)


def _attributes(certificate: x509.Certificate) -> dict[str, Any]:
    """Return the attributes of a certificate. Raise one of ``UNREADABLE`` for a part that cannot be read."""
    constraints = _extension(certificate, x509.BasicConstraints)
    usages = _extension(certificate, x509.ExtendedKeyUsage) or ()
    # Before cryptography 42, as in Debian 12, times are in UTC without saying so.
    has_utc = hasattr(certificate, "not_valid_after_utc")
    ends = certificate.not_valid_after_utc if has_utc else certificate.not_valid_after
    return {
        "subject": subject(certificate.subject),
        "alt_names": alt_names(certificate),
        "ca": bool(constraints and constraints.ca),
        "extended_key_usage": sorted(USAGE_NAMES.get(usage, usage.dotted_string) for usage in usages),
        "issuer": certificate.issuer.rfc4514_string(),
        "serial": f"{certificate.serial_number:x}",
        "not_after": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "fingerprint": certificate.fingerprint(hashes.SHA256()).hex(),
    }


def subject(name: x509.Name) -> dict[str, str]:
    """Return the parts of a subject by their short names, unknown ones by their numbers."""
    return {SHORT.get(part.oid, part.oid.dotted_string): str(part.value) for part in name}


def alt_names(holder: x509.Certificate | x509.CertificateSigningRequest) -> list[str]:
    """Return the alternative names in a certificate or request, sorted, as the attribute has them: ``DNS:a.org``."""
    names = _extension(holder, x509.SubjectAlternativeName) or ()
    kinds: dict[type[Any], str] = {
        x509.DNSName: "DNS",
        x509.RFC822Name: "email",
        x509.UniformResourceIdentifier: "URI",
        x509.IPAddress: "IP",
    }
    return sorted(f"{kinds.get(type(name), 'other')}:{name.value}" for name in names)


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether an authority has signed a certificate: if not, it has to be issued again."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (*UNREADABLE, InvalidSignature):
        return False
    return True


def belongs_to(certificate: x509.Certificate, holder: Any) -> bool:
    """Return whether a certificate is for a private key or a signing request. Raise ``ResourceError``."""
    with _readable():
        return x509_files.public_pem(holder.public_key()) == x509_files.public_pem(certificate.public_key())


def issue(should: Mapping[str, Any], is_: Mapping[str, Any]) -> bytes:
    """Return a new certificate in PEM, with the declared attributes, or else with the present one's, ``is_``.

    The public key is that of a declared ``csr``, whose private key need not be here, or of ``private_key``; without an
    authority the certificate is self-signed. Raise ``ResourceError`` for a key, request or authority that cannot be
    used.
    """
    csr = should.get("csr")
    request = None if csr is None else request_of(csr, protected_file.content(csr))
    key: Any = None
    if request is None:
        if should.get("private_key") is None:
            raise ResourceError("cannot be issued without a private_key or a csr")
        key = x509_files.read_key(should["private_key"], should.get("passphrase"))
    public: Any = (request or key).public_key()
    attributes = _new_attributes(should, is_, request)
    name = _name(attributes["subject"])
    authority = _authority(should, Authority(name, key, public))
    start = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(authority.name, name, public, x509.random_serial_number())
    builder = builder.not_valid_before(start).not_valid_after(start + dt.timedelta(days=should["days"]))
    for extension, critical in _extensions(attributes, public, authority.public):
        builder = builder.add_extension(extension, critical)
    # A key of ed25519 signs without a digest of its own.
    digest = None if isinstance(authority.key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(authority.key, digest).public_bytes(serialization.Encoding.PEM)


def _new_attributes(
    should: Mapping[str, Any], is_: Mapping[str, Any], request: x509.CertificateSigningRequest | None
) -> dict[str, Any]:
    """Return the attributes of the new certificate: the declared ones, else those of the present one or the request.

    If there are no alternative names and the common name is a host's, it becomes one: clients compare only alternative
    names with the host that they connect to.
    """
    requested: dict[str, Any] = {}
    if request is not None:
        requested = {"subject": subject(request.subject), "alt_names": alt_names(request)}
    attributes: dict[str, Any] = {}
    for name in ("subject", "alt_names", "ca", "extended_key_usage"):
        # An empty value counts where it is declared.
        declared = should.get(name)
        attributes[name] = (is_.get(name) or requested.get(name) or None) if declared is None else declared
    parts = attributes["subject"] or {}
    attributes["subject"] = {part: parts[part] for part in (*PARTS, *(parts.keys() - PARTS)) if part in parts}
    if attributes["alt_names"] is None and not attributes["ca"] and HOST.fullmatch(parts.get("CN", "")):
        attributes["alt_names"] = [f"DNS:{parts['CN']}"]
    return attributes


def _name(subject: Mapping[str, str]) -> x509.Name:
    """Return a subject from its parts, ``{"CN": "www.example.org"}``. Raise ``ResourceError`` for an impossible one."""
    try:
        return x509.Name([x509.NameAttribute(_oid(PARTS, part), text) for part, text in subject.items()])
    except ValueError as error:
        raise ResourceError(f"subject: it cannot be in a certificate: {error}") from None


def _oid(oids: Mapping[str, x509.ObjectIdentifier], name: str) -> x509.ObjectIdentifier:
    """Return the object identifier of a short name (``CN``) in ``oids``, or of a number (``2.5.4.3``) for any other.

    Raise ``ResourceError`` for a text that is neither.
    """
    try:
        return oids.get(name) or x509.ObjectIdentifier(name)
    except ValueError:
        raise ResourceError(f"'{name}' is no number of an object") from None


def _authority(should: Mapping[str, Any], itself: Authority) -> Authority:
    """Return the signer: the declared authority, or ``itself``, the new certificate's own key, without one.

    ``itself`` has no key for a signing request, which an authority must sign. Raise ``ResourceError`` for an authority
    whose key is not that of its certificate.
    """
    if should.get("ca_certificate") is None:
        if itself.key is None:
            raise ResourceError("a signing request is signed by an authority: declare ca_certificate and ca_key")
        return itself
    certificate = certificate_of(should["ca_certificate"], protected_file.content(should["ca_certificate"]))
    key = x509_files.read_key(should["ca_key"], should.get("ca_passphrase"))
    if not belongs_to(certificate, key):
        raise ResourceError(f"'{should['ca_key']}' is not the key of '{should['ca_certificate']}'")
    return Authority(certificate.subject, key, certificate.public_key())


def _extensions(
    attributes: Mapping[str, Any], public: Any, authority: Any
) -> Iterator[tuple[x509.ExtensionType, bool]]:
    """Yield each extension of a new certificate, and whether it is critical (RFC 5280).

    A client refuses a certificate with a critical extension that it does not know. ``attributes`` are those of
    ``_new_attributes``; ``public`` is the certificate's public key, ``authority`` that of its issuer.
    """
    is_authority = bool(attributes["ca"])
    yield x509.BasicConstraints(ca=is_authority, path_length=None), True
    uses = {"key_cert_sign", "crl_sign"} if is_authority else {"digital_signature"}
    if not is_authority and isinstance(public, rsa.RSAPublicKey):
        uses.add("key_encipherment")
    yield x509.KeyUsage(**{usage: usage in uses for usage in KEY_USAGES}), True
    if attributes["extended_key_usage"]:
        yield x509.ExtendedKeyUsage([_oid(USAGES, usage) for usage in attributes["extended_key_usage"]]), False
    if attributes["alt_names"]:
        names = x509.SubjectAlternativeName(map(_general_name, attributes["alt_names"]))
        yield names, not attributes["subject"]  # critical if they alone identify the holder
    yield x509.SubjectKeyIdentifier.from_public_key(public), False
    yield x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), False


def _general_name(text: str) -> x509.GeneralName:
    """Return an alternative name of a certificate from its text, ``DNS:example.com``. Raise ``ResourceError``."""
    kind, _, value = text.partition(":")
    try:
        return GENERAL_NAMES[kind](value)
    except (KeyError, ValueError) as error:
        raise ResourceError(f"alt_names: '{text}' cannot be in a certificate: {error}") from None


def _extension(holder: x509.Certificate | x509.CertificateSigningRequest, kind: type[Any]) -> Any:
    """Return the value of an extension of a certificate or request; None if it is missing or cannot be read.

    The certificate can still be described then, with an empty attribute.
    """
    try:
        return holder.extensions.get_extension_for_class(kind).value
    except (*UNREADABLE, x509.ExtensionNotFound):
        return None
