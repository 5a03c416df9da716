"""What tests of bundled types and providers share: their modules, and files of a neighbour."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from resource_api.plugins.loader import Library
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.plugins.registry import Registry

if TYPE_CHECKING:
    from typing import Any, Final, Literal

TESTS: Final = Path(__file__).resolve().parent


def execute(kind: Literal["types", "providers", "lib"], name: str) -> Any:
    """Return the module of a bundled type or provider or of their library, executed anew with the bundled ``lib/``."""
    module = ModuleType(f"ra_test_{kind}_{name}")
    Library(BUNDLED, None).execute(module, f"{BUNDLED}/{kind}/{name}.py")
    return module


def types_with_resources() -> list[str]:
    """Return the bundled types, without those that have functions only."""
    registry = Registry(ModulePath([BUNDLED], distributions=False))
    return sorted(name for name in registry.names() if registry.type(name).attributes)


def laws_of(name: str) -> Path:
    """Return the file of the laws of a bundled type: in ``tests/peers`` for one that needs a large peer."""
    peer = TESTS / "peers" / f"test_{name}.py"
    return peer if peer.exists() else TESTS / "providers" / f"test_{name}.py"


def directory_of_nobody(beneath: Path) -> Path:
    """Return a new directory of the user nobody, a neighbour who can put anything there."""
    directory = beneath / "nobody"
    directory.mkdir()
    shutil.chown(directory, "nobody")
    return directory
