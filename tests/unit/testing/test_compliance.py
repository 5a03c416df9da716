"""The laws of providers: each one refuses the fault that it is there for, and what a law makes is taken away again."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pytest

import resource_api
from resource_api import Registry, ResourceError
from resource_api.plugins import loader
from resource_api.testing import ProviderCompliance
from resource_api.testing.examples import Examples, similar_resources
from resource_api.testing.harness import Harness

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Context, Resource

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
MEMORY = ROOT / "tests" / "providers" / "memory"
GUIDE = ROOT / "docs" / "testing-a-provider.md"
TYPES = {name: Registry.from_path(MEMORY).type(name) for name in ("memory", "memory_run")}
LAWS = sorted(name for name in dir(ProviderCompliance) if name.startswith("test_"))

Memory: Any = loader.execute(f"{MEMORY}/providers/memory.py", "ra_test_memory").Provider
MemoryRun: Any = loader.execute(f"{MEMORY}/providers/memory_run.py", "ra_test_memory_run").Provider

PRESENT = {"name": "ra-test-a", "owner": "me", "size": 3, "labels": ["b", "a"], "password": "sesame-1", "pin": "4711-a"}
EXAMPLES = Examples(PRESENT, {**PRESENT, "size": 4}, similar_resources(TYPES["memory"], PRESENT))
RUN = Examples({"name": "ra-test-a", "creates": "mark"})


class Writes(Memory):
    """``get`` notes when it was asked."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        for row in self.shelf.values():
            row["size"] = row.get("size", 0) + 1
        return list(super().get(context, names))


class Undeclared(Memory):
    """``get`` tells more than was declared."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "colour": "red"} for row in super().get(context, names)]


class Mistyped(Memory):
    """``get`` gives text where a number was declared."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "size": str(row["size"])} for row in super().get(context, names)]


class Twice(Memory):
    """``get`` gives every resource twice."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return super().get(context, names) * 2


class Nameless(Memory):
    """``get`` leaves the name empty."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "name": None} for row in super().get(context, names)]


class Reading(Memory):
    """``get`` gives what nobody can read."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "pin": self.shelf[row["name"]]["pin"]} for row in super().get(context, names)]


class Uncanonical(Memory):
    """``get`` gives labels as they were written."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "labels": [*reversed(row["labels"])]} for row in super().get(context, names)]


class Forgetful(Memory):
    """``get`` gives the first of the names asked for."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return super().get(context, names)[: None if names is None else 1]


class Unlisted(Memory):
    """``get`` lists nothing."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return super().get(context, names or [])


class Growing(Memory):
    """``canonicalize`` has no last form."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        return [{**row, "owner": f" {row['owner']}"} if "owner" in row else row for row in resources]


class Adding(Memory):
    """``canonicalize`` fills in what was not declared."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        return [{"size": 1, **row} for row in resources]


class Expecting(Memory):
    """``canonicalize`` expects all attributes."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        return [{**row, "labels": sorted(row["labels"])} for row in resources]


class Idle(Memory):
    """``set`` does nothing."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        """Do nothing."""


class Pretending(Memory):
    """``get`` tells for one transaction what ``set`` was asked for."""

    def __init__(self) -> None:
        """Take what exists as one's own."""
        self.shelf = {name: dict(row) for name, row in type(self).shelf.items()}


class Demanding(Memory):
    """``set`` expects all attributes."""

    def _row(self, name: str, change: Change) -> Resource:
        return {**super()._row(name, change), "size": change.should["size"]}


class Zealous(Memory):
    """An update sets what it was not asked for."""

    def _row(self, name: str, change: Change) -> Resource:
        row = super()._row(name, change)
        return row if change.is_ is None else {**row, "origin": "elsewhere"}


class Stubborn(Memory):
    """An update changes nothing."""

    def _row(self, name: str, change: Change) -> Resource:
        return self.shelf.get(name) or super()._row(name, change)


class Spreading(Memory):
    """A change of one is a change of all."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        super().set(context, changes, noop=noop)
        for row in self.shelf.values():
            row["size"] = next(iter(changes.values())).should.get("size")


class Deaf(Memory):
    """``set`` acts under noop too."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        super().set(context, changes, noop=bool(noop and not changes))


class Keeping(Memory):
    """A deletion leaves what it should delete."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        kept = {name: change for name, change in changes.items() if change.should["ensure"] == "present"}
        super().set(context, kept, noop=noop)


class Curious(Memory):
    """A deletion wants to know the size."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        if any(change.should["ensure"] == "absent" and change.should["size"] < 0 for change in changes.values()):
            return
        super().set(context, changes, noop=noop)


class Impatient(Memory):
    """``set`` looks at the first change before it knows of any."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        context.debug(next(iter(changes)), message="the first")
        super().set(context, changes, noop=noop)


class Single(Memory):
    """``set`` serves one change."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        super().set(context, dict(list(changes.items())[:1]), noop=noop)


class Swallowing(Memory):
    """``set`` stops at the first failure and does not say so."""

    def set(self, context: Context, changes: Mapping[str, Change], **_noop: bool) -> None:
        try:
            for name, change in changes.items():
                self.shelf[name] = self._row(name, change)
        except ResourceError as error:
            context.warning(str(error))


class Blaming(Memory):
    """``set`` reports one failure for all."""

    def set(self, context: Context, changes: Mapping[str, Change], **_noop: bool) -> None:
        try:
            rows = {name: self._row(name, change) for name, change in changes.items()}
        except ResourceError as error:
            context.failed(list(changes), message=str(error))
        else:
            self.shelf.update(rows)


class Chatty(Memory):
    """``set`` logs the password."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        for change in changes.values():
            if "password" in change.should:
                context.debug(f"the password is {change.should['password'].reveal()}")
        super().set(context, changes, noop=noop)


class Printing(Memory):
    """``set`` prints the password."""

    def _row(self, name: str, change: Change) -> Resource:
        print(change.should["password"].reveal())  # noqa: T201 - the fault
        return super()._row(name, change)


class Revealing(Memory):
    """``get`` gives the password as the origin."""

    def _row(self, name: str, change: Change) -> Resource:
        return {**super()._row(name, change), "origin": change.should["password"].reveal()}


class Fickle(MemoryRun):
    """``due`` changes its mind."""

    calls: ClassVar[list[str]] = []

    def due(self, _context: Context, name: str, _should: Mapping[str, Any]) -> bool:
        self.calls.append(name)
        return len(self.calls) % 2 == 0


class Restless(MemoryRun):
    """``due`` is always true."""

    def due(self, _context: Context, _name: str, _should: Mapping[str, Any]) -> bool:
        return True


class Hasty(MemoryRun):
    """``due`` runs it."""

    def due(self, _context: Context, name: str, _should: Mapping[str, Any]) -> bool:
        self.marks.append(name)
        return True


class Fault(NamedTuple):
    """A broken provider, the law that it breaks, and what the law says."""

    law: str
    provider: type[Any]
    says: str


FAULTS = [
    Fault("test_get_is_repeatable", Writes, "get returns something else when it is called again"),
    Fault("test_get_honours_the_declaration", Undeclared, r"the next plan would fail: .* undeclared \['colour'\]"),
    Fault("test_get_honours_the_declaration", Mistyped, "the next plan would fail: .* .*size"),
    Fault("test_get_honours_the_declaration", Twice, "the next plan would fail: .* more than once"),
    Fault("test_get_honours_the_declaration", Nameless, "it could not be identified"),
    Fault("test_get_honours_the_declaration", Reading, r"get returns \['pin'\] of ra-test-a, declared write_only"),
    Fault("test_get_is_canonical", Uncanonical, r"the next plan would not be empty: get returns \['labels'\]"),
    Fault("test_get_returns_at_least_the_named", Forgetful, "would be created again"),
    Fault("test_get_lists_what_it_finds_by_name", Unlisted, r"get\(None\) leaves it out"),
    Fault("test_canonicalize_is_idempotent", Growing, r"a second canonicalize changes \['owner'\]"),
    Fault("test_canonicalize_is_idempotent", Adding, r"adds or drops \['size'\]"),
    Fault("test_canonicalize_is_idempotent", Expecting, "labels"),
    Fault("test_create_makes_what_is_asked_for", Idle, "did not converge: ensure is absent"),
    Fault("test_create_makes_what_is_asked_for", Pretending, "the next plan would not be empty"),
    Fault("test_create_from_the_minimum_works_or_says_why", Demanding, r"a user would read KeyError\('size'\)"),
    Fault("test_update_changes_only_what_differs", Stubborn, "did not converge: size is 3, should be 4"),
    Fault("test_update_changes_only_what_differs", Zealous, r"updating \['size'\] has changed \['origin'\] too"),
    Fault("test_a_change_leaves_other_resources_alone", Spreading, "has changed other resources"),
    Fault("test_noop_changes_nothing", Deaf, "noop changes the system"),
    Fault("test_delete_leaves_nothing", Keeping, "did not converge: ensure is present"),
    Fault("test_delete_needs_no_more_than_the_name", Curious, "KeyError: 'size'"),
    Fault("test_no_change_is_no_change", Impatient, "set fails when there is nothing to do"),
    Fault("test_one_call_serves_one_and_many", Single, "did not converge"),
    Fault("test_one_failure_does_not_lose_the_others", Swallowing, "ra-test-a alone was refused"),
    Fault("test_one_failure_does_not_lose_the_others", Blaming, "ra-test-a alone was refused"),
    Fault("test_no_secret_is_revealed", Chatty, "the secret is readable here: .*Debug: memory: the password is"),
    Fault("test_no_secret_is_revealed", Printing, "the secret is readable here"),
    Fault("test_no_secret_is_revealed", Revealing, "the secret is readable here: .*'origin'"),
    Fault("test_due_is_repeatable", Fickle, "due returns something else when called again"),
    Fault("test_what_has_run_is_due_no_longer", Restless, "it would run in every apply"),
    Fault("test_noop_runs_nothing", Hasty, "noop changes the system"),
]
#: The laws about the examples, which no provider can break.
OF_EXAMPLES = {"test_the_declaration_accepts_the_examples", "test_the_examples_are_absent_at_first"}


def harness(provider: type[Any] = Memory, examples: Examples = EXAMPLES) -> Harness:
    """Give a harness for a provider with a memory of its own."""
    name = "memory_run" if issubclass(provider, MemoryRun) else "memory"
    marks: list[str] = []
    own = type("Provider", (provider,), {"shelf": {}, "marks": marks, "calls": []})
    registry = Registry()
    registry.register_type(TYPES[name])
    registry.register_provider(name, own)
    return Harness(registry, name, RUN._replace(world=lambda: list(marks)) if name == "memory_run" else examples)


def judge(law: str, harness: Harness, request: pytest.FixtureRequest) -> None:
    """Try one law."""
    extra = {"capfd": request.getfixturevalue("capfd")} if law == "test_no_secret_is_revealed" else {}
    getattr(ProviderCompliance(), law)(harness, **extra)


def verdict(law: str, harness: Harness, request: pytest.FixtureRequest) -> str:
    """Give what a law says that must not hold, notes included."""
    with pytest.raises((AssertionError, KeyError, pytest.fail.Exception)) as caught:
        judge(law, harness, request)
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.provider.__name__}-{fault.law}")
def test_every_fault_is_refused_by_its_law(fault: Fault, request: pytest.FixtureRequest) -> None:
    """A law fails for the fault that it is there for, and says what would come of it."""
    said = verdict(fault.law, harness(fault.provider), request)
    assert re.search(fault.says, said, re.DOTALL), said


@pytest.mark.parametrize("law", LAWS)
def test_every_law_holds_without_a_fault(law: str, request: pytest.FixtureRequest) -> None:
    """What the faults are made from breaks no law, so that it is the fault which is refused."""
    try:
        judge(law, harness(), request)
    except pytest.skip.Exception:
        judge(law, harness(MemoryRun), request)


def test_every_law_is_tried() -> None:
    """A law without a fault that it catches is none."""
    assert {fault.law for fault in FAULTS} | OF_EXAMPLES == set(LAWS)


@pytest.mark.parametrize(
    ("examples", "says"),
    [
        (EXAMPLES._replace(present={**PRESENT, "size": 200}), "a user could not write this: .*size expects"),
        (EXAMPLES._replace(present={"name": "ra-test-a"}), "'owner' is missing.*'pin' is missing"),
        (EXAMPLES._replace(updated={**PRESENT, "name": "ra-test-b"}), "'updated' must be the same resource"),
        (EXAMPLES._replace(others=[{**PRESENT, "name": "RA-test-A"}]), "a user could not write this"),
    ],
)
def test_wrong_examples_are_refused(examples: Examples, says: str, request: pytest.FixtureRequest) -> None:
    """An example that no user could write says so, before anything is tried with it."""
    said = verdict("test_the_declaration_accepts_the_examples", harness(examples=examples), request)
    assert re.search(says, said, re.DOTALL), said


@pytest.mark.parametrize("law", ["test_the_examples_are_absent_at_first", "test_delete_leaves_nothing"])
def test_what_exists_already_is_left_alone(law: str, request: pytest.FixtureRequest) -> None:
    """No law touches, and no clean-up deletes, what was there before."""
    tried = harness()
    shelf = tried.registry.provider("memory").shelf
    shelf["ra-test-a"] = {"ensure": "present", "name": "ra-test-a", "owner": "somebody"}
    assert "ra-test-a exists already" in verdict(law, tried, request)
    tried.restore()
    assert shelf["ra-test-a"]["owner"] == "somebody"


@pytest.mark.parametrize("fault", [Stubborn, Spreading, Demanding, Deaf])
def test_what_a_failed_law_has_made_is_taken_away(fault: type[Any], request: pytest.FixtureRequest) -> None:
    """Whatever law fails, nothing of the examples is left."""
    for law in {fault.law for fault in FAULTS if not issubclass(fault.provider, MemoryRun)}:
        tried = harness(fault)
        with suppress(AssertionError, KeyError):
            judge(law, tried, request)
        tried.restore()
        assert tried.registry.provider("memory").shelf == {}


def test_what_cannot_be_taken_away_is_told() -> None:
    """A clean-up that fails is an error of the test, not silence."""
    tried = harness(Keeping)
    tried.apply(PRESENT)
    with pytest.raises(pytest.fail.Exception, match=r"left behind: .*did not converge"):
        tried.restore()


def test_others_are_named_by_what_the_data_type_allows() -> None:
    """Names near to the example's are of its data type, and there are none where no name is near."""
    key = Registry.from_path().type("apt_key")
    assert [each["name"] for each in similar_resources(TYPES["memory"], {"name": "a", "size": 1})] == ["a-2", "a-3"]
    assert [each["id"] for each in similar_resources(key, {"id": "0123456789"})] == ["01234567892", "01234567893"]
    assert similar_resources(key, {"id": "a" * 40}) == []


@pytest.fixture(autouse=True)
def _package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the authors' runs use the package that is under test."""
    monkeypatch.setenv("PYTHONPATH", str(Path(resource_api.__file__).parent.parent))


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run an author's tests as the author does."""
    return pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", *arguments)


def guide(pytester: pytest.Pytester) -> Path:
    """Write the files of the guide's example as it says."""
    text = GUIDE.read_text(encoding="utf-8")
    for path, code in re.findall(r"^`([\w/.]+)`:\n\n```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        file = pytester.path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(code)
    return pytester.path


@pytest.mark.process
def test_the_guide_leads_to_a_provider_that_keeps_every_law(pytester: pytest.Pytester) -> None:
    """Nothing fails with the guide's example, as many laws hold as it says, nothing is left behind."""
    guide(pytester)
    done = run(pytester, "--basetemp=left")
    done.assert_outcomes(passed=18, skipped=4)
    assert "test of its own, 18 for this type" in GUIDE.read_text(encoding="utf-8")
    assert list(pytester.path.glob("left/**/ra-test*")) == []


@pytest.mark.process
def test_the_guide_shows_what_the_laws_find(pytester: pytest.Pytester) -> None:
    """Without the line that the guide takes out, the laws fail that it names."""
    provider = guide(pytester) / "providers" / "greeting.py"
    code, line = provider.read_text(), '            if "text" in resource:\n    '
    assert line in code
    provider.write_text(code.replace(line, ""))
    done = run(pytester)
    done.assert_outcomes(failed=2, passed=16, skipped=4)
    done.stdout.fnmatch_lines(
        ["*canonicalize failed: KeyError: 'text'*", "*FAILED *_no_more_than_the_name*", "*FAILED *_is_idempotent*"]
    )


@pytest.mark.process
def test_a_law_that_fails_in_pytest_leaves_nothing_behind(pytester: pytest.Pytester) -> None:
    """The clean-up is pytest's last step of a test, also of one that the author wrote and that fails."""
    place = guide(pytester)
    with (place / "test_greeting.py").open("a", encoding="utf-8") as file:
        file.write("\n    def test_of_mine(self, harness, present):\n")
        file.write("        harness.apply(present)\n        assert 0, present\n")
    done = run(pytester, "-k", "mine", "--basetemp=left")
    done.assert_outcomes(failed=1)
    assert list(pytester.path.glob("left/**/ra-test*")) == []


@pytest.mark.process
def test_a_class_without_an_example_says_so(pytester: pytest.Pytester) -> None:
    """A class without an example says what is missing, for every law there is."""
    header = "from resource_api.testing import ProviderCompliance\n\n\n"
    pytester.makepyfile(f"{header}class TestMine(ProviderCompliance):\n    type_name = 'host'\n")
    done = run(pytester)
    done.assert_outcomes(errors=len(LAWS))
    done.stdout.fnmatch_lines(["*TestMine must define the fixture 'present'*"])
