"""Write the manifests of the benchmarks, and make files drift."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: One file in this number drifts.
DRIFT = 100


class File(NamedTuple):
    """One file of the workload, for this program and other tools."""

    path: str
    content: str
    mode: str


def files(count: int, directory: Path) -> Iterator[File]:
    """Yield ``count`` files of about sixty bytes, with two different modes."""
    for number in range(count):
        content = f"[service-{number}]\nport = {1024 + number * 31 % 60000}\nworkers = {number % 16}\n"
        yield File(f"{directory}/{number:06d}.conf", content, "0600" if number % 2 else "0644")


def require(count: int, directory: Path) -> None:
    """Raise ``RuntimeError`` unless ``directory`` contains exactly the declared files."""
    expected = {file.path: (file.content, int(file.mode, 8)) for file in files(count, directory)}
    actual = {str(path): (path.read_text(), path.stat().st_mode & 0o7777) for path in directory.iterdir()}
    if actual != expected:
        wrong = sorted(path for path in actual.keys() | expected.keys() if actual.get(path) != expected.get(path))
        raise RuntimeError(f"{len(wrong)} of {count} files are not as declared, {wrong[0]} among them")


def write(count: int, directory: Path, stem: Path) -> tuple[Path, Path]:
    """Write the manifest of ``count`` files as JSON and as YAML; return the two paths."""
    as_json, as_yaml = stem.with_suffix(".json"), stem.with_suffix(".yaml")
    resources = {f"File[{file.path}]": {"content": file.content, "mode": file.mode} for file in files(count, directory)}
    _manifest(resources, as_json)
    lines = ["project: bench", "resources:"]
    for reference, file in resources.items():
        lines += [
            f"  {reference}:",
            f"    content: {json.dumps(file['content'])}",
            f"    mode: '{file['mode']}'",
        ]
    as_yaml.write_text("\n".join(lines) + "\n")
    return as_json, as_yaml


def drift(count: int, directory: Path) -> dict[str, str]:
    """Change the content or the mode of one file in a hundred; return the changed attribute by path."""
    changed = {}
    for index, number in enumerate(range(DRIFT // 2, count, DRIFT)):
        path = directory / f"{number:06d}.conf"
        if index % 2:
            path.chmod(0o640)
        else:
            path.write_text("drifted\n")
        changed[str(path)] = "mode" if index % 2 else "content"
    return changed


def graph(kind: str, shape: str, count: int, path: Path) -> Path:
    """Write a manifest of ``count`` resources: a ``chain``, a ``fan`` where all require the first, or ``flat``."""
    resources: dict[str, dict[str, Any]] = {}
    for number in range(count):
        before = {"chain": number - 1, "fan": 0 if number else -1, "flat": -1}[shape]
        resources[f"{kind.title()}[r{number}]"] = {"require": f"{kind.title()}[r{before}]"} if before >= 0 else {}
    return _manifest(resources, path)


def talker(path: Path, declared: dict[str, Any], inputs: Mapping[str, str] = {}) -> Path:
    """Write a manifest of one resource that logs lines or runs programs; ``inputs``: their data types."""
    document = {"inputs": {name: {"type": text} for name, text in inputs.items()}, "resources": {"Talker[t]": declared}}
    path.write_text(json.dumps({"project": "bench", **document}))
    return path


def hosts(count: int, url: str, path: Path) -> Path:
    """Write a manifest of hosts in the inventory service at ``url``."""
    resources = {
        f"Inventory_host[host-{number}]": {"address": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"}
        for number in range(1, count + 1)
    }
    document = {
        "project": "bench",
        "inputs": {"url": {"type": "String", "default": url}, "token": {"type": "Sensitive[String]"}},
        "providers": {"inventory_host": {"config": {"url": "${inputs.url}", "token": "${inputs.token}"}}},
        "resources": resources,
    }
    path.write_text(json.dumps(document))
    return path


def _manifest(resources: dict[str, Any], path: Path) -> Path:
    path.write_text(json.dumps({"project": "bench", "resources": resources}))
    return path
