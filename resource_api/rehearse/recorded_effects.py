"""Record which files each call of a provider changes, from the upper layers of the overlay."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.start_up import NamedTuple
from resource_api.system.overlay import written_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from resource_api.provider.context import Activity, ActivityDisplay
    from resource_api.system.overlay.written_files import Written

#: The lists of the files of packages, deb(5).
_PACKAGE_LISTS: Final = "/var/lib/dpkg/info/"


class PathChange(NamedTuple):
    """One path that a call changed. ``first``: it was not in the layer before; no ``written``: it is gone again."""

    path: str
    first: bool
    written: Written | None


class DeclaredPaths(NamedTuple):
    """The paths that a resource declares: its name, empty if that is none, and the values of attributes."""

    name: str
    values: Sequence[str]


class RecordedCall(NamedTuple):
    """The paths that one call of ``set`` or ``refresh`` changed."""

    references: Sequence[str]
    #: By reference.
    declared: Mapping[str, DeclaredPaths]
    changes: Sequence[PathChange]


class EffectRecorder:
    """Records the files that each call of a run changes, and passes each activity on to the display of the run."""

    def __init__(self, descriptor: int, display: Callable[[], ActivityDisplay] | None) -> None:
        """Read the layers of ``descriptor``; ``display`` returns the display of the run, or is None."""
        self.calls: list[RecordedCall] = []
        self._descriptor = descriptor
        self._display = display

    @contextmanager
    def running(self, activity: Activity) -> Iterator[None]:
        """Record the changes in the ``with`` block."""
        before = written_files.read(self._descriptor)
        display: AbstractContextManager[None] = (
            nullcontext() if self._display is None else self._display().running(activity)
        )
        try:
            with display:
                yield
        finally:
            if changes := list(_changes(before, written_files.read(self._descriptor))):
                self.calls.append(_call(activity, changes))

    def waiting(self, activity: Activity) -> AbstractContextManager[Callable[[], None]]:
        """Return a context around a wait, which changes nothing."""
        return nullcontext(lambda: None) if self._display is None else self._display().waiting(activity)


def packages(calls: Sequence[RecordedCall]) -> Mapping[str, str]:
    """Return path → package of the files of the packages that calls installed or upgraded."""
    owners: dict[str, str] = {}
    lists = {change.path for call in calls for change in call.changes if change.path.startswith(_PACKAGE_LISTS)}
    for path in sorted(path for path in lists if path.endswith(".list")):
        name = path.removeprefix(_PACKAGE_LISTS).removesuffix(".list").partition(":")[0]
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                owners |= dict.fromkeys(file.read().split("\n"), name)
        except FileNotFoundError:  # it was removed
            continue
    return owners


def _changes(before: Mapping[str, Written], after: Mapping[str, Written]) -> Iterator[PathChange]:
    """Yield the differences, sorted by path."""
    for path in sorted(before.keys() | after.keys()):
        written = after.get(path)
        if before.get(path) != written:
            yield PathChange(path, path not in before, written)


def _call(activity: Any, changes: Sequence[PathChange]) -> RecordedCall:
    """Return the record of a call; an activity other than a call has a subject only."""
    runs = getattr(activity, "runs", ())
    declared = {
        str(run.step.reference): DeclaredPaths(_path(run.name), list(filter(None, map(_path, run.should.values()))))
        for run in runs
    }
    return RecordedCall(list(declared) or [activity.subject], declared, changes)


def _path(value: object) -> str:
    """Return a value that is an absolute path, or ""."""
    return value.rstrip("/") if isinstance(value, str) and value.startswith("/") else ""
