"""Invalid type and provider files: each disables itself only and is reported with its fault."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from resource_api import BaseProvider, Function, Registry, TypeDefinition

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

NAME = '"name": Attribute("String", "n", kind="namevar")'
ENSURE = '"ensure": Attribute("Enum[present, absent]", "e", default="present")'
PROVIDER = "def get(self, context): return []\ndef set(self, context, changes): pass"


def refusals(bench: Bench, count: int) -> list[str]:
    """Return the error of each of the types ``odd0`` and so on, when one manifest uses all of them."""
    lines = "".join(f"  Odd{number}[a]: {{}}\n" for number in range(count))
    result = bench.apply(f"resources:\n  Widget[w]: {{}}\n{lines}")
    assert (result.code, result.out) == (65, ""), result
    assert bench.calls("widget") == []
    words = re.split(r"^\S*site\.yaml:(\d+):3: ", result.err, flags=re.MULTILINE)
    assert words[1::2] == [str(number + 3) for number in range(count)]
    return words[2::2]


def refused(bench: Bench, name: str = "odd") -> str:
    """Return the error for a manifest with a resource of a broken type."""
    result = bench.apply(f"resources:\n  Widget[w]: {{}}\n  {name.capitalize()}[a]: {{}}\n")
    assert (result.code, result.out) == (65, ""), result
    assert bench.calls("widget") == []
    return result.err


ATTRIBUTES: list[tuple[str, list[str]]] = [
    (f'{NAME}, "a": Attribute("Strng", "x")', ["'a'", "Strng"]),
    (f'{NAME}, "a": Attribute("Optional[String", "x")', ["'a'", "Optional[String", "column"]),
    (f'{NAME}, "a": Attribute("Integer[5,1]", "x")', ["'a'", "Integer[5"]),
    (f'{NAME}, "a": Attribute("Pattern[/(/]", "x")', ["'a'", "Pattern"]),
    (f'{NAME}, "a": Attribute("String", "x", kind="wobble")', ["'a'", "wobble"]),
    (f'{NAME}, "a": Attribute("String", "x", kind="readonly")', ["'a'", "read_only"]),
    (f'{NAME}, "a": Attribute("String", "x", kind="property")', ["'property' is not a kind; a property has none"]),
    (f'{NAME}, "a": Attribute("String", desc="x")', ["'a'", "'docs'"]),
    (f'{NAME}, "a": Attribute("String", "x", behaviour="namevar")', ["'a'", "'kind'"]),
    (f'{NAME}, "a": Attribute("String", "x", behavior="namevar")', ["'a'", "'kind'"]),
    (f'{NAME}, "a": Attribute("String", "x", default=1)', ["'a'", "default"]),
    (f'{NAME}, "a": Attribute("String", "x", kind="read_only", default="x")', ["'a'", "default"]),
    (f'{NAME}, "a": "String"', ["'a'", "Attribute"]),
    (f'{NAME}, "tag": Attribute("Any"), "tag_": Attribute("Any")', ["'tag_': manifests write the attribute 'tag' so"]),
    (f'{NAME}, "A": Attribute("String", "x")', ["'A'"]),
    ('"a": Attribute("String", "x")', ["namevar"]),
    *(
        (f'"a": Attribute("{datatype}", "x", kind="namevar")', ["'a'", "list or a mapping", datatype])
        for datatype in (
            *("Array[String]", "Hash", "Any", "Data", "Struct[{x => String}]", "Tuple[String]"),
            *("Variant[String, Array[String]]", "Optional[Hash]", "NotUndef"),
        )
    ),
    (f'{NAME}, "a": Attribute("String", "x", kind="parameter", write_only=True)', ["'a'", "write_only"]),
    (f'{NAME}, "a": Attribute("String", 5)', ["'a'", "docs must be text, not 5"]),
    (f'{NAME}, "a": Attribute("Pattern[/x/]", "x", must_be=3)', ["'a'", "must_be must be text, not 3"]),
    (f'{NAME}, "a": Attribute("String", "x", derived_from=["b"])', ["'a'", "derived_from must be text, not ['b']"]),
    (f'{NAME}, "a": Attribute("String", "x", write_only="no")', ["'a'", "write_only must be True or False, not 'no'"]),
    (f'{NAME}, "ensure": Attribute("Enum[present, absent]", write_only=True)', ["'ensure'", "that get returns"]),
]


def test_a_wrong_attribute_is_named_with_its_error(bench: Bench) -> None:
    """The type is unusable, and the message names the type, the attribute and the error."""
    for number, (attributes, _) in enumerate(ATTRIBUTES):
        bench.type(f"odd{number}", attributes, provider=PROVIDER, base="BaseProvider")
    for number, message in enumerate(refusals(bench, len(ATTRIBUTES))):
        for word in (f"odd{number}", *ATTRIBUTES[number][1]):
            assert word in message, message


SOURCES: list[tuple[str, list[str]]] = [
    ("TYPE = TypeDefinition(docs='x', attributes={})", ["name"]),
    ("TYPE = TypeDefinition(name='odd', docs='x')", ["attributes"]),
    ("TYPE = TypeDefinition(name='odd', docs='x', attributes=['a'])", ["attributes", "list"]),
    (
        "TYPE = TypeDefinition(name='other', docs='x', attributes={'n': Attribute('String', kind='namevar')})",
        ["other"],
    ),
    ("TYPE = 3", ["TYPE", "TypeDefinition"]),
    ("X = 3", ["defines no TYPE\n"]),
    (f"type = TypeDefinition(name='odd', attributes={{{NAME}}})", ["defines no TYPE; rename 'type' to TYPE"]),
    ("TYPE = (", ["3"]),
    ("raise RuntimeError('no luck today')", ["no luck today", ":3"]),
    ("raise SystemExit(3)", ["exits"]),
    ("print('hello')", ["prints"]),
    ("import sys; sys.path.append('/x')", ["sys.path"]),
    (
        "TYPE = TypeDefinition(name='odd', desc='x', attributes={'n': Attribute('String', kind='namevar')})",
        ["'docs'"],
    ),
    (
        f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, title_patterns='x')",
        ["list"],
    ),
    (
        f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, title_patterns=['x'])",
        ["title_patterns[0]", "mapping", "'pattern': REGEX"],
    ),
    (
        f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, brought_by={{'package': 'name'}})",
        ["brought_by of 'package': 'name' is not a read_only attribute"],
    ),
    (f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, docs=5)", ["docs must be text, not 5"]),
    (f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, timeout=10**400)", ["timeout must be a number"]),
    (f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, functions=['f'])", ["functions must be a mapping"]),
    (
        f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, autorequires={{'File': '$name'}})",
        ["autorequires: 'File' is no name of a type", "{'file': '$path'}"],
    ),
    (
        f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, brought_by={{'package': ['name']}})",
        ["brought_by of 'package': ['name'] is not a read_only attribute"],
    ),
    (
        "TYPE = TypeDefinition(name='odd', attributes={'a': 'String'}, identity='title')",
        ["attribute 'a': must be an Attribute(...), not str"],
    ),
    (
        f"import resource_api as r;TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, docs=r.Function(inputs=5))",
        ["docs must be text, not Function(5 → Any)"],
    ),
    (
        f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, brought_by='package')",
        ["brought_by must be a mapping such as {'package': 'package'}, not 'package'"],
    ),
    (
        f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, autorequires={{'widget': '$nope'}})",
        ["nope"],
    ),
    *(
        (f"TYPE = TypeDefinition(name='odd', attributes={{{NAME}}}, {keyword}={value})", [keyword, word])
        for keyword, value, word in (
            ("features", "'canonicalize'", "set of names"),
            ("features", "5", "set of names"),
            ("features", "[['canonicalize']]", "set of names"),
            ("autorequires", "['file']", "mapping of types to titles"),
            ("autonotify", "'file'", "mapping of types to titles"),
            ("autobefore", "{'file': 5}", "titles are written as"),
        )
    ),
]


def test_a_wrong_type_file_is_named_with_its_error(bench: Bench) -> None:
    """A type file that cannot be used is reported with the reason."""
    for number, (source, _) in enumerate(SOURCES):
        text = source.replace("'odd'", f"'odd{number}'")
        bench.write(f"modules/types/odd{number}.py", f"from resource_api import Attribute, TypeDefinition\n\n{text}\n")
        bench.write(f"modules/providers/odd{number}.py", "from resource_api import SimpleProvider as Provider\n")
    for number, message in enumerate(refusals(bench, len(SOURCES))):
        for word in (f"odd{number}", *SOURCES[number][1]):
            assert word in message, message


PROMISES: list[tuple[list[str], str, list[str]]] = [
    (["canonicalize"], PROVIDER, ["canonicalize"]),
    (["custom_insync"], PROVIDER, ["insync"]),
    (["refreshable"], PROVIDER, ["refresh"]),
    (["imperative"], PROVIDER, ["due"]),
    (["validate"], PROVIDER, ["validate"]),
    (["plan"], PROVIDER, ["plan"]),
    (["upgrade"], PROVIDER, ["upgrade"]),
    (["preflight"], PROVIDER, ["preflight"]),
    (["simple_get_filter"], PROVIDER, ["names"]),
    (["noop_handler"], PROVIDER, ["noop"]),
    ([], "def get(self, context): return []", ["no method 'set'"]),
    ([], "def set(self, context, changes): pass", ["no method 'get'"]),
    ([], PROVIDER + "\ndef canonicalize(self, context, resources): return resources", ["canonicalize"]),
    ([], PROVIDER + "\ndef insync(self, *a): return None", ["insync", "_insync"]),
    ([], PROVIDER + "\ndef refresh(self, context, names): pass", ["refresh"]),
    ([], "def get(self, context): return []\ndef set(self, context, changes, *, noop=False): pass", ["noop"]),
]


def test_a_feature_and_its_method_belong_together(bench: Bench) -> None:
    """A feature without its method, or its method without the feature, is an error at load."""
    for number, (features, provider, _) in enumerate(PROMISES):
        bench.type(f"odd{number}", f"{NAME}, {ENSURE}", provider=provider, base="BaseProvider", features=features)
    for number, message in enumerate(refusals(bench, len(PROMISES))):
        for word in (f"odd{number}", *PROMISES[number][2]):
            assert word in message, message


MISSPELT: list[tuple[list[str], str, str, str]] = [
    ([], PROVIDER + "\ndef canonicalise(self, context, resources): return resources", "canonicalise", "canonicalize"),
    (["refreshable"], PROVIDER + "\ndef refesh(self, context, names): pass", "refesh", "refresh"),
    (["custom_insync"], PROVIDER + "\ndef inync(self, *given): return None", "inync", "insync"),
    ([], PROVIDER + "\ndef uprgade(self, version, values): return values", "uprgade", "upgrade"),
    ([], PROVIDER + "\ndef closee(self): pass", "closee", "close"),
    ([], PROVIDER + "\n@staticmethod\ndef suitible(context): return True", "suitible", "suitable"),
    ([], "def instances(self, context): return []\ndef set(self, context, changes): pass", "instances", "get"),
    ([], "def gte(self, context): return []\ndef set(self, context, changes): pass", "gte", "get"),
]


def test_a_misspelt_method_is_an_error_that_names_the_right_one(bench: Bench) -> None:
    """A public method one letter from one that the provider lacks would never be called."""
    for number, (features, provider, *_) in enumerate(MISSPELT):
        bench.type(f"odd{number}", f"{NAME}, {ENSURE}", provider=provider, base="BaseProvider", features=features)
    for number, message in enumerate(refusals(bench, len(MISSPELT))):
        *_, written, right = MISSPELT[number]
        assert f"has the method '{written}', which nothing calls; did you mean '{right}'?" in message, message
        assert "has no method" not in message


def test_a_misspelt_method_of_a_simple_provider_is_an_error(bench: Bench) -> None:
    """``create``, ``update`` and ``delete`` are methods of its interface."""
    bench.type("odd", f"{NAME}, {ENSURE}", provider="def get(self, context): return []\ndef delte(self, *given): pass")
    assert "'delte', which nothing calls; did you mean 'delete'?" in refused(bench)
    bench.type("odd", f"{NAME}, {ENSURE}", provider="def get(self, context): return []\ndef destroy(self): pass")
    assert "'destroy', which nothing calls; did you mean 'delete'?" in refused(bench)


def test_a_missing_set_of_a_simple_provider_is_explained(bench: Bench) -> None:
    """``create``, ``update`` and ``delete`` without the base class that calls them."""
    plain = "def get(self, context): return []\ndef create(self, context, name, should): pass"
    bench.type("odd", f"{NAME}, {ENSURE}", provider=plain, base="BaseProvider")
    words = (
        "provider of 'odd' has no method 'set'; inherit it from SimpleProvider, and it calls create, update and delete"
    )
    assert words in refused(bench)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class Odd:\n    def get(self): pass\n", "defines no Provider; rename 'Odd' to Provider"),
        ("class Odd: pass\n", "defines no Provider\n"),
        ("class Odd:\n    def get(self): pass\nclass Other(Odd): pass\n", "defines no Provider\n"),
        (
            "def present(change):\n    return change.is is not None\n",
            "odd.py:2: SyntaxError: invalid syntax; 'is' is a word of Python: write .is_\n",
        ),
    ],
)
def test_a_provider_file_without_a_provider_is_an_error(bench: Bench, source: str, words: str) -> None:
    """The class that is meant is named, where there is one; so is the field of a change that cannot be called 'is'."""
    bench.type("odd", f"{NAME}, {ENSURE}")
    bench.write("modules/providers/odd.py", source)
    assert words in refused(bench)


GET = "def get(self, context): return []\n"
UNCALLABLE: list[tuple[str, str, str]] = [
    ("SimpleProvider", GET + "def create(self, context, name): pass", "create is called with context, name, should"),
    ("SimpleProvider", GET + "def delete(self, context, name, old): pass", "delete is called with context, name, but"),
    ("SimpleProvider", GET + "def update(self, *given): yield", "update has a 'yield', so that it would do nothing"),
    ("BaseProvider", GET + "def set(self, context, changes): yield", "set has a 'yield', so that it would do nothing"),
    (
        "SimpleProvider",
        "def get(self, context, names): return []",
        "get is called with 'names' only for a type with the feature 'simple_get_filter'; write 'names=None'",
    ),
    (
        "SimpleProvider",
        "def get(self, context, names=[]): return []",
        "get is called with None for all resources, not with []; write 'names=None'",
    ),
    ("SimpleProvider", "def get(self): return []", "get is called with context, but takes 0 arguments beside self"),
    ("SimpleProvider", "def get(self, context, names, more): return []", "get is called with 'names' only for a type"),
    (
        "SimpleProvider",
        GET + "def close(self, context): pass",
        "close is called with no arguments, but takes 1 argument",
    ),
    ("SimpleProvider", GET + "def cancel(self, context): pass", "cancel is called with no arguments, but takes 1 "),
    ("BaseProvider", "async " + PROVIDER, "get is async, and nothing awaits it; write a plain 'def'"),
    ("BaseProvider", "async def get(self, context): yield {}\ndef set(self, context, changes): pass", "get is async"),
    ("BaseProvider", GET + "async def set(self, context, changes): pass", "set is async"),
]


def test_a_method_that_would_do_nothing_or_cannot_be_called_is_an_error(bench: Bench) -> None:
    """The code of one that is async or has a ``yield`` would never run, and the failure would name something else."""
    for number, (base, provider, _) in enumerate(UNCALLABLE):
        bench.type(f"odd{number}", f"{NAME}, {ENSURE}", provider=provider, base=base)
    for number, message in enumerate(refusals(bench, len(UNCALLABLE))):
        assert f"providers/odd{number}.py: provider of 'odd{number}': {UNCALLABLE[number][2]}" in message, message


def test_what_is_called_otherwise_may_take_other_arguments(bench: Bench) -> None:
    """A ``get`` with a ``yield``, and ``create`` as a helper of a ``set`` of its own."""
    private = "def get(self, context): yield from ()\ndef set(self, context, changes): pass\ndef create(self): pass"
    bench.type("odd", f"{NAME}, {ENSURE}", provider=private)
    assert bench.validate("resources: {'Odd[a]': {}}").code == 0


def test_a_method_that_a_simple_provider_lacks_is_named(bench: Bench) -> None:
    """When it is needed: a provider that cannot create may still change and delete."""
    bench.type("odd", f"{NAME}, {ENSURE}", provider=GET)
    result = bench.apply("resources: {'Odd[a]': {}}")
    assert result.code == 1
    assert "Error: Odd[a]: Creating failed: the provider has no method 'create'" in result.lines


def test_methods_that_are_used_or_declared_are_not_misspelt(bench: Bench) -> None:
    """A method that another one calls, a function of the type, and one beside the method that it resembles."""
    consumed = (
        "\ndef clone(self): pass\ndef cloze(self): pass\ndef _all(self): return [each.cloze() for each in self.clone()]"
    )
    bench.type("odd", f"{NAME}, {ENSURE}", provider=PROVIDER + consumed, base="BaseProvider")
    assert bench.validate("resources: {'Odd[a]': {}}").code == 0
    both = "\ndef canonicalize(self, context, rows): return rows\ndef canonicalise(self, context, rows): return rows"
    bench.type("even", NAME, provider=PROVIDER + both, base="BaseProvider", features=["canonicalize"])
    assert bench.validate("resources: {'Even[a]': {}}").code == 0
    registry = Registry()
    plane = Function(docs="Return a number.", inputs={}, output="Integer")
    registry.register_type(TypeDefinition(name="tools", docs="Tools.", attributes={}, functions={"plane": plane}))
    registry.register_provider("tools", type("Provider", (BaseProvider,), {"plane": lambda _self, _context: 1}))


def test_a_method_with_an_underscore_is_a_helper(bench: Bench) -> None:
    """A method with a leading underscore needs no feature."""
    bench.type("odd", f"{NAME}, {ENSURE}", provider=PROVIDER + "\ndef _refresh(self): pass", base="BaseProvider")
    assert bench.validate("resources: {'Odd[a]': {}}").code == 0


def test_an_unknown_feature_is_a_warning(bench: Bench) -> None:
    """The warning names the nearest feature, and the type can be used."""
    bench.type("odd", f"{NAME}, {ENSURE}", provider=PROVIDER, base="BaseProvider", features=["canonicalise"])
    result = bench.validate("resources: {'Odd[a]': {ensure: absent}}")
    assert result.code == 0
    assert "canonicalise" in result.err
    assert "did you mean 'canonicalize'?" in result.err
    assert result.lines[0].startswith("Warning: ")


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        ("supports_noop", "unknown feature 'supports_noop' is ignored; it is 'noop_handler' here"),
        ("remote_resource", "is ignored; a type with 'config' is one that manages something elsewhere"),
    ],
)
def test_a_feature_of_puppet_that_has_another_name_is_explained(bench: Bench, feature: str, words: str) -> None:
    """The others have the same names."""
    bench.type("odd", f"{NAME}, {ENSURE}", provider=PROVIDER, base="BaseProvider", features=[feature])
    assert words in bench.validate("resources: {'Odd[a]': {ensure: absent}}").err


def test_a_type_without_a_provider_is_an_error(bench: Bench) -> None:
    """The message names the provider file that is expected."""
    bench.type("odd", f"{NAME}, {ENSURE}")
    assert "providers/odd.py" in refused(bench)


def test_a_wrong_provider_file_is_an_error(bench: Bench) -> None:
    """The message names the provider file."""
    sources = ("Provider = 3", "X = 1", "import nosuch_module", "class Provider: pass", "def f(:")
    for number, source in enumerate(sources):
        bench.type(f"odd{number}", f"{NAME}, {ENSURE}")
        bench.write(f"modules/providers/odd{number}.py", source + "\n")
    for number, message in enumerate(refusals(bench, len(sources))):
        assert f"providers/odd{number}.py" in message


def test_a_broken_type_affects_only_manifests_that_use_it(bench: Bench) -> None:
    """A broken type is reported by ``types``, and a manifest that does not use it is applied without a message."""
    bench.write("modules/types/odd.py", "raise RuntimeError('broken')\n")
    assert bench.apply("resources: {'Widget[a]': {}}").err == "Notice: Widget[a]: Successfully created\n"
    listed = bench.run("types")
    assert listed.code == 0
    assert "widget" in listed.out
    assert "odd" not in listed.out
    assert "broken" in listed.err


def test_all_errors_of_a_type_are_reported_at_once(bench: Bench) -> None:
    """One run reports three errors of one type."""
    bench.type("odd", '"a": Attribute("Strng", "x"), "b": Attribute("String", kind="wobble"), "C": Attribute("Any")')
    bench.write("modules/providers/odd.py", "from resource_api import SimpleProvider as Provider\n")
    message = refused(bench)
    for word in ("Strng", "wobble", "lower case"):
        assert word in message


def test_the_first_directory_on_the_path_wins(bench: Bench) -> None:
    """A type in a directory from the command line takes precedence over the type in the environment."""
    bench.type("widget", f"{NAME}, {ENSURE}", provider=PROVIDER, base="BaseProvider")
    bench.write("other/types/widget.py", "raise RuntimeError('the other one')\n")
    manifest = "resources: {'Widget[a]': {ensure: absent}}"
    assert bench.validate(manifest).code == 0
    result = bench.validate(manifest, "--module-path", "other")
    assert result.code == 65
    assert "the other one" in result.err


def test_types_beside_the_manifest_are_found(bench: Bench) -> None:
    """A type in the directory of the manifest is loaded."""
    text = f"from resource_api import *\nTYPE = TypeDefinition(name='own', attributes={{{NAME}}})\n"
    bench.write("site/types/own.py", text)
    provider = "from resource_api import SimpleProvider\nclass Provider(SimpleProvider):\n    get = dict\n"
    bench.write("site/providers/own.py", provider)
    bench.write("site/site.yaml", "resources: {'Own[a]': {}}\n")
    assert bench.run("validate", "site/site.yaml").code == 0


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
def test_upgrade_receives_only_the_version_and_the_values(bench: Bench) -> None:
    """``upgrade`` receives the recorded version and values, and its result is the base of the drift."""
    reads = "def get(self, context): return [{'name': 'a', 'ensure': 'present', 'size': 'small'}]\n"
    sets = "def set(self, context, changes): raise RuntimeError('nothing is to be done')\n"
    upgrades = "def upgrade(self, version, values): return {**values, 'size': f'{version} was small'}\n"
    attributes = f"{NAME}, {ENSURE}, 'size': Attribute('String')"
    state = ("--state", f"sqlite:{bench.home}/state.db")
    bench.type("grown", attributes, provider=reads + sets, base="BaseProvider")
    assert bench.apply("resources: {'Grown[a]': {size: small}}", *state).code == 0
    more = {"features": ["upgrade"], "schema_version": 2}
    bench.type("grown", attributes, provider=reads + sets + upgrades, base="BaseProvider", **more)
    result = bench.plan("resources: {'Grown[a]': {size: small}}", "--json", *state)
    assert result.code == 0, result
    (drift,) = result.document["drift"]
    assert [(change["attribute"], change["is"]) for change in drift["changes"]] == [("size", "small")]


@pytest.mark.parametrize("name", ["../other/types/odd", "odd/../odd", "types.odd", "-odd", "od\nd", "o" * 300, "\x00"])
def test_a_name_that_is_no_identifier_is_no_type(bench: Bench, name: str) -> None:
    """A name never leads out of the directory ``types``: a type is found by an identifier only."""
    bench.type("odd", f"{NAME}, {ENSURE}", provider=PROVIDER, base="BaseProvider")
    bench.write("modules/other/types/odd.py", "raise RuntimeError('this was executed')\n")
    result = bench.validate(json.dumps({"resources": {f"{name}[a]": {}}}))
    assert result.code == 65
    assert "this was executed" not in result.err
    assert "Traceback" not in result.err
