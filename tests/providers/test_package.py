"""Packages built for the tests and installed by the real apt, in a mount namespace that protects the machine."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import Context, Registry, Runtime
from resource_api.provider.context import RunContext, Subject
from resource_api.system.log import ForwardedLog, Log
from resource_api.testing import ProviderCompliance
from tests import bundled
from tests.namespaces import private_mounts
from tests.programs import traced
from tests.providers.applied import warned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api import Resource
    from resource_api.model.report import RunReport

TYPE = Registry.from_path().type("package")
package = bundled.execute("providers", "package/apt")

STAGE: Final = Path("/srv")  # a file system in memory covers it while these tests run
REPOSITORY: Final = STAGE / "ra-test-repository"
HISTORY: Final = Path("/var/log/apt/history.log")
CONFIG: Final = STAGE / "ra-test-config.conf"  # of the package ra-test-config
#: Prints progress to the standard error, as maintainer scripts do, and a warning.
HOOK: Final = """DPkg::Pre-Invoke {
    "echo 'debconf: delaying package configuration, since apt-utils is not installed' >&2";
    "echo 'Created symlink /etc/a -> /etc/b.' >&2";
    "echo 'ra-test: warning: low on paint' >&2";
};
"""
MANY: Final = [f"ra-test-n{number:02}" for number in range(20)]


def run(*argv: str | Path) -> str:
    """Run a program that must succeed and return its output."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def build(name: str, version: str, *, control: str = "", postinst: str = "", config: str = "") -> str:
    """Build a package and return its paragraph of the repository's index."""
    tree = STAGE / "ra-test-tree"
    run("rm", "-rf", tree)
    (tree / "DEBIAN").mkdir(parents=True)
    fields = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody\nDescription: test\n{control}"
    (tree / "DEBIAN" / "control").write_text(fields)
    if postinst:
        (tree / "DEBIAN" / "postinst").write_text(f"#!/bin/sh\n{postinst}\n")
        (tree / "DEBIAN" / "postinst").chmod(0o755)
    if config:
        (tree / "DEBIAN" / "conffiles").write_text(f"{CONFIG}\n")
        (tree / str(CONFIG)[1:]).parent.mkdir()
        (tree / str(CONFIG)[1:]).write_text(config)
    file = REPOSITORY / f"{name}_{version}.deb"
    run("dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, file)
    data = file.read_bytes()
    return f"{fields}Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"


def isolate() -> None:
    """Mount private directories for apt and dpkg, which disappear with the namespace."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "ra-test", STAGE)
    run("mount", "-t", "tmpfs", "ra-test", "/var/log")
    architecture = run("dpkg", "--print-architecture")
    for word in ("/etc/apt", "/var/lib/apt", "/var/cache/apt", "/var/lib/dpkg"):
        path = STAGE / word.replace("/", "-")
        path.mkdir()
        run("mount", "--bind", path, word)
    for part in ("alternatives", "info", "triggers", "updates"):
        Path("/var/lib/dpkg", part).mkdir()
    # apt and dpkg read all that is installed each time: here that is little.
    fields = f"Status: install ok installed\nMaintainer: nobody\nArchitecture: {architecture}Version: 1\n"
    installed = ["dpkg", *(f"base{number}" for number in range(50))]
    paragraphs = [f"Package: {name}\n{fields}Description: test\n" for name in installed]
    Path("/var/lib/dpkg/status").write_text("\n".join(paragraphs))
    for name in installed:
        Path("/var/lib/dpkg/info", f"{name}.list").write_text("/.\n")
    Path("/var/log/apt").mkdir()
    Path("/etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{REPOSITORY} ./\n")
    # apt compares the age of its cache in whole seconds, and tests are faster.
    Path("/etc/apt/apt.conf").write_text('Dir::Cache { pkgcache ""; srcpkgcache ""; };\n')
    for part in ("apt.conf.d", "preferences.d"):
        Path("/etc/apt", part).mkdir()


@pytest.fixture(scope="module", autouse=True)
def _repository() -> Iterator[None]:
    """Enter a mount namespace with a repository of packages, and leave it after the tests."""
    with private_mounts():
        isolate()
        REPOSITORY.mkdir()
        index = [build("ra-test-a", version) for version in ("1.0", "1.1", "1.1+")]
        index += [build("ra-test-config", version, config=f"made by {version}\n") for version in ("1.0", "2.0")]
        index += [build(name, "1.0") for name in (*MANY, "ra-test-plus+", "ra-test-plus", "ra-test-x86")]
        index += [build("ra-test-broken", "1.0", postinst="test -e /srv/ra-test-mended")]
        index += [build("ra-test-virtual-by", "1.0", control="Provides: ra-test-virtual\n")]
        index += [build("ra-test-base", version) for version in ("1.0", "2.0")]
        index += [build("ra-test-big", "1.0", control="Depends: ra-test-base\n")]
        index += [build("ra-test-bigger", "1.0", control="Depends: ra-test-big\n")]
        index += [build("ra-test-old", "1.0", control="Depends: ra-test-base (<< 2.0)\n")]
        index += [build("ra-test-new", "1.0", control="Depends: ra-test-base (>= 2.0)\n")]
        index += [build("ra-test-rival", "1.0", control="Conflicts: ra-test-base\n")]
        index += [build("ra-test-either", "1.0", control="Provides: ra-test-several\n")]
        index += [build("ra-test-or", "1.0", control="Provides: ra-test-several\n")]
        index += [build("ra-test-lame", "1.0", control="Depends: ra-test-nowhere\n"), build("ra-test-left", "1.0")]
        index += [build("ra-test-right", "1.0", control="Conflicts: ra-test-left\n")]
        index += [build("ra-test-grim", "1.0", postinst="echo 'no room for the data' >&2; exit 3")]
        (REPOSITORY / "Packages").write_text("\n".join(index))
        run("apt-get", "update")
        yield


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    """Remove what a test has installed."""
    yield
    remaining = [
        name.split(":")[0] for name in run("dpkg-query", "-W", "-f", "${Package}\n").split() if "ra-test" in name
    ]
    if remaining:
        run("dpkg", "--purge", "--force-all", *remaining)
    HISTORY.unlink(missing_ok=True)


def apply(expected: Mapping[str, Any]) -> RunReport:
    """Apply a manifest of packages: title → attributes, or ``ensure`` alone."""
    resources = {f"Package[{k}]": v if isinstance(v, dict) else {"ensure": v} for k, v in expected.items()}
    return Runtime(Registry.from_path(), log=Log("off")).apply({"resources": resources})


def converge(expected: Mapping[str, Any]) -> str:
    """Apply, check that it succeeds and that a second run changes nothing; return the actions of the first."""
    report = apply(expected)
    assert report.exit_code == 0, [step.error for step in report.steps]
    again = apply(expected)
    assert (again.exit_code, actions(again)) == (0, "")
    return actions(report)


def actions(report: RunReport) -> str:
    """Return what was done, by action."""
    summary = report.summary
    counts = {action: getattr(summary, action) for action in ("created", "updated", "deleted", "failed")}
    return " ".join(f"{action}:{count}" for action, count in counts.items() if count)


def state(name: str) -> str:
    """Return dpkg's state of a package and its version: ``installed 1.0``; empty for an unknown one."""
    process = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", name], check=False, capture_output=True, text=True
    )
    return process.stdout.strip() if process.returncode == 0 and "not-installed" not in process.stdout else ""


def transactions() -> int:
    """Count the transactions in apt's history."""
    return HISTORY.read_text().count("Start-Date") if HISTORY.exists() else 0


def provide(name: str) -> tuple[Any, Context]:
    """Return a provider and the context of a call for one name."""
    return package.Provider(), Context(TYPE, RunContext(Log("off")), subjects={name: Subject(name)})


def read(name: str, **should: Any) -> dict[str, Any] | None:
    """Return the row of a name after canonicalizing its declaration."""
    provider, context = provide(name)
    provider.canonicalize(context, [{"name": name, **should}])
    rows = [row for row in provider.get(context, [name]) if row["name"] == name]
    return rows[0] if rows else None


@pytest.mark.parametrize(
    ("before", "expected", "action", "after"),
    [
        (None, "present", "created:1", "installed 2.0"),
        (None, "latest", "created:1", "installed 2.0"),
        (None, "1.0", "created:1", "installed 1.0"),
        (None, "absent", "", ""),
        (None, "purged", "", ""),
        ("1.0", "present", "", "installed 1.0"),
        ("1.0", "latest", "updated:1", "installed 2.0"),
        ("1.0", "2.0", "updated:1", "installed 2.0"),
        ("2.0", "1.0", "updated:1", "installed 1.0"),
        ("2.0", "latest", "", "installed 2.0"),
        ("1.0", "absent", "deleted:1", "config-files 1.0"),
        ("1.0", "purged", "deleted:1", ""),
        ("removed", "absent", "", "config-files 1.0"),
        ("removed", "purged", "deleted:1", ""),
        ("removed", "present", "created:1", "installed 2.0"),
        ("removed", "latest", "created:1", "installed 2.0"),
        ("removed", "1.0", "created:1", "installed 1.0"),
    ],
)
def test_every_state_can_follow_every_other(before: str | None, expected: str, action: str, after: str) -> None:
    """One apply is enough, and the next one changes nothing."""
    if before:
        version = "1.0" if before == "removed" else before
        run("dpkg", "--install", REPOSITORY / f"ra-test-config_{version}.deb")
    if before == "removed":
        run("dpkg", "--remove", "ra-test-config")
    assert converge({"ra-test-config": expected}) == action
    assert state("ra-test-config") == after


def test_a_hold_keeps_a_package_from_others_only() -> None:
    """Not from a declared change, after which it is held as before; a removal ends it."""
    run("dpkg", "--install", REPOSITORY / "ra-test-a_1.0.deb")
    observed = []
    for expected in (
        {"mark": "hold"},
        {"ensure": "1.1"},
        {"ensure": "latest", "mark": "none"},
        {"ensure": "1.0", "mark": "hold"},
        {"ensure": "purged"},
        {"ensure": "1.0", "mark": "hold"},
        {"ensure": "absent"},
    ):
        before = transactions()
        converge({"ra-test-a": expected})
        held = run("apt-mark", "showhold").split()
        observed.append((state("ra-test-a"), held, transactions() - before))
    held, free = ["ra-test-a"], list[str]()
    assert observed == [
        ("installed 1.0", held, 0),
        ("installed 1.1", held, 1),
        ("installed 1.1+", free, 1),
        ("installed 1.0", held, 1),
        ("", free, 1),
        ("installed 1.0", held, 1),
        ("", free, 1),
    ]


def test_many_packages_are_one_transaction() -> None:
    """Twenty installations, a removal and an upgrade run apt once."""
    run("dpkg", "--install", REPOSITORY / "ra-test-plus_1.0.deb", REPOSITORY / "ra-test-a_1.0.deb")
    expected = {**dict.fromkeys(MANY, "present"), "ra-test-plus": "absent", "ra-test-a": "latest"}
    assert converge(expected) == "created:20 updated:1 deleted:1"
    assert transactions() == 1


def test_fifty_installed_packages_are_read_by_at_most_one_program(tmp_path: Path) -> None:
    """Without any, from dpkg's database; by one, where its journal is newer."""
    installed = run("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package}\n").splitlines()
    names = [line.split()[1] for line in installed if line.startswith("ii ")][:50]
    assert len(names) == 50
    manifest = tmp_path / "site.json"
    manifest.write_text(json.dumps({"project": "p", "resources": {f"Package[{name}]": {} for name in names}}))
    words = ("apply", manifest, "--state", "memory:", "--detailed-exitcodes")
    assert traced(tmp_path / "trace", *words).programs == []
    journal = Path("/var/lib/dpkg/updates/0000")
    journal.write_text(run("dpkg-query", "--status", names[0]))
    try:
        programs = traced(tmp_path / "trace", *words).programs
    finally:
        journal.unlink()
    assert programs == ["/usr/bin/dpkg-query"]


def test_a_bad_name_fails_alone() -> None:
    """The other packages are installed, and apt's reason is reported, without its command."""
    report = apply({"ra-test-n00": "present", "ra-test-no-such": "present", "ra-test-n01": "present"})
    assert actions(report) == "created:2 failed:1"
    assert [state("ra-test-n00"), state("ra-test-n01")] == ["installed 1.0", "installed 1.0"]
    reason = "apt: Unable to locate package ra-test-no-such"
    assert [step.error.partition(";")[0] for step in report.steps if step.error] == [reason]


def test_an_unavailable_version_fails() -> None:
    """The reason is reported, and the installed version stays."""
    run("dpkg", "--install", REPOSITORY / "ra-test-a_1.0.deb")
    report = apply({"ra-test-a": "7.0"})
    assert any("Version '7.0' for 'ra-test-a' was not found" in str(step.error) for step in report.steps)
    assert state("ra-test-a") == "installed 1.0"


def test_a_plus_sign_belongs_to_the_name_and_to_the_version() -> None:
    """Plain apt-get would read it as an operator, and could install another package."""
    assert converge({"ra-test-plus+": "present", "ra-test-a": "1.1+"}) == "created:2"
    assert [state("ra-test-plus+"), state("ra-test-plus"), state("ra-test-a")] == [
        "installed 1.0",
        "",
        "installed 1.1+",
    ]
    assert converge({"ra-test-plus+": "absent", "ra-test-a": "1.1"}) == "updated:1 deleted:1"
    assert actions(apply({"ra-test-n00+": "present"})) == "failed:1"
    assert state("ra-test-n00") == ""


def test_a_name_is_no_pattern() -> None:
    """A full stop matches no other character; plain apt-get would install every matching package."""
    assert actions(apply({"ra-test-n.0": "present"})) == "failed:1"
    assert state("ra-test-n00") == ""


def test_the_reason_of_apt_is_told_in_the_plan_and_at_the_turn() -> None:
    """The relation that cannot be met, not only that there is one; also of two packages that exclude each other."""
    lame = "apt: ra-test-lame : Depends: ra-test-nowhere but it is not installable"
    resources = {"Package[ra-test-n00]": {}, "Package[ra-test-lame]": {}}
    assert warned(resources) == [f"would fail now: {lame}"]
    report = apply({"ra-test-n00": "present", "ra-test-lame": "present"})
    assert [step.error for step in report.steps] == ["", lame]
    (warning,) = warned({"Package[ra-test-left]": {}, "Package[ra-test-right]": {}})
    conflict = "ra-test-right : Conflicts: ra-test-left but 1.0 is to be installed"
    assert warning == f"would fail now together with Package[ra-test-right]: apt: {conflict}"
    # An earlier step may bring what is missing.
    assert warned({"Group[ra-test]": {}, **resources}) == []


def test_the_output_of_a_failing_script_is_the_reason() -> None:
    """As it stands in the log of apt, with the error of dpkg."""
    (step,) = apply({"ra-test-grim": "present"}).steps
    assert step.error.startswith(
        "apt: no room for the data; dpkg: error processing package ra-test-grim (--configure): "
    )
    assert step.error.endswith("post-installation script subprocess returned error exit status 3")


def test_a_package_under_two_names_is_refused_where_they_disagree() -> None:
    """Otherwise each run would undo the former one."""
    architecture = run("dpkg", "--print-architecture").strip()
    name = f"ra-test-n00:{architecture}"
    plan = planned({name: "absent", "ra-test-n00": "present"})
    assert plan["ra-test-n00"][0].startswith(f"would install {name}, which Package[{name}] declares otherwise")
    install("ra-test-n00")
    plan = planned({name: "absent", "ra-test-n00": "present"})
    assert plan[name][0].startswith("would remove ra-test-n00, which Package[ra-test-n00] declares as present")
    assert planned({name: "present", "ra-test-n00": "present"})[name][0] == ""
    assert warned({"Package[ra-test-n01:all]": {}}) == []


def test_a_virtual_package_fails() -> None:
    """The package that provides it has another name."""
    report = apply({"ra-test-virtual": "present"})
    assert actions(report) == "failed:1"
    assert read("ra-test-virtual") is None


def planned(expected: Mapping[str, Any], **options: Any) -> dict[str, tuple[str, list[dict[str, str]] | None]]:
    """Return the error and the side effects of each step of a plan, by title."""
    resources = {f"Package[{k}]": v if isinstance(v, dict) else {"ensure": v} for k, v in expected.items()}
    plan = Runtime(Registry.from_path(), log=Log("off")).plan({"resources": resources}, **options)
    steps = plan.to_dict()["steps"]
    return {step["reference"][8:-1]: (step.get("error", ""), step["side_effects"]) for step in steps}


def install(*names: str) -> None:
    """Install packages of the repository."""
    run("apt-get", "-q", "-y", "install", "--", *names)


REMOVES_BIG: Final = [{"name": "ra-test-big", "action": "remove"}]


@pytest.mark.parametrize("ensure", ["absent", "purged"])
def test_what_apt_removes_besides_is_in_the_plan(ensure: str) -> None:
    """Also with what depends on that in turn; nothing is changed by asking."""
    install("ra-test-bigger")
    before = {path: path.stat().st_mtime_ns for path in HISTORY.parent.iterdir()}
    error, effects = planned({"ra-test-base": ensure})["ra-test-base"]
    assert (error, effects) == ("", [{"name": "ra-test-bigger", "action": "remove"}, *REMOVES_BIG])
    assert transactions() == 1
    assert {path: path.stat().st_mtime_ns for path in HISTORY.parent.iterdir()} == before
    report = apply({"ra-test-base": ensure})
    assert [step.side_effects for step in report.steps if step.side_effects] != []
    assert state("ra-test-big") == ""


@pytest.mark.parametrize("title", ["ra-test-big", "ra-test-big:{native}", "ra-test-big:all"])
def test_a_package_that_is_declared_present_is_not_removed_besides(title: str) -> None:
    """Under any name that apt has for it; nothing of the transaction has begun."""
    install("ra-test-big")
    title = title.format(native=run("dpkg", "--print-architecture").strip())
    report = apply({"ra-test-base": "absent", title: "present"})
    assert actions(report) == "failed:1"
    assert f"would also remove ra-test-big, which Package[{title}] declares as present" in str(report.steps[0].error)
    assert [state("ra-test-base"), state("ra-test-big")] == ["installed 2.0", "installed 1.0"]
    assert converge({"ra-test-base": "absent", title: "absent"}) == "deleted:2"


def test_a_conflict_at_installation_is_in_the_plan() -> None:
    """What is replaced goes with its dependents, and stays where it is declared."""
    install("ra-test-big")
    expected = [*REMOVES_BIG, {"name": "ra-test-base", "action": "remove"}]
    assert planned({"ra-test-rival": "present"})["ra-test-rival"] == ("", expected)
    report = apply({"ra-test-rival": "present", "ra-test-n00": "present", "ra-test-base": "present"})
    assert actions(report) == "created:1 failed:1"
    assert [state(name) for name in ("ra-test-rival", "ra-test-n00", "ra-test-base")] == [
        "",
        "installed 1.0",
        "installed 2.0",
    ]
    assert converge({"ra-test-rival": "present"}) == "created:1"


def test_what_is_installed_and_downgraded_besides_is_in_the_plan() -> None:
    """A dependency that is missing, and one that is too new."""
    assert planned({"ra-test-big": "present"})["ra-test-big"][1] == [{"name": "ra-test-base", "action": "install"}]
    install("ra-test-base")
    options = {"ensure": "present", "install_options": ["--allow-downgrades", "-o", "APT::Solver=internal"]}
    run("dpkg", "--install", REPOSITORY / "ra-test-base_1.0.deb")
    install("ra-test-old")
    assert planned({"ra-test-base": "latest"})["ra-test-base"][1] == [{"name": "ra-test-old", "action": "remove"}]
    assert actions(apply({"ra-test-base": "latest", "ra-test-old": options})) == "failed:1"


def test_what_is_upgraded_besides_is_in_the_plan() -> None:
    """What needs a newer version of an installed package upgrades that, unless another version is declared."""
    run("dpkg", "--install", REPOSITORY / "ra-test-base_1.0.deb")
    upgrade = [{"name": "ra-test-base", "action": "upgrade"}]
    assert planned({"ra-test-new": "present"})["ra-test-new"] == ("", upgrade)
    report = apply({"ra-test-new": "present", "ra-test-base": "1.0"})
    assert actions(report) == "failed:1"
    reason = "would also upgrade ra-test-base, which Package[ra-test-base] declares otherwise"
    assert reason in str(report.steps[0].error)
    assert (state("ra-test-new"), state("ra-test-base")) == ("", "installed 1.0")
    report = apply({"ra-test-new": "present", "ra-test-base": "present"})
    effects = [(effect.action, effect.name) for step in report.steps for effect in step.side_effects or ()]
    assert (actions(report), effects) == ("created:1", [("upgrade", "ra-test-base")])
    assert state("ra-test-base") == "installed 2.0"


def test_each_package_of_a_transaction_has_its_own_side_effects() -> None:
    """By the relations of the packages: what one brings or removes is not the others'."""
    install("ra-test-bigger", "ra-test-rival-")
    effects = planned({"ra-test-n00": "present", "ra-test-base": "absent", "ra-test-n01": "present"})
    assert {name: [item["name"] for item in effect or ()] for name, (_, effect) in effects.items()} == {
        "ra-test-n00": [],
        "ra-test-base": ["ra-test-bigger", "ra-test-big"],
        "ra-test-n01": [],
    }


def test_a_virtual_package_is_named_in_the_plan_with_its_providers() -> None:
    """Of one provider apt would install that, which nobody has declared."""
    events: list[Any] = []
    runtime = Runtime(Registry.from_path(), log=Log("off"), on_event=events.append)
    runtime.plan(
        {"resources": {"Package[ra-test-n00]": {}, "Package[ra-test-several]": {}, "Package[ra-test-virtual]": {}}}
    )
    reason = "'ra-test-several' is a virtual package, provided by ra-test-either, ra-test-or; declare one of these"
    assert [event.problem.message for event in events] == [
        reason,
        "'ra-test-virtual' is a virtual package, provided by ra-test-virtual-by; declare one of these",
    ]
    report = apply({"ra-test-virtual": "present"})
    assert "'ra-test-virtual' is a virtual package, provided by ra-test-virtual-by" in str(report.steps[0].error)
    assert state("ra-test-virtual-by") == ""


def test_progress_on_the_standard_error_is_no_warning() -> None:
    """A line of an installation that succeeds is a warning if it speaks of a warning, a failure or an error."""
    lines: list[tuple[str, str]] = []
    log = ForwardedLog("warning", lambda event: lines.append((event.level, event.text)))
    hook = Path("/etc/apt/apt.conf.d/ra-test-hook")
    hook.write_text(HOOK)
    try:
        report = Runtime(Registry.from_path(), log=log).apply({"resources": {"Package[ra-test-n00]": {}}})
    finally:
        hook.unlink()
    assert report.exit_code == 0
    assert lines == [("warning", "ra-test: warning: low on paint")]


def test_a_changed_configuration_file_is_kept() -> None:
    """Dpkg asks no question."""
    run("dpkg", "--install", REPOSITORY / "ra-test-config_1.0.deb")
    CONFIG.write_text("edited\n")
    assert converge({"ra-test-config": "latest"}) == "updated:1"
    assert CONFIG.read_text() == "edited\n"


def test_options_are_passed_to_apt() -> None:
    """Packages with equal options share a transaction."""
    mark = {"ensure": "present", "install_options": ["-o", "Dpkg::Options::=--log=/srv/ra-test.log"]}
    assert converge({"ra-test-n00": mark, "ra-test-n01": mark, "ra-test-n02": "present"}) == "created:3"
    logged = Path("/srv/ra-test.log").read_text()
    assert ["ra-test-n00" in logged, "ra-test-n01" in logged, "ra-test-n02" in logged] == [True, True, False]
    assert transactions() == 2


def test_a_package_that_is_not_configured_is_not_in_sync() -> None:
    """Its files exist but it does not work: the next apply configures it."""
    report = apply({"ra-test-broken": "present", "ra-test-n00": "present"})
    assert actions(report) == "created:1 failed:1"
    assert read("ra-test-broken") == {
        "name": "ra-test-broken",
        "ensure": "present",
        "version": "1.0",
        "status": "half-configured",
    }
    mended = Path("/srv/ra-test-mended")
    mended.touch()
    try:
        assert converge({"ra-test-broken": "present"}) == "updated:1"
    finally:
        mended.unlink()


def set_status(name: str, status: str) -> None:
    """Write the three words of a status into dpkg's database, as a killed dpkg leaves them."""
    path = Path("/var/lib/dpkg/status")
    before, result, rest = path.read_text().partition(f"Package: {name}\nStatus: install ok installed")
    assert result
    path.write_text(f"{before}Package: {name}\nStatus: {status}{rest}")


def test_a_package_whose_unpacking_was_interrupted_is_installed_again() -> None:
    """To apt a half-installed package is installed."""
    converge({"ra-test-a": "1.0"})
    set_status("ra-test-a", "install reinstreq half-installed")
    assert state("ra-test-a") == "half-installed 1.0"
    converge({"ra-test-a": "1.0"})
    assert state("ra-test-a") == "installed 1.0"


@pytest.mark.parametrize(
    "status",
    [
        "deinstall ok half-installed",
        "purge ok half-installed",
        "install reinstreq half-installed",
        "purge reinstreq half-installed",
        "install ok unpacked",
        "deinstall ok half-configured",
    ],
)
def test_a_package_whose_change_was_interrupted_is_purged(status: str) -> None:
    """To apt a half-installed package is selected for removal already, and its configuration files stay."""
    converge({"ra-test-config": "1.0"})
    set_status("ra-test-config", status)
    assert converge({"ra-test-config": "purged"}) == "deleted:1"
    assert (state("ra-test-config"), CONFIG.exists()) == ("", False)


def test_a_package_that_cannot_be_installed_again_is_purged() -> None:
    """To remove a package whose unpacking was interrupted, dpkg wants to unpack it again; its archive is gone."""
    converge({"ra-test-config": "1.0"})
    set_status("ra-test-config", "install reinstreq half-installed")
    index = REPOSITORY / "Packages"
    text = index.read_text()
    index.write_text("")
    try:
        run("apt-get", "update")
        assert converge({"ra-test-config": "purged"}) == "deleted:1"
        assert (state("ra-test-config"), CONFIG.exists()) == ("", False)
    finally:
        index.write_text(text)
        run("apt-get", "update")


def test_files_of_an_interrupted_first_unpacking_are_removed() -> None:
    """What dpkg has unpacked and not recorded yet stays after a forced removal."""
    converge({"ra-test-config": "1.0"})
    set_status("ra-test-config", "install reinstreq half-installed")
    Path("/var/lib/dpkg/info/ra-test-config.list").unlink()
    Path("/var/lib/dpkg/info/ra-test-config.conffiles").unlink()
    assert converge({"ra-test-config": "purged"}) == "deleted:1"
    assert (state("ra-test-config"), CONFIG.exists()) == ("", False)


def test_an_interrupted_dpkg_run_is_read_and_finished() -> None:
    """Its journal is newer than its database, and apt refuses to work until dpkg has finished."""
    run("dpkg", "--install", REPOSITORY / "ra-test-n00_1.0.deb")
    paragraph = run("dpkg-query", "--status", "ra-test-n00")
    journal = Path("/var/lib/dpkg/updates/0000")
    journal.write_text(paragraph.replace("install ok installed", "install ok half-configured"))
    row = read("ra-test-n00")
    assert row is not None
    assert row["status"] == "half-configured"
    assert converge({"ra-test-n00": "present", "ra-test-n01": "present"}) == "created:1 updated:1"
    assert not journal.exists()


def test_apt_waits_for_a_lock() -> None:
    """The call starts after another dpkg has ended."""
    with Path("/var/lib/dpkg/lock-frontend").open("wb") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        released: list[float] = []

        def release() -> None:
            released.append(time.monotonic())
            fcntl.lockf(lock, fcntl.LOCK_UN)

        timer = threading.Timer(1.5, release)
        timer.start()
        assert converge({"ra-test-n00": "present"}) == "created:1"
        assert released
        timer.join()


def test_missing_lists_are_named() -> None:
    """Without package lists every name is unknown, and the message says so."""
    stored = [
        (path, Path(shutil.move(path, STAGE / path.name))) for path in Path("/var/lib/apt/lists").glob("*_Packages")
    ]
    try:
        report = apply({"ra-test-n00": "present"})
    finally:
        for path, there in stored:
            shutil.move(there, path)
    assert stored
    assert any("apt-get update" in str(step.error) for step in report.steps)


def test_a_listing_agrees_with_dpkg() -> None:
    """Names and versions are equal; the machine's architecture is left out of names."""
    run("dpkg", "--install", REPOSITORY / "ra-test-a_1.0.deb")
    provider, context = provide("")
    rows = {row["name"]: row["version"] for row in provider.get(context) if row["ensure"] == "present"}
    native = run("dpkg", "--print-architecture").strip()
    message = [line.split() for line in run("dpkg-query", "-W", "-f", "${binary:Package} ${Version}\n").splitlines()]
    assert rows == {name.removesuffix(f":{native}"): version for name, version in message}
    assert read(f"ra-test-a:{native}") == {**(read("ra-test-a") or {}), "name": f"ra-test-a:{native}"}
    assert read("ra-test-a:ppc64el") is None


def test_candidates_are_read_for_latest_only() -> None:
    """Apt would read all its lists, which ``present`` does not need."""
    run("dpkg", "--install", REPOSITORY / "ra-test-a_1.0.deb")
    assert "candidate" not in (read("ra-test-a", ensure="present") or {})
    assert (read("ra-test-a", ensure="latest") or {})["candidate"] == "1.1+"


@pytest.mark.parametrize(
    "name",
    [
        "-y",
        "--purge",
        "a b",
        "a;id",
        "$(id)",
        "`id`",
        "a\nb",
        "bash-",
        "a=1",
        "a/stable",
        "../a.deb",
        "?any",
        "~i",
        "",
        "a*",
    ],
)
def test_a_hostile_name_is_refused(name: str) -> None:
    """No name is an option, a pattern, a path or an operator."""
    assert not TYPE.accepts["name"](name)


@pytest.mark.parametrize("version", ["-1", "1 2", "1/2", "1;id", "$(id)", "1\n", "1*", "one", "1-", "", 1.2])
def test_a_hostile_version_is_refused(version: object) -> None:
    """A version is exactly one version."""
    assert not TYPE.accepts["ensure"](version)


def test_canonical_values_stay_as_they_are() -> None:
    """Canonicalizing twice equals canonicalizing once, for any missing attributes."""
    provider, context = provide("")
    for resource in ({}, {"name": "a"}, {"ensure": "purged"}, {"name": "a", "ensure": "purged", "purge": False}):
        once = provider.canonicalize(context, [dict(resource)])
        assert provider.canonicalize(context, [dict(once[0])]) == once
    rows = list(provider.get(context))
    assert provider.canonicalize(context, [dict(row) for row in rows]) == rows


class TestPackage(ProviderCompliance):
    """A package in one of its versions."""

    type_name = "package"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-test-a", "ensure": "1.0"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "ensure": "1.1", "mark": "hold"}

    @pytest.fixture
    def others(self) -> list[Resource]:
        return [{"name": name} for name in MANY[:2]]

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes the databases of dpkg and apt"
