"""The page ``docs/errors.md``: each kind of message of the corpus, with the line that caused it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.hostile.mistakes import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "errors.md"
#: A longer line of a file is cut.
_WIDTH: Final = 80
#: The groups whose answers translate words, each of which is shown; elsewhere equal kinds of messages are shown once.
_PEERS: Final = frozenset({"ansible", "puppet", "salt", "terraform", "pulumi"})
#: The exit code that the page does not repeat.
_USUAL: Final = 65

_INTRODUCTION: Final = """\
# Errors by example

The answers of the command to mistakes. A message has a location, the problem, and its remedy:

```
$ cat site.yaml
resources:
  File[/etc/motd]:
    contnet: hi
$ resource-api validate site.yaml
site.yaml:3:5: File[/etc/motd]: unknown attribute 'contnet'; did you mean 'content'?
    3 |     contnet: hi
      |     ^^^^^^^
```

Each kind of message is listed once, with the line or the command that caused it, and without its location and resource.
The exit code is 65, or stands in front; [all exit codes](commands.md#exit-codes). Words of Puppet, Ansible, Salt,
Terraform and Pulumi are known. An option that deletes or replaces something is never suggested.
"""

_SOURCE: Final = re.compile(r"^ +(\d*) *\| ?(.*)$")
_HELP: Final = re.compile(r"^(?:Usage: |Try |Notice: )")
#: A message's location, severity and resource.
_LOCATION: Final = re.compile(
    r"^(?:\S+?:\d+(?::\d+)?: )?(?:(?:Error|Warning): )?(?:\S+\.(?:yaml|json|py|age)(?::\d+)?(?::\d+)?: )?"
    r"(?:Warning: )?(?:[A-Z]\w*\[.*?\](?:/\S+\])?: )?"
)
#: The parts of a message that differ among messages of one kind.
_DETAILS: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\$\{[^}]*\}|\b[A-Z]\w*\[[^\]]*\]|/[\w./-]+|--[\w-]+|\d+")


class Answer(NamedTuple):
    """One message of a case: its text, and the source line that it is about, or an empty one."""

    text: str
    source: str

    @property
    def kind(self) -> str:
        """The message without its details, and without its remedy."""
        problem = re.split(r";? ?did you mean|; ", self.text)[0]
        return _DETAILS.sub("_", problem)


def page() -> str:
    """Return the page of all cases."""
    groups = {path.stem: cases.load(path) for path in cases.groups()}
    contents = " · ".join(f"[{_title(name)}](#{name})" for name in groups)
    seen: set[str] = set()
    return "\n".join([_INTRODUCTION, contents, *(_section(name, row, seen) for name, row in groups.items())])


def answers(case: cases.Case) -> list[Answer]:
    """Return the messages of a case, each with the first source line below it."""
    result: list[Answer] = []
    for line in filter(None, case.stderr.split("\n")):
        if source := _SOURCE.match(line):
            if source[1] and not result[-1].source:
                result[-1] = result[-1]._replace(source=source[2].strip())
        elif not _HELP.match(line):
            result.append(Answer(_LOCATION.sub("", line), ""))
    return result


def _title(group: str) -> str:
    words = group.replace("-", " ")
    return {"yaml": "YAML"}.get(group, words[:1].upper() + words[1:])


def _section(group: str, result: list[cases.Case], seen: set[str]) -> str:
    rows = [row for case in result for row in _rows(case, seen)]
    return "\n".join([f"\n## {_title(group)}\n", "| cause | answer |", "| --- | --- |", *rows])


def _rows(case: cases.Case, seen: set[str]) -> Iterator[str]:
    """Yield a line for each message of a kind that no earlier case has; add the kinds to ``seen``."""
    for answer in answers(case):
        kind = answer.text if case.group in _PEERS else answer.kind
        if kind in seen:
            continue
        seen.add(kind)
        cause = _code(answer.source) if answer.source else _cause(case)
        code = f"{case.exit}: " if case.exit != _USUAL else ""
        yield f"| {cause} | {code}{_code(answer.text, cut=False)} |"


def _cause(case: cases.Case) -> str:
    """Return the command of a case without files, and otherwise its name."""
    variables = "".join(f"{name}={value} " for name, value in case.env.items())
    is_usage = case.exit not in {_USUAL, 0}
    return _code(f"{variables}resource-api {case.command}") if is_usage else case.name


def _code(text: str, *, cut: bool = True) -> str:
    """Return a text as code in a cell of a table."""
    text = "".join(item if item.isprintable() else ascii(item)[1:-1] for item in text)
    if cut and len(text) > _WIDTH:
        text = f"{text[:_WIDTH]}…"
    text = text.replace("|", r"\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"
