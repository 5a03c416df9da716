"""Capabilities of real programs, compared with what getcap(8) says, and with what the programs may do."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ManifestError, Runtime
from resource_api.testing import Neighbour, ProviderCompliance
from resource_api.testing.set_laws import FORMS
from tests.bundled import directory_of_nobody, execute
from tests.providers.applied import REGISTRY, converge, reason, run, warned
from tests.providers.parts_of_files import WholeFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from resource_api import Resource

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives capabilities")

FORMAT = execute("providers", "capability")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a copy of a program."""
    return shutil.copy("/bin/cat", tmp_path / "program")


def listed(path: Path) -> str:
    """Return the capabilities of a file as getcap(8) shows them."""
    output = subprocess.run(["getcap", path], check=True, capture_output=True, text=True).stdout
    return output.removeprefix(str(path)).strip()


def apply(path: Path, capability: str) -> str:
    """Apply capabilities twice, the second time without a change; return what getcap(8) shows."""
    converge({f"Capability[{path}]": {"capability": capability}})
    return listed(path)


@pytest.mark.parametrize(
    ("declared", "output"),
    [
        ("cap_net_raw=ep", "cap_net_raw=ep"),
        ("CAP_NET_RAW,cap_chown+pe", "cap_chown,cap_net_raw=ep"),
        ("cap_checkpoint_restore=p cap_syslog,cap_kill=ip", "cap_kill,cap_syslog=ip cap_checkpoint_restore+p"),
        ("cap_chown=i", "cap_chown=i"),
    ],
)
def test_what_is_declared_is_all_that_the_program_has(program: Path, declared: str, output: str) -> None:
    """In any spelling of setcap(8), as getcap(8) shows it."""
    subprocess.run(["setcap", "cap_sys_admin=ep", program], check=True)
    assert apply(program, declared) == output


@given(st.dictionaries(st.sampled_from(sorted(FORMAT.NUMBERS)), st.sampled_from(["p", "i", "ip"]), min_size=1))
def test_what_is_stored_is_read_again(letters: dict[str, str]) -> None:
    """Through the text and through the form in which the kernel has it, with the flag and without."""
    for flag in ("", "e"):
        text = " ".join(f"{name}={flag}{sets}" for name, sets in letters.items())
        result = FORMAT.parse(text)
        assert FORMAT.decode(FORMAT.encode(result)) == result
        assert FORMAT.parse(FORMAT.as_text(result)) == result
        assert FORMAT.as_text(result) == FORMAT.canonical(text)


def test_the_program_may_do_what_is_declared(program: Path) -> None:
    """A user reads a file of root with it, and no more after the capability is gone."""
    secret = program.parent / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    for parent in program.parents[:-2]:  # not / and /tmp
        parent.chmod(0o711)

    def may_read() -> bool:
        words = ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups", program, secret]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    assert not may_read()
    apply(program, "cap_dac_read_search=ep")
    assert may_read()
    assert run({f"Capability[{program}]": {"ensure": "absent"}})[0].summary.deleted == 1
    assert (may_read(), listed(program)) == (False, "")


def test_new_content_has_no_capabilities_until_the_next_run(program: Path) -> None:
    """A package that installs a new version takes them away."""
    apply(program, "cap_net_raw=ep")
    with program.open("ab") as file:
        file.write(b"x")
    assert listed(program) == ""
    assert apply(program, "cap_net_raw=ep") == "cap_net_raw=ep"


def test_capabilities_for_a_user_namespace_are_not_those_that_are_declared(program: Path) -> None:
    """They give nothing to anybody outside of it."""
    low = 1 << FORMAT.NUMBERS["cap_net_raw"]
    os.setxattr(program, FORMAT.ATTRIBUTE, struct.pack("<6I", 0x03000001, low, 0, 0, 0, 1000))
    _, lines = run({f"Capability[{program}]": {"capability": "cap_net_raw=ep"}})
    assert lines == [f"notice: Capability[{program}]: capability: is only for namespaces whose root is the user 1000"]
    assert listed(program) == "cap_net_raw=ep"


def test_a_capability_younger_than_this_program_is_shown_by_its_number(program: Path) -> None:
    """And ends when others are declared."""
    os.setxattr(program, FORMAT.ATTRIBUTE, struct.pack("<5I", 0x02000000, 1, 0, 1 << 30, 0))
    report, lines = run({f"Capability[{program}]": {"capability": "cap_chown=p"}})
    assert (reason(report), lines) == (
        "",
        [f"notice: Capability[{program}]: capability changed from cap_chown,cap_62=p to cap_chown=p"],
    )


@pytest.mark.parametrize(
    ("capability", "reason"),
    [
        ("cap_nothing=ep", "there is no capability 'cap_nothing'"),
        ("cap_kill=p cap_kill=ep", "'cap_kill' is there more than once"),
        ("cap_kill=p cap_chown=ep", "'e' is one flag of the file: give it to each capability or to none"),
        ("cap_kill=e", "a capability that is effective is also permitted or inheritable: 'ep' or 'ei'"),
        ("all=ep", "there is no capability 'all'"),
    ],
)
def test_what_cannot_be_meant_is_refused(capability: str, reason: str) -> None:
    """Before anything is read."""
    with pytest.raises(ManifestError, match=reason):
        Runtime(REGISTRY).validate({"resources": {"Capability[/srv/x]": {"capability": capability}}})


@pytest.mark.parametrize("danger", ["owner", "group", "list", "link", "directory"])
def test_a_program_that_others_could_change_gets_no_capabilities(program: Path, danger: str) -> None:
    """They could run anything with them."""
    if danger == "owner":
        os.chown(program, 1, 1)
    elif danger == "group":
        program.chmod(0o775)
    elif danger == "list":
        subprocess.run(["setfacl", "-m", "user:daemon:r", program], check=True)
    elif danger == "link":
        (program.parent / "other").hardlink_to(program)
    else:
        program.parent.chmod(0o777)
    declared = {f"Capability[{program}]": {"capability": "cap_net_raw=ep"}}
    warnings, error = warned(declared), reason(run(declared)[0])
    assert "other users" in error
    assert warnings == [error]
    assert ("directory on its path" in error) == (danger == "directory")
    assert listed(program) == ""


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    """A directory, and a file that does not exist, of which the plan warns."""
    expected: dict[str, Any] = {"capability": "cap_net_raw=ep"}
    assert reason(run({f"Capability[{tmp_path}]": expected})[0]) == "is not a regular file"
    assert warned({f"Capability[{tmp_path}/no]": expected}) == [f"'{tmp_path}/no' does not exist"]
    assert "no such file or directory" in reason(run({f"Capability[{tmp_path}/no]": expected})[0])


class TestCapability(WholeFiles, ProviderCompliance):
    """The capabilities of programs, whose names may be hostile."""

    type_name = "capability"

    @pytest.fixture
    def present(self, program: Path) -> Resource:
        for name in ("ra-test-a", "other", *(form.format("ra-test-a") for form in FORMS[:-1])):
            shutil.copy(program, program.parent / name)
        return {"path": f"{program.parent}/./ra-test-a", "capability": "cap_net_raw,cap_chown+pe"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "capability": "cap_kill=i"}

    @pytest.fixture
    def others(self, present: Resource, tmp_path: Path) -> list[Resource]:
        return [{**present, "path": str(tmp_path / "other")}]

    @pytest.fixture
    def world(self, tmp_path: Path) -> Callable[[], Any]:
        return lambda: [(path.name, listed(path)) for path in (tmp_path / "other", tmp_path / "ra-test-a")]

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a program in a directory of another user."""
        mine = {**present, "path": str(directory_of_nobody(tmp_path) / "ra-test-b")}
        obstacles = ("link", "directory link", "directory", "fifo")
        return [Neighbour(mine["path"], b"theirs", "nobody", [mine], obstacles)]
