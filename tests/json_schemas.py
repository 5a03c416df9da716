"""The schemas of ``docs/schemas/``, which everything that the command writes as JSON obeys.

The scenarios check each run with ``check``; they are the real outputs that the schemas are compared with.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

if TYPE_CHECKING:
    from collections.abc import Sequence

DIRECTORY: Final = Path(__file__).resolve().parent.parent / "docs" / "schemas"
#: The schema of a stream of events, one a line.
_STREAM: Final = "apply"
#: The schema of the events of a run over many hosts.
_HOSTED: Final = "fleet"
#: Commands with subcommands.
_GROUPS: Final = frozenset(
    ("state", "history", "new", "completion", "inputs", "stack", "backup", "bundle", "agent", "hosts", "providers")
)
#: Commands, with their subcommands, whose documents have another schema than one of their own name.
OTHERS: Final = {
    "show": "plan",
    "watch": "plan",
    "destroy": "apply",
    "report": "run",
    "history show": "run",
    "history diff": "run-diff",
    "state history": "history",
    "agent once": "apply",
    "agent run": "apply",
    **dict.fromkeys(("agent pause", "agent resume"), "agent-message"),
    **dict.fromkeys(("bundle make", "bundle sign", "bundle verify"), "bundle"),
    **dict.fromkeys(("hosts runtime add", "hosts runtime list", "hosts runtime"), "hosts-runtime"),
    **dict.fromkeys(("new type", "new component", "new key"), "new"),
    **dict.fromkeys(("state rm", "state mv", "state taint", "state untaint"), "state-edit"),
}


@cache
def schemas() -> dict[str, Any]:
    """Return every schema by its name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(DIRECTORY.glob("*.json"))}


@cache
def validator(name: str) -> Draft202012Validator:
    """Return the compiled schema of a name."""
    registry: Any = Registry().with_resources(  # type: ignore[call-arg]
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas().values()
    )
    return Draft202012Validator(schemas()[name], registry=registry)


def schema_of(command: str) -> str | None:
    """Return the name of the schema of what a command writes, None where there is none."""
    name = OTHERS.get(command, command).replace(" ", "-")
    return name if name in schemas() else None


def _command(arguments: Sequence[str]) -> str:
    """Return the command among arguments, with its subcommand."""
    words = [word for word in arguments if not word.startswith("-")]
    if words[:1] == ["inputs"] and words[1:2] not in (["show"], ["edit"]):
        return "inputs show"
    return " ".join(words[: 2 if words[:1] and words[0] in _GROUPS else 1])


def check(arguments: Sequence[str], out: str, code: int) -> None:
    """Raise ``AssertionError`` where what a command has written with ``--json`` is not as its schema says."""
    name = schema_of(_command(arguments))
    if {"--on", "--rerun"} & set(arguments) and name != "resource":
        name = _HOSTED
    elif {"-o", "--out"} & set(arguments) and name == _STREAM:
        name = "plan"  # destroy -o
    if name == "run" and "--since" in arguments:
        name = "overview"
    written = "--json" in arguments or name == "state-export"
    if name is None or not written or not out or "--help" in arguments:
        return
    documents = (
        [json.loads(line) for line in out.splitlines()]
        if name in {_STREAM, _HOSTED} and out[:2] != "{\n"
        else [json.loads(out)]
    )
    for document in documents:
        failed = code and isinstance(document, dict) and document.keys() == {"diagnostics", "exit_code"}
        faults = [
            f"{'/'.join(map(str, fault.absolute_path))}: {fault.message}"
            for fault in validator("error" if failed else name).iter_errors(document)
        ]
        assert not faults, f"{' '.join(arguments)}: not as docs/schemas/{name}.json says: {faults[0][:2000]}"
