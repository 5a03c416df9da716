"""The document of a run: the longest chain of calls, what is cut, and what is masked."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import Attribute, BaseProvider, Runtime, TypeDefinition
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Context

TYPES: Final = tuple(
    TypeDefinition(
        name=name,
        docs="A job.",
        attributes={
            "name": Attribute("String", "Its name.", kind="namevar"),
            "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
            "seconds": Attribute("Float", "How long it takes.", default=0.0),
            "text": Attribute("Optional[String]", "What it contains."),
            "token": Attribute("Optional[Sensitive[String]]", "A secret."),
        },
        features={"parallel"},
    )
    for name in ("job", "task")
)


def document(*manifests: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """Return the document of the last of some runs, of jobs that are kept in memory."""
    rows: dict[str, dict[str, Any]] = {}

    class Provider(BaseProvider):
        def get(self, _context: Context, names: Collection[str] | None = None) -> list[dict[str, Any]]:
            return [dict(row) for name, row in rows.items() if names is None or name in names]

        def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
            for name, change in changes.items():
                time.sleep(change.should["seconds"])
                rows[name] = dict(change.should)

    runtime, result = Runtime(registry_of(*((item, Provider) for item in TYPES))), list[dict[str, Any]]()
    runtime.on_document = result.append
    for resources in manifests:
        runtime.apply({"project": "documents", "resources": resources}, **options)
    return result[-1]


@pytest.mark.parametrize("parallel", [1, 3])
def test_the_longest_chain_is_of_calls_that_waited_for_each_other(parallel: int) -> None:
    """Also through a resource that was in sync; a longer call that nothing waits for is no link of it."""
    between = {"Job[between]": {"require": "Job[first]"}}
    chain = {
        "Job[first]": {"seconds": 0.03},
        **between,
        "Task[last]": {"seconds": 0.03, "require": "Job[between]"},
        "Task[free]": {"seconds": 0.04},
    }
    result = document({"Job[between]": {}}, chain, parallel=parallel)
    path = [result["calls"][number] for number in result["critical_path"]]
    assert [call["first"] for call in path] == ["Job[first]", "Task[last]"]
    assert path[0]["started"] + path[0]["seconds"] <= path[1]["started"]
    assert {call["worker"] for call in result["calls"]} <= set(range(1, parallel + 1))
    assert [step["reference"] for step in result["steps"] if step["call"] is None] == []


def test_a_long_text_is_cut_and_no_part_of_a_secret_is_left() -> None:
    """A secret in the middle of the cut is masked first; the others are masked wherever they are."""
    secret = "correct horse battery staple"
    before, after = "x" * 49_990 + secret + "x" * 10, f"now {secret}"
    result = document(
        {"Job[a]": {"text": before, "token": secret, "seconds": 0.0}},
        {"Job[a]": {"text": after, "token": secret + "!", "seconds": 0.0}},
    )
    changes = {change["attribute"]: change for change in result["steps"][0]["changes"]}
    assert changes["text"]["is"] == "x" * 49_990 + "<sensitive"[:10] + f"\n… ({len(before)} characters)"
    assert changes["text"]["should"] == "now <sensitive>"
    assert (changes["token"]["is"], changes["token"]["should"]) == ("<sensitive>", "<sensitive>")
    assert "horse" not in json.dumps(result)
