"""Playbooks become manifests that `validate` accepts, with comments on all that has no counterpart."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_api import ManifestError, Runtime
from resource_api.convert.conversion import Conversion, convert
from tests import command
from tests.namespaces import without_program
from tests.providers.applied import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLAYBOOKS: Final = Path(__file__).parent / "playbooks"
#: Playbook → how many tasks of it are not converted, and how many resources are `ansible_module`.
ALL: Final = {
    "common": (2, 0),
    "database": (1, 1),
    "deploy": (0, 2),
    "files": (0, 0),
    "hardening": (0, 2),
    "monitoring": (0, 1),
    "site": (0, 1),
    "tricky": (7, 1),
    "users": (0, 0),
    "webserver": (0, 0),
}


@pytest.fixture(scope="module", autouse=True)
def _no_ansible() -> Iterator[None]:
    """Hide Ansible, which would judge the arguments of its modules."""
    with without_program("ansible"):
        yield


def converted(playbook: Path) -> Conversion:
    """Return a converted playbook."""
    return convert(str(playbook), Runtime(REGISTRY, state="memory:"))


def manifest_of(conversion: Conversion) -> dict[str, Any]:
    """Return the data of a manifest."""
    data: dict[str, Any] = yaml.safe_load(conversion.manifest)
    return data


def mandatory(conversion: Conversion, value: object = "text") -> dict[str, Any]:
    """Return a value for each input without a default, and for each member of a mapping: ``value`` where it fits."""
    inputs = manifest_of(conversion).get("inputs", {})
    members = {**dict.fromkeys("abcdefghijklmnopqrstuvwxyz", value), "rc": 0}
    values: dict[str, Any] = {"Hash[String, Any]": members, "Variant[Array, Hash]": ["text"]}
    return {name: values.get(entry["type"], value) for name, entry in inputs.items() if "default" not in entry}


@pytest.mark.parametrize("name", sorted(ALL))
def test_the_manifest_of_a_playbook_is_valid(name: str, tmp_path: Path) -> None:
    """Beside the playbook's files, with a value for each input that the playbook does not define."""
    shutil.copytree(PLAYBOOKS, tmp_path, dirs_exist_ok=True)
    conversion = converted(tmp_path / f"{name}.yml")
    site = tmp_path / "site-of-it.yaml"
    site.write_text(conversion.manifest)
    catalog = Runtime(REGISTRY, state="memory:").validate(str(site), mandatory(conversion))
    assert (len(conversion.remarks), conversion.modules) == ALL[name]
    assert len(catalog.entries) or name == "site"  # whose plays are for groups of hosts


def task(text: str, head: str = "") -> str:
    """Return a playbook with tasks, given as YAML without indentation."""
    lines = "\n".join(f"    {line}" for line in text.strip().splitlines())
    return f"- hosts: all\n{head}  tasks:\n{lines}\n"


def resources(tmp_path: Path, text: str, head: str = "") -> Mapping[str, Any]:
    """Return the resources of the manifest of these tasks."""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text, head))
    data: dict[str, Any] = manifest_of(converted(playbook))["resources"]
    return data


CASES: Final = [
    (
        "- apt: name=jq=1.6 install_recommends=no",
        {"Package[jq]": {"ensure": "1.6", "install_options": ["--no-install-recommends"]}},
    ),
    ("- yum: {name: [a, b], state: latest}", {f"Package[{name}]": {"ensure": "latest"} for name in "ab"}),
    ("- apt: {name: jq, state: absent, purge: yes}", {"Package[jq]": {"ensure": "absent", "purge": True}}),
    ("- apt: {name: jq=1.6, state: absent}", {"Package[jq]": {"ensure": "absent"}}),
    (
        "- pip: {name: x==1, state: absent, virtualenv: /v}",
        {
            "Python_venv[/v]": {},
            "Python_package[x /v]": {"ensure": "absent", "virtualenv": "/v", "name": "x"},
        },
    ),
    (
        "- name: n\n  apt: {update_cache: yes, cache_valid_time: '²'}",
        {"Ansible_module[n]": {"module": "apt", "args": {"update_cache": True, "cache_valid_time": "²"}}},
    ),
    ("- name: n\n  wait_for: {port: '²'}", {"Ansible_module[n]": {"module": "wait_for", "args": {"port": "²"}}}),
    (
        "- copy: {dest: /etc/a, content: x}\n  check_mode: yes",
        {"File[/etc/a]": {"ensure": "file", "content": "x", "noop": True}},
    ),
    ("- dpkg_selections: {name: jq, selection: hold}", {"Package[jq]": {"mark": "hold"}}),
    (
        "- copy: {dest: /etc/a, content: x, mode: 0640}",
        {"File[/etc/a]": {"ensure": "file", "content": "x", "mode": "0640"}},
    ),
    (
        "- copy: {dest: /etc/a, content: x, force: no}",
        {"File[/etc/a]": {"ensure": "file", "content": "x", "lifecycle": {"ignore_changes": ["content"]}}},
    ),
    ("- copy: {src: /a, dest: /b/, remote_src: yes}", {"File[/b/a]": {"ensure": "file", "source": "/a"}}),
    ("- file: {path: /srv/a, state: touch, mode: '0600'}", {"File[/srv/a]": {"ensure": "file", "mode": "0600"}}),
    (
        "- file: {path: /srv/a/b/, state: directory}",
        {"File[/srv/a]": {"ensure": "directory"}, "File[/srv/a/b]": {"ensure": "directory"}},
    ),
    ("- user: {name: u, state: absent}", {"User[u]": {"ensure": "absent"}}),
    (
        "- user: {name: u, password: '!', update_password: on_create, groups: 'a,b', append: yes}",
        {
            "User[u]": {
                "ensure": "present",
                "groups": ["a", "b"],
                "password": "!",
                "membership": "minimum",
                "managehome": True,
                "lifecycle": {"ignore_changes": ["password"]},
            }
        },
    ),
    ("- systemd: {name: x, masked: yes}", {"Service[x]": {"enable": "mask"}}),
    ("- service: {name: x, state: restarted}", {"Exec[restart x]": {"command": "systemctl restart x"}}),
    (
        "- cron: {name: n, minute: 5, day: '*/2', job: /bin/true}",
        {"Cron[n]": {"ensure": "present", "command": "/bin/true", "minute": "5", "monthday": "*/2"}},
    ),
    ("- git: repo=https://x.org/a.git dest=/srv/a", {"Git_checkout[/srv/a]": {"source": "https://x.org/a.git"}}),
    ("- command: a b creates=/c", {"Exec[a b]": {"command": "a b", "creates": "/c"}}),
    (
        "- command: {argv: [a, b c], removes: /c}",
        {"Exec[a 'b c']": {"command": ["a", "b c"], "onlyif": [["test", "-e", "/c"]]}},
    ),
    (
        "- shell: {cmd: a, removes: /c d}",
        {"Exec[a]": {"command": "a", "shell": True, "onlyif": [["test", "-e", "/c d"]]}},
    ),
    (
        "- name: n\n  command: {cmd: a, creates: /opt/*/b}",
        {"Ansible_module[n]": {"module": "command", "args": {"cmd": "a", "creates": "/opt/*/b"}}},
    ),
    ("- name: n\n  file: {name: [a]}", {"Ansible_module[n]": {"module": "file", "args": {"name": ["a"]}}}),
    ("- shell: {cmd: a, executable: /bin/bash}", {"Exec[/bin/bash -c a]": {"command": ["/bin/bash", "-c", "a"]}}),
    (
        "- name: n\n  lineinfile: {path: /e, regexp: '^a', line: ab, insertafter: EOF}",
        {"File_line[n]": {"ensure": "present", "path": "/e", "match": "^a", "line": "ab"}},
    ),
    (
        "- name: n\n  lineinfile: {path: /e, regexp: '^a', state: absent}",
        {"File_line[n]": {"ensure": "absent", "path": "/e", "match": "^a"}},
    ),
    (
        "- sysctl: {name: vm.swappiness, value: '1'}",
        {
            "Sysctl[vm.swappiness]": {
                "ensure": "present",
                "name": "vm.swappiness",
                "target": "/etc/sysctl.conf",
                "value": "1",
            }
        },
    ),
    (
        "- lineinfile: {path: /e, line: '/a: b'}",
        {"File_line[line in /e: /a: b]": {"ensure": "present", "path": "/e", "line": "/a: b"}},
    ),
    (
        "- blockinfile: {path: /e, block: b}",
        {
            "Block_in_file[block in /e]": {
                "ensure": "present",
                "path": "/e",
                "marker": "# {mark} ANSIBLE MANAGED BLOCK",
                "block": "b",
                "name": "/e",
            }
        },
    ),
    (
        "- ini_file: {path: /e, section: s, option: o, value: 1, no_extra_spaces: yes}",
        {
            "Ini_setting[s o of /e]": {
                "ensure": "present",
                "path": "/e",
                "section": "s",
                "setting": "o",
                "value": 1,
                "key_val_separator": "=",
            }
        },
    ),
    (
        "- name: n\n  ini_file: {path: /e, section: s, option: o, value: yes}",
        {
            "Ini_setting[n]": {
                "ensure": "present",
                "path": "/e",
                "section": "s",
                "setting": "o",
                "value": "True",
            }
        },
    ),
    (
        "- name: n\n  command: {cmd: a, stdin: b}",
        {"Exec[n]": {"command": "a", "input": "b\n"}},
    ),
    (
        "- name: n\n  command: {cmd: a, stdin: b, stdin_add_newline: no}",
        {"Exec[n]": {"command": "a", "input": "b"}},
    ),
    (
        f"- get_url: {{url: 'https://x.org/a.tgz?b=c', dest: /opt/, checksum: 'sha256:{'a' * 64}'}}",
        {
            "File[/opt/a.tgz]": {
                "ensure": "file",
                "source": {"asset": {"url": "https://x.org/a.tgz?b=c", "sha256": "a" * 64}},
            }
        },
    ),
    ("- group: {name: g, gid: '7'}", {"Group[g]": {"ensure": "present", "gid": 7}}),
    (
        "- {name: n, user: {name: u, groups: [a, 5], comment: 3}}",
        {"Ansible_module[n]": {"module": "user", "args": {"name": "u", "groups": ["a", 5], "comment": 3}}},
    ),
    (
        "- copy: {dest: /etc/a, content: '{{ inventory_hostname_short }}'}",
        {"File[/etc/a]": {"ensure": "file", "content": "${values.host_name[0]}"}},
    ),
    ("- hostname: {name: h}", {"Hostname[system]": {"hostname": "h"}}),
    ("- timezone: {name: UTC}", {"Timezone[system]": {"zone": "UTC"}}),
    ("- locale_gen: {name: de_DE.UTF-8}", {"Locale[de_DE.UTF-8]": {"ensure": "present"}}),
    ("- alternatives: {name: editor, path: /bin/vim}", {"Alternatives[editor]": {"path": "/bin/vim"}}),
    (
        "- deb822_repository: {name: r, uris: https://x.org, suites: [a], components: main}",
        {"Apt_source[r]": {"ensure": "present", "uris": ["https://x.org"], "suites": ["a"], "components": ["main"]}},
    ),
    (
        "- name: n\n  wait_for: {path: /run/x, timeout: 5}",
        {"Wait_for[n]": {"path": "/run/x", "timeout": 5}},
    ),
    (
        "- name: n\n  community.general.ufw: {state: enabled}",
        {"Ansible_module[n]": {"module": "community.general.ufw", "args": {"state": "enabled"}}},
    ),
    (
        "- name: n\n  lineinfile: {path: /e, regexp: a, line: b, backrefs: yes}",
        {
            "Ansible_module[n]": {
                "module": "lineinfile",
                "args": {"path": "/e", "regexp": "a", "line": "b", "backrefs": True},
            }
        },
    ),
    (
        "- name: n\n  shell: a\n  retries: 2\n  delay: 1\n  until: x is succeeded\n  register: x",
        {"Exec[n]": {"command": "a", "shell": True, "tries": 3, "try_sleep": 1}},
    ),
    (
        "- name: n\n  command: a\n  register: r\n  failed_when: r.rc not in [0, 2]",
        {"Exec[n]": {"command": "a", "returns": [0, 2]}},
    ),
    (
        "- name: n\n  command: a\n  register: r\n  failed_when: r.rc not in [0, 2, ]",
        {"Exec[n]": {"command": "a", "returns": [0, 2]}},
    ),
    ("- name: n\n  command: a\n  register: r\n  failed_when: r.rc > 99999999999", {"Exec[n]": {"command": "a"}}),
    (
        "- name: n\n  command: a\n  become: yes\n  become_user: app\n  environment: {A: 1}",
        {"Exec[n]": {"command": "a", "user": "app", "environment": {"A": "1"}}},
    ),
    ("- package: {name: jq}\n  tags: [a, 'b,c']", {"Package[jq]": {"ensure": "present", "tag": ["a", "b", "c"]}}),
    # A reference within a text is written as in a manifest, wherever an argument has one.
    (
        "- copy: {src: '{{ s }}', dest: /b/, remote_src: yes}",
        {"File[/b/${values.basename}]": {"ensure": "file", "source": "${inputs.s}"}},
    ),
    ("- wait_for: {port: '{{ p }}'}", {"Wait_for[wait for ${inputs.p}]": {"port": "${inputs.p}", "timeout": 300}}),
    (
        "- apt: {name: jq, default_release: '{{ r }}'}",
        {"Package[jq]": {"ensure": "present", "install_options": ["--target-release=${inputs.r}"]}},
    ),
    (
        "- pip: {name: 'x=={{ v }}', virtualenv: /v, virtualenv_python: '{{ py }}', extra_args: '{{ ea }}'}",
        {
            "Python_venv[/v]": {"python": "/usr/bin/${inputs.py}"},
            "Python_package[x /v]": {
                "ensure": "${inputs.v}",
                "virtualenv": "/v",
                "install_options": ["${inputs.ea}"],
                "name": "x",
            },
        },
    ),
    (
        "- blockinfile: {path: '{{ p }}', block: b}",
        {
            "Block_in_file[block in ${inputs.p}]": {
                "ensure": "present",
                "path": "${inputs.p}",
                "marker": "# {mark} ANSIBLE MANAGED BLOCK",
                "block": "b",
                "name": "${inputs.p}",
            }
        },
    ),
    ("- command: {argv: ['{{ a }}', b]}", {"Exec[${inputs.a} b]": {"command": ["${inputs.a}", "b"]}}),
    ("- command: {argv: ['a b', 'c d']}", {"Exec[a b c d]": {"command": ["a b", "c d"]}}),
    ("- {name: \"'n'\", command: a}", {"Exec[n]": {"command": "a"}}),
    ("- apt: {name: '{{ p }}={{ v }}'}", {"Package[${inputs.p}]": {"ensure": "${inputs.v}"}}),
    ("- apt: {name: ['jq={{ v }}']}", {"Package[jq]": {"ensure": "${inputs.v}"}}),
    (
        "- debug: {msg: a}\n- debug: {msg: b}",
        {"Notify[message]": {"message": "a"}, "Notify[message (2)]": {"message": "b"}},
    ),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_task_becomes_resources(text: str, expected: dict[str, Any], tmp_path: Path) -> None:
    """Each argument has a counterpart, or the task is an `ansible_module`."""
    assert resources(tmp_path, text) == expected


CONDITIONS: Final = [
    ("ansible_os_family == 'Debian'", {"facts.os.family": "Debian"}),
    ("ansible_facts['distribution'] != 'Fedora'", {"facts.os.name": {"not": "Fedora"}}),
    ("'Debian' == ansible_facts.os_family", {"facts.os.family": "Debian"}),
    ("ansible_distribution in ['A', 'B']", {"facts.os.name": ["A", "B"]}),
    ("ansible_distribution not in ['A', 'B']", {"not": {"facts.os.name": ["A", "B"]}}),
    ("ansible_distribution_major_version | int >= 12", {"facts.os.release.major": {"ge": "12"}}),
    ("ansible_distribution_version is version('22.04', '<')", {"facts.os.release.full": {"lt": "22.04"}}),
    ("flag", {"inputs.flag": True}),
    ("not flag", {"inputs.flag": False}),
    ("flag | bool and count > 3", {"inputs.flag": True, "inputs.count": {"gt": 3}}),
    ("flag or count == 1", {"any": [{"inputs.flag": True}, {"inputs.count": 1}]}),
    ("not (flag or count == 1)", {"not": {"any": [{"inputs.flag": True}, {"inputs.count": 1}]}}),
    (
        "count > 1 and count < 9",
        {"not": {"any": [{"not": {"inputs.count": {"gt": 1}}}, {"not": {"inputs.count": {"lt": 9}}}]}},
    ),
    ("word is match('we.*')", {"inputs.word": {"matches": "/^we.*/"}}),
    ("word is search('/x')", {"inputs.word": {"matches": r"/\/x/"}}),
    ("more is defined", {"inputs.more": {"exists": True}}),
    ("flag is sameas true", {"inputs.flag": True}),
    ("flag is sameas none", {"inputs.flag": {"exists": False}}),
    ("inventory_hostname == 'web1'", {"host.name": "web1"}),
    ("'web' in group_names", {"values.contains": True}),
    ("word in names", {"values.contains": True}),
    ("names | length > 1", {"values.length": {"gt": 1}}),
    ("word", {"inputs.word": {"not": ""}}),
    ("not word", {"not": {"inputs.word": {"not": ""}}}),
    ("word | bool", {"inputs.word": ["yes", "Yes", "true", "True", "on", "1"]}),
    ("count", {"inputs.count": {"not": 0}}),
    ("names", {"values.length": {"gt": 0}}),
    ("names + names", {"values.length": {"gt": 0}}),
    ("names | length", {"values.length": {"not": 0}}),
    ("{} | combine({'a': 1})", {"values.length": {"gt": 0}}),
    ("more | default('')", {"inputs.more": {"not": ""}}),
]


@pytest.mark.parametrize(("text", "expected"), CONDITIONS)
def test_a_condition_becomes_when(text: str, expected: Any, tmp_path: Path) -> None:
    """Of facts, variables and the inventory."""
    head = "  vars: {flag: true, count: 3, word: web, names: [web, db]}\n"
    assert (
        resources(tmp_path, f"- package: {{name: jq}}\n  when: {json.dumps(text)}", head)["Package[jq]"]["when"]
        == expected
    )


REFUSED: Final = [
    (
        "copy: {dest: '/etc/{{ x }}', content: '{{ item }}'}\n  loop: '{{ list }}'\n  when: z",
        "every element of the loop makes the same File[/etc/${inputs.x}]",
    ),
    ("command: a\n  delegate_to: x", "'delegate_to' has no counterpart: a manifest describes one machine"),
    ("command: a\n  when: '3 * 4'", "arithmetic has no counterpart"),
    ("command: a\n  when: 'x ==='", "'x ===' is no expression"),
    (
        "command: a\n  when: x is match('a', ignorecase=true)",
        "the test 'is match' with these arguments has no counterpart",
    ),
    (
        "command: a\n  when: x is version('1', operator='<')",
        "the test 'is version' with these arguments has no counterpart",
    ),
    ("command: a\n  when: ansible_mounts", "'ansible_mounts' has no counterpart"),
    ('copy: {content: \'{{ lookup("env", "A") }}\', dest: /a}', "the function 'lookup' has no counterpart"),
    ("copy: {content: '{{ hostvars.a.b }}', dest: /a}", "'hostvars.a.b' has no counterpart"),
    ("copy: {content: a, dest: /a}\n  notify: nobody", "there is no handler 'nobody'"),
    ("template: {src: a.j2, dest: /a}", "the file 'a.j2' is not beside the playbook"),
    ("command: a\n  tags: never", "the tag 'never' has no counterpart"),
    ("command: a\n  when: no", "its condition never holds"),
    ("include_tasks: '{{ x }}.yml'", "the file '{{ x }}.yml' is not beside the playbook"),
    ("import_role: {name: r}", "the role 'r' is not beside the playbook"),
    ("debug: {msg: a}\n  with_nested: [[1], [2]]", "'with_nested' has no counterpart"),
    ("pause: {seconds: 3}", "pause has no counterpart"),
    ("copy: {src: /a, dest: /b, remote_src: '{{ x }}'}", "'remote_src: ${inputs.x}' is not literal"),
    ("command: a\n  connection: local", "'connection: local' has no counterpart"),
    ("command: a\n  check_mode: '{{ x }}'", "'check_mode' that is an expression has no counterpart"),
    ("user: {name: a, groups: '{{ x | map(\"lower\") | list }}'}", "the filter 'map' has no counterpart"),
    ("user: {name: a, groups: '{{ [\"b\"] if x else [] }}'}", "a conditional expression has no counterpart"),
    ("user: {name: a, comment: '{{ x if x else omit }}'}", "a conditional expression has no counterpart; 'omit' in"),
    ("user: {name: '{{ \"ab\" | list }}'}", "a list of characters has no counterpart"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_has_no_counterpart_is_a_comment_with_place_and_reason(text: str, reason: str, tmp_path: Path) -> None:
    """With the lines of the task; the manifest is valid without it."""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(f"- name: n\n  {text}"))
    conversion = converted(playbook)
    (remark,) = conversion.remarks
    assert (remark.location.line, remark.reason.startswith(reason)) == (3, True), remark
    assert f"# NOT CONVERTED: {playbook}:3: " in conversion.manifest
    assert manifest_of(conversion)["resources"] == {}


def test_a_loop_becomes_for_each(tmp_path: Path) -> None:
    """Over lists, mappings and variables; or a resource for each element, where an element decides about a file."""
    text = """
- user: {name: "{{ item.name }}", uid: "{{ item.uid | default(omit) }}", shell: "{{ item.shell | default('/bin/sh') }}"}
  loop: [{name: a, uid: 7}, {name: b, shell: /bin/bash}]
- sysctl: {name: "{{ item.key }}", value: "{{ item.value }}"}
  loop: "{{ settings | dict2items }}"
- copy: {src: "{{ item }}", dest: "/etc/{{ item }}"}
  with_items: [one, two]
- package: {name: "{{ packages }}"}
"""
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    head = "  vars: {settings: {vm.swappiness: 1}, packages: [x, y]}\n"
    shown = resources(tmp_path, text, head)
    user = shown["User[${each.value.name}]"]
    assert user["for_each"] == [{"name": "a", "uid": 7, "shell": "/bin/sh"}, {"name": "b", "shell": "/bin/bash"}]
    assert user["uid"] == "${each.value.uid}"
    assert shown["Sysctl[${each.key}]"]["for_each"] == "${inputs.settings}"
    assert shown["File[/etc/one]"]["source"] == {"asset": {"file": "one"}}
    assert shown["File[/etc/two]"]["source"] == {"asset": {"file": "two"}}
    assert shown["Package[${each.key}]"]["for_each"] == "${inputs.packages}"


def test_handlers_are_resources_that_are_notified(tmp_path: Path) -> None:
    """By name or topic; one that nothing notifies is left out, one of a declared service is part of it."""
    text = """
- copy: {dest: /etc/a, content: x}
  notify: [restart a, topic]
- service: {name: a, state: started}
"""
    playbook = tmp_path / "p.yml"
    handlers = """  handlers:
    - name: restart a
      service: {name: a, state: restarted}
    - name: tell
      listen: topic
      command: tell it
    - name: unused
      command: never
"""
    playbook.write_text(task(text) + handlers)
    assert manifest_of(converted(playbook))["resources"] == {
        "File[/etc/a]": {"ensure": "file", "content": "x", "notify": ["Service[a]", "Exec[tell]"]},
        "Service[a]": {"ensure": "running", "refresh": "restart"},
        "Exec[tell]": {"command": "tell it", "refreshonly": True},
    }


def test_a_handler_is_notified_as_in_the_playbook(tmp_path: Path) -> None:
    """By another handler, for each element of a loop, the last of a name; never that of a user's service."""
    handlers = """  handlers:
    - {name: first, command: a, notify: [behind, all]}
    - {name: behind, command: b}
    - {name: twice, command: c}
    - {name: twice, command: d}
    - {name: all, service: {name: "{{ item }}", state: restarted, enabled: yes}, loop: [x, y]}
    - {name: user, systemd: {name: z, scope: user, state: restarted}}
    - {name: unused, command: e, notify: never}
    - {name: never, command: f}
"""
    text = "- copy: {dest: /etc/a, content: x}\n  notify: [first, twice, user]"
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text) + handlers)
    conversion = converted(playbook)
    service = {"ensure": "running", "refresh": "restart", "enable": True}
    assert [remark.reason for remark in conversion.remarks] == ["a service of a user has no counterpart"]
    assert manifest_of(conversion)["resources"] == {
        "File[/etc/a]": {"ensure": "file", "content": "x", "notify": ["Exec[first]", "Exec[twice]"]},
        "Exec[first]": {"command": "a", "refreshonly": True, "notify": ["Exec[behind]", "Service[x]", "Service[y]"]},
        "Exec[behind]": {"command": "b", "refreshonly": True},
        "Exec[twice]": {"command": "d", "refreshonly": True},
        "Service[x]": service,
        "Service[y]": service,
    }


def test_a_change_in_a_loop_notifies(tmp_path: Path) -> None:
    """Also where a resource for each element was tried and discarded."""
    text = "- name: n\n  command: 'a {{ item }} $HOME'\n  loop: [b]\n  register: r\n- command: c\n  when: r is changed"
    assert resources(tmp_path, text)["Ansible_module[n ${each.index}]"]["notify"] == "Exec[c]"


def test_a_default_replaces_an_empty_value_if_it_says_so(tmp_path: Path) -> None:
    """Of a variable by a template, of an element in the element itself; also by the names of the options."""
    text = """
- copy: {dest: /etc/a, content: "{{ empty | default('y', true) }}{{ unknown | default(default_value='z') }}"}
- copy: {dest: /etc/b, content: "{{ full | default('y', boolean=true) }}"}
- user: {name: "{{ item.n }}", comment: "{{ item.c | default(omit, true) }}"}
  loop: [{n: a, c: ''}, {n: b, c: x}]
- {name: lost, copy: {dest: /etc/c, content: c, owner: "{{ empty | default(omit, true) }}"}}
"""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text, "  vars: {empty: '', full: x}\n"))
    conversion = converted(playbook)
    data = manifest_of(conversion)
    assert data["resources"]["File[/etc/a]"]["content"] == "${values.text}${inputs.unknown}"
    assert data["inputs"]["unknown"]["default"] == "z"
    assert data["resources"]["File[/etc/b]"]["content"] == "${inputs.full}"
    assert data["resources"]["User[${each.value.n}]"]["for_each"] == [{"n": "a"}, {"n": "b", "c": "x"}]
    assert [remark.title for remark in conversion.remarks] == ["lost"]


def test_an_omitted_value_is_in_no_manifest(tmp_path: Path) -> None:
    """Not in an environment, a command, a title, a comparison or a named value; as an argument it is not given."""
    text = """
- {name: "{{ omit }}", command: {argv: [a, "{{ omit }}"]}, environment: {A: "{{ omit }}", B: b}}
- {name: compared, command: b, when: x == omit}
- {name: "named", set_fact: {x: "{{ omit }}"}}
"""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text))
    conversion = converted(playbook)
    assert manifest_of(conversion)["resources"] == {"Exec[a]": {"command": ["a"], "environment": {"B": "b"}}}
    assert [remark.reason for remark in conversion.remarks] == [
        "a comparison with 'omit' has no counterpart",
        "the variable 'x' that is 'omit' has no counterpart",
    ]


def test_a_variable_with_the_keys_of_a_call_is_a_mapping(tmp_path: Path) -> None:
    """Only arguments make a call of it; the condition on the mapping has no counterpart."""
    text = """
- {name: "named", set_fact: {x: {invoke: lookup, b: 1}}}
- {name: "tested", file: {path: /srv/a, state: directory}, when: x}
"""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text))
    assert [remark.title for remark in converted(playbook).remarks] == ["named"]


def test_a_number_that_no_manifest_can_hold_is_a_text(tmp_path: Path) -> None:
    """So that the manifest is valid; a Boolean within a text has the form that Ansible writes."""
    playbook, site = tmp_path / "p.yml", tmp_path / "s.yaml"
    head = "  vars: {a: .inf, b: 99999999999999999999, c: 1.0e+300, f: true, d: {k: v}}\n"
    text = """
- copy: {dest: /etc/a, content: "{{ a }} {{ b }} {{ c }} {{ 'x' ~ f }}"}
- package: {name: "{{ d | list }}"}
"""
    playbook.write_text(task(text, head))
    site.write_text(converted(playbook).manifest)
    catalog = Runtime(REGISTRY, state="memory:").validate(str(site))
    assert [str(entry.reference) for entry in catalog.entries] == ["File[/etc/a]", "Package[k]"]
    inputs = {name: declared.default for name, declared in catalog.manifest.inputs.items()}
    assert (inputs["a"], inputs["b"], inputs["c"]) == (".inf", "99999999999999999999", 1e300)
    content = catalog.entries[0].declaration.attributes["content"]
    assert content == "${inputs.a} ${inputs.b} ${inputs.c} ${values.text}"


def test_the_hosts_of_a_play_are_a_command_to_copy(tmp_path: Path) -> None:
    """It names the manifest, and a shell takes the hosts as one word."""
    playbook = tmp_path / "site.yml"
    playbook.write_text("- hosts: web:!old\n  tasks: [{command: 'true'}]\n", encoding="utf-8")
    assert "# hosts: resource-api apply MANIFEST --on 'web,!old'\n" in converted(playbook).manifest


@pytest.mark.parametrize(
    ("state", "expected"),
    [("restarted", {"ensure": "running", "refresh": "restart"}), ("reloaded", {"refresh": "reload"})],
)
def test_a_handler_that_restarts_a_service_starts_it(tmp_path: Path, state: str, expected: dict[str, str]) -> None:
    """Also where no task declares the service; one that reloads it starts nothing."""
    playbook = tmp_path / "p.yml"
    handlers = f"  handlers:\n    - {{name: act, service: {{name: a, state: {state}}}}}\n"
    playbook.write_text(task("- {copy: {dest: /etc/a, content: x}, notify: act}\n") + handlers)
    assert manifest_of(converted(playbook))["resources"]["Service[a]"] == expected


def test_results_become_notifications_guards_and_references(tmp_path: Path) -> None:
    """A change notifies, a check is a guard, another result is that of an `ansible_module`."""
    text = """
- copy: {dest: /etc/a, content: x}
  register: a
- name: after
  command: load /etc/a
  when: a is changed
- stat: {path: /etc/key}
  register: key
- name: make
  command: make-key
  when: not key.stat.exists
- command: check
  register: check
- name: repair
  command: repair
  when: check.rc != 0
- name: kernel
  command: uname -r
  register: kernel
- copy: {dest: /etc/kernel, content: "{{ kernel.stdout }}"}
"""
    assert resources(tmp_path, text) == {
        "File[/etc/a]": {"ensure": "file", "content": "x", "notify": "Exec[after]"},
        "Exec[after]": {"command": "load /etc/a", "refreshonly": True},
        "Exec[make]": {"command": "make-key", "creates": "/etc/key"},
        "Exec[repair]": {"command": "repair", "unless": ["check"]},
        "Ansible_module[kernel]": {"module": "command", "args": {"cmd": "uname -r"}},
        "File[/etc/kernel]": {"ensure": "file", "content": "${Ansible_module[kernel].result.stdout}"},
    }


def test_a_block_hands_down_and_its_rescue_follows_a_failure(tmp_path: Path) -> None:
    """Conditions, tags and variables are those of all tasks in it."""
    text = """
- block:
    - name: a
      command: "{{ program }}"
  rescue:
    - name: b
      command: mend
  always:
    - name: c
      command: clean
  when: flag
  tags: t
  vars: {program: build}
"""
    shared = {"when": {"inputs.flag": True}, "tag": ["t"]}
    assert resources(tmp_path, text, "  vars: {flag: true}\n") == {
        "Exec[a]": {"command": "build", **shared},
        "Exec[b]": {"command": "mend", "on_failure": ["Exec[a]"], **shared},
        "Exec[c]": {"command": "clean", **shared},
    }


def test_tasks_inherit_what_is_declared_around_them(tmp_path: Path) -> None:
    """From a block, and from the entry that includes them or imports their playbook."""
    (tmp_path / "more.yml").write_text("- {name: c, command: c, environment: {B: 2}}\n")
    head = """  module_defaults: {copy: {owner: a, mode: '0600'}}
  handlers: [{name: h, command: h}, {name: g, command: g}]
"""
    text = """
- block:
    - copy: {dest: /etc/a, content: a, mode: '0640'}
      notify: g
  notify: h
  module_defaults: {ansible.builtin.copy: {group: b}}
- include_tasks: {file: more.yml, apply: {when: flag, environment: {A: 1, B: 1}}}
"""
    (tmp_path / "inner.yml").write_text(task(text, head))
    playbook = tmp_path / "p.yml"
    playbook.write_text("- import_playbook: inner.yml\n  when: outer\n  tags: t\n")
    rows = manifest_of(converted(playbook))["resources"]
    file = {"ensure": "file", "content": "a", "owner": "a", "group": "b", "mode": "0640", "tag": ["t"]}
    assert rows["File[/etc/a]"] == {**file, "when": {"inputs.outer": True}, "notify": ["Exec[h]", "Exec[g]"]}
    assert rows["Exec[c]"]["when"] == {"inputs.outer": True, "inputs.flag": True}
    assert rows["Exec[c]"]["environment"] == {"A": "1", "B": "2"}


def test_variables_have_the_values_of_their_part_of_a_playbook(tmp_path: Path) -> None:
    """Of two roles with one name each has its own; those of a file are for the tasks below and for handlers."""
    for role, port in (("a", 80), ("b", 90)):
        for kind, text in (
            ("defaults", f"port: {port}"),
            ("tasks", f"- copy: {{dest: /etc/{role}, content: '{{{{ port }}}}'}}"),
        ):
            (tmp_path / "roles" / role / kind).mkdir(parents=True)
            (tmp_path / "roles" / role / kind / "main.yml").write_text(text)
    (tmp_path / "v.yml").write_text("v: 2\n")
    text = """
- copy: {dest: /etc/c, content: "{{ v }}"}
  notify: h
- include_vars: v.yml
- copy: {dest: /etc/d, content: "{{ v }}"}
"""
    head = "  roles: [a, b]\n  vars: {v: 1}\n  handlers: [{name: h, command: 'echo {{ v }}'}]\n"
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text, head))
    data = manifest_of(converted(playbook))
    values = {f"${{inputs.{name}}}": str(entry["default"]) for name, entry in data["inputs"].items()}
    contents = {name: row["content"] for name, row in data["resources"].items() if "content" in row}
    assert [values.get(content, content) for content in contents.values()] == ["80", "90", "1", "2"]
    assert values[data["resources"]["Exec[h]"]["command"].removeprefix("echo ")] == "2"


def test_a_user_without_become_changes_nothing(tmp_path: Path) -> None:
    """A comment says that the manifest needs root where a task alone becomes it."""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task("- {name: n, command: a, become_user: app}"))
    assert manifest_of(converted(playbook))["resources"] == {"Exec[n]": {"command": "a"}}
    assert "become:" not in converted(playbook).manifest
    playbook.write_text(task("- {name: n, command: a, become: yes}"))
    assert "# become: apply it as root" in converted(playbook).manifest


def test_variables_of_a_condition_are_not_those_of_all_hosts(tmp_path: Path) -> None:
    """Of two files for two systems neither is taken."""
    for name, package in (("debian", "apache2"), ("redhat", "httpd")):
        (tmp_path / f"{name}.yml").write_text(f"web: {package}\n")
    text = (
        "- include_vars: debian.yml\n  when: a\n- include_vars: redhat.yml\n  when: b\n- package: {name: '{{ web }}'}"
    )
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text))
    conversion = converted(playbook)
    assert [remark.location.line for remark in conversion.remarks] == [3, 5]
    assert "default" not in manifest_of(conversion)["inputs"]["web"]


def test_plays_for_different_hosts_have_conditions(tmp_path: Path) -> None:
    """A play for all hosts has none."""
    playbook = tmp_path / "p.yml"
    plays = [
        {"hosts": hosts, "tasks": [{"package": {"name": name}}]}
        for hosts, name in (("web", "a"), ("db:x", "b"), ("all", "c"))
    ]
    playbook.write_text(json.dumps(plays))
    rows = manifest_of(converted(playbook))["resources"]
    assert rows["Package[a]"]["when"] == {"values.in_web": True}
    assert rows["Package[b]"]["when"] == {"any": [{"values.in_db": True}, {"values.in_x": True}]}
    assert "when" not in rows["Package[c]"]


def test_the_same_resource_twice_is_one(tmp_path: Path) -> None:
    """If the values contradict each other, the second one is not converted."""
    text = """
- copy: {dest: /etc/a, content: x}
- file: {path: /etc/a, mode: "0600"}
- copy: {dest: /etc/a, content: y}
"""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text))
    conversion = converted(playbook)
    assert manifest_of(conversion)["resources"] == {"File[/etc/a]": {"ensure": "file", "content": "x", "mode": "0600"}}
    assert [str(remark) for remark in conversion.remarks] == [
        f"{playbook}:5: copy: File[/etc/a] is declared at {playbook}:3 with other values"
    ]


def test_two_loops_of_one_type_have_titles_of_their_own(tmp_path: Path) -> None:
    """The names are those of their elements; a third loop over the first collection is merged into the first."""
    text = """
- group: {name: "{{ item }}"}
  loop: [a, b]
- group: {name: "{{ item }}", gid: 5}
  loop: [c]
- group: {name: "{{ item }}", system: true}
  loop: [a, b]
"""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text))
    conversion = converted(playbook)
    assert not conversion.remarks
    assert manifest_of(conversion)["resources"] == {
        "Group[${each.value}]": {"for_each": ["a", "b"], "ensure": "present", "system": True},
        "Group[${each.value} (2)]": {"for_each": ["c"], "name": "${each.value}", "ensure": "present", "gid": 5},
    }


def test_alternatives_of_one_resource_have_titles_of_their_own(tmp_path: Path) -> None:
    """Of declarations whose conditions exclude each other, only one counts; a reference is repeated for each."""
    text = """
- copy: {dest: /etc/a, content: x}
  when: ansible_os_family == 'Debian'
  notify: b
- copy: {dest: /etc/a, content: y}
  when: ansible_os_family == 'RedHat' or ansible_os_family == 'Suse'
- copy: {dest: /etc/a, content: z}
  when: ansible_os_family == 'Gentoo'
- copy: {dest: /etc/a, content: z}
  when: ansible_os_family in ['Suse', 'Gentoo']
- file: {path: /etc/a, mode: "0600"}
  when: ansible_os_family == 'RedHat' or ansible_os_family == 'Suse'
"""
    handlers = """  handlers:
    - {name: a1, service: {name: a, state: restarted}, listen: b, when: "ansible_os_family == 'Debian'"}
    - {name: a2, service: {name: a, state: reloaded}, listen: b, when: "ansible_os_family != 'Debian'"}
"""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text, handlers))
    conversion = converted(playbook)
    debian, red_hat = {"facts.os.family": "Debian"}, {"facts.os.family": ["RedHat", "Suse"]}
    file = {"ensure": "file", "path": "/etc/a"}
    assert manifest_of(conversion)["resources"] == {
        "File[/etc/a]": {"when": debian, "ensure": "file", "content": "x", "notify": ["Service[a]", "Service[a (2)]"]},
        "File[/etc/a (2)]": {**file, "when": red_hat, "content": "y", "mode": "0600"},
        "File[/etc/a (3)]": {**file, "when": {"facts.os.family": "Gentoo"}, "content": "z"},
        "Service[a]": {"when": debian, "ensure": "running", "refresh": "restart"},
        "Service[a (2)]": {"when": {"facts.os.family": {"not": "Debian"}}, "name": "a", "refresh": "reload"},
    }
    assert [str(remark) for remark in conversion.remarks] == [
        f"{playbook}:13: copy: File[/etc/a] is declared at {playbook}:9 with other values"
    ]


def test_a_command_with_a_condition_does_not_run_in_every_apply(tmp_path: Path) -> None:
    """The comment about ``changed_when: false`` is for a command that nothing holds back."""
    playbook = tmp_path / "p.yml"
    for text, count in [("command: a", 1), ("command: a creates=/b", 0), ("apt: {cache_valid_time: 9}", 0)]:
        playbook.write_text(task(f"- {text}\n  changed_when: false"))
        assert converted(playbook).manifest.count("runs in every apply") == count


def test_a_contradiction_within_a_loop_is_a_comment(tmp_path: Path) -> None:
    """The other elements are converted; the manifest says which one is not, and where the first one stands."""
    text = """
- copy: {dest: /etc/a, content: x}
- copy: {dest: "{{ item }}", content: "{% if item %}y{% endif %}"}
  loop: [/etc/a, /etc/b]
"""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text))
    conversion = converted(playbook)
    contents = {name: row["content"] for name, row in manifest_of(conversion)["resources"].items()}
    assert contents == {"File[/etc/a]": "x", "File[/etc/b]": "${values.text_2}"}
    assert f"not repeated: File[/etc/a] is declared at {playbook}:3 with other values" in conversion.manifest


COMBINED: Final = [
    ("combine(more)", {"maps": ["${inputs.base}", "${inputs.more}"]}),
    ("combine(more, recursive=true)", {"maps": ["${inputs.base}", "${inputs.more}"], "deep": True}),
    ("combine(more, recursive=true, list_merge='append')", None),
]


@pytest.mark.parametrize(("text", "inputs"), COMBINED)
def test_combine_merges_as_deeply_as_in_the_playbook(text: str, inputs: Any, tmp_path: Path) -> None:
    """An option without a counterpart is not ignored."""
    playbook = tmp_path / "p.yml"
    playbook.write_text(
        task(f'- debug: {{msg: "{{{{ base | {text} }}}}"}}', "  vars: {base: {a: {}}, more: {b: {}}}\n")
    )
    conversion = converted(playbook)
    calls = [value["with"] for value in manifest_of(conversion).get("values", {}).values()]
    assert calls == ([] if inputs is None else [inputs])
    assert all("these arguments" in remark.reason for remark in conversion.remarks)


def test_no_title_depends_on_a_rendered_template(tmp_path: Path) -> None:
    """A label is replaced; a task whose resource would have such a name is converted to its module."""
    text = """
- shell: echo {{-unknown }}
- shell: echo {{-unknown }} {{ item }}
  loop: [1, 2]
- file: {path: "/etc/{{-unknown }}", state: touch}
"""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text))
    check_conversion(playbook.read_text())
    assert list(manifest_of(converted(playbook))["resources"]) == [
        "Exec[exec]",
        "Exec[exec (2)]",
        "Exec[exec (3)]",
        "Ansible_module[file]",
    ]


def test_an_expression_of_manifests_in_a_key_is_a_text(tmp_path: Path) -> None:
    """In a variable and in an argument, as in any text."""
    playbook = tmp_path / "p.yml"
    text = """- acme.tools.thing: {name: "{{ limits }}", body: {"${b}": "${c}"}}"""
    playbook.write_text(task(text, "  vars: {limits: {'${a}': 1}}\n"))
    conversion = converted(playbook)
    check_conversion(playbook.read_text())
    manifest = manifest_of(conversion)
    assert manifest["inputs"] == {"limits": {"default": {"$${a}": 1}}}
    (resource,) = manifest["resources"].values()
    assert resource["args"] == {"name": "${inputs.limits}", "body": {"$${b}": "$${c}"}}


def test_encrypted_values_become_inputs(tmp_path: Path) -> None:
    """They are never decrypted, and their text is nowhere."""
    text = """
- copy: {dest: /etc/a, content: "p = {{ password }}"}
- copy:
    dest: /etc/b
    content: !vault |
      $ANSIBLE_VAULT;1.1;AES256
      31323334
- copy: {src: secret, dest: /etc/c}
"""
    (tmp_path / "secret").write_text("$ANSIBLE_VAULT;1.1;AES256\n31323334\n")
    (tmp_path / "vars.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n31323334\n")
    playbook = tmp_path / "p.yml"
    playbook.write_text(task(text, "  vars_files: vars.yml\n"))
    conversion = converted(playbook)
    secret = {"type": "String", "sensitive": True}
    assert manifest_of(conversion)["inputs"] == {"password": secret, "copy_content": secret}
    assert "3132" not in conversion.manifest.replace("      31323334", "")
    reasons = [remark.reason for remark in conversion.remarks]
    assert reasons == [
        "the file is encrypted: its variables become mandatory inputs",
        "the file 'secret' is encrypted by ansible-vault",
    ]


_COLLECTION: Final = {"type": "Variant[Array, Hash]"}
LOOPED: Final = [
    ("{{ dirs }}", {"dirs": _COLLECTION}, {"dirs": ["a"]}),
    ("{{ tokens }}", {"tokens": _COLLECTION}, {"tokens": ["a"]}),
    ("{{ secrets.dirs }}", {"secrets": {"type": "Hash[String, Any]"}}, {"secrets": {"dirs": ["a"]}}),
    ("{{ dirs | default([]) }}", {"dirs": {"default": []}}, {"dirs": ["a"]}),
]


@pytest.mark.parametrize(("text", "inputs", "values"), LOOPED)
def test_a_variable_that_a_loop_repeats_over_is_a_collection(
    text: str, inputs: Any, values: dict[str, Any], tmp_path: Path
) -> None:
    """It is no secret whatever its name is: its elements are in titles."""
    playbook, site = tmp_path / "p.yml", tmp_path / "s.yaml"
    playbook.write_text(task(f"- file: {{path: '/srv/{{{{ item }}}}', state: directory}}\n  loop: '{text}'"))
    conversion = converted(playbook)
    assert manifest_of(conversion)["inputs"] == inputs
    site.write_text(conversion.manifest)
    runtime = Runtime(REGISTRY, state="memory:")
    assert [str(entry.reference) for entry in runtime.validate(str(site), values).entries] == ["File[/srv/a]"]
    with pytest.raises(ManifestError, match=r"not a string|it is no list and no mapping|its value is a text"):
        runtime.validate(str(site), dict.fromkeys(values, "text"))


def test_a_loop_over_an_encrypted_list_is_not_converted(tmp_path: Path) -> None:
    """Its elements would be in titles."""
    head = "  vars:\n    dirs:\n      - !vault |\n        $ANSIBLE_VAULT;1.1;AES256\n        3132\n"
    playbook = tmp_path / "p.yml"
    playbook.write_text(task("- file: {path: '/srv/{{ item }}', state: directory}\n  loop: '{{ dirs }}'", head))
    reasons = [remark.reason for remark in converted(playbook).remarks]
    assert reasons == ["'dirs' is a secret, and what a loop repeats over would be shown in titles"]


#: Tasks that a manifest can only have in part, whatever the inputs are, and the manifest's resources.
HIDDEN: Final = [
    (
        "name: n\n  command: a {{ my_token }}",
        {"Ansible_module[n]": {"module": "command", "args": {"cmd": "a ${inputs.my_token}"}}},
    ),
    ("name: n {{ my_token }}\n  debug: {msg: a}", {"Notify[notify]": {"message": "a"}}),
    (
        "name: n\n  copy: {dest: '/srv/{{ my_token }}', content: a}",
        {"Ansible_module[n]": {"module": "copy", "args": {"dest": "/srv/${inputs.my_token}", "content": "a"}}},
    ),
    ("command: a\n  environment: {A: '{{ my_token }}'}", {}),
    (
        "git: {repo: 'https://{{ my_token }}@x.org/a', dest: /srv/a}",
        {
            "Ansible_module[git]": {
                "module": "git",
                "args": {"repo": "https://${inputs.my_token}@x.org/a", "dest": "/srv/a"},
            }
        },
    ),
    (
        "pip: {name: a, virtualenv: /v, extra_args: '-i {{ my_token }}'}",
        {
            "Ansible_module[pip]": {
                "module": "pip",
                "args": {"name": "a", "virtualenv": "/v", "extra_args": "-i ${inputs.my_token}"},
            }
        },
    ),
    ("command: a\n  when: my_token != ''", {}),
    ("command: a\n  when: my_token | length > 0", {}),
    ("command: a\n  when: my_token in names", {}),
    ("command: a\n  when: rendered", {}),
    ("command: '{{ item }}'\n  loop: '{{ rendered }}'", {}),
    (
        "command: '{{ item }}'\n  loop: ['{{ my_token }}']",
        {"Ansible_module[command]": {"module": "command", "args": {"cmd": "${inputs.my_token}"}}},
    ),
]


@pytest.mark.parametrize(("text", "expected"), HIDDEN)
def test_what_a_manifest_cannot_have_is_avoided_where_inputs_are_mandatory(
    text: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    """Although `validate` cannot see it before they are given: secrets in titles, commands and conditions."""
    playbook, site = tmp_path / "p.yml", tmp_path / "s.yaml"
    playbook.write_text(task(f"- {text}", "  vars: {names: [a], rendered: \"{{ other ~ '-' if other else 'x' }}\"}\n"))
    conversion = converted(playbook)
    assert manifest_of(conversion)["resources"] == expected
    site.write_text(conversion.manifest)
    Runtime(REGISTRY, state="memory:").validate(str(site), mandatory(conversion))


def test_lists_are_joined_and_flattened(tmp_path: Path) -> None:
    """Where variables hold them; `with_items` repeats over the items of each; a name may be a text or a list."""
    text = """
- package: {name: "{{ one + ['z'] + two }}"}
- file: {path: "{{ item }}", state: directory}
  with_items: ["{{ dirs | unique }}", /srv/b]
- package: {name: "{{ word }}", state: latest}
- package: {name: "{{ unknown }}", state: absent}
- copy: {dest: /etc/a, content: "{{ one | sort }} is {{ map }}"}
"""
    playbook, site = tmp_path / "p.yml", tmp_path / "s.yaml"
    playbook.write_text(task(text, "  vars: {one: [x], two: [y], dirs: [/srv/a], word: w, map: {k: 1}}\n"))
    conversion = converted(playbook)
    assert conversion.remarks == []
    site.write_text(conversion.manifest)
    catalog = Runtime(REGISTRY, state="memory:").validate(str(site), {"unknown": ["u"]})
    packages = [f"Package[{name}]" for name in "xzy"]
    assert [str(entry.reference) for entry in catalog.entries] == [
        *packages,
        "File[/srv/a]",
        "File[/srv/b]",
        "Package[w]",
        "Package[u (2)]",
        "File[/etc/a]",
    ]
    assert "${" not in str(manifest_of(conversion)["resources"]["File[/etc/a]"]["content"]).replace("${values.text", "")


def test_a_variable_made_of_local_ones_has_a_value_for_each_use(tmp_path: Path) -> None:
    """As in Ansible: in each use of a role its own, and in a loop that of the element; a circle is refused."""
    playbook, tasks, defaults = tmp_path / "p.yml", tmp_path / "roles/r/tasks", tmp_path / "roles/r/defaults"
    tasks.mkdir(parents=True)
    defaults.mkdir()
    (defaults / "main.yml").write_text(
        "who: zero\ndir: '/srv/{{ who }}'\nsub: '{{ dir }}/sub'\nmore: '{{ who | realpath }}'\n"
    )
    (tasks / "main.yml").write_text(
        "- copy: {dest: '{{ sub }}', content: '{{ dir }}'}\n- {name: more, debug: {msg: '{{ more }}'}}\n"
    )
    playbook.write_text("""
- hosts: all
  vars: {path: "/opt/{{ item }}", a: "{{ b }}{{ item }}", b: "{{ a }}"}
  roles: [r, {role: r, who: one}, {role: r, vars: {who: two}}]
  tasks:
    - file: {path: "{{ path }}", state: directory}
      loop: [x, y]
    - {name: circle, file: {path: "/opt/{{ a }}", state: directory}, loop: [x, y]}
""")
    conversion = converted(playbook)
    assert [remark.title for remark in conversion.remarks] == ["more", "more", "more", "circle"]
    assert manifest_of(conversion)["resources"] == {
        "File[${values.sub}]": {"ensure": "file", "content": "${values.dir}"},
        "File[/srv/one/sub]": {"ensure": "file", "content": "/srv/one"},
        "File[/srv/two/sub]": {"ensure": "file", "content": "/srv/two"},
        "File[/opt/${each.value}]": {"for_each": ["x", "y"], "ensure": "directory"},
    }


def test_a_mode_that_is_a_number_keeps_its_meaning(tmp_path: Path) -> None:
    """YAML reads 0644 as 420, which a text of octal digits is not."""
    text = """
- copy: {dest: /etc/a, content: a, mode: "{{ plain }}"}
- file: {path: "{{ item.path }}", mode: "{{ item.mode }}", state: directory}
  loop: [{path: /srv/a, mode: 0700}, {path: /srv/b, mode: "0750"}]
- {name: inner, copy: {dest: /etc/b, content: b, mode: "{{ inner.mode }}"}}
- name: rows
  file: {path: "{{ item.path }}", mode: "{{ item.mode }}", state: directory}
  loop: "{{ rows }}"
"""
    rows = resources(tmp_path, text, "  vars: {plain: 0644, inner: {mode: 0600}, rows: [{path: /srv/c, mode: 0711}]}\n")
    playbook = tmp_path / "p.yml"
    assert manifest_of(converted(playbook))["inputs"]["plain"] == {"type": "String", "default": "0644"}
    assert rows["File[/etc/a]"]["mode"] == "${inputs.plain}"
    assert [row["mode"] for row in rows["File[${each.value.path}]"]["for_each"]] == ["0700", "0750"]
    assert {"Ansible_module[inner]", "Ansible_module[rows ${each.index}]"} <= rows.keys()


def test_a_variable_that_is_shown_is_a_message(tmp_path: Path) -> None:
    """With its value; an `ansible_module` has no variables."""
    text = "- debug: {var: word}\n- debug: {var: map.k}\n- debug: {var: item}\n  loop: [a]\n"
    rows = resources(tmp_path, text, "  vars: {word: w, map: {k: 1}}\n")
    messages = [row["message"] for row in rows.values()]
    assert messages == ["word: ${inputs.word}", "map.k: ${values.json}", "item: a"]


@pytest.mark.parametrize(("hosts", "is_converted"), [("all", False), ("localhost", True)])
def test_a_task_for_the_controlling_machine_is_not_one_for_the_host(
    hosts: str, *, is_converted: bool, tmp_path: Path
) -> None:
    """Unless the play is for that machine."""
    playbook = tmp_path / "p.yml"
    playbook.write_text(task("- command: a\n  delegate_to: localhost").replace("all", hosts))
    assert (converted(playbook).remarks == []) is is_converted


def test_a_prompt_is_a_secret_unless_it_is_shown(tmp_path: Path) -> None:
    """It then has its default, or none."""
    head = "  vars_prompt: [{name: a}, {name: b, private: no, default: x}, {name: c, private: no}]\n"
    playbook = tmp_path / "p.yml"
    playbook.write_text(task("- copy: {dest: /etc/a, content: '{{ a }} {{ b }} {{ c }}'}", head))
    conversion = converted(playbook)
    assert manifest_of(conversion)["inputs"] == {
        "a": {"type": "String", "sensitive": True},
        "b": {"type": "String", "default": "x"},
        "c": {"type": "NotUndef[Any]"},
    }
    assert "asked by vars_prompt" in conversion.manifest


def test_a_value_that_the_type_refuses_makes_an_ansible_module(tmp_path: Path) -> None:
    """So the manifest is valid whatever a playbook has."""
    rows = resources(tmp_path, "- name: n\n  apt: {name: 'bad name'}")
    assert rows == {"Ansible_module[n]": {"module": "apt", "args": {"name": "bad name"}}}


HOSTILE: Final = {
    "a: b": "a playbook is a list of plays",
    "- a": "a play is a mapping, not 'a'",
    "- tasks: []": "1:3: this is no play: it has no 'hosts'",
    "- hosts: all\n  tasks:\n    - {copy: , file: }": "3:7: a task has one module, this one has 'copy' and 'file'",
    "- hosts: all\n  tasks:\n    - name: x": "3:7: this task has no module",
    "- hosts: all\n  tasks: 5": "tasks are a list",
    "- hosts: all\n  vars: &a {b: *a}": "2:9: this alias stands inside its own anchor",
    "- hosts: all\n  vars: {b: !!python/object:os.system x}": "2:13: unknown tag 'python/object:os.system'",
    "- hosts: all\n  vars: {b: !foo x}": "2:13: unknown tag '!foo'",
    "- hosts: [": "not valid YAML: ",
    "[" * 200: "1:101: nested deeper than 100",
    "\x00": "control character U+0000",
    "$ANSIBLE_VAULT;1.1;AES256\n31": "this file is encrypted by ansible-vault",
    "- import_playbook: p.yml": "this file includes itself",
    "- import_playbook: none.yml": "none.yml: cannot be read: No such file or directory",
    "- hosts: all\n  tasks: [import_tasks: t.yml]": "t.yml:1:1: this file includes itself",
    "- hosts: all\n  tasks: [import_tasks: bomb.yml]": "aliases expand this file beyond the limit",
}


@pytest.mark.parametrize(("text", "message"), HOSTILE.items())
def test_a_file_that_is_no_playbook_is_an_error_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    """As a wrong manifest is; nothing is executed, and no memory or stack is exhausted."""
    playbook = tmp_path / "p.yml"
    playbook.write_bytes(text.encode())
    (tmp_path / "t.yml").write_text("- include_tasks: t.yml\n")
    lines = [f"b{number}: &b{number} [{', '.join([f'*b{number - 1}'] * 9)}]" for number in range(1, 12)]
    (tmp_path / "bomb.yml").write_text(
        "\n".join(["- name: x", "  vars:", "    b0: &b0 [1]", *(f"    {line}" for line in lines)])
    )
    with pytest.raises(ManifestError, match=re.escape(message)):
        converted(playbook)


BASE: Final = task(
    """
- name: a
  copy: {dest: "/etc/{{ x }}", content: "{{ y | default('z') }}", mode: 0644}
  when: x == 'a' and (y is defined or not z)
  loop: "{{ list }}"
  notify: h
- shell: echo {{ item.a }} creates=/x
  with_items: [{a: 1}, {b: "${c}"}]
""",
    "  vars: {x: a, list: [1, 2]}\n",
)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, len(BASE)), st.integers(0, 6), st.text("ab{}[]'\"|:,-&*!#%$\n ", max_size=4)),
        min_size=1,
        max_size=3,
    )
)
def test_any_text_gives_a_valid_manifest_or_an_error(edits: list[tuple[int, int, str]]) -> None:
    """A playbook with mistakes anywhere."""
    text = BASE
    for start, length, insertion in edits:
        text = text[:start] + insertion + text[start + length :]
    check_conversion(text)


def check_conversion(text: str) -> None:
    """Convert a playbook, and check the manifest if there is one."""
    with tempfile.TemporaryDirectory() as directory:
        playbook = Path(directory, "p.yml")
        playbook.write_text(text)
        try:
            conversion = converted(playbook)
        except ManifestError:
            return
        site = Path(directory, "s.yaml")
        site.write_text(conversion.manifest)
        runtime = Runtime(REGISTRY, state="memory:")
        values: list[Any] = ["text", "/text", ["text"]]
        for value in values:  # an input may be a path, or a list
            with suppress(ManifestError):
                runtime.validate(str(site), mandatory(conversion, value))
                return
        runtime.validate(str(site), mandatory(conversion, [dict.fromkeys("ab", "text")]))


VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 700)
    | st.sampled_from(["a", "{{ x }}", "/etc/a", "{{ item.b }}", "r.rc == 0"]),
    lambda part: (
        st.lists(part, max_size=2) | st.dictionaries(st.sampled_from(["a", "name", "path", "${a}"]), part, max_size=2)
    ),
    max_leaves=4,
)
KEYWORDS: Final = """
    args become become_user block changed_when delay environment failed_when loop loop_control name
    notify register retries rescue tags until vars when with_items with_dict with_fileglob listen delegate_to
    ignore_errors"""
ARGUMENTS: Final = "name path dest src content state mode owner line regexp block key user value cmd creates"
TASKS: Final = st.builds(
    lambda module, arguments, keywords: {module: arguments, **keywords},
    st.sampled_from(
        ["copy", "file", "user", "apt", "shell", "lineinfile", "blockinfile", "ini_file", "service", "cron"]
    )
    | st.sampled_from(
        ["authorized_key", "include_tasks", "include_role", "set_fact", "debug", "pip", "git", "template"]
    )
    | st.sampled_from(["get_url", "unarchive", "sysctl", "mount", "stat", "command", "x.y.z", "wait_for", "meta"]),
    st.dictionaries(st.sampled_from(ARGUMENTS.split()), VALUES, max_size=4) | VALUES,
    st.dictionaries(st.sampled_from(KEYWORDS.split()), VALUES, max_size=3),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(TASKS, min_size=1, max_size=3), st.dictionaries(st.sampled_from(["x", "r"]), VALUES), VALUES)
def test_any_structure_gives_a_valid_manifest_or_an_error(
    tasks: list[dict[str, Any]], variables: dict[str, Any], roles: Any
) -> None:
    """A playbook with values of any kind anywhere."""
    play = {"hosts": "all", "vars": variables, "tasks": tasks, "handlers": tasks[:1], "roles": roles}
    check_conversion(json.dumps([play]))


@pytest.mark.process
@pytest.mark.parametrize(("name", "code"), [("files.yml", 0), ("tricky.yml", 1), ("none.yml", 65)])
def test_the_exit_code_says_whether_all_was_converted(name: str, code: int, tmp_path: Path) -> None:
    """The manifest is printed in each case but an error; the summary is on stderr."""
    ended = command.run(
        ["convert", str(PLAYBOOKS / name)], cwd=tmp_path, env=command.environment_of(tmp_path), text=True
    )
    assert ended.returncode == code, ended.stderr
    assert ("resources:" in ended.stdout) == (code != 65)
    if code == 1:
        assert "not converted: 7" in ended.stderr.splitlines()[-1]
        assert f"Warning: {PLAYBOOKS}/tricky.yml:20: Elsewhere: 'delegate_to' has no" in ended.stderr
    if code == 65:
        assert "none.yml: cannot be read: No such file or directory" in ended.stderr


@pytest.mark.process
def test_json_has_the_manifest_and_all_that_is_missing(tmp_path: Path) -> None:
    """For each task its file, line, name and the reason."""
    arguments = ["convert", str(PLAYBOOKS / "tricky.yml"), "--json"]
    ended = command.run(arguments, cwd=tmp_path, env=command.environment_of(tmp_path), text=True)
    document = json.loads(ended.stdout)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert document["manifest"].startswith("# Converted from ")
    assert document["not_converted"][0] == {
        "file": str(PLAYBOOKS / "tricky.yml"),
        "line": 20,
        "task": "Elsewhere",
        "reason": "'delegate_to' has no counterpart: a manifest describes one machine",
    }
