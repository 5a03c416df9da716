"""What a step would do to a resource: the pair of its two states, the action, the attribute diff.

Pure values and comparisons; why a step exists and in which order it runs is the planner's business.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from resource_api.nouns.values import same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.nouns.definition import TypeDefinition


class Action(str, Enum):
    """What a step does; the value is the word in JSON, ``symbol`` the mark in a plan."""

    symbol: str

    CREATE = "create", "+"
    UPDATE = "update", "~"
    REPLACE = "replace", "-/+"
    DELETE = "delete", "-"
    READ = "read", "<="
    IMPORT = "import", ">"
    FORGET = "forget", "."
    REFRESH = "refresh", "!"
    RUN = "run", "~"
    SAME = "same", " "

    def __new__(cls, word: str, symbol: str) -> Action:
        """Make a member of its word and its symbol."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.symbol = symbol
        return member

    def __str__(self) -> str:
        """Give the word."""
        return str(self.value)


class Change(NamedTuple):
    """What a provider's ``set`` gets for one name: the two states of the resource.

    ``is_`` is None when it does not exist; ``should["ensure"] == "absent"`` asks for deletion.
    """

    is_: Mapping[str, Any] | None
    should: Mapping[str, Any]


class Difference(NamedTuple):
    """One attribute that is not as it should be; ``message`` explains it where a provider does."""

    attribute: str
    is_: Any
    should: Any
    message: str = ""


def exists(resource: Mapping[str, Any] | None) -> bool:
    """Whether what was read exists: a row with ``ensure: absent`` and no row mean the same."""
    return resource is not None and resource.get("ensure") != "absent"


def diff(definition: TypeDefinition, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[Difference]:
    """Compare what exists with what should be: managed attributes that are declared, exactly, ``ensure`` first."""
    found = []
    for attribute in definition.managed:
        if attribute in should and attribute not in definition.write_only:
            wanted = should[attribute]
            value = is_.get(attribute)
            if value is not wanted and not same(value, wanted):
                found.append(Difference(attribute, value, wanted))
    return found
