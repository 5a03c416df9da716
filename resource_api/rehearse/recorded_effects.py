"""Record which files each call of a provider changes, from the upper layers of the overlay."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.system.overlay import written_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from resource_api.provider.context import Activity, ActivityDisplay
    from resource_api.system.overlay.written_files import Written

#: The lists of the files of packages, deb(5).
_PACKAGE_LISTS: Final = "/var/lib/dpkg/info/"


class PathChange(NamedTuple):
    """One path that a call has changed. ``first``: it was not in the layer before; no ``written``: it is gone again."""

    path: str
    first: bool
    written: Written | None


class DeclaredPaths(NamedTuple):
    """The paths that a resource declares: its name, empty if that is none, and the values of attributes."""

    name: str
    values: Sequence[str]


class RecordedCall(NamedTuple):
    """What one call of ``set`` or ``refresh`` has changed."""

    references: Sequence[str]
    #: By reference.
    declared: Mapping[str, DeclaredPaths]
    changes: Sequence[PathChange]


class EffectRecorder:
    """Takes the place of what shows the calls of a run, and passes everything on to it."""

    def __init__(self, descriptor: int, shown: Callable[[], ActivityDisplay] | None) -> None:
        """Read the layers of ``descriptor``; ``shown`` returns what shows the calls, None: nothing does."""
        self.calls: list[RecordedCall] = []
        self._descriptor = descriptor
        self._shown = shown

    @contextmanager
    def running(self, activity: Activity) -> Iterator[None]:
        """Record what is changed in the ``with`` block."""
        before = written_files.read(self._descriptor)
        shown: AbstractContextManager[None] = nullcontext() if self._shown is None else self._shown().running(activity)
        try:
            with shown:
                yield
        finally:
            if changes := list(_changes(before, written_files.read(self._descriptor))):
                self.calls.append(_call(activity, changes))

    def waiting(self, activity: Activity) -> AbstractContextManager[Callable[[], None]]:
        """Return a context around a wait, which changes nothing."""
        return nullcontext(lambda: None) if self._shown is None else self._shown().waiting(activity)


def packages(calls: Sequence[RecordedCall]) -> Mapping[str, str]:
    """Return path → package of the files of the packages that calls have installed or upgraded."""
    found: dict[str, str] = {}
    lists = {each.path for call in calls for each in call.changes if each.path.startswith(_PACKAGE_LISTS)}
    for path in sorted(each for each in lists if each.endswith(".list")):
        name = path.removeprefix(_PACKAGE_LISTS).removesuffix(".list").partition(":")[0]
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                found |= dict.fromkeys(file.read().split("\n"), name)
        except FileNotFoundError:  # it was removed
            continue
    return found


def _changes(before: Mapping[str, Written], after: Mapping[str, Written]) -> Iterator[PathChange]:
    """Yield what differs, sorted by path."""
    for path in sorted(before.keys() | after.keys()):
        written = after.get(path)
        if before.get(path) != written:
            yield PathChange(path, path not in before, written)


def _call(activity: Any, changes: Sequence[PathChange]) -> RecordedCall:
    """Return a record of a call; another activity than a call is only known by its subject."""
    runs = getattr(activity, "runs", ())
    declared = {str(run.step.reference): DeclaredPaths(_path(run.name), _paths(run.should.values())) for run in runs}
    return RecordedCall(list(declared) or [activity.subject], declared, changes)


def _paths(values: Iterable[Any]) -> list[str]:
    return [path for value in values if (path := _path(value))]


def _path(value: Any) -> str:
    """Return a value that is an absolute path; empty: it is none."""
    return value.rstrip("/") if isinstance(value, str) and value.startswith("/") else ""
