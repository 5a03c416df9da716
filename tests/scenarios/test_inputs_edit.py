"""``inputs edit``: an encrypted file in the user's editor, in memory only."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyrage
import pytest

from tests import command
from tests.scenarios.encrypted_inputs import SECRET, Site
from tests.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scenarios.conftest import Bench, Outcome

FILE: Final = "secrets.yaml.age"
MEMORY: Final = Path("/dev/shm")  # noqa: S108 - nothing is created in it
_TEXT: Final = f"port: 80  # of the service\r\ntoken: {SECRET}\n"
_WRITTEN: Final = f"{FILE}: encrypted for 2 recipients.\n"


class Desk(Site):
    """A site with an encrypted file, its recipients, and editors that are programs."""

    def __init__(self, bench: Bench) -> None:
        """Encrypt the file for the first identity; both are recipients."""
        super().__init__(bench)
        self.file = self.encrypt(FILE, _TEXT)
        self.recipients("# the team", *[str(identity.to_public()) for identity in self.identities])

    def recipients(self, *lines: str) -> None:
        """Write the recipients of the file."""
        self.bench.write(f"{FILE}.recipients", "\n".join(lines))

    def editor(self, source: str) -> str:
        """Return the command of an editor, a body in Python with ``file``, its path, and ``text``, its content."""
        head = "import os, sys, time\nfrom pathlib import Path\nfile = Path(sys.argv[1])\ntext = file.read_text()\n"
        return shlex.join([sys.executable, str(self.bench.write("editor.py", head + source))])

    def edit(self, source: str, *options: str, key: str = "age:key", file: str = FILE) -> Outcome:
        """Edit the file; nothing of it is in any output, and its copy is gone."""
        before = set(MEMORY.glob("resource-api-*"))
        environment = {"EDITOR": self.editor(source), "RESOURCE_API_INPUTS_KEY": key}
        result = self.bench.run("inputs", "edit", file, *options, **environment)
        assert SECRET not in result.out + result.err
        assert set(MEMORY.glob("resource-api-*")) <= before
        return result

    def text(self, reader: int = 0) -> str:
        """Return the content of the file as one of the identities reads it."""
        return pyrage.decrypt(self.file.read_bytes(), [self.identities[reader]]).decode()


@pytest.fixture
def desk(bench: Bench) -> Desk:
    """Return a new desk."""
    return Desk(bench)


_REPLACE: Final = f"file.write_text(text.replace({SECRET!r}, 'changed'))"


def test_an_edited_file_is_encrypted_for_all_its_recipients(desk: Desk) -> None:
    """Every byte that was not edited stays, and so do the owner and the mode of the file."""
    desk.file.chmod(0o640)
    os.chown(desk.file, 65534, 65534)
    result = desk.edit("data = file.read_bytes(); file.write_bytes(data.replace(b'80', b'81'))")
    assert (result.code, result.out) == (0, _WRITTEN)
    assert [desk.text(0), desk.text(1)] == [_TEXT.replace("80", "81")] * 2
    status = desk.file.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o640, 65534, 65534)
    assert desk.apply("--inputs", FILE, "--inputs-key", "age:foreign").code == 0


def test_an_armoured_file_stays_armoured(desk: Desk) -> None:
    """It is text that git can compare."""
    desk.encrypt(FILE, _TEXT, armoured=True)
    assert desk.edit(_REPLACE).code == 0
    assert desk.file.read_text().startswith("-----BEGIN AGE ENCRYPTED FILE-----\n")
    assert "changed" in desk.text()


@pytest.mark.parametrize("source", ["", "file.write_text('')", "file.write_bytes(file.read_bytes())"])
def test_a_text_that_is_not_edited_leaves_the_file_byte_equal(desk: Desk, source: str) -> None:
    """It is not even written again."""
    before = desk.file.read_bytes(), desk.file.stat().st_ino, desk.file.stat().st_mtime_ns
    result = desk.edit(source)
    assert (result.code, result.out) == (0, "")
    assert "nothing has been edited" in result.err
    assert (desk.file.read_bytes(), desk.file.stat().st_ino, desk.file.stat().st_mtime_ns) == before


def test_a_new_file_is_created(desk: Desk) -> None:
    """Only its recipients are needed, and no key; others cannot read it."""
    desk.file.unlink()
    result = desk.edit("file.write_text('port: 1')", key="")
    assert (result.code, result.out) == (0, _WRITTEN)
    assert desk.text(1) == "port: 1"
    assert stat.S_IMODE(desk.file.stat().st_mode) == 0o600


def test_the_copy_is_in_memory_and_private(desk: Desk) -> None:
    """It is in a directory of its own of a file system in memory, and is called like the file."""
    note = "[file, oct(file.stat().st_mode), oct(file.parent.stat().st_mode), file.stat().st_dev]"
    assert desk.edit(f"Path('note').write_text(' '.join(map(str, {note})))").code == 0
    path, mode, above, device = (desk.bench.home / "note").read_text().split()
    assert Path(path).is_relative_to(MEMORY)
    assert Path(path).name == "secrets.yaml"
    assert (mode, above, int(device)) == ("0o100600", "0o40700", MEMORY.stat().st_dev)


def test_a_mistake_is_shown_in_the_copy_and_nowhere_else(desk: Desk) -> None:
    """The editor opens the text again with the message above it, until it is right."""
    again = f"Path('note').write_text(text); file.write_text('a' if '#!' not in text else {_TEXT!r} + 'a: 1')"
    assert desk.edit(again).code == 0
    assert (
        (desk.bench.home / "note").read_text().startswith(f"#! {FILE}:2:1: inputs must be a mapping of name to value\n")
    )
    assert desk.text().endswith("a: 1")
    assert "#!" not in desk.text()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("file.write_text(text + 'sesame-4711')", f"{FILE}:3:1: not valid YAML: "),
        ("file.write_text('[sesame-4711]')", f"{FILE}:1:1: inputs must be a mapping of name to value"),
        ("file.write_text('sesame-4711: 1\\nsesame-4711: 2')", f"{FILE}:2:1: cannot be read here (duplicate)"),
        ("file.write_text('a: {file: 3}')", f"{FILE}:1:1: cannot be read here (input)"),
    ],
)
def test_a_mistake_that_stays_leaves_the_file(desk: Desk, source: str, message: str) -> None:
    """Its message has the line, and nothing of the text."""
    before = desk.file.read_bytes()
    result = desk.edit(source)
    assert result.code == 65
    assert result.err.splitlines()[-1].startswith(message)
    assert desk.file.read_bytes() == before


def _without_recipients(desk: Desk) -> None:
    Path(f"{desk.file}.recipients").unlink()


@pytest.mark.parametrize(
    ("prepare", "file", "key", "code", "message"),
    [
        (
            None,
            "site.yaml",
            "age:key",
            64,
            "site.yaml: an encrypted file ends in .age; another can be edited as it is",
        ),
        (_without_recipients, FILE, "age:key", 64, f"{FILE}.recipients is missing, so nobody could open {FILE} again"),
        (
            lambda desk: desk.recipients("# none"),
            FILE,
            "age:key",
            64,
            f"{FILE}.recipients: there is no recipient in it",
        ),
        (lambda desk: desk.recipients("age1x"), FILE, "age:key", 64, f"{FILE}.recipients: 'age1x' is not a recipient"),
        (
            None,
            FILE,
            "",
            64,
            f"{FILE} is encrypted; name its key with --inputs-key age:PATH or RESOURCE_API_INPUTS_KEY",
        ),
        (None, FILE, "age:nosuch", 64, "nosuch: the key cannot be read: No such file or directory"),
        (None, FILE, "age:site.yaml", 64, "site.yaml: others can use this key; run: chmod go= site.yaml"),
        (None, FILE, "file:key", 64, "'file:key' is no key of inputs: write age:PATH"),
        (
            None,
            FILE,
            "age:foreign",
            65,
            f"{FILE}: cannot be decrypted with --inputs-key age:foreign: No matching keys found",
        ),
        (lambda desk: desk.file.write_bytes(b"port: 1"), FILE, "age:key", 65, "it is not encrypted with age"),
        (
            lambda desk: desk.file.write_bytes(desk.file.read_bytes()[:-1]),
            FILE,
            "age:key",
            65,
            f"{FILE}: cannot be decrypted",
        ),
    ],
)
def test_a_file_that_cannot_be_edited_is_refused_before_the_editor(
    desk: Desk, prepare: Callable[[Desk], object] | None, file: str, key: str, *, code: int, message: str
) -> None:
    """The message names the remedy."""
    if prepare is not None:
        prepare(desk)
    result = desk.edit("Path('ran').touch()", key=key, file=file)
    assert (result.code, message in result.err) == (code, True), result.err
    assert not (desk.bench.home / "ran").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("file.write_text('port: 1'); sys.exit(3)", "ended with exit code 3; nothing is changed"),
        ("Path('secrets.yaml.age').write_bytes(b'x'); file.write_text('port: 1')", "was changed while it was edited"),
        ("file.unlink()", "cannot be used: No such file or directory"),
    ],
)
def test_a_failure_leaves_the_file_as_it_is(desk: Desk, source: str, message: str) -> None:
    """That of the editor, and of a file that another process has written meanwhile."""
    before = desk.file.read_bytes()
    result = desk.edit(source)
    assert result.code == 1
    assert message in result.err
    assert desk.file.read_bytes() in (before, b"x")


def test_a_key_that_is_no_recipient_any_more_is_a_warning(desk: Desk) -> None:
    """The next edit would need another one."""
    desk.recipients(str(desk.identities[1].to_public()))
    result = desk.edit(_REPLACE)
    assert (result.code, result.out) == (0, f"{FILE}: encrypted for 1 recipient.\n")
    assert f"the key age:key does not open it any more: it is not in {FILE}.recipients" in result.err


def test_recipients_that_others_can_change_are_a_warning(desk: Desk) -> None:
    """A user who adds a recipient can read the next version."""
    Path(f"{desk.file}.recipients").chmod(0o666)
    result = desk.edit(_REPLACE)
    assert result.code == 0
    assert f"{FILE}.recipients: others can change these recipients, and read the file then: " in result.err


def test_a_key_and_its_recipient_are_made_by_the_command(desk: Desk) -> None:
    """No other program is needed; an existing file is never overwritten."""
    created = desk.bench.run("new", "key", "mine", "--age", "--json")
    assert created.document["key"] == "age:mine"
    assert stat.S_IMODE((desk.bench.home / "mine").stat().st_mode) == 0o600
    desk.recipients(created.document["recipient"])
    assert desk.edit(_REPLACE).code == 0
    assert desk.edit("file.write_text(text + 'a: 1')", key="age:mine").code == 0
    assert desk.bench.run("new", "key", "mine", "--age").code == 64


def test_an_editor_of_the_user_has_the_terminal(desk: Desk) -> None:
    """Here ``ed``, which prints how many characters it has read."""
    with Terminal() as terminal:
        terminal.run(desk.bench, "inputs", "edit", FILE, EDITOR="ed", RESOURCE_API_INPUTS_KEY="age:key")
        terminal.until(lambda lines: str(len(_TEXT)) in lines)
        terminal.type("1s/80/8080/\nw\nq\n")
        code, lines = terminal.end()
    assert code == 0
    assert lines[-1] == _WRITTEN.strip()
    assert desk.text() == _TEXT.replace("80", "8080")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_killed_edit_leaves_no_copy(desk: Desk, number: int, code: int) -> None:
    """The file is as it was, also after kill -9."""
    before = desk.file.read_bytes()
    source = "file.write_text('port: 1'); Path('copy').write_text(str(file.parent)); time.sleep(20)"
    environment = {**desk.bench.environment, "EDITOR": desk.editor(source), "RESOURCE_API_INPUTS_KEY": "age:key"}
    with (
        Path(os.devnull).open("r+") as nothing,
        command.start(
            ["inputs", "edit", FILE], cwd=desk.bench.home, env=environment, streams=[nothing.fileno()] * 3
        ) as running,
    ):
        note, end = desk.bench.home / "copy", time.monotonic() + 20
        while not note.exists() or not note.read_text():
            assert time.monotonic() < end
            time.sleep(0.02)
        os.kill(running.pid, number)
        assert running.wait() == code
    while Path(note.read_text()).exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert desk.file.read_bytes() == before
