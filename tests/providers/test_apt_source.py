"""Repositories that the real apt reads, in a mount namespace with private directories of apt."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import ManifestError, Registry, Runtime
from resource_api.files import Lines
from resource_api.system.log import Log
from resource_api.testing import ProviderCompliance
from tests import bundled
from tests.faults.bundled import KEYS
from tests.providers.applied import run, warned

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api import Resource
    from resource_api.model.report import RunReport

TYPE = Registry.from_path().type("apt_source")
DIRECTORY: Final = Path("/etc/apt/sources.list.d")
KEY: Final = next(iter(KEYS.values()))

pytestmark = pytest.mark.usefixtures("private_apt")


@pytest.fixture
def repository(private_apt: Path) -> str:
    """Return the URI of a repository with one package, and a Release file without a signature."""
    directory = private_apt / "repository"
    directory.mkdir()
    index = (
        b"Package: ra-test\nVersion: 1.0\nArchitecture: all\nFilename: ./x.deb\nSize: 1\nMaintainer: x\nSHA256: 00\n"
    )
    (directory / "Packages").write_bytes(index)
    digest = f"{hashlib.sha256(index).hexdigest()} {len(index)} Packages"
    (directory / "Release").write_text(f"Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {digest}\n")
    return f"file:{directory}"


def apply(name: str, **attributes: Any) -> RunReport:
    """Apply a manifest of one repository."""
    return Runtime(Registry.from_path(), log=Log("off")).apply({"resources": {f"Apt_source[{name}]": attributes}})


def error(report: RunReport) -> str:
    """Return the error of the only resource."""
    assert report.exit_code == 1
    return str(report.steps[0].error)


def known() -> bool:
    """Return whether apt knows the package of the repository."""
    output = subprocess.run(["apt-cache", "policy", "ra-test"], check=True, capture_output=True, text=True).stdout
    return "Candidate: 1.0" in output


def test_apt_knows_the_packages_of_a_new_repository_at_once(repository: str) -> None:
    """Without another update, and as long as it is enabled and present."""
    declared = {"uris": [repository], "suites": ["./"], "options": {"Trusted": True}}
    observed = []
    for change in ({}, {"enabled": False}, {"enabled": True}, {"ensure": "absent"}):
        assert apply("ra-test", **declared, **change).exit_code == 0
        assert apply("ra-test", **declared, **change).summary.unchanged == 1
        observed.append(known())
    assert observed == [True, False, True, False]


@pytest.mark.parametrize("uri", ["file:/srv/missing", ""])
def test_what_cannot_be_fetched_changes_no_file(repository: str, uri: str) -> None:
    """An address without a repository, and one whose key did not sign, fail as they would for apt."""
    path = DIRECTORY / "ra-test.sources"
    for before in (None, "Types: deb\nURIs: file:/srv/old\nSuites: ./\n"):
        if before:
            path.write_text(before)
        assert "it cannot be fetched from: " in error(
            apply("ra-test", uris=[uri or repository], suites=["./"], signed_by=KEY)
        )
        assert (path.read_text() if path.exists() else None) == before


SOURCE: Final = "Types: deb\nURIs: http://a.example/x\nSuites: stable\nComponents: main\n"
LINE: Final = "deb [signed-by=/b.gpg] http://a.example/x stable main\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (DIRECTORY / "a.sources", f"{SOURCE}Signed-By: /b.gpg\n"),
        (DIRECTORY / "z.sources", f"{SOURCE}Trusted: no\n"),
        (DIRECTORY / "old.list", LINE),
        (DIRECTORY.with_name("sources.list"), LINE),
    ],
)
def test_another_file_with_the_repository_and_other_options_is_named(path: Path, text: str) -> None:
    """With it apt could read no repository at all; one that is wrong already is not held against it."""
    path.write_text(text)
    (DIRECTORY / "other.sources").write_text(SOURCE.replace("a.example", "b.example"))
    declared = {"uris": ["http://a.example/x"], "suites": ["stable"], "components": ["main"], "update": False}
    option = {"options": {"Trusted": True}} if "Trusted" in text else {"signed_by": KEY}
    assert [item for item in warned({"Apt_source[ra-test]": {**declared, **option}}) if f"with {path})" in item]
    reason = error(apply("ra-test", **declared, **option))
    assert reason.startswith("Conflicting values set for option ")
    assert reason.endswith(f"(together with {path})")
    assert not (DIRECTORY / "ra-test.sources").exists()
    path.with_name("broken.sources").write_text("rubbish\n")
    assert apply("ra-test", **{**declared, "uris": ["http://c.example/x"]}).exit_code == 0


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (DIRECTORY / "old.list", "# by a script\ndeb [ arch=amd64 ] http://a.example/x/ stable contrib main # here\n"),
        (DIRECTORY / "a.sources", SOURCE.replace("Suites: stable", "Suites: testing stable")),
        (DIRECTORY.with_name("sources.list"), "deb http://a.example/x stable main\n"),
    ],
)
def test_another_file_with_the_same_repository_is_named_and_can_be_taken_over(path: Path, text: str) -> None:
    """In either form; the plan of a run that removes it before has no warning, and apt has none afterwards."""
    path.write_text(text)
    listed = Runtime(Registry.from_path(), log=Log("off")).resources("apt_source")
    assert {f"Apt_source[{item['name']}]" for item in listed} == ({"Apt_source[a]"} if path.stem == "a" else set())
    declared = {"uris": ["http://a.example/x"], "suites": ["stable"], "components": ["main"], "update": False}
    resources: dict[str, Any] = {"Apt_source[ra-test]": {**declared, "architectures": ["amd64"]}}
    message = f"{path} has the repository too: apt reads it twice and warns each time; remove it there"
    assert warned(resources) == [message]
    resources = {f"File[{path}]": {"ensure": "absent", "before": "Apt_source[ra-test]"}, **resources}
    assert warned(resources) == []
    assert run(resources)[0].exit_code == 0
    assert run(resources)[0].summary.unchanged == 2
    process = subprocess.run(["apt-get", "-q", "--print-uris", "update"], check=True, capture_output=True, text=True)
    assert (process.stderr, process.stdout.split()[0]) == ("", "'http://a.example/x/dists/stable/InRelease'")


def test_only_the_declared_fields_of_a_file_change() -> None:
    """Comments, the order of fields and further fields stay; the spelling of names does not matter."""
    path = DIRECTORY / "ra-test.sources"
    text = "# mine\n\nEnabled: no\nX-Note: a\n b\nuris: file:/a\n# why\nSuites: one\n two\nComponents: main\n\n# end\n"
    path.write_text(text)
    path.chmod(0o600)
    assert apply("ra-test", uris=["file:/b"], suites=["one"], components=["main"], update=False).exit_code == 0
    expected = text.replace("file:/a", "file:/b").replace("one\n two", "one").replace("main\n", "main\nTypes: deb\n")
    assert (path.read_text(), path.stat().st_mode & 0o777) == (expected, 0o600)


def test_a_file_with_several_repositories_fails_and_stays() -> None:
    """It would be unclear which one is meant, also for a removal; it is named in a listing."""
    path = DIRECTORY / "ra-test.sources"
    text = "Types: deb\nURIs: file:/a\nSuites: ./\n"
    path.write_text(f"{text}\n{text}")
    for ensure in ("present", "absent"):
        message = error(apply("ra-test", ensure=ensure, uris=["file:/b"], suites=["./"]))
        assert "2 paragraphs" in message
    path.write_text(f"{text}URIs: file:/b\n")
    assert "line 4" in error(apply("ra-test", uris=["file:/b"], suites=["./"]))
    assert Runtime(Registry.from_path(), log=Log("off")).resources("apt_source") == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"suites": ["stable"]}, "only a suite that ends with '/' has none"),
        ({"suites": ["./"], "components": ["main"]}, "is a path, which has no components"),
        ({"suites": ["./"], "options": {"signed-by": "/k"}}, "has an attribute of its own"),
        ({"suites": ["./"], "options": {"X": "a\nURIs: b"}}, "options"),
        ({"suites": ["a\nURIs: b"]}, "suite without blanks"),
        ({"suites": ["./"], "signed_by": "key.asc"}, "absolute path of a keyring"),
    ],
)
def test_what_apt_would_refuse_or_misread_is_refused(wrong: dict[str, Any], message: str) -> None:
    """Before anything is fetched."""
    with pytest.raises(ManifestError, match=message):
        apply("ra-test", uris=["file:/srv"], **wrong)


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a b", "é", "a\n", "../a"])
def test_a_name_that_apt_ignores_is_refused(name: str) -> None:
    """It would be a repository without effect, or a file elsewhere."""
    assert not TYPE.accepts["name"](name)


@pytest.mark.parametrize("text", ["A: 1\n", "# c\nA: 1", "A: 1\r\nB: 2\r\n", ""])
def test_an_added_field_is_read_back_and_removed_without_a_trace(text: str) -> None:
    """Whatever the line ends are."""
    deb822, lines = bundled.execute("lib", "deb822"), Lines(text.encode())
    deb822.edit(lines, {"New": "\na\n\nb"})
    assert [item.value for item in deb822._only(lines) if item.name == "New"] == ["\na\n\nb"]
    deb822.edit(lines, {"new": ""})
    assert lines.content == text.encode()


class TestAptSource(ProviderCompliance):
    """A repository in a file, and a similar one."""

    type_name = "apt_source"

    @pytest.fixture
    def present(self, repository: str) -> Resource:
        return {
            "name": "ra-test",
            "types": ["deb"],
            "uris": [repository],
            "suites": ["./"],
            "options": {"Trusted": True},
        }

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        more = {"signed_by": KEY, "enabled": False, "architectures": ["i386", "amd64"], "options": {"trusted": "no"}}
        return {**present, **more}

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: [(path, path.stat().st_mtime_ns) for path in sorted(Path("/var/lib/apt").rglob("*"))]

    @pytest.fixture
    def neighbours(self) -> str:
        return "the directories of apt belong to root"
