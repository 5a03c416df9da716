"""Lines in files of users, several resources in each: crontabs and authorized_keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from resource_api import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from resource_api import Change, Context

File = TypeVar("File")


def report_unreadable(context: Context, found: Iterable[Any], why: str, names: Collection[Any] | None) -> None:
    """Report what cannot be read: as a failure of the names that ``get`` was called with, or as a warning in a list."""
    if names is None:
        context.warning(why)
    elif failed := [name for name in found if name in names]:
        context.failed(failed, message=why)


def edit_files(
    changes: Mapping[Any, Change],
    split: Callable[[Any], tuple[File, str]],
    edit: Callable[[File, Mapping[str, Mapping[str, Any] | None]], None],
) -> None:
    """Edit each file once for all its changes, whatever happens to the others, and then raise the first failure.

    ``split`` returns the file of a resource and its name there; ``edit`` receives the wanted states by name, None for
    what is to be removed.
    """
    files: dict[File, dict[str, Mapping[str, Any] | None]] = {}
    for identity, (_, should) in changes.items():
        file, name = split(identity)
        files.setdefault(file, {})[name] = None if should.get("ensure") == "absent" else should
    failures: list[Exception] = []
    for file, wanted in files.items():
        try:
            edit(file, wanted)
        except (OSError, ResourceError) as error:
            failures.append(error)
    if failures:
        raise failures[0]
