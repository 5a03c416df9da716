"""A type with the pure methods of its provider, as plain functions, and the questions of planning to the world.

The pure packages compute with these functions and never see a provider, and the planner itself touches nothing:
``snapshot.observe`` answers its questions with providers, and a test can answer them with literals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from resource_api.model.datatypes import from_text, messages
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.change import Difference
    from resource_api.model.entry import Entry
    from resource_api.model.record import Record
    from resource_api.model.type_definition import FunctionCall, Name, Resource, TypeDefinition
    from resource_api.model.values.errors import Problem
    from resource_api.model.values.expression import ExpressionPath
    from resource_api.model.values.values import Values

    #: Name of a resource, the attributes to compare, ``is`` and ``should``.
    Question = tuple[Name, Sequence[str], Values, Values]


class Planned(NamedTuple):
    """The result of ``plan`` of a provider for one resource."""

    #: Values that the resource will have.
    state: Mapping[str, object] = {}
    #: Attributes whose values are known only after the change.
    unknown: Collection[str] = ()
    #: Attributes whose change needs a replacement, or parts of them: ``body.region``, ``rules[*].port``.
    replace: Collection[str] = ()
    #: Whether a replacement must delete the old resource first; None: the manifest decides.
    delete_first: bool | None = None
    #: Attributes that are not declared and that the change alters, to their value in ``state``, or to none.
    changes: Collection[str] = ()
    #: Whether the plan may be inexact: rules of a plan and of verification that it breaks are lines for debugging.
    tolerant: bool = False


class ProviderFunctions(NamedTuple):
    """The pure methods of one type's provider; None if the type does not declare the feature."""

    definition: TypeDefinition
    #: Attribute → texts that its data type accepts: a memo, so that each text is checked once in a run.
    accepted_texts: dict[str, set[str]]
    canonicalize: Callable[[list[Resource]], list[Resource]] | None = None
    #: Yields the problems of each resource, or the exception that was raised for it.
    validate: Callable[[Sequence[Values]], Iterator[list[Problem] | Exception]] | None = None
    #: Yields the answers about the attributes of each question, or the exception that was raised for it.
    insync: Callable[[Iterable[Question]], Iterator[list[Any] | Exception]] | None = None
    plan: Callable[[Name, Values | None, Values], Planned] | None = None
    upgrade: Callable[[int, Values], Values] | None = None
    #: Returns a configuration with the values that the provider adds; with the former one where another is recorded.
    check_config: Callable[[Values, Values | None], Values] | None = None
    #: Returns the values whose change puts resources that were made with the old configuration out of reach.
    diff_config: Callable[[Values, Values], Collection[str]] | None = None
    #: Returns why policies forbid a resource; empty if they do not.
    check_policies: Callable[[Entry, Values], str] | None = None
    #: The names of the type's providers, in the order of preference; an ordinary type has one, of its own name.
    implementations: Sequence[str] = ()
    #: Why the provider cannot be made yet: a resource may install its requirements. Its functions are None then.
    missing: str = ""


def canonical_name(functions: ProviderFunctions, title: str, namevars: Mapping[str, object] | None = None) -> Name:
    """Return the canonical name of a resource from its title, by which its record and its row are looked up.

    ``namevars``, which a command has as ``ATTR=VALUE``, take precedence over those in the title. Namevars in the title
    are text, and are converted to their data types. Raise ``ValueError`` where a namevar is missing, or has a value
    that its data type does not accept. ``functions``: those of the type's provider.
    """
    definition, namevars = functions.definition, namevars or {}
    captured = definition.namevars_from_title(title) if len(namevars) < len(definition.namevars) else {}
    row = {**(captured or {}), **namevars}
    if len(row) != len(definition.namevars):
        missing = ", ".join(namevar for namevar in definition.namevars if namevar not in row)
        raise ValueError(f"the title does not hold every namevar; add {missing} as ATTR=VALUE")
    for key in row.keys() - namevars.keys():
        if isinstance(row[key], str):
            namevar = definition.attributes[key]
            row[key] = from_text.coerce(namevar.datatype, row[key], namevar.must_be)
    return definition.name_of(functions.canonicalize([row])[0] if functions.canonicalize else row)


def canonical_names(functions: ProviderFunctions, names: Iterable[object]) -> list[Name]:
    """Return the canonical names, each once, for the ``names`` that a program passes, to read these resources.

    With two or more namevars a name is a tuple of their values, or a title that contains them. Raise ``ValueError`` for
    an object that is no name.
    """
    rows = [_named_row(functions.definition, name) for name in names]
    canonical = functions.canonicalize(rows) if functions.canonicalize and rows else rows
    return list(dict.fromkeys(map(functions.definition.name_of, canonical)))


def _named_row(definition: TypeDefinition, name: object) -> Resource:
    """Return the namevars, by attribute, of a resource's name from a program: a value, a tuple of values, or a title.

    Raise ``ValueError`` unless it has a valid value for each namevar.
    """
    namevars = definition.namevars
    if len(namevars) == 1:
        row: Resource | None = {namevars[0]: name}
    elif isinstance(name, tuple) and len(name) == len(namevars):
        row = dict(zip(namevars, name, strict=True))
    else:
        row = definition.namevars_from_title(name) if isinstance(name, str) else None
    if row is None or len(row) != len(namevars):
        raise ValueError(f"{name!r} is no name; write a tuple of {', '.join(namevars)}")
    for namevar, value in row.items():
        attribute = definition.attributes[namevar]
        if not attribute.datatype.accepts(value):
            raise ValueError(f"{namevar} {messages.refusal(attribute.datatype, value, attribute.must_be)}")
    return row


class Observation(NamedTuple):
    """The result of reading one resource: its row (None: it does not exist), or the reason why it could not be read."""

    row: Values | None = None
    failure: str = ""


class Due(NamedTuple):
    """The answer of ``due`` for an imperative resource: whether to run it and the reason, or that of a failure."""

    run: bool = False
    reason: str = ""
    failure: str = ""
    #: The changes that it would make, as far as its provider can tell.
    differences: Sequence[Difference] = ()
    #: The values of its ``read_only`` attributes where it is not run; None: its type has none.
    row: Values | None = None


class Readiness(NamedTuple):
    """Whether a provider instance can be called: ``failure`` is empty if it can."""

    failure: str = ""
    #: The failure may go away in this run, because the configuration contains a value that is not yet known.
    later: bool = False
    #: The configuration as it is to be recorded, if that has changed.
    record: Record | None = None


class PlannerQueries(Protocol):
    """The questions that planning asks. Every implementation keeps three obligations, and those of the methods.

    1. A question changes nothing that the plan can see: no argument is modified, and the system is only read.
    2. The same question has the same answer as long as nothing is applied, after any other questions.
    3. A failure of a provider is part of the answer, as text; only ``functions`` and ``call`` raise.
    """

    def functions(self, instance: str, /) -> ProviderFunctions:
        """Return the pure functions of a provider instance, and its type.

        The planner canonicalizes, compares and predicts values with them. Obligation 4: they answer from their
        arguments alone; calling them is no question about the world. Raises ``DefinitionError`` if the type or its
        provider cannot be loaded.
        """

    def observation(self, entry: Entry, /) -> Observation:
        """Return the result of reading a resource: its row, its absence or a failure.

        Obligation 5: all resources are read before planning starts, in one batch per type, which costs fewer calls.
        Resources of an instance that is not ready then are read by ``readiness``.
        """

    def due(self, entry: Entry, should: Mapping[str, object], /) -> Due:
        """Return whether an imperative resource, such as a command, is to be run, and the reason.

        It has no state to compare, so that its provider decides by the values ``should``, which are all known.
        Obligation 6: the provider's ``due`` reads the system and changes nothing.
        """

    def readiness(self, instance: str, resolve: Callable[[ExpressionPath], Any], /) -> Readiness:
        """Return whether a provider instance can be called, for which all values of its configuration must be known.

        ``resolve`` returns the value of a reference in the configuration as far as it is known, and raises
        ``ValueError`` for a value that cannot be computed. Obligation 7: as soon as these values are known, the
        instance is configured, and its resources are read.
        """

    def call(self, call: FunctionCall, inputs: Mapping[str, object], /) -> Any:
        """Return the result of a provider's function, called from an expression.

        Obligation 8: a function reads and changes nothing; one call with the same inputs is made at most once in a run.
        Raises ``ValueError`` with the reason if there is no result.
        """
