"""Users in copies of the account files and homes, visible to these tests only."""

from __future__ import annotations

import errno
import grp
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ManifestError, Runtime, change_accounts
from resource_api.model.values.values import reveal
from resource_api.plugins.registry import Registry
from resource_api.provider.context import Context, RunContext
from resource_api.system.log import ForwardedLog, Log, line
from resource_api.testing import ProviderCompliance
from tests.programs import traced
from tests.providers.applied import warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource
    from resource_api.model.report import Summary

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = Registry.from_path()
NAME = "ra-test-user"
HASH = "$6$salt$T7pxwkrPsW9SxV5Y6N7VuLQBkZLkPRkDIrKHE0EUjsDPGVZeYLzXnzFUXQkJnJM3v1eQ1pMSSqzXuGSzPyKsd."
FILES = [Path("/etc", name) for name in ("passwd", "group", "shadow", "gshadow")]

pytestmark = [
    pytest.mark.usefixtures("accounts"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users"),
]


@pytest.fixture(scope="module")
def accounts(private_etc: None) -> None:  # noqa: ARG001 - this comes after it
    """Return two groups."""
    subprocess.run(["groupadd", "-g", "54001", "ra-test-one"], check=True)
    subprocess.run(["groupadd", "-g", "54002", "ra-test-two"], check=True)


@pytest.fixture(autouse=True)
def _without(accounts: None) -> Iterator[None]:  # noqa: ARG001 - this comes after it
    """Remove the user after the test."""
    yield
    subprocess.run(["userdel", "-r", NAME], check=False, capture_output=True)
    subprocess.run(["groupdel", NAME], check=False, capture_output=True)


def apply(**attributes: Any) -> Summary:
    """Apply a manifest of one user twice: the second run must change nothing."""
    manifest = {"resources": {f"User[{NAME}]": attributes}}
    report = Runtime(REGISTRY).apply(manifest)
    assert report.exit_code == 0, report
    assert Runtime(REGISTRY).apply(manifest).summary.unchanged == 1
    return report.summary


def failure(**attributes: Any) -> str:
    """Apply a manifest that must fail and return the message."""
    lines: list[str] = []
    runtime = Runtime(REGISTRY, log=ForwardedLog("err", lambda event: lines.append(line(event))))
    assert runtime.apply({"resources": {f"User[{NAME}]": attributes}}).summary.failed == 1
    return "\n".join(lines)


def ids(*options: str) -> str:
    """Return the output of id(1) for the user."""
    return subprocess.run(["id", *options, NAME], check=True, capture_output=True, text=True).stdout.strip()


def shadow() -> list[str]:
    """Return the fields of the user's line in /etc/shadow."""
    [line] = [line for line in FILES[2].read_text().splitlines() if line.startswith(f"{NAME}:")]
    return line.split(":")


def test_a_user_is_created_as_declared() -> None:
    """All attributes are right after one run, and id(1) agrees."""
    summary = apply(  # noqa: S604 - a login shell
        uid=54321,
        gid="ra-test-one",
        groups=["ra-test-two", "audio", "audio"],
        comment="Über $HOME `id` %s {0} \\g<0>",
        home="/home/elsewhere",
        shell="/bin/bash",
        password=HASH,
    )
    assert summary.created == 1
    assert ids("-u") == "54321"
    assert ids("-gn") == "ra-test-one"
    assert set(ids("-Gn").split()) == {"ra-test-one", "ra-test-two", "audio"}
    assert pwd.getpwnam(NAME)[4:] == ("Über $HOME `id` %s {0} \\g<0>", "/home/elsewhere", "/bin/bash")
    assert shadow()[1] == HASH
    assert not Path("/home/elsewhere").exists()


@pytest.mark.parametrize("expected", [{"ensure": "absent"}, {"comment": "a"}])
def test_no_comment_of_a_user_blocks_a_change(expected: dict[str, str]) -> None:
    """Old versions of chfn(1) let users write control characters into it."""
    apply(comment="ra-test comment")
    passwd = FILES[0]
    passwd.write_bytes(passwd.read_bytes().replace(b"ra-test comment", b"\x01\x1b[2J\xff"))
    summary = apply(**expected)
    assert (summary.updated, summary.deleted) in {(1, 0), (0, 1)}


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0c", "\x1e"])
def test_no_comment_of_another_user_looks_like_the_record_of_a_new_one(separator: str) -> None:
    """Only a line feed ends a line of the file; chfn(1) lets users write letters outside of ASCII."""
    passwd = FILES[0].read_bytes()
    comment = f"ra{separator}{NAME}".encode()
    FILES[0].write_bytes(passwd + b"ra-test-other:x:54399:54399:" + comment + b":/nonexistent:/bin/false\n")
    assert apply(managehome=True).created == 1
    subprocess.run(["userdel", "-r", NAME], check=False, capture_output=True)
    FILES[0].write_bytes(passwd)


def test_all_attributes_but_the_number_are_updated() -> None:
    """Only declared attributes change."""
    old = {"gid": "ra-test-one", "groups": ["audio"], "comment": "a", "shell": "/bin/bash", "home": "/home/a"}
    new = {"gid": "ra-test-two", "groups": ["video"], "comment": "-x", "shell": "/bin/sh", "home": "/home/b"}
    apply(**old)
    assert apply(**new).updated == 1
    assert ids("-gn") == "ra-test-two"
    assert set(ids("-Gn").split()) == {"ra-test-two", "video"}
    assert pwd.getpwnam(NAME)[4:] == ("-x", "/home/b", "/bin/sh")
    assert apply(comment="").updated == 1
    assert pwd.getpwnam(NAME)[4:] == ("", "/home/b", "/bin/sh")
    assert set(ids("-Gn").split()) == {"ra-test-two", "video"}


def test_limits_and_ranges_are_what_other_programs_read() -> None:
    """They are in the fields of the account files, change alone, and end."""
    limits = {"expiry": "2030-12-31", "password_max_age": 90, "password_min_age": 2, "password_warn_days": 5}
    ranges = {"subuids": ["300000:10", "200000:5"], "subgids": ["200000:65536"]}
    assert apply(**limits, **ranges).created == 1
    output = subprocess.run(["chage", "-l", "-i", NAME], check=True, capture_output=True, text=True).stdout
    assert [line.partition(": ")[2] for line in output.splitlines()][3:] == ["2030-12-31", "2", "90", "5"]
    lines = [Path(path).read_text().splitlines() for path in ("/etc/subuid", "/etc/subgid")]
    assert f"{NAME}:200000:5" in lines[0]
    assert f"{NAME}:200000:65536" in lines[1]
    assert apply(comment="x", password_max_age=30).updated == 1
    assert shadow()[3:8] == ["2", "30", "5", "", "22279"]
    ended = {"expiry": "absent", "password_max_age": -1, "password_min_age": -1, "password_warn_days": -1}
    assert apply(**ended, subuids=[], subgids=[]).updated == 1
    assert shadow()[3:8] == ["0", "", "", "", ""]
    assert not [
        line for name in ("subuid", "subgid") for line in Path("/etc", name).read_text().split() if NAME in line
    ]


def test_least_memberships_add_and_never_remove() -> None:
    """Those that others have added stay."""
    apply(groups=["audio"])
    assert apply(groups=["video"], membership="minimum").updated == 1
    assert set(ids("-Gn").split()) == {NAME, "audio", "video"}
    assert apply(groups=["audio"], membership="minimum").unchanged == 1


def test_two_users_have_one_number_only_if_that_is_declared() -> None:
    """Otherwise it is a mistake."""
    assert "not unique" in failure(uid=1)
    assert apply(uid=1, allowdupe=True).created == 1
    assert pwd.getpwnam(NAME).pw_uid == 1


@pytest.mark.parametrize("expiry", ["2030-02-30", "2030-13-01", "2030-1-1", "tomorrow", "1969-12-31"])
def test_an_expiry_is_a_day_of_the_calendar(expiry: str) -> None:
    """No program would read another one."""
    with pytest.raises(ManifestError):
        apply(expiry=expiry)


def test_a_password_in_clear_is_a_warning() -> None:
    """Nobody could log in with it, and it would be read in /etc/shadow; no hash and no disabled one is warned of."""
    hashes = ["", "!", "*", "!*", "!!", "x", "*LK*", "$6$ab$cd", "!$y$j9T$a$b", "abJnggxhB/yWI", "_J9..K0AyUubDrfOgO4s"]
    for password in ["sesame street", *hashes]:
        result = warned({f"User[{NAME}]": {"password": password}})
        assert any("/etc/shadow would have it in clear" in text for text in result) == (" " in password)


def test_the_number_of_a_user_cannot_be_changed() -> None:
    """The error names both values."""
    apply(uid=54321)
    message = failure(uid=54322, comment="not this either")
    assert "54321" in message
    assert "54322" in message
    assert ids("-u") == "54321"
    assert pwd.getpwnam(NAME).pw_gecos == ""


@pytest.mark.parametrize("spelling", ["ra-test-two", 54002])
def test_a_primary_group_may_be_declared_by_name_or_number(spelling: str | int) -> None:
    """Both mean the same group: at creation, for a change, and without a change."""
    apply(gid=spelling)
    assert ids("-g") == "54002"
    assert all(apply(gid=second).unchanged == 1 for second in ("ra-test-two", 54002))
    apply(gid="ra-test-one")
    assert apply(gid=spelling).updated == 1
    assert ids("-g") == "54002"


def test_without_a_primary_group_a_user_gets_its_own() -> None:
    """The group of the same name is created, or used if it exists."""
    apply()
    assert ids("-gn") == NAME
    apply(ensure="absent")
    subprocess.run(["groupadd", "-g", "54003", NAME], check=True)
    apply()
    assert ids("-g") == "54003"


def test_groups_are_exact_and_change_only_when_declared() -> None:
    """The primary group may be listed; an empty list removes all memberships."""
    apply(gid="ra-test-one", groups=["ra-test-one", "ra-test-two"])
    assert set(ids("-Gn").split()) == {"ra-test-one", "ra-test-two"}
    assert apply(comment="x").updated == 1
    assert set(ids("-Gn").split()) == {"ra-test-one", "ra-test-two"}
    assert apply(groups=["ra-test-two"]).updated == 1
    assert apply(groups=[]).updated == 1
    assert ids("-Gn") == "ra-test-one"


def test_a_home_is_managed_only_with_managehome() -> None:
    """With it the home is created, moved and deleted with the user."""
    home, path = Path("/home", NAME), Path("/home/other")
    apply(managehome=True)
    assert home.stat().st_uid == int(ids("-u"))
    (home / "kept").touch()
    apply(home=str(path))
    assert (home / "kept").exists()
    assert not path.exists()
    apply(home=str(home))
    apply(home=str(path), managehome=True)
    assert (path / "kept").exists()
    assert not home.exists()
    apply(ensure="absent", managehome=True)
    assert not path.exists()


def test_a_home_is_where_the_record_says_after_a_failed_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flush of /etc fails after the record has been replaced: the home is not moved back."""
    home, path = Path("/home", NAME), Path("/home/other")
    apply(managehome=True)
    flush = os.fsync

    def fail(fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink() == Path("/etc") and pwd.getpwnam(NAME).pw_dir == str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        flush(fd)

    monkeypatch.setattr(os, "fsync", fail)
    assert "input/output error" in failure(home=str(path), managehome=True)
    monkeypatch.undo()
    apply(home=str(path), managehome=True)
    assert (home.exists(), path.exists()) == (False, True)
    apply(ensure="absent", managehome=True)


def test_a_new_home_is_the_one_that_useradd_makes() -> None:
    """Files of /etc/skel, links, modes and owners."""
    skel = Path("/etc/skel")
    (skel / "ra-test" / "empty").mkdir(parents=True)
    (skel / "ra-test" / "tool").write_text("tool")
    (skel / "ra-test" / "tool").chmod(0o750)
    (skel / "ra-test" / "link").symlink_to("tool")

    def tree(home: Path) -> list[tuple[object, ...]]:
        observed = [(path, path.lstat()) for path in (home, *sorted(home.rglob("*")))]
        return [(path.relative_to(home), at.st_mode, at.st_uid, at.st_gid) for path, at in observed]

    apply(managehome=True, uid=54010)
    ours = tree(Path("/home", NAME))
    apply(ensure="absent", managehome=True)
    subprocess.run(["useradd", "-m", "-u", "54010", NAME], check=True)
    assert ours == tree(Path("/home", NAME))
    assert len(ours) >= 5


def test_a_thousand_users_are_listed_without_a_program(tmp_path: Path) -> None:
    """Each of them, with the groups and the limits of each."""
    before = {path: path.read_text() for path in FILES[::2]}
    for path, text in zip(before, ("{0}:x:{1}:{1}::/home/{0}:/bin/sh\n", "{0}:*:19000:0:99999:7:::\n"), strict=True):
        lines = [text.format(f"ra-test-{number:04d}", 60_000 + number) for number in range(1000)]
        path.write_text(before[path] + "".join(lines))
    try:
        listed = traced(tmp_path / "trace", "resource", "user", "--json")
    finally:
        for path, text in before.items():
            path.write_text(text)
    assert sum(row["title"].startswith("ra-test-") for row in json.loads(listed.stdout)) == 1000
    assert listed.programs == []


def test_the_only_superuser_is_not_deleted() -> None:
    """Its processes do not count, as another account with the number 0 can be deleted; the plan names the reason."""
    message = "user root is the only account with the number 0, which the machine needs"
    assert message in warned({"User[root]": {"ensure": "absent"}})


def test_a_user_with_a_running_process_is_not_deleted() -> None:
    """Neither the account nor the home."""
    apply(managehome=True)
    with subprocess.Popen(["sleep", "60"], user=int(ids("-u")), cwd="/") as process:
        try:
            message = f"user {NAME} is currently used by process {process.pid}"
            assert message in warned({f"User[{NAME}]": {"ensure": "absent"}})
            assert f"currently used by process {process.pid}" in failure(ensure="absent", managehome=True)
        finally:
            process.kill()
    assert Path("/home", NAME).is_dir()


def test_a_process_of_a_container_with_the_number_of_a_user_blocks_no_deletion(tmp_path: Path) -> None:
    """A number in another root directory belongs to an account of that root, as it does for userdel."""
    apply()
    program = "import os, sys; os.chroot(sys.argv[1]); os.setuid(int(sys.argv[2])); print(flush=True); sys.stdin.read()"
    arguments = [sys.executable, "-c", program, str(tmp_path), ids("-u")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        assert apply(ensure="absent").changed == 1


def deletion(**more: Any) -> tuple[str, list[str]]:
    """Plan to delete the user; return why that is refused, and what goes besides."""
    manifest = {"resources": {f"User[{NAME}]": {"ensure": "absent", "managehome": True}, **more}}
    step = Runtime(Registry.from_path(), log=Log("off")).plan(manifest).to_dict()["steps"][0]
    return step.get("error", ""), [
        f"{side_effect['action']} {side_effect['type']} {side_effect['name']}" for side_effect in step["side_effects"]
    ]


def test_what_goes_with_a_user_is_in_the_plan() -> None:
    """Its own group, memberships of others and its home; what is declared of these is kept."""
    apply(managehome=True, groups=["ra-test-one"])
    home = f"/home/{NAME}"
    expected = ["update group ra-test-one", f"remove group {NAME}", f"remove file {home}"]
    assert sorted(deletion()[1]) == sorted(expected)
    stored = {
        f"Group[{NAME}]": {},
        "Group[ra-test-one]": {"members": [NAME]},
        f"File[{home}]": {"ensure": "directory"},
        f"File[{home}/notes]": {"ensure": "present", "content": "x"},
    }
    for reference, attributes in stored.items():
        error, _ = deletion(**{reference: attributes})
        assert f"which {reference} declares " in error
    assert deletion(**{f"Group[{NAME}]": {"ensure": "absent"}, "Group[ra-test-one]": {}})[0] == ""
    subprocess.run(["useradd", "-M", "-g", NAME, "ra-test-other"], check=True)
    try:
        assert f"remove group {NAME}" not in deletion()[1]
    finally:
        subprocess.run(["userdel", "ra-test-other"], check=True)


def test_destroy_of_a_user_takes_its_own_group_along() -> None:
    """Useradd has made it; one that was there before stays unless the run deletes it too."""
    for declared, code in (({}, 0), ({f"Group[{NAME}]": {}}, 1)):
        if declared:
            subprocess.run(["groupadd", NAME], check=True)
        runtime = Runtime(Registry.from_path(), log=Log("off"))
        manifest = {"project": "p", "resources": {**declared, f"User[{NAME}]": {}}}
        assert runtime.apply(manifest).exit_code == 0
        assert runtime.destroy(manifest).exit_code == code
        assert (NAME in [entry.pw_name for entry in pwd.getpwall()]) is bool(code)


def test_destroy_of_a_user_takes_its_home_along() -> None:
    """Also where the same manifest declares the directory, and that is only forgotten."""
    runtime, home = Runtime(Registry.from_path(), log=Log("off")), f"/home/{NAME}"
    directory = {"ensure": "directory", "mode": "0700", "lifecycle": {"owned": False}}
    resources = {f"User[{NAME}]": {"managehome": True}, f"File[{home}]": directory}
    assert runtime.apply({"project": "p", "resources": resources}).exit_code == 0
    assert runtime.destroy({"project": "p", "resources": resources}).exit_code == 0
    assert not Path(home).exists()


def test_a_change_of_the_account_files_by_another_program_is_kept() -> None:
    """The tools run again on what it has written."""
    tries = []

    def work(prefix: Path) -> None:
        tries.append(prefix)
        if len(tries) == 1:
            subprocess.run(["groupadd", "ra-test-meanwhile"], check=True)
        subprocess.run(["useradd", "--prefix", prefix, "-M", NAME], check=True)

    change_accounts(work)
    assert len(tries) == 2
    assert (ids("-un"), grp.getgrnam("ra-test-meanwhile").gr_mem) == (NAME, [])
    assert not tries[0].exists()


def test_an_unmanaged_home_stays_when_the_user_is_deleted() -> None:
    """Deleting the account deletes no data."""
    apply(managehome=True)
    apply(ensure="absent")
    assert Path("/home", NAME).is_dir()


def test_a_system_user_gets_a_low_number() -> None:
    """The number comes from the system range of login.defs."""
    apply(system=True)
    assert 0 < int(ids("-u")) < 1000


def test_a_password_is_changed_only_when_it_differs() -> None:
    """Other changes keep it, and the date of its last change."""
    apply(password=HASH)
    subprocess.run(["chage", "-d", "10000", NAME], check=True)
    apply(password=HASH, comment="x")
    assert shadow()[1:3] == [HASH, "10000"]
    assert apply(password="!").updated == 1
    assert shadow()[1] == "!"
    assert shadow()[2] != "10000"


def test_a_password_is_never_visible(tmp_path: Path) -> None:
    """No command line, environment or log line contains it, at creation or at a change."""
    trace, script = tmp_path / "trace", tmp_path / "apply.py"
    script.write_text(
        "import sys\n"
        "from resource_api import Registry, Runtime\n"
        "from resource_api.system.log import ForwardedLog\n"
        "for digest in sys.stdin.read().split():\n"
        f"    manifest = {{'resources': {{'User[{NAME}]': {{'password': digest}}}}}}\n"
        "    log = ForwardedLog('debug', lambda line: print(line))\n"
        "    print(Runtime(Registry.from_path(), log=log).apply(manifest))\n"
    )
    strace = ["strace", "-f", "-v", "-s", "100000", "-e", "trace=execve,execveat", "-o", str(trace)]
    process = subprocess.run(
        [*strace, sys.executable, script],
        input=f"{HASH} {HASH[::-1].replace('$', '.')}",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert shadow()[1] == HASH[::-1].replace("$", ".")
    assert trace.read_text().count('"--encrypted"') == 2
    secret = HASH[-20:]
    assert not any(
        secret in text or secret[::-1] in text for text in (trace.read_text(), process.stdout, process.stderr)
    )


def test_a_caller_without_root_reads_no_hashes() -> None:
    """All other attributes are read as root reads them, but for those beside the hashes."""
    apply(password=HASH)
    mine = Runtime(REGISTRY).resources("user", [NAME])
    os.seteuid(65534)
    try:
        theirs = Runtime(REGISTRY).resources("user", [NAME])
    finally:
        os.seteuid(0)
    assert reveal(mine) == [{**theirs[0], "password": HASH, "password_warn_days": 7}]


def test_creating_and_deleting_a_user_restores_the_account_files() -> None:
    """They are equal byte for byte."""
    before = [path.read_bytes() for path in FILES]
    apply(groups=["audio", "ra-test-one"], password=HASH, managehome=True)
    assert [path.read_bytes() for path in FILES] != before
    assert apply(ensure="absent", managehome=True).deleted == 1
    assert [path.read_bytes() for path in FILES] == before


def test_a_refusal_of_the_system_fails_with_its_reason() -> None:
    """A missing group is named, and no user is created."""
    assert "ra-test-none" in failure(gid="ra-test-none")
    with pytest.raises(KeyError):
        pwd.getpwnam(NAME)


HOSTILE = ["a:b", "a\nb", "a\r", "\0", "\x1b[2J"]


@pytest.mark.parametrize(
    ("attribute", "bad"),
    [
        *[("name", bad) for bad in (*HOSTILE, "-x", "+", "a/../b", "a,b", "", " ")],
        *[("gid", bad) for bad in (*HOSTILE, "-x", "54002", -1, 2**32)],
        *[("uid", bad) for bad in ("0", -1, 2**32)],
        *[("comment", bad) for bad in HOSTILE],
        *[("home", bad) for bad in (*HOSTILE, "/a:b", "relative", "/a\nroot::0:0:::")],
        *[("shell", bad) for bad in (*HOSTILE, "/a:b", "relative")],
        *[("password", bad) for bad in HOSTILE],
    ],
)
def test_a_value_cannot_forge_a_line_or_an_option(attribute: str, bad: str | int) -> None:
    """It is refused in the manifest, before anything is changed."""
    before = [path.read_bytes() for path in FILES]
    with pytest.raises(ManifestError):
        Runtime(REGISTRY).apply({"resources": {f"User[{NAME}]": {attribute: bad}}})
    with pytest.raises(ManifestError):
        Runtime(REGISTRY).apply({"resources": {f"User[{NAME}]": {"groups": ["audio", "a,b"]}}})
    assert [path.read_bytes() for path in FILES] == before


def test_a_group_is_created_before_its_users_and_deleted_after_them() -> None:
    """One run is enough, whatever the order in the manifest."""
    user: dict[str, Any] = {"gid": "ra-test-three", "groups": ["ra-test-four"]}
    for ensure, result in (("present", "created"), ("absent", "deleted")):
        groups = {f"Group[ra-test-{number}]": {"ensure": ensure} for number in ("three", "four")}
        manifest = {"resources": {f"User[{NAME}]": {**user, "ensure": ensure}, **groups}}
        if ensure == "absent":
            manifest = {"resources": dict(reversed(manifest["resources"].items()))}
        report = Runtime(REGISTRY).apply(manifest)
        assert getattr(report.summary, result) == 3, report


def test_the_list_is_a_manifest_that_changes_nothing() -> None:
    """Every user of the system, except entries for NIS, is valid as listed."""
    apply(gid=54001, groups=["ra-test-one", "audio"], password=HASH)
    with FILES[0].open("a") as file:
        file.write("+::::::\nra-test-odd::54009:54009:::\n")
    try:
        rows = Runtime(REGISTRY).resources("user")
        assert {"root", NAME, "ra-test-odd"} <= {row["name"] for row in rows}
        expected = [{k: v for k, v in reveal(row).items() if k != "gid_number"} for row in rows]
        manifest = {"resources": {f"User[{row['name']}]": row for row in expected}}
        assert Runtime(REGISTRY).apply(manifest, noop=True).summary.unchanged == len(rows)
    finally:
        subprocess.run(["sed", "-i", "-e", "/^+/d", "-e", "/^ra-test-odd/d", FILES[0]], check=True)


def test_a_group_with_a_numeric_name_is_shown_by_number() -> None:
    """Its name could be the number of another group."""
    subprocess.run(["groupadd", "-g", "54005", "54002"], check=True)
    apply(gid=54005)
    assert Runtime(REGISTRY).resources("user", [NAME])[0]["gid"] == 54005


@given(st.fixed_dictionaries({}, optional={"gid": st.integers(0), "groups": st.lists(st.text(min_size=1))}))
def test_canonical_values_stay_as_they_are(resource: dict[str, Any]) -> None:
    """Canonicalizing twice equals canonicalizing once; nothing is added."""
    provider, context = (
        REGISTRY.provider("user")(),
        Context(REGISTRY.type("user"), RunContext(Log("off")), reading=True),
    )
    [once] = provider.canonicalize(context, [dict(resource)])
    assert once.keys() == resource.keys()
    assert provider.canonicalize(context, [dict(once)]) == [once]


class TestUser(ProviderCompliance):
    """A user with all attributes."""

    type_name = "user"

    @pytest.fixture
    def present(self) -> Resource:
        return {
            "name": NAME,
            "gid": 54001,
            "groups": ["ra-test-two", "ra-test-one", "ra-test-two"],
            "comment": "Before",
            "home": f"/home/{NAME}",
            "shell": "/bin/sh",
            "password": HASH,
        }

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        more = {"expiry": "2030-01-01", "password_max_age": 60, "subuids": ["300000:1", "200000:1"]}
        return {**present, **more, "comment": "After", "groups": ["ra-test-two"], "password": f"{HASH}x"}

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: [file.read_bytes() for file in FILES]

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes the databases of users, but for comments, which are never carried over"
