"""What this machine lacks is said in the plan, unless an earlier step provides it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

#: A probe needs paint: ``colour`` is its name, and the reference that provides it after a blank, if any.
PAINTER = """
def set(self, context, changes):
    self._done(changes)

def preflight(self, context, changes):
    with open(self._file().with_suffix(".calls"), "a") as log:
        print(json.dumps(["preflight", {name: dict(should) for name, should in changes.items()}]), file=log)
    found = []
    for name, should in changes.items():
        paint, _, needs = should.get("colour", "").partition(" ")
        if paint == "valid":
            return False
        if paint == "broken":
            raise RuntimeError("the store is closed")
        if paint == "other":
            found.append(("elsewhere", Problem(None, "not asked")))
        elif paint:
            severity = "warning" if paint == "wet" else "error"
            found.append((name, Problem("colour", f"there is no {paint} paint", severity, needs=needs or None)))
    return found
"""


@pytest.fixture
def painter(bench: Bench) -> Bench:
    """Return a bench whose probes report the paint that they lack."""
    bench.probe(PAINTER, features=("preflight",))
    return bench


def warned(bench: Bench, manifest: str, *options: str) -> list[str]:
    """Return the warnings of a plan; its exit code is that of a plan with changes, whatever it warns of."""
    result = bench.plan(manifest, "--detailed-exitcodes", *options)
    assert result.code == 2, result
    return [line[line.index("Probe[") :] for line in result.lines if "paint" in line and "Probe[" in line]


RED = ["Probe[a]: there is no red paint"]
CASES: dict[str, tuple[str, list[str]]] = {
    "alone": ("resources: {'Probe[a]': {colour: red}}", RED),
    "after a change": ("resources: {'Widget[w]': {}, 'Probe[a]': {colour: red}}", []),
    "what the change itself does": (
        "resources: {'Widget[w]': {}, 'Probe[a]': {colour: 'wet Widget[w]'}}",
        ["Probe[a]: there is no wet paint"],
    ),
    "before a change": ("resources: {'Probe[a]': {colour: red}, 'Widget[w]': {}}", RED),
    "needs what comes before": ("resources: {'Widget[w]': {}, 'Probe[a]': {colour: 'red Widget[w]'}}", []),
    "needs what comes later": ("resources: {'Probe[a]': {colour: 'red Widget[w]'}, 'Widget[w]': {}}", RED),
    "needs what is not declared": ("resources: {'Widget[w]': {}, 'Probe[a]': {colour: 'red Widget[x]'}}", RED),
    "needs what is to be absent": (
        "resources: {'Widget[w]': {ensure: absent}, 'Probe[a]': {colour: 'red Widget[w]'}}",
        RED,
    ),
    "needs what is noop": (
        "resources: {'Widget[w]': {noop: true}, 'Probe[a]': {colour: 'red Widget[w]'}}",
        RED,
    ),
    "requires what may bring it": (
        "resources: {'Widget[w]': {}, 'Probe[a]': {colour: 'red Widget[x]', require: 'Widget[w]'}}",
        [],
    ),
    "a noop resource": ("resources: {'Probe[a]': {colour: red, noop: true}, 'Widget[w]': {}}", []),
    "deleted": ("resources: {'Probe[gone]': {ensure: absent, colour: red}, 'Widget[w]': {}}", []),
    "fails": (
        "resources: {'Probe[a]': {colour: broken}, 'Widget[w]': {}}",
        [],
    ),
}


@pytest.mark.parametrize(("manifest", "expected"), CASES.values(), ids=CASES)
def test_what_is_missing_is_a_warning_unless_it_is_provided(painter: Bench, manifest: str, expected: list[str]) -> None:
    """Earlier steps provide: exactly what is needed, what is explicitly required, or without ``needs`` any change."""
    painter.put("probe", gone={"name": "gone", "ensure": "present"})
    assert warned(painter, manifest) == expected


def test_a_warning_has_the_line_of_the_attribute(painter: Bench) -> None:
    """It names file, line and resource, as text and as a diagnostic."""
    manifest = "resources:\n  Probe[a]:\n    size: 1\n    colour: red\n"
    lines = [line for line in painter.plan(manifest).lines if RED[0] in line]
    assert [line.startswith(f"{painter.home}/site.yaml:4:5: ") for line in lines] == [True]
    (event,) = painter.stream(manifest, "--noop").events("diagnostic")
    assert (event["severity"], event["code"]) == ("warning", "preflight")
    assert (event["line"], event["attribute"]) == (4, "colour")
    assert event["message"] == "there is no red paint"
    assert "needs" not in event


def test_in_a_parallel_run_only_relationships_provide(painter: Bench) -> None:
    """With ``--parallel`` a change that merely stands before may come later."""
    manifest = "resources: {'Widget[w]': {}, 'Probe[a]': {colour: red}}"
    assert warned(painter, manifest, "--parallel", "2") == RED
    assert warned(painter, manifest.replace("red", "red, require: 'Widget[w]'"), "--parallel", "2") == []


def test_it_is_asked_once_only_for_what_changes_and_only_in_plans(painter: Bench) -> None:
    """An apply, an unchanged resource and an empty plan do not ask; unknown values are left out."""
    manifest = """
        resources:
          Probe[a]: {size: 1}
          Probe[b]: {size: 2}
          Widget[w]: {}
          Probe[c]: {size: 3, colour: "${Widget[w].serial}"}
        """
    painter.put("probe", a={"name": "a", "ensure": "present", "size": 1})
    painter.plan(manifest)
    assert painter.calls("probe", "preflight") == [
        {"b": {"name": "b", "ensure": "present", "size": 2}, "c": {"name": "c", "ensure": "present", "size": 3}}
    ]
    assert painter.apply("resources: {'Probe[d]': {size: 1}}").code == 0
    assert painter.plan("resources: {'Probe[d]': {size: 1}}").code == 0
    assert len(painter.calls("probe", "preflight")) == 1


@pytest.mark.parametrize("options", [(), ("--isolate",)], ids=["in process", "worker"])
@pytest.mark.parametrize(
    ("colour", "expected"),
    [
        ("broken", "preflight of its provider failed: the store is closed (providers/probe.py:"),
        ("other", "preflight of its provider failed: it reports 'elsewhere', which is not among the changes"),
        ("red nonsense", "preflight of its provider failed: 'nonsense' is not a reference; write Type[title]"),
        ("valid", "preflight of its provider failed: "),
        ("red", "there is no red paint"),
    ],
)
def test_a_failing_preflight_is_a_warning(painter: Bench, colour: str, expected: str, options: tuple[str, ...]) -> None:
    """It says that it failed, and the plan is as it would be without it."""
    result = painter.plan(f"resources: {{'Probe[a]': {{colour: {colour}}}}}", "--detailed-exitcodes", *options)
    assert result.code == 2
    assert "Plan: 1 to create" in result.out
    assert any(expected in line for line in result.lines), result.lines


BUNDLED = """
resources:
  File[{here}/no/x]: {{content: hi, owner: nobody-there, group: nogroup-there}}
  File[{here}/copy]: {{source: {here}/missing}}
  Cron[job]: {{user: nobody-there, command: /bin/true}}
  Ssh_authorized_key[me]: {{user: nobody-there, type: ssh-ed25519, key: AAAAC3NzaC1lZDI1NTE5AAAAIA==}}
  User[somebody-new]: {{gid: nogroup-there, groups: [nogroup-there], shell: {here}/shell}}
  Exec[run]: {{command: "{here}/program --all", cwd: {here}/nowhere, user: nobody-there}}
"""
MISSING = [
    "File[{here}/no/x]: the directory '{here}/no' does not exist",
    "File[{here}/no/x]: there is no user 'nobody-there'",
    "File[{here}/no/x]: there is no group 'nogroup-there'",
    "File[{here}/copy]: '{here}/missing' does not exist",
    "Exec[run]: the directory '{here}/nowhere' does not exist",
    "Exec[run]: there is no user 'nobody-there'",
    "Cron[job]: there is no user 'nobody-there'",
    "Ssh_authorized_key[me]: there is no user 'nobody-there'",
    "User[somebody-new]: there is no group 'nogroup-there'",
    "User[somebody-new]: there is no group 'nogroup-there'",
    "User[somebody-new]: '{here}/shell' does not exist",
]


def test_bundled_types_say_what_their_changes_lack(bench: Bench) -> None:
    """Missing directories, owners, groups, sources, users and shells are found before anything is done."""
    result = bench.plan(BUNDLED.format(here=bench.home))
    for expected in MISSING:
        assert sum(expected.format(here=bench.home) in line for line in result.lines) == MISSING.count(expected), (
            expected
        )


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ("Exec[make]: {command: /bin/true}\n  File[HOME/no/x]: {content: hi}", 0),
        ("Exec[make]: {command: /bin/true, creates: /}\n  File[HOME/no/x]: {content: hi}", 1),
        ("File[HOME/y]: {content: hi}\n  File[HOME/no/x]: {content: hi}", 1),
        ("File[HOME/no/x]: {content: hi}\n  Exec[make]: {command: /bin/true}", 1),
        ("Exec[make]: {command: /bin/true}\n  Exec[use]: {command: HOME/no/x}", 0),
        ("Exec[make]: {command: /bin/true}\n  File[HOME/x]: {content: hi, owner: nobody-there}", 0),
    ],
)
def test_an_earlier_command_may_bring_what_is_missing(bench: Bench, resources: str, count: int) -> None:
    """A command or package that would run before the resource may create its directory, owner or program."""
    result = bench.plan(f"resources:\n  {resources}".replace("HOME", str(bench.home)))
    assert sum("Warning: " in line for line in result.lines) == count, result.lines


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("no-such-program --x", "Exec[run]: command 'no-such-program' not found in /usr/"),
        ("/no/such/program", "Exec[run]: command '/no/such/program' not found"),
    ],
)
def test_a_missing_program_of_a_command_is_found(bench: Bench, command: str, expected: str) -> None:
    """A bare name is searched as it will be, a full path is looked at."""
    result = bench.plan(f"resources: {{'Exec[run]': {{command: {command}}}}}")
    assert any(expected in line for line in result.lines), result.lines


@pytest.mark.skipif(not os.path.exists("/usr/bin/apt-cache"), reason="Debian's apt is not on this machine")  # noqa: PTH110 - text
def test_packages_and_versions_that_apt_does_not_have_are_found(bench: Bench) -> None:
    """An unknown package and an unknown version of a known one."""
    result = bench.plan("resources: {'Package[dpkg]': {ensure: '0.0.1'}, 'Package[tree]': {}}")
    assert any("Package[dpkg]: apt has no version 0.0.1 of 'dpkg'; it has " in line for line in result.lines)
    result = bench.plan("resources: {'Package[no-such-package]': {}}")
    assert any("Package[no-such-package]: apt knows no package 'no-such-package'" in line for line in result.lines)


def test_an_apply_of_a_saved_plan_does_not_look_again(painter: Bench) -> None:
    """As no apply does: the plan has said what is missing."""
    assert warned(painter, "resources: {'Probe[a]': {colour: red}}", "-o", "later.json") == RED
    result = painter.run("apply", "later.json")
    assert (result.code, "paint" in result.err) == (0, False)
    assert len(painter.calls("probe", "preflight")) == 1
