"""Access control lists of real files, compared with what getfacl(1) and setfacl(1) say, and with what users may do."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.testing import Neighbour, ProviderCompliance
from resource_api.testing.set_laws import FORMS
from tests.bundled import directory_of_nobody
from tests.namespaces import private_mounts
from tests.providers.applied import REGISTRY, converge, reason, run, warned
from tests.providers.parts_of_files import WholeFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from resource_api import Resource


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can try what other users may do")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with mode 0640."""
    path = tmp_path / "file"
    path.write_text("")
    path.chmod(0o640)
    return path


def listed(path: Path) -> list[str]:
    """Return the entries of a file as getfacl(1) shows them."""
    output = subprocess.run(["getfacl", "-cpE", path], check=True, capture_output=True, text=True).stdout
    return output.split()


def given(path: Path, *entries: str) -> None:
    """Add entries by setfacl(1)."""
    subprocess.run(["setfacl", *(f"-m{entry}" for entry in entries), path], check=True)


def apply(path: Path, *permission: str, **attributes: Any) -> list[str]:
    """Apply a list twice, the second time without a change; return the entries that getfacl(1) shows."""
    converge({f"Acl[{path}]": {"permission": list(permission), **attributes} if permission else attributes})
    return listed(path)


def test_entries_are_all_that_there_are(file: Path) -> None:
    """In any spelling of setfacl(1), by name or number; the rights of the owner and of others stay."""
    given(file, "user:bin:rwx", "group:daemon:rwx")
    output = apply(file, "u:daemon:6", "group:2:rX")
    assert output == ["user::rw-", "user:daemon:rw-", "group::r--", "group:bin:r--", "mask::rwx", "other::---"]
    output = apply(file, "u:daemon:6", "g::0", "m::rw")
    assert output == ["user::rw-", "user:daemon:rw-", "group::---", "mask::rw-", "other::---"]


def test_with_minimum_other_entries_stay(file: Path) -> None:
    """Only those that are declared are compared and set."""
    given(file, "user:bin:r")
    assert "user:bin:r--" in apply(file, "user:daemon:r", membership="minimum")
    given(file, "user:games:r")
    assert run({f"Acl[{file}]": {"permission": ["user:daemon:r"], "membership": "minimum"}})[0].summary.unchanged == 1


def test_a_mask_that_grants_more_gives_nobody_more(file: Path) -> None:
    """Entries that are not declared keep what the mask let them do, unlike with setfacl(1)."""
    given(file, "user:bin:rwx", "group::rwx", "mask::r--")
    output = apply(file, "user:daemon:rw", membership="minimum")
    assert output == [
        *("user::rw-", "user:daemon:rw-", "user:bin:r--"),
        *("group::r--", "mask::rw-", "other::---"),
    ]


def test_a_mode_that_limits_an_entry_is_reported(file: Path) -> None:
    """The group's digit of the mode is the mask: a change of the mode takes rights away, and the next run says so."""
    apply(file, "user:daemon:rw")
    file.chmod(0o640)
    _, lines = run({f"Acl[{file}]": {"permission": ["user:daemon:rw"]}})
    assert lines == [f"notice: Acl[{file}]: permission: is limited by the mask r--, the group's digit of the mode"]
    assert "mask::rw-" in listed(file)


def test_users_may_do_what_the_entries_say(file: Path) -> None:
    """A file of root that daemon may read, and no one else."""
    for parent in file.parents[:-2]:  # not / and /tmp
        parent.chmod(0o711)
    apply(file, "user:daemon:r")

    def may_read(user: str) -> bool:
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "cat", file]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    assert (may_read("daemon"), may_read("bin")) == (True, False)


def test_new_files_inherit_the_defaults(tmp_path: Path) -> None:
    """What is not declared of a default list is taken from the directory, as by setfacl(1)."""
    one, file = tmp_path / "one", tmp_path / "other"
    for path in (one, file):
        path.mkdir(mode=0o750)
    given(file, "default:user:daemon:rwx", "user:daemon:rx")
    assert apply(one, "d:u:daemon:rwX", "u:daemon:rx") == listed(file)
    (one / "new").write_text("")
    assert "user:daemon:rwx" in listed(one / "new")
    output = apply(one, "user:daemon:r")
    assert [entry for entry in output if entry.startswith("default:")] == []


def test_a_list_is_removed_without_a_new_right(file: Path) -> None:
    """The group keeps what the mask let it do; a file that does not exist has no list."""
    given(file, "user:bin:rwx", "group::rwx", "mask::r--")
    expected = {f"Acl[{file}]": {"ensure": "absent"}, f"Acl[{file}/none]": {"ensure": "absent"}}
    assert run(expected)[0].summary.deleted == 1
    assert listed(file) == ["user::rw-", "group::r--", "other::---"]
    assert os.listxattr(file) == []
    assert run(expected)[0].summary.unchanged == 2


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a directory with a directory, a program, a text, a socket and a link to outside."""
    top = tmp_path / "tree"
    (top / "inner").mkdir(parents=True)
    (top / "inner" / "program").write_text("")
    (top / "inner" / "program").chmod(0o755)
    (top / "text").write_text("")
    (tmp_path / "outside").write_text("")
    (top / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(top / "fifo")
    return top


def test_all_in_a_directory_gets_the_entries(tree: Path) -> None:
    """Files without the defaults, and with ``X`` only programs the right to run; links lead nowhere."""
    apply(tree, "user:daemon:rX", "default:user:daemon:rX", recursive=True)
    entries = {
        str(path.relative_to(tree.parent)): [entry for entry in listed(path) if "daemon" in entry]
        for path in (tree, *tree.rglob("*"))
        if not path.is_symlink()
    }
    both = ["user:daemon:r-x", "default:user:daemon:r-x"]
    assert entries == {
        "tree": both,
        "tree/inner": both,
        "tree/inner/program": ["user:daemon:r-x"],
        "tree/text": ["user:daemon:r--"],
        "tree/fifo": ["user:daemon:r--"],
    }
    assert "user:daemon:r--" not in listed(tree.parent / "outside")
    given(tree / "text", "user:bin:r")
    _, lines = run({f"Acl[{tree}]": {"permission": ["u:daemon:rX", "d:u:daemon:rX"], "recursive": True}})
    assert lines == [f"notice: Acl[{tree}]: recursive: differs in text"]
    run({f"Acl[{tree}]": {"ensure": "absent", "recursive": True}})
    assert [os.listxattr(path) for path in (tree, tree / "inner", tree / "text")] == [[], [], []]


def test_a_right_to_write_is_given_to_all_in_a_directory_of_root(tree: Path) -> None:
    """Members come before their directory: in one that somebody may write to, nothing of root is given away."""
    apply(tree, "user:daemon:rwX", "default:user:daemon:rwX", recursive=True)
    assert "user:daemon:rw-" in listed(tree / "text")
    assert "user:daemon:rwx" in listed(tree / "inner" / "program")
    run({f"Acl[{tree}]": {"ensure": "absent", "recursive": True}})
    assert [os.listxattr(path) for path in (tree, tree / "inner", tree / "text")] == [[], [], []]


def test_a_run_that_left_out_what_did_not_change_sees_what_is_in_a_directory(tree: Path, tmp_path: Path) -> None:
    """Also where the list of the directory itself is declared as it is read."""
    output = [entry for entry in apply(tree, "user:daemon:r", recursive=True) if entry[:6] not in {"user::", "other:"}]
    site = tmp_path / "site.json"
    site.write_text(json.dumps({"resources": {f"Acl[{tree}]": {"permission": output, "recursive": True}}}))
    for number in range(3):
        given(tree / "text", "user:bin:r") if number == 2 else None
        runtime = Runtime(REGISTRY, state=f"sqlite:{tmp_path}/state.db")
        report = runtime.apply(str(site), use_cache=True)
        assert report.summary.updated == (number != 1)
    assert "user:bin:r--" not in listed(tree / "text")


def test_a_directory_with_too_many_members_is_not_changed(tree: Path) -> None:
    """Nor is one with another filesystem in it."""
    expected = {"permission": ["user:daemon:r"], "recursive": True}
    assert "has more than 2 files and directories" in reason(run({f"Acl[{tree}]": {**expected, "max_files": 2}})[0])
    assert os.listxattr(tree) == []


@pytest.mark.parametrize(
    ("permission", "reason"),
    [
        (["user::rwx", "user:bin:r"], "'user::rwx' is in the mode of the file"),
        (["o::r", "user:bin:r"], "'other::r--' is in the mode of the file"),
        (["u:bin:r", "user:bin:w"], "there is more than one entry for 'user:bin'"),
        (["u:1:r", "user:01:w"], "there is more than one entry for 'user:1'"),
        (["group::r"], "needs an entry for a named user or group"),
        (["user:4294967295:r"], "'4294967295' is no number of a user or group"),
        (["mask:bin:r"], "must be an entry such as 'user:alice:rwx'"),
    ],
)
def test_what_cannot_be_meant_is_refused(permission: list[str], reason: str) -> None:
    """Before anything is read."""
    with pytest.raises(ManifestError, match=reason):
        Runtime(REGISTRY).validate({"resources": {"Acl[/srv/x]": {"permission": permission}}})


def test_what_is_missing_is_named_in_the_plan(tmp_path: Path) -> None:
    """The file, and each user and group; the run then fails for the same reason."""
    expected = {f"Acl[{tmp_path}/no]": {"permission": ["user:ra-test-no:r", "group:ra-test-no:r", "mask::r"]}}
    assert warned(expected) == [
        *("there is no user 'ra-test-no'", "there is no group 'ra-test-no'", f"'{tmp_path}/no' does not exist")
    ]
    assert reason(run(expected)[0]) == "there is no user 'ra-test-no'"
    assert "no such file or directory" in reason(run({f"Acl[{tmp_path}/no]": {"permission": ["user:bin:r"]}})[0])


def test_entries_of_one_who_does_not_exist_yet_differ(file: Path) -> None:
    """So a plan with the creation of a user can be made."""
    given(file, "user:daemon:r")
    expected = {f"Acl[{file}]": {"permission": ["user:ra-test-no:r"]}}
    assert Runtime(REGISTRY).plan({"project": "p", "resources": expected}).summary.updated == 1


def test_a_file_has_no_defaults(file: Path) -> None:
    """They are for what is created in a directory."""
    error = reason(run({f"Acl[{file}]": {"permission": ["default:user:bin:r"]}})[0])
    assert error == "is not a directory, so it has no default entries"


@pytest.mark.parametrize("planted", ["moved", "linked"])
def test_a_file_that_another_user_may_have_put_there_gets_no_entries(tmp_path: Path, planted: str) -> None:
    """A file of root that somebody moved or linked to the name that is declared stays as it is."""
    path = directory_of_nobody(tmp_path) / "file"
    path.write_text("")
    if planted == "linked":
        os.chown(path, 65534, 65534)
        (tmp_path / "other").hardlink_to(path)
    error = reason(run({f"Acl[{path}]": {"permission": ["user:bin:r"]}})[0])
    assert "other users can write to a directory on its path and may have moved another file here" in error
    assert os.listxattr(path) == []


def test_a_file_of_a_user_in_their_directory_gets_entries(tmp_path: Path) -> None:
    """It has no rights that anybody could gain."""
    path = directory_of_nobody(tmp_path) / "file"
    path.write_text("")
    os.chown(path, 65534, 65534)
    assert "user:bin:r--" in apply(path, "user:bin:r")


def test_a_filesystem_without_lists_is_an_error(tmp_path: Path) -> None:
    """The program says so, and not that all is well."""
    with private_mounts():
        subprocess.run(["mount", "-t", "ramfs", "ra-test", tmp_path], check=True)
        (tmp_path / "file").write_text("")
        error = reason(run({f"Acl[{tmp_path}/file]": {"permission": ["user:bin:r"]}})[0])
    assert error == "operation not supported"


class TestAcl(WholeFiles, ProviderCompliance):
    """The lists of a directory and of files, whose names may be hostile."""

    type_name = "acl"

    @pytest.fixture
    def present(self, tmp_path: Path) -> Resource:
        for name in ("file", "ra-test-a"):
            (tmp_path / name).mkdir()
        for form in FORMS[:-1]:
            (tmp_path / form.format("ra-test-a")).write_text("")
        permission = ["u:daemon:rwx", "g:1:rX", "d:u:daemon:rwx"]
        return {"path": f"{tmp_path}/./ra-test-a", "permission": permission}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "permission": ["u:daemon:r", "g:bin:rw", "d:g:bin:r"]}

    @pytest.fixture
    def others(self, present: Resource, tmp_path: Path) -> list[Resource]:
        return [{**present, "path": str(tmp_path / "file")}]

    @pytest.fixture
    def world(self, tmp_path: Path) -> Callable[[], Any]:
        return lambda: [(path, listed(path)) for path in (tmp_path / "file", tmp_path / "ra-test-a")]

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a file in a directory of another user."""
        mine = {**present, "path": str(directory_of_nobody(tmp_path) / "ra-test-b"), "permission": ["u:daemon:r"]}
        return [Neighbour(mine["path"], b"theirs", "nobody", [mine], ("link", "directory link"))]
