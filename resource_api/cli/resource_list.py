"""What ``resource`` shows beyond one resource or one type: several types, patterns, filters, tables, a pager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values.reference import capitalize_type
from resource_api.runtime.queries.selected_resources import documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from resource_api.cli.session import Session
    from resource_api.runtime.queries.selected_resources import Listed, Rows


def show(session: Session, listed: Listed, form: str) -> None:
    """Print resources as ``json``, ``csv`` or ``table``; on a terminal in the pager if they do not fit."""
    if session.json:
        session.output.print_json(documents(listed))
        return
    from resource_api.render import table

    terminal = session.output.stdout.isatty()
    if form == "csv":
        lines = list(table.comma_separated(documents(listed), terminal=terminal))
    else:
        width = session.output.columns
        lines = list(_tables(listed, lambda rows: table.table(rows, width)))
    session.output.print_paged(lines)


def _tables(listed: Listed, lay_out: Callable[[Rows], Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a table for each type that has resources, of several types below its name."""
    filled = [each for each in listed if each[1]]
    for number, (definition, rows) in enumerate(filled):
        if len(listed) > 1:
            yield from [""] * bool(number)
            yield f"{capitalize_type(definition.name)}:"
        namevars = definition.namevars if len(definition.namevars) > 1 else ()
        others = (name for name in definition.attributes if name not in {*definition.namevars, *definition.sensitive})
        reported = definition.names_of_kind("read_only")
        order = ["title", *namevars, *sorted(others, key=reported.__contains__)]
        plain_rows = documents([(definition, rows)])
        yield from lay_out([{name: row.get(name) for name in order} for row in plain_rows])
