"""The keyword options of ``Runtime``'s methods, typed: a type checker finds a misspelt one.

Each method declares ``**options: Unpack[...]`` (PEP 692). The command line has options of the same names.
No run imports this module: the creation of its classes takes 4 million instructions.
"""

from __future__ import annotations

from typing import Literal, TypedDict

#: Several strings; not one string, which would be taken letter by letter.
Strings = list[str] | tuple[str, ...] | set[str] | frozenset[str]
Strict = Literal["error", "warning", "off"]


class ExecutionOptions(TypedDict, total=False):
    """How a plan is carried out."""

    #: Change nothing, not even state; report what would be done.
    noop: bool
    #: What happens when ``get`` breaks the type's declaration or ``set`` does not converge; default ``error``.
    strict: Strict
    #: How many provider calls may run at the same time; default 1.
    parallel: int
    #: Start nothing after the first failure.
    fail_fast: bool


class SelectionOptions(ExecutionOptions, total=False):
    """Which resources are meant; all of them unless given."""

    #: References of exactly these resources; ``*`` and ``?`` are wildcards, a bare ``Type`` means all of a type.
    targets: Strings
    #: References of resources that are left out; patterns as in ``targets``.
    excludes: Strings
    #: Also what the targets depend on.
    with_dependencies: bool
    #: Also what depends on the targets.
    with_dependents: bool
    #: Only resources that have one of these tags.
    tags: Strings
    #: No resources that have one of these tags.
    skip_tags: Strings


class PlanOptions(SelectionOptions, total=False):
    """Everything that ``plan`` and ``apply`` can be asked for."""

    #: References of resources that are replaced even if nothing differs; patterns as in ``targets``.
    replace: Strings
    #: Delete what state records as ours and the manifest no longer declares.
    prune: bool
    #: As ``prune``, even if something that is declared has failed or was skipped.
    prune_always: bool
