"""Functions on many resources at once return what the same function returns for each of them."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Attribute, BaseProvider, Registry, Runtime, Sensitive, TypeDefinition
from resource_api.catalog import canonicalize
from resource_api.model.declaration import Declaration
from resource_api.model.entry import Entry
from resource_api.model.provider_functions import ProviderFunctions
from resource_api.model.values.values import UNKNOWN, are_flat, column_groups, is_flat
from resource_api.plan.decide import BulkDecisions
from resource_api.plan.diff import ComparisonError, DecisionInputs, compare, equal_indexes
from resource_api.state.store import MemoryStore
from tests.lifecycle.world import Bench
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from resource_api.model.type_definition import Resource
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.provider.context import Context

TYPE: Final = TypeDefinition(
    name="thing",
    attributes={
        "name": Attribute("String", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", default="present"),
        "mode": Attribute("Optional[Pattern[/\\A[0-7]+\\z/]]"),
        "size": Attribute("Variant[Integer[0, 9], Float, Boolean]"),
        "words": Attribute("Optional[Array[String]]"),
    },
)

_values: Final = st.sampled_from(
    [None, True, 1, 1.0, 0, 12, "7", "77", "8", "", ["7"], [7], UNKNOWN, Sensitive("7"), {"a": 1}]
)
_resources: Final = st.lists(
    st.dictionaries(st.sampled_from([*TYPE.attributes, "strange"]), _values, max_size=4), max_size=6
)


def functions(insync: Callable[..., Any] | None = None) -> ProviderFunctions:
    """Return the functions of a type that compares by ``insync``; None: exactly."""
    requested = None
    if insync is not None:
        requested = lambda questions: (_answers(insync, *question) for question in questions)  # noqa: E731
    return ProviderFunctions(TYPE, {}, insync=requested)


def _answers(insync: Callable[..., Any], name: str, attributes: Sequence[str], *states: Any) -> list[Any] | Exception:
    try:
        return [insync(name, attribute, *states) for attribute in attributes]
    except Exception as error:  # noqa: BLE001 - part of the answer
        return error


@given(_resources)
def test_column_groups_hold_every_value_once(resources: list[Resource]) -> None:
    """The columns, put together again, are the resources."""
    again: dict[int, Resource] = {}
    for paths, columns in column_groups(resources):
        for number, path in enumerate(paths):
            assert path not in again
            again[path] = {name: column[number] for name, column in columns.items()}
    assert [again[index] for index in range(len(resources))] == resources


@given(_resources)
def test_many_resources_are_flat_if_each_is(resources: list[Resource]) -> None:
    """``are_flat`` is ``is_flat`` of each."""
    assert are_flat(resources) == all(map(is_flat, resources))


@given(_resources)
def test_a_resource_that_would_be_refused_is_suspect(resources: list[Resource]) -> None:
    """The others have declared attributes, all mandatory ones, and accepted values; a second call returns the same."""
    provider = functions()
    first = canonicalize.find_suspect(provider, resources)
    assert canonicalize.find_suspect(provider, resources) == first
    for index, resource in enumerate(resources):
        if index not in first:
            assert resource.keys() <= TYPE.attributes.keys()
            assert not canonicalize.check_values(TYPE, resource)
            assert not canonicalize.missing_attributes(TYPE, resource)


def test_plain_resources_are_not_suspect() -> None:
    """Accepted texts and values of unrestricted types are not; one refused text is found."""
    plain: list[Resource] = [{"name": f"n{n}", "mode": "644", "size": True} for n in range(50)]
    assert canonicalize.find_suspect(functions(), plain) == set()
    assert canonicalize.find_suspect(functions(), [*plain, {"name": "n", "mode": "8", "size": True}]) == {50}


def entry(should: Mapping[str, Any]) -> Entry:
    """Return an entry with ``should``."""
    created = Entry(Declaration("thing", "t", {}, {}), TYPE)
    created.should = dict(should)
    return created


def _differs(entry: Entry, row: Mapping[str, Any], requested: ProviderFunctions) -> bool:
    try:
        return bool(compare(entry, row, entry.should, requested, DecisionInputs()))
    except ComparisonError:
        return True


def _inconsistent(_name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]) -> Any:
    """Compare with every result that is allowed, and some that are not."""
    if should[attribute] == "8":
        raise ValueError("no")
    answers = {"7": True, "77": (False, "because"), True: False, 12: "nonsense"}
    return answers.get(is_.get(attribute)) if type(is_.get(attribute)) in (str, bool, int) else None


@pytest.mark.parametrize("insync", [None, _inconsistent])
@given(st.lists(st.tuples(st.fixed_dictionaries({"name": st.just("n"), "size": _values}), _values), max_size=5))
def test_equal_resources_have_no_difference(
    insync: Callable[..., Any] | None, drawn: list[tuple[dict[str, Any], Any]]
) -> None:
    """``equal_indexes`` finds exactly the resources without a difference, except for unknown values."""
    pairs = [(entry(should), {**should, "size": value}) for should, value in drawn]
    requested = functions(insync)
    indexes = set(equal_indexes(pairs, requested))
    for index, (pair, row) in enumerate(pairs):
        if pair.should["size"] is not UNKNOWN:
            assert (index in indexes) != _differs(pair, row, requested)


def test_a_provider_that_compares_writes_nothing_to_stderr(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Generators that were not exhausted are closed silently."""
    (tmp_path / "f").write_text("x")
    runtime = Runtime(Registry.from_path(str(tmp_path)), state="memory:")
    plan = runtime.plan({"resources": {f"File[{tmp_path}/f]": {"content": "x"}}})
    assert plan.summary.unchanged == 1
    gc.collect()
    assert capfd.readouterr().err == ""


def test_a_comparison_cannot_change_its_arguments() -> None:
    """One that tries fails, so the resource is compared again alone, with copies."""

    def writing(_name: str, attribute: str, is_: dict[str, Any], should: Mapping[str, Any]) -> bool:
        is_[attribute] = should[attribute]
        return is_[attribute] == should[attribute]

    pairs: Sequence[tuple[Entry, dict[str, Any]]] = [(entry({"name": "n", "size": 1}), {"name": "n", "size": 2})]
    assert list(equal_indexes(pairs, functions(writing))) == []
    assert pairs[0][1] == {"name": "n", "size": 2}


_declared: Final = st.dictionaries(
    st.sampled_from(["Engine[a]", "Engine[b]", "Gadget[c]", "Gadget[d]"]),
    st.fixed_dictionaries(
        {}, optional={"size": st.sampled_from([1, 2, None]), "ensure": st.sampled_from(["present", "absent"])}
    ),
)


@given(
    first=_declared, then=_declared, deleted=st.sets(st.sampled_from("abcd")), related=st.booleans(), noop=st.booleans()
)
def test_bulk_decisions_equal_single_decisions(
    *,
    first: dict[str, Any],
    then: dict[str, Any],
    deleted: set[str],
    related: bool,
    noop: bool,
) -> None:
    """The steps are the same, after any run and any damage, with and without relationships."""
    bench = Bench()
    bench.put("thing", tool={})
    bench.apply(first)
    for kind in ("engine", "gadget"):
        for name in deleted & bench.world.things[kind].keys():
            del bench.world.things[kind][name]
    if related and len(then) > 1:
        one, *_, second = then
        then = {**then, second: {**then[second], "subscribe": one}}
    in_bulk = bench.plan(then, noop=noop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resource_api.plan.planner.decide_in_bulk", lambda *_: BulkDecisions())
        one_by_one = bench.plan(then, noop=noop)
    assert _shown(in_bulk) == _shown(one_by_one)


def _shown(plan: ExecutionPlan) -> list[tuple[Any, ...]]:
    return [(str(s.reference), s.is_, s.should, s.decision, s.noop, s.record, *s[7:]) for s in plan.steps]


def test_a_default_of_none_is_a_declared_value() -> None:
    """It holds if nothing is declared; ``null`` in the manifest declares nothing and disables the default."""
    attributes = {"name": Attribute("String", kind="namevar"), "note": Attribute("Optional[String]", default=None)}
    memo = TypeDefinition(name="memo", attributes=attributes)
    provider = type("Memo", (BaseProvider,), dict.fromkeys(("get", "set"), lambda *_: []))
    resources: dict[str, Any] = {"Memo[a]": {}, "Memo[b]": {"note": None}}
    entries = Runtime(registry_of((memo, provider))).compile({"resources": resources}).entries
    assert [item.should for item in entries] == [{"name": "a", "note": None}, {"name": "b"}]


class Lower(BaseProvider):
    """Canonicalizes modes to lower case."""

    def get(self, context: Context, names: Collection[Any] | None = None) -> list[Resource]:
        """Return nothing."""
        del context, names
        return []

    def set(self, context: Context, changes: Mapping[Any, Any]) -> None:
        """Do nothing."""

    def canonicalize(self, context: Context, resources: list[Resource]) -> list[Resource]:
        """Replace modes that are not in lower case."""
        del context
        for resource in resources:
            if not resource.get("mode", "x").islower():
                resource["mode"] = resource["mode"].lower()
        return resources


@given(st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["", "x", "X", None]), min_size=1))
def test_inputs_are_kept_as_written(modes: dict[str, str | None]) -> None:
    """Whatever ``canonicalize`` changes, and where only the names of unchanged values are stored."""
    attributes = {"name": Attribute("String", kind="namevar"), "mode": Attribute("Optional[String]", default="X")}
    mood = TypeDefinition(name="mood", attributes=attributes, features={"canonicalize"})
    resources = {f"Mood[{name}]": {"mode": mode} for name, mode in modes.items()}
    entries = Runtime(registry_of((mood, Lower))).compile({"resources": resources}).entries
    assert [item.inputs for item in entries] == [{"mode": mode, "name": name} for name, mode in modes.items()]


@given(st.lists(st.tuples(_values, _values), min_size=1, max_size=6))
def test_a_record_holds_the_values_that_were_read(pairs: list[tuple[Any, Any]]) -> None:
    """With the same numeric type, and also if the provider reports them as in sync."""
    sizes = [(should, is_) for should, is_ in pairs if TYPE.accepts["size"](should) and TYPE.accepts["size"](is_)]
    created: dict[str, Any] = {}

    class Careless(BaseProvider):
        """Sets another value and reports it as in sync."""

        def get(self, context: Context) -> list[Resource]:
            del context
            return [{"name": name, "ensure": "present", "size": size} for name, size in created.items()]

        def set(self, context: Context, changes: Mapping[Any, Any]) -> None:
            del context
            created.update({name: sizes[int(name)][1] for name in changes})

        def insync(self, *_: Any) -> bool:
            return True

    type_definition = TypeDefinition(name="thing", attributes=TYPE.attributes, features={"custom_insync"})
    runtime = Runtime(registry_of((type_definition, Careless)), state=MemoryStore())
    runtime.apply({"resources": {f"Thing[{index}]": {"size": should} for index, (should, _) in enumerate(sizes)}})
    (stack,) = runtime.store.stacks() or (None,)
    records = runtime.store.load(stack).records if stack is not None else {}
    result = [record.is_ and record.is_["size"] for record in records.values()]
    assert list(map(repr, result)) == [repr(is_) for _, is_ in sizes]
