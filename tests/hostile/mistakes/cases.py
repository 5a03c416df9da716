"""The corpus of mistakes: what a user wrote, and word for word what the command answers on stderr.

Each ``*.yaml`` beside this module is a list of cases of one group: ``name``, ``files`` (path → text), ``command``,
``exit``, ``stderr``, and optionally ``env`` and ``before``, the commands that are run first. ``python -m
tests.hostile.mistakes --write`` runs all of them and writes down what they answer; a reviewer reads the difference.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tests import command

HERE: Final = Path(__file__).resolve().parent
#: How the directory of a case is written in ``stderr``.
DIRECTORY: Final = "/home/me"


class Case(NamedTuple):
    """One mistake: the files of a directory, a command that is run there, and its answer."""

    group: str
    name: str
    files: dict[str, str]
    command: str
    exit: int
    stderr: str
    env: dict[str, str]
    before: list[str]

    def run(self, directory: Path) -> tuple[int, str]:
        """Run the command in an empty directory; return its exit code and what it wrote to stderr."""
        for name, text in self.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        env = {"PATH": os.environ["PATH"], "HOME": str(directory), "LC_ALL": "C.UTF-8", "COLUMNS": "100"}
        env |= {"RESOURCE_API_STATE": f"sqlite:{directory}/state/state.db", "PYTHONDONTWRITEBYTECODE": "1", **self.env}
        for earlier in self.before:
            command.run(shlex.split(earlier), cwd=directory, env=env)
        process = command.run(shlex.split(self.command), cwd=directory, env=env)
        return process.returncode, process.stderr.decode().replace(str(directory), DIRECTORY)


def groups() -> list[Path]:
    """Return the files of the corpus, by name."""
    return sorted(HERE.glob("*.yaml"))


def load(path: Path) -> list[Case]:
    """Return the cases of one file."""
    return [
        Case(
            path.stem,
            item["name"],
            item["files"],
            item["command"],
            item.get("exit", 0),
            item.get("stderr", ""),
            item.get("env", {}),
            item.get("before", []),
        )
        for item in yaml.safe_load(path.read_text(encoding="utf-8")) or []
    ]


def write(path: Path, cases: list[Case]) -> None:
    """Write the cases of one file: texts of several lines as blocks, where YAML can."""
    plain: list[dict[str, Any]] = []
    for case in cases:
        fields = case._asdict()
        del fields["group"]
        plain.append({key: value for key, value in fields.items() if key not in {"env", "before"} or value})
    entries = (yaml.dump([item], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000) for item in plain)
    path.write_text("\n".join(entries), encoding="utf-8")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as literal blocks."""


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block)
