"""What somebody raised, as plain values and back: an error that has crossed to another process says the same sentence.

An error of our tree comes back as itself, with what it carries; a foreign one as a class of the same name.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Characters of a text that are kept.
_LONGEST: Final = 64 * 1024
_FOREIGN: Final = (Exception, OSError, KeyboardInterrupt, SystemExit, GeneratorExit, BaseException)
_BASES: Final[Mapping[str, type[BaseException]]] = {
    **{each.__name__: each for each in _FOREIGN},
    **{
        name: each
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, errors.ResourceAPIError)
    },
}


def describe(error: BaseException) -> dict[str, Any]:
    """Give the name of an error's class, the nearest class that everybody knows, its text, and what ours carry."""
    base = next(each for each in type(error).__mro__ if _BASES.get(each.__name__) is each)
    try:
        text = str(error)[:_LONGEST]
    except Exception:  # noqa: BLE001 - a foreign class may do anything
        text = ""
    more = vars(error) if isinstance(error, errors.ResourceAPIError) else {}
    return {"name": type(error).__name__, "base": base.__name__, "text": text, "more": more}


def restore(described: Mapping[str, Any]) -> BaseException:
    """Give the error that was described, to be raised."""
    base = _BASES[described["base"]]
    kind = base if base.__name__ == described["name"] else _class(described["name"], described["base"])
    error = kind.__new__(kind)
    error.args = (described["text"],) if described["text"] else ()
    vars(error).update(described["more"])
    return error


def contained(described: Mapping[str, Any]) -> Exception:
    """Give the error that was described as one that can be handled; an interrupt, which cannot, is raised."""
    error = restore(described)
    if isinstance(error, KeyboardInterrupt):
        raise error
    return error if isinstance(error, Exception) else errors.ProviderError(errors.reason(error))


@cache
def _class(name: str, base: str) -> type[BaseException]:
    """Give a class of a foreign name that is made without arguments of its own."""
    return type(name, (_BASES[base],), {})
