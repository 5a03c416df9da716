"""The file of results, and the page that is generated from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.page import page

RESULTS = Path(__file__).resolve().parent / "results.json"
_PAGE = RESULTS.parent.parent / "docs" / "performance.md"


def read() -> dict[str, Any]:
    """Return the earlier results; empty if there are none."""
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def write(results: dict[str, Any]) -> str:
    """Write the results and their page; return the page."""
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    text = page(results)
    _PAGE.write_text(text)
    return text
