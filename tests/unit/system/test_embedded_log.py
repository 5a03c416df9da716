"""The log of an embedding program: standard ``logging``, or its own structlog."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import structlog

from resource_api import Log, Registry, Runtime
from resource_api.model.values.errors import UsageError
from resource_api.model.values.values import Sensitive
from resource_api.system.log import EmbeddedLog

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from pathlib import Path

LEVELS = ["debug", "info", "notice", "warning", "err"]


class Records(logging.Handler):
    """Keeps what it gets."""

    def __init__(self) -> None:
        """Begin without records."""
        super().__init__()
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append(record)


@pytest.fixture
def name() -> Iterator[str]:
    """Return the name of a type that no other test uses, because loggers last as long as the process."""
    text = f"kind_{uuid4().hex}"
    yield text
    logging.getLogger(f"resource_api.{text}").handlers.clear()


@pytest.fixture
def configured() -> Iterator[list[dict[str, Any]]]:
    """Configure structlog from the level info on; return the events that its last processor gets."""
    events: list[dict[str, Any]] = []

    def keep(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
        events.append(dict(event))
        raise structlog.DropEvent

    filtering = structlog.make_filtering_bound_logger(logging.INFO)
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, keep], wrapper_class=filtering)
    yield events
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def write(log: Log, name: str) -> list[int]:
    """Write a line of each level; return for which of them its fields were asked for."""
    requested: list[int] = []
    for number, level in enumerate(LEVELS):
        log.write(level, name, "text", name, lambda number=number: {"seconds": requested.append(number)})  # type: ignore[misc]
    return requested


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_a_log_of_a_level_alone_writes_to_the_log_of_the_program(
    name: str, configured: list[dict[str, Any]], first: int
) -> None:
    """An event of the level or above it reaches the program, and a lower one does not."""
    write(Log(LEVELS[first]), name)
    assert [event["level_name"] for event in configured] == LEVELS[max(first, 1) :]


@pytest.mark.parametrize(("level", "expected"), [("warn", "did you mean 'warning'"), ("OFF", "debug, info, notice, ")])
def test_an_unknown_level_is_refused(level: str, expected: str) -> None:
    """The error names the levels."""
    with pytest.raises(UsageError, match=expected):
        Log(level)


@pytest.mark.parametrize(("level", "first"), [("DEBUG", 0), (25, 2), ("WARNING", 3), ("CRITICAL", 5)])
def test_the_level_of_a_types_logger_decides(name: str, level: str | int, first: int) -> None:
    """Of standard ``logging``; an event below it is not built, whatever the log's own threshold."""
    logger, records = logging.getLogger(f"resource_api.{name}"), Records()
    logger.setLevel(level)
    logger.addHandler(records)
    logger.propagate = False
    log = EmbeddedLog()
    assert write(log, name) == list(range(first, 5))
    assert [record.resource_api["level"] for record in records.records] == LEVELS[first:]
    assert log.lowest_level(name) == [*LEVELS, "off"][first]


def test_a_record_has_the_fields_as_one_mapping(name: str) -> None:
    """With level, subject and message, and the context variables that the program has bound in structlog."""
    logger, records = logging.getLogger(f"resource_api.{name}"), Records()
    logger.setLevel("DEBUG")
    logger.addHandler(records)
    with structlog.contextvars.bound_contextvars(request="42"):
        EmbeddedLog().write("notice", "Widget[100%s]", "two\nlines %d", name, status="success")
    (record,) = records.records
    assert record.getMessage() == r"Widget[100%s]: two\nlines %d"
    assert (record.levelno, record.levelname) == (25, "NOTICE")
    assert record.resource_api == {
        "level": "notice",
        "subject": "Widget[100%s]",
        "message": "two\nlines %d",
        "resource_type": name,
        "status": "success",
        "request": "42",
    }


def test_structlog_gets_events_where_it_is_configured(name: str, configured: list[dict[str, Any]]) -> None:
    """From the level of its logger on, with the fields as keys; ``logging`` gets nothing."""
    records = Records()
    logging.getLogger(f"resource_api.{name}").addHandler(records)
    log = EmbeddedLog()
    with structlog.contextvars.bound_contextvars(request="42"):
        assert write(log, name) == [1, 2, 3, 4]
    assert [event["level_name"] for event in configured] == LEVELS[1:]
    common = {"event": "text", "subject": name, "resource_type": name, "seconds": None, "request": "42"}
    assert [{key: value for key, value in event.items() if key != "level_name"} for event in configured] == [common] * 4
    assert not records.records


def test_a_structlog_that_writes_to_logging_uses_the_types_logger(name: str) -> None:
    """With structlog's own recipe for standard ``logging`` the logger is that of the type, and its level decides."""
    logger, records = logging.getLogger(f"resource_api.{name}"), Records()
    logger.setLevel("WARNING")
    logger.addHandler(records)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    try:
        assert write(EmbeddedLog(), name) == [3, 4]
    finally:
        structlog.reset_defaults()
    assert [(record.name, record.levelname, record.resource_type) for record in records.records] == [
        (logger.name, "WARNING", name),
        (logger.name, "ERROR", name),
    ]


def test_what_is_bound_is_in_structlogs_context_for_the_block(configured: list[dict[str, Any]]) -> None:
    """The program's own lines have it, secrets masked, and afterwards have it no more."""
    log = EmbeddedLog()
    log.mask.add(Sensitive("hunter22xyz"))
    with log.bind(run="1"), log.bind(reference="Widget[hunter22xyz]"):
        structlog.get_logger().info("inside")
    structlog.get_logger().info("outside")
    assert configured == [
        {"event": "inside", "run": "1", "reference": "Widget[<sensitive>]"},
        {"event": "outside"},
    ]


def _apply(path: Path, log: Log | None = None) -> None:
    """Create two files, then change an attribute of one, in two runs."""
    runtime = Runtime(Registry.from_path(), log=log)
    for mode in ("0600", "0644"):
        files = {f"File[{path}/{name}]": {"content": "text", "mode": mode} for name in "ab"}
        files[f"File[{path}/b]"]["mode"] = "0600"
        assert runtime.apply({"project": "info", "resources": files}).exit_code == 0


CHANGES = ["a: created", "b: created", "a: mode changed from 0600 to 0644"]


def test_at_info_structlog_gets_one_event_for_each_change(configured: list[dict[str, Any]], tmp_path: Path) -> None:
    """A step has no events for its beginning and its end there: these are ``StepStart`` and ``StepEnd``."""
    _apply(tmp_path)
    events = [f"{event['subject']}: {event['event']}".replace(f"File[{tmp_path}/", "") for event in configured]
    assert [event.replace("]", "") for event in events] == CHANGES


def test_at_info_standard_logging_and_a_chain_get_one_event_for_each_change(tmp_path: Path) -> None:
    """As structlog does, whether the log is the program's own or a ``Log`` that it gives."""
    logger, records, capture = logging.getLogger("resource_api"), Records(), structlog.testing.LogCapture()
    logger.addHandler(records)
    logger.setLevel("INFO")
    try:
        _apply(tmp_path)
    finally:
        logger.removeHandler(records)
        logger.setLevel("NOTSET")
    assert [record.resource_api["message"] for record in records.records] == [text.split(": ")[1] for text in CHANGES]
    (tmp_path / "chain").mkdir()
    _apply(tmp_path / "chain", Log("info", [capture]))
    assert [entry["event"] for entry in capture.entries] == [text.split(": ")[1] for text in CHANGES]


def test_a_processor_that_raises_is_shown_once(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the first nor a later exception reaches the run."""

    def fail(*_arguments: Any) -> Any:
        raise OSError("the log is full")

    structlog.configure(processors=[fail])
    try:
        write(EmbeddedLog(), name)
    finally:
        structlog.reset_defaults()
    assert capsys.readouterr().err.count("OSError: the log is full") == 1
