"""Law F10: on a bare Debian every bundled type answers, with what there is or with one clear sentence.

In ``make test-all``: the trees of two Debians take a minute of processor time. As root.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.system.facts import Facts
from tests.fleet.bare_debian import STATE, SUITES, Bare, tree

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root"),
    pytest.mark.skipif(
        not os.environ.get("FAULTS_ALL_POINTS"), reason="in `make test-all`; a minute of processor time"
    ),
]

ROOT: Final = Path(__file__).resolve().parents[2]
#: Types with functions and no resources.
FUNCTIONS: Final = {"std", "template"}
TYPES: Final = {path.stem for path in (ROOT / "types").glob("*.py")} - FUNCTIONS
KEY: Final = "AAAAC3NzaC1lZDI1NTE5AAAAIGmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy1"
#: Files of the host, beside its state, that are read.
FILES: Final = {
    "a.ini": "[a]\nb = 1\n",
    "a.json": '{"a": 1}\n',
    "a.toml": "a = 1\n",
    "a.yaml": "a: 1\n",
    "key": "-----BEGIN PRIVATE KEY-----\n",
    "certificate": "-----BEGIN CERTIFICATE-----\n",
}
#: A resource of each type, of those that exist where a type has such.
RESOURCES: Final = {
    "acl": "Acl[/srv]: {permission: ['user:daemon:rwx']}",
    "alternatives": "Alternatives[ra-test]: {link: /usr/bin/ra-test, choices: {/bin/true: {priority: 5}}}",
    "ansible_module": "Ansible_module[line]: {module: lineinfile, args: {path: /etc/motd, line: hi}}",
    "apt_key": "Apt_key[6F6B15509CF8E59E6E469F327F438280EF8D349F]: {source: /srv/key.asc}",
    "apt_pin": "Apt_pin[ra-test]: {packages: [git], pin: version 1.1*, priority: 900}",
    "apt_source": "Apt_source[ra-test]: {uris: ['file:/srv/r'], suites: [./]}",
    "archive": "Archive[/srv/site]: {source: {archive: {files: {index.html: {asset: {text: hi}}}}}}",
    "assert": "Assert[this is Debian]: {value: '${facts.os.name}', one_of: [Debian]}",
    "block_in_file": "Block_in_file[/etc/fstab:ra-test]: {block: text}",
    "capability": "Capability[/usr/bin/true]: {ensure: absent}",
    "concat": "Concat[/etc/ra-test]: {source: [/etc/passwd]}",
    "cron": "Cron[ra-test]: {command: /bin/true, minute: 5}",
    "exec": "Exec[/bin/true]: {}",
    "file": "File[/etc/passwd]: {owner: root}",
    "file_line": "File_line[/etc/passwd:^root:]: {line: 'root:x:0:0:root:/root:/bin/bash'}",
    "file_tree": "File_tree[/etc/alternatives]: {owner: root}",
    "git_checkout": "Git_checkout[/srv/app]: {source: /srv/code, revision: main}",
    "group": "Group[root]: {gid: 0}",
    "host": "Host[ra-test.example]: {ip: 192.0.2.2}",
    "hostname": "Hostname[system]: {hostname: web1}",
    "http_resource": "Http_resource[web-1]: {body: {role: web}}",
    "ini_setting": f"Ini_setting[{STATE}/a.ini:a:b]: {{value: 1}}",
    "json_setting": f"Json_setting[{STATE}/a.json:a]: {{value: 1}}",
    "known_host": f"Known_host[ra-test.example@ed25519]: {{key: {KEY}}}",
    "locale": "Locale[de_DE.UTF-8]: {}",
    "logrotate_rule": "Logrotate_rule[ra-test]: {content: {/srv/*.log: {rotate: 4}}}",
    "mount": "Mount[/srv]: {device: tmpfs, fstype: tmpfs}",
    "mysql_database": "Mysql_database[app]: {}",
    "mysql_grant": "Mysql_grant[app@localhost on shop.*]: {privileges: [SELECT]}",
    "mysql_user": "Mysql_user[app@localhost]: {}",
    "nft_ruleset": "Nft_ruleset[/etc/nftables.conf]: {content: 'table inet ra-test {}'}",
    "notify": "Notify[hello]: {}",
    "package": "Package[dpkg]: {}",
    "postgresql_database": "Postgresql_database[app]: {}",
    "postgresql_grant": "Postgresql_grant[app on database shop]: {privilege: [CONNECT]}",
    "postgresql_role": "Postgresql_role[app]: {}",
    "python_package": "Python_package[flask /srv/venv]: {}",
    "python_venv": "Python_venv[/srv/venv]: {}",
    "resolver": "Resolver[/etc/resolv.conf]: {nameservers: [192.0.2.1]}",
    "service": "Service[ra-test]: {ensure: stopped}",
    "ssh_authorized_key": f"Ssh_authorized_key[ra-test]: {{user: root, type: ssh-ed25519, key: {KEY}}}",
    "sudo_rule": "Sudo_rule[ra-test]: {user: daemon, commands: [/usr/bin/true]}",
    "sysctl": "Sysctl[kernel.hostname]: {value: bare}",
    "systemd_unit": "Systemd_unit[ra-test.service]: {content: {Service: {ExecStart: /bin/true}}}",
    "tidy": "Tidy[/var/tmp]: {age: 1d}",
    "timezone": "Timezone[system]: {zone: Etc/UTC}",
    "toml_setting": f"Toml_setting[{STATE}/a.toml:a]: {{value: 1}}",
    "user": "User[root]: {uid: 0}",
    "user_service": "User_service[sync root]: {ensure: stopped}",
    "wait_for": "Wait_for[the users]: {path: /etc/passwd}",
    "x509_certificate": f"X509_certificate[{STATE}/certificate]: {{private_key: {STATE}/key, subject: {{CN: a}}}}",
    "x509_key": f"X509_key[{STATE}/key]: {{}}",
    "yaml_setting": f"Yaml_setting[{STATE}/a.yaml:a]: {{value: 1}}",
}
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: What is said instead of reading a resource, because the host lacks what it is read with.
REFUSED: Final = {
    "ansible_module": f"command 'ansible' not found in {PATH}; install ansible-core, or name its interpreter in"
    " 'python'",
    "apt_key": f"command 'gpg' not found in {PATH}",
    "cron": f"the crontab of 'root' cannot be read: command 'crontab' not found in {PATH}",
    "http_resource": "GET http://127.0.0.1:9/hosts: network is unreachable",
    **dict.fromkeys(
        ("mysql_database", "mysql_grant", "mysql_user"),
        "cannot connect to the server at /run/mysqld/mysqld.sock: No such file or directory",
    ),
    "postgresql_database": "there is no user 'postgres' to run it as",
    "postgresql_grant": "there is no user 'postgres' to run it as",
    "postgresql_role": "there is no user 'postgres' to run it as",
    "user_service": "no implementation of User_service is suitable here: user_service (systemd does not manage this"
    " machine (there is no /run/systemd/system))",
    "x509_certificate": "needs the Python module cryptography (Debian: python3-cryptography): No module named"
    " 'cryptography'",
    "x509_key": "needs the Python module cryptography (Debian: python3-cryptography): No module named 'cryptography'",
    "yaml_setting": f"{STATE}/a.yaml: needs the Python module yaml (pip install 'resource-api[settings]'): No module"
    " named 'yaml'",
}
#: What a plan says is missing for a change.
MISSING: Final = {
    "git_checkout": f"command 'git' not found in {PATH}",
    "known_host": "the directory '/etc/ssh' does not exist",
    "locale": "there is no source of it in /usr/share/i18n/locales",
    "logrotate_rule": f"command 'logrotate' not found in {PATH}",
    "nft_ruleset": f"command 'nft' not found in {PATH}",
    "python_venv": "'/usr/bin/python3' has no module ensurepip, which gives the environment its pip",
    "sudo_rule": f"command 'visudo' not found in {PATH}",
    "sysctl": "the directory '/etc/sysctl.d' does not exist",
    "systemd_unit": f"command 'systemd-analyze' not found in {PATH}",
}
#: Types of which resources exist here, without anything that a run has made.
PRESENT: Final = {
    "alternatives", "group", "hostname", "logrotate_rule", "package", "resolver", "timezone", "user",
}  # fmt: skip
_DEFERRED: Final = "deferred: "


@pytest.fixture(scope="module", params=SUITES)
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """Return a host of each Debian."""
    tree(request.param)
    created = Bare(request.param, tmp_path_factory.mktemp(request.param))
    for name, text in FILES.items():
        (created.state / name).write_text(text)
    return created


def typed(reference: str) -> str:
    """Return the name of the type of a reference."""
    return reference.partition("[")[0].lower()


def of(events: list[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """Return the events of one type."""
    return [event for event in events if event["type"] == kind]


def test_every_type_has_a_resource_here() -> None:
    """So that a new type is read on a bare host, too."""
    assert set(RESOURCES) == TYPES


def test_the_first_contact_needs_nothing_but_python(bare: Bare) -> None:
    """What is declared is done; the next run, which finds all in the cache, changes nothing."""
    manifest = f"project: bare\nresources:\n  File[{STATE}/motd]: {{content: hi}}\n  User[root]: {{uid: 0}}\n"
    first = bare.events("apply", manifest)
    (hello,), (summary,) = of(first, "hello"), of(first, "summary")
    assert (hello["python"].rpartition(".")[0], hello["uid"]) == (SUITES[bare.suite], 0)
    assert (summary["created"], summary["failed"], first[-1]["code"]) == (1, 0, 0)
    assert (bare.state / "motd").read_text() == "hi"
    (summary,) = of(bare.events("apply", manifest), "summary")
    assert (summary["created"], summary["unchanged"]) == (0, 2)


def test_every_fact_is_known(bare: Bare) -> None:
    """The standard library and the kernel are enough."""
    outputs = "".join(f"  {name}: ${{facts.{name}}}\n" for name in Facts().names())
    events = bare.events("apply", f"project: facts\noutputs:\n{outputs}")
    assert events[-1]["code"] == 0, events
    (row,) = of(events, "outputs")
    facts = row["outputs"]
    assert sorted(facts) == Facts().names()
    assert (facts["os"]["name"], facts["os"]["distro"]["codename"]) == ("Debian", bare.suite)
    assert facts["processors"]["count"] > 0
    assert facts["memory"]["system"]["total_bytes"] > 1 << 20


def test_every_type_reads_a_resource_or_says_what_is_missing(bare: Bare) -> None:
    """In one sentence; what a change would need is a warning of the plan."""
    bringing = ("git_checkout", "ansible_module", "archive", "exec")  # any program to those after them
    lines = "".join(f"  {RESOURCES[name]}\n" for name in (*sorted(RESOURCES.keys() - {*bringing}), *bringing))
    config = "providers: {http_resource: {config: {url: 'http://127.0.0.1:9', path: /hosts}}}"
    manifest = f"project: bare\n{config}\nresources:\n{lines}"
    events = bare.events("plan", manifest, needed=["pymysql", "tomlkit"])
    (planned,) = of(events, "result")
    steps = planned["document"]["steps"]
    assert {typed(item["reference"]) for item in steps} == TYPES
    refused = {
        typed(step["reference"]): reason for step in steps for reason in step["reasons"] if reason.startswith(_DEFERRED)
    }
    assert {name: error.removeprefix(_DEFERRED) for name, error in refused.items()} == REFUSED
    assert {typed(value["reference"]): value["message"] for value in of(events, "diagnostic")} == MISSING
    assert events[-1]["code"] == 0


def test_every_type_lists_its_resources_or_says_why_not(bare: Bare) -> None:
    """The one that lacks a program is an error of one sentence; the others are listed, or cannot be anywhere."""
    events = bare.events("resource", every_type=True, log_level="info")
    (listed,) = of(events, "result")
    assert {typed(item["reference"]) for item in listed["document"]} >= PRESENT
    message = {value["subject"]: value["message"] for value in of(events, "log") if value["level"] != "info"}
    assert message == {"apt_key": f"apt_key: {REFUSED['apt_key']}"}
    left_out = [entry["message"] for entry in of(events, "log") if entry["level"] == "info"]
    assert all(re.fullmatch(r"is left out: [^\[]+", element) for element in left_out), left_out


def test_functions_say_which_module_they_need(bare: Bare) -> None:
    """Before anything is done; and that they have no resources."""
    manifest = (
        "project: bare\nvalues:\n  text: {invoke: template, with: {source: hi}}\noutputs: {text: '${values.text}'}\n"
    )
    events = bare.events("plan", manifest)
    assert "needs the Python module jinja2 (pip install 'resource-api[templates]'): No module named 'jinja2'" in str(
        events
    )
    assert "Template: its type has functions and no resources" in str(bare.events("resource", type_name="template"))


def test_debians_own_libraries_are_enough_for_types_that_need_some(bare: Bare) -> None:
    """Whatever their versions; those of what the package replaces are not used."""
    (bare.state / "b.yaml").write_text("# kept\na: 1\n")
    (bare.state / "b.toml").write_text("# kept\na = 1\n")
    declared = (
        f"X509_key[{STATE}/b.key]: {{}}",
        f"X509_key[{STATE}/c.key]: {{type: rsa, size: 2048, passphrase: sesame}}",
        f"X509_certificate[{STATE}/b]: {{private_key: {STATE}/b.key, subject: {{CN: a.example}}}}",
        f"Yaml_setting[{STATE}/b.yaml:a]: {{value: [1, x]}}",
        f"Toml_setting[{STATE}/b.toml:a]: {{value: 2}}",
    )
    manifest = (
        "project: libraries\nvalues:\n  text: {invoke: template, with: {source: hi}}\n"
        "outputs: {text: '${values.text}', memory: '${facts.memory.system}'}\nresources:\n"
        + "".join(f"  {item}\n" for item in declared)
    )
    first, second = (bare.events("apply", manifest, libraries=True) for _ in range(2))
    (summary,), (outputs,) = of(first, "summary"), of(first, "outputs")
    assert (summary["created"], summary["updated"], summary["failed"]) == (3, 2, 0), first
    assert outputs["outputs"]["text"] == "hi"
    assert ((bare.state / "b.yaml").read_text(), (bare.state / "b.toml").read_text()) == (
        "# kept\na:\n- 1\n- x\n",
        "# kept\na = 2\n",
    )
    (summary,) = of(second, "summary")
    assert (summary["unchanged"], summary["failed"]) == (5, 0), second


def test_half_of_the_standard_library_is_not_enough(bare: Bare) -> None:
    """With the modules of Debian's python3-minimal alone, the host says so before it is sent the job."""
    (end,) = bare.events("plan", "project: bare\n", minimal=True)
    assert end["status"] == "unreachable"
    assert re.fullmatch(
        r"needs all of Python's standard library \(Debian: the package python3\): No module named '\w+'", end["error"]
    )
