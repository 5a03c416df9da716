"""Pages in a real browser: the script runs, hostile texts do nothing, ten thousand resources are painted at once.

The pages and pictures stay in ``build/pages``, to be looked at.
"""

from __future__ import annotations

import re
import subprocess
import zlib
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.fleet import host_names
from resource_api.render.html import overview
from resource_api.render.html import pages as html
from tests.pages import NOW, overviews, run_document

if TYPE_CHECKING:
    from collections.abc import Callable

PAGES: Final = Path(__file__).resolve().parents[2] / "build" / "pages"
#: Writes the time of the first paint into the page, and which row is open; then removes the rows, which would take long
#: to be printed. It may run only where the page's policy is taken out.
_PROBE: Final = """<script>new PerformanceObserver((list) => {
  for (const each of list.getEntries()) document.documentElement.setAttribute("data-" + each.name, each.startTime);
}).observe({type: "paint", buffered: true});
addEventListener("load", () => {
  const open = [...document.querySelectorAll("details[open]:not(.bad)")].map((each) => each.id);
  document.documentElement.setAttribute("data-open", open.join(" "));
  document.querySelector("main").remove();
});</script>"""

#: A frame of some width with a page, whose rows it opens, and the widths of the page's content and window.
_FRAME: Final = """<!doctype html><iframe style="width: {}px; height: 2000px" srcdoc="{}"></iframe><script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {{
  const page = frame.contentDocument;
  for (const each of page.querySelectorAll("details")) each.open = true;
  const widths = `${{page.documentElement.scrollWidth}} ${{frame.contentWindow.innerWidth}}`;
  document.documentElement.setAttribute("data-widths", widths);
  frame.remove();
}});</script>"""


@pytest.fixture
def browser(tmp_path: Path) -> Callable[..., str]:
    """Return a function that opens a page in Chromium and returns what it has printed."""

    def show(name: str, page: str, *options: str, anchor: str = "") -> str:
        PAGES.mkdir(parents=True, exist_ok=True)
        file = PAGES / f"{name}.html"
        file.write_text(page, encoding="utf-8")
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
        process = subprocess.run(
            [*command, "--hide-scrollbars", *options, f"file://{file}{anchor}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=50,
        )
        return process.stdout

    return show


def test_a_page_is_dark_where_the_reader_wants_that(browser: Callable[..., str]) -> None:
    """The picture stays to be looked at; its corner has the dark ground."""
    picture = PAGES / "run-300-dark.png"
    picture.unlink(missing_ok=True)
    dark = "--blink-settings=preferredColorScheme=0"
    browser("run-300", html.run(run_document(300)), dark, f"--screenshot={picture}", "--window-size=1280,1600")
    data, path, pixels = picture.read_bytes(), 8, b""
    while path < len(data):
        size = int.from_bytes(data[path : path + 4], "big")
        pixels += data[path + 8 : path + 8 + size] if data[path + 4 : path + 8] == b"IDAT" else b""
        path += size + 12
    assert zlib.decompress(pixels)[1:4] == bytes.fromhex("15181c")


@pytest.mark.parametrize("width", [400, 900, 1400])
def test_the_page_of_many_hosts_fits_into_any_window(browser: Callable[..., str], width: int) -> None:
    """Nothing is wider than the window; the picture stays to be looked at."""
    page = overview.page(overviews(300), host_names.fold, NOW, 86400, "1.0.0")
    size = f"--window-size={width},1800"
    browser("hosts-300", page, f"--screenshot={PAGES}/hosts-300-{width}.png", size)
    assert (PAGES / f"hosts-300-{width}.png").stat().st_size > 20_000
    framed = _FRAME.format(width, escape(page.replace("http-equiv", "data-policy", 1)))
    output = browser("hosts-300-widths", framed, "--dump-dom")
    assert f'data-widths="{width} {width}"' in output


def test_ten_thousand_resources_are_painted_within_two_seconds(browser: Callable[..., str]) -> None:
    """A link opens its row; what a text contains is no script: nothing has changed the page but its own."""
    hostile = "</script><script>document.title = 'changed'</script>"
    document = run_document(10_000, text=lambda number: hostile if number % 100 == 0 else f"/srv/{number}")
    number = max(number for number, step in enumerate(document["steps"]) if step["status"] == "success")
    page = html.run(document).replace("<title>", _PROBE + "<title>", 1).replace("http-equiv", "data-policy", 1)
    output = browser("run-10000", page, "--dump-dom", anchor=f"#r{number}")
    first = re.search(r'data-first-contentful-paint="([\d.]+)"', output)
    assert first is not None
    assert float(first[1]) < 2000
    assert "<title>apply of web, stack default</title>" in output
    assert f'data-open="r{number}"' in output
