"""Settings in real TOML files, with comments and layouts of many kinds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError
from resource_api.testing import ProviderCompliance
from tests.providers.applied import converge, reason, run, warned
from tests.providers.parts_of_files import Setting

if TYPE_CHECKING:
    from pathlib import Path


CONTENT = """\
# about all
title = "x"   # of title
on = 2020-01-01
inline = { a = 1,  b = [ 1,
  2 ] }

[server]   # of server
  port = 0o17 # of port

[server.'a.b']
key = 'a'

[[rules]]
port = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with settings in an unusual layout."""
    path = tmp_path / "config.toml"
    path.write_text(CONTENT)
    return path


@pytest.mark.parametrize(
    ("key", "attributes", "old", "new"),
    [
        ("title", {"value": "z"}, '"x"   #', '"z"   #'),
        ("title", {"ensure": "absent"}, 'title = "x"   # of title\n', ""),
        ("on", {"value": "2020-01-02"}, "2020-01-01", '"2020-01-02"'),
        ("inline.a", {"value": True}, "a = 1,  b", "a = true,  b"),
        ("server.port", {"value": 80.0}, "0o17", "80.0"),
        ("server['a.b'].key", {"ensure": "absent"}, "[server.'a.b']\nkey = 'a'\n", ""),
        ("rules[0].port", {"value": 3}, "port = 2", "port = 3"),
        ("rules[1]", {"value": {"port": 3}}, "port = 2\n", "port = 2\n[[rules]]\nport = 3\n"),
        ("first", {"value": 4}, "2 ] }\n", "2 ] }\nfirst = 4\n"),
        ("last.a", {"value": {"b": "c"}}, "port = 2\n", 'port = 2\n\n[last.a]\nb = "c"\n'),
    ],
)
def test_only_the_setting_changes(file: Path, key: str, attributes: dict[str, Any], old: str, new: str) -> None:
    """Every other byte stays, with comments and layout."""
    assert CONTENT.count(old) == 1
    converge({f"Toml_setting[{file}:{key}]": attributes})
    assert file.read_text() == CONTENT.replace(old, new)


@pytest.mark.parametrize(
    ("content", "value", "message"),
    [
        ("a = 1\nb", 2, "{path}:2:2: is no valid TOML: '=' is expected"),
        ("a = 1\na = 2\n", 2, "{path}:2:6: is no valid TOML: the key is there already"),
        ("b = 1", [None], "{path}: a value cannot be written as TOML, which has no null"),
        ("a = " + "[" * 5000, 2, "{path}: is nested too deeply"),
        *((text, 2, "{path}:1:") for text in ("a = ", "a = [1", "[b", 'a = "', 'a = "\\q"', "b = " + "1" * 5000)),
    ],
)
def test_what_cannot_be_read_or_written_changes_nothing(tmp_path: Path, content: str, value: Any, message: str) -> None:
    """The setting fails with the path and the line of the mistake first, and in no words of the parser."""
    path = tmp_path / "a.toml"
    path.write_text(content)
    error = reason(run({"Toml_setting[x]": {"path": str(path), "key": "a", "value": value}})[0])
    assert error.startswith(message.format(path=path))
    assert " (at " not in error
    assert path.read_text() == content


@pytest.mark.parametrize("type_name", ["Json_setting", "Toml_setting", "Yaml_setting"])
@pytest.mark.parametrize("parts", [101, 2500])
def test_a_key_with_too_many_parts_is_refused_before_anything(tmp_path: Path, type_name: str, parts: int) -> None:
    """The message says how many parts a key may have."""
    attributes = {"path": str(tmp_path / "a"), "key": ".".join(["a"] * parts), "value": 1}
    with pytest.raises(ManifestError, match="key must not have more than 100 parts"):
        run({f"{type_name}[x]": attributes})
    assert not list(tmp_path.iterdir())


def test_line_ends_of_other_systems_are_kept(tmp_path: Path) -> None:
    """A new line has them too."""
    path = tmp_path / "a.toml"
    path.write_bytes(b"# a\r\na = 1\r\n")
    run({f"Toml_setting[{path}:b]": {"value": 2}})
    assert path.read_bytes() == b"# a\r\na = 1\r\nb = 2\r\n"


def test_the_extra_that_lacks_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names its package, and the file is as before."""
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    needed = "needs the Python module tomlkit (pip install 'resource-api[settings]'): "
    changed = {f"Toml_setting[{file}:title]": {"value": "z"}}
    assert warned(changed) == ["the Python module tomlkit is not installed"]
    assert reason(run(changed)[0]).startswith(needed)
    assert file.read_text() == CONTENT


class TestTomlSetting(Setting, ProviderCompliance):
    """Settings of a file with other settings."""

    type_name = "toml_setting"
    records = b'ra-test.a = "evil"'
