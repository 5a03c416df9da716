"""The kinds of lines of an INI file: a section, a setting, or the continuation of a value, by the file's program.

Programs continue a value by lines that are indented, by a backslash at the end, or not at all. The program follows from
the file's path; for an unknown one a line is a continuation only if it is one for all programs.
"""

from __future__ import annotations

import re
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from resource_api import ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Dialect = Literal["indented", "backslash", "single", "unknown"]

Name = TypeVar("Name")

HEADER = re.compile(r"\ufeff?\s*\[(.*?)\]\s*(?:[;#].*)?\Z")
SEPARATOR = re.compile(r"[=:]\s*")
COMMENT = re.compile(r"\ufeff?\s*[;#]+\s*")
#: A line that programs without continuations read as a setting.
SETTING = re.compile(r"\s*[^\W\d][\w.\- \t]*(?:=|:(?!//))")
BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\\s*\Z")
#: Files of programs that are known, by how these continue values: Python's configparser, systemd, git and Samba, and
#: those that do not. The first one that matches counts.
DIALECTS: dict[Dialect, tuple[str, ...]] = {
    "indented": (
        *("*/pip.conf", "*/setup.cfg", "*/tox.ini", "*/.flake8", "*/mypy.ini", "*/pytest.ini", "*/.pypirc"),
        *("*/pylintrc", "*/.pylintrc", "*/.coveragerc", "*/alembic.ini", "*/ansible.cfg", "*/supervisord.conf"),
        "*/supervisor/*",
    ),
    "backslash": (
        *("*/systemd/*", "*.service", "*.socket", "*.timer", "*.target", "*.mount", "*.automount", "*.path", "*.slice"),
        *("*.network", "*.netdev", "*.link", "*/.gitconfig", "*/gitconfig", "*/.git/config", "*/git/config"),
        *("*/smb.conf", "*/samba/*"),
    ),
    "single": (
        *("*/my.cnf", "*/.my.cnf", "*/mysql/*", "*/mariadb/*", "*/my.cnf.d/*", "*/php.ini", "*/php/*"),
        *("*.desktop", "*/NetworkManager/*"),
    ),
}
#: Files of programs that take different spellings of a name for the same one: Python's configparser reads the names of
#: settings in any case, git and Samba those of sections too, Samba without blanks, and MySQL ``-`` as ``_``.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "indented": DIALECTS["indented"],
    "git": ("*/.gitconfig", "*/gitconfig", "*/.git/config", "*/git/config"),
    "samba": ("*/smb.conf", "*/samba/*"),
    "mysql": ("*/my.cnf", "*/.my.cnf", "*/mysql/*", "*/mariadb/*", "*/my.cnf.d/*"),
}
#: Files of programs that take the rest of a line for a comment: the characters that begin one outside of the quotes.
#: In files of Ansible and Supervisor only behind a blank.
COMMENTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("#;", '"'): SPELLINGS["git"],
    ("#", "\"'"): SPELLINGS["mysql"],
    (";", "\"'"): ("*/php.ini", "*/php/*"),
    (";", ""): ("*/ansible.cfg", "*/supervisord.conf", "*/supervisor/*"),
}
#: A section of git: its name, and a part in quotes whose case counts.
SUBSECTION = re.compile(r'([^\s"]*)(.*)', re.DOTALL)


#: Settings of systemd that may be repeated, of which each adds to the former ones.
ADDING = re.compile(
    r"(Exec|Condition|Assert|Listen|On[A-Z]|Environment|Path[A-Z]|IPAddress|(Load|Set)Credential|Restrict|SystemCall).*"
    r"|.*(Paths|Allow|Deny|Groups|Filter)|(Runtime|State|Cache|Logs|Configuration)Directory"
    r"|After|Before|Requires|Requisite|Wants|BindsTo|PartOf|Upholds|Conflicts|RequiresMountsFor|Documentation|Also|Alias"
    r"|WantedBy|RequiredBy|PassEnvironment|UnsetEnvironment|JoinsNamespaceOf|PropagatesReloadTo|DNS|Domains|NTP|Address"
)


class Line(NamedTuple):
    """A kind of line: ``header``, ``setting``, ``more`` of the setting above, or ``other``: a comment, a blank line.

    ``doubt``: of a setting, the reason why the next line may or may not belong to it.
    """

    kind: str
    doubt: str = ""


class Syntax(NamedTuple):
    """How a program reads a file: which lines continue a value, and the form of a name that all its spellings have."""

    dialect: Dialect = "unknown"
    section: Callable[[str], str] = str
    setting: Callable[[str], str] = str
    #: The characters that begin a comment behind a value, and the quotes in which they do not.
    comment: tuple[str, str] = ("", "")

    def comment_start(self, value: str) -> int:
        """Return the index of the comment behind a value, with the blanks before it, or else the value's length.

        A provider replaces only the value before it, and refuses a new value that the program would read as a comment.
        Within quotes, and behind a backslash, a character begins no comment.
        """
        marks, quotes = self.comment
        quote, escaped = "", False
        for number, character in enumerate(value if marks else ""):
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = quotes != ""  # a program without quotes takes it as it is
            elif quote:
                quote = "" if character == quote else quote
            elif character in quotes:
                quote = character
            # In a syntax without quotes, a comment begins only behind a blank.
            elif character in marks and (quotes or value[number - 1 : number].isspace()):
                return len(value[:number].rstrip())
        return len(value)

    def without_comment(self, value: str) -> str:
        """Return a value without the comment behind it, and without blanks around it."""
        return value[: self.comment_start(value)].strip()


def syntax(path: str) -> Syntax:
    """Return the syntax of the file at a path, by the program that reads such a file: INI files have no common one."""
    dialect: Dialect = _first(DIALECTS, path) or "unknown"
    comment = _first(COMMENTS, path) or ("", "")
    match _first(SPELLINGS, path):
        case "indented":
            return Syntax(dialect, setting=str.lower, comment=comment)
        case "git":
            return Syntax(dialect, _git_section, str.lower, comment)
        case "samba":
            return Syntax(dialect, str.lower, lambda name: "".join(name.lower().split()))
        case "mysql":
            return Syntax(dialect, setting=lambda name: name.replace("-", "_"), comment=comment)
    return Syntax(dialect, comment=comment)


def _first(patterns_by_name: Mapping[Name, Sequence[str]], path: str) -> Name | None:
    """Return the first name of which a glob pattern matches a path, such as ``*/my.cnf``; None if the path is unknown.

    The tables of this module have such patterns, to determine the syntax of a file.
    """
    return next(
        (name for name, patterns in patterns_by_name.items() if any(fnmatchcase(path, text) for text in patterns)), None
    )


def _git_section(name: str) -> str:
    """Return the name of a section as git compares it: case matters in a subsection only."""
    return SUBSECTION.sub(lambda match: match[1].lower() + match[2], name, count=1)


def classify(texts: Sequence[str], kind: Dialect) -> list[Line]:
    """Return the kind of each line of a file in a dialect, ``kind``.

    In an unknown dialect a line may or may not continue the value above. That setting gets a ``doubt``, so that a
    provider can refuse to edit it. A comment or blank line is ``other``, and may stand within a value.
    """
    lines: list[Line] = []
    #: The number of the setting that the next line may continue, -1 for none; whether a blank line is between them.
    owner, gap = -1, False
    continued = False
    for number, text in enumerate(texts):
        if not text.strip() or COMMENT.match(text):
            lines.append(Line("other"))
            gap, continued = gap or not text.strip(), continued and bool(text.strip())
            continue
        # Behind a backslash a line is certainly a part of the value above; without a setting above it is of none.
        if continued or owner < 0:
            is_part, doubt = continued, ""
        else:
            is_part, doubt = _is_indented_part(texts[owner], text, kind, gap=gap)
        if is_part:
            lines.append(Line("more"))
        elif HEADER.match(text):
            lines.append(Line("header"))
            owner, continued = -1, False
            continue
        else:
            if doubt:
                lines[owner] = Line("setting", f"line {number + 1} {doubt}")
            lines.append(Line("setting"))
            owner, gap = number, False
        continued, doubt = _has_backslash(texts, number, kind)
        if doubt:
            lines[owner] = Line("setting", f"line {number + 1} {doubt}")
    return lines


def _is_indented_part(setting: str, text: str, kind: Dialect, *, gap: bool) -> tuple[bool, str]:
    """Return whether a line continues the ``setting`` above because it is indented more, and a reason for doubt or "".

    Some dialects (``kind``) have no such lines, in one every indented line continues. In an unknown dialect a line in
    the form of a setting, or behind a blank line (``gap``), is in doubt.
    """
    if kind in {"backslash", "single"} or indentation(text) <= indentation(setting):
        return False, ""
    if kind == "indented":
        return True, ""
    if HEADER.match(text):
        return False, ""
    may_be_setting = gap or SETTING.match(text)
    if _is_empty(setting) or not may_be_setting:
        return True, ""
    return False, "is indented below it, and may be a part of its value or a setting of its own"


def _has_backslash(texts: Sequence[str], number: int, kind: Dialect) -> tuple[bool, str]:
    """Return whether the next line continues this one because of a backslash at its end, and a reason for doubt or "".

    In an unknown dialect the backslash may as well be the end of a path: a next line in the form of a setting or header
    is then in doubt.
    """
    text = texts[number].rstrip()
    if kind in {"indented", "single"} or not BACKSLASH.search(text) or number + 1 == len(texts):
        return False, ""
    following, value = texts[number + 1], text[:-1]
    is_alone = value != value.rstrip()  # ``a \``, unlike the path ``C:\``
    may_be_setting = SETTING.match(following) or HEADER.match(following)
    if kind == "backslash" or is_alone or not may_be_setting:
        return True, ""
    return False, "ends with a backslash, after which the next line may be a part of its value"


def later_values(
    paths: Iterable[str], declared: Mapping[tuple[str, str], str], syntax: Syntax
) -> Iterator[tuple[tuple[str, str], str, str]]:
    """Yield (key, path, value) of each declared setting that a later file overrides, so that it has no effect.

    A plan warns of these. A key is (section, setting); ``paths`` are the later files in the program's order, the last
    of which wins. Some settings of systemd collect values: there a further value overrides nothing, and an empty one
    clears all former values.
    """
    keys = {(syntax.section(section), syntax.setting(setting)): (section, setting) for section, setting in declared}
    values: dict[tuple[str, str], tuple[str, str]] = {}
    for path in paths:
        with suppress(OSError, ResourceError):
            for form, value in settings(list(files.read_lines(path)), syntax):
                adds = value and syntax.dialect == "backslash" and ADDING.fullmatch(form[1])
                if form in keys and not adds:
                    values[keys[form]] = path, value
    yield from ((key, path, value) for key, (path, value) in values.items() if value != declared[key])


def settings(texts: Sequence[str], syntax: Syntax) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((section, name), value) of each setting, with continuation lines and without comments.

    Names are in the form in which the program compares them; it is for reading only, as the line numbers are lost.
    """
    # A setting is known to be complete at the next setting or header: one is added at the end.
    current, name, value = "", "", ""
    for line, text in zip([*classify(texts, syntax.dialect), Line("header")], [*texts, ""], strict=True):
        if line.kind == "more":
            value = f"{value.removesuffix(chr(92)).strip()} {text.strip()}"  # chr(92): the backslash at its end
        elif line.kind != "other":
            if name:
                yield (current, syntax.setting(name)), syntax.without_comment(value)
            current = syntax.section(section(text)) if line.kind == "header" else current
            name, _, value = (text if line.kind == "setting" else "").partition("=")
            name = name.strip()


def indentation(text: str) -> int:
    """Return the number of blanks that a line begins with."""
    return len(text) - len(text.lstrip())


def _is_empty(text: str) -> bool:
    """Return whether the line of a setting has no value."""
    separator = SEPARATOR.search(text)
    return separator is not None and not text[separator.end() :].strip()


def section(text: str) -> str:
    """Return the name in the line of a section."""
    header = HEADER.match(text)
    return header[1].strip() if header else ""
