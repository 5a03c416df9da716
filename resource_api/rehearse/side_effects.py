"""What calls have done beyond what is declared: compared with the machine, sorted, and folded for people."""

from __future__ import annotations

import os
import stat
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.rehearse.recorded_effects import PathChange, RecordedCall
    from resource_api.system.overlay.written_files import Written

Verb = Literal["made", "changed", "deleted"]
#: Beneath these, files come and go without anybody asking.
_CACHES: Final = (
    "/var/cache/",
    "/var/log/",
    "/var/lib/apt/",
    "/var/lib/dpkg/",
    "/var/lib/resource-api/backups/",
    "/var/lib/systemd/deb-systemd-",
)
#: What every change of a user or group rewrites.
_ACCOUNTS: Final = frozenset(
    f"/etc/{name}{end}" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid") for end in ("", "-")
)
#: From so many files of one directory on, they are counted.
_FOLDED: Final = 4


class Effect(NamedTuple):
    """One path that was made, changed or deleted by a call, and that none of its resources declares."""

    #: The references of the resources of the call.
    references: tuple[str, ...]
    verb: Verb
    path: str
    #: The package that the file belongs to, among those installed meanwhile; empty: none.
    package: str = ""
    #: Where the first of the resources is declared, ``site.yaml:14``; empty: not known.
    place: str = ""


def effects(calls: Sequence[RecordedCall], packages: Mapping[str, str], place_of: Callable[[str], str]) -> list[Effect]:
    """Return what calls have done beyond what is declared, in their order. The files of this machine are read.

    ``place_of`` returns where a reference is declared.
    """
    known: dict[str, Verb] = {}
    found = []
    for call in calls:
        is_declared = declared_paths([call])
        for change in call.changes:
            verb = _verb(change, known)
            if verb is None:
                continue
            known[change.path] = verb
            if not is_declared(change.path):
                package = packages.get(change.path, "")
                place = place_of(call.references[0])
                found.append(Effect(tuple(call.references), verb, change.path, package, place))
    return found


def difference(path: str, written: Written, content_differs: Callable[[], bool]) -> Verb | None:
    """Return what a path is in comparison with the machine; None: the same, or one of the caches and logs.

    ``content_differs`` is only called where all else is the same.
    """
    if is_cache(path):
        return None
    before = _before(path)
    if written.kind == "deleted":
        return "deleted" if before is not None else None
    if before is None:
        return "made"
    if _owner_and_mode(before) != (written.mode, written.uid, written.gid):
        return "changed"
    return "changed" if written.kind == "file" and content_differs() else None


def is_cache(path: str) -> bool:
    """Return whether a path is one of the caches and logs."""
    return path.startswith(_CACHES)


def is_common(path: str) -> bool:
    """Return whether a path is one of the caches and logs, or a file of all users or groups."""
    return is_cache(path) or path in _ACCOUNTS


def declared_paths(calls: Sequence[RecordedCall]) -> Callable[[str], bool]:
    """Return a function: whether a resource of a call has a path as a value, or is named by it or one above it."""
    declared = [each for call in calls for each in call.declared.values()]
    names = {each.name for each in declared if each.name}
    values = {value for each in declared for value in each.values}
    return lambda path: path in values or path in names or not names.isdisjoint(_parents(path))


def lines(found: Sequence[Effect]) -> Iterator[str]:
    """Yield a line for each thing that was done: ``Exec[cleanup]: deleted /etc/motd (site.yaml:9)``; caches last."""
    quiet = [each for each in found if is_cache(each.path)]
    loud = [each for each in found if not is_cache(each.path)]
    last = None
    for first, verb, what in folded(loud):
        where = f" ({first.place})" if first.place and first is not last else ""
        yield f"{subject(first.references)}: {verb} {what}{where}".replace(":  ", ": ")
        last = first
    for references, count in Counter(each.references for each in quiet).items():
        files = f"{count} file{'s' * (count > 1)}"
        yield f"{subject(references)}: {files} of caches, logs and the lists of packages"


def folded(found: Sequence[Effect]) -> Iterator[tuple[Effect, str, str]]:
    """Yield what belongs together: the first effect of its call, a verb or nothing, and what it is about."""
    by_call: dict[tuple[str, ...], list[Effect]] = {}
    for each in found:
        by_call.setdefault(each.references, []).append(each)
    for done in by_call.values():
        for verb, what in _folded(done):
            yield done[0], verb, what


def subject(references: Sequence[str]) -> str:
    """Return several references as one, as log lines do: ``File[/a, /b]``."""
    if len(references) == 1:
        return references[0]
    kind = references[0].partition("[")[0]
    titles = [each.partition("[")[2].removesuffix("]") for each in references]
    more = f" and {len(titles) - 5} more" if len(titles) > 5 else ""  # noqa: PLR2004 - as in the log
    return f"{kind}[{', '.join(titles[:5])}]{more}"


def _verb(change: PathChange, known: Mapping[str, Verb]) -> Verb | None:
    """Return what a change of a path is; None: it is none."""
    before = _before(change.path)
    if change.written is None or change.written.kind == "deleted":
        return "deleted" if before is not None or known.get(change.path) in {"made", "changed"} else None
    if before is None:
        return "changed" if known.get(change.path) in {"made", "changed"} else "made"
    return "changed" if not change.first or _differs(before, change.written) else None


def _before(path: str) -> os.stat_result | None:
    """Return what the machine has at a path; None: nothing."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _owner_and_mode(about: os.stat_result) -> tuple[int, int, int]:
    return about.st_mode, about.st_uid, about.st_gid


def _differs(before: os.stat_result, written: Written) -> bool:
    """Return whether a file differs from what the machine has; one that was only opened for writing does not."""
    if _owner_and_mode(before) != (written.mode, written.uid, written.gid):
        return True
    return not stat.S_ISDIR(before.st_mode) and (before.st_size, before.st_mtime_ns) != (written.size, written.modified)


def _folded(found: Sequence[Effect]) -> Iterator[tuple[str, str]]:
    """Yield what one call has done, with what belongs together in one: a verb or nothing, and what it is about."""
    for package, count in Counter(each.package for each in found if each.package and each.verb == "made").items():
        yield "", f"{count} file{'s' * (count > 1)} of {package}"
    rest = [each for each in found if not (each.package and each.verb == "made")]
    if accounts := [each for each in rest if each.path in _ACCOUNTS]:
        yield "changed", f"{len(accounts)} account file{'s' * (len(accounts) > 1)}"
    yield from _by_directory([each for each in rest if each.path not in _ACCOUNTS])


def _by_directory(found: Sequence[Effect]) -> Iterator[tuple[str, str]]:
    made = {each.path for each in found if each.verb == "made"}
    inner_of = Counter(parent for path in made for parent in _parents(path))
    # What is in a directory that was made goes with it.
    tops = [each for each in found if not (each.verb == "made" and _parents(each.path) & made)]
    groups: dict[tuple[str, str], list[Effect]] = {}
    for each in tops:
        groups.setdefault((each.verb, os.path.dirname(each.path)), []).append(each)
    for (verb, directory), members in groups.items():
        if len(members) >= _FOLDED:
            yield verb, f"{len(members)} files in {directory}"
            continue
        for each in members:
            inner = inner_of[each.path] if verb == "made" else 0
            yield verb, each.path + (f" with {inner} file{'s' * (inner > 1)}" if inner else "")


def _parents(path: str) -> set[str]:
    parts: Iterable[str] = path.split("/")[1:-1]
    found, place = set(), ""
    for part in parts:
        place += f"/{part}"
        found.add(place)
    return found
