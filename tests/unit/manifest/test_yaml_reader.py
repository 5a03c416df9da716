"""YAML text becomes plain data by the core schema, or one error that names the place."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from resource_api.manifest import yaml_reader
from resource_api.model.values import document
from resource_api.model.values.errors import ManifestError, Problem
from tests.sampling import times
from tests.unit.manifest.strategies import data

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[3]

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x85\ufeff\ufffe\uffff"), max_size=12)
DATA = data(TEXT)
#: What YAML is made of: such texts come much further than random bytes.
PIECES = st.lists(
    st.sampled_from(
        [
            "a",
            "b: ",
            ": ",
            "- ",
            "? ",
            "\n",
            "\n  ",
            "[",
            "]",
            "{",
            "}",
            ", ",
            "&a ",
            "*a",
            "!!str ",
            "!x ",
            "<<: ",
            "---\n",
            "...\n",
            "%TAG ! x\n",
            "%YAML 1.2\n",
            '"',
            "'",
            "|\n",
            ">-\n",
            "#",
            "\\0",
            "1",
            "0x",
            ".inf",
            "\t",
            "\x00",
            "é",
            "Package[nginx]",
            "${a}",
            "\r",
            "\u2028",
            "@",
            "`",
            "~",
            "null",
            "9" * 30,
        ]
    ),
    max_size=25,
).map("".join)


def load(text: str | bytes) -> Any:
    """Read one text."""
    return yaml_reader.read(text.encode() if isinstance(text, str) else text, "site.yaml").data


def refused(text: str | bytes) -> Problem:
    """Return the first problem of an invalid text."""
    with pytest.raises(ManifestError) as caught:
        load(text)
    problem = caught.value.problems[0]
    assert problem.file == "site.yaml"
    return problem


@pytest.mark.parametrize(
    ("written", "intended"),
    [
        ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None), ("nULL", "nULL"),
        ("true", True), ("True", True), ("TRUE", True), ("false", False), ("False", False), ("FALSE", False),
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("off", "off"), ("y", "y"), ("tRUE", "tRUE"),
        ("0", 0), ("-1", -1), ("+12", 12), ("0644", 644), ("010", 10), ("0o17", 15), ("0x1F", 31), ("-0x1", "-0x1"),
        ("0b1", "0b1"), ("1_000", "1_000"), ("22:22", "22:22"), ("1:30", "1:30"), ("2020-01-01", "2020-01-01"),
        ("1e3", 1000.0), ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("-1.5E-2", -0.015), ("1.2.3", "1.2.3"), (".", "."),
        ("-", None), ("+", "+"), ("..", ".."), ("0o8", "0o8"), ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)), ("=", "="), ('"12"', "12"), ("'true'", "true"), ("!!str 12", "12"),
        ('!!int "12"', 12), ("!!float 1", 1.0), ("!!null ''", None), ("!!bool true", True), ("! 12", "12"),
        ("!!str", ""), ("|\n  12\n", "12\n"), ("!!map {a: 1}", {"a": 1}), ("!!seq [1]", [1]), ("0" * 5000 + "7", 7),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema_of_yaml_1_2(written: str, intended: Any) -> None:
    """No scalar becomes a boolean, date or number by the rules of YAML 1.1."""
    result = load(f"a: {written}")["a"] if written != "-" else intended
    assert result == intended
    assert type(result) is type(intended)


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("a: 1\nb: 9223372036854775808", "does not fit 64 bits", 2, 4),
        ("a: -9223372036854775809", "does not fit 64 bits", 1, 4),
        ("a: " + "9" * 5000, "does not fit 64 bits", 1, 4),
        ("a: 0x" + "f" * 17, "does not fit 64 bits", 1, 4),
        ("a: .inf", "infinity and not-a-number", 1, 4),
        ("a: [-.Inf]", "infinity and not-a-number", 1, 5),
        ("a: .NAN", "infinity and not-a-number", 1, 4),
        ("a: 1e999", "too large for a float", 1, 4),
        ("a: !!int x", "not what its tag !!int says", 1, 4),
        ("a: !!python/object:os.system x", "this tag is not allowed", 1, 4),
        ("a: !!binary aGk=", "this tag is not allowed", 1, 4),
        ("a: !local x", "this tag is not allowed", 1, 4),
        ("a: !!set {x}", "this tag is not allowed here", 1, 4),
        ("a: !!map [x]", "this tag is not allowed here", 1, 4),
        ("%TAG ! tag:x,2000:\n---\na: 1", "%TAG directive is not allowed", 1, 1),
        ("x: &a {k: 1}\ny:\n  <<: *a", "no merge key", 3, 3),
        ("1: x", "a key must be a string", 1, 1),
        ("a:\n  true: x", "a key must be a string", 2, 3),
        ("~: x", "a key must be a string", 1, 1),
        ("? [a]\n: b", "a key must be a string", 1, 3),
        ("a: *b", "no anchor of this name", 1, 4),
        ("a: &x [*x]", "stands inside what it stands for", 1, 8),
        ("a: 1\n---\nb: 2", "second document", 2, 1),
        ('a: "\\0"', "cannot hold the control character U+0000", 1, 4),
        ('"a\\eb": 1', "cannot hold the control character U+001B", 1, 1),
        ("a: b\x07", "control character U+0007", 1, 5),
        ("a: b\x00", "control character U+0000", 1, 5),
        ("a: é\x9b", "control character U+009B", 1, 5),
        ("a: x\ufeff", "control character U+FEFF", 1, 5),
        (b"a: 1\nb: \xc3\xa9\xff", "not UTF-8", 2, 5),
        (b"a: \xed\xa0\x80", "not UTF-8", 1, 4),
        ('a: "\\ud800"', "invalid Unicode character", 1, 7),
        (b"\xef\xbb\xbfa: 1", "byte order mark", 1, 1),
        ("a: 1".encode("utf-16"), "byte order mark", 1, 1),
        ("a: [1, 2", "this [ has no ]", 1, 4),
        ("a: [", "did not find expected node content", 1, 5),
        ("a: b: c", "a value that holds ': ' or ends in ':' needs quotes", 1, 5),
        ("\ta: 1", "a tab cannot indent; use spaces", 1, 1),
    ],
)
def test_each_problem_has_a_position(text: str | bytes, message: str, line: int, column: int) -> None:
    """Line and column count from 1."""
    problem = refused(text)
    assert message in problem.message
    assert (problem.line, problem.column) == (line, column)


def test_an_empty_text_is_none() -> None:
    """Comments, an empty document and blank lines count as empty."""
    assert [load(text) for text in ("", "# x\n", "---\n", "\n\n")] == [None] * 4


def test_all_duplicate_keys_are_reported_with_both_positions() -> None:
    """At any depth, quoted or not, behind aliases and in flow mappings; the later one is reported."""
    text = "a: 1\nb:\n  c: 1\n  'c': 2\nd: [{x: 1, x: 2}]\n\"a\": 3\n"
    with pytest.raises(ManifestError) as caught:
        load(text)
    assert [(p.line, p.column, p.message, p.hint) for p in caught.value.problems] == [
        (4, 3, "duplicate key 'c'", "first at line 3, column 3"),
        (5, 12, "duplicate key 'x'", "first at line 5, column 6"),
        (6, 1, "duplicate key 'a'", "first at line 1, column 1"),
    ]


def test_all_values_and_keys_that_a_manifest_cannot_hold_are_reported() -> None:
    """At any depth, each once, duplicates between them; nothing follows from one; then the first problem of syntax."""
    lines = (
        "a: 99999999999999999999",
        "1: x",
        "b: [.nan, {2: 3}]",
        "{c: d}: !!binary aGk=",
        "d: &d .inf",
        "*d : *d",
        "e: *txt",
        "f: !!set {g: .inf}",
        "g: &g 1",
        "g: {<<: 2, ~: 3}",
        "*d : 4",
        "? [[a]: x]",
        ": {.nan: 5}",
        "h: [",
    )
    with pytest.raises(ManifestError) as caught:
        load("\n".join(lines))
    assert [(p.line, p.column, p.message[:28]) for p in caught.value.problems] == [
        (1, 4, "the integer does not fit 64 "),
        (2, 1, "a key must be a string"),
        (3, 5, "infinity and not-a-number ar"),
        (3, 12, "a key must be a string"),
        (4, 1, "a key must be a string"),
        (4, 9, "this tag is not allowed; onl"),
        (5, 4, "infinity and not-a-number ar"),
        (7, 4, "no anchor of this name stand"),
        (8, 4, "this tag is not allowed here"),
        (8, 14, "infinity and not-a-number ar"),
        (10, 1, "duplicate key 'g'"),
        (10, 5, "YAML 1.2 has no merge key '<"),
        (10, 12, "a key must be a string"),
        (12, 3, "a key must be a string"),
        (12, 4, "a key must be a string"),
        (13, 4, "infinity and not-a-number ar"),
        (14, 5, "not valid YAML: did not find"),
    ]


def test_a_hundred_problems_are_reported() -> None:
    """A text of another kind, such as a dump of a database, may have millions."""
    with pytest.raises(ManifestError) as caught:
        load("".join(f"- {{{number}: .nan}}\n" for number in range(1000)))
    assert [p.line for p in caught.value.problems] == [line for line in range(1, 51) for _ in range(2)]


def test_a_limit_ends_the_problems() -> None:
    """What is nested too deep cannot be walked, and copies of what is refused have no size."""
    with pytest.raises(ManifestError) as caught:
        load(f"a: .nan\nb: {'[' * 101}{']' * 101}\nc: .nan\n")
    assert [p.code for p in caught.value.problems] == ["value", "limit"]
    assert refused("a: &a [*a]\nb: .nan\n").code == "limit"


def test_duplicate_keys_are_reported_also_where_the_rest_cannot_be_read() -> None:
    """A later problem of another kind does not hide them."""
    assert "duplicate" in refused("a: 1\na: 2\nb: [").message
    assert "duplicate" in refused("a: 1\na: 2\nb: " + "[" * 5000).message


@pytest.mark.parametrize("pair", ["[]", "{}"])
@pytest.mark.parametrize("count", [101, 25_000, 1_000_000])
def test_depth_is_refused_before_the_stack_overflows(pair: str, count: int) -> None:
    """In a separate process, because a crash of the C parser would end this one."""
    body = "[" * count + "]" * count if pair == "[]" else "{a: " * count + "}" * count
    program = (
        "import sys\nfrom resource_api.manifest import yaml_reader\n"
        "from resource_api.model.values.errors import ManifestError\n"
        "try:\n    yaml_reader.read(sys.stdin.buffer.read(), 'f')\nexcept ManifestError as error:\n    print(error)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], input=body.encode(), capture_output=True, cwd=ROOT, check=False
    )
    assert (process.returncode, process.stderr) == (0, b"")
    # PyYAML refuses more than 1,000 brackets by itself since 6.0.4.
    refusals = (b"nested deeper than 100", b"not valid YAML: exceeded maximum nesting depth")
    assert any(map(process.stdout.partition(b" ")[2].startswith, refusals[: 1 + (count > 1000)]))


def test_depth_up_to_the_limit_is_data() -> None:
    """A hundred levels are accepted, block or flow."""
    assert load("[" * 100 + "]" * 100)
    assert load("\n".join(" " * n + "a:" for n in range(100)))
    assert "nested deeper" in refused("\n".join(" " * n + "a:" for n in range(101)) + " {}").message


def test_an_alias_bomb_is_refused_without_expanding_it() -> None:
    """Nine to the ninth nodes are counted and not built."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    begun = time.process_time()
    assert "aliases expand" in refused("\n".join(lines)).message
    assert time.process_time() - begun < 1


def test_a_long_text_repeated_often_is_refused() -> None:
    """The size of the copies counts, not the number of aliases."""
    assert "aliases expand" in refused("a: &a " + "x" * 1_000_000 + "\nb: [" + "*a, " * 100 + "]").message


def test_aliases_count_for_the_limit_of_depth() -> None:
    """Each list contains the one before it."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 200))]
    assert "nested deeper than 100 by this alias" in refused("\n".join(lines)).message


def test_aliases_repeat_their_anchor() -> None:
    """Scalars, collections, keys; the latest anchor of a name is used."""
    assert load("a: &x [1]\nb: *x\nc: &x 2\nd: *x\n&k e: 1\nf: {*k : 2}") == {
        "a": [1], "b": [1], "c": 2, "d": 2, "e": 1, "f": {"e": 2},
    }  # fmt: skip
    assert len(load("a: &x [1, 2]\nb: [" + "*x, " * 20_000 + "]")["b"]) == 20_000


@pytest.mark.parametrize(
    ("text", "pasted"),
    [
        ("require: [Package[nginx], File[/a]]", '"Package[nginx]", "File[/a]"'),
        ("a: {x: File[/a]}", '"File[/a]"'),
        ("File[/a: b]:\n  x: 1", '"File[/a: b]"'),
        ("File[a #b]:\n  x: 1", '"File[a #b]"'),
        ("a:\n  File[/z]:\n    x: 1\n  File[a #b]:\n    x: 1", '"File[a #b]"'),
        ("a: [\n  x,\n  Package[nginx]\n]", '"Package[nginx]"'),
        ("require: File[/a: b]", '"File[/a: b]"'),
        ("a: {c: ${inputs.x}, d: Word[y]}", '"${inputs.x}", "Word[y]"'),
        ("a: [${File[/a].c}]", '"${File[/a].c}"'),
        ('a: [Exec[echo "x"], y]', "'Exec[echo \"x\"]'"),
    ],
)
def test_a_reference_without_quotes_is_explained_with_the_text_to_paste(text: str, pasted: str) -> None:
    """YAML reads a list or a mapping."""
    hint = refused(text).hint
    assert hint.startswith("a reference inside [...] or {...}, or with ': ' or ' #' in its title, needs quotes")
    assert hint.endswith(f": write {pasted}")


def test_the_hint_takes_bounded_time_for_any_line() -> None:
    """The search for references is bounded for long lines."""
    begun = time.process_time()
    for line in (
        "a" * 1_000_000 + ": b",
        "a: [" + "Word[" * 200_000,
        "a: [" + "Word[x] " * 100_000,
        "a: [" + "${a" * 200_000,
    ):
        refused(line)
    assert "duplicate" in refused("a: 1\n" * 50_000).message
    assert time.process_time() - begun < 1


def test_the_hint_is_given_only_where_a_reference_may_be() -> None:
    """Another mistake gets no hint about references, nor does a reference in quotes."""
    assert refused("a: [1, 2").hint == ""
    assert refused('a: ["File[x]", y').hint.endswith("needs quotes")


@pytest.mark.parametrize(
    "text",
    [
        "p: *hunter2", "p: !hunter2 x", "p: @hunter2", "p: 'hunter2", 'p: "hunter2\\q"', "p: hunter2: x",
        "p: [hunter2", "p: {hunter2: x",
        "p: %hunter2\n x: [", "p: hunter2\x07", "p: abc[hunter2: x", "p: Abc[hunter2: x", "p: `hunter2",
        "? [hunter2]\n: x", "p: !!hunter2 x",
    ],
)  # fmt: skip
def test_no_error_repeats_the_text(text: str) -> None:
    """The text may be a secret: its line is named and not shown."""
    with pytest.raises(ManifestError) as caught:
        load(text)
    assert "hunter2" not in str(caught.value)


def test_a_file_beyond_the_limit_of_size_is_refused() -> None:
    """It is refused before it is parsed."""
    assert "larger than 100 MB" in refused(b"#" * (document.MAX_BYTES + 1)).message


def test_a_long_line_of_puppet_before_an_error_is_no_failure_of_the_reader() -> None:
    """The advice on Puppet's syntax is for lines that people write; another mistake is explained by itself."""
    problem = refused("a: |\n  file { '" + "x" * 1200 + "':\n }\n")
    assert (problem.line, problem.message) == (3, "not valid YAML: this } closes nothing")


def test_a_long_line_is_read_in_bounded_time() -> None:
    """A scalar of a megabyte is read quickly."""
    begun = time.process_time()
    assert len(load("a: " + "x" * 1_000_000)["a"]) == 1_000_000
    assert time.process_time() - begun < 1


@given(DATA)
def test_what_is_dumped_reads_back(data: Any) -> None:
    """Text, numbers and nesting are preserved, with every text in quotes."""
    assert load(_dump(data)) == data


def _dump(data: Any, *, flow: bool | None = False) -> str:
    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _: Any) -> bool:
            return True

    # Floats and numbers by the rules of 1.2, texts always in quotes.
    Dumper.add_representer(str, lambda d, v: d.represent_scalar("tag:yaml.org,2002:str", v, style='"'))
    Dumper.add_representer(float, lambda d, v: d.represent_scalar("tag:yaml.org,2002:float", repr(v)))
    return yaml.dump(data, Dumper=Dumper, width=1_000_000, default_flow_style=flow)


@given(st.binary(max_size=200) | PIECES.map(str.encode) | st.binary(max_size=40).map(lambda b: b"a: " + b))
@example(b"a: &x\n  *x : 1")
@example(b"&a *a")
@example(b"*a")
@example(b"- - - ? ? ? - - [{[")
@example(b"!<")
@settings(max_examples=times(4), suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_give_data_or_our_error(raw: bytes) -> None:
    """Within a second, and with a position inside the text or none."""
    begun = time.process_time()
    problems: Sequence[Problem] = ()
    try:
        text = yaml_reader.read(raw, "f")
    except ManifestError as error:
        problems = error.problems
        assert problems
    else:
        _every_position(text, text.data, ())
    assert all(p.line <= len(raw) + 1 for p in problems)
    assert time.process_time() - begun < 1


def _every_position(result: document.Document, data: Any, path: tuple[str | int, ...]) -> None:
    assert result.position(path) >= (1, 1)
    assert result.position(path, value=True) >= (1, 1)
    for key, value in data.items() if type(data) is dict else enumerate(data) if type(data) is list else ():
        _every_position(result, value, (*path, key))


WORD = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
NAMED = st.dictionaries(
    WORD,
    st.recursive(
        TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD, inner, max_size=3), max_leaves=9
    ),
    min_size=1,
    max_size=4,
)


@given(NAMED, st.sampled_from([True, False, None]))
def test_every_position_points_at_its_key(data: dict[str, Any], flow: bool | None) -> None:  # noqa: FBT001 - a strategy's
    """For keys of sections and for those found by the second walk, block or flow."""
    text = _dump(data, flow=flow)
    content = yaml_reader.read(text.encode(), "f")
    lines = text.split("\n")

    def check(value: Any, path: tuple[str | int, ...]) -> None:
        steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in steps:
            line, column = content.position((*path, key))
            if isinstance(key, str):
                assert lines[line - 1][column - 1 :].startswith(f'"{key}"')
            assert content.position((*path, key), value=True) >= (line, column)
            check(inner, (*path, key))

    check(data, ())


def test_positions_of_keys_values_and_what_is_missing() -> None:
    """A path to something missing has the position of its last part that exists."""
    text = yaml_reader.read(b"resources:\n  File[/a]:\n    x: [1, {y: 2}]\n  File[/b]: &b {z: 1}\n  c: *b\n", "f")
    assert text.position(("resources", "File[/b]")) == (4, 3)
    assert text.position(("resources", "File[/a]")) == (2, 3)
    assert text.position(("resources", "File[/a]", "x")) == (3, 5)
    assert text.position(("resources", "File[/a]", "x"), value=True) == (3, 8)
    assert text.position(("resources", "File[/a]", "x", 1, "y")) == (3, 13)
    assert text.position(("resources", "c", "z")) == (4, 17)
    assert text.position(("resources", "File[/a]", "nothing", "at all")) == (2, 3)
    assert text.position(()) == (1, 1)
    assert yaml_reader.read(b"", "f").position(("x",)) == (1, 1)
