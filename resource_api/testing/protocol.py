"""The laws of programs that speak the provider protocol: test methods for authors to inherit.

They exchange frames with the program itself, as a run does (``docs/protocol.md``); ``ProviderCompliance`` tests its
provider.
"""

# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

import os
import sys
import time
from collections import deque
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from resource_api.model.values.values import reveal
from resource_api.plugins.registry import Registry
from resource_api.plugins.worker.protocol import MAX_LINE, VERSION, Decoder, Frame, encode
from resource_api.system.process.process import STDOUT, Invocation, Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.type_definition import Resource

#: Seconds that a program has for each answer, and for its end.
PATIENCE: Final = 20.0
_FIRST_UNKNOWN_VERSION: Final = 1_000_000


class Conversation(AbstractContextManager["Conversation"]):
    """A running program, and the frames that are exchanged with it."""

    def __init__(self, command: Sequence[str], instance: str) -> None:
        """Start the tested program; ``instance``: the name of the type whose provider it serves."""
        self._instance = instance
        self._decoder = Decoder(lambda _line: None)
        self._frames: deque[Frame] = deque()
        #: Bytes of the present line.
        self._line = 0
        #: The number of calls so far: each has its number as ``id``.
        self._calls = 0
        #: The time at which the present answer is late, in seconds of ``time.monotonic``.
        self._until = 0.0
        #: Bytes of the longest line so far.
        self.longest_line = 0
        source, self._requests = os.pipe2(os.O_CLOEXEC)
        program, *arguments = command
        self._process = Process(Invocation(program, tuple(arguments), os.environ, str(Path.cwd()), stdin=source))
        os.close(source)
        self._chunks = self._process.chunks(self._seconds_left)

    def __exit__(self, *_: object) -> None:
        """End the program."""
        self._process.__exit__(None, None, None)
        self._hang_up()

    def send(self, kind: str, **body: object) -> None:
        """Send a frame to the program; a long one fits into the pipe only in parts."""
        data = memoryview(encode(kind, body))
        while data:
            data = data[os.write(self._requests, data) :]

    def receive(self, *kinds: str) -> Frame:
        """Return the next frame of one of these kinds, and drop reports before it.

        A request ``blocked``, by which the program asks whether a prerequisite has failed, is answered by no. Fail if
        the program ends without such a frame.
        """
        self._until = time.monotonic() + PATIENCE
        while True:
            while self._frames:
                if (frame := self._frames.popleft()).kind in kinds:
                    return frame
                if frame.kind == "blocked":
                    self.send("answer", value=False)
            assert self._read(), f"the program ended before it answered {' or '.join(kinds)}"

    def greet(self, version: int = VERSION, **more: object) -> Frame:
        """Send ``hello`` and return the answer."""
        self.send("hello", protocol=version, instance=self._instance, implementation="", level="debug", **more)
        return self.receive("ready", "raised")

    def call(self, method: str, *arguments: Any, **more: object) -> Frame:
        """Call a method of the provider in the program, and return the last frame of the call.

        The members of the frame are those that a run sends. ``more``: further ones, which the program must ignore.
        """
        names = [change["name"] for change in arguments[0]["changes"]] if method == "set" else []
        subjects = [{"name": name, "title": str(name), "action": "update"} for name in names]
        terms = {"subjects": subjects, "noop": False, "reading": method != "set", "seconds": 60}
        common = {"terms": terms, "bound": {}, "fresh": False, "config": None}
        self._calls += 1
        self.send("call", id=self._calls, method=method, arguments=list(arguments), **common, **more)
        answer = self.receive("done", "raised")
        assert answer.body.get("id") == self._calls, f"'{answer.kind}' must repeat the id of its call, {self._calls}"
        return answer

    def end(self, *, hang_up: bool = False) -> int:
        """Wait until the program ends; return its exit code.

        ``hang_up``: close its standard input before, as the end of a run does.
        """
        if hang_up:
            self._hang_up()
        self._until = time.monotonic() + PATIENCE
        while self._read():
            pass
        assert self._process.exit_code is not None
        return self._process.exit_code

    def _hang_up(self) -> None:
        """Close the program's standard input, by which it learns that the run has ended; once only."""
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1

    def _seconds_left(self) -> float:
        """Return the seconds left for the present answer; fail when they have passed: a law must not wait forever."""
        seconds = self._until - time.monotonic()
        assert seconds > 0, f"the program did not answer, or end, within {PATIENCE:g} s"
        return seconds

    def _read(self) -> bool:
        """Read output of the program into ``_frames``; return False at its end.

        The length of the longest line is measured, for the law about the limit.
        """
        stream, data = next(self._chunks, (0, b""))
        if stream == STDOUT:
            for piece in data.splitlines(keepends=True):
                self._line += len(piece)
                self.longest_line = max(self.longest_line, self._line)
                self._line = 0 if piece.endswith(b"\n") else self._line
            self._frames += self._decoder.feed(data)
        return bool(data)


class ProtocolConformance:
    """The laws of programs. A subclass names the type and gives an example by the fixture ``present``.

    ``module_path``: directories that hold ``types/`` and ``providers/``. A provider in Python is served by an
    interpreter.
    """

    type_name: ClassVar[str]
    module_path: ClassVar[Sequence[str | os.PathLike[str]]] = ()

    @pytest.fixture
    def conversation(self) -> Iterator[Conversation]:
        """Yield a conversation with the program, which has just started."""
        executable = Registry.from_path(*self.module_path).executable(self.type_name, "", "")
        python = [sys.executable, "-m", "resource_api.plugins.worker.server", *map(str, self.module_path)]
        with Conversation([executable] if executable else python, self.type_name) as conversation:
            yield conversation

    def test_it_greets_with_the_version_of_the_protocol(self, conversation: Conversation) -> None:
        """The program answers ``hello`` by ``ready`` and ignores unknown members, which a later version may send."""
        answer = conversation.greet(unheard_of={"a": [1]})
        assert answer.kind == "ready", f"no type could be used: {answer.body.get('text')}"
        assert answer.body.get("protocol") == VERSION, f"it speaks version {answer.body.get('protocol')}, not {VERSION}"

    def test_it_answers_an_unknown_version(self, conversation: Conversation) -> None:
        """The answer is ``ready`` with its own version, or ``raised`` with the reason, and comes in time."""
        answer = conversation.greet(_FIRST_UNKNOWN_VERSION)
        assert answer.kind == "raised" or answer.body.get("protocol") == VERSION

    def test_it_reads_what_it_has_set(self, conversation: Conversation, present: Resource) -> None:
        """A resource that ``set`` creates is in ``get``, one that it deletes is not, and a blocked one is not made."""
        conversation.greet()
        name = present[self._definition.namevars[0]]
        changes = [{"name": name, "is": None, "should": {"ensure": "present", **present}}]
        try:
            assert conversation.call("set", {"changes": changes, "blocked": [name]}).kind == "done"
            assert self._get(conversation, name) is None, f"{name} was to be left out: it is in 'blocked'"
            assert conversation.call("set", {"changes": changes, "blocked": []}).kind == "done"
            row = self._get(conversation, name)
            assert row is not None, f"{name} was set, and get does not return it"
            expected = {key: value for key, value in present.items() if key not in self._definition.write_only}
            assert {key: reveal(row.get(key)) for key in expected} == expected
        finally:
            gone = [{"name": name, "is": dict(present), "should": {**present, "ensure": "absent"}}]
            conversation.call("set", {"changes": gone, "blocked": []})
        assert self._get(conversation, name) is None, f"{name} was deleted, and get still returns it"

    def test_it_reads_frames_in_parts_and_writes_bounded_lines(self, conversation: Conversation) -> None:
        """The program joins a frame that comes in parts, and writes no line above the limit, which would be refused."""
        conversation.greet()
        answer = conversation.call("get", *self._names(None), unheard_of="x" * (MAX_LINE + 10))
        assert answer.kind == "done", f"a long frame was not understood: {answer.body.get('text')}"
        assert conversation.longest_line <= MAX_LINE, f"a line of {conversation.longest_line} bytes; send it in parts"

    def test_a_failed_call_is_not_the_end(self, conversation: Conversation) -> None:
        """The program answers a call of an unknown method by ``raised``, and the next call works.

        One failed call must not end the other changes of a run.
        """
        conversation.greet()
        answer = conversation.call("no_such_method")
        assert answer.kind == "raised", "a call that cannot be made must be answered by 'raised'"
        assert answer.body.get("text"), "'raised' has no text: a user would not learn why"
        assert conversation.call("get", *self._names(None)).kind == "done"

    def test_a_late_cancel_is_ignored(self, conversation: Conversation) -> None:
        """A ``cancel`` that arrives after the end of its call has no effect on the next one.

        The two can cross: the run sends it before it has received the answer.
        """
        conversation.greet()
        conversation.send("cancel")
        assert conversation.call("get", *self._names(None)).kind == "done"

    def test_it_closes(self, conversation: Conversation) -> None:
        """The program answers ``close`` by ``closed``, and then ends with the exit code 0."""
        conversation.greet()
        conversation.send("close", interrupted=False)
        conversation.receive("closed")
        assert conversation.end() == 0

    def test_it_ends_with_its_input(self, conversation: Conversation) -> None:
        """After the end of a run no program of it remains."""
        conversation.greet()
        conversation.end(hang_up=True)

    @property
    def _definition(self) -> Any:
        return Registry.from_path(*self.module_path).type(self.type_name)

    def _names(self, names: list[object] | None) -> list[object]:
        """Return the arguments of ``get``: ``names``, None for all, if the type has ``simple_get_filter``."""
        return [names] if "simple_get_filter" in self._definition.features else []

    def _get(self, conversation: Conversation, name: object) -> Mapping[str, object] | None:
        """Return the row by which the program reports a resource, or None if it does not exist."""
        answer = conversation.call("get", *self._names([name]))
        assert answer.kind == "done", f"get fails: {answer.body.get('text')}"
        rows = [row for row in answer.body["value"] if row[self._definition.namevars[0]] == name]
        return next((row for row in rows if row.get("ensure") != "absent"), None)
