"""Turn the exceptions of a block into another error with the same message."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def errors_as(
    error: Callable[[str], Exception],
    caught: type[Exception] | tuple[type[Exception], ...] = ValueError,
    begin: str = "",
    *,
    names_file: bool = False,
) -> Iterator[None]:
    """Raise ``error``, an error for the user, in place of an exception of the classes ``caught`` in the block.

    Its message is ``begin``, and then the exception's message, for an ``OSError`` the system's reason alone.
    ``names_file``: begin with the file of the exception instead, if it has one.
    """
    try:
        yield
    except caught as cause:
        if names_file and (file := getattr(cause, "filename", None)):
            begin = f"{file}: "
        raise error(begin + (getattr(cause, "strerror", None) or str(cause))) from cause
