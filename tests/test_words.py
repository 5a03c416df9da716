"""The law of names: identifiers use the field's terms, not the words of this project's former private dialect."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
CODE: Final = ("resource_api", "types", "providers", "lib")

#: Word → what to say instead. A word is a part of an identifier between underscores or capital letters.
RETIRED: Final = {
    word: instead
    for retired, instead in {
        "ghost ghosts haunt haunted": "orphan, former identity",
        "lineup": "provider instances",
        "wish wishes wished heeded because": "option, reason, requested replacement",
        "doomed condemn condemned spare spared": "blocked, skipped",
        "calm idle": "unchanged, in sync",
        "stir stirred touched": "changed since read",
        "rested resting keepsake keepsakes grounds": "cache validity, cache entry, fingerprints",
        "recalled recall remember remembered": "load, save",
        "stillness": "sandbox, read-only guard",
        "turn turns arrival": "re-evaluate, verify",
        "ending endings accord keeping": "results, conflicts between steps, recorded values",
        "entering valuing": "build resources, evaluate values, canonicalize",
        "complain complaint complaints": "problem, diagnostics, report",
        "appoint appointing survey surveyed awaited": "configure providers, observe, deferred read",
        "foresight doubts news": "predict, recovery, changed records",
        "crew baton lent lend lending relay": "thread pool, lock, borrowed handle, transfer",
        "look looked mend mended upkeep editions": "inspect, edit state, refresh, versions",
        "whoever nobody somebody anybody": "the user, no provider, another process",
        "say says said saying tell tells told telling spoken speak asking": "log, report, notify, call",
    }.items()
    for word in retired.split()
}

#: Identifiers with a retired word in another, technical sense: identifier → reason.
ALLOWED: Final = {
    "replaces_because": "the key of the plan's JSON, which the contract prints",
    "IDLE_TIMEOUT": "the term for a timeout without data",
    "_idle": "the worker processes without a call, as pools name them",
    "tell": "the method of file objects",
}


def words(identifier: str) -> list[str]:
    """Return the parts of an identifier, in lower case: ``_VanishedRow`` has two."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


def identifiers(path: Path) -> Iterator[tuple[str, int]]:
    """Yield every name that a module defines, and its own, with the line."""
    yield path.stem if path.stem != "__init__" else path.parent.name, 0
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno


@pytest.mark.parametrize("directory", CODE)
def test_no_identifier_has_a_retired_word(directory: str) -> None:
    """Each is listed with its place and the words to use instead."""
    result = [
        f"{path.relative_to(ROOT)}:{line}: {identifier} ({word}: say {RETIRED[word]})"
        for path in sorted((ROOT / directory).rglob("*.py"))
        for identifier, line in identifiers(path)
        if identifier not in ALLOWED
        for word in words(identifier)
        if word in RETIRED
    ]
    assert not result, "\n" + "\n".join(result)


def test_every_exception_is_needed() -> None:
    """An identifier that is allowed exists."""
    paths = [path for directory in CODE for path in (ROOT / directory).rglob("*.py")]
    assert ALLOWED.keys() <= {identifier for path in paths for identifier, _ in identifiers(path)}
