"""The rules for members of archives: names and links stay inside, no name occurs twice, depth and size have limits."""

from __future__ import annotations

from itertools import dropwhile
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The longest name of a file (NAME_MAX in limits.h).
_LONGEST_NAME: Final = 255
#: Most parts of a member's name: opening a file costs a step for each; honest archives have far fewer.
MAX_DEPTH: Final = 200
#: Characters of a name that is too deep in its message.
_EXCERPT: Final = 40


class Member(NamedTuple):
    """One member of an archive; ``parts`` are the bytes of a file, to be read before the next member is requested.

    ``name``: a relative path without dots. ``kind``: file, directory or link. ``mode``: the permission bits to restore.
    ``target``: where a link leads, as written; always within the archive.
    """

    name: str
    kind: str
    mode: int
    target: str = ""
    parts: Iterable[bytes] = ()


class Limits(NamedTuple):
    """The largest archive that is read: bytes of all its files together, number of members."""

    size: int = 1 << 30
    members: int = 100_000


def member_name(spelt: str) -> str:
    """Return an archive member's path in normal form, ``a/b`` for ``./a//b``, or "" for the top of the archive.

    Raise ``ValueError`` for a path that leads out of the archive: an archive may come from anywhere, and must not write
    outside of the directory into which it is unpacked. ``spelt``: the path in the archive.
    """
    parts = [part for part in spelt.split("/") if part not in {"", "."}]
    if spelt.startswith("/") or ".." in parts or "\0" in spelt:
        raise ValueError(f"the name {spelt!r} leads out of the archive's directory")
    if any(len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME for part in parts):
        raise ValueError(f"the name {spelt[:_LONGEST_NAME]!r}... is too long for a file")
    return "/".join(parts)


def link_stays_inside(name: str, target: str) -> bool:
    """Return whether the symbolic link ``name`` with this target stays within its archive, whatever links it contains.

    Otherwise unpacking could write outside of the directory. ``..`` is accepted only at the start of the target: after
    a name, which may be a link, it could lead anywhere.
    """
    if target == "" or target.startswith("/") or "\0" in target:
        return False
    parts = [part for part in target.split("/") if part not in {"", "."}]
    down = list(dropwhile(lambda part: part == "..", parts))
    # The link ``a/b/c`` has two directories above it: ``../../d`` leads to the top of the archive, not out of it.
    return len(parts) - len(down) <= name.count("/") and ".." not in down


def checked_members(members: Iterable[Member], limits: Limits) -> Iterator[Member]:
    """Yield the members of an archive, each after the check that it can be unpacked safely, within ``limits``.

    Raise ``ResourceError`` for a link that leads out, a parent that is no directory, and a name that occurs twice. A
    directory that is only implied by a name is yielded before its content; if the archive describes it later, it is
    yielded again, with its own mode. Members are checked one by one: a large archive is never read as a whole.
    """
    kinds: dict[str, str] = {}  # name → kind, of the members so far
    counter = _Counter(limits.size)
    for member in members:
        if member.name.count("/") >= MAX_DEPTH:
            raise ResourceError(f"'{member.name[:_EXCERPT]}...' is more than {MAX_DEPTH} levels deep")
        for parent in _parents(member.name):
            if parent not in kinds:
                kinds[parent] = "directory"
                yield Member(parent, "directory", 0o755)
            elif kinds[parent] != "directory":
                raise ResourceError(f"'{member.name}' is beneath '{parent}', which is a {kinds[parent]}")
        if member.name:
            _check_member(member, kinds.get(member.name))
            kinds[member.name] = member.kind
            if len(kinds) > limits.members:
                raise ResourceError(f"it has more than {limits.members} members")
            yield member._replace(parts=counter.parts(member.parts))


def _check_member(member: Member, earlier: str | None) -> None:
    """Raise ``ResourceError`` for a name that an ``earlier`` member (its kind) has, and for a link that leads out."""
    # A directory may come again: it was implied by a name, or is described twice.
    if earlier is not None and {earlier, member.kind} != {"directory"}:
        raise ResourceError(f"'{member.name}' is in it twice")
    if member.kind == "link" and not link_stays_inside(member.name, member.target):
        raise ResourceError(f"the link '{member.name}' leads out of it, or up behind a name: {member.target}")


def _parents(name: str) -> Iterator[str]:
    """Yield the directories of a member, the outermost first: ``a`` and ``a/b`` of ``a/b/c``."""
    slash = name.find("/")
    while slash > 0:
        yield name[:slash]
        slash = name.find("/", slash + 1)


class _Counter:
    """Counts the bytes of the members of an archive."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0

    def parts(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield ``parts``, and count their bytes; raise ``ResourceError`` once all members exceed the limit."""
        for part in parts:
            self._size += len(part)
            if self._size > self._limit:
                raise ResourceError(f"its files are larger than {self._limit} bytes together")
            yield part
