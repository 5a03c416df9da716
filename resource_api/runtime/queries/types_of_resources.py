"""Types that a command about resources names: several, by pattern, or all that can be listed; and their resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values.errors import CannotList, DefinitionError, ProviderError, UnknownType, UsageError
from resource_api.model.values.reference import capitalize_type
from resource_api.runtime.resource_reader import check_has_resources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.model.type_definition import TypeDefinition
    from resource_api.runtime.queries.selected_resources import Listed, Rows
    from resource_api.runtime.resource_reader import ResourceReader


def is_pattern(text: str) -> bool:
    """Return whether a name or type of the command line has wildcards."""
    return "*" in text or "?" in text


def find_type(reader: ResourceReader, name: str) -> TypeDefinition:
    """Return the type of a name of the command line. Raise ``UsageError`` for an unknown one."""
    try:
        return reader.registry.type(name[:1].lower() + name[1:])
    except UnknownType as error:
        raise UsageError(str(error)) from error


def find_types(reader: ResourceReader, text: str) -> list[TypeDefinition]:
    """Return the types that ``user,group`` or ``ssh*`` mean, each once; of a pattern those that have resources.

    Raise ``UsageError`` where there is none, and for the name of a type that has none.
    """
    found: dict[str, TypeDefinition] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        names = [part]
        if is_pattern(part):
            from resource_api.catalog.targets import matcher  # noqa: PLC0415 - only for a pattern

            matches = matcher(part)
            if not (names := [name for name in reader.registry.names() if matches(capitalize_type(name))]):
                msg = f"{part} matches no type"
                raise UsageError(msg)
        for name in names:
            definition = find_type(reader, name)
            if not is_pattern(part):
                check_has_resources(definition)
            if definition.attributes:
                found[definition.name] = definition
    if not found:
        msg = "name a type, several as TYPE,TYPE, or all with --all"
        raise UsageError(msg)
    return list(found.values())


def listable_types(reader: ResourceReader) -> Iterator[TypeDefinition]:
    """Yield the types for ``--all``; why one is left out is an info line, of one whose file is broken a warning."""
    log = reader.run.log
    for name in reader.registry.names():
        try:
            definition = reader.registry.type(name)
        except DefinitionError as error:
            log.write("warning", name, str(error), name)
            continue
        if why := _left_out(reader, definition):
            log.write("info", name, f"is left out: {why}", name)
        else:
            yield definition


def _left_out(reader: ResourceReader, definition: TypeDefinition) -> str:
    """Return why resources of a type cannot be listed without further information; empty: they can, as far as known."""
    if not definition.attributes:
        return "it has functions and no resources"
    if definition.config.attributes:
        return "its provider has a configuration"
    if "imperative" in definition.features:
        return "what it does cannot be read back"
    try:
        several = reader.suitability(definition.name)
    except DefinitionError as error:
        reader.run.log.write("warning", definition.name, str(error), definition.name)
        return ""
    return "" if not several or any(not each.reason for each in several) else several[0].reason


def read_types(
    reader: ResourceReader, definitions: Sequence[TypeDefinition], *, strict: str, optional: bool
) -> tuple[Listed, bool]:
    """Return the resources of each type, and whether all could be read; what could not is an error in the log.

    ``optional``: a type that cannot be listed is no error.
    """
    log = reader.run.log
    listed: list[tuple[TypeDefinition, Rows]] = []
    complete = True
    for definition in definitions:
        name = definition.name
        try:
            rows, failures = reader.read(name, strict=strict)
        except CannotList as error:
            if not optional:
                raise
            log.write("info", name, f"is left out: {error}", name)
            continue
        except (DefinitionError, ProviderError) as error:
            rows, failures = [], {name: str(error)}
        listed.append((definition, rows))
        for reference, why in failures.items():
            log.write("err", reference, why, name, reference=reference, status="failed")
        complete = complete and not failures
    return listed, complete
