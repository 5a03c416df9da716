"""A case for each bundled type: one declaration, from which all sweeps are made.

The manifest before and the one after differ in a resource that is created, one that is changed and one that is deleted.
To add a type, add an entry; the sweeps, the sample in ``make test`` and the table in the documentation follow.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, Final

from tests.faults.bench import Case

Resources = dict[str, dict[str, Any]]

#: Backups, the lock, and what a killed tool leaves beside the account files; its next run ignores them all.
ACCOUNTS: Final = r"etc/(\.pwd\.lock|(passwd|group|shadow|gshadow|subuid|subgid)(-|\.lock|\.\d+))"
#: What a killed crontab(1) leaves beside the crontabs; cron ignores it, as it is no user's name.
CRONTAB: Final = r"var/spool/cron/crontabs/tmp\.\w{6}"
#: Logs, caches, what a killed apt-get leaves, and dpkg's own files, which are compared as dpkg lists them.
APT: Final = r"var/(log|cache/apt|lib/apt/(lists|periodic|mirrors)|lib/dpkg)(/.*)?|var/lib/apt/extended_states\.\w{6}"
#: What git keeps for itself, and what a killed deletion has left under a hidden name until the next change of its path.
GIT: Final = r"srv/[a-z]+/\.git(/.*)?"
#: What a killed pip leaves beside packages, and its next run ignores; compiled code, which holds times.
PIP: Final = r".*/site-packages/~.*|.*/__pycache__(/.*)?"
#: The types that need a machine which systemd has started; their tests in ``tests/providers`` run their sweeps there.
ON_A_MACHINE: Final = {"service", "user_service"}
#: What a killed update-alternatives leaves, which its next run ignores, and its log.
ALTERNATIVES: Final = r"var/log/.*|(etc/alternatives|var/lib/dpkg/alternatives|srv)/[^/]+\.dpkg-(new|old|tmp)"
DPKG: Final = ("dpkg-query", "-W", "-f", "${Package} ${Version} ${Status} ${Conffiles}\n")

HASH: Final = "$6$saltsalt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/"
SSH_KEY: Final = "AAAAC3NzaC1lZDI1NTE5AAAAIGmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy1"
KEYS: Final = {
    "9EC2CB294DF79B794147DB98C3E75CD0FF72B012": """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawNXVRYJKwYBBAHaRw8BAQdAkwdM24zsnd/+FmU1vSZiVBPOMU/ZSFY/h3PB
8jXUWGW0CXJhLXRlc3QtYYiQBBMWCAA4FiEEnsLLKU33m3lBR9uYw+dc0P9ysBIF
AmsDV1UCGwMFCwkIBwIGFQoJCAsCBBYCAwECHgECF4AACgkQw+dc0P9ysBL6gQEA
6UIIw9SKABmpenF06QS4obIB0hZOl6PJUbuiz7X0vQ0BAPxlMI5Ts8I1MyH1atQv
2IvFlh79wknaYZOsP9hHFZwC
=8QSl
-----END PGP PUBLIC KEY BLOCK-----
""",
    "E283BCD2517C857A39D6DD3C45D146E5D8B02027": """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawNXVRYJKwYBBAHaRw8BAQdAuyVwolrn6BKLpaIRHxniKu96YI7tEocK6GQN
jgXN1n20CXJhLXRlc3QtYoiQBBMWCAA4FiEE4oO80lF8hXo51t08RdFG5diwICcF
AmsDV1UCGwMFCwkIBwIGFQoJCAsCBBYCAwECHgECF4AACgkQRdFG5diwICfDYQD9
Gctc9X0Y06fYeowq18HcyzezNSoUGqPr/uVbylEAoKoA/jWFAveYaJBkODCOkZ1t
nCGeQ+oD9zF/i7JTOWD+Z3cP
=v45y
-----END PGP PUBLIC KEY BLOCK-----
""",
}


#: Asks the service manager of the user of the tests.
AS_USER: Final = (
    "setpriv --reuid ra-user --regid ra-user --init-groups env HOME=/home/ra-user"
    " XDG_RUNTIME_DIR=/run/user/$(id -u ra-user) systemctl --user"
)
USERS_STATE: Final = f"{AS_USER} show -pId,ActiveState,UnitFileState ra-a ra-b; ls /var/lib/systemd/linger"
#: The source of a small locale; and the smallest character set.
CATEGORIES: Final = "CTYPE COLLATE MONETARY NUMERIC TIME MESSAGES"
POSIX: Final = "".join(f'LC_{name}\ncopy "POSIX"\nEND LC_{name}\n' for name in CATEGORIES.split())
ASCII: Final = {"charset": "ANSI_X3.4-1968"}
SLEEP: Final = {"Service": {"ExecStart": "/bin/sleep 1000"}}
TMPFS: Final = {"device": "tmpfs", "fstype": "tmpfs", "options": "size=64k"}


def case(before: Resources, after: Resources, **more: Any) -> Case:
    """Return the case of a type: its manifests before and after, and what is special to observe it."""
    return Case("apply", after, before=[before], system=True, **more)


def _accounts(name: str, content: bytes) -> bytes:
    """Return an account file without what depends on the order in which users are changed.

    When the creation of a user fails, the others are changed before it is created by the next run: useradd appends it
    to the members of a group after them, and takes the subordinate numbers of one that was deleted. Raise
    ``AssertionError`` if two users share subordinate numbers.
    """
    lines = content.splitlines()
    if name in {"etc/group", "etc/gshadow"}:
        entries = [line.rpartition(b":") for line in lines]
        lines = [b"".join((*rest, b",".join(sorted(members.split(b","))))) for *rest, members in entries]
    elif name in {"etc/subuid", "etc/subgid"}:
        ranges = [(int(start), int(count)) for _, start, count in (line.split(b":") for line in lines)]
        assert all(start + count <= above for (start, count), (above, _) in pairwise(sorted(ranges))), lines
        lines = sorted(re.sub(rb":\d+:", b"::", line) for line in lines)
    else:
        return content
    return b"\n".join(lines)


def _copies(name: str, content: bytes) -> bytes:
    """Return the index of copies without times: a killed run may have made one that the next makes again."""
    if name != "srv/copies/index":
        return content
    rows = [json.loads(line) for line in content.splitlines() if line.endswith(b"]")]
    return json.dumps(sorted({tuple(row[:-1]) for row in rows})).encode()


def _without_blank_lines(name: str, content: bytes) -> bytes:
    """Return a TOML file without the blank lines that tomlkit leaves, by the order of the changes in one call."""
    return re.sub(rb"\n+", b"\n", content) if name.endswith(".toml") else content


def _without_compiled(name: str, content: bytes) -> bytes:
    """Return the record of a package without its compiled code, which pip does without where it cannot be written."""
    return re.sub(rb"(?m)^.*__pycache__.*\n", b"", content) if name.endswith("/RECORD") else content


def _crontab(_name: str, content: bytes) -> bytes:
    """Return a crontab without the time at which crontab(1) installed it."""
    return re.sub(rb"(?m)^# \(.* installed on .*\)$", b"", content)


def _pem(_name: str, content: bytes) -> bytes:
    """Return a file without what is in the blocks of PEM: keys and serial numbers are random."""
    return re.sub(rb"(?s)(-----BEGIN [A-Z ]+-----\n).+?(\n-----END)", rb"\1\2", content)


def _certificate(name: str) -> dict[str, Any]:
    return {"private_key": "/srv/key", "subject": {"CN": name}}


def _apt_keys() -> tuple[Resources, Resources]:
    first, second = (f"Apt_key[{name}]" for name in KEYS)
    one, two = ({"content": text} for text in KEYS.values())
    return {first: one}, {first: {"ensure": "absent"}, second: two}


def _archive(**files: str) -> dict[str, Any]:
    texts = {name.replace("__", "/"): {"asset": {"text": text}} for name, text in files.items()}
    return {"source": {"archive": {"files": texts}}, "mode": "0640"}


def _host_key(letter: str) -> dict[str, Any]:
    return {"key": "AAAAB3NzaC1yc2EAAAADAQABAAAAgQ" + letter * 128}


def _pin(priority: int) -> dict[str, Any]:
    return {"packages": ["ra-test-new"], "pin": "version 1.*", "priority": priority}


def _rule(*commands: str, **more: bool) -> dict[str, Any]:
    return {"user": "daemon", "commands": list(commands), **more}


def _wheel(version: str) -> dict[str, Any]:
    return {"ensure": version, "install_options": ["--no-index", "--find-links=/srv/repository"]}


def _source(*suites: str) -> dict[str, Any]:
    """Return a repository that apt copies: it removes files of a `file:` repository which it cannot link to."""
    return {"uris": ["copy:/srv/repository"], "suites": list(suites), "options": {"Trusted": True}}


def _exec(number: int) -> dict[str, Any]:
    """Return a command whose last step makes a file, with its content on disk, as ``creates`` needs it."""
    path = f"/srv/made{number}"
    return {
        "command": f"echo {number} > {path}.new && sync {path}.new && mv {path}.new {path}",
        "shell": True,
        "creates": f"/srv/made{number}",
    }


def _repository() -> Resources:
    """Return a command that makes a repository with the tags v1 and v2, always the same commits."""
    commit = "git -c user.name=x -c user.email=x commit -q --date=2020-01-01T00:00:00Z"
    script = f"""
set -e
export GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
git init -q -b main --template= /srv/new
cd /srv/new
echo same > same
for version in v1 v2
do
    echo $version | tee changed > $version
    git add -A
    {commit} -m $version
    git tag $version
    git rm -q $version
done
sync
mv /srv/new /srv/source
sync
"""
    return {"Exec[repository]": {"command": script, "shell": True, "creates": "/srv/source"}}


def _checkout(revision: str) -> dict[str, Any]:
    return {"source": "/srv/source", "revision": revision}


def _group(link: str, *choices: str) -> dict[str, Any]:
    """Return a group of alternatives whose choices are programs in /bin; the last one has the highest priority."""
    return {"link": f"/srv/{link}", "choices": {f"/bin/{choice}": {"priority": n} for n, choice in enumerate(choices)}}


def _rules(table: str, verdict: str = "accept") -> dict[str, Any]:
    """Return a table of one rule."""
    return {"content": f"table inet {table} {{\n  chain c {{\n    tcp dport 22 {verdict}\n  }}\n}}\n"}


def _key(*options: str) -> dict[str, Any]:
    return {"user": "ra-owner", "type": "ssh-ed25519", "key": SSH_KEY, "options": list(options)}


def _other_key(*options: str) -> dict[str, Any]:
    return {**_key(*options), "key": f"{SSH_KEY[:-4]}AAAB"}


CASES: Final[dict[str, Case]] = {
    "acl": case(
        {
            **{f"File[/srv/{name}]": {"ensure": "directory"} for name in ("changed", "created", "created/inner")},
            "File[/srv/created/inner/file]": {"content": "x"},
            "File[/srv/deleted]": {"content": "x"},
            "Acl[/srv/changed]": {"permission": ["user:daemon:rwx", "default:user:daemon:rwx"]},
            "Acl[/srv/deleted]": {"permission": ["user:daemon:rwx"]},
        },
        {
            "Acl[/srv/changed]": {"permission": ["group:daemon:r"]},
            "Acl[/srv/created]": {"permission": ["user:bin:rX", "default:user:bin:rX"], "recursive": True},
            "Acl[/srv/deleted]": {"ensure": "absent"},
        },
        observation=("sh", "-c", "find /srv | sort | getfacl -p -"),
    ),
    "alternatives": case(
        {
            "Alternatives[ra-changed]": _group("changed", "true", "false"),
            "Alternatives[ra-deleted]": _group("deleted", "true"),
        },
        {
            "Alternatives[ra-changed]": {**_group("changed", "date"), "path": "/bin/true"},
            "Alternatives[ra-created]": _group("created", "true", "false"),
            "Alternatives[ra-deleted]": {"ensure": "absent"},
        },
        aside=ALTERNATIVES,
    ),
    "apt_key": case(*_apt_keys()),
    "apt_pin": case(
        {"Apt_pin[changed]": _pin(1), "Apt_pin[deleted]": _pin(2)},
        {"Apt_pin[created]": _pin(3), "Apt_pin[changed]": _pin(4), "Apt_pin[deleted]": {"ensure": "absent"}},
    ),
    "apt_source": case(
        {"Apt_source[changed]": _source("./"), "Apt_source[deleted]": _source("./")},
        {
            "Apt_source[created]": _source("./"),
            "Apt_source[changed]": _source("./", "../repository/"),
            "Apt_source[deleted]": {"ensure": "absent"},
        },
        aside=APT,
    ),
    "archive": case(
        {
            "Archive[/srv/site]": _archive(same="same\n", index="one\n", css__a="a\n", gone__x="x\n"),
            "Archive[/srv/old]": _archive(x="x\n"),
        },
        {
            "Archive[/srv/site]": _archive(same="same\n", index="two\n", css__b="b\n", new__y="y\n"),
            "Archive[/srv/old]": {"ensure": "absent"},
        },
    ),
    "block_in_file": case(
        {
            "Block_in_file[/srv/text:changed]": {"block": "one\n"},
            "Block_in_file[/srv/text:deleted]": {"block": "gone\n"},
        },
        {
            "Block_in_file[/srv/text:changed]": {"block": "two\nthree\n"},
            "Block_in_file[/srv/text:deleted]": {"ensure": "absent"},
            "Block_in_file[/srv/text:created]": {"block": "new\n", "insertbefore": "BOF"},
            "Block_in_file[/srv/other:created]": {"block": "new\n"},
        },
    ),
    "capability": case(
        {
            **{f"File[/srv/{name}]": {"content": "x"} for name in ("changed", "created", "deleted")},
            "Capability[/srv/changed]": {"capability": "cap_net_raw=ep"},
            "Capability[/srv/deleted]": {"capability": "cap_kill=i"},
        },
        {
            "Capability[/srv/changed]": {"capability": "cap_net_raw,cap_chown=p"},
            "Capability[/srv/created]": {"capability": "cap_sys_time=ep"},
            "Capability[/srv/deleted]": {"ensure": "absent"},
        },
        observation=("sh", "-c", "getcap -r /srv | sort"),
    ),
    "concat": case(
        {
            "File[/srv/d]": {"ensure": "directory"},
            "File[/srv/d/1]": {"content": "one\n"},
            "File[/srv/d/2]": {"content": "two\n"},
            "Concat[/srv/changed]": {"source": "/srv/d"},
            "Concat[/srv/deleted]": {"source": ["/srv/d/2"]},
        },
        {
            "Concat[/srv/changed]": {"source": ["/srv/d/2", "/srv/d/1"], "backup": "/srv/copies"},
            "Concat[/srv/created]": {"source": "/srv/d", "mode": "0600", "owner": "daemon"},
            "Concat[/srv/deleted]": {"ensure": "absent"},
        },
        meaning=_copies,
    ),
    "cron": case(
        {
            "Cron[changed]": {"command": "/bin/true", "hour": 1},
            "Cron[deleted]": {"command": "/bin/true", "minute": 2},
            "Cron[of-daemon]": {"user": "daemon", "command": "/bin/true", "minute": 2},
        },
        {
            "Cron[created]": {"command": "/bin/date", "special": "daily", "environment": ["MAILTO=root"]},
            "Cron[changed]": {"command": "/bin/true", "hour": 4},
            "Cron[deleted]": {"ensure": "absent"},
            "Cron[of-daemon]": {"user": "daemon", "command": "/bin/false", "minute": 2},
        },
        aside=CRONTAB,
        meaning=_crontab,
    ),
    "exec": case(
        {"Exec[one]": _exec(1)},
        {"Exec[one]": _exec(1), "Exec[two]": _exec(2), "Exec[three]": _exec(3)},
    ),
    "file": case(
        {
            "File[/srv/d]": {"ensure": "directory"},
            "File[/srv/d/changed]": {"content": "one\n", "mode": "0640"},
            "File[/srv/d/deleted]": {"content": "gone\n"},
            "File[/srv/d/link]": {"target": "changed"},
        },
        {
            "File[/srv/d]": {"ensure": "directory", "mode": "0750"},
            "File[/srv/d/changed]": {"content": "two\n", "owner": "daemon", "backup": "/srv/copies"},
            "File[/srv/d/created]": {"content": "three\n" * 4000, "mode": "0600", "group": "daemon"},
            "File[/srv/d/deleted]": {"ensure": "absent", "backup": "/srv/copies"},
            "File[/srv/d/link]": {"target": "created"},
            "File[/srv/e]": {"ensure": "directory", "owner": "daemon", "mode": "0700"},
        },
        meaning=_copies,
    ),
    "file_line": case(
        {
            "File_line[changed]": {"path": "/srv/lines", "match": "^a=", "line": "a=1"},
            "File_line[deleted]": {"path": "/srv/lines", "line": "gone"},
        },
        {
            "File_line[created]": {"path": "/srv/other", "line": "new"},
            "File_line[changed]": {"path": "/srv/lines", "match": "^a=", "line": "a=2"},
            "File_line[deleted]": {"path": "/srv/lines", "line": "gone", "ensure": "absent"},
        },
    ),
    "file_tree": case(
        {
            **{f"File[/srv/{name}]": {"ensure": "directory"} for name in ("one", "one/inner", "two", "two/new")},
            "File[/srv/one/inner/page]": {"content": "one\n"},
            "File[/srv/one/gone]": {"content": "gone\n"},
            "File[/srv/two/page]": {"content": "two\n"},
            "File[/srv/two/new/link]": {"target": "../page"},
            "File_tree[/srv/changed]": {"source": "/srv/one"},
            "File_tree[/srv/deleted]": {"source": "/srv/two"},
        },
        {
            "File_tree[/srv/changed]": {
                "source": "/srv/two",
                "purge": True,
                "owner": "daemon",
                "backup": "/srv/copies",
            },
            "File_tree[/srv/deleted]": {"ensure": "absent"},
            "File_tree[/srv/created]": {"source": "/srv/two", "mode": "u=rwX,go="},
        },
        meaning=_copies,
    ),
    "git_checkout": case(
        {
            **_repository(),
            "Git_checkout[/srv/changed]": _checkout("v1"),
            "Git_checkout[/srv/deleted]": _checkout("v2"),
        },
        {
            **_repository(),
            "Git_checkout[/srv/created]": _checkout("v1"),
            "Git_checkout[/srv/changed]": _checkout("v2"),
            "Git_checkout[/srv/deleted]": {"ensure": "absent"},
        },
        aside=GIT,
        observation=("sh", "-c", "cd /srv/changed 2>/dev/null || exit 0; git fsck --strict && git rev-parse HEAD || :"),
    ),
    "group": case(
        {
            "Group[ra-changed]": {"gid": 5001},
            "Group[ra-deleted]": {"gid": 5002, "members": ["daemon"]},
        },
        {
            "Group[ra-created]": {"gid": 5003, "members": ["bin", "daemon"]},
            "Group[ra-changed]": {"gid": 5004, "members": ["daemon"]},
            "Group[ra-deleted]": {"ensure": "absent"},
        },
        aside=ACCOUNTS,
    ),
    "host": case(
        {"Host[changed.example]": {"ip": "192.0.2.1"}, "Host[deleted.example]": {"ip": "192.0.2.2"}},
        {
            "Host[created.example]": {"ip": "192.0.2.3", "host_aliases": ["created"]},
            "Host[changed.example]": {"ip": "192.0.2.4", "comment": "changed"},
            "Host[deleted.example]": {"ensure": "absent"},
            "Host[other.example /srv/hosts]": {"ip": "2001:db8::1"},
        },
    ),
    "hostname": case(
        {"Hostname[system]": {"hostname": "ra-one"}},
        {"Hostname[system]": {"hostname": "ra-two.example"}},
        foreign={"etc/hostname": "# ours\nra-zero\n"},
        observation=("hostname",),
        restoration=("hostname", "ra-one"),
    ),
    "ini_setting": case(
        {
            "Ini_setting[/srv/app.ini:a:changed]": {"value": 1},
            "Ini_setting[/srv/app.ini:b:deleted]": {"value": 2},
        },
        {
            "Ini_setting[/srv/app.ini:a:changed]": {"value": 3},
            "Ini_setting[/srv/app.ini:b:deleted]": {"ensure": "absent"},
            "Ini_setting[/srv/app.ini:c:created]": {"value": 4},
            "Ini_setting[/srv/other.ini::created]": {"value": 5},
        },
    ),
    "json_setting": case(
        {
            "Json_setting[/srv/app.json:a.changed]": {"value": 1},
            "Json_setting[/srv/app.json:b.deleted]": {"value": 2},
        },
        {
            "Json_setting[/srv/app.json:a.changed]": {"value": 3},
            "Json_setting[/srv/app.json:b.deleted]": {"ensure": "absent"},
            "Json_setting[/srv/app.json:c.created]": {"value": [4]},
            "Json_setting[/srv/other.json:created]": {"value": 5},
        },
    ),
    "known_host": case(
        {"Known_host[changed@rsa]": _host_key("A"), "Known_host[deleted@rsa]": _host_key("A")},
        {
            "Known_host[created@rsa ~ra-owner/.ssh/known_hosts]": _host_key("A"),
            "Known_host[changed@rsa]": _host_key("B"),
            "Known_host[deleted@rsa]": {"ensure": "absent"},
        },
    ),
    "locale": case(
        {"Locale[ra_XA]": ASCII, "Locale[ra_XB]": ASCII},
        {
            "Locale[ra_XA]": {"charset": "ISO-8859-1"},
            "Locale[ra_XB]": {"ensure": "absent"},
            "Locale[ra_XC]": ASCII,
        },
        foreign={
            "etc/locale.gen": "# de_DE.UTF-8 UTF-8\n",
            **{f"usr/local/share/i18n/locales/ra_X{letter}": POSIX for letter in "ABC"},
        },
        aside=r"usr/lib/locale/.*",
        observation=("sh", "-c", "locale -a | sort; LC_ALL=ra_XA locale charmap"),
    ),
    "logrotate_rule": case(
        {
            "Logrotate_rule[changed]": {"content": {"/srv/changed.log": {"rotate_every": "daily", "rotate": 2}}},
            "Logrotate_rule[deleted]": {"content": {"/srv/deleted.log": {"size": "1k"}}},
        },
        {
            "Logrotate_rule[changed]": {"content": {"/srv/changed.log": {"rotate_every": "weekly", "compress": True}}},
            "Logrotate_rule[created]": {"content": "/srv/created.log {\n    monthly\n}\n"},
            "Logrotate_rule[deleted]": {"ensure": "absent"},
        },
    ),
    "mount": case(
        {
            "File[/srv/changed]": {"ensure": "directory"},
            "File[/srv/deleted]": {"ensure": "directory"},
            "File[/srv/created]": {"ensure": "directory"},
            "Mount[/srv/changed]": TMPFS,
            "Mount[/srv/deleted]": TMPFS,
        },
        {
            "File[/srv/changed]": {"ensure": "directory"},
            "File[/srv/deleted]": {"ensure": "directory"},
            "File[/srv/created]": {"ensure": "directory"},
            "Mount[/srv/changed]": {**TMPFS, "options": "size=128k,nosuid"},
            "Mount[/srv/deleted]": {"ensure": "absent"},
            "Mount[/srv/created]": TMPFS,
        },
        foreign={"etc/fstab": "# ours\nproc /proc proc defaults 0 0\n"},
        observation=("sh", "-c", "findmnt -rno TARGET,SIZE,OPTIONS | grep '^/srv/' | sort; true"),
        restoration=("sh", "-c", "mount /srv/changed && mount /srv/deleted"),
        start=("mount", "-a"),
    ),
    "nft_ruleset": case(
        {"Nft_ruleset[/srv/changed]": _rules("changed"), "Nft_ruleset[/srv/deleted]": _rules("deleted")},
        {
            "Nft_ruleset[/srv/changed]": _rules("changed", "drop"),
            "Nft_ruleset[/srv/created]": _rules("created"),
            "Nft_ruleset[/srv/deleted]": {"ensure": "absent"},
        },
        observation=("sh", "-c", "nft list ruleset | sort"),
        restoration=("sh", "-c", "nft flush ruleset; nft -f /srv/changed; nft -f /srv/deleted"),
    ),
    "package": case(
        {"Package[ra-test-kept]": {"ensure": "1.0"}, "Package[ra-test-gone]": {}},
        {
            "Package[ra-test-new]": {},
            "Package[ra-test-kept]": {"ensure": "latest"},
            "Package[ra-test-gone]": {"ensure": "purged"},
        },
        aside=APT,
        observation=DPKG,
    ),
    "python_package": case(
        {
            "Python_venv[/srv/venv]": {"pip": False, "system_site_packages": True},
            "Python_package[ra-changed /srv/venv]": _wheel("1.0"),
            "Python_package[ra-deleted /srv/venv]": _wheel("1.0"),
        },
        {
            "Python_venv[/srv/venv]": {"pip": False, "system_site_packages": True},
            "Python_package[ra-changed /srv/venv]": _wheel("2.0"),
            "Python_package[ra-created /srv/venv]": _wheel("present"),
            "Python_package[ra-deleted /srv/venv]": {"ensure": "absent"},
        },
        aside=PIP,
        meaning=_without_compiled,
    ),
    "python_venv": case(
        {"Python_venv[/srv/changed]": {"pip": False}, "Python_venv[/srv/deleted]": {"pip": False}},
        {
            "Python_venv[/srv/created]": {"pip": False, "owner": "daemon"},
            "Python_venv[/srv/changed]": {"pip": False, "system_site_packages": True},
            "Python_venv[/srv/deleted]": {"ensure": "absent"},
        },
    ),
    "resolver": case(
        {"Resolver[/etc/resolv.conf]": {"nameservers": ["192.0.2.1"]}, "Resolver[/srv/gone]": {}},
        {
            "Resolver[/etc/resolv.conf]": {"nameservers": ["192.0.2.2", "192.0.2.3"], "search": ["example.org"]},
            "Resolver[/srv/gone]": {"ensure": "absent"},
            "Resolver[/srv/new]": {"options": ["edns0"]},
        },
    ),
    "service": Case(
        "apply",
        {
            "Service[ra-a]": {"ensure": "stopped", "enable": False},
            "Service[ra-b]": {"ensure": "running", "enable": True},
            "Service[ra-tick.timer]": {"ensure": "running", "enable": True},
        },
        before=[
            {
                "Service[ra-a]": {"ensure": "running", "enable": True},
                "Service[ra-b]": {"ensure": "stopped", "enable": False},
            }
        ],
        observation=("systemctl", "show", "-pId,ActiveState,UnitFileState", "ra-a", "ra-b", "ra-tick.timer"),
        restoration=(
            *("sh", "-c"),
            "systemctl -q enable --now ra-a && systemctl -q disable --now ra-b ra-tick.timer",
        ),
        watched=("socket:",),
    ),
    "ssh_authorized_key": case(
        {"Ssh_authorized_key[changed]": _key(), "Ssh_authorized_key[deleted]": _other_key("no-pty")},
        {
            "Ssh_authorized_key[created]": {**_key(), "user": "ra-second"},
            "Ssh_authorized_key[changed]": _key('from="192.0.2.1"'),
            "Ssh_authorized_key[deleted]": {**_other_key(), "ensure": "absent"},
        },
    ),
    "sudo_rule": case(
        {"Sudo_rule[changed]": _rule("/bin/a"), "Sudo_rule[deleted]": _rule("/bin/a")},
        {
            "Sudo_rule[created]": _rule("/bin/b", nopasswd=True),
            "Sudo_rule[changed]": _rule("/bin/a", "/bin/b"),
            "Sudo_rule[deleted]": {"ensure": "absent"},
            "Sudo_rule[defaults]": {"content": "Defaults insults\n"},
        },
    ),
    "sysctl": case(
        {"Sysctl[net.ipv4.ip_forward]": {"value": 1}, "Sysctl[net.ipv4.tcp_rfc1337]": {"value": 1}},
        {
            "Sysctl[net.ipv4.tcp_rmem]": {"value": "4096 8192 16384"},
            "Sysctl[net.ipv4.ip_forward]": {"value": 0},
            "Sysctl[net.ipv4.tcp_rfc1337]": {"ensure": "absent"},
            "Sysctl[net.ipv4.tcp_sack /etc/sysctl.d/10-first.conf]": {"value": 0},
        },
        observation=("sysctl", "net.ipv4.ip_forward", "net.ipv4.tcp_rfc1337", "net.ipv4.tcp_rmem", "net.ipv4.tcp_sack"),
        restoration=(
            *("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv4.tcp_rfc1337=1"),
            *("net.ipv4.tcp_rmem=4096 131072 6291456", "net.ipv4.tcp_sack=1"),
        ),
        watched=("/proc/sys",),
    ),
    "systemd_unit": case(
        {
            "Systemd_unit[ra-changed.service]": {"content": SLEEP},
            "Systemd_unit[ra-deleted.service]": {"content": SLEEP},
        },
        {
            "Systemd_unit[ra-changed.service]": {"content": {**SLEEP, "Unit": {"Description": "changed"}}},
            "Systemd_unit[ra-changed.service.d/more.conf]": {"content": {"Service": {"Nice": 5}}},
            "Systemd_unit[ra-created.service]": {"content": SLEEP},
            "Systemd_unit[ra-deleted.service]": {"ensure": "absent"},
        },
    ),
    "tidy": case(
        {"File[/srv/d]": {"ensure": "directory"}} | {f"File[/srv/d/{name}]": {} for name in ("kept", "1.tmp", "2.tmp")},
        {"Tidy[/srv/d]": {"matches": "*.tmp"}},
    ),
    "timezone": case(
        {"Timezone[system]": {"zone": "Europe/Berlin"}},
        {"Timezone[system]": {"zone": "Asia/Tokyo"}},
        foreign={"etc/timezone": "Etc/UTC\n"},
    ),
    "toml_setting": case(
        {
            "Toml_setting[/srv/app.toml:a.changed]": {"value": 1},
            "Toml_setting[/srv/app.toml:b.deleted]": {"value": 2},
        },
        {
            "Toml_setting[/srv/app.toml:a.changed]": {"value": 3},
            "Toml_setting[/srv/app.toml:b.deleted]": {"ensure": "absent"},
            "Toml_setting[/srv/app.toml:c.created]": {"value": [4]},
            "Toml_setting[/srv/other.toml:created]": {"value": 5},
        },
        meaning=_without_blank_lines,
    ),
    "user_service": Case(
        "apply",
        {
            "User_service[ra-a ra-user]": {"ensure": "stopped", "enable": False},
            "User_service[ra-b ra-user]": {"ensure": "running", "enable": True, "linger": True},
        },
        before=[
            {
                "User_service[ra-a ra-user]": {"ensure": "running", "enable": True, "linger": True},
                "User_service[ra-b ra-user]": {"ensure": "stopped", "enable": False},
            }
        ],
        observation=(*("sh", "-c"), USERS_STATE),
        restoration=(*("sh", "-c"), f"{AS_USER} -q enable --now ra-a && {AS_USER} -q disable --now ra-b"),
        watched=("socket:",),
    ),
    "user": case(
        {
            "User[ra-changed]": {"uid": 5001, "home": "/srv/home/ra-changed", "managehome": True, "groups": ["audio"]},
            "User[ra-deleted]": {"uid": 5002, "home": "/srv/home/ra-deleted", "managehome": True},
        },
        {
            "User[ra-created]": {
                "uid": 5003,
                "home": "/srv/home/ra-created",
                "managehome": True,
                "groups": ["audio", "video"],
                "password": HASH,
                "shell": "/bin/bash",
            },
            "User[ra-changed]": {
                "uid": 5001,
                "home": "/srv/home/ra-moved",
                "managehome": True,
                "groups": ["video"],
                "comment": "Changed",
                "password": HASH,
                "expiry": "2030-12-31",
                "subuids": ["1000000000:10"],
            },
            "User[ra-deleted]": {"ensure": "absent", "managehome": True},
        },
        aside=ACCOUNTS,
        meaning=_accounts,
    ),
    "yaml_setting": case(
        {
            "Yaml_setting[/srv/app.yaml:a.changed]": {"value": 1},
            "Yaml_setting[/srv/app.yaml:b.deleted]": {"value": 2},
        },
        {
            "Yaml_setting[/srv/app.yaml:a.changed]": {"value": 3},
            "Yaml_setting[/srv/app.yaml:b.deleted]": {"ensure": "absent"},
            "Yaml_setting[/srv/app.yaml:c.created]": {"value": [4]},
            "Yaml_setting[/srv/other.yaml:created]": {"value": 5},
        },
    ),
    "x509_certificate": case(
        {
            "X509_key[/srv/key]": {},
            "X509_certificate[/srv/changed]": _certificate("a.example"),
            "X509_certificate[/srv/deleted]": _certificate("b.example"),
        },
        {
            "X509_key[/srv/key]": {},
            "X509_certificate[/srv/changed]": {**_certificate("c.example"), "owner": "daemon"},
            "X509_certificate[/srv/created]": {**_certificate("d.example"), "ca": True},
            "X509_certificate[/srv/deleted]": {"ensure": "absent"},
        },
        meaning=_pem,
        random=("public_key", "serial", "fingerprint", "not_after"),
    ),
    "x509_key": case(
        {"X509_key[/srv/changed]": {}, "X509_key[/srv/deleted]": {"type": "ed25519"}},
        {
            "X509_key[/srv/changed]": {"mode": "0640", "group": "daemon"},
            "X509_key[/srv/created]": {"type": "ed25519", "owner": "daemon"},
            "X509_key[/srv/deleted]": {"ensure": "absent"},
        },
        meaning=_pem,
        random=("public_key",),
    ),
}
