"""The alerts and the dashboard, with a real Prometheus and the metrics of real runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import command
from tests.prometheus import promtool, scraping
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.prometheus import Prometheus

HOME: Final = Path(__file__).resolve().parents[1]
DASHBOARD: Final[dict[str, Any]] = json.loads((HOME / "dashboard.json").read_text(encoding="utf-8"))
#: What Grafana inserts for the dashboard's variables where all are selected.
ALL: Final = ("$project", "$stack", "$instance")
#: Panels without a sample where all is well.
QUIET: Final = {"Failing", "Stale", "Source not verified", "Paused"}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Yield a server with the alerts, and with the metrics of an agent and of a failing run."""
    home, files = tmp_path_factory.mktemp("server"), tmp_path_factory.mktemp("files")
    site = tmp_path_factory.mktemp("site")
    (site / "site.yaml").write_text(f"project: web\nresources: {{'File[{site}/motd]': {{content: hi}}}}\n")
    (site / "db.yaml").write_text(f"project: db\nresources: {{'File[{site}/no/motd]': {{content: hi}}}}\n")
    environment = {
        "PATH": "/usr/bin:/bin",
        "RESOURCE_API_STATE": f"sqlite:{site}/state/state.db",
        "RESOURCE_API_AGENT": f"{site}/agent",
    }
    agent = ["agent", "once", "--from", str(site), "site.yaml", "--metrics", f"{files}/web.prom"]
    apply = ["apply", f"{site}/db.yaml", "--metrics", f"{files}/db.prom"]
    for words, code in ((agent, 0), (agent, 0), (apply, 1)):
        result = command.run(words, cwd=site, env=environment)
        assert result.returncode == code, result.stderr
        (site / "motd").write_text("drifted")
    result = command.run(agent, cwd=site, env=environment)
    with scraping(home, files, HOME / "rules.yml") as server:
        yield server


def test_promtool_accepts_the_alerts_and_their_tests() -> None:
    """Each alert is tested, once where it is raised."""
    promtool("check", "rules", HOME / "rules.yml")
    promtool("test", "rules", HOME / "rules_test.yml")
    names = {line.split()[-1] for line in (HOME / "rules.yml").read_text().splitlines() if "- alert:" in line}
    tests = (HOME / "rules_test.yml").read_text()
    assert names == {name for name in names if f"alertname: {name}\n" in tests}


def test_an_alert_is_raised_for_what_runs_have_written(prometheus: Prometheus) -> None:
    """Drift at once; a failing run and repeated drift are pending; nothing else."""
    wait_until(lambda: len(prometheus.query("ALERTS")) == 3)
    alerts = {(alert["metric"]["alertname"], alert["metric"]["alertstate"]) for alert in prometheus.query("ALERTS")}
    pending = {("ResourceApiRunFailing", "pending"), ("ResourceApiDriftRepeats", "pending")}
    assert alerts == {("ResourceApiDrift", "firing"), *pending}


def queries() -> list[Any]:
    """Return the queries of the dashboard with the titles of their panels."""
    return [
        pytest.param(panel["title"], target["expr"], id=f"{panel['title']}-{target['refId']}")
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    ]


@pytest.mark.parametrize(("title", "expression"), queries())
def test_a_query_of_the_dashboard_has_an_answer(prometheus: Prometheus, title: str, expression: str) -> None:
    """With all machines selected; a panel that counts troubles has none where there is none."""
    for name in ALL:
        expression = expression.replace(name, ".*")
    assert "$" not in expression
    result = prometheus.query(expression)
    runs_with_hosts = title == "Hosts of runs with --on"
    versions = title == "Machines by generation of the signed source"
    assert bool(result) or title in QUIET or runs_with_hosts or versions, expression


def test_the_dashboard_shows_each_machine_with_its_last_run(prometheus: Prometheus) -> None:
    """The number of machines, and which fail and drift."""
    numbers = {panel["title"]: panel["targets"][0]["expr"] for panel in DASHBOARD["panels"] if panel["type"] == "stat"}
    for name in ALL:
        numbers = {title: expression.replace(name, ".*") for title, expression in numbers.items()}
    values = {title: [sample["value"][1] for sample in prometheus.query(text)] for title, text in numbers.items()}
    assert values == {
        "Machines": ["1"],
        "Failing": ["1"],
        "Stale": [],
        "Drift": ["1"],
        "Source not verified": [],
        "Paused": [],
    }


def test_the_dashboard_is_complete() -> None:
    """Each panel has an id, a place on the grid that is its own, and the variable as its data source."""
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} == {"${datasource}"}
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", *(n[1:] for n in ALL)]


def test_the_page_names_every_gauge() -> None:
    """What the rules and the dashboard use is explained."""
    page = (HOME / "README.md").read_text(encoding="utf-8")
    used = {word for text in (HOME / "rules.yml", HOME / "dashboard.json") for word in _gauges(text)}
    assert {name for name in used if name.removeprefix("resource_api_") not in page} == set()


def _gauges(path: Path) -> set[str]:
    return set(re.findall(r"\bresource_api_\w+", path.read_text(encoding="utf-8")))
