"""A whole Debian machine under the command: every bundled type in one manifest, created and destroyed again.

Each test runs in a mount namespace where overlays take all writes to /etc, the homes, the crontabs and the directories
of apt and dpkg. They disappear with the namespace, however the test ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
from itertools import chain
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final

import pytest

import resource_api
from tests import command, wheels
from tests.namespaces import private_kernel
from tests.scenarios.conftest import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
#: Services are tested on a machine with systemd of their own; the others leave nothing behind on any machine, or are
#: what a machine has one of, so that ``destroy`` leaves them as they are.
ELSEWHERE: Final = {
    "ansible_module",
    "assert",
    "hostname",
    "http_resource",
    "mysql_database",
    "mysql_grant",
    "mysql_user",
    "nft_ruleset",
    "notify",
    "postgresql_database",
    "postgresql_grant",
    "postgresql_role",
    "resolver",
    "service",
    "std",
    "template",
    "tidy",
    "timezone",
    "user_service",
    "wait_for",
}
TYPES: Final = sorted({path.stem for path in (ROOT / "types").glob("*.py")} - ELSEWHERE)

#: Types whose resources cannot be listed.
UNLISTED: Final = {
    "acl",
    "capability",
    "concat",
    "archive",
    "block_in_file",
    "exec",
    "file",
    "file_line",
    "file_tree",
    "git_checkout",
    "ini_setting",
    "json_setting",
    "python_package",
    "python_venv",
    "toml_setting",
    "x509_certificate",
    "x509_key",
    "yaml_setting",
}

STAGE: Final = Path("/srv")  # a file system in memory covers it
OWN: Final = STAGE / ".ra-test"
REPOSITORY: Final = STAGE / ".ra-test-repository"

#: Directories of the machine whose writes an overlay takes; the first is small enough for a copy.
COPIED: Final = "/etc"
LAYERED: Final = ("/home", "/usr/lib/locale", "/usr/local/share", "/var/lib/dpkg")
#: Directories that are empty, as on a new machine: other tests use the real ones meanwhile.
EMPTY: Final = ("/var/cache/apt", "/var/lib/apt", "/var/log", "/var/mail", "/var/spool/cron")

#: Directories whose content is compared; of the rest only the list of packages is.
COMPARED: Final = ("/etc", "/home/ra-test-guest", "/home/ra-test-user", "/var/mail", "/var/spool/cron", str(STAGE))

#: Backups and the lock of the account files, which are not compared.
ASIDE: Final = {Path("/etc/.pwd.lock")} | {
    Path(f"/etc/{name}-") for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")
}
#: The header that crontab(1) writes above a table, with the time of its installation.
_HEADER: Final = re.compile(rb"\A# DO NOT EDIT.*\n(# \(.*\n){2}")

#: A public key without a private key.
KEY: Final = "AAAAC3NzaC1lZDI1NTE5AAAAIGmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy1"

MANIFEST: Final = """
    project: ra-test
    inputs:
      greeting: {type: String, default: hello}
    defaults:
      File: {owner: root, group: root}
    resources:
      # Resources that exist before the run and are adopted.
      Group[ra-test-old]: {}
      Package[ra-test-old]: {ensure: present}
      Host[ra-test-old]: {ip: 192.0.2.1}
      Cron[ra-test-old]: {command: /bin/true, minute: 5}

      Apt_key[FINGERPRINT]:
        source: /srv/.ra-test-repository/key.asc
        before: Package[ra-test-tool]
      Apt_pin[ra-test]: {packages: [ra-test-tool], pin: version 1.1*, priority: 900}
      Apt_source[ra-test]:
        uris: ["file:/srv/.ra-test-repository"]
        suites: [./]
        options: {Trusted: true}
        before: Package[ra-test-tool]
      Package[ra-test-tool]: {ensure: latest}
      Group[ra-test-staff]: {}
      User[ra-test-user]:
        uid: 61234
        gid: ra-test-staff
        groups: [audio, ra-test-old]
        comment: Ra Test
        home: /home/ra-test-user
        shell: /bin/bash
        managehome: true
      Ssh_authorized_key[ra-test-key]:
        user: ra-test-user
        type: ssh-ed25519
        key: KEY
        options: [no-pty]
      Python_venv[/srv/ra-test-venv]: {pip: false, system_site_packages: true}
      Python_package[ra-test /srv/ra-test-venv]: {source: /srv/.ra-test-repository/ra_test-1.0-py3-none-any.whl}
      Known_host[ra-test.example@ed25519]: {key: KEY, host_aliases: [192.0.2.2]}
      Sudo_rule[ra-test]: {user: ra-test-user, commands: [/usr/bin/true], nopasswd: true}
      Host[ra-test.example]: {ip: 192.0.2.2, host_aliases: [ra-test], require: "Package[ra-test-tool]"}
      File[/etc/ra-test-scratch]: {ensure: directory}
      Mount[/etc/ra-test-scratch]: {device: tmpfs, fstype: tmpfs, options: size=64k}
      Systemd_unit[ra-test.service]: {content: {Service: {ExecStart: /bin/sleep 1000}}}
      Alternatives[ra-test]: {link: /etc/ra-test-tool, choices: {/bin/true: {priority: 5}}}
      Logrotate_rule[ra-test]: {content: {/srv/ra-test/*.log: {rotate_every: weekly, rotate: 4}}}
      Locale[ra_XA]: {charset: ANSI_X3.4-1968}
      Sysctl[ra-test-forward]: {name: net.ipv4.ip_forward, target: /etc/sysctl.d/90-ra-test.conf, value: 1}
      Cron[ra-test-job]: {user: ra-test-user, command: date > /dev/null, hour: 3, minute: 15}

      File[/etc/ra-test]: {ensure: directory, mode: "0750", group: ra-test-staff, force: true}
      Exec[ra-test-initialise]:
        command: [/bin/sh, -c, "echo once >> /etc/ra-test/initialised"]
        creates: /etc/ra-test/initialised
        require: File[/etc/ra-test]
      File[/etc/ra-test/tool.conf]:
        content: "${inputs.greeting} from ${User[ra-test-user].home}\\n"
        require: Package[ra-test-tool]
        notify: Exec[ra-test-reload]
      File[/etc/ra-test/motd]: {content: "Welcome.\\n", mode: "0640"}
      File[/etc/ra-test/current]: {target: tool.conf}
      File[/srv/.ra-test-shared]: {ensure: directory, force: true}
      Acl[/srv/.ra-test-shared]: {permission: ["user:daemon:rwx", "default:user:daemon:rwx"]}
      Concat[/etc/ra-test/together]: {source: [/etc/ra-test/copy], mode: "0640"}
      File[/srv/.ra-test-program]: {source: /bin/true, mode: "0755"}
      Capability[/srv/.ra-test-program]: {capability: cap_net_raw=ep}
      File[/etc/ra-test/parts]: {ensure: directory, force: true}
      Git_checkout[/srv/.ra-test-checkout]: {source: /srv/.ra-test-repository/code, revision: main}
      File_line[/etc/ra-test/parts/lines:^PAGER=]: {line: PAGER=less}
      Block_in_file[/etc/ra-test/parts/lines:ra-test]: {block: text}
      Ini_setting[/etc/ra-test/parts/app.ini:ra-test:size]: {value: 5}
      Yaml_setting[/etc/ra-test/parts/app.yaml:ra-test.size]: {value: 5}
      Json_setting[/etc/ra-test/parts/app.json:ra-test.size]: {value: 5}
      Toml_setting[/etc/ra-test/parts/app.toml:ra-test.size]: {value: 5}
      File[/srv/.ra-test-x509]: {ensure: directory, force: true}
      X509_key[/srv/.ra-test-x509/key]: {mode: "0640"}
      X509_certificate[/srv/.ra-test-x509/cert]: {private_key: /srv/.ra-test-x509/key, subject: {CN: ra.example}}
      Archive[/etc/ra-test/site]:
        source: {archive: {files: {index.html: {asset: {text: "hi"}}, css/a.css: {asset: {text: "a {}"}}}}}
        mode: "0640"
      File_tree[/etc/ra-test/tree]: {source: /etc/ra-test/site, purge: true, mode: "u=rwX,g=rX,o="}
      File[/etc/ra-test/copy]: {source: /srv/ra-test-tool/README, require: "Package[ra-test-tool]"}
      Exec[ra-test-reload]:
        command: echo reloaded >> /etc/ra-test/reloads
        shell: true
        refreshonly: true
    outputs:
      conf: ${File[/etc/ra-test/tool.conf].checksum}
"""
OLD: Final = {"Group[ra-test-old]", "Package[ra-test-old]", "Host[ra-test-old]", "Cron[ra-test-old]"}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a machine to change")


def run(*argv: str | Path, data: bytes | None = None) -> str:
    """Run a program that must succeed and return its output."""
    process = subprocess.run(argv, check=False, capture_output=True, input=data)
    assert process.returncode == 0, (argv, process.stderr.decode())
    return process.stdout.decode()


class Ran(Outcome):
    """The result of one run of the command."""

    @property
    def done(self) -> list[tuple[str, str]]:
        """Return the references and actions of a run in order."""
        return [(event["reference"], event["action"]) for event in self.events("step_end")]


class Machine:
    """The machine as the tests use it: through the command, and through the tools of an administrator."""

    def __init__(self, home: Path, fingerprint: str) -> None:
        """Keep the manifest and the state in ``home``."""
        self.home = home
        self.fingerprint = fingerprint
        self.manifest = home / "site.yaml"
        text = dedent(MANIFEST).replace("FINGERPRINT", fingerprint).replace("KEY", KEY)
        self.manifest.write_text(text, encoding="utf-8")
        self.state = home / "state" / "state.db"

    def command(self, *arguments: str | Path) -> Ran:
        """Run ``resource-api`` with the private state."""
        environment = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")} | {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(Path(resource_api.__file__).parent.parent),
            "RESOURCE_API_STATE": f"sqlite:{self.state}",
        }
        process = command.run([*map(str, arguments)], cwd=self.home, env=environment, text=True, timeout=60)
        assert "Traceback" not in process.stderr, process.stderr
        return Ran(process.returncode, process.stdout, process.stderr)

    def apply(self, *options: str) -> Ran:
        """Apply the manifest with JSON output."""
        return self.command("apply", self.manifest, "--json", *options)

    def converged(self) -> Ran:
        """Apply and check that it succeeds."""
        outcome = self.apply()
        assert outcome.code == 0, outcome.err
        return outcome

    def declared(self) -> list[dict[str, Any]]:
        """Return the resources of the manifest."""
        graph = json.loads(self.command("graph", self.manifest, "--format", "json").out)
        return list(graph["nodes"])

    def serial(self) -> int:
        """Return the serial of the recorded state."""
        exported: dict[str, Any] = json.loads(self.command("state", "export").out)
        return int(exported["serial"])

    def content(self) -> dict[str, Any]:
        """Return the content of the machine, in files and in the list of packages, without caches of programs."""
        entries: dict[str, Any] = {"packages": run("dpkg-query", "-W", "-f", "${Package} ${Version} ${Status}\n")}
        for directory, names, files in chain.from_iterable(map(os.walk, COMPARED)):
            names[:] = [name for name in names if not name.startswith(".ra-test")]
            for path in (Path(directory, name) for name in ("", *names, *files)):
                if path not in ASIDE:
                    entries[str(path)] = described(path)
        return entries

    def writes(self) -> dict[str, Any]:
        """Return the time of the last write or change of each file that the test can change."""
        return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_ctime_ns) for path in OWN.rglob("*")}


def described(path: Path) -> tuple[object, ...]:
    """Return what a file is: kind and permissions, owners, and its bytes or target."""
    status, inside = path.lstat(), ""
    if stat.S_ISREG(status.st_mode):
        data = path.read_bytes()
        inside = hashlib.sha256(_HEADER.sub(b"", data) if "cron" in path.parts else data).hexdigest()
    elif stat.S_ISLNK(status.st_mode):
        inside = str(path.readlink())
    return oct(status.st_mode), status.st_uid, status.st_gid, inside


def own(path: str) -> Path:
    """Return the directory that replaces ``path``, or takes the writes to it."""
    return OWN / path.replace("/", "-")


def twin(location: str, path: Path) -> None:
    """Create an empty directory with the owner and permissions of ``location``."""
    path.mkdir()
    status = Path(location).stat()
    os.chown(path, status.st_uid, status.st_gid)
    path.chmod(stat.S_IMODE(status.st_mode))


def isolate() -> None:
    """Cover each directory that the test may change."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "ra-test", STAGE)
    OWN.mkdir()
    run("cp", "-a", COPIED, own(COPIED))
    for path in (*LAYERED, *EMPTY):
        twin(path, own(path))
    twin("/var/spool/cron/crontabs", own("/var/spool/cron") / "crontabs")
    for location in LAYERED:
        work = own(location).with_suffix(".work")
        work.mkdir()
        layers = f"lowerdir={location},upperdir={own(location)},workdir={work}"
        run("mount", "-t", "overlay", "-o", layers, "ra-test", location)
    for position in (COPIED, *EMPTY):
        run("mount", "--bind", own(position), position)
    Path("/var/log/apt").mkdir()


def build(name: str, version: str) -> str:
    """Build a package and return its paragraph of the repository's index."""
    tree = STAGE / ".ra-test-tree"
    (tree / "DEBIAN").mkdir(parents=True)
    fields = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody\nDescription: test\n"
    (tree / "DEBIAN" / "control").write_text(fields)
    (tree / "srv" / name).mkdir(parents=True)
    (tree / "srv" / name / "README").write_text(f"{name} {version}\n")
    file = REPOSITORY / f"{name}_{version}.deb"
    run("dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, file)
    run("rm", "-r", tree)
    data = file.read_bytes()
    return f"{fields}Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"


def furnish(key: str) -> None:
    """Set up a repository on the machine, and example content of users."""
    REPOSITORY.mkdir()
    (REPOSITORY / "key.asc").write_text(key)
    wheels.build(REPOSITORY, "ra_test", "1.0")
    index = [build("ra-test-tool", "1.0"), build("ra-test-tool", "1.1"), build("ra-test-old", "1.0")]
    (REPOSITORY / "Packages").write_text("\n".join(index))
    run("rm", "-rf", *(f"/etc/apt/{name}.d" for name in ("apt.conf", "sources.list", "preferences")))
    for name in ("apt.conf", "preferences", "sources.list"):
        Path(f"/etc/apt/{name}.d").mkdir()
    Path("/etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{REPOSITORY} ./\n")
    # apt compares the age of its cache in whole seconds, and tests are faster.
    Path("/etc/apt/apt.conf").write_text('Dir::Cache { pkgcache ""; srcpkgcache ""; };\n')
    code = REPOSITORY / "code"
    run("git", "init", "-q", "-b", "main", "--template=", code)
    (code / "README").write_text("code\n")
    run("git", "-C", code, "add", "README")
    run("git", "-C", code, "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "first")
    sources = Path("/usr/local/share/i18n/locales")
    sources.mkdir(parents=True, exist_ok=True)
    (sources / "ra_XA").write_bytes(Path("/usr/share/i18n/locales/POSIX").read_bytes())
    run("apt-get", "update")
    run("dpkg", "--install", REPOSITORY / "ra-test-old_1.0.deb")
    # userdel refuses an account with processes, and those of other machines that run here are seen as well.
    with Path("/etc/login.defs").open("a") as settings:
        settings.write("SYS_UID_MAX 899\nSYS_GID_MAX 899\n")
    run("groupadd", "ra-test-old")
    run("useradd", "--create-home", "--groups", "ra-test-old", "ra-test-guest")
    ssh = Path("/home/ra-test-guest/.ssh")
    ssh.mkdir(mode=0o700)
    (ssh / "authorized_keys").write_text(f"# mine\nssh-ed25519 {KEY} ra-test-guest's\n")
    run("chown", "-R", "ra-test-guest:", ssh)
    with Path("/etc/hosts").open("a") as hosts:
        hosts.write("192.0.2.1\tra-test-old\n")
    Path("/etc/ssh/ssh_known_hosts").write_text(f"ra-test-old ssh-ed25519 {KEY}\n")
    jobs = b"# by hand\n0 4 * * * /bin/false\n\n# resource-api: ra-test-old\n5 * * * * /bin/true\n"
    run("crontab", "-u", "root", "-", data=jobs)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compile the code once; without bytecode every run of the command takes twice as long."""
    command.compile_code()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Create a key for apt; return its fingerprint and its text."""
    home = tmp_path_factory.mktemp("gpg")
    gpg = ("gpg", "--homedir", str(home), "--batch", "--quiet")
    try:
        run(*gpg, "--passphrase", "", "--quick-gen-key", "ra-test", "ed25519", "sign", "never")
        [fingerprint] = [
            line.split(":")[9] for line in run(*gpg, "--with-colons", "-k").splitlines() if line[:3] == "fpr"
        ]
        yield fingerprint, run(*gpg, "--armor", "--export")
    finally:
        run("gpgconf", "--homedir", home, "--kill", "all")


@pytest.fixture
def machine(key: tuple[str, str], tmp_path: Path) -> Iterator[Machine]:
    """Enter a mount namespace with a prepared machine, and leave it after the test."""
    with private_kernel():
        isolate()
        furnish(key[1])
        yield Machine(tmp_path, key[0])
    assert not REPOSITORY.exists()


def references(document: list[dict[str, Any]]) -> set[str]:
    """Return the references in the list of a JSON document."""
    return {item["reference"] for item in document}


def test_every_bundled_type_is_in_the_manifest(machine: Machine) -> None:
    """A new type must be added here, beside files of each kind, relationships and a notification."""
    graph = json.loads(machine.command("graph", machine.manifest, "--format", "json").out)
    assert sorted({node["type"] for node in graph["nodes"]}) == TYPES
    assert {"require", "notify"} <= {edge["kind"] for edge in graph["edges"]}
    machine.converged()
    ensures = [
        json.loads(machine.command("resource", "file", path, "--json").out)[0]["ensure"]
        for path in ("/etc/ra-test", "/etc/ra-test/motd", "/etc/ra-test/current")
    ]
    assert ensures == ["directory", "file", "link"]


def test_noop_predicts_apply_and_changes_nothing(machine: Machine) -> None:
    """The references, actions and order are equal; no file of the machine is written by noop."""
    before, writes = machine.content(), machine.writes()
    message = machine.apply("--noop")
    assert (message.code, machine.state.parent.exists()) == (0, False), message.err
    assert machine.content() == before
    assert machine.writes() == writes
    result = machine.converged()
    assert {end["status"] for end in message.ends().values()} == {"noop"}
    assert message.done == result.done


def test_apply_converges(machine: Machine) -> None:
    """Every step succeeds, and other programs see the declared state."""
    outcome = machine.converged()
    assert {end["status"] for end in outcome.ends().values()} == {"success"}
    assert outcome.ends().keys() == references(outcome.events("planned_change"))
    assert run("id", "-Gn", "ra-test-user").split() == ["ra-test-staff", "audio", "ra-test-old"]
    assert run("getent", "hosts", "ra-test").split() == ["192.0.2.2", "ra-test.example", "ra-test"]
    assert "15 3 * * * date > /dev/null" in run("crontab", "-u", "ra-test-user", "-l").splitlines()
    assert run("dpkg-query", "-W", "-f", "${Status} ${Version}", "ra-test-tool") == "install ok installed 1.1"
    trusted = Path("/etc/apt/trusted.gpg.d").iterdir()
    assert machine.fingerprint in run("gpg", "--homedir", machine.home, "--with-colons", "--show-keys", *trusted)
    key = Path("/home/ra-test-user/.ssh/authorized_keys")
    assert (key.read_text(), key.owner()) == (f"no-pty ssh-ed25519 {KEY} ra-test-key\n", "ra-test-user")
    site = Path("/etc/ra-test")
    assert (site / "site" / "css" / "a.css").read_text() == "a {}"
    assert {path.name: path.read_text() for path in site.iterdir() if path.is_file() and path.name[0] != "."} == {
        "current": "hello from /home/ra-test-user\n",
        "copy": "ra-test-tool 1.1\n",
        "initialised": "once\n",
        "motd": "Welcome.\n",
        "reloads": "reloaded\n",
        "together": "ra-test-tool 1.1\n",
        "tool.conf": "hello from /home/ra-test-user\n",
    }


def test_a_second_apply_changes_nothing(machine: Machine) -> None:
    """Neither the machine nor the recorded state changes."""
    machine.converged()
    before, writes, serial = machine.content(), machine.writes(), machine.serial()
    again = machine.apply("--detailed-exitcodes")
    [summary] = again.events("summary")
    assert (again.code, again.done) == (0, []), again.err
    assert summary["unchanged"] == len(machine.declared())
    assert machine.serial() == serial
    assert machine.content() == before
    assert machine.writes() == writes


def test_drift_is_reported_and_corrected(machine: Machine) -> None:
    """A file's content, a job and a shell were changed: drift in the plan, corrective in the apply."""
    machine.converged()
    good = machine.content()
    Path("/etc/ra-test/motd").write_text("Go away.\n")
    run("crontab", "-u", "ra-test-user", "-r")
    run("usermod", "--shell", "/bin/sh", "ra-test-user")
    damaged = {
        "File[/etc/ra-test/motd]": ("update", "content"),
        "Cron[ra-test-job]": ("create", "ensure"),
        "User[ra-test-user]": ("update", "shell"),
    }
    writes = machine.writes()
    plan = json.loads(machine.command("plan", machine.manifest, "--json").out)
    assert machine.writes() == writes
    assert references(plan["drift"]) == damaged.keys()
    assert references([step for step in plan["steps"] if step["action"] != "same"]) == damaged.keys()
    mended = machine.apply("--detailed-exitcodes")
    assert mended.code == 2, mended.err
    assert references(mended.events("resource_drift")) == damaged.keys()
    steps = mended.ends().items()
    assert {
        name: (step["action"], *(change["attribute"] for change in step["changes"])) for name, step in steps
    } == damaged
    assert {(step["status"], step["corrective"]) for _, step in steps} == {("success", True)}
    assert machine.content() == good


def test_deleted_resources_are_created_again(machine: Machine) -> None:
    """A directory, a user and a group were deleted with their dependents: one apply restores all."""
    machine.converged()
    good = machine.content()
    run("rm", "-r", "/etc/ra-test")
    run("crontab", "-u", "ra-test-user", "-r")
    run("userdel", "-r", "ra-test-user")
    run("groupdel", "ra-test-staff")
    message, result = machine.apply("--noop"), machine.converged()
    assert message.done == result.done
    assert {step["corrective"] for step in result.ends().values() if step["action"] == "create"} == {True}
    assert machine.content() == good
    assert machine.apply().done == []


def test_a_change_of_the_manifest_is_not_corrective(machine: Machine) -> None:
    """It notifies, and is reported apart from corrected drift."""
    machine.converged()
    changed = machine.apply("-i", "greeting=goodbye")
    steps = {name: (step["action"], step["corrective"]) for name, step in changed.ends().items()}
    assert steps == {"File[/etc/ra-test/tool.conf]": ("update", False), "Exec[ra-test-reload]": ("refresh", False)}
    assert Path("/etc/ra-test/reloads").read_text() == "reloaded\n" * 2


def test_the_list_is_a_manifest_that_changes_nothing(machine: Machine) -> None:
    """For every type that can be listed, the list of the machine is in sync as a manifest."""
    machine.converged()
    before, entries = machine.content(), {}
    for name in TYPES:
        listed = machine.command("resource", name)
        if listed.code:
            entries[name] = "unlisted"
            continue
        manifest = machine.home / f"{name}.yaml"
        manifest.write_text(listed.out, encoding="utf-8")
        assert {"apt_key": machine.fingerprint, "locale": "ra_XA"}.get(name, "ra-test") in listed.out
        applied = machine.command("apply", manifest, "--json", "--detailed-exitcodes")
        entries[name] = "listed" if (applied.code, applied.done) == (0, []) else applied.err
    assert entries == {name: "unlisted" if name in UNLISTED else "listed" for name in TYPES}
    assert machine.content() == before


def test_destroy_removes_exactly_what_was_created(machine: Machine) -> None:
    """Adopted resources are forgotten, not deleted; machine and state are as before."""
    before = machine.content()
    created = {name for name, step in machine.converged().ends().items() if step["action"] == "create"}
    assert machine.command("destroy", machine.manifest).code == 64
    gone = machine.command("destroy", machine.manifest, "--yes", "--json")
    assert gone.code == 0, gone.err
    assert {name for name, action in gone.done if action == "delete"} == created
    assert {name for name, action in gone.done if action == "forget" and not name.startswith("Exec[")} == OLD
    assert machine.content() == before
    assert machine.command("state", "list").out == ""


def test_destroy_accepts_resources_that_are_already_gone(machine: Machine) -> None:
    """A user was deleted before, with its job and its key."""
    before = machine.content()
    machine.converged()
    run("crontab", "-u", "ra-test-user", "-r")
    run("userdel", "-r", "ra-test-user")
    gone = machine.command("destroy", machine.manifest, "--yes", "--json")
    assert gone.code == 0, gone.err
    vanished = {"User[ra-test-user]", "Cron[ra-test-job]", "Ssh_authorized_key[ra-test-key]"}
    assert {action for name, action in gone.done if name in vanished} == {"forget"}
    assert machine.content() == before


def test_absent_resources_are_removed_in_reverse_order(machine: Machine) -> None:
    """All resources are declared absent in the order of creation, and each is removed after its dependents."""
    before = machine.content()
    created = [name for name, step in machine.converged().ends().items() if step["action"] == "create"]
    defaults = {"File": {"force": True}, "User": {"managehome": True}}
    related = {
        "User[ra-test-user]": {"gid": "ra-test-staff"},
        "Cron[ra-test-job]": {"user": "ra-test-user"},
        "Ssh_authorized_key[ra-test-key]": {"user": "ra-test-user"},
        "Sysctl[ra-test-forward]": {"name": "net.ipv4.ip_forward", "target": "/etc/sysctl.d/90-ra-test.conf"},
    }
    expected = {name: {"ensure": "absent", **related.get(name, {})} for name in created}
    machine.manifest.write_text(json.dumps({"project": "ra-test", "defaults": defaults, "resources": expected}))
    message, result = machine.apply("--noop"), machine.converged()
    assert message.done == result.done
    assert sorted(result.done) == sorted((name, "delete") for name in created)
    assert machine.content() == before


def test_prune_deletes_or_forgets_undeclared_resources(machine: Machine) -> None:
    """Created ones are deleted, adopted ones are forgotten; without prune each is only reported."""
    before, created = machine.content(), machine.converged()
    present = machine.content()
    machine.manifest.write_text("project: ra-test\nresources: {}\n")
    reported = machine.converged()
    assert (reported.done, machine.content()) == ([], present)
    matches = re.findall(
        r"Notice: (?!Exec)(.+?\]): is recorded but no longer declared; --prune (\w+)s it", reported.err
    )
    pruned = machine.apply("--prune")
    assert sorted(item for item in pruned.done if not item[0].startswith("Exec[")) == sorted(matches), pruned.err
    assert {name for name, action in matches if action == "delete"} == {
        name for name, step in created.ends().items() if step["action"] == "create"
    }
    assert machine.content() == before


def test_the_server_example_is_applied_and_destroyed(machine: Machine) -> None:
    """It does on a real machine what its comments describe, and a second apply changes nothing."""
    before, example = machine.content(), ROOT / "examples" / "server.yaml"
    created = machine.command("apply", example, "--json")
    assert ("User[ra-example]", "create") in created.done, created.err
    assert machine.command("apply", example, "--detailed-exitcodes").code == 0
    assert machine.command("destroy", example, "--yes").code == 0
    assert machine.content() == before
