"""Deferral: what cannot be decided in the plan is decided at its turn, if a step before it may help; else it fails.

A provider may need a tool that an earlier resource installs. So a resource that cannot be read, or whose provider
cannot be made or configured, is deferred where a step that is ordered before it changes something. The transaction
decides it at its turn (``transaction.reevaluate``), side by side when all that acts before it has ended. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.change import Action
from resource_api.model.step import Decision

if TYPE_CHECKING:
    from resource_api.model.entry import Entry


def defer_or_fail(entry: Entry, why: str, *, may_help: bool) -> tuple[Decision, str]:
    """Return the decision about a resource of which nothing is known, and why it is deferred; empty: it fails.

    ``why``: why it cannot be decided now; ``may_help``: whether a step before it may change that. The action is the one
    that is shown until its turn.
    """
    external = entry.meta.lifecycle.external
    imperative = "imperative" in entry.definition.features
    action = Action.RUN if imperative else Action.READ if external else Action.UPDATE
    return (Decision(action), why) if may_help else (Decision(action, error=why), "")
