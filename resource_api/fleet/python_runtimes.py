"""Runtimes: archives with a Python interpreter, for hosts that have none; added once, sent when a host asks for one.

What an archive fits is read from it: the machine and the C library from the interpreter's header (ELF), the version of
glibc from the symbols that its programs and modules need. It is packed again, so that a host needs only tar and gzip.
"""

from __future__ import annotations

import json
import re
import struct
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from resource_api.fleet.become_and_interpreter import Machine
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.assets import Limits
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.system.filesystem import archive_members, files
from resource_api.system.filesystem.directories import make_directory, state_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.model.values.assets import Member

#: Most bytes of an archive, packed; and unpacked, with its members.
LARGEST: Final = 256 << 20
_LIMITS: Final = Limits(1 << 30, 50_000)
_LARGEST_DESCRIPTION: Final = 64 << 10
#: The oldest Python that runs what is sent to a host.
_OLDEST: Final = (3, 11)
#: ELF's e_machine → what ``uname -m`` prints.
_MACHINES: Final = {21: "ppc64le", 22: "s390x", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_PROGRAM_INTERPRETER: Final = 3
_ELF: Final = b"\x7fELF"
_XZ: Final = b"\xfd7zX"
_PYTHON: Final = re.compile(r"(?P<top>(?:[^/]+/)?)bin/python3")
_VERSIONED: Final = re.compile(r"(?:[^/]+/)?bin/python(3)\.(\d{1,3})")
_GLIBC: Final = re.compile(rb"GLIBC_2\.(\d{1,3})\0")
#: What a run never imports, and compiled files, which the host writes anew.
_LEFT_OUT: Final = re.compile(
    r"include/|share/|.*\.a\Z|.*/__pycache__/|lib/(?:itcl|pkgconfig|tcl|thread|tk)|"
    r"lib/python[^/]*/(?:config-|ensurepip|idlelib|lib2to3|pydoc_data|site-packages|test|tkinter|turtledemo)"
)
#: The C library itself, which may be in an archive, says nothing about what is needed.
_LIBC: Final = re.compile(r".*/(?:ld-|lib(?:c|dl|m|pthread|rt|util)[.-])[^/]*")


class Runtime(NamedTuple):
    """One runtime that was added."""

    digest: str
    #: ``3.12``.
    python: str
    machine: Machine
    size: int

    def document(self) -> dict[str, Any]:
        """Return it as JSON data."""
        libc = ".".join(map(str, self.machine.version))
        return {**self._asdict(), "machine": self.machine.machine, "libc": self.machine.libc, "libc_version": libc}


class Runtimes:
    """The runtimes of one user."""

    def __init__(self, directory: str) -> None:
        """Keep them in a directory, which need not exist."""
        self._directory = Path(directory)

    def all(self) -> list[Runtime]:
        """Return what was added, the newest Python first. Raise ``ResourceError`` for a damaged description."""
        found = list(map(_read, self._directory.glob("*.json")))
        return sorted(found, key=lambda each: (_version(each.python), each.digest), reverse=True)

    def find(self, host: Machine) -> tuple[str, bytes] | None:
        """Return digest and bytes of the newest runtime that fits a host; None: there is none.

        Raise ``ResourceError`` where it cannot be read.
        """
        for runtime in self.all():
            machine = runtime.machine
            if machine[:2] == host[:2] and machine.version <= host.version:
                path = f"{self._directory}/{runtime.digest}.tar.gz"
                try:
                    return runtime.digest, files.read(path, LARGEST)
                except OSError as error:
                    msg = f"{path}: {error.strerror}; add the runtime again"
                    raise ResourceError(msg) from error
        return None

    def add(self, path: str) -> Runtime:
        """Add the archive of a file. Raise ``UsageError`` for one that is no runtime, and ``OSError``."""
        with _opened(path) as file:
            python, top, machine = _inspect(path, file)
            raw = _packed(file, top)
        runtime = Runtime(sha256(raw).hexdigest(), python, machine, len(raw))
        make_directory(str(self._directory))
        files.replace(str(self._directory / f"{runtime.digest}.tar.gz"), raw, mode=0o600)
        document = json.dumps(runtime.document()).encode()
        files.replace(str(self._directory / f"{runtime.digest}.json"), document, mode=0o600)
        return runtime


def _read(file: Path) -> Runtime:
    """Return the runtime that a file describes. Raise ``ResourceError``."""
    try:
        found = json.loads(files.read(str(file), _LARGEST_DESCRIPTION))
        first, second = map(int, found["libc_version"].split("."))
        machine = Machine(str(found["machine"]), str(found["libc"]), (first, second))
        runtime = Runtime(str(found["digest"]), str(found["python"]), machine, int(found["size"]))
        _version(runtime.python)
    except OSError as error:
        msg = f"{file}: {error.strerror}"
        raise ResourceError(msg) from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        msg = f"{file}: is damaged; remove it, and add the runtime again"
        raise ResourceError(msg) from error
    return runtime


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Yield a file, unpacked where it was packed by xz."""
    with open(path, "rb") as file:
        start = file.read(len(_XZ))
        file.seek(0)
        if start != _XZ:
            yield file
            return
        import lzma

        with lzma.LZMAFile(file) as unpacked:
            yield cast("BinaryIO", unpacked)


def _members(file: BinaryIO) -> Iterator[Member]:
    file.seek(0)
    return archive_members.members(file, _LIMITS)


def _inspect(path: str, file: BinaryIO) -> tuple[str, str, Machine]:
    """Return Python's version, the directory of the archive that holds ``bin``, and what it fits."""
    top, python, header, needed = None, "", b"", 0
    try:
        for member in _members(file):
            if found := _PYTHON.fullmatch(member.name):
                top = found["top"]
            if member.kind != "file" or _LIBC.fullmatch(member.name):
                continue
            content = b"".join(member.parts)
            if not content.startswith(_ELF):
                continue
            needed = max(needed, *map(int, _GLIBC.findall(content)), 0)
            if found := _VERSIONED.fullmatch(member.name):
                python, header = f"{found[1]}.{found[2]}", content[:4096]
    except (ResourceError, OSError, EOFError) as error:
        msg = f"{path}: is no archive that can be used: {error}"
        raise UsageError(msg) from error
    if top is None or not python:
        msg = f"{path}: has no bin/python3 with the program bin/python3.N beside it"
        raise UsageError(msg)
    if _version(python) < _OLDEST:
        msg = f"{path}: has Python {python}; hosts need 3.11 or later"
        raise UsageError(msg)
    machine, libc = _elf(path, header)
    return python, top, Machine(machine, libc, (2, needed) if libc == "glibc" else (0, 0))


def _elf(path: str, header: bytes) -> tuple[str, str]:
    """Return the machine and the C library of a program (elf(5)). Raise ``UsageError`` for any other than 64 bits."""
    try:
        (kind,) = struct.unpack_from("<H", header, 18)
        (offset,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        interpreter = b""
        for number in range(count):
            at = offset + size * number
            if struct.unpack_from("<I", header, at) == (_PROGRAM_INTERPRETER,):
                place, length = struct.unpack_from("<Q16xQ", header, at + 8)
                interpreter = header[place : place + length]
    except struct.error as error:
        msg = f"{path}: its program has a damaged header"
        raise UsageError(msg) from error
    if kind not in _MACHINES or header[4:6] != b"\2\1":
        msg = f"{path}: is for a machine that is not known (ELF {kind})"
        raise UsageError(msg)
    return _MACHINES[kind], "musl" if b"ld-musl" in interpreter else "glibc"


def _packed(file: BinaryIO, top: str) -> bytes:
    """Return what is beneath ``top`` as a gzipped tar: the same files give the same bytes."""
    import gzip
    import io
    import tarfile

    stream = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for member in _members(file):
            name = member.name.removeprefix(top)
            if member.kind == "directory" or not member.name.startswith(top) or _LEFT_OUT.match(name):
                continue
            info = tarfile.TarInfo(name)
            if member.kind == "link":
                info.type, info.linkname = tarfile.SYMTYPE, member.target
                archive.addfile(info)
                continue
            content = b"".join(member.parts)
            info.size, info.mode = len(content), 0o755 if (member.mode or 0) & 0o100 else 0o644
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def _version(python: str) -> tuple[int, ...]:
    return tuple(map(int, python.split(".")))


def directory(environment: Mapping[str, str]) -> str:
    """Return where the user of ``environment`` keeps runtimes. Raise ``UsageError`` without a home directory."""
    return f"{state_directory(environment)}/runtimes"
