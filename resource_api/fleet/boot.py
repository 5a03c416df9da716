"""The first program that a host executes: it gets what is missing into the cache, and starts ``fleet/host`` there.

Its text is sent without these comments. It has the syntax of Python 3.6, so that an older interpreter says what is
needed, and imports the standard library only. What it unpacks has the digest that the caller has named; the cache is a
directory that nobody but its user can open, and root has one of its own. The job is asked for when all that it needs
was imported: with half of a standard library nothing is done. Arguments: the cache's directory, empty for the usual
one, and the digests of the archives, this package's first.
"""

import os
import stat
import sys


def size(path: str) -> int:
    """Return the bytes of all files that were unpacked: after a power cut some may be there and empty."""
    return sum(
        size(each.path) if each.is_dir(follow_symlinks=False) else each.stat(follow_symlinks=False).st_size
        for each in os.scandir(path)
        if each.name not in (".size", "__pycache__")
    )


def own(path: str) -> bool:
    """Return whether a path is a directory, no link, that nobody but its user can open. Raise ``OSError``."""
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o77


def whole(path: str) -> bool:
    """Return whether an archive was unpacked here, completely."""
    try:
        with open(path + "/.size") as file:
            return own(path) and size(path) == int(file.read())
    except (OSError, ValueError):
        return False


def unpack(path: str, new: str) -> None:
    """Read an archive, check its digest, which is the last part of ``path``, and unpack it there, by way of ``new``."""
    import fcntl
    import hashlib
    import json
    import lzma

    data = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
    if hashlib.sha256(data).hexdigest() != os.path.basename(path):
        sys.exit("what has arrived has another digest")
    lock = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        index, _, content = lzma.decompress(data).partition(b"\n")
        at = 0
        for name, end, mode in json.loads(index):
            place = os.path.join(new, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content[at:end])
            at = end
        with open(new + "/.size", "w") as file:
            file.write(str(at))
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole(path):
            remove(path)
            os.rename(new, path)
    finally:
        os.close(lock)
        remove(new)


def remove(path: str) -> None:
    """Remove a directory, if it is there."""
    if os.path.lexists(path):
        import shutil

        shutil.rmtree(path, ignore_errors=True)


def write(kind: str, digests: str) -> None:
    """Write a frame of the protocol."""
    sys.stdout.write('RApi {"kind":"%s","digests":"%s"}\n' % (kind, digests))
    sys.stdout.flush()


def main(base: str, *digests: str) -> None:
    """Have every archive in the cache; run the job that comes next."""
    if sys.version_info < (3, 11):
        sys.exit("needs Python 3.11 or later; this is " + sys.version.split()[0])
    umask = os.umask(0o77)
    if not base:
        base = "/var/cache/resource-api" if os.geteuid() == 0 else os.path.expanduser("~/.cache/resource-api")
    os.makedirs(base, 0o700, exist_ok=True)
    if not own(base):
        sys.exit(base + ": must be a directory that only its owner can open, and no link")
    paths = [os.path.join(base, each) for each in digests]
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
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit("cache: %s" % error)  # that of a write names no file
