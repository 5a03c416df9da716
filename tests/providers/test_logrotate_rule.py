"""Rules that the real logrotate reads, in a copy of /etc."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.system.log import ForwardedLog
from resource_api.testing import ProviderCompliance
from tests.providers.applied import REGISTRY, reason, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api import Resource

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root changes /etc"),
    pytest.mark.usefixtures("private_system"),
]

PLACE = Path("/etc/logrotate.d")
RULE: dict[str, Any] = {"/srv/ra-test/*.log": {"rotate_every": "daily", "rotate": 2, "ifempty": True}}


def test_a_rule_rotates_a_log(tmp_path: Path) -> None:
    """With its script; text and sections that mean the same do not differ."""
    (tmp_path / "a.log").write_text("one\n")
    settings = {
        "rotate_every": "daily",
        "rotate": 2,
        "ifempty": False,
        "missingok": True,
        "create": "0640 root daemon",
        "su": ["root", "root"],
        "postrotate": ["cd /", f"echo done >{tmp_path}/said"],
    }
    run({"Logrotate_rule[ra-test]": {"content": {f"{tmp_path}/*.log": settings}}})
    text = (PLACE / "ra-test").read_text()
    assert text == (
        f"{tmp_path}/*.log {{\n    daily\n    rotate 2\n    notifempty\n    missingok\n    create 0640 root daemon\n"
        f"    su root root\n    postrotate\n        cd /\n        echo done >{tmp_path}/said\n    endscript\n}}\n"
    )
    force = ["logrotate", "--force", "--state", f"{tmp_path}/state", PLACE / "ra-test"]
    subprocess.run(force, check=True)
    assert ((tmp_path / "a.log.1").read_text(), (tmp_path / "said").read_text()) == ("one\n", "done\n")
    assert (tmp_path / "a.log").stat().st_mode & 0o777 == 0o640
    assert run({"Logrotate_rule[ra-test]": {"content": text}})[0].summary.unchanged == 1
    assert run({"Logrotate_rule[ra-test]": {"ensure": "absent"}})[0].summary.deleted == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"/x": {"compres": True}}, "/etc/logrotate.d/ra-test:2: unknown option 'compres' -- ignoring line"),
        ({"/x": {"size": "many"}}, "/etc/logrotate.d/ra-test:2: unknown unit"),
        (
            "/x {\n  postrotate\n    true\n}\n",
            "/etc/logrotate.d/ra-test: prerotate, postrotate or preremove without endscript",
        ),
        ({"/x": {"create": "0640 ra-nobody root"}}, "ra-nobody"),
    ],
)
def test_what_logrotate_would_not_accept_is_not_written(content: Any, reason: str) -> None:
    """The reason is what it says, and a warning in the plan; the other rules are written."""
    before = sorted(PLACE.iterdir())
    [warning] = warned({"Logrotate_rule[ra-test]": {"content": content}, "Logrotate_rule[ra-good]": {"content": RULE}})
    assert (reason in warning, sorted(PLACE.iterdir())) == (True, before)
    report, lines = run({"Logrotate_rule[ra-test]": {"content": content}, "Logrotate_rule[ra-good]": {"content": RULE}})
    [error] = [step.error for step in report.steps if step.error]
    assert reason in error
    assert [line for line in lines if line.startswith("warning")] == []
    assert not (PLACE / "ra-test").exists()
    (PLACE / "ra-good").unlink()


RULES = [("ra-a", "weekly"), ("ra-z", "rotate 1"), ("../logrotate.conf", "weekly\n    missingok")]


@pytest.mark.parametrize(("name", "setting"), RULES)
def test_a_log_that_another_file_rotates_is_refused_with_its_name(name: str, setting: str) -> None:
    """Whichever of both logrotate reads first, it would leave out one; what is wrong already is not held against it."""
    path = PLACE / name
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}{next(iter(RULE))} {{\n    {setting}\n}}\n")
    error = reason(run({"Logrotate_rule[ra-test]": {"content": RULE}})[0])
    assert "duplicate log entry for /srv/ra-test/*.log" in error
    assert os.path.realpath(path) in error
    assert not (PLACE / "ra-test").exists()
    (PLACE / "ra-wrong").write_text("/x {\n    rubbish\n}\n")
    assert run({"Logrotate_rule[ra-test]": {"content": {"/srv/more.log": {}}}})[0].summary.created == 1
    for item in (PLACE / "ra-test", PLACE / "ra-wrong"):
        item.unlink()
    path.write_text(before) if before else path.unlink()


@pytest.mark.parametrize("name", ["ra-a", "ra-z"])
def test_a_log_that_the_pattern_of_another_file_will_find_is_refused(name: str, tmp_path: Path) -> None:
    """No such log exists yet; logrotate would pass over one of the files once it does. A pattern of more is none."""
    path = PLACE / name
    path.write_text(
        f'# {tmp_path}/b.log\n"{tmp_path}/*.log" /srv/x.log\n{{\n  weekly\n'
        f"  postrotate\n    {tmp_path}/b\n  endscript\n}}\n"
    )
    log = {"Logrotate_rule[ra-test]": {"content": {f"{tmp_path}/a.log": {"weekly": True}}}}
    message = f"duplicate log entry for {tmp_path}/a.log, which {path} rotates as {tmp_path}/*.log"
    assert warned(log) == [f"{PLACE}/ra-test: {message}"]
    assert reason(run(log)[0]) == f"{PLACE}/ra-test: {message}"
    deeper = {"Logrotate_rule[ra-test]": {"content": {f"{tmp_path}/b/a.log {tmp_path}/b": {"weekly": True}}}}
    assert run(deeper)[0].summary.created == 1
    (tmp_path / "a.log").touch()
    assert "duplicate log entry" in reason(run({"Logrotate_rule[ra-b]": log["Logrotate_rule[ra-test]"]})[0])
    for item in (path, PLACE / "ra-test"):
        item.unlink()


def test_what_a_killed_run_has_left_is_removed() -> None:
    """The directory in which rules are verified is one for all runs, and gone after each."""
    stage = Path("/run/resource-api.stage")
    (stage / "left").mkdir(parents=True)
    assert run({"Logrotate_rule[ra-test]": {"content": RULE}})[0].summary.created == 1
    assert not stage.exists()
    (PLACE / "ra-test").unlink()


def test_a_link_is_left_alone() -> None:
    """It belongs to who made it; neither it nor a directory disturbs a listing or another rule."""
    (PLACE / "ra-link").symlink_to("/srv/rule")
    (PLACE / "ra-directory").mkdir()
    assert reason(run({"Logrotate_rule[ra-link]": {"content": RULE}})[0]) == "it is a link to /srv/rule"
    lines: list[str] = []
    listed = Runtime(REGISTRY, log=ForwardedLog("warning", lambda event: lines.append(event.text))).resources(
        "logrotate_rule"
    )
    assert not {"ra-link", "ra-directory"} & {row["name"] for row in listed}
    assert lines == [f"{PLACE}/ra-directory: not a regular file", f"{PLACE}/ra-link: it is a link to /srv/rule"]
    assert run({"Logrotate_rule[ra-test]": {"content": RULE}})[0].summary.created == 1
    for path in (PLACE / "ra-link", PLACE / "ra-test"):
        path.unlink()
    (PLACE / "ra-directory").rmdir()


@pytest.mark.parametrize(
    "bad",
    [
        *({"name": "../x"}, {"name": "a.b"}, {"name": "-a"}, {"name": "a\n"}, {"content": {}}, {"content": ""}),
        *({"content": {"x": {}}}, {"content": {"/x {": {}}}, {"content": {"/x": {"create": "a\nmail root"}}}),
    ],
)
def test_hostile_values_are_refused(bad: dict[str, Any]) -> None:
    """No value adds a setting or a section, and no name is a path."""
    with pytest.raises(ManifestError):
        run({"Logrotate_rule[x]": {"content": RULE, **bad}})


def test_a_directory_that_logrotate_does_not_read_is_reported_by_the_plan() -> None:
    """Its rules would have no effect; a comment reads nothing."""
    main = Path("/etc/logrotate.conf")
    text = main.read_text()
    try:
        main.write_text(text.replace("\ninclude ", "\n#include "))
        message = "/etc/logrotate.conf does not read /etc/logrotate.d: the file has no effect"
        assert warned({"Logrotate_rule[ra-test]": {"content": RULE}}) == [message]
    finally:
        main.write_text(text)
    assert warned({"Logrotate_rule[ra-test]": {"content": RULE}}) == []


class TestLogrotateRule(ProviderCompliance):
    """A rule in its two forms."""

    type_name = "logrotate_rule"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-test-a", "content": RULE}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "content": "/srv/ra-test/*.log {\n    weekly\n}"}

    @pytest.fixture
    def others(self) -> list[Resource]:
        return [{"name": f"ra-test-{letter}", "content": {f"/srv/{letter}.log": {}}} for letter in "bc"]

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: sorted(path.name for path in PLACE.iterdir())

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes /etc/logrotate.d"
