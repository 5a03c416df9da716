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


def manifest(**coins: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest of coins."""
    return {"resources": {f"Coin[{name}]": attributes for name, attributes in coins.items()}}


def test_a_mapping_is_planned_and_applied(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """Steps and reports have typed values, and a second apply changes nothing."""
    wanted = manifest(a={"worth": 5})
    plan = runtime.plan(wanted)
    (step,) = plan.steps
    assert (str(step.reference), step.action.value, plan.summary.created) == ("Coin[a]", "create", 1)
    assert coins == {}
    report = runtime.apply(wanted)
    assert (report.exit_code, report.summary.created, report.summary.failed) == (0, 1, 0)
    assert [(each.reference, each.status) for each in report.steps] == [("Coin[a]", "success")]
    assert coins["a"]["worth"] == 5
    assert runtime.apply(wanted).summary.unchanged == 1


def test_a_step_has_the_fields_of_its_document(runtime: Runtime, coins: dict[str, dict[str, Any]]) -> None:
    """The changes, reasons and error of a step are typed values."""
    (step,) = runtime.plan(manifest(a={"worth": 5})).steps
    assert [(each.attribute, each.should) for each in step.changes] == [("ensure", "present"), ("worth", 5)]
    assert (tuple(step.reasons), tuple(step.replaces_because), step.error) == ((), (), "")
    assert coins == {}


def test_a_step_has_its_urn_and_its_relationships(runtime: Runtime) -> None:
    """Every field of the JSON document of a step is an attribute of the step."""
    wanted = manifest(a={"worth": 5, "tag": "old"}, b={"require": "Coin[a]", "subscribe": "Coin[a]"})
    first, then = runtime.plan(wanted).steps
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
            msg = "the mint is closed"
            raise OSError(msg)

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
    with pytest.raises(DefinitionError, match="nosuch"):
        registry.register_provider("nosuch", Mint)


def test_an_empty_registry_has_no_types() -> None:
    """``Registry()`` has no types, and ``Registry.from_path()`` has the bundled ones."""
    assert list(Registry().names()) == []
    assert "file" in Registry.from_path().names()


def test_a_mapping_is_not_changed(runtime: Runtime) -> None:
    """``apply`` does not change the mapping that it is given."""
    wanted = manifest(a={"worth": 5})
    runtime.apply(wanted)
    assert wanted == manifest(a={"worth": 5})


def test_a_change_is_a_pair(coins: dict[str, dict[str, Any]]) -> None:
    """A change has ``is_`` and ``should`` as attributes and as the elements of a pair."""
    seen: list[Change] = []

    class Watcher(Mint):
        def set(self, context: Context, changes: Mapping[Any, Change]) -> None:
            seen.extend(changes.values())
            assert len(changes) == 1
            super().set(context, changes)

    registry = Registry()
    registry.register_type(COIN)
    registry.register_provider("coin", type("Own", (Watcher,), {"coins": coins}))
    assert Runtime(registry, state="memory:").apply(manifest(a={})).exit_code == 0
    (is_, should), change = seen[0], seen[0]
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
