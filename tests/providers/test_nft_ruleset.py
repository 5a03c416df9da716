"""Rules of the real kernel, in a network namespace of the tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Runtime
from resource_api.system.log import Log
from resource_api.testing import ProviderCompliance
from tests.providers.applied import REGISTRY, reason, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the kernel"),
    pytest.mark.usefixtures("private_system"),
]

RULES = """table inet ra-test {
  set ports { type inet_service; elements = { 80, 22 }; }
  chain input {
    type filter hook input priority 0; policy accept;
    iifname "lo" counter accept
    tcp dport @ports accept
  }
}
"""
OTHERS = "table ip ra-docker {\n}\n"


def nft(*arguments: str, **options: Any) -> str:
    """Run nft and return its output."""
    return subprocess.run(["nft", *arguments], check=True, capture_output=True, text=True, **options).stdout


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    """Leave no rules behind."""
    yield
    nft("flush", "ruleset")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file that does not exist."""
    return tmp_path / "rules.nft"


def test_tables_are_loaded_beside_those_of_others(path: Path) -> None:
    """A second run changes nothing; absent removes file and tables."""
    nft("-f", "-", input=OTHERS)
    declared = {f"Nft_ruleset[{path}]": {"content": RULES}}
    assert run(declared)[0].summary.created == 1
    assert (path.read_text(), path.stat().st_mode & 0o777) == (RULES, 0o600)
    assert nft("list", "tables").splitlines() == ["table ip ra-docker", "table inet ra-test"]
    assert run(declared)[0].summary.unchanged == 1
    assert run({f"Nft_ruleset[{path}]": {"ensure": "absent"}})[0].summary.deleted == 1
    assert nft("list", "ruleset") == OTHERS
    assert not path.exists()


def test_flush_ruleset_removes_the_tables_of_others(path: Path) -> None:
    """And is drift as soon as there is one."""
    declared = {f"Nft_ruleset[{path}]": {"content": f"flush ruleset\n{RULES}"}}
    run(declared)
    nft("-f", "-", input=OTHERS)
    assert run(declared)[0].summary.updated == 1
    assert nft("list", "tables") == "table inet ra-test\n"


CHAIN = "inet ra-test input"
LOOPBACK = 'iifname "lo" counter accept'


@pytest.mark.parametrize(
    ("drift", "message"),
    [
        ("add rule inet ra-test input accept", "rules: 'accept' has been added in table inet ra-test, chain input"),
        ("flush chain inet ra-test input", "'tcp dport @ports accept' is missing in table inet ra-test, chain input"),
        ("delete table inet ra-test", "rules: it has no table"),
        ("add table ip other; delete table inet ra-test", "rules: table inet ra-test is missing"),
        ("add element inet ra-test ports { 8080 }", "8080 }' has been added in table inet ra-test, set ports"),
        ("add chain inet ra-test mine", "rules: 'chain mine' has been added in table inet ra-test"),
        (
            f"flush chain {CHAIN}; add rule {CHAIN} tcp dport @ports accept; add rule {CHAIN} {LOOPBACK}",
            "rules: table inet ra-test has another order",
        ),
    ],
)
def test_drift_of_the_kernel_is_mended(path: Path, drift: str, message: str) -> None:
    """The plan says which rules differ; counters do not."""
    declared = {f"Nft_ruleset[{path}]": {"content": RULES}}
    run(declared)
    good = nft("-s", "list", "ruleset")
    nft("-f", "-", input=drift)
    _, lines = run(declared)
    assert any(
        "changed in the running kernel, which has other rules: " in line and message in line for line in lines
    ), lines
    nft("-f", "-", input="table ip other; delete table ip other")
    assert nft("-s", "list", "ruleset") == good
    assert run(declared)[0].summary.unchanged == 1


def test_elements_that_come_and_go_by_themselves_are_no_drift(path: Path) -> None:
    """Such as banned addresses: a run would let them in again. Those of another set are drift."""
    ban = "set ban { type ipv4_addr; flags dynamic, timeout; timeout 1h; }"
    seen = "map seen { type ipv4_addr : verdict; flags timeout; }"
    text = RULES.replace("  chain", f"  {ban}\n  {seen}\n  chain").replace(
        "tcp dport", "ip saddr @ban drop\n    tcp dport"
    )
    declared = {f"Nft_ruleset[{path}]": {"content": text}}
    run(declared)
    addresses = ", ".join(f"192.0.2.{number}" for number in range(20))
    nft(
        "-f",
        "-",
        input=f"add element inet ra-test ban {{ {addresses} }}\nadd element inet ra-test seen {{ 192.0.2.1 : drop }}",
    )
    assert run(declared)[0].summary.unchanged == 1
    nft("-f", "-", input="add element inet ra-test ports { 8080 }")
    assert run(declared)[0].summary.updated == 1


def test_a_table_that_the_file_has_no_more_is_removed(path: Path) -> None:
    """The file was ours."""
    run({f"Nft_ruleset[{path}]": {"content": RULES}})
    run({f"Nft_ruleset[{path}]": {"content": RULES.replace("ra-test", "ra-new")}})
    assert nft("list", "tables") == "table inet ra-new\n"


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("table inet x {\n  chain y { foo }\n}\n", "syntax error"),
        ("table inet x {\n chain y { jump nowhere; }\n}\n", "nft: line 2"),
        ('table inet x {\n chain y { iif "ra-none" accept; }\n}\n', "Interface does not exist"),
    ],
)
def test_what_nft_refuses_is_neither_loaded_nor_written(path: Path, content: str, error: str) -> None:
    """The old rules stay, in the kernel and in the file; the plan warns with the reason."""
    assert warned({f"Nft_ruleset[{path}]": {"content": RULES}}) == []
    run({f"Nft_ruleset[{path}]": {"content": RULES}})
    before = nft("-s", "list", "ruleset")
    (warning,) = warned({f"Nft_ruleset[{path}]": {"content": content}})
    report, lines = run({f"Nft_ruleset[{path}]": {"content": content}})
    assert error in warning
    assert reason(report).endswith(warning)
    assert [line for line in lines if line.startswith("warning")] == []
    assert (path.read_text(), nft("-s", "list", "ruleset")) == (RULES, before)


def test_destroy_leaves_no_rules_of_a_file_that_came_with_the_same_manifest(path: Path) -> None:
    """A package brings its file; the rules that replaced it were made by us all the same."""
    package = {"command": f"echo 'flush ruleset' > {path}", "shell": True, "creates": str(path)}
    rules = {"content": f"flush ruleset\n{RULES}", "require": "Exec[package]"}
    site = {"project": "p", "resources": {"Exec[package]": package, f"Nft_ruleset[{path}]": rules}}
    runtime = Runtime(REGISTRY, log=Log("off"), state="memory:")
    assert runtime.apply(site).exit_code == 0
    assert nft("list", "tables") == "table inet ra-test\n"
    assert runtime.destroy(site).exit_code == 0
    assert (nft("list", "ruleset"), path.exists()) == ("", False)


CONFIGURATION = Path("/etc/nftables.conf")
#: Builds a package with a file of rules, in a database of packages of its own.
DATABASE = """
set -e
mkdir -p {0}/DEBIAN {0}/etc {1}/info {1}/updates {1}/alternatives {1}/triggers
printf 'Package: nftables\\nVersion: 9\\nArchitecture: all\\nMaintainer: x\\nDescription: x\\n' >{0}/DEBIAN/control
echo 'table inet ra-shipped {{ chain input {{ }}; }}' >{0}/etc/nftables.conf
dpkg-deb -Znone --root-owner-group --build {0} {0}.deb
mount --bind {1} /var/lib/dpkg
touch /var/lib/dpkg/status
rm /etc/nftables.conf
"""


@pytest.mark.parametrize(("package_is_ours", "remaining"), [(True, False), (False, True)])
def test_destroy_leaves_no_rules_of_a_file_that_came_with_a_package_of_an_earlier_run(
    tmp_path: Path, *, package_is_ours: bool, remaining: bool
) -> None:
    """Where the package was there before, its file was too: the rules are forgotten, and stay."""
    before = CONFIGURATION.read_text()
    subprocess.run(["sh", "-c", DATABASE.format(tmp_path / "tree", tmp_path / "database")], check=True)
    install = ["dpkg", "--force-all", "--install", f"{tmp_path}/tree.deb"]
    try:
        if not package_is_ours:
            subprocess.run(install, check=True)
        runtime = Runtime(REGISTRY, log=Log("off"), state="memory:")
        package: dict[str, Any] = {"Package[nftables]": {}}
        ruleset = {f"Nft_ruleset[{CONFIGURATION}]": {"content": f"flush ruleset\n{RULES}"}}
        if package_is_ours:
            subprocess.run(install, check=True)
            package["Package[nftables]"]["lifecycle"] = {"owned": True}
        assert runtime.apply({"project": "p", "resources": package}).exit_code == 0
        assert runtime.apply({"project": "p", "resources": {**package, **ruleset}}).exit_code == 0
        assert nft("list", "tables") == "table inet ra-test\n"
        runtime.destroy({"project": "p", "resources": {**package, **ruleset}})
        assert (nft("list", "ruleset") != "", CONFIGURATION.exists()) == (remaining, remaining)
    finally:
        subprocess.run(["umount", "/var/lib/dpkg"], check=True)
        CONFIGURATION.write_text(before)


def test_a_table_that_another_file_has_is_refused_with_its_file(path: Path) -> None:
    """The rules of the other file would be lost, until that is loaded again."""
    second = path.with_name("other.nft")
    second.write_text("table inet ra-test { chain more { accept; }; }\n")
    nft("-f", str(second))
    before = nft("list", "ruleset")
    message = f"{second} has the table inet ra-test too, and would lose its rules; put all of them into one file"
    assert warned({f"Nft_ruleset[{path}]": {"content": RULES}}) == [message]
    assert reason(run({f"Nft_ruleset[{path}]": {"content": RULES}})[0]) == message
    assert (nft("list", "ruleset"), path.exists()) == (before, False)


def test_a_name_that_another_file_defines_is_refused_with_its_file() -> None:
    """Where the main file reads both, it could not be loaded at the next start of the machine."""
    directory, main = Path("/etc/nftables.d"), Path("/etc/nftables.conf")
    before = main.read_text()
    directory.mkdir()
    main.write_text(f'flush ruleset\ninclude "{directory}/*.nft"\n')
    (directory / "a.nft").write_text("define RA_TEST = 1\n")
    (directory / "broken.nft").write_text("rubbish\n")
    mine = f"Nft_ruleset[{directory}/ra-test.nft]"
    wrong = {mine: {"content": f"define RA_TEST = 2\n{RULES}"}}
    error = reason(run(wrong)[0])
    assert warned(wrong) == [error]
    assert error.startswith(f"{directory}/ra-test.nft:1:8-14: Error: redefinition of symbol 'RA_TEST'")
    assert error.endswith(f"(together with {directory}/a.nft)")
    assert (nft("list", "tables"), (directory / "ra-test.nft").exists()) == ("", False)
    assert run({mine: {"content": f"define RA_TEST_2 = 2\n{RULES}"}})[0].summary.created == 1
    main.write_text(before)


def test_a_file_whose_names_another_one_uses_is_not_removed() -> None:
    """The main file could not be loaded at the next start; the message names the other file."""
    directory, main = Path("/etc/nftables.d"), Path("/etc/nftables.conf")
    before = main.read_text()
    directory.mkdir(exist_ok=True)
    main.write_text(f'include "{directory}/*.nft"\n')
    path = directory / "z.nft"
    mine = f"Nft_ruleset[{directory}/a-names.nft]"
    try:
        assert run({mine: {"content": "define RA_PORT = 80\n"}})[0].summary.created == 1
        path.write_text("table inet ra-other { chain c { tcp dport $RA_PORT accept; }; }\n")
        error = reason(run({mine: {"ensure": "absent"}})[0])
        assert error.startswith(f"{path}:1:44-50: Error: unknown identifier 'RA_PORT'")
        assert (directory / "a-names.nft").exists()
        path.unlink()
        assert run({mine: {"ensure": "absent"}})[0].summary.deleted == 1
    finally:
        path.unlink(missing_ok=True)
        main.write_text(before)


def test_a_file_that_is_not_loaded_at_boot_is_reported_by_the_plan() -> None:
    """Unless it is removed, or the main file includes it, by its name or by a pattern."""
    main, path = Path("/etc/nftables.conf"), "/etc/nftables.d/ra-test.nft"
    Path(path).parent.mkdir(exist_ok=True)
    declared = {f"Nft_ruleset[{path}]": {"content": RULES}}
    text = main.read_text() if main.exists() else None
    try:
        main.write_text("flush ruleset\n")
        assert warned(declared) == [f"/etc/nftables.conf does not include {path}: its tables are not loaded at boot"]
        Path(path).write_text(RULES)
        assert warned({f"Nft_ruleset[{path}]": {"ensure": "absent"}}) == []
        Path(path).unlink()
        for included in (path, "/etc/nftables.d/*.nft", "nftables.d/*"):
            main.write_text(f'flush ruleset\ninclude "{included}"\n')
            assert warned(declared) == []
    finally:
        main.unlink() if text is None else main.write_text(text)


class TestNftRuleset(ProviderCompliance):
    """A table in a file of its own."""

    type_name = "nft_ruleset"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        return {"path": f"{tmp_path}/ra-test.nft", "content": RULES}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "content": RULES.replace("80, 22", "443")}

    @pytest.fixture
    def others(self, tmp_path: Path) -> list[Resource]:
        return [{"path": f"{tmp_path}/{name}", "content": f"table ip ra-{name} {{\n}}"} for name in ("b", "c")]

    @pytest.fixture
    def world(self, present: Resource) -> Callable[[], Any]:
        path = Path(present["path"])
        return lambda: (nft("-s", "list", "ruleset"), path.exists() and path.read_bytes())

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads the file that the manifest names, without following links; its rules are root's to declare"
