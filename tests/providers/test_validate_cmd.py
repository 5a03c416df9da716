"""New content of a file is checked by a program before the file gets its name; modes may be written in letters."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ManifestError
from tests import bundled
from tests.bundled import directory_of_nobody
from tests.providers.applied import reason, run, warned

if TYPE_CHECKING:
    from pathlib import Path

symbolic_mode = bundled.execute("lib", "symbolic_mode")
#: Accepts files whose first line is ``good``, and prints what it was called with.
CHECK = """sh -c 'grep -qx good "$1" || { echo "$1: bad line" >&2; exit 3; }' sh %"""
CLAUSE = st.from_regex(r"\A[ugoa]{0,2}([-+=]([ugo]|[rwxXst]{0,3})){1,2}\Z")


@pytest.mark.parametrize("command", [CHECK, shlex.split(CHECK)], ids=["text", "words"])
def test_content_that_is_refused_is_not_written(tmp_path: Path, command: Any) -> None:
    """The old file stays with its metadata, and nothing is left beside it; the reason names the file."""
    path = tmp_path / "app.conf"
    path.write_text("old\n")
    before = path.stat()
    report, _ = run({f"File[{path}]": {"content": "bad\n", "mode": "0600", "validate_cmd": command}})
    assert reason(report) == (
        f'the new content is refused by "{shlex.join(shlex.split(CHECK))}", and not written: {path}: bad line'
    )
    assert (path.read_text(), path.stat().st_mode, [entry.name for entry in tmp_path.iterdir()]) == (
        "old\n",
        before.st_mode,
        ["app.conf"],
    )


def test_content_that_is_accepted_is_written_once(tmp_path: Path) -> None:
    """The command sees the whole new content with its mode; a second run does not run it."""
    path, file = tmp_path / "app.conf", tmp_path / "seen"
    command = ["sh", "-c", 'cat "$1" >>"$2"; find "$1" -perm 640 | wc -l >>"$2"', "sh", "%", str(file)]
    expected = {f"File[{path}]": {"content": "good\n", "mode": "0640", "validate_cmd": command}}
    for changed in (1, 0):
        report, _ = run(expected)
        assert (report.summary.created, file.read_text()) == (changed, "good\n1\n")


def test_one_refused_file_does_not_keep_others_from_being_written(tmp_path: Path) -> None:
    """Files that are changed by one call are checked one by one."""
    expected = {f"File[{tmp_path}/{name}]": {"content": f"{name}\n", "validate_cmd": CHECK} for name in ("bad", "good")}
    report, _ = run(expected)
    assert (
        report.summary.failed,
        report.summary.created,
        (tmp_path / "good").exists(),
        (tmp_path / "bad").exists(),
    ) == (1, 1, True, False)


@pytest.mark.parametrize("code", [0, 1])
def test_the_output_of_a_command_is_no_warning(tmp_path: Path, code: int) -> None:
    """Many write on stderr also that the content is good; a refusal quotes the output, with the path of the file."""
    command = ["sh", "-c", f'echo "$1: checked" >&2; exit {code}', "sh", "%"]
    report, lines = run({f"File[{tmp_path}/a]": {"content": "x", "validate_cmd": command}})
    assert (report.summary.created, report.summary.failed) == (1 - code, code)
    assert [line for line in lines if line.startswith("warning")] == []
    assert not code or reason(report).endswith(f"not written: {tmp_path}/a: checked")


def test_a_command_without_output_is_named_with_its_exit_code(tmp_path: Path) -> None:
    """A failure is never without a reason."""
    report, _ = run({f"File[{tmp_path}/a]": {"content": "x", "validate_cmd": "test -d %"}})
    assert reason(report) == "the new content is refused by 'test -d %', and not written: exit code 1"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("grep good", "validate_cmd must contain '%'"),
        ("grep 'good %", "validate_cmd cannot be split into words"),
        ("%", "validate_cmd must contain '%'"),
    ],
)
def test_a_command_that_cannot_check_is_refused(tmp_path: Path, command: str, reason: str) -> None:
    """What the user cannot mean is an error of the manifest."""
    with pytest.raises(ManifestError, match=reason):
        run({f"File[{tmp_path}/a]": {"content": "x", "validate_cmd": command}})


def test_a_plan_warns_of_a_missing_program(tmp_path: Path) -> None:
    """The program that checks may have to be installed first."""
    [warning] = warned({f"File[{tmp_path}/a]": {"content": "x", "validate_cmd": "ra-test-none %"}})
    assert "ra-test-none" in warning


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has neighbours")
def test_nothing_is_checked_where_others_could_replace_it(tmp_path: Path) -> None:
    """Another user could show the program a file of root in place of the new one."""
    path = directory_of_nobody(tmp_path) / "a"
    report, _ = run({f"File[{path}]": {"content": "good\n", "validate_cmd": CHECK}})
    assert reason(report) == (
        "its content is not checked by validate_cmd where other users can write to a directory on its path"
    )
    assert not path.exists()


@given(
    text=st.lists(CLAUSE, min_size=1, max_size=2).map(",".join),
    mode=st.integers(0, 0o7777),
    kind=st.sampled_from(["file", "directory"]),
)
def test_letters_change_a_mode_as_chmod_does(
    tmp_path_factory: pytest.TempPathFactory, text: str, mode: int, kind: str
) -> None:
    """Compared with chmod(1) of this machine, for files and directories."""
    path = tmp_path_factory.getbasetemp() / f"ra-test-mode-{kind}"
    path.mkdir(exist_ok=True) if kind == "directory" else path.touch()
    path.chmod(mode)
    changed = subprocess.run(["chmod", "--", text, path], check=False, capture_output=True, umask=0).returncode == 0
    s_imode = stat.S_IMODE(path.stat().st_mode)
    path.chmod(0o700)
    if changed:
        assert symbolic_mode.apply(text, mode, directory=kind == "directory") == s_imode


def test_letters_change_what_is_there(tmp_path: Path) -> None:
    """What the letters do not name stays; a second run changes nothing."""
    path = tmp_path / "run"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o604)
    expected = {f"File[{path}]": {"mode": "ug+x,o="}, f"File[{tmp_path}/new]": {"ensure": "file", "mode": "g+w"}}
    first, lines = run(expected)
    assert (first.summary.updated, first.summary.created, run(expected)[0].summary.unchanged) == (1, 1, 2)
    assert [oct(item.stat().st_mode & 0o7777) for item in (path, tmp_path / "new")] == ["0o710", "0o664"]
    assert f"notice: File[{path}]: mode: changed from 0604 to 0710" in lines


@pytest.mark.parametrize("mode", ["u=rw,go=r", "u=rwX,g=rX,o=", "a=r,u+w", "u=rw,g=u,o=g-w", "=r,u+w"])
def test_letters_and_digits_are_the_same_mode(tmp_path: Path, mode: str) -> None:
    """A file that has the mode in digits is in sync with letters, and the other way round, in a tree too."""
    path, tree = tmp_path / "file", tmp_path / "tree"
    run({f"File[{path}]": {"content": "x", "mode": mode}, f"File[{tree}]": {"ensure": "directory", "mode": "0700"}})
    digits = f"{stat.S_IMODE(path.stat().st_mode):04o}"
    for same in (mode, digits):
        assert run({f"File[{path}]": {"content": "x", "mode": same}})[0].summary.unchanged == 1
    run({f"File_tree[{tree}]": {"mode": mode}})
    assert run({f"File_tree[{tree}]": {"mode": mode}})[0].summary.unchanged == 1


@pytest.mark.parametrize(
    ("reference", "attributes", "form"),
    [
        ("File[/srv/ra-test]", {"mode": "rw-r--r--"}, "octal digits such as '0644', or letters such as 'u=rw,go=r'"),
        (
            "File_tree[/srv/ra-test]",
            {"mode": "u=rw;g=r"},
            "octal digits such as '0644', or letters such as 'u=rw,go=r'",
        ),
        ("Archive[/srv/ra-test]", {"mode": "u=rw"}, "three or four octal digits such as '0644'"),
        ("Concat[/srv/ra-test]", {"mode": "u=rw"}, "four octal digits such as '0640'"),
        ("X509_key[/srv/ra-test]", {"mode": "u=rw"}, "four octal digits such as '0640'"),
        ("X509_certificate[/srv/ra-test]", {"mode": "u=rw"}, "four octal digits such as '0640'"),
    ],
)
def test_a_mode_in_another_form_is_refused_with_the_octal_one(
    reference: str, attributes: dict[str, Any], form: str
) -> None:
    """Letters are for the types that change the present content."""
    with pytest.raises(ManifestError, match=f"mode must be {form}, not '{attributes['mode']}'"):
        run({reference: attributes})
