"""Settings in real INI files, read back by Python's own parser."""

from __future__ import annotations

import configparser
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_api import ManifestError, Sensitive
from resource_api.files import Lines
from resource_api.testing import Neighbour, ProviderCompliance
from tests import bundled
from tests.bundled import directory_of_nobody
from tests.providers.applied import converge, reason, run, warned

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


#: A file, the setting, the content before, the new value (None: absent), and the content after.
CONTINUED: dict[str, tuple[str, str, str, str | None, str]] = {
    "pip": (
        "pip.conf",
        "global:extra-index-url",
        "[global]\nextra-index-url =\n    https://a/simple\n    # the old one\n    https://b/simple\nretries = 1\n",
        "https://new/simple",
        "[global]\nextra-index-url = https://new/simple\n    # the old one\nretries = 1\n",
    ),
    "pip absent": (
        "pip.conf",
        "global:extra-index-url",
        "[global]\nextra-index-url = https://a/simple\n    https://b/simple\n\n    https://c/simple\nretries = 1\n",
        None,
        "[global]\n\nretries = 1\n",
    ),
    "unknown, as of pip": (
        "app.ini",
        "global:extra-index-url",
        "[global]\nextra-index-url =\n    https://a/simple\n    https://b/simple\nretries = 1\n",
        "https://new/simple",
        "[global]\nextra-index-url = https://new/simple\nretries = 1\n",
    ),
    "unknown, lines with equals signs": (
        "app.cfg",
        "options:install_requires",
        "[options]\ninstall_requires=\n\ta>=1\n\tb = 2\nz=1\n",
        None,
        "[options]\nz=1\n",
    ),
    "several lines for several": (
        "setup.cfg",
        "options:install_requires",
        "[options]\ninstall_requires =\n  a\n  b\n  c\nz = 1\n",
        "a\nd",
        "[options]\ninstall_requires =\n  a\n  d\nz = 1\n",
    ),
    "several lines for one": ("setup.cfg", "o:k", "[o]\nk = 1\nz = 1\n", "a\nb", "[o]\nk =\n    a\n    b\nz = 1\n"),
    "several lines of a new setting": (
        "tox.ini",
        "o:k",
        "[o]\nz =\n  1\n",
        "a\nb",
        "[o]\nz =\n  1\nk =\n    a\n    b\n",
    ),
    "a new setting below a continuation": (
        "app.ini",
        "o:k",
        "[o]\nz =\n  1\n  2\n",
        "3",
        "[o]\nz =\n  1\n  2\nk = 3\n",
    ),
    "a comment inside a value": (
        "tox.ini",
        "o:k",
        "[o]\nz =\n  1\n#k = 5\n  2\n",
        "3",
        "[o]\nz =\n  1\n#k = 5\n  2\nk = 3\n",
    ),
    "a bracket inside a value": ("tox.ini", "o:z", "[o]\nz =\n  [1]\n  2\n", "3", "[o]\nz = 3\n"),
    "a name inside a value": (
        "tox.ini",
        "o:PATH",
        "[o]\nsetenv = A = b\n  PATH = c\n",
        "d",
        "[o]\nsetenv = A = b\n  PATH = c\nPATH = d\n",
    ),
    "systemd": (
        "app.service",
        "Service:ExecStart",
        "[Service]\nExecStart=/bin/a \\\n# why\n  --b=1 \\\n  --c\nRestart=no\n",
        "/bin/z",
        "[Service]\nExecStart=/bin/z\n# why\nRestart=no\n",
    ),
    "systemd absent": (
        "app.service",
        "Service:Environment",
        "[Service]\nEnvironment=A=1\\\nB=2\nRestart=no\n",
        None,
        "[Service]\nRestart=no\n",
    ),
    "systemd, indented settings": (
        "app.service",
        "Service:A",
        "[Service]\nA=1\n  B=2\n",
        "3",
        "[Service]\nA=3\n  B=2\n",
    ),
    "unknown, after a backslash": (
        "unit.conf",
        "Service:ExecStart",
        "[Service]\nExecStart=/bin/a \\\n  --b=1 \\\n  --c\nRestart=no\n",
        None,
        "[Service]\nRestart=no\n",
    ),
    "git": (
        ".gitconfig",
        "alias:l",
        "[alias]\n\tl = log \\\n\t\t--oneline\n\ts = status\n",
        "log",
        "[alias]\n\tl = log\n\ts = status\n",
    ),
    "mysql": (
        "my.cnf",
        "mysqld:port",
        "[mysqld]\nport = 1\n  socket = /s\n  skip-name-resolve\n",
        "2",
        "[mysqld]\nport = 2\n  socket = /s\n  skip-name-resolve\n",
    ),
    "a path of another system": ("app.ini", "a:b", "[a]\nb = C:\\x\\\n", "D:\\", "[a]\nb = D:\\\n"),
}


@pytest.mark.parametrize("case", CONTINUED)
def test_a_value_goes_with_the_lines_that_continue_it(tmp_path: Path, case: str) -> None:
    """Every other byte stays, and the next plan is empty."""
    name, location, before, value, after = CONTINUED[case]
    path = tmp_path / name
    path.write_text(before)
    declared: dict[str, Any] = {"ensure": "absent"} if value is None else {"value": value}
    converge({f"Ini_setting[{path}:{location}]": declared})
    assert path.read_text() == after


@pytest.mark.parametrize(
    ("before", "error"),
    [
        ("[a]\nb = 1\n   c = 2\n", "line 3 is indented below it"),
        ("[a]\nb = 1\n\n   more\n", "line 4 is indented below it"),
        ("[a]\nb = C:\\x\\\nc = 2\n", "line 2 ends with a backslash"),
        ("[a]\nb = C:\\x\\\n[c]\n", "line 2 ends with a backslash"),
    ],
)
@pytest.mark.parametrize("declared", [{"value": "new"}, {"ensure": "absent"}])
def test_a_value_that_cannot_be_told_is_not_changed(
    tmp_path: Path, before: str, error: str, declared: dict[str, Any]
) -> None:
    """The plan and the failure name the line; the value that is there is no change."""
    path = tmp_path / "app.ini"
    path.write_text(before)
    name = f"Ini_setting[{path}:a:b]"
    assert declared.get("ensure") == "absent" or any(error in item for item in warned({name: declared}))
    assert error in reason(run({name: declared})[0])
    assert path.read_text() == before
    value = before.splitlines()[1].removeprefix("b = ")
    assert run({name: {"value": value}})[0].summary.unchanged == 1


def test_several_lines_are_refused_where_no_program_reads_them(tmp_path: Path) -> None:
    """And so is a value that would continue in the next line."""
    setting = f"Ini_setting[{tmp_path}/app.service:Service:A]"
    with pytest.raises(ManifestError, match="several lines"):
        run({setting: {"value": "a\nb"}})
    with pytest.raises(ManifestError, match="ends with a backslash"):
        run({setting: {"value": "a\\"}})


@pytest.mark.parametrize("first", ["[z]", "# a", ";a"])
def test_the_first_of_several_lines_is_no_comment_and_no_section(tmp_path: Path, first: str) -> None:
    """Each has a line of its own in the file, where that would be one."""
    with pytest.raises(ManifestError, match="looks like a comment or a section"):
        run({f"Ini_setting[{tmp_path}/a.ini:a:b]": {"value": f"{first}\nmore"}})
    converge({f"Ini_setting[{tmp_path}/a.ini:a:b]": {"value": first}})


def test_a_secret_of_which_a_part_would_be_a_comment_is_refused(tmp_path: Path) -> None:
    """As any other value; in quotes it is whole."""
    setting = f"Ini_setting[{tmp_path}/my.cnf:client:password]"
    with pytest.raises(ManifestError, match="put the value in double quotes"):
        run({setting: {"value": Sensitive("swordfish#42")}})
    converge({setting: {"value": Sensitive('"swordfish#42"')}})


#: A file, the setting, the content before, the new value (None: absent), and the content after.
SPELLED: dict[str, tuple[str, str, str, str | None, str]] = {
    "pip": ("pip.conf", "global:index-url", "[global]\nIndex-URL = a\n", "b", "[global]\nIndex-URL = b\n"),
    "a section of pip": (
        "pip.conf",
        "global:timeout",
        "[Global]\ntimeout = 1\n",
        "2",
        "[Global]\ntimeout = 1\n\n[global]\ntimeout = 2\n",
    ),
    "git absent": (".gitconfig", "core:autocrlf", "[Core]\n\tautoCRLF = true\n[a]\nb = 1\n", None, "[a]\nb = 1\n"),
    "a part of git in quotes": (
        ".gitconfig",
        'Remote "a":URL',
        '[remote "A"]\nurl = x\n[REMOTE "a"]\nUrl = y\n',
        "z",
        '[remote "A"]\nurl = x\n[REMOTE "a"]\nUrl = z\n',
    ),
    "mysql": (
        "my.cnf",
        "mysqld:max_connections",
        "[mysqld]\nmax-connections=1\n",
        "2",
        "[mysqld]\nmax-connections=2\n",
    ),
    "samba": ("smb.conf", "global:logfile", "[Global]\n Log File = /x\nb = 1\n", None, "[Global]\nb = 1\n"),
    "samba, a comment": (
        "smb.conf",
        "global:log file",
        "[Global]\n;Log File =\n",
        "1",
        "[Global]\n;Log File =\nlog file = 1\n",
    ),
    "systemd, where the case counts": (
        "app.service",
        "Service:nice",
        "[Service]\nNice=5\n",
        "1",
        "[Service]\nNice=5\nnice = 1\n",
    ),
}


@pytest.mark.parametrize("case", SPELLED)
def test_a_setting_is_found_in_each_spelling_that_its_program_takes(tmp_path: Path, case: str) -> None:
    """A second line for it would stop pip, and an absent one would stay."""
    name, location, before, value, after = SPELLED[case]
    path = tmp_path / name
    path.write_text(before)
    section, setting = location.split(":")
    declared: dict[str, Any] = {"ensure": "absent"} if value is None else {"value": value}
    converge({"Ini_setting[a]": {"path": str(path), "section": section, "setting": setting, **declared}})
    assert path.read_text() == after


@pytest.mark.parametrize(
    ("name", "content", "value", "changed"),
    [
        (".gitconfig", "[a]\nb = old;note\n", "new", "[a]\nb = new;note\n"),
        (".gitconfig", '[a]\nb = "x;y" # note\n', '"z;#"', '[a]\nb = "z;#" # note\n'),
        ("my.cnf", "[a]\nb = 'x#y' # note\n", "z;", "[a]\nb = z; # note\n"),
        ("php.ini", "[a]\nb = 128M ; note\n", "256M", "[a]\nb = 256M ; note\n"),
        ("ansible.cfg", "[a]\nb = x;y ; note\n", "z;", "[a]\nb = z; ; note\n"),
        ("pip.conf", "[a]\nb = x ; y\n", "x # z", "[a]\nb = x # z\n"),
    ],
)
def test_a_comment_behind_a_value_stays_where_the_program_takes_it_for_one(
    tmp_path: Path, name: str, content: str, value: str, changed: str
) -> None:
    """And is no part of the value that is compared."""
    file = tmp_path / name
    file.write_text(content)
    converge({f"Ini_setting[{file}:a:b]": {"value": value}})
    assert file.read_text() == changed


@pytest.mark.parametrize(("name", "value"), [(".gitconfig", "a;b"), ("my.cnf", "p#q"), ("php.ini", "1 ; 2")])
def test_a_value_that_its_program_would_read_in_part_is_refused(tmp_path: Path, name: str, value: str) -> None:
    """With the way to write it."""
    with pytest.raises(ManifestError, match="for a comment; put the value in double quotes"):
        run({f"Ini_setting[{tmp_path / name}:a:b]": {"value": value}})
    converge({f"Ini_setting[{tmp_path / name}:a:b]": {"value": f'"{value}"'}})


def test_git_reads_the_whole_value(tmp_path: Path) -> None:
    """Of a value in quotes, with the comment of another value behind it."""
    file = tmp_path / ".gitconfig"
    file.write_text("[remote]\n\turl = old ; note\n")
    converge({f"Ini_setting[{file}:remote:url]": {"value": '"https://x/y;z"'}})
    command = ["git", "config", "--file", str(file), "remote.url"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "https://x/y;z\n"


def test_a_setting_in_two_spellings_is_one_resource(tmp_path: Path) -> None:
    """Otherwise each run would undo the former one."""
    file = tmp_path / ".gitconfig"
    first, second = (f"Ini_setting[{file}:{name}]" for name in ("core:autoCRLF", "Core:autocrlf"))
    with pytest.raises(ManifestError, match="is the same resource as"):
        run({first: {"value": "true"}, second: {"value": "false"}})
    converge({first: {"value": "true"}})
    assert file.read_text() == "[core]\nautoCRLF = true\n"


def test_a_later_file_of_the_directory_that_counts_is_named_in_the_plan(tmp_path: Path) -> None:
    """Programs take the last value of such a directory; the same value, and another section, do not matter."""
    directory = tmp_path / "systemd" / "journald.conf.d"
    directory.mkdir(parents=True)
    (directory / "10-a.conf").write_text("[Journal]\nSystemMaxUse=2G\n")
    (directory / "60-a.conf").write_text("[Other]\nSystemMaxUse=2G\n[Journal]\nCompress=no\n")
    (directory / "70-a.conf").write_text("[Journal]\nSystemMaxUse=5G\nStorage = auto\n")
    path = directory / "50-site.conf"
    values = {"SystemMaxUse": "1G", "Storage": "auto", "Compress": "no"}
    declared = {f"Ini_setting[{path}:Journal:{name}]": {"value": value} for name, value in values.items()}
    message = f"{directory}/70-a.conf comes after {path} and sets it to '5G', which counts"
    assert warned(declared) == [message]


PART = st.sampled_from(
    ["k0 = 1", "k1 = a", "k2 =", "k3 :", "  x", "    y = 2", "\tz", "# c", "  ; d", "", "k4=v", "  [n]"]
)


@example(["  [n]"], "k0", "new")
@given(st.lists(PART, max_size=12), st.sampled_from(["k0", "k1", "k2", "k9"]), st.sampled_from([None, "new", "a\nb"]))
def test_python_reads_what_is_declared_and_everything_else_as_before(
    parts: list[str], setting: str, value: str | None
) -> None:
    """It holds for each file that Python's parser accepts, whatever continues in it."""
    content = "\n".join(["[s]", *parts, "[t]", "last = 1", ""])
    try:
        before = parsed(content)
    except configparser.Error:
        return
    lines = Lines(content.encode())
    should = None if value is None else {"value": value, "key_val_separator": " = "}
    ini.edit(lines, {("s", setting): should}, ini.ini_lines.syntax("/srv/tox.ini"))
    after = parsed(lines.content.decode())
    if value is not None:
        assert after.setdefault("s", {}).pop(setting) == value.split("\n")
    else:
        assert setting not in after.get("s", {})
    before.get("s", {}).pop(setting, None)
    assert {name: item for name, item in after.items() if item} == {
        name: entry for name, entry in before.items() if entry
    }


LONG = {
    "a new setting": b"[s]\nc \\\n" + b"d \\\n" * 200_000,
    "comments in a value": b"[s]\nz=1 \\\n" + b"#k=1\n" * 200_000 + b"x\n",
    "a long value": b"[s]\nk = x \\\n" + b"y \\\n" * 200_000 + b"z\n",
    "many settings": b"[s]\n" + b"k=1\n" * 200_000,
}


@pytest.mark.parametrize("case", LONG)
def test_a_long_file_is_edited_in_time_that_grows_with_it(case: str) -> None:
    """A megabyte of another user's must not keep a run of root for minutes; counted in processor time."""
    for should in ({"value": "1", "key_val_separator": "="}, None):
        lines, began = Lines(LONG[case]), time.process_time()
        ini.edit(lines, {("s", "k"): should}, ini.ini_lines.syntax("/srv/a.service"))
        assert time.process_time() - began < 20


@given(st.lists(st.sampled_from([b"a\n", b"b\r\n", b"c"])).map(b"".join), st.sets(st.integers(0, 6)))
def test_lines_are_deleted_as_one_by_one(content: bytes, numbers: set[int]) -> None:
    """With the line end that a last line leaves behind."""
    at_once, one_by_one = Lines(content), Lines(content)
    numbers = {number for number in numbers if number < len(at_once)}
    at_once.delete(numbers)
    for number in sorted(numbers, reverse=True):
        del one_by_one[number]
    assert at_once.content == one_by_one.content


def parsed(content: str) -> dict[str, dict[str, list[str]]]:
    """Return the lines of each value as Python's parser reads them."""
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(content)
    return {
        name: {key: [line for line in value.split("\n") if line] for key, value in parser.items(name)}
        for name in parser.sections()
    }


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
