"""The schemas in ``docs/schemas/``: every command has one, they are valid, and what is wrong does not pass.

That all real outputs obey them is checked in each scenario: see ``tests/json_schemas.py``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click
import pytest
from jsonschema import Draft202012Validator

from resource_api.cli.main import cli
from tests import json_schemas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scenarios.conftest import Bench

#: ``schema`` writes a JSON Schema, the others no JSON.
WITHOUT: Final = {"providers schema", "schema", "completion install", "completion show", "agent unit"}
PAGE: Final = json_schemas.DIRECTORY.parent / "json.md"


def commands(command: click.Command = cli, *words: str) -> Iterator[str]:
    """Yield every command with the option ``--json``."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            result = command.get_command(context, name)
            assert result is not None
            yield from commands(result, *words, name)
    if words and any("--json" in parameter.opts for parameter in command.params):
        yield " ".join(words)


@pytest.mark.parametrize("name", sorted(json_schemas.schemas()))
def test_a_schema_is_valid_and_on_the_page(name: str) -> None:
    """It is a JSON Schema, everything that it refers to exists, and the page says what it is about."""
    schema = json_schemas.schemas()[name]
    Draft202012Validator.check_schema(schema)
    list(json_schemas.validator(name).iter_errors({"type": "summary"}))
    assert schema["title"]
    assert schema["description"]
    assert f"(schemas/{name}.json)" in PAGE.read_text(encoding="utf-8")


def test_every_command_with_json_has_a_schema() -> None:
    """One of its own name, or one that the page names."""
    assert {command for command in commands() if json_schemas.schema_of(command) is None} == WITHOUT


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.update(more=1),
        lambda document: document.pop("serial"),
        lambda document: document["steps"][0].update(action="make"),
        lambda document: document["steps"][0]["changes"][0].pop("should"),
        lambda document: document["summary"].update(created="1"),
    ],
    ids=["unknown_key", "missing_key", "unknown_word", "missing_inner_key", "wrong_type"],
)
def test_what_is_wrong_does_not_pass(bench: Bench, spoil: Any) -> None:
    """An unknown key, a missing one, another word or type."""
    document = bench.plan("resources:\n  Widget[a]: {size: 1}\n", "--json").document
    json_schemas.check(["plan", "--json"], json.dumps(document), 0)
    spoil(document)
    with pytest.raises(AssertionError, match=r"not as docs/schemas/plan\.json says"):
        json_schemas.check(["plan", "--json"], json.dumps(document), 0)


def test_the_documents_of_state_and_history_obey_their_schemas(bench: Bench) -> None:
    """Those that few other scenarios ask for; ``run`` checks each."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    manifest = (
        "project: site\nresources:\n  Widget[a]: {size: %d}\n  Widget[b]: {}\noutputs: {size: '${Widget[a].size}'}\n"
    )
    for size in (1, 2):
        assert bench.stream(manifest % size).code == 0
    for words in (
        "history",
        "history show",
        "history diff last-1 last",
        "report",
        "state list",
        "state show Widget[a]",
        "state export",
        "state history",
        "state check",
        "state taint Widget[a]",
        "state mv Widget[b] Widget[c]",
        "output",
        "output size",
        "refresh site.yaml",
        "graph site.yaml",
        "import site.yaml Widget[a]",
        "types",
        "describe widget",
        "facts",
        "describe nosuch",
    ):
        result = bench.run(*words.split(), "--json")
        assert result.code == (64 if words.endswith("nosuch") else 0), result
        json.loads(result.out)
