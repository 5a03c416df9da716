"""``--parallel`` through the command line: concurrent programs with output and changes per resource."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

PROGRAM = """
    sh = Command("sh")

    def get(self, context, names=None):
        here = Path(os.environ["BENCH"])
        return [
            {"name": name, "ensure": "present", "size": int((here / f"{name}.made").read_text())}
            for name in names if (here / f"{name}.made").exists()
        ]

    def set(self, context, changes):
        for name, change in changes.items():
            script = (
                'mkdir "$0/running.$1"; sleep 0.3; ls -d "$0"/running.* | wc -l;'
                ' echo "this is $1" >&2; echo "$2" > "$0/$1.made"; rmdir "$0/running.$1"'
            )
            beside = self.sh("-c", script, os.environ["BENCH"], name, str(change.should["size"])).stdout
            context.notice(name, message=f"beside {int(beside)}")
"""
FEATURES = ("parallel", "simple_get_filter")


def test_concurrent_programs_are_logged_for_their_own_resource(bench: Bench) -> None:
    """Twelve programs run at most six at a time, and the output of each is logged with its reference."""
    bench.probe(PROGRAM, features=FEATURES)
    resources = {f"Probe[p{number}]": {"size": number} for number in range(12)}
    result = bench.run("apply", bench.write("site.json", json.dumps({"resources": resources})), "--parallel", "6")
    assert result.code == 0
    for number in range(12):
        assert sum(f"this is p{number}" == line.rpartition(": ")[2] for line in result.lines) == 1
    beside = [int(line.rpartition(" ")[2]) for line in result.lines if ": beside " in line]
    assert len(beside) == 12
    assert 1 < max(beside) <= 6
    assert "12 created" in result.out
    assert " s: 12 unchanged." in bench.run("apply", "site.json", "--parallel", "6").out


def test_a_concurrent_failure_fails_alone(bench: Bench) -> None:
    """The other resources are created, the dependent is skipped, and the run exits 1."""
    bench.probe(
        PROGRAM.replace("script = (", 'assert name != "p3", "no p3"\n            script = ('), features=FEATURES
    )
    resources: dict[str, dict[str, object]] = {f"Probe[p{number}]": {"size": number} for number in range(8)}
    resources["Probe[later]"] = {"size": 1, "require": "Probe[p3]"}
    result = bench.stream(json.dumps({"resources": resources}), "--parallel", "4")
    assert result.code == 1
    bad = {name: end["status"] for name, end in result.ends().items() if end["status"] != "success"}
    assert bad == {"Probe[p3]": "failed", "Probe[later]": "skipped"}
    (summary,) = result.events("summary")
    assert (summary["created"], summary["failed"], summary["skipped"]) == (7, 1, 1)


def test_concurrent_messages_are_whole_lines(bench: Bench) -> None:
    """Messages of eight threads are complete lines on stdout and on stderr."""
    bench.probe(
        """
        def get(self, context, names=None):
            return [{"name": n, "ensure": "present"} for n in names if n in self._made]
        _made = set()
        def set(self, context, changes):
            for name in changes:
                for number in range(200):
                    context.notice(name, message=f"{number} " + "x" * 300)
                self._made.add(name)
        """,
        features=FEATURES,
    )
    resources = {f"Probe[p{number}]": {} for number in range(8)}
    result = bench.stream(json.dumps({"resources": resources}), "--parallel", "8")
    assert result.code == 0
    messages = [event["message"] for event in result.events("log")]
    assert len([text for text in messages if text.endswith("x" * 300)]) == 1600
    assert len([line for line in result.lines if line.endswith("x" * 300)]) == 1600


def test_noop_with_parallel_changes_nothing(bench: Bench) -> None:
    """A noop run with ``--parallel`` counts the creations and makes none."""
    bench.probe(PROGRAM, features=FEATURES)
    resources = {f"Probe[p{number}]": {"size": number} for number in range(5)}
    result = bench.apply(json.dumps({"resources": resources}), "--parallel", "4", "--noop")
    assert result.code == 0
    assert "Plan: 5 to create; 0 unchanged." in result.out
    assert not list(bench.things_of.iterdir())
