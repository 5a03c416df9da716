"""Reads: as few calls of ``get`` as possible, and a failed read is never absence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

GET_ALONE = "def get(self, context): {body}\ndef set(self, context, changes): self._done(changes)"


def test_all_resources_of_a_type_are_read_by_one_call(bench: Bench) -> None:
    """One ``get`` reads all declared resources of a type."""
    bench.put("widget", a={"size": 1}, b={"size": 1})
    names = ", ".join(f"'Widget[{name}]': {{size: 1}}" for name in "ab")
    assert bench.apply(f"resources: {{{names}}}", "--detailed-exitcodes").code == 0
    assert len(bench.calls("widget", "get")) == 1


def test_a_change_is_read_again_once(bench: Bench) -> None:
    """``get`` is called once before and once after ``set``."""
    bench.apply("resources: {'Widget[a]': {}, 'Widget[b]': {}, 'Widget[c]': {}}")
    assert [method for method, _ in bench.calls("widget")] == ["get", "set", "get"]


def test_a_filter_receives_exactly_the_declared_names(bench: Bench) -> None:
    """A type with ``simple_get_filter`` is read by one call with the declared names."""
    bench.put("setting", a={"value": 1}, b={"value": 2}, c={"value": 3})
    result = bench.apply("resources: {'Setting[b]': {value: 2}, 'Setting[a]': {value: 1}}", "--detailed-exitcodes")
    assert result.code == 0
    assert bench.calls("setting", "get") == [["b", "a"]]


def test_the_verifying_read_has_only_the_changed_names(bench: Bench) -> None:
    """After ``set`` only the names that were changed are read."""
    bench.put("setting", a={"value": 1}, b={"value": 2})
    bench.apply("resources: {'Setting[a]': {value: 1}, 'Setting[b]': {value: 3}}")
    assert bench.calls("setting", "get") == [["a", "b"], ["b"]]


def test_a_listing_calls_a_filter_with_none(bench: Bench) -> None:
    """A listing calls ``get`` with None, and ``resource TYPE NAME`` with the one name."""
    bench.put("setting", b={"value": 2}, a={"value": 1})
    assert bench.run("resource", "setting").code == 0
    assert bench.calls("setting", "get") == [None]
    assert bench.run("resource", "setting", "b").code == 0
    assert bench.calls("setting", "get") == [None, ["b"]]


def test_what_is_not_targeted_is_not_read(bench: Bench) -> None:
    """A type with a filter is read for the targeted names only, and a type without a target is not read."""
    bench.put("setting", a={"value": 1}, b={"value": 2})
    manifest = "resources: {'Setting[a]': {value: 1}, 'Setting[b]': {value: 2}, 'Widget[x]': {}}"
    assert bench.apply(manifest, "--target", "Setting[b]").code == 0
    assert bench.calls("setting", "get") == [["b"]]
    assert bench.calls("widget") == []


def test_a_noop_resource_is_read(bench: Bench) -> None:
    """A resource with ``noop: true`` is read and not set."""
    bench.apply("resources: {'Widget[a]': {noop: true}}")
    assert [method for method, _ in bench.calls("widget")] == ["get"]


@pytest.mark.parametrize(
    "body",
    [
        "return [dict(r) for r in self._rows().values()]",
        "yield from self._rows().values()",
        "return map(dict, self._rows().values())",
        "return tuple(self._rows().values())",
        "return self._rows().values()",
    ],
)
def test_get_may_return_any_iterable_of_mappings(bench: Bench, body: str) -> None:
    """``get`` may return a list, a generator or a view."""
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 1})
    bench.probe(GET_ALONE.format(body=body))
    assert bench.apply("resources: {'Probe[a]': {size: 1}}", "--detailed-exitcodes").code == 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return None", "NoneType"),
        ("return 'abc'", "str"),
        ("return {'name': 'a'}", "dict"),
        ("return [3]", "int"),
        ("return [{'ensure': 'present'}]", "name"),
        ("return [{'name': ['a']}]", "namevar"),
        ("raise OSError('the disk is gone')", "the disk is gone"),
        ("context.fail('cannot say')", "cannot say"),
        ("1 / 0", "division by zero"),
    ],
)
def test_a_failing_get_fails_the_type_and_nothing_else(bench: Bench, body: str, words: str) -> None:
    """All resources of the type fail with the message, their dependents are skipped, and others are applied."""
    bench.probe(GET_ALONE.format(body=body))
    manifest = "resources: {'Probe[a]': {}, 'Probe[b]': {}, 'Widget[x]': {}, 'Widget[y]': {require: 'Probe[a]'}}"
    result = bench.stream(manifest, "--detailed-exitcodes")
    assert result.code == 6
    ends = result.ends()
    assert {name: end["status"] for name, end in ends.items()} == {
        "Probe[a]": "failed",
        "Probe[b]": "failed",
        "Widget[x]": "success",
        "Widget[y]": "skipped",
    }
    assert words in ends["Probe[a]"]["error"]
    assert words in ends["Probe[b]"]["error"]
    assert bench.things("probe") == {}


def test_a_failing_get_fails_the_plan_and_the_listing(bench: Bench) -> None:
    """A plan and a listing exit 1, and a noop run exits 4 with detailed exit codes."""
    bench.probe(GET_ALONE.format(body="raise OSError('the disk is gone')"))
    manifest = "resources: {'Probe[a]': {}}"
    assert bench.plan(manifest).code == 1
    assert bench.apply(manifest, "--noop", "--detailed-exitcodes").code == 4
    listed = bench.run("resource", "probe")
    assert (listed.code, listed.out) == (1, "")
    assert "the disk is gone" in listed.err


@pytest.mark.parametrize("noop", [[], ["--noop"]])
def test_a_run_that_is_interrupted_during_a_read_has_a_summary(bench: Bench, noop: list[str]) -> None:
    """``apply`` prints the summary as text and as an event, and ``plan`` prints nothing."""
    bench.probe(GET_ALONE.format(body="raise KeyboardInterrupt"))
    manifest = "resources: {'Probe[a]': {}}"
    ended = bench.apply(manifest, *noop)
    assert (ended.code, len(ended.out.splitlines())) == (1, 1)
    words = "Plan: nothing to do; 0 unchanged. (noop)" if noop else "Applied in 0.0 s: 0 unchanged."
    assert ended.out.startswith(words)
    assert ("(noop)" in ended.out) is bool(noop)
    summary = bench.stream(manifest, *noop).events()[-1]
    assert (summary["type"], summary["exit_code"], summary["noop"]) == ("summary", 1, bool(noop))
    assert bench.plan(manifest).out == ""


def test_one_unreadable_resource_fails_alone(bench: Bench) -> None:
    """``context.failed`` in ``get`` fails one resource, and the others are applied."""
    bench.probe(GET_ALONE.format(body="context.failed('a', message='locked by somebody'); return []"))
    result = bench.stream("resources: {'Probe[a]': {}, 'Probe[b]': {}}")
    assert result.ends()["Probe[a]"]["status"] == "failed"
    assert result.ends()["Probe[a]"]["error"] == "locked by somebody"
    assert result.ends()["Probe[b]"]["action"] == "create"
    assert "a" not in bench.things("probe")


@pytest.mark.parametrize(
    ("feature", "method", "answer", "code"),
    [
        ("canonicalize", "canonicalize", "given[0]", 65),
        ("validate", "validate", "None", 65),
        ("custom_insync", "insync", "None", 1),
        ("plan", "plan", "Planned()", 1),
    ],
)
def test_a_failure_that_is_reported_where_an_answer_counts_is_not_lost(
    bench: Bench, feature: str, method: str, answer: str, code: int
) -> None:
    """The call raises, as after any other report: what is read and what is done can fail, an answer cannot."""
    bench.put("probe", b={"name": "b", "ensure": "present", "size": 1})
    bench.probe(
        f"""
        def {method}(self, context, *given):
            if "'b'" in repr(given):
                context.failed("b", message="never")
            return {answer}
        def set(self, context, changes): self._done(changes)
        """,
        features=(feature,),
    )
    result = bench.apply("resources: {'Probe[b]': {size: 2}}")
    assert result.code == code, result
    reason = "nothing is changed in this call; no resource is reported on: what it returns or raises counts"
    assert reason in result.err
    assert bench.things("probe")["b"]["size"] == 1


def test_a_run_whose_due_reports_a_failure_is_not_made(bench: Bench) -> None:
    """Whatever ``due`` returns: the resource fails with the reason that was reported."""
    bench.type(
        "chore",
        '"name": Attribute("String", "n", kind="namevar")',
        provider="""
        def get(self, context):
            return []
        def due(self, context, name, should):
            if name == "b":
                context.failed(name, message="nobody knows")
            return True
        def set(self, context, changes):
            for name in changes:
                Path(os.environ["BENCH"], name).touch()
        """,
        base="BaseProvider",
        features=["imperative"],
    )
    result = bench.stream("resources: {'Chore[a]': {}, 'Chore[b]': {}}")
    assert {name: (end["status"], end["error"]) for name, end in result.ends().items()} == {
        "Chore[a]": ("success", None),
        "Chore[b]": ("failed", "nobody knows"),
    }
    assert [path.name for path in bench.things_of.iterdir()] == ["a"]


def test_one_unreadable_resource_leaves_the_others_in_a_listing(bench: Bench) -> None:
    """The error is on stderr with exit code 1, and the other resources are listed."""
    rows = "[{'name': name, 'size': 1} for name in ('b', 'c')]"
    bench.probe(GET_ALONE.format(body=f"context.failed('a', message='locked by somebody'); return {rows}"))
    expected = ["Error: Probe[a]: locked by somebody"]
    listed = bench.run("resource", "probe")
    assert (listed.code, listed.lines) == (1, expected)
    assert re.findall(r"Probe\[.\]", listed.out) == ["Probe[b]", "Probe[c]"]
    document = bench.run("resource", "probe", "--json")
    assert (document.code, document.lines, [row["title"] for row in document.document]) == (1, expected, ["b", "c"])
    output = bench.run("resource", "probe", "a")
    assert (output.code, output.out, output.lines) == (1, "", expected)
    assert bench.run("resource", "probe", "b").code == 0


BAD_ROWS = """
def get(self, context):
    return [
        {"name": "a", "ensure": "present", "size": "big", **self._rows().get("a", {})},
        {"name": "b", "ensure": "present", "wibble": 1, **self._rows().get("b", {})},
        {"name": "c", "ensure": "present", "size": 1},
        {"name": "other", "ensure": "perhaps", "wobble": 2},
    ]
def set(self, context, changes): self._done(changes)
"""


def test_what_get_returns_must_be_of_its_type_and_declared(bench: Bench) -> None:
    """A wrong or undeclared attribute fails its resource, and a row that is not needed is not reported."""
    bench.probe(BAD_ROWS)
    result = bench.stream("resources: {'Probe[a]': {size: 2}, 'Probe[b]': {size: 1}, 'Probe[c]': {size: 1}}")
    assert result.code == 1
    ends = result.ends()
    assert "size" in ends["Probe[a]"]["error"]
    assert "wibble" in ends["Probe[b]"]["error"]
    assert "Probe[c]" not in ends
    assert "wobble" not in result.err + result.out


def test_a_wrong_value_of_a_row_has_no_advice_for_manifests(bench: Bench) -> None:
    """Quotes are for a number that a manifest has in place of text."""
    bench.probe(
        "def get(self, context): return [{'name': 'a', 'ensure': 'present', 'colour': 3}]\n"
        "def set(self, context, changes): pass"
    )
    result = bench.apply("resources: {'Probe[a]': {size: 2}}")
    assert "Error: Probe[a]: get returned colour must be a string, not an integer" in result.lines


@pytest.mark.parametrize(("strict", "level"), [("warning", "Warning"), ("off", None)])
def test_below_error_a_wrong_row_does_not_fail(bench: Bench, strict: str, level: str | None) -> None:
    """``--strict warning`` logs a warning for each wrong row, ``off`` logs nothing, and the resource is updated."""
    bench.probe(BAD_ROWS)
    result = bench.apply("resources: {'Probe[a]': {size: 2}, 'Probe[b]': {ensure: present}}", "--strict", strict)
    assert result.code == 0
    warnings = [line for line in result.lines if line.startswith("Warning")]
    assert bool(warnings) is (level is not None)
    if level:
        assert any(line.startswith("Warning: Probe[b]: ") and "wibble" in line for line in warnings)
        assert any(line.startswith("Warning: Probe[a]: ") and "size" in line for line in warnings)
        assert not any("wobble" in line for line in warnings)
    assert bench.things("probe")["a"]["size"] == 2


@pytest.mark.parametrize("strict", ["error", "warning", "off"])
def test_a_wrong_row_is_refreshed_and_imported_as_strictly_as_it_is_applied(bench: Bench, strict: str) -> None:
    """The commands that only read have ``--strict`` too: ``import``, ``import --all`` and ``refresh``."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.probe(
        "def get(self, context): return [{'name': 'b', 'ensure': 'present', 'wibble': 1}]\n"
        "def set(self, context, changes): pass"
    )
    bench.write("site.yaml", "resources: {'Probe[b]': {}}")
    expected = int(strict == "error")
    assert bench.run("import", "site.yaml", "Probe", "--strict", strict).code == expected
    assert bench.run("import", "--all", "probe", "-o", "all.yaml", "--yes", "--strict", strict).code == expected
    bench.run("import", "site.yaml", "Probe", "--strict", "off")
    assert bench.run("refresh", "site.yaml", RESOURCE_API_STRICT=strict).code == expected


@pytest.mark.parametrize("strict", ["error", "warning", "off"])
def test_get_must_not_return_unknown(bench: Bench, strict: str) -> None:
    """A value of UNKNOWN from ``get`` fails the resource at every level of strictness."""
    bench.probe(
        "def get(self, context): return [{'name': 'a', 'colour': UNKNOWN}]\ndef set(self, context, changes): pass"
    )
    for result in (
        bench.plan("resources: {'Probe[a]': {}}", "--strict", strict),
        bench.run("resource", "probe", "a", "--strict", strict),
    ):
        assert result.code == 1
        assert "get returned a value of 'colour' that is not known" in result.out + result.err


@pytest.mark.parametrize(
    ("strict", "code", "level"), [("error", 1, "Error"), ("warning", 0, "Warning"), ("off", 0, "")]
)
def test_strict_applies_to_the_resource_command(bench: Bench, strict: str, code: int, level: str) -> None:
    """``--strict`` decides whether a wrong row fails a listing, a read and a change without a manifest."""
    bench.probe(BAD_ROWS)
    for arguments in ((), ("b",), ("b", "ensure=present")):
        result = bench.run("resource", "probe", *arguments, "--strict", strict)
        assert (result.code, "Probe[b]" in result.out) == (code, code == 0)
        assert {line.split(":")[0] for line in result.lines} == ({level} if level else set())


def test_a_name_that_get_returns_twice_is_an_error(bench: Bench) -> None:
    """Two rows of one name fail the resource."""
    bench.probe(GET_ALONE.format(body="return [{'name': 'a', 'size': 1}, {'name': 'a', 'size': 2}]"))
    result = bench.apply("resources: {'Probe[a]': {size: 1}}")
    assert result.code == 1
    assert "more than once" in result.err


def test_a_type_that_cannot_be_listed_reports_the_reason(bench: Bench) -> None:
    """``CannotList`` fails a listing with its message, and named resources are read."""
    bench.probe(
        """
        def get(self, context, names=None):
            if names is None:
                raise CannotList("there are too many of them")
            return [{"name": name, "ensure": "present"} for name in names]
        def set(self, context, changes): pass
        """,
        features=("simple_get_filter",),
    )
    listed = bench.run("resource", "probe")
    assert (listed.code, listed.out) == (1, "")
    assert "there are too many of them" in listed.err
    assert bench.run("resource", "probe", "a", "--json").document == [{"title": "a", "name": "a", "ensure": "present"}]
    assert bench.apply("resources: {'Probe[a]': {}}", "--detailed-exitcodes").code == 0


def test_a_type_that_can_neither_be_listed_nor_filtered_fails_alone(bench: Bench) -> None:
    """``CannotList`` fails the resources of the type with its message, and the others are applied."""
    bench.probe(
        """
        def get(self, context):
            raise CannotList("there are too many of them")
        def set(self, context, changes): pass
        """
    )
    text = "resources: {'Probe[a]': {}, 'Widget[b]': {size: 1}}"
    planned = bench.plan(text)
    assert planned.code == 1
    assert "Error: Probe[a]: there are too many of them" in planned.lines
    ends = bench.stream(text).ends()
    assert {name: end["status"] for name, end in ends.items()} == {"Probe[a]": "failed", "Widget[b]": "success"}


def test_the_provider_is_instantiated_once_and_lazily(bench: Bench) -> None:
    """One instance serves a run, and a type without a target gets no instance."""
    bench.probe(
        """
        def __init__(self):
            print("made", file=sys.stderr)
            self.calls = 0
        def get(self, context):
            self.calls += 1
            context.notice(f"call {self.calls}")
            return self._rows().values()
        def set(self, context, changes): self._done(changes)
        """
    )
    result = bench.apply("resources: {'Probe[a]': {}}")
    assert result.lines.count("made") == 1
    assert [line for line in result.lines if "call" in line] == ["Notice: probe: call 1", "Notice: probe: call 2"]
    untargeted = bench.apply("resources: {'Probe[a]': {}, 'Widget[a]': {}}", "--target", "Widget[a]")
    assert "made" not in untargeted.err


def test_a_provider_that_cannot_be_instantiated_fails_its_resources(bench: Bench) -> None:
    """The error has the message of the constructor, and other resources are applied."""
    bench.probe("def __init__(self): raise RuntimeError('no tools here')\ndef set(self, context, changes): pass")
    result = bench.stream("resources: {'Probe[a]': {}, 'Widget[a]': {}}", "--detailed-exitcodes")
    assert result.code == 6
    assert "no tools here" in result.ends()["Probe[a]"]["error"]


def test_an_earlier_resource_can_set_up_what_a_provider_needs(bench: Bench) -> None:
    """A failed read is repeated after an earlier change, and without such a change it is an error."""
    bench.probe(
        """
        def get(self, context):
            if not Path(os.environ["BENCH"], "widget.json").exists():
                raise OSError("the tool is not installed")
            return self._rows().values()
        def set(self, context, changes): self._done(changes)
        """
    )
    manifest = "resources: {'Widget[tool]': {}, 'Probe[a]': {size: 1}}"
    planned = bench.plan(manifest)
    assert planned.code == 0
    assert "(decided at its turn: the tool is not installed (providers/probe.py:" in planned.out
    result = bench.apply(manifest, "--detailed-exitcodes")
    assert result.code == 2
    assert bench.things("probe")["a"]["size"] == 1
    (bench.things_of / "widget.json").unlink()
    assert bench.apply("resources: {'Probe[a]': {size: 1}}").code == 1


def test_what_a_provider_prints_goes_to_stderr(bench: Bench) -> None:
    """Output of ``print``, of a child and of a write to descriptor 1 is on stderr and not on stdout."""
    bench.probe(
        """
        def get(self, context):
            print("printed")
            os.system("echo echoed")
            os.write(1, b"written\\n")
            return self._rows().values()
        def set(self, context, changes): self._done(changes)
        """
    )
    result = bench.stream("resources: {'Probe[a]': {}}")
    assert result.code == 0
    assert result.events("summary")
    for word in ("printed", "echoed", "written"):
        assert word in result.err
        assert word not in result.out


def test_a_provider_cannot_change_the_process(bench: Bench) -> None:
    """Working directory, umask and environment are restored after each call."""
    bench.probe(
        """
        def get(self, context):
            mask = os.umask(0); os.umask(mask)
            context.notice(f"at {os.getcwd() != '/'} {oct(mask)} {'RA_SPOILT' in os.environ}")
            os.chdir("/"); os.umask(0o777); os.environ["RA_SPOILT"] = "1"
            return self._rows().values()
        def set(self, context, changes): self._done(changes)
        """
    )
    result = bench.apply("resources: {'Probe[a]': {}}")
    assert result.code == 0
    lines = [line for line in result.lines if "at " in line]
    assert len(lines) == 2
    assert lines[0] == lines[1]
    assert "True" in lines[0]


def test_what_another_call_changed_is_read_again(bench: Bench) -> None:
    """A resource that an earlier call of the same type changed is read again before its own change."""
    bench.probe(
        """
        def get(self, context, names=None):
            return [row for name, row in self._rows().items() if names is None or name in names]
        def set(self, context, changes):
            for name, (is_, should) in changes.items():
                context.notice(name, message=f"is {is_ and is_['size']}")
            self._done(changes)
            if "a" in changes:
                self._put("b", {"name": "b", "ensure": "present", "size": 50})
        """,
        features=("simple_get_filter",),
    )
    bench.put("probe", b={"name": "b", "ensure": "present", "size": 1})
    result = bench.apply("resources: {'Probe[a]': {size: 1}, 'Probe[b]': {size: 2, timeout: 60}}")
    assert result.code == 0
    assert "Notice: Probe[b]: is 50" in result.lines


@pytest.mark.parametrize("feature", ["", "canonicalize"])
def test_a_row_stays_as_it_was_read_whatever_its_provider_does_with_it(bench: Bench, feature: str) -> None:
    """A provider may keep the lists that it has returned and change them: what differs is still told as it was."""
    bench.type(
        "team",
        bench.NAMED + '"members": Attribute("Array[String]", "m")',
        provider=f"""
        def __init__(self):
            self.kept = [dict(name="a", ensure="present", members=["alice"])]
            self.lists = [self.kept[0]["members"]]
        def {feature or "_unused"}(self, context, resources):
            self.lists += [each["members"] for each in resources]
            return resources
        def get(self, context):
            return self.kept
        def set(self, context, changes):
            for name, (_, should) in changes.items():
                for each in self.lists:
                    each[:] = ["alice", "bob"]
        """,
        base="BaseProvider",
        features=[feature] * bool(feature),
    )
    result = bench.stream("resources: {'Team[a]': {members: [bob, alice]}}", "--strict", "off")
    assert [(change["is"], change["should"]) for change in result.ends()["Team[a]"]["changes"]] == [
        (["alice"], ["bob", "alice"])
    ]
