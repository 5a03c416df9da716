"""What code of others answers: frames of a hostile worker, and strange values of a provider's methods."""

from __future__ import annotations

import fcntl
import json
import os
import select
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from resource_api.model.values.errors import ProviderError
from resource_api.model.values.values import Sensitive
from resource_api.plugins.worker.process import WorkerLost, WorkerProcess
from resource_api.plugins.worker.protocol import _DECODERS, Decoder, encode
from resource_api.plugins.worker.proxy import WorkerCall, result
from resource_api.provider.context import Context, RunContext
from resource_api.system.log import ForwardedLog, LineSplitter, Log, line
from tests.fuzz import things
from tests.fuzz.target import target

if TYPE_CHECKING:
    from collections.abc import Mapping

_PIPE: Final = 1 << 20


class _Hostile(WorkerProcess):
    """The runtime's end of a worker of which all frames have arrived already and which has ended."""

    def __init__(self, frames: bytes) -> None:
        # Not that of the base class, which starts a process.
        mine, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, _PIPE)
        with suppress(BlockingIOError):
            os.write(theirs, frames)
        os.close(theirs)
        sink = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        self._requests, self._answers, self._streams = sink, mine, {}
        self._out = self._err = self._watch = -1
        self._log = lambda _stream, _line: None
        mask = Log("off").mask
        self._lines = {1: LineSplitter(mask), 2: LineSplitter(mask)}
        self._frames: deque[Any] = deque()
        self._decoder = Decoder()
        self._calls = 0
        self._programs = {}
        self._closed = False
        self.stopped = False
        self.exit_code = 0
        self._poller = select.poll()
        self._poller.register(mine, select.POLLIN)

    def has_ended(self) -> bool:
        return True

    def _read(self, _seconds: float) -> bool:
        return super()._read(0)

    def kill(self) -> None:
        self._closed = True

    def lost(self) -> WorkerLost:
        return WorkerLost("ended with exit code 0")

    def close(self) -> None:
        os.close(self._requests)
        os.close(self._answers)


TAGS: Final = [*sorted(_DECODERS), "asset", "archive"]
ODD: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.text(max_size=5),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=4) | st.sampled_from(sorted(things.TYPE.attributes)), inner, max_size=4),
        st.builds(lambda tag, value: {"$resource_api": tag, "value": value}, st.sampled_from(TAGS), inner),
        st.builds(lambda value: {"$resource_api": "mapping", "value": [[value, 1], ["name", value]]}, inner),
    ),
    max_leaves=10,
)
KINDS: Final = [
    "done",
    "raised",
    "log",
    "status",
    "attribute",
    "conceal",
    "program",
    "blocked",
    "begun",
    "open",
    "member",
    "read",
    "ready",
    "answer",
    "nope",
]
FIELDS: Final = [
    "level",
    "subject",
    "fields",
    "text",
    "name",
    "status",
    "reason",
    "attribute",
    "is",
    "should",
    "message",
    "change",
    "logged",
    "value",
    "pid",
    "running",
    "names",
    "word",
    "sha256",
    "limits",
    "reader",
    "base",
    "more",
]
FRAMES: Final = st.lists(
    st.builds(
        lambda kind, number, body: _frame(json.dumps({"kind": kind, "id": number, **body}).encode()),
        st.sampled_from(KINDS) | ODD,
        st.just(1) | ODD,
        st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=5),
    ),
    max_size=5,
)


def _frame(text: bytes) -> bytes:
    return b"RApi " + text + b"\n"


@target(
    generate=FRAMES.map(b"".join),
    words=" ".join(f'"{word}"' for word in [*KINDS, *FIELDS, *TAGS]) + ' "$resource_api" RApi RApi+ [ ] { } NaN',
)
def worker_frames(data: bytes) -> None:
    """Frames of a hostile worker, in the middle of a call: decoded, logged, recorded, answered.

    Bytes that begin no frame are put into one, so that mutations reach what is behind the header.
    """
    worker = _Hostile(data if data.startswith(b"RApi") else _frame(data))
    run = RunContext(ForwardedLog("debug", line))
    run.log.mask.add(Sensitive("swordfish-42"))
    context = Context(things.TYPE, run, reading=True)
    try:
        frame = WorkerCall(run, context, "get", None).run(worker, ((),), fresh=False)
    except WorkerLost:
        return
    finally:
        worker.close()
    with suppress(KeyboardInterrupt):
        try:
            result(frame)
        except BaseException as error:  # noqa: BLE001 - a worker may say that anything was raised
            str(error), repr(error)


ROWS: Final = st.one_of(
    ODD,
    st.lists(
        st.one_of(
            ODD,
            st.builds(
                lambda name, more: {"name": name, "ensure": "present", **more},
                st.sampled_from(["a", "b", "c", "A", ""]) | ODD,
                st.dictionaries(st.sampled_from(sorted(things.TYPE.attributes)), ODD, max_size=3),
            ),
        ),
        max_size=4,
    ),
)
SITE: Final[Mapping[str, Any]] = {
    "project": "site",
    "resources": {
        "Thing[a]": {"size": 1, "parts": ["y", "x"]},
        "Thing[b]": {"ensure": "absent"},
        "Thing[c]": {"mode": "0644", "token": "swordfish-42", "tree": {"k": [1]}, "origin": "here"},
    },
}


@target(
    generate=st.dictionaries(st.sampled_from(["get", "canonicalize"]), ROWS, min_size=1).map(
        lambda value: json.dumps(value).encode()
    ),
    words=" ".join(f'"{word}"' for word in [*TAGS, *things.TYPE.attributes, "get", "canonicalize", "present", "value"]),
)
def provider_answers(data: bytes) -> None:
    """Strange answers of `get` and `canonicalize`: planned, applied, listed, at each level of `--strict`."""
    try:
        ((_, body),) = Decoder().feed(_frame(b'{"kind":"x","value":' + data.replace(b"\n", b" ") + b"}"))
    except (ValueError, LookupError, TypeError, RecursionError, AttributeError):
        return
    if not isinstance(answers := body.get("value"), dict):
        return
    for strict in ("error", "warning", "off"):
        things.reset({"a": {"name": "a", "ensure": "present", "size": 3}}, **{str(k): v for k, v in answers.items()})
        runtime = things.runtime()
        with suppress(ProviderError):
            runtime.plan(SITE, strict=strict).to_dict()
        report = runtime.apply(SITE, strict=strict)
        assert report.exit_code in {0, 1}
        str(report), json.dumps(report.to_dict())
        with suppress(ProviderError):
            runtime.resources("thing", names=["a"])


@target(
    generate=st.builds(
        lambda kind, body: encode(kind, {"value": body}), st.text(max_size=3), st.text() | st.lists(st.text())
    )
)
def frame_codec(data: bytes) -> None:
    """Frames cut into pieces of any size: decoded alike."""
    size, frames = 1 + (data[0] if data else 0), data[1:]
    entries = []
    for pieces in ([frames], [frames[at : at + size] for at in range(0, len(frames), size)]):
        decoder, observed = Decoder(), []
        with suppress(ValueError, LookupError, TypeError, RecursionError, AttributeError):
            for piece in pieces:
                observed += decoder.feed(piece)
        entries.append(repr(observed))
    assert entries[0] == entries[1], "frames in pieces are other frames"
