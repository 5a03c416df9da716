"""Check the rows that ``get`` returned: named, of declared attributes, of their data types, canonical.

Only rows that are used are checked.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

from resource_api.catalog.canonicalize import check_values, failure, find_suspect, first_unknown
from resource_api.model.codec import encode
from resource_api.model.values.errors import ProviderError, WrongAnswer, hint
from resource_api.model.values.reference import Reference
from resource_api.model.values.text import QUOTES, show, show_attribute, show_name
from resource_api.model.values.values import Sensitive, are_flat, batches, copy_resource, is_secret, reveal, same_value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.model.values.errors import Problem

    #: The result of reading one name: a row, None for absence, or the reason why it could not be read.
    CheckedRow = Resource | str | None


class RowChecker:
    """Checks the rows of one run.

    ``strict`` decides about a row that breaks a rule: ``error`` refuses it, ``warning`` corrects it and warns once per
    type and message, naming the first resource, ``off`` corrects it without a word.
    """

    def __init__(self, strict: str, warn: Callable[..., None]) -> None:
        """Make a checker; ``warn`` is called with the arguments of ``Log.write`` after the level."""
        self.strict = strict
        self._write_warning = warn
        #: Type and message of the warnings so far: each is written once.
        self._warned: set[tuple[str, str]] = set()

    def index_by_name(
        self, functions: ProviderFunctions, names: Collection[Name] | None, rows: Sequence[Resource]
    ) -> tuple[dict[Name, Resource], dict[Name, str]]:
        """Return rows by name, and problems by name; ``names`` were requested (None: all).

        A row with a name that is not canonical must not make an existing resource look absent: it is the problem of the
        requested name, or is renamed where ``strict`` allows it. Raises ``ProviderError`` for a row without a name.
        """
        definition = functions.definition
        if names is not None and _in_order(definition, names, rows):  # nearly always
            return dict(zip(names, rows, strict=True)), {}
        by_name: dict[Name, Resource] = {}
        wrong: dict[Name, str] = {}
        for row in rows:
            name = _name(definition, row)
            if name in by_name:
                wrong[name] = f"get returned '{show_name(name)}' more than once"
            by_name[name] = row
        expected = set(names or ())
        unexpected = [(name, row) for name, row in by_name.items() if name not in expected]
        missing = expected - by_name.keys() if unexpected else frozenset()
        if not missing:
            return by_name, wrong
        by_text = {show_name(name): name for name in missing}
        for name, row in unexpected:
            intended, message = _intended_name(functions, name, row, by_text)
            if intended not in missing:  # a resource beside the requested ones, as ``get`` may return them
                continue
            if self.strict == "error":
                wrong[intended] = message
            else:
                self._warn(definition, intended, message)
                by_name[intended] = {**row, **definition.named_row(intended)}
        return by_name, wrong

    def check(self, functions: ProviderFunctions, rows: Sequence[Resource]) -> list[CheckedRow]:
        """Return for each row the checked resource, None if it does not exist, or a text: the row's problem."""
        return [result for batch in batches(rows) for result in self._check_batch(functions, batch)]

    def _check_batch(self, functions: ProviderFunctions, rows: Sequence[Resource]) -> list[CheckedRow]:
        """Return the results of ``check`` for one batch: first by data types, then by canonical form."""
        definition, canonicalize = functions.definition, functions.canonicalize
        typed: list[Any] = list(rows)
        for index in find_suspect(functions, rows):  # nearly none: the other rows are accepted at once
            typed[index] = self._check_types(definition, rows[index])
        canonical = list(typed)
        if canonicalize is not None:
            good = [index for index, row in enumerate(typed) if type(row) is dict]
            answers = _canonicalize(canonicalize, [typed[index] for index in good])
            for index, answer in zip(good, answers, strict=True):
                canonical[index] = answer
        elif not are_flat(rows):
            # A provider may keep the lists and hashes that it has returned, and change them in ``set``.
            canonical = typed = [_copied(row) if type(row) is dict else row for row in typed]
        return [self._canonical_row(definition, row, twin) for row, twin in zip(typed, canonical, strict=True)]

    def _check_types(self, definition: TypeDefinition, row: Resource) -> Resource | str:
        """Return the row, corrected if ``strict`` allows it, or a text: the attribute or values that are wrong."""
        attributes = definition.attributes
        clean = row
        if not row.keys() <= attributes.keys():
            strange = next(key for key in row if key not in attributes)
            message = f"get returned the undeclared attribute {show(strange)}{hint(strange, attributes)}"
            if self.strict == "error":
                return message
            self._warn(definition, _name(definition, row), message)
            clean = {key: value for key, value in row.items() if key in attributes}
        try:
            problems = check_values(definition, clean)
            unknown = None if problems else first_unknown(clean)
        except RecursionError:
            return "get returned a value that contains itself"
        if unknown is not None:
            return f"get returned a value of '{unknown}' that is not known; leave it out"
        if problems:
            message = _wrong_values(problems)
            if self.strict == "error":
                return message
            self._warn(definition, _name(definition, row), message)
            return _unrecordable(clean) or clean
        return clean

    def _canonical_row(self, definition: TypeDefinition, row: Resource | str, canonical: object) -> CheckedRow:
        """Return the row to use, or a text: an earlier problem in place of either, or a value that is not canonical."""
        if type(row) is not dict or type(canonical) is not dict:
            return str(row if type(row) is not dict else canonical)
        if canonical is not row and canonical != row:
            message = _uncanonical(definition, row, canonical)
            if message and (self.strict == "error" or _unrecordable(canonical)):
                return message
            if message:
                self._warn(definition, _name(definition, row), message)
        elif all(map(is_, map(row.get, canonical), canonical.values())):
            # Usually a copy of the row with the same values: keep one of the two.
            canonical = row
        return _complete(definition, canonical)

    def _warn(self, definition: TypeDefinition, name: Name, message: str) -> None:
        """Log a warning about a corrected row if ``strict`` is ``warning``: once for each type and message."""
        if self.strict == "warning" and (definition.name, message) not in self._warned:
            self._warned.add((definition.name, message))
            reference = str(Reference(definition.name, show_name(name)))
            self._write_warning(reference, message, definition.name, reference=reference)


def _wrong_values(problems: Sequence[Problem]) -> str:
    """Return the problems of the values of a row, without advice for authors of manifests."""
    return "get returned " + "; ".join(problem.message.removesuffix(QUOTES) for problem in problems)


def _canonicalize(canonicalize: Callable[[list[Resource]], list[Resource]], rows: list[Resource]) -> list[Any]:
    """Return the canonical form of each row, or the reason of its failure; if all fail, each is tried alone."""
    try:
        return list(canonicalize(rows))
    except WrongAnswer as error:  # the method itself is wrong, for any row
        return [str(error)] * len(rows)
    except Exception as error:  # noqa: BLE001 - becomes the failure of one row
        if len(rows) == 1:
            return [failure("canonicalize", error)]
        return [answer for row in rows for answer in _canonicalize(canonicalize, [row])]


def _copied(row: Resource) -> Resource | str:
    """Return a copy of a row that shares nothing with its provider, or the reason of a failure."""
    try:
        return copy_resource(row)
    except Exception:  # noqa: BLE001 - the copying of an object may do anything
        return _unrecordable(row) or row


def _unrecordable(row: Resource) -> str:
    """Return the problem of a value that cannot be recorded, such as a set or an unknown one, or ""."""
    for key, value in row.items():
        try:
            encode(reveal(value))
        except (TypeError, ValueError, RecursionError):
            return f"get returned a value of '{key}' that cannot be recorded"
    return ""


def _in_order(definition: TypeDefinition, names: Collection[Name], rows: Sequence[Resource]) -> bool:
    """Return whether the rows are exactly the requested ones, in that order, as most providers answer."""
    if len(names) != len(rows) or len(definition.namevars) != 1:
        return False
    (namevar,) = definition.namevars
    return [row.get(namevar) for row in rows] == list(names)


def _intended_name(
    functions: ProviderFunctions, name: Name, row: Resource, by_text: Mapping[str, Name]
) -> tuple[Name | None, str]:
    """Return the name that a row should have, by its canonical form or its data type, and the problem of its own.

    ``by_text`` has names by their text. Returns None without a known problem.
    """
    definition = functions.definition
    if show_name(name) in by_text:
        problems = check_values(definition, definition.named_row(name))
        if problems:
            return by_text[show_name(name)], _wrong_values(problems)
    if functions.canonicalize is None:
        return None, ""
    try:
        canonical = definition.name_of(functions.canonicalize([row])[0])
        hash(canonical)
    except Exception:  # noqa: BLE001 - this row was not asked for
        return None, ""
    if canonical == name:
        return None, ""
    return canonical, f"get returned the name {show(name)}, which is not canonical; it should be {show(canonical)}"


def _name(definition: TypeDefinition, row: Resource) -> Name:
    """Return the name of a row. Raises ``ProviderError`` if it has none, or one that cannot be a name."""
    try:
        name = definition.name_of(row)
        hash(name)
    except KeyError as error:
        msg = f"get returned a resource without its namevar {error}"
        raise ProviderError(msg) from None
    except TypeError:
        msg = f"get returned a namevar that cannot be one: {show(definition.name_of(row))}"
        raise ProviderError(msg) from None
    return name


def _uncanonical(definition: TypeDefinition, row: Resource, canonical: Resource) -> str:
    """Return the problem of the first value of a row that is not canonical, or ""."""
    for key, value in row.items():
        if key not in canonical or not same_value(value, canonical[key]):
            if key in definition.sensitive or is_secret(value):
                return f"get returned a value of '{key}' that is not canonical"
            return (
                f"get returned {show_attribute(value)} for '{key}', which is not canonical;"
                f" it should be {show_attribute(canonical.get(key))}"
            )
    return ""


def _complete(definition: TypeDefinition, row: Resource) -> Resource | None:
    """Wrap secrets, drop write-only values, fill in ``ensure``, all in the row itself; return None for an absent one.

    A provider with ``custom_insync`` may distinguish kinds of absence, so its row is kept.
    """
    ensure = row.get("ensure")
    if ensure == "absent":
        return row if "custom_insync" in definition.features else None
    if ensure is None and definition.ensurable and "ensure" not in row and definition.accepts["ensure"]("present"):
        row["ensure"] = "present"
    for name in definition.sensitive:
        if name in row:
            value = row[name].reveal() if isinstance(row[name], Sensitive) else row[name]
            row[name] = definition.attributes[name].datatype.conceal(value)
    for name in definition.write_only:
        row.pop(name, None)
    return row
