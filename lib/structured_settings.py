"""Single settings in files of nested mappings and arrays: a provider without the format of the file."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Mapping
from datetime import date, time
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from lib import file_parts, prerequisites, validate_cmd
from lib.format_error import FormatError
from lib.sensitive import reveal
from resource_api import BaseProvider, Problem, ResourceError, compute, files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from resource_api import Change, Context, Resource

    Name = tuple[str, str]
    #: The key path of a setting: the keys of mappings and the indexes of arrays that lead to it.
    KeyPath = tuple[str | int, ...]

#: The largest file in bytes: the parsers that keep comments are slow.
LIMIT = 1 << 20
#: The longest text, in characters, whose parsing takes no time to speak of, whatever it contains.
SHORT = 1 << 15
#: The most values in a setting, as a file of a few lines may contain very many by aliases.
LARGEST_VALUE = 100_000
#: The most parts of a key path: as deep as a manifest may be.
DEEPEST_KEY = 100
Value = TypeVar("Value")
STEP = re.compile(r"""\[(?:(?P<index>\d+)|'(?P<single>[^']+)'|"(?P<double>[^"]+)")\]|\.?(?P<word>[^.\[\]]+)""")
WORD = re.compile(r"""[^\s.\[\]'"]+""")
MISSING = object()
NEWLINE = b"\n"
#: The byte order mark, which belongs to the file and not to its text.
MARK = "\ufeff"


class SettingsProvider(BaseProvider):
    """The base class of providers of the settings in files of one format."""

    #: The name of the format.
    _FORMAT: ClassVar[str]
    #: The Python modules that are needed, each with the resource that brings it on Debian.
    _MODULES: ClassVar[Mapping[str, str]] = {}

    @staticmethod
    @abstractmethod
    def _parse(text: str) -> Any:
        """Return the content of a file. Raise ``FormatError`` with the line of a mistake."""

    @staticmethod
    @abstractmethod
    def _edit(text: str, values: Mapping[KeyPath, Any]) -> str:
        """Return the text with new values by their key paths; ``MISSING`` removes one. Raise ``ResourceError``."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write key paths and paths of files in one form, so that one setting is not two resources."""
        for resource in resources:
            if "key" in resource:
                resource["key"] = format_key_path(parse_key_path(resource["key"]))
            if "path" in resource:
                resource["path"] = files.canonical_path(resource["path"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield problems for wrong commands, keys that lead too deep, and infinite numbers or NaN, which JSON lacks."""
        yield from validate_cmd.problems("validate_cmd", should.get("validate_cmd"))
        key = should.get("key")
        if isinstance(key, str) and len(parse_key_path(key)) > DEEPEST_KEY:
            yield Problem("key", f"key must not have more than {DEEPEST_KEY} parts")
        numbers = (leaf for leaf in _leaves(reveal(should.get("value"))) if isinstance(leaf, float))
        if not all(map(math.isfinite, numbers)):
            yield Problem("value", "value must be a finite number")

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the settings in ``names``; each file is read once.

        A value that no manifest can hold, for instance because it is too large, fails its name. A setting whose value
        is null is present without a ``value``.
        """
        unlisted = "the settings of all files cannot be listed; name a file and a key"
        for path, group, document in file_parts.read_files(context, names, self._read, unlisted):
            for name in group:
                try:
                    value = plain(find(document, parse_key_path(name[1])))
                except ResourceError as error:
                    context.failed(name, message=f"{path}: {error}")
                    continue
                if value is not MISSING:
                    row = {"ensure": "present", "path": path, "key": name[1]}
                    yield row if value is None else {**row, "value": value}

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield the missing prerequisites: the directory of the file, the program that checks it, the modules."""
        yield from file_parts.missing(changes)
        needed = self._MODULES.items()
        missing = [problem for module, needs in needed for problem in prerequisites.missing_module(module, needs)]
        yield from ((name, problem) for name in changes for problem in missing)

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once, also after another file failed, and then raise the first failure."""
        checks = validate_cmd.checkers(changes)
        file_parts.edit_files(changes, lambda name: name, partial(self._rewrite, checks=checks))

    def _read(self, path: str) -> Any:
        """Return the content of the file at a path; a missing file is an empty mapping. Raise ``ResourceError``."""
        return self._document(path, _decode(path, files.read_content(path) or b""))

    def _document(self, path: str, text: str) -> Any:
        """Return the content of a file; an empty file is an empty mapping."""
        return _computed(len(text), partial(self._parsed, path, text)) if text.strip() else {}

    def _parsed(self, path: str, text: str) -> Any:
        """Return the document in a text, parsed by the subclass for its format.

        Raise ``ResourceError`` with the file's path, the line and the column, for the user to find the mistake.
        """
        try:
            return self._parse(text)
        except RecursionError:
            msg = f"{path}: is nested too deeply"
        except FormatError as error:
            position = "".join(f":{number}" for number in (error.line, error.column) if number is not None)
            msg = f"{path}{position}: is no valid {self._FORMAT}{': ' if error.reason else ''}{error.reason}"
        raise ResourceError(msg) from None

    def _rewrite(
        self,
        path: str,
        states: Mapping[str, Mapping[str, Any] | None],
        mode: int,
        checks: Mapping[str, Callable[[str], None]],
    ) -> None:
        """Change all declared settings of a file in one write; ``states`` are by key, None for a removal."""
        # Removals come last: a mapping that gets new keys is not empty then.
        values = {parse_key_path(key): should["value"] for key, should in states.items() if should is not None}
        removed = sorted((key for key, should in states.items() if should is None), key=_from_the_end)
        values |= {parse_key_path(key): MISSING for key in removed}
        files.edit(path, partial(self._changed, path, values=values), mode=mode, check=checks.get(path))

    def _changed(self, path: str, content: bytes, values: Mapping[KeyPath, Any]) -> bytes:
        """Return the new content of a file, with ``values`` set at their key paths or, for ``MISSING``, removed.

        If nothing is to be set and all settings to be removed are missing, it is the present content, byte for byte.
        """
        text = _decode(path, content)
        document = self._document(path, text)
        # To remove a setting that is missing changes nothing.
        missing = {key for key, value in values.items() if value is MISSING and find(document, key) is MISSING}
        values = {key: value for key, value in values.items() if key not in missing}
        if not values:
            return content
        byte_order_mark = MARK if content.startswith(MARK.encode()) else ""
        try:
            return (byte_order_mark + _computed(len(text), partial(self._edit, text, values))).encode()
        except prerequisites.MissingModuleError:  # which has nothing to do with this file
            raise
        except ResourceError as error:
            raise ResourceError(f"{path}: {error}") from error


def _computed(size: int, function: Callable[[], Value]) -> Value:
    """Return ``function()``, which parses ``size`` characters: a long text in a process with a time limit."""
    return function() if size <= SHORT else compute("reading it", function)


def parse_key_path(key: str) -> KeyPath:
    """Return the keys and indexes of a key path such as ``rules[0].port``, which the type has accepted."""
    steps = STEP.finditer(key)
    return tuple(
        int(step["index"]) if step["index"] else step["single"] or step["double"] or step["word"] for step in steps
    )


def format_key_path(key_path: KeyPath) -> str:
    """Return a key path as text in its canonical form, so that all spellings of a path are the same resource.

    A key with other characters than those of a word is in brackets and quotes: ``servers[0]['max size']``.
    """
    text = ""
    for step in key_path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif WORD.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]' if "'" in step else f"['{step}']"
    return text


def _from_the_end(key: str) -> list[int]:
    """Return a sort key for removals: an array's last element first, as indexes shift."""
    return [-step for step in parse_key_path(key) if isinstance(step, int)]


def find(document: Any, key_path: KeyPath) -> Any:
    """Return the value at a key path of a document, or ``MISSING`` without one: None is a value, the null of a file."""
    for step in key_path:
        if isinstance(step, int) and isinstance(document, list):
            if step >= len(document):
                return MISSING
            document = document[step]
        elif isinstance(step, str) and isinstance(document, Mapping) and (key := key_of(document, step)) is not MISSING:
            document = document[key]
        else:
            return MISSING
    return document


def key_of(mapping: Mapping[Any, Any], step: str) -> Any:
    """Return the key of a mapping for a step of a key path, or ``MISSING``: YAML also has numbers and dates as keys."""
    if step in mapping:
        return step
    return next((key for key in mapping if not isinstance(key, str) and str(key) == step), MISSING)


def check_container(container: Any, step: str | int, key_path: KeyPath) -> None:
    """Raise ``ResourceError`` if the value at ``key_path`` cannot contain a ``step``: an index is for an array only."""
    values, kind = ("an array", list) if isinstance(step, int) else ("a mapping", Mapping)
    if not isinstance(container, kind):
        subject = f"'{format_key_path(key_path)}'" if key_path else "the whole file"
        raise ResourceError(f"{subject} is not {values}, so it cannot contain '{step}'")


def check_index(index: int, length: int, key_path: KeyPath, *, removal: bool) -> None:
    """Raise ``ResourceError`` for a new index that leaves a gap in an array, or a removal of any but the last element.

    The next element would get the index of the removed one, by which another resource may declare it. ``length`` is
    that of the array, ``key_path`` ends with the index.
    """
    at = format_key_path(key_path)
    if removal and index != length - 1:
        raise ResourceError(f"'{at}' is not the last element: the next one would take its place; declare the array")
    if not removal and index > length:
        raise ResourceError(f"'{at}' would leave a gap: the array has {length} element{'' if length == 1 else 's'}")


def nested(key_path: KeyPath, value: Any) -> Any:
    """Return a value within new mappings and arrays: ``{"a": [value]}`` for the key path ``a[0]``.

    ``key_path`` is the part of a path that a document lacks, which is added as one value.
    """
    for step in reversed(key_path):
        if isinstance(step, int):
            check_index(step, 0, key_path, removal=False)
        value = [value] if isinstance(step, int) else {step: value}
    return value


def plain(value: Any, largest: int = LARGEST_VALUE) -> Any:
    """Return a value as data to compare and record, dates as text. Raise ``ResourceError`` above ``largest`` parts."""
    try:
        return _plain(value, [largest])
    except RecursionError:
        raise ResourceError("contains itself, or is nested too deeply") from None


def _plain(value: Any, budget: list[int]) -> Any:
    """Return a library's value as plain data. Raise ``ResourceError`` for a value with too many parts.

    The aliases of a small YAML file can stand for billions of parts. ``budget`` is a list with the number of parts that
    may still come: all levels of the recursion count the same number down.
    """
    budget[0] -= 1
    if budget[0] < 0:
        raise ResourceError("has too many parts")
    if value is None or value is MISSING or type(value) in {bool, int, float, str}:
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, budget) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, budget) for item in value]
    if isinstance(value, date | time):
        return value.isoformat()
    for kind in (bool, int, float, str):  # of which a library has subclasses that keep the spelling
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the values of a document that are no collections, at any depth, to check each of them."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def _decode(path: str, content: bytes) -> str:
    """Return the text of a file. Raise ``ResourceError`` for one that is too large or not UTF-8."""
    if len(content) > LIMIT:
        raise ResourceError(f"{path}: is larger than {LIMIT >> 20} MiB")
    try:
        return content.decode().removeprefix(MARK)
    except UnicodeDecodeError as error:
        raise ResourceError(f"{path}:{content.count(NEWLINE, 0, error.start) + 1}: is not UTF-8") from None
