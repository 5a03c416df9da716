"""What is wrong with a declared regular expression."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from resource_api import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator


def problems(attribute: str, expression: Any) -> Iterator[Problem]:
    """Yield a problem if a text is no regular expression."""
    if isinstance(expression, str):
        try:
            re.compile(expression)
        except (re.error, RecursionError) as error:
            yield Problem(attribute, f"{attribute} is no regular expression: {error}")
