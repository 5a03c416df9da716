"""The user's runtimes: archives with a Python interpreter, added once, sent by ``python_launch`` to hosts without one.

The platform of an archive is read from its files: the machine and the C library from the interpreter's ELF header, the
version of glibc from the required symbols. The archive is repacked, so that a host needs only tar and gzip.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import struct
import tarfile
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from resource_api.fleet.python_launch import HostPlatform
from resource_api.model.values.archive_rules import Limits
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem import archive_members, files, reading
from resource_api.system.filesystem.directories import make_directory, state_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.model.values.archive_rules import Member

#: Largest size of an archive in bytes, packed; and its limits when unpacked.
LARGEST: Final = 256 << 20
_LIMITS: Final = Limits(1 << 30, 50_000)
_LARGEST_DESCRIPTION: Final = 64 << 10
#: The oldest supported Python.
_OLDEST: Final = (3, 11)
#: ELF's e_machine → what ``uname -m`` prints.
_MACHINES: Final = {21: "ppc64le", 22: "s390x", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_PROGRAM_INTERPRETER: Final = 3
_ELF: Final = b"\x7fELF"
_XZ: Final = b"\xfd7zX"
_PYTHON: Final = re.compile(r"(?P<top>(?:[^/]+/)?)bin/python3")
_VERSIONED: Final = re.compile(r"(?:[^/]+/)?bin/python(3)\.(\d{1,3})")
_GLIBC: Final = re.compile(rb"GLIBC_2\.(\d{1,3})\0")
#: Files that no run needs, and compiled files, which the host writes itself.
_LEFT_OUT: Final = re.compile(
    r"include/|share/|.*\.a\Z|.*/__pycache__/|lib/(?:itcl|pkgconfig|tcl|thread|tk)|"
    r"lib/python[^/]*/(?:config-|ensurepip|idlelib|lib2to3|pydoc_data|site-packages|test|tkinter|turtledemo)"
)
#: The C library itself, which may be in an archive; its symbols are not requirements.
_LIBC: Final = re.compile(r".*/(?:ld-|lib(?:c|dl|m|pthread|rt|util)[.-])[^/]*")


class PythonRuntime(NamedTuple):
    """An added runtime."""

    digest: str
    #: ``3.12``.
    python: str
    platform: HostPlatform
    size: int

    def document(self) -> dict[str, object]:
        """Return the runtime as JSON data, for its stored description and for output."""
        machine, libc, version = self.platform
        return {
            "digest": self.digest,
            "python": self.python,
            "machine": machine,
            "size": self.size,
            "libc": libc,
            "libc_version": ".".join(map(str, version)),
        }


class PythonRuntimes:
    """The runtimes of one user."""

    def __init__(self, directory: str) -> None:
        """Use the archives in a ``directory`` of the user, which does not exist before the first ``add``."""
        self._directory = Path(directory)
        #: Digest → archive, of those that were read: the hosts of a run share them.
        self._archives: dict[str, bytes] = {}

    def all(self) -> list[PythonRuntime]:
        """Return all runtimes, the newest Python first. Raise ``ResourceError`` for a damaged description."""
        runtimes = map(_read, self._directory.glob("*.json"))
        return sorted(runtimes, key=lambda runtime: (_version(runtime.python), runtime.digest), reverse=True)

    def find(self, host: HostPlatform) -> tuple[str, bytes] | None:
        """Return digest and bytes of the newest runtime for a host without a usable Python, by its platform, or None.

        Raise ``ResourceError``.
        """
        for runtime in self.all():
            machine, libc, version = runtime.platform
            # A newer glibc has all symbols of an older one.
            if (machine, libc) == (host.machine, host.libc) and version <= host.version:
                return runtime.digest, self._archive(runtime.digest)
        return None

    def _archive(self, digest: str) -> bytes:
        """Return the bytes of a runtime, read once for all hosts of a run. Raise ``ResourceError``."""
        if digest not in self._archives:
            path = f"{self._directory}/{digest}.tar.gz"
            try:
                self._archives[digest] = reading.read(path, LARGEST)
            except OSError as error:
                raise ResourceError(f"{path}: {error.strerror}; add the runtime again") from error
        return self._archives[digest]

    def add(self, path: str) -> PythonRuntime:
        """Store the files of an archive that runs need as a runtime for hosts without Python, and return it.

        The stored archive is written before its description, so that ``all``, which reads the descriptions, never
        returns a runtime without its archive. Raise ``UsageError`` for an archive without a usable Python, ``OSError``.
        """
        with _opened(path) as file:
            python, top, platform = _inspect(path, file)
            raw = _packed(file, top)
        runtime = PythonRuntime(sha256(raw).hexdigest(), python, platform, len(raw))
        make_directory(str(self._directory))
        files.replace(str(self._directory / f"{runtime.digest}.tar.gz"), raw, mode=0o600)
        document = json.dumps(runtime.document()).encode()
        files.replace(str(self._directory / f"{runtime.digest}.json"), document, mode=0o600)
        return runtime


def _read(file: Path) -> PythonRuntime:
    """Return the runtime of a stored description, a JSON file. Raise ``ResourceError`` for a damaged one."""
    try:
        fields = json.loads(reading.read(str(file), _LARGEST_DESCRIPTION))
        first, second = map(int, fields["libc_version"].split("."))
        platform = HostPlatform(str(fields["machine"]), str(fields["libc"]), (first, second))
        runtime = PythonRuntime(str(fields["digest"]), str(fields["python"]), platform, int(fields["size"]))
        _version(runtime.python)  # raises for an invalid one
    except OSError as error:
        raise ResourceError(f"{file}: {error.strerror}") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ResourceError(f"{file}: is damaged; remove it, and add the runtime again") from error
    return runtime


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Yield a file, decompressed if it is an xz file, since the reader of archives accepts only the other formats."""
    with open(path, "rb") as file:
        start = file.read(len(_XZ))
        file.seek(0)
        if start != _XZ:
            yield file
            return
        with lzma.LZMAFile(file) as unpacked:
            yield cast("BinaryIO", unpacked)


def _members(file: BinaryIO) -> Iterator[Member]:
    """Yield the members of an archive from its first one on: it is read twice, for its platform and to repack it."""
    file.seek(0)
    return archive_members.members(file, _LIMITS)


def _inspect(path: str, file: BinaryIO) -> tuple[str, str, HostPlatform]:
    """Return Python's version, the parent directory of ``bin`` in the archive, and the platform for which it is built.

    By the platform a runtime is selected for a host, so it is read from the programs themselves: the archive's name may
    be wrong. The version of glibc is the newest that any program or library in the archive requires. Raise
    ``UsageError`` for an archive that is damaged or has no Python, and for a Python older than hosts need.
    """
    top, python, header, glibc = None, "", b"", [0]
    try:
        for member in _members(file):
            if match := _PYTHON.fullmatch(member.name):
                top = match["top"]
            program = _program(member)
            glibc += map(int, _GLIBC.findall(program))
            if program and (match := _VERSIONED.fullmatch(member.name)):
                python, header = f"{match[1]}.{match[2]}", program[:4096]
    except (ResourceError, OSError, EOFError) as error:
        raise UsageError(f"{path}: is no archive that can be used: {error}") from error
    if top is None or not python:
        raise UsageError(f"{path}: has no bin/python3 with the program bin/python3.N beside it")
    if _version(python) < _OLDEST:
        raise UsageError(f"{path}: has Python {python}; hosts need 3.11 or later")
    machine, libc = _elf(path, header)
    return python, top, HostPlatform(machine, libc, (2, max(glibc)) if libc == "glibc" else (0, 0))


def _program(member: Member) -> bytes:
    """Return the content of a program or library, in which ``_inspect`` searches for the required versions of glibc.

    Return b"" for any other member of an archive: it requires no glibc.
    """
    # In the C library itself these are the versions that it provides.
    if member.kind != "file" or _LIBC.fullmatch(member.name):
        return b""
    content = b"".join(member.parts)
    return content if content.startswith(_ELF) else b""


def _elf(path: str, header: bytes) -> tuple[str, str]:
    """Return machine and C library of a program, from its header (elf(5)), to find the hosts that can run it.

    The C library follows from the path of the loader, as in ``/lib/ld-musl-x86_64.so.1``. Raise ``UsageError`` for
    another machine than those of ``_MACHINES``, or one without 64 bits.
    """
    try:
        # e_machine; e_phoff; e_phentsize and e_phnum; then of each program header p_type, p_offset and p_filesz.
        (kind,) = struct.unpack_from("<H", header, 18)
        (offset,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        interpreter = b""
        for number in range(count):
            start = offset + size * number
            if struct.unpack_from("<I", header, start) == (_PROGRAM_INTERPRETER,):
                position, length = struct.unpack_from("<Q16xQ", header, start + 8)
                interpreter = header[position : position + length]
    except struct.error as error:
        raise UsageError(f"{path}: its program has a damaged header") from error
    if kind not in _MACHINES or header[4:6] != b"\2\1":  # 64 bits, little-endian
        raise UsageError(f"{path}: is for a machine that is not known (ELF {kind})")
    return _MACHINES[kind], "musl" if b"ld-musl" in interpreter else "glibc"


def _packed(file: BinaryIO, top: str) -> bytes:
    """Return the files of Python beneath ``top`` that runs need as a gzipped tar.

    Times and owners of the files are left out, so that equal files give an equal digest, by which hosts recognize a
    runtime in their caches.
    """
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
            content = b""
            if member.kind == "link":
                info.type, info.linkname = tarfile.SYMTYPE, member.target
            else:
                content = b"".join(member.parts)
                info.size, info.mode = len(content), 0o755 if (member.mode or 0) & 0o100 else 0o644
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def _version(python: str) -> tuple[int, ...]:
    """Return ``3.12`` as numbers, which compare. Raise ``ValueError``."""
    return tuple(map(int, python.split(".")))


def directory(environment: Mapping[str, str]) -> str:
    """Return the directory of a user's runtimes. Raise ``UsageError`` without a home directory."""
    return f"{state_directory(environment)}/runtimes"
