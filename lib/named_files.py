"""Read the files in the names of ``get``, for types that cannot be listed."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from resource_api import CannotList, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from resource_api import Context

Value = TypeVar("Value")
#: The errors for a missing file, or for a missing directory around it.
NO_FILE = (FileNotFoundError, NotADirectoryError)


@contextmanager
def reported(context: Context, path: str) -> Iterator[None]:
    """Report an error of the block as the failure of ``path``, so that other files are still read or changed."""
    try:
        yield
    except (OSError, ResourceError) as error:
        context.failed(path, message=files.describe_error(error, path))


def read_each(
    context: Context,
    names: Collection[str] | None,
    unlisted: str,
    read: Callable[[files.Directories, str], Value | None],
    missing: tuple[type[OSError], ...] = (FileNotFoundError,),
) -> Iterator[tuple[str, Value]]:
    """Yield (path, value of ``read``) of each path in ``names``, for the ``get`` of a type whose resources are files.

    A path is no resource if ``read`` raises one of ``missing`` or returns None; any other error fails it alone. Raise
    ``CannotList`` with the message ``unlisted`` if ``names`` is None.
    """
    if names is None:
        raise CannotList(unlisted)
    with files.Directories() as directories:
        for path in names:
            value: Value | None = None
            with reported(context, path), suppress(*missing):
                value = read(directories, path)
            if value is not None:
                yield path, value
