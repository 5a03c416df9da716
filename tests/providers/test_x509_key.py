"""Private keys, read by the real openssl."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from resource_api import ManifestError, Runtime
from resource_api.testing import Neighbour, ProviderCompliance
from tests.bundled import directory_of_nobody
from tests.providers.applied import REGISTRY, reason, run, warned
from tests.providers.parts_of_files import WholeFiles

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api import Resource


def openssl(*arguments: object) -> str:
    """Run openssl; return its output, empty if it fails."""
    return subprocess.run(["openssl", *map(str, arguments)], check=False, capture_output=True, text=True).stdout


class TestX509Key(WholeFiles, ProviderCompliance):
    """A key that is encrypted, and then gets other permissions."""

    type_name = "x509_key"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        return {"path": f"{tmp_path}//ra-test-a", "type": "ed25519", "passphrase": "sesame-street"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "mode": "0640"}

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a key in a directory of another user."""
        path = str(directory_of_nobody(tmp_path) / "ra-test-b")
        return [Neighbour(path, b"-----BEGIN PRIVATE KEY-----\n", "nobody", [{**present, "path": path}])]


def test_the_module_that_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a key that is there; the message names its package."""
    path = tmp_path / "key"
    path.write_text("-----BEGIN PRIVATE KEY-----\n")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    needed = "needs the Python module cryptography (Debian: python3-cryptography): "
    assert reason(run({f"X509_key[{path}]": {}})[0]).startswith(needed)


@pytest.mark.parametrize(
    ("declared", "output"),
    [
        ({}, "ASN1 OID: prime256v1"),
        ({"type": "ec", "curve": "secp384r1"}, "ASN1 OID: secp384r1"),
        ({"type": "rsa", "size": 2048}, "Private-Key: (2048 bit"),
        ({"type": "ed25519"}, "ED25519 Private-Key"),
    ],
)
def test_openssl_reads_a_new_key(tmp_path: Path, declared: Resource, output: str) -> None:
    """Only its owner may; the public key is an attribute."""
    path = tmp_path / "key"
    assert reason(run({f"X509_key[{path}]": declared})[0]) == ""
    assert output in openssl("pkey", "-in", path, "-noout", "-text")
    assert path.stat().st_mode & 0o777 == 0o600
    [row] = Runtime(REGISTRY).resources("x509_key", names=[str(path)])
    assert row["public_key"] == openssl("pkey", "-in", path, "-pubout")
    assert run({f"X509_key[{path}]": row["type"] and {**declared, "type": row["type"]}})[0].summary.unchanged == 1


def test_a_key_is_encrypted_in_place(tmp_path: Path) -> None:
    """It stays the same key; with another passphrase it cannot be read, and is not replaced."""
    path = tmp_path / "key"
    run({f"X509_key[{path}]": {}})
    public = openssl("pkey", "-in", path, "-pubout")
    declared = {f"X509_key[{path}]": {"type": "ec", "passphrase": "sesame-street"}}
    assert run(declared)[0].summary.updated == 1
    assert openssl("pkey", "-in", path, "-pubout", "-passin", "pass:sesame-street") == public
    assert run(declared)[0].exit_code == 0
    second = {f"X509_key[{path}]": {"type": "ec", "passphrase": "another-one"}}
    assert "is encrypted with another passphrase" in reason(run(second)[0])
    third = {f"X509_key[{path}]": {"passphrase": "another-one", "mode": "0640"}}
    assert warned(third) == [f"'{path}': is encrypted with another passphrase"]


def test_a_key_is_never_replaced_silently(tmp_path: Path) -> None:
    """Neither for another type, nor because it cannot be read; one of openssl is taken over."""
    path = tmp_path / "key"
    openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", path)
    before = path.read_bytes()
    assert run({f"X509_key[{path}]": {"type": "rsa", "size": 2048}})[0].exit_code == 0
    for second in ({"type": "rsa", "size": 3072}, {"type": "ec"}):
        assert run({f"X509_key[{path}]": second})[0].exit_code != 0
        assert path.read_bytes() == before
    path.write_text("damaged")
    assert reason(run({f"X509_key[{path}]": {}})[0]) == "is not a private key in PEM"
    assert path.read_text() == "damaged"


@pytest.mark.parametrize("wrong", [{"type": "ec", "size": 2048}, {"type": "rsa", "curve": "secp256r1"}, {"size": 4096}])
def test_a_size_needs_its_type(wrong: Resource) -> None:
    """It is refused before anything is read."""
    with pytest.raises(ManifestError, match="only one of type"):
        Runtime(REGISTRY).validate({"resources": {"X509_key[/srv/key]": wrong}})
