"""Parts of files, several resources in each: lines of crontabs, keys of ssh, settings of programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from resource_api import ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context

File = TypeVar("File")
Part = TypeVar("Part")
Content = TypeVar("Content")
Name = TypeVar("Name", bound=tuple[Any, ...])


def report_unreadable(context: Context, found: Iterable[Any], why: str, names: Collection[Any] | None) -> None:
    """Report what cannot be read: as a failure of the names that ``get`` was called with, or as a warning in a list."""
    if names is None:
        context.warning(why)
    elif failed := [name for name in found if name in names]:
        context.failed(failed, message=why)


def read_files(
    context: Context, names: Collection[Name], read: Callable[[str], Content]
) -> Iterator[tuple[str, list[Name], Content]]:
    """Yield each file of ``names``, which begin with its path, the names in it, and what ``read`` returns for it.

    A file that cannot be read fails its names.
    """
    groups: dict[str, list[Name]] = {}
    for name in names:
        groups.setdefault(name[0], []).append(name)
    for path, group in groups.items():
        try:
            content = read(path)
        except (OSError, ResourceError) as error:
            context.failed(group, message=files.describe_error(error, path))
        else:
            yield path, group, content


def edit_files(
    changes: Mapping[Any, Change],
    split: Callable[[Any], tuple[File, Part]],
    edit: Callable[[File, Mapping[Part, Mapping[str, Any] | None]], None],
) -> None:
    """Edit each file once for all its changes, whatever happens to the others, and then raise the first failure.

    ``split`` returns the file of a resource and its name there; ``edit`` receives the wanted states by name, None for
    what is to be removed.
    """
    found: dict[File, dict[Part, Mapping[str, Any] | None]] = {}
    for identity, (_, should) in changes.items():
        file, name = split(identity)
        found.setdefault(file, {})[name] = None if should.get("ensure") == "absent" else should
    failures: list[Exception] = []
    for file, wanted in found.items():
        try:
            edit(file, wanted)
        except (OSError, ResourceError) as error:
            failures.append(error)
    if failures:
        raise failures[0]
