"""Types that a command about resources names: several, by pattern, or all that can be listed; and their resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values.errors import CannotList, DefinitionError, ProviderError, UnknownType, UsageError
from resource_api.model.values.reference import capitalize_type
from resource_api.runtime.resource_reader import check_has_resources

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

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


def find_types(reader: ResourceReader, text: str) -> tuple[list[TypeDefinition], set[str]]:
    """Return the types that ``user,group`` or ``ssh*`` mean, each once, and the names of those that are named.

    A pattern, such as ``*`` for all types, means those that can be listed; why one is left out is an info line, of one
    whose file is broken a warning. Raise ``UsageError`` where there is none, and for the name of a type that has no
    resources.
    """
    found: dict[str, TypeDefinition] = {}
    named = set[str]()
    for part in filter(None, (part.strip() for part in text.split(","))):
        if is_pattern(part):
            found |= {definition.name: definition for definition in _matching_types(reader, part)}
        else:
            definition = find_type(reader, part)
            check_has_resources(definition)
            found[definition.name] = definition
            named.add(definition.name)
    if not found:
        nothing = f"{text} matches no type that can be listed (-v says why)"
        msg = nothing if is_pattern(text) else "name a type, several as TYPE,TYPE, or all with --all"
        raise UsageError(msg)
    return list(found.values()), named


def _matching_types(reader: ResourceReader, pattern: str) -> list[TypeDefinition]:
    from resource_api.catalog.targets import matcher

    matches = matcher(pattern)
    if not (names := [name for name in reader.registry.names() if matches(capitalize_type(name))]):
        msg = f"{pattern} matches no type"
        raise UsageError(msg)
    return list(_listable_types(reader, names))


def _listable_types(reader: ResourceReader, names: Iterable[str]) -> Iterator[TypeDefinition]:
    log = reader.run.log
    for name in names:
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
    reader: ResourceReader, definitions: Sequence[TypeDefinition], named: Collection[str], *, strict: str
) -> tuple[Listed, bool]:
    """Return the resources of each type, and whether all could be read; what could not is an error in the log.

    A type that cannot be listed is an error only if it is ``named``, or if there is no other.
    """
    log = reader.run.log
    listed: list[tuple[TypeDefinition, Rows]] = []
    complete = True
    for definition in definitions:
        name = definition.name
        try:
            rows, failures = reader.read(name, strict=strict)
        except (DefinitionError, ProviderError) as error:
            if isinstance(error, CannotList) and len(definitions) == 1:
                raise
            if isinstance(error, CannotList) and name not in named:
                log.write("info", name, f"is left out: {error}", name)
                continue
            rows, failures = [], {name: str(error)}
        listed.append((definition, rows))
        for reference, why in failures.items():
            log.write("err", reference, why, name, reference=reference, status="failed")
        complete = complete and not failures
    return listed, complete
