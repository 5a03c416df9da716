"""The two states of a resource as a provider receives them, their differences, and the side effects of a change."""

from __future__ import annotations

from collections.abc import Mapping as MappingABC
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import ProviderError
from resource_api.model.values.reference import capitalize_type, hashable_name
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import show_attribute, show_first
from resource_api.model.values.values import (
    Sensitive,
    copy_resource,
    declared_part,
    is_flat,
    is_secret,
    is_undecided,
    place_text,
    same_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.json_documents import SideEffectJson
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.model.values.values import Values


#: The most characters or elements of a value in a log line; renderers lay larger ones out.
_LARGE: Final = 100
#: The most parts of a value that a log line names one by one.
_FEW: Final = 5
#: Stands for a missing element of a hash or an array.
_NOTHING: Final = object()


class Change(NamedTuple):
    """The two states of one resource, as a provider's ``set`` receives them.

    ``is_`` is None if the resource does not exist; ``should["ensure"] == "absent"`` requests its deletion.
    """

    is_: Values | None
    should: Values


def _element(change: Change, index: Any) -> Any:
    """Return the state at an index of a change, which is a pair.

    Raise ``TypeError`` with advice for a text: authors who know Puppet, where a change is a hash, write ``["is"]``.
    """
    if type(index) is str:
        field = {"is": ".is_", "is_": ".is_", "should": ".should"}.get(index, f".should[{index!r}]")
        raise TypeError(f"a change is a pair (is_, should), not a mapping: write {field}, not [{index!r}]")
    return tuple.__getitem__(change, index)


def _no_attribute(_change: Change, name: str) -> Any:
    """Raise ``AttributeError``, which names the two fields: ``change.get("should")`` is the same mistake."""
    raise AttributeError(f"a change is a pair (is_, should), not a mapping: it has .is_ and .should, and no .{name}")


if not TYPE_CHECKING:  # a type checker is to find these mistakes itself; the fields and unpacking do not pass here
    Change.__getitem__ = _element
    Change.__getattr__ = _no_attribute


class Changes(MappingABC):  # type: ignore[type-arg] # a read-only view of mixed values
    """The argument of ``set``: name → ``Change``, in dependency order.

    Iteration skips a name once a prerequisite in the same call has failed, and ends once the run is interrupted. Each
    look returns read-only views, with copies of nested values, so that a provider cannot change the runtime's data.
    """

    def __init__(
        self, changes: Mapping[Name, Change], blocked: Callable[[Name], bool], interrupted: Callable[[], bool]
    ) -> None:
        """Store ``changes``; ``blocked`` and ``interrupted`` are called for each name when iteration reaches it.

        ``blocked`` returns whether a prerequisite of the name has failed in this call, ``interrupted`` whether the user
        has interrupted the run: no further change is then begun.
        """
        self.offered = changes
        self.blocked = blocked
        #: The names that the provider has read from this mapping; it cannot have begun to change others.
        self.begun: set[Name] = set()
        #: The name that iteration has come to; None before its first and after its last.
        self.current: Name | None = None
        self._interrupted = interrupted

    def __getitem__(self, name: Name) -> Change:
        """Return one change, with states that the provider may keep, but not modify; the name counts as begun.

        After an error or interrupt only names that were begun can have been changed.
        """
        is_, should = self.offered[name]
        self.begun.add(name)
        return Change(None if is_ is None else _read_only(is_), _read_only(should))

    def __iter__(self) -> Iterator[Name]:
        """Yield the names in dependency order, without the blocked ones, until the user interrupts the run.

        An interrupt ends the iteration only between two changes: the first name that is not blocked is always yielded.
        """
        first = True
        for name in self.offered:
            if not first and self._interrupted():
                break
            if not self.blocked(name):
                first = False
                self.begun.add(name)
                self.current = name
                yield name
        self.current = None

    def __len__(self) -> int:
        """Return the number of requested changes, blocked ones included."""
        return len(self.offered)

    def part(self, names: Iterable[Name]) -> Changes:
        """Return the changes of some names, for one of a type's implementations: each gets the names assigned to it.

        All parts share ``begun``, in which the runtime looks up the names that a failed call may have changed.
        """
        part = Changes({name: self.offered[name] for name in names}, self.blocked, self._interrupted)
        part.begun = self.begun
        return part


def _read_only(resource: Mapping[str, object]) -> Values:
    """Return a read-only view of a resource, with copies of nested values, which could be changed through it."""
    return MappingProxyType(resource if is_flat(resource) else copy_resource(resource))


class Difference(NamedTuple):
    """One attribute whose value is not as it should be; ``message`` is the provider's explanation, or empty."""

    attribute: str
    is_: Any
    should: Any
    message: str = ""
    #: Whether ``should`` is not known yet and cannot become equal to ``is_``.
    excluded: bool = False

    @property
    def values(self) -> tuple[Any, Any]:
        """Both values: ``is_`` and ``should``."""
        return self.is_, self.should

    @property
    def only_explained(self) -> bool:
        """Whether both values are equal, and the provider's message alone describes the difference."""
        return bool(self.message) and same_value(self.is_, self.should)

    @property
    def undecided(self) -> bool:
        """Whether it is not known yet if the values differ."""
        return not self.excluded and is_undecided(self.is_, self.should)


def difference_kind(difference: Difference) -> str:
    """Return the kind of a difference: ``add``, ``update`` or ``delete``; ``ensure: absent`` is no value."""
    none = (None, "absent") if difference.attribute == "ensure" else (None,)
    return _kind(difference.is_ not in none, difference.should not in none)


def _kind(before: object, after: object) -> str:
    """Return ``add``, ``update`` or ``delete``; ``before`` and ``after``: whether there is a value."""
    return "update" if before and after else "add" if after else "delete"


def nested_differences(
    is_: object, should: object, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield (path, kind) for each part of two hashes or arrays that differs; no values, because they may be secret.

    A plan's JSON lists these paths beside the two whole values. Nothing is yielded for two scalars, which have no
    parts; ``path`` is where the recursion has come to.
    """
    if any(isinstance(is_, kind) and isinstance(should, kind) for kind in (dict, list)):
        for key, before, after in _member_pairs(is_, should, _NOTHING):
            yield from nested_differences(before, after, (*path, key))
    elif path and not same_value(is_, should):
        yield path, _kind(is_ is not _NOTHING, should is not _NOTHING)


def _member_pairs(is_: Any, should: Any, missing: object) -> Iterator[tuple[Any, Any, Any]]:
    """Yield (key or index, old value, new value) for each member of two hashes or two arrays.

    ``missing`` stands for the value of a member that only the other one has.
    """
    if isinstance(is_, dict):
        yield from ((key, is_.get(key, missing), should.get(key, missing)) for key in {**is_, **should})
    else:
        for index, (before, after) in enumerate(zip_longest(is_, should, fillvalue=missing)):
            yield index, before, after


def nested_parts(difference: Difference) -> list[Difference]:
    """Return the differences of the parts of two values, each named by its path, such as ``rules[0].port``.

    A plan or a log line shows only these, not the equal parts. A difference of values that have no common parts, or
    that a provider's message explains, is returned whole.
    """
    name, is_, should, message, *_ = difference
    if message or not _is_nested(is_, should):
        return [difference]
    return [Difference(name + place_text(path), *pair) for path, *pair in _parts(is_, should, ())]


def _is_nested(is_: object, should: object) -> bool:
    """Return whether two values are compared part by part; in arrays of two lengths elements may have moved."""
    arrays = isinstance(is_, list) and isinstance(should, list) and len(is_) == len(should)
    return arrays or (isinstance(is_, dict) and isinstance(should, dict) and not is_.keys().isdisjoint(should))


def _parts(is_: Any, should: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    """Yield path, old and new value of each innermost part in which two values differ, for ``nested_parts``.

    Hashes with a common key and arrays of equal length are compared by parts, anything else as a whole. A member that
    only one hash has is None in the other.
    """
    if not _is_nested(is_, should):
        if not same_value(is_, should):
            yield path, is_, should
        return
    for key, before, after in _member_pairs(is_, should, None):
        yield from _parts(before, after, (*path, key))


def exists(resource: Mapping[str, object] | None) -> bool:
    """Return whether a resource exists; no row and a row with ``ensure: absent`` mean the same."""
    return resource is not None and resource.get("ensure") != "absent"


def ensure_of(resource: Mapping[str, object] | None) -> Any:
    """Return the value of ``ensure`` of a resource; ``present`` or ``absent`` where it has none."""
    return "absent" if resource is None else resource.get("ensure", "present")


def compared_value(definition: TypeDefinition, attribute: str, is_: object, should: object) -> Any:
    """Return the part of a present value to compare: of a ``merged`` attribute only the members in ``should``."""
    return declared_part(is_, should) if attribute in definition.merged else is_


def diff(definition: TypeDefinition, is_: Mapping[str, object], should: Mapping[str, object]) -> list[Difference]:
    """Return the differences of the read and the declared state, ``ensure`` first, for a provider without ``insync``.

    Values are compared exactly. Only declared attributes count, and of these the ones that ``get`` returns.
    """
    differences = []
    for attribute in definition.compared:
        if attribute in should:
            value = should[attribute]
            present = is_.get(attribute)
            if present is not value and not same_value(present, value):
                compared = compared_value(definition, attribute, present, value)
                # Of a merged attribute only the declared members are compared: these may be equal.
                if compared is present or not same_value(compared, value):
                    differences.append(Difference(attribute, compared, value))
    return differences


def state_differences(
    definition: TypeDefinition, is_: Mapping[str, object] | None, should: Mapping[str, object], hidden: Collection[str]
) -> list[Difference]:
    """Return each difference between two states of a resource, for the log lines of a finished change.

    There are none unless the resource exists in both states: a creation or a removal is one line of its own. Parameters
    are no part of a state. ``hidden``: the ``write_only`` attributes that the change has set, of which ``get`` returns
    no old value to compare.
    """
    if is_ is None or not exists(is_) or not exists(should):
        return []
    differences = []
    for name, value in should.items():
        if name in definition.parameters:
            continue
        present = compared_value(definition, name, is_.get(name), value)
        is_unseen = name in definition.write_only and name not in is_
        differs = name in hidden if is_unseen else not same_value(present, value)
        if differs:
            differences.append(Difference(name, present, value))
    return differences


def change_status(is_: Mapping[str, object] | None, should: Mapping[str, object]) -> str:
    """Return the word for a finished change, created, updated or deleted, for its log line and its status."""
    if not exists(should):
        return "deleted"
    return "updated" if exists(is_) else "created"


def describe_difference(definition: TypeDefinition, difference: Difference, *, colon: bool = False) -> str:
    """Return the log line of a difference, such as ``size changed from 3 to 4``, without secrets.

    A few differing parts of a value are described one by one, a text of several lines by the number of changed lines.
    ``colon``: write ``size: changed from 3 to 4``, because the message of a logging context stands before it.
    """
    attribute = difference.attribute
    if difference.message:
        return f"{attribute}: {difference.message}"
    verb = f"{attribute}: changed" if colon else f"{attribute} changed"
    is_, should = conceal_difference(definition, difference).values
    if isinstance(is_, Sensitive):
        return f"{verb} <sensitive>"
    parts = nested_parts(Difference(attribute, is_, should))
    # A difference that is returned whole has the attribute's own name.
    if 0 < len(parts) <= _FEW and parts[0].attribute != attribute:
        return "; ".join(describe_difference(definition, part, colon=colon) for part in parts)
    if is_text_change(difference):
        from resource_api.model.values.line_diff import count_changes

        return f"{verb} {count_changes(is_, should)}"
    return f"{verb} from {show_attribute(is_)} to {show_attribute(should)}"


def is_text_change(difference: Difference) -> bool:
    """Return whether a difference is shown line by line: one of its values is a text of two or more lines."""
    has_lines = False
    for value in (difference.is_, difference.should):
        if isinstance(value, str):
            # One line break at the end does not count.
            has_lines = has_lines or value.find("\n", 0, -1) >= 0
        elif value is not None:
            return False
    return has_lines


def large_change(definition: TypeDefinition, difference: Difference) -> Difference | None:
    """Return a difference that is too large for one line of the log; else None.

    Its values are long, or a text of several lines: the log event carries them, to be shown cut or as a diff. A secret
    difference, or one that a provider's message describes, is never too large.
    """
    is_, should = difference.is_, difference.should
    large = any(isinstance(value, (str, list, dict)) and len(value) > _LARGE for value in (is_, should))
    if difference.message or not (large or is_text_change(difference)):
        return None
    return None if any(map(is_secret, conceal_difference(definition, difference).values)) else difference


def conceal_difference(definition: TypeDefinition, difference: Difference) -> Difference:
    """Return a difference with both values wrapped where the attribute, or one of them, is secret.

    In a list or mapping with secret parts by its data type, only these parts are wrapped.
    """
    declared = definition.attributes.get(difference.attribute)
    if declared is not None and declared.datatype.sensitive:
        is_, should = map(declared.datatype.conceal, difference.values)
        difference = difference._replace(is_=is_, should=should)
    is_, should = difference.is_, difference.should
    if isinstance(is_, Sensitive) or isinstance(should, Sensitive) or (declared is not None and declared.write_only):
        return difference._replace(is_=Sensitive(is_), should=Sensitive(should))
    return difference


def difference_fields(definition: TypeDefinition, difference: Difference) -> Mapping[str, Any]:
    """Return the fields of a log event about a difference."""
    is_, should = conceal_difference(definition, difference).values
    return {"attribute": difference.attribute, "is": is_, "should": should}


#: The number of side effects of one action that are named; removals are always named.
_MOST_SIDE_EFFECTS: Final = 10


class SideEffect(NamedTuple):
    """One resource that a change creates, alters or removes in addition; a provider's ``side_effects`` returns it."""

    #: Its canonical name within its type.
    name: Name
    #: The base form of a regular verb: remove, install, downgrade, stop.
    action: str
    #: Its type; empty: the type of the resource that is changed.
    type: str = ""
    #: The attributes that it will have, as ``get`` would return them; None: it is gone, or works no longer.
    state: Values | None = None
    #: Other names that it can be declared by.
    aliases: Collection[Name] = ()
    #: Whether it came with the resource and may go with it undeclared, as the group of a user does.
    dependent: bool = False
    #: Whether the action includes all names that begin with this one and a slash; for paths, of any type.
    tree: bool = False
    #: Whether it is the declared change itself: it must not undo another declaration, and is not shown.
    asked: bool = False

    def __str__(self) -> str:
        """Return the text in a plan: the name, or the reference, ``Package[a]``, of another type than the step's."""
        name = " ".join(map(str, self.name)) if isinstance(self.name, tuple) else str(self.name)
        reference = f"{capitalize_type(self.type)}[{name}]" if self.type else name
        return f"{reference} and all below it" if self.tree else reference

    @property
    def removes(self) -> bool:
        """Whether it is gone afterwards, or works no longer."""
        return self.state is None or self.state.get("ensure") == "absent"

    def checked(self) -> SideEffect:
        """Return this side effect, which a provider has made, after a check of its fields.

        Raise ``ProviderError`` for a wrong type, so that the message names the provider's mistake.
        """
        verb = isinstance(self.action, str) and self.action.isalpha() and self.action.islower()
        state = self.state is None or hasattr(self.state, "keys")
        if verb and state and isinstance(self.type, str) and isinstance(self.name, (str, int, float, tuple)):
            return self
        msg = f"a SideEffect has a name, a lower-case verb as action, a type and a state, not {tuple(self)!r:.80}"
        raise ProviderError(msg)

    @classmethod
    def from_document(cls, document: SideEffectJson) -> SideEffect:
        """Return the side effect of a ``document``, which does not contain the state."""
        name = document["name"]
        return cls(hashable_name(name), document["action"], document.get("type", ""))

    def document(self) -> SideEffectJson:
        """Return the fields for a plan's JSON: the name, the action, and the type if it is not that of the step."""
        name = list(self.name) if isinstance(self.name, tuple) else self.name
        document: SideEffectJson = {"name": name, "action": self.action}
        if self.type:
            document["type"] = self.type
        return document


def describe_side_effects(effects: Sequence[SideEffect]) -> Iterator[str]:
    """Yield one line for each action of side effects, such as ``also removes bigapp``, for the plan's text."""
    by_action: dict[str, list[SideEffect]] = {}
    for effect in effects:
        by_action.setdefault(effect.action, []).append(effect)
    for action, same in by_action.items():
        # What would be removed is named in full: a user must see all of it.
        most = len(same) if any(effect.removes for effect in same) else _MOST_SIDE_EFFECTS
        verb = f"{action}es" if action.endswith(("ch", "sh", "s", "x")) else f"{action}s"
        yield f"also {verb} {show_first(same, most)}"
