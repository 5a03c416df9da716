"""A manifest with ``for_each`` and ``when`` equals the one that is written out: in catalog, plan and state."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_api import Attribute, BaseProvider, ManifestError, Registry, Runtime, TypeDefinition
from resource_api.model.values.values import Sensitive, escape_expressions
from resource_api.state.store import StackName

_TYPE: Final = TypeDefinition(
    name="thing",
    docs="A thing.",
    attributes={
        "name": Attribute("String[1]", "Its name.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "text": Attribute("Optional[String]", "A text."),
        "size": Attribute("Optional[Integer]", "A number."),
        "items": Attribute("Optional[Array[String]]", "Texts."),
        "secret": Attribute("Optional[Sensitive[String]]", "A secret."),
    },
    features={"refreshable"},
)

#: The keys of elements, and the texts of their members: what looks like an expression is none.
_KEYS: Final = st.text("ab-${}[].\u00e9 '", min_size=1, max_size=6).filter(
    lambda text: text == text.strip() and text[0] not in "'\"" and "]." not in text
)
_TEXTS: Final = st.text("ab${}.'", max_size=8) | st.sampled_from(["${inputs.word}", "$${", "$", "${each.key}"])
_MEMBERS: Final = st.fixed_dictionaries(
    {},
    optional={
        "text": _TEXTS,
        "size": st.integers(0, 9) | st.none(),
        "items": st.lists(_TEXTS, max_size=2),
        "secret": st.text("xyz", min_size=1, max_size=3),
        "on": st.booleans(),
    },
)
_COLLECTIONS: Final = st.dictionaries(_KEYS, _MEMBERS, max_size=4)


def _world() -> tuple[Runtime, dict[str, dict[str, Any]]]:
    """Return a runtime with the type ``thing``, whose resources are the second value."""
    objects: dict[str, dict[str, Any]] = {}

    class Provider(BaseProvider):
        def get(self, _context: Any, names: Any = None) -> Any:
            return [objects[name] for name in objects if names is None or name in names]

        def set(self, _context: Any, changes: Any) -> None:
            for name, change in changes.items():
                objects[name] = dict(change.should)

        def refresh(self, _context: Any, names: Any) -> None:
            assert names

    registry = Registry()
    registry.register_type(_TYPE)
    registry.register_provider("thing", Provider)
    return Runtime(registry, state="memory:"), objects


def _by_each(*, conditional: bool) -> dict[str, Any]:
    """Return a manifest whose things are made for each element."""
    repeated: dict[str, Any] = {
        "for_each": "${inputs.all}",
        "text": "${each.value.text}",
        "size": "${each.value.size}",
        "items": ["${each.index}", "${each.key} of ${inputs.word}${each.key}"],
        "secret": "${each.value.secret}",
        "require": ["Thing[first]", "Thing[one ${each.key}]"],
        "tag": "${each.index}",
    }
    if conditional:
        repeated["when"] = {"each.value.on": True}
    return {
        "project": "same",
        "inputs": {"word": {"default": "w"}, "all": {"type": "Hash[String, Struct[{text => String, size => "
            "Variant[Undef, Integer], items => Array[String], secret => Sensitive[String], on => Boolean}]]"}},
        "resources": {
            "Thing[first]": {},
            "Thing[one ${each.key}]": {"for_each": "${inputs.all}", "size": "${each.index}"},
            "Thing[two ${each.key}]": repeated,
            "Thing[last]": {"require": "Thing[*]"},
        },
    }  # fmt: skip


def _written_out(collection: dict[str, Any], *, conditional: bool) -> dict[str, Any]:
    """Return the same manifest without ``for_each`` and ``when``."""
    escape = escape_expressions
    ones = {f"Thing[one {escape(key)}]": {"size": number} for number, key in enumerate(collection)}
    twos = {
        f"Thing[two {escape(key)}]": {
            "text": escape(member["text"]),
            "size": member["size"],
            "items": [str(number), f"{escape(key)} of ${{inputs.word}}{escape(key)}"],
            "secret": Sensitive(member["secret"]),
            "require": ["Thing[first]", f"Thing[one {escape(key)}]"],
            "tag": str(number),
        }
        for number, (key, member) in enumerate(collection.items())
        if member["on"] or not conditional
    }
    names = ["Thing[first]", *ones, *twos]
    return {
        "project": "same",
        "inputs": {"word": {"default": "w"}},
        "resources": {"Thing[first]": {}, **ones, **twos, "Thing[last]": {"require": names}},
    }


def _complete(member: dict[str, Any]) -> dict[str, Any]:
    return {"text": "t", "size": 1, "items": [], "secret": "s3cret", "on": True} | member


def _outcome(manifest: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the catalog, the plan and the state of a manifest, without what differs in each run."""
    runtime, objects = _world()
    catalog = runtime.compile(manifest, inputs)
    plan = runtime.plan(manifest, inputs=inputs).to_dict()
    for step in plan["steps"]:
        step.pop("origin", None)
    report = runtime.apply(manifest, inputs=inputs)
    assert report.exit_code == 0
    state = runtime.store.load(StackName("same", "default"))
    return {
        "entries": [
            (str(entry.reference), entry.name, entry.should, entry.meta, dict(entry.inputs))
            for entry in catalog.entries
        ],
        "order": ({k: sorted(v) for k, v in catalog.requires.items()}, dict(catalog.subscribes), catalog.automatic),
        "plan": json.dumps([plan["steps"], plan["summary"]], sort_keys=True),
        "things": objects,
        "records": {
            str(record.reference): (record.key, sorted(record.requires), record.inputs.keys(), record.owned)
            for record in state.records.values()
        },
    }


@settings(max_examples=60, deadline=None)
@given(_COLLECTIONS, st.booleans())
def test_it_equals_what_is_written_out(collection: dict[str, Any], conditional: bool) -> None:  # noqa: FBT001 - drawn
    """For any keys and members, also such as look like expressions."""
    elements = {key: _complete(member) for key, member in collection.items()}
    repeated = _outcome(_by_each(conditional=conditional), {"all": elements})
    written = _outcome(_written_out(elements, conditional=conditional), {})
    for part, value in repeated.items():
        assert value == written[part], part


@pytest.mark.parametrize(
    ("value", "title"),
    [("b", "b"), (True, "true"), (7, "7"), ("$${x}", "$${x}")],
)
def test_a_reference_names_the_resource_that_the_same_text_declares(value: object, title: str) -> None:
    """A title that is an element alone is the same text in the key of a resource and in a reference to it."""
    runtime, _ = _world()
    body = {"for_each": {"a": value}, "text": "${Thing[${each.value}].text}"}
    catalog = runtime.validate({"resources": {f"Thing[{title}]": {"text": "x"}, "Thing[of ${each.key}]": body}})
    assert [entry.should["text"] for entry in catalog.entries] == ["x", "x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${Thing[${each.value.pin}].text}", "a title cannot hold a secret"),
        ("${Thing[${each.value.name}].text}", "${each.value.name} is nothing and cannot be part of a text"),
        ("${values.table[each.value.pin]}", "${each.value.pin} is a secret, which cannot choose a key"),
        (
            "${values.table[each.value.name]}",
            "${each.value.name} must be text or an integer to choose a key; it is not",
        ),
    ],
)
def test_an_element_that_can_be_no_name_is_refused(text: str, message: str) -> None:
    """A secret is shown in no message, and a missing member is no title ``None``."""
    runtime, _ = _world()
    elements = {"a": {"pin": "geheim-77"}, "b": {"pin": "geheim-78", "name": "x"}}
    datatype = "Hash[String, Struct[{pin => Sensitive[String], Optional[name] => String}]]"
    manifest = {
        "inputs": {"users": {"type": datatype, "default": elements}},
        "values": {"table": {"x": "y"}},
        "resources": {"Thing[x]": {}, "Thing[of ${each.key}]": {"for_each": "${inputs.users}", "secret": text}},
    }
    with pytest.raises(ManifestError) as error:
        runtime.validate(manifest)
    assert message in str(error.value)
    assert "geheim" not in str(error.value)
