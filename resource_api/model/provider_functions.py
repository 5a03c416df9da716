"""A type together with what its provider answers from its arguments alone, as plain functions.

The pure stages compute with these and never see a provider. Where the functions come from is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.model.values.errors import Problem

    #: Which attributes of a resource are compared, and its two states.
    Question = tuple[Name, Sequence[str], Mapping[str, Any], Mapping[str, Any]]


class Planned(NamedTuple):
    """What a provider with the feature ``plan`` foresees for one resource.

    ``state``: attributes that it will have; ``unknown``: those that only doing it will yield; ``replace``: those
    whose change needs a replacement; ``delete_first``: whether the old one must go first.
    """

    state: Mapping[str, Any] = {}
    unknown: Collection[str] = ()
    replace: Collection[str] = ()
    delete_first: bool | None = None


class ProviderFunctions(NamedTuple):
    """The pure methods of one type's provider; None where the type does not declare the feature."""

    definition: TypeDefinition
    #: Texts that each attribute is known to accept: whoever checks adds to it, so that each is checked once in a run.
    familiar: dict[str, set[str]]
    canonicalize: Callable[[list[Resource]], list[Resource]] | None = None
    #: Give what is wrong with each of many resources, or the exception that came of one.
    validate: Callable[[Sequence[Mapping[str, Any]]], Iterator[list[Problem] | Exception]] | None = None
    #: Of each (name, attributes, is, should) give the provider's answers, or the exception that came of one.
    insync: Callable[[Iterable[Question]], Iterator[list[Any] | Exception]] | None = None
    plan: Callable[[Name, Mapping[str, Any] | None, Mapping[str, Any]], Planned] | None = None
    upgrade: Callable[[int, Mapping[str, Any]], Mapping[str, Any]] | None = None
    #: Of its configuration: what it is with what the provider adds, and which changes its resources do not survive.
    check_config: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    diff_config: Callable[[Mapping[str, Any], Mapping[str, Any]], Collection[str]] | None = None
    #: What policies say of one resource: why it is forbidden, or nothing.
    check_policies: Callable[[Entry, Mapping[str, Any]], str] | None = None
