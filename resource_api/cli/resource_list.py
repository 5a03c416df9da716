"""What ``resource`` shows beyond one resource or one type: several types, patterns, filters, tables, a pager."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from resource_api.model.codec import plain
from resource_api.model.values.errors import CannotList, DefinitionError, ProviderError, UsageError
from resource_api.model.values.reference import Reference, capitalize_type
from resource_api.render import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.model.type_definition import TypeDefinition

    Rows = Sequence[dict[str, Any]]
    Listed = Sequence[tuple[TypeDefinition, Rows]]


def is_pattern(text: str) -> bool:
    """Return whether a name or type of the command line has wildcards."""
    return "*" in text or "?" in text


def find_types(session: Session, text: str) -> list[TypeDefinition]:
    """Return the types that ``user,group`` or ``ssh*`` mean, each once. Raise ``UsageError`` where there is none."""
    found: dict[str, TypeDefinition] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        names = [part]
        if is_pattern(part):
            from resource_api.catalog.targets import matcher  # noqa: PLC0415 - only for a pattern

            matches = matcher(part)
            if not (names := [name for name in session.registry.names() if matches(capitalize_type(name))]):
                msg = f"{part} matches no type"
                raise UsageError(msg)
        for name in names:
            definition = session.find_definition(session.registry.type, name)
            found[definition.name] = definition
    if not found:
        msg = "name a type, several as TYPE,TYPE, or all with --all"
        raise UsageError(msg)
    return list(found.values())


def listable_types(session: Session) -> Iterator[TypeDefinition]:
    """Yield the types for ``--all``; why one is left out is an info line, of one whose file is broken a warning."""
    for name in session.registry.names():
        try:
            definition = session.registry.type(name)
        except DefinitionError as error:
            session.log.write("warning", name, str(error), name)
            continue
        if why := _left_out(session, definition):
            session.log.write("info", name, f"is left out: {why}", name)
        else:
            yield definition


def _left_out(session: Session, definition: TypeDefinition) -> str:
    """Return why resources of a type cannot be listed without further information; empty: they can, as far as known."""
    if not definition.attributes:
        return "it has functions and no resources"
    if definition.config.attributes:
        return "its provider has a configuration"
    if "imperative" in definition.features:
        return "what it does cannot be read back"
    several = session.suitability(definition.name)
    return "" if not several or any(not each.reason for each in several) else several[0].reason


def read_types(session: Session, definitions: Sequence[TypeDefinition], *, optional: bool) -> tuple[Listed, bool]:
    """Return the resources of each type, and whether all could be read; what could not is an error in the log.

    ``optional``: a type that cannot be listed is no error.
    """
    listed: list[tuple[TypeDefinition, Rows]] = []
    complete = True
    for definition in definitions:
        name = definition.name
        try:
            rows, failures = session.reader.read(name, strict=session.settings["strict"])
        except CannotList as error:
            if not optional:
                raise
            session.log.write("info", name, f"is left out: {error}", name)
            continue
        except (DefinitionError, ProviderError) as error:
            rows, failures = [], {name: str(error)}
        listed.append((definition, rows))
        for reference, why in failures.items():
            session.log.write("err", reference, why, name, reference=reference, status="failed")
        complete = complete and not failures
    return listed, complete


def filter_tests(
    filters: Sequence[str], definitions: Sequence[TypeDefinition]
) -> dict[str, list[Callable[[Mapping[str, Any]], bool]]]:
    """Return the tests of rows for each type. Raise ``UsageError`` for a filter that is wrong for one of the types."""
    from resource_api.cli import resource_filter  # noqa: PLC0415 - only for a filter

    conditions = [resource_filter.parse(text) for text in filters]
    resource_filter.check_attributes(conditions, definitions)
    return {each.name: [condition.for_type(each) for condition in conditions] for each in definitions}


def select(listed: Listed, pattern: str | None, filters: Sequence[str]) -> Listed:
    """Return the resources whose title matches ``pattern`` and that pass every filter. Raise ``UsageError``."""
    if not (pattern or filters):
        return listed
    tests_of = filter_tests(filters, [definition for definition, _ in listed])
    found = []
    for definition, rows in listed:
        tests = [*tests_of[definition.name]]
        if pattern is not None:
            tests.append(_title_test(definition, pattern))
        found.append((definition, [row for row in rows if all(test(row) for test in tests)]))
    return found


def _title_test(definition: TypeDefinition, pattern: str) -> Callable[[Any], bool]:
    from resource_api.catalog.targets import matcher  # noqa: PLC0415 - only for a pattern

    matches = matcher(str(Reference(definition.name, pattern)))
    return lambda row: matches(str(Reference(definition.name, yaml.title(definition, row))))


def documents(listed: Listed) -> list[dict[str, Any]]:
    """Return the resources as flat objects, sorted by type and title; of several types each with its reference."""
    found = []
    for definition, rows in listed:
        titled = ((yaml.title(definition, row), row) for row in rows)
        for title, row in sorted(titled, key=itemgetter(0)):
            reference = {"reference": str(Reference(definition.name, title))} if len(listed) > 1 else {}
            found.append({**reference, "title": title, **plain(row)})
    return found


def show(session: Session, listed: Listed, form: str) -> None:
    """Print resources as ``yaml``, ``json``, ``csv`` or ``table``; on a terminal in the pager if they do not fit."""
    if session.json:
        session.output.print_json(documents(listed))
        return
    from resource_api.render import table  # noqa: PLC0415 - only for tables

    terminal = session.output.stdout.isatty()
    if form == "csv":
        lines = list(table.comma_separated(documents(listed), terminal=terminal))
    elif form == "table":
        width = session.output.columns
        lines = list(_tables(listed, lambda rows: table.table(rows, width)))
    else:
        lines = list(yaml.manifest(listed))
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
