"""Text files of one directory, each a resource, that a program verifies before they are written: units, rules."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resource_api import ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

#: Only root can write beside it. One directory for all runs, so that a killed one leaves no other than this.
STAGE = "/run/resource-api.stage"
#: Largest file in bytes.
LARGEST = 1024 * 1024


def write_texts(resources: list[Resource], format_sections: Callable[[Any], str]) -> list[Resource]:
    """Return resources whose content is text with a line end, also where it is declared by sections."""
    for resource in resources:
        content = resource.get("content")
        if content is not None:
            text = content if isinstance(content, str) else format_sections(content)
            resource["content"] = text if text.endswith("\n") else f"{text}\n"
    return resources


def read_rows(context: Context, directory: str, names: Collection[str]) -> Iterator[Resource]:
    """Yield the files of ``names`` that exist; one that cannot be read, such as a link, fails its name."""
    for name in names:
        path = f"{directory}/{name}"
        try:
            content = files.read(path, LARGEST).decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            context.failed(name, message=_describe(path, error))
            continue
        yield {"ensure": "present", "name": name, "content": content}


@contextmanager
def staged(changes: Mapping[str, Change]) -> Iterator[str]:
    """Return a directory of root with the files that are to be present, under their names, until the block ends."""
    import shutil  # noqa: PLC0415 - only for changes

    # Others cannot open it: who can, could hold the lock.
    with os.fdopen(os.open(f"{STAGE}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(STAGE, ignore_errors=True)
        try:
            Path(STAGE).mkdir(mode=0o700)
            for name, change in changes.items():
                if change.should["ensure"] == "present":
                    place = Path(STAGE, name)
                    place.parent.mkdir(exist_ok=True)
                    place.write_text(change.should["content"], encoding="utf-8")
                    # Whatever the umask is: some programs ignore files that others can write.
                    place.chmod(0o644)
            yield STAGE
        finally:
            shutil.rmtree(STAGE, ignore_errors=True)


def write(directory: str, name: str, should: Mapping[str, Any]) -> None:
    """Replace or remove a file, and make the directory that it is in. Raise ``ResourceError``."""
    path = f"{directory}/{name}"
    try:
        with files.Batch() as batch:
            if should["ensure"] == "absent":
                batch.remove(path)
                return
            parent = os.path.dirname(path)  # noqa: PTH120 - a text
            if not os.path.isdir(parent):  # noqa: PTH112 - as above
                batch.make_directory(parent)
            batch.replace(path, should["content"].encode(), mode=0o644)
    except OSError as error:
        raise ResourceError(files.describe_error(error, path)) from error


def _describe(path: str, error: OSError) -> str:
    if os.path.islink(path):  # noqa: PTH114 - a text
        return f"it is a link to {os.readlink(path)}"  # noqa: PTH115 - as above
    return files.describe_error(error, path)
