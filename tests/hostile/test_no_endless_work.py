"""Nothing that others have written keeps a run busy: what takes long ends with its time limit and with interrupts."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from resource_api import BackupStore, ResourceError, compute
from resource_api.provider.computation import _compute_in_child
from tests.bundled import execute
from tests.providers.applied import reason, run, run_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENDLESS = "^(a+)+$"
LINE = "a" * 40 + "!"


def took(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its seconds."""
    began = time.monotonic()
    return call(), time.monotonic() - began


@pytest.mark.parametrize("line", [LINE, "a" * 1_200_000 + "!"])
@pytest.mark.parametrize("parallel", [1, 2])
def test_a_wait_ends_with_its_timeout(tmp_path: Path, line: str, parallel: int) -> None:
    """Whatever its pattern does on a line of another user."""
    (tmp_path / "log").write_text(f"{line}\n")
    wait = {"path": f"{tmp_path}/log", "pattern": ENDLESS, "interval": 0.1, "timeout": 3}
    report, seconds = took(lambda: run({"Wait_for[it]": wait}, parallel=parallel)[0])
    assert report.exit_code == 1
    assert "cannot be searched" in reason(report)
    assert seconds < 30


def test_an_answer_that_never_ends_does_not_prolong_a_condition() -> None:
    """Its server sends a byte of a header now and then."""

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
            for _ in range(100):
                connection.sendall(b"x")
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=[listener])
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        reason, seconds = took(lambda: execute("lib", "wait_conditions").unmet({"url": url}, 0.5))
        thread.join()
    assert reason == f"the answer of {url} takes more than 1 s, and was ended"
    assert seconds < 3


def test_a_long_line_is_not_searched(tmp_path: Path) -> None:
    """In what is edited, a line of more than 64 KiB fails the resource and nothing is changed."""
    path = tmp_path / "file"
    path.write_text("x" * 70_000 + "\n")
    for declared in (
        {f"File_line[{path}:a]": {"line": "key=1", "match": "^key"}},
        {f"Block_in_file[{path}:b]": {"block": "x", "after": "^key"}},
    ):
        ((key, attributes),) = declared.items()
        kind, _, title = key.partition("[")
        arguments = {
            f"{kind}[it]": {"path": str(path), **attributes, **({"name": "b"} if "block" in attributes else {})}
        }
        assert "line 1 has more than 64 KiB" in reason(run(arguments)[0]), title
    assert path.read_text() == "x" * 70_000 + "\n"


def test_a_member_that_was_made_huge_is_not_read(tmp_path: Path) -> None:
    """Its owner can give it eight tebibytes of nothing; the archive has its size."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "f").write_text("content")
    archive = {"path": f"{tmp_path}/x", "source": {"archive": {"directory": f"{tmp_path}/source"}}}
    assert reason(run({"Archive[it]": archive})[0]) == ""
    os.truncate(tmp_path / "x" / "f", 1 << 43)
    report, seconds = took(lambda: run({"Archive[it]": archive})[0])
    assert reason(report) == ""
    assert (tmp_path / "x" / "f").read_text() == "content"
    assert seconds < 10


def test_a_file_without_an_end_is_not_read_to_it(tmp_path: Path) -> None:
    """It may grow all the time: the page map of a process has hundreds of gibibytes, and no size."""
    began = time.monotonic()
    with BackupStore(f"{tmp_path}/copies") as store, pytest.raises(ResourceError, match="keeps at most 1024 MiB"):
        store.keep("/proc/self/pagemap")
    assert time.monotonic() - began < 30


COMMAND = """
import sys
from resource_api.cli.main import run
run()
"""


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("Block_in_file", {"name": "b", "block": "x", "after": ENDLESS}),
        ("File_line", {"line": "aa", "match": ENDLESS}),
    ],
)
@pytest.mark.parametrize("parallel", ["1", "2"])
def test_interrupts_end_a_search(tmp_path: Path, kind: str, attributes: dict[str, Any], parallel: str) -> None:
    """The first one is enough: nothing has been changed by then."""
    (tmp_path / "file").write_text(f"{LINE}\n")
    declared = {f"{kind}[it]": {"path": f"{tmp_path}/file", **attributes}}
    (tmp_path / "site.json").write_text(json.dumps({"resources": declared}))
    words = ["apply", f"{tmp_path}/site.json", "--state", "memory:", "--parallel", parallel]
    with subprocess.Popen([sys.executable, "-m", "resource_api", *words], stderr=subprocess.PIPE, text=True) as running:
        try:
            time.sleep(2.5)
            running.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert running.wait(10) == 143
            assert time.monotonic() - began < 10
        finally:
            running.kill()
    assert (tmp_path / "file").read_text() == f"{LINE}\n"


def test_a_computation_ends_and_leaves_no_process() -> None:
    """After its time, with what it raises, with its value, and in a thread too."""
    with pytest.raises(ResourceError, match=r"the search takes more than 0\.5 s, and was ended"):
        compute("the search", lambda: re.search(ENDLESS, LINE), seconds=0.5)
    with pytest.raises(ZeroDivisionError):
        compute("it", lambda: 1 // 0)
    assert compute("it", lambda: "x" * 1_000_000) == "x" * 1_000_000
    with pytest.raises(ResourceError, match="it failed: the computation has died"):
        compute("it", lambda: os.kill(os.getpid(), signal.SIGKILL))
    entries: list[object] = []
    thread = threading.Thread(target=lambda: entries.append(compute("it", lambda: 2)))
    thread.start()
    thread.join()
    assert entries == [2]
    assert not [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]


def test_a_computation_that_is_killed_while_it_answers_is_an_error() -> None:
    """As by the system for want of memory: the part that has come is no answer."""

    def kill() -> None:
        time.sleep(0.5)  # until the pipe is full
        for child in psutil.Process().children():
            child.kill()

    with pytest.raises(ChildProcessError, match="the computation has died"):
        _compute_in_child(lambda: bytes(1 << 24), kill)


@pytest.mark.parametrize("parallel", ["1", "3"])
def test_a_call_that_computes_obeys_its_time_limit(tmp_path: Path, parallel: str) -> None:
    """Also where its provider asks nobody whether to go on."""
    for directory in ("types", "providers"):
        (tmp_path / directory).mkdir()
    (tmp_path / "types" / "busy.py").write_text(
        "from resource_api import Attribute, TypeDefinition\n"
        "TYPE = TypeDefinition(name='busy', docs='Busy.', attributes={\n"
        "    'name': Attribute('String', 'N.', kind='namevar'),\n"
        "    'ensure': Attribute('Enum[present, absent]', 'E.', default='present')})\n"
    )
    (tmp_path / "providers" / "busy.py").write_text(
        "class Provider:\n"
        "    def get(self, context, names=None):\n        return []\n"
        "    def set(self, context, changes):\n        while True:\n            pass\n"
    )
    (tmp_path / "site.json").write_text(json.dumps({"resources": {"Busy[it]": {"timeout": 1}}}))
    words = ["apply", f"{tmp_path}/site.json", "--state", "memory:", "--module-path", str(tmp_path)]
    words += ["--parallel", parallel]
    result, seconds = took(
        lambda: subprocess.run(
            [sys.executable, "-m", "resource_api", *words], capture_output=True, text=True, check=False, timeout=60
        )
    )
    assert result.returncode == 1
    assert "timed out after 1 s" in result.stderr
    assert seconds < 30


def test_a_sparse_fragment_is_not_read(tmp_path: Path) -> None:
    """The limit of a content holds before it is read."""
    (tmp_path / "parts").mkdir()
    with (tmp_path / "parts" / "huge").open("wb") as file:
        file.truncate(100 << 30)
    report, seconds = took(lambda: run({f"Concat[{tmp_path}/made]": {"source": f"{tmp_path}/parts"}})[0])
    assert "more than 16 MiB" in reason(report)
    assert seconds < 10


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "takes more than"),
        ("{% for a in range(99999) %}{{ 'a' * 1000 }}{% endfor %}", "more than 16 MiB"),
        ("{{ 'a' * 10000000000 }}", "GiB of memory"),
    ],
)
def test_a_template_without_end(text: str, messages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time, its memory and its text are bounded."""
    monkeypatch.setattr("resource_api.provider.computation.LIMIT", 3.0)
    values = {"it": {"invoke": "template", "with": {"source": text}}}
    report, _ = run_manifest({"values": values, "resources": {"File[/ra-test]": {"content": "${values.it}"}}})
    assert messages in reason(report)


@pytest.mark.parametrize("word", ["asset", "archive"])
def test_a_sparse_source_is_not_read(tmp_path: Path, word: str) -> None:
    """A content that nobody can mean is refused before its digest is computed."""
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(100 << 30)
    kind = {"asset": "File", "archive": "Archive"}[word]
    attribute = {"asset": "content", "archive": "source"}[word]
    declared = {f"{kind}[{tmp_path}/made]": {attribute: {word: {"file": f"{tmp_path}/huge"}}}}
    began = time.monotonic()
    with pytest.raises(Exception, match="larger than 8 GiB"):
        run(declared)
    assert time.monotonic() - began < 10


def test_a_toml_file_of_many_keys_is_not_changed(tmp_path: Path) -> None:
    """The library that keeps comments needs 0.2 ms for each part, so the parts are counted before it reads the file."""
    text = "".join(f"a{number}.b{number}.c{number} = {number}\n" for number in range(20_000))
    path = tmp_path / "x.toml"
    path.write_text(text)
    report, seconds = took(lambda: run({f"Toml_setting[{path}: z]": {"path": str(path), "key": "z", "value": 1}})[0])
    assert reason(report) == f"{path}: has too many parts"
    assert path.read_text() == text
    assert seconds < 15


@pytest.mark.parametrize("form", ["{}=1", "[{}]\nb=1", "c={{{}=1}}"])
def test_a_toml_key_of_many_parts_is_not_read(tmp_path: Path, form: str) -> None:
    """The parser's time grows with the square of the parts, in a file that is too small to be read elsewhere."""
    settings = execute("lib", "structured_settings")
    text = form.format(".".join("a" * 16_000))
    assert len(text) < settings.SHORT < settings.LIMIT
    path = tmp_path / "x.toml"
    path.write_text(text)
    report, seconds = took(lambda: run({f"Toml_setting[{path}: z]": {"path": str(path), "key": "z", "value": 1}})[0])
    assert reason(report) == f"{path}:1: is no valid TOML: the key has too many parts"
    assert seconds < 3
