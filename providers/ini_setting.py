"""Read and edit settings in INI files, each file once for all its changes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from lib import file_parts, ini_lines, listing, validate_cmd
from lib.listing import cut
from lib.sensitive import reveal
from resource_api import BaseProvider, Problem, ResourceError, Sensitive, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api import Change, Context, Resource

    Name = tuple[str, str, str]
    #: A section and a setting.
    Key = tuple[str, str]

#: Of a file whose program is not known.
UNKNOWN = ini_lines.Syntax()
#: The characters with which a comment or a section begins.
MARKS = ("#", ";", "[")
#: The indentation of lines that continue a value, where no present line shows it.
INDENTATION = 4


class Setting(NamedTuple):
    """A line that is a setting: its number, and the index of its value in the text; -1 for a name alone.

    ``more`` are the numbers of the lines that continue its value; ``doubt``: the reason why that is unclear.
    """

    number: int
    value: int
    more: list[int]
    doubt: str = ""


class Provider(BaseProvider):
    """The settings of INI files."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write values as texts without spaces around them; remove needless slashes and dots from paths.

        A program may take ``Port`` and ``port`` for the same name. Such names get the spelling of the first of
        ``resources``, so that they are one resource.
        """
        spellings: dict[Name, Key] = {}  # by the file and the form that all spellings have
        for resource in resources:
            if "value" in resource:
                resource["value"] = _canonical_value(resource["value"])
            if isinstance(resource.get("section"), str):
                resource["section"] = resource["section"].strip()
            if "path" in resource:
                resource["path"] = files.canonical_path(resource["path"])
            if resource.keys() >= {"path", "section", "setting"} and isinstance(resource["section"], str):
                syntax, spelling = ini_lines.syntax(resource["path"]), (resource["section"], resource["setting"])
                form = resource["path"], syntax.section(spelling[0]), syntax.setting(spelling[1])
                resource["section"], resource["setting"] = spellings.setdefault(form, spelling)
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a check that cannot be run, and a value of which the program of the file would read a part only."""
        yield from validate_cmd.problems("validate_cmd", should.get("validate_cmd"))
        path, value = should.get("path"), reveal(should.get("value"))
        syntax = ini_lines.syntax(path) if isinstance(path, str) else UNKNOWN
        if isinstance(value, str):
            yield from (Problem("value", message) for message in _misread(value, syntax))

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the settings in ``names``; the last of repeated lines with a setting counts."""
        unlisted = "the settings of all files cannot be listed; name a file, a section and a setting"
        for path, group, lines in file_parts.read_files(context, names, files.read_lines, unlisted):
            texts, syntax = list(lines), ini_lines.syntax(path)
            settings = find(texts, [name[1:] for name in group], syntax)
            for name in group:
                if lines_of_name := settings.get(name[1:]):
                    row = {"ensure": "present", "path": path, "section": name[1], "setting": name[2]}
                    yield {**row, "value": files.printable(_value(texts, lines_of_name[-1], syntax))}

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield the missing prerequisites of a setting, such as the directory of its file.

        Yield a warning if a later file overrides it, or if the end of its value is unclear.
        """
        yield from file_parts.missing(changes)
        yield from _overridden(changes)
        for name in changes:
            with suppress(OSError):
                settings = find(list(files.read_lines(name[0])), [name[1:]], ini_lines.syntax(name[0]))
                if doubt := next((line.doubt for group in settings.values() for line in group if line.doubt), ""):
                    yield name, Problem("value", f"{name[0]}: {doubt}", severity="warning")

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once, also after another file failed, and then raise the first failure."""
        file_parts.edit_lines(changes, edit, lambda path: {"syntax": ini_lines.syntax(path)})


def _misread(value: str, syntax: ini_lines.Syntax) -> Iterator[str]:
    """Yield the reasons why the program of a file would read another value than the declared one."""
    first, *more = value.split("\n")
    if (start := syntax.comment_start(value)) < len(value):
        _, quotes = syntax.comment
        advice = "; put the value in double quotes" if quotes else ""
        yield f"the program of this file takes the text from '{value[start:].lstrip()[:1]}' for a comment{advice}"
    if syntax.dialect == "backslash" and ini_lines.BACKSLASH.search(value):
        yield "a value that ends with a backslash cannot be written here: it would continue in the next line"
    if more and syntax.dialect in {"backslash", "single"}:
        yield "a value of several lines cannot be written here: the program of this file does not read indented lines"
    if more and first.startswith(MARKS):
        yield "the first of several lines looks like a comment or a section, as each is written into a line of its own"


def _overridden(changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
    """Yield a warning for each later file of a directory such as ``conf.d`` that overrides a declared setting."""
    for path in {name[0]: None for name in changes}:
        directory, _, own = path.rpartition("/")
        if not directory.endswith(".d"):
            continue
        later = [str(file) for file in listing.matching(directory, f"*.{own.rpartition('.')[2]}") if file.name > own]
        declared = {name[1:]: str(reveal(changes[name]["value"])) for name in changes if _is_set(name, path, changes)}
        for key, file, value in ini_lines.later_values(later, declared, ini_lines.syntax(path)):
            message = f"{file} comes after {path} and sets it to '{cut(value)}', which counts"
            yield (path, *key), Problem("value", message, severity="warning")


def _is_set(name: Name, path: str, changes: Mapping[Name, Mapping[str, Any]]) -> bool:
    """Return whether a change gives a setting of the file ``path`` a value, which a later file may override."""
    return name[0] == path and changes[name]["ensure"] == "present" and changes[name].get("value") is not None


def edit(
    lines: files.Lines, states: Mapping[Key, Mapping[str, Any] | None], syntax: ini_lines.Syntax = UNKNOWN
) -> None:
    """Bring the settings in ``states`` to these states; None removes them, with their continuation lines.

    Present settings are changed first, by the numbers of their lines; only then lines are added or sections removed.
    Raise ``ResourceError`` if it is unclear which lines belong to a setting.
    """
    texts = list(lines)
    present = find(texts, states, syntax)
    removed: list[int] = []
    added: list[tuple[int, Sequence[str]]] = []
    for key, settings in present.items():
        should = states[key]
        if should is None:
            _check_clear(settings)
            removed += [number for setting in settings for number in (setting.number, *setting.more)]
        else:
            last = settings[-1]
            _check_clear([last])
            first, *more = _written(texts, last, should, syntax)
            lines[last.number] = first
            removed += last.more
            added.append((last.number + 1, more))
    _replace_lines(lines, removed, added)
    for key, should in states.items():
        if should is None and key in present:
            _remove_if_empty(lines, key[0], syntax)
        elif should is not None and key not in present:
            _add(lines, key, should, syntax)


def _check_clear(settings: Iterable[Setting]) -> None:
    """Raise ``ResourceError`` for a setting whose last line is unclear, before it is changed."""
    for setting in settings:
        if setting.doubt:
            raise ResourceError(f"{setting.doubt}; write it without indentation or in one line")


def find(texts: Sequence[str], keys: Iterable[Key], syntax: ini_lines.Syntax = UNKNOWN) -> dict[Key, list[Setting]]:
    """Return the lines of each setting in ``keys``, in any spelling that the program accepts; the last line counts.

    ``texts`` are the lines of the file. ``syntax`` gives all spellings of a name one form, by which names are compared.
    The result has the spelling of ``keys``.
    """
    forms = {key: (syntax.section(key[0]), syntax.setting(key[1])) for key in keys}
    names_by_section: dict[str, set[str]] = {}
    for section, setting in forms.values():
        names_by_section.setdefault(section, set()).add(setting)
    settings: dict[Key, list[Setting]] = {}
    section, names = "", names_by_section.get("", set())  # the lines above the first header
    current: Setting | None = None
    for number, line in enumerate(ini_lines.classify(texts, syntax.dialect)):
        if line.kind == "header":
            section = syntax.section(ini_lines.section(texts[number]))
            names = names_by_section.get(section, set())
        elif line.kind == "setting":
            current = None  # lines that continue the value of an unwanted setting are skipped
            if names and (parsed := _parse(texts[number], names, syntax)):
                name, value = parsed
                current = Setting(number, value, [], line.doubt)
                settings.setdefault((section, name), []).append(current)
        elif line.kind == "more" and current is not None:
            current.more.append(number)
    return {key: settings[form] for key, form in forms.items() if form in settings}


def _written(
    texts: Sequence[str], present: Setting, should: Mapping[str, Any], syntax: ini_lines.Syntax
) -> Iterator[str]:
    """Yield the lines that replace a setting, with its new value in the style of its ``present`` lines in ``texts``.

    The lines of a longer value are indented below the name. A comment behind a value in one line stays.
    """
    text = texts[present.number]
    begin = text[: present.value] if present.value >= 0 else text.rstrip() + should["key_val_separator"]
    # ``name =`` with the value in the next line becomes ``name = value``, not ``name =value``.
    if begin[-2:-1].isspace() and begin[-1:] in {"=", ":"}:
        begin += " "
    value = str(reveal(should["value"])).split("\n")
    if len(value) == 1:
        old = text[present.value :] if present.value >= 0 and not present.more else ""
        yield (begin + value[0] + old[syntax.comment_start(old) :]).rstrip(" \t")
        return
    yield begin.rstrip(" \t")
    more = texts[present.more[0]] if present.more else ""
    depth = ini_lines.indentation(text)
    indent = more[: ini_lines.indentation(more)] or text[:depth].removeprefix("\ufeff") + " " * INDENTATION
    yield from (indent + line for line in value)


def _replace_lines(lines: files.Lines, removed: Iterable[int], added: Iterable[tuple[int, Sequence[str]]]) -> None:
    """Remove lines and insert texts before lines, for ``edit``; all numbers are those before the change."""
    numbers = sorted(set(removed))
    for number, texts in sorted(added, reverse=True):
        for text in reversed(texts):
            lines.insert(number, text)
        # The lines to remove have moved down by the texts above them.
        numbers = [old + len(texts) * (old >= number) for old in numbers] if texts else numbers
    lines.delete(numbers)


def _parse(text: str, names: Collection[str], syntax: ini_lines.Syntax) -> tuple[str, int] | None:
    """Return (name, index of the value) of the setting in a line if it is one of ``names``, or None.

    The index is -1 for a name without a value. A name may contain ``=`` or ``:``, so each separator in the line is
    tried.
    """
    if (name := syntax.setting(_name(text))) in names:
        return name, -1
    longest = max(map(len, names))
    for separator in ini_lines.SEPARATOR.finditer(text):
        name = syntax.setting(_name(text[: separator.start()]))
        if name in names:
            return name, separator.end()
        if len(name) > longest:
            break
    return None


def _name(text: str) -> str:
    """Return the name that a text holds; a byte order mark before it belongs to the file."""
    return text.removeprefix("\ufeff").strip()


def _value(texts: Sequence[str], setting: Setting, syntax: ini_lines.Syntax) -> str:
    """Return a setting's value without comments: lines joined by a backslash as one, indented ones as lines."""
    parts = ["" if setting.value < 0 else syntax.without_comment(texts[setting.number][setting.value :])]
    parts += [syntax.without_comment(texts[number]) for number in setting.more]
    if setting.more and ini_lines.BACKSLASH.search(texts[setting.number]):
        return " ".join(text.removesuffix("\\").strip() for text in parts)
    return "\n".join(filter(None, parts))


def _section_bounds(
    texts: Sequence[str], section: str, kinds: Sequence[ini_lines.Line], syntax: ini_lines.Syntax
) -> tuple[int, int] | None:
    """Return the range of a section's lines below its header, to add a setting there or remove the section; or None.

    Of repeated sections with the name, it is the last one. The section "" is above all headers.
    """
    start = 0 if section == "" else -1
    headers = [number for number, line in enumerate(kinds) if line.kind == "header"]
    for number in headers:
        if syntax.section(ini_lines.section(texts[number])) == syntax.section(section):
            start = number + 1
    return None if start < 0 else (start, next((number for number in headers if number >= start), len(texts)))


def _add(lines: files.Lines, key: Key, should: Mapping[str, Any], syntax: ini_lines.Syntax) -> None:
    """Add a setting to its section; a section that does not exist is added at the end of the file."""
    section, setting = key
    texts = list(lines)
    kinds = ini_lines.classify(texts, syntax.dialect)
    # A line with the name alone, which is completed like a present one.
    new = Setting(0, -1, [])
    bounds = _section_bounds(texts, section, kinds, syntax)
    if bounds is None:
        if texts and texts[-1].strip():
            lines.append("")
        lines.append(f"[{section}]")
        for text in _written([setting], new, should, syntax):
            lines.append(text)
        return
    number, indent = _insertion_point(texts, kinds, bounds, setting, syntax)
    following = texts[bounds[1]] if bounds[1] < len(texts) else ""
    # An indented header below a setting that is not indented would be a part of its value.
    if (depth := ini_lines.indentation(following)) > len(indent):
        indent = following[:depth]
    for text in reversed(list(_written([indent + setting], new, should, syntax))):
        lines.insert(number, text)


def _insertion_point(
    texts: Sequence[str],
    kinds: Sequence[ini_lines.Line],
    bounds: tuple[int, int],
    setting: str,
    syntax: ini_lines.Syntax,
) -> tuple[int, str]:
    """Return the number of the line before which a setting is added to a section, and its indentation.

    It comes below a comment with the setting as an example, or else below the last setting, with its indentation.
    ``texts`` are the lines of the file, ``kinds`` their kinds; ``bounds`` is the ``_section_bounds`` of the section.
    """
    number, indent, names = bounds[0], "", {syntax.setting(setting)}
    inside = _inside_values(kinds)
    for current in range(*bounds):
        comment = ini_lines.COMMENT.match(texts[current])
        if comment and not inside[current] and _parse(texts[current][comment.end() :], names, syntax):
            return current + 1, ""
        if kinds[current].kind in {"setting", "more"}:
            number = current + 1
        if kinds[current].kind == "setting":
            indent = texts[current][: ini_lines.indentation(texts[current])]
    return number, indent


def _inside_values(kinds: Sequence[ini_lines.Line]) -> list[bool]:
    """Return for each line whether it is inside a value of several lines, where no setting may be added.

    A comment or blank line is inside a value if the next line of another kind continues the value.
    """
    inside, following = [False] * len(kinds), ""
    for number in range(len(kinds) - 1, -1, -1):
        inside[number] = following == "more"
        following = following if kinds[number].kind == "other" else kinds[number].kind
    return inside


def _remove_if_empty(lines: files.Lines, section: str, syntax: ini_lines.Syntax) -> None:
    """Remove a section if only blank lines remain in it after the removal of settings, so that no bare header stays.

    At the end of the file the blank line above the header goes too.
    """
    texts = list(lines)
    bounds = _section_bounds(texts, section, ini_lines.classify(texts, syntax.dialect), syntax)
    if section == "" or bounds is None or any(text.strip() for text in texts[slice(*bounds)]):
        return
    first = bounds[0] - 1
    if bounds[1] == len(texts) and first and not texts[first - 1].strip():
        first -= 1
    lines.delete(range(first, bounds[1]))


def _canonical_value(value: Any) -> Any:
    """Return the canonical form of a value, so that equal values are equal texts: ``true`` for True, lines stripped."""
    if isinstance(value, Sensitive):
        return Sensitive(_canonical_value(value.reveal()))
    if isinstance(value, bool):
        return str(value).lower()
    return "\n".join(filter(None, map(str.strip, str(value).split("\n"))))
