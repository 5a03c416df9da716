"""The laws of the source tree that no linter checks; the files are parsed, not imported."""

from __future__ import annotations

import ast
import re
import sys
from configparser import ConfigParser
from functools import cache
from graphlib import CycleError, TopologicalSorter
from io import StringIO
from pathlib import Path
from tokenize import COMMENT, generate_tokens
from typing import TYPE_CHECKING, Final

import pytest

import resource_api

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
CODE: Final = ("resource_api", "types", "providers", "lib")
FUNCTION_LINES: Final = 60

#: What the model may import beside each other: none of them reads a clock, random numbers, files or the environment.
PURE: Final = frozenset(
    """
    __future__ _blake2 abc base64 binascii bisect collections contextlib copy dataclasses decimal difflib enum errno
    functools graphlib hashlib heapq hmac html importlib itertools json jsonschema marshal math operator re string
    struct textwrap types typing unicodedata urllib.parse
    """.split()  # noqa: SIM905 - thirty words read better than thirty lines
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def files(*directories: str) -> list[Path]:
    """Return the Python files beneath the project's ``directories``."""
    return sorted(path for name in directories for path in (ROOT / name).rglob("*.py"))


def relative(path: Path) -> str:
    """Return ``path`` relative to the project's root."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """Return the parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Yield every function beneath ``node`` with its qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield prefix + child.name, child
        name = f"{prefix}{child.name}." if isinstance(child, (*Function.__args__, ast.ClassDef)) else prefix
        yield from functions(child, name)


#: The libraries of providers, which the package needs anyhow or extras of ``setup.cfg`` install.
OPTIONAL: Final = frozenset(
    {
        "cryptography",
        "jinja2",
        "packaging",
        "psycopg",
        "pymysql",
        "ruamel",
        "tomlkit",
        "yaml",
    }
)


def imported(path: Path) -> set[str]:
    """Return the dotted names that a file imports, anywhere in it: ``a.b`` for ``from a import b``."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names.update(f"{module}.{alias.name}" for alias in node.names)
    return names


def exported(path: str) -> set[str]:
    """Return the names in a module's ``__all__``."""
    for node in tree(ROOT / path).body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets):
            return set(ast.literal_eval(node.value))
    return set()


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments of a file with their lines."""
    for token in generate_tokens(StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == COMMENT:
            yield token.start[0], token.string


def test_the_source_files_are_found() -> None:
    """The laws below check at least one known module, so they cannot pass without any file."""
    assert ROOT / "resource_api" / "model" / "values" / "errors.py" in files(*CODE)


def test_no_function_is_longer_than_60_lines() -> None:
    """Lines are counted from ``def`` to the last one."""
    sizes = {
        f"{relative(path)}:{name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in files(*CODE)
        for name, node in functions(tree(path))
    }
    assert {key: size for key, size in sizes.items() if size > FUNCTION_LINES} == {}


def test_every_module_has_a_docstring() -> None:
    """It is the first statement, before any import."""
    assert [relative(path) for path in files(*CODE) if not ast.get_docstring(tree(path))] == []


def test_the_architecture_page_lists_every_module() -> None:
    """``docs/internals/architecture.md`` has exactly the modules, each with the first line of its docstring."""
    real: set[tuple[str, str, str]] = set()
    for path in files("resource_api"):
        package, purpose = relative(path.parent).replace("/", "."), (ast.get_docstring(tree(path)) or "").split("\n")[0]
        if path.stem != "__init__" or package == "resource_api":
            real.add((package, path.stem, purpose.replace("``", "`")))
    mapped: set[tuple[str, str, str]] = set()
    package = ""
    for line in (ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"### `(resource_api[.\w]*)`", line):
            package = heading[1]
        elif package and (row := re.fullmatch(r"\| \[`(\w+)`\]\(.+\) \| (.+) \|", line)):
            mapped.add((package, row[1], row[2]))
    assert mapped == real


def test_types_and_providers_are_no_packages() -> None:
    """An ``__init__.py`` in ``types/`` would hide the standard library's ``types`` from all of Python."""
    assert [relative(path) for path in files(*CODE[1:]) if path.name == "__init__.py"] == []


def test_every_type_has_a_provider_and_every_provider_a_type() -> None:
    """The loader pairs them by file name."""
    of_types = {path.stem if path.parent.name == "providers" else path.parent.name for path in files("providers")}
    assert {path.stem for path in files("types")} == of_types


def at_top(path: Path) -> set[str]:
    """Return what a module imports when it is executed: each module, and each name of one as a module."""
    names = set()
    for node in tree(path).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names | {name.partition(".")[0] for name in names}


def test_types_and_providers_import_only_the_api_and_the_standard_library() -> None:
    """They are found by path: another import would fail once installed, or on a machine without that package.

    What an extra installs is imported in the function that uses it, or by a module of ``lib/`` that is.
    """
    allowed = sys.stdlib_module_names | {"resource_api", "lib"}
    needs_extra = {path for path in files("lib") if not OPTIONAL.isdisjoint(at_top(path))}
    rest = [path for path in files(*CODE[1:]) if path not in needs_extra]
    late = {f"lib.{path.stem}" for path in needs_extra}
    assert [relative(path) for path in rest if not (late | OPTIONAL).isdisjoint(at_top(path))] == []
    allowed |= OPTIONAL
    siblings = {f"{path.parent.name}.{path.stem}" for path in files("types", "providers")}
    wrong = [
        f"{relative(path)}: {name}"
        for path in files(*CODE[1:])
        for name in sorted(imported(path))
        if name.partition(".")[0] not in allowed
        or name.startswith((".", "resource_api.types", "resource_api.providers", "resource_api.lib"))
        or ".".join(name.split(".")[:2]) in siblings
    ]
    assert wrong == []


def test_types_and_providers_import_public_names_only() -> None:
    """Authors copy them: a name in no ``__all__`` of ``resource_api``, its ``files`` or ``http`` may change.

    The functions of ``std`` belong to the language: they read paths, YAML and JSON as manifests are read. The helper of
    Ansible stays for many calls, which no ``Command`` does, and is ended as every other program.
    """
    public = {f"resource_api.{name}" for name in (*resource_api.__all__, "files", "http")}
    public |= {f"resource_api.files.{name}" for name in exported("resource_api/files.py")}
    public |= {f"resource_api.http.{name}" for name in exported("resource_api/http/__init__.py")}
    wrong = [
        f"{relative(path)}: {name}"
        for path in files(*CODE[1:])
        for name in sorted(imported(path))
        if name.startswith("resource_api")
        and name not in public
        and relative(path) not in {"providers/std.py", "lib/ansible_process.py"}
    ]
    assert wrong == []


def test_the_public_file_tools_are_reexports_of_the_system_package() -> None:
    """``resource_api.files`` defines nothing: each of its names is imported from ``resource_api.system``."""
    module = ROOT / "resource_api" / "files.py"
    result = {name.rpartition(".")[2] for name in imported(module) if name.startswith("resource_api.system.")}
    assert result == exported("resource_api/files.py")
    assert list(functions(tree(module))) == []


def test_the_model_imports_only_what_is_pure() -> None:
    """Its modules import each other and a short list of modules without side effects."""
    impure = {
        f"{relative(path)}: {name}"
        for path in files("resource_api/model")
        for name in imported(path)
        if not name.startswith("resource_api.model.") and not any(f"{name}.".startswith(f"{pure}.") for pure in PURE)
    }
    assert impure == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Nor for types only, nor inside functions; fronts of packages do not count, they only pass names on."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files("resource_api")}
    modules = {name: path for name, path in modules.items() if path.name != "__init__.py"}
    names = {module: imported(path) for module, path in modules.items()}
    imports = {
        module: (imported_names | {name.rpartition(".")[0] for name in imported_names}) & modules.keys() - {module}
        for module, imported_names in names.items()
    }
    assert any(imports.values())
    try:
        tuple(TopologicalSorter(imports).static_order())
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_every_late_module_exists() -> None:
    """A package that names one under a former name would load it with every import of it."""
    packages = [path for path in files("resource_api") if path.name == "__init__.py"]
    late = {
        path.parent / argument.value
        for path in packages
        for call in ast.walk(tree(path))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "late_modules"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }
    assert late
    assert [relative(path) for path in late if not (path.is_dir() or path.with_suffix(".py").exists())] == []


def test_every_package_is_listed_for_installation() -> None:
    """A directory that ``setup.cfg`` forgets works in a checkout and is missing from the wheel."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = set(config["options"]["packages"].split())
    real = {relative(path.parent).replace("/", ".") for path in files("resource_api") if path.name == "__init__.py"}
    beside = {f"resource_api.{relative(path.parent).replace('/', '.')}" for path in files(*CODE[1:])}
    assert real | beside | {"resource_api"} == listed


def test_no_comment_marks_unfinished_work() -> None:
    """The usual markers occur nowhere in code, tests and examples."""
    marker = re.compile(r"\b(T[O]DO|FI[X]ME|XX[X])\b")
    remaining = [
        f"{relative(path)}:{number}"
        for path in files(*CODE, "tests", "examples")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marker.search(line)
    ]
    assert remaining == []


def test_every_silenced_check_names_its_code() -> None:
    """A bare ``noqa`` or ``type: ignore`` would also hide later mistakes."""
    bare = re.compile(r"#\s*(type:\s*ignore(?!\[\w)|(ruff:\s*|flake8:\s*)?noqa(?!:\s*[A-Z]+\d))", re.IGNORECASE)
    result = [
        f"{relative(path)}:{line}: {text}"
        for path in files(*CODE, "tests", "examples")
        if bare.search(path.read_text(encoding="utf-8"))  # to find comments takes a hundred times longer
        for line, text in comments(path)
        if bare.search(text)
    ]
    assert result == []


def test_the_quick_tests_start_no_database_server() -> None:
    """``make quick`` needs only Python."""
    users = [path for path in files("tests/unit", "tests/lifecycle") if path.name.startswith("test_")]
    texts = {relative(path): path.read_text(encoding="utf-8") for path in users}
    servers = {name: text for name, text in texts.items() if "tests.postgresql_server" in text}
    assert servers
    assert [name for name, text in servers.items() if "pytestmark = pytest.mark.process" not in text] == []
