"""What is shown of a running call and when, with a clock of the test and a terminal of its own."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.cli import progress
from resource_api.cli.progress import LiveLines, ProgressDisplay
from resource_api.render.columns import cut, cut_inside, width
from tests.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        """Begin at some time."""
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Work:
    """An activity."""

    def __init__(self, clock: Clock, **more: Any) -> None:
        """Begin now."""
        self.started = clock.now
        self.place, self.subject, self.verb, self.detail = "3/14", "Package[nginx]", "installing", ""
        self.logged: list[int] = []
        vars(self).update(more)

    def log(self, seconds: int) -> None:
        """Keep it."""
        self.logged.append(seconds)


@pytest.fixture
def clock() -> Clock:
    """Return a clock."""
    return Clock()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """Return a terminal of 60 columns."""
    with Terminal(60) as opened:
        yield opened


def shown(terminal: Terminal) -> list[str]:
    """Return the lines of the screen."""
    while terminal.read(0.0):
        pass
    return terminal.screen.lines


def test_a_notice_comes_after_five_seconds_and_then_every_thirty(clock: Clock) -> None:
    """Also where nothing looked at the call for long."""
    display = ProgressDisplay(None, clock=clock)
    work = Work(clock)
    with display.waiting(work) as update:
        for seconds in (0, 4.9, 5, 34.9, 35.2, 64.9, 65, 200, 201):
            clock.now = 1000 + seconds
            update()
    clock.now += 100
    display.update()
    assert work.logged == [5, 35, 65, 200]


def test_a_call_has_a_live_line_until_it_ends(clock: Clock, terminal: Terminal) -> None:
    """A short one has none, and each second is shown."""
    display = ProgressDisplay(LiveLines(terminal.theirs), clock=clock)
    with display.waiting(Work(clock)) as update:
        update()
        assert shown(terminal) == [""]
        clock.now += 12
        update()
        assert shown(terminal) == ["[3/14] Package[nginx] installing … 12 s"]
    assert shown(terminal) == [""]


def test_several_calls_have_several_lines_but_no_more_than_the_window(clock: Clock, terminal: Terminal) -> None:
    """The last line counts the others."""
    display = ProgressDisplay(LiveLines(terminal.theirs), clock=clock)
    terminal.resize(60, 4)
    with display.waiting(Work(clock, place="1/9")), display.waiting(Work(clock, place="2/9")) as update:
        clock.now += 1
        update()
        assert [line[:5] for line in shown(terminal)] == ["[1/9]", "[2/9]"]
        with display.waiting(Work(clock)), display.waiting(Work(clock)):
            clock.now += 1
            update()
            assert [line[:5] for line in shown(terminal)] == ["[1/9]", "[2/9]", "… 2 m"]
    assert shown(terminal) == [""]


@pytest.mark.parametrize("columns", [20, 40, 60, 100])
@pytest.mark.parametrize(
    "name", ["/srv/" + "long/" * 30, "日本語" * 40, "a\x1b[31m\nb" * 20], ids=["long", "wide", "hostile"]
)
def test_a_line_never_fills_its_window(clock: Clock, columns: int, name: str) -> None:
    """The name is cut, the seconds are there, control characters are escaped."""
    with Terminal(columns) as terminal:
        display = ProgressDisplay(LiveLines(terminal.theirs), clock=clock)
        subject = f"File[{name}]"
        with display.waiting(Work(clock, subject=subject, verb="creating", detail="said " * 50)) as update:
            clock.now += 7
            update()
            [line] = shown(terminal)
        assert width(line) < columns
        assert columns < 40 or "… creating … 7 s" in line
        assert shown(terminal) == [""]


@pytest.mark.parametrize(("text", "columns"), [("e\u0301t\u0301", 2), ("日本", 4), ("naïve", 5), ("\u1112\u1161", 2)])
def test_the_width_of_a_line_is_counted_in_columns(text: str, columns: int) -> None:
    """Combining characters take none and wide ones two: counted otherwise, a line above would be erased too."""
    assert width(text) == columns


def test_secrets_are_masked_before_a_line_is_cut(clock: Clock, terminal: Terminal) -> None:
    """No part of one is shown."""
    display = ProgressDisplay(LiveLines(terminal.theirs), lambda text: text.replace("secret" * 9, "<sensitive>"), clock)
    with display.waiting(Work(clock, detail="password " + "secret" * 9)) as update:
        clock.now += 1
        update()
        assert shown(terminal) == ["[3/14] Package[nginx] installing … 1 s: password <sensitive>"[:58] + "…"]


def test_other_output_is_written_above_the_lines(terminal: Terminal) -> None:
    """Whole lines, in their order; a call goes on below them."""
    lines = LiveLines(terminal.theirs)
    lines.show(["one", "two"])
    for number in range(3):
        with lines.hidden():
            os.write(terminal.theirs, b"line %d\n" % number)
    assert shown(terminal) == ["line 0", "line 1", "line 2", "one", "two"]
    lines.close()
    assert shown(terminal) == ["line 0", "line 1", "line 2"]
    lines.show(["three"])
    assert shown(terminal) == ["line 0", "line 1", "line 2"]


@pytest.mark.parametrize("write", ["show", "show again"])
def test_a_signal_handler_right_after_a_write_erases_what_was_written(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """The handler closes the lines and ends the process: nothing else would erase them."""
    lines, written = LiveLines(terminal.theirs), os.write

    def interrupted(descriptor: int, data: bytes) -> int:
        monkeypatch.undo()
        count = written(descriptor, data)
        signal.raise_signal(signal.SIGUSR1)
        return count

    before = signal.signal(signal.SIGUSR1, lambda *_: lines.close())
    try:
        if write == "show":
            monkeypatch.setattr(os, "write", interrupted)
            lines.show(["one"])
        else:
            lines.show(["one"])
            with lines.hidden():
                written(terminal.theirs, b"kept\n")
                monkeypatch.setattr(os, "write", interrupted)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert shown(terminal) == (["kept"] if write == "show again" else [""])


def test_a_narrower_window_leaves_nothing(terminal: Terminal) -> None:
    """It has wrapped the lines, which now take more rows."""
    lines = LiveLines(terminal.theirs)
    with lines.hidden():
        os.write(terminal.theirs, b"kept\n")
    lines.show(["x" * 59, "y" * 59])
    shown(terminal)
    terminal.resize(30)
    wrapped = type(terminal.screen)(30)
    wrapped.feed("kept\r\n" + "x" * 59 + "\r\n" + "y" * 59)
    terminal.screen = wrapped
    assert len(wrapped.lines) == 5
    lines.close()
    assert shown(terminal) == ["kept"]


@pytest.mark.parametrize(
    ("text", "columns", "name"), [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本", 3, "日…"), ("a", 0, "")]
)
def test_a_cut_text_ends_in_an_ellipsis(text: str, columns: int, name: str) -> None:
    """A wide character takes two columns."""
    assert cut(text, columns) == name


@pytest.mark.parametrize(
    ("text", "columns", "name"), [("abcdef", 5, "ab…ef"), ("日本語文", 7, "日本…文"), ("a", 0, "")]
)
def test_a_text_that_is_cut_inside_has_both_ends(text: str, columns: int, name: str) -> None:
    """So that what apt waits for has a holder."""
    assert cut_inside(text, columns) == name


def test_a_closed_terminal_ends_the_lines() -> None:
    """Nothing is raised, and nothing more is written."""
    reading, writing = os.pipe()
    os.close(reading)
    lines = LiveLines(writing)
    lines.show(["one"])
    lines.show(["two"])
    with lines.hidden():
        pass
    os.close(writing)


def test_there_is_one_thread_from_the_first_call_to_the_end(clock: Clock) -> None:
    """Waiting for a lock needs none, and what an activity raises ends none."""
    display = ProgressDisplay(None, clock=clock)
    threads = threading.active_count()
    with display.waiting(Work(clock)):
        assert threading.active_count() == threads
    ticked = threading.Event()
    with display.running(Work(clock, started=0.0, log=lambda _: (ticked.set(), 1 / 0))), display.running(Work(clock)):
        assert threading.active_count() == threads + 1
        assert ticked.wait(10)
    display.close()
    assert threading.active_count() == threads


def test_a_system_without_threads_shows_nothing(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(progress.threading, "Thread", lambda **_: SimpleNamespace(start=refuse))
    display = ProgressDisplay(None, clock=clock)
    with display.running(Work(clock)):
        pass
    display.close()
