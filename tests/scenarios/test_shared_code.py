"""Shared provider code in ``lib/`` of a directory on the module path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

ATTRIBUTES = """
    "name": Attribute("String", "Its name.", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
    "size": Attribute("Integer", "Its size.", default=1)
"""
PROVIDER = """
from resource_api import SimpleProvider
from lib import store

class Provider(SimpleProvider):
    def get(self, context):
        return [{**row, "ensure": "present"} for row in store.read()]
    def create(self, context, name, should):
        from lib.store import write
        write(name, should)
    update = create
"""
STORE = """
import json, os
from lib.place import FILE

def read():
    return json.loads(FILE.read_text()) if FILE.exists() else []

def write(name, row):
    rows = [each for each in read() if each["name"] != name]
    FILE.write_text(json.dumps([*rows, {"name": name, "size": row["size"]}]))
"""
PLACE = "import os\nfrom pathlib import Path\n\nFILE = Path(os.environ['BENCH'], '{}')\n"


def _write(bench: Bench, modules: str, type_name: str) -> None:
    """Write a type with a provider that keeps its rows with a ``store`` of its own directory."""
    declaration = f"name='{type_name}', docs='A {type_name}.', attributes={{{ATTRIBUTES}}}"
    bench.write(
        f"{modules}/types/{type_name}.py",
        f"from resource_api import Attribute, TypeDefinition\nTYPE = TypeDefinition({declaration})\n",
    )
    bench.write(f"{modules}/providers/{type_name}.py", PROVIDER)
    bench.write(f"{modules}/lib/store.py", STORE)
    bench.write(f"{modules}/lib/place.py", PLACE.format(f"{type_name}.json"))


@pytest.fixture
def two(bench: Bench) -> Bench:
    """Write two directories of one module path, each with a ``lib/store.py``, and keep state."""
    _write(bench, "near", "shelf")
    _write(bench, "far", "drawer")
    path = f"{bench.home}/near:{bench.home}/far"
    bench.environment |= {"RESOURCE_API_MODULE_PATH": path, "RESOURCE_API_STATE": f"sqlite:{bench.home}/state.db"}
    return bench


MANIFEST = "resources: {'Shelf[a]': {size: 3}, 'Drawer[b]': {size: 4}}"


@pytest.mark.parametrize("options", [(), ("--isolate",)], ids=["in one process", "in workers"])
def test_each_directory_of_the_module_path_has_its_own_lib(two: Bench, options: tuple[str, ...]) -> None:
    """Modules of the same name in two directories are independent, also in worker processes."""
    result = two.apply(MANIFEST, *options)
    assert result.code == 0, result
    assert (two.things_of / "shelf.json").read_text() == '[{"name": "a", "size": 3}]'
    assert (two.things_of / "drawer.json").read_text() == '[{"name": "b", "size": 4}]'
    again = two.apply(MANIFEST, *options, "--detailed-exitcodes")
    assert again.code == 0, again


def test_a_changed_module_is_used_by_the_next_run(two: Bench) -> None:
    """A changed module invalidates the cached conclusions of earlier runs."""
    for _ in range(3):
        assert two.apply(MANIFEST).code == 0
    two.write("near/lib/place.py", PLACE.format("elsewhere.json"))
    result = two.apply(MANIFEST, "--detailed-exitcodes")
    assert result.code == 2, result
    assert (two.things_of / "elsewhere.json").read_text() == '[{"name": "a", "size": 3}]'


def test_an_error_names_the_file_and_line_of_lib(two: Bench) -> None:
    """The error shows the chain of imports, and another type still works."""
    two.write("near/lib/place.py", "FILE = 1 / 0\n")
    result = two.plan(MANIFEST)
    assert result.code == 65
    assert "providers/shelf.py:2: " in result.err
    assert "near/lib/store.py:2: " in result.err
    assert "near/lib/place.py:1: ZeroDivisionError: division by zero" in result.err
    assert two.plan("resources: {'Drawer[b]': {}}").code == 0


def test_a_module_that_does_not_exist_is_an_error_of_the_type(two: Bench) -> None:
    """The error names the expected file and the nearest module."""
    two.write("near/providers/shelf.py", PROVIDER.replace("lib import store", "lib import stor"))
    result = two.plan(MANIFEST)
    assert result.code == 65
    assert f"no module 'lib.stor'; expected {two.home}/near/lib/stor.py; did you mean 'store'?" in result.err


VERSIONED_TYPE = """
from lib import release
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="parcel",
    version=release.VERSION,
    attributes={
        "name": Attribute("String", "Its name.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "made_by": Attribute(f"Enum[{release.WORD}]", "The version.", default=release.WORD),
    },
)
"""
VERSIONED_PROVIDER = """
from lib import release
from resource_api import SimpleProvider

class Provider(SimpleProvider):
    priority = int(release.VERSION[0])
    rows = {}
    def get(self, context):
        return list(self.rows.values())
    def create(self, context, name, should):
        from lib.deep.inner import WORD
        context.notice(f"{name} is NAME: {context.type.version} {should['made_by']} {release.WORD} {WORD} {__file__}")
        self.rows[name] = should
"""
VERSIONS = """
project: p
providers:
  old: {type: parcel, version: "<2"}
  new: {type: parcel, version: ">=2"}
resources:
  Parcel[a]: {provider: old}
  Parcel[b]: {provider: new}
  Parcel[c]: {}
"""


def _write_version(bench: Bench, directory: str, version: str, provider: str) -> None:
    word = f"v{version[0]}"
    bench.write(f"{directory}/types/parcel.py", VERSIONED_TYPE)
    bench.write(f"{directory}/providers/{provider}.py", VERSIONED_PROVIDER.replace("NAME", provider))
    bench.write(f"{directory}/lib/release.py", f"VERSION = '{version}'\nWORD = '{word}'\n")
    bench.write(f"{directory}/lib/deep/inner.py", "from lib.release import WORD\n")


def _install(bench: Bench, package: str) -> None:
    """Make a directory of ``packages`` an installed distribution with an entry point."""
    points = f"packages/{package}-1.dist-info"
    bench.write(f"packages/{package}/__init__.py", "")
    bench.write(f"{points}/entry_points.txt", f"[resource_api.modules]\n{package} = {package}\n")
    bench.write(f"{points}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")


@pytest.mark.parametrize("isolated", ["", "1"], ids=["here", "worker"])
@pytest.mark.parametrize("path", ["directories", "distributions"])
@pytest.mark.parametrize(
    "providers",
    [("parcel", "parcel"), ("parcel/one", "parcel/two"), ("parcel/one", "parcel")],
    ids=["one", "several", "both"],
)
def test_versions_of_a_plug_in_share_nothing(
    bench: Bench, providers: tuple[str, str], path: str, isolated: str
) -> None:
    """The type, the provider and the ``lib/`` of each version are those of one directory, in one run."""
    expected = []
    for package, version, provider in zip(("ra_a", "ra_b"), ("1.0", "2.0"), providers, strict=True):
        _write_version(bench, f"packages/{package}", version, provider)
        if path == "distributions":
            _install(bench, package)
        words = " ".join([version, *[f"v{version[0]}"] * 3])
        expected.append(f"{provider}: {words} {bench.home}/packages/{package}/providers/{provider}.py")
    packages = f"{bench.home}/packages"
    variables = {
        "directories": {"RESOURCE_API_MODULE_PATH": f"{packages}/ra_a:{packages}/ra_b"},
        "distributions": {"PYTHONPATH": f"{bench.environment['PYTHONPATH']}:{packages}"},
    }
    manifest = bench.write("site.yaml", VERSIONS)
    result = bench.run("apply", manifest, RESOURCE_API_ISOLATE=isolated, **variables[path])
    assert result.code == 0, result
    lines = [line.partition(" is ")[2] for line in result.lines if " is parcel" in line]
    assert lines == [expected[0], expected[1], expected[0]]


SITE = """
    from lib import colours
    from lib.deep import inner

    def manifest(m):
        import lib.colours

        m.widget("a", colour=colours.first(), size=inner.SIZE)
        m.widget("b", colour=lib.colours.first())
"""


def test_a_python_manifest_imports_lib_of_the_module_path(bench: Bench) -> None:
    """At its top and in its function; of two directories the first that has the module counts."""
    bench.write("lib/colours.py", "from lib.names import NAME\n\ndef first():\n    return NAME\n")
    bench.write("lib/names.py", "NAME = 'red'\n")
    bench.write("lib/deep/inner.py", "SIZE = 1\n")
    manifest = bench.write("site.py", SITE)
    steps = bench.run("plan", manifest, "--json").document["steps"]
    assert [(step["should"]["colour"], step["should"].get("size")) for step in steps] == [("red", 1), ("red", None)]
    bench.write("modules/lib/deep/inner.py", "SIZE = 2\n")
    bench.write("modules/lib/names.py", "NAME = 'not of the same directory'\n")
    steps = bench.run("plan", manifest, "--json").document["steps"]
    assert [(step["should"]["colour"], step["should"].get("size")) for step in steps] == [("red", 2), ("red", None)]


def test_a_change_of_lib_changes_what_a_python_manifest_declares(bench: Bench) -> None:
    """No conclusion about the manifest before is used."""
    bench.write("lib/colours.py", "def first():\n    return 'red'\n")
    bench.write("lib/deep/inner.py", "SIZE = 1\n")
    manifest, state = bench.write("site.py", SITE), ("--state", f"sqlite:{bench.home}/state.db")
    for _ in range(2):
        assert bench.run("apply", manifest, *state).code == 0
    bench.write("lib/deep/inner.py", "SIZE = 3\n")
    assert "size: 1 → 3" in bench.run("plan", manifest, *state).out


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from lib import colurs", "site.py:1:1: no module 'lib.colurs'; expected {home}/lib/colurs.py; did you mean"),
        (
            "from lib.colours import frist",
            "site.py:1:1: {home}/lib/colours.py defines no 'frist'; did you mean 'first'?",
        ),
        ("from lib import broken", "site.py:1:1: {home}/lib/broken.py:2: ZeroDivisionError: division by zero"),
        ("import os\nfrom lib import noisy", "site.py:2:1: {home}/lib/noisy.py: prints while it is loaded"),
    ],
)
def test_a_mistake_in_lib_has_the_line_of_the_import(bench: Bench, source: str, expected: str) -> None:
    """The manifest is refused with the place of the import, and that in ``lib/``."""
    bench.write("lib/colours.py", "def first():\n    return 'red'\n")
    bench.write("lib/broken.py", "X = 1\n1 / 0\n")
    bench.write("lib/noisy.py", "print('hello')\n")
    refused = bench.run("validate", bench.write("site.py", source + "\n"))
    assert (refused.code, expected.format(home=bench.home) in refused.err) == (65, True), refused.err
