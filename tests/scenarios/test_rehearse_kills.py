"""``rehearse --kills``: the run is cut in several places, and the next run must come to the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.rehearse.cuts import points

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


def cut(bench: Bench, manifest: str, count: int) -> tuple[int, str, list[dict[str, Any]]]:
    """Rehearse a manifest with ``count`` cuts; return the exit code, and the text and the findings of the verdict."""
    result = bench.run("rehearse", bench.write("site.yaml", manifest), "--kills", str(count), "--json")
    [verdict] = [item for item in result.document["verdicts"] if item["question"] == "survives cuts"]
    assert verdict["ok"] == (not verdict["findings"]), verdict
    return result.code, verdict["text"], verdict["findings"]


def test_a_sound_manifest_survives_every_cut(bench: Bench) -> None:
    """Files and commands that say when they are done are as in the uncut run; what always differs is no finding."""
    code, text, result = cut(
        bench,
        f"""
        resources:
          File[{bench.home}/directory]: {{ensure: directory, mode: "0750"}}
          File[{bench.home}/directory/in]: {{content: hi, mode: "0640"}}
          Exec[make]:
            command: date +%N >{bench.home}/time; echo 1 >{bench.home}/new; mv {bench.home}/new {bench.home}/made
            shell: true
            creates: {bench.home}/made
        """,
        4,
    )
    assert (code, result) == (0, [])
    assert text.startswith("4 cuts in a run of ")


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        ("creates: {0}/a", "{0}/a and 2 more differ after the next run"),
        ("unless: test -e {0}/b", "the next run fails: "),
    ],
)
def test_what_the_next_run_does_not_complete_is_named(bench: Bench, condition: str, wrong: str) -> None:
    """A file that counts as done as soon as it exists stays half written; a lock that is left fails the next run."""
    command = "mkdir {0}/lock && (for i in 1 2 3 4 5 6; do echo $i >>{0}/a; done; echo 1 >{0}/b; rmdir {0}/lock)"
    code, _, result = cut(
        bench,
        f"""
        resources:
          Exec[make]:
            command: {command.format(bench.home)}
            shell: true
            {condition.format(bench.home)}
        """,
        8,
    )
    assert code == 2
    assert {(item["reference"], item["place"].rpartition("/")[2]) for item in result} == {("Exec[make]", "site.yaml:2")}
    assert [value["text"] for value in result if f"): {wrong.format(bench.home)}" in value["text"]]


@pytest.mark.parametrize("count", [0, 1, 3, 7, 8])
def test_cuts_are_spread_over_the_whole_run(count: int) -> None:
    """There is one in each part of a run, always the same, and no more than the run has changes."""
    result = points(7, count)
    assert result == points(7, count) == sorted(set(result))
    assert len(result) == min(count, 7)
    assert all(1 <= item <= 7 for item in result)
