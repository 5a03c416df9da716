"""Configuration of Sphinx for ``make docs``: the Markdown that a forge shows, unchanged, with a navigation."""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT: Final = Path(__file__).resolve().parent.parent

project = "Resource API"
extensions = ["myst_parser", "sphinx_copybutton"]
# The whole repository is the source, so that a relative link means the same here as on a forge.
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md"]
nitpicky = True
myst_heading_anchors = 6
# `--option` stays as it is typed, in text too.
smartquotes = False
# A block without a language is what a terminal shows.
highlight_language = "text"
# A copied block of a terminal is its commands.
copybutton_prompt_text = "$ "
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sphinx = False
man_pages = [("docs/reference/commands", "resource-api", "describe and change machines and services", [], 1)]

#: The overviews of the pages for contributors, outside the menu of users.
_INSIDE: Final = ("docs/internals/README", "docs/decisions/README")
_SECTION: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([\w./-]+)\)")


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Give the index the pages of its sections, the page for contributors those inside, an overview its directory."""
    if page == root_doc:
        _, *parts = _SECTION.split(source[0])
        listed: set[str] = {f"/{inner}" for inner in _INSIDE}
        for title, text in zip(parts[::2], parts[1::2], strict=True):
            pages = [target for link in _LINK.findall(text) if (target := _page(page, link)) not in listed | {""}]
            listed |= set(pages)
            source[0] += _toctree(pages, f":caption: {title}\n")
    elif page == "CONTRIBUTING":
        source[0] += _toctree([f"/{inner}" for inner in _INSIDE])
    elif page.endswith("/README"):
        directory = (ROOT / page).parent
        paths = [path.relative_to(directory) for pattern in ("*.md", "*/README.md") for path in directory.glob(pattern)]
        source[0] += _toctree(sorted(str(path.with_suffix("")) for path in paths if str(path) != "README.md"))


def _toctree(pages: list[str], options: str = "") -> str:
    return "\n```{{toctree}}\n:hidden:\n{}\n{}\n```\n".format(options, "\n".join(dict.fromkeys(pages)))


def _page(page: str, link: str) -> str:
    """Return the document that a link of ``page`` leads to; "" if it leads to another file."""
    path = os.path.normpath(Path(page).parent / link)
    return f"/{path.removesuffix('.md')}" if path.endswith(".md") else ""


def write_first_page(app: Sphinx, error: Exception | None) -> None:
    """Write ``index.html``, which leads to the index of the documentation."""
    if error is None and app.builder.name == "html":
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html"><a href="{root_doc}.html">'
        Path(app.outdir, "index.html").write_text(f"{page}{project}</a>\n", encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_first_page)
