"""Providers that violate one rule each (``modules/bad``): they fail alone, with their reason.

Every manifest also has good resources of another type, of which one depends on a bad one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from tests.hostile.conftest import Box, Done

MODULES: Final = Path(__file__).resolve().parent / "modules" / "bad"


@pytest.fixture(params=["", "1"], ids=["here", "in_a_worker"])
def box(box: Box, request: pytest.FixtureRequest) -> Box:
    """Run each provider in this process, and in a worker: the result is the same."""
    box.env["RESOURCE_API_ISOLATE"] = request.param
    return box


class Case(NamedTuple):
    """A violation: which of the four bad resources fail, the expected messages, and the features of the type."""

    fails: str
    says: str
    features: str = ""


NO_LIST: Final = "get must return the resources as a list or another iterable, not "

#: What is wrong fails some or all of the bad resources, at exit code 1.
FAILING: Final = {
    "get_raises": Case("abcd", "Input/output error"),
    "get_none": Case("abcd", NO_LIST + "NoneType"),
    "get_dict": Case("abcd", NO_LIST + "dict"),
    "get_str": Case("abcd", NO_LIST + "str"),
    "get_number": Case("abcd", NO_LIST + "int"),
    "get_names": Case("abcd", "get must return mappings of attribute to value, not str"),
    "get_half": Case("abcd", "the rest cannot be read"),
    "get_duplicates": Case("b", "get returned 'b' more than once"),
    "get_no_namevar": Case("abcd", "get returned a resource without its namevar 'name'"),
    "get_unhashable": Case("abcd", "get returned a namevar that cannot be one"),
    "get_undeclared": Case("b", "undeclared attribute weight"),
    "get_odd_keys": Case("b", "undeclared attribute 7"),
    "get_wrong_type": Case("b", "size must be an integer from 0 to 100, not a string"),
    "get_boolean": Case("b", "not a boolean"),
    "get_out_of_range": Case("b", "size must be an integer from 0 to 100, not 1000"),
    "get_nan": Case("b", "ratio must be a float such as 1.0, not nan"),
    "get_infinite": Case("b", "ratio must be a float such as 1.0, not -inf"),
    "get_bytes": Case("b", "colour must be a string, not bytes"),
    "get_str_subclass": Case("b", "colour must be a string, not Text"),
    "get_object": Case("b", "tree must be a value, not object"),
    "get_set": Case("b", "parts must be a list, not set"),
    "get_cyclic": Case("b", "get returned tree must not be nested deeper than 100 levels"),
    "get_deep": Case("b", "get returned tree must not be nested deeper than 100 levels"),
    "get_lazy_mapping": Case("abcd", "division by zero in a row"),
    "get_odd_iterable": Case("abcd", "more rows than numbers"),
    "get_uncanonical": Case("b", "get returned RED for 'colour', which is not canonical", "canonicalize"),
    "get_uncanonical_name": Case("b", "get returned the name B, which is not canonical", "canonicalize"),
    "get_str_raises": Case("abcd", "Mute"),
    "get_recursion": Case("abcd", "maximum recursion depth exceeded"),
    "get_memory": Case("abcd", "MemoryError"),
    "get_foreign_error": Case("abcd", "it is all the manifest's fault"),
    "get_state_error": Case("abcd", "no state for you"),
    "get_stop_iteration": Case("abcd", "StopIteration"),
    "get_group": Case("abcd", "two things went wrong (2 sub-exceptions): one thing; KeyError: 'another'"),
    "get_one_cannot": Case("b", "behind a locked door"),
    "get_exits": Case("abcd", "SystemExit: 3"),
    "get_stops_generators": Case("abcd", "GeneratorExit"),
    "get_flaps": Case("b", "did not converge: size is "),
    "get_mutates_rows_later": Case("a", "did not converge: parts is [x], should be [x, y]"),
    "set_raises": Case("abc", "Permission denied"),
    "set_raises_midway": Case("b", "b is stuck to the wall"),
    "set_str_raises": Case("b", "Mute"),
    "set_recursion": Case("abc", "maximum recursion depth exceeded"),
    "set_lies": Case("abc", "did not converge: "),
    "set_does_nothing": Case("abc", "did not converge: "),
    "set_half": Case("c", "did not converge: ensure is absent, should be present"),
    "set_other_value": Case("b", "did not converge: size is 99, should be 2"),
    "set_breaks_another": Case("b", "did not converge: ensure is absent, should be present"),
    "set_then_get_fails": Case("abc", "the store is gone"),
    "set_mutates": Case("a", "did not converge: size is 50, should be 1; parts is [x, y, z], should be [x, y]"),
    "insync_nonsense": Case("b", "must return True, False, None or (False, message), not perhaps", "custom_insync"),
    "insync_raises": Case("b", "'<' not supported between 'b' and the rest", "custom_insync"),
    "constructor_raises": Case("abcd", "the provider of 'bad' cannot be made: [Errno 111] Connection refused"),
    "constructor_wants_arguments": Case("abcd", "missing 1 required positional argument: 'connection'"),
    "constructor_exits": Case("abcd", "no licence"),
    "logs_foreign": Case("b", "z is not among the changes of this call"),
    "status_without_work": Case("b", "it looked better before"),
}

#: What fails because it cannot be read, which is never taken for absence.
UNREADABLE: Final = {case for case in FAILING if case.startswith(("get_", "constructor_"))} - {
    *("get_flaps", "get_mutates_rows_later"),
}

#: What is odd and does no harm: everything converges.
HARMLESS: Final = {
    "get_shared_rows": "",
    "get_mutates_names": "simple_get_filter",
    "get_forks": "",
    "set_forks": "",
    "set_forks_and_raises": "",
    "constructor_forks": "",
    "load_forks": "",
    "set_changes_process": "",
    "load_changes_process": "",
    "prints": "",
    "closes_stdout": "",
    "closes_stderr": "",
    "insync_mutates": "custom_insync",
    "swallows_context": "",
    "status_twice": "",
    "leaves_thread": "",
}

#: What makes the manifest or a file that it uses wrong: nothing is touched, at exit code 65.
REFUSED: Final = {
    "canonicalize_mutates": Case("b", "canonicalize added what is not declared: 'colour'", "canonicalize"),
    "canonicalize_short": Case("abcd", "must return the resources that it was given", "canonicalize"),
    "canonicalize_none": Case("abcd", "must return the resources that it was given", "canonicalize"),
    "canonicalize_raises": Case("b", "canonicalize failed: KeyError: 'colour'", "canonicalize"),
    "canonicalize_drops": Case("b", "canonicalize dropped 'size'", "canonicalize"),
    "canonicalize_wrong_type": Case("b", "canonicalize returned size must be an integer", "canonicalize"),
    "canonicalize_exits": Case("abcd", "canonicalize failed: SystemExit: 0", "canonicalize"),
    "validate_raises": Case("b", "validate failed: 'NoneType' object has no attribute 'strip'", "validate"),
    "validate_nonsense": Case(
        "b", "validate must return texts or Problem(attribute, message), one or several, not 7", "validate"
    ),
    "load_raises": Case("abcd", "providers/bad.py:3: OSError: libstore.so.3"),
    "load_exits": Case("abcd", "providers/bad.py:5: exits while it is loaded (code 0)"),
    "load_prints": Case("abcd", "providers/bad.py: prints while it is loaded"),
    "load_edits_path": Case("abcd", "providers/bad.py: changes sys.path while it is loaded"),
    "load_recursion": Case("abcd", "RecursionError: maximum recursion depth exceeded"),
    "load_syntax": Case("abcd", "providers/bad.py:2: SyntaxError: '(' was never closed"),
    "load_null": Case("abcd", "Error: source code string cannot contain null bytes"),
    "load_no_provider": Case("abcd", "providers/bad.py: defines no Provider"),
    "load_instance": Case("abcd", "providers/bad.py: Provider must be a type, not JsonStore"),
    "load_without_get": Case("abcd", "has no method 'get'"),
    "load_promise_unkept": Case("abcd", "has no method 'insync', which feature 'custom_insync'", "custom_insync"),
    "load_promise_unsaid": Case("abcd", "has the method 'canonicalize' but its type does not declare"),
    "load_signature": Case("abcd", "get takes no 'names'", "simple_get_filter"),
}

#: What ends the run: the bad one has failed, the rest is skipped, the summary is written, at exit code 1.
ENDING: Final = {
    "set_exits": "SystemExit: 3",
    "set_interrupts": "KeyboardInterrupt",
    "set_stops_generators": "GeneratorExit",
    "set_own_base_exception": "halted for reasons of my own",
}

#: An interrupt that nobody sent, before anything was planned: the run does not begin.
UNBEGUN: Final = ("get_interrupts", "load_interrupts")

AFTER: Final = {"a": {"size": 1, "parts": ["x", "y"]}, "b": {"size": 2}, "c": {"size": 3}, "d": {"size": 4}}
GOOD: Final = {"before": {"size": 1}, "after": {"size": 2}, "dependent": {"size": 3}}


def apply(box: Box, case: str, features: str) -> Done:
    """Apply the manifest with a bad provider; stdout is always JSON, and no traceback is shown."""
    box.bad(case, *features.split())
    result = box.run("apply", "site.json", "--json")
    assert result.events[-1]["type"] == "summary"
    assert [event["type"] for event in result.events].count("summary") == 1
    assert result.events[-1]["exit_code"] == result.code
    assert "Traceback" not in result.text
    assert "a bug in resource-api" not in result.text
    return result


@pytest.mark.parametrize("strict", ["warning", "off"])
@pytest.mark.parametrize("case", ["get_set", "get_object"])
def test_what_cannot_be_recorded_is_refused_at_any_strictness(box: Box, case: str, strict: str) -> None:
    """Its resource fails alone, before anything of it is recorded."""
    box.bad(case)
    result = box.run("apply", "site.json", "--json", "--strict", strict)
    assert (result.code, result.steps["Bad[b]"]["status"]) == (1, "failed")
    assert "that cannot be recorded" in result.steps["Bad[b]"]["error"]
    assert result.steps["Bad[c]"]["status"] == "success"


def test_every_bad_provider_is_tested() -> None:
    """Each file in ``modules/bad`` is in a table."""
    assert {path.stem for path in MODULES.iterdir() if path.is_file()} == {
        *FAILING,
        *HARMLESS,
        *REFUSED,
        *ENDING,
        *UNBEGUN,
    }


@pytest.mark.parametrize("case", FAILING)
def test_a_faulty_provider_fails_alone(box: Box, case: str) -> None:
    """With reference and reason; every good resource converges; unreadable resources are never set."""
    expected = FAILING[case]
    result = apply(box, case, expected.features)
    assert result.code == 1
    failed = {reference for reference, step in result.steps.items() if step["status"] == "failed"}
    assert failed == {f"Bad[{name}]" for name in expected.fails}
    for reference in failed:
        assert expected.says in result.steps[reference]["error"]
        assert any(
            expected.says in line for line in result.text.splitlines() if line.startswith(f"Error: {reference}: ")
        )
    dependent = "a" in expected.fails
    assert (result.steps["Good[dependent]"]["status"] == "skipped") is dependent
    assert box.stored("good") == {name: GOOD[name] for name in GOOD if name != "dependent" or not dependent}
    stored = box.stored("bad")
    assert all(stored[name] == AFTER[name] for name in AFTER if name not in expected.fails)
    assert result.events[-1]["failed"] == len(expected.fails)
    if case in UNREADABLE:
        assert not {name for names in box.calls("bad", "set") for name in names} & set(expected.fails)


@pytest.mark.parametrize("case", HARMLESS)
def test_an_unusual_but_correct_provider_converges(box: Box, case: str) -> None:
    """Each effect happens once, whatever the provider does to the process."""
    result = apply(box, case, HARMLESS[case])
    assert (result.code, box.stored("bad"), box.stored("good")) == (0, AFTER, GOOD), result.text
    assert [len(names) for names in box.calls("good", "set")] == [1, 2]
    assert len(box.calls("bad", "set")) == (2 if case == "status_twice" else 1)


@pytest.mark.parametrize("case", REFUSED)
def test_a_provider_that_cannot_be_loaded_changes_nothing(box: Box, case: str) -> None:
    """The line of the resource and the faulty file are named."""
    expected = REFUSED[case]
    result = apply(box, case, expected.features)
    assert result.code == 65
    entries = {event["reference"]: event for event in result.events if event["type"] == "diagnostic"}
    assert {f"Bad[{name}]" for name in expected.fails} <= entries.keys()
    for name in expected.fails:
        assert expected.says in entries[f"Bad[{name}]"]["message"]
        assert entries[f"Bad[{name}]"]["line"] == 1
        assert any(expected.says in line for line in result.text.splitlines() if f"Bad[{name}]: " in line)
    assert box.stored("good") == {}
    assert box.calls("bad", "set") == []


def test_only_the_file_that_cannot_be_loaded_is_reported(box: Box) -> None:
    """References to its resources are not errors too."""
    result = apply(box, "load_raises", "")
    assert {event["reference"] for event in result.events if event["type"] == "diagnostic"} == {
        f"Bad[{name}]" for name in "abcd"
    }


@pytest.mark.parametrize("case", ENDING)
def test_a_base_exception_ends_the_run_in_order(box: Box, case: str) -> None:
    """The bad resource has failed with its reason, later steps are skipped, finished ones stay."""
    result = apply(box, case, "")
    assert result.code == 1
    assert result.steps["Good[before]"]["status"] == "success"
    assert result.steps["Bad[b]"]["status"] == "failed"
    assert ENDING[case] in result.steps["Bad[b]"]["error"]
    assert f"Error: Bad[b]: {ENDING[case]}" in result.text or f"Bad[b]: Updating failed: {ENDING[case]}" in result.text
    assert {result.steps[f"Good[{name}]"]["status"] for name in ("after", "dependent")} == {"skipped"}
    assert box.stored("good") == {"before": GOOD["before"]}


@pytest.mark.parametrize("case", ["set_exits", "set_interrupts", "set_stops_generators"])
def test_a_status_reported_before_the_end_of_the_run_counts(box: Box, case: str) -> None:
    """The resource has succeeded."""
    result = apply(box, case, "")
    assert box.stored("bad")["a"] == AFTER["a"]
    assert result.steps["Bad[a]"]["status"] == "success"


@pytest.mark.parametrize("case", UNBEGUN)
def test_a_keyboard_interrupt_without_a_signal_is_a_failure(box: Box, case: str) -> None:
    """Only a signal leads to 130; nothing is changed."""
    result = apply(box, case, "")
    assert result.code == 1
    assert "KeyboardInterrupt" in result.text
    assert box.stored("good") == {}


@pytest.mark.parametrize("case", ["get_raises", "load_raises", "get_exits"])
@pytest.mark.parametrize("arguments", ["plan site.json", "resource bad", "apply site.json --noop"])
def test_other_commands_report_a_bad_provider_too(box: Box, case: str, arguments: str) -> None:
    """An error with one of the documented exit codes, and no traceback."""
    box.bad(case)
    box.manifest({"Bad[a]": {"size": 1}})
    result = box.run(*arguments.split(), "--module-path", str(box.path))
    assert result.code == (65 if case == "load_raises" else 1), result.text
    assert "Error" in result.text
    assert "Traceback" not in result.text


def test_a_file_of_a_provider_never_receives_our_log_lines(box: Box) -> None:
    """A provider closed stderr and opened a file with its number: later log lines still go to stderr."""
    box.bad("closes_stderr")
    result = box.run("apply", "site.json")
    assert (box.path / "mine.txt").read_text(encoding="utf-8") == "mine alone\n"
    assert "Good[after]: created" in result.text
