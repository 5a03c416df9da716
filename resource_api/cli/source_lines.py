"""The source line under a problem: read again from its file, and left out where any part of it may be secret.

A file that has changed since the command began, or cannot be read, has no source lines. Whether a line may be secret is
decided by names and known secrets, without a parser, because the problem may be that the file cannot be parsed. Columns
of a problem count characters of the line, from 1; output counts columns of a terminal, where a character may take two
or none.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from resource_api.cli.command_inputs import INPUT_CODES
from resource_api.manifest.read import STDIN, read_file
from resource_api.model.values.document import AGE
from resource_api.model.values.start_up import regex
from resource_api.model.values.suggestions import closest
from resource_api.model.values.text import escape
from resource_api.render.columns import width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from re import Pattern

    from resource_api.model.attribute import AttributeSet
    from resource_api.model.options import Settings
    from resource_api.model.values.errors import Problem
    from resource_api.system.log import Log


#: The columns of a terminal that are shown of a line.
WIDTH: Final = 200
#: How many of them stand before the caret of a line that is longer.
_BEFORE: Final = 80
#: How many characters before and after the caret are looked at: a file may be one line.
_NEAR: Final = 2 * WIDTH

_REFERENCE: Final = r"[A-Za-z]\w*\[.*\](?=\s*(?::\s|:?$))|[A-Za-z]\w*\[[^\]]*\]|\$\{[^}]*\}"
_QUOTED: Final = r"\"(?:\\.|[^\"\\])*\"?|'(?:''|[^'])*'?"
_PLAIN: Final = r"(?:[^\s:,#'\"\[\]{}()]|:(?=\S)|(?<=\S)#|[ ]+(?![#\s:])(?=[^\s,'\"\[\]{}()]))+"
#: Format → the text that begins at a column and is one token.
_TOKENS: Final = {
    "yaml": regex(f"{_QUOTED}|{_REFERENCE}|{_PLAIN}"),
    "json": regex(r"\"(?:\\.|[^\"\\])*\"?|[\w.+-]+"),
    "python": regex(r"\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?|[\w.]+"),
}


def excerpt(line: str, number: int, column: int, form: str = "yaml", length: int = 0) -> list[str]:
    """Return two lines of text: a source line behind its number, and carets below the part with the mistake.

    The carets span ``length`` characters, or for 0 the token at ``column`` in the syntax of ``form`` (``yaml``,
    ``json``, ``python``). ``number`` 0: an argument of the command line. A long line is cut around the carets.
    """
    line = line.rstrip("\r\n")
    start = min(max(column, 1), len(line) + 1) - 1
    begin = max(0, start - _NEAR)
    near, start = line[begin : start + _NEAR], start - begin
    # Only ``near``, the part around the carets, is read: a line may be a whole file. The first caret is at ``start``.
    token = _TOKENS[form].match(near, start)
    end = start + (length or (len(token[0]) if token else 1))
    cells, widths = _cells(near)
    first, last = _window(widths, start)
    before = "…" if begin + first else ""
    after = "…" if begin + last < len(line) else ""
    gutter = f"{number or '':>5}"
    caret, span = len(before) + sum(widths[first:start]), sum(widths[start : min(end, last)])
    return [
        f"{gutter} | {before}{''.join(cells[first:last])}{after}".rstrip(),
        f"{'':{len(gutter)}} | {' ' * caret}{'^' * max(span, 1)}",
    ]


def _cells(text: str) -> tuple[list[str], list[int]]:
    """Return, for each character of a text, the text that is displayed for it and the columns which that takes.

    Carets are below the right character only if tabs, wide and escaped characters count with their columns.
    """
    if text.isascii() and text.isprintable():  # almost always, and each problem of a file has a line
        return list(text), [1] * len(text)
    cells = ["    " if character == "\t" else escape(character) for character in text]
    return cells, list(map(width, cells))


def _window(widths: list[int], start: int) -> tuple[int, int]:
    """Return the range of a line's characters to display: its first index, and its last one, exclusive.

    A line of more than ``WIDTH`` columns is cut on both sides, so that the first caret, at the character ``start``, is
    on the screen. ``widths``: the columns of each character.
    """
    if sum(widths) <= WIDTH:
        return 0, len(widths)
    first = 0
    room = sum(widths[:start])
    while room > _BEFORE and first < start:
        room -= widths[first]
        first += 1
    last, room = first, WIDTH - 2  # an ellipsis at each end
    while last < len(widths) and widths[last] <= room:
        room -= widths[last]
        last += 1
    return first, last


_FORMS: Final = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".py": "python"}
_LINE_END: Final = regex("\r\n|[\r\n]")
_YAML_LINE_END: Final = regex("\r\n|[\r\n\u2028\u2029]")
#: A key of a mapping, a keyword of a call, or a constant.
_KEY: Final = regex(r"(?<!\w)(?<!\w-)([A-Za-z_][\w-]*)[\"']?[ \t]*(?::(?!\S)|[:=](?!=))")
_INDENTATION: Final = regex(r"[ \t]*(?:- *)*")
#: What may be the name of a type or a component.
_TYPE: Final = regex(r"\b([A-Z]\w*)|\b([a-z]\w*)(?=\[)|\.([a-z]\w*)\(|\bresource\(\s*[\"'](\w+)")
_SECRET_WORD: Final = regex(r"(?i)pass|secret|token|credential|private|api_?key|\bpin\b")
#: What declares an input, output or attribute to be a secret.
_DECLARED_SECRET: Final = regex(r"Sensitive|\b(?:sensitive|ephemeral)\b")
#: A use of a value or an input, or an alias of YAML: the name of its source.
_USED: Final = regex(r"\b(?:values|inputs)\.([\w-]+)|[*]([\w-]+)")
_ANCHOR: Final = regex(r"&([\w-]+)")
_WORD: Final = regex(r"[A-Za-z_][\w-]*")
#: How many characters longer or shorter a misspelt name is at most.
_MISSPELT: Final = 2
#: A file with more names that may be types is taken for secret: each of them would be loaded.
_MOST_TYPES: Final = 1000
#: A reference that is declared, without attributes on its line.
_RESOURCE: Final = regex(r"\s*[\"']?[A-Za-z]\w*\[[^\[\]]*\][\"']?[ \t]*:[ \t]*\{?[ \t]*$")
#: A key whose value is a mapping.
_MAPPING_START: Final = regex(r"\s*(?:- +)?[\"']?[\w-]+[\"']?[ \t]*:[ \t]*\{")
#: A key, and its mapping in braces that holds no other.
_IN_BRACES: Final = regex(r"([A-Za-z_][\w-]*)[\"']?[ \t]*:[ \t]*\{([^{}]*)\}")
#: The keys that declare a secret.
_FLAGS: Final = frozenset({"sensitive", "ephemeral"})
#: The keys of a declaration that hold no value of it.
_DECLARATION_FIELDS: Final = _FLAGS | {"type", "docs"}
#: The keys of a file of inputs or types that are no inputs.
_INPUT_FIELDS: Final = frozenset(
    {"type", "docs", "sensitive", "ephemeral", "kind", "inputs", "outputs", "attributes", "resources", "INPUTS", "TYPE"}
)


class SourceLines:
    """The source lines under the problems of one command; each file is read once, with its first problem."""

    def __init__(
        self,
        settings: Settings,
        attributes: Callable[[str], AttributeSet | None],
        log: Log,
        began: float,
        stdin: bytes = b"",
    ) -> None:
        """Show files that are unchanged since ``began``; ``settings`` are the parameters of the command.

        ``attributes`` returns the attributes of a type or component by its name. The secrets that ``log`` masks are
        never shown. ``stdin``: the content of standard input.
        """
        self._stdin = stdin
        manifest = settings.get("manifest") or ""
        self._manifest = STDIN if manifest == "-" else manifest
        #: The option before each ``NAME=VALUE`` of the command line, and that text.
        self._given = [("-i ", text) for text in settings.get("given") or ()]
        self._given += [("", text) for text in settings.get("changes") or ()]
        self._type_name = settings.get("type_name") or ""
        self._attributes = attributes
        self._mask = log.mask
        self._began = began
        #: File → its lines, of a file that may not be shown none.
        self._files: dict[str, _Outline] = {}
        #: File → its names of secrets and of other attributes; None: too many types to know them.
        self._secret_names: dict[str, tuple[frozenset[str], frozenset[str]] | None] = {}
        #: File, index and whether it cannot be parsed → whether a line may be secret.
        self._hidden: dict[tuple[str, int, bool], bool] = {}

    def _argument(self, problem: Problem) -> tuple[str, str] | None:
        """Return the argument of the command line with a problem's value: ``-i`` or no option, and ``NAME=VALUE``.

        The source line is then that argument. Return None if the value is in a file. Of several arguments with one name
        the last one is in force.
        """
        if problem.attribute is None or (problem.code not in INPUT_CODES and problem.file):
            return None
        for option, text in reversed(self._given):
            if text.startswith(f"{problem.attribute}="):
                return option, text
        return None

    def _under_argument(self, problem: Problem, option: str, text: str) -> list[str]:
        """Return an argument of the command line with carets under its value, or under its name if that is unknown.

        Return [] if the value may be a secret: messages end up in logs.
        """
        line = option + text
        name, _, value = text.partition("=")
        if self._mask(line) != line:
            return []
        is_plain = self._is_plain_input(name) if option else self._is_plain(name)
        if not is_plain:
            return []
        if problem.code.startswith("unknown") or not value:
            return excerpt(line, 0, len(option) + 1, length=len(name))
        return excerpt(line, 0, len(option) + len(name) + 2, length=len(value))

    def _is_plain(self, attribute: str) -> bool:
        """Return whether the value of ``ATTRIBUTE=VALUE``, for the command's type, may be shown.

        A secret may not, nor the value of a name that is likely a misspelt secret. If the type is unknown, nothing may.
        """
        declared = self._attributes(self._type_name[:1].lower() + self._type_name[1:])
        if declared is None:
            return False
        return not _resembles(attribute, frozenset(declared.sensitive), frozenset(declared.attributes))

    def _is_plain_input(self, name: str) -> bool:
        """Return whether the value of ``-i NAME=VALUE`` may be shown.

        The value of a sensitive input is ``@FILE``, which is no secret. But a name that only resembles that of a
        sensitive input may be misspelt, and its value the secret itself.
        """
        sensitive = self._outline(self._manifest).sensitive_inputs if self._suffix(self._manifest) in _FORMS else ()
        return name in sensitive or not _resembles(name, frozenset(sensitive), frozenset())

    def under(self, problem: Problem) -> list[str]:
        """Return the source line of a problem and its carets, or an empty list where none may be shown."""
        if (argument := self._argument(problem)) is not None:
            return self._under_argument(problem, *argument)
        lines = self._outline(problem.file).lines if problem.file else ()
        if not 0 < problem.line <= len(lines):
            return []
        key = problem.file, problem.line - 1, problem.code == "syntax"
        if key not in self._hidden:
            self._hidden[key] = self._may_be_secret(*key)
        if self._hidden[key]:
            return []
        form = _FORMS.get(self._suffix(problem.file), "yaml")
        return excerpt(lines[problem.line - 1], problem.line, problem.column, form)

    def _outline(self, file: str) -> _Outline:
        """Return the lines of a file with their structure, which is computed once for all problems of the file.

        A file whose lines may not be shown has none, see ``_read``.
        """
        if file not in self._files:
            self._files[file] = _Outline(self._read(file))
        return self._files[file]

    def _read(self, file: str) -> Sequence[str]:
        """Return the lines of a file for excerpts; none if it is unreadable, encrypted, or changed since it was parsed.

        They are split as the parser of its format does it, so that the line numbers of problems are right.
        """
        try:
            if file != STDIN and (file.endswith(AGE) or os.stat(file).st_ctime > self._began):
                return ()
            raw = self._stdin if file == STDIN else read_file(file)[0]
        except (OSError, ValueError):
            return ()
        text = raw.decode(errors="backslashreplace")
        if self._suffix(file) == ".json":
            return text.split("\n")
        return (_LINE_END if self._suffix(file) == ".py" else _YAML_LINE_END).split(text)

    def _suffix(self, file: str) -> str:
        """Return the suffix of a file, which determines its syntax; standard input gets one by its content."""
        if file == STDIN:
            return ".json" if self._stdin.lstrip().startswith(b"{") else ".yaml"
        return os.path.splitext(file)[1].lower()

    def _may_be_secret(self, file: str, index: int, unparsed: bool) -> bool:  # noqa: FBT001 - part of a key
        """Return whether a line must not be shown: it has a known secret, or may be a value of a key for secrets.

        ``unparsed``: the file has a syntax error, so that any word on the line, or on a line before it, may be the key.
        """
        outline = self._outline(file)
        line = outline.lines[index]
        if self._mask(line) != line:
            return True
        if _declares_secret(line):
            return unparsed or not _only_declares(line)  # a default value may stand beside the declaration
        if file not in self._secret_names:
            self._secret_names[file] = self._find_secret_names(outline)
        if (names := self._secret_names[file]) is None:
            return True
        secret, plain = names
        rows = outline.belongs_to(index, siblings=unparsed)
        keys = {key for row in rows for key in _names(row, words=unparsed)}
        return any(_resembles(key, secret, plain) or _may_name_secret(key, secret, plain) for key in keys)

    def _find_secret_names(self, outline: _Outline) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the names of secrets in a file, and the names of the other attributes of its types.

        Secrets are sensitive attributes and inputs, and the values and inputs that these are made of. ``_resembles``
        needs the other names too: ``pasword`` is nearest to the secret ``password``, ``path`` to another attribute.
        Return None if the file has too many names of types to load: every line may then be secret.
        """
        types = {name for line in outline.lines for name in _groups(_TYPE, line)}
        if len(types) > _MOST_TYPES:
            return None
        secret, plain = set(outline.sensitive_inputs), set[str]()
        if self._manifest and self._suffix(self._manifest) in _FORMS:
            secret |= self._outline(self._manifest).sensitive_inputs
        for name in types:
            if (declared := self._attributes(name[:1].lower() + name[1:])) is not None:
                secret |= declared.sensitive
                plain |= declared.attributes.keys() - declared.sensitive
        # In "password: ${values.token}" the value "token" is secret, too.
        for line in outline.lines:
            if not secret.isdisjoint(_KEY.findall(line)):
                secret.update(_groups(_USED, line))
        return frozenset(secret), frozenset(plain - secret)


class _Outline:
    """The lines of a file, and the lines that each is indented under, computed in one pass."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    @cached_property
    def sensitive_inputs(self) -> set[str]:
        """The names of inputs that a file declares to be secret, or may declare so: their values must not be shown.

        These are the keys on each line that declares a secret, and on its parent line. If only a mapping in braces
        declares it, as in ``a: {sensitive: true}, b: {}``, it is the key of that mapping alone, ``a``.
        """
        names = set[str]()
        for index, line in enumerate(self.lines):
            if not _declares_secret(line):
                continue
            if not _declares_secret(_IN_BRACES.sub("", line)):
                names |= {name for name, body in _IN_BRACES.findall(line) if _declares_secret(body)}
                continue
            above = self._above[index]
            names.update(_KEY.findall(line), _KEY.findall(self.lines[above]) if above >= 0 else ())
        return names - _INPUT_FIELDS

    @cached_property
    def _above(self) -> Sequence[int]:
        """For each line the index of its parent in YAML, under which it is indented; -1 for none.

        The value on a line may belong to a key on its parent line, such as ``password:``, and so be a secret.
        """
        #: ``outer``: the indentation and index of each line that may be the parent of the next one, outermost first.
        indices, outer = [], list[tuple[int, int]]()
        for index, line in enumerate(self.lines):
            indentation = _indentation(line)
            depth = bisect_left(outer, (indentation, -1))  # the number of those with a smaller indentation
            indices.append(outer[depth - 1][1] if depth else -1)
            if line.strip():
                outer[depth:] = [(indentation, index)]
        return indices

    @cached_property
    def _keyed(self) -> Sequence[int]:
        """For each line the index of the nearest one before it with a key, whose value it may continue; -1 for none."""
        keyed = (index if _KEY.search(line) else -1 for index, line in enumerate(self.lines))
        return list(accumulate(keyed, max, initial=-1))

    def belongs_to(self, index: int, *, siblings: bool) -> Iterator[str]:
        """Yield the lines whose keys the value on the line ``index`` may belong to: that line itself and its parents.

        If one of these keys is secret, the line must not be shown. A line without a key may continue the value of the
        nearest key before it. ``siblings``, for a file with a syntax error: also the lines before it under the same
        parent, whose values it may be meant to continue.
        """
        line, above = self.lines[index], self._above[index]
        yield line
        has_key = _KEY.search(line) is not None
        if not has_key and self._keyed[index] >= 0:
            yield self.lines[self._keyed[index]]
        before = reversed(self.lines[above + 1 : index]) if siblings else ()
        for sibling in before:
            yield sibling
            # A line that is not indented continues at most the nearest key before it, and with a key of its own none.
            if not _indentation(line) and (_KEY.search(sibling) or (has_key and sibling.strip())):
                break
        while above >= 0:
            yield self.lines[above]
            above = self._above[above]


def _declares_secret(line: str) -> bool:
    """Return whether a line declares a secret, as ``sensitive: true``, or is misspelt so: ``sensitve: true``."""
    return _DECLARED_SECRET.search(line) is not None or any(map(_is_flag, _KEY.findall(line)))


def _only_declares(line: str) -> bool:
    """Return whether a line declares a secret without its value: ``password: {type: "Sensitive[String]"}``.

    Such a line may be shown. All its keys are fields of a declaration, none of which has the value, except the name
    before a mapping in braces.
    """
    keys = _KEY.findall(line)
    fields = keys[1:] if _MAPPING_START.match(line) else keys
    return bool(fields) and _DECLARATION_FIELDS.issuperset(fields)


@cache
def _may_name_secret(name: str, secret: frozenset[str], plain: frozenset[str]) -> bool:
    """Return whether a name such as ``db_password`` is likely that of a secret, although no type declares it.

    It is not if it is a ``plain`` name, an attribute that is declared as no secret, or likely a misspelt one: a plain
    name is the nearest to it and has about the same length.
    """
    if name in plain or not _SECRET_WORD.search(name):
        return False
    nearest = closest(name, [*secret, *plain])
    return nearest not in plain or abs(len(nearest) - len(name)) > _MISSPELT


@cache
def _is_flag(name: str) -> bool:
    """Return whether a key is ``sensitive`` or ``ephemeral``, or misspelt for one."""
    return _resembles(name, _FLAGS, _INPUT_FIELDS - _FLAGS)


@cache
def _resembles(name: str, secret: frozenset[str], plain: frozenset[str]) -> bool:
    """Return whether a name is one of ``secret``, or likely a misspelt one, whose value is then secret too.

    ``pasword`` is misspelt if the nearest of all declared names is the secret ``password``. A name of ``plain`` is
    declared itself, as no secret.
    """
    if name in secret or name in plain or not secret:
        return name in secret
    return closest(name, [*secret, *plain]) in secret


def _names(line: str, *, words: bool) -> set[str]:
    """Return the names on a line to which a value may belong, to be compared with the names of secrets.

    They are its keys, and its anchors in YAML, such as ``&token``. On a line without a key every word may be such a
    name; if the file cannot be parsed, ``words``, also on a line with a key.
    """
    keys = set(_KEY.findall(line))
    if not words and not keys and _RESOURCE.match(line):
        return keys  # the words of a reference are no names of values
    pattern = _WORD if words or not keys else _ANCHOR
    return keys.union(pattern.findall(line))


def _groups(pattern: Pattern[str], line: str) -> Iterator[str]:
    """Yield the texts of all groups of a pattern on a line."""
    for groups in pattern.findall(line):
        yield from filter(None, groups)


def _indentation(line: str) -> int:
    """Return the number of characters before the first key of a line: spaces, and the hyphens of lists."""
    match = _INDENTATION.match(line)
    return match.end() if match else 0
