"""Invalid and malicious manifests, given to the command: an error with a position, at once, and no traceback.

The messages of the readers are tested with the readers; here nothing else may be printed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from tests.hostile.conftest import Box, Done

YAML: Final[dict[str, str | bytes]] = {
    "python tag": "resources: !!python/object/apply:os.system ['touch pwned']\n",
    "unknown tag": "resources: !include other.yaml\n",
    "binary tag": "resources: {'Good[a]': {colour: !!binary aGk=}}\n",
    "duplicate key": "resources:\n  Good[a]: {}\n  Good[a]: {}\n",
    "duplicate attribute": "resources:\n  Good[a]: {size: 1, size: 2}\n",
    "merged duplicate": "x: &x {size: 1}\nresources:\n  Good[a]: {<<: *x, size: 2}\n",
    "recursive alias": "resources: &r\n  Good[a]: *r\n",
    "unknown alias": "resources: *nobody\n",
    "bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)),
    "brackets": "resources: " + "[" * 25_000,
    "a million brackets": "[" * 1_000_000,
    "braces": "resources: " + "{a: " * 25_000,
    "deep indentation": "".join(" " * n + "a:\n" for n in range(2_000)),
    "deep sequence": "- " * 10_000 + "x\n",
    "nothing": "",
    "only a comment": "# nothing\n",
    "null": "~\n",
    "list": "- a\n",
    "text": "hello\n",
    "number": "7\n",
    "two documents": "resources: {}\n---\nresources: {}\n",
    "nul": b"resources: {'Good[a]': {colour: \"\x00\"}}\n",
    "escaped nul": 'resources: {"Good[a]": {colour: "\\0"}}\n',
    "bad utf-8": b"resources: {'Good[a]': {colour: '\xff\xfe'}}\n",
    "utf-16": "resources: {}\n".encode("utf-16"),
    "lone surrogate": 'resources: {"Good[a]": {colour: "\\ud800"}}\n',
    "control character": b"resources: {'Good[a]': {colour: '\x1b[31m'}}\n",
    "control character in a title": 'resources: {"Good[\\e[31m]": {}}\n',
    "tab": "resources:\n\tGood[a]: {}\n",
    "unclosed quote": 'resources: {"Good[a]: {}}\n',
    "unclosed brace": "resources: {'Good[a]': {}\n",
    "key is a list": "resources: {[a]: {}}\n",
    "key is a number": "resources: {7: {}}\n",
    "key is null": "resources: {~: {}}\n",
    "key is no reference": "resources: {Good: {}}\n",
    "key is quoted inside": "resources: {\"Good['a']\": {}}\n",
    "key without end": "resources: {'Good[a': {}}\n",
    "type is a path": "resources: {'../../etc/passwd[a]': {}}\n",
    "type is a module": "resources: {'Os.path[a]': {}}\n",
    "type is too long": f"resources: {{'{'G' * 5000}[a]': {{}}}}\n",
    "unknown type": "resources: {'Goood[a]': {}}\n",
    "unknown top-level key": "resourcs: {}\n",
    "unknown attribute": "resources: {'Good[a]': {sise: 1}}\n",
    "unknown metaparameter value": "resources: {'Good[a]': {loglevel: loud}}\n",
    "unknown lifecycle": "resources: {'Good[a]': {lifecycle: {protekt: true}}}\n",
    "wrong type": "resources: {'Good[a]': {size: big}}\n",
    "octal": "resources: {'Good[a]': {size: 0o17777777777777777777777}}\n",
    "yes is text": "resources: {'Good[a]': {size: yes}}\n",
    "sexagesimal": "resources: {'Good[a]': {size: 1:30}}\n",
    "date": "resources: {'Good[a]': {size: 2026-11-21}}\n",
    "float for integer": "resources: {'Good[a]': {size: 1.0}}\n",
    "huge integer": f"resources: {{'Good[a]': {{size: {'9' * 5000}}}}}\n",
    "infinity": "resources: {'Good[a]': {ratio: .inf}}\n",
    "not a number": "resources: {'Good[a]': {ratio: .nan}}\n",
    "attributes are a list": "resources: {'Good[a]': [size]}\n",
    "resources are a list": "resources: ['Good[a]']\n",
    "self edge": "resources: {'Good[a]': {require: 'Good[a]'}}\n",
    "dangling edge": "resources: {'Good[a]': {require: 'Good[b]'}}\n",
    "cycle": "resources: {'Good[a]': {require: 'Good[b]'}, 'Good[b]': {require: 'Good[a]'}}\n",
    "value cycle": "resources: {'Good[a]': {colour: '${Good[b].colour}'}, 'Good[b]': {colour: '${Good[a].colour}'}}\n",
    "values in a circle": (
        "values: {a: '${values.b}', b: '${values.a}'}\nresources: {'Good[a]': {colour: '${values.a}'}}\n"
    ),
    "open expression": "resources: {'Good[a]': {colour: '${'}}\n",
    "nested expression": "resources: {'Good[a]': {colour: '${${inputs.a}}'}}\n",
    "unknown input": "resources: {'Good[a]': {colour: '${inputs.nobody}'}}\n",
    "unknown attribute of another": "resources: {'Good[a]': {colour: '${Good[b].weight}'}, 'Good[b]': {}}\n",
    "bad input type": "inputs: {a: {type: 'Integer['}}\nresources: {}\n",
    "bad input pattern": "inputs: {a: {type: 'Pattern[/(/]'}}\nresources: {}\n",
    "missing input": "inputs: {a: {type: String}}\nresources: {}\n",
    "include upwards": "include: [../../../../etc/passwd]\nresources: {}\n",
    "include absolute": "include: [/etc/passwd]\nresources: {}\n",
    "include itself": "include: [site.yaml]\nresources: {}\n",
    "include missing": "include: [nobody.yaml]\nresources: {}\n",
    "bad project": "project: '../x'\nresources: {}\n",
    "alias taken": "resources: {'Good[a]': {alias: b}, 'Good[b]': {}}\n",
    "two of one identity": "resources: {'Good[a]': {}, 'Good[b]': {name: a}}\n",
}

JSON: Final[dict[str, str | bytes]] = {
    "empty": "",
    "cut": '{"resources": {"Good[a]": {',
    "trailing comma": '{"resources": {},}',
    "duplicate key": '{"resources": {"Good[a]": {}, "Good[a]": {}}}',
    "nan": '{"resources": {"Good[a]": {"ratio": NaN}}}',
    "huge exponent": '{"resources": {"Good[a]": {"ratio": 1e999}}}',
    "huge integer": '{"resources": {"Good[a]": {"size": ' + "9" * 5000 + "}}}",
    "deep": '{"resources":' * 30_000,
    "deep list": "[" * 1_000_000,
    "lone surrogate": '{"resources": {"Good[a]": {"colour": "\\ud800"}}}',
    "byte order mark": b"\xef\xbb\xbf\xff{}",
    "two values": "{} {}",
    "list": "[]",
    "a plan of nobody": '{"format_version": 1}',
    "a plan of the future": '{"format_version": 99, "steps": []}',
    "a plan of nonsense": '{"format_version": "x", "steps": 7, "manifest": {}}',
}

PYTHON: Final[dict[str, str | bytes]] = {
    "syntax": "def manifest(m:\n",
    "raises": "raise RuntimeError('no')\n",
    "exits": "import sys\nsys.exit(0)\n",
    "no function": "PROJECT = 'x'\n",
    "function raises": "def manifest(m):\n    m.nothing_of_that_name('a')\n",
    "function exits": "def manifest(m):\n    raise SystemExit(0)\n",
    "recursion": "def manifest(m):\n    manifest(m)\n",
    "duplicate": "def manifest(m):\n    m.resource('good', 'a', {})\n    m.resource('good', 'a', {})\n",
    "unknown attribute": "def manifest(m):\n    m.resource('good', 'a', {'weight': 1})\n",
    "odd value": "def manifest(m):\n    m.resource('good', 'a', {'tree': object()})\n",
    "cyclic value": "def manifest(m):\n    x = []\n    x.append(x)\n    m.resource('good', 'a', {'tree': x})\n",
    "null byte": b"x = '\x00'\n",
}

CORPUS: Final = [
    *((f"site.{kind}", name, text) for kind, texts in (("yaml", YAML), ("json", JSON)) for name, text in texts.items()),
]


def validate(box: Box, file: str, text: str | bytes) -> Done:
    """Validate a manifest in at most two seconds of processor time."""
    (box.path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    return box.run("validate", file, processor_seconds=2)


@pytest.mark.parametrize(("file", "name", "text"), CORPUS, ids=[f"{file[5:]}: {name}" for file, name, _ in CORPUS])
def test_an_invalid_manifest_is_an_error_with_a_position(box: Box, file: str, name: str, text: str | bytes) -> None:
    """Exit code 65, within two seconds of processor time, without a traceback; nothing in it is executed."""
    result = validate(box, file, text)
    assert result.code in ({0, 65} if name in FINE else {65}), (result.code, result.text[-500:])
    assert "Traceback" not in result.text
    assert not (box.path / "pwned").exists()
    if result.code:
        lines = result.text.splitlines()
        assert lines
        assert len(result.text) < 20_000
        assert re.match(rf"(\S*/)?{re.escape(file)}(:\d+:\d+)?: ", lines[0]) or "include" in name, lines[0]
        assert name in PLACELESS or re.match(r"\S+:\d+:\d+: ", lines[0]), lines[0]


#: What may be read as something harmless.
FINE: Final = {
    *("nothing", "only a comment", "null", "include itself", "empty", "binary tag", "alias taken", "unknown alias"),
    *("two documents", "control character in a title", "utf-16"),
}
#: What is wrong as a whole, not at a line.
PLACELESS: Final = {
    *("missing input", "list", "text", "number", "empty", "a plan of nobody", "a plan of the future"),
    *("a plan of nonsense", "nothing", "bad utf-8", "utf-16", "byte order mark", "bad input type"),
}


@pytest.mark.parametrize("name", PYTHON)
def test_an_invalid_python_manifest_is_an_error_with_its_file(box: Box, name: str) -> None:
    """An exception in the author's code is reported with its file."""
    result = validate(box, "site.py", PYTHON[name])
    assert result.code == 65, (result.code, result.text[-500:])
    assert "Traceback" not in result.text
    assert "site.py" in result.text.splitlines()[0]


@pytest.mark.parametrize(
    "path", ["nobody.yaml", ".", "/dev/null", "site.txt", "no\nsuch.yaml", "x" * 300, "fifo.yaml.d/"]
)
def test_a_path_that_is_no_readable_file_is_an_error(box: Box, path: str) -> None:
    """A manifest that is missing, a directory, a device, or of an unknown kind."""
    (box.path / "site.txt").write_text("resources: {}\n")
    result = box.run("validate", path)
    assert result.code in {64, 65}, (result.code, result.text)
    assert "Traceback" not in result.text
    assert result.text.count("\n") <= 3


def test_invalid_manifests_are_reported_as_json(box: Box) -> None:
    """With ``--json`` each command ends its output as documented."""
    box.write("site.yaml", "resources:\n  Good[a]: {sise: 1}\n  Good[b]: {colour: 1}\n")
    for command in ("validate", "plan"):
        document = json.loads(box.run(command, "site.yaml", "--json").out)
        assert [(diagnostic["line"], diagnostic["reference"]) for diagnostic in document["diagnostics"]] == [
            (2, "Good[a]"),
            (3, "Good[b]"),
        ]
    result = box.run("apply", "site.yaml", "--json")
    assert [event["type"] for event in result.events] == ["diagnostic", "diagnostic", "summary"]
    assert result.events[-1]["exit_code"] == 65


def test_a_long_chain_is_compiled_without_recursion(box: Box) -> None:
    """Ten thousand resources, each requiring the one before; if they form a cycle, the cycle is named."""
    chain: dict[str, Any] = {f"Good[{n}]": {"require": f"Good[{n - 1}]"} if n else {} for n in range(10_000)}
    box.manifest(chain)
    assert box.run("validate", "site.json").code == 0
    box.manifest({**chain, "Good[0]": {"require": "Good[9999]"}})
    result = box.run("validate", "site.json", "--json")
    assert result.code == 65
    (diagnostic,) = json.loads(result.out)["diagnostics"]
    assert (diagnostic["file"], diagnostic["line"], diagnostic["column"], diagnostic["reference"]) == (
        "site.json",
        1,
        16,
        "Good[0]",
    )
    assert diagnostic["message"].startswith("dependency cycle: Good[0] => Good[1] => ")
    assert diagnostic["message"].endswith("Good[9999] => Good[0]")


TEN_TIMES: Final = {
    "texts": lambda name: name * 10,
    "lists": lambda name: [name] * 10,
    "titles": lambda name: f"${{Good[{name * 10}].size}}",
}


@pytest.mark.parametrize("form", TEN_TIMES)
@pytest.mark.parametrize("start", ["x", "${Good[other].colour}"])
def test_values_that_expand_too_far_are_refused_at_once(box: Box, form: str, start: str) -> None:
    """Ten lines that mean ten thousand million texts: like aliases, with the line of the one that goes too far."""
    values: dict[str, Any] = {"v0": start}
    for number in range(1, 11):
        values[f"v{number}"] = TEN_TIMES[form](f"${{values.v{number - 1}}}")
    body = {"values": values, "resources": {"Good[other]": {}, "Good[a]": {"tree": "${values.v10}"}}}
    box.write("site.json", json.dumps(body, indent=0))
    result = box.run("validate", "site.json", processor_seconds=5)
    assert result.code == 65
    assert "site.json:" in result.text
    if form != "titles":
        assert re.search(r"site.json:\d+:\d+: .*values that refer to each other expand beyond the limit", result.text)


def test_many_values_that_each_expand_far_are_refused_at_once(box: Box) -> None:
    """The texts of all of them are bounded together, and what they share is made once."""
    values = {"text": "x" * 60_000, "half": "${values.text}" * 30, "most": "${values.half}" * 15}
    values |= {f"v{number}": "a${values.most}" for number in range(200)}
    box.write("site.json", json.dumps({"values": values, "resources": {}}))
    result = box.run("validate", "site.json", processor_seconds=5)
    assert result.code == 65
    assert "site.json:1:" in result.text
    assert "${values.most}: values that refer to each other expand beyond the limit" in result.text


@pytest.mark.parametrize("kilobytes", [19_000, 20_000, 24_000, 28_000])
def test_too_little_memory_is_no_bug(box: Box, kilobytes: int) -> None:
    """It says so, also where not even the modules can be loaded, and is not to be reported."""
    result = box.run_shell(f'ulimit -v {kilobytes}; exec "$@" plan site.json')
    assert (result.code, result.text) == (1, "Error: out of memory; give this command more, then run it again\n")


IMPORT_WITHOUT_MEMORY: Final = """
import errno, sys
from resource_api.__main__ import main

class Finder:
    def find_spec(name, path=None, target=None):
        if name == "resource_api.cli.session":
            raise OSError(errno.ENOMEM, "Cannot allocate memory", name)

sys.meta_path.insert(0, Finder)
sys.argv[1:] = ["plan", "site.json"]
main()
"""


def test_a_module_that_cannot_be_found_for_want_of_memory_is_no_bug() -> None:
    """The import system lists directories, which fails with an error of the operating system."""
    command = [sys.executable, "-c", IMPORT_WITHOUT_MEMORY]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (process.returncode, process.stderr) == (
        1,
        "Error: out of memory; give this command more, then run it again\n",
    )


def test_no_text_of_a_manifest_is_evaluated(box: Box) -> None:
    """Templates, formats and commands of other tools are text."""
    texts = ["{{7*7}}", "%s", "{0.__class__}", "$(id)", "`id`", "\\g<0>", "$${inputs.x}", "<%= 1 %>", "!!python/none"]
    box.manifest({f"Good[{n}]": {"colour": text} for n, text in enumerate(texts)})
    assert box.run("apply", "site.json").code == 0
    assert [box.stored("good")[str(n)]["colour"] for n in range(len(texts))] == [
        text.replace("$${", "${") for text in texts
    ]


@pytest.mark.parametrize("seed", range(4))
def test_any_bytes_are_a_manifest_or_an_error(box: Box, seed: int) -> None:
    """Valid manifests with parts cut, doubled and replaced by noise, many in one process."""
    box.write("mutants.py", MUTANTS)
    result = box.run_shell(f'"$1" -P mutants.py {seed} 300')
    assert result.code == 0, result.err.decode()[-2000:]
    assert int(result.out) > 0


MUTANTS: Final = '''
"""Reads mutants of a manifest; any exception but ours, or a second without an answer, ends it with a report."""
import random
import signal
import sys

from resource_api import ManifestError, Registry, Runtime

GOOD = b"""project: web
inputs: {domain: {type: String, default: example.org}}
values: {a: &a [1, 2.5, true, null, "x y"], b: *a}
resources:
  Good[x]: {size: 3, colour: "in ${inputs.domain}", parts: [a, b]}
  "Good[y: z]":
    colour: |
      several
      lines
    require: Good[x]
    lifecycle: {protect: true}
outputs: {c: "${Good[x].colour}"}
"""
NOISE = [
    *(b"[", b"{", b"*a", b"&b", b"!!x ", b"${", b"]", b"}", b": ", b"- ", b"\\n", b"\\t", b"\\x00", b"\\xff"),
    *(b"'", b'"', b"|", b">", b"#", b"? ", b"<<: ", b"%YAML 1.1\\n", b"---\\n", b"...", b"9" * 400, b"~", b"@"),
]


def mutant(chance):
    data = GOOD
    for _ in range(chance.randint(1, 6)):
        start = chance.randrange(len(data) + 1)
        end = start + chance.choice([0, 0, 1, 2, 8])
        piece = chance.choice([b"", chance.choice(NOISE), bytes([chance.randrange(256)]), data[start:end] * 3])
        data = data[:start] + piece + data[end:]
    return data


def stop(*_):
    raise TimeoutError


signal.signal(signal.SIGALRM, stop)
chance, refused = random.Random(int(sys.argv[1])), 0
runtime = Runtime(Registry.from_path("."), state="memory:")
for number in range(int(sys.argv[2])):
    data = mutant(chance)
    open("mutant.yaml", "wb").write(data)
    signal.setitimer(signal.ITIMER_REAL, 3)
    try:
        runtime.validate("mutant.yaml")
    except ManifestError as error:
        assert error.problems
        refused += 1
    except BaseException as error:
        sys.exit(f"{error!r} for {data!r}")
    signal.setitimer(signal.ITIMER_REAL, 0)
print(refused)
'''
