"""What policies are given to judge, as values that cannot be changed: one resource, or a whole plan.

A policy has nothing to say on how resources are read or changed. Where policies come from, and what their answers lead
to, is decided elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.type_definition import Name


class PolicyResource(NamedTuple):
    """One declared resource, checked and canonical; what is not yet known is ``UNKNOWN``, a secret ``Sensitive``."""

    reference: str
    urn: str
    type: str
    title: str
    name: Name
    #: The reference of the component that has made it; empty where none has.
    parent: str
    tags: frozenset[str]
    should: Mapping[str, Any]
    protect: bool
    noop: bool


class PolicyStep(NamedTuple):
    """One step of a plan; ``is_`` None: it does not exist, ``changes``: the attributes that differ."""

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
    #: Why it cannot be done; empty where it can.
    error: str


class PolicyPlan(NamedTuple):
    """A whole plan, in the order of execution; not ``complete``: it is about a part of the manifest only."""

    project: str
    stack: str
    steps: Sequence[PolicyStep]
    complete: bool


class Policy(NamedTuple):
    """One policy: its name, its file, and what judges; either function may be missing.

    They give nothing, a string, a ``Problem``, or several of those; a string is an error.
    """

    name: str
    file: str
    resource: Callable[[PolicyResource], Any] | None = None
    plan: Callable[[PolicyPlan], Any] | None = None
