"""What a provider derives from a content is computed once, as long as neither the content nor any code changes."""

from __future__ import annotations

import importlib
import json
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.provider.stored_values import DerivedValues
from tests.unit.cache.site import CachedSite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TYPE: Final = """
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="seal",
    attributes={"name": Attribute("String", kind="namevar"), "text": Attribute("String")},
    features=["simple_get_filter"],
)
"""
_PROVIDER: Final = """
import os
from pathlib import Path

from resource_api import BaseProvider


class Provider(BaseProvider):
    def get(self, context, names=None):
        for name in names:
            yield {"name": name, "text": context.derived(_read, Path(os.environ["BENCH"], name).read_bytes())}

    def set(self, context, changes):
        pass


def _read(content):
    from lib.seals import read

    return read(content)
"""
_LIB: Final = """
import os
from pathlib import Path


def read(content):
    with Path(os.environ["BENCH"], "computed").open("a") as file:
        file.write("x")
    return content.decode()
"""


class Seals(CachedSite):
    """Three files, each read by a function that counts its calls."""

    def __init__(self, root: Path) -> None:
        """Write the files, their type and its provider."""
        super().__init__(root, modules=root / "own")
        for name, text in (("types/seal", _TYPE), ("providers/seal", _PROVIDER), ("lib/seals", _LIB)):
            path = self.modules / f"{name}.py"
            path.parent.mkdir(parents=True)
            path.write_text(text)
        for name in "abc":
            self.file(name).write_text("wax")

    def file(self, name: str) -> Path:
        """Return the file of one of them."""
        return self.root / "things" / name

    def run_in_new_process(self) -> None:
        """Run without the code that earlier runs have loaded."""
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(self.modules)):
                del sys.modules[name]
        assert self.run().end.startswith("0 ")

    def computed(self) -> int:
        """Return how often anything was computed since the last call."""
        counts = self.root / "things" / "computed"
        count = len(counts.read_text()) if counts.exists() else 0
        counts.write_text("")
        return count


@pytest.fixture
def site(tmp_path: Path) -> Seals:
    """Return a site whose conclusion is cached."""
    seals = Seals(tmp_path)
    seals.write({f"Seal[{name}]": {"text": "wax"} for name in "abc"})
    seals.converge()
    seals.computed()
    return seals


@pytest.mark.parametrize("kind", ["plan", "noop", "apply"])
def test_an_unchanged_content_is_not_computed_again(site: Seals, kind: str) -> None:
    """One content is computed once for several files; the resources are left out of the plan as ever."""
    assert site.run(kind).cached_unchanged == 3
    assert site.computed() == 0


def test_a_changed_content_is_computed(site: Seals) -> None:
    """Drift is seen, whatever the times of the file say."""
    site.file("b").write_text("gum")
    assert "1 to update" in site.run("plan").plan[-1]
    assert site.computed() == 1


def _change_code(site: Seals) -> None:
    code = site.modules / "lib" / "seals.py"
    code.write_text(code.read_text().replace("decode()", "decode().upper()"))


def _put_before(site: Seals) -> None:
    """Put a module before the one that computes; a run that computes nothing does not import it."""
    package = site.modules / "lib" / "seals"
    package.mkdir()
    (package / "__init__.py").write_text(_LIB.replace("decode()", "decode().upper()"))


@pytest.mark.parametrize("change", [_change_code, _put_before])
@pytest.mark.parametrize("changing", ["wax", "${inputs.text}"], ids=["left out", "planned in every run"])
def test_changed_code_computes_again(site: Seals, change: Callable[[Seals], None], changing: str) -> None:
    """Also where the run that saved it has not loaded that code itself: it saves what is left of an earlier one."""
    texts = {"a": "wax", "b": changing, "c": changing}
    site.write({f"Seal[{name}]": {"text": text} for name, text in texts.items()}, inputs={"text": {"default": "wax"}})
    for _ in range(2):
        site.run_in_new_process()
    assert site.computed() == 1
    change(site)
    importlib.invalidate_caches()
    assert "3 to update" in site.run("plan").plan[-1]
    assert site.computed() == 1


def test_a_value_keeps_neither_content_nor_path(site: Seals) -> None:
    """The entry holds digests of arguments, and results."""
    (entry,) = (path for path in site.cache_directory.iterdir() if path.name != "left")
    content = json.loads(entry.read_bytes().partition(b"\n")[2])[3]
    assert list(content["derived"].values()) == ['"wax"']


@pytest.mark.parametrize(
    "value", [("a", "tuple"), b"bytes", {1: "a key"}, float("nan"), sys], ids=lambda value: type(value).__name__
)
def test_what_json_would_change_is_not_kept(value: Any) -> None:
    """It is computed each time."""
    computed, values = list[str](), DerivedValues()

    def read(content: str) -> Any:
        computed.append(content)
        return value

    assert [values.get("seal", read, ("a",)) for _ in range(2)] == [value, value]
    assert not values.used
    assert computed == ["a", "a"]


def test_a_value_belongs_to_its_type_its_function_and_its_arguments() -> None:
    """Nothing else has the same key."""
    values = DerivedValues()

    def first(*arguments: Any) -> list[Any]:
        return ["first", len(arguments)]

    def second(*arguments: Any) -> list[Any]:
        return ["second", len(arguments)]

    calls = [(owner, function, arguments) for owner in "ab" for function in (first, second) for arguments in (
        (), (b"x",), ("x",), (b"x", b"y"), (b"xy",), (None,), (1,), (True,)
    )]  # fmt: skip
    for call in calls:
        values.get(*call)
    assert len(values.used) == len(calls)
    later = DerivedValues()
    later.continue_from(values.used, [])
    assert [later.get(*call) for call in calls] == [function(*arguments) for _, function, arguments in calls]


def test_arguments_that_are_no_data_are_passed_on() -> None:
    """Then nothing is kept."""
    values = DerivedValues()
    assert values.get("seal", len, ([object(), 1],)) == 2
    assert not values.used


def test_what_is_raised_is_not_kept() -> None:
    """A later call raises it again."""
    values = DerivedValues()
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            values.get("seal", int, ("x",))
    assert not values.used
