"""The arguments of policies, one resource or a whole plan as frozen values, and a loaded policy.

Finding policies is for ``plugins``, and the effect of their results for ``runtime``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.type_definition import Name


class PolicyResource(NamedTuple):
    """One declared resource, checked and canonical; values are ``UNKNOWN`` until known, secrets are ``Sensitive``."""

    reference: str
    urn: str
    type: str
    title: str
    name: Name
    #: The reference of the component that declares it; empty if none does.
    parent: str
    tags: frozenset[str]
    should: Mapping[str, Any]
    protect: bool
    noop: bool


class PolicyStep(NamedTuple):
    """One step of a plan; ``is_`` None: the resource does not exist; ``changes``: the attributes that differ."""

    reference: str
    urn: str
    type: str
    title: str
    name: Name
    parent: str
    tags: frozenset[str]
    action: str
    is_: Mapping[str, Any] | None
    should: Mapping[str, Any]
    changes: Sequence[str]
    noop: bool
    #: Why the step cannot be done; empty if it can.
    error: str


class PolicyPlan(NamedTuple):
    """A whole plan in the order of execution; ``complete`` is false if it covers only a part of the manifest."""

    project: str
    stack: str
    steps: Sequence[PolicyStep]
    complete: bool


class Policy(NamedTuple):
    """One policy: its name, its file and its functions, of which either may be None.

    They return nothing, a string, a ``Problem``, or several of those; a string is an error.
    """

    name: str
    file: str
    resource: Callable[[PolicyResource], Any] | None = None
    plan: Callable[[PolicyPlan], Any] | None = None
