"""A new file that is made of a secret can be read by its owner alone, whichever type writes it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from resource_api import ManifestError, Runtime
from resource_api.testing import rehearse
from tests.providers.applied import REGISTRY

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SECRET: Final = "secret-of-mine-1234"

#: Type → the attributes of a resource of it that is made of a secret, and its file.
MADE: Final = {
    "apt_pin": (
        'explanation: "${inputs.s}", packages: ["*"], pin: "release a=x", priority: 1',
        "/etc/apt/preferences.d/ra.pref",
    ),
    "apt_source": (
        'uris: ["https://u:${inputs.s}@example.org/"], suites: [x], components: [main], update: false',
        "/etc/apt/sources.list.d/ra.sources",
    ),
    "block_in_file": ('path: /srv/block, block: "a ${inputs.s}"', "/srv/block"),
    "concat": ('path: /srv/whole, source: [/etc/hostname], header: "${inputs.s}"', "/srv/whole"),
    "cron": ('user: root, command: "echo ${inputs.s}", minute: 1', "/var/spool/cron/crontabs/root"),
    "file": ('path: /srv/file, content: "a ${inputs.s}"', "/srv/file"),
    "file_line": ('path: /srv/line, line: "a ${inputs.s}", match: "^a "', "/srv/line"),
    "host": ('name: ra.example, ip: 192.0.2.1, comment: "${inputs.s}", target: /srv/hosts', "/srv/hosts"),
    "ini_setting": ('path: /srv/ini, section: a, setting: b, value: "${inputs.s}"', "/srv/ini"),
    "json_setting": ('path: /srv/json, key: a.b, value: ["${inputs.s}"]', "/srv/json"),
    "logrotate_rule": (r'content: "/var/log/ra.log {\n # ${inputs.s}\n daily\n}\n"', "/etc/logrotate.d/ra"),
    "sudo_rule": (r'content: "# ${inputs.s}\n"', "/etc/sudoers.d/ra"),
    "toml_setting": ('path: /srv/toml, key: a.b, value: "${inputs.s}"', "/srv/toml"),
    "yaml_setting": ('path: /srv/yaml, key: a.b, value: {c: "${inputs.s}"}', "/srv/yaml"),
}
#: Attributes with lists of texts that the provider writes in one form, so that none of them can be a secret.
PLAIN: Final = {
    "Concat[/srv/a]": ("source", {}),
    "Host[a]": ("host_aliases", {"ip": "192.0.2.1"}),
    "Known_host[a@ssh-ed25519]": (
        "host_aliases",
        {"key": "AAAAC3NzaC1lZDI1NTE5AAAAIGmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy1"},
    ),
    "Resolver[/srv/a]": ("search", {}),
    "X509_certificate[/srv/a]": ("alt_names", {"private_key": "/srv/key"}),
}
#: Types that write files, and why they are not in the table.
OTHERS: Final = {
    "acl": "rights of a file that exists",
    "apt_key": "a public key",
    "capability": "rights of a file that exists",
    "archive": "a secret archive comes from a Python manifest: test_archive.py",
    "file_tree": "the modes of the source",
    "git_checkout": "git writes; its password is passed by a pipe",
    "hostname": "a name",
    "known_host": "public keys",
    "locale": "names",
    "mount": "a file that exists",
    "nft_ruleset": "private in any case",
    "python_package": "pip writes",
    "python_venv": "no value",
    "resolver": "addresses and names",
    "ssh_authorized_key": "private in any case",
    "sysctl": "acts on the kernel: written as host",
    "systemd_unit": "acts on systemd: written as logrotate_rule",
    "timezone": "a name",
    "user": "a copy of files",
    "x509_certificate": "public",
    "x509_key": "private in any case",
}
WRITES: Final = re.compile(
    r"files\.(replace|edit|edit_lines|Batch|unpack)\(|file_parts\.edit|program_checked_files\.write\(|write_all\(|SettingsProvider"
)


def test_every_type_that_writes_files_is_known() -> None:
    """A new one is in the table, or it is said why not."""
    writing = {path.stem for path in (ROOT / "providers").glob("*.py") if WRITES.search(path.read_text("utf-8"))}
    assert writing <= MADE.keys() | OTHERS.keys(), writing - MADE.keys() - OTHERS.keys()


def _manifest(directory: Path) -> Path:
    """Write a manifest that makes a file of a secret with each type; return its path."""
    resources = "\n".join(f"  {kind.capitalize()}[ra]: {{{text}}}" for kind, (text, _) in MADE.items())
    resources = resources.replace("Host[ra]: {name: ra.example, ", "Host[ra.example]: {")
    manifest = directory / "site.yaml"
    manifest.write_text(f"inputs: {{s: {{type: 'Sensitive[String]', default: {SECRET}}}}}\nresources:\n{resources}\n")
    return manifest


def _private(digits: str) -> list[str]:
    """Return commands that fail unless each file has the secret with some last digits, and is private."""
    is_private = "case $(stat -c %A {}) in -rw-------|-r--r-----) ;; *) false;; esac"
    paths = [path for _, path in MADE.values()]
    return [f"grep -q {SECRET[:-4]}{digits} {path} && {is_private.format(path)}" for path in paths]


def test_a_new_file_with_a_secret_is_private(tmp_path: Path) -> None:
    """It holds the secret itself, nobody but its owner, and for sudo the group of root, may read it, and it stays."""
    result = rehearse(_manifest(tmp_path), tests=_private("[0-9]*"))
    assert result.ok, result


def test_a_file_stays_private_when_its_secret_changes(tmp_path: Path) -> None:
    """Whichever type writes it, in the place of the private file that it has made."""
    manifest = _manifest(tmp_path)
    (tmp_path / "changed").write_text(f"{SECRET[:-4]}5678")
    apply = f"{sys.executable} -P -m resource_api apply {manifest} -i s=@{tmp_path}/changed"
    result = rehearse(manifest, tests=[apply, *_private("5678")])
    assert result.ok, result


MODES: Final = {
    'File[/srv/a]: {content: "${inputs.s}", mode: "0644"}': (
        "mode 0644 lets everybody read the file, and content is secret"
    ),
    'File[/srv/a]: {content: "${inputs.s}", mode: "a+r"}': (
        "mode a+r lets everybody read the file, and content is secret"
    ),
    'File[/srv/a]: {content: "${inputs.s}", mode: "0640"}': "",
    'File[/srv/a]: {content: "${inputs.s}", mode: "g+r"}': "",
    'File[/srv/a]: {content: "plain", mode: "0644"}': "",
    'Concat[/srv/a]: {source: [/b], header: "${inputs.s}", mode: "0604"}': (
        "mode 0604 lets everybody read the file, and header is secret"
    ),
    'X509_key[/srv/a]: {mode: "0644"}': "mode 0644 lets everybody read the file, and the private key is secret",
}


@pytest.mark.parametrize("resource", MODES)
def test_a_mode_that_lets_everybody_read_a_secret_is_a_warning(tmp_path: Path, resource: str) -> None:
    """It is at the mode, and the mode counts."""
    text = f"inputs: {{s: {{type: 'Sensitive[String]', default: {SECRET}}}}}\nresources:\n  {resource}\n"
    manifest = tmp_path / "site.yaml"
    manifest.write_text(text)
    command = [sys.executable, "-P", "-m", "resource_api", "validate", str(manifest)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    warnings = [line for line in process.stderr.splitlines() if "Warning: " in line]
    assert [line.partition("]: ")[2] for line in warnings] == ([MODES[resource]] if MODES[resource] else [])


def test_letters_of_a_mode_add_to_the_private_one(tmp_path: Path) -> None:
    """What everybody may do with other new files is not added."""
    manifest = tmp_path / "site.yaml"
    manifest.write_text(
        f"inputs: {{s: {{type: 'Sensitive[String]', default: {SECRET}}}}}\n"
        'resources:\n  File[/srv/a]: {content: "${inputs.s}", mode: "g+r"}\n  File[/srv/b]: {content: b, mode: "g+w"}\n'
        '  File[/srv/parts]: {ensure: directory}\n  File[/srv/parts/1]: {content: "${inputs.s}"}\n'
        "  Concat[/srv/c]: {source: /srv/parts, require: 'File[/srv/parts/1]'}\n"
    )
    test = 'test "$(stat -c %a /srv/a /srv/b /srv/c | xargs)" = "640 664 600"'
    assert rehearse(manifest, tests=[test]).ok


@pytest.mark.parametrize("title", PLAIN)
def test_a_secret_in_a_list_is_refused_with_its_attribute(title: str) -> None:
    """Where the provider compares texts; not by an exception of the provider, and without the secret."""
    attribute, more = PLAIN[title]
    inputs = {"s": {"type": "Sensitive[String]", "default": "/srv/secret-of-mine"[5 * (attribute != "source") :]}}
    resources = {title: {**more, attribute: ["${inputs.s}"]}}
    with pytest.raises(ManifestError) as raised:
        Runtime(REGISTRY).validate({"inputs": inputs, "resources": resources})
    assert f"{attribute} cannot be or contain a secret" in str(raised.value)
    assert "secret-of-mine" not in str(raised.value)
