"""The public forms of plans and reports: text, JSON and a short ``repr``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from resource_api import Plan, Registry, Report, Runtime, Sensitive

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


@pytest.fixture
def runtime() -> Runtime:
    """Return a runtime with the bundled types and a state in memory."""
    return Runtime(Registry.from_path(), state="memory:")


def manifest(directory: Path, count: int, **attributes: Any) -> dict[str, Any]:
    """Return a manifest of ``count`` files."""
    files = {f"File[{directory}/{number}]": {"content": f"{number}\n", **attributes} for number in range(count)}
    return {"project": "site", "resources": files}


def test_the_text_of_a_plan_is_what_the_command_prints(runtime: Runtime, tmp_path: Path) -> None:
    """One line for each step, its attributes, and the summary at the end."""
    plan = runtime.plan(manifest(tmp_path, 1))
    lines = str(plan).splitlines()
    assert lines[0] == f"+ File[{tmp_path}/0]"
    assert lines[-1] == "Plan: 1 to create; 0 unchanged."
    assert isinstance(plan, Plan)


def test_the_document_of_a_plan_has_the_documented_fields(runtime: Runtime, tmp_path: Path) -> None:
    """It is ready for ``json.dumps`` and has every documented field."""
    document = json.loads(json.dumps(runtime.plan(manifest(tmp_path, 2)).to_dict()))
    assert document.keys() >= {
        *("format_version", "tool_version", "project", "stack", "lineage", "serial", "manifest_sha256"),
        *("steps", "drift", "outputs", "summary", "complete", "applicable"),
    }
    assert (document["project"], document["summary"]["created"]) == ("site", 2)
    assert [step["action"] for step in document["steps"]] == ["create", "create"]


def test_the_document_of_a_report_has_the_documented_fields(runtime: Runtime, tmp_path: Path) -> None:
    """Steps as ``step_end`` shows them, the outputs, and the summary with exit code and run."""
    report = runtime.apply(manifest(tmp_path, 2))
    document = json.loads(json.dumps(report.to_dict()))
    assert document.keys() == {"steps", "outputs", "summary"}
    assert [step["status"] for step in document["steps"]] == ["success", "success"]
    assert document["summary"]["created"] == 2
    assert (document["summary"]["exit_code"], document["summary"]["run"]) == (0, report.run)
    assert isinstance(report, Report)


def test_the_text_of_a_report_is_its_summary(runtime: Runtime, tmp_path: Path) -> None:
    """On one line, as the command prints it last."""
    text = str(runtime.apply(manifest(tmp_path, 1)))
    assert text.startswith("Applied in ")
    assert "1 created" in text
    assert "\n" not in text


def test_repr_is_one_short_line(runtime: Runtime, tmp_path: Path) -> None:
    """Only the counts that are not zero are shown; it does not grow with the number of steps."""
    plan = runtime.plan(manifest(tmp_path, 100))
    assert repr(plan) == "<Plan: 100 to create; 0 unchanged>"
    assert repr(runtime.apply(manifest(tmp_path, 100), noop=True)) == "<Report: 100 created>"
    assert repr(runtime.apply(plan)) == "<Report: 100 created>"
    assert repr(runtime.plan(manifest(tmp_path, 100))) == "<Plan: nothing to do; 100 unchanged>"
    assert repr(runtime.plan(manifest(tmp_path, 100, mode="0600"))) == "<Plan: 100 to update; 0 unchanged>"


def test_no_form_shows_a_secret(runtime: Runtime, tmp_path: Path) -> None:
    """Neither a plan nor a report shows a sensitive value in any of its public forms."""
    site = manifest(tmp_path, 1, content="pw=${inputs.pw}") | {"inputs": {"pw": {"type": "Sensitive[String]"}}}
    arguments = {"pw": Sensitive("hunter22 and more")}
    for result in (runtime.plan(site, arguments), runtime.apply(site, arguments)):
        for text in (str(result), repr(result), json.dumps(result.to_dict())):
            assert "hunter22" not in text


def test_what_a_callback_receives_has_the_same_forms(runtime: Runtime, tmp_path: Path) -> None:
    """``on_plan`` receives the plan before anything is changed; its exception ends the run."""
    observed: list[str] = []

    def refuse(plan: Plan) -> None:
        observed.append(str(plan))
        raise RuntimeError(repr(plan))

    with pytest.raises(RuntimeError, match="<Plan: 1 to create; 0 unchanged>"):
        runtime.apply(manifest(tmp_path, 1), on_plan=refuse)
    assert len(observed) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_plan_with_a_name_that_is_no_text_is_saved_and_applied(runtime: Runtime, tmp_path: Path) -> None:
    """Such as that of a file that a link leads to, which may be any bytes."""
    link, plan = tmp_path / "link", tmp_path / "plan.json"
    link.symlink_to("/\udcff")
    source = {"project": "site", "resources": {f"File[{link}]": {"ensure": "link", "target": "/there"}}}
    runtime.plan(source, out=plan)
    assert json.loads(plan.read_text(encoding="utf-8"))["steps"][0]["is"]["target"] == "/\udcff"
    assert runtime.apply(str(plan)).summary.updated == 1
    assert str(link.readlink()) == "/there"
