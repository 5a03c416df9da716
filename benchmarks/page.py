"""The results as a page of the documentation: made of the JSON alone, so that it never says what was not measured."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

_HEAD = """# Performance

Made by `make bench` from `benchmarks/results.json`; do not edit. Every row compares two whole processes that ran in
turns on one machine: processor time, user and system. The floor is `benchmarks/floor.py`: it parses the same JSON and
makes the system calls that cannot be saved, without any promise. A ratio of 3 means: three times the floor. Beside
each median stand the least and the greatest ratio of the pairs; a wide spread means that the machine was busy.
"""

_GROWTH = """
## Growth

Processor time without that of an empty manifest, between numbers of files ten times apart; 1 is linear, 2 quadratic.
"""


def page(results: dict[str, Any]) -> str:
    """Give the page."""
    machine = results["machine"]
    lines = [
        _HEAD,
        f"Measured on {machine['system']}, Python {machine['python']}, {machine['processors']} processors.",
        "",
    ]
    lines += [
        "| what | number | ours, s | floor, s | ratio | spread | memory, MiB |",
        "| --- | --: | --: | --: | --: | --- | --: |",
    ]
    lines += [
        f"| {row['what']} | {row['count'] or ''} | {row['ours']:.3f} | {row['floor']:.3f} | {row['ratio']:.2f}"
        f" | {row['least']:.2f} to {row['greatest']:.2f} | {row['memory']:.0f} |"
        for row in results["rows"]
    ]
    lines += [_GROWTH, "| what | from | to | exponent |", "| --- | --: | --: | --: |"]
    lines += [f"| {what} | {low} | {high} | {exponent:.2f} |" for what, low, high, exponent in _growth(results)]
    return "\n".join(lines) + "\n"


def _growth(results: dict[str, Any]) -> list[tuple[str, int, int, float]]:
    start = results["empty"]
    found = []
    for what in dict.fromkeys(row["what"] for row in results["rows"] if row["count"]):
        rows = sorted((row for row in results["rows"] if row["what"] == what), key=lambda row: row["count"])
        for low, high in pairwise(rows):
            work, more = low["ours"] - start, high["ours"] - start
            # Below a few milliseconds the start's own spread is the figure.
            if work > start / 4:
                exponent = math.log(more / work) / math.log(high["count"] / low["count"])
                found.append((what, low["count"], high["count"], exponent))
    return found
