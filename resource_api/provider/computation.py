"""Computations of providers that may take long: they end with the time limit of the call, and with an interrupt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from resource_api.model.values.errors import ResourceError
from resource_api.provider.context import current
from resource_api.system.process import computation

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")

#: Seconds that a computation may take where no time limit is declared.
LIMIT: Final = 30.0


def compute(what: str, function: Callable[[], Value], *, seconds: float | None = None) -> Value:
    """Return ``function()``, computed in a process of its own: for untrusted data, on which it may never end.

    It must change nothing, and its result is copied. The first argument names it in errors. It ends after ``seconds``
    (None: 30), with the time limit of the resource, and at the first interrupt, as nothing has been changed by it.
    Raise ``ResourceError`` then, and the exceptions of ``function``.
    """
    context = current.get()
    until = time.monotonic() + (LIMIT if seconds is None else seconds)
    if context is not None and context.deadline is not None:
        until = min(until, context.deadline)
    limit = max(0.0, until - time.monotonic())

    def go_on() -> None:
        if time.monotonic() >= until:
            msg = f"{what} takes more than {limit:.3g} s, and was ended"
            raise ResourceError(msg)
        if context is not None and context.cancelled:
            msg = f"{what} was ended: the run is being stopped"
            raise ResourceError(msg)

    try:
        return computation.compute(function, go_on)  # type: ignore[no-any-return] # it is what the function returns
    except MemoryError:
        msg = f"{what} needs more than {computation.MEMORY >> 30} GiB of memory"
        raise ResourceError(msg) from None
    except OSError as error:
        msg = f"{what} failed: {error.strerror or error}"
        raise ResourceError(msg) from error
