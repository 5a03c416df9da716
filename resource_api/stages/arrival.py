"""Whether what was asked for has come about, told by what was read after it was done.

What becomes of a resource of which something is missing is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.nouns.change import Difference, exists
from resource_api.nouns.values import same
from resource_api.stages.comparison import Incomparable, compare, level

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from resource_api.nouns.definition import Name
    from resource_api.nouns.tools import Tools
    from resource_api.stages.rows import Seen
    from resource_api.stages.work import Work


def arrived(works: Iterable[Work], rows: Mapping[Name, Seen], tools: Tools) -> dict[int, Mapping[str, Any]]:
    """Give the operations of which certainly nothing is missing, with what was read; told for all of them at once."""
    numbers, pairs = [], []
    for work in works:
        entry, found = work.step.entry, rows.get(work.name)
        if found is None or work.removal or work.decision.foreseen or work.asked() is not entry.should:
            continue
        row = found[0]
        if row is not None and exists(row) and exists(entry.should):
            numbers.append(work.operation.number)
            pairs.append((entry, row))
    return {numbers[place]: pairs[place][1] for place in level(pairs, tools)}


def missing(work: Work, seen: Seen, tools: Tools) -> list[Difference]:
    """Give what of a change is not there yet."""
    row, failure = seen
    asked = work.asked()
    if failure:
        return [Difference("ensure", None, None, failure)]
    if not exists(asked):
        return [Difference("ensure", (row or {}).get("ensure", "present"), "absent")] if exists(row) else []
    if row is None or not exists(row):
        return [Difference("ensure", "absent", asked.get("ensure", "present"))]
    expected = work.decision.foreseen.items()
    unforeseen = [Difference(k, row.get(k), v) for k, v in expected if not same(row.get(k), v)]
    try:
        return compare(work.step.entry, row, asked, tools) + unforeseen
    except Incomparable as error:
        return [Difference("ensure", None, None, str(error))]
