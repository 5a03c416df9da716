"""The library without the command line: registry, runtime, plan and report as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import (
    Attribute,
    BaseProvider,
    Change,
    Context,
    DefinitionError,
    ManifestError,
    ProviderError,
    Registry,
    ResourceAPIError,
    Runtime,
    Sensitive,
    SimpleProvider,
    TypeDefinition,
    UsageError,
)
from resource_api.render import json as documents

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COIN = TypeDefinition(
    name="coin",
    docs="A coin.",
    attributes={
        "name": Attribute("String", "Which one.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "worth": Attribute("Optional[Integer]", "How much."),
        "code": Attribute("Optional[Sensitive[String]]", "What opens it."),
        "minted": Attribute("Optional[String]", "When.", kind="read_only"),
    },
)


class Mint(SimpleProvider):
    """Keeps coins in a dictionary that tests can inspect."""

    coins: dict[str, dict[str, Any]]

    def get(self, context: Context, names: Any = None) -> list[dict[str, Any]]:  # noqa: ARG002 - not filtered
        """Return every coin."""
        return list(self.coins.values())

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Create a coin."""
        self.coins[name] = {**should, "minted": "today"}

    def update(self, context: Context, name: str, should: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Update a coin."""
        self.coins[name] |= should

    def delete(self, context: Context, name: str) -> None:  # noqa: ARG002
        """Delete a coin."""
        del self.coins[name]


@pytest.fixture
def coins() -> dict[str, dict[str, Any]]:
    """Return the existing coins."""
    return {}


@pytest.fixture
def runtime(coins: dict[str, dict[str, Any]]) -> Runtime:
    """Return a runtime with the type of coins only."""
    registry = Registry()
    registry.register_type(COIN)
    registry.register_provider("coin", type("Mint", (Mint,), {"coins": coins}))
    return Runtime(registry, state="memory:")


INPUT = {"inputs": {"worth": {"type": "Integer"}}}


def manifest(**coins: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest of coins."""
    return {"resources": {f"Coin[{name}]": attributes for name, attributes in coins.items()}}


def test_a_mapping_is_planned_and_applied(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """Steps and reports have typed values, and a second apply changes nothing."""
    expected = manifest(a={"worth": 5})
    plan = runtime.plan(expected)
    (step,) = plan.steps
    assert (str(step.reference), step.action.value, plan.summary.created) == ("Coin[a]", "create", 1)
    assert coins == {}
    report = runtime.apply(expected)
    assert (report.exit_code, report.summary.created, report.summary.failed) == (0, 1, 0)
    assert [(item.reference, item.status) for item in report.steps] == [("Coin[a]", "success")]
    assert coins["a"]["worth"] == 5
    assert runtime.apply(expected).summary.unchanged == 1


@pytest.mark.parametrize("loaded", [False, True])
def test_a_name_of_the_module_path_cannot_be_registered_again(*, loaded: bool) -> None:
    """Whether the file was loaded before or not."""
    registry = Registry.from_path()
    if loaded:
        registry.provider("file")
    attributes = {"path": Attribute("String", "p", kind="namevar")}
    with pytest.raises(DefinitionError, match="type 'file' is registered already"):
        registry.register_type(TypeDefinition(name="file", docs="Files.", attributes=attributes))
    with pytest.raises(DefinitionError, match=r"a provider of .file. is registered already, by .*providers/file\.py"):
        registry.register_provider("file", Mint)
    assert "content" in registry.type("file").attributes


def test_a_step_has_the_fields_of_its_document(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """The changes, reasons and error of a step are typed values."""
    (step,) = runtime.plan(manifest(a={"worth": 5})).steps
    assert [(change.attribute, change.should) for change in step.changes] == [("ensure", "present"), ("worth", 5)]
    assert (tuple(step.reasons), tuple(step.replaces_because), step.error) == ((), (), "")
    assert coins == {}


def test_a_step_has_its_urn_and_its_relationships(runtime: Runtime) -> None:
    """Every field of the JSON document of a step is an attribute of the step."""
    expected = manifest(a={"worth": 5, "tag": "old"}, b={"require": "Coin[a]", "subscribe": "Coin[a]"})
    first, then = runtime.plan(expected).steps
    assert first.urn.endswith("::coin::a")
    assert list(map(str, first.notifies)) == ["Coin[b]"]
    assert list(map(str, then.depends_on)) == ["Coin[a]"]
    assert (first.options["tags"], list(first.sensitive), dict(then.expressions)) == (["old"], [], {})
    for name in documents.step(first):
        assert hasattr(first, {"is": "is_"}.get(name, name)) or name == "parent", name


def test_noop_changes_nothing(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """The report of a noop run has the counts of what would change."""
    report = runtime.apply(manifest(a={}), noop=True)
    assert (report.summary.created, report.summary.noop, report.exit_code) == (1, True, 0)
    assert coins == {}


def test_a_plan_can_be_applied(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """A plan from ``Runtime.plan`` can be given to ``apply``."""
    plan = runtime.plan(manifest(a={"worth": 1}))
    assert runtime.apply(plan).summary.created == 1
    assert "a" in coins


def test_a_failed_resource_is_no_exception(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """A failed resource is in the report with its error, and ``apply`` returns."""
    coins["a"] = {"worth": 1}
    report = runtime.apply(manifest(a={}))
    assert report.exit_code == 1
    assert report.summary.failed == 1
    assert report.steps[0].error


def test_resources_are_read(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """``resources`` reads all or the named ones, with secrets wrapped and a missing one as absent."""
    coins["a"] = {"name": "a", "ensure": "present", "code": "1234"}
    assert runtime.resources("coin") == [{"name": "a", "ensure": "present", "code": Sensitive("1234")}]
    assert runtime.resources("coin", names=["b"]) == [{"name": "b", "ensure": "absent"}]


def test_an_unreadable_resource_is_named_by_the_exception(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """The ``ProviderError`` has one line per unreadable resource, and others can be read by name."""
    for name in ("a", "b", "c"):
        coins[name] = {"name": name, "ensure": "present", "worth": 1 if name == "b" else "much"}
    with pytest.raises(ProviderError) as caught:
        runtime.resources("coin")
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["Coin[a]", "Coin[c]"]
    assert runtime.resources("coin", names=["b"])[0]["worth"] == 1


def test_the_exception_of_a_provider_is_the_cause() -> None:
    """A program that reads resources gets the exception that ``get`` raised, with its traceback."""

    class Closed(Mint):
        """Cannot be read."""

        def get(self, context: Context, names: Any = None) -> list[dict[str, Any]]:  # noqa: ARG002 - it only fails
            """Fail."""
            raise OSError("the mint is closed")

    registry = Registry()
    registry.register_type(COIN)
    registry.register_provider("coin", Closed)
    with pytest.raises(ProviderError, match=r"^coin: the mint is closed$") as caught:
        Runtime(registry).resources("coin")
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.__traceback__ is not None


def test_rows_are_copies_for_the_caller(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """A change of a returned row does not change the resource."""
    coins["a"] = {"name": "a", "ensure": "present"}
    runtime.resources("coin")[0]["name"] = "z"
    assert coins["a"]["name"] == "a"


def test_a_wrong_manifest_is_an_exception_with_its_problems(runtime: Runtime, tmp_path: Path) -> None:
    """The ``ManifestError`` has problems with file, line and column."""
    path = tmp_path / "site.yaml"
    path.write_text("resources:\n  Coin[a]:\n    wroth: 1\n", encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        runtime.plan(path)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.column) == (str(path), 3, 5)
    assert "wroth" in problem.message
    assert isinstance(caught.value, ResourceAPIError)


def test_a_second_type_or_provider_of_one_name_is_refused(runtime: Runtime) -> None:
    """A second registration under one name raises ``DefinitionError``."""
    with pytest.raises(DefinitionError, match="coin"):
        runtime.registry.register_type(COIN)
    with pytest.raises(DefinitionError, match="coin"):
        runtime.registry.register_provider("coin", Mint)


def test_a_provider_is_checked_when_it_is_registered() -> None:
    """A method without its feature, an instance, and an unknown type raise ``DefinitionError``."""
    registry = Registry()
    registry.register_type(COIN)

    class Talker(BaseProvider):
        def refresh(self) -> None:
            """Implement a method whose feature the type does not declare."""

    with pytest.raises(DefinitionError, match="refresh"):
        registry.register_provider("coin", Talker)
    with pytest.raises(DefinitionError):
        registry.register_provider("coin", Mint())  # type: ignore[arg-type] # the mistake that is tried
    with pytest.raises(DefinitionError, match="Nosuch"):
        registry.register_provider("nosuch", Mint)


def test_an_empty_registry_has_no_types() -> None:
    """``Registry()`` has no types, and ``Registry.from_path()`` has the bundled ones."""
    assert list(Registry().names()) == []
    assert "file" in Registry.from_path().names()


def test_a_module_path_without_its_directory_is_refused(tmp_path: Path) -> None:
    """Otherwise each of its types would be unknown later."""
    with pytest.raises(UsageError, match=f"module path: there is no directory {tmp_path}/nosuch"):
        Registry.from_path(tmp_path / "nosuch")


def test_a_mapping_is_not_changed(runtime: Runtime) -> None:
    """``apply`` does not change the mapping that it is given."""
    expected = manifest(a={"worth": 5})
    runtime.apply(expected)
    assert expected == manifest(a={"worth": 5})


def test_a_change_is_a_pair(coins: dict[str, dict[str, Any]]) -> None:
    """A change has ``is_`` and ``should`` as attributes and as the elements of a pair."""
    observed: list[Change] = []

    class Watcher(Mint):
        def set(self, context: Context, changes: Mapping[Any, Change]) -> None:
            observed.extend(changes.values())
            assert len(changes) == 1
            super().set(context, changes)

    registry = Registry()
    registry.register_type(COIN)
    registry.register_provider("coin", type("Own", (Watcher,), {"coins": coins}))
    assert Runtime(registry, state="memory:").apply(manifest(a={})).exit_code == 0
    (is_, should), change = observed[0], observed[0]
    assert is_ is None
    assert change.is_ is is_
    assert change.should is should


def test_the_warnings_of_a_registered_type_reach_the_log_of_a_runtime(caplog: pytest.LogCaptureFixture) -> None:
    """Once, whether the type is registered before the runtime is made or afterwards."""
    registry = Registry()
    attributes = {"name": Attribute("String", kind="namevar")}
    registry.register_type(TypeDefinition(name="before", attributes=attributes, features={"paralel"}))
    for _ in range(2):
        Runtime(registry)
    registry.register_type(TypeDefinition(name="after", attributes=attributes, features={"paralel"}))
    text = "type '{}': unknown feature 'paralel' is ignored; did you mean 'parallel'?"
    assert [record.getMessage() for record in caplog.records] == [text.format("before"), text.format("after")]


def test_a_plan_is_saved_and_applied_as_it_was_shown(
    runtime: Runtime, coins: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """``plan`` saves it as ``out``; ``apply`` takes its path, whatever it is called, once."""
    file = tmp_path / "later"
    planned = runtime.plan(manifest(a={"worth": "${inputs.worth}"}) | INPUT, {"worth": 5}, out=file, use_cache=True)
    assert (planned.summary.created, coins) == (1, {})
    assert runtime.apply(file, noop=True).summary.created == 1
    assert coins == {}
    observed: list[str] = []
    report = runtime.apply(str(file), parallel=2, on_plan=lambda plan: observed.append(repr(plan)))
    assert (report.summary.created, coins["a"]["worth"], observed) == (1, 5, ["<Plan: 1 to create; 0 unchanged>"])
    with pytest.raises(ManifestError, match="the plan is stale"):
        runtime.apply(file)


def test_a_saved_noop_plan_is_carried_out(runtime: Runtime, coins: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """Whether anything is changed is said when it is applied."""
    runtime.plan(manifest(a={}), out=tmp_path / "later.json", noop=True)
    assert runtime.apply(tmp_path / "later.json").summary.noop is False
    assert "a" in coins


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": {"worth": 7}}, "inputs cannot be given with a saved plan, which does what it shows; plan again"),
        ({"targets": ["Coin[a]"]}, "targets cannot be given with a saved plan, which does what it shows; plan again"),
        ({"strict": "off"}, "strict cannot be given with a saved plan, which does what it shows; plan again"),
        ({"parallel": 0}, "parallel must be a whole number from 1, not 0"),
    ],
)
def test_a_saved_plan_is_not_applied_in_another_way(
    runtime: Runtime, coins: dict[str, dict[str, Any]], tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    """What decides what a plan contains is in the plan."""
    runtime.plan(manifest(a={}), out=tmp_path / "later.json")
    with pytest.raises(UsageError) as caught:
        runtime.apply(tmp_path / "later.json", **options)
    assert (str(caught.value), coins) == (message, {})


@pytest.mark.parametrize("mapping", [{"project": "other"}, {"stack": "other"}])
def test_a_saved_plan_of_another_project_or_stack_is_refused(
    runtime: Runtime, coins: dict[str, dict[str, Any]], tmp_path: Path, mapping: dict[str, Any]
) -> None:
    """It names both."""
    file = tmp_path / "later.json"
    runtime.plan(manifest(a={}) | {"project": "mint"}, out=file)
    (kind, name), planned = next(iter(mapping.items())), {"project": "mint", "stack": "default"}
    elsewhere = Runtime(runtime.registry, state="memory:", **mapping)
    with pytest.raises(UsageError) as caught:
        elsewhere.apply(file)
    assert (
        str(caught.value) == f"{file}: the plan is about the {kind} '{planned[kind]}', and the runtime about '{name}'"
    )
    assert coins == {}


def test_a_plan_that_another_version_saved_is_refused(runtime: Runtime, tmp_path: Path) -> None:
    """Before anything else of it is read."""
    file = tmp_path / "later.json"
    file.write_text('{"format_version": 99}', encoding="utf-8")
    with pytest.raises(ManifestError, match="format_version 99 is not a plan that this version saved; plan again"):
        runtime.apply(file)


def test_a_plan_is_not_saved_over_its_manifest(runtime: Runtime, tmp_path: Path) -> None:
    """As the command refuses it; nor is one with a secret saved without a key."""
    site = tmp_path / "site.yaml"
    site.write_text("resources: {'Coin[a]': {}}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="would overwrite"):
        runtime.plan(site, out=site)
    with pytest.raises(ResourceAPIError, match=r"Coin\[a\] holds one; name a key"):
        runtime.plan(manifest(a={"code": "1234"}), out=tmp_path / "later.json")
    assert list(tmp_path.iterdir()) == [site]


@pytest.mark.parametrize("options", [{"inputs": {"worth": 1}}, {"prune": True}, {"targets": ["Coin[a]"]}])
def test_a_plan_is_not_applied_with_other_inputs_or_selections(
    runtime: Runtime, coins: dict[str, dict[str, Any]], options: dict[str, Any]
) -> None:
    """They would be ignored."""
    plan = runtime.plan(manifest(a={}))
    with pytest.raises(UsageError, match="cannot be given with a plan, which has its own; plan again"):
        runtime.apply(plan, **options)
    assert coins == {}


def test_a_plan_is_applied_as_strictly_as_it_was_made(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """Unless the call says otherwise."""
    coins["a"] = {"name": "a", "ensure": "present", "weight": 3}
    plan = runtime.plan(manifest(a={"worth": 1}), strict="off")
    assert runtime.apply(plan, noop=True).exit_code == 0
    assert runtime.apply(plan, noop=True, strict="error").exit_code == 1


def test_names_are_a_list(runtime: Runtime) -> None:
    """The letters of one text are not taken for names."""
    with pytest.raises(UsageError, match="names must be a list of names, not 'root'"):
        runtime.resources("coin", names="root")


def test_names_may_be_spelt_in_any_way(tmp_path: Path) -> None:
    """As on the command line; one that is no name is refused before anything is read."""
    reader = Runtime(Registry.from_path())
    rows = reader.resources("file", names=[f"{tmp_path}/", str(tmp_path), f"{tmp_path}//y"])
    assert [(row["path"], row["ensure"]) for row in rows] == [(str(tmp_path), "directory"), (f"{tmp_path}/y", "absent")]
    for name in ("x", None, tmp_path, (str(tmp_path), "x")):
        with pytest.raises(UsageError, match=r"^File: path must be an absolute path"):
            reader.resources("file", names=[name])


def test_names_of_several_parts_are_tuples_or_titles(tmp_path: Path) -> None:
    """Of a type with several namevars."""
    reader = Runtime(Registry.from_path())
    file = tmp_path / "settings.ini"
    file.write_text("[a]\nb = 1\n", encoding="utf-8")
    resources = reader.resources("ini_setting", names=[(str(file), "a", "b")])
    assert (len(resources), resources[0]["value"]) == (1, "1")
    assert reader.resources("ini_setting", names=[f"{file}:a:b"]) == resources
    with pytest.raises(UsageError, match=r"^Ini_setting: 3 is no name; write a tuple of path, section, "):
        reader.resources("ini_setting", names=[3])


def test_tags_may_have_upper_case(runtime: Runtime) -> None:
    """They are those of resources, which are in lower case."""
    expected = manifest(a={"tag": "Old"}, b={})
    assert [str(step.reference) for step in runtime.plan(expected, tags=["OLD"]).steps] == ["Coin[a]"]
    assert [str(step.reference) for step in runtime.plan(expected, skip_tags=["OLD"]).steps] == ["Coin[b]"]


@pytest.mark.parametrize("source", [5, ["a"], lambda m: m.coin("a")])
def test_a_manifest_is_a_path_or_a_mapping(runtime: Runtime, source: Any) -> None:
    """A function is the manifest of a file, not of a program."""
    for call in (runtime.plan, runtime.apply, runtime.validate, runtime.destroy):
        with pytest.raises(UsageError, match="a manifest is a path or a mapping, not "):
            call(source)


def test_a_runtime_needs_a_registry() -> None:
    """A directory of types is not taken for one."""
    wrong: Any = "types"
    with pytest.raises(TypeError, match=r"a Runtime needs a registry, not 'types'; write Registry\.from_path\(DIR"):
        Runtime(wrong)


@pytest.mark.parametrize("inputs", [["worth"], "worth=5", 5])
def test_inputs_are_a_mapping(runtime: Runtime, inputs: Any) -> None:
    """Anything else is refused with what it should be."""
    for call in (runtime.plan, runtime.apply, runtime.validate, runtime.destroy):
        with pytest.raises(UsageError, match="inputs must be a mapping of names to values, not "):
            call(manifest(a={}), inputs)
