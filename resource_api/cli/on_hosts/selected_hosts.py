"""Which hosts `--on` or `--rerun` select, with the inventory of each; warnings about names that are likely mistyped."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from resource_api.fleet import host_names
from resource_api.fleet.selection import Selection, beside
from resource_api.model.values.errors import Problem, UsageError, hint, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.fleet.inventory import Inventory
    from resource_api.fleet.ledger import Recorded

#: How many addresses that no inventory names are compared with its names.
_COMPARED: Final = 20


def select(session: Session, manifest: str | None, earlier: Recorded | None) -> Mapping[str, Inventory]:
    """Return the hosts and the inventory of each; of an earlier run those that it has left."""
    settings, trust = session.settings, session.registry.trust
    where = settings["on"] or (earlier.about["on"] if earlier is not None else ())
    file = settings["hosts_file"] or (earlier.about["hosts_file"] if earlier is not None else None)
    selection = Selection(file or beside(manifest), trust)
    found = selection.find(where)
    for path in selection.files:
        if why := trust.who_can_change(path):
            session.report_problem(Problem(None, f"others can change this inventory: {why}", "warning", file=path))
    _warn_of_addresses(session, selection, found)
    _warn_of_unused(session, selection, where)
    if earlier is None:
        return found
    left = {name: of for name, of in found.items() if name in earlier.left}
    if not left:
        msg = f"--rerun {earlier.id}: that run has left none of these hosts"
        raise UsageError(msg)
    return left


def _warn_of_addresses(session: Session, selection: Selection, found: Mapping[str, Inventory]) -> None:
    """Warn once of the addresses that are nearly the same name of an inventory."""
    by_hint: dict[str, list[str]] = {}
    for name, known in islice(selection.suggestions(found), _COMPARED):
        if near := nearest(name, known):
            by_hint.setdefault(near, []).append(name)
    for near, names in by_hint.items():
        words = "is in no inventory and taken as an address" if len(names) == 1 else "are in no inventory: addresses"
        session.log.write("warning", "", f"'{','.join(host_names.fold(names))}' {words}; {near}")


def _warn_of_unused(session: Session, selection: Selection, where: Sequence[str]) -> None:
    """Warn of what is to leave hosts out and is likely mistyped: the hosts that were meant are not left out."""
    for name, known in islice(selection.unused(where), _COMPARED):
        text = f"--on: '{name}' after ! or & is neither in an inventory nor selected{hint(name, known)}"
        session.log.write("warning", "", text)
