"""``bundle``: packed, signed and verified with the real ssh-keygen."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench

MAKE = ("bundle", "make", "site", "-o", "site.bundle")
VERIFY = ("bundle", "verify", "site.bundle", "--signers", "signers")


@pytest.fixture
def site(bench: Bench, keys: Path) -> Bench:
    """Return the bench with a site of one file, keys, and no module path but the manifest's directory."""
    bench.environment["RESOURCE_API_MODULE_PATH"] = ""
    bench.write("site/site.yaml", "resources: {}\n")
    for file in keys.iterdir():
        (bench.home / file.name).write_bytes(file.read_bytes())
        (bench.home / file.name).chmod(0o600)
    return bench


def sign(bench: Bench, key: str = "alice") -> None:
    """Sign the bundle."""
    result = bench.run("bundle", "sign", "site.bundle", "--key", key)
    assert (result.code, result.out) == (0, "site.bundle.sig: signs site.bundle: site, generation 1, 1 file\n"), (
        result.err
    )


def test_equal_files_make_equal_bytes(site: Bench) -> None:
    """Other files get the next generation, unless one is given."""
    assert site.run(*MAKE).out == "site.bundle: site, generation 1, 1 file\n"
    first = (site.home / "site.bundle").read_bytes()
    assert site.run(*MAKE).out == "site.bundle: site, generation 1, 1 file\n"
    assert (site.home / "site.bundle").read_bytes() == first
    site.write("site/types/a.py", "")
    assert site.run(*MAKE, "--json").document == {
        "bundle": "site.bundle",
        "name": "site",
        "generation": 2,
        "files": ["site.yaml", "types/a.py"],
    }
    assert site.run(*MAKE, "--generation", "9", "--name", "web").out == "site.bundle: web, generation 9, 2 files\n"
    site.write("site.bundle", "a letter")
    result = site.run(*MAKE)
    assert (result.code, "site.bundle: is there and is no bundle" in result.err) == (64, True)
    assert (site.home / "site.bundle").read_text() == "a letter"
    (site.home / "my site").mkdir()
    result = site.run("bundle", "make", "my site", "-o", "other.bundle")
    assert (result.code, "has no files" in result.err) == (64, True), result.err
    site.write("my site/a", "")
    result = site.run("bundle", "make", "my site", "-o", "other.bundle")
    assert (result.code, "give one with --name" in result.err) == (64, True), result.err


def test_a_signed_bundle_is_verified(site: Bench) -> None:
    """Also by hand, with ssh-keygen alone."""
    site.run(*MAKE)
    sign(site)
    assert site.run(*VERIFY).out == "site.bundle: site, generation 1, 1 file, by alice@example.org\n"
    assert site.run(*VERIFY, "--json").document["signer"] == "alice@example.org"
    words = ["ssh-keygen", "-Y", "verify", "-n", "resource-api", "-f", "signers", "-I", "alice@example.org"]
    words += ["-s", "site.bundle.sig"]
    with (site.home / "site.bundle").open("rb") as bundle:
        subprocess.run(words, cwd=site.home, stdin=bundle, check=True, capture_output=True)


def _unsigned(site: Bench) -> None:
    site.run(*MAKE)


def _of_another(site: Bench) -> None:
    site.run(*MAKE)
    sign(site, "mallory")


def _for_something_else(site: Bench) -> None:
    site.run(*MAKE)
    words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", "alice", "site.bundle"]
    subprocess.run(words, cwd=site.home, check=True, capture_output=True)


def _changed(site: Bench) -> None:
    site.run(*MAKE)
    sign(site)
    site.write("site/site.yaml", "resources: {}\noutputs: {}\n")
    site.run(*MAKE)


def _no_signature(site: Bench) -> None:
    site.run(*MAKE)
    site.write("site.bundle.sig", "x" * 100)


def _too_large(site: Bench) -> None:
    site.run(*MAKE)
    site.write("site.bundle.sig", "x" * 70_000)


def _signed_letter(site: Bench) -> None:
    site.write("site.bundle", "a letter")
    words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "resource-api", "-f", "alice", "site.bundle"]
    subprocess.run(words, cwd=site.home, check=True, capture_output=True)


def _signers_of_others(site: Bench) -> None:
    site.run(*MAKE)
    sign(site)
    (site.home / "signers").chmod(0o646)


def test_invisible_characters_of_a_signer_and_a_path_are_escaped(site: Bench) -> None:
    """As from a list of signers that begins with a byte order mark."""
    site.run(*MAKE)
    sign(site)
    for suffix in ("", ".sig"):
        (site.home / f"site.bundle{suffix}").rename(site.home / f"\x1b.bundle{suffix}")
    (site.home / "signers").write_text(f"\ufeff{(site.home / 'signers').read_text()}", encoding="utf-8")
    result = site.run("bundle", "verify", "\x1b.bundle", "--signers", "signers")
    assert result.out == "\\x1b.bundle: site, generation 1, 1 file, by \\ufeffalice@example.org\n"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_unsigned, "site.bundle: it is not signed: there is no"),
        (_of_another, "no key in"),
        (_for_something_else, "the signature of alice@example.org is not valid: Couldn't verify signature: namespace"),
        (_changed, "the signature of alice@example.org is not valid: Signature verification failed: incorrect"),
        (_no_signature, "no key in"),
        (_too_large, "site.bundle: its signature cannot be read: larger than 64 KiB"),
        (_signed_letter, "site.bundle: it is no tar"),
        (_signers_of_others, "signers: is not used, because others could have changed it"),
    ],
)
def test_what_is_not_verified_is_refused(site: Bench, spoil: object, reason: str) -> None:
    """With why, and the exit code of a wrong manifest."""
    spoil(site)  # type: ignore[operator] # a function above
    result = site.run(*VERIFY)
    assert (result.code, reason in result.err) == (65, True), result.err


def test_what_cannot_be_signed_is_an_error(site: Bench) -> None:
    """A key that is none, a file that is no bundle, a bundle that cannot be written."""
    result = site.run("bundle", "make", "site", "-o", "nowhere/site.bundle")
    assert (result.code, "nowhere: No such file or directory" in result.err) == (1, True), result.err
    site.run(*MAKE)
    result = site.run("bundle", "sign", "site.bundle", "--key", "signers")
    assert (result.code, "signers: cannot sign: " in result.err) == (1, True), result.err
    assert site.run("bundle", "sign", "alice", "--key", "alice").code == 65
    assert not (site.home / "site.bundle.sig").exists()
