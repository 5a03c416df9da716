"""The pages of ``docs/reference``, generated from the bundled types: ``python -m tests.reference`` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api import Registry
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.render import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

DIRECTORY: Final = Path(__file__).resolve().parent.parent / "docs" / "reference"
#: The types that come with the package, whatever else is installed.
REGISTRY: Final = Registry(ModulePath([BUNDLED], distributions=False))
_WHAT: Final = "Each page is the output of `resource-api describe TYPE --format markdown`, without the origin."


def pages() -> Mapping[str, str]:
    """Return name → text: a page for each type, and ``README.md``, which lists them."""
    definitions = [REGISTRY.type(name) for name in REGISTRY.names()]
    lines = [f"- [{each.name}]({each.name}.md): {describe.summary(each)}" for each in definitions]
    found = {"README.md": "\n".join(["# Types", "", _WHAT, "", *lines])}
    found |= {f"{each.name}.md": describe.markdown(each) for each in definitions}
    return {name: f"{page}\n" for name, page in found.items()}


def write(directory: Path) -> None:
    """Write the pages into ``directory``, and remove pages of types that no longer exist."""
    found = pages()
    for stale in directory.glob("*.md"):
        if stale.name not in found:
            stale.unlink()
    for name, page in found.items():
        (directory / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write(DIRECTORY)
