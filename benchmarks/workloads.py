"""Makes what is measured: manifests of many small files, and a small drift among them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

#: One file in so many drifts.
DRIFT = 100


def resources(count: int, directory: Path) -> dict[str, Any]:
    """Give ``count`` files of some sixty bytes, half of them with another mode."""
    return {
        f"File[{directory}/{number:06d}.conf]": {
            "content": f"[service-{number}]\nport = {1024 + number * 31 % 60000}\nworkers = {number % 16}\n",
            "mode": "0600" if number % 2 else "0644",
        }
        for number in range(count)
    }


def write(count: int, directory: Path, stem: Path) -> tuple[Path, Path]:
    """Write the manifest of ``count`` files as JSON and as YAML; gives the two paths."""
    found = resources(count, directory)
    as_json, as_yaml = stem.with_suffix(".json"), stem.with_suffix(".yaml")
    as_json.write_text(json.dumps({"project": "bench", "resources": found}))
    lines = ["project: bench", "resources:"]
    for reference, wanted in found.items():
        lines += [f"  {reference}:", f"    content: {json.dumps(wanted['content'])}", f"    mode: '{wanted['mode']}'"]
    as_yaml.write_text("\n".join(lines) + "\n")
    return as_json, as_yaml


def drift(count: int, directory: Path) -> int:
    """Change the content or the mode of one file in a hundred; gives how many."""
    numbers = range(DRIFT // 2, count, DRIFT)
    for turn, number in enumerate(numbers):
        path = directory / f"{number:06d}.conf"
        if turn % 2:
            path.chmod(0o640)
        else:
            path.write_text("drifted\n")
    return len(numbers)
