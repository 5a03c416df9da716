"""Rules that the real sudo and visudo read, in a mount namespace with a private /etc."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import ManifestError, Registry, Runtime
from resource_api.system.log import Log
from resource_api.testing import ProviderCompliance
from tests.providers.applied import converge, warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource
    from resource_api.model.report import RunReport

TYPE = Registry.from_path().type("sudo_rule")
DIRECTORY: Final = Path("/etc/sudoers.d")
RULE: Final = {"user": "nobody", "commands": ["/bin/echo a\\,b", "!/bin/echo c"]}

pytestmark = pytest.mark.usefixtures("private_etc")


@pytest.fixture(autouse=True)
def _no_rules() -> Iterator[None]:
    """Remove the rules of the test."""
    yield
    for path in DIRECTORY.glob("ra-test*"):
        path.unlink()


def apply(name: str = "ra-test", **attributes: Any) -> RunReport:
    """Apply a manifest of one rule."""
    return Runtime(Registry.from_path(), log=Log("off")).apply({"resources": {f"Sudo_rule[{name}]": attributes}})


def allowed(*command: str) -> bool:
    """Return whether nobody may run a command as root."""
    return subprocess.run(["sudo", "-l", "-U", "nobody", *command], check=False, capture_output=True).returncode == 0


def test_sudo_obeys_the_rule_while_it_is_present() -> None:
    """With exactly these commands, in a file that sudo accepts."""
    observed = []
    for change in (
        {},
        {"nopasswd": True, "tags": ["SETENV", "NOEXEC"]},
        {"commands": ["/bin/true"]},
        {"ensure": "absent"},
    ):
        assert [apply(**{**RULE, **change}).summary.unchanged for _ in range(2)] == [0, 1]
        observed.append((allowed("/bin/echo", "a,b"), allowed("/bin/true")))
        if "nopasswd" in change:
            assert (DIRECTORY / "ra-test").read_text().startswith("nobody ALL = NOPASSWD: NOEXEC: SETENV: /bin/echo")
            assert (DIRECTORY / "ra-test").stat().st_mode & 0o777 == 0o440
    assert observed == [(True, False), (True, False), (False, True), (False, False)]


@pytest.mark.parametrize(
    "wrong", [{**RULE, "commands": ["relative"]}, {"content": "nobody ALL"}, {"content": "@includ x"}]
)
def test_what_sudo_cannot_read_is_not_written(wrong: dict[str, Any]) -> None:
    """Neither as a new file nor over an old one; the plan warns, and others of the same call are written."""
    for before in (None, "nobody ALL = /bin/true\n"):
        if before:
            (DIRECTORY / "ra-test").write_text(before)
        resources = {"Sudo_rule[ra-test]": wrong, "Sudo_rule[ra-test-good]": RULE}
        [warning] = warned(resources)
        assert "/etc/sudoers.d/ra-test:1:" in warning
        report = Runtime(Registry.from_path(), log=Log("off")).apply({"resources": resources})
        assert (report.steps[0].status, "/etc/sudoers.d/ra-test:1:" in str(report.steps[0].error)) == ("failed", True)
        assert (DIRECTORY / "ra-test").read_text() == before if before else not (DIRECTORY / "ra-test").exists()
        assert (DIRECTORY / "ra-test-good").exists()


ALIAS: Final = "Cmnd_Alias RA_TEST = /bin/true\n"


@pytest.mark.parametrize("name", ["ra-test-a", "ra-test-z", "../sudoers"])
def test_an_alias_that_another_file_has_is_refused_with_its_name(name: str) -> None:
    """Whichever of both sudo reads first, every sudo would complain."""
    path = DIRECTORY / name
    before = path.read_text() if path.exists() else ""
    path.chmod(0o640) if before else None
    path.write_text(before + ALIAS)
    reason = str(apply(content=ALIAS).steps[0].error)
    assert 'Alias "RA_TEST" already defined' in reason
    assert (f"{path.resolve()}:" in reason, f"(together with {path.resolve()})" in reason).count(True) == 1
    assert not (DIRECTORY / "ra-test").exists()
    path.write_text(before)


@pytest.mark.parametrize(
    ("name", "line", "effect"),
    [
        ("ra-test-z", "%nogroup ALL=(ALL:ALL) ALL", "sudo asks for a password for /bin/true"),
        ("ra-test-z", "ALL ALL=(root) /bin/echo, PASSWD: /bin/true", None),
        ("ra-test-z", "nobody ALL = /bin/echo, /bin/true", "sudo asks for a password for /bin/true"),
        ("ra-test-z", "nobody ALL = (ALL) ALL, !/bin/true", "it forbids /bin/true"),
        ("../sudoers", "nobody ALL=(ALL:ALL) ALL", "sudo asks for a password for /bin/true"),
        ("ra-test-z", "nobody ALL=(daemon) ALL", None),
        ("ra-test-z", "nobody ALL=NOPASSWD:ALL", None),
        ("ra-test-z", "root ALL=(ALL:ALL) ALL", None),
        ("0-ra-test", "nobody ALL=(ALL:ALL) ALL", None),
    ],
)
def test_a_later_rule_that_counts_is_named_in_the_plan(name: str, line: str, effect: str | None) -> None:
    """The last rule that matches decides, and sudo asks for a password where that one says so."""
    path = DIRECTORY / name
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}{line}\n")
    path.chmod(0o440)
    rule = {"user": "nobody", "commands": ["/bin/true"], "nopasswd": True}
    message = f"{path.resolve()} comes after it and has '{line}', which counts: {effect}"
    assert warned({"Sudo_rule[ra-test]": rule}) == ([message] if effect else [])
    apply(**rule)
    run = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "sudo", "-n", "/bin/true"]
    if "PASSWD: /bin/true" not in line:  # a rule that is not read
        assert (subprocess.run(run, check=False, capture_output=True).returncode == 0) is (effect is None)
    path.unlink() if before is None else path.write_text(before)


def test_an_alias_of_another_file_can_be_used() -> None:
    """What is wrong in a third file already is not held against a rule, but does not hide what is wrong with it."""
    (DIRECTORY / "ra-test-wrong").write_text("nobody ALL = \n")
    (DIRECTORY / "ra-test-a").write_text(ALIAS)
    assert [apply(user="nobody", commands=["RA_TEST"]).summary.unchanged for _ in range(2)] == [0, 1]
    assert allowed("/bin/true")
    assert 'Alias "RA_TEST" already defined' in str(apply("ra-test-b", content=ALIAS).steps[0].error)


def test_a_rule_by_hand_is_read_and_keeps_its_comments() -> None:
    """A file with more than one rule is its content."""
    path = DIRECTORY / "ra-test"
    path.write_text("# why\n# page\x0cbreak\n%admin ALL=(root : adm) NOPASSWD:SETENV:/bin/a,/bin/b x\\, y\n")
    rows = Runtime(Registry.from_path(), log=Log("off")).resources("sudo_rule", names=["ra-test"])
    more = {"hosts": ["ALL"], "runas": "root:adm", "nopasswd": True, "tags": ["SETENV"]}
    commands = ["/bin/a", "/bin/b x\\, y"]
    assert rows == [{"name": "ra-test", "ensure": "present", "user": "%admin", "commands": commands, **more}]
    assert apply(user="%wheel", commands=commands).exit_code == 0
    assert (
        path.read_text() == "# why\n# page\x0cbreak\n%wheel ALL = (root:adm) NOPASSWD: SETENV: /bin/a, /bin/b x\\, y\n"
    )
    content = "Cmnd_Alias RA_TEST = /bin/a\n%wheel ALL = RA_TEST\n"
    assert [apply(content=content).summary.unchanged for _ in range(2)] == [0, 1]
    [row] = Runtime(Registry.from_path(), log=Log("off")).resources("sudo_rule", names=["ra-test"])
    assert row == {"name": "ra-test", "ensure": "present", "content": content}
    path.write_text("a ALL = /bin/a, NOPASSWD: /bin/b\n")
    [row] = Runtime(Registry.from_path(), log=Log("off")).resources("sudo_rule", names=["ra-test"])
    assert row["content"] == path.read_text()


@pytest.mark.parametrize(
    "attributes",
    [
        {"user": "#1000", "hosts": ["web", "!10.0.0.0/8"], "runas": "#1001"},
        {"user": "%domain\\ users@example", "runas": "%domain\\ admins:adm"},
        {"user": "EXAMPLE\\\\alice"},
    ],
)
def test_users_by_number_and_with_blanks_are_read_back(attributes: dict[str, Any]) -> None:
    """A number after a `#` is no comment, and a blank after a backslash belongs to the name."""
    assert [apply(**RULE | attributes).summary.unchanged for _ in range(2)] == [0, 1]
    [row] = Runtime(Registry.from_path(), log=Log("off")).resources("sudo_rule", names=["ra-test"])
    assert row | attributes == row


@pytest.mark.parametrize("text", ["", "# only a comment\n", "ann ALL = NOPASSWD: /bin/a, PASSWD: /bin/b\n"])
def test_a_file_that_is_no_single_rule_becomes_one(text: str) -> None:
    """It is read as a content before, and as a rule after."""
    path = DIRECTORY / "ra-test-odd"
    path.write_text(text)
    path.chmod(0o440)
    converge({"Sudo_rule[ra-test-odd]": {"user": "root", "commands": ["/bin/true"]}})
    assert "root ALL = /bin/true\n" in path.read_text()
    path.unlink()


def test_a_rule_that_sudo_ignores_is_written_anew() -> None:
    """Others than root can write it, so it does not count as what is declared."""
    assert apply(**RULE).exit_code == 0
    (DIRECTORY / "ra-test").chmod(0o666)
    assert [apply(**RULE).summary.unchanged for _ in range(2)] == [0, 1]
    assert (DIRECTORY / "ra-test").stat().st_mode & 0o777 == 0o440


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("name", "a.b"),
        ("name", "../a"),
        ("name", "a~"),
        ("user", "a ALL = ALL #"),
        ("user", "a\nb"),
        ("commands", ["/bin/a, ALL"]),
        ("commands", ["/bin/a : ALL = ALL"]),
        ("commands", ["/bin/a # b"]),
        ("commands", ["NOPASSWD: /bin/a"]),
        ("commands", ["/bin/a\nb"]),
        ("commands", ["/bin/a \\"]),
        ("runas", "root) NOPASSWD: ("),
        ("hosts", ["ALL = ALL"]),
    ],
)
def test_no_value_adds_to_the_rule(attribute: str, value: Any) -> None:
    """A value is one part of a rule and nothing else."""
    assert not TYPE.accepts[attribute](value)


def test_a_rule_is_whole() -> None:
    """By its attributes or by its content."""
    for wrong in ({}, {"user": "a"}, {**RULE, "content": "x"}):
        with pytest.raises(ManifestError, match="content"):
            apply(**wrong)


def test_the_content_that_a_rule_takes_the_place_of_is_in_the_plan() -> None:
    """Otherwise the other lines of the file would go unseen."""
    (DIRECTORY / "ra-test").write_text("Defaults:nobody !requiretty\nnobody ALL = /bin/ls\n")
    (DIRECTORY / "ra-test").chmod(0o440)
    resources = {"Sudo_rule[ra-test]": RULE}
    plan = Runtime(Registry.from_path(), log=Log("off")).plan({"resources": resources})
    changes = {change["attribute"]: change for change in plan.to_dict()["steps"][0]["changes"]}
    assert changes["content"]["is"] == "Defaults:nobody !requiretty\nnobody ALL = /bin/ls\n"
    converge(resources)


def test_a_directory_that_sudo_does_not_read_is_reported_by_the_plan() -> None:
    """Its rules would have no effect; a removal needs none."""
    main = Path("/etc/sudoers")
    text = main.read_text()
    try:
        main.write_text(re.sub(r"^[@#]includedir.*", "", text, flags=re.MULTILINE))
        message = "/etc/sudoers does not read /etc/sudoers.d: the file has no effect"
        assert warned({"Sudo_rule[ra-test]": RULE}) == [message]
        assert warned({"File[/etc/sudoers]": {"content": text}, "Sudo_rule[ra-test]": RULE}) == []
        (DIRECTORY / "ra-test").write_text("nobody ALL = /bin/ls\n")
        assert warned({"Sudo_rule[ra-test]": {"ensure": "absent"}}) == []
    finally:
        main.write_text(text)
    assert warned({"Sudo_rule[ra-test]": RULE}) == []


class TestSudoRule(ProviderCompliance):
    """A rule by its attributes, and another one by its content."""

    type_name = "sudo_rule"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-test", **RULE, "hosts": ["ALL", "!web"], "tags": ["SETENV", "NOEXEC", "SETENV"]}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {
            **present,
            "user": "%admin",
            "commands": ["^/bin/a [a-z]$"],
            "runas": ":adm",
            "nopasswd": True,
            "tags": [],
        }

    @pytest.fixture
    def others(self, present: Resource) -> list[Resource]:
        return [{**present, "name": "ra-test-2"}, {"name": "ra-test-3", "content": "Defaults:nobody insults\n\n"}]

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: [(path.name, path.read_bytes()) for path in sorted(DIRECTORY.iterdir())]

    @pytest.fixture
    def neighbours(self) -> str:
        return "sudo reads only what root alone can write"
