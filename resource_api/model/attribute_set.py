"""Attributes that belong together: those of a type, of a provider's configuration, of a function's inputs.

What each accepts, which must be given, which are secrets. What they are for is the business of whoever has them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from resource_api.model import attribute as attributes_
from resource_api.model.declaration import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from resource_api.model.attribute import Attribute


class AttributeSet:
    """Attributes by name, as declared."""

    def __init__(self, attributes: Mapping[str, Attribute]) -> None:
        """Hold ``attributes``; ``problems`` tells what is wrong with them."""
        self.attributes = dict(attributes) if hasattr(attributes, "items") else attributes

    @cached_property
    def accepts(self) -> Mapping[str, Callable[[Any], bool]]:
        """The cheapest correct check of each attribute's value."""
        return {name: attribute.datatype.accepts for name, attribute in self.attributes.items()}

    @cached_property
    def whole(self) -> Mapping[str, frozenset[type]]:
        """The kinds of value of which each attribute accepts every one."""
        return {name: attribute.datatype.whole for name, attribute in self.attributes.items()}

    @cached_property
    def defaults(self) -> tuple[tuple[str, Attribute], ...]:
        """The attributes that have a default."""
        return tuple((n, a) for n, a in self.attributes.items() if a.default is not MISSING)

    @cached_property
    def mandatory(self) -> tuple[str, ...]:
        """The attributes that must be given."""
        return tuple(name for name, attribute in self.attributes.items() if attribute.mandatory)

    @cached_property
    def sensitive(self) -> frozenset[str]:
        """The attributes whose values are secrets by their data type."""
        return frozenset(name for name, attribute in self.attributes.items() if attribute.datatype.sensitive)


def problems(held: AttributeSet, what: str) -> list[str]:
    """Give what is wrong with the attributes of something that only takes values, so that none has a kind.

    ``what`` names one of them in the message: ``config``, ``input``.
    """
    if not isinstance(held.attributes, dict):
        return [f"{what} must be a mapping of Attribute(...), not {type(held.attributes).__name__}"]
    found = []
    for name, attribute in held.attributes.items():
        wrong = attributes_.problems(name, attribute, reserved=())
        if not wrong and (attribute.kind or attribute.write_only):
            wrong = ["it is given and never read back, so it has no kind"]
        found += [f"{what} '{name}': {problem}" for problem in wrong]
    return found
