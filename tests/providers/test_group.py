"""Groups in copies of the account files, visible to these tests only."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ManifestError, Runtime
from resource_api.plugins.registry import Registry
from resource_api.provider.context import Context, RunContext
from resource_api.system.log import ForwardedLog, Log, line
from resource_api.testing import ProviderCompliance
from tests.providers.applied import warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource
    from resource_api.model.report import Summary

REGISTRY = Registry.from_path()
NAME = "ra-test-group"

pytestmark = [
    pytest.mark.usefixtures("accounts"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can change groups"),
]


@pytest.fixture(scope="module")
def accounts(private_etc: None) -> None:  # noqa: ARG001 - this comes after it
    """Return two users to be members."""
    for user in ("ra-test-b", "ra-test-a"):
        subprocess.run(["useradd", "-M", user], check=True)


@pytest.fixture(autouse=True)
def _without(accounts: None) -> Iterator[None]:  # noqa: ARG001 - this comes after it
    """Remove the group after the test."""
    yield
    subprocess.run(["groupdel", NAME], check=False, capture_output=True)


def apply(failed: int = 0, **attributes: Any) -> Summary:
    """Apply a manifest of one group twice: the second run must change nothing."""
    manifest = {"resources": {f"Group[{NAME}]": attributes}}
    summary = Runtime(REGISTRY).apply(manifest).summary
    assert summary.failed == failed
    if not failed:
        assert Runtime(REGISTRY).apply(manifest).summary.unchanged == 1
    return summary


def entry() -> str:
    """Return the group as the system has it."""
    return subprocess.run(["getent", "group", NAME], check=False, capture_output=True, text=True).stdout.strip()


def test_a_group_is_created_as_declared() -> None:
    """Number and members are right after one run."""
    assert apply(gid=54321, members=["ra-test-b", "ra-test-a", "ra-test-b"]).created == 1
    assert entry() == f"{NAME}:x:54321:ra-test-a,ra-test-b"


def test_number_and_members_are_updated() -> None:
    """Only declared attributes change."""
    apply(gid=54321, members=["ra-test-a"])
    assert apply(gid=54322).updated == 1
    assert entry() == f"{NAME}:x:54322:ra-test-a"
    assert apply(members=["ra-test-b"]).updated == 1
    assert entry() == f"{NAME}:x:54322:ra-test-b"
    assert apply(members=[]).updated == 1
    assert entry() == f"{NAME}:x:54322:"


def test_a_system_group_gets_a_low_number() -> None:
    """The number comes from the system range of login.defs."""
    apply(system=True)
    assert 0 < int(entry().split(":")[2]) < 1000


def test_creating_and_deleting_a_group_restores_the_account_files() -> None:
    """They are equal byte for byte."""
    files = [Path("/etc/group"), Path("/etc/gshadow"), Path("/etc/passwd")]
    before = [path.read_bytes() for path in files]
    apply(members=["ra-test-a"])
    assert [path.read_bytes() for path in files] != before
    assert apply(ensure="absent").deleted == 1
    assert [path.read_bytes() for path in files] == before


def test_a_refusal_of_the_system_fails_with_its_reason() -> None:
    """A missing member is named."""
    lines: list[str] = []
    manifest = {"resources": {f"Group[{NAME}]": {"members": ["ra-test-nobody"]}}}
    report = Runtime(REGISTRY, log=ForwardedLog("err", lambda event: lines.append(line(event)))).apply(manifest)
    assert report.exit_code == 1
    assert "ra-test-nobody" in "\n".join(lines)
    assert not entry()


@pytest.mark.parametrize("bad", ["-g", "+", "a:b", "a,b", "a\nb", "a/b", "\t", ""])
def test_a_name_cannot_forge_a_line_or_an_option(bad: str) -> None:
    """It is refused in the manifest, as a name and as a member."""
    before = Path("/etc/group").read_bytes()
    with pytest.raises(ManifestError):
        Runtime(REGISTRY).apply({"resources": {"Group[x]": {"name": bad}}})
    with pytest.raises(ManifestError):
        Runtime(REGISTRY).apply({"resources": {"Group[x]": {"members": [bad]}}})
    assert Path("/etc/group").read_bytes() == before


def test_the_list_is_a_manifest_that_changes_nothing() -> None:
    """Every group of the system, except entries for NIS, is valid as it is listed."""
    with Path("/etc/group").open("a") as file:
        file.write("+:::\n")
    try:
        rows = Runtime(REGISTRY).resources("group")
        assert {"root", "ra-test-a"} <= {row["name"] for row in rows}
        manifest = {"resources": {f"Group[{row['name']}]": row for row in rows}}
        assert Runtime(REGISTRY).apply(manifest, noop=True).summary.unchanged == len(rows)
    finally:
        subprocess.run(["sed", "-i", "/^+/d", "/etc/group"], check=True)


@given(st.lists(st.text(min_size=1)))
def test_members_are_a_set_in_canonical_form(members: list[str]) -> None:
    """Order and repetitions mean nothing, and canonical members stay as they are."""
    provider, context = (
        REGISTRY.provider("group")(),
        Context(REGISTRY.type("group"), RunContext(Log("off")), reading=True),
    )
    [once] = provider.canonicalize(context, [{"members": list(members)}])
    assert once["members"] == sorted(set(members))
    assert provider.canonicalize(context, [dict(once)]) == [once]
    assert provider.canonicalize(context, [{"name": "a"}]) == [{"name": "a"}]


def test_a_plan_names_members_that_do_not_exist() -> None:
    """One that is declared before the group is not missing."""
    group = {f"Group[{NAME}]": {"members": ["ra-test-a", "ra-test-none"]}}
    assert warned(group) == ["there is no user 'ra-test-none'"]
    assert warned({"User[ra-test-none]": {}, **group}) == []


@pytest.mark.parametrize("before", ["ra-test-b,ra-test-a,ra-test-b", "ra-test-a,,ra-test-b", "ra-test-b,ra-test-b"])
@pytest.mark.parametrize("members", [[], ["ra-test-a"], ["ra-test-b", "ra-test-a"]])
def test_members_that_are_listed_twice_are_replaced(before: str, members: list[str]) -> None:
    """As an editor leaves them: groupmod crashes on such a line."""
    subprocess.run(["groupadd", NAME], check=True)
    file = Path("/etc/group")
    file.write_text(re.sub(f"^({NAME}:.*:)$", rf"\1{before}", file.read_text(), flags=re.MULTILINE))
    apply(members=members)
    assert set(entry().rpartition(":")[2].split(",")) - {""} == set(members)


def test_users_that_leave_a_removed_group_are_in_the_plan() -> None:
    """One whose declaration has the group among its own forbids the removal."""
    apply(members=["ra-test-a", "ra-test-b"])
    group = {f"Group[{NAME}]": {"ensure": "absent"}}
    (step,) = Runtime(REGISTRY, log=Log("off")).plan({"resources": group}).to_dict()["steps"]
    assert [
        (side_effect["type"], side_effect["name"], side_effect["action"]) for side_effect in step["side_effects"]
    ] == [
        ("user", "ra-test-a", "update"),
        ("user", "ra-test-b", "update"),
    ]
    for attributes in ({"groups": [NAME]}, {"groups": [NAME], "membership": "minimum"}):
        declared = {"resources": {**group, "User[ra-test-a]": attributes}}
        report = Runtime(REGISTRY, log=Log("off")).apply(declared)
        assert "would also update User[ra-test-a], which User[ra-test-a] declares otherwise" in report.steps[0].error
    assert Runtime(REGISTRY, log=Log("off")).apply({"resources": {**group, "User[ra-test-a]": {}}}).exit_code == 0


def test_a_plan_names_the_users_whose_primary_group_is_removed() -> None:
    """The system refuses that; a plan knows it before, unless the users go first."""
    apply(gid=54321)
    subprocess.run(["useradd", "-M", "-g", NAME, "ra-test-c"], check=True)
    try:
        group = {f"Group[{NAME}]": {"ensure": "absent"}}
        [step] = Runtime(REGISTRY).plan({"resources": group}).steps
        assert [(str(effect), effect.action) for effect in step.side_effects or ()] == [("User[ra-test-c]", "detach")]
        declared = {**group, "User[ra-test-c]": {"gid": NAME}}
        reason = {str(step.reference): step.error for step in Runtime(REGISTRY).plan({"resources": declared}).steps}
        assert "would also detach User[ra-test-c], which User[ra-test-c] declares otherwise" in reason[f"Group[{NAME}]"]
        message = "it is the primary group of ra-test-c, so groupdel refuses to remove it"
        assert warned(group) == [message]
        assert warned({"User[ra-test-c]": {"ensure": "absent"}, **group}) == []
        report = Runtime(REGISTRY, log=Log("off")).apply({"resources": group})
        assert "cannot remove the primary group of user 'ra-test-c'" in str(report.steps[0].error)
    finally:
        subprocess.run(["userdel", "ra-test-c"], check=True)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(
    ("members", "user", "refused"),
    [
        (["ra-test-b"], {"groups": []}, True),
        ([], {"groups": [NAME]}, True),
        ([], {"groups": [NAME], "membership": "minimum"}, True),
        (["ra-test-b"], {"groups": [], "membership": "minimum"}, False),
        (["ra-test-b"], {"groups": [NAME]}, False),
        (["ra-test-a", "ra-test-b"], {"groups": [NAME], "comment": "changed"}, False),
        (None, {"groups": [NAME]}, False),
        (["ra-test-b"], {}, False),
    ],
)
def test_members_and_groups_that_contradict_each_other_are_refused(
    members: list[str] | None, user: dict[str, Any], order: int, *, exists: bool, refused: bool
) -> None:
    """They would change each other in every run; those that agree converge in one run, in any order."""
    group = {} if members is None else {"members": members}
    declared = dict([(f"Group[{NAME}]", group), ("User[ra-test-b]", user)][::order])
    if exists:
        subprocess.run(["groupadd", NAME], check=True)
    report = Runtime(REGISTRY, log=Log("off")).apply({"resources": declared})
    errors = [str(step.error) for step in report.steps if step.error]
    assert bool(errors) == refused, errors
    for error in errors:
        assert re.fullmatch(rf"would update (Group\[{NAME}\]|User\[ra-test-b\]), which \1 declares otherwise", error)
    if not refused:
        assert Runtime(REGISTRY).apply({"resources": declared}).summary.unchanged == len(declared)


def test_members_whose_changes_are_ignored_contradict_nothing() -> None:
    """The user joins the group, and the next run changes nothing."""
    group = {"members": [], "lifecycle": {"ignore_changes": ["members"]}}
    declared = {"resources": {f"Group[{NAME}]": group, "User[ra-test-b]": {"groups": [NAME]}}}
    assert Runtime(REGISTRY).apply(declared).exit_code == 0
    assert Runtime(REGISTRY).apply(declared).summary.unchanged == len(declared["resources"])


class TestGroup(ProviderCompliance):
    """A group with members."""

    type_name = "group"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": NAME, "members": ["ra-test-b", "ra-test-a", "ra-test-b"]}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "members": ["ra-test-a"]}

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: [Path("/etc", name).read_bytes() for name in ("group", "gshadow")]

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes the databases of groups"
