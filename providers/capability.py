"""Read and set capabilities (capabilities(7)) on open files, so that no link and no rename redirects a right."""

from __future__ import annotations

import os
import stat
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lib import prerequisites
from lib.named_files import NO_FILE, read_each, reported
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from os import stat_result

    from resource_api import Change, Context, Resource

ATTRIBUTE = "security.capability"
#: In the order of their numbers (linux/capability.h).
NAMES = (
    *("chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap"),
    *("linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner"),
    *("sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice"),
    *("sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap"),
    *("mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf"),
    "checkpoint_restore",
)
NUMBERS = {f"cap_{name}": number for number, name in enumerate(NAMES)}
#: Revision and flag, then permitted and inheritable in two halves; revision 3 has the number of a root after them.
DATA, OWNED = struct.Struct("<5I"), struct.Struct("<6I")
REVISION, EFFECTIVE, HALF = 0x02000000, 1, 32


class Provider(BaseProvider):
    """The capabilities of the programs of the local machine."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write capabilities in the order of their numbers, and clean paths, so that equal values compare as equal."""
        for resource in resources:
            resource["path"] = files.canonical_path(resource["path"])
            text = resource.get("capability")
            if text is not None and not any(problems(text)):
                resource["capability"] = canonical(text)
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse capabilities that the kernel does not have or cannot store together."""
        yield from refused_secrets(should)
        if should.get("ensure") != "absent" and isinstance(should.get("capability"), str):
            yield from (Problem("capability", text) for text in problems(should["capability"]))

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], _should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Count capabilities of a user namespace as different: they have no effect outside it."""
        if attribute == "capability" and is_.get("root"):
            return False, f"is only for namespaces whose root is the user {is_['root']}"
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the capabilities of the files in ``names``; ``root`` is set for those of a user namespace."""
        unlisted = "any program can have capabilities; name it, or run: getcap -r /usr"
        for path, (status, attributes) in read_each(context, names, unlisted, files.stat_attributes, NO_FILE):
            if (data := attributes.get(ATTRIBUTE)) and stat.S_ISREG(status.st_mode):
                capabilities = decode(data)
                row = {"ensure": "present", "path": path, "capability": as_text(capabilities)}
                yield {**row, "root": capabilities.root} if capabilities.root else row

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem for each program that is missing, or that other users could change: ``set`` refuses it."""
        for path, should in changes.items():
            yield from ((path, problem) for problem in prerequisites.missing_file("path", path))
            try:
                with files.Batch() as batch:  # nothing is written: only the errors of the change are of interest
                    status_and_attributes = files.stat_attributes(batch.directories, path)
                    _change(*status_and_attributes, should=should, replaceable=batch.can_others_replace(path))
            except OSError:
                continue
            except ResourceError as error:
                yield path, Problem("path", str(error), needs=f"File[{path}]")

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one program after another, unless other users could use its capabilities: ``_change`` refuses this."""
        with files.Batch() as batch:
            for path, (_, should) in changes.items():
                with reported(context, path):
                    replaceable = batch.can_others_replace(path)
                    batch.edit_attributes(path, partial(_change, should=should, replaceable=replaceable))


def _change(
    status: stat_result, attributes: Mapping[str, bytes], *, should: Mapping[str, Any], replaceable: bool
) -> dict[str, bytes | None]:
    """Return the extended attribute with a program's new capabilities, None to remove it.

    Raise ``ResourceError`` for a program that other users can write to, or replace (``replaceable``): they would get
    its capabilities.
    """
    if should["ensure"] == "absent":
        return {ATTRIBUTE: None}
    if not stat.S_ISREG(status.st_mode):
        raise ResourceError("is not a regular file")
    if replaceable:
        msg = "other users can write to a directory on its path, so they could give the capabilities to any program"
        raise ResourceError(msg)
    writable = status.st_mode & 0o022 or "system.posix_acl_access" in attributes
    if writable or status.st_uid not in {0, os.geteuid()} or status.st_nlink > 1:
        msg = (
            "other users may write to it, so they could use the capabilities for anything: it must belong to root, with"
            " no right to write for others, no access control list and no other hard link"
        )
        raise ResourceError(msg)
    return {ATTRIBUTE: encode(parse(should.get("capability", "")))}


class Capabilities(NamedTuple):
    """The sets of a file as bits; ``effective`` is for all of them; ``root``: the root user of their namespace."""

    permitted: int = 0
    inheritable: int = 0
    effective: bool = False
    root: int = 0


def split(text: str) -> Iterator[tuple[str, str]]:
    """Yield each capability of a text with its flags, for ``parse``, ``canonical`` and ``problems``.

    ``cap_chown,cap_kill=ep`` yields ``("cap_chown", "ep")`` and ``("cap_kill", "ep")``; ``+`` means the same as ``=``.
    """
    for clause in text.split():
        names, _, letters = clause.replace("+", "=").partition("=")
        yield from ((name, letters) for name in names.lower().split(","))


def canonical(text: str) -> str:
    """Return the canonical form of a text, so that equal capabilities are equal texts: ``cap_chown,cap_kill=ep``.

    Names are sorted by the kernel's numbers, and those with the same flags form one clause.
    """
    groups: dict[str, list[str]] = {}
    for name, letters in sorted(dict(split(text)).items(), key=lambda item: NUMBERS.get(item[0], len(NAMES))):
        groups.setdefault("".join(letter for letter in "eip" if letter in letters), []).append(name)
    return " ".join(f"{','.join(names)}={letters}" for letters, names in groups.items())


def problems(text: str) -> Iterator[str]:
    """Yield the mistakes in a text that the data type accepts: the file could not hold such capabilities."""
    clauses = list(split(text))
    names = [name for name, _ in clauses]
    yield from (f"there is no capability '{name}'" for name in names if name not in NUMBERS)
    yield from (f"'{name}' is there more than once" for name in sorted({n for n in names if names.count(n) > 1}))
    if len({"e" in letters for _, letters in clauses}) > 1:
        yield "'e' is one flag of the file: give it to each capability or to none"
    if any(set(letters) == {"e"} for _, letters in clauses):
        yield "a capability that is effective is also permitted or inheritable: 'ep' or 'ei'"


def parse(text: str) -> Capabilities:
    """Return the capabilities in a valid text, as bits by the kernel's numbers, in which the file stores them."""
    permitted, inheritable = (
        sum(1 << NUMBERS[name] for name, letters in split(text) if letter in letters) for letter in "pi"
    )
    return Capabilities(permitted, inheritable, any("e" in letters for _, letters in split(text)))


def as_text(sets: Capabilities) -> str:
    """Return capabilities as text for ``get``: ``cap_chown=ep``.

    A capability that is newer than ``NAMES`` has its number in place of its name.
    """
    any_set = sets.permitted | sets.inheritable
    numbers = [number for number in range(2 * HALF) if any_set >> number & 1]
    clauses = []
    for number in numbers:
        name = f"cap_{NAMES[number]}" if number < len(NAMES) else f"cap_{number}"
        flags = (("e", sets.effective), ("i", sets.inheritable >> number & 1), ("p", sets.permitted >> number & 1))
        clauses.append(f"{name}={''.join(letter for letter, is_set in flags if is_set)}")
    return canonical(" ".join(clauses))


def decode(data: bytes) -> Capabilities:
    """Return the capabilities in a file's extended attribute (``vfs_cap_data`` of linux/capability.h), for ``get``.

    Only the longer form of a user namespace contains the number of its root; otherwise this is 0.
    """
    first, low, low_inheritable, high, high_inheritable = DATA.unpack(data[: DATA.size])
    root = OWNED.unpack(data)[-1] if len(data) == OWNED.size else 0
    return Capabilities(low | high << HALF, low_inheritable | high_inheritable << HALF, bool(first & EFFECTIVE), root)


def encode(sets: Capabilities) -> bytes:
    """Return the extended attribute for capabilities, as the kernel reads it: the lower 32 bits of all sets first."""
    half = (1 << HALF) - 1
    halves = [bits >> shift & half for shift in (0, HALF) for bits in (sets.permitted, sets.inheritable)]
    return DATA.pack(REVISION | (EFFECTIVE if sets.effective else 0), *halves)
