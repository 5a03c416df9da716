"""The attributes for the place of new lines in a file; `line_places` finds it."""

from __future__ import annotations

from resource_api import Attribute


def line_attributes(subject: str) -> dict[str, Attribute]:
    """Return the attributes of a type that adds ``subject``, such as "the line", to files."""
    expression = "Optional[String[1]]"
    return {
        "after": Attribute(
            expression,
            f"A regular expression: add {subject} after the last line that it finds, or at the end.",
            kind="parameter",
        ),
        "insertbefore": Attribute(
            expression,
            f"A regular expression: add {subject} before the last line that it finds; `BOF`: at the beginning.",
            kind="parameter",
        ),
    }
