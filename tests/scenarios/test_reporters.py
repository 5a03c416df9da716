"""``--report`` and ``--metrics``: documents of runs and plans for other programs, in files and to named functions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench

SITE = """
project: web
resources:
  Widget[a]: {size: 1}
  Probe[bad]: {size: 1}
  "Widget[<&\\"']": {size: 1, require: "Probe[bad]"}
"""
GOOD = "project: web\nresources: {'Widget[a]': {size: 1}}\n"


@pytest.fixture
def broken(bench: Bench) -> Bench:
    """Return the bench with a type that always fails, with a text that XML cannot contain."""
    bench.probe("def set(self, context, changes): raise ResourceError('<broken> \\x00 \\ufffe ]]>')")
    return bench


def samples(path: Path) -> dict[tuple[str, str], float]:
    """Return the samples of a metrics file by name and outcome, read by Prometheus' own parser."""
    families = text_string_to_metric_families(path.read_text())
    return {
        (sample.name, sample.labels.get("outcome", "")): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_run_is_reported_in_every_form_at_once(broken: Bench) -> None:
    """By the ending of the file; readable by the owner alone, but metrics by everybody."""
    names = ("run.json", "run.xml", "run.html")
    options = [word for name in names for word in ("--report", name)]
    assert broken.apply(SITE, *options, "--metrics", "run.prom").code == 1
    assert [(broken.home / name).stat().st_mode & 0o777 for name in (*names, "run.prom")] == [0o600] * 3 + [0o644]
    document = json.loads((broken.home / "run.json").read_text())
    assert [step["status"] for step in document["steps"]] == ["success", "failed", "skipped"]
    assert "<h2>Failed" in (broken.home / "run.html").read_text()
    assert not [path for path in broken.home.iterdir() if path.name.startswith(".run")]


def test_a_step_is_a_test_case(broken: Bench) -> None:
    """With its failure, or why it was skipped; hostile texts are data."""
    broken.apply(SITE, "--report", "run.xml")
    (suite,) = JUnitXml.fromfile(str(broken.home / "run.xml"))
    cases = {case.name: case for case in suite}
    assert (suite.name, suite.tests, suite.failures, suite.skipped, suite.errors) == ("web/default", 3, 1, 1, 0)
    assert cases["Widget[a]"].is_passed
    (failure,) = cases["Probe[bad]"].result
    assert isinstance(failure, Failure)
    assert failure.text.startswith(f"{broken.home}/site.yaml:4: <broken> \\x00 \ufffd ]]>")
    (skipped,) = cases["Widget[<&\"']"].result
    assert (type(skipped), skipped.message) == (Skipped, "skipped because Probe[bad] failed")


def test_what_ends_a_command_is_an_error_in_its_report(bench: Bench) -> None:
    """Of a wrong manifest too: a monitor sees that the last run was none."""
    result = bench.apply("resources: {'Widget[a]': {sise: 1}}\n", "--report", "run.xml", "--metrics", "run.prom")
    assert result.code == 65
    (suite,) = JUnitXml.fromfile(str(bench.home / "run.xml"))
    (case,) = suite
    assert (suite.errors, [type(item) for item in case.result]) == (1, [Error])
    assert "unknown attribute 'sise'" in case.result[0].text
    assert samples(bench.home / "run.prom")["resource_api_run_exit_code", ""] == 65


def test_metrics_count_outcomes_and_drift(bench: Bench) -> None:
    """Of a run, a plan, and a refresh."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    bench.apply(GOOD, "--metrics", "a.prom")
    bench.put("widget", a={**bench.things("widget")["a"], "size": 5})
    assert bench.plan(GOOD, "--metrics", "b.prom").code == 0
    assert bench.run("refresh", "site.yaml", "--metrics", "c.prom").code == 0
    first, planned, refreshed = (samples(bench.home / f"{name}.prom") for name in "abc")
    assert first["resource_api_run_resources", "created"] == 1
    assert planned["resource_api_run_resources", "updated"] == 1
    assert planned["resource_api_run_drifted_resources", ""] == 1
    assert refreshed["resource_api_run_resources", "refreshed"] == 1
    assert refreshed["resource_api_run_timestamp", ""] >= first["resource_api_run_timestamp", ""] > 0


def test_a_directory_keeps_the_last_100_reports(bench: Bench) -> None:
    """One whole file a run, named by its time; other files stay."""
    for number in range(100):
        bench.write(f"reports/20200101T000000.{number:03}Z-old.json", "{}")
    bench.write("reports/kept.json", "mine")
    assert bench.apply(GOOD, "--report", "reports").code == 0
    assert bench.apply("resources: []\n", "--report", "reports").code == 65
    *old, first, last, stored = sorted((bench.home / "reports").iterdir())
    assert (len(old), old[0].name, stored.read_text()) == (98, "20200101T000000.002Z-old.json", "mine")
    assert first.stat().st_mode & 0o777 == 0o600
    assert json.loads(first.read_text())["summary"]["created"] == 1
    assert json.loads(last.read_text())["summary"]["exit_code"] == 65


def test_a_report_stays_beside_100_from_the_future(bench: Bench) -> None:
    """A clock that was set back must not cost the newest report; those of the wrong time count as the oldest."""
    for number in range(100):
        bench.write(f"reports/29990101T000000.{number:03}Z-old.json", "{}")
    assert bench.apply(GOOD, "--report", "reports").code == 0
    newest, *rest = sorted((bench.home / "reports").iterdir())
    assert (newest.name < "2900", len(rest), rest[0].name) == (True, 99, "29990101T000000.001Z-old.json")


def test_metrics_have_changes_failures_and_corrected_drift(bench: Bench) -> None:
    """Of the last run, beside its duration and its end; each value has one name."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    bench.apply(GOOD, "--metrics", "a.prom")
    bench.put("widget", a={**bench.things("widget")["a"], "size": 5})
    bench.apply(GOOD, "--metrics", "b.prom")
    first, second = (samples(bench.home / f"{name}.prom") for name in "ab")
    names = ("changes", "failures", "corrective")
    assert [first[f"resource_api_run_{name}", ""] for name in names] == [1, 0, 0]
    assert [second[f"resource_api_run_{name}", ""] for name in names] == [1, 0, 1]
    assert 0 < second["resource_api_run_seconds", ""] < 60
    assert not {name for name, _ in second if "duration" in name or name.endswith("timestamp_seconds")}
    assert second["resource_api_generation", ""] == 0


def test_a_named_function_gets_the_document(bench: Bench) -> None:
    """Also of a run that changes nothing; what it raises is an error, and the exit code of a run stays."""
    bench.write("plugin/send.py", "import json\ndef to(document): open('sent', 'w').write(json.dumps(document))\n")
    bench.environment["PYTHONPATH"] += f":{bench.home}/plugin"
    assert bench.apply(GOOD, "--noop", "--report", "send:to").code == 0
    document = json.loads((bench.home / "sent").read_text())
    assert (document["kind"], document["summary"]["noop"], document["steps"][0]["status"]) == ("run", True, "noop")
    bench.write("plugin/send2.py", "def to(document): raise ValueError('no route')\n")
    result = bench.apply(GOOD, "--report", "send2:to")
    assert (result.code, "no report to send2:to: no route" in result.err) == (0, True)
    assert bench.plan(GOOD, "--report", "send2:to").code == 1


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("run.txt", "ends in none of .json, .xml, .html, and is neither a directory nor MODULE:FUNCTION"),
        ("nowhere/run.xml", "there is no directory nowhere"),
        ("nosuch_module:to", "cannot be imported: ModuleNotFoundError"),
        ("json:decoder", "is no function"),
        ("site.json", "would replace a file that this command reads"),
    ],
)
def test_a_target_that_cannot_be_is_refused_before_anything_is_done(bench: Bench, target: str, reason: str) -> None:
    """Wrong usage; nothing is changed."""
    manifest: dict[str, Any] = {"project": "web", "resources": {"Widget[a]": {"size": 1}}}
    bench.write("site.json", json.dumps(manifest))
    result = bench.run("apply", "site.json", "--report", target)
    assert (result.code, reason in result.err) == (64, True), result.err
    assert bench.things("widget") == {}
    assert json.loads((bench.home / "site.json").read_text()) == manifest


@pytest.mark.parametrize("end", ["/", "/."])
def test_a_slash_behind_the_manifest_does_not_let_its_report_replace_it(bench: Bench, end: str) -> None:
    """The command could not read it so, and would write the report of this failure."""
    bench.write("site.json", "{}")
    result = bench.run("apply", f"site.json{end}", "--report", "site.json")
    assert (result.code, "would replace a file that this command reads" in result.err) == (64, True), result.err
    assert (bench.home / "site.json").read_text() == "{}"
