"""Lines of real files, found by regular expressions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from resource_api import ManifestError
from resource_api.testing import ProviderCompliance
from tests.providers.applied import converge, reason, run, run_manifest, warned
from tests.providers.parts_of_files import PartOfFile

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api import Resource

CONTENT = b"# caf\xe9\r\n#Port 22\r\nPort 22\r\n\r\nMatch all\r\n  X11Forwarding no"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with carriage returns, bytes that are not UTF-8, and no newline at its end."""
    path = tmp_path / "config"
    path.write_bytes(CONTENT)
    return path


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"line": "Port 23", "match": "^Port "}, CONTENT.replace(b"\r\nPort 22", b"\r\nPort 23")),
        (
            {"line": "Port 23", "match": "^#?Port ", "multiple": True},
            CONTENT.replace(b"#Port 22\r\nPort 22", b"Port 23\r\nPort 23"),
        ),
        ({"line": "A b", "after": "^#?Port"}, CONTENT.replace(b"\nPort 22\r\n", b"\nPort 22\r\nA b\r\n")),
        ({"line": "A b", "insertbefore": "^Match"}, CONTENT.replace(b"Match", b"A b\r\nMatch")),
        ({"line": "A b", "insertbefore": "BOF"}, b"A b\r\n" + CONTENT),
        ({"line": "[A] (b)", "after": "not there"}, CONTENT + b"\r\n[A] (b)"),
        ({"match": "Port", "ensure": "absent"}, CONTENT.replace(b"#Port 22\r\nPort 22\r\n", b"")),
        ({"line": "Match all", "ensure": "absent"}, CONTENT.replace(b"Match all\r\n", b"")),
    ],
)
def test_only_the_line_changes(file: Path, attributes: dict[str, Any], expected: bytes) -> None:
    """Every other byte stays, mode and owner too, and a second run changes nothing."""
    file.chmod(0o640)
    os.chown(file, 65534, 65534)
    converge({"File_line[any words]": {"path": str(file), **attributes}})
    assert file.read_bytes() == expected
    status = file.stat()
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o640, 65534, 65534)


def test_all_changes_of_a_file_are_one_replacement(file: Path) -> None:
    """What each line adds is there, in their order, and the file is replaced once."""
    resources = {f"File_line[{number}]": {"path": str(file), "line": f"n{number}"} for number in range(20)}
    report, _ = run(resources)
    assert report.summary.created == 20
    assert file.read_bytes() == CONTENT + b"".join(b"\r\nn%d" % number for number in range(20))


def test_several_different_lines_need_multiple(file: Path) -> None:
    """None of them is changed, and another resource of the file is."""
    resources = {
        "File_line[port]": {"path": str(file), "match": "^#?Port", "line": "Port 23"},
        "File_line[other]": {"path": str(file), "line": "new"},
    }
    report, _ = run(resources)
    errors = [step.error for step in report.steps if step.error]
    assert errors == ["2 lines match '^#?Port'; with multiple: true all of them are replaced"]
    assert file.read_bytes() == CONTENT + b"\r\nnew"


def test_one_of_several_lines_as_declared_is_enough(file: Path) -> None:
    """A commented line beside it is no reason for a change."""
    resources = {"File_line[port]": {"path": str(file), "match": "^#?Port", "line": "Port 22"}}
    assert run(resources)[0].summary.unchanged == 1


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"line": "a", "match": "("}, "match is no regular expression"),
        ({"line": "a", "match": "^b"}, "match must also find the line as it is declared"),
        ({"line": "a", "after": "b", "insertbefore": "c"}, "exclude each other"),
        ({"line": "a\nb"}, "without a line break"),
        ({"ensure": "absent"}, "is needed"),
    ],
)
def test_what_cannot_work_is_refused(file: Path, attributes: dict[str, Any], message: str) -> None:
    """Nothing is read or written then."""
    with pytest.raises(ManifestError, match=message):
        run({"File_line[a]": {"path": str(file), **attributes}})


def test_a_plan_warns_of_several_lines_of_which_one_is_meant(tmp_path: Path) -> None:
    """In the words in which the run would fail; not with ``multiple``, nor where the file is written before."""
    path = tmp_path / "config"
    path.write_text("a=1\na=2\n")
    lines, before = f"File_line[{path}:^a=]", {f"File[{tmp_path}/other]": {"content": ""}}
    message = "2 lines match '^a='; with multiple: true all of them are replaced"
    assert warned({**before, lines: {"line": "a=3"}}) == [message]
    assert reason(run({lines: {"line": "a=3"}})[0]) == message
    for declared in ({"line": "a=3", "multiple": True}, {"line": "a=2"}, {"ensure": "absent"}):
        assert warned({lines: declared}) == []
    assert warned({f"File[{path}]": {"content": "a=1\n"}, lines: {"line": "a=3"}}) == []
    path.unlink()
    path.mkdir()
    assert message not in warned({lines: {"line": "a=3"}})


def test_a_secret_line_makes_a_private_file(tmp_path: Path) -> None:
    """It is found by an expression that is no secret, and never shown."""
    manifest = {
        "inputs": {"token": {"type": "Sensitive[String]", "default": "hunter22"}},
        "resources": {
            "File_line[token]": {"path": f"{tmp_path}/new", "match": "^TOKEN=", "line": "TOKEN=${inputs.token}"}
        },
    }
    for more in ({}, {"match": "^TOKEN=hunter22$"}):
        secret = {"path": f"{tmp_path}/new", "line": "TOKEN=${inputs.token}", **more}
        with pytest.raises(ManifestError, match="cannot be found by a text that is secret"):
            run_manifest({**manifest, "resources": {"File_line[token]": secret}})
    report, lines = run_manifest(manifest)
    assert not reason(report)
    assert (tmp_path / "new").read_text() == "TOKEN=hunter22\n"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    assert "hunter22" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("title", "attributes", "old", "new"),
    [
        ("File_line[{}:^a]", {"line": "a bad"}, "a\n", "a\n"),
        ("File_line[{}:^a]", {"line": "a good"}, "a\n", "a good\n"),
        ("File_line[{}:^bad]", {"ensure": "absent"}, "a\nbad\n", "a\n"),
        ("Block_in_file[{}:b]", {"block": "bad"}, "a\n", "a\n"),
        ("Ini_setting[{}:s:a]", {"value": "bad"}, "[s]\na=1\n", "[s]\na=1\n"),
        ("Json_setting[{}:a]", {"value": "bad"}, '{"a": 1}', '{"a": 1}'),
    ],
)
def test_new_content_that_a_program_refuses_is_not_written(
    tmp_path: Path, title: str, attributes: dict[str, Any], old: str, new: str
) -> None:
    """The program sees the whole new file before it has its name; another resource of the file is not hurt."""
    path = tmp_path / "config"
    path.write_text(old)
    command = ["sh", "-c", 'test -s "$1" && echo no >&2 && ! grep -q bad "$1"', "sh", "%"]
    report, _ = run({title.format(path): {**attributes, "validate_cmd": command}})
    assert path.read_text() == new
    assert ("the new content is refused" in reason(report)) == (old == new)
    assert [path] == list(tmp_path.iterdir())


class TestFileLine(PartOfFile, ProviderCompliance):
    """A line of a file with other lines."""

    type_name = "file_line"
    records = b"ra-test-a evil\n\xff\n"
    update: ClassVar[Resource] = {"line": "ra-test-a\t# caf\u00e9"}

    @pytest.fixture
    def present(self, file: Path) -> Resource:
        return {"path": f"{file.parent}/./{file.name}", "match": "^ra-test-a", "line": "ra-test-a = ${x}"}

    @pytest.fixture
    def others(self, present: Resource, tmp_path: Path) -> list[Resource]:
        return [
            {**present, "match": "ra-test-b$", "line": "a ra-test-b"},
            {**present, "path": str(tmp_path / "new"), "multiple": True},
        ]
