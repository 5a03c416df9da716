"""``--metrics``: gauges that Prometheus accepts, of every kind of run, and those of an agent."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.prometheus import promtool, scraping

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench

GOOD = "project: web\nresources: {'Widget[a]': {size: 1}}\n"
WRONG = "project: web\nresources: {'Widget[a]': {sise: 1}}\n"
PLAIN = {"project": "web", "stack": "default", "command": "apply"}


@pytest.fixture
def stateful(bench: Bench) -> Bench:
    """Return the bench with a state, and with a site for an agent."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    bench.environment["RESOURCE_API_AGENT"] = f"{bench.home}/agent"
    bench.write("site/site.yaml", GOOD)
    return bench


def gauges(path: Path) -> dict[str, float]:
    """Return the gauges of a file that have no labels but those of its command, by name."""
    families = list(text_string_to_metric_families(path.read_text()))
    assert {family.type for family in families} == {"gauge"}
    return {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if len(sample.labels) == len(PLAIN)
    }


@pytest.mark.parametrize(
    ("words", "manifest"),
    [
        (("apply", "site.yaml"), GOOD),
        (("apply", "site.yaml", "--noop"), GOOD),
        (("plan", "site.yaml"), GOOD),
        (("refresh", "site.yaml"), GOOD),
        (("destroy", "site.yaml", "--yes"), GOOD),
        (("apply", "site.yaml"), WRONG),
        (("agent", "once", "--from", "site", "site.yaml"), GOOD),
    ],
    ids=("apply", "noop", "plan", "refresh", "destroy", "error", "agent"),
)
def test_promtool_has_nothing_to_say(stateful: Bench, words: tuple[str, ...], manifest: str) -> None:
    """Each name, HELP and TYPE is there once."""
    stateful.write("site.yaml", manifest)
    stateful.run(*words, "--metrics", "run.prom")
    text = (stateful.home / "run.prom").read_text()
    assert promtool("check", "metrics", text=text) == ""
    comments = Counter(
        line.rpartition(" ")[0] if " TYPE " in line else line for line in text.splitlines() if "#" in line
    )
    assert set(comments.values()) == {1}


def test_prometheus_has_each_value_of_the_run_that_was_last(stateful: Bench, tmp_path: Path) -> None:
    """The collector of the node exporter reads the file; the series of a command continues from run to run."""
    (tmp_path / "files").mkdir()
    (tmp_path / "server").mkdir()
    stateful.apply(GOOD, "--metrics", f"{tmp_path}/files/web.prom")
    stateful.apply(GOOD.replace("web", "db"), "--stack", "test", "--metrics", f"{tmp_path}/files/db.prom")
    with scraping(tmp_path / "server", tmp_path / "files") as prometheus:
        assert prometheus.value("node_textfile_scrape_error") == 0
        assert prometheus.value("resource_api_run_changes{project='web',stack='default',command='apply'}") == 1
        assert prometheus.value("resource_api_run_resources{project='db',stack='test',outcome='unchanged'}") == 1
        assert prometheus.value("time() - resource_api_run_timestamp{project='web'} < bool 600") == 1
        metadata = prometheus.ask("targets/metadata", match_target='{job="node"}')
        types = {item["metric"]: item["type"] for item in metadata if item["metric"].startswith("resource_api_")}
        assert set(types.values()) == {"gauge"}
        assert types.keys() == set(prometheus.ask("label/__name__/values")) & types.keys()


def test_a_value_that_is_not_known_is_left_out(stateful: Bench) -> None:
    """A plan has no duration, but a time: nothing that looks at the age of a run takes it for one of 1970."""
    stateful.plan(GOOD, "--metrics", "run.prom")
    planned = gauges(stateful.home / "run.prom")
    assert "resource_api_run_seconds" not in planned
    assert planned["resource_api_run_timestamp"] > 1.7e9


def test_an_agent_has_its_period_and_the_state_of_its_source(stateful: Bench) -> None:
    """While it is paused nothing of a run is written but its time."""
    words = ("agent", "once", "--from", "site", "--every", "10m", "site.yaml", "--metrics", "run.prom")
    assert stateful.run(*words).code == 0
    running = gauges(stateful.home / "run.prom")
    assert (running["resource_api_agent_period_seconds"], running["resource_api_agent_paused"]) == (600, 0)
    text = (stateful.home / "run.prom").read_text()
    labels = ",".join(f'{name}="{value}"' for name, value in PLAIN.items())
    assert f'resource_api_agent_source{{{labels},trust="directory"}} 1' in text
    assert f'resource_api_agent_source{{{labels},trust="untrusted"}} 0' in text
    assert stateful.run("agent", "pause", "moving").code == 0
    assert stateful.run(*words).code == 0
    paused = gauges(stateful.home / "run.prom")
    assert paused == {
        "resource_api_run_timestamp": pytest.approx(running["resource_api_run_timestamp"], abs=5),
        "resource_api_generation": 0,
        "resource_api_agent_period_seconds": 600,
        "resource_api_agent_paused": 1,
    }
    assert promtool("check", "metrics", text=(stateful.home / "run.prom").read_text()) == ""


def test_a_source_that_is_not_trusted_is_seen_in_the_metrics(stateful: Bench) -> None:
    """With the labels of a run that succeeds, so that the series continues."""
    stateful.write("site/types/readme", "").chmod(0o646)
    assert stateful.run("agent", "once", "--from", "site", "site.yaml", "--metrics", "run.prom").code == 65
    text = (stateful.home / "run.prom").read_text()
    assert 'resource_api_agent_source{project="",stack="default",command="apply",trust="untrusted"} 1' in text
    assert gauges(stateful.home / "run.prom")["resource_api_run_exit_code"] == 65
