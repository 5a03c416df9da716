"""An overlay of this machine: a root directory that stores changes in layers in memory, and the files written there.

Changes of the machine's file systems go to the upper layers of overlays in one tmpfs of limited size; ``/proc``,
``/sys``, ``/dev`` and ``/run`` are made anew.

The files in the layers are listed, compared by kind, mode, owner and a digest of their contents, and stored in a
directory outside: they are packed inside into an open archive, and unpacked outside. A deleted file becomes an empty
file ``.wh.NAME``, as in layers of container images. The archive is untrusted: it was written inside.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import tarfile
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ResourceAPIError, UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.system.filesystem import trees
from resource_api.system.filesystem.directories import (
    DIRECTORY_FLAGS,
    OTHERS_WRITE,
    Directories,
    canonical_path,
    opened,
)
from resource_api.system.overlay.namespaces import (
    NO_DEVICES,
    NO_EXECUTION,
    NO_SETUID,
    READ_ONLY,
    bind,
    change_root,
    make_read_only,
    mount,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO

    #: Path → the written file, and the digest of its content.
    Contents = Mapping[str, tuple["Written", str]]

#: Directories that are made anew.
REPLACED: Final = ("/proc", "/sys", "/dev", "/run")
#: Kinds of file systems that show the kernel or the network, wherever they are mounted.
_HIDDEN: Final = frozenset(
    {"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"}
    | {"fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "sysfs", "tracefs"}
)
#: Kinds of file systems that may be stored on another machine.
_SHARED: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs"}
)
_FLAGS: Final = {"ro": READ_ONLY, "nosuid": NO_SETUID, "nodev": NO_DEVICES, "noexec": NO_EXECUTION}


class MountedTree(NamedTuple):
    """One mounted file system."""

    path: str
    kind: str
    #: Its flags, as for mount(2).
    flags: int

    @property
    def is_covered(self) -> bool:
        """Whether an overlay covers it."""
        is_replaced = any(self.path == path or self.path.startswith(f"{path}/") for path in REPLACED)
        return not (is_replaced or self.kind in _HIDDEN)

    @property
    def writable(self) -> bool:
        """Whether its files are stored on this machine alone, and are not read-only."""
        shared = self.kind in _SHARED or self.kind.startswith("fuse")
        return not (shared or self.flags & READ_ONLY)


def mounts() -> Sequence[MountedTree]:
    """Return the mounts of the machine, one for each path, outer ones first: ``build`` covers them in this order.

    Each needs its own overlay, which must be mounted after that of the directory around it. Raise ``OSError``.
    """
    table = [
        MountedTree(path, kind, sum({_FLAGS.get(word, 0) for word in words})) for path, _, kind, words in trees.mounts()
    ]
    # The last mount at a path hides the others. The root of chroot(2) need not be a mount.
    by_path = {"/": MountedTree("/", "", 0), **{mount.path: mount for mount in table}}
    return [by_path[path] for path in sorted(by_path)]


#: The tmpfs is mounted here while the root is built: every machine has this directory, and nothing of it is covered.
BASE: Final = "/run"
ROOT: Final = f"{BASE}/root"
LAYERS: Final = f"{BASE}/layers"
#: Directories with write access for everybody, below directories of root, which another user's overlay cannot copy.
_OF_EVERYBODY: Final = ("/var/tmp",)  # noqa: S108 - nothing is written there


def cover_as_root(table: Sequence[MountedTree]) -> None:
    """Mount overlays of the machine's file systems on the new root, so that all changes go to layers in memory.

    Raise ``OSError``.
    """
    for covered in table:
        if covered.is_covered and os.path.exists(f"{ROOT}{covered.path}"):  # otherwise another mount hides it
            _cover(covered.path, covered, "")


def cover_as_user(table: Sequence[MountedTree]) -> None:
    """Mount overlays of the machine's directories on the new root, for a user other than root. Raise ``OSError``.

    The kernel does not let such a user look beneath a mount, so a directory that contains a mount cannot have one
    overlay. It is created anew on the root instead, and its members are covered one by one.
    """
    # A trial: an overlay of this user marks files by such attributes.
    try:
        os.setxattr(LAYERS, "user.overlay.", b"")
    except OSError as error:
        msg = "a user who is not root needs Linux 6.6, for attributes of files in memory"
        raise OSError(error.errno, msg) from error
    by_path = {covered.path: covered for covered in table}
    home_and_working = filter(os.path.isdir, (os.getcwd(), os.path.expanduser("~")))
    tops = (*by_path, *_OF_EVERYBODY, *map(_where_to_cover, home_and_working))
    # The directories to make anew: they contain a mount, or a directory that gets an overlay of its own.
    divided = {parent for top in tops for parent in _parents(top)} - {*REPLACED}
    bind(ROOT, ROOT)  # a root must be a mount
    waiting = [("/", by_path["/"])]  # each with the mount that it is in
    while waiting:
        directory, on = waiting.pop()
        with suppress(PermissionError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.path in divided and entry.is_dir(follow_symlinks=False):
                    os.mkdir(f"{ROOT}{entry.path}")
                    waiting.append((entry.path, by_path.get(entry.path, on)))
                else:
                    _cover_entry(entry, by_path.get(entry.path, on))
        os.chmod(f"{ROOT}{directory}", _mode(directory))


def _parents(path: str) -> list[str]:
    """Return all directories that contain a path: ``/`` and ``/var`` for ``/var/tmp``."""
    parts = path.split("/")
    return ["/".join(parts[:count]) or "/" for count in range(1, len(parts))] if path != "/" else []


def _where_to_cover(path: str) -> str:
    """Return the directory that needs its own overlay, so that the user can write in ``path`` or beneath.

    A user's overlay copies each directory between its root and a change, so all of these must belong to the user. The
    result is therefore the directory right above the first one of the user: ``/home`` for ``/home/ann/src``. The
    directories above the result are created anew by ``cover_as_user``, as they have no overlay. If the user can write
    to one of them, new files there would not be reported: then return ``/``, which needs no overlay of its own.
    """
    steps = [*_parents(path), path]
    first = next((number for number, step in enumerate(steps) if os.stat(step).st_uid == os.geteuid()), len(steps))
    top = steps[max(first - 1, 0)]
    return "/" if any(os.access(parent, os.W_OK) for parent in _parents(top)) else top


def _cover_entry(entry: os.DirEntry[str], on: MountedTree) -> None:
    """Make an entry of the machine's root visible on the new root, so that nothing done there changes the machine.

    A directory is made and gets an overlay, unless its mount ``on`` is left out or the rehearsal makes a new one. A
    file is bound read-only, as there are overlays of directories alone. A link is copied. The rest is skipped: a
    socket, for example, would lead to a service outside.
    """
    target = f"{ROOT}{entry.path}"
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)
    elif entry.is_dir():
        os.mkdir(target)
        if on.is_covered and entry.path not in REPLACED:
            _cover(entry.path, on, "userxattr,")
    elif entry.is_file():
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        bind(entry.path, target, on.flags | NO_DEVICES | READ_ONLY)


def _cover(path: str, on: MountedTree, options: str) -> None:
    """Mount an overlay of ``path``, which is in the mount ``on``, with ``options``; read-only if the mount is.

    Read-only file systems are covered too, because programs inside could otherwise connect to the machine's sockets in
    them. A file, or a directory of a kind that no overlay can cover, is made visible itself, read-only.
    """
    flags = on.flags | NO_DEVICES | (0 if on.writable else READ_ONLY)
    if os.path.isdir(path):
        try:
            _overlay(path, flags, options)
        except OSError:  # some kinds of file systems cannot be below an overlay
            if on.path == "/":
                raise
        else:
            return
    elif not os.path.isfile(path):
        return
    bind(path, f"{ROOT}{path}", flags | READ_ONLY)


def _overlay(path: str, flags: int, options: str) -> None:
    """Mount a directory of the machine beneath the new root with a layer that takes all its writes.

    Each layer has a number; its link ``lower`` names the directory. ``flags``: those of mount(2); ``options``: the text
    before the layers.
    """
    layer = f"{LAYERS}/{len(os.listdir(LAYERS))}"
    upper, work = f"{layer}/upper", f"{layer}/work"
    for directory in (layer, upper, work):
        os.mkdir(directory)
    status = os.stat(path)
    if os.geteuid() == 0:  # all files of another user's overlay belong to that user
        os.chown(upper, status.st_uid, status.st_gid)
    os.chmod(upper, _mode(path))
    os.symlink(path, f"{layer}/lower")  # tells ``read`` where the layer belongs
    # A descriptor, because commas separate the options of a mount, and a path may contain one.
    with opened(path, os.O_PATH) as descriptor:
        layers = f"lowerdir=/proc/self/fd/{descriptor},upperdir={upper},workdir={work}"
        mount("overlay", f"{ROOT}{path}", flags, options + layers)


def _mode(path: str) -> int:
    """Return the mode for a directory's copy, without permissions that this user lacks for the original.

    The copy belongs to the user, so that its own mode alone would allow more than on the machine.
    """
    mode = stat.S_IMODE(os.stat(path).st_mode)
    for permission, bits in ((os.R_OK, 0o444), (os.W_OK, 0o222), (os.X_OK, 0o111)):
        if not os.access(path, permission):
            mode &= ~bits
    return mode


_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS: Final = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_NO_PROGRAMS: Final = NO_SETUID | NO_DEVICES | NO_EXECUTION
_NAMESERVERS: Final = "/etc/resolv.conf"


def build(table: Sequence[MountedTree], size: str) -> int:
    """Build the root of the overlay and change to it; return a descriptor of the directory of the upper layers.

    Those have the changes, and are out of reach by path from then on. Call this in a namespace with private mounts.
    ``size`` limits the changes, as for tmpfs(5). Raise ``OSError``.
    """
    # The next call hides ``/run``.
    nameservers = _nameservers()
    mount("tmpfs", BASE, NO_DEVICES, f"size={size},mode=755")
    os.mkdir(ROOT)
    os.mkdir(LAYERS)
    if os.geteuid() == 0:
        cover_as_root(table)
    else:
        cover_as_user(table)
    _make_proc()
    bind("/sys", f"{ROOT}/sys", recursive=True)
    make_read_only(f"{ROOT}/sys")
    _make_dev()
    _make_run(nameservers)
    layers = os.open(LAYERS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    change_root(ROOT)
    return layers


def _make_proc() -> None:
    """Mount a ``/proc`` of the new process table on the new root, with read-only settings: they are the machine's.

    Raise ``OSError``.
    """
    proc = f"{ROOT}/proc"
    try:
        mount("proc", proc, _NO_PROGRAMS)
    except PermissionError as error:
        msg = "/proc: parts of it are hidden, as in a container; only root can mount another one"
        raise OSError(error.errno, msg) from error
    for name in os.listdir(proc):
        path = f"{proc}/{name}"
        if not (name.isdecimal() or os.path.islink(path)):
            bind(path, path, _NO_PROGRAMS | READ_ONLY)


def _make_dev() -> None:
    """Build a ``/dev`` with the harmless devices only, so that no program inside reaches a disk or the memory."""
    source, dev = f"{BASE}/dev", f"{ROOT}/dev"
    os.mkdir(source)
    bind(source, dev)
    for name in _DEVICES:
        os.close(os.open(f"{dev}/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        bind(f"/dev/{name}", f"{dev}/{name}")
    for name, target in _LINKS.items():
        os.symlink(target, f"{dev}/{name}")
    for name, mode in (("pts", 0o755), ("shm", 0o1777)):
        os.mkdir(f"{dev}/{name}")
        os.chmod(f"{dev}/{name}", mode)
    mount("devpts", f"{dev}/pts", NO_SETUID | NO_EXECUTION, "newinstance,ptmxmode=0666,mode=620")


def _make_run(nameservers: bytes | None) -> None:
    """Build an empty ``/run``, without the sockets of the machine's services.

    Programs expect some directories there. ``nameservers`` is the content of ``/etc/resolv.conf`` if that is a file in
    ``/run``, otherwise None: name look-ups need it.
    """
    source = f"{BASE}/run"
    os.mkdir(source)
    os.mkdir(f"{source}/rehearsal", 0o700)
    os.mkdir(f"{source}/lock")
    os.chmod(f"{source}/lock", 0o1777)  # noqa: S103 - as everywhere
    bind(source, f"{ROOT}/run")
    if user := os.geteuid():
        os.makedirs(f"{source}/user/{user}", 0o700)
        os.chmod(f"{source}/user", 0o555)  # noqa: S103 - as above
        os.chmod(source, 0o555)  # noqa: S103 - as above
    if nameservers is not None:
        path = f"{ROOT}{os.path.realpath(_NAMESERVERS)}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(nameservers)


def _nameservers() -> bytes | None:
    """Return the content of ``/etc/resolv.conf`` if it is a link into ``/run``, which is made anew; otherwise None."""
    if os.path.realpath(_NAMESERVERS).startswith(f"{BASE}/"):
        with suppress(OSError), open(_NAMESERVERS, "rb") as file:
            return file.read()
    return None


Kind = Literal["file", "directory", "deleted"]
#: The device number by which an overlay marks a deleted file.
_WHITEOUT: Final = 0


class Written(NamedTuple):
    """A file in an upper layer."""

    kind: Kind
    mode: int
    uid: int
    gid: int
    size: int
    #: The time of the last change of its content, in nanoseconds; 0 for a directory.
    modified: int
    #: Inode and change time: differs after every change, also of the owner.
    version: tuple[int, int]


def read(layers: int) -> Mapping[str, Written]:
    """Return the files that were changed on the overlay, by path, from the descriptor ``layers`` of ``build``."""
    written: dict[str, Written] = {}
    base = f"/proc/self/fd/{layers}"
    for number in os.listdir(base):
        written.update(_walk(f"{base}/{number}/upper", os.readlink(f"{base}/{number}/lower").rstrip("/")))
    return written


def is_full(layers: int) -> bool:
    """Return whether the layers are full: then a failure inside may come from the limit of the overlay alone."""
    status = os.statvfs(layers)
    return status.f_bavail == 0 or status.f_favail == 0


def _walk(directory: str, lower: str) -> Iterator[tuple[str, Written]]:
    """Yield the files that a layer stores beneath ``directory``, with their paths on the overlay, beneath ``lower``."""
    waiting = [(directory, lower)]
    while waiting:
        directory, lower = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except (FileNotFoundError, PermissionError):  # removed by a running program, or forbidden
            continue
        for entry in entries:
            path = f"{lower}/{entry.name}"
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield path, _written(status)
            if stat.S_ISDIR(status.st_mode):
                waiting.append((entry.path, path))


def _written(status: os.stat_result) -> Written:
    """Return the state of a file in a layer; a character device 0:0 is the overlay's mark for a deletion."""
    mode_and_owner = status.st_mode, status.st_uid, status.st_gid
    if stat.S_ISDIR(status.st_mode):
        # No version: writing a file in a directory changes the directory's times too.
        return Written("directory", *mode_and_owner, size=0, modified=0, version=(0, 0))
    kind: Kind = "deleted" if stat.S_ISCHR(status.st_mode) and status.st_rdev == _WHITEOUT else "file"
    version = status.st_ino, status.st_ctime_ns
    return Written(kind, *mode_and_owner, size=status.st_size, modified=status.st_mtime_ns, version=version)


#: Files up to this size are compared by content, and up to that size by lines in any order.
_LARGEST_COMPARED: Final = 64 * 1024 * 1024
_LARGEST_BY_LINE: Final = 1024 * 1024
#: The separators between the members of lists and mappings depend on their order.
_SPACES: Final = bytes.maketrans(b",;[]{}", b"      ")
#: The header that crontab(1) writes above a table, with the time of its installation.
_CRONTAB_HEADER: Final = re.compile(rb"\A# DO NOT EDIT.*\n(# \(.*\n){2}")


def read_contents(layers: int, former: Contents | None = None) -> Contents:
    """Return the contents of the upper layers, path → file and digest, to find the changes between two readings.

    ``former``: an earlier reading; digests of files that are unchanged since then are taken from it, to save time.
    """
    former = former or {}
    contents = {}
    for path, written in read(layers).items():
        same = path in former and former[path][0] == written
        contents[path] = former[path] if same else (written, digest(path) if written.kind == "file" else "")
    return contents


def comparable(entry: Any) -> tuple[Any, ...] | None:
    """Return an entry's kind, mode, owner, group and digest, without times, to compare runs; None for an absent one."""
    if entry is None:
        return None
    (kind, mode, uid, gid, *_), content = entry
    return kind, mode, uid, gid, content


def differing_paths(first: Contents, second: Contents) -> set[str]:
    """Return the paths at which two contents differ."""
    paths = first.keys() | second.keys()
    return {path for path in paths if comparable(first.get(path)) != comparable(second.get(path))}


def describe_differing(paths: Sequence[str]) -> str:
    """Return the message that paths differ: the first one is named, the rest is counted."""
    return f"{paths[0]} and {len(paths) - 1} more differ" if len(paths) > 1 else f"{paths[0]} differs"


def digest(path: str) -> str:
    """Return a digest of a file, to compare runs, or the target of a link; "" where it cannot be read or is too large.

    For a short text two digests are returned with a space between: of the content, and of its sorted words. For files
    to which more than one resource adds lines, ``in_any_order`` returns the second, which any order of lines has.
    """
    try:
        if os.path.islink(path):
            return os.readlink(path)
        if not os.path.isfile(path) or (size := os.path.getsize(path)) > _LARGEST_COMPARED:
            return ""
        with open(path, "rb") as file:
            if size > _LARGEST_BY_LINE:
                return hashlib.file_digest(file, "blake2b").hexdigest()
            content = _CRONTAB_HEADER.sub(b"", file.read())
    except OSError:
        return ""
    if b"\0" in content:
        return _digest(content)
    words = sorted(content.translate(_SPACES).split())
    return f"{_digest(content)} {_digest(b' '.join(words))}"


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content).hexdigest()


def in_any_order(digest: str) -> str:
    """Return the part of ``digest``'s result that does not depend on the order of words, or the only one."""
    return digest.rpartition(" ")[2]


_FORMAT: Final = tarfile.PAX_FORMAT
_DELETED_PREFIX: Final = ".wh."
#: Files, directories and links.
_PACKED_KINDS: Final = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE)


@contextmanager
def stored(path: str) -> Iterator[int | None]:
    """Yield a descriptor of a file to ``pack`` into; after the ``with`` block unpack it into the directory ``path``.

    So the user keeps the files that a rehearsal wrote. Yield None for an empty path. Raise ``UsageError`` for an
    unusable directory, and ``ResourceAPIError``.
    """
    if not path:
        yield None
        return
    directory = _make_directory(path)
    try:
        with tempfile.TemporaryFile(dir=f"/proc/self/fd/{directory}") as file:
            yield file.fileno()
            file.seek(0)
            _unpack(file, directory)
    finally:
        os.close(directory)


def _make_directory(path: str) -> int:
    """Return a descriptor of the directory ``--keep``, new or empty, that only this user can enter.

    Raise ``UsageError`` for another one: no file of the user is overwritten, and none of root's is shown.
    """
    with errors_as(UsageError, OSError, f"--keep {path}: "), Directories() as directories:
        parent, name = directories.place(canonical_path(os.path.abspath(path)))
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent.fd)
        descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=parent.fd)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & OTHERS_WRITE:
        msg = f"--keep {path}: it belongs to another user, or others may write to it"
    elif os.listdir(descriptor):
        msg = f"--keep {path}: it is not empty"
    else:
        os.fchmod(descriptor, 0o700)
        return descriptor
    os.close(descriptor)
    raise UsageError(msg)


def pack(layers: int, target: int) -> None:
    """Write the files of the upper layers into the archive ``target``, for ``stored`` to unpack outside.

    Sockets, pipes and devices are left out. A deletion becomes an empty file with the prefix ``.wh.``, as in the layers
    of container images.
    """
    with open(target, "wb", closefd=False) as file, tarfile.open(fileobj=file, mode="w", format=_FORMAT) as archive:
        for path, written in sorted(read(layers).items()):
            directory, _, name = path.rpartition("/")
            if written.kind == "deleted":
                archive.addfile(tarfile.TarInfo(f"{directory}/{_DELETED_PREFIX}{name}".lstrip("/")), io.BytesIO())
                continue
            with suppress(OSError):  # removed meanwhile
                _add(archive, path)


def _add(archive: tarfile.TarFile, path: str) -> None:
    """Add a file, directory or symbolic link of the overlay to an archive; sockets and devices are left out."""
    member = archive.gettarinfo(path, path.lstrip("/"))
    if member is None:  # a socket, whatever the annotation says
        return
    if member.islnk():  # another name of the same file: each name is stored as a file
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", os.lstat(path).st_size
    if member.isreg():
        with open(path, "rb") as content:
            archive.addfile(member, content)
    elif member.type in _PACKED_KINDS:
        archive.addfile(member)


def _unpack(file: IO[bytes], directory: int) -> None:
    """Unpack an archive that was packed on the overlay into the open ``directory``. Raise ``ResourceAPIError``.

    Code of the manifest ran there and could have written the archive, so its members are checked.
    """
    target = f"/proc/self/fd/{directory}"
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            # Python before 3.11.4 has no filters; each member is checked right before it is written. It keeps its mode:
            # no other user can enter the directory.
            archive.extraction_filter = lambda member, _directory: member
            archive.extractall(target, _checked(archive, target), numeric_owner=True)  # noqa: S202 - see above
    except (tarfile.TarError, OSError, ValueError) as error:
        raise ResourceAPIError(f"what was written cannot be kept: {error}") from error


def _checked(archive: tarfile.TarFile, target: str) -> Iterator[tarfile.TarInfo]:
    """Yield the members of the untrusted archive. Raise ``ResourceAPIError`` for one that ``pack`` never writes.

    These are special files, a second member of one name, and names that lead out of the directory ``target``.
    """
    names, base = set(), os.path.realpath(target)
    for member in archive:
        beneath = os.path.realpath(os.path.join(target, member.name)).startswith(f"{base}/")
        if member.type not in _PACKED_KINDS or member.name in names or not beneath:
            raise ResourceAPIError(f"{member.name} was not written by the rehearsal")
        names.add(member.name)
        yield member
