"""The laws of ``lib/``: code that the files of one directory of the module path share, and no others."""

from __future__ import annotations

import importlib
import pickle
import sys
import threading
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Runtime
from resource_api.model.values.errors import DefinitionError, UnknownType
from resource_api.plugins.module_path import ModulePath
from resource_api.plugins.registry import Registry
from resource_api.system import process_guard
from resource_api.system.process_guard import read_only

if TYPE_CHECKING:
    from pathlib import Path

TYPE = """
from resource_api import Attribute, TypeDefinition

ATTRIBUTES = {"name": Attribute("String", "Its name.", kind="namevar")}
TYPE = TypeDefinition(name="NAME", docs="A NAME.", attributes=ATTRIBUTES)
"""
PROVIDER = """
class Provider:
    def get(self, context):
        return []

    def set(self, context, changes):
        pass
"""


class Modules:
    """One directory of a module path, written file by file."""

    def __init__(self, root: Path) -> None:
        """Begin without files."""
        self.root = root

    def write(self, path: str, text: str = "") -> Path:
        """Write a file; indentation is removed."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip("\n"))
        return file

    def type(self, name: str, code: str) -> None:
        """Write a type whose provider's module begins with ``code``."""
        self.write(f"types/{name}.py", TYPE.replace("NAME", name))
        self.write(f"providers/{name}.py", dedent(code).lstrip("\n") + PROVIDER)

    def registry(self) -> Registry:
        """Return a registry of this directory alone."""
        return Registry(ModulePath([str(self.root)], distributions=False))

    def provider(self, name: str) -> Any:
        """Return the module of a provider that is loaded by a new registry."""
        return module_of(self.registry().provider(name))

    def error(self, name: str) -> str:
        """Return the message of the ``DefinitionError`` that loading a provider raises."""
        with pytest.raises(DefinitionError) as caught:
            self.registry().provider(name)
        return str(caught.value)


def module_of(provider: type) -> Any:
    """Return the module that a class was defined in."""
    return sys.modules[provider.__module__]


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    """Return an empty directory of a module path."""
    return Modules(tmp_path / "modules")


@pytest.fixture(autouse=True)
def _nothing_leaks() -> Any:
    """Check that nothing of Python's import system has changed after each test."""
    before, path, finders = set(sys.modules), list(sys.path), list(sys.meta_path)
    yield
    added = {name for name in set(sys.modules) - before if name.split(".")[0] in {"lib", "client", "dns"}}
    assert not added
    assert sys.path == path
    assert sys.meta_path == finders


STATEMENTS = {
    "from lib import client\nvalue = client.VALUE\n": "a module of lib",
    "from lib import client as renamed\nvalue = renamed.VALUE\n": "a module by another name",
    "import lib.client\nvalue = lib.client.VALUE\n": "by its full name",
    "import lib.client as renamed\nvalue = renamed.VALUE\n": "by its full name as another",
    "import lib\nfrom lib import client\nvalue = lib.client.VALUE\n": "lib itself",
    "from lib.client import VALUE as value\n": "a name in a module",
    "from lib.client import *\nvalue = VALUE\n": "all names of a module",
    "from lib.dns import zone\nvalue = zone.VALUE\n": "a module of a package",
    "from lib.dns.zone import VALUE as value\n": "a name in a module of a package",
    "from lib import FROM_INIT as value\n": "a name in the package's own file",
    "from lib.dns import parent\nvalue = parent.VALUE\n": "relative imports within lib",
}


@pytest.mark.parametrize("statement", STATEMENTS, ids=STATEMENTS.values())
def test_every_form_of_import_finds_lib(modules: Modules, statement: str) -> None:
    """Each form of the statement has the meaning that it has for an installed package."""
    modules.write("lib/__init__.py", "FROM_INIT = 1\n")
    modules.write("lib/client.py", "VALUE = 1\n")
    modules.write("lib/dns/zone.py", "VALUE = 1\n")
    modules.write(
        "lib/dns/parent.py", "from ..client import VALUE as up\nfrom . import zone\nVALUE = up * zone.VALUE\n"
    )
    modules.type("host", statement)
    assert modules.provider("host").value == 1


def test_a_function_may_import_when_it_is_called(modules: Modules) -> None:
    """Also in a thread of the provider, and long after the file was loaded."""
    modules.write("lib/client.py", "VALUE = 1\n")
    modules.type("host", "def value():\n    from lib import client\n    return client.VALUE\n")
    module, values = modules.provider("host"), []
    assert module.value() == 1
    thread = threading.Thread(target=lambda: values.append(module.value()))
    thread.start()
    thread.join()
    assert values == [1]


def test_types_providers_components_and_policies_may_import_lib(modules: Modules) -> None:
    """Every kind of file, and modules of lib among themselves."""
    modules.write("lib/names.py", "from lib.words import WORD\nNAME = WORD\n")
    modules.write("lib/words.py", "WORD = 'host'\n")
    modules.write("types/host.py", "from lib import names\n" + TYPE.replace('"NAME"', "names.NAME"))
    modules.write("providers/host.py", "from lib import names\n" + PROVIDER)
    modules.write(
        "components/hosts.py",
        """
        from lib import names
        from resource_api import ComponentDefinition

        COMPONENT = ComponentDefinition(name=names.NAME + "s", docs="Hosts.")

        def build(m):
            pass
        """,
    )
    modules.write("policies/all.py", "from lib import names\n\ndef resource(resource):\n    return names.NAME\n")
    registry = modules.registry()
    assert registry.type("host").name == "host"
    assert registry.provider("host")
    component = registry.component("hosts")
    assert component is not None
    assert component[0].name == "hosts"
    (policy,) = registry.policies()
    assert policy.resource is not None
    assert policy.resource(None) == "host"  # type: ignore[arg-type] # not looked at


def test_a_policy_may_import_within_its_sandbox(modules: Modules) -> None:
    """Importing changes nothing there, although Python would write bytecode."""
    modules.write("lib/client.py", "VALUE = 1\n")
    modules.write("policies/all.py", "def resource(resource):\n    from lib.client import VALUE\n    return VALUE\n")
    (policy,) = modules.registry().policies()
    assert policy.resource is not None
    with read_only("a policy"):
        assert policy.resource(None) == 1  # type: ignore[arg-type] # not looked at


def test_a_module_is_executed_once_for_a_registry(modules: Modules) -> None:
    """Providers share its state and its classes."""
    modules.write("lib/client.py", "class Client:\n    pass\n")
    modules.type("host", "from lib.client import Client\n")
    modules.type("zone", "from lib import client\n")
    registry = modules.registry()
    host, zone = (module_of(registry.provider(name)) for name in ("host", "zone"))
    assert host.Client is zone.client.Client


def test_another_registry_executes_it_anew(modules: Modules) -> None:
    """As with types and providers; the modules of the first registry stay as they were."""
    modules.write("lib/client.py", "VALUE = 1\n")
    modules.type("host", "from lib import client\ndef later():\n    from lib.client import VALUE\n    return VALUE\n")
    first = modules.provider("host")
    modules.write("lib/client.py", "VALUE = 22\n")
    second = modules.provider("host")
    assert (first.client.VALUE, first.later()) == (1, 1)
    assert (second.client.VALUE, second.later()) == (22, 22)


def test_each_directory_has_its_own_lib(tmp_path: Path) -> None:
    """Two directories of one module path may each have a ``client``."""
    near, far = Modules(tmp_path / "near"), Modules(tmp_path / "near.far")
    for modules, name, value in ((near, "host", 1), (far, "zone", 2)):
        modules.write("lib/client.py", f"VALUE = {value}\n")
        modules.type(name, "from lib import client\ndef later():\n    from lib.client import VALUE\n    return VALUE\n")
    registry = Registry(ModulePath([str(near.root), str(far.root)], distributions=False))
    host, zone = (module_of(registry.provider(name)) for name in ("host", "zone"))
    assert [host.client.VALUE, zone.client.VALUE, host.later(), zone.later()] == [1, 2, 1, 2]
    assert host.client.__name__ != zone.client.__name__


def test_no_other_lib_is_meant(modules: Modules, tmp_path: Path) -> None:
    """An installed package ``lib`` is neither seen nor replaced; a module may be called like a standard one."""
    installed = Modules(tmp_path / "site")
    installed.write("lib/__init__.py", "")
    installed.write("lib/client.py", "VALUE = 'installed'\n")
    modules.write("lib/json.py", "VALUE = 'ours'\n")
    modules.type("host", "import json\nfrom lib import json as ours\nvalue = json.dumps(ours.VALUE)\n")
    modules.type("zone", "from lib import client\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(installed.root)
        for name in [name for name in sys.modules if name.partition(".")[0] == "lib"]:  # other tests import ours
            patch.delitem(sys.modules, name)
        assert modules.provider("host").value == '"ours"'
        assert "no module 'lib.client'" in modules.error("zone")
        assert importlib.import_module("lib.client").VALUE == "installed"
        assert modules.provider("host").value == '"ours"'
        for name in ("lib", "lib.client"):
            del sys.modules[name]


def test_instances_can_be_pickled_and_dataclasses_defined(modules: Modules) -> None:
    """Both look a class's module up by its name."""
    modules.write(
        "lib/client.py",
        """
        from __future__ import annotations
        from dataclasses import KW_ONLY, dataclass

        @dataclass
        class Client:
            host: str
            _: KW_ONLY
            port: int = 53
        """,
    )
    modules.type("host", "from lib.client import Client\n")
    client = modules.provider("host").Client("a")
    assert pickle.loads(pickle.dumps(client)) == client  # noqa: S301 - our own


def test_an_error_in_lib_names_its_file_and_line(modules: Modules) -> None:
    """Besides the line that imports it; after it has been corrected, another registry loads it."""
    file = modules.write("lib/client.py", "X = 1\nraise ValueError('no such server')\n")
    modules.type("host", "X = 1\nfrom lib import client\n")
    provider = modules.root / "providers/host.py"
    assert modules.error("host") == f"{provider}:2: {file}:2: ValueError: no such server"
    file.write_text("def broken(:\n")
    assert f"{file}:1: SyntaxError" in modules.error("host")
    file.write_text("print('hello')\n")
    assert f"{file}: prints while it is loaded" in modules.error("host")
    file.write_text("import sys\nsys.exit(3)\n")
    assert f"{file}:2: exits while it is loaded (code 3)" in modules.error("host")
    file.write_text("X = 1\n")
    assert modules.provider("host").client.X == 1


def test_an_error_of_an_import_in_a_function_reaches_the_caller(modules: Modules) -> None:
    """With the same message; the next call tries again, as Python does."""
    file = modules.write("lib/client.py", "raise ValueError('no such server')\n")
    modules.type("host", "def later():\n    from lib import client\n    return client.VALUE\n")
    module = modules.provider("host")
    for _ in range(2):
        with pytest.raises(DefinitionError) as caught:
            module.later()
        assert str(caught.value) == f"{file}:1: ValueError: no such server"
    file.write_text("VALUE = 1\n")
    assert module.later() == 1


def test_a_module_that_does_not_exist_is_named(modules: Modules) -> None:
    """With the file that is expected, and the nearest name."""
    modules.write("lib/dns_client.py")
    provider = modules.root / "providers/host.py"
    expected = f"{provider}:1: no module 'lib.dns_cleint'; expected {modules.root}/lib/dns_cleint.py"
    for statement in ("from lib import dns_cleint", "import lib.dns_cleint", "from lib.dns_cleint import x"):
        modules.type("host", f"{statement}\n")
        assert modules.error("host") == f"{expected}; did you mean 'dns_client'?"


def test_a_name_that_a_module_does_not_define_is_named(modules: Modules) -> None:
    """With the nearest name."""
    file = modules.write("lib/client.py", "def connect():\n    pass\n")
    modules.type("host", "from lib.client import conect\n")
    message = f"{modules.root}/providers/host.py:1: {file} defines no 'conect'; did you mean 'connect'?"
    assert modules.error("host") == message


@pytest.mark.filterwarnings("ignore:can't resolve package:ImportWarning")
@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("import client", "write 'from lib import client'"),
        ("from client import connect", "write 'from lib import client'"),
        ("from .lib import client", "a file imports modules of lib/ as 'from lib import NAME', and nothing relative"),
        ("from ..lib import client", "a file imports modules of lib/ as 'from lib import NAME', and nothing relative"),
        ("from providers import other", "types and providers cannot import each other: code that several need is in"),
        ("from types import host", "types and providers cannot import each other: code that several need is in lib/"),
        ("from resource_api import Sensitve", "did you mean 'Sensitive'?"),
        ("import clients", ""),
        ("import resource_api.client", ""),
    ],
)
def test_an_import_that_is_written_otherwise_is_explained(modules: Modules, statement: str, hint: str) -> None:
    """Files of a module path are no packages: they import ``lib`` in one way."""
    modules.write("lib/client.py", "X = 1\n")
    modules.write("providers/other.py", "")
    modules.type("host", f"{statement}\n")
    with pytest.raises(DefinitionError, match=r"host.py:1: (ModuleNotFound|Import)Error: ") as caught:
        modules.registry().provider("host")
    assert hint in str(caught.value)
    assert (";" in str(caught.value)) == bool(hint)


def test_without_a_directory_lib_the_error_says_so(modules: Modules) -> None:
    """Python's own message would suggest an installed package."""
    modules.type("host", "from lib import client\n")
    message = f"{modules.root}/providers/host.py:1: imports from 'lib', but there is no directory {modules.root}/lib"
    assert modules.error("host") == message


def test_imports_in_a_circle_are_named_as_such(modules: Modules) -> None:
    """Modules may import each other; names cannot be imported in a circle."""
    modules.write("lib/a.py", "from lib import b\nA = 1\n")
    modules.write("lib/b.py", "from lib import a\ndef value():\n    return a.A\n")
    modules.type("host", "from lib import a\nvalue = a.b.value()\n")
    assert modules.provider("host").value == 1
    modules.write("lib/b.py", "from lib.a import A\n")
    assert "lib/a.py has not defined 'A' yet: its modules import each other in a circle" in modules.error("host")


def test_two_threads_execute_a_module_once(modules: Modules) -> None:
    """The second one waits for the first."""
    modules.write("lib/client.py", "import time\ntime.sleep(0.1)\nVALUE = object()\n")
    modules.type("host", "def value():\n    from lib.client import VALUE\n    return VALUE\n")
    module, values = modules.provider("host"), []
    threads = [threading.Thread(target=lambda: values.append(module.value())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(values) == 4
    assert len(set(map(id, values))) == 1


def test_providers_in_other_threads_may_print_meanwhile(modules: Modules, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the output of the module itself is an error, and afterwards standard output is as it was."""
    modules.write("lib/client.py", "import time\ntime.sleep(0.2)\nVALUE = 1\n")
    modules.type("host", "def value():\n    from lib.client import VALUE\n    return VALUE\n")
    module, before = modules.provider("host"), sys.stdout
    with process_guard.shared():
        thread = threading.Thread(target=module.value)
        thread.start()
        while sys.stdout is before and thread.is_alive():
            pass
        print("printed meanwhile")  # noqa: T201 - as a provider would
        thread.join()
        assert sys.stdout is before
        assert module.value() == 1
    assert capsys.readouterr().out == "printed meanwhile\n"


READING = """
from resource_api import BaseProvider
from lib import client

class Provider(BaseProvider):
    def get(self, context):
        from lib.later import VALUE
        return [{"name": client.VALUE}, {"name": VALUE}]

    def set(self, context, changes):
        pass
"""


@pytest.mark.parametrize("isolate", [False, True], ids=["here", "in a worker"])
def test_a_provider_reads_with_lib(modules: Modules, isolate: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """In this process and in a worker alike, with modules imported at first or later."""
    modules.write("lib/client.py", "VALUE = 'a'\n")
    modules.write("lib/later.py", "VALUE = 'b'\n")
    modules.write("types/host.py", TYPE.replace("NAME", "host"))
    modules.write("providers/host.py", READING)
    runtime = Runtime(modules.registry(), isolate=isolate)
    assert [row["name"] for row in runtime.resources("host")] == ["a", "b"]


def test_a_broken_lib_in_a_worker_names_its_file_and_line(modules: Modules) -> None:
    """The error is that of the same provider without a worker."""
    file = modules.write("lib/client.py", "X = 1\nraise ValueError('no such server')\n")
    modules.write("types/host.py", TYPE.replace("NAME", "host"))
    modules.write("providers/host.py", READING)
    with pytest.raises(DefinitionError, match=f"{file}:2: ValueError: no such server"):
        Runtime(modules.registry(), isolate=True).resources("host")


def test_an_unknown_type_is_an_error_of_its_own_class(modules: Modules) -> None:
    """Callers need not parse its message."""
    with pytest.raises(UnknownType, match="unknown type 'Host'"):
        modules.registry().type("host")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("types/host.yaml", "is not read; it must be a Python file, types/host.py"),
        ("types/Host.py", "is not read; rename it to types/host.py"),
        ("type/host.py", "is not read; rename it to types/host.py"),
        ("components/host.yaml", "is not read; it must be a Python file, components/host.py"),
    ],
)
def test_a_file_that_was_meant_as_the_type_is_named(modules: Modules, file: str, words: str) -> None:
    """Otherwise it would be ignored in silence."""
    path = modules.write(file)
    with pytest.raises(UnknownType, match=f"unknown type 'Host'; {path} {words}"):
        modules.registry().type("host")


def test_a_distribution_that_cannot_be_imported_is_left_out(tmp_path: Path) -> None:
    """Whatever its package raises: the types of all others can be listed."""
    for name, code in (("ra_raises", "raise RuntimeError"), ("ra_exits", "raise SystemExit(3)"), ("ra_well", "")):
        (tmp_path / name / "inner" / "types").mkdir(parents=True)
        (tmp_path / name / "inner" / "types" / f"{name}.py").touch()
        (tmp_path / name / "__init__.py").write_text(code)
        points = tmp_path / f"{name}-1.dist-info"
        points.mkdir()
        (points / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (points / "entry_points.txt").write_text(f"[resource_api.modules]\n{name} = {name}.inner\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        assert [name for name in ModulePath([]).names("types") if name.startswith("ra_")] == ["ra_well"]
