"""The events of a run's log: the same on the console, as JSON, in ``logging`` and in a program's structlog."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.model.report import LOG_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.scenarios.conftest import Bench

SECRET: Final = "hunter22xyz"

TYPE: Final = """
    "name": Attribute("String", "n", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", "e", default="present"),
    "size": Attribute("Optional[Integer]", "s"), "key": Attribute("Optional[Sensitive[String]]", "k"),
    "inside": Attribute("Optional[Hash[String, Any]]", "i"),
"""

PROVIDER: Final = """
    sh = Command("/bin/sh")
    def get(self, context, names=None):
        context.debug("reading")
        found = [{"name": name, "ensure": "present", "size": 1} for name in ("old", "fresh")]
        return found + self.__dict__.get("m", [])
    def set(self, context, changes):
        made = self.__dict__.setdefault("m", [])
        for name, (is_, should) in changes.items():
            if name == "quiet":
                made.append(dict(should))
                continue
            with context.updating(name):
                self.sh("-c", "echo out; echo $TOKEN", env={"TOKEN": os.environ["SECRET"]})
                self.sh("-c", "echo err >&2")
                context.warning("careful")
                if name == "bad":
                    self.sh("-c", "exit 3")
                context.attribute_changed("size", (is_ or {}).get("size"), should.get("size"), message="resized")
                context.attribute_changed("inside", {"old": [os.environ["SECRET"]]}, None)
            made.append(dict(should))
    def refresh(self, context, names):
        context.info(names[0], message="reloading")
    def word(self, context):
        context.notice("asked")
        return "w"
"""

MANIFEST: Final = """
project: house
inputs: {pw: {type: "Sensitive[String]"}}
resources:
  Gadget[new]: {size: 2, key: "${inputs.pw}", notify: "Gadget[fresh]"}
  Gadget[quiet]: {size: 4}
  Gadget[bad]: {size: 3}
  Gadget[left]: {size: 3, require: "Gadget[bad]"}
  Gadget[idle]: {noop: true, size: 3}
  Gadget[fresh]: {size: 1}
"""

#: Applies the manifest as an embedding program, and writes what its log gets as JSON lines to stderr.
EMBEDDED: Final = """
import json, logging, sys
import structlog
from resource_api import Registry, Runtime
def show(level, subject, text, fields):
    print(json.dumps({"level": level, "subject": subject, "message": text, **fields}), file=sys.stderr)
class Handler(logging.Handler):
    def emit(self, record):
        fields = dict(record.resource_api)
        level, subject, text = fields.pop("level"), fields.pop("subject"), fields.pop("message")
        assert record.getMessage() == f"{subject}: {text}"
        assert record.name == "resource_api." + fields["resource_type"]
        assert (record.levelname, record.levelno) == LEVELS[level]
        show(level, subject, text, fields)
LEVELS = {"debug": ("DEBUG", 10), "info": ("INFO", 20), "notice": ("NOTICE", 25), "warning": ("WARNING", 30),
          "err": ("ERROR", 40)}
def processor(logger, method, event):
    assert method == {"notice": "info", "err": "error"}.get(event["level_name"], event["level_name"])
    show(event.pop("level_name"), event.pop("subject"), event.pop("event"), event)
    raise structlog.DropEvent
if sys.argv[2] == "logging":
    logging.getLogger("resource_api").addHandler(Handler())
    logging.getLogger("resource_api").setLevel(logging.DEBUG)
else:
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, processor])
runtime = Runtime(Registry.from_path(*sys.argv[1].split(":")), isolate=sys.argv[4] == "1")
runtime.apply(sys.argv[3], {"pw": open("pw").read()}, parallel=int(sys.argv[5]))
"""


@pytest.fixture
def house(bench: Bench) -> Bench:
    """Return a bench with the type ``gadget`` and a manifest in which everything happens that is logged."""
    bench.environment["SECRET"] = SECRET
    functions = "functions={'word': Function('A word.', inputs={}, output='String')}"
    bench.type("gadget", TYPE, provider=PROVIDER, base="BaseProvider", features=["refreshable"])
    path = bench.modules / "types" / "gadget.py"
    path.write_text(path.read_text().replace("docs='A gadget.'", f"docs='A gadget.', {functions}"))
    bench.write("site.yaml", MANIFEST)
    bench.write("pw", SECRET)
    return bench


def apply(house: Bench, *options: str) -> list[str]:
    """Apply the manifest with the command and return the lines of the log, all levels."""
    result = house.run("apply", "site.yaml", "-i", "pw=@pw", "-d", *options)
    assert result.code == 1, result.err
    assert SECRET not in result.out + result.err
    return result.err.splitlines()


def events(house: Bench, *options: str) -> list[dict[str, Any]]:
    """Return the events of a run as ``--log-format json`` shows them."""
    return [json.loads(line) for line in apply(house, "--log-format", "json", *options)]


def run_program(bench: Bench, script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program in the bench's directory, with the module path as its first argument."""
    words = [sys.executable, str(script), bench.environment["RESOURCE_API_MODULE_PATH"], *arguments]
    return subprocess.run(
        words, cwd=bench.home, env=bench.environment, text=True, timeout=30, capture_output=True, check=False
    )


def embedded(house: Bench, how: str, isolate: str = "", parallel: int = 1) -> list[dict[str, Any]]:
    """Return the events of the same run in a program that embeds the runtime."""
    script = house.write("embedded.py", EMBEDDED)
    result = run_program(house, script, how, "site.yaml", isolate, str(parallel))
    assert result.returncode == 0, result.stderr
    assert SECRET not in result.stderr
    return [json.loads(line) for line in result.stderr.splitlines()]


def comparable(mapping: list[dict[str, Any]], *, ordered: bool) -> list[dict[str, Any]]:
    """Return events without what differs from run to run; what exists is adopted by the first one alone."""
    varying = {"run", "seconds", "timestamp"}
    stored = [{k: v for k, v in item.items() if k not in varying} for item in mapping if item.get("action") != "adopt"]
    return stored if ordered else sorted(stored, key=partial(json.dumps, sort_keys=True))


@pytest.mark.parametrize(("isolate", "parallel"), [("", 1), ("1", 1), ("", 3)], ids=["here", "workers", "parallel"])
def test_all_four_forms_show_the_same_events(house: Bench, isolate: str, parallel: int) -> None:
    """Console text is rendered from the events that JSON, ``logging`` and structlog get, fields included."""
    options = [*(["--isolate"] if isolate else []), "--parallel", str(parallel)]
    ordered = parallel == 1
    as_json = comparable(events(house, *options), ordered=ordered)
    labels = {"debug": "Debug", "info": "Info", "notice": "Notice", "warning": "Warning", "err": "Error"}
    text = [f"{labels[item['level']]}: {item['subject']}: {item['message']}" for item in as_json]
    output = apply(house, *options)
    assert (output if ordered else sorted(output)) == (text if ordered else sorted(text))
    for how in ("logging", "structlog"):
        assert comparable(embedded(house, how, isolate, parallel), ordered=ordered) == as_json


def only(mapping: list[dict[str, Any]], **expected: str) -> dict[str, Any]:
    """Return the only event with these values."""
    (event,) = (item for item in mapping if expected.items() <= item.items())
    return event


FIELDS: Final[dict[str, tuple[dict[str, str], Callable[[Any], bool]]]] = {
    "run": ({"message": "reloading"}, lambda value: len(value) == 16),
    "project": ({"message": "reloading"}, lambda value: value == "house"),
    "stack": ({"message": "reloading"}, lambda value: value == "default"),
    "reference": ({"message": "reloading"}, lambda value: value == "Gadget[fresh]"),
    "urn": ({"message": "reloading"}, lambda value: value == "urn:resource:default::house::gadget::fresh"),
    "resource_type": ({"message": "reloading"}, lambda value: value == "gadget"),
    "action": ({"message": "reloading"}, lambda value: value == "refresh"),
    "phase": ({"message": "reloading"}, lambda value: value == "refresh"),
    "attribute": ({"message": "Updating size: resized", "subject": "Gadget[new]"}, lambda value: value == "size"),
    "is": (
        {"message": "Updating inside: changed from {old: [<sensitive>]} to (none)", "subject": "Gadget[new]"},
        lambda value: value == {"old": ["<sensitive>"]},
    ),
    "should": ({"message": "Updating size: resized", "subject": "Gadget[new]"}, lambda value: value == 2),
    "command": ({"message": """"/bin/sh -c 'exit 3'" returned 3"""}, lambda value: value == "/bin/sh -c 'exit 3'"),
    "exit_code": ({"message": """"/bin/sh -c 'exit 3'" returned 3"""}, lambda value: value == 3),
    "seconds": ({"message": """"/bin/sh -c 'exit 3'" returned 3"""}, lambda value: 0 < value < 30),
    "status": ({"subject": "Gadget[left]"}, lambda value: value == "skipped"),
}


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "workers"])
def test_each_field_is_where_it_applies(house: Bench, isolate: str) -> None:
    """One event of the run is named for each field, with its value."""
    assert set(FIELDS) == set(LOG_FIELDS)
    result = events(house, *(["--isolate"] if isolate else []))
    names = {name: only(result, **field) for name, (field, _) in FIELDS.items()}
    assert {name: event for name, event in names.items() if not FIELDS[name][1](event[name])} == {}
    assert {name for item in result for name in item} <= {*LOG_FIELDS, "level", "subject", "message", "timestamp"}


def test_statuses_phases_and_actions_are_those_of_the_run(house: Bench) -> None:
    """Each line is of one phase; the end of each resource has its status, and the action that was planned."""
    result = events(house)
    assert {item["phase"] for item in result} == {"observe", "apply", "verify", "refresh"}
    assert len({value["run"] for value in result}) == 1
    ends = [(entry["reference"], entry["action"], entry["status"]) for entry in result if "status" in entry]
    assert sorted(ends) == [
        ("Gadget[bad]", "create", "failed"),
        ("Gadget[fresh]", "refresh", "success"),
        ("Gadget[idle]", "create", "noop"),
        ("Gadget[left]", "create", "skipped"),
        ("Gadget[new]", "create", "success"),
        ("Gadget[quiet]", "create", "success"),
    ]


def test_output_of_a_program_has_its_command(house: Bench) -> None:
    """At -d each line that a program prints is an event with the command, and secrets in it are masked."""
    result = [event for event in events(house) if event["subject"] == "Gadget[new]" and "command" in event]
    first, second = "/bin/sh -c 'echo out; echo $TOKEN'", "/bin/sh -c 'echo err >&2'"
    assert [(item["command"], item["level"], item["message"]) for item in result] == [
        (first, "debug", f'Executing "{first}"'),
        (first, "debug", "out"),
        (first, "debug", "<sensitive>"),
        (first, "debug", f'Successfully executed "{first}"'),
        (second, "debug", f'Executing "{second}"'),
        (second, "warning", "err"),
        (second, "debug", f'Successfully executed "{second}"'),
    ]


def test_log_events_of_the_stream_have_the_fields(house: Bench) -> None:
    """``--json`` shows each line of the log with the fields that ``--log-format json`` shows."""
    result = house.run("apply", "site.yaml", "-i", "pw=@pw", "-d", "--json")
    assert SECRET not in result.out
    in_stream = [
        {k: v for k, v in event.items() if k != "type" and (k, v) != ("reference", None)}
        for event in result.events("log")
    ]
    assert comparable(in_stream, ordered=True) == comparable(events(house), ordered=True)


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "workers"])
def test_reported_attributes_reach_the_end_of_the_step(house: Bench, isolate: str) -> None:
    """``changes`` has the message of an attribute that differs, and what the provider changed beside it."""
    house.environment |= {"RESOURCE_API_ISOLATE": isolate, "SECRET": "no secret"}
    result = house.stream('project: house\nresources: {"Gadget[old]": {size: 2}}')
    assert result.ends()["Gadget[old]"]["changes"] == [
        {"attribute": "size", "is": 1, "should": 2, "message": "resized"},
        {"attribute": "inside", "is": {"old": ["no secret"]}, "should": None, "message": None},
    ]


def test_a_function_logs_with_the_fields_of_the_run(house: Bench) -> None:
    """What a provider logs while a value of the manifest is computed is of its type and phase."""
    house.write("call.yaml", "project: house\nvalues: {w: {invoke: gadget.word}}\noutputs: {w: '${values.w}'}\n")
    result = house.run("apply", "call.yaml", "--log-format", "json")
    assert result.code == 0, result.err
    (document,) = (json.loads(line) for line in result.lines)
    assert (document["message"], document["resource_type"], document["subject"]) == ("asked", "gadget", "gadget")
    assert len(document["run"]) == 16


def test_a_program_that_configures_nothing_sees_warnings_and_errors(house: Bench) -> None:
    """Standard ``logging`` writes them to stderr; a program is silent only if it asks for it."""
    script = """
        import logging, sys
        from resource_api import Registry, Runtime
        if sys.argv[2:]:
            logging.getLogger("resource_api").setLevel(logging.CRITICAL + 1)
        report = Runtime(Registry.from_path(*sys.argv[1].split(":"))).apply("site.yaml", {"pw": open("pw").read()})
        assert report.exit_code == 1
    """
    program = house.write("plain.py", script)
    lines = run_program(house, program).stderr.splitlines()
    assert "Gadget[left]: skipped because Gadget[bad] failed" in lines
    assert """Gadget[bad]: Updating failed: "/bin/sh -c 'exit 3'" returned 3 (site.yaml:6)""" in lines
    assert not any("Successfully" in line for line in lines)
    assert run_program(house, program, "silent").stderr == ""


def test_structlog_lines_of_a_provider_join_the_run(bench: Bench) -> None:
    """The context variables of structlog have the fields of the call, and of nothing once the run is over."""
    bench.probe("""
        def set(self, context, changes):
            import structlog
            structlog.get_logger().info("my own line")
            self._done(changes)
    """)
    bench.write("site.yaml", "project: house\nresources: {'Probe[a]': {size: 1}}")
    script = """
        import json, sys, structlog
        from resource_api import Registry, Runtime
        def show(logger, method, event):
            if event["event"].endswith("own line"):
                print(json.dumps(event))
            raise structlog.DropEvent
        structlog.configure(processors=[structlog.contextvars.merge_contextvars, show])
        Runtime(Registry.from_path(*sys.argv[1].split(":"))).apply("site.yaml")
        structlog.get_logger().info("another own line")
    """
    result = run_program(bench, bench.write("joined.py", script))
    inside, after = map(json.loads, result.stdout.splitlines())
    assert inside.pop("run")
    assert inside == {
        "event": "my own line",
        "project": "house",
        "stack": "default",
        "phase": "apply",
        "action": "create",
        "reference": "Probe[a]",
        "urn": "urn:resource:default::house::probe::a",
        "resource_type": "probe",
    }
    assert after == {"event": "another own line"}


def test_a_log_that_raises_stops_no_run(bench: Bench) -> None:
    """The first exception of a processor is shown, and every resource is made all the same."""
    bench.write("site.yaml", "resources: {'Widget[a]': {}, 'Widget[b]': {}}")
    script = """
        import sys, structlog
        from resource_api import Registry, Runtime
        def fail(logger, method, event):
            raise OSError("the log is full")
        structlog.configure(processors=[fail])
        report = Runtime(Registry.from_path(*sys.argv[1].split(":"))).apply("site.yaml")
        print(report.summary)
    """
    result = run_program(bench, bench.write("full.py", script))
    assert result.stdout.strip() == "2 created"
    assert result.stderr.count("OSError: the log is full") == 1


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "workers"])
def test_a_thread_of_a_provider_logs_with_the_fields_of_its_call(bench: Bench, isolate: str) -> None:
    """Through the context and by a program that it runs, though context variables do not reach the thread."""
    bench.environment["RESOURCE_API_ISOLATE"] = isolate
    bench.probe("""
        true = Command("/bin/true")
        def work(self, context):
            context.notice("from a thread")
            self.true("x")
        def set(self, context, changes):
            import threading
            thread = threading.Thread(target=self.work, args=(context,))
            thread.start()
            thread.join()
            self._done(changes)
    """)
    result = bench.apply("project: house\nresources: {'Probe[a]': {size: 1}}", "-d", "--log-format", "json")
    documents = [json.loads(line) for line in result.lines]
    lines = [item for item in documents if "command" in item or item["message"] == "from a thread"]
    assert len(lines) == 3
    for entry in lines:
        assert (entry["project"], entry["stack"], entry["phase"], entry["action"]) == (
            "house",
            "default",
            "apply",
            "create",
        )
        assert (entry["reference"], entry["urn"]) == ("Probe[a]", "urn:resource:default::house::probe::a")
    assert len({value["run"] for value in lines}) == 1


def test_what_a_provider_prints_and_a_problem_of_the_manifest_are_events(bench: Bench) -> None:
    """They have the fields that apply: of the call, and of the place in the manifest."""
    bench.probe("def set(self, context, changes):\n    print('printed')\n    self._done(changes)")
    result = bench.apply("project: house\nresources: {'Probe[a]': {size: 1}}", "--log-format", "json")
    printed, _ = map(json.loads, result.lines)
    assert (printed["message"], printed["level"], printed["subject"]) == ("printed", "notice", "probe")
    assert (printed["resource_type"], printed["phase"], printed["reference"]) == ("probe", "apply", "Probe[a]")
    result = bench.apply("resources: {'Probe[a]': {size: big}}", "--log-format", "json")
    (problem,) = map(json.loads, result.lines)
    assert (problem["level"], problem["reference"], problem["attribute"]) == ("err", "Probe[a]", "size")


def test_the_run_of_the_events_is_that_of_the_summary(house: Bench) -> None:
    """And each step's end has the status of its last event."""
    result = house.run("apply", "site.yaml", "-i", "pw=@pw", "--json")
    (summary,) = result.events("summary")
    assert {event["run"] for event in result.events("log")} == {summary["run"]}
    last = {item["reference"]: item["status"] for item in result.events("log") if "status" in item}
    assert last == {reference: end["status"] for reference, end in result.ends().items()}


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "workers"])
def test_odd_values_of_a_provider_are_data(bench: Bench, isolate: str) -> None:
    """What JSON does not have is text, in events and in the changes of the step's end."""
    bench.environment["RESOURCE_API_ISOLATE"] = isolate
    bench.probe("""
        def set(self, context, changes):
            context.attribute_changed("a", "colour", complex(1, 2), {1: float("nan"), "set": {3}}, message="odd")
            self._done(changes)
    """)
    result = bench.stream("resources: {'Probe[a]': {size: 1}}")
    data = {"attribute": "colour", "is": "(1+2j)", "should": {"1": "nan", "set": [3]}, "message": "odd"}
    assert result.ends()["Probe[a]"]["changes"][-1] == data
    event = only(result.events("log"), attribute="colour")
    assert (event["is"], event["should"]) == (data["is"], data["should"])


def test_a_call_that_fails_for_all_is_logged_for_each(bench: Bench) -> None:
    """Where ``get`` raises, each of its resources has an event with its status and the planned phase."""
    bench.probe("""
        def get(self, context, names=None):
            raise OSError("no disk")
        def set(self, context, changes):
            pass
    """)
    result = bench.apply("project: house\nresources: {'Probe[a]': {}, 'Probe[b]': {}}", "--log-format", "json")
    assert result.code == 1
    documents = [json.loads(line) for line in result.lines]
    assert [(item["reference"], item["status"], item["level"]) for item in documents] == [
        ("Probe[a]", "failed", "err"),
        ("Probe[b]", "failed", "err"),
    ]
