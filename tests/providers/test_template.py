"""Texts from templates, in the contents of real files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Runtime
from tests.providers.applied import REGISTRY, reason, run_manifest

if TYPE_CHECKING:
    from pathlib import Path


def manifest(path: Path, source: Any, **arguments: Any) -> dict[str, Any]:
    """Return a manifest with a file whose content is made from a template."""
    return {
        "inputs": {"password": {"type": "Sensitive[String]", "default": "hunter22"}},
        "values": {"text": {"invoke": "template", "with": {"source": source, **arguments}}},
        "resources": {f"File[{path}]": {"content": "${values.text}"}},
    }


def made(path: Path, source: Any, **arguments: Any) -> str:
    """Return the text that a template makes in a file, or why it does not."""
    report, _ = run_manifest(manifest(path, source, **arguments))
    return reason(report) or path.read_text()


@pytest.mark.parametrize(
    ("source", "options", "text"),
    [
        ("{{ a.b }} {{ c|length }}\n", {"variables": {"a": {"b": "<&>"}, "c": [1, 2]}}, "<&> 2\n"),
        ("{% if true %}\n a\n{% endif %}\n\n", {}, " a\n\n"),
        ("  {% if true %}\na{% endif %}", {"lstrip_blocks": True, "trim_blocks": False}, "\na"),
        (
            "{% include 'x' %}{% import 'y' as y %}{{ y.f(1) }}",
            {"includes": {"x": {"asset": {"text": "{{ 1 + 1 }}"}}, "y": "{% macro f(n) %}{{ n }}{% endmacro %}"}},
            "21",
        ),
        ("{{ facts }}", {"variables": {"facts": "${facts.kernel}"}}, "Linux"),
    ],
)
def test_a_template_makes_a_text_of_its_variables(
    tmp_path: Path, source: str, options: dict[str, Any], text: str
) -> None:
    """The content of the file is the text, and a second run changes nothing."""
    assert made(tmp_path / "made", source, **options) == text
    assert run_manifest(manifest(tmp_path / "made", source, **options))[0].summary.unchanged == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("\n{{ missing }}", "the template, line 2: 'missing' is undefined"),
        ("\n{{ a.b }}", "the template, line 2: there is no 'b' in the value"),
        ("\n\n{% if %}", "the template, line 3: Expected an expression"),
        ("{{ a | random }}", "No filter named 'random'"),
        ("{% include 'x' %}", "the template, line 1: there is no template 'x' in includes"),
        ("{{ a.__class__.__mro__ }}", "'__class__' cannot be used in a template"),
        ("{{ l.append(1) }}", "'append' cannot be used in a template"),
        ("{{ range(10 ** 9) }}", "Range too big"),
        ("{{ 1 / 0 }}", "the template, line 1: division by zero"),
        *(
            (f"{{{{ {wrong} }}}}", "line 1: an operation or a filter cannot be used")
            for wrong in ("1 + a", "'{z}'.format()")
        ),
    ],
)
def test_a_mistake_is_an_error_with_its_line(tmp_path: Path, source: str, message: str) -> None:
    """Nothing is written, and nothing outside the variables is reached."""
    assert message in made(tmp_path / "made", source, variables={"a": "b", "l": []})
    assert not (tmp_path / "made").exists()


def test_a_template_is_a_file_beside_the_manifest(tmp_path: Path) -> None:
    """Its change changes the resource; a mistake in it has its name and line."""
    (tmp_path / "motd.j2").write_text("hi {{ name }}\n")
    site = tmp_path / "site.yaml"
    site.write_text(
        "values:\n  text:\n    invoke: template\n"
        "    with: {source: {asset: {file: motd.j2}}, variables: {name: ann}}\n"
        f"resources:\n  File[{tmp_path}/motd]: {{content: '${{values.text}}'}}\n"
    )
    runtime = Runtime(REGISTRY)
    assert runtime.apply(str(site)).summary.created == 1
    assert (tmp_path / "motd").read_text() == "hi ann\n"
    (tmp_path / "motd.j2").write_text("bye {{ name }}\n")
    assert runtime.apply(str(site)).summary.updated == 1
    (tmp_path / "motd.j2").write_text("bye\n{{ nobody }}\n")
    assert "motd.j2:2: 'nobody' is undefined" in reason(runtime.apply(str(site)))
    assert (tmp_path / "motd").read_text() == "bye ann\n"


def test_a_text_with_a_secret_is_a_secret(tmp_path: Path) -> None:
    """It is written, and not shown."""
    report, lines = run_manifest(manifest(tmp_path / "made", "pw={{ p }}", variables={"p": "${inputs.password}"}))
    assert (tmp_path / "made").read_text() == "pw=hunter22"
    assert "hunter22" not in f"{lines}{report.to_dict()}"
