"""Read and edit ``/etc/fstab``, and mount and unmount with mount(8) and umount(8)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lib import file_parts, prerequisites
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Command, Problem, ResourceError, SideEffect, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api import Change, Context, Resource

FSTAB = "/etc/fstab"
NO_DEVICE = f"it has no entry in {FSTAB}: declare its device"
#: The tags that can name a device, before ``=`` (fstab(5)).
TAGS = frozenset({"UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID"})
FIELDS = ("device", "name", "fstype", "options", "dump", "pass")
NEW = {"fstype": "auto", "options": "defaults", "dump": 0, "pass": 0}
#: Digits of a field that counts as a number.
LONGEST = 9
#: The most file systems that are unmounted from one mount point: each may cover another one.
LAYERS = 16


class Provider(BaseProvider):
    """The entries of fstab, and the mounts of declared mount points."""

    mount = Command("mount")
    umount = Command("umount")
    systemctl = Command("systemctl")

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Leave out needless slashes, and quotes around tags; write ``present`` for ``defined``: both mean the same."""
        for resource in resources:
            if "name" in resource:
                resource["name"] = files.canonical_path(resource["name"])
            if isinstance(resource.get("device"), str):
                resource["device"] = _canonical_device(resource["device"])
            if resource.get("ensure") == "defined":
                resource["ensure"] = "present"
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse secrets: all users can read the options of a mount."""
        return refused_secrets(should)

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Require an entry in fstab too, as a mount without one is gone after a restart.

        With ``present``, it does not matter whether the file system is mounted.
        """
        if attribute != "ensure":
            return None
        if not is_["entry"] and should["ensure"] == is_["ensure"]:
            return False, f"changed: it is mounted, and has no entry in {FSTAB}"
        return True if should["ensure"] == "present" and is_["entry"] else None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the entries of fstab, and of ``names`` also mount points without an entry.

        So a file system that was mounted by hand can be unmounted, or get an entry.
        """
        mounted = files.mount_points()
        rows: dict[str, Resource] = {}
        for line in files.read_lines(FSTAB):
            if entry := parse_line(files.printable(line)):
                state = "mounted" if entry["name"] in mounted else "unmounted"
                rows.setdefault(entry["name"], {"ensure": state, **entry, "entry": True})
        if names is None:
            yield from context.accepted([row for name, row in rows.items() if name.startswith("/")])
            return
        yield from context.accepted([rows[name] for name in names if name in rows])
        for name in names:
            if name not in rows and name in mounted:
                yield {"ensure": "mounted", "name": name, "entry": False}

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Mount or unmount each, then write its entry; have systemd read the entries once."""
        written = False
        for name, (is_, should) in changes.items():
            with context.processing(name, is_, should), file_parts.described(name):
                self._change(name, is_, should)
                written = True
        if written and os.path.isdir("/run/systemd/system"):  # noqa: PTH112 - a text
            self.systemctl("daemon-reload")

    def _change(self, name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Mount or unmount, and write or remove the entry. Raise ``ResourceError`` without a device."""
        if should["ensure"] == "absent":
            self._unmount(name)
            file_parts.edit_file(FSTAB, partial(edit, name=name, entry=None))
            return
        present = is_ if is_ is not None and is_["entry"] else None
        entry = {**NEW, **(present or {}), **{key: value for key, value in should.items() if value is not None}}
        if "device" not in entry:
            raise ResourceError(NO_DEVICE)
        self._set_state(present, entry)
        file_parts.edit_file(FSTAB, partial(edit, name=name, entry=entry))

    def refresh(self, context: Context, names: Sequence[str]) -> None:
        """Mount mounted file systems again, with the options of their entries, so that these take effect."""
        for name in names:
            with context.updating(name, message="Remounting"):
                if name in files.mount_points():
                    _check_mount_point(name)
                    self.mount("-o", "remount", "--", name)
                    context.updated(name, message="Remounted")
                else:
                    context.unchanged(name, message="Is not mounted")

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem for mount points that are missing or replaceable by other users, and for missing devices."""
        entries = {entry["name"] for entry in filter(None, map(parse_line, files.read_lines(FSTAB)))}
        for name, should in changes.items():
            if should["ensure"] == "mounted":
                yield from ((name, problem) for problem in _unusable(name, should))
            if should["ensure"] != "absent" and name not in entries and "device" not in should:
                yield name, Problem("device", NO_DEVICE)
        yield from prerequisites.written_in_place(dict.fromkeys(changes, FSTAB))

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the files out of reach after an unmount: all below the directory, but not the directory itself."""
        for name, (_, should) in changes.items():
            if should["ensure"] in {"absent", "unmounted"} and name in files.mount_points():
                yield name, SideEffect(f"{name.rstrip('/')}/", "hide", "file", dependent=True, tree=True)

    def _set_state(self, present: Mapping[str, Any] | None, entry: Mapping[str, Any]) -> None:
        """Mount or unmount as ``entry`` declares; ``present`` is the entry of fstab until now.

        New options are set by a remount; for another device or type, or if ``remounts`` is false, the file system is
        unmounted first.
        """
        name = entry["name"]
        if entry["ensure"] == "unmounted":
            self._unmount(name)
        if entry["ensure"] != "mounted":
            return
        _check_mount_point(name)
        if name in files.mount_points():
            differing = {key for key in ("device", "fstype", "options") if (present or {}).get(key) != entry[key]}
            if not differing:
                return
            # Without an entry until now, the mount is taken for the declared file system.
            is_another = bool(present and differing - {"options"})
            if entry["remounts"] and not is_another:
                # Not with the options of fstab, which are the old ones yet.
                self.mount("--options-mode", "ignore", "-o", f"remount,{entry['options']}", "--", name)
                return
            self._unmount(name)
        self.mount("-t", entry["fstype"], "-o", entry["options"], "--", entry["device"], name)

    def _unmount(self, name: str) -> None:
        """Unmount all file systems at a mount point, of which each may cover another one.

        If others can write to a directory above, they could give the name to another file system: then a descriptor of
        the directory is used instead of the name.
        """
        for _ in range(LAYERS):
            if name in files.mount_points():
                with files.Directories() as directories:
                    parent, last = directories.place(name)
                    if parent.trusted:
                        self.umount("--", name)
                    else:  # the name could lead to another file system
                        files.unmount(parent, last)


def parse_line(line: str) -> dict[str, Any] | None:
    """Return the fields of an entry of fstab in their canonical form, to compare it; None for any other line."""
    words = _words(line)
    if len(words) < 3 or words[0][0] == "#":  # noqa: PLR2004 - device, mount point and type
        return None
    # Missing fields at the end have their defaults, and further ones are ignored.
    device, name, fstype, options, dump, check = [*words, *("defaults", "0", "0")[len(words) - 3 :]][:6]
    numbers = [int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST else 0 for text in (dump, check)]
    device, name, fstype, options = map(_unescape, (device, name, fstype, options))
    mount_point = files.canonical_path(name) if name.startswith("/") else name
    texts = (_canonical_device(device), mount_point, fstype, options)
    return dict(zip(FIELDS, (*texts, *numbers), strict=True))


def _words(line: str) -> list[str]:
    """Return the words of a line: only blanks and tabs separate fields (fstab(5))."""
    return [word for word in line.replace("\t", " ").split(" ") if word]


def format_line(entry: Mapping[str, Any]) -> str:
    """Return the line of fstab for an entry: its fields separated by tabs, with blanks in them escaped."""
    return "\t".join(_escape(str(entry[field])) for field in FIELDS)


def edit(lines: files.Lines, name: str, entry: Mapping[str, Any] | None) -> None:
    """Set the entry of a mount point: its first line, or a new one; with None, remove all its lines."""
    numbers = [number for number, line in enumerate(lines) if (parse_line(line) or {}).get("name") == name]
    if entry is None:
        lines.delete(numbers)
    elif not numbers:
        lines.append(format_line(entry))
    elif any(entry[field] != value for field, value in (parse_line(lines[numbers[0]]) or {}).items()):
        # Words behind the fields, such as a comment, stay.
        lines[numbers[0]] = " ".join([format_line(entry), *_words(lines[numbers[0]])[len(FIELDS) :]])


def _escape(text: str) -> str:
    """Return a field of fstab with blanks, tabs, ``#`` and backslashes as octal numbers (fstab(5))."""
    return re.sub(r"[ \t\\#]", lambda match: f"\\{ord(match[0]):03o}", text)


def _unescape(text: str) -> str:
    r"""Return a field of fstab with bytes for its octal escapes, so that ``/my\040disk`` is the path ``/my disk``.

    A character of UTF-8 may have more than one escape.
    """
    if "\\" not in text:
        return text
    content = text.encode("utf-8", "surrogateescape")
    content = re.sub(rb"\\([0-3][0-7]{2})", lambda match: bytes([int(match[1], 8)]), content)
    return files.printable(content.decode("utf-8", "surrogateescape"))


def _canonical_device(device: str) -> str:
    """Return a device in its canonical form, so that equal devices are equal texts.

    A path is clean, a tag such as ``UUID=`` in capitals and without quotes, a share ``//host/name`` unchanged.
    """
    tag, equals, value = device.partition("=")
    if equals and tag.upper() in TAGS:
        quoted = len(value) > 1 and value[0] == value[-1] == '"'
        return f"{tag.upper()}={value[1:-1] if quoted else value}"
    return files.canonical_path(device) if device.startswith("/") and not device.startswith("//") else device


def _check_mount_point(name: str) -> None:
    """Raise ``ResourceError`` for a mount point that ``_refusal`` has a reason against."""
    if reason := _refusal(name):
        raise ResourceError(reason)


def _refusal(name: str) -> str:
    """Return the reason why nothing is mounted at a path, or "".

    A mount would follow a link, and other users could replace a directory on the path by one.
    """
    real = os.path.realpath(name)
    if real != name:
        return f"it is reached through a symbolic link; declare {real}"
    with files.Directories() as directories:
        if name == "/" or directories.place(name)[0].trusted:
            return ""
    return "other users can write to a directory on its path, and could have another place covered"


def _unusable(name: str, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for a mount point that is missing, or that other users can replace, as ``set`` would fail.

    A bind mount may cover a file; any other needs a directory.
    """
    is_bind = not {"bind", "rbind"}.isdisjoint((should.get("options") or "").split(","))
    if not (is_bind and os.path.isfile(name)):  # noqa: PTH113 - a text
        yield from prerequisites.missing_directory("name", name)
    with suppress(OSError):
        if os.path.lexists(name) and (reason := _refusal(name)):
            yield Problem("name", reason, needs=f"File[{name}]")
