"""The modules of several versions of a type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from resource_api.plugins.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

TYPE = """
from resource_api import Attribute, TypeDefinition
TYPE = TypeDefinition(
    name="greet", docs="x", attributes={{"name": Attribute("String", "x", kind="namevar")}}, version="{}"
)
"""
PROVIDER = """
from resource_api import BaseProvider
class Provider(BaseProvider):
    def get(self, context):
        return []
    def set(self, context, changes):
        pass
"""


@pytest.mark.parametrize("order", [["", ">=2"], [">=2", ""]])
def test_the_names_of_modules_do_not_depend_on_the_order_of_loading(tmp_path: Path, order: list[str]) -> None:
    """The first version on the module path has the plain name: values saved for its functions are found by it."""
    for directory, version in (("a", "1.0"), ("b", "2.0")):
        for kind, text in (("types", TYPE.format(version)), ("providers", PROVIDER)):
            (tmp_path / directory / kind).mkdir(parents=True)
            (tmp_path / directory / kind / "greet.py").write_text(text)
    registry = Registry.from_path(tmp_path / "a", tmp_path / "b", trust=[tmp_path])
    names = {versions: registry.provider("greet", versions).__module__ for versions in order}
    assert names == {
        "": "resource_api.providers.greet",
        ">=2": f"resource_api.providers.greet@{tmp_path}/b",
    }
