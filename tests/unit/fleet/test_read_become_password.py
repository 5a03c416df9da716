"""Passwords for sudo and doas: one line from a file or a program, or the reason why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from resource_api.fleet.ssh_connections import BecomePasswords
from resource_api.manifest.input_files import ValueSource
from resource_api.model.values.errors import ResourceError

if TYPE_CHECKING:
    from pathlib import Path

_NONE = "a password is one line, and there is none"
_MORE = "a password is one line, and there are more"


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("file", "empty", f"PLACE/empty: {_NONE}"),
        ("file", "line-end", f"PLACE/line-end: {_NONE}"),
        ("file", "lines", f"PLACE/lines: {_MORE}"),
        ("file", "missing", "PLACE/missing: No such file or directory"),
        ("command", "true", f"true: {_NONE}"),
        ("command", "cat lines", f"cat: {_MORE}"),
        ("command", "false", "false: it has failed with exit code 1"),
        ("file", "return", "PLACE/return: a password has no control characters"),
        ("file", "zero", "PLACE/zero: a password has no control characters"),
    ],
)
def test_what_is_no_password_is_refused_with_its_place(tmp_path: Path, kind: str, text: str, reason: str) -> None:
    """Nothing of the data that was read is quoted: sudo would read the first line, and what runs there the others."""
    files = {"empty": "", "line-end": "\n", "lines": "hunter2\nlogin: root\n", "return": "hunter2\rx", "zero": "a\0b"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode())
    with pytest.raises(ResourceError) as refused:
        BecomePasswords().read(ValueSource(kind, text, str(tmp_path)))
    assert str(refused.value) == f"become_password: {reason.replace('PLACE', str(tmp_path))}"


def test_a_password_is_read_without_its_line_end(tmp_path: Path) -> None:
    """Whether it has one or not, or that of Windows, whose carriage return would end the line for sudo."""
    for content in (b"hunter2", b"hunter2\n", b"hunter2\r\n"):
        (tmp_path / "password").write_bytes(content)
        assert BecomePasswords().read(ValueSource("file", "password", str(tmp_path))).reveal() == "hunter2"
