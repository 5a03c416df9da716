"""Settings in real YAML files, with comments and layouts of many kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from resource_api.testing import ProviderCompliance
from tests.providers.applied import converge, reason, run
from tests.providers.parts_of_files import Setting

if TYPE_CHECKING:
    from pathlib import Path


CONTENT = """\
%YAML 1.2
---
# about all
a:   "x"   # of a
server:
    port: 0o17   # of port

    # about the host
    host: h
    list:
      - 1
      # about two
      - {two:  2}
anchor: &b {q:  1}
alias: *b
date: 2020-01-01
tag: !vault |
   abc
8080: yes
"""


#: A few lines that are more than a hundred million values.
LAUGHS = "a0: &a0 []\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)) + "a: *a8\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with settings in an unusual layout."""
    path = tmp_path / "config.yaml"
    path.write_text(CONTENT)
    return path


@pytest.mark.parametrize(
    ("key", "attributes", "old", "new"),
    [
        ("a", {"value": "z"}, 'a:   "x"   # of a', 'a: "z"     # of a'),
        ("server.port", {"value": 80}, "0o17   # of port", "80     # of port"),
        ("server.port", {"ensure": "absent"}, "    port: 0o17   # of port\n", ""),
        ("server.host", {"value": "one\ntwo\n"}, "host: h\n", "host: |\n        one\n        two\n"),
        (
            "server.new.x",
            {"value": ["on", 22, {"y": "22:22"}]},
            "{two:  2}\n",
            '{two:  2}\n    new:\n        x:\n          - "on"\n          - 22\n          - y: "22:22"\n',
        ),
        ("server.list[2]", {"value": 1.0}, "{two:  2}\n", "{two:  2}\n      - 1.0\n"),
        ("8080", {"value": "no"}, "8080: yes", '8080: "no"'),
        ("date", {"ensure": "absent"}, "date: 2020-01-01\n", ""),
        ("alias", {"ensure": "absent"}, "alias: *b\n", ""),
    ],
)
def test_only_the_setting_changes(file: Path, key: str, attributes: dict[str, Any], old: str, new: str) -> None:
    """Every other byte stays, with comments and layout."""
    assert CONTENT.count(old) == 1
    converge({f"Yaml_setting[{file}:{key}]": attributes})
    assert file.read_text() == CONTENT.replace(old, new)


@pytest.mark.parametrize("key", ["alias.q", "anchor.q"])
def test_what_is_shared_by_an_alias_is_not_changed(file: Path, key: str) -> None:
    """Another setting would change with it."""
    result = reason(run({f"Yaml_setting[{file}:{key}]": {"value": 2}})[0])
    assert "other settings, which share an alias" in result
    assert file.read_text() == CONTENT


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "b:\n  c: 2\n"),
        ("# only this", "# only this\nb:\n  c: 2\n"),
        ("a: 1 # x\r\nb:\r\n  d: 1\r\n", "a: 1 # x\r\nb:\r\n  d: 1\r\n  c: 2\r\n"),
        ("a: 1", "a: 1\nb:\n  c: 2"),
        ("a: {x: 1,\n    y: 2}\nb: {c: 1}\n", "a: {x: 1,\n    y: 2}\nb: {c: 2}\n"),
        ("base: &x {c: 1, d: 1}\nb:\n  <<: *x\n", "base: &x {c: 1, d: 1}\nb:\n  <<: *x\n  c: 2\n"),
    ],
)
def test_the_layout_of_the_file_is_kept(tmp_path: Path, before: str, after: str) -> None:
    """Line ends too, and a missing one at the end."""
    path = tmp_path / "a.yaml"
    path.write_bytes(before.encode())
    run({f"Yaml_setting[{path}:b.c]": {"value": 2}})
    assert path.read_bytes() == after.encode()


@pytest.mark.parametrize(
    "text", ["\ta", "\tall:\n\t\tmake\n", "a\n\n", " a\nb", "a\x85b", "a\u2028\nb", "a\r\nb", "\x0c\n"]
)
def test_a_text_that_yaml_would_read_otherwise_is_escaped(tmp_path: Path, text: str) -> None:
    """A tab at its beginning, and characters that end a line or are not printable, in a new file too."""
    for content in ("", "b: 1\n"):
        path = tmp_path / "a.yaml"
        path.write_text(content)
        converge({f"Yaml_setting[{path}:a.c]": {"value": text}})
        assert yaml.safe_load(path.read_text()) == {**(yaml.safe_load(content) or {}), "a": {"c": text}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a:\n\t- 1", "{path}:2:1: is no valid YAML: a value cannot begin with this character"),
        ("a: 1\nb: 2\na: 3", "{path}:3:1: is no valid YAML: the key is there already"),
        ("a: 1\n---\nb: 1", "{path}:2:1: is no valid YAML: a second document begins"),
        ("[" * 900, "{path}: is nested too deeply"),
        ("[" * 100_000, "{path}"),  # PyYAML refuses it by itself since 6.0.4
        (LAUGHS, "{path}: has too many parts"),
        *(
            (text, "{path}:1:")
            for text in ("a: b: c", 'a: "x', "a: *x", "%YAML 3.0\n---", "a: \x01", "b: " + "1" * 5000)
        ),
        ("a: [1", "{path}:2:1: is no valid YAML: ',' or ']' is expected"),
        ("a: 2020-99-99", "{path}: is no valid YAML: a value does not exist, such as a date"),
    ],
)
def test_a_file_that_cannot_be_read_is_not_written(tmp_path: Path, content: str, message: str) -> None:
    """The setting fails with the path and the line of the mistake first, and in no words of the parser."""
    path = tmp_path / "a.yaml"
    path.write_text(content)
    error = reason(run({"Yaml_setting[x]": {"path": str(path), "key": "a", "value": 2}})[0])
    assert error.startswith(message.format(path=path))
    assert "found" not in error
    assert path.read_text() == content


class TestYamlSetting(Setting, ProviderCompliance):
    """Settings of a file with other settings."""

    type_name = "yaml_setting"
    records = b"ra-test: {a: &x [*x]}"
