"""Messages of bundled types: one about a file begins with its path; a command with quotes is readable to its end."""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, ResourceError, Runtime
from tests import bundled
from tests.providers.applied import REGISTRY, reason, run

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api import TypeDefinition

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIEn4yLhvJ5wlrUxLbBVFG2GmBJp0mRPd8Z5S4e3nHj9K"
TYPES: dict[str, dict[str, Any]] = {
    "File_line": {"line": "a"},
    "Block_in_file": {"block": "a"},
    "Ini_setting": {"setting": "a", "value": 1},
    "Json_setting": {"key": "a", "value": 1},
    "Yaml_setting": {"key": "a", "value": 1},
    "Toml_setting": {"key": "a", "value": 1},
    "X509_key": {},
    "X509_certificate": {"private_key": "/k", "subject": {"CN": "a"}},
    "Nft_ruleset": {"content": "table ip a {}"},
    "Resolver": {"nameservers": ["192.0.2.1"]},
    "Host": {"ip": "192.0.2.1"},
    "Sysctl": {"name": "a.b", "value": 1, "apply": False},
    "Known_host": {"type": "ed25519", "key": KEY},
    "Ssh_authorized_key": {"user": "root", "type": "ed25519", "key": KEY},
}
GRANTS: dict[str, dict[str, Any]] = {
    "Postgresql_grant": {"privilege": ["SELECT"]},
    "Mysql_grant": {"privileges": ["SELECT"]},
}


def test_a_copy_that_cannot_be_made_is_an_error_with_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who may not write beside it."""
    whole_directory = bundled.execute("lib", "whole_directory")
    monkeypatch.setattr(whole_directory, "STAGE", "/proc/none/stage")
    with (
        pytest.raises(ResourceError, match=r"^no such file or directory: /proc/none/stage\.lock$"),
        whole_directory.stage(),
    ):
        pass


@pytest.mark.parametrize(
    ("kind", "path", "declared"),
    [
        ("File", "/dev/null", {"content": "a"}),
        ("File", "/proc/none", {"content": "a"}),
        ("File_tree", "/etc/passwd", {"source": "/etc/apt"}),
        ("Acl", "/proc/version", {"permission": ["user:root:r"]}),
        ("Capability", "/dev/null", {"capability": "cap_chown=ep"}),
        ("Concat", "/etc", {"source": "/etc/apt"}),
        ("Git_checkout", "/etc/passwd", {"source": "file:///none"}),
        ("Python_venv", "/etc/passwd", {}),
    ],
)
def test_a_path_that_the_title_does_not_tell_is_said(kind: str, path: str, declared: dict[str, Any]) -> None:
    """Of what cannot be read, and of what cannot be changed, in the report and in the log."""
    report, lines = run({f"{kind}[a]": {"path": path, **declared}})
    error = reason(report)
    assert error.startswith(f"{path}: ")
    assert any(error in line or f"{path}: Processing failed: " in line for line in lines)
    assert reason(run({f"{kind}[{path}]": declared})[0]) == error.removeprefix(f"{path}: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has keys of root and rules of the kernel")
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("obstacle", ["directory", "large"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, kind: str, obstacle: str) -> None:
    """A directory in its place, and one that is too large."""
    path = tmp_path / "file"
    path.mkdir() if obstacle == "directory" else path.write_bytes(b"\n" * (17 << 20))
    location = "target" if kind in {"Host", "Sysctl", "Known_host", "Ssh_authorized_key"} else "path"
    error = reason(run({f"{kind}[a]": {**TYPES[kind], location: str(path)}})[0])
    assert str(path) in error
    assert error.startswith(str(path)) or " cannot be read: " in error


@pytest.mark.parametrize(
    ("kind", "declared", "end"),
    [
        ("Exec", {"command": "exit 3", "shell": True}, "-c 'exit 3'\" returned 3 instead of 0"),
        ("Assert", {"command": ["/bin/sh", "-c", "exit 3"]}, "-c 'exit 3'\" returned 3"),
        ("File", {"content": "a", "validate_cmd": "/bin/sh -c 'exit 3' %"}, "-c 'exit 3' %\", and not written"),
    ],
)
def test_a_command_with_single_quotes_is_shown_in_double_ones(
    tmp_path: Path, kind: str, declared: dict[str, Any], end: str
) -> None:
    """Its end can be told from the end of a word."""
    message = reason(run({f"{kind}[{tmp_path / 'file'}]": declared})[0])
    assert end in message
    assert "'/bin/sh" not in message
    assert '"/bin/sh' in message


def test_a_guard_with_single_quotes_is_shown_in_double_ones() -> None:
    """As the reason of a run."""
    [step] = Runtime(REGISTRY).plan({"resources": {"Exec[true]": {"onlyif": "sh -c 'exit 0'"}}}).steps
    assert step.decision.reasons == ("\"sh -c 'exit 0'\" succeeds",)


def refusal(resources: dict[str, Any]) -> str:
    """Return the problems of a manifest; empty for a valid one."""
    try:
        Runtime(REGISTRY).plan({"resources": resources})
    except ManifestError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("definition", [REGISTRY.type(name) for name in REGISTRY.names()], ids=repr)
def test_a_value_that_is_not_known_yet_is_tolerated(definition: TypeDefinition) -> None:
    """Of any attribute, whole or in a list, and beside values of the attributes that most types have."""
    later, failures = "${Ansible_module[later].result.value}", []
    common = {name: "/a" for name in ("path", "value", "content", "section") if name in definition.attributes}
    settable = [name for name, attribute in definition.attributes.items() if attribute.kind != "read_only"]
    for name, value, declared in product(settable, (later, ["/a", later]), ({}, common)):
        body = dict.fromkeys(definition.namevars, "/a") | declared | {definition.spelling(name): value}
        resources = {"Ansible_module[later]": {"module": "ping"}, f"{definition.name.capitalize()}[/a]": body}
        try:
            Runtime(REGISTRY).validate({"resources": resources})
        except ManifestError as error:
            failures += [problem.text for problem in error.problems if "failed: " in problem.text]
    assert failures == []


@pytest.mark.parametrize("title", ["?", "a b c d e f g h", "/a"])
def test_a_title_that_lacks_a_namevar_is_the_only_problem(title: str) -> None:
    """A provider judges no resource without its name, and its code is no part of a message."""
    types = [definition for definition in map(REGISTRY.type, REGISTRY.names()) if len(definition.namevars) > 1]
    assert types
    for definition in types:
        name = definition.name.capitalize()
        resources = {f"{name}[{title}]": TYPES.get(name, GRANTS.get(name, {}))}
        assert "failed: " not in refusal(resources), name
        assert ".py:" not in refusal(resources), name
