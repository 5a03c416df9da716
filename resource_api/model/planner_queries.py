"""The questions of planning to the world: one protocol, so that the planner itself touches nothing.

``snapshot.observe`` implements it with providers; a test can implement it with literals. How a question is answered
is for the implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Record
    from resource_api.model.type_definition import FunctionCall
    from resource_api.model.values.expression import ExpressionPath


class Observation(NamedTuple):
    """The result of reading one resource: its row (None: it does not exist), or why it could not be read."""

    row: Mapping[str, Any] | None = None
    failure: str = ""


class Due(NamedTuple):
    """The answer of ``due`` for an imperative resource: whether to run it and why, or why there is no answer."""

    run: bool = False
    reason: str = ""
    failure: str = ""


class Readiness(NamedTuple):
    """Whether a provider instance can be called: ``failure`` is empty if it can."""

    failure: str = ""
    #: The failure may go away in this run, because the configuration contains a value that is not yet known.
    later: bool = False
    #: The configuration as it is to be recorded, if that has changed.
    record: Record | None = None


class PlannerQueries(Protocol):
    """The questions that planning asks. Every implementation keeps three obligations.

    1. A question changes nothing that the plan can see: no argument is modified, and the system is only read.
    2. The same question has the same answer as long as nothing is applied, after any other questions.
    3. A failure of a provider is part of the answer, as text; only ``functions`` and ``call`` raise.
    """

    def functions(self, instance: str, /) -> ProviderFunctions:
        """Return the pure functions of a provider instance, and its type.

        4. They answer from their arguments alone; calling them is no question about the world.

        Raises ``DefinitionError`` if the type or its provider cannot be loaded.
        """

    def observation(self, entry: Entry, /) -> Observation:
        """Return the result of reading a resource.

        5. Everything that is asked for has been read before planning starts, in one batch per type, except for
        instances that were not ready then: ``readiness`` reads for those.
        """

    def due(self, entry: Entry, should: Mapping[str, object], /) -> Due:
        """Return whether an imperative resource is to be run with the values ``should``, all of them known.

        6. The provider's ``due`` reads the system and changes nothing.
        """

    def readiness(self, instance: str, resolve: Callable[[ExpressionPath], Any], /) -> Readiness:
        """Return whether a provider instance can be called with the values that ``resolve`` returns by now.

        7. An instance whose configuration refers to resources is configured when these values are known for the first
        time, and its resources are read then. ``resolve`` raises ``ValueError`` for a value that cannot be computed.
        """

    def call(self, call: FunctionCall, inputs: Mapping[str, object], /) -> Any:
        """Return the result of a provider's function, called from an expression.

        8. A function reads and changes nothing; one call with the same inputs is made at most once in a run.

        Raises ``ValueError`` with the reason if there is no result.
        """
