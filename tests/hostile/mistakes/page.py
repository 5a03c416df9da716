"""The page ``docs/errors.md``: each mistake of the corpus as a terminal shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.hostile.mistakes import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "errors.md"
#: A longer line of a file is cut.
_WIDTH: Final = 160

_INTRODUCTION: Final = """\
# Errors by example

What the command answers to mistakes: the place, what is wrong, what to write instead, and the exit code
([all exit codes](commands.md#exit-codes)). Words of Puppet, Ansible, Salt, Terraform and Pulumi are known; an option
that deletes or replaces something is never suggested. The tests run every command on this page and compare the answer;
the page is written by them.
"""


def page() -> str:
    """Return the page of all cases."""
    groups = {path.stem: cases.load(path) for path in cases.groups()}
    contents = "\n".join(f"- [{_title(name)}](#{name}): {len(group)}" for name, group in groups.items())
    return "\n".join([_INTRODUCTION, contents, *(_section(name, row) for name, row in groups.items())])


def _title(group: str) -> str:
    words = group.replace("-", " ")
    return {"yaml": "YAML"}.get(group, words[:1].upper() + words[1:])


def _section(group: str, result: list[cases.Case]) -> str:
    return "\n".join([f'\n<a id="{group}"></a>\n\n## {_title(group)}\n', *map(_example, result)])


def _example(case: cases.Case) -> str:
    lines = "\n".join(_terminal(case))
    return f"{case.name[:1].upper()}{case.name[1:]} (exit code {case.exit}):\n\n```\n{lines}\n```\n"


def _terminal(case: cases.Case) -> Iterator[str]:
    for name, text in case.files.items():
        yield f"$ cat {name}"
        yield from map(_printable, text.removesuffix("\n").split("\n"))
    variables = "".join(f"{name}={value} " for name, value in case.env.items())
    yield from (f"$ resource-api {earlier}" for earlier in case.before)
    yield f"$ {variables}resource-api {case.command}"
    yield from filter(None, case.stderr.split("\n"))


def _printable(line: str) -> str:
    text = "".join(item if item.isprintable() or item == "\t" else ascii(item)[1:-1] for item in line)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"
