"""References: values from inputs, facts, other values and other resources."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


def colour(bench: Bench, text: str, *options: str, head: str = "") -> object:
    """Return the colour of ``Widget[z]`` after a manifest that declares it as ``text`` is applied."""
    second = "Widget[a]: {size: 3, labels: {x: 7}, parts: [p, q]}"
    result = bench.apply(f"{head}\nresources:\n  Widget[z]: {{colour: {text}}}\n  {second}\n", *options)
    assert result.code == 0, result
    return bench.things("widget")["z"]["colour"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"${Widget[a].name}"', "a"),
        ('"no ${Widget[a].size} of ${Widget[a].name}"', "no 3 of a"),
        ('"${Widget[a].labels.x}th"', "7th"),
        ('"${Widget[a].parts.1}"', "q"),
        ('"$${Widget[a].name}"', "${Widget[a].name}"),
        ('"${Widget[a].force}!"', "false!"),
        ('"${Widget[a].serial}"', "S-a"),
        ('"<${Widget[a].serial}>"', "<S-a>"),
        ('"plain $ { } text"', "plain $ { } text"),
    ],
)
def test_a_reference_yields_the_value_of_the_other_resource(bench: Bench, text: str, expected: str) -> None:
    """A declared, default or reported value is passed on, and the reference implies ``require``."""
    assert colour(bench, text) == expected
    (first, *_) = bench.calls("widget", "set")
    assert next(iter(first)) == ("a" if "Widget[a]" in text and "$$" not in text else "z")


def test_a_whole_reference_keeps_its_type(bench: Bench) -> None:
    """A value that is only a reference keeps its data type, and a list inside a text is refused."""
    result = bench.apply(
        """
        resources:
          Widget[a]: {size: 3, labels: {x: 7}, parts: [p, q]}
          Widget[b]: {size: "${Widget[a].labels.x}", parts: "${Widget[a].parts}", labels: "${Widget[a].labels}"}
        """
    )
    assert result.code == 0
    assert bench.things("widget")["b"] == {"size": 7, "parts": ["p", "q"], "labels": {"x": 7}, "serial": "S-b"}
    refused = bench.apply("resources: {'Widget[a]': {parts: [p]}, 'Widget[b]': {colour: 'x ${Widget[a].parts}'}}")
    assert refused.code == 65
    assert "list" in refused.err


NOTHING: list[tuple[str, list[str]]] = [
    ("${Widget[q].name}", ["unknown resource", "Widget[q]"]),
    ("${Widget[a].nmae}", ["unknown attribute", "did you mean 'name'?"]),
    ("${Nope[a].name}", ["unknown resource"]),
    ("${inputs.nope}", ["nope"]),
    ("${values.nope}", ["nope"]),
    ("${facts.nope}", ["nope"]),
    ("${facts.os.nope}", ["nope"]),
    ("${nonsense}", ["not a reference", "$${"]),
    ("${Widget[a]}", ["not a reference"]),
    ("${Widget[a].size", ["not a reference"]),
    ("${Widget[a].labels.nope}", ["nope"]),
]


def test_an_unresolved_reference_is_refused(bench: Bench) -> None:
    """Each reference that cannot be resolved is an error with its line, and no provider is called."""
    lines = "".join(f"  Widget[w{number}]:\n    colour: '{text}'\n" for number, (text, _) in enumerate(NOTHING))
    result = bench.apply(f"resources:\n  Widget[a]: {{labels: {{x: 1}}}}\n{lines}")
    assert result.code == 65
    assert bench.calls("widget") == []
    assert len(result.lines) == len(NOTHING)
    for number, (line, (text, words)) in enumerate(zip(result.lines, NOTHING, strict=True)):
        assert f"site.yaml:{2 * number + 4}:" in line, (text, line)
        for word in words:
            assert word in line, line


def test_a_referenced_value_of_another_type_is_an_error(bench: Bench) -> None:
    """A known value is checked with the manifest, and a later one fails its resource only."""
    declared = bench.apply("resources: {'Widget[a]': {colour: red}, 'Widget[b]': {size: '${Widget[a].colour}'}}")
    assert declared.code == 65
    bench.type(
        "lot",
        bench.NAMED + "'number': Attribute('Optional[Integer]', 'n', kind='read_only'),",
        provider="""
        made = False
        def get(self, context, names=None): return [{"name": "a", "ensure": "present", "number": 700}] * self.made
        def create(self, context, name, should): self.made = True
        """,
    )
    later = bench.stream("resources: {'Lot[a]': {}, 'Widget[b]': {size: '${Lot[a].number}'}, 'Widget[c]': {}}")
    assert later.code == 1
    assert later.ends()["Widget[b]"]["status"] == "failed"
    assert "size" in later.ends()["Widget[b]"]["error"]
    assert sorted(bench.things("widget")) == ["c"]


def test_an_unknown_value_is_never_passed_to_a_provider(bench: Bench) -> None:
    """The plan shows an unknown value with its expression, and apply passes the value that is then known."""
    manifest = "resources: {'Widget[a]': {}, 'Token[1]': {tint: '${Widget[a].serial}'}}"
    planned = bench.plan(manifest)
    assert planned.code == 0
    assert "tint: (none) → (known after apply)" in planned.out
    document = bench.plan(manifest, "--json").document
    step = next(item for item in document["steps"] if item["reference"] == "Token[1]")
    assert step["unknown"] == ["tint"]
    assert step["expressions"] == {"tint": "${Widget[a].serial}"}
    assert bench.apply(manifest).code == 0
    assert bench.things("token")["1"]["tint"] == "S-A"


def test_values_of_existing_resources_are_known_in_the_plan(bench: Bench) -> None:
    """A plan shows the actual value of a resource that exists."""
    bench.put("widget", a={"serial": "S-old"})
    planned = bench.plan("resources: {'Widget[a]': {}, 'Widget[b]': {colour: '${Widget[a].serial}'}}")
    assert "S-old" in planned.out
    assert "known after" not in planned.out


def test_references_within_one_type_split_the_call(bench: Bench) -> None:
    """A call is split only where a value is needed that the same call yields."""
    bench.apply("resources: {'Widget[a]': {}, 'Widget[b]': {colour: '${Widget[a].serial}'}, 'Widget[c]': {}}")
    assert [list(call) for call in bench.calls("widget", "set")] == [["a"], ["b", "c"]]
    (bench.things_of / "widget.calls").unlink()
    bench.apply("resources: {'Widget[d]': {size: 1}, 'Widget[e]': {colour: '${Widget[d].name}'}}")
    assert [list(call) for call in bench.calls("widget", "set")] == [["d", "e"]]


def test_a_reference_to_something_absent_fails(bench: Bench) -> None:
    """A reference to a resource with ``ensure: absent`` is an error that names it."""
    manifest = "resources: {'Widget[a]': {ensure: absent}, 'Widget[b]': {colour: '${Widget[a].serial}'}}"
    result = bench.apply(manifest)
    assert result.code in {1, 65}
    assert "Widget[a]" in result.err
    assert bench.things("widget") == {}


def test_a_title_with_brackets_can_be_referred_to(bench: Bench) -> None:
    """A title ends at the first ``].`` that an attribute name follows."""
    result = bench.apply("resources: {'Widget[a[1].b c]': {size: 4}, 'Widget[z]': {size: '${Widget[a[1].b c].size}'}}")
    refused = result.code == 65
    second = bench.apply("resources: {'Widget[a[1] c]': {size: 4}, 'Widget[z]': {size: '${Widget[a[1] c].size}'}}")
    assert refused
    assert second.code == 0
    assert bench.things("widget")["z"]["size"] == 4


def test_titles_may_use_inputs_and_facts(bench: Bench) -> None:
    """A title may use inputs and facts, and one that uses a resource is refused."""
    head = "inputs: {who: {type: String, default: me}}\n"
    result = bench.apply(head + "resources:\n  Widget[${inputs.who} on ${facts.kernel}]: {}\n")
    assert result.code == 0
    assert list(bench.things("widget")) == ["me on Linux"]
    refused = bench.apply("resources:\n  Widget[a]: {}\n  'Widget[${Widget[a].serial}]': {}\n")
    assert refused.code == 65
    assert "title" in refused.err


NAMED = """
inputs: {who: {type: String, default: me}}
resources:
  "Widget[${inputs.who}]": {size: 4}
  Widget[x]: {%s}
"""


@pytest.mark.parametrize(
    "declared",
    [
        *(f"{word}: 'Widget[${{inputs.who}}]'" for word in ("require", "before", "notify", "subscribe")),
        "require: ['Widget[${inputs.who}]']",
        "lifecycle: {replace_triggered_by: ['Widget[${inputs.who}]']}",
        "lifecycle: {deleted_with: 'Widget[${inputs.who}]'}",
        "size: '${Widget[${inputs.who}].size}'",
    ],
)
def test_an_interpolated_title_is_resolved_everywhere(bench: Bench, declared: str) -> None:
    """An interpolated title is resolved in relationships, in ``lifecycle`` and in references."""
    assert bench.apply(NAMED % declared).code == 0
    wrong = bench.validate(NAMED % declared.replace("${inputs.who}", "${inputs.whoo}"))
    assert wrong.code == 65
    assert "unknown input 'whoo'; did you mean 'who'?" in wrong.err
    assert len(wrong.lines) == 1


def test_relationships_to_interpolated_titles_order(bench: Bench) -> None:
    """A relationship or reference to an interpolated title orders the resources."""
    late = "resources:\n  Widget[x]: {%s}\n  'Widget[${facts.kernel}]': {size: 4}\n"
    for declared in ("require: 'Widget[${facts.kernel}]'", "size: '${Widget[${facts.kernel}].size}'"):
        result = bench.run("plan", bench.write("site.yaml", late % declared), "--json")
        assert [step["reference"] for step in result.document["steps"]] == ["Widget[Linux]", "Widget[x]"]


def test_moves_and_removals_use_interpolated_titles(bench: Bench) -> None:
    """``moved`` records the resolved title, and ``removed`` forgets it."""
    state = {"RESOURCE_API_STATE": f"sqlite:{bench.home}/state.db"}
    site = bench.write("site.yaml", "resources: {'Widget[old]': {}, 'Widget[gone]': {}}\n")
    assert bench.run("apply", site, **state).code == 0
    bench.write(
        "site.yaml",
        """
        inputs: {n: {type: String, default: new}, g: {type: String, default: gone}}
        moved: [{from: "Widget[old]", to: "Widget[${inputs.n}]"}]
        removed: ["Widget[${inputs.g}]"]
        resources:
          Widget[${inputs.n}]: {name: old}
        """,
    )
    assert bench.run("apply", site, **state).code == 0
    assert bench.run("state", "list", **state).out == "Widget[new]\n"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("Widget[w]: {}", "4:11: Widget[w] is removed, and still declared at {site}:2"),
        ("Widget[other]: {name: w}", "4:11: Widget[w] is removed, and still declared as Widget[other] at {site}:2"),
        ("Widget[other]: {alias: w}", "4:11: Widget[w] is removed, and still declared as Widget[other] at {site}:2"),
    ],
)
def test_a_declared_resource_cannot_be_in_removed(bench: Bench, declared: str, message: str) -> None:
    """The error names both lines, and nothing is created."""
    result = bench.apply(f"resources:\n  {declared}\nproject: p\nremoved: ['Widget[w]']\n")
    site = bench.home / "site.yaml"
    assert (result.code, f"{site}:{message.format(site=site)}" in result.err) == (65, True), result.err
    assert bench.things("widget") == {}


@pytest.mark.parametrize(
    ("source", "target", "removed"),
    [
        ("Widget[a]", "Widget[b]", "Widget[b]"),
        ("Site[a]", "Site[b]", "Site[b]"),
        ("Widget[a]", "Site[b]/Widget[a]", "Site[b]"),
        ("Widget[a]", "Widget[${inputs.n}]", "Widget[b]"),
    ],
)
def test_what_has_moved_to_a_name_cannot_be_forgotten_under_it(
    bench: Bench, source: str, target: str, removed: str
) -> None:
    """One of the two is a mistake, and which is for the user: both lines are named, and nothing is touched."""
    site = bench.write(
        "site.yaml",
        f"""
        inputs: {{n: {{type: String, default: b}}}}
        moved:
          - {{from: "{source}", to: "{target}"}}
        removed:
          - "{removed}"
        resources: {{"Widget[c]": {{}}}}
        """,
    )
    result = bench.run("apply", site)
    current = target.replace("${inputs.n}", "b")
    assert (result.code, bench.things("widget")) == (65, {})
    assert f"{site}:5:5: {removed} is removed, and {source} has moved to {current} at {site}:3" in result.err


@pytest.mark.parametrize("who", ["a\nb", "a\x1b[31mb", "", "'a'"])
def test_an_interpolated_title_follows_the_rules_of_titles(bench: Bench, who: str) -> None:
    """An empty, quoted or control character result is refused by one line with its position."""
    result = bench.validate(NAMED % "", "-i", f"who={who}")
    assert result.code == 65
    (line,) = result.lines
    assert "site.yaml:3:3: Widget[${inputs.who}]: " in line
    assert "\x1b" not in line


def test_titles_in_python_are_not_interpolated(bench: Bench) -> None:
    """A Python manifest may use titles that contain ``${``."""
    bench.write(
        "site.py",
        """
        def manifest(m):
            odd = m.widget("a${x}", size=2)
            m.widget("b", require=odd, size=odd.size, before="Widget[c${y}]")
            m.widget("c${y}", colour=m.text("{0}", odd.serial))
        """,
    )
    assert bench.run("apply", "site.py").code == 0
    assert bench.things("widget")["b"]["size"] == 2


HEAD = """
inputs:
  who: {type: String, default: me}
  count: {type: Integer, default: 1}
  flag: {type: Boolean, default: false}
"""


def test_inputs_have_defaults_and_are_given_on_the_command_line(bench: Bench) -> None:
    """Inputs come from defaults, input files and ``-i``, and the command line takes precedence."""
    text = '"${inputs.who} ${inputs.count} ${inputs.flag}"'
    assert colour(bench, text, head=HEAD) == "me 1 false"
    assert colour(bench, text, "-i", "who=you", "-i", "count=2", "-i", "flag=true", head=HEAD) == "you 2 true"
    bench.write("name.txt", "they\n")
    assert colour(bench, text, "-i", f"who=@{bench.home}/name.txt", head=HEAD) == "they 1 false"
    yaml, data = bench.write("in.yaml", "who: we\ncount: 5\n"), bench.write("in.json", '{"flag": true}')
    assert colour(bench, text, "--inputs", str(yaml), "--inputs", str(data), head=HEAD) == "we 5 true"
    assert colour(bench, text, "--inputs", str(yaml), "-i", "who=us", head=HEAD) == "us 5 false"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["-i", "count=many"], 65, ["count", "many"]),
        (["-i", "nobody=x"], 65, ["nobody"]),
        (["-i", "whoo=x"], 65, ["whoo", "did you mean 'who'?"]),
        (["-i", "who"], 64, ["NAME=VALUE"]),
        (["-i", "who=@/no/such/file"], 64, ["/no/such/file"]),
        (["--inputs", "/no/such/file"], 64, ["/no/such/file"]),
    ],
)
def test_a_wrong_input_is_refused(bench: Bench, options: list[str], code: int, words: list[str]) -> None:
    """The error names the input, and no provider is called."""
    result = bench.apply(HEAD + "resources: {'Widget[a]': {colour: '${inputs.who}'}}", *options)
    assert result.code == code, result
    for word in words:
        assert word in result.err
    assert bench.calls("widget") == []


@pytest.mark.parametrize("content", [b"", b"# none\n", b"[who]", b"who", b"who: [", b"who: \xff", b"nobody: x"])
def test_a_wrong_input_file_is_refused(bench: Bench, content: bytes) -> None:
    """An invalid input file exits 65 with a message that names the file or the input."""
    bench.home.joinpath("in.yaml").write_bytes(content)
    result = bench.apply(HEAD + "resources: {'Widget[a]': {colour: '${inputs.who}'}}", "--inputs", "in.yaml")
    assert result.code == 65, result
    assert result.out == ""
    assert "in.yaml" in result.err or "input" in result.err


def test_an_input_without_default_must_be_given(bench: Bench) -> None:
    """The error names the option that gives the input."""
    manifest = "inputs: {who: {type: String}}\nresources: {'Widget[a]': {colour: '${inputs.who}'}}\n"
    missing = bench.apply(manifest)
    assert missing.code == 65
    assert "-i who=" in missing.err
    assert bench.apply(manifest, "-i", "who=me").code == 0


@pytest.mark.parametrize("arguments", [[], ["-i", "n=9"]])
def test_an_invalid_input_is_reported_once(bench: Bench, arguments: list[str]) -> None:
    """Values, titles and references that use an invalid input cause no further error."""
    result = bench.validate(
        """
        inputs: {n: {type: "Integer[0, 5]"}}
        values: {twice: "${inputs.n}${inputs.n}"}
        resources:
          Widget[a]: {size: "${inputs.n}", name: "${values.twice}"}
          Widget[b]: {colour: "${values.twice}", size: "${Widget[${inputs.n}].size}"}
          Widget[${inputs.n}]: {require: "Widget[b]"}
          Widget[c]: {require: "Widget[3]"}
        outputs: {n: "${inputs.n}"}
        """,
        *arguments,
    )
    assert result.code == 65
    (line,) = result.lines
    assert "site.yaml:1:10: input 'n': " in line


@pytest.mark.parametrize("declared", ['type: "Sensitive[String]"', "type: String, sensitive: true"])
def test_a_sensitive_input_is_not_taken_from_the_command_line(bench: Bench, declared: str) -> None:
    """A sensitive input, by its data type or as declared, must come from a file, and no output contains it."""
    manifest = f"""
    inputs: {{secret: {{{declared}}}}}
    resources: {{'Account[a]': {{note: "${{inputs.secret}}"}}}}
    outputs: {{s: "${{inputs.secret}}"}}
    """
    plain = bench.apply(manifest, "-i", "secret=hunter2abc")
    assert plain.code == 64
    assert "hunter2abc" not in plain.err + plain.out
    path = bench.write("secret", "hunter2abc\n")
    result = bench.stream(manifest, "-i", f"secret=@{path}", "-d")
    assert result.code == 0
    assert "hunter2abc" not in result.err + result.out
    assert bench.things("account")["a"]["note"] == "hunter2abc"
    assert bench.calls("account", "set") == [{"name": "str", "ensure": "str", "note": "Sensitive"}]


def test_a_reference_with_the_wrong_data_type_is_explained(bench: Bench) -> None:
    """It is in quotes already: the message says that a whole reference keeps its data type, wherever it stands."""
    result = bench.apply(
        """
        inputs: {n: {type: Float, default: 5.5}, all: {type: Array, default: [5.5]}}
        defaults: {Widget: {colour: "${inputs.n}"}}
        resources:
          Widget[a]: {}
          Widget[b]: {colour: 5}
          Widget[c]: {colour: red, parts: ["${inputs.n}", 5]}
          Widget[d]: {colour: red, parts: "${inputs.all}"}
          Widget[e]: {colour: "n ${inputs.n}"}
        """
    )
    assert result.code == 65
    stored = "a reference that is the whole value keeps its data type: refer to a string, or write text beside it"
    assert re.findall(r"(\w\]: \w+\S*) must be a string, not an? \w+; (.*)", result.err) == [
        ("a]: colour", stored),
        ("b]: colour", "write it in quotes"),
        ("c]: parts[0]", stored),
        ("c]: parts[1]", "write it in quotes"),
        ("d]: parts[0]", stored),
    ]


@pytest.mark.parametrize("text", ['f"pw {m.inputs.pw}"', '"pw " + str(m.inputs.pw)', '"pw %s" % m.inputs.pw'])
def test_a_secret_cannot_be_formatted_in_a_python_manifest(bench: Bench, text: str) -> None:
    """The text would hold ``<sensitive>``, and be applied; the error has the line and names ``m.text``."""
    bench.write("word", "hush-hush")
    manifest = """
        INPUTS = {{"pw": {{"type": "Sensitive[String]"}}}}
        def manifest(m):
            m.account("a", note={})
        """
    bench.write("site.py", manifest.format(text))
    result = bench.run("validate", "site.py", "-i", "pw=@word")
    assert (result.code, "site.py:3:" in result.err, "m.text('... {0} ...', value)" in result.err) == (
        65,
        True,
        True,
    ), result
    assert "hush" not in result.err
    for name in ("m.inputs.pw", 'm.text("pw {0}", m.inputs.pw)'):
        bench.write("site.py", manifest.format(name))
        assert bench.run("apply", "site.py", "-i", "pw=@word").code == 0
        assert bench.calls("account", "set")[-1]["note"] == "Sensitive"


def test_an_output_may_be_declared_sensitive(bench: Bench) -> None:
    """A mapping of exactly ``value`` and ``sensitive`` is masked, known or not; with another key it is a value."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    manifest = """
    resources: {'Widget[a]': {size: 7}}
    outputs:
      serial: {value: "${Widget[a].serial}", sensitive: true}
      size: {value: "${Widget[a].size}", sensitive: false}
      more: {value: open, sensitive: true, other: 1}
    """
    assert bench.plan(manifest, "--json").document["outputs"]["serial"] is None
    result = bench.apply(manifest)
    output = ["more: {value: open, sensitive: true, other: 1}", "serial: <sensitive>", "size: 7"]
    assert result.out.splitlines()[:3] == output
    assert bench.run("output").out.splitlines()[1] == "serial: <sensitive>"
    assert "S-a" not in json.dumps(bench.run("state", "export").document["outputs"])
    wrong = bench.apply("outputs: {x: {value: 1, sensitive: maybe}}\nresources: {}\n")
    assert wrong.code == 65
    assert wrong.lines[0].endswith(":1:25: sensitive of an output must be true or false; write it without quotes")


def test_a_reference_to_a_secret_is_sensitive(bench: Bench) -> None:
    """A text that contains a referenced secret is wrapped for the provider and hidden in plan and log."""
    manifest = """
    resources:
      Account[a]: {password: hunter22abc}
      Account[b]: {note: "so ${Account[a].password}"}
    """
    planned = bench.plan(manifest)
    result = bench.apply(manifest, "-d")
    assert result.code == 0, result
    for text in (planned.out, planned.err, result.out, result.err):
        assert "hunter22abc" not in text
    assert bench.things("account")["b"]["note"] == "so hunter22abc"
    assert bench.calls("account", "set")[1] == {"name": "str", "ensure": "str", "note": "Sensitive"}


def test_values_are_names_for_expressions(bench: Bench) -> None:
    """``values`` may refer to resources and to each other, and a circle is an error."""
    head = 'values: {greeting: "hello ${values.name}", name: "${Widget[a].serial}", deep: {list: [x, y]}}'
    assert colour(bench, '"${values.greeting}, ${values.deep.list.1}"', head=head) == "hello S-a, y"
    circle = bench.apply(
        'values: {x: "${values.y}", y: "${values.x}"}\nresources: {"Widget[a]": {colour: "${values.x}"}}'
    )
    assert circle.code == 65
    assert "circle" in circle.err


def test_outputs_are_printed(bench: Bench) -> None:
    """Outputs are printed after a run, with secrets hidden."""
    result = bench.apply(
        """
        resources: {'Widget[a]': {}, 'Account[b]': {password: hunter22abc}}
        outputs: {serial: "${Widget[a].serial}", text: "it is ${Widget[a].name}", word: "${Account[b].password}"}
        """
    )
    assert result.code == 0
    assert "serial: S-a" in result.out
    assert "text: it is a" in result.out
    assert "word: <sensitive>" in result.out


def test_defaults_apply_to_their_type_and_can_be_overridden(bench: Bench) -> None:
    """A declared value or ``null`` overrides a default, and an unknown attribute is an error."""
    result = bench.apply(
        """
        defaults: {Widget: {colour: red, size: 1, tag: all}}
        resources: {'Widget[a]': {}, 'Widget[b]': {colour: blue}, 'Widget[c]': {size: null}}
        """,
        "--tags",
        "all",
    )
    assert result.code == 0
    objects = bench.things("widget")
    assert [(objects[n].get("colour"), objects[n].get("size")) for n in "abc"] == [
        ("red", 1),
        ("blue", 1),
        ("red", None),
    ]
    wrong = bench.apply("defaults:\n  Widget:\n    clour: red\nresources:\n  Widget[a]: {}\n")
    assert wrong.code == 65
    assert "site.yaml:3:5" in wrong.err


def test_includes_come_first_and_once(bench: Bench) -> None:
    """An include is relative to its file and read once, and a duplicate resource names both lines."""
    bench.write("more/a.yaml", "resources: {'Widget[a]': {}}\n")
    bench.write("more/b.yaml", "include: [a.yaml]\nresources: {'Widget[b]': {require: 'Widget[a]'}}\n")
    result = bench.stream("include: [more/b.yaml, more/a.yaml]\nresources: {'Widget[c]': {}}")
    assert result.code == 0
    assert [end["reference"] for end in result.events("step_end")] == ["Widget[a]", "Widget[b]", "Widget[c]"]
    twice = bench.apply("include: [more/a.yaml]\nresources:\n  Widget[a]: {}\n")
    assert twice.code == 65
    assert "site.yaml:3" in twice.err
    assert "a.yaml:1" in twice.err


def test_defaults_apply_to_their_own_file(bench: Bench) -> None:
    """The defaults of a file do not apply to the files that it includes."""
    bench.write("a.yaml", "resources: {'Widget[a]': {}}\n")
    bench.apply("include: [a.yaml]\ndefaults: {Widget: {colour: red}}\nresources: {'Widget[b]': {}}")
    assert "colour" not in bench.things("widget")["a"]
    assert bench.things("widget")["b"]["colour"] == "red"


def test_a_json_manifest_is_equivalent(bench: Bench) -> None:
    """A JSON manifest is applied, and its errors have line numbers."""
    path = bench.write("site.json", '{"resources": {"Widget[a]": {"size": 3}}}')
    assert bench.run("apply", path).code == 0
    assert bench.things("widget")["a"]["size"] == 3
    wrong = bench.run("apply", bench.write("wrong.json", '{"resources": {\n"Widget[a]": {\n"sise": 3}}}'))
    assert wrong.code == 65
    assert "wrong.json:3:" in wrong.err


def test_an_alias_is_a_second_name(bench: Bench) -> None:
    """``alias`` can be used in relationships, and one that is taken is refused."""
    result = bench.apply("resources: {'Widget[b]': {require: 'Widget[x]'}, 'Widget[a]': {alias: x, size: 1}}")
    assert result.code == 0
    assert list(bench.calls("widget", "set")[0]) == ["a", "b"]
    accepted = bench.apply("resources:\n  Widget[a]: {}\n  Widget[b]: {alias: a}\n")
    assert accepted.code == 65
    assert "site.yaml:2" in accepted.err


def test_a_value_that_the_provider_chose_is_kept_and_known(bench: Bench) -> None:
    """An attribute without a line is not known before the creation; later plans keep and use the data that was read."""
    bench.probe(
        """
        def set(self, context, changes):
            for name, change in changes.items():
                self._put(name, {"colour": "grey", **(change.is_ or {}), **change.should})
        """
    )
    manifest = "resources: {'Probe[a]': {size: %d}, 'Widget[b]': {colour: '${Probe[a].colour}'}}"
    assert "colour: (none) → (known after apply)" in bench.plan(manifest % 1).out
    assert bench.apply(manifest % 1).code == 0
    assert bench.things("probe")["a"]["colour"] == "grey"
    updated = bench.plan(manifest % 2)
    assert "0 unchanged" not in updated.out
    assert "known after apply" not in updated.out


def test_a_write_only_value_is_secret_wherever_it_goes(bench: Bench) -> None:
    """It is neither shown nor recorded in clear: not by a reference, an output, a message or a derived value."""
    bench.type(
        "shy",
        bench.NAMED
        + """
        "pin": Attribute("Optional[String]", "p", write_only=True), "hint": Attribute("Optional[String]", "h"),
        "sum": Attribute("Optional[String]", "s", kind="read_only", derived_from="pin"),
        """,
        provider="""
        FILE = Path(os.environ["BENCH"], "shy.json")
        def get(self, context):
            return list(json.loads(self.FILE.read_text()).values()) if self.FILE.exists() else []
        def validate(self, context, resource):
            return Problem("pin", f"not with {resource['pin']}", "warning") if "pin" in resource else None
        def create(self, context, name, should):
            plain = {key: getattr(value, "reveal", lambda: value)() for key, value in should.items()}
            pin = plain.pop("pin", None)
            context.notice(name, message=f"it is {pin}")
            kept = plain | ({"sum": f"sum of {pin}"} if pin else {})
            self.FILE.write_text(json.dumps({each["name"]: each for each in self.get(context)} | {name: kept}))
        update = create
        """,
        features=["validate"],
    )
    state = bench.home / "state" / "state.db"
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{state}"
    site = """
    resources:
      Shy[a]: {pin: "hunter-0451"}
      Shy[b]: {hint: "x ${Shy[a].pin}"}
      Shy[c]: {hint: "${Shy[a].sum}"}
    outputs: {pin: "${Shy[a].pin}", sum: "${Shy[a].sum}"}
    """
    runs = [bench.plan(site), bench.stream(site), bench.stream(site), bench.plan(site, "--json")]
    assert [run.code for run in runs] == [0] * 4
    assert [item["hint"] for item in bench.things("shy").values() if "hint" in item] == [
        "x hunter-0451",
        "sum of hunter-0451",
    ]
    assert runs[2].events("summary")[0]["unchanged"] == 3
    runs += [bench.run("output"), bench.run("state", "export"), bench.run("history")]
    assert not [result for result in runs if "hunter" in result.out + result.err]
    assert not [file for file in state.parent.rglob("*") if file.is_file() and b"hunter" in file.read_bytes()]
