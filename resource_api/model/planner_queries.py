"""What a plan may ask of the world: five questions, as functions, so that planning itself touches nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.entry import Entry
    from resource_api.model.function import Call
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.values.expression import Path


class PlannerQueries(NamedTuple):
    """What the planner is told of everything outside: by entry, what was read and whether it is due."""

    #: Give (row or None, failure) of an entry.
    observation: Callable[[Entry], tuple[Mapping[str, Any] | None, str]]
    #: Give (run, why, failure) of an imperative entry whose values are known.
    due: Callable[[Entry], tuple[bool, str, str]]
    #: Give a type's pure functions.
    tools: Callable[[str], ProviderFunctions]
    #: Give what a function answers; raises ``ValueError``.
    invoke: Callable[[Call, Mapping[str, Any]], Any] = lambda _call, _given: UNKNOWN
    #: Give why an instance cannot be asked yet, and whether that is because its configuration is not known yet.
    awaited: Callable[[str, Callable[[Path], Any]], tuple[str, bool]] = lambda _instance, _resolve: ("", False)
