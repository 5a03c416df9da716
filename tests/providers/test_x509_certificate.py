"""Certificates, verified by the real openssl."""

from __future__ import annotations

import base64
import subprocess
from typing import TYPE_CHECKING, Any

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
    """Run openssl, which must succeed; return its output."""
    process = subprocess.run(["openssl", *map(str, arguments)], check=False, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def make_key(path: Path, algorithm: str) -> None:
    """Make an encrypted key."""
    openssl("genpkey", "-algorithm", algorithm, "-out", path, "-aes-128-cbc", "-pass", "pass:sesame-street")


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of an encrypted key."""
    path = tmp_path_factory.mktemp("key") / "key"
    make_key(path, "ED25519")
    return path


class TestX509Certificate(WholeFiles, ProviderCompliance):
    """A self-signed certificate, which then is for other names."""

    type_name = "x509_certificate"

    @pytest.fixture
    def present(self, tmp_path: Path, key: Path) -> Resource:
        signed = {"private_key": str(key), "passphrase": "sesame-street", "ca_passphrase": "unused-here"}
        return {"path": f"{tmp_path}//ra-test-a", "subject": {"O": "Ra", "CN": "a.example"}, **signed}

    @pytest.fixture
    def updated(self, present: Resource, key: Path) -> Resource:
        names = ["b.example", "IP:2001:db8:0::1", "b.example"]
        return {**present, "private_key": f"/{key}", "alt_names": names, "mode": "0640"}

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a certificate in a directory of another user."""
        path = str(directory_of_nobody(tmp_path) / "ra-test-b")
        return [Neighbour(path, b"-----BEGIN CERTIFICATE-----\n", "nobody", [{**present, "path": path}])]


@pytest.fixture
def authority(tmp_path: Path) -> dict[str, Any]:
    """Return the certificate of an authority, whose RSA key exists."""
    make_key(tmp_path / "ca.key", "RSA")
    declared = {"private_key": f"{tmp_path}/ca.key", "passphrase": "sesame-street", "subject": {"CN": "Ra CA"}}
    return {f"X509_certificate[{tmp_path}/ca.pem]": {**declared, "ca": True}}


def signed_in(tmp_path: Path) -> dict[str, Any]:
    """Return the attributes with which the authority signs."""
    ca = {"ca_certificate": f"{tmp_path}/ca.pem", "ca_key": f"{tmp_path}/ca.key"}
    return {**ca, "ca_passphrase": "sesame-street"}


def test_openssl_verifies_what_an_authority_has_signed(tmp_path: Path, authority: dict[str, Any]) -> None:
    """Made in one run with its key and the authority, from a key and from a request of openssl."""
    web, app = tmp_path / "web.pem", tmp_path / "app.pem"
    request = ("-subj", "/CN=app.example", "-addext", "subjectAltName=DNS:app.example,IP:192.0.2.1")
    openssl(
        "req", "-new", "-newkey", "ed25519", "-nodes", "-keyout", tmp_path / "k", "-out", tmp_path / "csr", *request
    )
    declared = {
        f"X509_certificate[{web}]": {
            "private_key": f"{tmp_path}/web.key",
            "subject": {"CN": "www.example"},
            "extended_key_usage": ["serverAuth"],
            **signed_in(tmp_path),
        },
        f"X509_certificate[{app}]": {"csr": f"{tmp_path}/csr", **signed_in(tmp_path)},
        **authority,
        f"X509_key[{tmp_path}/web.key]": {},
    }
    report, _ = run(declared)
    assert [step.error for step in report.steps if step.error] == []
    for path, host in ((web, "www.example"), (app, "app.example")):
        verified = openssl("verify", "-x509_strict", "-CAfile", tmp_path / "ca.pem", "-verify_hostname", host, path)
        assert verified == f"{path}: OK\n"
    assert openssl("pkey", "-in", tmp_path / "web.key", "-pubout") == openssl("x509", "-in", web, "-noout", "-pubkey")
    assert "IP Address:192.0.2.1" in openssl("x509", "-in", app, "-noout", "-ext", "subjectAltName")
    assert run(declared)[0].summary.unchanged == 4


def test_a_certificate_is_renewed_before_it_expires(tmp_path: Path) -> None:
    """With another serial number; the rest stays."""
    path = tmp_path / "a.pem"
    declared = {"private_key": f"{tmp_path}/key", "subject": {"CN": "a.example"}, "days": 20, "renew_before": 10}
    both = {f"X509_key[{tmp_path}/key]": {}, f"X509_certificate[{path}]": declared}
    run(both)
    before = openssl("x509", "-in", path, "-noout", "-serial", "-subject")
    assert run(both)[0].summary.unchanged == 2
    both[f"X509_certificate[{path}]"] = {**declared, "days": 30, "renew_before": 25}
    report, lines = run(both)
    assert report.summary.updated == 1
    assert any("expires at 20" in line for line in lines), lines
    after = openssl("x509", "-in", path, "-noout", "-serial", "-subject")
    assert after.splitlines()[1:] == before.splitlines()[1:]
    assert after != before
    openssl("x509", "-in", path, "-noout", "-checkend", 29 * 86400)
    assert run(both)[0].summary.unchanged == 2


def test_a_certificate_follows_its_key_and_its_authority(tmp_path: Path, authority: dict[str, Any]) -> None:
    """It is issued anew for another key, and when another authority is declared."""
    path = tmp_path / "a.pem"
    declared = {"private_key": f"{tmp_path}/key", "subject": {"CN": "a.example"}, **signed_in(tmp_path)}
    everything = {**authority, f"X509_key[{tmp_path}/key]": {}, f"X509_certificate[{path}]": declared}
    run(everything)
    (tmp_path / "key").unlink()
    report, lines = run(everything)
    assert (report.summary.created, report.summary.updated) == (1, 1)
    assert any(f"does not belong to '{tmp_path}/key'" in line for line in lines), lines
    make_key(tmp_path / "ca.key", "RSA")
    report, lines = run(everything)
    assert report.summary.updated == 2
    assert any(f"was not signed by '{tmp_path}/ca.pem'" in line for line in lines), lines
    openssl("verify", "-CAfile", tmp_path / "ca.pem", path)


def test_a_damaged_certificate_fails_alone(tmp_path: Path) -> None:
    """The library finds the damage only when it is asked for the part."""
    declared: dict[str, Any] = {f"X509_key[{tmp_path}/key]": {}}
    for name in ("a", "b"):
        subject = {"CN": f"{name}.example"}
        declared[f"X509_certificate[{tmp_path}/{name}.pem]"] = {"private_key": f"{tmp_path}/key", "subject": subject}
    run(declared)
    raw = base64.b64decode("".join((tmp_path / "b.pem").read_text().splitlines()[1:-1]))
    damaged = base64.encodebytes(raw.replace(b"\x0c\x09b.example", b"\x01\x09b.example"))
    (tmp_path / "b.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\n%b-----END CERTIFICATE-----\n" % damaged)
    report, _ = run(declared)
    assert report.summary.unchanged == 2
    assert [(str(step.reference), step.error) for step in report.steps] == [
        (f"X509_certificate[{tmp_path}/b.pem]", "has a part that cannot be read")
    ]


def test_what_cannot_be_signed_is_said(tmp_path: Path, authority: dict[str, Any]) -> None:
    """The present certificate stays."""
    run(authority)
    path, reference = tmp_path / "a.pem", f"X509_certificate[{tmp_path}/a.pem]"
    assert reason(run({reference: {"subject": {"CN": "a"}}})[0]) == "cannot be issued without a private_key or a csr"
    run({f"X509_key[{tmp_path}/key]": {}})
    wrong = {"private_key": f"{tmp_path}/key", **signed_in(tmp_path), "ca_key": f"{tmp_path}/key"}
    message = f"'{tmp_path}/key' is not the key of '{tmp_path}/ca.pem'"
    assert (warned({reference: wrong}), reason(run({reference: wrong})[0])) == ([message], message)
    wrong = {"private_key": f"{tmp_path}/ca.key"}
    message = f"'{tmp_path}/ca.key': is encrypted, and no passphrase is declared"
    assert (warned({reference: wrong}), reason(run({reference: wrong})[0])) == ([message], message)
    for more, message in (
        ({"alt_names": ["IP:300.1.1.1"]}, "alt_names: 'IP:300.1.1.1' cannot be in a certificate"),
        ({"subject": {"C": "Germany"}}, "subject: it cannot be in a certificate: "),
        ({"subject": {"9.9.9": "x"}}, "'9.9.9' is no number of an object"),
        ({"extended_key_usage": ["9.9.9"]}, "'9.9.9' is no number of an object"),
    ):
        wrong = {"private_key": f"{tmp_path}/key", **more}
        assert message in "".join(warned({reference: wrong}))
        assert message in reason(run({reference: wrong})[0])
    assert not path.exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"private_key": "/k", "csr": "/r"}, "exclude each other"),
        ({"private_key": "/k", "ca_key": "/c"}, "need each other"),
        ({"private_key": "/k", "days": 30}, "in every run"),
    ],
)
def test_contradictions_are_refused(wrong: Resource, message: str) -> None:
    """Before anything is read."""
    with pytest.raises(ManifestError, match=message):
        Runtime(REGISTRY).validate({"resources": {"X509_certificate[/srv/a.pem]": wrong}})
