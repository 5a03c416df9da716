"""Files with more than one resource in each: lines of crontabs, keys of ssh, settings of programs."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lib import prerequisites, validate_cmd
from lib.sensitive import new_mode, reveal
from resource_api import CannotList, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Problem

File = TypeVar("File")
Part = TypeVar("Part")
Content = TypeVar("Content")
PAIR = 2  # a path and one more namevar
Name = TypeVar("Name", bound=tuple[Any, ...])


def report_unreadable(context: Context, candidates: Iterable[Any], reason: str, names: Collection[Any] | None) -> None:
    """Fail the resources among ``candidates`` that are requested by ``names``, because their file is unreadable.

    In a listing (``names`` None) it is only a warning, because the resources of other files can still be shown.
    """
    if names is None:
        context.warning(reason)
    elif failed := [name for name in candidates if name in names]:
        context.failed(failed, message=reason)


def at(path: str, error: OSError | ResourceError) -> str:
    """Return the message of an error about a file, with its path first, as a resource's title may lack it."""
    text = files.describe_error(error, path)
    return text if text.startswith(path) else f"{path}: {text}"


@contextmanager
def described(path: str = "") -> Iterator[None]:
    """Raise ``ResourceError`` for an ``OSError`` in the ``with`` block, in words for the user, with the file's path.

    ``path`` is the title of the resource, which the message has anyway: if it is that file, it is not repeated.
    """
    try:
        yield
    except OSError as error:
        raise ResourceError(files.describe_error(error, path)) from error


def read_files(
    context: Context, names: Collection[Name] | None, read: Callable[[str], Content], unlisted: str
) -> Iterator[tuple[str, list[Name], Content]]:
    """Yield (path, names, content) of each file, for the ``get`` of a type with several resources in one file.

    Names begin with the path; ``read`` returns the content, so each file is read once for all its names. A file that
    cannot be read fails its names alone. Raise ``CannotList`` with the message ``unlisted`` if ``names`` is None.
    """
    if names is None:
        raise CannotList(unlisted)
    groups: dict[str, list[Name]] = {}
    for name in names:
        groups.setdefault(name[0], []).append(name)
    for path, group in groups.items():
        try:
            content = read(path)
        except (OSError, ResourceError) as error:
            context.failed(group, message=at(path, error))
        else:
            yield path, group, content


def edit_files(
    changes: Mapping[Any, Change],
    split: Callable[[Any], tuple[File, Part]],
    edit: Callable[[File, Mapping[Part, Mapping[str, Any] | None], int], None],
) -> None:
    """Edit each file once for all its changes; after all files, raise the first failure of one.

    So the failure of one file does not prevent the changes of the others.
    ``split`` returns the file of a resource and its name there; ``edit`` receives the declared states by name, with
    secrets unwrapped and None for a removal, and the mode of a new file: private if any value is secret.
    """
    edits: dict[File, dict[Part, Mapping[str, Any] | None]] = {}
    modes: dict[File, int] = {}
    for identity, (_, should) in changes.items():
        file, name = split(identity)
        absent = should.get("ensure") == "absent"
        edits.setdefault(file, {})[name] = None if absent else reveal(should)
        modes[file] = modes.get(file, 0o644) & (0o644 if absent else new_mode(should))  # the bits that all allow
    failures: list[Exception] = []
    for file, states in edits.items():
        try:
            edit(file, states, modes[file])
        except ResourceError as error:
            failures.append(error)
        except OSError as error:
            failures.append(ResourceError(files.describe_error(error, "")))
    if failures:
        raise failures[0]


def edit_file(path: str, change: Callable[[files.Lines], None], mode: int = 0o644) -> None:
    """Edit the lines of a file by ``change``; a new file gets ``mode``.

    Raise ``ResourceError`` with the path, for types whose resources do not have it in their titles, such as ``mount``.
    """
    try:
        files.edit_lines(path, change, mode=mode)
    except OSError as error:
        raise ResourceError(f"{path}: {files.describe_error(error, path)}") from error


def edit_lines(
    changes: Mapping[Any, Change], edit: Callable[..., None], options: Callable[[str], Mapping[str, Any]] | None = None
) -> None:
    """Edit the lines of each file once for all its changes; each `validate_cmd` must accept the new content.

    A name in ``changes`` is a tuple that begins with the path of the file. ``edit`` gets the lines of one file and
    ``states``: the remaining parts of each name → the declared attributes, None for a removal. ``options`` returns
    further arguments of ``edit`` for a path.
    """
    checks = validate_cmd.checkers(changes)

    def split(name: tuple[Any, ...]) -> tuple[str, Any]:
        """Return the path and the rest of a name: its only part, or a tuple of more."""
        return name[0], name[1] if len(name) == PAIR else name[1:]

    def rewrite(path: str, states: Mapping[Any, Mapping[str, Any] | None], mode: int) -> None:
        change = partial(edit, states=states, **(options(path) if options else {}))
        files.edit_lines(path, change, mode=mode, check=checks.get(path))

    edit_files(changes, split, rewrite)


def missing(changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
    """Yield the missing prerequisites of parts of files: the directory of the file, and the program that checks it."""
    yield from prerequisites.edited({name: name[0] for name in changes})
    for name, should in changes.items():
        yield from ((name, problem) for problem in prerequisites.missing_checker(should.get("validate_cmd")))
