"""Requirements among packages of Python, and those that a change breaks."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packaging.requirements import Requirement

    #: The version of a package, and its requirements as text.
    Package = tuple[str, Sequence[str]]


def names(texts: Iterable[str]) -> list[str]:
    """Return the names in requirements, also of optional ones."""
    return [requirement.name for requirement in _requirements(texts)]


def broken(
    present: Mapping[str, Package], versions: Mapping[str, str | None], canonical: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield (package that changes, package that stays and does not accept that) by canonical name.

    ``versions`` are those of the changed packages, None for a removal. Requirements broken before are left out.
    """
    for name, (_, texts) in present.items():
        for requirement in _requirements(texts) if name not in versions else ():
            needed = canonical(requirement.name)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if needed in versions and applies:
                before, after = present.get(needed, (None,))[0], versions[needed]
                if _accepts(requirement, before) and not _accepts(requirement, after):
                    yield needed, name


def _accepts(requirement: Requirement, version: str | None) -> bool:
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def _requirements(texts: Iterable[str]) -> Iterator[Requirement]:
    from packaging.requirements import InvalidRequirement, Requirement  # an extra installs it

    for text in texts:
        with suppress(InvalidRequirement):
            yield Requirement(text)
