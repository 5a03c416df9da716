"""Settings in real INI files, read back by Python's own parser."""

from __future__ import annotations

import configparser
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ManifestError
from resource_api.files import Lines
from resource_api.testing import Neighbour, ProviderCompliance
from tests import bundled
from tests.bundled import directory_of_nobody
from tests.providers.applied import converge, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from resource_api import Resource

ini = bundled.execute("providers", "ini_setting")
CONTENT = b"""; caf\xe9
global: 1

[Date]  ; of PHP
  ;date.timezone =
  date.default = a = b : c
  date.default = second

# about the next section
[remote "origin"]
url=git@host:x
bare
[empty]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with comments, odd spacing and bytes that are not UTF-8."""
    path = tmp_path / "app.ini"
    path.write_bytes(CONTENT)
    return path


@pytest.mark.parametrize(
    ("attributes", "old", "new"),
    [
        ({"setting": "global", "value": 2}, b"global: 1", b"global: 2"),
        ({"setting": "other", "value": True}, b"global: 1\n", b"global: 1\nother = true\n"),
        ({"section": "Date", "setting": "date.default", "value": "x"}, b"= second", b"= x"),
        (
            {"section": "Date", "setting": "date.default", "ensure": "absent"},
            b"  date.default = a = b : c\n  date.default = second\n",
            b"",
        ),
        (
            {"section": "Date", "setting": "date.timezone", "value": "UTC"},
            b";date.timezone =\n",
            b";date.timezone =\ndate.timezone = UTC\n",
        ),
        ({"section": "Date", "setting": "date.other", "value": ""}, b"= second\n", b"= second\n  date.other =\n"),
        ({"section": 'remote "origin"', "setting": "url", "value": "é"}, b"url=git@host:x", "url=é".encode()),
        (
            {"section": 'remote "origin"', "setting": "bare", "value": "1", "key_val_separator": "="},
            b"bare\n",
            b"bare=1\n",
        ),
        ({"section": "empty", "setting": "a", "value": "[b]"}, b"[empty]\n", b"[empty]\na = [b]\n"),
        ({"section": "new", "setting": "a", "value": "b"}, b"[empty]\n", b"[empty]\n\n[new]\na = b\n"),
    ],
)
def test_only_the_setting_changes(file: Path, attributes: dict[str, Any], old: bytes, new: bytes) -> None:
    """Every other byte stays, and a second run changes nothing."""
    assert CONTENT.count(old) == 1
    converge({"Ini_setting[any words]": {"path": str(file), **attributes}})
    assert file.read_bytes() == CONTENT.replace(old, new)


def test_a_byte_order_mark_belongs_to_no_section(tmp_path: Path) -> None:
    """Editors of other systems write one before the first line."""
    path = tmp_path / "app.ini"
    path.write_bytes(b"\xef\xbb\xbf[a]\r\nb=1\r\n")
    assert run({f"Ini_setting[{path}:a:b]": {"value": 2}})[0].summary.updated == 1
    assert path.read_bytes() == b"\xef\xbb\xbf[a]\r\nb=2\r\n"
    path.write_bytes(b"\xef\xbb\xbfb=1\n")
    assert run({f"Ini_setting[{path}::b]": {"value": 2}})[0].summary.updated == 1
    assert path.read_bytes() == b"\xef\xbb\xbfb=2\n"


def test_other_parsers_read_what_was_written(tmp_path: Path) -> None:
    """Several settings of a new file are one replacement, and its last setting takes its section along."""
    path = tmp_path / "new.ini"
    names = [f"Ini_setting[{path}:s{number % 2}:k{number}]" for number in range(6)]
    assert run({name: {"value": f"v {name[-2]}"} for name in names})[0].summary.created == 6
    parser = configparser.ConfigParser()
    parser.read(path)
    assert {name: dict(parser[name]) for name in parser.sections()} == {
        "s0": {"k0": "v 0", "k2": "v 2", "k4": "v 4"},
        "s1": {"k1": "v 1", "k3": "v 3", "k5": "v 5"},
    }
    assert run({name: {"ensure": "absent"} for name in names[1::2]})[0].summary.deleted == 3
    assert path.read_text() == "[s0]\nk0 = v 0\nk2 = v 2\nk4 = v 4\n"


@pytest.mark.parametrize(
    "attributes",
    [
        {"setting": "#a", "value": "b"},
        {"setting": "a", "value": "b\n[c]"},
        {"setting": "a", "section": "b\nc", "value": "b"},
        {"setting": "a", "value": "b", "key_val_separator": " "},
    ],
)
def test_what_would_be_another_line_is_refused(file: Path, attributes: dict[str, Any]) -> None:
    """A value cannot add a section."""
    with pytest.raises(ManifestError):
        run({"Ini_setting[a]": {"path": str(file), **attributes}})


WORDS = st.from_regex(r"[a-zA-Z][\w. -]*[a-z]", fullmatch=True)
LINE = st.sampled_from([*CONTENT.split(b"\n"), b"\r", b"[a]\r", b"x = 1\r", b"[", b"=", b"[a] b = c"])


@given(st.lists(LINE).map(b"\n".join), WORDS, WORDS, st.from_regex(r"[!-~]*", fullmatch=True))
def test_an_added_setting_is_found_and_removed(content: bytes, section: str, setting: str, value: str) -> None:
    """It holds for any file; a second edit changes nothing, and lines that are not blank are as before."""
    lines, key = Lines(content), (section, f"{setting} ra-test")
    should = {"value": value, "key_val_separator": " = "}
    ini.edit(lines, {key: should})
    added = lines.content
    assert len(ini.find(list(lines), [key])[key]) == 1
    ini.edit(lines, {key: should})
    assert lines.content == added
    ini.edit(lines, {key: None})
    assert lines.content.split() == content.split()


class TestIniSetting(ProviderCompliance):
    """A setting of a file with other settings."""

    type_name = "ini_setting"

    @pytest.fixture
    def present(self, file: Path) -> Resource:
        return {"path": f"{file.parent}/./{file.name}", "section": " Date ", "setting": "ra-test-a", "value": True}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "value": " caf\u00e9 ; # "}

    @pytest.fixture
    def world(self, file: Path) -> Callable[[], Any]:
        return file.read_bytes

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a file in a directory of another user."""
        mine = {**present, "path": str(directory_of_nobody(tmp_path) / "app.ini")}
        return [
            Neighbour(mine["path"], b"[Date]\nra-test-a = evil\n\xff\n", "nobody", [mine, {**mine, "ensure": "absent"}])
        ]
