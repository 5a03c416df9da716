"""One case of a sweep: a machine in a directory, its result without a fault, and a run with a fault at each point.

The run that fails is the command in a process of its own, under the tracer; what comes after it is done with the
package's own runtime. The machine is a directory; with ``Case.system`` its parts are mounted over those of the system.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import resource_api
from resource_api import Registry, Runtime
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.system.log import ForwardedLog
from tests.faults import system, tracer
from tests.faults.tracer import KILL, Outcome, Point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.record import Record, StackState
    from resource_api.model.report import LogEvent, RunReport

MODULES: Final = Path(__file__).parent / "modules"

#: Set to anything, every point is swept instead of a sample.
WHOLE: Final = bool(os.environ.get("FAULTS_ALL_POINTS"))
#: The choice of a sample, so that a failure comes again.
SEED: Final = 20


class Case(NamedTuple):
    """A command, its manifest, and the machine before it."""

    #: ``apply`` or ``destroy``.
    command: str
    resources: Mapping[str, Any]
    #: What is applied before, in this order.
    before: Sequence[Mapping[str, Any]] = ()
    #: What was in the world before anything of ours: path → text.
    foreign: Mapping[str, str] = {}
    #: Files of the world that grow with each run and are compared by who looks at them.
    counted: Sequence[str] = ()
    #: Further options of the command.
    options: Sequence[str] = ()
    #: How many calls of providers run beside each other.
    parallel: int = 1
    #: Whether the world is mounted over the directories of the system.
    system: bool = False
    #: Names in the world, as a regular expression, that programs of the system leave and that mean nothing to them.
    aside: str = "(?!)"
    #: Return what is compared of a file, from its name in the world and its content: equal for the same meaning.
    meaning: Callable[[str, bytes], bytes] = lambda _name, content: content
    #: A program whose output is compared as well, for what files do not show.
    observation: Sequence[str] = ()
    #: A program that restores what files do not hold, as it was before the run.
    restoration: Sequence[str] = ()
    #: A program that the machine runs when it starts again.
    start: Sequence[str] = ()
    #: What else a run may change: paths, or ``socket:`` for what it sends to others.
    watched: Sequence[str] = ()
    #: Whether everything that a run has made is destroyed after each fault.
    destroyed: bool = True
    #: Attributes that are read and have another value after each run, such as a random number.
    random: Sequence[str] = ()


class Seen(NamedTuple):
    """The observed machine: its files, its records, and the names in the state directory."""

    tree: Mapping[str, Any]
    state: StackState
    kept: frozenset[str]
    random: Sequence[str] = ()

    @property
    def doubts(self) -> set[str]:
        """The references with an open intent after a kill."""
        return {f"{intent.type.capitalize()}[{intent.title}]" for intent in self.state.intents.values()}

    @property
    def records(self) -> dict[Any, Record]:
        """The records by key, without the times of runs and what is random."""
        return {key: self._comparable(record) for key, record in self.state.records.items()}

    def _comparable(self, record: Record) -> Record:
        is_ = {name: value for name, value in (record.is_ or {}).items() if name not in self.random}
        return record._replace(last_run="", is_=None if record.is_ is None else is_)


class Bench:
    """One case, its machine in one directory, and its result without a failure."""

    def __init__(self, home: Path, case: Case, furnished: Path | None = None) -> None:
        """Build the machine as it is before the run, and run once without a failure.

        ``furnished``: what ``system.furnish`` has made, to be copied instead of being made again.
        """
        self.home = home
        self.case = case
        #: What the points of a sweep are counted for.
        self.name = ""
        #: Where a filesystem may be mounted that loses its power.
        self.disk = home / "disk"
        self.place = self.disk / "place"
        self.world = self.place / "world"
        self.state = self.place / "state" / "state.db"
        self.manifest = home / "site.json"
        self.environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(Path(resource_api.__file__).parent.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self.place / "tmp"),
            "RESOURCE_API_STATE": f"sqlite:{self.state}",
            "RESOURCE_API_MODULE_PATH": str(MODULES),
        }
        self._build(furnished)
        self.points = self._enumerate()
        self.whole = self.observe()
        self.gone = None
        if case.command == "apply" and case.destroyed:
            self.run_in_process("destroy")
            self.gone = self.observe().tree

    def _build(self, furnished: Path | None) -> None:
        self.world.mkdir(parents=True)
        (self.place / "tmp").mkdir()
        for name, text in self.case.foreign.items():
            (self.world / name).parent.mkdir(parents=True, exist_ok=True)
            (self.world / name).write_text(text, encoding="utf-8")
        if self.case.system and furnished:
            subprocess.run(["cp", "-aT", furnished, self.world], check=True)
            system.cover(self.world)
        elif self.case.system:
            system.furnish(self.world)
        for resources in self.case.before:
            self.write(resources)
            report, events = self.run_in_process("apply")
            assert report.exit_code == 0, [str(line) for line in events]
        self.write(self.case.resources)
        self.before = self.observe()
        subprocess.run(["cp", "-a", self.place, self.home / "base"], check=True)

    def write(self, resources: Mapping[str, Any]) -> None:
        """Write the manifest; ``@`` at the start of a title or of a reference in it is the world's directory."""
        text = json.dumps({"project": "crash", "resources": resources})
        text = re.sub(r'(?<=["[])@', str(self.world), text)
        self.manifest.write_text(text, encoding="utf-8")

    def reset(self) -> None:
        """Restore the machine as it was before the run."""
        if self.case.system:
            system.uncover()
        if self.place.exists():
            shutil.rmtree(self.place)
        subprocess.run(["cp", "-a", self.home / "base", self.place], check=True)
        if self.case.system:
            system.cover(self.world)
        if self.case.restoration:
            system.run(*self.case.restoration)

    def again(self, point: Point | None = None, fault: str | Callable[[], None] = KILL) -> Outcome:
        """Run the case's command on the machine as it is, with a fault at a point."""
        words = [self.case.command, str(self.manifest), *self.case.options]
        if self.case.parallel > 1:
            words += ["--parallel", str(self.case.parallel)]
        if self.case.command == "destroy":
            words.append("--yes")
        watched = [str(self.place), *(system.WATCHED if self.case.system else ()), *self.case.watched]
        return tracer.run(words, cwd=self.home, env=self.environment, watched=watched, point=point, fault=fault)

    def _enumerate(self) -> list[Point]:
        """Return the mutating calls of the run on the files of the machine."""
        self.reset()
        result = self.again()
        assert result.returncode == 0, result.stderr
        return [point._replace(text=point.text.replace(str(self.place), "")) for point in result.points]

    def sample(self, count: int) -> list[Point]:
        """Return the points to try: all, or ``count`` of them, always the same."""
        return self.points if WHOLE else random.Random(SEED).sample(self.points, count)  # noqa: S311 - see above

    def kill(self, point: Point) -> None:
        """Kill the run at a call, which is not executed.

        The point may not be reached in parallel runs, and among messages to another program, whose number depends on
        its answers.
        """
        self.reset()
        result = self.again(point)
        varies = self.case.parallel > 1 or point.text.startswith("socket:")
        reached = result.returncode == -9 or (varies and result.returncode == 0)
        assert reached, f"{point} was not reached: {result.returncode} {result.stderr}"

    def kill_again(self, point: Point) -> bool:
        """Kill the run after a killed one, if it reaches that call; return whether it did."""
        result = self.again(point)
        assert result.returncode in {0, -9}, result.stderr
        return result.returncode == -9

    def refuse(self, point: Point, error: str) -> Outcome:
        """Run with one call answered by an error instead of being executed."""
        self.reset()
        return self.again(point, error)

    def run_in_process(self, command: str, **options: Any) -> tuple[RunReport, list[LogEvent]]:
        """Apply or destroy with the package's own runtime; return the report and the log lines."""
        events: list[LogEvent] = []
        runtime = Runtime(
            Registry.from_path(MODULES), state=f"sqlite:{self.state}", log=ForwardedLog("notice", events.append)
        )
        work: Callable[..., RunReport] = runtime.apply if command == "apply" else runtime.destroy
        return work(self.manifest, **options), events

    def observe(self) -> Seen:
        """Return the observed machine."""
        paths = frozenset(os.listdir(self.state.parent)) if self.state.parent.exists() else frozenset()  # noqa: PTH208
        state = SqliteStore(str(self.state)).load(StackName("crash", "default"))
        return Seen(self.tree(), state, paths, self.case.random)

    def tree(self) -> dict[str, Any]:
        """Return every name in the world with kind, permissions and content."""
        entries: dict[str, Any] = {}
        for path in self._names():
            status = path.lstat()
            name = str(path.relative_to(self.world))
            content: object = os.readlink(path) if path.is_symlink() else None  # noqa: PTH115
            if stat.S_ISREG(status.st_mode):
                content = self.case.meaning(name, path.read_bytes())
            entries[name] = stat.filemode(status.st_mode), status.st_uid, status.st_gid, content
        if self.case.observation:
            entries[""] = subprocess.run(self.case.observation, check=True, capture_output=True, text=True).stdout
        return entries

    def stamps(self) -> dict[str, int]:
        """Return the time of the last change of each name in the world."""
        return {str(path): path.lstat().st_ctime_ns for path in self._names()}

    def _names(self) -> Iterator[Path]:
        """Yield every path in the world that is compared."""
        for path in sorted(self.world.rglob("*")):
            name = str(path.relative_to(self.world))
            if name not in self.case.counted and not re.fullmatch(self.case.aside, name):
                yield path
