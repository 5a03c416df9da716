"""The resources that the command ``resource`` lists or changes: by name, pattern and ``--filter 'ATTR OP VALUE'``."""

from __future__ import annotations

import operator
import re
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

from resource_api.catalog import resource_table
from resource_api.model.codec import plain
from resource_api.model.datatypes import from_text
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import CannotList, DefinitionError, ProviderError, UnknownType, UsageError, hint
from resource_api.model.values.reference import Reference, capitalize_type, uncapitalize_type
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import is_secret, same_value
from resource_api.runtime.single_resource import ResourceReader, canonical_identity, check_has_resources, parse_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.model.attribute import Attribute
    from resource_api.model.report import RunReport
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.runtime.configured_provider import SelectedProvider
    from resource_api.runtime.runtime import Runtime
    from resource_api.system.log import Log

    Rows = Sequence[dict[str, object]]

    Listed = Sequence[tuple[TypeDefinition, Rows]]


def is_pattern(text: str) -> bool:
    """Return whether a name or type of the command line has wildcards."""
    return "*" in text or "?" in text


def find_type(reader: ResourceReader, name: str) -> TypeDefinition:
    """Return the type of a name of the command line. Raise ``UsageError`` for an unknown one."""
    with errors_as(UsageError, UnknownType):
        return reader.registry.type(uncapitalize_type(name))


def find_types(reader: ResourceReader, text: str) -> tuple[list[TypeDefinition], set[str]]:
    """Return the types that ``user,group`` or ``ssh*`` selects, each once, and the names of those without a pattern.

    The caller reports an error if one of the latter cannot be listed. A pattern, such as ``*`` for all types, selects
    only types that can be listed: the reason for omitting a type is logged at info, a broken file as a warning. Raise
    ``UsageError`` if no type is selected, and for an explicit type without resources.
    """
    definitions: dict[str, TypeDefinition] = {}
    explicit = set[str]()
    for part in filter(None, (part.strip() for part in text.split(","))):
        if is_pattern(part):
            definitions |= {definition.name: definition for definition in _matching_types(reader, part)}
        else:
            definition = find_type(reader, part)
            check_has_resources(definition)
            definitions[definition.name] = definition
            explicit.add(definition.name)
    if not definitions:
        nothing = f"{text} matches no type that can be listed (-v says why)"
        msg = nothing if is_pattern(text) else "name a type, several as TYPE,TYPE, or all with --all"
        raise UsageError(msg)
    return list(definitions.values()), explicit


def _matching_types(reader: ResourceReader, pattern: str) -> Iterator[TypeDefinition]:
    """Yield the types of a pattern that can be listed here; warn of types with broken code, and log other omitted ones.

    Raise ``UsageError`` if the pattern matches no type at all.
    """
    matches, log = resource_table.matcher(pattern), reader.run.log
    if not (names := [name for name in reader.registry.names() if matches(capitalize_type(name))]):
        raise UsageError(f"{pattern} matches no type")
    for name in names:
        try:
            definition = reader.registry.type(name)
        except DefinitionError as error:
            log.write("warning", name, str(error), name)
            continue
        if reason := _reason_to_leave_out(reader, definition):
            log.write("info", name, f"is left out: {reason}", name)
        else:
            yield definition


def _reason_to_leave_out(reader: ResourceReader, definition: TypeDefinition) -> str:
    """Return the reason why a type's resources cannot be listed without further options, or "".

    A pattern then omits the type. A type with several providers is omitted if none of them is suitable here.
    """
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
        return ""  # it is listed, and the error of its provider is reported
    is_suitable = not several or any(not provider.reason for provider in several)
    return "" if is_suitable else several[0].reason


def list_types(call: ResourceCall) -> ShownResources:
    """List the resources of several types for the command ``resource``, or with ``--all`` of all that can be listed.

    Raise ``UsageError``, also for options that need exactly one type.
    """
    options = call.options
    every_type, text = options.get("every_type"), options.get("type_name")
    if every_type and text is not None:
        raise UsageError("--all lists every type; leave out TYPE, or --all")
    for option in ("provider", "manifest", "config"):
        if options.get(option):
            raise UsageError(f"--{option} needs exactly one TYPE")
    if options.get("name") is not None:
        raise UsageError("NAME and ATTR=VALUE need exactly one TYPE")
    filters = options.get("filters") or ()
    definitions, explicit = find_types(call.reader, "*" if every_type else text or "")
    filter_tests(filters, definitions)  # raises for a wrong one before anything is read
    listed, complete = read_types(call.reader, definitions, explicit, strict=options.get("strict") or "error")
    return ShownResources(select_resources(listed, None, filters), int(not complete), is_listing=True)


def read_types(
    reader: ResourceReader, definitions: Sequence[TypeDefinition], explicit: Collection[str], *, strict: str
) -> tuple[Listed, bool]:
    """Return the resources of each type, and whether all could be read; an unreadable one is an error in the log.

    A type that cannot be listed is an error only if it is ``explicit``, or if it is the only type. ``strict``: as for
    ``Snapshot``.
    """
    log = reader.run.log
    listed: list[tuple[TypeDefinition, Rows]] = []
    complete = True
    for definition in definitions:
        name = definition.name
        try:
            rows, failures = reader.read(name, strict=strict)
        except CannotList as error:
            if len(definitions) == 1:
                raise
            if name not in explicit:
                log.write("info", name, f"is left out: {error}", name)
                continue
            rows, failures = [], {name: str(error)}
        except (DefinitionError, ProviderError) as error:
            rows, failures = [], {name: str(error)}
        listed.append((definition, rows))
        _log_failures(log, name, failures)
        complete = complete and not failures
    return listed, complete


def _log_failures(log: Log, type_name: str, failures: Mapping[str, str]) -> None:
    """Log the errors of resources that cannot be read; ``failures``: reference → error."""
    for reference, error in failures.items():
        log.write("err", reference, error, type_name, reference=reference, status="failed")


def filter_tests(
    filters: Sequence[str], definitions: Sequence[TypeDefinition]
) -> dict[str, list[Callable[[Mapping[str, object]], bool]]]:
    """Return type → the tests of its rows, one for each filter of ``--filter``.

    Raise ``UsageError`` for a filter that is wrong for any of the types, such as one with an attribute that none has.
    """
    conditions = [parse_filter(text) for text in filters]
    _check_attributes(conditions, definitions)
    return {definition.name: [condition.for_type(definition) for condition in conditions] for definition in definitions}


def select_resources(listed: Listed, pattern: str | None, filters: Sequence[str]) -> Listed:
    """Return the resources whose titles match ``pattern`` (None: all) and that pass every filter of ``--filter``.

    If ``pattern`` is exactly the title of a resource, only this one matches, since a title may contain ``*`` itself.
    Raise ``UsageError`` for a wrong filter.
    """
    if not (pattern or filters):
        return listed
    tests_of = filter_tests(filters, [definition for definition, _ in listed])
    selected = []
    for definition, rows in listed:
        tests = [*tests_of[definition.name]]
        if pattern is not None:
            tests.append(_title_test(definition, pattern, rows))
        selected.append((definition, [row for row in rows if all(test(row) for test in tests)]))
    return selected


def _title_test(definition: TypeDefinition, pattern: str, rows: Rows) -> Callable[[Any], bool]:
    """Return the test by which a pattern selects rows by their titles.

    If a row has exactly the title ``pattern``, only this row passes, since a title may contain ``*`` itself.
    """
    if any(definition.title_of(row) == pattern for row in rows):
        return lambda row: definition.title_of(row) == pattern
    matches = resource_table.matcher(str(Reference(definition.name, pattern)))
    return lambda row: matches(str(Reference(definition.name, definition.title_of(row))))


def documents(listed: Listed) -> list[dict[str, object]]:
    """Return the resources as flat JSON objects for the output, sorted by title in each type.

    With several types, each object also has the reference of its resource, as titles may then be equal.
    """
    flat = []
    for definition, rows in listed:
        titled = ((definition.title_of(row), row) for row in rows)
        for title, row in sorted(titled, key=itemgetter(0)):
            reference = {"reference": str(Reference(definition.name, title))} if len(listed) > 1 else {}
            flat.append({**reference, "title": title, **plain(row)})
    return flat


_FORM: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*([=!<>~]+)\s*(.*?)\s*\Z", re.DOTALL)
_ORDERS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_OPERATORS: Final = ("=", "!=", *_ORDERS, "~")
#: Characters of a text in which a regular expression is searched; others may have written it, and that may take long.
_LONGEST: Final = 64 * 1024
#: Operators of other languages → ours.
_FOREIGN_OPERATORS: Final = {"==": "=", "=~": "~", "<>": "!=", "=>": ">=", "=<": "<="}


class Filter(NamedTuple):
    """One condition of ``--filter``, as it is written: attribute, operator and value, such as ``uid >= 1000``."""

    attribute: str
    operator: str
    value: str

    def for_type(self, definition: TypeDefinition) -> Callable[[Mapping[str, object]], bool]:
        """Return the test by which this filter selects rows of a type; without the attribute no row passes.

        Secret values never pass. Raise ``UsageError`` for a secret attribute, whose value could be guessed by filters,
        and if the attribute's data type has no such value or no order.
        """
        name = definition.attribute_spelt(self.attribute)
        if (attribute := definition.attributes.get(name)) is None:
            return lambda _row: False
        if name in definition.secret:
            reason = f"{self.attribute} of {capitalize_type(definition.name)} is secret; it cannot be compared"
            raise self._error(reason)
        test = self._pattern() if self.operator == "~" else self._comparison(attribute)
        return lambda row: not is_secret(row.get(name)) and test(row.get(name))

    def _pattern(self) -> Callable[[object], bool]:
        """Return the test for the operator ``~``: a value, or one of its elements, matches the regular expression.

        Only the first ``_LONGEST`` characters of a text are searched. Raise ``UsageError`` for an invalid expression.
        """
        with errors_as(self._error, re.error, "this is no regular expression: "):
            search = re.compile(self.value).search

        def test(value: object) -> bool:
            if isinstance(value, list):
                return any(map(test, value))
            return value is not None and search(_text(value)[:_LONGEST]) is not None

        return test

    def _comparison(self, attribute: Attribute) -> Callable[[object], bool]:
        """Return the test for an operator that compares, as in ``uid>=1000``.

        The operand is converted to the data type of the attribute, so that numbers are not compared as texts. Raise
        ``UsageError`` if that is impossible, or if the data type has no order.
        """
        with errors_as(self._error):
            operand = from_text.coerce(attribute.datatype, self.value)
        if self.operator == "=":
            return partial(self._is_equal, operand)
        if self.operator == "!=":
            return lambda value: not self._is_equal(operand, value)
        # Numbers are ordered among themselves, and so are texts. A boolean, an ``int`` in Python, has no order.
        is_number = isinstance(operand, (int, float)) and not isinstance(operand, bool)
        kind: Any = (int, float) if is_number else str
        if not isinstance(operand, kind):
            raise self._error(f"{self.attribute} has no order; compare it with =, != or ~")
        compare = _ORDERS[self.operator]
        return lambda value: isinstance(value, kind) and not isinstance(value, bool) and bool(compare(value, operand))

    def _is_equal(self, operand: object, value: object) -> bool:
        """Return whether a row has the operand. Of a text that may be given as a number (a uid) it has the text."""
        return value == self.value if isinstance(value, str) else same_value(operand, value)

    def _error(self, reason: str) -> UsageError:
        """Return the error for this filter, which quotes it."""
        return UsageError(f"--filter '{self.attribute} {self.operator} {self.value}': {reason}")


def parse_filter(text: str) -> Filter:
    """Return the condition of ``--filter`` in a text such as ``uid >= 1000``.

    Raise ``UsageError`` for another form, with advice for operators of other languages, such as ``==``.
    """
    match = _FORM.match(text)
    if match is None or match[2] not in _OPERATORS:
        suggestion = _FOREIGN_OPERATORS.get(match[2]) if match is not None else None
        advice = f"; did you mean '{suggestion}'?" if suggestion else ""
        raise UsageError(f"--filter '{text}': write 'ATTR OP VALUE' with one of {' '.join(_OPERATORS)}{advice}")
    return Filter(*match.groups())


def _check_attributes(filters: Sequence[Filter], definitions: Sequence[TypeDefinition]) -> None:
    """Raise ``UsageError`` for a filter whose attribute none of the types has, since it is probably mistyped."""
    attributes = set[str]()
    for definition in definitions:
        attributes |= {*definition.attributes, *map(definition.spelling, definition.attributes)}
    for condition in filters:
        if condition.attribute not in attributes:
            types = ", ".join(capitalize_type(definition.name) for definition in definitions)
            scope = f"of {types}" if len(definitions) == 1 else "of any of these types"
            msg = f"--filter: unknown attribute '{condition.attribute}' {scope}{hint(condition.attribute, attributes)}"
            raise UsageError(msg)


def _text(value: object) -> str:
    """Return a value as it is written on the command line, to search it for the regular expression of a filter."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(plain(value))


class ResourceCall(Protocol):
    """One call of the command ``resource``: of this process, or of a job on a host."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options and arguments of the command, by name."""

    @property
    def reader(self) -> ResourceReader:
        """The reader of resources."""

    @property
    def runtime(self) -> Runtime:
        """The runtime that changes a resource."""

    def find_type(self, name: str) -> TypeDefinition:
        """Return the type of a name of the command line. Raise ``UsageError`` for an unknown one."""

    def select(self, definition: TypeDefinition) -> SelectedProvider | None:
        """Return the configured provider that the options select, or None. Raise ``UsageError``."""

    def secret(self, attribute: str, text: str) -> str:
        """Return the secret that a text of the command line means. Raise ``UsageError`` for a visible one."""

    def report(self, report: RunReport) -> int:
        """Show the end of a change and return its exit code."""


class ShownResources(NamedTuple):
    """The resources that the command ``resource`` shows, or None after a change that failed; and its exit code."""

    listed: Listed | None
    code: int = 0
    selected: SelectedProvider | None = None
    #: Whether they are a listing, not one resource that is shown as it is.
    is_listing: bool = False


def find_resources(call: ResourceCall) -> ShownResources:
    """Carry out the command ``resource``: list or read the resources of TYPE and NAME, after a change by ATTR=VALUE.

    Resources of a listing that cannot be read are errors in the log. Raise ``UsageError``.
    """
    options = call.options
    text, name = options.get("type_name"), options.get("name")
    if options.get("every_type") or not text or "," in text or is_pattern(text):
        return list_types(call)
    definition = call.find_type(text)
    selected = call.select(definition)
    if selected is not None:
        # A manifest may select another version of the type.
        definition = call.reader.registry.type(definition.name, selected.version).for_instance(selected.instance)
    filter_tests(options.get("filters") or (), [definition])  # raises for a wrong one before anything is read
    if name is None:
        return _list_type(call, definition, selected, None)
    name, attributes = parse_name(definition, name, options.get("changes") or (), call.secret)
    # With all namevars among the pairs, these name one resource, whatever characters its title has.
    if is_pattern(name) and not attributes.keys() >= set(definition.namevars):
        return _list_type(call, definition, selected, name)
    return _one_resource(call, definition, selected, name, attributes)


def _list_type(
    call: ResourceCall, definition: TypeDefinition, selected: SelectedProvider | None, pattern: str | None
) -> ShownResources:
    """Return the resources of one type whose titles match ``pattern`` (None: all), for the command ``resource``.

    Raise ``UsageError`` for changes, which need a single resource.
    """
    options = call.options
    if options.get("changes"):
        namevar = definition.namevars[0]
        raise UsageError(f"'{pattern}' is a pattern, and ATTR=VALUE changes one resource; give {namevar}=NAME too")
    strict = options.get("strict") or "error"
    rows, failures = call.reader.read(definition.name, strict=strict, selected=selected)
    listed = select_resources([(definition, rows)], pattern, options.get("filters") or ())
    _log_failures(call.reader.run.log, definition.name, failures)
    return ShownResources(listed, int(bool(failures)), selected, is_listing=True)


def _one_resource(
    call: ResourceCall,
    definition: TypeDefinition,
    selected: SelectedProvider | None,
    title: str,
    attributes: Mapping[str, object],
) -> ShownResources:
    """Return the resource with a title, changed first if ``attributes`` contains others than namevars.

    Namevars only identify the resource. After a failed change, which was reported, return only the exit code.
    """
    options = call.options
    flags: dict[str, Any] = {"strict": options.get("strict") or "error", "selected": selected}
    identity = partial(canonical_identity, definition, title, attributes)
    read = partial(call.reader.read_all, definition.name, identity, **flags)
    code = 0
    if not attributes.keys() <= set(definition.namevars):
        _check_change(options, definition)
        target, noop = Reference(definition.name, title), bool(options.get("noop"))
        code = call.report(call.runtime.change_resource(definition, target, read()[0], attributes, noop=noop, **flags))
        if code not in {0, 2}:  # 2: with changes
            return ShownResources(None, code)
    return ShownResources(select_resources([(definition, read())], None, options.get("filters") or ()), code, selected)


def _check_change(options: Mapping[str, object], definition: TypeDefinition) -> None:
    """Raise ``UsageError`` if a change on the command line is impossible for a type, or has options of a listing.

    A type with ``identity`` gives its resources ids: which resource a name means is recorded only for a manifest.
    """
    if definition.identity is not None:
        msg = f"a {capitalize_type(definition.name)} has a name in a manifest only; declare it there to change it"
        raise UsageError(msg)
    for option, flag in (("filters", "--filter"), ("edit", "--edit")):
        if options.get(option):
            raise UsageError(f"{flag} cannot be combined with ATTR=VALUE")
