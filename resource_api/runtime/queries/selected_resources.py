"""Resources that were read, as documents: those that a pattern and filters select, flat and sorted."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from resource_api.model.codec import plain
from resource_api.model.values.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.model.type_definition import TypeDefinition

    Rows = Sequence[dict[str, Any]]
    Listed = Sequence[tuple[TypeDefinition, Rows]]


def filter_tests(
    filters: Sequence[str], definitions: Sequence[TypeDefinition]
) -> dict[str, list[Callable[[Mapping[str, Any]], bool]]]:
    """Return the tests of rows for each type. Raise ``UsageError`` for a filter that is wrong for one of the types."""
    from resource_api.runtime.queries import resource_filter

    conditions = [resource_filter.parse(text) for text in filters]
    resource_filter.check_attributes(conditions, definitions)
    return {each.name: [condition.for_type(each) for condition in conditions] for each in definitions}


def select(listed: Listed, pattern: str | None, filters: Sequence[str]) -> Listed:
    """Return the resources that ``pattern`` names and that pass every filter. Raise ``UsageError``.

    A pattern that is the title of a resource names that alone; else ``*`` and ``?`` are wild in it.
    """
    if not (pattern or filters):
        return listed
    tests_of = filter_tests(filters, [definition for definition, _ in listed])
    found = []
    for definition, rows in listed:
        tests = [*tests_of[definition.name]]
        if pattern is not None:
            tests.append(_title_test(definition, pattern, rows))
        found.append((definition, [row for row in rows if all(test(row) for test in tests)]))
    return found


def _title_test(definition: TypeDefinition, pattern: str, rows: Rows) -> Callable[[Any], bool]:
    if any(definition.title_of(row) == pattern for row in rows):
        return lambda row: definition.title_of(row) == pattern
    from resource_api.catalog.targets import matcher

    matches = matcher(str(Reference(definition.name, pattern)))
    return lambda row: matches(str(Reference(definition.name, definition.title_of(row))))


def documents(listed: Listed) -> list[dict[str, Any]]:
    """Return the resources as flat objects, sorted by type and title; of several types each with its reference."""
    found = []
    for definition, rows in listed:
        titled = ((definition.title_of(row), row) for row in rows)
        for title, row in sorted(titled, key=itemgetter(0)):
            reference = {"reference": str(Reference(definition.name, title))} if len(listed) > 1 else {}
            found.append({**reference, "title": title, **plain(row)})
    return found
