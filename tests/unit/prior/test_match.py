"""What becomes of a recorded resource that the catalog does not declare under its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api import Attribute, BaseProvider, Runtime, TypeDefinition
from resource_api.model.provider_functions import ProviderFunctions
from resource_api.model.record import Intent, OrphanKind, Record, StackState
from resource_api.prior import recovery
from resource_api.prior.match import match
from resource_api.prior.provider_instances import ProviderInstances
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.prior.match import Prior

TYPE: Final = TypeDefinition(
    name="thing",
    attributes={
        "name": Attribute("String", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", default="present"),
    },
)
RECORD: Final = Record("thing", "a", "a", {}, {"ensure": "present"}, {"name": "a"}, owned=True)


def matched(
    record: Record,
    resources: Mapping[str, Any],
    *,
    prune: bool = False,
    definition: TypeDefinition = TYPE,
    **sections: Any,
) -> tuple[Catalog, Prior]:
    """Match one record with a manifest."""
    registry = registry_of((definition, type("Things", (BaseProvider,), dict.fromkeys(("get", "set"), lambda *_: []))))
    catalog = Runtime(registry).compile({"resources": dict(resources), **sections})
    instances = ProviderInstances(StackState("project", "stack", records={record.key: record}))
    return match(catalog, instances, prune=prune, functions=lambda _: ProviderFunctions(definition, {}))


@pytest.mark.parametrize(
    ("record", "options", "kind"),
    [
        (RECORD, {"prune": True}, OrphanKind.UNDECLARED),
        (RECORD, {"removed": ["Thing[a]"]}, OrphanKind.REMOVED),
        (RECORD._replace(status="replaced"), {}, OrphanKind.SUPERSEDED),
        (RECORD._replace(status="pending"), {}, OrphanKind.INTERRUPTED),
    ],
)
def test_an_orphan_has_a_kind_and_an_entry_that_is_absent(
    record: Record, options: dict[str, Any], kind: OrphanKind
) -> None:
    """It is appended to the catalog with the recorded name."""
    catalog, prior = matched(record, {"Thing[b]": {}}, **options)
    assert prior.orphans == {1: kind}
    assert catalog.entries[1].key == record.key
    assert catalog.entries[1].absent


@pytest.mark.parametrize(("prune", "declared"), [(False, "a"), (False, "b"), (True, "b")])
def test_a_record_gets_the_name_of_the_present_namevars(*, prune: bool, declared: str) -> None:
    """Its type has got a second namevar with a default; declared or not, its former key is dropped."""
    former = Record("place", "a", "a", {}, {"ensure": "present", "name": "a"}, {"name": "a"}, owned=True)
    names = former._replace(name=("a", "root"))
    type_definition = TypeDefinition(
        name="place",
        attributes={**TYPE.attributes, "user": Attribute("String", kind="namevar", default="root")},
        title_patterns=[{"pattern": r"(?P<name>.+)\z"}],
    )
    catalog, prior = matched(former, {f"Place[{declared}]": {}}, prune=prune, definition=type_definition)
    assert (prior.recovery.put, prior.recovery.drop) == ([names], [former.key])
    assert prior.state.records == {names.key: names}
    assert prior.records == ({0: names} if declared == "a" else {})
    assert [record.key for record in prior.undeclared] == ([] if declared == "a" or prune else [names.key])
    assert [entry.key for entry in catalog.entries[1:]] == ([names.key] if prune else [])


def test_a_name_that_two_resources_would_get_is_given_to_one() -> None:
    """Their type has lost a namevar: neither a record nor an intent is lost with it."""
    records = {record.key: record for record in (RECORD._replace(name=("a", user), title=user) for user in ("x", "y"))}
    intents = {key: Intent("run", *key, record.title, "create") for key, record in records.items()}
    state = StackState("project", "stack", records=records, intents=intents)
    first, second = records.values()
    present, commit = recovery.rename(state, records, lambda _: ProviderFunctions(TYPE, {}))
    assert list(present.records.values()) == [first._replace(name="a"), second]
    assert (commit.put, commit.drop) == ([first._replace(name="a")], [first.key])
    state, former = recovery.rename_intents(state, {}, lambda _: ProviderFunctions(TYPE, {}))
    assert list(state.intents) == [RECORD.key, second.key]
    assert former == {RECORD.key: first.key}


def test_an_undeclared_record_is_left_alone_without_prune() -> None:
    """It becomes no orphan, and the catalog stays as it is."""
    catalog, prior = matched(RECORD, {"Thing[b]": {}})
    assert (len(catalog.entries), prior.orphans) == (1, {})
    assert [record.key for record in prior.undeclared] == [RECORD.key]


def test_identity_is_the_name_and_not_the_title() -> None:
    """A record of the same name under another title is the record of the entry."""
    _, prior = matched(RECORD, {"Thing[other]": {"name": "a"}}, prune=True)
    assert (prior.records, prior.orphans) == ({0: RECORD}, {})


def test_a_former_name_finds_a_record_under_another_key() -> None:
    """The record belongs to the entry then, and its former key is dropped."""
    _, prior = matched(RECORD, {"Thing[b]": {}}, moved=[{"from": "Thing[a]", "to": "Thing[b]"}])
    assert (prior.records, list(prior.moved_keys)) == ({0: RECORD}, [RECORD.key])


def test_a_replacement_has_a_predecessor() -> None:
    """It has the same title, other namevars, and leave to replace."""
    resources = {"Thing[a]": {"name": "b", "lifecycle": {"replace": "delete_first"}}}
    _, prior = matched(RECORD, resources, prune=True)
    assert (prior.predecessors, prior.records, prior.orphans) == ({0: RECORD}, {}, {})
