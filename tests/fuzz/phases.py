"""The three ways in which inputs are made, each for one target, in a process of its own and for a limited time.

- ``mutate``: atheris (libFuzzer) mutates the corpus, guided by which branches of the code are reached;
- ``generate``: hypothesis makes structured inputs from the target's strategy;
- ``grow``: a part of an input of the corpus is repeated until the whole has nearly a megabyte.

Inputs that seem to break a law are written to a directory; whether they do is decided elsewhere, without the
instrumentation that makes everything slower here.
"""

from __future__ import annotations

import hashlib
import importlib
import mmap
import random
import struct
import sys
import time
import types
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.fuzz.target import LARGEST, TARGETS, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.target import Target

_STARTED: Final = time.monotonic()
#: Seconds of processor time from which an instrumented run is examined again.
_SLOW_INSTRUMENTED: Final = 3.0
#: The number of inputs, and the length of the last one, which follows.
_HEAD: Final = struct.Struct("=QQ")
_EXAMPLES: Final = 300
_LONGEST_MUTATION: Final = 3000
#: Seconds after which libFuzzer ends an input that hangs.
HANG: Final = 30


class Notes:
    """What a phase leaves behind, also if it is killed: how many inputs so far, suspicious ones, the last one."""

    def __init__(self, directory: Path) -> None:
        """Write into ``directory``."""
        self.directory = directory
        with (directory / "notes").open("w+b") as file:
            file.truncate(_HEAD.size + LARGEST)
            self._notes = mmap.mmap(file.fileno(), 0)
        self._count = 0
        self._keys: set[str] = set()

    def attempt(self, target: Target, data: bytes, slow: float) -> None:
        """Judge an input, and keep it if it is the first that breaks a law in this way."""
        self._notes[_HEAD.size : _HEAD.size + len(data)] = data
        _HEAD.pack_into(self._notes, 0, self._count, len(data))
        result = judge(target, data, slow)
        self._count += 1
        _HEAD.pack_into(self._notes, 0, self._count, len(data))
        if result is not None and result.key not in self._keys:
            self._keys.add(result.key)
            (self.directory / f"input-{hashlib.sha256(data).hexdigest()[:16]}").write_bytes(data)


def read_notes(directory: Path) -> tuple[int, bytes]:
    """Return the number of inputs, and the last one."""
    if not (directory / "notes").exists():
        return 0, b""
    with (directory / "notes").open("rb") as file:
        count, size = _HEAD.unpack(file.read(_HEAD.size))
        return count, file.read(size)


def mutate(name: str, seconds: int, notes: Notes) -> None:
    """Mutate the corpus of a target; does not return."""
    import atheris

    with atheris.instrument_imports(include=["resource_api"]):
        importlib.import_module("tests.fuzz.targets")
    target = TARGETS[name]
    judge(target, b"", 60)
    _instrument_loaded(atheris)
    seeds, words = notes.directory / "seeds", notes.directory / "words"
    seeds.mkdir()
    for number, path in enumerate(target.corpus()):
        (seeds / str(number)).write_bytes(path.read_bytes())
    texts = (word.decode("unicode_escape", "replace").encode("latin-1", "replace") for word in target.words)
    words.write_text("".join('"' + "".join(map("\\x{:02x}".format, text)) + '"\n' for text in texts if text))
    options = {
        # The instrumentation takes some of the time.
        "max_total_time": max(1, seconds - round(time.monotonic() - _STARTED)),
        "timeout": HANG,
        "rss_limit_mb": 2048,
        "max_len": _LONGEST_MUTATION,
        "artifact_prefix": f"{notes.directory}/input-",
        **({"dict": words} if target.words else {}),
    }
    arguments = [sys.argv[0], *(f"-{option}={value}" for option, value in options.items()), str(seeds)]
    atheris.Setup(arguments, lambda data: notes.attempt(target, data, _SLOW_INSTRUMENTED))
    atheris.Fuzz()


def _instrument_loaded(atheris: Any) -> None:
    """Instrument the functions of bundled providers, which are loaded by path."""
    for module in list(sys.modules.values()):
        if module.__name__.startswith("resource_api.providers"):
            for row in [var for var in vars(module).values() if isinstance(var, type | types.FunctionType)]:
                functions = vars(row).values() if isinstance(row, type) else [row]
                for function in functions:
                    if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
                        atheris.instrument_func(function)


def generate(name: str, seconds: int, notes: Notes) -> None:
    """Try structured inputs of a target."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    importlib.import_module("tests.fuzz.targets")
    target, end = TARGETS[name], time.monotonic() + seconds
    quiet = settings(
        max_examples=_EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )

    def attempt(data: bytes) -> None:
        if time.monotonic() < end:
            notes.attempt(target, data, 1.0)

    assert target.generate is not None
    while time.monotonic() < end:
        seed(random.getrandbits(32))(quiet(given(target.generate)(attempt)))()


def grow(name: str, seconds: int, notes: Notes) -> None:
    """Try inputs of the corpus in which a part is repeated."""
    importlib.import_module("tests.fuzz.targets")
    target, end = TARGETS[name], time.monotonic() + seconds
    seeds = [path.read_bytes() for path in target.corpus()] + list(target.words)
    while time.monotonic() < end:
        data = random.choice(seeds) or b"a"
        start = random.randrange(len(data))
        part = data[start : start + random.choice((1, 2, 4, 8, 16, 64, 1024))]
        times = random.choice((100, 10_000, LARGEST)) // len(part)
        grown = data[:start] + part * times + data[start:]
        notes.attempt(target, grown[: LARGEST - 1 if random.random() < 0.5 else LARGEST // 4], 1.0)


PHASES: Final[dict[str, Callable[[str, int, Notes], None]]] = {"mutate": mutate, "generate": generate, "grow": grow}


def main(phase: str, name: str, seconds: str, directory: str) -> None:
    """Run one phase in this process."""
    warnings.simplefilter("ignore")
    PHASES[phase](name, int(seconds), Notes(Path(directory)))


if __name__ == "__main__":
    main(*sys.argv[1:])
