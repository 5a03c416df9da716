"""The actions of steps: their words, their symbols in a plan, their participles.

Why a step has an action is for the planner.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


class Action(StrEnum):
    """The action of a step; the value is the word in JSON, ``symbol`` the mark in a plan's text."""

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

    def __new__(cls, word: str, symbol: str) -> Self:
        """Make a member from its word and its symbol."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.symbol = symbol
        return member

    # The hash of str: Enum's is a Python function, called for each look-up in a set.
    __hash__ = str.__hash__


#: Action → its participle in progress messages; a type can have words of its own, see ``TypeDefinition.verbs``.
PARTICIPLES: Final[Mapping[str, str]] = {
    "create": "creating",
    "update": "updating",
    "replace": "replacing",
    "delete": "deleting",
    "read": "reading",
    "import": "importing",
    "forget": "forgetting",
    "refresh": "refreshing",
    "run": "running",
}

#: The actions that create a resource, or create it again.
CREATING: Final = frozenset({Action.CREATE, Action.REPLACE})
