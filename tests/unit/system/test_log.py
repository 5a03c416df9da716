"""The log: thresholds, fields, context and secrets of events, and how they are rendered."""

from __future__ import annotations

import sys
from contextvars import copy_context
from io import StringIO
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.report import LOG_FIELDS, LogEvent
from resource_api.model.values.values import UNKNOWN, Sensitive
from resource_api.system.log import Log, StreamSink, console
from resource_api.system.log_renderers import document, line, message
from resource_api.system.thread_pool import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "hunter22xyz"


def logged(write: Callable[[Log], object], *secrets: str) -> list[LogEvent]:
    """Return the events of what ``write`` logs at any level, with ``secrets`` known."""
    events: list[LogEvent] = []
    log = Log("debug", events.append)
    for secret in secrets:
        log.mask.add(Sensitive(secret))
    write(log)
    return events


def built(log: Log, levels: list[str]) -> int:
    """Return how many events are built while one line of each level is written."""
    count = 0

    def note(frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_qualname == "_masked"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for level in levels:
            log.write(level, "Widget[a]", "text", "widget", dict, status="success")
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(("threshold", "count"), [("debug", 5), ("notice", 3), ("err", 1), ("off", 0)])
def test_an_event_below_the_threshold_is_never_built(threshold: str, count: int) -> None:
    """Of one line of each level, only those from the threshold on become events."""
    assert built(Log(threshold, lambda _event: None), ["debug", "info", "notice", "warning", "err"]) == count


def test_fields_of_an_event_below_the_threshold_are_not_asked_for() -> None:
    """Neither what a line is about is computed, nor is anything built without a sink."""
    asked: list[int] = []
    log = Log("notice", lambda _event: None)
    log.write("debug", "", "text", about=lambda: {"reference": str(asked.append(1))})
    Log("debug").write("err", "", "text", about=lambda: {"reference": str(asked.append(1))})
    assert not asked


def test_the_console_costs_no_fields() -> None:
    """Where only text is shown, what a line is about is not computed."""
    asked: list[int] = []
    stream = StringIO()
    log = Log("debug", console(stream))
    with log.bind(run="1"):
        log.write("notice", "Widget[a]", "created", "widget", lambda: {"reference": str(asked.append(1))}, status="s")
    assert (stream.getvalue(), asked) == ("Notice: Widget[a]: created\n", [])


def test_a_sink_may_decide_what_it_takes() -> None:
    """A sink with ``accepts`` gets what it accepts, whatever the threshold; the others what reaches the threshold."""
    plain: list[LogEvent] = []

    class Chooser:
        taken: list[LogEvent]

        def __init__(self) -> None:
            self.taken = []

        def accepts(self, level: str, resource_type: str) -> bool:
            return (level, resource_type) == ("debug", "widget")

        def __call__(self, *events: LogEvent) -> None:
            self.taken += events

    chooser = Chooser()
    log = Log("warning", plain.append, chooser)
    for level in ("debug", "warning"):
        for kind in ("widget", "other"):
            log.write(level, kind, "text", kind)
    assert [(event.level, event.subject) for event in plain] == [("warning", "widget"), ("warning", "other")]
    assert [(event.level, event.subject) for event in chooser.taken] == [("debug", "widget")]
    assert (log.lowest_level("widget"), log.lowest_level("other")) == ("debug", "warning")
    assert Log("off", plain.append).lowest_level("widget") == "off"


def test_bound_fields_are_in_every_event_of_the_block() -> None:
    """The inner ones win, own fields win over bound ones, and after the block they are gone."""

    def write(log: Log) -> None:
        with log.bind(run="1", phase="plan"), log.bind(phase="apply"):
            log.write("notice", "", "inside", status="success")
            log.write("notice", "", "own", phase="verify")
        log.write("notice", "", "outside")

    inside, own, outside = logged(write)
    assert inside.fields == {"run": "1", "phase": "apply", "status": "success"}
    assert own.fields["phase"] == "verify"
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

    found = {event.subject: event.fields for event in logged(write)}
    assert found == {"a": {"run": "1", "reference": "a"}, "b": {"run": "1", "reference": "b"}}


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


def test_a_group_of_lines_is_one_write() -> None:
    """Streams get the events of a buffered block together, also those that show fields."""
    groups: list[int] = []
    log = Log("notice", StreamSink(lambda events: groups.append(len(events))))
    with log.buffered():
        for _ in range(3):
            log.write("notice", "", "text")
    log.write("notice", "", "text")
    assert groups == [3, 1]


@pytest.mark.parametrize(
    ("level", "shown"),
    [("debug", "Debug"), ("info", "Info"), ("notice", "Notice"), ("warning", "Warning"), ("err", "Error")],
)
def test_a_line_begins_with_its_level(level: str, shown: str) -> None:
    """With the subject and without; a colour is around the whole line."""
    assert line(LogEvent(level, "Widget[a]", "made")) == f"{shown}: Widget[a]: made"
    assert line(LogEvent(level, "", "made")) == f"{shown}: made"
    coloured = line(LogEvent(level, "", "made"), color=True)
    assert coloured.removesuffix("\x1b[0m").endswith(f"{shown}: made")


def test_control_characters_are_escaped_in_text_only() -> None:
    """The line and the message are text for terminals; the document keeps what was logged."""
    event = LogEvent("notice", "Widget[a]", "two\nlines", {"is": "\x1b"})
    assert line(event) == r"Notice: Widget[a]: two\nlines"
    assert message(event) == r"Widget[a]: two\nlines"
    assert document(event) == {"level": "notice", "subject": "Widget[a]", "message": "two\nlines", "is": "\x1b"}
