"""What is fuzzed, and the law for each input: accepted, or refused by an error of ours that says where and why.

A target is a function of bytes. It returns for an input that is accepted, raises a ``ResourceAPIError`` for one that is
refused, and ``AssertionError`` where a law of its own is broken. Any other exception is a bug: the command would end
with exit code 70 and a traceback.
"""

from __future__ import annotations

import re
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.model.values.errors import ManifestError, ResourceAPIError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis.strategies import SearchStrategy

ROOT: Final = Path(__file__).resolve().parent.parent.parent
CORPUS: Final = Path(__file__).resolve().parent / "corpus"
#: Seconds of processor time for an input of less than a megabyte.
SLOW: Final = 1.0
#: Largest input in bytes to which that bound applies.
LARGEST: Final = 1_000_000


class Target(NamedTuple):
    """A reader of bytes: its name, what it reads, its check, and how its inputs are made."""

    name: str
    reads: str
    check: Callable[[bytes], object]
    #: Structured inputs; None: inputs are only mutated.
    generate: SearchStrategy[bytes] | None
    #: Words that mutations insert.
    words: tuple[bytes, ...]
    #: Whether inputs are grown to nearly a megabyte by repeating a part of them.
    grows: bool
    #: How often the check reads its input: the bound on time is for one reading.
    readings: int

    def corpus(self) -> Iterator[Path]:
        """Yield the files of the target's corpus in their order."""
        yield from sorted(path for path in (CORPUS / self.name).glob("*") if path.is_file())


class Finding(NamedTuple):
    """A broken law: ``key`` is equal for inputs that show the same defect."""

    key: str
    text: str


TARGETS: Final[dict[str, Target]] = {}


def target(
    *, generate: SearchStrategy[bytes] | None = None, words: str = "", grows: bool = True, readings: int = 1
) -> Callable[[Callable[[bytes], object]], Callable[[bytes], object]]:
    """Return a decorator that makes a target of a function; the first line of its docstring says what it reads."""

    def decorate(check: Callable[[bytes], object]) -> Callable[[bytes], object]:
        reads = (check.__doc__ or "").split("\n")[0].rstrip(".")
        name = check.__name__
        TARGETS[name] = Target(name, reads, check, generate, tuple(words.encode().split()), grows, readings)
        return check

    return decorate


def judge(tested: Target, data: bytes, slow: float = SLOW) -> Finding | None:
    """Return which law an input breaks; None for none. ``slow``: seconds of processor time of one reading."""
    result, seconds = _attempt(tested, data)
    if result is None and seconds > slow * tested.readings and len(data) < LARGEST:
        # A busy machine slows a process down: what counts is the faster of two attempts.
        seconds = min(seconds, _attempt(tested, data)[1])
        if seconds > slow * tested.readings:
            return Finding("slow", f"{seconds:.1f} s for {len(data)} bytes")
    return result


def _attempt(tested: Target, data: bytes) -> tuple[Finding | None, float]:
    """Return what an input breaks, without regard to time, and the seconds of processor time that it took."""
    start, result = time.process_time(), None
    try:
        tested.check(data)
    except ResourceAPIError as error:
        result = _flaw(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever else arrives is a finding
        result = _finding(error)
    return result, time.process_time() - start


def _finding(error: BaseException) -> Finding:
    """Return an exception as a finding; its key is its class and the innermost frame of the project."""
    frames = [item for item in traceback.extract_tb(error.__traceback__) if str(ROOT) in item.filename]
    path = frames[-1] if frames else None
    text = f"{Path(path.filename).relative_to(ROOT)}:{path.name}" if path else "?"
    subject = re.sub(r"\d+|'.*'", "", str(error).split("\n")[0])[:60] if isinstance(error, AssertionError) else ""
    return Finding(f"{type(error).__name__} {text} {subject}".strip(), "".join(traceback.format_exception(error)))


def _flaw(error: ResourceAPIError) -> Finding | None:
    """Return the mistakes of the text of a refusal: none is empty, and the problems of a file name it."""
    lines: list[Any] = (
        [str(problem) for problem in error.problems] if isinstance(error, ManifestError) else [str(error)]
    )
    for line in lines:
        if not line.strip():
            return Finding(f"an empty message {type(error).__name__}", repr(error))
    if isinstance(error, ManifestError) and any(not (item.file or item.reference) for item in error.problems):
        return Finding("a problem without a place", str(error)[:300])
    return None
