"""Files of one paragraph in the format deb822(5), as apt reads them: fields, continuation lines and comments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lib import file_parts
from resource_api import ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context


class Field(NamedTuple):
    """A field and its lines, from ``start`` to before ``stop``; ``value`` has a line break before each continuation.

    Of all fields only an explanation may be repeated, instead of being continued.
    """

    name: str
    value: str
    start: int
    stop: int


def read(path: str) -> dict[str, str]:
    """Return field → value of the only paragraph of a file; an empty mapping without a paragraph.

    Names of fields are in lower case, because apt ignores their case. Raise ``OSError`` for a file that cannot be read,
    ``ResourceError`` for more than one paragraph or an invalid one.
    """
    return {field.name.lower(): files.printable(field.value) for field in _only(files.read_lines(path))}


def read_all(path: str) -> list[dict[str, str]]:
    """Return the fields of each paragraph of a file, as ``read`` does of the only one."""
    paragraphs = _paragraphs(files.read_lines(path))
    return [{field.name.lower(): files.printable(field.value) for field in fields} for fields in paragraphs]


def read_each(
    context: Context, names: Collection[str] | None, listed: Callable[[], Iterable[str]], path: Callable[[str], str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (name, fields) of the files of one paragraph with ``names``, or else of those that ``listed`` returns.

    It is the reading part of ``get`` for types whose resources are such files. ``path``: name → file. A file without a
    paragraph is passed over; an unreadable one fails its name, and is a warning in a listing.
    """
    for name in listed() if names is None else names:
        try:
            fields = read(path(name))
        except (OSError, ResourceError) as error:
            reason = f"{path(name)} cannot be read: {files.describe_error(error, path(name))}"
            file_parts.report_unreadable(context, [name], reason, names)
        else:
            if fields:
                yield name, fields


def differing(change: Change) -> dict[str, Any]:
    """Return only the declared attributes that differ, so that other fields keep their spelling in the file."""
    return {key: value for key, value in change.should.items() if change.is_ is None or change.is_.get(key) != value}


def edited(path: str, values: Mapping[str, str]) -> bytes:
    """Return a file's content after ``edit``, for a check by apt before it is written. Raise as ``read``."""
    lines = files.read_lines(path)
    edit(lines, values)
    return lines.content


def edit(lines: files.Lines, declared: Mapping[str, str]) -> None:
    """Set the ``declared`` fields of the only paragraph by name; an empty value removes a field.

    Other lines stay as they are, also those of a value that differs only in blanks: the user's own layout and comments
    are kept. Raise ``ResourceError`` as ``read`` does.
    """
    fields = _only(lines)
    values = {name.lower(): value for name, value in declared.items()}
    present = {field.name.lower() for field in fields}
    added = [_format(name, value) for name, value in declared.items() if value and name.lower() not in present]
    _insert(lines, fields[-1].stop if fields else len(lines), [line for added_lines in added for line in added_lines])
    for field in reversed(fields):  # from the end, so that the line numbers of earlier fields stay valid
        value = values.get(field.name.lower(), field.value)
        if value.split() != field.value.split():
            # A comment among the lines of a value stays, below the new one.
            lines.delete([number for number in range(field.start, field.stop) if not lines[number].startswith("#")])
            _insert(lines, field.start, _format(field.name, value) if value else [])


def _insert(lines: files.Lines, index: int, added: list[str]) -> None:
    """Insert lines before the line with the number ``index``."""
    for line in reversed(added):
        lines.insert(index, line)


def _format(name: str, value: str) -> list[str]:
    """Return the lines of a field; an empty line of its value is written as a dot (deb822(5))."""
    first, *more = value.split("\n")
    return [f"{name}: {first}".rstrip(), *(f" {line or '.'}" for line in more)]


def _only(lines: files.Lines) -> list[Field]:
    """Return the fields of a file's only paragraph. Raise ``ResourceError`` for more: a resource is a whole file."""
    paragraphs = list(_paragraphs(lines))
    if len(paragraphs) > 1:
        raise ResourceError(f"the file has {len(paragraphs)} paragraphs; only a file of one can be managed")
    return paragraphs[0] if paragraphs else []


def _paragraphs(lines: files.Lines) -> Iterator[list[Field]]:
    """Yield the fields of each paragraph, with continuation lines joined to their field.

    Comments are skipped; the fields keep the numbers of their lines, for ``edit`` to replace only these. Raise
    ``ResourceError`` with the line that is no part of a paragraph.
    """
    fields: list[Field] = []
    for number, line in enumerate([*lines, ""]):  # a blank line ends a paragraph, also the last one
        if line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if not line.strip():
            if fields:
                yield fields
            fields = []
        elif fields and (continuation := _continuation(line, fields[-1])) is not None:
            fields[-1] = fields[-1]._replace(value=f"{fields[-1].value}\n{continuation}", stop=number + 1)
        elif colon and name.strip() == name and name.lower() not in {field.name.lower() for field in fields}:
            fields.append(Field(name, value.strip(), number, number + 1))
        else:
            raise ResourceError(f"line {number + 1} is neither a new field nor the continuation of one")


def _continuation(line: str, field: Field) -> str | None:
    """Return the text that a line adds to the field above, or None for a new field; a dot alone is an empty line.

    A continuation is indented, or, as apt writes explanations, a further field ``Explanation``.
    """
    name, _, text = line.partition(":")
    if line[0] in " \t":
        text = line
    elif not name.lower() == field.name.lower() == "explanation":
        return None
    return "" if text.strip() == "." else text.strip()
