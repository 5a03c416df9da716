"""No regular expression of the program takes quadratic time: others may have written what it is matched with."""

from __future__ import annotations

import itertools
import pkgutil
import re
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import resource_api
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.plugins.registry import Registry
from tests.bundled import execute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from resource_api.model.datatypes.datatype import DataType

#: Each pattern of each type is timed at two sizes.
pytestmark = pytest.mark.whole

SIZE: Final = 10 * 1024
#: What is repeated; after it comes what no pattern ends with, or nothing.
UNITS: Final = (
    *"aA0/.-_ \t,:;=@#%*\"'\\[](){}<>+$é\n",
    *map("".join, itertools.permutations('a/. ,="\\', 2)),
    *("a.b/", "/./", "::a", "${", "[0]", "a=b ", " a,", '\\"', "a[", "0:", "%%"),
)
STARTS: Final = ("", "/", "a", "[", '"', "${", " ")
ENDS: Final = ("", "\0", "\n", "!", "/", "..")
#: Seconds that may pass for the longer text, and how many times as long it may take as the shorter one.
ALLOWED, RATIO = 0.03, 3.0
PROBE, PROBE_ALLOWED = 1000, 0.0007


def patterns() -> Iterator[tuple[str, list[Callable[[str], object]]]]:
    """Yield where a pattern is, and each way in which it is used."""
    for kind in ("types", "lib", "providers"):
        for file in sorted(Path(BUNDLED, kind).rglob("*.py")):
            name = str(file.relative_to(Path(BUNDLED, kind)).with_suffix(""))
            yield from _of_module(execute(kind, name), f"{kind}/{name}", file.read_text())  # type: ignore[arg-type]
    for module in pkgutil.walk_packages(resource_api.__path__, "resource_api."):
        if not module.name.startswith(("resource_api.testing", "resource_api.__main__", "resource_api.fleet.boot")):
            result = import_module(module.name)
            yield from _of_module(result, module.name, Path(str(result.__file__)).read_text())
    registry = Registry(ModulePath([BUNDLED], distributions=False))
    for name in registry.names():
        definition = registry.type(name)
        for attribute, declared in definition.attributes.items():
            for number, item in enumerate(_of_datatype(declared.datatype)):
                yield f"{name}.{attribute}[{number}]", [item.search]
        for number, regex in enumerate(definition.titles.regexes):
            yield f"{name}.title_patterns[{number}]", [regex.match]


def _of_module(module: Any, location: str, text: str) -> Iterator[tuple[str, list[Callable[[str], object]]]]:
    verbs = ("search", "match", "fullmatch", "sub", "finditer")
    for name, value in vars(module).items():
        if hasattr(value, "groupindex") and f"{name} " in text and isinstance(value.pattern, str):
            consumed = [verb for verb in verbs if f"{name}.{verb}" in text]
            yield f"{location}:{name}", [_call(value, verb) for verb in consumed or ["match"]]


def _call(pattern: Any, verb: str) -> Callable[[str], object]:
    if verb == "sub":
        return lambda text: pattern.sub("", text)
    if verb == "finditer":
        return lambda text: sum(1 for _ in pattern.finditer(text))
    return getattr(pattern, verb)  # type: ignore[no-any-return] # a method of a pattern


def _of_datatype(datatype: DataType) -> Iterator[re.Pattern[str]]:
    yield from map(re.compile, datatype.patterns)
    for part in datatype.parts:
        yield from _of_datatype(part)


def _seconds(match: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    match(text)
    return time.process_time() - began


def _is_slow(match: Callable[[str], object], start: str, unit: str, end: str) -> bool:
    # Whatever is quadratic takes some milliseconds for a thousand characters.
    if _seconds(match, start + unit * (PROBE // len(unit)) + end) < PROBE_ALLOWED:
        return False
    longer = start + unit * (2 * SIZE // len(unit)) + end
    if _seconds(match, longer) < ALLOWED:
        return False
    shorter = start + unit * (SIZE // len(unit)) + end
    return min(_seconds(match, longer) for _ in range(2)) > RATIO * min(_seconds(match, shorter) for _ in range(2))


def test_no_pattern_is_quadratic() -> None:
    """At 10 and 20 KiB of whatever may be repeated, in types, providers, their library and the program itself."""
    slow, count = [], 0
    for location, ways in patterns():
        count += 1
        for match, start, unit, end in itertools.product(ways, STARTS, UNITS, ENDS):
            if _is_slow(match, start, unit, end):
                slow.append(f"{location}: {start!r} {unit!r} {end!r}")
                break
    assert slow == []
    assert count > 200
