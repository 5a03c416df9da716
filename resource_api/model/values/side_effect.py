"""What a change does beyond what was asked: a package that is removed with another one, a service that stops too.

Providers report these values before they change anything. Which of them are forbidden is decided in ``plan``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ProviderError
from resource_api.model.values.reference import capitalize_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from resource_api.model.type_definition import Name

#: So many names are shown of what comes to be or stays; what is removed is always named.
_NAMED: Final = 10


class SideEffect(NamedTuple):
    """One thing that a change creates, alters or removes besides.

    A provider's ``side_effects`` returns it. Raise ``ProviderError`` by ``checked`` for values of other types.
    """

    #: The thing's canonical name within its type.
    name: Name
    #: What happens to it, as the base form of a regular verb: remove, install, downgrade, stop.
    action: str
    #: Its type; empty: the type of the resource that is changed.
    type: str = ""
    #: The attributes that it will have, as ``get`` would return them; None: it is gone, or works no longer.
    state: Mapping[str, Any] | None = None
    #: Other names that it can be declared by.
    aliases: Collection[Name] = ()
    #: Whether it came with the resource and may go with it undeclared, as the group of a user does.
    dependent: bool = False
    #: Whether it happens also to all whose name begins with this one and a slash.
    tree: bool = False

    def __str__(self) -> str:
        """Return the name; of a thing of another type its reference."""
        name = " ".join(map(str, self.name)) if isinstance(self.name, tuple) else str(self.name)
        reference = f"{capitalize_type(self.type)}[{name}]" if self.type else name
        return f"{reference} and all below it" if self.tree else reference

    @property
    def removes(self) -> bool:
        """Whether the thing is gone afterwards, or works no longer."""
        return self.state is None or self.state.get("ensure") == "absent"

    def checked(self) -> SideEffect:
        """Return this value. Raise ``ProviderError`` where a field is of another type than documented."""
        verb = isinstance(self.action, str) and self.action.isalpha() and self.action.islower()
        state = self.state is None or hasattr(self.state, "keys")
        if verb and state and isinstance(self.type, str) and isinstance(self.name, (str, int, float, tuple)):
            return self
        msg = f"a SideEffect has a name, a lower-case verb as action, a type and a state, not {tuple(self)!r:.80}"
        raise ProviderError(msg)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> SideEffect:
        """Return the side effect that ``document`` made; what state it leads to is not in it."""
        name = document["name"]
        return cls(tuple(name) if isinstance(name, list) else name, document["action"], document.get("type", ""))

    def document(self) -> dict[str, Any]:
        """Return the fields that are shown in JSON: the name, the action, and the type if it is another one."""
        name = list(self.name) if isinstance(self.name, tuple) else self.name
        return {"name": name, "action": self.action, **({"type": self.type} if self.type else {})}


def describe(effects: Sequence[SideEffect]) -> Iterator[str]:
    """Yield one line for each action: ``also removes bigapp``."""
    by_action: dict[str, list[SideEffect]] = {}
    for effect in effects:
        by_action.setdefault(effect.action, []).append(effect)
    for action, same in by_action.items():
        shown = same if any(effect.removes for effect in same) else same[:_NAMED]
        more = f" and {len(same) - len(shown)} more" if len(same) > len(shown) else ""
        yield f"also {action}s {', '.join(map(str, shown))}{more}"
