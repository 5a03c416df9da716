"""``python -m tests.batches [PATH ...] [-- PYTEST OPTION ...]``: run test files in batches, each in its own process.

A process that has collected all tests has 220 MB, and each program that it starts costs several times what it costs a
process that has collected a few files: page tables are copied, and then pages. So each batch is a pytest of its own,
forked from this process, which has imported what all of them need. Twice as many as there are processors run side by
side, because many tests wait for programs. What a batch printed is shown if it has failed. The exit code is 0, or the
largest one of pytest.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from itertools import compress, groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

import pytest
from hypothesis import given, settings, strategies

from tests import command, namespaces, sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: The files that take longest: each is a batch, and they begin first, so that none is alone at the end.
LONG: Final = [
    *(path for path, turns in sampling.TURNS.items() if turns > 3 and path.endswith(".py")),
    "tests/terraform/test_terraform_providers.py",
    "tests/test_work_counts.py",
    "tests/test_batches.py",
    # With every point of their sweeps they take longest of all.
    *sorted(map(str, Path("tests/faults").glob("test_*.py"))),
]
#: A file whose whole sweeps are divided over batches by the values of its fixture ``bench``, and their number.
DIVIDED: Final = ("tests/faults/test_bundled_types.py", 8)
#: How many other files of one directory are a batch at most.
_SIZE: Final = 8
_OPTIONS: Final = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
#: What the last line of pytest counts.
_COUNTED: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")


class Hooks:
    """What pytest does in a batch beside what it does otherwise."""

    def __init__(self, seed: int | None, costs: str | None = None, *, quick: bool = False) -> None:
        """Run the sample ``seed`` of the tests, or all of them; write the processor time of each to a file."""
        self._seed = seed
        self._quick = quick
        self._costs = costs

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Write the processor time of a test, with its fixtures and its child processes."""
        before = _processor_seconds()
        result = yield
        if self._costs:
            with Path(self._costs).open("a", encoding="utf-8") as file:
                file.write(f"{_processor_seconds() - before:.3f} {item.nodeid}\n")
        return result

    @staticmethod
    def pytest_addoption(parser: pytest.Parser) -> None:
        """Let a batch be a part of a file: 0/8 is the first of eight."""
        parser.addoption("--part", metavar="N/PARTS")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what is not in the sample, or in the part."""
        if config.option.part:
            number, count = map(int, config.option.part.split("/"))
            items[:], left_out = divide(items, number, count)
            config.hook.pytest_deselected(items=left_out)
        if self._seed is not None:
            items[:], left_out = sampling.sample(items, self._seed, quick=self._quick)
            config.hook.pytest_deselected(items=left_out)

    def pytest_collection_finish(self) -> None:
        """Keep what was collected out of each collection of garbage, and unchanged in processes that are forked."""
        gc.collect()
        gc.freeze()


def _processor_seconds() -> float:
    """Return the processor time of this process, of its children that ended, and of its runs of the command."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + sum(command.used)


class Batch(NamedTuple):
    """A pytest that runs some files, where it prints, and its temporary directory."""

    name: str
    output: IO[bytes]
    directory: str


def files(paths: Iterable[str]) -> list[str]:
    """Return the test files at or below paths, relative to the project, sorted."""
    names = {name for path in paths for name in ([path] if path.endswith(".py") else Path(path).rglob("test_*.py"))}
    return sorted(map(str, names))


def divide(items: Sequence[pytest.Item], number: int, count: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return part ``number`` of ``count`` of the tests, and the others: those of one ``bench`` stay together."""
    benches = [call.params.get("bench") if (call := getattr(item, "callspec", None)) else None for item in items]
    turns = {bench: turn % count for turn, bench in enumerate(dict.fromkeys(benches))}
    chosen = [turns[bench] == number for bench in benches]
    return list(compress(items, chosen)), [item for item, is_chosen in zip(items, chosen, strict=True) if not is_chosen]


def batches(names: Sequence[str], *, sampled: bool = True) -> list[list[str]]:
    """Return the files that run together, the longest first; all cases of ``DIVIDED`` are several batches."""
    groups = [[name] for name in reversed(LONG) if name in names]
    if not sampled and [DIVIDED[0]] in groups:
        index = groups.index([DIVIDED[0]])
        groups[index : index + 1] = ([DIVIDED[0], f"--part={part}/{DIVIDED[1]}"] for part in range(DIVIDED[1]))
    for _, directory in groupby((name for name in names if name not in LONG), os.path.dirname):
        members = list(directory)
        groups += (members[index : index + _SIZE] for index in range(0, len(members), _SIZE))
    return groups


@contextmanager
def workspace() -> Iterator[str]:
    """Create the directory for what tests write: in memory where this user may mount, gone whatever happens.

    Most of the time of a test that makes durable writes is the disk's otherwise.
    """
    with tempfile.TemporaryDirectory(prefix="ra-tests-") as directory:
        if not namespaces.may_mount():
            yield directory
            return
        with namespaces.private_mounts():
            namespaces.mount_memory(directory)
            yield directory


def start(names: Sequence[str], options: Sequence[str], hooks: Hooks, directory: str) -> tuple[int, Batch]:
    """Start pytest with some files, which write below a directory; return its process id and the batch."""
    output, directory = tempfile.TemporaryFile(), tempfile.mkdtemp(dir=directory)  # noqa: SIM115 - until it ends
    pid = os.fork()
    if pid == 0:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((nothing, output.fileno(), output.fileno())):
            os.dup2(descriptor, number)
        code = pytest.main([*_OPTIONS, f"--basetemp={directory}/t", *options, *names], plugins=[hooks])
        sys.stdout.flush()
        os._exit(code)
    return pid, Batch(" ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more", output, directory)


def end(batch: Batch) -> str:
    """Return what a batch that has ended printed, and remove its files."""
    shutil.rmtree(batch.directory, ignore_errors=True)
    with batch.output as output:
        output.seek(0)
        return output.read().decode(errors="replace").strip()


def run(
    waiting: list[list[str]], begin: Callable[[list[str]], tuple[int, Batch]], jobs: int
) -> tuple[Counter[str], int]:
    """Run batches, ``jobs`` side by side; return what pytest has counted in all of them, and its largest exit code."""
    counts: Counter[str] = Counter()
    running: dict[int, Batch] = {}
    largest = 0
    while waiting or running:
        while waiting and len(running) < jobs:
            running.update([begin(waiting.pop(0))])
        pid, status, consumed = os.wait3(0)
        if (batch := running.pop(pid, None)) is None:
            continue
        text, code = end(batch), abs(os.waitstatus_to_exitcode(status))
        closing = text.rpartition("\n")[2]
        counts.update({kind: int(number) for number, kind in _COUNTED.findall(closing)})
        failed = code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
        seconds = f"{consumed.ru_utime + consumed.ru_stime:.0f} s of processor time"
        print(f"{text}\n{batch.name}: failed" if failed else f"{batch.name}: {closing}, {seconds}", flush=True)  # noqa: T201
        largest = max(largest, code if failed else 0)
    return counts, largest


def read_constants() -> None:
    """Have hypothesis store the constants of all modules and its tables of characters, or each batch computes them."""
    if (pid := os.fork()) == 0:  # its plugin of pytest refuses a process that has drawn before
        settings(max_examples=1, database=None)(given(strategies.text())(lambda _: None))()
        os._exit(0)
    os.waitpid(pid, 0)


def main() -> int:
    """Run the tests that are named, all of them by default; return the exit code."""
    index = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(prog="python -m tests.batches")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="how many batches side by side")
    parser.add_argument("--sampled", action="store_true", help="run a sample of the laws")
    parser.add_argument("--quick", action="store_true", help="run a sample, of laws without processes one case too")
    parser.add_argument("--costs", metavar="FILE", help="append the processor time of each test to a file")
    parser.add_argument("--ignore", action="append", default=[], metavar="FILE", help="a file to leave out")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and directories; else tests and examples")
    arguments = parser.parse_args(sys.argv[1:index])
    command.stop_ignoring_signals()
    os.chdir(command.ROOT)
    began = time.monotonic()
    ignored = {*arguments.ignore, *([] if arguments.paths else files(["tests/peers"]))}
    names = [name for name in files(arguments.paths or ("tests", "examples")) if name not in ignored]
    seed = sampling.seed() if arguments.sampled or arguments.quick else None
    hooks = Hooks(seed, arguments.costs, quick=arguments.quick)
    if seed is not None:
        print(f"The sample is that of SAMPLE={seed}.", flush=True)  # noqa: T201 - a command
    with workspace() as directory:
        command.share()
        if len(names) > _SIZE:  # less than each batch would take for its own imports
            command.preload()
            read_constants()
        begin = partial(start, options=sys.argv[index + 1 :], hooks=hooks, directory=directory)
        counts, code = run(batches(names, sampled=seed is not None), begin, arguments.jobs)
    failed = sum(counts[kind] for kind in ("failed", "error", "errors"))
    print(f"{len(names)} files in {time.monotonic() - began:.0f} seconds")  # noqa: T201 - a command
    print(f"{counts['passed']} passed, {failed} failed, {counts['skipped']} skipped")  # noqa: T201 - a command
    return code


if __name__ == "__main__":
    sys.exit(main())
