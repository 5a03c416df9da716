"""Modules of Ansible where there is none; ``tests/peers`` has the tests with the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from tests.bundled import execute
from tests.namespaces import without_program
from tests.providers.applied import REGISTRY, reason, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINE: dict[str, Any] = {"module": "lineinfile", "args": {"path": "/tmp/x", "line": "hello"}}  # noqa: S108 - never made


@pytest.fixture
def _no_ansible() -> Iterator[None]:
    """Hide the program from this thread."""
    with without_program("ansible"):
        yield


@pytest.mark.usefixtures("_no_ansible")
def test_a_machine_without_ansible_is_told_what_to_install() -> None:
    """At its turn: an earlier resource may install it."""
    report, _ = run({"Ansible_module[x]": LINE})
    assert reason(report).startswith("command 'ansible' not found in /usr/local/sbin:")
    assert reason(report).endswith("; install ansible-core, or name its interpreter in 'python'")


def test_an_interpreter_that_does_not_exist_is_refused() -> None:
    """With its path."""
    report, _ = run({"Ansible_module[x]": {**LINE, "python": "/no/such/python"}})
    assert "/no/such/python" in reason(report)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"args": {}}, "module"),
    ({**LINE, "module": "a b"}, "the name of a module"),
    ({**LINE, "module": "../x"}, "the name of a module"),
    ({**LINE, "args": ["x"]}, "args"),
    ({**LINE, "python": "python3"}, "an absolute path"),
    ({**LINE, "result": {}}, "result"),
]


@pytest.mark.parametrize(("declared", "expected"), WRONG)
def test_wrong_values_are_refused(declared: dict[str, Any], expected: str) -> None:
    """In the manifest, without Ansible."""
    with pytest.raises(ManifestError, match=expected):
        Runtime(REGISTRY).validate({"project": "p", "resources": {"Ansible_module[x]": declared}})


INTERPRETERS = [
    "#!/opt/venv/bin/python3.11\nimport sys\n",
    "#!/bin/sh\n'''exec' \"/opt/venv/bin/python3.11\" \"$0\" \"$@\"\n' '''\n",
    "#!/bin/sh\n'''exec' /opt/venv/bin/python3.11 \"$0\" \"$@\"\n' '''\n",
]


@pytest.mark.parametrize("text", INTERPRETERS)
def test_the_interpreter_of_a_script_is_found(text: str) -> None:
    """In both forms that pip writes."""
    match = execute("lib", "ansible_process").SHEBANG.match(text)
    assert match
    assert match[1] == "/opt/venv/bin/python3.11"


def test_a_helper_that_ends_without_ansible_is_one_sentence(tmp_path: Path) -> None:
    """With the interpreter and its last words."""
    python = tmp_path / "python"
    # Without the packages of the system.
    python.write_text('#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n')
    python.chmod(0o755)
    report, _ = run({"Ansible_module[x]": {**LINE, "python": str(python)}})
    assert reason(report) == f"'{python}' returned 1: No module named 'ansible'"
