"""The log: levels, fields, context and secrets of events, the chain of processors, and how lines are rendered."""

from __future__ import annotations

import json
import subprocess
import sys
from contextvars import copy_context
from io import StringIO
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TextIO

import pytest
import structlog
from structlog.processors import JSONRenderer

from resource_api.model.report import LOG_FIELDS, LogEvent
from resource_api.model.values.errors import ResourceError
from resource_api.model.values.values import UNKNOWN, Sensitive
from resource_api.system.log import (
    ForwardedLog,
    Log,
    StreamLogger,
    document,
    json_processors,
    line,
    message,
    render_line,
)
from resource_api.system.thread_pool import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.system.log import EventDict

SECRET: Final = "hunter22xyz"
LEVELS: Final = ["debug", "info", "notice", "warning", "err"]


def logged(write: Callable[[Log], object], *secrets: str) -> list[LogEvent]:
    """Return the events of what ``write`` logs at any level, with ``secrets`` known."""
    events: list[LogEvent] = []
    log = ForwardedLog("debug", events.append)
    for secret in secrets:
        log.mask.add(Sensitive(secret))
    write(log)
    return events


def text_log(level: str, stream: TextIO) -> Log:
    """Return a log that writes lines as the command does."""
    return Log(level, [render_line], StreamLogger(stream), terse=True)


@pytest.mark.parametrize(("level", "first"), [("debug", 0), ("notice", 2), ("err", 4), ("off", 5)])
def test_an_event_below_the_level_is_never_built(level: str, first: int) -> None:
    """Of one line of each level, only the fields of those from the level on are computed, and only those are shown."""
    computed: list[str] = []
    events: list[LogEvent] = []
    log = ForwardedLog(level, events.append)
    for name in LEVELS:
        log.write(name, "Widget[a]", "text", "widget", lambda name=name: {"status": computed.append(name)})  # type: ignore[misc]
    assert computed == [event.level for event in events] == LEVELS[first:]
    assert log.lowest_level("widget") == [*LEVELS, "off"][first]


def test_a_log_that_shows_nothing_does_not_import_structlog() -> None:
    """It is imported with the first event that reaches the level."""
    script = """
import sys
from resource_api.system.log import Log, StreamLogger, json_processors, render_line
for log in (Log("err", [render_line], StreamLogger(sys.stdout)), Log("err", json_processors, StreamLogger(sys.stdout))):
    with log.bind(run="1"):
        log.write("notice", "", "text")
    assert "structlog" not in sys.modules
log.write("err", "", "text")
assert "structlog" in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout.count(b"\n") == 1


def test_the_console_costs_no_fields() -> None:
    """Where only text is shown, the fields of a line are not computed."""
    computed: list[int] = []
    stream = StringIO()
    log = text_log("debug", stream)
    with log.bind(run="1"):
        log.write(
            "notice", "Widget[a]", "created", "widget", lambda: {"reference": str(computed.append(1))}, status="s"
        )
    assert (stream.getvalue(), computed) == ("Notice: Widget[a]: created\n", [])


def test_an_event_passes_the_processors_in_their_order() -> None:
    """Each gets the bound fields, without secrets; the result of the last one goes to the output."""
    stream = StringIO()

    def number(_logger: object, method: str, event: EventDict) -> EventDict:
        return {**event, "method": method}

    log = Log("notice", [number, JSONRenderer(sort_keys=True)], structlog.WriteLogger(stream))
    log.mask.add(Sensitive(SECRET))
    with log.bind(run="1"):
        log.write("err", "Widget[a]", f"is {SECRET}", "widget", key=SECRET)
        log.write("info", "Widget[a]", "text")
    assert json.loads(stream.getvalue()) == {
        "event": "is <sensitive>",
        "key": "<sensitive>",
        "level": "err",
        "method": "error",
        "resource_type": "widget",
        "run": "1",
        "subject": "Widget[a]",
    }


def test_a_processor_that_raises_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the first nor a later exception reaches the run."""

    def fail(*_arguments: object) -> object:
        raise OSError("the log is full")

    for _ in range(2):
        log = Log("notice", [fail])
        log.write("notice", "", "text")
        log.write("notice", "", "text")
    assert capsys.readouterr().err.count("OSError: the log is full") == 2


def test_a_time_limit_that_passes_during_a_line_ends_the_call() -> None:
    """The error that is raised inside the call is no failure of the log."""

    def end(*_arguments: object) -> object:
        raise ResourceError("timed out after 1 s")

    with pytest.raises(ResourceError, match="timed out"):
        Log("notice", [end]).write("notice", "", "text")


def test_a_signal_during_the_import_of_structlog_is_reported() -> None:
    """A handler that logs while the module is only partly imported learns that another thread has to."""
    script = """
import sys, types
from resource_api.system.log import Log, LogBusyError
sys.modules["structlog"] = types.ModuleType("structlog")
try:
    Log().write("notice", "", "text")
except LogBusyError:
    print("busy")
"""
    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout == b"busy\n"


def test_a_fault_of_the_function_of_processors_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """It is not taken for a partly imported structlog, after which another thread would repeat the line."""

    def processors() -> list[Any]:
        return [json.no_such_processor]  # type: ignore[attr-defined]

    Log("notice", processors).write("notice", "", "text")
    assert "has no attribute 'no_such_processor'" in capsys.readouterr().err


def test_bound_fields_are_in_every_event_of_the_block() -> None:
    """The inner ones win, own fields win over bound ones, and after the block they are gone."""

    def write(log: Log) -> None:
        with log.bind(run="1", phase="plan"), log.bind(phase="apply"):
            log.write("notice", "", "inside", status="success")
            log.write("notice", "", "own", phase="verify")
        log.write("notice", "", "outside")

    inside, private, outside = logged(write)
    assert inside.fields == {"run": "1", "phase": "apply", "status": "success"}
    assert private.fields["phase"] == "verify"
    assert outside.fields == {}


def test_threads_of_a_pool_have_the_bound_fields_and_keep_theirs() -> None:
    """A task begins with the fields of the thread that starts it; what it binds does not reach another task."""

    def write(log: Log) -> None:
        def task(name: str) -> None:
            with log.bind(reference=name):
                log.write("notice", name, "done")

        with log.bind(run="1"), ThreadPool(2) as pool:
            for name in ("a", "b"):
                pool.start(lambda name=name: task(name))
            for _ in range(2):
                pool.next()

    entries = {event.subject: event.fields for event in logged(write)}
    assert entries == {"a": {"run": "1", "reference": "a"}, "b": {"run": "1", "reference": "b"}}


def test_a_thread_of_its_own_has_the_fields_of_the_context_that_it_runs_in() -> None:
    """``contextvars`` carries them."""

    def write(log: Log) -> None:
        with log.bind(run="1"):
            context = copy_context()
        thread = Thread(target=context.run, args=(log.write, "notice", "", "text"))
        thread.start()
        thread.join()

    assert [event.fields for event in logged(write)] == [{"run": "1"}]


@pytest.mark.parametrize("field", LOG_FIELDS)
@pytest.mark.parametrize(
    "value",
    [
        SECRET,
        f"before {SECRET} after",
        Sensitive(SECRET),
        {"inner": [{"deep": SECRET}]},
        {SECRET: 1},
        [SECRET, (SECRET,), {SECRET}],
        SECRET.encode(),
        Exception(SECRET),
    ],
    ids=repr,
)
def test_a_secret_is_masked_in_every_field(field: str, value: object) -> None:
    """As a whole value, within a text, at any depth, as a key, in bytes and in odd values."""
    (event,) = logged(lambda log: log.write("notice", "", "text", **{field: value}), SECRET)
    assert SECRET not in repr(event)
    assert "<sensitive>" in repr(event.fields[field])


def test_a_secret_number_is_masked() -> None:
    """A number in a field is masked where its text is a known secret."""
    (event,) = logged(lambda log: log.write("notice", "", "", **{"is": [12345678, 1], "exit_code": 3}), "12345678")
    assert event.fields == {"is": ["<sensitive>", 1], "exit_code": 3}


def test_a_secret_is_masked_in_subject_and_text() -> None:
    """Where it begins in the one and ends in the other it is two texts."""
    (event,) = logged(lambda log: log.write("notice", f"Widget[{SECRET}]", f"is {SECRET}"), SECRET)
    assert (event.subject, event.text) == ("Widget[<sensitive>]", "is <sensitive>")


class Rude:
    """An object whose text cannot be had."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError


def test_odd_values_become_data() -> None:
    """Whatever a provider reports, the event is plain JSON data."""
    cyclic: list[Any] = [1]
    cyclic.append(cyclic)
    value = {1: UNKNOWN, "nan": float("nan"), "set": {1}, "bytes": b"x", "rude": Rude(), "cyclic": cyclic, "none": None}
    (event,) = logged(lambda log: log.write("notice", "", "text", should=value))
    assert event.fields["should"] == {
        "1": None,
        "nan": "nan",
        "set": [1],
        "bytes": "b'x'",
        "rude": "<Rude>",
        "cyclic": [1, "..."],
        "none": None,
    }


@pytest.mark.parametrize("processors", [[render_line], json_processors], ids=["text", "json"])
def test_a_group_of_lines_is_one_write(processors: Any) -> None:
    """Streams get the lines of a buffered block together."""
    writes: list[int] = []

    class Stream(StringIO):
        def write(self, text: str) -> int:
            writes.append(text.count("\n"))
            return len(text)

    log = Log("notice", processors, StreamLogger(Stream()))
    with log.buffered():
        for _ in range(3):
            log.write("notice", "", "text")
    log.write("notice", "", "text")
    assert writes == [3, 1]


@pytest.mark.parametrize("processors", [[render_line], json_processors], ids=["text", "json"])
def test_a_closed_stream_stops_nothing(processors: Any) -> None:
    """Lines after it are dropped."""
    stream = StringIO()
    log = Log("notice", processors, StreamLogger(stream))
    stream.close()
    log.write("notice", "", "text")
    log.write("notice", "", "text")


def test_each_event_is_one_json_object() -> None:
    """With level, subject, message, fields and the time in UTC, in the order in which they were logged."""
    stream = StringIO()
    log = Log("info", json_processors, StreamLogger(stream))
    log.write("notice", "Widget[a]", "two\nlines", **{"is": [None, 1.5], "run": "1"})
    log.write("err", "", "\udc80")
    log.write("info", "", "later")
    documents = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert all(entry.pop("timestamp").endswith("Z") for entry in documents)
    assert documents == [
        {"level": "notice", "subject": "Widget[a]", "message": "two\nlines", "is": [None, 1.5], "run": "1"},
        {"level": "err", "subject": "", "message": "\udc80"},
        {"level": "info", "subject": "", "message": "later"},
    ]


@pytest.mark.parametrize(
    ("level", "output"),
    [("debug", "Debug"), ("info", "Info"), ("notice", "Notice"), ("warning", "Warning"), ("err", "Error")],
)
def test_a_line_begins_with_its_level(level: str, output: str) -> None:
    """With the subject and without; a colour is around the whole line."""
    assert line(LogEvent(level, "Widget[a]", "made")) == f"{output}: Widget[a]: made"
    assert line(LogEvent(level, "", "made")) == f"{output}: made"
    coloured = line(LogEvent(level, "", "made"), color=True)
    assert coloured.removesuffix("\x1b[0m").endswith(f"{output}: made")


def test_control_characters_are_escaped_in_text_only() -> None:
    """The line and the message are text for terminals; the document keeps what was logged."""
    event = LogEvent("notice", "Widget[a]", "two\nlines", {"is": "\x1b"})
    assert line(event) == r"Notice: Widget[a]: two\nlines"
    assert message(event) == r"Widget[a]: two\nlines"
    assert document(event) == {"level": "notice", "subject": "Widget[a]", "message": "two\nlines", "is": "\x1b"}
