"""Truthful output: nested secrets are hidden, write errors are reported, and false provider reports are refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

ENSURE = '"ensure": Attribute("Enum[present, absent]", default="present"), '
VAULT = ENSURE + '"name": Attribute("String", kind="namevar"), "words": Attribute("Optional[%s]")'
KEEPS = """
def get(self, context): return [self._row(name) for name in self._names()]
def _names(self): return json.loads(Path("vault").read_text()) if Path("vault").exists() else {}
def _row(self, name): return {"name": name, "words": self._names()[name]}
def set(self, context, changes):
    for name, change in changes.items():
        words = change.should["words"]
        assert "hunter2" not in repr(words), "the part that is secret is wrapped"
        Path("vault").write_text(json.dumps({**self._names(), name: self._plain(words)}))
def _plain(self, value):
    if isinstance(value, Sensitive): return value.reveal()
    if hasattr(value, "items"): return {key: self._plain(each) for key, each in value.items()}
    return list(map(self._plain, value)) if isinstance(value, (list, tuple)) else value
"""


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("Hash[String, Sensitive[String]]", "{pw: hunter2}"),
        ("Array[Sensitive[String]]", "[hunter2]"),
        ("Struct[{Optional[pw] => Sensitive[String]}]", "{pw: hunter2}"),
        ("Tuple[Integer, Sensitive[String]]", "[1, hunter2]"),
        ("Variant[Integer, Hash[String, Sensitive[String]]]", "{pw: hunter2}"),
    ],
)
def test_a_value_that_contains_a_secret_is_hidden(bench: Bench, kind: str, value: str) -> None:
    """A secret inside an attribute, an input and an output is in no output and not in state."""
    bench.type("vault", VAULT % kind, provider=KEEPS, base="BaseProvider")
    manifest = (
        f"inputs: {{given: {{type: '{kind}', default: {value}}}}}\n"
        f"resources: {{'Vault[a]': {{words: {value}}}}}\noutputs: {{out: '${{inputs.given}}'}}"
    )
    state = ("--state", f"sqlite:{bench.home}/state.db")
    outcomes = [bench.plan(manifest, *state), bench.apply(manifest, "-d", *state), bench.stream(manifest, "-d", *state)]
    outcomes += [bench.run("state", word, *state) for word in ("list", "export")]
    outcomes += [bench.run("output", *state)]
    assert all(outcome.code == 0 for outcome in outcomes), outcomes
    assert "hunter2" not in "".join(item.out + item.err for item in outcomes)
    assert b"hunter2" not in (bench.home / "state.db").read_bytes()
    assert outcomes[2].events("summary")[0]["unchanged"] == 1


def test_a_problem_of_unknown_severity_is_an_error(bench: Bench) -> None:
    """A ``Problem`` with a severity that is not defined is reported as an error of ``validate``."""
    bench.probe(
        """
        def validate(self, context, should): return [Problem("size", "odd", "fatal")]
        def set(self, context, changes): pass
        """,
        features=("validate",),
    )
    result = bench.validate("resources:\n  Probe[a]: {size: 1}\n")
    assert result.code == 65
    assert (
        "site.yaml:2:3: Probe[a]: validate failed: a problem is an 'error' or a 'warning', not fatal: odd" in result.err
    )


@pytest.mark.parametrize(
    "fields", ["5, 'odd'", "['size'], 'odd'", "'size', 3", "'size', 'odd', needs=3", "'size', 'odd', brought_by='file'"]
)
def test_a_problem_that_is_not_made_of_texts_is_an_error_of_its_provider(bench: Bench, fields: str) -> None:
    """In ``validate`` of the manifest, in ``preflight`` of the check."""
    body = f"    return [Problem({fields})]\ndef preflight(self, context, changes):\n"
    body += f"    return [(name, Problem({fields})) for name in changes]\ndef set(self, context, changes):\n    pass"
    message = "a problem is made of texts, as in Problem('size', 'is too large'), not ("
    bench.probe(f"def validate(self, context, should):\n{body}", features=("validate", "preflight"))
    refused = bench.validate("resources:\n  Probe[a]: {size: 1}\n")
    assert (refused.code, refused.err.count(f"validate failed: {message}")) == (65, 1)
    bench.probe(f"def _unused(self):\n{body}", features=("preflight",))
    warned = bench.plan("resources:\n  Probe[a]: {size: 1}\n")
    assert (warned.code, warned.err.count(f"preflight of its provider failed: {message}")) == (0, 1)


def test_a_provider_that_fails_to_look_up_an_attribute_is_closed_with_a_warning(bench: Bench) -> None:
    """What was done stays done, and is recorded."""
    bench.probe(
        """
        def __getattr__(self, name): raise RuntimeError(f"no {name}")
        def set(self, context, changes): self._done(changes)
        """
    )
    result = bench.apply("resources:\n  Probe[a]: {size: 1}\n")
    assert result.code == 0, result
    assert "Notice: Probe[a]: created\nWarning: probe: close of its provider failed: no close (" in result.err


@pytest.mark.parametrize("changes", ["'x'", "5", "[('size', 1)]", "[5]"])
def test_changes_of_due_have_an_attribute_and_two_values(bench: Bench, changes: str) -> None:
    """Others fail the resource with its place."""
    due = f"def due(self, context, name, should):\n    return (True, 'why', {changes})\n"
    bench.probe(f"{due}def set(self, context, changes):\n    pass", features=("imperative",))
    result = bench.apply("resources:\n  Probe[a]: {size: 1}\n")
    assert result.code == 1
    assert "Error: Probe[a]: due must give changes as a list of (attribute, is_, should), not " in result.err


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("context.error('odd')", "a context has no 'error'; did you mean 'err'?"),
        ("context.warn('odd')", "a context has no 'warn'; did you mean 'warning'?"),
        ("context.create(name)", "a context has no 'create'; did you mean 'created'?"),
        ("context.device", "a context has no 'device' (providers/probe.py"),
    ],
)
def test_a_context_names_the_method_that_is_meant(bench: Bench, call: str, words: str) -> None:
    """Loggers elsewhere have other names for the levels."""
    bench.probe(f"def set(self, context, changes):\n    for name in changes:\n        {call}")
    assert words in bench.apply("resources: {'Probe[a]': {size: 1}}").err


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "change.should['size'] = 2",
            "item assignment; is_ and should are read-only: use a copy, such as {**should}",
        ),
        ("del change.should['size']", "item deletion; is_ and should are read-only: use a copy, such as {**should}"),
        ("change.should.pop('size')", "'pop'; is_ and should are read-only: use a copy, such as {**should}"),
        ("__import__('json').dumps(change.should)", "; is_ and should are read-only: use a copy, such as {**should}"),
        ("change.should.size", "no attribute 'size'; it is a mapping: write ['size']"),
    ],
)
def test_a_read_only_mapping_is_named_as_such(bench: Bench, statement: str, words: str) -> None:
    """Python's name for its type says nothing to the author of a provider."""
    bench.probe(f"def set(self, context, changes):\n    for change in changes.values():\n        {statement}")
    assert f"{words} (providers/probe.py:" in bench.apply("resources: {'Probe[a]': {size: 1}}").err


@pytest.mark.parametrize("call", ['context.created("a")', 'context.deleting("b").__enter__()'])
def test_a_change_reported_during_get_is_an_error(bench: Bench, call: str) -> None:
    """A provider that reports a change in ``get`` fails the plan."""
    bench.probe(f"def get(self, context, names=None):\n    {call}\n    return []\ndef set(self, c, changes): pass")
    result = bench.plan("resources: {'Probe[a]': {}}")
    assert result.code == 1
    assert "nothing is changed in this call" in result.err
    assert "Created" not in result.err + result.out


def test_an_error_found_during_the_run_has_a_line(bench: Bench) -> None:
    """A wrong value that is only known after an earlier step is reported with file and line."""
    bench.type(
        "gauge",
        ENSURE + '"name": Attribute("String", kind="namevar"), "size": Attribute("Optional[Enum[big, small]]")',
        provider="def get(self, context): return []\ndef set(self, context, changes): pass",
        base="BaseProvider",
    )
    result = bench.apply("resources:\n  Widget[a]: {colour: red}\n  Gauge[b]: {size: '${Widget[a].serial}'}\n")
    assert result.code == 1
    (line,) = [row for row in result.err.splitlines() if row.startswith("Error: Gauge[b]")]
    assert line.endswith("/site.yaml:3)")


@pytest.mark.parametrize("start", ["async def manifest(m):", "def manifest(m):\n    yield"])
def test_a_python_manifest_that_is_no_plain_function_is_refused(bench: Bench, start: str) -> None:
    """A coroutine or a generator as ``manifest`` is refused, and a lambda is accepted."""
    manifest = bench.write("site.py", f"{start}\n    m.widget('a')\n")
    result = bench.run("validate", manifest)
    assert result.code == 65
    assert "manifest(m) must be a plain function" in result.err
    bench.write("site.py", "manifest = lambda m: m.widget('a')\n")
    assert bench.run("validate", manifest).code == 0


def test_keys_of_mappings_are_not_interpolated(bench: Bench) -> None:
    """A listing with expression syntax in keys and values is read back unchanged."""
    bench.type(
        "jar",
        '"name": Attribute("String", kind="namevar"), "parts": Attribute("Optional[Hash]")',
        provider="""
        def get(self, context): return [{"name": "a", "parts": {"${x}": "${y}", "$${z}": 1}}]
        def set(self, context, changes): raise RuntimeError("not in order")
        """,
        base="BaseProvider",
    )
    listed = bench.run("resource", "jar")
    result = bench.apply(listed.out, "--detailed-exitcodes")
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize(
    "words", ["types", "schema", "resource widget", "resource widget --json", "help apply", "plan --help", "--version"]
)
def test_a_write_error_is_no_success(bench: Bench, words: str) -> None:
    """A full device exits 1 with an error, and a closed pipe exits 0."""
    for redirection, code in ((">/dev/full", 1), ("| true", 0)):
        process = bench.shell(f'set -o pipefail; "$@" {words} {redirection}')
        assert process.returncode == code
        assert process.stderr.partition(": ")[2] == ("cannot write: No space left on device\n" if code else "")


def test_exporting_an_unrecorded_project_is_an_error(bench: Bench) -> None:
    """``state export`` of a project that is not recorded exits 64 and prints nothing on stdout."""
    state = ("--state", f"sqlite:{bench.home}/state.db")
    assert bench.apply("resources: {'Widget[a]': {}}", *state).code == 0
    result = bench.run("state", "export", "--project", "other", *state)
    assert (result.code, result.out) == (64, "")
    assert result.err == "Error: nothing is recorded of project 'other'; recorded are: site\n"


def test_a_noop_handler_is_not_called_with_unknown_values(bench: Bench) -> None:
    """A resource with an unknown value is reported as planned, without a call of the noop handler."""
    bench.probe(
        """
        def set(self, context, changes, *, noop=False):
            for name, change in changes.items():
                context.info(name, message=f"asked for {dict(change.should)}")
            if not noop: self._done(changes)
        """,
        features=("noop_handler",),
    )
    manifest = "resources: {'Widget[w]': {}, 'Probe[a]': {size: 1}, 'Probe[b]': {colour: '${Widget[w].serial}'}}"
    result = bench.apply(manifest, "--noop", "-v")
    assert result.code == 0
    assert [line for line in result.lines if "asked" in line and "Probe[a]" in line]
    assert not [line for line in result.lines if "asked" in line and "Probe[b]" in line]
    assert result.out.splitlines()[-1] == "Plan: 3 to create; 0 unchanged."


def test_a_text_output_is_printed_unescaped(bench: Bench) -> None:
    """``output NAME`` prints the text of an output without escapes."""
    state = ("--state", f"sqlite:{bench.home}/state.db")
    assert bench.apply('outputs: {t: "a\\tb\\u2028c\\\\n"}\nresources: {}', *state).code == 0
    assert bench.run("output", "t", *state).out == "a\tb\u2028c\\n\n"


@pytest.mark.parametrize("words", [("validate", "none.yaml"), ("apply", "none.yaml"), ("describe", "none")])
def test_diagnostics_are_json_lines(bench: Bench, words: tuple[str, ...]) -> None:
    """With ``--log-format json`` each line on stderr is a JSON object, also for wrong usage."""
    result = bench.run(*words, "--log-format", "json")
    assert result.code in {64, 65}
    events = [json.loads(line) for line in result.lines]
    assert [event["level"] for event in events] == ["err"]
