"""Title patterns: regular expressions that split the title of a resource into its namevars.

The first one that matches decides (Puppet Resource API, "Composite Namevars"). They are written in Ruby's syntax or
Python's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

#: The parts of a pattern, as ``template`` reads them.
_PIECE: Final = regex(
    r"""(?P<anchor>\\[AZ]|\^|\$)|\(\?P<(?P<group>\w+)>|(?P<open>\()|(?P<close>\))
    |\\(?P<escaped>[\W_])|\[(?P<single>[^]\\^])\]|(?P<set>\[\^?\]?(?:\\.|[^\]])*\])
    |(?P<special>[\\.*+?|\[]|\{\d*,?\d+\}|\{\d+,\})|(?P<literal>.)""",
    re.DOTALL | re.VERBOSE,
)


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern, of which named groups and the end may be written as in Ruby. Raises ``re.error``."""
    return re.compile(re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", text).replace(r"\z", r"\Z"))


def split_title(patterns: Iterable[re.Pattern[str]], title: str) -> dict[str, str] | None:
    """Return the namevars that the first matching pattern finds in a title; None: no pattern matches."""
    found = next(filter(None, (pattern.match(title) for pattern in patterns)), None)
    return None if found is None else {name: text for name, text in found.groupdict().items() if text is not None}


def template(pattern: re.Pattern[str]) -> str:
    """Return the titles that a pattern matches as a format string, such as ``{path}:{name}``.

    It is empty where the pattern has more than groups and literal text.
    """
    found, depth = "", 0
    for piece in _PIECE.finditer(pattern.pattern):
        kind, within = piece.lastgroup, depth
        depth += {"group": 1, "open": 1, "close": -1}.get(kind or "", 0)
        if within or kind == "anchor":
            continue
        if kind == "group":
            found += f"{{{piece['group']}}}"
        elif kind in {"literal", "escaped", "single"}:
            found += piece[kind].replace("{", "{{").replace("}", "}}")
        else:
            return ""
    return found


def pattern_problems(patterns: Any, namevars: Collection[str]) -> list[str]:
    """Return what is wrong with the ``title_patterns`` of a type that has these namevars."""
    if not isinstance(patterns, (list, tuple)):
        return [f"title_patterns must be a list, not {type(patterns).__name__}"]
    problems = []
    for index, pattern in enumerate(patterns):
        if not hasattr(pattern, "get") or not isinstance(pattern.get("pattern"), str):
            problems.append(f"title_patterns[{index}] must be a mapping, {{'pattern': REGEX}}")
            continue
        try:
            groups = compile_pattern(pattern["pattern"]).groupindex
        except re.error as error:
            problems.append(f"title_patterns[{index}]: {error}")
            continue
        for group in groups:
            if group not in namevars:
                hint = nearest(group, namevars)
                problems.append(f"title_patterns[{index}]: '{group}' is not a namevar{f'; {hint}' if hint else ''}")
    return problems
