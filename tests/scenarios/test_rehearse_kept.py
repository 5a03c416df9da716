"""What is left of a rehearsal, ``--keep`` and its page, and what can be looked at while it lasts: ``--shell``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.terminal import Terminal

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


def test_what_was_written_is_kept_by_its_path(bench: Bench) -> None:
    """Modes, owners, links and contents are as inside, before ``--destroy``; what was deleted has a mark."""
    file = bench.home / "kept"
    (bench.home / "old").touch()
    manifest = bench.write(
        "site.yaml",
        f"""
        resources:
          File[{bench.home}/made]: {{ensure: file, content: hi, mode: "4750", owner: daemon}}
          File[{bench.home}/link]: {{target: /etc/motd}}
          File[{bench.home}/old]: {{ensure: absent}}
        """,
    )
    result = bench.run("rehearse", manifest, "--keep", file, "--destroy")
    assert result.code == 0, result
    inside = file / str(bench.home)[1:]
    assert sorted(path.name for path in inside.iterdir()) == [".wh.old", "link", "made"]
    status = (inside / "made").stat()
    assert ((inside / "made").read_text(), status.st_mode & 0o7777, status.st_uid) == ("hi", 0o4750, 1)
    assert str((inside / "link").readlink()) == "/etc/motd"
    assert file.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_is_not_ours_alone_is_refused(bench: Bench) -> None:
    """One that has something in it, is a link, or belongs to or is writable by others is not written to."""
    manifest = bench.write("site.yaml", "resources: {}")
    paths = {name: bench.home / name for name in ("full", "theirs", "open", "link", "none/below")}
    for name in ("full", "theirs", "open"):
        paths[name].mkdir()
    (paths["full"] / "x").touch()
    os.chown(paths["theirs"], 1, 1)
    paths["open"].chmod(0o777)
    paths["link"].symlink_to(bench.home)
    messages = {name: bench.run("rehearse", manifest, "--keep", path) for name, path in paths.items()}
    assert {result.code for result in messages.values()} == {64}
    assert {name: result.err.strip().rpartition(": ")[2] for name, result in messages.items()} == {
        "full": "it is not empty",
        "theirs": "it belongs to another user, or others may write to it",
        "open": "it belongs to another user, or others may write to it",
        "link": "Not a directory",
        "none/below": "No such file or directory",
    }


def test_a_shell_is_opened_inside(bench: Bench) -> None:
    """It has job control and the size of the terminal, sees what was made, and what it makes is discarded."""
    path = bench.home / "made"
    manifest = bench.write("site.yaml", f"resources: {{'File[{path}]': {{content: hi}}}}")
    with Terminal(columns=90) as terminal:
        terminal.run(bench, "rehearse", manifest, "--shell", SHELL="/bin/sh")
        terminal.until(lambda lines: any("A shell inside the rehearsal" in line for line in lines))
        commands = f"cat {path}; stty size; touch {bench.home}/by-hand; set -m && echo jobs; exit 3\n"
        os.write(terminal._ours, commands.encode())
        code, lines = terminal.end()
    assert code == 0, lines
    assert any("hi24 90" in line for line in lines), lines
    assert "jobs" in lines
    assert lines[-1] == "  silent twice  ok  nothing changes again"
    assert not (bench.home / "by-hand").exists()


def test_a_shell_needs_a_terminal(bench: Bench) -> None:
    """Without one it is an error of the command line."""
    result = bench.run("rehearse", bench.write("site.yaml", "resources: {}"), "--shell")
    assert (result.code, result.err) == (64, "Error: --shell needs a terminal as standard input\n")


def test_a_rehearsal_is_a_page(bench: Bench) -> None:
    """Verdicts, paths as a tree, and the run, from what ``--json`` has printed."""
    manifest = bench.write(
        "site.yaml", f"resources: {{'Exec[make]': {{command: mkdir -p {bench.home}/a/b, creates: {bench.home}/none}}}}"
    )
    result = bench.run("rehearse", manifest, "--json")
    bench.write("rehearsal.json", result.out)
    page = bench.run("report", "rehearsal.json", "--format", "html")
    assert page.code == 0, page
    for text in (
        "not well: silent twice",
        f"<code>{bench.home}/a</code> made by",
        "<code>b</code> made by",
        "Timeline",
    ):
        assert text in page.out


@pytest.mark.parametrize(
    ("content", "form", "wrong"),
    [
        ("{}", "text", "a rehearsal is shown with --format html"),
        ("{}", "html --on web1", "a rehearsal is shown with --format html, and without --on"),
        ("[1]", "html", "is not what 'rehearse --json' has written: rehearsal must be a mapping"),
        (
            '{"verdicts": [], "run": {}}',
            "html",
            "is not what 'rehearse --json' has written: run must be the document of a run",
        ),
        ("\udcff{", "html", "is not what 'rehearse --json' has written"),
        (None, "html", "No such file or directory"),
    ],
)
def test_what_is_no_rehearsal_is_no_page(bench: Bench, content: str | None, form: str, wrong: str) -> None:
    """It is an error of the command line."""
    if content is not None:
        (bench.home / "found.json").write_text(content, errors="surrogateescape")
    result = bench.run("report", "found.json", "--format", *form.split())
    assert result.code == 64
    assert wrong in result.err
