"""Who takes whose place, once it is known who exists: former names, and what a replacement under another name removes.

What was recorded is never lost for a name that it might have had. Pure: what was read comes in as a function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.change import exists
from resource_api.prior import match as matching

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.record import Record
    from resource_api.prior.match import Prior


class Succession:
    """What is known of earlier runs, corrected by what there is."""

    def __init__(
        self,
        catalog: Catalog,
        prior: Prior,
        seen: Callable[[Entry], tuple[Mapping[str, Any] | None, str]],
        tools: Callable[[str], ProviderFunctions],
    ) -> None:
        """Take what was matched by names alone; ``seen`` gives what was read of an entry."""
        self.catalog = catalog
        self.prior = prior
        self._seen = seen
        self._tools = tools
        self._going: list[tuple[Record, str]] = []

    def settle(self, selected: set[int] | None, *, prune: bool) -> set[int] | None:
        """Correct catalog and prior; gives what is selected then. ``prune``: what is undeclared is to go."""
        orphans = set(self.prior.orphans)
        self._former(selected, prune=prune)
        self._replaced(selected)
        self.catalog, more = matching.add_orphans(self.catalog, self._going, self._tools)
        self.prior = self.prior._replace(orphans={**self.prior.orphans, **more})
        return None if selected is None else selected | (more.keys() - orphans)

    def _former(self, selected: set[int] | None, *, prune: bool) -> None:
        """Take back a claim by a former name: where the old one still exists, the new one is another thing."""
        former = set(self.prior.moved_keys)
        records, undeclared = dict(self.prior.records), list(self.prior.undeclared)
        predecessors = dict(self.prior.predecessors)
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
                    predecessors[index] = record
                elif prune:
                    self._going.append((record, "undeclared"))
                else:
                    undeclared.append(record)
        moved_keys = [key for key in self.prior.moved_keys if key in former]
        self.prior = self.prior._replace(
            records=records, predecessors=predecessors, undeclared=undeclared, moved_keys=moved_keys
        )

    def _replaced(self, selected: set[int] | None) -> None:
        """Where the new one of a replacement exists already, only the old one is to go.

        Under another configuration of its provider it may be the same thing: unless we were cut while we made it, the
        old one is only forgotten then.
        """
        predecessors = dict(self.prior.predecessors)
        for index, record in self.prior.predecessors.items():
            chosen = selected is None or index in selected
            if chosen and exists(self._seen(self.catalog.entries[index])[0]):
                del predecessors[index]
                met = record.instance in self.prior.instances.replaced
                cut = self.prior.state.intents.get(self.catalog.entries[index].key)
                self._going.append((record, "replaced" if not met or (cut and cut.makes) else "met"))
        self.prior = self.prior._replace(predecessors=predecessors)

    def _exists(self, record: Record) -> bool:
        row, failure = self._seen(matching.orphan(record, self._tools))
        return exists(row) and not failure
