"""Settings in real JSON files of different layouts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from resource_api.testing import ProviderCompliance
from tests import bundled
from tests.providers.applied import converge, reason, run, run_manifest
from tests.providers.parts_of_files import Setting

if TYPE_CHECKING:
    from pathlib import Path


provider = bundled.execute("providers", "json_setting")
CONTENT = """\
{
\t"server": { "port":  1.50e2, "name": "caf\\u00e9" },
\t"rules": [ {"a": 1},
\t           2 ],
\t"empty": {},
\t"last": [
\t\t1,
\t\t2
\t]
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with settings in an unusual layout."""
    path = tmp_path / "config.json"
    path.write_text(CONTENT)
    return path


@pytest.mark.parametrize(
    ("key", "attributes", "old", "new"),
    [
        ("server.port", {"value": 8443}, "1.50e2", "8443"),
        ("server.new", {"value": "é"}, 'f\\u00e9" }', 'f\\u00e9", "new": "\\u00e9" }'),
        ("server", {"ensure": "absent"}, '"server": { "port":  1.50e2, "name": "caf\\u00e9" },\n\t', ""),
        ("server.name", {"ensure": "absent"}, ', "name": "caf\\u00e9"', ""),
        ("rules[0].a", {"ensure": "absent"}, '{"a": 1}', "{}"),
        ("rules[1]", {"ensure": "absent"}, ",\n\t           2 ]", " ]"),
        (
            "empty.a[0]['b.c']",
            {"value": False},
            "{},",
            '{\n\t\t"a": [\n\t\t\t{\n\t\t\t\t"b.c": false\n\t\t\t}\n\t\t]\n\t},',
        ),
        ("last[2]", {"value": {}}, "2\n\t]", "2,\n\t\t{}\n\t]"),
        ("more", {"value": [None]}, "\t]\n}", '\t],\n\t"more": [\n\t\tnull\n\t]\n}'),
    ],
)
def test_only_the_setting_changes(file: Path, key: str, attributes: dict[str, Any], old: str, new: str) -> None:
    """Every other byte stays, with comments and layout."""
    assert CONTENT.count(old) == 1
    converge({f"Json_setting[{file}:{key}]": attributes})
    assert file.read_text() == CONTENT.replace(old, new)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a":1}', '{"a":1,"b":{"c":2}}'),
        ('{"a": 1}', '{"a": 1, "b": {"c": 2}}'),
        ('{\r\n  "a": 1\r\n}', '{\r\n  "a": 1,\r\n  "b": {\r\n    "c": 2\r\n  }\r\n}'),
        (" \n", '{\n  "b": {\n    "c": 2\n  }\n}\n'),
        ('{"b": {"c": 1, "d": 3, "c": 0}}', '{"b": {"c": 1, "d": 3, "c": 2}}'),
    ],
)
def test_the_style_of_the_file_is_kept(tmp_path: Path, before: str, after: str) -> None:
    """Line ends too; of a key that occurs twice the last one counts, as for most programs."""
    path = tmp_path / "a.json"
    path.write_bytes(before.encode())
    run({f"Json_setting[{path}:b.c]": {"value": 2}})
    assert path.read_bytes() == after.encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{\n "a" 1}', "{path}:2:6: is no valid JSON: ':' is expected"),
        (b'{"a": [1, // no\n2]}', "{path}:1:11: is no valid JSON: JSON has no comments"),
        (b'{\n"a": "\xff"}', "{path}:2: is not UTF-8"),
        (b'{"b": %s}' % (b"1" * 5000), "{path}:1:7: is no valid JSON: the number has too many digits"),
        *((text, "{path}:1:") for text in (b'{"a": 1,}', b'{"a": 1} 2', b'{"a": "', b'{"a": "\x01"}', b'{"a": "\\x"}')),
        (b"[" * 100_000, "{path}: is nested too deeply"),
        (b" " * (1 << 20) + b"{}", "{path}: is larger than 1 MiB"),
        (b'{"a": 5}', "{path}: 'a' is not a mapping, so it cannot contain 'b'"),
        (b"[]", "{path}: the whole file is not a mapping"),
    ],
)
def test_a_file_that_cannot_hold_the_setting_is_not_written(tmp_path: Path, content: bytes, message: str) -> None:
    """The setting fails with the path and the line of the mistake first, and in no words of the parser."""
    path = tmp_path / "a.json"
    path.write_bytes(content)
    error = reason(run({"Json_setting[x]": {"path": str(path), "key": "a.b", "value": 2}})[0])
    assert error.startswith(message.format(path=path))
    assert "Expecting" not in error
    assert path.read_bytes() == content


def test_an_element_before_others_is_not_removed(file: Path) -> None:
    """The next one would take its place, and would be removed by the next run; all can be removed together."""
    removal = {"ensure": "absent"}
    gap = reason(run({f"Json_setting[{file}:last[3]]": {"value": 1}})[0])
    assert gap == f"{file}: 'last[3]' would leave a gap: the array has 2 elements"
    assert "the next one would take its place" in reason(run({f"Json_setting[{file}:last[0]]": removal})[0])
    assert file.read_text() == CONTENT
    assert run({f"Json_setting[{file}:last[{number}]]": removal for number in range(2)})[0].summary.deleted == 2
    assert '"last"' not in file.read_text()


def test_a_secret_is_written_and_not_shown(tmp_path: Path) -> None:
    """A new file for it can be read by its owner only; the other settings are not secret."""
    path = tmp_path / "new.json"
    value = {"user": "ann", "password": "${inputs.password}"}
    manifest = {
        "inputs": {"password": {"type": "Sensitive[String]", "default": "hunter22"}},
        "resources": {f"Json_setting[{path}:db]": {"value": value}, f"Json_setting[{path}:port]": {"value": 5}},
    }
    report, lines = run_manifest(manifest)
    assert report.summary.created == 2
    assert json.loads(path.read_text()) == {"db": {"user": "ann", "password": "hunter22"}, "port": 5}
    assert path.stat().st_mode & 0o777 == 0o600
    assert run_manifest(manifest)[0].summary.unchanged == 2
    path.write_text(path.read_text().replace("hunter22", "other"))
    report, more = run_manifest(manifest)
    assert report.summary.updated == 1
    assert "hunter22" not in "\n".join([*lines, *more])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.'\u00e9", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text("ab", min_size=1), JSON),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=3),
    JSON,
    st.sampled_from([None, 1, "\t"]),
)
def test_a_change_is_the_change_of_the_parsed_file(
    content: dict[str, Any], place: list[str], value: Any, indent: Any
) -> None:
    """It holds for any file: the text that was written means what was wanted, and nothing else has changed."""
    expected = json.loads(json.dumps(content))
    inner = expected
    for step in place[:-1]:
        inner = inner.setdefault(step, {}) if isinstance(inner, dict) else inner
    assume(isinstance(inner, dict))
    inner[place[-1]] = value
    text = provider.Provider._edit(json.dumps(content, indent=indent), {tuple(place): value})
    assert json.loads(text) == expected


class TestJsonSetting(Setting, ProviderCompliance):
    """Settings of a file with other settings."""

    type_name = "json_setting"
    records = b'{"ra-test": {"a": "evil"}}'
