"""Title patterns: regular expressions that split the title of a resource into its namevars.

The first one that matches decides (Puppet Resource API, "Composite Namevars"). They are written in Ruby's syntax or
Python's.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.errors import hint

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

#: The parts of a pattern, as ``template`` reads them.
_PIECE: Final = regex(
    r"""(?P<anchor>\\[AZ]|\^|\$)|\(\?P<(?P<group>\w+)>|(?P<open>\()|(?P<close>\))
    |\\(?P<escaped>[\W_])|\[(?P<single>[^]\\^])\]|(?P<set>\[\^?\]?(?:\\.|[^\]])*\])
    |(?P<special>[\\.*+?|\[]|\{\d*,?\d+\}|\{\d+,\})|(?P<literal>.)""",
    re.DOTALL | re.VERBOSE,
)


class TitlePatterns:
    """The title patterns of a type, in the order in which they are tried."""

    def __init__(self, declared: Sequence[Mapping[str, Any]]) -> None:
        """Use a type's declaration, a list of ``{'pattern': REGEX}``, which ``problems`` checks."""
        self._declared = declared

    @cached_property
    def regexes(self) -> tuple[re.Pattern[str], ...]:
        """The compiled patterns."""
        return tuple(_compile(pattern["pattern"]) for pattern in self._declared)

    @cached_property
    def templates(self) -> tuple[str, ...]:
        """The titles that the patterns describe, as format strings such as ``{path}:{name}``."""
        return tuple(filter(None, map(template, self.regexes)))

    def split(self, title: str) -> dict[str, str] | None:
        """Return the namevars that the first matching pattern finds in a title; None: no pattern matches."""
        match = next(filter(None, (regex.match(title) for regex in self.regexes)), None)
        return None if match is None else {name: text for name, text in match.groupdict().items() if text is not None}

    def problems(self, namevars: Collection[str]) -> list[str]:
        """Return the problems of the patterns of a type with these namevars."""
        if not isinstance(self._declared, (list, tuple)):
            return [f"title_patterns must be a list, not {type(self._declared).__name__}"]
        problems = []
        for index, pattern in enumerate(self._declared):
            if not hasattr(pattern, "get") or not isinstance(pattern.get("pattern"), str):
                problems.append(f"title_patterns[{index}] must be a mapping, {{'pattern': REGEX}}")
                continue
            try:
                groups = _compile(pattern["pattern"]).groupindex
            except re.error as error:
                problems.append(f"title_patterns[{index}]: {error}")
                continue
            strange = [group for group in groups if group not in namevars]
            problems += [
                f"title_patterns[{index}]: '{group}' is not a namevar{hint(group, namevars)}" for group in strange
            ]
        return problems


def _compile(text: str) -> re.Pattern[str]:
    """Return a pattern, of which named groups and the end may be written as in Ruby. Raises ``re.error``."""
    return re.compile(re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", text).replace(r"\z", r"\Z"))


def template(pattern: re.Pattern[str]) -> str:
    """Return the titles that a pattern matches as a format string; empty where it is more than groups and text."""
    titles, depth = "", 0
    for piece in _PIECE.finditer(pattern.pattern):
        kind, within = piece.lastgroup, depth
        depth += {"group": 1, "open": 1, "close": -1}.get(kind or "", 0)
        if within or kind == "anchor":
            continue
        if kind == "group":
            titles += f"{{{piece['group']}}}"
        elif kind in {"literal", "escaped", "single"}:
            titles += piece[kind].replace("{", "{{").replace("}", "}}")
        else:
            return ""
    return titles
