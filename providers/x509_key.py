"""Generate private keys, and read their attributes."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from lib import prerequisites, protected_file
from lib.sensitive import refused_secrets, shown_by_mode
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from types import ModuleType

    from resource_api import Change, Context, Resource

#: Attributes that are in the key itself.
INSIDE = ("type", "size", "curve")
#: The attributes that only one type has.
FOR = {"size": "rsa", "curve": "ec"}


class Provider(BaseProvider):
    """The private keys of the local machine."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Remove needless slashes and dots from paths, so that equal paths are equal texts."""
        for resource in resources:
            if "path" in resource:
                resource["path"] = files.canonical_path(resource["path"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a size or a curve for a type of key that has none; warn if the mode lets all users read the key."""
        yield from refused_secrets(should, "passphrase")
        yield from shown_by_mode(should.get("mode"), ["the private key"])
        kind = should.get("type") or "ec"
        for name, expected in FOR.items():
            if should.get(name) is not None and isinstance(kind, str) and kind != expected:
                yield Problem(name, f"a key of type {kind} has no {name}, only one of type {expected}")

    def insync(
        self, _context: Context, name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Require encryption if a passphrase is declared, and compare an encrypted key's attributes by it.

        Without a passphrase an encrypted key cannot be read, and counts as right.
        """
        secret = should.get("passphrase")
        if attribute == "ensure" and should["ensure"] == "present" and secret is not None and not is_["encrypted"]:
            return False, "is not encrypted"
        if attribute in INSIDE and is_.get("encrypted"):
            if secret is None:
                return True
            value = _x509().describe(_x509().read_key(name, secret)).get(attribute)
            return value == should[attribute] or (False, f"changed from {value} to {should[attribute]}")
        return protected_file.same_owner(attribute, is_, should)

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the keys in ``names``."""
        return protected_file.read_all(context, names, "a key", partial(context.derived, _inside))

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites of a key: the directory, its owner, its group; or that it is unreadable."""
        return prerequisites.of_files(changes, lambda path, should: [*_missing(path, should)] or _refusal(path, should))

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Generate, encrypt or remove keys, or change their permissions."""
        protected_file.write_all(context, changes, _content)


def _missing(path: str, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the missing prerequisites of a key."""
    yield from prerequisites.missing_module("cryptography", "Package[python3-cryptography]")
    yield from prerequisites.missing_place(path, should)


def _refusal(path: str, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the reason why a present key cannot be read with the declared passphrase, as ``set`` would fail."""
    if should.get("passphrase") is not None and os.path.lexists(path):
        try:
            _x509().read_key(path, should["passphrase"])
        except ResourceError as error:
            yield Problem("passphrase", files.describe_error(error, path))


def _x509() -> ModuleType:
    """Import the module for keys, which needs ``cryptography``. Raise ``ResourceError`` if that is missing."""
    with prerequisites.needing("cryptography", "Debian: python3-cryptography"):
        from lib import x509_files
    return x509_files


def _inside(content: bytes) -> Resource:
    """Return the attributes of the key in a file's content.

    An encrypted key cannot be read, and has only the attribute ``encrypted``.
    """
    x509 = _x509()
    if x509.is_encrypted(content):
        return {"encrypted": True}
    key = x509.load_key(content, None)
    return {"encrypted": False, **x509.describe(key), "public_key": x509.public_pem(key.public_key()).decode()}


def _content(path: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> bytes | None:
    """Return the PEM text to write, or None if the content of the file stays.

    A missing key is generated, and a plain one is encrypted if a passphrase is declared. Raise ``ResourceError`` if the
    passphrase does not fit the present key.
    """
    x509, secret = _x509(), should.get("passphrase")
    if is_ is not None and secret is None:
        return None
    key = x509.generate(should) if is_ is None else x509.read_key(path, secret)
    content: bytes = x509.private_pem(key, secret)
    return None if is_ is not None and is_["encrypted"] else content
