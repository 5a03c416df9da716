"""The laws of inventories: what a host gets from defaults, groups and itself, and every mistake with its place."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.fleet import inventory
from resource_api.fleet.connections import Host
from resource_api.fleet.job_inputs import CommonInputs, HostInputs
from resource_api.manifest.input_files import InputFiles
from resource_api.manifest.input_values import FileInput, TextInput
from resource_api.manifest.read import READERS, read_mapping
from resource_api.manifest.sections import MAPPING, assemble
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.values import Sensitive
from resource_api.system.filesystem.code_trust import CodeTrust

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api.fleet.inventory import Inventory

READER: Final = InputFiles(CodeTrust())
SITE: Final = """\
defaults: {user: deploy, become: sudo, via: bastion.example.org, inputs: {workers: 2, role: none}}
hosts:
  "web[1:3]": {groups: [web], inputs: {role: front}}
  web2: {port: 2222, inputs: {role: canary}}
  db1: {address: 10.0.0.9, groups: [db, web], become: none, timeout: 3, transport: ssh}
  spare:
groups:
  web: {inputs: {workers: 8}}
  db: {user: postgres}
"""


def parse(text: str) -> Inventory:
    """Read an inventory in YAML."""
    return inventory.build(READERS[".yaml"](text.encode(), "hosts.yaml"))


def problems(text: str) -> list[str]:
    """Return the mistakes of an inventory."""
    with pytest.raises(ManifestError) as refused:
        parse(text)
    return list(map(str, refused.value.problems))


def inputs_of(inventory: Inventory, name: str) -> dict[str, Any]:
    """Return the inputs of a host as they are written."""
    return {key: item.value for key, item in inventory.settings_of(name).inputs.items()}


def test_a_host_is_reached_as_defaults_groups_and_its_keys_say() -> None:
    """The more particular wins; a later key of the same host wins over an earlier one."""
    result = parse(SITE)
    web = Host("web1", "", None, "deploy", "bastion.example.org", become="sudo", groups=("web",))
    assert [result.host(name) for name in ("web1", "web2", "db1", "spare")] == [
        web,
        web._replace(name="web2", port=2222),
        Host(
            "db1", "10.0.0.9", None, "postgres", "bastion.example.org", connect_timeout=3.0, groups=("web", "db"),
            transport="ssh",
        ),
        web._replace(name="spare", groups=()),
    ]  # fmt: skip
    assert [result.transport(name) for name in ("web1", "db1", "elsewhere")] == ["asyncssh", "ssh", "asyncssh"]
    assert inputs_of(result, "web1") == {"workers": 8, "role": "front"}
    assert inputs_of(result, "web2") == {"workers": 8, "role": "canary"}
    assert inputs_of(result, "spare") == {"workers": 2, "role": "none"}
    assert result.groups == {"web": ["web1", "web2", "web3", "db1"], "db": ["db1"]}


def test_a_host_that_is_not_in_the_inventory_is_an_address_with_its_defaults() -> None:
    """What stands in the name wins."""
    host = parse(SITE).host("admin@10.1.1.1:2200")
    assert host == Host(
        "admin@10.1.1.1:2200", "10.1.1.1", 2200, "admin", "bastion.example.org", become="sudo", groups=()
    )
    assert inventory.EMPTY.host("web1") == Host("web1", "web1")


def test_a_group_may_list_its_hosts() -> None:
    """Hosts that no key names are declared by this."""
    result = parse("groups: {web: {hosts: ['web[1:2]', db1], port: 22}}\nhosts: {db1: {groups: [db]}}\n")
    assert result.groups == {"web": ["db1", "web1", "web2"], "db": ["db1"]}
    assert result.host("web2").port == 22


def test_ten_thousand_hosts_share_what_they_have_in_common() -> None:
    """One value for all of a range."""
    result = parse('hosts: {"web[1:10000]": {inputs: {role: front}}}\n')
    assert len(result.hosts) == 10_000
    assert len({id(result.settings_of(name)) for name in result.hosts}) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "hosts.yaml:1:1: an inventory must be a mapping"),
        ("host: {}", "hosts.yaml:1:1: unknown key host; did you mean 'hosts'?"),
        ("hosts: [web1]", "hosts.yaml:1:8: hosts must be a mapping"),
        ("hosts:\n  web1: {usr: x}", "hosts.yaml:2:10: unknown key usr of web1; did you mean 'user'?"),
        (
            "defaults: {address: x}",
            (
                "hosts.yaml:1:12: unknown key address of defaults;"
                " known are port, user, become, become_password, via, identity, transport, timeout, python, inputs"
            ),
        ),
        ("hosts:\n  web1: {port: 0}", "hosts.yaml:2:16: port must be a number from 1 to 65535"),
        ("hosts:\n  web1: {user: -oX}", "hosts.yaml:2:16: user must be the name of a user"),
        ("hosts:\n  web1: {become: su}", "hosts.yaml:2:18: become must be one of none, sudo, doas"),
        ("hosts:\n  web1: {address: -x}", "hosts.yaml:2:19: address must be a name or an address of a host"),
        ("hosts:\n  web1: {via: ''}", "hosts.yaml:2:15: via must be a host, or several with a comma between them"),
        (
            "hosts:\n  web1: {via: 'a:99999'}",
            "hosts.yaml:2:15: via must be a host, or several with a comma between them",
        ),
        (
            "hosts:\n  web1: {via: 'u:pw@a'}",
            "hosts.yaml:2:15: via must be a host, or several with a comma between them",
        ),
        ("hosts:\n  web1: {via: 'a,'}", "hosts.yaml:2:15: via must be a host, or several with a comma between them"),
        ("hosts:\n  web1: {identity: 3}", "hosts.yaml:2:20: identity must be the path of a key"),
        ("hosts:\n  web1: {transport: scp}", "hosts.yaml:2:21: transport must be one of asyncssh, ssh"),
        ("defaults: {transport: [ssh]}", "hosts.yaml:1:23: transport must be one of asyncssh, ssh"),
        ("hosts:\n  web1: {timeout: 0}", "hosts.yaml:2:19: timeout must be a number of seconds"),
        ("hosts:\n  web1: {python: python3}", "hosts.yaml:2:18: python must be an absolute path"),
        ("hosts:\n  web1: {groups: web}", "hosts.yaml:2:18: groups must be a list of names"),
        ("hosts:\n  web1: {groups: ['a,b']}", "hosts.yaml:2:18: groups must be a list of names"),
        ("hosts:\n  web1: {inputs: 3}", "hosts.yaml:2:18: inputs must be a mapping"),
        ("hosts:\n  'web[3:1]': {}", "hosts.yaml:2:3: 'web[3:1]': '3:1' ends before it begins"),
        (
            "hosts:\n  root@web1: {}",
            "hosts.yaml:2:3: root@web1 is no name of a host; user, port and address are keys beneath it",
        ),
        ("hosts:\n  10: {}", "hosts.yaml:2:3: a key must be a string; write it in quotes"),
        ("groups:\n  'a b': {}", "hosts.yaml:2:3: a b must be a name of a group: a word without any of []@!&,:/"),
        (
            "hosts: {web: {}, a: {groups: [web]}}",
            "hosts.yaml:1:9: 'web' is a host and a group; give one of them another name",
        ),
        (
            "hosts: {a: {groups: [x, y]}}\ngroups:\n  x: {inputs: {n: 1}}\n  y: {inputs: {n: 2}}",
            (
                "hosts.yaml:4:16: two groups of one host disagree about n: the other one is at line 3;"
                " the host's own would win"
            ),
        ),
        (
            "hosts: {a: {inputs: {b: {command: ''}}}}",
            (
                "hosts.yaml:1:22: command must be a program and its arguments;"
                " a literal mapping is written {value: {command: ...}}"
            ),
        ),
        ("hosts: {a: {}, a: {}}", "hosts.yaml:1:16: duplicate key 'a'; first at line 1, column 9"),
        ("hosts: [", "hosts.yaml:1:9: not valid YAML: did not find expected node content while parsing a flow node"),
    ],
)
def test_a_mistake_has_its_line_and_column(text: str, reason: str) -> None:
    """It is named, with what to do."""
    assert problems(text) == [reason]


def test_all_mistakes_are_shown_at_once() -> None:
    """In the order of their lines."""
    result = problems("defaults: {port: x}\nhosts:\n  web1: {become: su, groups: 3}\nmore: 1\n")
    assert [item.split(":")[1] for item in result] == ["1", "3", "3", "4"]


def test_the_host_itself_settles_what_groups_disagree_about() -> None:
    """Then there is nothing to decide between them."""
    result = parse("hosts: {a: {groups: [x, y], port: 3}}\ngroups: {x: {port: 1}, y: {port: 2}}\n")
    assert result.host("a").port == 3


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    """It is missing, or no file."""
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ManifestError, match="cannot be read: "):
            inventory.read(str(path), READER)


# Inputs

MANIFEST: Final = {
    "inputs": {
        "role": {"type": "String", "default": "none"},
        "workers": {"type": "Integer", "default": 1},
        "password": {"type": "Sensitive[String]", "default": "x"},
    },
    "resources": {},
}


def resolved(
    text: str, names: list[str], *, weaker: dict[str, Any] | None = None, stronger: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the inputs of hosts of an inventory in YAML, for the manifest above."""
    result, manifest = parse(text), assemble([read_mapping(MANIFEST, MAPPING)])
    read = HostInputs(
        manifest, CommonInputs(weaker or {}, stronger or {}), lambda source: f"{source.kind} {source.text}"
    )
    return read.of_all((name, result) for name in names)


def test_an_input_of_the_command_line_wins_over_the_host_and_that_over_the_stack() -> None:
    """Text of the command line becomes what the manifest declares."""
    result = resolved(
        'hosts: {"web[1:2]": {inputs: {role: front, workers: 8}}, web2: {inputs: {workers: 9}}}\n',
        ["web1", "web2", "other"],
        weaker={"role": "stack", "workers": 3},
        stronger={"role": TextInput("given")},
    )
    assert result == {
        "web1": {"role": "given", "workers": 8},
        "web2": {"role": "given", "workers": 9},
        "other": {"role": "given", "workers": 3},
    }


def test_a_secret_is_named_by_a_file_or_a_program() -> None:
    """The host's name is part of the name, where it is written there; what the manifest does not declare is left."""
    result = resolved(
        "defaults: {inputs: {workers: {command: [echo, '4']}, other: 3}}\n"
        'hosts: {"web[1:2]": {inputs: {password: {file: "/run/secrets/${host.name}"}}}}\n',
        ["web1"],
        stronger={"workers": FileInput("4")},
    )
    assert result == {"web1": {"workers": 4, "password": Sensitive("file /run/secrets/web1")}}


def test_a_secret_that_is_written_in_place_is_refused() -> None:
    """With its line, the hosts that have it, and the correct form."""
    with pytest.raises(ManifestError) as refused:
        resolved("hosts:\n  'web[1:9]':\n    inputs: {password: hunter22}\n", [f"web{n}" for n in range(1, 10)])
    assert str(refused.value) == (
        "hosts.yaml:3:14: web[1:9]: input 'password' is sensitive and cannot be written here;"
        " write password: {file: PATH} or password: {command: PROGRAM}"
    )


def test_a_wrong_value_is_placed_where_it_is_written() -> None:
    """In the inventory, not in the manifest; the hosts that have it are named once."""
    with pytest.raises(ManifestError) as refused:
        resolved("hosts:\n  'web[1:3]': {inputs: {workers: many}}\n", ["web1", "web3"])
    assert str(refused.value) == "hosts.yaml:2:25: web[1,3]: input 'workers': must be an integer, not a string"


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("{file: missing}", "PLACE/missing: No such file or directory"),
        ("{file: 'of/${host.name}'}", "PLACE/of/a: No such file or directory"),
        ("{file: .}", "PLACE/.: it is not a regular file"),
        ("{file: large}", "PLACE/large: it is larger than 100 MB"),
        ("{command: ['false']}", "false: it has failed with exit code 1"),
        ("{command: [sh, -c, 'kill -9 $$']}", "sh: it was ended by signal 9"),
        ("{command: echo 'hunter22}", "command: No closing quotation"),
        ("{command: no-such-program --more}", "no-such-program: No such file or directory"),
        ("{command: [printf, '\\377']}", "printf: it is not UTF-8"),
        ("{command: [cat, large, large]}", "cat: it has printed more than 100 MB"),
        ("{command: ./theirs}", "./theirs: it is not executed, because others could have changed it: 'PLACE/theirs'"),
    ],
)
def test_what_cannot_be_read_names_the_input_and_the_reason(tmp_path: Path, written: str, reason: str) -> None:
    """Nothing of the data that was read is quoted."""
    path = tmp_path / "hosts.yaml"
    path.write_text(f"hosts: {{a: {{inputs: {{password: {written}}}}}}}\n")
    (tmp_path / "theirs").write_text("#!/bin/sh\n")
    (tmp_path / "theirs").chmod(0o777)
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 100_000_001)
    text = inventory.read(str(path), READER)
    read = HostInputs(assemble([read_mapping(MANIFEST, MAPPING)]), CommonInputs({}, {}))
    with pytest.raises(ManifestError) as refused:
        read.of_all([("a", text)])
    assert f"input 'password': {reason.replace('PLACE', str(tmp_path))}" in str(refused.value)
    assert "hunter22" not in str(refused.value)


def test_a_relative_file_and_a_program_are_beside_the_inventory(tmp_path: Path) -> None:
    """Whatever the working directory is."""
    (tmp_path / "secret").write_text("from a file\n")
    path = tmp_path / "hosts.json"
    inputs = {"password": {"file": "secret"}, "role": {"command": "cat secret"}}
    path.write_text(json.dumps({"hosts": {"a": {"inputs": inputs}}}))
    read = HostInputs(assemble([read_mapping(MANIFEST, MAPPING)]), CommonInputs({}, {}))
    result = read.of_all([("a", inventory.read(os.fspath(path), READER))])
    assert result["a"] == {"password": Sensitive("from a file"), "role": "from a file"}


def test_what_a_program_declares_is_left_to_it() -> None:
    """A Python manifest is executed on the host: what was read stays what may be a secret."""
    result = parse("hosts: {a: {inputs: {password: {file: x}, workers: 3}}}\n")
    read = HostInputs(None, CommonInputs({}, {"role": TextInput("front")}), lambda _: "hunter22")
    inputs = read.of_all([("a", result)])["a"]
    assert inputs == {"password": "hunter22", "workers": 3, "role": "front"}
    assert type(inputs["password"]) is FileInput


@pytest.mark.parametrize("name", ["hosts", "hosts.yaml"])
def test_a_missing_inventory_cannot_be_read(tmp_path: Path, name: str) -> None:
    """Also one whose name has no suffix, which could be a program."""
    with pytest.raises(ManifestError, match="cannot be read: No such file or directory"):
        inventory.Selection(None, CodeTrust(), READER).find([f"@{tmp_path / name}"])
