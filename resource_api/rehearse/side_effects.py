"""Effects of calls beyond the declared ones: recorded from the overlay, sorted, and folded for output."""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Literal

from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import counted
from resource_api.system.overlay import overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from resource_api.provider.context import Activity, ActivityDisplay
    from resource_api.system.overlay.overlay import Written

#: The lists of the files of packages, deb(5).
_PACKAGE_LISTS: Final = "/var/lib/dpkg/info/"
Verb = Literal["made", "changed", "deleted"]
#: Beneath these, files come and go without a declaration.
_CACHES: Final = (
    "/var/cache/",
    "/var/log/",
    "/var/lib/apt/",
    "/var/lib/dpkg/",
    "/var/lib/resource-api/backups/",
    "/var/lib/systemd/deb-systemd-",
)
#: The files that every change of a user or group rewrites.
_ACCOUNTS: Final = frozenset(
    f"/etc/{name}{end}" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid") for end in ("", "-")
)
#: The number of files of one directory from which they are counted, not listed.
_COUNTED_FROM: Final = 4
#: The most titles in the subject of a line, as in the log.
_MOST_TITLES: Final = 5


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
        """Record from the overlay's layers, a directory open as ``descriptor``.

        ``display`` returns the display of the run, to which activities are passed on; None: there is none.
        """
        self.calls: list[RecordedCall] = []
        self._descriptor = descriptor
        self._display = display

    @contextmanager
    def running(self, activity: Activity) -> Iterator[None]:
        """Record the paths that change during a provider's call, the ``with`` block, and display the activity."""
        before = overlay.read(self._descriptor)
        display: AbstractContextManager[None] = (
            nullcontext() if self._display is None else self._display().running(activity)
        )
        try:
            with display:
                yield
        finally:
            if changes := list(_changes(before, overlay.read(self._descriptor))):
                self.calls.append(_recorded_call(activity, changes))

    def waiting(self, activity: Activity) -> AbstractContextManager[Callable[[], None]]:
        """Return a context around a wait, which changes nothing."""
        return nullcontext(lambda: None) if self._display is None else self._display().waiting(activity)


def packages(calls: Sequence[RecordedCall]) -> Mapping[str, str]:
    """Return path → package for the files of packages that calls installed or upgraded, to count effects by package.

    The files of a package are those in its list, which dpkg writes when it installs the package: the changed lists show
    the packages.
    """
    owners: dict[str, str] = {}
    for path in sorted({change.path for call in calls for change in call.changes}):
        if not (path.startswith(_PACKAGE_LISTS) and path.endswith(".list")):
            continue
        name = path.removeprefix(_PACKAGE_LISTS).removesuffix(".list").partition(":")[0]
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                owners |= dict.fromkeys(file.read().split("\n"), name)
        except FileNotFoundError:  # it was removed
            continue
    return owners


def _changes(before: Mapping[str, Written], after: Mapping[str, Written]) -> Iterator[PathChange]:
    """Yield the paths that a call has changed, from the readings of the overlay before and after it.

    Each reading has path → written file.
    """
    for path in sorted(before.keys() | after.keys()):
        written = after.get(path)
        if before.get(path) != written:
            yield PathChange(path, path not in before, written)


def _recorded_call(activity: Any, changes: Sequence[PathChange]) -> RecordedCall:
    """Return the record of an activity and its ``changes`` of paths, to tell declared changes from side effects.

    The references and declared paths are those of its resources. An activity that is no call of a provider has none:
    its subject stands in their place, without declared paths.
    """
    runs = getattr(activity, "runs", ())
    declared = {
        str(run.step.reference): DeclaredPaths(_path(run.name), list(filter(None, map(_path, run.should.values()))))
        for run in runs
    }
    return RecordedCall(list(declared) or [activity.subject], declared, changes)


def _path(value: object) -> str:
    """Return a value that is an absolute path, or ""."""
    return value.rstrip("/") if isinstance(value, str) and value.startswith("/") else ""


class Effect(NamedTuple):
    """One path that a call made, changed or deleted although none of its resources declares it."""

    #: The references of the resources of the call.
    references: tuple[str, ...]
    verb: Verb
    path: str
    #: The package of the file, among those that were installed meanwhile, or "".
    package: str = ""
    #: The position of the first resource's declaration, ``site.yaml:14``, or "".
    place: str = ""


def effects(
    calls: Sequence[RecordedCall], packages: Mapping[str, str], position_of: Callable[[str], str]
) -> list[Effect]:
    """Return the changes of paths that no resource of their call declares, in their order: the side effects.

    The verb of each (made, changed or deleted) describes the difference to the machine's own file, or to the previous
    change of the path in this run. ``packages``: path → package, of new files. ``position_of`` returns the position of
    a reference's declaration.
    """
    verbs: dict[str, Verb] = {}
    undeclared = []
    for call in calls:
        is_declared = declared_paths([call])
        for change in call.changes:
            verb = _verb(change, verbs)
            if verb is None:
                continue
            # A declared change counts too: the next change of this path has another verb.
            verbs[change.path] = verb
            if not is_declared(change.path):
                package = packages.get(change.path, "")
                position = position_of(call.references[0])
                undeclared.append(Effect(tuple(call.references), verb, change.path, package, position))
    return undeclared


def difference(path: str, written: Written, digest: str) -> Verb | None:
    """Return how a written path differs from the machine, or None for equal ones, caches and logs.

    ``digest``: that of the written content, by ``overlay.digest``. The machine's file is read only if kind, mode and
    owner are equal, because reading is slow.
    """
    if is_cache(path):
        return None
    status = _status(path)
    if written.kind == "deleted":
        return "deleted" if status is not None else None
    if status is None:
        return "made"
    if _mode_and_owner(status) != (written.mode, written.uid, written.gid):
        return "changed"
    return "changed" if written.kind == "file" and overlay.digest(path) != digest else None


def is_cache(path: str) -> bool:
    """Return whether a path is one of the caches and logs."""
    return path.startswith(_CACHES)


def is_common(path: str) -> bool:
    """Return whether a path is one of the caches and logs, or a file that changes with any user or group."""
    return is_cache(path) or path in _ACCOUNTS


def declared_paths(calls: Sequence[RecordedCall]) -> Callable[[str], bool]:
    """Return a function that returns whether a resource of the calls declares a path.

    It does so if the path is its name, or beneath it, or the value of an attribute.
    """
    names, values = set[str](), set[str]()
    for call in calls:
        for declared in call.declared.values():
            names.add(declared.name)
            values.update(declared.values)
    return lambda path: path in values or path in names or not names.isdisjoint(_parents(path))


def lines(all_effects: Sequence[Effect]) -> Iterator[str]:
    """Yield a line for each side effect: ``Exec[cleanup]: deleted /etc/motd (site.yaml:9)``; count caches and logs."""
    quiet = [effect for effect in all_effects if is_cache(effect.path)]
    loud = [effect for effect in all_effects if not is_cache(effect.path)]
    last = None
    for first, verb, text in folded(loud):
        # The position only in the first line of a call; without a verb there would be two spaces.
        position = f" ({first.place})" if first.place and first is not last else ""
        yield f"{subject(first.references)}: {verb} {text}{position}".replace(":  ", ": ")
        last = first
    for references, count in Counter(effect.references for effect in quiet).items():
        yield f"{subject(references)}: {counted(count, 'file')} of caches, logs and the lists of packages"


def folded(all_effects: Sequence[Effect]) -> Iterator[tuple[Effect, str, str]]:
    """Yield the effects of each call in groups, so that many files need few lines.

    A group is yielded as the first effect of its call, which stands for the call, the verb ("" for the files of a
    package), and a text: a path, or a count of files.
    """
    by_call: dict[tuple[str, ...], list[Effect]] = {}
    for effect in all_effects:
        by_call.setdefault(effect.references, []).append(effect)
    for group in by_call.values():
        for verb, text in _folded_call(group):
            yield group[0], verb, text


def subject(references: Sequence[str]) -> str:
    """Return the references of one call, which are of one type, joined as in log lines: ``File[/a, /b]``."""
    if len(references) == 1:
        return references[0]
    kind = references[0].partition("[")[0]
    titles = [reference.partition("[")[2].removesuffix("]") for reference in references]
    more = f" and {len(titles) - _MOST_TITLES} more" if len(titles) > _MOST_TITLES else ""
    return f"{kind}[{', '.join(titles[:_MOST_TITLES])}]{more}"


def _verb(change: PathChange, verbs: Mapping[str, Verb]) -> Verb | None:
    """Return the verb for a change of a path, or None for a change that leaves no difference to the machine's own file.

    ``verbs``: path → verb of the previous change in this run. With it a file that a call made and a later call deleted
    is reported as deleted, although the machine has no such file.
    """
    status, written_before = _status(change.path), verbs.get(change.path) in {"made", "changed"}
    if change.written is None or change.written.kind == "deleted":
        return "deleted" if status is not None or written_before else None
    if status is None:
        return "changed" if written_before else "made"
    return "changed" if not change.first or _differs(status, change.written) else None


def _status(path: str) -> os.stat_result | None:
    """Return the status of the machine's own file at a path, or None if there is none, to compare a written file with.

    This process is outside of the overlay, where the path leads to that file.
    """
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _mode_and_owner(status: os.stat_result) -> tuple[int, int, int]:
    """Return mode, user and group, to be compared with those of a ``Written``."""
    return status.st_mode, status.st_uid, status.st_gid


def _differs(status: os.stat_result, written: Written) -> bool:
    """Return whether a written file differs from the machine's own of this ``status``.

    The overlay also copies a file that is only opened for writing: this copy has the same size and time.
    """
    if _mode_and_owner(status) != (written.mode, written.uid, written.gid):
        return True
    return not stat.S_ISDIR(status.st_mode) and (status.st_size, status.st_mtime_ns) != (written.size, written.modified)


def _folded_call(group: Sequence[Effect]) -> Iterator[tuple[str, str]]:
    """Yield verb ("" for a package) and text of each group of a call's effects.

    Files of a package are counted, and so are account files; the others are grouped by their directory.
    """
    of_packages, accounts, others = Counter[str](), 0, list[Effect]()
    for effect in group:
        if effect.package and effect.verb == "made":
            of_packages[effect.package] += 1
        elif effect.path in _ACCOUNTS:
            accounts += 1
        else:
            others.append(effect)
    for package, count in of_packages.items():
        yield "", f"{counted(count, 'file')} of {package}"
    if accounts:
        yield "changed", counted(accounts, "account file")
    yield from _by_directory(others)


def _by_directory(group: Sequence[Effect]) -> Iterator[tuple[str, str]]:
    """Yield verb and text of each line for effects, so that many files need few lines.

    Many files of a directory with one verb are counted in one line. A new directory has one line with the number of
    files made beneath it: ``/srv/site with 12 files``.
    """
    created = {effect.path for effect in group if effect.verb == "made"}
    inner_of = Counter(parent for path in created for parent in _parents(path))
    groups: dict[tuple[str, str], list[str]] = {}
    for effect in group:
        # The contents of a new directory are counted with it.
        if effect.verb != "made" or created.isdisjoint(_parents(effect.path)):
            groups.setdefault((effect.verb, os.path.dirname(effect.path)), []).append(effect.path)
    for (verb, directory), paths in groups.items():
        if len(paths) >= _COUNTED_FROM:
            yield verb, f"{len(paths)} files in {directory}"
            continue
        for path in paths:
            inner = inner_of[path] if verb == "made" else 0
            yield verb, f"{path} with {counted(inner, 'file')}" if inner else path


def _parents(path: str) -> set[str]:
    """Return the directories above an absolute path, except the root, to look one of them up among declared paths."""
    parents, parent = set(), ""
    for part in path.split("/")[1:-1]:
        parent += f"/{part}"
        parents.add(parent)
    return parents
