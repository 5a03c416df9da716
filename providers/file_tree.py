"""Compare directory trees, and change the members that differ."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from lib import file_parts, file_trees, prerequisites, removed_directories, symbolic_mode
from lib.backups import Backups
from lib.named_files import read_each, reported
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Problem, ResourceError, SideEffect, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from lib.file_trees import Member, Tree
    from resource_api import Change, Context, Resource

#: The bits that a copy takes from the mode of a source: no set-id bits, no right to write for group and others.
COPIED = 0o755
#: A directory that does not exist, or is not declared.
NOTHING = file_trees.Tree({}, frozenset())


class Expected(NamedTuple):
    """The expected state of a member; None keeps the present value, or stands for a new member's default."""

    kind: str
    mode: int | None
    uid: int | None
    gid: int | None
    target: str


class Provider(BaseProvider):
    """The directory trees of the local machine."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Clean paths, and write modes with four digits and owners' numbers as text, so that equal values are equal."""
        for resource in resources:
            for attribute in ("path", "source"):
                if isinstance(resource.get(attribute), str):
                    resource[attribute] = files.canonical_path(resource[attribute])
            mode = resource.get("mode")
            if mode is not None and mode[0].isdigit():
                resource["mode"] = mode.rjust(4, "0")
            for attribute in ("owner", "group"):
                if (number := files.owner_number(resource.get(attribute))) is not None:
                    resource[attribute] = str(number)
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse system directories, a source within the directory or the reverse, and a purge without a source.

        A tree in its own source would grow with each copy; without a source a purge would remove everything.
        """
        yield from refused_secrets(should)
        path, source = should.get("path"), should.get("source")
        if path in files.PROTECTED_DIRECTORIES:
            yield Problem("path", "a system directory is not managed with all that is in it")
        if isinstance(path, str) and isinstance(source, str) and f"{path}/".startswith(f"{source}/"):
            yield Problem("source", "the directory is in its source")
        elif isinstance(path, str) and isinstance(source, str) and f"{source}/".startswith(f"{path}/"):
            yield Problem("source", "the source is in the directory")
        if should.get("purge") is True and source is None and should.get("ensure") != "absent":
            yield Problem("purge", "purge needs a source: everything would be removed")

    def insync(
        self, _context: Context, name: str, attribute: str, _is: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare the whole tree, which is read here, as ``get`` receives only names and not the declared source.

        The message names the differing members, or for ``purge`` those that it removes.
        """
        if attribute == "ensure":
            return None
        try:
            compared = _Comparison(name, should, must_exist=False)
        except FileNotFoundError as error:
            # For a missing source only ``source`` is reported, as the other attributes cannot be compared.
            return attribute != "source" or (False, f"'{error.filename}' does not exist")
        names, verb = compared.different(attribute), "removes" if attribute == "purge" else "differs in"
        return not names or (False, f"{verb} {file_trees.listed(names)}")

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the directories in ``names`` that exist; their members are compared by ``insync``."""
        for path, _ in read_each(context, names, "any directory is a tree; name it", files.Directories.reach):
            yield {"ensure": "present", "path": path}

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites of a tree: the directory above it, its source, its owner, its group."""
        return prerequisites.of_files(
            changes,
            lambda path, should: [
                *prerequisites.missing_place(path, should),
                *prerequisites.missing_directory("source", should.get("source")),
            ],
            replaced=False,
        )

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the purged members, and the content of directories that are removed or replaced by another kind.

        A plan shows the losses, and reports a conflict with a resource that declares one of these files.
        """
        for path, (is_, should) in changes.items():
            if should.get("ensure") == "absent":
                yield from removed_directories.side_effects([path])
            elif is_ is not None and (should.get("purge") or should.get("force")):
                with file_parts.described(path):
                    compared = _Comparison(path, should, must_exist=False)
                for name in compared.purged:
                    member = file_trees.member_path(path, name)
                    yield path, SideEffect(member, "remove", "file", dependent=True, asked=True)
                replaced = [file_trees.member_path(path, name) for name in _kind_changes(compared, force=True)]
                yield from ((path, effect) for _, effect in removed_directories.side_effects(replaced))

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one tree after another; lost files are copied before, if that is declared."""
        for path, (_, should) in changes.items():
            with reported(context, path), Backups() as backups, files.Batch() as batch:
                if should.get("ensure") == "absent":
                    _remove(batch, backups, path, should)
                else:
                    _change(batch, backups, path, should)


class _Comparison:
    """A tree beside its expected state: ``insync`` reports the differences, ``set`` removes them."""

    def __init__(self, path: str, should: Mapping[str, Any], *, must_exist: bool) -> None:
        """Read the tree and its source. Raise ``OSError``, and ``ResourceError`` above the limits.

        With ``must_exist``, as for ``set``, an unknown owner is an error. In a plan another resource may still create
        that user: the owner of every member then differs.
        """
        self._should = should
        self.path, self.source = path, should.get("source")
        is_ignored, most = file_trees.ignored(should.get("ignore")), should["max_files"]
        self._origin = NOTHING if self.source is None else file_trees.read_tree(self.source, is_ignored, most)
        try:
            self.now: Tree = file_trees.read_tree(path, is_ignored, most)
        except FileNotFoundError:
            self.now = NOTHING
        if special := [name for name, member in self._origin.members.items() if not member.kind]:
            msg = f"the source has what is neither a file, a directory nor a link: {file_trees.listed(special)}"
            raise ResourceError(msg)
        uid = _number(files.user_id, should.get("owner"), must_exist=must_exist)
        gid = _number(files.group_id, should.get("group"), must_exist=must_exist)
        # Without a source, the present members themselves get the declared owner and mode.
        expected = {
            name: Expected(member.kind, self._mode(member), uid, gid, member.target)
            for name, member in (self.now if self.source is None else self._origin).members.items()
            if member.kind
        }
        # With neither a source nor a present directory, an empty one is expected.
        self.expected = expected or {"": Expected("directory", self._mode(None), uid, gid, "")}
        #: The members to remove, the deepest first.
        self.purged = self._purged()

    def _mode(self, member: Member | None) -> int | None:
        """Return the mode that a member of the tree should have, or None to keep the present one.

        ``member`` is the source's, or the tree's own without a source, or None for a new top directory. Its mode is the
        base that a symbolic mode changes; of a source, the mode is copied without set-id bits and rights of others to
        write.
        """
        mode = self._should.get("mode")
        if member is not None and member.kind == "link":
            return None
        base = 0o755
        if member is not None:
            base = member.mode if self.source is None else member.mode & COPIED
        if mode is None:
            return None if self.source is None else base
        directory = member is None or member.kind == "directory"
        if mode[0].isdigit():
            return files.directory_mode(int(mode, 8)) if directory else int(mode, 8)
        return symbolic_mode.apply(mode, base, directory=directory)

    def _purged(self) -> list[str]:
        """Return the members to remove because the source lacks them, the deepest first, so that directories are empty.

        A directory with ignored files stays, as these must not be lost. Raise ``ResourceError`` for more than
        ``max_purged``, as after a mistake in the path of the source.
        """
        if not self._should.get("purge"):
            return []
        extra = [name for name in self.now.members if name not in self.expected and name not in self.now.with_ignored]
        if len(extra) > (most := self._should["max_purged"]):
            msg = (
                f"{len(extra)} files and directories are not in the source, such as {file_trees.listed(extra)};"
                f" at most {most} are purged, raise max_purged if that is right"
            )
            raise ResourceError(msg)
        return extra[::-1]

    def different(self, attribute: str) -> list[str]:
        """Return the members in which the tree differs from the declared value of an attribute, for ``insync``."""
        if attribute == "purge":
            return self.purged[::-1]  # for a message, in the order of the tree
        members = self.now.members
        if attribute == "source":
            with files.Directories() as directories:
                return [
                    name for name, expected in self.expected.items() if not self._copied(directories, name, expected)
                ]
        field = {"owner": "uid", "group": "gid", "mode": "mode"}[attribute]
        return [
            name
            for name, expected in self.expected.items()
            if name in members and getattr(expected, field) not in {None, getattr(members[name], field)}
        ]

    def _copied(self, directories: files.Directories, name: str, expected: Expected) -> bool:
        """Return whether a member agrees with ``source``: in kind, content and, if no mode is declared, mode."""
        member = self.now.members.get(name)
        if member is None or member.kind != expected.kind:
            return False
        same_mode = self._should.get("mode") is not None or expected.mode in {None, member.mode}
        return same_mode and self.has_content(directories, name, expected)

    def keeps_inode(self, name: str) -> bool:
        """Return whether a differing member gets its owner and mode in place, not by a new file."""
        return self.source is None or self.expected[name].kind == "directory"

    def has_content(self, directories: files.Directories, name: str, expected: Expected) -> bool:
        """Return whether a member of the right kind has the content or link target of its source."""
        member = self.now.members[name]
        if expected.kind == "link":
            return member.target == expected.target
        if expected.kind == "directory" or self.source is None:
            return True
        size = self._origin.members[name].size
        return member.size == size and file_trees.same_bytes(
            directories, file_trees.member_path(self.path, name), file_trees.member_path(self.source, name), size
        )


def _number(find: Callable[[str], int], owner: str | None, *, must_exist: bool) -> int | None:
    """Return the number of a declared user or group, or None if none is declared.

    An unknown owner is an error with ``must_exist``. Otherwise the number is -1, which no member has, so that all
    differ.
    """
    if owner is None:
        return None
    try:
        return find(owner)
    except (ResourceError, ValueError):
        if must_exist:
            raise
        return -1


def _remove(batch: files.Batch, backups: Backups, path: str, should: Mapping[str, Any]) -> None:
    """Remove a directory, copied for ``backup``. Raise ``ResourceError`` above ``max_files`` or at a mount point."""
    try:
        # Only for its errors: the limits hold for a removal too.
        file_trees.read_tree(path, file_trees.ignored(None), should["max_files"])
    except FileNotFoundError:
        return
    if should.get("backup"):
        backups.keep(path, should["backup"], at_once=True)
    batch.remove(path, recursive=True)


def _change(batch: files.Batch, backups: Backups, path: str, should: Mapping[str, Any]) -> None:
    """Bring a tree to its expected state: copy lost files, remove members, write new ones, set owners and modes.

    Raise ``ResourceError``, with nothing changed, for a member of another kind in the way.
    """
    compared = _Comparison(path, should, must_exist=True)
    members = compared.now.members
    kind_changes = _kind_changes(compared, force=should["force"])
    rewritten = [name for name in compared.expected if not _is_as_expected(batch, compared, name)]
    if backup := should.get("backup"):
        for name in _lost(compared, rewritten, kind_changes):
            backups.keep(file_trees.member_path(path, name), backup, at_once=False)
        backups.flush()
    for name in [*compared.purged, *kind_changes]:
        with suppress(FileNotFoundError):
            batch.remove(file_trees.member_path(path, name), recursive=name in kind_changes)
    # Members of which only the owner and mode are set, in place.
    changed = [
        name for name in rewritten if name in members and name not in kind_changes and compared.keeps_inode(name)
    ]
    for name in rewritten:
        if name not in changed:
            _write(batch, compared, name)
    # The deepest first: in a directory that belongs to another user already, nothing more is given away.
    for name in reversed(changed):
        expected = compared.expected[name]
        former, path = members[name].uid, file_trees.member_path(compared.path, name)
        batch.set_mode_owner(path, mode=expected.mode, uid=expected.uid, gid=expected.gid, former_uid=former)


def _kind_changes(compared: _Comparison, *, force: bool) -> list[str]:
    """Return the members to remove: the source has a directory where the tree has a file or link, or the reverse.

    Raise ``ResourceError`` without ``force``, and if ignored files would be lost.
    """
    members = compared.now.members
    names = [
        name
        for name, expected in compared.expected.items()
        if name in members
        and members[name].kind != expected.kind
        # A file and a link are not removed: ``_write`` replaces one by the other at once.
        and not {members[name].kind, expected.kind} <= {"file", "link"}
    ]
    if names and not force:
        msg = (
            f"is there, and something else in the source: {file_trees.listed(names)};"
            " with force it is replaced, and what is in it is lost"
        )
        raise ResourceError(msg)
    if with_ignored := [name for name in names if name in compared.now.with_ignored]:
        msg = f"cannot be replaced, because it contains what is ignored: {file_trees.listed(with_ignored)}"
        raise ResourceError(msg)
    return names


def _lost(compared: _Comparison, rewritten: Sequence[str], kind_changes: Sequence[str]) -> list[str]:
    """Return the members whose content a change loses, to copy them before: files, and directories of another kind.

    ``rewritten`` are the members that differ, ``kind_changes`` those that become another kind. The unfinished file of a
    killed run is not worth a copy.
    """
    members = compared.now.members
    purged = [name for name in compared.purged if not name.endswith(files.TEMPORARY_SUFFIX)]
    lost = [name for name in purged if members[name].kind == "file"]
    return lost + [
        name for name in rewritten if name in members and (name in kind_changes or members[name].kind == "file")
    ]


def _is_as_expected(batch: files.Batch, compared: _Comparison, name: str) -> bool:
    """Return whether a member has its expected kind, owner, mode and content, so that ``_change`` leaves it alone."""
    member, expected = compared.now.members.get(name), compared.expected[name]
    if member is None or member.kind != expected.kind:
        return False
    same = [getattr(expected, field) in {None, getattr(member, field)} for field in ("mode", "uid", "gid")]
    return all(same) and compared.has_content(batch.directories, name, expected)


def _write(batch: files.Batch, compared: _Comparison, name: str) -> None:
    """Create a member, or replace a file or link, with its owner and mode."""
    path, expected = file_trees.member_path(compared.path, name), compared.expected[name]
    if expected.kind == "directory":
        batch.make_directory(path, mode=expected.mode, uid=expected.uid, gid=expected.gid)
    elif expected.kind == "link":
        batch.make_link(path, expected.target, uid=expected.uid, gid=expected.gid)
    else:
        # Not in place: a process that holds the present file open could read the new content in spite of the new mode.
        content = file_trees.content(batch.directories, file_trees.member_path(compared.source or "", name))
        batch.replace(path, content, mode=expected.mode, uid=expected.uid, gid=expected.gid)
