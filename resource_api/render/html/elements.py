"""The frame and the elements of all HTML pages, which need no network.

Every text is escaped by ``e``, no address is taken from data, and the page's policy allows only its own style and
script. Pages are complete without the script, which searches, opens the targets of links, and moves by keyboard.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from html import escape as escape_html
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_TEMPLATES: Final = Path(__file__).parent / "templates"
#: Rows that a browser lays out together.
_CHUNK: Final = 100


class PageRow(NamedTuple):
    """One resource on a page: a ``sign``, the reference, a ``note``; ``body``: the HTML below, when it is opened.

    ``bad``: it needs attention, and is coloured.
    """

    reference: str
    sign: str = ""
    note: str = ""
    body: str = ""
    bad: bool = False


class Section(NamedTuple):
    """One section of a page: its title, its HTML, and the number of its items, or None if it is no list."""

    title: str
    body: str
    number: int | None = None


class Page(NamedTuple):
    """The content of a page: a title, one sentence, facts, and its sections; empty sections are left out."""

    title: str
    outcome: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]


def e(value: object) -> str:
    """Return a text for HTML: markup and control characters are escaped."""
    return escape_html(escape(str(value)))


def write(page: Page) -> str:
    """Return the HTML of a whole page in one file, which can be sent and opened without a network.

    The page shows texts from machines. Its content security policy lets a browser run only the page's own script, by
    its digest, and load nothing, so that a script within such a text would not run.
    """
    style, script = _template("page.css"), _template("page.js")
    policy = f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'"
    sections = [section for section in page.sections if section.body]
    facts = "".join(f"<div><dt>{e(name)}</dt><dd>{e(value)}</dd></div>" for name, value in page.facts if value)
    return "\n".join((
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}; base-uri \'none\'; form-action \'none\'">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{e(page.title)}</title><style>{style}</style></head><body>",
        '<a class="skip" href="#main">Skip to the resources</a>',
        f'<header><h1>{e(page.title)}</h1><p class="outcome">{e(page.outcome)}</p>',
        f'<dl class="facts">{facts}</dl></header>',
        f'<div class="tools">{_TOOLS}<nav aria-label="Sections">{"".join(map(_jump, sections))}</nav></div>',
        '<main id="main">',
        *map(_section, sections),
        f"</main><script>{script}</script></body></html>\n",
    ))  # fmt: skip


_TOOLS: Final = (
    '<input id="search" type="search" placeholder="Search references, values, errors ( / )"'
    ' aria-label="Search"><span id="matches" role="status"></span>'
    '<button id="open" type="button" aria-pressed="false">Open or close all</button>'
    '<span class="keys">j and k move, Enter opens</span>'
)


@cache
def _template(name: str) -> str:
    """Return the style or the script of pages, read once."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return the SHA-256 of a style or script in base64, as a Content-Security-Policy names it."""
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def rows_section(title: str, rows: Sequence[PageRow], anchors: Mapping[str, str], *, opened: bool = False) -> Section:
    """Return a section of rows; ``anchors``: reference → id of its row, for links. ``opened``: with their details."""
    body = chunked([_row(row, anchors.get(row.reference, ""), opened=opened) for row in rows])
    return Section(title, body, len(rows))


def chunked(rows: Sequence[str]) -> str:
    """Return the HTML of rows in parts, which a browser lays out only near the window: there may be thousands."""
    chunks = (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))
    return "".join(f'<div class="chunk">{"".join(chunk)}</div>' for chunk in chunks)


def _row(row: PageRow, id_: str, *, opened: bool) -> str:
    """Return the HTML of a row, such as a resource with its outcome; a click on it shows its details, if it has any.

    ``opened``: they are visible from the start. ``id_``: the target of links to the row.
    """
    head = f'<span class="sign">{e(row.sign)}</span><span class="reference">{e(row.reference)}</span>'
    head += f'<span class="note">{e(row.note)}</span>' if row.note else ""
    names = f'id="{id_}" class="row{" bad" if row.bad else ""}"'
    if not row.body:
        return f'<div {names}><div class="head" tabindex="-1">{head}</div></div>'
    state = " open" if opened else ""
    return f'<details {names}{state}><summary>{head}</summary><div class="body">{row.body}</div></details>'


def _section(section: Section) -> str:
    """Return a section under its heading, with the id that ``_jump`` links to."""
    return f'<section id="{_anchor(section)}"><h2>{_heading(section)}</h2>{section.body}</section>'


def _jump(section: Section) -> str:
    """Return the link to a section, for the navigation at the head of the page."""
    return f'<a href="#{_anchor(section)}">{_heading(section)}</a>'


def _anchor(section: Section) -> str:
    """Return the id of a section: ``not-rehearsed`` of ``Not rehearsed``."""
    return "-".join(section.title.lower().split())


def _heading(section: Section) -> str:
    """Return the title of a section with the number of its items."""
    return e(section.title) + (f'<span class="count">{section.number:,}</span>' if section.number is not None else "")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> str:
    """Return a table of HTML cells, the first ``numbers`` columns right-aligned, or "" without rows."""
    kinds = [' class="number"'] * numbers + [""] * (len(titles) - numbers)
    head = "".join(f"<th{kind}>{e(title)}</th>" for kind, title in zip(kinds, titles, strict=True))
    lines = ["".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if lines else ""


def link(reference: str, anchors: Mapping[str, str]) -> str:
    """Return a reference, as a link to its row if it has one; ``anchors``: reference → id of the row."""
    text = f"<code>{e(reference)}</code>"
    return f'<a href="#{anchors[reference]}">{text}</a>' if reference in anchors else text


def links(label: str, references: Iterable[str], anchors: Mapping[str, str]) -> str:
    """Return a paragraph of links to resources after a ``label``, or "" without any; ``anchors`` as for ``link``."""
    targets = ", ".join(link(reference, anchors) for reference in references)
    return f'<p><span class="label">{e(label)}</span> {targets}</p>' if targets else ""


def row_anchors(references: Iterable[str]) -> dict[str, str]:
    """Return reference → the id of its row on a page, ``r0``, ``r1``, ...: an HTML id cannot be any text."""
    return {reference: f"r{number}" for number, reference in enumerate(dict.fromkeys(references))}
