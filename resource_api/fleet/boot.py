"""The first program on a host: it completes the cache of archives and starts ``fleet/host``.

It is sent without these comments. It has the syntax of Python 3.6, so that an older interpreter can report the required
version, and imports only the standard library. Archives are verified by digest; only the user can open the cache. The
job is requested after all imports: nothing is done with an incomplete standard library. Arguments: the cache's
directory, "" for the default one, and the digests of the archives, this package's first.
"""

import fcntl
import json
import os
import stat
import sys


def size(path: str) -> int:
    """Return the total size of the unpacked files in a directory, to compare it with the number in ``.size``.

    That file itself and compiled files, which Python adds later, do not count.
    """
    return sum(
        size(file.path) if file.is_dir(follow_symlinks=False) else file.stat(follow_symlinks=False).st_size
        for file in os.scandir(path)
        if file.name not in (".size", "__pycache__")
    )


def safe(path: str) -> bool:
    """Whether a path is a directory, not a link, that only this user can open. Raise ``OSError``."""
    info = os.lstat(path)
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o77


def whole(path: str) -> bool:
    """Return whether an archive is unpacked completely in ``path``, which only this user can open.

    Files may be empty after a power cut, so their total size is compared.
    """
    try:
        with open(path + "/.size") as file:
            return safe(path) and size(path) == int(file.read())
    except (OSError, ValueError):
        return False


def unpack(path: str, new: str) -> None:
    """Read the archive whose digest is the name of ``path`` from standard input, verify it, and unpack it.

    It is unpacked into the directory ``new`` and then renamed, so that another job never finds a part of an archive.
    """
    import hashlib
    import lzma
    from shutil import rmtree

    data = sys.stdin.buffer.read(int(sys.stdin.buffer.readline() or sys.exit("stdin has ended")))
    if hashlib.sha256(data).hexdigest() != os.path.basename(path):
        sys.exit("what has arrived has another digest")
    lock = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        rmtree(new, ignore_errors=True)  # of a killed process with the same number
        index, _, content = lzma.decompress(data).partition(b"\n")
        at = 0
        for name, end, mode in json.loads(index):
            new_path = os.path.join(new, name)
            os.makedirs(os.path.dirname(new_path), exist_ok=True)
            with open(os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content[at:end])
            at = end
        with open(new + "/.size", "w") as file:
            file.write(str(at))
        fcntl.flock(lock, fcntl.LOCK_EX)  # another job may be unpacking the same archive
        if not whole(path):
            rmtree(path, ignore_errors=True)
            os.rename(new, path)
    finally:
        os.close(lock)
        rmtree(new, ignore_errors=True)


def write(kind: str, digests: str) -> None:
    """Write a frame of the protocol on a line of its own: the output of a login file may lack a final newline."""
    sys.stdout.write('\nRApi {"kind":"%s","digests":"%s"}\n' % (kind, digests))
    sys.stdout.flush()


def main(base: str, *digests: str) -> None:
    """Complete the cache of archives in the directory ``base``, then run the job with the code in them.

    ``digests``: the names of the job's archives, of which the first one is this package. This program sends a frame
    ``need`` with the archives that are missing in the cache, reads them, and then asks for the job by ``have``.
    """
    if sys.version_info < (3, 11):
        sys.exit("needs Python 3.11 or later; this is " + sys.version.split()[0])
    umask = os.umask(0o77)  # the job has the umask of the login
    os.makedirs(base, 0o700, exist_ok=True)
    if not safe(base):
        sys.exit(base + ": must be a directory that only its owner can open, and no link")
    paths = [os.path.join(base, digest) for digest in digests]
    missing = [path for path in paths if not whole(path)]
    if missing:
        write("need", " ".join(map(os.path.basename, missing)))
    for path in missing:
        unpack(path, path + ".%d" % os.getpid())
    os.umask(umask)
    sys.path.insert(0, paths[0])
    from resource_api.fleet.host import execute

    write("have", "")
    execute.main(base, paths[1:])


if __name__ == "__main__":
    base, *digests = sys.argv[1:]
    base = base or os.path.expanduser("~/.cache/resource-api" if os.geteuid() else "/var/cache/resource-api")
    try:
        main(base, *digests)
    except OSError as error:
        sys.exit(base + ": %s" % error.strerror)  # the error of a write has no file name
