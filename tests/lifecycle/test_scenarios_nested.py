"""Values within values: what differs, is ignored, secret, wrong or not yet known is named by its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, BaseProvider, Runtime, TypeDefinition
from resource_api.model.codec import plain
from resource_api.model.datatypes.datatype import parse
from resource_api.model.datatypes.messages import explain
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.values import UNKNOWN, Sensitive, nearest_place, parse_place, place_text, with_present
from resource_api.state.store import MemoryStore, StackName
from tests.lifecycle.world import planned
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS = (
    "Optional[Struct[{Optional[port] => Integer, Optional[tls] => Struct[{port => Integer,"
    " Optional[key] => Sensitive[String], Optional[names] => Array[String]}]}]]"
)


class Sites:
    """A runtime with the type ``site``, whose attributes are nested."""

    def __init__(self) -> None:
        """Begin with no site."""
        self.rows: dict[str, dict[str, Any]] = {}
        self.received: list[Mapping[str, Any]] = []
        sites = self

        class Provider(BaseProvider):
            def get(self, context: Any) -> Any:  # noqa: ARG002
                return [{"name": name, "ensure": "present", "number": 7, **row} for name, row in sites.rows.items()]

            def set(self, context: Any, changes: Mapping[str, Any]) -> None:  # noqa: ARG002
                for name, (_, should) in changes.items():
                    sites.received.append(should)
                    sites.rows[name] = {key: value for key, value in should.items() if key not in {"name", "ensure"}}

        definition = TypeDefinition(
            name="site",
            docs="A site.",
            attributes={
                "name": Attribute("String", "Its name.", kind="namevar"),
                "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
                "settings": Attribute(SETTINGS, "Its settings."),
                "labels": Attribute("Optional[Hash[String, Any]]", "Its labels."),
                "rules": Attribute("Optional[Array[Hash[String, Integer]]]", "Its rules."),
                "fixed": Attribute("Optional[Hash[String, Integer]]", "Set at creation.", kind="init_only"),
                "number": Attribute("Optional[Integer]", "Its number.", kind="read_only"),
            },
        )
        self.store = MemoryStore()
        self.runtime = Runtime(registry_of((definition, Provider)), state=self.store)

    def plan(self, **resources: Any) -> Any:
        """Plan sites."""
        return self.runtime.plan(manifest(resources))

    def apply(self, **resources: Any) -> Any:
        """Apply sites."""
        return self.runtime.apply(manifest(resources))


def manifest(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of sites."""
    return {"project": "web", "resources": {f"Site[{name}]": values for name, values in resources.items()}}


@pytest.fixture
def sites() -> Sites:
    """Return a runtime without sites."""
    return Sites()


def test_a_plan_shows_what_differs_within_a_value_by_its_place(sites: Sites) -> None:
    """Of hashes, and of arrays of one length; one that is longer now is shown as a whole."""
    sites.rows["a"] = {
        "settings": {"port": 80, "tls": {"port": 443}},
        "labels": {"old": "x", "a.b": 1, "same": 1},
        "rules": [{"from": 1}, {"from": 2}],
    }
    text = str(
        sites.plan(
            a={
                "settings": {"port": 80, "tls": {"port": 8443, "names": ["a"]}},
                "labels": {"a.b": 2, "same": 1, "new": True},
                "rules": [{"from": 1}, {"from": 3}],
            }
        )
    )
    assert [line.strip() for line in text.splitlines()[1:-2]] == [
        "settings.tls.port: 443 → 8443",
        "settings.tls.names: (none) → [a]",
        "labels.old: x → (none)",
        "labels['a.b']: 1 → 2",
        "labels.new: (none) → true",
        "rules[1].from: 2 → 3",
    ]
    assert "rules: [{from: 1}, {from: 2}] → [{from: 1}]" in str(sites.plan(a={"rules": [{"from": 1}]}))


def test_drift_within_a_value_is_named_by_its_place(sites: Sites) -> None:
    """Not by the whole value."""
    sites.apply(a={"labels": {"a": 1, "b": 2}})
    sites.rows["a"]["labels"] = {"a": 1, "b": 3}
    ignored = {"labels": {"a": 1, "b": 2}, "lifecycle": {"ignore_changes": ["labels"]}}
    assert "# Site[a] has drifted: labels.b was 2, is 3" in str(sites.plan(a=ignored))


def test_a_part_of_a_value_can_be_ignored(sites: Sites) -> None:
    """It is set at creation; then the present part is kept, also where the rest changes."""
    ignored = {"ignore_changes": ["settings.tls.port", "labels.a", "labels['x.y']", "rules[0].from"]}
    value: dict[str, Any] = {"settings": {"port": 80, "tls": {"port": 443}}, "labels": {"a": 1, "b": 1}}
    value |= {"rules": [{"from": 1}], "lifecycle": ignored}
    assert sites.apply(a=value).exit_code == 0
    sites.rows["a"] = {
        "settings": {"port": 80, "tls": {"port": 1}},
        "labels": {"b": 1, "x.y": 5},
        "rules": [{"from": 9}],
    }
    assert planned(sites.plan(a=value)) == {}
    changed = {**value, "settings": {"port": 81, "tls": {"port": 443}}}
    assert sites.apply(a=changed).exit_code == 0
    assert sites.rows["a"]["settings"] == {"port": 81, "tls": {"port": 1}}
    assert sites.rows["a"]["labels"] == {"b": 1, "x.y": 5}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("setings.port", "unknown attribute 'setings'; did you mean 'settings'?"),
        ("settings..port", "'settings..port' is no place in an attribute; write settings.tls.key"),
        ("labels[a]", "'labels[a]' is no place in an attribute"),
    ],
)
def test_what_cannot_be_ignored_is_an_error(sites: Sites, text: str, words: str) -> None:
    """A misspelt place would have no effect."""
    with pytest.raises(ManifestError) as caught:
        sites.plan(a={"lifecycle": {"ignore_changes": [text]}})
    assert f"lifecycle.ignore_changes: {words}" in str(caught.value)


def test_a_refused_part_is_named_by_its_place(sites: Sites) -> None:
    """As plans and ``ignore_changes`` name it."""
    with pytest.raises(ManifestError) as caught:
        sites.plan(a={"settings": {"tls": {"port": "x", "names": [1]}}, "rules": [{"from": "y"}]})
    text = str(caught.value)
    assert "settings.tls.port must be an integer" in text
    assert "settings.tls.names[0] must be a string" in text
    assert "rules[0].from must be an integer" in text


@pytest.mark.parametrize("index", [("a",), ("tls", "key"), (0, "b"), ("a.b", 3), ("",), ("it's", "a\nb")])
def test_the_text_of_a_place_leads_back_to_it(index: tuple[str | int, ...]) -> None:
    """Whatever its keys are."""
    text = f"settings{place_text(index)}"
    assert parse_place(text) == nearest_place(text) == ("settings", index)


@pytest.mark.parametrize(
    ("should", "is_", "position", "value"),
    [
        ({"a": 1}, {"a": 2}, ("a",), {"a": 2}),
        ({"a": 1}, {}, ("a",), {}),
        ({}, {"a": 2}, ("a",), {"a": 2}),
        ({}, {"a": {"b": 2}}, ("a", "b"), {}),
        ({"a": 1}, {"a": {"b": 2}}, ("a", "b"), {"a": 1}),
        ([1, 2], [3], (0,), [3, 2]),
        ([1, 2], [3], (1,), [1, 2]),
        ([1], {"a": 1}, ("a",), [1]),
    ],
)
def test_a_present_part_takes_the_place_of_the_declared_one(should: Any, is_: Any, position: Any, value: Any) -> None:
    """Where both have something like it."""
    assert with_present(should, is_, position) == value


def test_a_secret_within_a_value_is_secret_alone(sites: Sites, capsys: pytest.CaptureFixture[str]) -> None:
    """In the plan, the drift, the log, the report and the state; ``set`` gets it wrapped, and its siblings plain."""
    declared = {"settings": {"port": 80, "tls": {"port": 443, "key": "open-sesame"}}}
    assert sites.apply(a=declared).exit_code == 0
    received = sites.received[0]["settings"]
    assert received["port"] == 80
    assert isinstance(received["tls"]["key"], Sensitive)
    sites.rows["a"] = {"settings": {"port": 80, "tls": {"port": 8443, "key": "another-word"}}}
    plan = sites.plan(a=declared)
    text = str(plan)
    assert "    settings.tls.port: 8443 → 443\n     settings.tls.key: <sensitive>" in text
    ignored = str(sites.plan(a={**declared, "lifecycle": {"ignore_changes": ["settings"]}}))
    assert "settings.tls.port was 443, is 8443; settings.tls.key was <sensitive>, is <sensitive>" in ignored
    (step,) = plan.to_dict()["steps"]
    assert step["should"]["settings"] == {"port": 80, "tls": {"port": 443, "key": "<sensitive>"}}
    assert step["is"]["settings"] == {"port": 80, "tls": {"port": 8443, "key": "<sensitive>"}}
    assert step["changes"][0]["paths"] == [
        {"path": ["tls", "port"], "kind": "update"},
        {"path": ["tls", "key"], "kind": "update"},
    ]
    report = sites.apply(a=declared)
    assert report.exit_code == 0
    (record,) = sites.store.load(StackName("web", "default")).records.values()
    assert str(record.is_["settings"]) == "{'port': 80, 'tls': {'port': 443, 'key': <sensitive>}}"
    assert str(record.inputs["settings"]) == str(record.is_["settings"])
    assert planned(sites.plan(a=declared)) == {}
    output = capsys.readouterr()
    everything = f"{text}{plan.to_dict()}{report.to_dict()}{report}{output.out}{output.err}{record.inputs}"
    assert "sesame" not in everything
    assert "another-word" not in everything


def test_without_the_secret_part_nothing_is_hidden(sites: Sites) -> None:
    """An optional part that is left out makes no secret of the others."""
    sites.rows["a"] = {"settings": {"port": 80}}
    assert "settings.port: 80 → 81" in str(sites.plan(a={"settings": {"port": 81}}))


def test_a_part_that_is_secret_in_the_manifest_alone_is_hidden_alone(sites: Sites) -> None:
    """A secret input in a hash: the same part of the present value is hidden, the others are shown."""
    sites.rows["a"] = {"labels": {"word": "former-word", "size": 1}}
    plan = sites.plan(a={"labels": {"word": Sensitive("later-word"), "size": 2}})
    assert "labels.word: <sensitive>" in str(plan)
    assert "labels.size: 1 → 2" in str(plan)
    assert "former-word" not in f"{plan}{plan.to_dict()}"


@pytest.mark.parametrize(
    ("datatype", "value", "output"),
    [
        ("Hash[String, Sensitive[String]]", {"a": "s"}, {"a": "<sensitive>"}),
        ("Array[Struct[{a => Sensitive[String], b => Integer}]]", [{"a": "s", "b": 1}], [{"a": "<sensitive>", "b": 1}]),
        ("Tuple[Integer, Sensitive[String]]", [1, "s", "t"], [1, "<sensitive>", "<sensitive>"]),
        (
            "Optional[Struct[{a => Sensitive[String]}]]",
            {"a": "s", "unknown": "t"},
            {"a": "<sensitive>", "unknown": "<sensitive>"},
        ),
        ("Struct[{a => Sensitive[String]}]", "s", "<sensitive>"),
        ("Variant[Sensitive[String], Integer]", 5, "<sensitive>"),
        (
            "Variant[Struct[{a => Sensitive[String], b => Integer}], Integer]",
            {"a": "s", "b": 1},
            {"a": "<sensitive>", "b": 1},
        ),
        ("Hash[Sensitive[String], Integer]", {"a": 1}, "<sensitive>"),
        ("Optional[Struct[{Optional[a] => Sensitive[String]}]]", None, None),
    ],
)
def test_the_data_type_says_which_parts_are_secret(datatype: str, value: Any, output: Any) -> None:
    """Where it leaves that open, all of the value."""
    assert plain(parse(datatype).conceal(value)) == output


def test_what_is_known_of_a_value_is_shown_and_checked_before_the_rest(sites: Sites) -> None:
    """A reference within a value hides nothing of the others; the value is set when all of it is known."""
    number = "${Site[a].number}"
    resources = {"a": {"labels": {"x": 1}}, "b": {"labels": {"of": number, "size": 2}, "rules": [{"from": 1}]}}
    plan = sites.plan(**resources)
    assert "labels: (none) → {of: (known after apply), size: 2}" in str(plan)
    (_, step) = plan.to_dict()["steps"]
    assert (step["unknown"], step["should"]["labels"]) == (["labels"], {"of": None, "size": 2})
    assert sites.apply(**resources).exit_code == 0
    assert sites.rows["b"]["labels"] == {"of": 7, "size": 2}
    changed = {"a": {"labels": {"x": 2}}, "b": {"labels": {"of": number, "size": 3}, "rules": [{"from": 1}]}}
    text = str(sites.plan(**changed))
    assert "labels.of: 7 → (known after apply)" in text
    assert "labels.size: 2 → 3" in text


def test_a_mistake_beside_an_unknown_part_is_found_before_anything_is_changed(sites: Sites) -> None:
    """With its place; a part that may fit is no mistake."""
    with pytest.raises(ManifestError, match=r"settings\.port must be an integer, not a string"):
        sites.plan(a={}, b={"settings": {"port": "x", "tls": {"port": "${Site[a].number}"}}})
    assert sites.rows == {}
    assert sites.apply(a={}, b={"settings": {"port": 1, "tls": {"port": "${Site[a].number}"}}}).exit_code == 0
    assert sites.rows["b"]["settings"]["tls"] == {"port": 7}


def test_a_difference_beside_an_unknown_part_is_certain(sites: Sites) -> None:
    """It replaces, or is refused, in the plan; a difference in the unknown part alone waits."""
    number = "${Site[a].number}"
    sites.apply(a={"labels": {"x": 1}}, b={"fixed": {"of": number, "size": 2}})
    same = sites.plan(a={"labels": {"x": 2}}, b={"fixed": {"of": number, "size": 2}}).steps[1]
    assert (str(same.action), same.error) == ("update", "")
    assert "'fixed' can only be set at creation" in (
        sites.plan(a={"labels": {"x": 2}}, b={"fixed": {"of": number, "size": 3}}).steps[1].error
    )


@pytest.mark.parametrize(
    ("datatype", "value", "fits"),
    [
        ("Struct[{a => Integer, b => Integer}]", {"a": UNKNOWN, "b": 1}, True),
        ("Struct[{a => Integer, b => Integer}]", {"a": UNKNOWN}, False),
        ("Struct[{a => Integer}]", {"a": UNKNOWN, "c": 1}, False),
        ("Hash[String, Integer, 2]", {"a": UNKNOWN}, False),
        ("Array[Integer]", [UNKNOWN, 1], True),
        ("Array[Integer, 0, 1]", [UNKNOWN, 1], False),
        ("Tuple[Integer, String]", [UNKNOWN, 1], False),
        ("Optional[Array[Variant[Hash[String, Integer], String]]]", [{"a": UNKNOWN}, "b"], True),
        ("Integer", [UNKNOWN], False),
        ("Sensitive[Array[Integer]]", Sensitive([UNKNOWN, "x"]), False),
        ("Data", [{"a": UNKNOWN}], True),
    ],
)
def test_an_unknown_part_fits_wherever_a_value_may_stand(datatype: str, value: Any, fits: bool) -> None:  # noqa: FBT001 - a case
    """All that is known must be accepted; the explanation agrees."""
    assert parse(datatype).accepts_known(value) is fits
    assert (explain(parse(datatype), value) == []) is fits
