"""The reference of types as Markdown files, made from the types themselves so that it cannot say anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.plugins.registry import Registry
from resource_api.render import describe

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


INDEX: Final = "README.md"


def bundled() -> Registry:
    """Give a registry of the types that come with the package, whatever else is installed."""
    return Registry(ModulePath([BUNDLED], distributions=False))


def pages(registry: Registry) -> Mapping[str, str]:
    """Give the text of each file by its name: one page per type, and ``README.md`` that lists them.

    Raises ``DefinitionError`` when a type is broken: a reference that lacks one would hide that.
    """
    definitions = [registry.type(name) for name in registry.names()]
    lines = [f"- [{each.name}]({each.name}.md): {describe.summary(each)}" for each in definitions]
    index = "\n".join(["# Types", "", "Each page is what `resource-api describe TYPE` says.", "", *lines])
    texts = {INDEX: index} | {f"{each.name}.md": describe.markdown(each) for each in definitions}
    return {name: f"{text}\n" for name, text in texts.items()}


def write(directory: Path, registry: Registry) -> list[Path]:
    """Write the pages into ``directory``, take away pages of types that are gone, and give the files."""
    wanted = pages(registry)
    directory.mkdir(parents=True, exist_ok=True)
    for stale in directory.glob("*.md"):
        if stale.name not in wanted:
            stale.unlink()
    for name, text in wanted.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in wanted]
