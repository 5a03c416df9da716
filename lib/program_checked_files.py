"""Text files of one directory, each a resource, that a program verifies before they are written: units, rules."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lib import file_parts, whole_directory
from lib.sensitive import new_mode, reveal
from resource_api import Change, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from contextlib import AbstractContextManager

    from resource_api import Context, Resource

#: Largest file in bytes.
LARGEST = 1024 * 1024


def write_texts(resources: list[Resource], format_sections: Callable[[Any], str]) -> list[Resource]:
    """Return resources with ``content`` in its canonical form, for the ``canonicalize`` of a type.

    It is a text that ends with a line end, in which ``get`` returns it, too: otherwise both would differ in each run.
    ``format_sections`` writes a content that is declared as a mapping of sections.
    """
    for resource in resources:
        content = resource.get("content")
        if content is not None:
            resource["content"] = ended(content if isinstance(content, str) else format_sections(content))
    return resources


def ended(text: str) -> str:
    """Return a text with a line end, which a file of another author may lack."""
    return text if text.endswith("\n") else f"{text}\n"


def read_rows(
    context: Context, directory: str, names: Collection[str] | None, listed: Collection[str] = ()
) -> Iterator[Resource]:
    """Yield the row of each file of ``names``, or of those ``listed``, that exists in the ``directory``.

    A file that cannot be read, such as a link, fails its name; in a listing it is a warning, which has the path.
    """
    for name in listed if names is None else names:
        path = f"{directory}/{name}"
        try:
            content = ended(files.read(path, LARGEST).decode("utf-8", "replace"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            reason = _describe(path, error)
            file_parts.report_unreadable(context, [name], reason if names is not None else f"{path}: {reason}", names)
            continue
        yield {"ensure": "present", "name": name, "content": content}


def contents(changes: Mapping[str, Change]) -> dict[str, bytes | None]:
    """Return the new contents of files by their names, None for a removal."""
    declared = ((name, reveal(change.should)) for name, change in changes.items())
    return {name: None if should["ensure"] == "absent" else should["content"].encode() for name, should in declared}


def complete(changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Change]:
    """Return the changes whose content a program can check in the plan: no removals, no content with unknown parts."""
    return {
        name: Change(None, should)
        for name, should in changes.items()
        if should["ensure"] != "absent" and isinstance(reveal(should.get("content")), str)
    }


@contextmanager
def staged(
    changes: Mapping[str, Change],
    temporary_directory: Callable[[], AbstractContextManager[str]] = whole_directory.stage,
) -> Iterator[str]:
    """Yield a temporary directory with the new contents of files, for a program to check before they are written.

    Files to be removed are not in it.
    """
    with temporary_directory() as directory:
        for name, content in contents(changes).items():
            if content is not None:
                whole_directory.write(f"{directory}/{name}", content)
        yield directory


def write(directory: str, name: str, should: Mapping[str, Any]) -> None:
    """Replace or remove a file. Raise ``ResourceError``.

    An existing file keeps its mode. A new file is private if its content is secret; its directory is made if needed.
    """
    path = f"{directory}/{name}"
    with file_parts.described(path), files.Batch() as batch:
        if should["ensure"] == "absent":
            batch.remove(path)
            return
        parent = os.path.dirname(path)  # noqa: PTH120 - a text
        if not os.path.isdir(parent):  # noqa: PTH112 - as above
            batch.make_directory(parent)
        mode = None if os.path.lexists(path) else new_mode(should["content"])
        batch.replace(path, reveal(should["content"]).encode(), mode=mode)


def _describe(path: str, error: OSError) -> str:
    """Return the reason why a file cannot be read.

    A link is not followed: the reason then names its target, where the user may look for the content.
    """
    if os.path.islink(path):  # noqa: PTH114 - a text
        return f"it is a link to {os.readlink(path)}"  # noqa: PTH115 - as above
    return files.describe_error(error, path)
