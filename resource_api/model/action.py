"""The actions of steps: their words, symbols, participles and outcomes."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self


class Action(StrEnum):
    """The action of a step; the value is the word in JSON, ``symbol`` the mark in a plan's text.

    ``participle`` is for progress messages; a type can have words of its own, see ``TypeDefinition.verbs``. ``outcome``
    is the field of ``Summary`` that counts it, or "".
    """

    symbol: str
    participle: str
    outcome: str

    CREATE = "create", "+", "creating", "created"
    UPDATE = "update", "~", "updating", "updated"
    REPLACE = "replace", "-/+", "replacing", "replaced"
    DELETE = "delete", "-", "deleting", "deleted"
    READ = "read", "<=", "reading", ""
    IMPORT = "import", ">", "importing", "imported"
    FORGET = "forget", ".", "forgetting", "forgotten"
    REFRESH = "refresh", "!", "refreshing", "refreshed"
    RUN = "run", "~", "running", "ran"
    SAME = "same", " ", "", ""

    def __new__(cls, word: str, symbol: str, participle: str, outcome: str) -> Self:
        """Make a member from the four fields that the class assigns to its name.

        The member is a text that equals its ``word``, so that JSON and comparisons need no conversion.
        """
        member = str.__new__(cls, word)
        member._value_ = word
        member.symbol = symbol
        member.participle, member.outcome = participle, outcome
        return member

    # The hash of str: Enum's is a Python function, called for each look-up in a set.
    __hash__ = str.__hash__


#: The actions that create a resource, or create it again.
CREATING: Final = frozenset({Action.CREATE, Action.REPLACE})
#: Action, as its word → its participle, for those that take time.
PARTICIPLES: Final = {str(action): action.participle for action in Action if action.participle}
