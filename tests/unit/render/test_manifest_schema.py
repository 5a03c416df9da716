"""With the schema of manifests an editor marks mistakes, and nothing that the loader accepts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from resource_api import Attribute, Function, Registry, Runtime, SimpleProvider, TypeDefinition
from resource_api.manifest import metaparameters, sections, yaml_reader
from resource_api.model.attribute import METAPARAMETERS, OPERATIONS
from resource_api.model.values.errors import ManifestError
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.render import manifest_schema as schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDGET: Final = TypeDefinition(
    name="widget",
    docs="A widget.",
    attributes={
        "name": Attribute("String", "Its name.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "size": Attribute("Optional[Integer[0, 9]]", "How big it is."),
        "weight": Attribute("Optional[Float[0.5]]"),
        "on": Attribute("Boolean", default=False, kind="parameter"),
        "code": Attribute(r"Optional[Pattern[/\A[a-z]+\z/, /^\d$/]]"),
        "tags": Attribute("Optional[Array[Enum[a, b], 1, 2]]"),
        "pair": Attribute("Optional[Tuple[Integer, Boolean]]"),
        "sizes": Attribute("Optional[Hash[Enum[x, y], Integer, 1]]"),
        "place": Attribute("Optional[Struct[{row => Integer, Optional[slot] => Enum[l, r]}]]"),
        "any": Attribute("Any"),
        "either": Attribute("Optional[Variant[Integer, Array[Integer]]]"),
        "given": Attribute("NotUndef[Variant[Boolean, Integer]]", default=1),
        "secret": Attribute("Optional[Sensitive[Integer]]", default=7),
        "image": Attribute("Optional[Enum[x]]", kind="init_only"),
        "serial": Attribute("Optional[String]", kind="read_only"),
    },
)
NEEDY: Final = TypeDefinition(
    name="needy_one",
    attributes={"name": Attribute("String", kind="namevar"), "size": Attribute("Integer", "A size.")},
)


#: A title pattern, a configuration, functions, and an ``ensure`` that decides what is mandatory.
SITE: Final = TypeDefinition(
    name="site",
    docs="A site. It has a page.",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "host": Attribute("String", "Its host.", kind="namevar"),
        "port": Attribute("Integer", "Its port.", kind="namevar"),
        "page": Attribute("String", "Its page."),
    },
    title_patterns=[{"pattern": r"\A(?<host>[a-z.]+)\z"}, {"pattern": "^(?<host>[a-z.]+)/(?<port>a|b)$"}],
    config={"url": Attribute("String[1]", "Where it is."), "limit": Attribute("Optional[Integer]", "How much.")},
    functions={
        "free": Function("Return a free port.", inputs={"host": Attribute("String", "Where.")}, output="Integer"),
        "all": Function("Return all.", inputs={"limit": Attribute("Optional[Integer]", "How many.")}),
    },
)


class Still(SimpleProvider):
    """A provider without resources."""

    def get(self, context: object, names: object = None) -> list[dict[str, Any]]:  # noqa: ARG002 - a provider's
        """Return no resources."""
        return []


class Served(Still):
    """A provider with configuration and functions."""

    def configure(self, context: object, config: object) -> None:
        """Accept everything."""

    def free(self, context: object, host: str) -> int:  # noqa: ARG002 - a provider's
        """Return a port."""
        return 1

    def all(self, context: object, limit: int | None = None) -> int:  # noqa: ARG002 - a provider's
        """Return a number."""
        return 1


IMPLEMENTATIONS: Final = {"widget": ["one", "two"], "site": ["main"]}
SCHEMA: Final = schema.manifest_schema([WIDGET, NEEDY, SITE], IMPLEMENTATIONS)
VALIDATOR: Final = Draft7Validator(SCHEMA)


def loads(manifest: Mapping[str, Any]) -> bool:
    """Whether the loader accepts a manifest in every check that does not touch the system."""
    registry = Registry()
    for definition in (WIDGET, NEEDY, SITE):
        registry.register_type(definition)
        for name in IMPLEMENTATIONS.get(definition.name, [""]):
            registry.register_provider(definition.name, Served if definition is SITE else Still, name)
    try:
        Runtime(registry).compile(manifest)
    except ManifestError:
        return False
    return True


GOOD: Final = """
resources: {}
---
inputs:
  all: {default: {a: {size: 1, "on": true}, b: {size: 2}}}
  web: {default: true}
resources:
  Widget[one-${each.key}]:
    for_each: ${inputs.all}
    when: {each.value.on: {exists: true}, each.index: {lt: 5}}
    size: ${each.value.size}
    alias: alias-${each.key}
    tag: ["${each.key}"]
  Widget[two-${each.key}]: {for_each: [x, 1, 2.5], when: "${inputs.web}", require: "Widget[one-*]"}
  Widget[three-${each.key}]: {for_each: {}, when: true}
  Widget[four]: {when: {facts.os.family: {not: [x, y]}, facts.os.release.full: {ge: "0.1", lt: "9999"}}}
  Widget[five]: {when: {any: [{inputs.web: true}, false, "${inputs.web}"], not: {facts.kernel: {matches: /^x$/}}}}
  Widget[six]: {when: null, for_each: null}
  Widget[seven]: {when: {values.v: null, "values.m['a b'][0]": 1, "inputs.all[values.k].size": 1}}
values: {v: null, m: {a b: [1]}, k: a}
outputs:
  a: {value: 1, when: {facts.os.family: [x, null, true]}}
  b: {value: 1, sensitive: true, when: null}
  c: {value: 1, when: true, other: 1}
  d: {value: 1}
  e: {when: not a condition}
---
inputs:
  on: {type: Boolean, default: true}
  n: {type: Integer, default: 3}
  word: {default: info}
  words: {default: [size, tags]}
resources:
  Widget[info]: {}
  Widget[a]: {noop: "${inputs.on}", tag: "${inputs.words}", loglevel: "${inputs.word}", timeout: "${inputs.n}"}
  Widget[b]: {tag: ["${inputs.word}"], timeout: {create: "${inputs.n}"}, retry: {tries: "${inputs.n}"}}
  Widget[c]:
    lifecycle:
      protect: ${inputs.on}
      owned: ${inputs.on}
      ignore_changes: ${inputs.words}
      replace_on_changes: ["${inputs.words[0]}"]
      aliases: ["${inputs.word}-1"]
      deleted_with: Widget[${inputs.word}]
      replace_triggered_by: ["Widget[${inputs.word}]"]
---
project: web-1
inputs:
  n: {type: "Integer[0, 9]", default: 3, docs: A number.}
  free:
    default: x
  nothing: {default: null, docs: null, type: null}
values: {v: [1, 2], w: null}
providers: {main: {type: widget, version: null, config: {}}, widget: {}}
defaults:
  Widget: {size: 3, noop: true, tag: all, code: null}
  needy_one: {size: 1}
  Site: null
resources:
  Widget[a]:
  Widget[b]: {}
  widget[c]: {size: null, serial: null, require: null, lifecycle: null}
  Widget[${inputs.free}]: {name: d}
  Widget[say "hi" ] there]: {}
  Widget["]: {}
  Widget["a']: {}
  Needy_one[x]: {}
outputs: {size: "${Widget[a].size}", other: [1]}
moved: [{from: "Widget[old]", to: "Widget[a]"}]
removed: ["Widget[gone]"]
---
resources:
  Widget[a]: {size: 9, weight: 0.5, "on": true, code: abc, tags: [a, b], pair: [1, false], sizes: {x: 1}}
  Widget[b]: {place: {row: 1}, any: {deep: [1, null]}, either: [1], given: false, secret: 3, image: x, code: "7"}
  Widget[c]: {place: {row: 1, slot: l}, any: null, either: 1, ensure: absent}
---
inputs:
  n: {default: 3}
  b: {default: true}
  t: {default: [a]}
  m: {default: {x: 3}}
  s: {default: x}
  f: {default: 1.5}
resources:
  Widget[a]: {size: "${inputs.n}", weight: "${inputs.f}", "on": "${inputs.b}", tags: "${inputs.t}"}
  Widget[b]: {tags: ["${inputs.t.0}", b], pair: ["${inputs.n}", "${inputs.b}"], sizes: {x: "${inputs.n}"}}
  Widget[c]: {place: {row: "${inputs.n}"}, either: ["${inputs.n}"], given: "${inputs.b}", secret: "${inputs.n}"}
  Widget[d]: {sizes: "${inputs.m}", image: "${inputs.s}"}
  Widget[e]: {code: "ab${inputs.s}", ensure: "${Widget[a].ensure}", name: "$${x}${inputs.s}"}
---
resources:
  Widget[a]: {retry: {tries: 3, delay: 0.5}, size: 1}
  Widget[b]: {retry: {tries: 1, delay: null}, on_failure: "Widget[a]"}
  Widget[c]: {retry: null, on_failure: ["Widget[a]", "widget[b]"]}
purge:
  - {type: Widget, at_most: 3, except: [a, "b*"], where: {size: {lt: 3}, image: [x, y], weight: null}, when: true}
---
resources: {"Widget[a]": {retry: {tries: 1}}}
purge: [{type: widget, at_most: 0, except: null, where: null, provider: null, when: {facts.os.family: Debian}}]
---
resources: {"Widget[a]": {}}
purge: []
---
resources: {"Widget[a]": {}}
purge: null
---
resources:
  Widget[a]: {before: "Widget[b]", tag: [x, "a:b"], loglevel: debug, alias: other, timeout: 3}
  Widget[b]: {notify: [], subscribe: ["Widget[a]"], alias: [one, two], timeout: {create: 1.5, update: null}}
  Widget[c]:
    require: ["widget[a]", "Widget[other]"]
    noop: false
    lifecycle:
      protect: true
      retain: false
      owned: null
      ignore_changes: [size]
      replace: create_first
      replace_on_changes: [image]
      replace_triggered_by: ["Widget[a]"]
      deleted_with: Widget[a]
      aliases: [old]
      import: c
      external: false
---
inputs: {ensure: {default: absent}, url: {default: x}, n: {default: 3}}
values:
  one: {invoke: free, with: {host: "${inputs.url}"}}
  two: {invoke: Site.all, provider: main, with: {limit: "${inputs.n}"}}
  three: {invoke: site.all, with: null, provider: null}
  four: {invoke: all}
  five: {called: free}
providers:
  main: {type: Site, config: {url: "${inputs.url}", limit: null}, implementation: main}
  site: {config: {url: b}}
  Widget: {implementation: ""}
resources:
  Site[a.b]: {port: 80, page: x}
  Site[A b]: {host: a, port: 80, page: x}
  Site[${inputs.url}]: {port: 80, page: x, provider: main}
  Site[é]: {host: a, port: 81, ensure: absent}
  Site[c]: {port: 80, ensure: "${inputs.ensure}"}
  Widget[x]: {implementation: two}
  Widget[y]: {implementation: null}
---
project: null
include: null
inputs: null
defaults: null
providers: null
values: null
resources: null
moved: null
removed: null
outputs: null
"""

BAD: Final = """
resorces: {}
---
resources: {"Widget[${each.key}]": {for_each: text}}
---
resources: {"Widget[${each.key}]": {for_each: 3}}
---
defaults: {Widget: {for_each: [a]}}
---
defaults: {Widget: {when: true}}
---
resources: {"Widget[a]": {when: Linux}}
---
resources: {"Widget[a]": {when: []}}
---
resources: {"Widget[a]": {when: {}}}
---
resources: {"Widget[a]": {when: {os.family: x}}}
---
resources: {"Widget[a]": {when: "${Widget[b].size}"}}
---
resources: {"Widget[a]": {when: {"Widget[b].size": 3}}}
---
resources: {"Widget[a]": {when: {facts.kernel: []}}}
---
resources: {"Widget[a]": {when: {facts.kernel: {}}}}
---
resources: {"Widget[a]": {when: {facts.kernel: {is: x}}}}
---
resources: {"Widget[a]": {when: {facts.kernel: {matches: x}}}}
---
resources: {"Widget[a]": {when: {facts.kernel: {ge: [1]}}}}
---
resources: {"Widget[a]": {when: {facts.kernel: {exists: 1}}}}
---
resources: {"Widget[a]": {when: {facts.kernel: [[x]]}}}
---
resources: {"Widget[a]": {when: {any: {facts.kernel: x}}}}
---
resources: {"Widget[a]": {when: {any: []}}}
---
resources: {"Widget[a]": {when: {not: x}}}
---
resources: {"Widget[${each.key}]": {for_each: [a], when: {each.name: a}}}
---
outputs: {a: {value: 1, when: x}}
---
include: [{when: true}]
---
include: [{file: a.yaml, if: true}]
---
include: [{file: a.yaml, when: x}]
---
project: 3
---
project: ""
---
project: -x
---
include: other.yaml
---
include: [other.txt]
---
include: [/other.yaml]
---
inputs: [n]
---
inputs: {n: 3}
---
inputs: {n: {typ: String}}
---
inputs: {n: {docs: 3}}
---
inputs: {"a b": {}}
---
values: {"a.b": 1}
---
outputs: [x]
---
providers: {main: 3}
---
defaults: {Widget: {alias: x}}
---
defaults: {"Widget[a]": {size: 3}}
---
resources: ["Widget[a]"]
---
resources: {Widget: {}}
---
resources: {"Widget[]": {}}
---
resources: {"Widget['a']": {}}
---
resources: {'Widget["a"]': {}}
---
resources: {"Needy_one['a']": {size: 1}}
---
resources: {"WIDGET[a]": {}}
---
resources: {"Wodget[a]": {}}
---
resources: {"Widget[a": {}}
---
resources: {"Widget[a]": [size]}
---
resources: {"Widget[a]": {siez: 3}}
---
resources: {"Widget[a]": {serial: x}}
---
resources: {"Widget[a]": {size: 10}}
---
resources: {"Widget[a]": {size: "3"}}
---
resources: {"Widget[a]": {size: 1.5}}
---
resources: {"Widget[a]": {size: true}}
---
resources: {"Widget[a]": {size: "$${x}"}}
---
resources: {"Widget[a]": {weight: 0.25}}
---
resources: {"Widget[a]": {"on": 1}}
---
resources: {"Widget[a]": {code: ABC}}
---
resources: {"Widget[a]": {code: "abc\\n"}}
---
resources: {"Widget[a]": {tags: []}}
---
resources: {"Widget[a]": {tags: [c]}}
---
resources: {"Widget[a]": {tags: a}}
---
resources: {"Widget[a]": {pair: [1]}}
---
resources: {"Widget[a]": {pair: [true, 1]}}
---
resources: {"Widget[a]": {sizes: {z: 1}}}
---
resources: {"Widget[a]": {sizes: {x: a}}}
---
resources: {"Widget[a]": {place: {slot: l}}}
---
resources: {"Widget[a]": {place: {row: 1, more: 1}}}
---
resources: {"Widget[a]": {either: [a]}}
---
resources: {"Widget[a]": {given: text}}
---
resources: {"Widget[a]": {secret: text}}
---
resources: {"Widget[a]": {image: y}}
---
resources: {"Widget[a]": {ensure: Present}}
---
resources: {"Widget[a]": {require: 3}}
---
resources: {"Widget[a]": {require: b}}
---
resources: {"Widget[a]": {require: {Widget: a}}}
---
resources: {"Widget[a]": {require: ["Widget[b"]}}
---
resources: {"Widget[a]": {noop: "yes"}}
---
resources: {"Widget[a]": {noop: "$${inputs.on}"}}
---
resources: {"Widget[a]": {lifecycle: {deleted_with: "${facts.kernel}"}}}
---
resources: {"Widget[a]": {lifecycle: {replace_triggered_by: ["${facts.kernel}"]}}}
---
resources: {"Widget[a]": {lifecycle: {protct: "${facts.kernel}"}}}
---
resources: {"Widget[a]": {alias: "${facts.kernel}"}}
---
resources: {"Widget[a]": {provider: "${facts.kernel}"}}
---
resources: {"Widget[a]": {tag: [" x"]}}
---
resources: {"Widget[a]": {loglevel: loud}}
---
resources: {"Widget[a]": {alias: ""}}
---
resources: {"Widget[a]": {provider: "${inputs.x}"}}
---
resources: {"Widget[a]": {timeout: -1}}
---
resources: {"Widget[a]": {timeout: {delete: -1}}}
---
resources: {"Widget[a]": {timeout: {remove: 1}}}
---
resources: {"Widget[a]": {lifecycle: {protekt: true}}}
---
resources: {"Widget[a]": {lifecycle: {protect: "true"}}}
---
resources: {"Widget[a]": {lifecycle: {replace: always}}}
---
resources: {"Widget[a]": {lifecycle: {ignore_changes: size}}}
---
resources: {"Widget[a]": {lifecycle: {replace_triggered_by: "Widget[b]"}}}
---
resources: {"Widget[a]": {lifecycle: true}}
---
resources: {"Widget[a]": {retry: 3}}
---
resources: {"Widget[a]": {retry: {delay: 3}}}
---
resources: {"Widget[a]": {retry: {tries: 0}}}
---
resources: {"Widget[a]": {retry: {tries: 2, delay: -1}}}
---
resources: {"Widget[a]": {retry: {tries: 2, until: ready}}}
---
resources: {"Widget[a]": {on_failure: {Widget: b}}}
---
purge: {type: Widget, at_most: 1}
---
purge: [Widget]
---
purge: [{type: Widget}]
---
purge: [{at_most: 1}]
---
purge: [{type: Widget, at_most: -1}]
---
purge: [{type: "Widget[a]", at_most: 1}]
---
purge: [{type: Widget, at_most: 1, except: a}]
---
purge: [{type: Widget, at_most: 1, unless: [a]}]
---
purge: [{type: Widget, at_most: 1, where: [size]}]
---
purge: [{type: Widget, at_most: 1, where: {size: {is: 3}}}]
---
purge: [{type: Widget, at_most: 1, when: maybe}]
---
resources: {"Needy_one[a]": }
---
resources: {"Needy_one[a]": {noop: true}}
---
resources: {"needy_one[a]": {ensure: absent}}
---
providers: {site: {config: {url: a}}}
resources: {"Site[a]": {port: 80}}
---
providers: {site: {config: {url: a}}}
resources: {"Site[a]": {port: 80, ensure: present}}
---
providers: {site: {config: {url: a}}}
resources: {"Site[A b]": {host: a, page: x}}
---
providers: {site: {config: {url: a}}}
resources: {"Site[a/cc]": {page: x}}
---
providers: {main: {type: Site, config: {urll: a}}}
---
providers: {main: {type: site, config: {url: 3}}}
---
providers: {Site: {config: {url: a, limit: x}}}
---
providers: {main: {type: widget, config: {url: a}}}
---
providers: {main: {type: widget, implementation: three}}
---
resources: {"Widget[a]": {implementation: three}}
---
providers: {site: {config: {url: a}}}
values: {a: {invoke: freee, with: {host: a}}}
---
providers: {site: {config: {url: a}}}
values: {a: {invoke: free}}
---
providers: {site: {config: {url: a}}}
values: {a: {invoke: Site.free, with: {hots: a}}}
---
providers: {site: {config: {url: a}}}
values: {a: {invoke: all, with: {limit: x}}}
---
providers: {site: {config: {url: a}}}
values: {a: {invoke: all, wiht: {}}}
---
moved: {from: "Widget[a]", to: "Widget[b]"}
---
moved: [{from: "Widget[a]"}]
---
moved: [{from: "Widget[a]", to: b}]
---
removed: [Widget]
"""


def documents(corpus: str) -> Sequence[Any]:
    """Read each manifest of a corpus as the loader does."""
    return [yaml_reader.read(text.encode(), "site.yaml").data for text in corpus.split("\n---\n")]


def underlined(manifest: Any) -> list[str]:
    """Return the errors that an editor would show."""
    return [f"{list(error.absolute_path)}: {error.message}" for error in VALIDATOR.iter_errors(manifest)]


def test_it_is_a_schema_of_draft_7() -> None:
    """Editors support that draft; they ignore later keywords silently."""
    Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    for newer in ('"$defs"', '"prefixItems"', '"unevaluatedProperties"', '"dependentRequired"'):
        assert newer not in json.dumps(SCHEMA)


@pytest.mark.parametrize("manifest", documents(GOOD), ids=str)
def test_what_the_loader_accepts_is_not_marked(manifest: dict[str, Any]) -> None:
    """Each section, metaparameter and data type, empty ones too, and references wherever a value can stand."""
    assert loads(manifest)
    assert underlined(manifest) == []


@pytest.mark.parametrize("manifest", documents(BAD), ids=str)
def test_what_the_loader_refuses_is_marked(manifest: dict[str, Any]) -> None:
    """Each manifest has one mistake; without it, it would be accepted."""
    assert not loads(manifest)
    assert underlined(manifest) != []


@pytest.mark.parametrize(
    "manifest",
    [
        {"resources": {"Needy_one[a]": {}}, "defaults": {"Needy_one": {"noop": True}}},
        {"resources": {"Widget[a]": {"require": "Widget[b]"}}},
        {"resources": {"Widget[a]": {"size": "${Widget[b].size}"}}},
        {"resources": {"Widget[a]": {"size": 1.0}}},
    ],
    ids=str,
)
def test_what_a_schema_cannot_decide_is_left_to_the_loader(manifest: dict[str, Any]) -> None:
    """A mandatory attribute may come from ``defaults``, a name from another file, and JSON has one kind of number."""
    assert not loads(manifest)
    assert underlined(manifest) == []


VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 10)
    | st.floats(0, 1)
    | st.sampled_from(["a", "b", "x", "l", "$${a}", "é"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "row", "slot"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*WIDGET.attributes, "siez"]), VALUES, max_size=3))
def test_no_value_that_the_loader_accepts_is_marked(attributes: dict[str, Any]) -> None:
    """No accepted manifest is marked, and every marked one is refused."""
    manifest = {"resources": {"Widget[a]": attributes}}
    assert not (underlined(manifest) and loads(manifest))


SITES: Final = st.fixed_dictionaries(
    {},
    optional={
        "ensure": st.sampled_from(["present", "absent", "${inputs.e}", None]),
        "host": st.sampled_from(["a", None]),
        "port": st.just(80),
        "page": st.just("x"),
        "implementation": st.sampled_from(["main", "other", None]),
        "lifecycle": st.sampled_from([{"external": True}, None]),
    },
)


@given(
    st.sampled_from(["Site", "site"]),
    st.sampled_from(["a.b", "a/b", "A", "a b", "a/c", "é", "a]", "${inputs.e}"]),
    SITES | st.none(),
    st.sampled_from([{}, {"Site": {"page": "x"}}, {"site": {"ensure": "absent"}}, {"Widget": {"size": 1}}]),
    st.sampled_from(["present", "absent"]),
)
def test_no_resource_that_the_loader_accepts_is_incomplete(
    word: str, title: str, attributes: dict[str, Any] | None, defaults: dict[str, Any], ensure: str
) -> None:
    """Titles, mandatory attributes, ``ensure``, ``defaults`` and references in all combinations."""
    manifest = {
        "inputs": {"e": {"default": ensure}},
        "providers": {"site": {"config": {"url": "x"}}},
        "defaults": defaults,
        "resources": {f"{word}[{title}]": attributes},
    }
    assert not (underlined(manifest) and loads(manifest))


def test_an_editor_offers_resources_with_what_they_need() -> None:
    """A snippet for each type, which is a resource that is not marked once its places are filled."""
    offered = {
        defaultsnippet["label"]: defaultsnippet
        for defaultsnippet in SCHEMA["properties"]["resources"]["defaultSnippets"]
    }
    assert list(offered) == ["Needy_one[name]", "Site[title]", "Widget[name]"]
    assert offered["Site[title]"]["description"] == "A site."
    assert offered["Needy_one[name]"]["body"] == {"Needy_one[${1:name}]": {"size": "$2"}}
    assert offered["Widget[name]"]["body"] == {"Widget[${1:name}]": {"ensure": "${2:present}"}}


def test_every_section_and_metaparameter_is_known() -> None:
    """What is added to the loader is added to the schema."""
    assert list(SCHEMA["properties"]) == list(sections.SECTIONS)
    result = {
        name.removeprefix("metaparameter-") for name in SCHEMA["definitions"] if name.startswith("metaparameter-")
    }
    assert result == METAPARAMETERS
    assert SCHEMA["definitions"]["type-widget"]["properties"].keys() >= METAPARAMETERS


def test_the_words_of_metaparameters_are_those_of_the_loader() -> None:
    """The keys of ``lifecycle`` and ``timeout``, and the values of those that are one of a few words, are the same."""
    words = {name: body.get("anyOf") or [body] for name, body in SCHEMA["definitions"].items()}
    lifecycle, timeout = words["metaparameter-lifecycle"][0], words["metaparameter-timeout"][1]
    assert lifecycle["properties"].keys() == metaparameters._LIFECYCLE.keys()
    assert timeout["properties"].keys() == set(OPERATIONS)
    assert words["metaparameter-loglevel"][0]["enum"] == list(metaparameters.LOGLEVELS)
    assert lifecycle["properties"]["replace"]["anyOf"][0]["enum"] == list(metaparameters.REPLACEMENTS)


def test_an_editor_shows_what_an_attribute_means() -> None:
    """An editor shows the documentation, data type, kind and default, but never a secret default."""
    properties = SCHEMA["definitions"]["type-widget"]["properties"]
    assert properties["size"]["description"] == "How big it is.\n\nOptional[Integer[0, 9]]: property"
    assert properties["ensure"]["default"] == "present"
    assert SCHEMA["definitions"]["type-widget"]["description"] == "A widget."
    assert "mandatory" in SCHEMA["definitions"]["type-needy_one"]["properties"]["size"]["description"]
    assert "default" not in properties["secret"]
    assert "default 7" not in json.dumps(SCHEMA)
    assert all(body.get("description") for name, body in SCHEMA["properties"].items()), "a section without a word"


def test_the_same_types_give_the_same_text() -> None:
    """The order in which types are found makes no difference to a schema that is kept in a repository."""
    assert json.dumps(schema.manifest_schema([SITE, NEEDY, WIDGET], IMPLEMENTATIONS)) == json.dumps(SCHEMA)


def test_the_bundled_types_have_a_schema() -> None:
    """All of them together, and every reference within it leads somewhere."""
    registry = Registry(ModulePath([BUNDLED], distributions=False))
    result = schema.manifest_schema(map(registry.type, registry.names()))
    Draft7Validator.check_schema(result)
    text = json.dumps(result)
    for target in set(re.findall(r'"#/([^"]+)"', text)):
        path = result
        for step in target.split("/"):
            path = path[step]
