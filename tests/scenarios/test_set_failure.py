"""Failed changes: the resource fails alone, its dependents are skipped, and the rest is applied."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench


def statuses(ends: dict[str, dict[str, object]]) -> dict[str, object]:
    """Return the statuses of a run by reference."""
    return {name: end["status"] for name, end in ends.items()}


def test_a_failed_creation_fails_exactly_that_resource(bench: Bench) -> None:
    """The error is logged once, and the other resources of the same call are created."""
    result = bench.stream("resources: {'Widget[a]': {}, 'Widget[bad]': {}, 'Widget[c]': {}}", "--detailed-exitcodes")
    assert result.code == 6
    assert statuses(result.ends()) == {"Widget[a]": "success", "Widget[bad]": "failed", "Widget[c]": "success"}
    assert result.ends()["Widget[bad]"]["error"] == "the press is broken"
    errors = [line for line in result.lines if line.startswith("Error")]
    assert errors == ["Error: Widget[bad]: Creating failed: the press is broken"]
    assert sorted(bench.things("widget")) == ["a", "c"]
    summary = result.events("summary")[0]
    assert (summary["created"], summary["failed"], summary["skipped"], summary["exit_code"]) == (2, 1, 0, 6)


def test_the_statuses_of_a_call_are_shown_in_the_order_reported(bench: Bench) -> None:
    """A failure that is reported after a success is shown after it, also from a later call for one name."""
    created = "Successfully created"
    failed = "Creating failed: the press is broken"
    result = bench.apply("resources: {'Widget[bad1]': {}, 'Widget[b]': {}, 'Widget[bad2]': {}, 'Widget[d]': {}}")
    assert [line.partition(": ")[2] for line in result.lines] == [
        f"Widget[bad1]: {failed}",
        f"Widget[b]: {created}",
        f"Widget[bad2]: {failed}",
        f"Widget[d]: {created}",
    ]
    bench.probe(
        """
        def set(self, context, changes):
            for name, change in changes.items():
                with context.creating(name):
                    if name == "two":
                        context.fail("no")
                    self._done({name: change})
                if name == "one":
                    raise OSError("cut")
        """
    )
    result = bench.apply("resources: {'Probe[one]': {}, 'Probe[two]': {}, 'Probe[three]': {}}")
    assert [line.partition(": ")[2] for line in result.lines] == [
        f"Probe[one]: {created}",
        "Probe[two]: Creating failed: no",
        f"Probe[three]: {created}",
    ]


def test_dependents_are_skipped_and_nothing_else(bench: Bench) -> None:
    """Direct and transitive dependents are skipped with a warning that names the failed resource."""
    result = bench.stream(
        """
        resources:
          Widget[bad]: {}
          Token[1]: {require: "Widget[bad]"}
          Token[2]: {require: "Token[1]"}
          Token[3]: {}
        """,
        "--detailed-exitcodes",
    )
    assert result.code == 6
    assert statuses(result.ends()) == {
        "Widget[bad]": "failed",
        "Token[1]": "skipped",
        "Token[2]": "skipped",
        "Token[3]": "success",
    }
    warnings = [line for line in result.lines if line.startswith("Warning")]
    assert len(warnings) == 2
    assert all("Widget[bad]" in line for line in warnings)
    assert list(bench.things("token")) == ["3"]
    summary = result.events("summary")[0]
    assert (summary["failed"], summary["skipped"]) == (1, 2)


def test_dependents_in_the_same_call_are_left_out(bench: Bench) -> None:
    """The iterator of ``changes`` omits a name whose prerequisite has failed in the same call."""
    result = bench.stream("resources: {'Widget[bad]': {}, 'Widget[b]': {require: 'Widget[bad]'}, 'Widget[c]': {}}")
    assert statuses(result.ends()) == {"Widget[bad]": "failed", "Widget[b]": "skipped", "Widget[c]": "success"}
    assert list(bench.things("widget")) == ["c"]


def test_only_failures_are_exit_four(bench: Bench) -> None:
    """A run with only failures exits 4 with detailed exit codes and 1 without."""
    assert bench.apply("resources: {'Widget[bad]': {}}", "--detailed-exitcodes").code == 4
    assert bench.apply("resources: {'Widget[bad]': {}}").code == 1


def test_a_failed_update_reports_no_change(bench: Bench) -> None:
    """No changed line is logged for a failed update, and the resource is unchanged."""
    bench.put("widget", bad={"size": 1})
    result = bench.stream("resources: {'Widget[bad]': {size: 2}}")
    (end,) = result.ends().values()
    assert (end["action"], end["status"], end["error"]) == ("update", "failed", "the press is broken")
    assert "changed from" not in result.err
    assert bench.things("widget") == {"bad": {"size": 1}}


def test_set_raising_for_one_fails_it_alone(bench: Bench) -> None:
    """When ``set`` raises, completed names succeed, and the others are retried one by one."""
    bench.probe(
        """
        def set(self, context, changes):
            context.notice(f"asked for {sorted(changes)}")
            for name, (is_, should) in changes.items():
                if name == "b":
                    raise OSError("b is stuck")
                self._put(name, dict(should))
        """
    )
    result = bench.stream("resources: {'Probe[a]': {}, 'Probe[b]': {}, 'Probe[c]': {}}", "--detailed-exitcodes")
    assert result.code == 6
    assert statuses(result.ends()) == {"Probe[a]": "success", "Probe[b]": "failed", "Probe[c]": "success"}
    assert re.fullmatch(r"b is stuck \(providers/probe\.py:\d+ in set\)", result.ends()["Probe[b]"]["error"])
    requested = [line.removeprefix("Notice: probe: asked for ") for line in result.lines if "asked for" in line]
    assert requested == ["['a', 'b', 'c']", "['b']", "['c']"]
    [line] = [line for line in result.lines if "stuck" in line]
    assert re.fullmatch(r"Error: Probe\[b\]: b is stuck \(providers/probe\.py:\d+ in set\)", line)


@pytest.mark.parametrize("result", [False, True])
def test_a_failing_call_for_one_name_is_made_once(bench: Bench, *, result: bool) -> None:
    """A failing call for one resource is not repeated, and the resource succeeds if it converged."""
    bench.probe(
        f"""
        def set(self, context, changes):
            for name, (is_, should) in changes.items():
                context.notice(f"POST {{name}}")
                if {result}:
                    self._put(name, dict(should))
                raise OSError("no answer")
        """
    )
    ended = bench.stream("resources: {'Probe[a]': {}, 'Token[1]': {require: 'Probe[a]'}}")
    assert [line for line in ended.lines if "POST" in line] == ["Notice: probe: POST a"]
    error = ended.ends()["Probe[a]"].get("error")
    assert error is None if result else error.startswith("no answer (providers/probe.py:")
    assert statuses(ended.ends())["Token[1]"] == ("success" if result else "skipped")


def test_names_with_a_status_keep_it_when_set_raises(bench: Bench) -> None:
    """A name reported as failed is not retried, and one reported as created is verified."""
    bench.probe(
        """
        def set(self, context, changes):
            context.notice(f"asked for {sorted(changes)}")
            for name, (is_, should) in changes.items():
                if name == "a":
                    self._put(name, dict(should))
                    context.created(name)
                elif name == "b":
                    context.failed(name, message="b is stuck")
                elif name == "c":
                    context.created(name)
            raise OSError("all is lost")
        """
    )
    result = bench.stream("resources: {'Probe[a]': {}, 'Probe[b]': {}, 'Probe[c]': {}, 'Probe[d]': {}}")
    ends = result.ends()
    assert ends["Probe[a]"]["status"] == "success"
    assert ends["Probe[b]"]["error"] == "b is stuck"
    assert ends["Probe[c]"]["status"] == "failed"
    assert ends["Probe[d]"]["error"].startswith("all is lost (providers/probe.py:")
    requested = [line.removeprefix("Notice: probe: asked for ") for line in result.lines if "asked for" in line]
    assert requested == ["['a', 'b', 'c', 'd']", "['d']"]


def test_set_is_verified(bench: Bench) -> None:
    """A resource that does not converge fails, and the error has the actual and the declared value."""
    bench.probe("def set(self, context, changes):\n    for name in changes:\n        context.created(name)")
    result = bench.stream("resources: {'Probe[a]': {size: 3}}")
    assert result.code == 1
    assert "did not converge" in result.ends()["Probe[a]"]["error"]
    bench.probe("def set(self, context, changes): self._put('a', {'name': 'a', 'ensure': 'present', 'size': 4})")
    second = bench.stream("resources: {'Probe[a]': {size: 3}}")
    assert second.code == 1
    assert "size is 4, should be 3" in second.ends()["Probe[a]"]["error"]


@pytest.mark.parametrize(("strict", "warned"), [("warning", True), ("off", False)])
def test_below_error_a_divergence_counts_as_a_change(bench: Bench, strict: str, *, warned: bool) -> None:
    """``--strict warning`` logs the divergence, ``off`` does not, and the exit code is 2."""
    bench.probe("def set(self, context, changes): self._put('a', {'name': 'a', 'ensure': 'present', 'size': 4})")
    result = bench.apply("resources: {'Probe[a]': {size: 3}}", "--strict", strict, "--detailed-exitcodes")
    assert result.code == 2
    assert any(line.startswith("Warning: Probe[a]: ") and "did not converge" in line for line in result.lines) is warned


def test_a_deletion_is_verified(bench: Bench) -> None:
    """A deletion that is reported but not made fails the resource."""
    bench.put("probe", a={"name": "a", "ensure": "present"})
    bench.probe("def set(self, context, changes):\n    for name in changes:\n        context.deleted(name)")
    result = bench.stream("resources: {'Probe[a]': {ensure: absent}}")
    assert result.code == 1
    assert "did not converge" in result.ends()["Probe[a]"]["error"]


def test_the_return_value_of_set_is_ignored(bench: Bench) -> None:
    """A ``set`` that returns False succeeds."""
    bench.probe("def set(self, context, changes):\n    self._done(changes)\n    return False")
    assert bench.apply("resources: {'Probe[a]': {}}", "--detailed-exitcodes").code == 2


def test_set_is_not_called_without_a_change(bench: Bench) -> None:
    """``changes`` contains only the resources that differ."""
    bench.put("widget", a={"size": 1}, b={"size": 1})
    bench.apply("resources: {'Widget[a]': {size: 1}, 'Widget[b]': {size: 2}, 'Widget[c]': {ensure: absent}}")
    (call,) = bench.calls("widget", "set")
    assert list(call) == ["b"]


def test_fail_fast_starts_nothing_after_the_first_failure(bench: Bench) -> None:
    """With ``--fail-fast`` independent resources are skipped after the first failure."""
    result = bench.stream("resources: {'Widget[bad]': {}, 'Token[1]': {}, 'Token[2]': {}}", "--fail-fast")
    assert result.code == 1
    assert statuses(result.ends()) == {"Widget[bad]": "failed", "Token[1]": "skipped", "Token[2]": "skipped"}
    assert bench.things("token") == {}


def test_an_exception_without_a_text_is_an_error(bench: Bench) -> None:
    """An exception whose ``__str__`` raises fails its resource with the name of its class."""
    bench.probe(
        """
        def set(self, context, changes):
            class Odd(Exception):
                def __str__(self): raise RuntimeError("no text")
            raise Odd
        """
    )
    result = bench.stream("resources: {'Probe[a]': {}, 'Widget[a]': {}}")
    assert result.code == 1
    assert statuses(result.ends()) == {"Probe[a]": "failed", "Widget[a]": "success"}
    assert "Odd" in result.ends()["Probe[a]"]["error"]


@pytest.mark.parametrize("subject", ["raise SystemExit(3)", "raise KeyboardInterrupt", "raise GeneratorExit"])
def test_a_base_exception_ends_the_run(bench: Bench, subject: str) -> None:
    """A ``BaseException`` from ``set`` fails the resource, skips the rest, and exits 1 with the summary."""
    bench.probe(f"def set(self, context, changes): {subject}")
    result = bench.stream("resources: {'Widget[a]': {}, 'Probe[a]': {}, 'Token[1]': {}}")
    assert result.code == 1
    assert statuses(result.ends()) == {"Widget[a]": "success", "Probe[a]": "failed", "Token[1]": "skipped"}
    summary = result.events("summary")[0]
    assert (summary["created"], summary["failed"], summary["skipped"], summary["exit_code"]) == (1, 1, 1, 1)


def test_a_base_exception_passes_a_context(bench: Bench) -> None:
    """A context logs a ``SystemExit`` as a failure and does not suppress it."""
    bench.probe(
        """
        def set(self, context, changes):
            with context.creating("a"):
                raise SystemExit("out of paper here")
        """
    )
    result = bench.stream("resources: {'Probe[a]': {}, 'Token[1]': {}}")
    assert result.code == 1
    assert statuses(result.ends()) == {"Probe[a]": "failed", "Token[1]": "skipped"}
    assert "Error: Probe[a]: Creating failed: out of paper here (providers/probe.py:" in result.err


@pytest.mark.parametrize("options", [(), ("--parallel", "4")], ids=["apply", "parallel"])
@pytest.mark.parametrize(
    ("rows", "error", "status"),
    [
        ("raise OSError('no answer here')", "no answer here", ""),
        ("return []", "did not converge: ensure is absent, should be present", "unconfirmed"),
    ],
    ids=["unreadable", "unseen"],
)
def test_a_reported_creation_that_a_run_ended_by_its_provider_does_not_see_has_failed(
    bench: Bench, options: tuple[str, ...], rows: str, error: str, status: str
) -> None:
    """It is not skipped: the provider has made it."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    bench.probe(
        f"""
        def get(self, context, names=None):
            if self._rows():
                {rows}
            return []
        def set(self, context, changes):
            for name, (is_, should) in changes.items():
                with context.creating(name):
                    if name == "b": raise SystemExit("out of paper here")
                    self._put(name, {{**should}})
        """
    )
    result = bench.stream("project: p\nresources: {'Probe[a]': {}, 'Probe[b]': {}, 'Probe[c]': {}}", *options)
    assert result.code == 1
    ends = result.ends()
    assert statuses(ends) == {"Probe[a]": "failed", "Probe[b]": "failed", "Probe[c]": "skipped"}
    assert ends["Probe[a]"]["error"].startswith(error)
    assert ends["Probe[a]"].get("unconfirmed", False) is bool(status)
    recorded = bench.run("state", "list", "--project", "p")
    assert recorded.out == ("Probe[a]\n" if status else "")


def test_a_base_exception_in_get_ends_the_run(bench: Bench) -> None:
    """A ``SystemExit`` from ``get`` exits 1 with an error on stderr."""
    bench.probe("def get(self, context): raise SystemExit(0)\ndef set(self, context, changes): pass")
    result = bench.apply("resources: {'Probe[a]': {}}")
    assert result.code == 1
    assert result.err


def test_a_failed_deletion_stops_a_replacement(bench: Bench) -> None:
    """When the deletion of a replacement fails, nothing is created."""
    bench.put("widget", bad={"image": "oak"})
    result = bench.stream("resources: {'Widget[bad]': {image: elm, lifecycle: {replace: delete_first}}}")
    assert result.code == 1
    (end,) = result.events("step_end")
    assert (end["action"], end["status"]) == ("replace", "failed")
    assert len(bench.calls("widget", "set")) == 1
    assert bench.things("widget") == {"bad": {"image": "oak"}}


def test_a_simple_provider_contains_each_failure(bench: Bench) -> None:
    """One failure among ten resources of a ``SimpleProvider`` fails one resource in one call."""
    names = ", ".join(f"'Widget[{'bad' if number == 4 else number}]': {{}}" for number in range(10))
    result = bench.stream(f"resources: {{{names}}}")
    assert result.events("summary")[0]["created"] == 9
    assert len(bench.calls("widget", "set")) == 1


#: A method that logs the seconds until its deadline.
LEFT = """
def set(self, context, changes):
    import time
    left = context.deadline and round(context.deadline - time.monotonic())
    context.notice(f"left {left} for {sorted(changes)}")
    self._done(changes)
"""


def test_a_timeout_sets_the_deadline_of_the_context(bench: Bench) -> None:
    """``timeout`` sets ``context.deadline``, and a mapping sets it per action."""
    bench.probe(LEFT)
    result = bench.apply(
        """
        resources:
          Probe[a]: {}
          Probe[b]: {timeout: 50}
          Probe[c]: {timeout: {create: 20, update: 30}}
          Probe[d]: {timeout: {update: 30}}
        """
    )
    lefts = [line.split("left ")[1] for line in result.lines if "left" in line]
    assert lefts == ["None for ['a']", "50 for ['b']", "20 for ['c']", "None for ['d']"]


def test_a_type_has_time_limits_of_its_own(bench: Bench) -> None:
    """``timeout`` of a type holds where a resource declares none for the operation; 0 is no limit."""
    bench.probe(LEFT, timeout={"create": 70, "update": 30})
    result = bench.apply(
        """
        resources:
          Probe[a]: {}
          Probe[b]: {timeout: 50}
          Probe[c]: {timeout: {update: 20}}
          Probe[d]: {timeout: 0}
          Probe[e]: {timeout: {create: 0}}
        """
    )
    lefts = [line.split("left ")[1] for line in result.lines if "left" in line]
    assert lefts == ["70 for ['a']", "50 for ['b']", "70 for ['c']", "None for ['d']", "None for ['e']"]


@pytest.mark.parametrize(
    "method",
    [
        "canonicalize",
        "validate",
        "insync",
        "refresh",
        "__init__",
    ],
)
def test_no_method_can_end_the_command(bench: Bench, method: str) -> None:
    """``sys.exit(0)`` in a provider method is an error and not the exit code of the command."""
    bench.probe(
        "def canonicalize(self, context, resources): return resources\n"
        "def validate(self, context, should): return []\n"
        "def insync(self, context, name, attribute, is_, should): return None\n"
        "def refresh(self, context, names): pass\n"
        "def set(self, context, changes): self._done(changes)\n"
        f"def {method}(self, *arguments): sys.exit(0)",
        features=("canonicalize", "validate", "custom_insync", "refreshable"),
    )
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 1})
    result = bench.apply("resources: {'Widget[w]': {notify: 'Probe[a]'}, 'Probe[a]': {size: 1}}")
    assert result.code in {1, 65}
    assert "Error: Probe[a]: " in result.err or "site.yaml" in result.err


@pytest.mark.parametrize("broken", ["raise ResourceError('refresh bad')", "context.fail('refresh bad')"])
def test_a_failed_refresh_after_a_change_shows_its_reason(bench: Bench, broken: str) -> None:
    """The change and the refresh of one resource are two steps, each with its own end."""
    bench.probe(
        f"""
        def set(self, context, changes): self._done(changes)
        def refresh(self, context, names): {broken}
        """,
        features=("refreshable",),
    )
    manifest = "resources: {'Widget[w]': {size: 1, notify: 'Probe[a]'}, 'Probe[a]': {size: 1}}"
    result = bench.apply(manifest)
    assert result.code == 1
    assert [line for line in result.lines if line.startswith("Error: Probe[a]: ")] == [
        "Error: Probe[a]: refresh failed: refresh bad"
    ]
    again = bench.stream(manifest.replace("1", "2"))
    failed = [event for event in again.events("step_end") if event["status"] == "failed"]
    assert [(item["action"], item["changes"]) for item in failed] == [("refresh", [])]


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_running_call_and_skips_the_rest(bench: Bench, signal: str) -> None:
    """The running call completes, the rest is skipped, and the exit code is 130 or 143."""
    bench.probe(
        f"""
        def set(self, context, changes):
            import signal
            os.kill(os.getpid(), signal.{signal})
            context.notice(f"cancelled {{context.cancelled}}")
            self._done(changes)
        """
    )
    result = bench.stream("resources: {'Probe[a]': {}, 'Token[1]': {}}", "--detailed-exitcodes")
    assert result.code == {"SIGINT": 130, "SIGTERM": 143}[signal]
    assert "Notice: probe: cancelled True" in result.lines
    assert statuses(result.ends()) == {"Probe[a]": "success", "Token[1]": "skipped"}
    (summary,) = result.events("summary")
    assert (summary["created"], summary["skipped"], summary["exit_code"]) == (1, 1, result.code)


_ENDS = {
    "exit": ("sys.exit('bye')", "SystemExit: bye"),
    "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "text": ("raise KeyboardInterrupt('the user has had enough')", "KeyboardInterrupt: the user has had enough"),
}


@pytest.mark.parametrize("ending", _ENDS)
@pytest.mark.parametrize("options", [(), ("--noop",), ("--parallel", "2")], ids=["apply", "noop", "parallel"])
def test_a_provider_that_ends_the_run_is_named(bench: Bench, ending: str, options: tuple[str, ...]) -> None:
    """With its file and line, for ``set`` with and without noop: it is no interrupt, and the run fails."""
    code, reason = _ENDS[ending]
    bench.probe(
        f"""
        def set(self, context, changes, noop=False):
            for name in changes:
                {code}
        """,
        features=("noop_handler",),
    )
    manifest = "resources: {'Probe[a]': {}, 'Probe[b]': {}, 'Widget[c]': {require: 'Probe[b]'}}"
    result = bench.apply(manifest, *options)
    assert result.code == 1
    errors = [line for line in result.err.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 2
    for name, error in zip("ab", errors, strict=True):
        text = rf"Error: Probe\[{name}\]: {reason} \(providers/probe\.py:\d+ in set\) \(\S+site\.yaml:1\)"
        assert re.fullmatch(text, error), error


@pytest.mark.parametrize("ending", _ENDS)
@pytest.mark.parametrize("options", [(), ("--parallel", "2")], ids=["apply", "parallel"])
def test_a_provider_that_ends_the_run_while_it_reads_is_named(
    bench: Bench, ending: str, options: tuple[str, ...]
) -> None:
    """At its turn, after something was changed: for each resource that was to be read."""
    code, reason = _ENDS[ending]
    bench.probe(
        f"""
        def get(self, context, names=None):
            if Path(os.environ["BENCH"], "widget.json").exists():
                {code}
            return []
        def set(self, context, changes):
            self._done(changes)
        """
    )
    result = bench.apply("resources: {'Widget[w]': {}, 'Probe[a]': {require: 'Widget[w]'}}", *options)
    assert result.code == 1
    text = rf"Error: Probe\[a\]: {reason} \(providers/probe\.py:\d+ in get\) \(\S+site\.yaml:1\)\n"
    assert re.search(text, result.err), result.err


def test_a_failure_ends_in_the_place_of_its_resource(bench: Bench) -> None:
    """Whoever reports it, also for several at once, in the log and in the events; a skipped one has none."""
    bench.probe(
        """
        def set(self, context, changes):
            if len(changes) == 1:
                raise OSError("gone")
            with context.creating(["a", "b"]):
                context.fail("jam")
            context.failed("c", "no")
            raise OSError("not tried again")
        """
    )
    manifest = "".join(f"  Probe[{name}]: {{}}\n" for name in "abcd")
    result = bench.stream(f"resources:\n{manifest}  Widget[e]: {{require: 'Probe[a]'}}\n")
    file = f"{bench.home}/site.yaml"
    assert [line.split(": ", 2)[2] for line in result.err.splitlines()] == [
        f"Creating failed: jam ({file}:2, {file}:3)",
        f"no ({file}:4)",
        f"OSError: gone (providers/probe.py:20 in set) ({file}:5)",
        "skipped because Probe[a] failed",
    ]
    errors = {end["reference"]: end["error"] for end in result.events("step_end")}
    assert errors == {
        "Probe[a]": f"jam ({file}:2)",
        "Probe[b]": f"jam ({file}:3)",
        "Probe[c]": f"no ({file}:4)",
        "Probe[d]": f"OSError: gone (providers/probe.py:20 in set) ({file}:5)",
        "Widget[e]": "skipped because Probe[a] failed",
    }


def test_what_a_program_has_printed_is_not_repeated_before_the_place(bench: Bench) -> None:
    """The error ends in the program's words, which a warning has shown, and in the place; the words are left out."""
    bench.probe(
        """
        sh = Command("/bin/sh")
        def set(self, context, changes):
            with context.creating("a"):
                self.sh("-c", "echo broken pipe >&2; exit 3")
        """
    )
    result = bench.apply("resources: {'Probe[a]': {}}")
    assert result.err.count("broken pipe") == 2  # in the warning, and in the command line of the error
    assert result.err.splitlines()[-1].endswith(f" returned 3 ({bench.home}/site.yaml:1)")


def test_a_simple_provider_without_update_completes_what_a_run_left_partial(bench: Bench) -> None:
    """A creation that failed at its end made the resource as it is declared: the next run has nothing to update."""
    bench.probe(
        """
        def create(self, context, name, should):
            self._put(name, {**should})
            raise OSError("the disk did not answer")
        """,
        base="SimpleProvider",
    )
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    manifest = "resources: {'Probe[a]': {size: 1}}"
    assert bench.apply(manifest).code == 1
    assert "left partial" in bench.plan(manifest).out
    assert bench.apply(manifest).code == 0
    assert bench.apply(manifest, "--detailed-exitcodes").code == 0
    failed = bench.apply("resources: {'Probe[a]': {size: 2}}")
    assert (failed.code, "the provider has no method 'update'" in failed.err) == (1, True)
