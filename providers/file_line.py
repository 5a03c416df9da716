"""Find lines by regular expressions, and edit each file once for all its changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lib import file_parts, line_places, regular_expressions, validate_cmd
from lib.sensitive import has_secret, reveal
from resource_api import BaseProvider, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

    Name = tuple[str, str]

#: The characters with a meaning in a regular expression.
SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")


class Provider(BaseProvider):
    """The lines of text files."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write the default expression, which matches exactly the line: it is a part of the name; clean paths."""
        for resource in resources:
            line = resource.get("line")
            if resource.get("match") == "" and isinstance(line, str):
                resource["match"] = _expression(line)
            if "path" in resource:
                resource["path"] = files.canonical_path(resource["path"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse an expression that does not find the declared line: each run would add the line again.

        Refuse also the default expression of a secret line, which would contain the secret, and of an unknown one.
        """
        yield from validate_cmd.problems("validate_cmd", should.get("validate_cmd"))
        match, line = should.get("match"), _text(should.get("line"))
        # Plans and records show the expression: one that was made of a secret line would contain the secret.
        if not match or (has_secret(should.get("line")) and match == _expression(line or "")):
            unusable = "a text that is secret, not known or not declared"
            yield Problem("match", f"match is needed: the line cannot be found by {unusable}")
        problems = [*line_places.place_problems(should), *regular_expressions.problems("match", match)]
        yield from problems
        declared = line is not None and should.get("ensure") != "absent"
        if match and declared and not problems and not re.search(match, line or ""):
            message = "match must also find the line as it is declared, or the next run would add it again"
            yield Problem("match", message)

    def insync(
        self, _context: Context, _name: Name, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | None:
        """Compare all lines that match: one of them must be as declared, or with ``multiple`` all of them."""
        if attribute != "line":
            return None
        matches = (line == _text(should["line"]) for line in (is_["line"], *is_.get("others", ())))
        return all(matches) if should.get("multiple") else any(matches)

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the lines that the expressions in ``names`` find.

        A row has the first one in ``line``, and the further ones that differ from it in ``others``, which ``insync``
        compares.
        """
        unlisted = "the lines of all files cannot be listed; name a file and a regular expression"
        for path, group, lines in file_parts.read_files(context, names, files.read_lines, unlisted):
            for name in group:
                try:
                    texts = [files.printable(lines[number]) for number in _numbers(lines, name[1])]
                except ResourceError as error:
                    context.failed(name, message=str(error))
                    continue
                if texts:
                    line, *more = dict.fromkeys(texts)
                    row = {"ensure": "present", "path": path, "match": name[1], "line": line}
                    yield {**row, "others": more} if more else row

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield the missing prerequisites of a line, such as its file's directory, and refusals of ``set``."""
        yield from file_parts.missing(changes)
        for name, should in changes.items():
            if should.get("ensure") != "absent" and "line" in should and (reason := _refusal(name, should)):
                yield name, Problem("match", reason, needs=f"File[{name[0]}]")

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once, also after another file failed, and then raise the first failure."""
        file_parts.edit_lines(changes, edit)


def _numbers(lines: files.Lines, match: str) -> list[int]:
    """Return the numbers of the lines that an expression finds. Raise ``ResourceError`` for a wrong expression."""
    if wrong := next(regular_expressions.problems("match", match), None):
        raise ResourceError(f"'{match}': {wrong.message}")
    return line_places.find(lines, match)


def _refusal(name: Name, should: Mapping[str, Any]) -> str:
    """Return the reason why ``set`` would fail on the present lines of a file, or an empty text."""
    path, match = name
    try:
        edit(files.read_lines(path), {match: should})
    except ResourceError as error:
        return str(error)
    except OSError:
        pass
    return ""


def edit(lines: files.Lines, states: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Bring the lines that each expression in ``states`` finds to its state; None removes these lines.

    Raise ``ResourceError`` if an expression finds lines that differ from each other and none is as declared: only
    `multiple` allows to replace them all.
    """
    for match, should in states.items():
        numbers = line_places.find(lines, match)
        if should is None:
            lines.delete(numbers)
            continue
        line, multiple = _text(should["line"]) or "", should.get("multiple")
        present = {lines[number] for number in numbers}
        if len(present) > 1 and line not in present and not multiple:
            msg = f"{len(numbers)} lines match '{match}'; with multiple: true all of them are replaced"
            raise ResourceError(msg)
        if not numbers:
            lines.insert(line_places.place(lines, should), line)
        elif multiple or line not in present:
            for number in numbers:
                lines[number] = line


def _expression(line: str) -> str:
    """Return the regular expression that finds exactly a line."""
    return "^" + SPECIAL.sub(r"\\\g<0>", line) + "$"


def _text(value: Any) -> str | None:
    """Return a declared line, unwrapped if it is secret; None if it is not declared or not known yet."""
    value = reveal(value)
    return value if isinstance(value, str) else None
