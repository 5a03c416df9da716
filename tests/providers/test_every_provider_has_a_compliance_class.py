"""Every bundled provider is tested with the laws that authors of providers get."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from tests.bundled import laws_of, types_with_resources

ROOT: Final = Path(__file__).resolve().parents[2]
PROVIDERS: Final = types_with_resources()


def complying(path: Path) -> set[str]:
    """Return the types that the classes of a test file test with the laws."""
    return {
        ast.literal_eval(line.value)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test")
        if any(ast.unparse(base).endswith("ProviderCompliance") for base in node.bases)
        for line in node.body
        if isinstance(line, ast.Assign) and [ast.unparse(target) for target in line.targets] == ["type_name"]
    }


def test_the_list_of_providers_is_not_empty() -> None:
    """An empty list would prove nothing."""
    assert {"file", "package", "user"} <= set(PROVIDERS)


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_has_a_compliance_class(name: str) -> None:
    """``tests/providers/test_<name>.py`` has a class of the laws for the type ``<name>``, or that of its peer."""
    assert name in complying(laws_of(name))


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "providers").glob("test_*.py")), ids=lambda path: path.stem)
def test_every_compliance_class_names_its_neighbours(path: Path) -> None:
    """Each class of the laws has the files of other users that its type reads, or the reason why there are none.

    A class with another base has them from there.
    """
    silent = [
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and [ast.unparse(base).endswith("ProviderCompliance") for base in node.bases] == [True]
        if "neighbours" not in {line.name for line in node.body if isinstance(line, ast.FunctionDef)}
    ]
    assert silent == []
