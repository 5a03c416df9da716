"""Pages: every text of a run, a plan or a catalog is harmless in them, and they load nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any, Final

import pytest

from resource_api import Registry, Runtime
from resource_api.render import graph
from resource_api.render.html import pages as html
from tests.pages import run_document

HOSTILE: Final = (
    "</script><script>alert(1)</script>",
    "javascript:alert(1)",
    '"><img src=x onerror=alert(1)>',
    "' onfocus='alert(1)' autofocus='",
    "</title></style><base href=//evil.example>",
    "<!--<script>",
    "&lt;b&gt; &#x3c;",
    "\x1b[31m\x00\u202e\ud800",
)


class Elements(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        """Read a page."""
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts = ""
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.found.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - of the parser
        """Leave it."""
        self._inside = ""

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        if self._inside == "script":
            self.scripts += data
        elif self._inside != "style":
            self.text += data

    def attributes(self, name: str) -> set[str]:
        """Return the values that an attribute has anywhere."""
        return {str(attributes[name]) for _, attributes in self.found if name in attributes}


def hostile_run() -> str:
    """Return the page of a run in which every text is hostile."""
    document = run_document(len(HOSTILE) * 3, text=lambda number: HOSTILE[number % len(HOSTILE)])
    return html.run(document)


def hostile_manifest() -> dict[str, Any]:
    """Return a manifest whose titles and values are hostile, as far as a manifest can contain them."""
    texts = [text for text in HOSTILE if text.isprintable()]
    resources: dict[str, Any] = {f"File[/tmp/{text}]": {"content": f"{text}\n{text}\n"} for text in texts}
    first, *rest = resources
    for name in rest:
        resources[name]["require"] = first
    return {"project": "hostile", "resources": resources}


def hostile_plan() -> str:
    """Return the page of the plan of that manifest."""
    return html.plan(Runtime(Registry.from_path()).plan(hostile_manifest()).to_dict())


def hostile_graph() -> str:
    """Return the page of its relationships."""
    return graph.render(Runtime(Registry.from_path()).compile(hostile_manifest()), "html")


def hostile_rehearsal() -> str:
    """Return the page of a rehearsal in which every text is hostile."""
    findings = [{"reference": text, "text": text, "attribute": text, "place": text} for text in HOSTILE]
    effects = [
        {"references": [text], "verb": text, "path": f"/{text}", "package": package, "place": text}
        for text in HOSTILE
        for package in ("", text)
    ]
    verdicts = [{"question": text, "ok": False, "text": text, "findings": findings} for text in HOSTILE]
    document = {"verdicts": verdicts, "side_effects": effects, "not_rehearsed": findings, "not_damaged": findings}
    run = run_document(len(HOSTILE), text=lambda number: HOSTILE[number % len(HOSTILE)])
    return html.rehearsal({**document, "run": run, "exit_code": 2})


@pytest.mark.parametrize("make", [hostile_run, hostile_plan, hostile_graph, hostile_rehearsal])
def test_hostile_texts_are_shown_and_do_nothing(make: Any) -> None:
    """No element, attribute or address comes from data; nothing is loaded; the only script is the page's own."""
    source = make()
    page = Elements(source)
    assert {tag for tag, _ in page.found}.isdisjoint({"img", "base", "iframe", "object", "link", "form"})
    assert sum(tag == "script" for tag, _ in page.found) == 1
    assert "alert" not in page.scripts
    assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]
    assert all(address.startswith("#") for address in page.attributes("href"))
    assert not page.attributes("src")
    assert not page.attributes("style")
    for text in HOSTILE[:3]:
        assert text in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800]", source)


def test_the_policy_allows_the_own_style_and_script_only() -> None:
    """By their digests, so that an element that slipped in would not run."""
    source = hostile_run()
    (policy,) = (a["content"] for tag, a in Elements(source).found if a.get("http-equiv") == "Content-Security-Policy")
    assert str(policy).startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        content = source.split(f"<{tag}>")[1].split(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in str(policy)


def test_links_lead_to_rows_of_the_page() -> None:
    """From the timeline, the longest chain, notifications and relationships."""
    assert "<title>Relationships of hostile</title>" in hostile_graph()
    for source in (hostile_run(), hostile_plan(), hostile_graph()):
        page = Elements(source)
        assert {address[1:] for address in page.attributes("href")} <= page.attributes("id")
        assert len([a for _, a in page.found if "id" in a]) == len(page.attributes("id"))


def test_failures_come_first_and_are_open() -> None:
    """Before the timeline and everything that has succeeded."""
    page = html.run(run_document(300))
    titles = re.findall(r"<h2>([^<]+)", page)
    assert titles[:3] == ["Failed", "Timeline", "Longest chain of calls"]
    assert titles.index("Failed") < titles.index("Skipped") < titles.index("Changed")
    failed = page.split('<section id="failed">')[1].split("</section>")[0]
    assert failed.count("<details") == failed.count(" open>") > 0
    assert " open>" not in page.split('<section id="changed">')[1]


def test_a_page_of_many_long_diffs_can_be_opened() -> None:
    """The more there are, the fewer lines of each are shown, and how many are left out."""
    document = run_document(3000)
    long = {"attribute": "content", "is": "old\n", "should": "new\n" * 500, "message": None}
    for step in document["steps"]:
        step["changes"] = [long]
    page = html.run(document)
    assert page.count('class="plus"') < 3000 * 20
    assert "… 484 more lines<" in page
    document["steps"] = document["steps"][:10]
    assert "… 104 more lines<" in html.run(document)


def test_a_change_that_no_value_shows_is_its_explanation() -> None:
    """Two equal values would say nothing."""
    document = run_document(10)
    document["steps"][0]["changes"] = [
        {"attribute": "rules", "is": "a\nb\n", "should": "a\nb\n", "message": "one more"}
    ]
    assert '<span class="label">rules</span> one more</p>' in html.run(document)
