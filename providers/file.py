"""Read files without following links or blocking, and change many files in one durable batch."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack, suppress
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from lib import prerequisites, removed_directories, sensitive, symbolic_mode, validate_cmd
from resource_api import Asset, BaseProvider, CannotList, Problem, ResourceError, Sensitive, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from os import stat_result

    from lib.backups import Backups
    from resource_api import Change, Context, Resource, SideEffect

#: Longest content in bytes that is read, and that is written from a text.
LIMIT = 1 << 20
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
#: The attributes of which a file is made.
CONTENTS = ("content", "source")
SPECIAL = {
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


class Provider(BaseProvider):
    """The files of the local machine."""

    def __init__(self) -> None:
        """Start without cached numbers of owners, and without copies."""
        self._ids: dict[tuple[Any, Any], int] = {}
        self._backups: Backups | None = None

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Remove needless slashes and dots from paths; write owners' numbers as text, and modes with four digits.

        A declared mode becomes the one that a directory will get, and None for a link, which has none. The mode in a
        row of ``get`` is the present one, so it stays as it is.
        """
        for resource in resources:
            path = resource.get("path", "/")
            # Few paths need the call, which takes long for thousands of files.
            if "//" in path or "/." in path or (path[-1] == "/" and path != "/"):
                resource["path"] = files.canonical_path(path)
            if resource.get("ensure") == "present":
                resource["ensure"] = "link" if resource.get("target") is not None else "file"
            mode = resource.get("mode")
            if mode is not None and "uid" not in resource:  # only a row of ``get`` has the number of its owner
                resource["mode"] = _canonical_mode(mode, resource.get("ensure"))
            for attribute in ("owner", "group"):
                owner = resource.get(attribute)
                if owner is not None and (number := files.owner_number(owner)) is not None:
                    resource[attribute] = str(number)
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> list[Problem]:
        """Refuse attributes that exclude each other, and the removal of system directories.

        The other attributes of an absent file have no effect, and are not checked.
        """
        ensure, problems = should.get("ensure"), list(sensitive.refused_secrets(should, *CONTENTS))
        if ensure == "absent":
            protected = should.get("path") in files.PROTECTED_DIRECTORIES
            return [Problem("ensure", "a system directory is never removed")] if protected else []
        declared = {attribute for attribute in (*CONTENTS, "target") if should.get(attribute) is not None}
        if {"content", "source"} <= declared:
            problems.append(Problem("source", "content and source exclude each other"))
        if ensure not in {None, "file"}:
            problems += [Problem(word, f"a {ensure} has no {word}") for word in CONTENTS if word in declared]
        if ensure not in {None, "link"} and "target" in declared:
            problems.append(Problem("target", f"a {ensure} has no target; only ensure: link has one"))
        if ensure == "link" and "target" not in declared:
            problems.append(Problem("target", "a link needs a target"))
        if (command := should.get("validate_cmd")) is not None:
            problems += validate_cmd.problems("validate_cmd", command)
        if _has_secret(should):
            problems += sensitive.shown_by_mode(should.get("mode"), sensitive.secret_attributes(should, *CONTENTS))
        content = _reveal(should.get("content"))
        if isinstance(content, str) and len(content.encode("utf-8", "surrogatepass")) > LIMIT:
            problems.append(Problem("content", f"content is for texts up to {LIMIT} bytes; use source"))
        return problems

    def insync(
        self, _context: Context, name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Return whether an attribute is in sync, or None if the runtime compares it by equality.

        Equality is not enough for owners by number, symbolic modes, assets, which are compared by their SHA-256, and a
        source: ``get`` cannot return the origin of a copy.
        """
        if attribute == "ensure" or (attribute == "content" and type(should["content"]) is str):
            return None
        if attribute in {"owner", "group"}:
            number = files.owner_number(should[attribute])
            return None if number is None else bool(is_.get("uid" if attribute == "owner" else "gid") == number)
        if attribute == "mode":
            mode = _octal_mode(should["mode"], is_["ensure"], is_.get("mode")) if should["mode"] else None
            if is_["ensure"] == "link" or mode in {None, is_.get("mode")}:
                return True
            # The message has the octal mode that a symbolic one results in.
            return None if mode == should["mode"] else (False, f"changed from {is_.get('mode')} to {mode}")
        if isinstance(asset := _reveal(should[attribute]), Asset):
            return _compared_asset(name, is_, asset, secret=isinstance(should[attribute], Sensitive))
        if attribute == "source":
            same = is_["ensure"] == "file" and _same_bytes(name, should["source"])
            return same or (False, f"differs from {should['source']}")
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the files in ``names``. Raise ``CannotList`` without them, as a machine has too many files."""
        if names is None:
            raise CannotList("files cannot be listed; name them")
        return self._rows(context, names)

    def _rows(self, context: Context, names: Collection[str]) -> Iterator[Resource]:
        """Yield the rows one by one, so that few contents are in memory; an unreadable file fails alone."""
        # Many files have the same kind, mode and owner: (mode, uid, gid) → these attributes.
        status_rows: dict[tuple[int, int, int], Resource] = {}
        with files.Directories() as directories:
            for path in names:
                try:
                    status, content = files.stat_and_read(directories, path, LIMIT)
                    key = status.st_mode, status.st_uid, status.st_gid
                    row = {"path": path, **(status_rows.get(key) or status_rows.setdefault(key, _status_row(status)))}
                    if content is not None:
                        row |= _content_row(content)
                    elif row["ensure"] == "link":
                        row["target"] = directories.target(path)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except (OSError, ValueError, ResourceError) as error:
                    context.failed(path, message=_message(error, path))
                    continue
                yield row

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites of a file, as its directory, owner or source, and a conflict of kinds."""
        return prerequisites.of_files(
            changes,
            lambda path, should: [
                *prerequisites.missing_place(path, should),
                *prerequisites.missing_file("source", _reveal(should.get("source"))),
                *prerequisites.missing_checker(should.get("validate_cmd")),
                *_kind_problems(path, should),
            ],
        )

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the content of directories that are removed or replaced: a plan shows the effects of ``force``."""
        return removed_directories.side_effects(
            path
            for path, (is_, should) in changes.items()
            if is_ and is_["ensure"] == "directory" and should.get("force")
        )

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change all files in one batch, whose flush makes all of them durable together.

        The batch is flushed before a changed file is read as the source of another.
        """
        self._ids.clear()
        written: set[str] = set()
        self._backups = None
        with ExitStack() as stack, files.Batch() as batch:
            for path, change in changes.items():
                if change.should.get("source") in written:
                    self._flush(context, batch)
                    written.clear()
                try:
                    self._apply(batch, stack, path, change)
                except (OSError, ValueError, ResourceError) as error:
                    if self._backups is not None:
                        # The file has not changed, so its copy is needless.
                        self._backups.discard(path)
                    context.failed(path, message=_message(error, path))
                else:
                    written.add(path)
            self._flush(context, batch)

    def _apply(self, batch: files.Batch, stack: ExitStack, path: str, change: Change) -> None:
        """Apply one change of a file, directory or link, as steps of ``batch``.

        Only with ``force`` a directory with content is removed, and one kind replaces the other where one is a
        directory. ``stack`` closes the store of the copies for ``backup``.
        """
        is_, should = change
        present_kind = "absent" if is_ is None else is_["ensure"]
        ensure, force = should.get("ensure", present_kind), should.get("force", False)
        keep = partial(self._keep, stack, path, should.get("backup"))
        if ensure == "absent":
            # Without force only an empty directory or a link goes, which needs no copy.
            if force or present_kind == "file":
                keep(at_once=True)
            with suppress(FileNotFoundError):
                batch.remove(path, recursive=force)
            return
        if present_kind not in {"absent", ensure} and "directory" in {present_kind, ensure}:
            if not force:
                raise ResourceError(_conflict(present_kind, ensure))
            keep(at_once=True)
            batch.remove(path, recursive=True)
            # From here on it is a new file.
            change = change._replace(is_=None)
        self._write(batch, path, change, ensure, keep)

    def _write(self, batch: files.Batch, path: str, change: Change, ensure: str, keep: Callable[..., None]) -> None:
        """Make or change a file, directory or link, by ``ensure``; the caller has removed a directory in its way.

        ``keep`` copies the present file before a replacement.
        """
        is_, should = change
        owner = {
            "uid": self._id(files.user_id, should.get("owner")),
            "gid": self._id(files.group_id, should.get("group")),
        }
        mode = _new_mode(is_, should, ensure)
        # If another user may write to the file or replace it, even the right content goes into a new file.
        reusable = not _held_by_another(is_, owner["uid"]) and not batch.can_others_replace(path)
        if ensure == "link":
            if is_ is None or is_.get("target") != should["target"]:
                keep(at_once=True)
                batch.make_link(path, should["target"], **owner)
            else:
                batch.set_mode_owner(path, **owner, former_uid=is_.get("uid"))
        elif ensure == "directory" and is_ is None:
            batch.make_directory(path, mode=mode, **owner)
        elif ensure == "file" and (content := _content(path, is_, should, reusable=reusable)) is not None:
            keep(at_once=False)
            batch.replace(path, content, mode=mode, **owner, check=_check(batch, path, should.get("validate_cmd")))
        else:
            batch.set_mode_owner(path, mode=mode, **owner, former_uid=None if is_ is None else is_.get("uid"))

    def _keep(self, stack: ExitStack, path: str, backup: Any, *, at_once: bool) -> None:
        """Copy the present file, directory or link before its change, if ``backup`` is declared.

        The copy is durable ``at_once``, as a removal needs it, or after ``_flush``, for all files together.
        """
        if backup:
            if self._backups is None:
                from lib.backups import Backups  # few runs keep copies, and their store takes long to import

                self._backups = stack.enter_context(Backups())
            self._backups.keep(path, backup, at_once=at_once)

    def _flush(self, context: Context, batch: files.Batch) -> None:
        """Replace the old files by the new ones, after the copies of the old ones are on disk."""
        if self._backups is not None:
            self._backups.flush()
        for path, error in batch.flush():
            context.failed(path, message=_message(error, path))

    def _id(self, lookup: Callable[[int | str], int], owner: int | str | None) -> int | None:
        """Return the number of a user or group, or None; each is looked up once per call of ``set``."""
        if owner is None:
            return None
        if (lookup, owner) not in self._ids:
            self._ids[lookup, owner] = lookup(owner)
        return self._ids[lookup, owner]


def _has_secret(should: Mapping[str, Any]) -> bool:
    """Return whether a file's content is secret, so that only its owner may read a new one."""
    return type(should.get("content")) is Sensitive or type(should.get("source")) is Sensitive


def _content(
    path: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any], *, reusable: bool
) -> bytes | Iterator[bytes] | None:
    """Return the content that ``_write`` gives a file, or None to leave the present content in place.

    It stays if it is right and no other user can change it (``reusable``), or if none is declared. A new file without a
    declared content is empty.
    """
    exists = is_ is not None and is_["ensure"] == "file"
    can_stay = exists and reusable
    content, source = _reveal(should.get("content")), _reveal(should.get("source"))
    asset = content if isinstance(content, Asset) else source
    if isinstance(asset, Asset):
        return None if can_stay and _digest(path, is_) == asset.sha256 else files.parts(asset.open)
    if content is not None:
        return None if can_stay and is_ is not None and is_.get("content") == content else content.encode()
    if source is not None:
        return None if can_stay and _same_bytes(path, source) else files.parts(partial(files.open_source, source))
    return None if exists else b""


def _held_by_another(is_: Mapping[str, Any] | None, uid: int | None) -> bool:
    """Return whether another user may hold a file open for writing, and so could still change it after its new mode.

    That user is the former owner, or one to whom the mode gave the right. The content then goes into a new file.
    ``uid`` is the new owner.
    """
    if is_ is None:
        return False
    taken_over = uid is not None and is_.get("uid", uid) not in {0, uid, os.geteuid()}
    return taken_over or bool(int(is_.get("mode", "0"), 8) & 0o022)


def _compared_asset(path: str, is_: Mapping[str, Any], asset: Asset, *, secret: bool) -> bool | tuple[bool, str]:
    """Return whether a file has the content of an asset, for ``insync``; for another content with a message.

    The message names both contents, and is left out for a ``secret`` one.
    """
    digest = _digest(path, is_)
    if digest == asset.sha256:
        return True
    former = Asset(digest) if digest else "something else"
    return False if secret else (False, f"changed from {former} to {asset}")


def _digest(path: str, is_: Mapping[str, Any] | None) -> str:
    """Return the SHA-256 of a file, to compare it with an asset's, or "" for anything but a file.

    The row of ``get`` contains it, except for a file longer than ``LIMIT``, which is read here.
    """
    if is_ is None or is_["ensure"] != "file" or "checksum" in is_:
        return str((is_ or {}).get("checksum", ""))
    import hashlib  # slow to import, and needed for large files only

    with files.open_source(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _same_bytes(path: str, source: str) -> bool:
    """Compare a file with its source up to the first difference, without a checksum of both; a missing one differs."""
    try:
        first, second = (files.parts(partial(files.open_source, name)) for name in (path, source))
        return all(one == another for one, another in zip_longest(first, second))
    except FileNotFoundError:
        return False


def _status_row(status: stat_result) -> Resource:
    """Return the part of a file's row that its status contains. Raise ``ResourceError`` for a special file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind not in KINDS:
        raise ResourceError(f"is a {SPECIAL.get(kind, 'special file')}, which is not managed")
    row = {
        "ensure": KINDS[kind],
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "uid": status.st_uid,
        "gid": status.st_gid,
    }
    if kind == stat.S_IFLNK:
        del row["mode"]
    return row | {"owner": files.user_name(status.st_uid), "group": files.group_name(status.st_gid)}


def _content_row(content: bytes) -> Resource:
    """Return the part of a file's row about its content: the text and its SHA-256.

    Bytes that are not UTF-8 have only the SHA-256, as an attribute holds text.
    """
    checksum = files.sha256(content)
    try:
        return {"content": content.decode(), "checksum": checksum}
    except UnicodeDecodeError:
        return {"checksum": checksum}


def _canonical_mode(mode: str, ensure: str | None) -> str | None:
    """Return a declared mode with four digits, so that equal modes are equal texts; None for a link.

    A directory gets the right to search beside each right to read: ``0755`` for ``644``.
    """
    if ensure == "link":
        return None
    if ensure == "directory" and mode[0].isdigit():
        return f"{files.directory_mode(int(mode, 8)):04o}"
    return f"0{mode}" if len(mode) == 3 and mode.isdigit() else mode  # noqa: PLR2004 - digits


def _new_mode(is_: Mapping[str, Any] | None, should: Mapping[str, Any], ensure: str) -> int | None:
    """Return the mode that a change sets, or None for no change.

    A new file with a secret gets the mode 0600 unless a mode is declared, so that no other user can read it.
    """
    present_kind, base = ("absent", None) if is_ is None else (is_["ensure"], is_.get("mode"))
    # A declared symbolic mode such as ``g+r`` then adds to 0600, not to the default 0644.
    if ensure == "file" and present_kind != "file" and _has_secret(should):
        base = "0600"
    mode = should.get("mode", None if present_kind == ensure else base)
    return None if mode is None else int(_octal_mode(mode, ensure, base), 8)


def _octal_mode(mode: str, ensure: str, present: str | None) -> str:
    """Return the octal mode for a declared one, to compare it with the present mode and to set it.

    A symbolic mode such as ``g+w`` changes the ``present`` mode, or without one the default.
    """
    directory = ensure == "directory"
    if not mode[0].isdigit():
        number = int(present or ("0755" if directory else "0644"), 8)
        return f"{symbolic_mode.apply(mode, number, directory=directory):04o}"
    return f"{files.directory_mode(int(mode, 8)):04o}" if directory else mode


def _check(batch: files.Batch, path: str, command: Any) -> Callable[[str], None] | None:
    """Return the check of a file's new content, or None. Raise ``ResourceError`` if other users could replace it."""
    return None if command is None else validate_cmd.of_new_content(batch, path, command)


def _kind_problems(path: str, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem if a directory is in the place of another kind, or the reverse: only ``force`` replaces it."""
    ensure = should.get("ensure", "absent")
    if ensure == "absent" or should.get("force") or not os.path.lexists(path):
        return
    kind = "link" if os.path.islink(path) else "directory" if os.path.isdir(path) else "file"  # noqa: PTH112, PTH114 - a text
    if kind != ensure and "directory" in {kind, ensure}:
        # ``needs`` is this resource itself: only a change of a required one, which may remove the file, hides this.
        yield Problem("ensure", _conflict(kind, ensure), needs=f"File[{path}]")


def _conflict(kind: str, ensure: str) -> str:
    """Return the error for a file of another kind than declared, with the consequence of ``force``."""
    declare = "" if kind == "file" else f": declare 'ensure: {kind}' to keep it"
    lost = "what it leads to stays" if kind == "link" else "what is in it is lost"
    return f"it is a {kind} and should be a {ensure}{declare}; with force it is replaced, and {lost}"


def _reveal(value: Any) -> Any:
    return value.reveal() if isinstance(value, Sensitive) else value


def _message(error: Exception, path: str) -> str:
    """Return an error as text, with the advice ``force`` for a directory that is not empty."""
    text = files.describe_error(error, path)
    not_empty = isinstance(error, OSError) and error.errno == errno.ENOTEMPTY
    return f"{text}; with force it is removed with all that is in it" if not_empty else text
