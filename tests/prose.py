"""``python -m tests.prose [PAGE...]``: count words and long sentences of the pages for users.

Blocks of code, tables and headings are left out; a sentence ends with a full stop, question mark or
exclamation mark, and so does an item of a list.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = Path(__file__).resolve().parent.parent
#: Words of a sentence above which it is long.
LONG: Final = 30
_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SKIPPED: Final = re.compile(r"^(#|\||!?\[[^\]]*\]:|<)")
_END: Final = re.compile(r"(?<=[.!?])[)\"*]*\s+(?=[A-Z`*\[(\"])")


class Prose(NamedTuple):
    """The figures of one page: all its words as ``wc -w`` counts them, and its sentences."""

    page: str
    words: int
    sentences: list[str]

    @property
    def long(self) -> list[str]:
        """Return the sentences with more than ``LONG`` words."""
        return [sentence for sentence in self.sentences if len(sentence.split()) > LONG]


def pages_for_users() -> list[Path]:
    """Return the README and the pages of ``docs/`` itself, without the generated catalogue of errors."""
    return [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "errors.md")]


def measured(page: Path) -> Prose:
    """Return the figures of a page."""
    text = page.read_text(encoding="utf-8")
    return Prose(page.relative_to(ROOT).as_posix(), len(text.split()), list(_sentences(_FENCE.sub("\n", text))))


def _sentences(text: str) -> Iterable[str]:
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        lines = [line for line in paragraph.splitlines() if not _SKIPPED.match(line.strip())]
        joined = " ".join(" ".join(lines).split())
        yield from (sentence for sentence in _END.split(joined) if len(sentence.split()) > 2)


def main() -> None:
    """Print a line for each page, the worst sentences of those that are named, and the sums."""
    named = [Path(name).resolve() for name in sys.argv[1:]]
    figures = [measured(page) for page in named or pages_for_users()]
    for page in figures:
        click.echo(f"{page.words:6} words {len(page.sentences):4} sentences {len(page.long):3} long  {page.page}")
        if named:
            click.echo("".join(f"    {len(text.split())}: {text}\n" for text in page.long), nl=False)
    sentences, long = sum(len(page.sentences) for page in figures), sum(len(page.long) for page in figures)
    words = sum(page.words for page in figures if page.page != "README.md")
    click.echo(f"{words:6} words {sentences:4} sentences {long:3} long, {100 * long / max(sentences, 1):.1f} %")


if __name__ == "__main__":
    main()
