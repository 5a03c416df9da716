"""Reads files without following or blocking, and changes them durably, many at once."""

from __future__ import annotations

import errno
import grp
import hashlib
import pwd
import stat
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from resource_api import Asset, BaseProvider, CannotList, Problem, ResourceError, Sensitive
from resource_api.system.filesystem import files
from resource_api.system.filesystem import remove_tree as trees
from resource_api.system.filesystem.directories import Directories

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from os import stat_result

    from resource_api import Change, Context, Resource

#: Longer contents are not read, and not written from text.
LIMIT = 1 << 20
PART = 1 << 18
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
SPECIAL = {
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


class Provider(BaseProvider):
    """The files of the local machine."""

    def __init__(self) -> None:
        """Know no owner yet."""
        self._ids: dict[tuple[Any, Any], int] = {}

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Spell paths without needless slashes and dots, modes with four digits, numbers of owners as text."""
        for resource in resources:
            path = resource.get("path", "/")
            if "//" in path or "/." in path or (path[-1] == "/" and path != "/"):
                resource["path"] = "/" + "/".join(part for part in path.split("/") if part not in {"", "."})
            if resource.get("ensure") == "present":
                resource["ensure"] = "link" if resource.get("target") is not None else "file"
            mode = resource.get("mode")
            if mode is not None and len(mode) != 4:  # noqa: PLR2004 - digits
                resource["mode"] = f"0{mode}"
            for attribute in ("owner", "group"):
                owner = resource.get(attribute)
                if owner is not None and (type(owner) is int or owner.isdecimal()):
                    resource[attribute] = str(int(owner))
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> list[Problem]:
        """Refuse what excludes each other, and the end of the system."""
        ensure = should.get("ensure")
        if ensure == "absent":
            protected = should.get("path") in trees.PROTECTED
            return [Problem("ensure", "a directory of the system is never removed")] if protected else []
        given = {attribute for attribute in ("content", "source", "target") if should.get(attribute) is not None}
        problems = []
        if {"content", "source"} <= given:
            problems.append(Problem("source", "content and source exclude each other"))
        if ensure not in {None, "file"}:
            problems += [Problem(word, f"a {ensure} has no {word}") for word in ("content", "source") if word in given]
        if ensure not in {None, "link"} and "target" in given:
            problems.append(Problem("target", f"a {ensure} has no target; only ensure: link has one"))
        if ensure == "link" and "target" not in given:
            problems.append(Problem("target", "a link needs a target"))
        content = _text(should.get("content"))
        if isinstance(content, str) and len(content.encode("utf-8", "surrogatepass")) > LIMIT:
            problems.append(Problem("content", f"content is for texts up to {LIMIT} bytes; use source"))
        return problems

    def insync(
        self, _context: Context, name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare owners by number where a number is given, a directory's mode as it will be, assets by their digest.

        A source that is a file is read here: nothing that ``get`` could return says which file is the source.
        """
        if attribute == "ensure" or (attribute == "content" and type(should["content"]) is str):
            return None
        if attribute in {"owner", "group"}:
            number = _number(should[attribute])
            return None if number is None else bool(is_.get("uid" if attribute == "owner" else "gid") == number)
        if attribute == "mode":
            mode = _mode(should["mode"], is_["ensure"])
            if is_["ensure"] == "link" or is_.get("mode") == mode:
                return True
            return None if mode == should["mode"] else (False, f"changed from {is_.get('mode')} to {mode}")
        if isinstance(asset := _text(should[attribute]), Asset):
            digest = _digest(name, is_)
            told = "" if isinstance(should[attribute], Sensitive) else f"changed from {_brief(digest)} to {asset}"
            return digest == asset.sha256 or ((False, told) if told else False)
        if attribute == "source":
            same = is_["ensure"] == "file" and _same_bytes(name, should["source"])
            return same or (False, f"is not what {should['source']} is")
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Read the files asked for; whose directory does not exist do not exist."""
        if names is None:
            msg = "files cannot be listed; name them"
            raise CannotList(msg)
        return self._rows(context, names)

    def _rows(self, context: Context, names: Collection[str]) -> Iterator[Resource]:
        """Give one row after the other: they need not be there all at once."""
        heads: dict[tuple[int, int, int], Resource] = {}
        with Directories() as held:
            for path in names:
                try:
                    seen, content = files.look(held, path, LIMIT)
                    key = seen.st_mode, seen.st_uid, seen.st_gid
                    row = {"path": path, **(heads.get(key) or heads.setdefault(key, _head(seen)))}
                    if content is not None:
                        row |= _shown(content)
                    elif row["ensure"] == "link":
                        row["target"] = held.target(path)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except (OSError, ValueError, ResourceError) as error:
                    context.failed(path, message=_why(error, path))
                    continue
                yield row

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change everything in one batch; files appear together at its end, or before one of them is a source."""
        self._ids.clear()
        written: set[str] = set()
        with files.Batch() as batch:
            for path, change in changes.items():
                if change.should.get("source") in written:
                    _flush(context, batch)
                    written.clear()
                try:
                    self._apply(batch, path, *change)
                except (OSError, ValueError, ResourceError) as error:
                    context.failed(path, message=_why(error, path))
                else:
                    written.add(path)
            _flush(context, batch)

    def _apply(self, batch: files.Batch, path: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Bring one thing to what it should be; a directory is destroyed or takes a place only by force."""
        found = "absent" if is_ is None else is_["ensure"]
        ensure, force = should.get("ensure", found), should.get("force", False)
        if ensure == "absent":
            with suppress(FileNotFoundError):
                batch.remove(path, recursive=force)
            return
        if found not in {"absent", ensure} and "directory" in {found, ensure}:
            if not force:
                msg = f"it is a {found} and should be a {ensure}; with force it is replaced, and what is in it is lost"
                raise ResourceError(msg)
            batch.remove(path, recursive=True)
            found, is_ = "absent", None
        owner = {"uid": self._id(pwd.getpwnam, should.get("owner")), "gid": self._id(grp.getgrnam, should.get("group"))}
        mode = should.get("mode")
        mode = None if mode is None else int(_mode(mode, ensure), 8)
        if ensure == "link":
            if is_ is None or is_.get("target") != should["target"]:
                batch.make_link(path, should["target"], **owner)
            else:
                batch.set_mode_owner(path, **owner)
        elif ensure == "directory" and found == "absent":
            batch.make_directory(path, mode=mode, **owner)
        elif ensure == "file" and (content := _content(path, is_, should)) is not None:
            batch.replace(path, content, mode=mode, **owner)
        else:
            batch.set_mode_owner(path, mode=mode, **owner)

    def _id(self, lookup: Callable[[str], Any], owner: int | str | None) -> int | None:
        """Give the number of a user or a group, looked up once per call."""
        if owner is None:
            return None
        if (number := _number(owner)) is not None:
            return number
        if (lookup, owner) not in self._ids:
            try:
                self._ids[lookup, owner] = lookup(str(owner))[2]
            except KeyError:
                msg = f"there is no {'user' if lookup is pwd.getpwnam else 'group'} '{owner}'"
                raise ResourceError(msg) from None
        return self._ids[lookup, owner]


def _flush(context: Context, batch: files.Batch) -> None:
    for path, error in batch.flush():
        context.failed(path, message=_why(error, path))


def _content(path: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> bytes | Iterator[bytes] | None:
    """Give what to write into a file; None when it can stay."""
    exists = is_ is not None and is_["ensure"] == "file"
    content, source = _text(should.get("content")), _text(should.get("source"))
    asset = content if isinstance(content, Asset) else source
    if isinstance(asset, Asset):
        return None if exists and _digest(path, is_) == asset.sha256 else _asset_parts(asset)
    if content is not None:
        return None if exists and is_ is not None and is_.get("content") == content else content.encode()
    if source is not None:
        return None if exists and _same_bytes(path, source) else _parts(source)
    return None if exists else b""


def _parts(path: str) -> Iterator[bytes]:
    with files.source(path) as stream:
        while part := stream.read(PART):
            yield part


def _asset_parts(asset: Asset) -> Iterator[bytes]:
    with asset.open() as stream:
        while part := stream.read(PART):
            yield part


def _digest(path: str, is_: Mapping[str, Any] | None) -> str:
    """Give the SHA-256 of a file that was read, or of one that is too long for that; empty for anything else."""
    if is_ is None or is_["ensure"] != "file" or "checksum" in is_:
        return str((is_ or {}).get("checksum", ""))
    digest = hashlib.sha256()
    for part in _parts(path):
        digest.update(part)
    return digest.hexdigest()


def _brief(digest: str) -> str:
    return str(Asset(digest)) if digest else "something else"


def _same_bytes(path: str, source: str) -> bool:
    """Compare two files, up to the first difference; what cannot be compared yet is not the same."""
    try:
        left, right = _parts(path), _parts(source)
        return all(mine == its for mine, its in zip_longest(left, right))
    except FileNotFoundError:
        return False


def _head(seen: stat_result) -> Resource:
    """Give what the system says of a file before it is opened."""
    kind = stat.S_IFMT(seen.st_mode)
    if kind not in KINDS:
        msg = f"is a {SPECIAL.get(kind, 'special file')}, which is not managed"
        raise ResourceError(msg)
    head = {"ensure": KINDS[kind], "mode": f"{stat.S_IMODE(seen.st_mode):04o}", "uid": seen.st_uid, "gid": seen.st_gid}
    if kind == stat.S_IFLNK:
        del head["mode"]
    return head | {"owner": _name(pwd.getpwuid, seen.st_uid), "group": _name(grp.getgrgid, seen.st_gid)}


def _shown(content: bytes) -> Resource:
    checksum = hashlib.sha256(content).hexdigest()
    try:
        return {"content": content.decode(), "checksum": checksum}
    except UnicodeDecodeError:
        return {"checksum": checksum}


def _name(lookup: Callable[[int], Any], number: int) -> str:
    """Give the name of a user or a group, its number when it has none."""
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def _number(owner: object) -> int | None:
    """Give the number that an owner is given by; None for a name, or nothing."""
    return int(owner) if isinstance(owner, int) or (isinstance(owner, str) and owner.isdecimal()) else None


def _mode(mode: str, ensure: str) -> str:
    """Give a mode as it is on what ``ensure`` names: whoever may read a directory may enter it, as Puppet has it."""
    bits = int(mode, 8)
    return f"{bits | (bits & 0o444) >> 2:04o}" if ensure == "directory" else mode


def _text(content: Any) -> Any:
    return content.reveal() if isinstance(content, Sensitive) else content


def _why(error: Exception, path: str) -> str:
    """Say what the system said, without its numbers; where it happened, if that is somewhere else."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    text = error.strerror[:1].lower() + error.strerror[1:]
    if error.errno == errno.ENOTEMPTY:
        text += "; with force it is removed with all that is in it"
    place = error.filename
    return f"{text}: {place}" if isinstance(place, str) and place.startswith("/") and place != path else text
