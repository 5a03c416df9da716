"""Commands with ``--on``, as people give them, on hosts that are child processes: what is shown, and exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyrage
import pytest
from pyrage import x25519

from resource_api.cli.hosted_run import ShownPlans
from tests import json_schemas
from tests.command import environment_of
from tests.scenarios.conftest import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

pytestmark = pytest.mark.process

MANIFEST: Final = """\
project: web
inputs:
  role: {type: String, default: none}
  password: {type: "Sensitive[String]", default: nothing}
resources:
  File[{place}/${host.name}.conf]:
    content: "role ${inputs.role} password ${inputs.password}\\n"
outputs:
  role: ${inputs.role}
"""
INVENTORY: Final = """\
hosts:
  "web[1:3]": {groups: [web], inputs: {role: front}}
  db1: {inputs: {role: db, password: {file: secret}}}
  gone1: {}
"""


#: The line of a run that takes longer than half a minute, as each does on a slow machine.
PROGRESS: Final = re.compile(r"^Notice: [0-9,]+/[0-9,]+ done, .*\n", re.MULTILINE)


class Fleet:
    """A directory with a manifest and an inventory, and the command with hosts that are processes."""

    def __init__(self, home: Path, shared: Path) -> None:
        """Keep everything beneath ``home``; the data that is sent to hosts is kept in ``shared``."""
        self.home = home
        self.shared = shared
        self.place = home / "etc"
        self.place.mkdir()
        (home / "hosts").mkdir()
        (home / "site.yaml").write_text(MANIFEST.replace("{place}", str(self.place)))
        (home / "hosts.yaml").write_text(INVENTORY)
        (home / "secret").write_text("correct-horse\n")
        self.environment = environment_of(
            home,
            RESOURCE_API_STATE="memory:",
            RESOURCE_API_FLEET=str(shared),
            HOST_CACHE=str(shared / "cache"),
        )

    def command(self, *words: str) -> list[str]:
        """Return the words of the program."""
        return [sys.executable, "-m", "tests.fleet.pipe_command", str(self.home / "hosts"), *words]

    def run(self, *words: str, **environment: str) -> Outcome:
        """Give a command, and compare its JSON with its schema."""
        process = subprocess.run(
            self.command(*words),
            cwd=self.home,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert "Traceback" not in process.stderr, process.stderr
        json_schemas.check(words, process.stdout, process.returncode)
        return Outcome(process.returncode, process.stdout, PROGRESS.sub("", process.stderr))

    def content(self, host: str) -> str:
        """Return what a host's file holds; empty: there is none."""
        path = self.place / f"{host}.conf"
        return path.read_text() if path.exists() else ""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory for the data that is sent to hosts, which is made once."""
    return tmp_path_factory.mktemp("fleet")


@pytest.fixture
def fleet(tmp_path: Path, shared: Path) -> Fleet:
    """Return hosts of one test."""
    return Fleet(tmp_path, shared)


def without_times(text: str) -> str:
    """Return output whose seconds and run are always the same."""
    return re.sub(r"[0-9a-f]{16}", "RUN", re.sub(r"in [0-9.]+ s", "in 1.0 s", text))


def test_apply_shows_equal_hosts_once_and_the_rest_is_done_again(fleet: Fleet) -> None:
    """A canary, the others folded, the one that could not be reached last; `--rerun` takes that one alone."""
    result = fleet.run("apply", "site.yaml", "--on", "web,gone1,db1", "--batches", "1,100%", "--stop-after", "1")
    assert result.code == 1
    assert without_times(result.out).splitlines() == [
        "web1:",
        f"  Notice: File[{fleet.place}/web1.conf]: created",
        "Batch 1 of 2: 1 host, 1 changed. 4 hosts follow.",
        "web[2:3],db1 (3 hosts):",
        f"  Notice: File[{fleet.place}/${{host.name}}.conf]: created",
        "gone1:",
        "  Error: unreachable: connection refused (gone1:22)",
        "Outputs:",
        "web[1:3] (3 hosts):",
        "  role: front",
        "db1:",
        "  role: db",
        (
            "Applied to 5 hosts in 1.0 s: 4 changed, 0 unchanged, 0 failed, 1 unreachable, 0 untouched."
            " Run RUN; --rerun RUN does the rest."
        ),
    ]
    assert result.err == ""
    assert fleet.content("web3") == "role front password nothing\n"
    assert fleet.content("db1") == "role db password correct-horse\n"
    again = fleet.run("apply", "site.yaml", "--rerun", "last", "--json")
    assert [(event["host"], event["status"]) for event in again.events("host_end")] == [("gone1", "unreachable")]
    assert again.events()[-1]["hosts"] == {
        **dict.fromkeys(("changed", "unchanged", "failed", "refused", "untouched"), 0),
        "unreachable": 1,
    }
    second = fleet.run("apply", "site.yaml", "--rerun", "last", "-i", "role=x")
    assert second.code == 65
    assert without_times(second.err) == (
        "Error: --rerun RUN: the manifest, an input or the module path is not what that run had;"
        " without --rerun, --on names the hosts\n"
    )
    inventory = fleet.home / "hosts.yaml"
    inventory.write_text(INVENTORY.replace("gone1: {}", "gone1: {inputs: {role: other}}"))
    changed = fleet.run("apply", "site.yaml", "--rerun", "last")
    assert changed.code == 65
    assert "an input of gone1 is not what that run had" in changed.err
    assert "correct-horse" not in "".join(path.read_text(errors="replace") for path in fleet.shared.glob("fleet.db*"))


def test_a_host_whose_run_fails_is_an_exception_beside_the_others(fleet: Fleet) -> None:
    """Its errors stand under its name, the others go on; a failed canary leaves them untouched."""
    (fleet.place / "web2.conf").mkdir()
    result = fleet.run("apply", "site.yaml", "--on", "web", "--detailed-exitcodes")
    assert result.code == 6
    lines = result.out.splitlines()
    assert lines[:3] == [
        "web1,web3 (2 hosts):" if "web1,web3" in lines[0] else "web[1,3] (2 hosts):",
        f"  Notice: File[{fleet.place}/${{host.name}}.conf]: created",
        "web2:",
    ]
    assert lines[3].startswith(f"  Error: File[{fleet.place}/web2.conf]: ")
    stopped = fleet.run("apply", "site.yaml", "--on", "web2,web1", "--batches", "1")
    assert stopped.code == 1
    assert "Batch 1 of 2: 1 host, 1 failed.\n" in stopped.out
    assert "0 changed, 0 unchanged, 1 failed, 0 unreachable, 1 untouched." in stopped.out
    assert stopped.err == "Warning: stopped: 1 host has failed, and --stop-after allows 0\n"


def test_a_rerun_goes_in_the_batches_of_its_run(fleet: Fleet) -> None:
    """The canary is done first again, and its failure stops the run, unless the options say otherwise."""
    (fleet.place / "web1.conf").mkdir()
    assert fleet.run("apply", "site.yaml", "--on", "web", "--batches", "1,100%").code == 1
    again = fleet.run("apply", "site.yaml", "--rerun", "last")
    assert "Batch 1 of 2: 1 host, 1 failed.\n" in again.out
    assert "1 failed, 0 unreachable, 2 untouched." in again.out
    more = fleet.run("apply", "site.yaml", "--rerun", "last", "--stop-after", "1")
    assert "Batch 1 of 2: 1 host, 1 failed. 2 hosts follow.\n" in more.out
    whole = fleet.run("apply", "site.yaml", "--rerun", "last", "--batches", "100%")
    assert "0 changed, 0 unchanged, 1 failed, 0 unreachable, 0 untouched." in whole.out


def test_a_rerun_under_noop_leaves_the_rest_of_its_run_to_do(fleet: Fleet) -> None:
    """It changes nothing, so it is not recorded and the newest run stays the same."""
    (fleet.place / "web1.conf").mkdir()
    assert fleet.run("apply", "site.yaml", "--on", "web").code == 1
    (fleet.place / "web1.conf").rmdir()
    assert fleet.run("apply", "site.yaml", "--rerun", "last", "--noop").code == 0
    assert not (fleet.place / "web1.conf").exists()
    assert fleet.run("apply", "site.yaml", "--rerun", "last").code == 0
    assert (fleet.place / "web1.conf").is_file()


def test_a_plan_of_each_host_is_saved_and_carried_out(fleet: Fleet) -> None:
    """Into a directory that nobody else can open; a host without a plan is an error before any is touched."""
    secret = fleet.run("plan", "site.yaml", "--on", "web1", "-o", "plans", "--detailed-exitcodes")
    assert secret.code == 1
    assert "Error: a plan with secrets cannot be saved without a key" in secret.out
    site = fleet.home / "site.yaml"
    site.write_text("".join(line for line in MANIFEST.replace("{place}", str(fleet.place)).splitlines(keepends=True)
                            if "password:" not in line).replace(" password ${inputs.password}", ""))  # fmt: skip
    planned = fleet.run("plan", "site.yaml", "--on", "web[1:2]", "-o", "plans", "--detailed-exitcodes")
    assert planned.code == 2
    assert planned.out.splitlines()[0] == "web[1:2] (2 hosts):"
    assert "  Plan: 1 to create; 0 unchanged." in planned.out.splitlines()
    assert not fleet.content("web1")
    assert (fleet.home / "plans").stat().st_mode & 0o77 == 0
    missing = fleet.run("apply", "plans", "--on", "web[2:3]")
    assert missing.code == 65
    assert missing.err == "plans/web3.json: there is no such file\n"
    single = fleet.run("apply", "plans/web1.json", "--on", "web1")
    assert single.code == 64
    assert "is the plan of one machine" in single.err
    here = fleet.run("apply", "plans/web1.json")
    assert (here.code, here.err) == (
        64,
        "Error: plans/web1.json is the plan of the host web1; apply its directory with --on web1\n",
    )
    assert not fleet.content("web1")
    result = fleet.run("apply", "plans", "--on", "web[1:2]")
    assert result.code == 0, result
    assert "Applied to 2 hosts" in result.out
    assert fleet.content("web2") == "role front\n"


def test_manifests_of_one_name_in_two_directories_do_not_delete_each_others_resources_on_hosts(fleet: Fleet) -> None:
    """State on hosts knows where a manifest is here, also in a saved plan, and called by whatever path."""
    state = {"RESOURCE_API_STATE": f"sqlite:{fleet.home}/state/state.db"}
    for name in ("one", "two"):
        (fleet.home / name).mkdir()
        (fleet.home / name / "site.yaml").write_text(f"resources: {{'File[{fleet.place}/{name}]': {{content: x}}}}\n")
    assert fleet.run("apply", "one/site.yaml", "--on", "web1", **state).code == 0
    refused = fleet.run("apply", "two/site.yaml", "--on", "web1", "--prune", **state)
    recorded = f"the state of project 'site' was recorded from {fleet.home}/one/site.yaml"
    assert refused.code != 0
    assert f"{recorded}; write 'project:' into two/site.yaml" in refused.out
    (fleet.place / "one").unlink()
    drifted = fleet.run("plan", f"{fleet.home}/one/site.yaml", "--on", "web1", "--prune", "-o", "plans", **state)
    assert (drifted.code, fleet.run("apply", "plans", "--on", "web1", **state).code) == (0, 0)
    assert fleet.run("destroy", "one/site.yaml", "--on", "web1", "--yes", **state).code == 0
    assert not list(fleet.place.iterdir())


def test_a_plan_that_cannot_be_saved_is_the_reason_why_the_run_ends(fleet: Fleet) -> None:
    """The hosts that have not answered say it too."""
    (fleet.home / "site.yaml").write_text("project: web\n")
    (fleet.home / "plans" / "web1.json").mkdir(parents=True)
    result = fleet.run("plan", "site.yaml", "--on", "web1", "-o", "plans")
    assert result.code == 1
    reason = "cannot save the plan to plans/web1.json: neither a file nor a link, so it cannot be replaced"
    assert result.err == f"Error: {reason}\n"
    assert f"this run was ended: {reason}" in result.out


def test_saved_plans_are_for_the_hosts_of_the_inventory_in_the_working_directory(fleet: Fleet) -> None:
    """Groups and addresses are those that the plans were made with."""
    resource = f"File[{fleet.place}/${{host.name}}.conf]"
    (fleet.home / "site.yaml").write_text(f"project: web\nresources: {{'{resource}': {{}}}}\n")
    assert fleet.run("plan", "site.yaml", "--on", "web", "-o", "plans").code == 0
    result = fleet.run("apply", "plans", "--on", "web")
    assert result.code == 0, result
    assert "Applied to 3 hosts" in result.out


def test_commands_that_read_answer_for_all_hosts(fleet: Fleet) -> None:
    """Folded as a run is; with JSON each answer has its host."""
    result = fleet.run("validate", "site.yaml", "--on", "web")
    assert result.out.splitlines()[:2] == ["web[1:3] (3 hosts):", "  valid: 1 resource."]
    (answer,) = fleet.run("plan", "site.yaml", "--on", "db1", "--json").events("result")
    assert answer["host"] == "db1"
    assert answer["document"]["summary"]["created"] == 1
    assert "correct-horse" not in json.dumps(answer)


def test_a_refresh_shows_what_it_shows_without_hosts(fleet: Fleet) -> None:
    """Under ``noop`` attributes and outputs, as a plan does, otherwise the names of resources and the outputs."""
    state = {"RESOURCE_API_STATE": f"sqlite:{fleet.home}/state.db"}
    site, file = fleet.home / "site.yaml", fleet.place / "web1.conf"
    site.write_text(site.read_text().replace("role: ${inputs.role}", f"sum: '${{File[{file}].checksum}}'"))
    assert fleet.run("apply", "site.yaml", "--on", "web1", **state).code == 0
    file.write_text("spoilt\n")
    result = fleet.run("refresh", "site.yaml", "--on", "web1", "--noop", **state)
    host, reference, *lines = result.out.splitlines()
    assert (host, reference) == ("web1:", f"  <= File[{file}]"), result
    assert any("content" in line for line in lines), lines
    assert "  Changes to outputs:" in lines
    result = fleet.run("refresh", "site.yaml", "--on", "web1", **state)
    assert result.out.splitlines()[:3] == [host, reference, "  Changes to outputs:"]
    assert "content" not in result.out


@pytest.mark.parametrize(
    ("words", "lie", "error"),
    [
        ("plan site.yaml", {"steps": [{"action": "same", "reasons": 5}]}, "what is no event: TypeError"),
        ("refresh site.yaml", {"changes": 5}, "what cannot be shown: TypeError"),
        ("state history", [{"started": 1e30}], "what cannot be shown: OverflowError"),
        ("state history", [{"summary": 5}], "what cannot be shown: AttributeError"),
        ("apply site.yaml -v", {"level": "shout", "message": "x"}, "what cannot be shown: KeyError: 'shout'"),
    ],
)
def test_a_document_of_another_form_is_an_error_of_its_host_alone(
    fleet: Fleet, words: str, lie: object, error: str
) -> None:
    """The command goes on, and every other host has its answer."""
    sent = {"type": "log", **lie} if isinstance(lie, dict) and "level" in lie else {"type": "result", "document": lie}
    file = f"  File[{fleet.place}/${{host.name}}.conf]: {{content: x}}\n"
    (fleet.home / "site.yaml").write_text(f"project: web\nresources:\n{file}")
    assert fleet.run("apply", "site.yaml", "--on", "web1").code == 0
    result = fleet.run(*words.split(), "--on", "liar1,web1", LIES=json.dumps([sent]))
    assert result.code in {0, 1}, result.err
    assert f"it sent {error}" in result.out + result.err
    assert "2 hosts" in result.out.splitlines()[-1]
    assert f"{int('no event' in error)} failed, 0 unreachable" in result.out.splitlines()[-1]


@pytest.mark.parametrize("form", ["table", "json"])
def test_an_answer_never_names_another_host(fleet: Fleet, form: str) -> None:
    """A row with a field that is called like the column of the hosts' names stands under its own host."""
    lie = {"type": "result", "document": [{"host": "web1", "reference": "User[root]", "ensure": "absent"}]}
    result = fleet.run("resource", "user", "root", "--on", "liar1", "--format", form, LIES=json.dumps([lie]))
    assert "liar1" in result.out
    assert "web1" not in result.out


def test_a_wrong_manifest_touches_no_host(fleet: Fleet) -> None:
    """Types, attributes and inputs are checked here; a value that depends on a host is refused there."""
    (fleet.home / "site.yaml").write_text("resources: [")
    here = fleet.run("apply", "site.yaml", "--on", "web")
    assert here.code == 65
    assert here.err.startswith("site.yaml:1:13: not valid YAML")
    (fleet.home / "site.yaml").write_text("resources:\n  Nosuch[a]: {noop: maybe}\n")
    here = fleet.run("apply", "site.yaml", "--on", "web")
    assert here.code == 65
    assert here.err.startswith("site.yaml:2:15: Nosuch[a]: noop must be true or false")
    wrong = (
        "resources:\n  Nosuch[a]: {}\n  File[/a]: {contend: x, mode: '0999'}\n"
        "  File[/b]: {content: '${inputs.nosuch}'}\n  File[/c]: {content: '${facts.nosuch}'}\n"
    )
    (fleet.home / "site.yaml").write_text(wrong)
    for command in ("apply", "plan", "validate"):
        here = fleet.run(command, "site.yaml", "--on", "web[1:2]")
        assert (here.code, here.out) == (65, "")
        problems = (
            "site.yaml:2:3: Nosuch[a]: unknown type 'Nosuch'",
            "site.yaml:3:14: File[/a]: unknown attribute 'contend'; did you mean 'content'?",
            "site.yaml:3:26: File[/a]: mode",
            "site.yaml:4:14: File[/b]: ${inputs.nosuch}: unknown input 'nosuch'",
        )
        assert [problem for problem in problems if problem not in here.err] == [], here.err
        assert "facts" not in here.err
    assert fleet.run("apply", "site.yaml", "--on", "web[1:2]", "--json").code == 65
    (fleet.home / "site.yaml").write_text("resources:\n  File[/c]: {content: '${facts.nosuch}'}\n")
    there = fleet.run("apply", "site.yaml", "--on", "web[1:2]")
    assert (there.code, there.out.splitlines()[0]) == (65, "web[1:2] (2 hosts):")
    assert "  Error: refused: site.yaml:2: ${facts.nosuch}: unknown fact 'nosuch'" in there.out


def test_between_batches_a_command_gets_the_report_and_may_stop_the_run(fleet: Fleet) -> None:
    """Its exit code is the reason that is given."""
    between = "cat > batch.json; exit 3"
    result = fleet.run("apply", "site.yaml", "--on", "web", "--batches", "1", "--between", between)
    assert result.code == 1
    assert result.err == "Warning: stopped: --between has ended with exit code 3\n"
    report = json.loads((fleet.home / "batch.json").read_text())
    assert (report["batch"], report["batches"], report["hosts"], report["left"]) == (1, 3, {"changed": 1}, 2)
    assert (report["names"], report["outcomes"]) == (["web1"], {"web1": "changed"})
    assert re.fullmatch("[0-9a-f]{16}", report["run"])
    assert not fleet.content("web2")


def test_before_each_batch_a_command_gets_its_hosts_and_may_stop_the_run(fleet: Fleet) -> None:
    """The first batch included, of whose hosts none is touched then; the id is that of the run."""
    before = "cat >> batches.json; ! grep -q web3 batches.json"
    words = ("apply", "site.yaml", "--on", "web", "--batches", "1,100%", "--before")
    result = fleet.run(*words, before, "--json")
    documents = list(map(json.loads, (fleet.home / "batches.json").read_text().splitlines()))
    summary = json.loads(result.out.splitlines()[-1])
    assert [(document["type"], document["run"]) for document in documents] == [("batch_start", summary["run"])] * 2
    batches = [(document["batch"], document["batches"], document["names"], document["left"]) for document in documents]
    assert batches == [(1, 2, ["web1"], 2), (2, 2, ["web2", "web3"], 0)]
    assert (result.code, summary["stop"]) == (1, "--before has ended with exit code 1")
    assert (bool(fleet.content("web1")), bool(fleet.content("web2"))) == (True, False)
    first = fleet.run(*words, "false")
    assert first.err == "Warning: stopped: --before has ended with exit code 1\n"
    assert "0 changed, 0 unchanged, 0 failed, 0 unreachable, 3 untouched" in first.out


def test_every_line_is_prefixed_where_all_are_asked_for(fleet: Fleet) -> None:
    """An address that is nearly a name of the inventory is named."""
    result = fleet.run("apply", "site.yaml", "--on", "web1,wbe", "-v")
    lines = result.err.splitlines()
    assert "Warning: 'wbe' is in no inventory and taken as an address; did you mean 'web'?" in lines
    several = fleet.run("apply", "site.yaml", "--on", "web[8:9]", "--noop").err
    assert several == "Warning: 'web[8:9]' are in no inventory: addresses; did you mean 'web'?\n"
    assert f"web1: Notice: File[{fleet.place}/web1.conf]: created" in lines
    assert "\nApplied to 2 hosts" in result.out


def test_an_inventory_that_is_a_program_is_executed(fleet: Fleet) -> None:
    """Its hosts are those that it prints; one that others can change is not executed."""
    program = fleet.home / "hosts.py"
    program.write_text('#!/bin/sh\necho \'{"hosts": {"web7": {}}}\'\n')
    program.chmod(0o755)
    assert "web7:" in fleet.run("validate", "site.yaml", "--on", "@./hosts.py").out
    program.chmod(0o757)
    refused = fleet.run("validate", "site.yaml", "--on", "@./hosts.py")
    assert refused.code == 65
    assert "others could have changed it" in refused.err
    program.chmod(0o644)
    assert (
        "an inventory ends in .yaml, .yml, .json, or can be executed"
        in fleet.run("validate", "site.yaml", "--on", "@./hosts.py").err
    )
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    assert "has failed with exit code 3" in fleet.run("validate", "site.yaml", "--on", "@./hosts.py").err


def test_an_inventory_that_others_can_change_is_a_warning_and_with_programs_an_error(fleet: Fleet) -> None:
    """It says on which machines this user's rights are used."""
    inventory = fleet.home / "hosts.yaml"
    inventory.chmod(0o666)
    result = fleet.run("validate", "site.yaml", "--on", "web1")
    assert result.code == 0
    assert "hosts.yaml: Warning: others can change this inventory" in result.err
    inventory.write_text("hosts: {web1: {inputs: {role: {command: id}}}}\n")
    refused = fleet.run("validate", "site.yaml", "--on", "web1")
    assert refused.code == 65
    assert "others could have changed it" in refused.err


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ("apply site.yaml --batches 1", 64, "--batches needs --on"),
        ("apply site.yaml --hosts hosts.yaml", 64, "--inventory needs --on, which selects hosts of it"),
        ("apply site.yaml --on web[3:1]", 64, "--on: 'web[3:1]': '3:1' ends before it begins"),
        ("apply site.yaml --on web,,db1", 64, "--on: a name is missing"),
        ("apply site.yaml --on web --batches x", 64, "--batches: 'x' is neither a number of hosts"),
        ("apply site.yaml --on web --stop-after 101%", 64, "--stop-after: '101%' is neither a number of hosts"),
        ("apply site.yaml --on web --pause --between true", 64, "--pause and --between exclude each other"),
        ("apply site.yaml --on web --pause", 64, "--pause asks on a terminal, and standard input is none"),
        ("apply site.yaml --on !web,!db1,!gone1", 64, "--on !web,!db1,!gone1: no host is left"),
        ("apply site.yaml --on @none.yaml", 65, "none.yaml: cannot be read: No such file or directory"),
        ("apply site.yaml --rerun=", 64, "--rerun is empty"),
        ("apply site.yaml --on web --state here.db", 64, "--state here.db: write sqlite:PATH, "),
        ("apply site.yaml --on web --batches=", 64, "--batches is empty"),
        ("apply site.yaml --on web --stop-after=", 64, "--stop-after is empty"),
        ("apply site.yaml --on web --between=", 64, "--between is empty"),
        ("plan site.yaml --on web --explain Widget[a]", 64, "--explain cannot be given with --on"),
        ("apply site.yaml --rerun abc", 64, "--rerun: there is no run 'abc' among the last 100"),
        ("destroy site.yaml --on web", 64, "destroy needs --yes when standard input is no terminal"),
        ("plan site.yaml --on web -o site.yaml/such", 64, "-o site.yaml/such: with --on this is a directory of plans"),
    ],
)
def test_wrong_usage_touches_no_host(fleet: Fleet, words: str, code: int, reason: str) -> None:
    """It is said what is wrong, by the exit code too."""
    result = fleet.run(*words.split())
    assert (result.code, reason in result.err) == (code, True), result


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("web,!wbe3", "wbe3' after !"),
        ("web1,web&wep", "wep' after &"),
        ("web1,!other[1:2]", "other[1:2]' after !"),
        ("web,!db1", None),
        ("web,!db[1:9]", None),
        ("web1,far,!far", None),
        ("web&!web9", "web9' after !"),
    ],
)
def test_an_exclusion_that_leaves_nothing_out_is_refused(fleet: Fleet, location: str, name: str | None) -> None:
    """It is likely mistyped, as is an intersection, which is a warning; a known name that is not selected is not."""
    result = fleet.run("validate", "site.yaml", "--on", location)
    text = f"--on: '{name} is neither in an inventory nor selected"
    assert (text in result.err, "after" in result.err) == (name is not None, name is not None), result
    assert result.code == (64 if name is not None and "!" in name else 0)


def test_facts_of_hosts_are_shown_once_where_they_are_equal(fleet: Fleet) -> None:
    """All of them, a mapping, or one; an unknown one is an error of each host."""
    result = fleet.run("facts", "kernel", "--on", "web")
    assert (result.code, result.out.splitlines()[:2]) == (0, ["web[1:3] (3 hosts):", "  Linux"])
    assert "  os.release.full: " in fleet.run("facts", "os", "--on", "web").out
    documents = list(map(json.loads, fleet.run("facts", "--on", "web1", "--json").out.splitlines()))
    assert next(item["document"]["kernel"] for item in documents if item["type"] == "result") == "Linux"
    unknown = fleet.run("facts", "kernl", "--on", "web1")
    assert (unknown.code, "there is no fact 'kernl'; did you mean 'kernel'?" in unknown.out) == (1, True)


def test_the_runs_of_hosts_are_listed_and_shown(fleet: Fleet) -> None:
    """The counts of an earlier run are not those of the command that shows it."""
    state = ("--state", f"sqlite:{fleet.home}/state.db")
    assert fleet.run("apply", "site.yaml", "--on", "web1", *state).code == 0
    listed = fleet.run("history", "--on", "web1", *state)
    assert (listed.code, "apply" in listed.out.splitlines()[1]) == (0, True), listed.out
    for command in (["report"], ["history", "show"]):
        shown = fleet.run(*command, "--on", "web1", *state)
        assert (shown.code, f"File[{fleet.place}/web1.conf]" in shown.out) == (0, True), shown.out
        assert "0 changed, 1 unchanged" in shown.out
    page = fleet.run("report", "--on", "web1", "--format", "html", *state)
    assert (page.code, "--format html is for one machine" in page.err) == (64, True)


def test_the_state_of_hosts_is_shown_edited_and_recovered(fleet: Fleet) -> None:
    """A host without this program needs no login for it."""
    state, name = ("--state", f"sqlite:{fleet.home}/state.db"), f"File[{fleet.place}/web1.conf]"
    assert fleet.run("apply", "site.yaml", "--on", "web1", *state).code == 0
    shown = fleet.run("state", "show", name, "--on", "web1", *state)
    assert (shown.code, '"status": "ready"' in shown.out) == (0, True), shown.out
    refused = fleet.run("state", "rm", "File[/nowhere]", "--on", "web1", *state)
    assert (refused.code, "Error: refused: " in refused.out) == (1, True), refused
    removed = fleet.run("state", "rm", name, "--on", "web1", *state)
    assert removed.code == 0
    assert without_times(removed.out).splitlines() == [
        "web1:",
        f"  forgotten: {name}",
        "Edited the state on 1 host in 1.0 s: 1 changed, 0 unchanged, 0 failed, 0 unreachable, 0 untouched.",
    ]
    assert fleet.content("web1")
    (fleet.home / "state.db").write_bytes(b"damaged")
    assert fleet.run("apply", "site.yaml", "--on", "web1", *state).code != 0
    recovered = fleet.run("state", "recover", "--on", "web1", *state)
    assert (recovered.code, "Recovered the state on 1 host" in recovered.out) == (0, True), recovered.out
    assert fleet.run("apply", "site.yaml", "--on", "web1", *state).code == 0


def test_records_of_hosts_are_renamed_and_tainted(fleet: Fleet) -> None:
    """Equal answers once; a project too; what a host refuses is its reason."""
    state, name = ("--state", f"sqlite:{fleet.home}/state.db"), f"File[{fleet.place}/web1.conf]"
    assert fleet.run("apply", "site.yaml", "--on", "web1", *state).code == 0
    moved = fleet.run("state", "mv", name, f"File[{fleet.place}/new.conf]", "--on", "web1", *state)
    assert without_times(moved.out).splitlines() == [
        "web1:",
        f"  written: File[{fleet.place}/new.conf]",
        "Edited the state on 1 host in 1.0 s: 1 changed, 0 unchanged, 0 failed, 0 unreachable, 0 untouched.",
    ]
    assert fleet.run("state", "taint", f"File[{fleet.place}/new.conf]", "--on", "web1", *state).code == 0
    assert fleet.run("state", "untaint", f"File[{fleet.place}/new.conf]", "--on", "web1", *state, "--json").code == 0
    refused = fleet.run("state", "mv", name, "User[x]", "--on", "web1", *state)
    assert (refused.code, "a resource keeps its type" in refused.out) == (1, True), refused
    project = fleet.run("state", "mv", "--project", "site", "--on", "web1", *state)
    assert "  project web is now project site, with the stack default" in project.out
    listed = fleet.run("state", "list", "--on", "web1", *state)
    assert f"  File[{fleet.place}/new.conf]" in listed.out.splitlines()


def test_resources_of_hosts_are_imported(fleet: Fleet) -> None:
    """Existing ones are recorded on each host, ours are named, and a missing one fails its host alone."""
    state = ("--state", f"sqlite:{fleet.home}/state.db")
    for host in ("web1", "web2"):
        (fleet.place / f"{host}.conf").write_text("old\n")
    name = f"File[{fleet.place}/*]"
    result = fleet.run("import", "site.yaml", name, "--on", "web1", *state)
    assert without_times(result.out).splitlines() == [
        "web1:",
        f"  File[{fleet.place}/web1.conf]: imported.",
        "Imported on 1 host in 1.0 s: 1 changed, 0 unchanged, 0 failed, 0 unreachable, 0 untouched.",
    ]
    assert f"  File[{fleet.place}/web1.conf]" in fleet.run("state", "list", "--on", "web1", *state).out.splitlines()
    again = fleet.run("import", "site.yaml", name, "--on", "web1", *state)
    assert (again.code, f"  File[{fleet.place}/web1.conf]: recorded as ours already." in again.out) == (0, True)
    assert "0 changed, 1 unchanged" in again.out
    many = fleet.run("import", "site.yaml", name, "--on", "web[2:3]")
    assert many.code == 0
    assert f"  File[{fleet.place}/web3.conf]: does not exist." in many.out.splitlines()
    missing = fleet.run("import", "site.yaml", f"File[{fleet.place}/web3.conf]", "--on", "web3")
    assert (missing.code, "  Error: File[" in missing.out, "it does not exist" in missing.out) == (1, True, True), (
        missing
    )
    assert missing.out.count("cannot be imported") == 1
    assert "--rerun" in missing.out
    undeclared = fleet.run("import", "site.yaml", "File[/nowhere]", "--on", "web3", "--json")
    assert (undeclared.code, undeclared.events("host_end")[0]["status"]) == (1, "refused")
    written = fleet.run("import", "--all", "group", "-o", "groups.yaml", "--on", "web1")
    assert (written.code, "leave out --on" in written.err) == (64, True), written


def test_a_report_of_many_hosts_names_their_project(fleet: Fleet) -> None:
    """That of the manifest, or the one that is given; none where only the hosts know it."""

    def project(*words: str) -> object:
        fleet.run("apply", *words, "--on", "web1", "--report", "run.json")
        return json.loads((fleet.home / "run.json").read_text())["project"]

    assert project("site.yaml") == "web"
    assert project("site.yaml", "--project", "other") == "other"
    (fleet.home / "site.py").write_text("def main(site):\n    pass\n")
    assert project("site.py") is None


def test_an_interrupt_starts_no_further_host_and_every_host_is_reported(fleet: Fleet) -> None:
    """The running host ends its run; the others are untouched."""
    (fleet.home / "site.yaml").write_text("project: web\nresources:\n  Exec[sleep 2]: {}\n")
    command = fleet.command("apply", "site.yaml", "--on", "web", "--at-once", "1", "--json")
    with subprocess.Popen(
        command, cwd=fleet.home, env=fleet.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["type"] == "step_start":
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    ends = {
        document["host"]: document["status"]
        for document in map(json.loads, out.splitlines())
        if document["type"] == "host_end"
    }
    assert ends == {"web1": "changed", "web2": "untouched", "web3": "untouched"}
    assert json.loads(out.splitlines()[-1])["stop"] == "interrupted"
    assert "no further host is started" in err


def test_what_hosts_have_is_one_table_and_what_they_recorded_is_folded(fleet: Fleet) -> None:
    """Equal rows stand once with the hosts that have them; with JSON each has its host."""
    state = {"RESOURCE_API_STATE": f"sqlite:{fleet.home}/state.db"}
    assert fleet.run("apply", "site.yaml", "--on", "web1", **state).code == 0
    listed = fleet.run("state", "list", "--on", "web1", **state)
    assert listed.out.splitlines()[:2] == ["web1:", f"  File[{fleet.place}/web1.conf]"]
    outputs = fleet.run("output", "role", "--on", "web1", "--json", **state)
    assert outputs.events("result")[0]["document"] == "front"
    assert fleet.run("state", "check", "--on", "web1", **state).code == 0
    assert "apply: 1 created" in fleet.run("state", "history", "--on", "web1", **state).out
    table = fleet.run("resource", "user", "root", "--on", "web[1:2]")
    assert table.out.splitlines()[0].split()[:2] == ["host", "title"]
    assert table.out.splitlines()[1].split()[:2] == ["web[1:2]", "root"]
    rows = fleet.run("resource", "user", "root", "--on", "web[1:2]", "--json").document
    assert [(row["host"], row["title"]) for row in rows] == [("web1", "root"), ("web2", "root")]
    missing = fleet.run("resource", "user", "root", "--on", "gone1", "--format", "csv")
    assert (missing.code, missing.out) == (1, "")
    assert missing.err == "Error: gone1: unreachable: connection refused (gone1:22)\n"


def test_a_second_interrupt_ends_hosts_after_their_step_and_a_third_leaves_them(fleet: Fleet) -> None:
    """Each says what it does, and every host has an end."""
    (fleet.home / "site.yaml").write_text("project: web\nresources:\n  Exec[sleep 4]: {}\n")
    command = fleet.command("apply", "site.yaml", "--on", "web1", "--json")
    with subprocess.Popen(
        command, cwd=fleet.home, env=fleet.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if json.loads(line)["type"] == "step_start")
        for words in ("no further host is started", "end after their step", "are left; they end by themselves"):
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            assert words in process.stderr.readline()
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 143
    (end,) = (document for document in map(json.loads, out.splitlines()) if document["type"] == "host_end")
    assert end["status"] == "failed"
    assert end["error"].startswith("in doubt: ")


def test_a_host_that_is_told_to_end_because_of_its_time_says_so(fleet: Fleet) -> None:
    """The reason stands there, and no advice to press a key that nobody at the host has."""
    (fleet.home / "site.yaml").write_text("project: web\nresources:\n  Exec[sleep 4]: {}\n  Exec[true]: {}\n")
    result = fleet.run("apply", "site.yaml", "--on", "web1", "--host-timeout", "1000", LONG_STEP="1000")
    assert result.code == 1
    assert "  Warning: interrupted: finishing the current step\n" in result.out
    assert "  Error: told to end after 1000 s, see --host-timeout\n" in result.out


class Asked:
    """A command on a terminal, whose questions are answered, or interrupted by a signal."""

    def __init__(
        self,
        fleet: Fleet,
        *words: str,
        answers: Sequence[str | signal.Signals],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Run it to its end; ``code`` is its exit code, ``raw`` all that it has shown.

        ``meanwhile`` is called while it asks.
        """
        ours, theirs = pty.openpty()
        environment = {**fleet.environment, "TERM": "xterm"}
        command = fleet.command(*words)
        with subprocess.Popen(
            command, cwd=fleet.home, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        ) as process:
            os.close(theirs)
            self.raw, remaining = "", list(answers)
            with suppress(OSError):  # nobody has the terminal any more
                while piece := os.read(ours, 65536):
                    self.raw += piece.decode()
                    if remaining and self.raw.endswith("[no]: "):
                        meanwhile()
                        if isinstance(answer := remaining.pop(0), str):
                            os.write(ours, f"{answer}\n".encode())
                        else:
                            process.send_signal(answer)
        os.close(ours)
        self.code = process.returncode


def test_between_batches_a_person_is_asked(fleet: Fleet) -> None:
    """``y`` and ``yes`` are yes, all else is no; the progress stands on one line."""
    batches = ("apply", "site.yaml", "--on", "web", "--batches", "1", "--pause")
    result = Asked(fleet, *batches, answers=["y", "maybe"])
    assert result.code == 1
    assert "2 hosts follow. Go on? 'y' or 'yes' [no]: y" in result.raw
    assert "1 host follows. Go on? 'y' or 'yes' [no]: maybe" in result.raw
    assert "Warning: stopped: the answer was no" in result.raw
    assert "0/3 done, 1 running, 0 failed, 0 s; slowest: web1 0 s" in result.raw
    assert (bool(fleet.content("web2")), bool(fleet.content("web3"))) == (True, False)


def test_an_interrupt_is_an_answer(fleet: Fleet) -> None:
    """The run stops at once, as one that is interrupted; nobody has to press Enter."""
    batches = ("apply", "site.yaml", "--on", "web", "--batches", "1", "--pause")
    result = Asked(fleet, *batches, answers=[signal.SIGINT])
    assert result.code == 130
    assert "Warning: stopped: interrupted" in result.raw
    assert (bool(fleet.content("web1")), bool(fleet.content("web2"))) == (True, False)


def test_destroy_shows_the_plan_of_all_hosts_and_asks(fleet: Fleet) -> None:
    """Nothing is deleted without ``yes``, also after ``y``; where nothing would be, nothing is asked."""
    state = f"sqlite:{fleet.home}/state.db"
    assert fleet.run("apply", "site.yaml", "--on", "web1", "--state", state).code == 0
    refused = Asked(fleet, "destroy", "site.yaml", "--on", "web1", "--state", state, answers=["y"])
    assert refused.code == 1
    assert "Plan: 1 to delete" in refused.raw
    assert "Delete 1 resource of project web, stack default, on 1 host? Only 'yes' is accepted [no]:" in refused.raw
    assert fleet.content("web1")
    result = Asked(fleet, "destroy", "site.yaml", "--on", "web1", "--state", state, answers=["yes"])
    assert result.code == 0
    assert "Destroyed on 1 host" in result.raw
    assert not fleet.content("web1")
    assert "[no]" not in Asked(fleet, "destroy", "site.yaml", "--on", "web1", "--state", state, answers=[]).raw


@pytest.mark.parametrize("change", ["another", "other"])
def test_a_host_deletes_only_what_was_confirmed(fleet: Fleet, change: str) -> None:
    """While it was asked, another controller has added a resource, or the one that was shown is another now."""
    words = ("--on", "web1", "--state", f"sqlite:{fleet.home}/state.db")
    assert fleet.run("apply", "site.yaml", *words).code == 0

    def meanwhile() -> None:
        if change == "another":
            more = f"  File[{fleet.place}/more]: {{content: x}}\noutputs:"
            text = (fleet.home / "site.yaml").read_text()
            (fleet.home / "more.yaml").write_text(text.replace("outputs:", more))
            assert fleet.run("apply", "more.yaml", *words).code == 0
        else:
            (fleet.place / "web1.conf").unlink()
            (fleet.place / "web1.conf").mkdir()

    result = Asked(fleet, "destroy", "site.yaml", *words, "--detailed-exitcodes", answers=["yes"], meanwhile=meanwhile)
    assert result.code == 65, result.raw
    assert "refused: the plan is stale: " in result.raw
    assert (fleet.place / "web1.conf").exists()


def test_saved_destructions_of_hosts_are_applied(fleet: Fleet) -> None:
    """Each host's own, from a directory; until then nothing is deleted and nothing is asked."""
    words = ("--on", "web1", "--state", f"sqlite:{fleet.home}/state.db")
    assert fleet.run("apply", "site.yaml", *words).code == 0
    for command in (("destroy",), ("plan", "--destroy")):
        result = fleet.run(command[0], "site.yaml", *command[1:], *words, "-o", "plans")
        assert (result.code, "Plan: 1 to delete" in result.out) == (0, True), result
        assert fleet.content("web1")
    assert fleet.run("apply", "plans", *words).code == 0
    assert not fleet.content("web1")


#: The document of a plan without steps.
PLAN: Final = {
    "format_version": 1,
    "tool_version": "1.0",
    "project": "web",
    "stack": "live",
    "lineage": "a",
    "serial": 1,
    "manifest_sha256": "0" * 64,
    "steps": [],
    "drift": [],
    "outputs": {},
    "complete": True,
    "applicable": True,
}


def test_what_hosts_would_delete_is_added_up_in_the_question() -> None:
    """Hosts whose plan does nothing are not counted, and a host that has sent no valid plan is left alone."""
    shown_plans = ShownPlans()
    for number in range(3):
        counts = {"deleted": number, "forgotten": 1 if number == 2 else 0}
        shown_plans.add(f"web{number}", {**PLAN, "summary": counts})
    for answer in (
        [],
        None,
        {**PLAN, "summary": {"deleted": "many", "forgotten": -1}, "steps": [3], "project": 7},
        {**PLAN, "summary": {}, "steps": 1},
        {"steps": []},
    ):
        shown_plans.add("odd", answer)
    assert shown_plans.question("live") == "Delete 3 resources and forget 1 of project web, stack live, on 2 hosts?"
    assert set(shown_plans.confirmed) == {"web0", "web1", "web2"}


@pytest.fixture
def key(fleet: Fleet) -> x25519.Identity:
    """Write an identity into the file ``key``."""
    identity = x25519.Identity.generate()
    (fleet.home / "key").write_text(f"{identity}\n")
    (fleet.home / "key").chmod(0o600)
    return identity


@pytest.mark.parametrize("name", ["hosts.yaml.age", "more.json.age"])
def test_an_encrypted_inventory_may_hold_secrets(fleet: Fleet, key: x25519.Identity, name: str) -> None:
    """It is decrypted here; a secret, a variable and the name of a host in a path reach each host."""
    (fleet.home / "hosts.yaml").unlink()
    (fleet.home / "db1.txt").write_text("of-db1\n")
    inputs = {"web1": {"password": "correct-horse"}, "web2": {"password": {"env": "WORD"}}}
    inputs["db1"] = {"password": {"file": "${host.name}.txt"}}
    hosts = json.dumps({"hosts": {host: {"inputs": values} for host, values in inputs.items()}})
    (fleet.home / name).write_bytes(pyrage.encrypt(hosts.encode(), [key.to_public()]))
    options = () if name.startswith("hosts") else ("--hosts", name)
    words = ("apply", "site.yaml", "--on", "web1,web2,db1", *options)
    result = fleet.run(*words, "--inputs-key", "age:key", WORD="of-web2")
    assert result.code == 0, result.err
    assert "correct-horse" not in result.out + result.err
    passwords = [fleet.content(host).split()[-1] for host in inputs]
    assert passwords == ["correct-horse", "of-web2", "of-db1"]
    assert fleet.run(*words).code == 64
    listed = fleet.run("hosts", "list", *options, RESOURCE_API_INPUTS_KEY="age:key")
    assert [line.split()[0] for line in listed.out.splitlines()[1:]] == list(inputs)
    assert fleet.run("output", "--on", "web1", *options, "--inputs-key", "age:key").code == 0


def test_sources_in_files_of_inputs_are_read_here(fleet: Fleet, key: x25519.Identity) -> None:
    """Also of the stack's file, unless the inventory has a value; a failure is reported before any host is reached."""
    (fleet.home / "stacks").mkdir()
    text = b"role: {command: [echo, here]}\npassword: {env: WORD}\n"
    (fleet.home / "stacks" / "default.yaml.age").write_bytes(pyrage.encrypt(text, [key.to_public()]))
    environment = {"RESOURCE_API_INPUTS_KEY": "age:key", "WORD": "of-all"}
    assert fleet.run("apply", "site.yaml", "--on", "web1,db1", **environment).code == 0
    assert fleet.content("web1") == "role front password of-all\n"
    assert fleet.content("db1") == "role db password correct-horse\n"
    (fleet.home / "i.yaml").write_text("password: {file: nosuch}")
    result = fleet.run("apply", "site.yaml", "--on", "web1,db1", "--inputs", "i.yaml", **environment)
    assert result.code == 65
    assert "i.yaml:1:1: input 'password': nosuch: No such file or directory" in result.err


def test_two_inventories_beside_a_manifest_are_refused(fleet: Fleet, key: x25519.Identity) -> None:
    """A plain one and an encrypted one; the option names the one that is meant."""
    (fleet.home / "hosts.yaml.age").write_bytes(pyrage.encrypt(INVENTORY.encode(), [key.to_public()]))
    result = fleet.run("apply", "site.yaml", "--on", "web1")
    assert result.code == 65
    assert "hosts.yaml.age: stands beside hosts.yaml" in result.err
    assert fleet.run("apply", "site.yaml", "--on", "web1", "--hosts", "hosts.yaml").code == 0


def test_plans_that_look_alike_are_shown_once(fleet: Fleet) -> None:
    """Where only values differ that are not shown, such as digests of contents with the name of each host."""
    assert fleet.run("apply", "site.yaml", "--on", "web").code == 0
    result = fleet.run("plan", "site.yaml", "--on", "web", "-i", "role=back")
    lines = result.out.splitlines()
    assert lines[0] == "web[1:3] (3 hosts):"
    assert [line for line in lines if line.endswith(":") and not line.startswith(" ")] == lines[:1]
    assert f"  ~ File[{fleet.place}/${{host.name}}.conf]" in lines
    assert sum("Plan: 1 to update" in line for line in lines) == 1
