"""The results as a page of the documentation: made of the JSON alone, so that it never says what was not measured."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from benchmarks.cases import MANY, RELATED, SECONDS_OF_CLICK

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = """# Performance

Made by `make bench` from `benchmarks/results.json`; do not edit. Every row compares two whole processes that ran in
turns on one machine: processor time, user and system. The floor is `benchmarks/floor.py`: it parses the same JSON and
makes the system calls that cannot be saved, without any promise. A ratio of 3 means: three times what it is compared
with. Beside each median stand the least and the greatest ratio of the pairs; a wide spread means that the machine was
busy. What is aimed at stands in the last column, where there is such an aim.

Seconds are those of this machine in that hour. An aim in seconds was set where `import click` takes 35.5 ms; here it is
as many times `import click` as it is there, and what is small is told for such a machine too.
"""

_GROWTH = """
## Growth

Processor time without that of an empty manifest, between two numbers of resources, and between the first and the last
of three or more; 1 is linear, 2 quadratic.
"""

_MEMORY = """
## Memory

At the peak, and what each further resource takes between two numbers.
"""

_PEERS = """
## Other tools

The same files, with other tools, measured in the same way with as many as can be waited for: `make bench-peers`
installs and measures them. In place of ssh, bundlewrap gets a script that runs here what would be run elsewhere.
"""

_EACH = """
## For each resource

Processor time beyond what a row is compared with, divided by the number of resources.
"""


#: What a resource may cost beyond what its row is compared with, in microseconds.
_BUDGETS = {"empty apply": round(RELATED * 1e6), "the same without state": 15}


def page(results: dict[str, Any]) -> str:
    """Give the page."""
    machine, rows = results["machine"], results["rows"]
    own = [row for row in rows if ":" not in row["what"]]
    peers = [row for row in rows if ":" in row["what"]]
    measured = f"Measured on {machine['system']}, Python {machine['python']}, {machine['processors']} processors."
    lines = [_HEAD, measured, "", *_table(own), _GROWTH, *_growth(own, results["empty"]), _MEMORY, *_memory(own)]
    lines += [_EACH, *_each(own, results["click"])]
    if peers:
        lines += [_PEERS, *_table(peers)]
    return "\n".join(lines) + "\n"


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| what | number | s | beside | s | ratio | spread | memory, MiB | at most |"
    yield "| --- | --: | --: | --- | --: | --: | --- | --: | --: |"
    for row in rows:
        aim = f"{row['aim']:g}" if row["aim"] else ""
        yield (
            f"| {row['what']} | {row['count'] or ''} | {row['ours']:.3f} | {row['beside']} | {row['floor']:.3f}"
            f" | {row['ratio']:.2f} | {row['least']:.2f} to {row['greatest']:.2f} | {row['memory']:.0f} | {aim} |"
        )


def _series(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Give the rows of each thing that was measured, by their numbers."""
    for what in dict.fromkeys(row["what"] for row in rows if row["count"]):
        yield sorted((row for row in rows if row["what"] == what), key=lambda row: row["count"])


def _growth(rows: list[dict[str, Any]], start: float) -> Iterator[str]:
    yield "| what | from | to | exponent |"
    yield "| --- | --: | --: | --: |"
    for known in _series(rows):
        # Below a few milliseconds the start's own spread is the figure.
        telling = [row for row in known if row["ours"] - start > start / 4]
        spans = [*pairwise(telling), *([(telling[0], telling[-1])] if len(telling) > 2 else [])]  # noqa: PLR2004 - a pair
        for low, high in spans:
            work, more = low["ours"] - start, high["ours"] - start
            exponent = math.log(more / work) / math.log(high["count"] / low["count"])
            yield f"| {low['what']} | {low['count']} | {high['count']} | {exponent:.2f} |"


def _memory(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| what | number | MiB | to | KiB for each further one |"
    yield "| --- | --: | --: | --: | --: |"
    for low, high in (pair for known in _series(rows) for pair in pairwise(known)):
        if low["count"] >= MANY:
            each = (high["memory"] - low["memory"]) * 1024 / (high["count"] - low["count"])
            yield f"| {low['what']} | {low['count']} | {low['memory']:.0f} | {high['count']} | {each:.2f} |"


def _each(rows: list[dict[str, Any]], click: float) -> Iterator[str]:
    yield "| what | number | beyond | µs each | where `import click` takes 35.5 ms | at most |"
    yield "| --- | --: | --- | --: | --: | --: |"
    for row in rows:
        if row["beside"] in _BUDGETS:
            each = (row["ours"] - row["floor"]) / row["count"] * 1e6
            there = each * SECONDS_OF_CLICK / click
            aim = _BUDGETS[row["beside"]] if row["count"] >= MANY else ""
            yield f"| {row['what']} | {row['count']} | {row['beside']} | {each:.1f} | {there:.1f} | {aim} |"
