"""Files and output of the machine: crontabs, keys, hosts, accounts, dpkg, apt, gpg, os-release."""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from hypothesis import strategies as st

from resource_api import Context, ResourceError, files
from resource_api.snapshot.batched_get import RowChecker
from resource_api.system import facts
from tests.fuzz import things
from tests.fuzz.target import target
from tests.fuzz.targets.state import directory

LINE: Final = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12)


def _lines(*parts: Any) -> Any:
    """Return a strategy of files whose lines are made of ``parts``."""
    line = st.lists(
        st.one_of(*(st.sampled_from(part) if isinstance(part, list) else part for part in parts)), max_size=8
    )
    return st.lists(line.map("".join), max_size=8).map(lambda item: "\n".join(item).encode("utf-8", "surrogatepass"))


def _read(name: str, names: Any = None) -> None:
    """Read all resources of a bundled type and those with ``names``, and check the rows as a run does."""
    registry = things.registry()
    definition = registry.type(name)
    with things._pool(registry) as providers:
        functions, instance = providers.functions(name), providers.instance(name)
        for requested in (None, names):
            if requested is None and name == "ssh_authorized_key":
                continue  # the files of all users
            context = Context(definition, providers.run, reading=True)
            with suppress(ResourceError, OSError):
                rows = [dict(row) for row in instance.get(context, requested)]
                result, _ = RowChecker("error", lambda *_: None).index_by_name(functions, requested, rows)
                for row in RowChecker("error", lambda *_: None).check(functions, list(result.values())):
                    assert not isinstance(row, str), f"get of {name} breaks its own type: {re.sub('.*: ', '', row)}"


@cache
def _root() -> None:
    """Enter a mount namespace in which the files of this machine can be replaced."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(0x20000 | (0x10000000 if os.geteuid() else 0)) == 0, os.strerror(ctypes.get_errno())
    assert libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None) == 0, os.strerror(ctypes.get_errno())
    for path in ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/hosts", "/etc/nsswitch.conf"):
        file = directory() / Path(path).name
        file.write_bytes(Path(path).read_bytes() if Path(path).exists() else b"")
        assert libc.mount(str(file).encode(), path.encode(), None, 0x1000, None) == 0, os.strerror(ctypes.get_errno())
    (directory() / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files\n")


@target(
    generate=_lines(
        [
            "# resource-api: ",
            "backup",
            "* ",
            "*/5 ",
            "0 ",
            "1,15 ",
            "jan ",
            "sun-7 ",
            "@daily ",
            "@reboot ",
            "/bin/true",
        ],
        ["PATH=", "A = b", "\t", " ", "# ", "\r", "%", "99999999999 ", "-", "1-2/0 "],
        LINE,
    ),
    words="#\\x20resource-api: * */5 1-5 0 @daily @reboot /bin/true PATH= MAILTO= jan sun , / - %",
    readings=9,
)
def crontab(data: bytes) -> None:
    """Cron tables: read, edited; lines that are not of a managed job keep their bytes."""
    module = things.bundled_provider("cron")
    table = files.Lines(data)
    blocks = list(module.blocks(table))
    for _, _, job in blocks:
        for field in module.FIELDS:
            module.field_error(field, job[field])
            assert module.canonical(field, job[field]) == job[field], "a canonical field is not canonical"
    names = {job["name"] for _, _, job in blocks}
    managed = {number for start, stop, _ in blocks for number in range(start, stop)}
    rest = [line for number, line in enumerate(files.Lines(data)) if number not in managed]
    module.edit(table, dict.fromkeys(names))
    assert list(table) == rest, "a line of nobody was changed"
    table = files.Lines(data)
    module.edit(table, {"new": {"name": "new", "command": "/bin/true", "minute": "5"}})
    assert any(job["name"] == "new" for _, _, job in module.blocks(table)), "a new job is not in the table"


KEY: Final = "AAAAC3NzaC1lZDI1NTE5AAAAIJhEGJ6dKvLxBVmQxP0pd5DiVrYtT8vWSqzrBhKqRz0S"


@target(
    generate=_lines(
        ["ssh-ed25519 ", "ssh-rsa ", KEY, " ", " me@home", 'command="/bin/x \\"y\\"",', "no-pty", ",", "\t", "#"],
        ['from="a b" ', '"', "\\", "restrict "],
        LINE,
    ),
    words=f'ssh-ed25519 ssh-rsa {KEY} me@home command=" \\" no-pty,from=" , #',
    readings=4,
)
def authorized_keys(data: bytes) -> None:
    """Files of authorized keys: read, edited, and read through the provider."""
    module = things.bundled_provider("ssh_authorized_key")
    lines = files.Lines(data)
    names = set()
    for line in lines:
        if (key := module.parse_line(line)) is not None:
            again = module.parse_line(module.format_line(key))
            assert again == key, "a key is not its line"
            names.add((files.printable(key["name"]), module.ANY))
    module.edit(lines, dict.fromkeys(names))
    assert not any(map(module.parse_line, lines)), "a removed key is still there"
    path = directory() / "authorized_keys"
    path.write_bytes(data)
    _read("ssh_authorized_key", [(name, str(path), "root", kind) for name, kind in sorted(names)[:5]])


@target(
    generate=_lines(["127.0.0.1", "::1", "fe80::1%eth0", "\t", " ", "localhost", "a.b", "#", "# note", "\r"], LINE),
    words="127.0.0.1 ::1 localhost ip6-allnodes # 1.2.3 0x7f.1",
    readings=4,
)
def hosts(data: bytes) -> None:
    """Files of hosts: read, edited, and read through the provider."""
    module = things.bundled_provider("host")
    lines, names = files.Lines(data), set()
    for line in lines:
        if (host := module.parse_line(line)) is not None:
            assert module.parse_line(module.format_line(host)) == host, "a host is not its line"
            names.add(host["name"])
    module.edit(lines, dict.fromkeys(names))
    assert not any(map(module.parse_line, lines)), "a removed host is still there"
    path = directory() / "hosts-given"
    path.write_bytes(data)
    _read("host", [(name, str(path)) for name in sorted(names)[:5]])


FIELD: Final = [
    "root",
    "a",
    "b",
    "x",
    "0",
    "1000",
    "4294967295",
    "-1",
    ":",
    ":",
    ":",
    ",",
    "+",
    "/bin/sh",
    "/root",
    "!",
    "é",
]


@target(
    generate=st.tuples(_lines(FIELD, LINE), _lines(FIELD, LINE), _lines(FIELD, LINE)).map(b"\0".join),
    words="root:x:0:0:root:/root:/bin/sh a:x:1000: :: + +@ 4294967295 99999999999999999999 , daemon",
    readings=4,
)
def accounts(data: bytes) -> None:
    """The contents of passwd, group and shadow: the types `user` and `group` read through the name service."""
    _root()
    for name, content in zip(("passwd", "group", "shadow"), [*data.split(b"\0"), b"", b""], strict=False):
        (directory() / name).write_bytes(content)
    _read("user", ["root", "a"])
    _read("group", ["root", "a"])


@target(
    generate=_lines(
        ["Package: ", "a", "b:i386", "dpkg", "\n", "Status: ", "install ok installed", " ", "Version: ", "1-2"],
        ["Architecture: ", "amd64", "all", "deinstall ok config-files", "Description: x\n more", "\n\n"],
        LINE,
    ),
    words="Package: Status: Version: Architecture: install ok installed config-files half-configured amd64 all dpkg",
    readings=2,
)
def dpkg_status(data: bytes) -> None:
    """The database of dpkg, as the type `package` reads it."""
    module = things.bundled_provider("package", "apt")
    path = directory() / "status"
    path.write_bytes(data)
    journal = directory() / "updates"
    journal.mkdir(exist_ok=True)
    module.DATABASE, module.JOURNAL = str(path), str(journal)
    _read("package", ["a", "b", "b:i386", "dpkg"])


@target(
    generate=_lines(["a:", "  Candidate: ", "(none)", "1.2", "  Installed: ", " ", "b"], LINE),
    words="a: Candidate: (none)",
)
def apt_policy(data: bytes) -> None:
    """The output of `apt-cache policy`."""
    module = things.bundled_provider("package", "apt")
    provider = module.Provider()
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    object.__setattr__(provider, "apt_cache", SimpleNamespace(lines=lambda *_: iter(lines)))
    provider._candidates(["a"])
    provider._versions(["a"])


@target(
    generate=_lines(
        ["pub:", "fpr:", "sub:", ":", ":::::", "1700000000", "-1", "99999999999999", "F" * 40, "tru::1"], LINE
    ),
    words="pub: fpr: ::::::::: 1700000000 -1 0 99999999999999999999 1e9",
)
def gpg_listing(data: bytes) -> None:
    """The listing of keys that gpg makes of a file that anybody may have written."""
    module = things.bundled_provider("apt_key")
    for key in module._keys(data.decode("utf-8", "surrogateescape")):
        module._row(key.fingerprint, key)


@target(grows=False)
def openpgp(data: bytes) -> None:
    """OpenPGP keys, armored and binary, read by gpg as the type `apt_key` calls it."""
    module = things.bundled_provider("apt_key")
    trusted = directory() / "trusted.gpg.d"
    trusted.mkdir(exist_ok=True)
    (trusted / "given.asc").write_bytes(data)
    module.TRUSTED, module.LEGACY = trusted, trusted / "none"
    _read("apt_key", ["F1D2D2F9"])


@target(
    generate=_lines(["ID=", "NAME=", "VERSION_ID=", "ID_LIKE=", "debian", '"', "'", "\\", "$", "12", " ", "#"], LINE),
    words='ID= NAME= VERSION_ID= ID_LIKE= PRETTY_NAME= debian "Debian\\x20GNU/Linux" 12',
)
def os_release(data: bytes) -> None:
    """The content of os-release and debian_version: the fact `os`."""
    import platform

    path = directory() / "os-release"
    path.write_bytes(data)
    candidates = platform._os_release_candidates
    try:
        platform._os_release_cache, platform._os_release_candidates = None, (str(path),)
        facts._release.cache_clear()
        facts.Facts()["os"]
    finally:
        platform._os_release_cache, platform._os_release_candidates = None, candidates
        facts._release.cache_clear()
