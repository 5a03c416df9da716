"""The functions of ``std``: their examples, their laws, and their mistakes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import Runtime
from resource_api.manifest import yaml_reader
from tests.reference import REGISTRY

if TYPE_CHECKING:
    from pathlib import Path

FUNCTIONS: Final = REGISTRY.type("std").functions
#: A value of an example, and the comment with its result.
EXAMPLE: Final = re.compile(r"^ *(\w+: \{.*\})\n *# \$\{values\.(\w+)\} is (.+)$", re.MULTILINE)


def data(text: str) -> Any:
    """Return what a text is in a manifest."""
    return yaml_reader.read(text.encode(), "").data


def value(tmp_path: Path, function: str, **inputs: Any) -> Any:
    """Return the result of a function in a manifest."""
    call = {"invoke": f"std.{function}", "with": {name.rstrip("_"): each for name, each in inputs.items()}}
    return outputs(tmp_path, {"result": call})["result"]


def outputs(tmp_path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Return named values, as the outputs of a manifest."""
    manifest = {"project": "p", "values": values, "outputs": {name: f"${{values.{name}}}" for name in values}}
    plan = Runtime(REGISTRY, state=f"sqlite:{tmp_path}/state.db").plan(manifest)
    return dict(plan.to_dict()["outputs"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_example_yields_what_it_says(name: str, tmp_path: Path) -> None:
    """The documentation of each function has an example, with its result below it."""
    examples = EXAMPLE.findall(FUNCTIONS[name].docs)
    assert len(examples) == FUNCTIONS[name].docs.count("invoke: ") >= 1
    for written, key, result in examples:
        call = data(written)
        assert call[key]["invoke"] == f"std.{name}"
        assert outputs(tmp_path, call) == {key: data(result)}


def test_all_functions_are_pure() -> None:
    """None reads anything but its inputs."""
    assert all(function.pure for function in FUNCTIONS.values())
