"""The actions of steps: their words, their symbols in a plan, their participles in progress messages.

Why a step has an action is for the planner.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self


class Action(StrEnum):
    """The action of a step; the value is the word in JSON, ``symbol`` the mark in a plan's text.

    ``participle`` is for progress messages; a type can have words of its own, see ``TypeDefinition.verbs``.
    """

    symbol: str
    participle: str

    CREATE = "create", "+", "creating"
    UPDATE = "update", "~", "updating"
    REPLACE = "replace", "-/+", "replacing"
    DELETE = "delete", "-", "deleting"
    READ = "read", "<=", "reading"
    IMPORT = "import", ">", "importing"
    FORGET = "forget", ".", "forgetting"
    REFRESH = "refresh", "!", "refreshing"
    RUN = "run", "~", "running"
    SAME = "same", " ", ""

    def __new__(cls, word: str, symbol: str, participle: str) -> Self:
        """Make a member from its word, its symbol and its participle."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.symbol = symbol
        member.participle = participle
        return member

    # The hash of str: Enum's is a Python function, called for each look-up in a set.
    __hash__ = str.__hash__


#: The actions that create a resource, or create it again.
CREATING: Final = frozenset({Action.CREATE, Action.REPLACE})
#: Action, as its word → its participle, for those that take time.
PARTICIPLES: Final = {str(action): action.participle for action in Action if action.participle}
