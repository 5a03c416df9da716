"""Issue certificates, and compare them with keys, requests, authorities and the time."""

from __future__ import annotations

import datetime as dt
import os
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from lib import prerequisites, protected_file
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from types import ModuleType

    from resource_api import Change, Context, Resource, Sensitive

#: The forms of an alternative name.
KINDS = ("DNS:", "IP:", "email:", "URI:", "other:")
#: Files that a certificate is compared with.
ISSUED_WITH = ("private_key", "csr", "ca_certificate")
#: Attributes whose difference needs a new certificate, by the provider's own comparison or as they are read.
INSIDE = ("subject", "alt_names", "ca", "extended_key_usage")


class Provider(BaseProvider):
    """The certificates in files of the local machine."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Clean paths, write each alternative name with its kind, and sort names, so that equal values are equal."""
        for resource in resources:
            if "path" in resource:
                resource["path"] = files.canonical_path(resource["path"])
            for attribute in ("alt_names", "extended_key_usage"):
                if resource.get(attribute) is not None:
                    names = map(_alt_name, resource[attribute]) if attribute == "alt_names" else resource[attribute]
                    resource[attribute] = sorted(set(names))
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse attributes that exclude or need each other, and a renewal in every run."""
        yield from refused_secrets(should, "passphrase", "ca_passphrase")
        if should.get("ensure") == "absent":
            return
        if should.get("csr") is not None and should.get("private_key") is not None:
            yield Problem("csr", "csr and private_key exclude each other: a request has the public key")
        if (should.get("ca_certificate") is None) != (should.get("ca_key") is None):
            yield Problem("ca_certificate", "ca_certificate and ca_key need each other")
        days, before = should.get("days"), should.get("renew_before")
        if isinstance(days, int) and isinstance(before, int) and before >= days:
            yield Problem("renew_before", "it would be issued anew in every run: renew_before is not less than days")

    def insync(
        self, context: Context, name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare the certificate with its key, its request, its authority and the time, which are read here.

        Plain functions compare two files, so that ``derived`` can return the result of an earlier run; not with a
        passphrase, which must not be in the cache.
        """
        if attribute == "renew_before":
            remaining = dt.datetime.fromisoformat(is_["not_after"]) - dt.datetime.now(dt.UTC)
            return remaining > dt.timedelta(days=should["renew_before"]) or (False, f"expires at {is_['not_after']}")
        if attribute not in ISSUED_WITH:
            return protected_file.same_owner(attribute, is_, should)
        path = should.get(attribute)
        if path is None:
            return True
        if not os.path.lexists(path):
            return False, f"'{path}' does not exist"
        both = (name, protected_file.content(name), path, protected_file.content(path))
        if attribute == "ca_certificate":
            return context.derived(_is_signed_by, *both) or (False, f"was not signed by '{path}'")
        if attribute == "csr":
            belongs = context.derived(_belongs_to_request, *both)
        elif (passphrase := should.get("passphrase")) is None:
            belongs = context.derived(_belongs_to_key, *both)
        else:
            belongs = _belongs_to_key(*both, passphrase)
        return belongs or (False, f"does not belong to '{path}'")

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the certificates in ``names``."""
        return protected_file.read_all(context, names, "a certificate", partial(context.derived, _describe))

    def preflight(self, context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites, such as the directory and the key, or else the reason of a failure."""
        return prerequisites.of_files(
            changes, lambda path, should: [*_missing(path, should)] or self._refusal(context, path, should)
        )

    def _refusal(self, context: Context, path: str, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield the reason why a certificate cannot be issued, such as a wrong passphrase, so that a plan shows it."""
        if should.keys().isdisjoint({"private_key", "csr"}) or ("ca_certificate" in should) != ("ca_key" in should):
            return  # a value is not known yet
        try:
            present = _describe(protected_file.content(path)) if os.path.lexists(path) else None
            _content(self, context, path, present, should)
        except (OSError, ResourceError) as error:
            yield Problem(None, files.describe_error(error, path))

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Issue or remove certificates, or change their permissions."""
        protected_file.write_all(context, changes, partial(_content, self, context))


def _missing(path: str, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the missing prerequisites of a certificate; another resource may make a key or authority."""
    yield from prerequisites.missing_module("cryptography", "Package[python3-cryptography]")
    yield from prerequisites.missing_place(path, should)
    yield from prerequisites.missing_file("csr", should.get("csr"))
    yield from prerequisites.missing_made_file("private_key", should.get("private_key"), "X509_key")
    yield from prerequisites.missing_made_file("ca_key", should.get("ca_key"), "X509_key")
    yield from prerequisites.missing_made_file("ca_certificate", should.get("ca_certificate"), "X509_certificate")


def _issuing() -> ModuleType:
    """Import the module for certificates, which needs ``cryptography``. Raise ``ResourceError`` if that is missing."""
    with prerequisites.needing("cryptography", "Debian: python3-cryptography"):
        from lib import x509_certificates
    return x509_certificates


def _describe(content: bytes) -> Resource:
    """Return the attributes of the certificate in a file's content."""
    issuing = _issuing()
    described: Resource = issuing.describe(issuing.load(content))
    return described


def _is_signed_by(path: str, content: bytes, authority_path: str, authority_content: bytes) -> bool:
    """Return whether the authority in one file has signed the certificate in another; if not, a new one is issued."""
    issuing = _issuing()
    authority = issuing.certificate_of(authority_path, authority_content)
    signed: bool = issuing.is_signed_by(issuing.certificate_of(path, content), authority)
    return signed


def _belongs_to_key(
    path: str, content: bytes, key_path: str, key_content: bytes, passphrase: Sensitive[str] | None = None
) -> bool:
    """Return whether a certificate is for the private key in another file: both have the same public key.

    If not, as after a new key, a new certificate is issued.
    """
    issuing = _issuing()
    key = issuing.x509_files.key_of(key_path, key_content, passphrase)
    belongs: bool = issuing.belongs_to(issuing.certificate_of(path, content), key)
    return belongs


def _belongs_to_request(path: str, content: bytes, request_path: str, request_content: bytes) -> bool:
    """Return whether a certificate is for the signing request in another file: both have the same public key.

    If not, as after a new request, a new certificate is issued.
    """
    issuing = _issuing()
    request = issuing.request_of(request_path, request_content)
    belongs: bool = issuing.belongs_to(issuing.certificate_of(path, content), request)
    return belongs


def _content(
    provider: Provider, context: Context, path: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]
) -> bytes | None:
    """Return a new certificate in PEM, or None if the present one is as declared and at most permissions differ."""
    if is_ is not None:
        same = all(should[name] == is_[name] for name in INSIDE if should.get(name) is not None)
        if same and all(
            provider.insync(context, path, name, is_, should) is True for name in (*ISSUED_WITH, "renew_before")
        ):
            return None
    content: bytes = _issuing().issue(should, is_ or {})
    return content


def _alt_name(name: str) -> str:
    """Return the canonical form of an alternative name, so that equal names are equal texts.

    It begins with its kind, ``DNS:web.example`` for ``web.example``, and an address is in its shortest form.
    """
    kind, text = next(((kind, name[len(kind) :]) for kind in KINDS if name.startswith(kind)), ("", name))
    if kind in {"", "IP:"}:
        try:
            return f"IP:{ip_address(text)}"
        except ValueError:
            return f"{kind or 'DNS:'}{text}"
    return kind + text
