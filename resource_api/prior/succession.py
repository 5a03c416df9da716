"""Who takes whose place, once it is known who exists: former names, and what a replacement under another name removes.

What was recorded is never lost for a name that it might have had. Pure: what was read comes in as a function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.change import exists
from resource_api.prior import match as remembering

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import Tools
    from resource_api.model.record import Record
    from resource_api.prior.match import Prior


class Succession:
    """What is known of earlier runs, corrected by what there is."""

    def __init__(
        self,
        catalog: Catalog,
        prior: Prior,
        seen: Callable[[Entry], tuple[Mapping[str, Any] | None, str]],
        tools: Callable[[str], Tools],
    ) -> None:
        """Take what was matched by names alone; ``seen`` gives what was read of an entry."""
        self.catalog = catalog
        self.prior = prior
        self._seen = seen
        self._tools = tools
        self._going: list[tuple[Record, str]] = []

    def settle(self, selected: set[int] | None, *, prune: bool) -> set[int] | None:
        """Correct catalog and prior; gives what is selected then. ``prune``: what is undeclared is to go."""
        ghosts = set(self.prior.ghosts)
        self._former(selected, prune=prune)
        self._replaced(selected)
        self.catalog, more = remembering.haunt(self.catalog, self._going, self._tools)
        self.prior = self.prior._replace(ghosts={**self.prior.ghosts, **more})
        return None if selected is None else selected | (more.keys() - ghosts)

    def _former(self, selected: set[int] | None, *, prune: bool) -> None:
        """Take back a claim by a former name: where the old one still exists, the new one is another thing."""
        former = set(self.prior.superseded)
        records, undeclared = dict(self.prior.records), list(self.prior.undeclared)
        successors = dict(self.prior.successors)
        for index, record in self.prior.records.items():
            if record.key not in former or record.key == self.catalog.entries[index].key:
                continue
            if record.status == "pending":
                continue
            if selected is not None and index not in selected:
                former.discard(record.key)
            elif self._exists(record):
                former.discard(record.key)
                del records[index]
                if self.catalog.entries[index].meta.lifecycle.replace in {"delete_first", "create_first"}:
                    successors[index] = record
                elif prune:
                    self._going.append((record, "undeclared"))
                else:
                    undeclared.append(record)
        superseded = [key for key in self.prior.superseded if key in former]
        self.prior = self.prior._replace(
            records=records, successors=successors, undeclared=undeclared, superseded=superseded
        )

    def _replaced(self, selected: set[int] | None) -> None:
        """Where the new one of a replacement exists already, only the old one is to go.

        Under another configuration of its provider it may be the same thing: unless we were cut while we made it, the
        old one is only forgotten then.
        """
        successors = dict(self.prior.successors)
        for index, record in self.prior.successors.items():
            chosen = selected is None or index in selected
            if chosen and exists(self._seen(self.catalog.entries[index])[0]):
                del successors[index]
                met = record.instance in self.prior.lineup.replaced
                cut = self.prior.state.intents.get(self.catalog.entries[index].key)
                self._going.append((record, "replaced" if not met or (cut and cut.makes) else "met"))
        self.prior = self.prior._replace(successors=successors)

    def _exists(self, record: Record) -> bool:
        row, failure = self._seen(remembering.ghost(record, self._tools))
        return exists(row) and not failure
