"""Groups of the real update-alternatives, whose directories are the tests' own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.system.log import Log
from resource_api.testing import ProviderCompliance
from tests.providers.applied import REGISTRY, reason, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api import Resource

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root changes /etc"),
    pytest.mark.usefixtures("private_system"),
]


@pytest.fixture(scope="module", autouse=True)
def _own(private_system: None) -> None:  # noqa: ARG001 - it comes first
    """Cover the database and the log."""
    for name in ("/var/lib/dpkg/alternatives", "/var/log"):
        subprocess.run(["mount", "-t", "tmpfs", "none", name], check=True)


@pytest.fixture
def bins(tmp_path: Path) -> Iterator[Path]:
    """Return a directory with programs and a manual page, and no group afterwards."""
    for name in ("one", "two", "two.1"):
        (tmp_path / name).touch()
    yield tmp_path
    for name in os.listdir("/var/lib/dpkg/alternatives"):  # noqa: PTH208 - texts
        subprocess.run(["update-alternatives", "--quiet", "--remove-all", name], check=True)


def group(bins: Path, **more: Any) -> Resource:
    """Return a group of two choices, of which the second has a further link."""
    page = {"link": f"{bins}/tool.1", "path": f"{bins}/two.1"}
    choices = {f"{bins}/one": {"priority": 5}, f"{bins}/two": {"priority": 9, "slaves": {"ra-test.1": page}}}
    return {"link": f"{bins}/tool", "choices": choices, **more}


def test_a_group_is_made_and_the_best_choice_is_used(bins: Path) -> None:
    """With its further links; a second run changes nothing; absent leaves no trace."""
    declared = {"Alternatives[ra-test]": group(bins)}
    assert run(declared)[0].summary.created == 1
    assert [(bins / name).resolve().name for name in ("tool", "tool.1")] == ["two", "two.1"]
    assert run(declared)[0].summary.unchanged == 1
    assert run({"Alternatives[ra-test]": {"ensure": "absent"}})[0].summary.deleted == 1
    assert sorted(path.name for path in bins.iterdir()) == ["one", "two", "two.1"]


def test_a_choice_that_does_not_exist_is_reported_by_the_plan(bins: Path) -> None:
    """update-alternatives installs none, and removes one all the same."""
    declared = group(bins, choices={f"{bins}/none": {"priority": 1}, f"{bins}/gone": "absent"})
    assert warned({"Alternatives[ra-test]": declared}) == [f"'{bins}/none' does not exist"]
    assert warned({f"File[{bins}/none]": {"content": ""}, "Alternatives[ra-test]": declared}) == []


def test_a_choice_is_set_for_good_and_left_to_the_priorities_again(bins: Path) -> None:
    """A choice that the priorities made can change by itself; other choices stay."""
    run({"Alternatives[ra-test]": group(bins)})
    assert run({"Alternatives[ra-test]": {"path": f"{bins}/two"}})[0].summary.updated == 1
    assert run({"Alternatives[ra-test]": {"path": f"{bins}/one"}})[0].summary.updated == 1
    assert (bins / "tool").resolve().name == "one"
    assert not (bins / "tool.1").exists()
    assert run({"Alternatives[ra-test]": {"path": "auto"}})[0].summary.updated == 1
    assert (bins / "tool").resolve().name == "two"


def test_a_choice_is_added_changed_and_removed(bins: Path) -> None:
    """Those that are not declared stay; a new place of the link is one for all."""
    run({"Alternatives[ra-test]": group(bins)})
    (bins / "three").touch()
    choices = {f"{bins}/three": {"priority": 99}, f"{bins}/one": {"priority": 6, "slaves": {}}, f"{bins}/two": "absent"}
    declared = {"Alternatives[ra-test]": {"choices": choices, "link": f"{bins}/moved"}}
    assert run(declared)[0].exit_code == 0
    process = subprocess.run(["update-alternatives", "--query", "ra-test"], check=True, capture_output=True, text=True)
    assert [line for line in process.stdout.splitlines() if line[:4] in {"Link", "Alte", "Prio"}] == [
        *(f"Link: {bins}/moved", f"Alternative: {bins}/one", "Priority: 6"),
        *(f"Alternative: {bins}/three", "Priority: 99"),
    ]
    assert run(declared)[0].summary.unchanged == 1


def pages(bins: Path) -> dict[str, str]:
    """Return the further links of the group that are there: name → the file that it leads to."""
    return {path.name: path.resolve().name for path in bins.iterdir() if path.is_symlink() and path.suffix}


def test_further_links_stay_unless_others_are_declared(bins: Path) -> None:
    """A new priority, a choice and a new place of the link keep them; one that is not among those declared goes."""
    (bins / "two.5").touch()
    declared = group(bins)
    slaves = declared["choices"][f"{bins}/two"]["slaves"]
    slaves["ra-test.5"] = {"link": f"{bins}/tool.5", "path": f"{bins}/two.5"}
    run({"Alternatives[ra-test]": declared})
    both = {"tool.1": "two.1", "tool.5": "two.5"}
    for change in ({"choices": {f"{bins}/two": {"priority": 50}}}, {"path": f"{bins}/two"}, {"link": f"{bins}/moved"}):
        assert run({"Alternatives[ra-test]": change})[0].summary.updated == 1
        assert run({"Alternatives[ra-test]": change})[0].summary.unchanged == 1
        assert pages(bins) == both
    moved = {"ra-test.1": {**slaves["ra-test.1"], "link": f"{bins}/page.1"}}
    for slaves, remaining in ((moved, {"page.1": "two.1"}), ({}, {})):
        change = {"choices": {f"{bins}/two": {"priority": 50, "slaves": slaves}}}
        assert run({"Alternatives[ra-test]": change})[0].summary.updated == 1
        assert run({"Alternatives[ra-test]": change})[0].summary.unchanged == 1
        assert pages(bins) == remaining


def test_a_listing_has_further_links_and_plans_nothing(bins: Path) -> None:
    """In each choice, whatever is used now, also where a page is missing or a choice has none."""
    (bins / "two.1").unlink()
    run({"Alternatives[ra-test]": group(bins, path=f"{bins}/one")})
    rows = Runtime(REGISTRY, log=Log("off")).resources("alternatives")
    (row,) = [row for row in rows if row["name"] == "ra-test"]
    assert row["choices"] == group(bins)["choices"]
    read_only = ("used", "broken", "title")
    listed = {key: value for key, value in row.items() if key not in read_only}
    assert run({"Alternatives[ra-test]": listed})[0].summary.unchanged == 1


def test_a_further_link_has_one_place(bins: Path) -> None:
    """The program would move it to and fro."""
    declared = group(bins)
    declared["choices"][f"{bins}/one"]["slaves"] = {"ra-test.1": {"link": f"{bins}/b.1", "path": f"{bins}/two.1"}}
    with pytest.raises(ManifestError, match="is the same for all choices, not"):
        run({"Alternatives[ra-test]": declared})


@pytest.mark.parametrize("path", [None, "one"])
@pytest.mark.parametrize("link", ["tool", "/etc/alternatives/ra-test"])
def test_a_link_that_somebody_has_changed_is_restored(bins: Path, link: str, path: str | None) -> None:
    """A choice that was made by hand stays."""
    declared = {"Alternatives[ra-test]": group(bins, **({"path": f"{bins}/{path}"} if path else {}))}
    run(declared)
    (bins / link).unlink()
    run(declared)
    assert (bins / "tool").resolve().name == (path or "two")
    assert run(declared)[0].summary.unchanged == 1


@pytest.mark.parametrize(
    ("declared", "error"),
    [
        ({"path": "/bin/true"}, "there is no such group: declare its link and its choices"),
        ({"link": "/srv/ra-test", "choices": {"/no/such": {"priority": 1}}}, "alternative path /no/such doesn't exist"),
    ],
)
def test_what_cannot_be_done_is_explained(declared: dict[str, Any], error: str) -> None:
    """In the words of the program where it knows better."""
    assert error in reason(run({"Alternatives[ra-none]": declared})[0])
    assert warned({"Alternatives[ra-none]": declared})


def test_a_path_that_is_no_choice_is_reported_by_the_plan(bins: Path) -> None:
    """The program refuses to set it."""
    message = [f"'{bins}/two.1' is no choice of the group; declare it in 'choices'"]
    assert warned({"Alternatives[ra-test]": group(bins, path=f"{bins}/two.1")}) == message
    run({"Alternatives[ra-test]": group(bins)})
    assert warned({"Alternatives[ra-test]": {"path": f"{bins}/two.1"}}) == message
    assert warned({"Alternatives[ra-test]": {"path": f"{bins}/one"}}) == []


def test_a_damaged_record_is_not_taken_for_a_missing_group(bins: Path) -> None:
    """The program has one exit code for both."""
    run({"Alternatives[ra-test]": group(bins), "Alternatives[ra-other]": group(bins, link=f"{bins}/other")})
    record = Path("/var/lib/dpkg/alternatives/ra-test")
    whole = record.read_text()
    record.write_text("auto\n")
    report, _ = run({f"Alternatives[{name}]": {"ensure": "absent"} for name in ("ra-test", "ra-other")})
    assert [bool(step.error) for step in report.steps] == [True, False]
    record.write_text(whole)


@pytest.mark.parametrize("path", ["tool", "tool.1", "new/tool"])
def test_a_link_in_a_directory_of_another_user_is_refused(bins: Path, path: str) -> None:
    """The program would follow a directory that its owner replaces, and write and remove links elsewhere."""
    home = bins / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    declared = group(bins)
    if path == "tool.1":
        declared["choices"][f"{bins}/two"]["slaves"]["ra-test.1"]["link"] = f"{home}/{path}"
    else:
        declared["link"] = f"{home}/{path}"
    assert f"on the path of the link '{home}/{path}'" in reason(run({"Alternatives[ra-test]": declared})[0])
    assert list(home.iterdir()) == []
    os.chown(home, 0, 0)
    if path != "new/tool":
        run({"Alternatives[ra-test]": declared})
        os.chown(home, 65534, 65534)
        assert "other users can write" in reason(run({"Alternatives[ra-test]": {"ensure": "absent"}})[0])
        assert (home / path).is_symlink()


@pytest.mark.parametrize(
    "bad",
    [
        *({"name": "--all"}, {"name": "a/b"}, {"name": "a b"}, {"path": "x"}, {"path": "/a\n"}),
        *({"choices": {"/a": {}}}, {"choices": {"a": "absent"}}, {"link": "--force"}),
    ],
)
def test_hostile_values_are_refused(bad: dict[str, Any]) -> None:
    """No value is an option of the program."""
    with pytest.raises(ManifestError):
        run({"Alternatives[x]": bad})


class TestAlternatives(ProviderCompliance):
    """A group with a further link."""

    type_name = "alternatives"

    @pytest.fixture
    def present(self, bins: Path) -> Resource:
        return {"name": "ra-test-a", **group(bins)}

    @pytest.fixture
    def updated(self, present: Resource, bins: Path) -> Resource:
        return {**present, "path": f"{bins}/one", "choices": {f"{bins}/two": {"priority": 1}}}

    @pytest.fixture
    def others(self, bins: Path) -> list[Resource]:
        choices = {f"{bins}/one": {"priority": 5}}
        return [{"name": f"ra-test-{n}", "link": f"{bins}/tool-{n}", "choices": choices} for n in ("b", "c")]

    @pytest.fixture
    def world(self, bins: Path) -> Callable[[], Any]:
        return lambda: sorted((path.name, path.is_symlink() and path.readlink()) for path in bins.iterdir())

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes the database of alternatives"
