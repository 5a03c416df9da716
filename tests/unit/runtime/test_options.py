"""The keyword options of a runtime: a mistake is found by a type checker, and at the latest by the call."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from resource_api import Registry, Runtime
from resource_api.model import options as options_module
from resource_api.model.options import INTERNAL, RUN_OPTIONS, Options, run_option_names, to_options
from resource_api.model.values.errors import UsageError

ROOT: Final = Path(__file__).resolve().parents[3]
PROGRAM: Final = """\
from pathlib import Path

from resource_api import ComponentApi, DeclaredResource, Log, ManifestApi, PendingValue, Registry, Runtime

runtime = Runtime(Registry.from_path(), log=Log("warning"))
plan = runtime.plan("site.yaml", targets=["File[/etc/motd]"], prune=True)
runtime.apply("site.yaml", {"domain": "example.org"}, noop=True, strict="warning", tags={"web"}, use_cache=True)
runtime.apply(plan, parallel=4, on_plan=lambda plan: print(plan))
runtime.plan(Path("site.yaml"), out=Path("later.json"))
runtime.apply(Path("later.json"), fail_fast=True)
runtime.destroy("site.yaml", excludes=("File[/etc/motd]",)).to_dict()
runtime.change({"resources": {}}, fail_fast=True)


def manifest(m: ManifestApi) -> None:
    top: DeclaredResource = m.file(f"/tmp/{m.inputs.name}", ensure="directory", noop=m.facts.kernel != "Linux")
    page = m.resource("file", "/tmp/page", {"content": "hi"}, require=[top])
    checksum: PendingValue = page.checksum
    address = m.invoke("free_address", {"network": "10.0.0.0/24"}, provider="lab")
    m.output("text", m.text("{0} {1}", checksum, address["ip"]))


def build(m: ComponentApi) -> None:
    m.file("page", path=m.inputs.path, content=m.asset(text=m.title))
    m.output("path", m.text("{0}", m.inputs.path))
"""
#: A wrong line → what mypy and pyright report about it.
WRONG: Final = {
    "from resource_api import Bogus": (
        'Module "resource_api" has no attribute "Bogus"',
        '"Bogus" is unknown import symbol',
    ),
    'runtime.plan("site.yaml", target=["File[a]"])': (
        'Unexpected keyword argument "target" for "plan"',
        'No parameter named "target"',
    ),
    'runtime.plan_destroy("site.yaml", prune=True)': (
        'Unexpected keyword argument "prune" for "plan_destroy"',
        'No parameter named "prune"',
    ),
    'runtime.destroy("site.yaml", no_op=True)': (
        'Unexpected keyword argument "no_op" for "destroy"',
        'No parameter named "no_op"',
    ),
    'runtime.change({}, targets=["File[a]"])': (
        'Unexpected keyword argument "targets" for "change"',
        'No parameter named "targets"',
    ),
    'runtime.apply("site.yaml", nop=True)': (
        'No overload variant of "apply" of "Runtime" matches',
        'No overloads for "apply" match the provided arguments',
    ),
    "runtime.apply(plan, replace=[])": (
        'No overload variant of "apply" of "Runtime" matches',
        'Argument of type "Plan" cannot be assigned to parameter "source"',
    ),
    'runtime.plan("site.yaml", strict="loud")': (
        'Argument "strict" to "plan" of "Runtime" has incompatible type',
        'cannot be assigned to parameter "strict"',
    ),
    'runtime.plan("site.yaml", targets="File[a]")': (
        'Argument "targets" to "plan" of "Runtime" has incompatible type',
        'cannot be assigned to parameter "targets"',
    ),
    "ManifestApi.outputs": (
        '"type[ManifestApi]" has no attribute "outputs"',
        'Cannot access attribute "outputs" for class "type[ManifestApi]"',
    ),
    "Runtime(Registry(), brief=True)": (
        'Unexpected keyword argument "brief" for "Runtime"',
        'No parameter named "brief"',
    ),
    'Runtime(Registry(), log=Log("warn"))': (
        "incompatible type \"Literal['warn']\"",
        'cannot be assigned to parameter "level" of type "Level"',
    ),
}
#: Each type checker in its strict mode.
CHECKERS: Final = [
    ("mypy", "--strict", "--no-error-summary", "--hide-error-context"),
    ("pyright", "--pythonpath", sys.executable),
]


@pytest.mark.process
@pytest.mark.parametrize("checker", CHECKERS, ids=lambda checker: checker[0])
def test_a_misspelt_option_or_import_is_found_by_a_type_checker(checker: tuple[str, ...], tmp_path: Path) -> None:
    """So is one that the method does not have, or of another type; the documented ones are accepted."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "\n".join(WRONG) + "\n", encoding="utf-8")
    config = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "reportUnusedImport": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-m", *checker, program.name],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    errors: dict[int, str] = {}
    for line in process.stdout.splitlines():
        if match := re.search(r"program\.py:(\d+)(?::\d+)?(?: -|:) error: ", line):
            number = int(match[1])
            errors[number] = errors.get(number, "") + line
    first = PROGRAM.count("\n") + 1
    assert sorted(errors) == list(range(first, first + len(WRONG))), process.stdout
    for number, messages in enumerate(WRONG.values(), first):
        assert messages[CHECKERS.index(checker)] in errors[number]


def test_a_misspelt_option_is_an_error_at_run_time(tmp_path: Path) -> None:
    """Nothing is read before; so is one that the method itself decides."""
    with pytest.raises(TypeError, match=r"^there is no option 'no_op' here; did you mean 'noop'\?$"):
        Runtime(Registry()).plan(tmp_path / "missing.yaml", no_op=True)  # type: ignore[call-arg] # the mistake under test
    with pytest.raises(TypeError, match=r"^there is no option 'prune' here$"):
        Runtime(Registry()).destroy(tmp_path / "missing.yaml", prune=True)  # type: ignore[call-arg] # the mistake under test


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"strict": "err"}, "strict must be one of error, warning, off, not 'err'"),
        ({"strict": "Error"}, "strict must be one of error, warning, off, not 'Error'; did you mean 'error'?"),
        ({"strict": None}, "strict must be one of error, warning, off, not None"),
        ({"parallel": "4"}, "parallel must be a whole number from 1, not '4'"),
        ({"parallel": 0}, "parallel must be a whole number from 1, not 0"),
        ({"parallel": True}, "parallel must be a whole number from 1, not True"),
        ({"targets": "W[a]"}, "targets must be a list of text, not 'W[a]'"),
        ({"tags": 3}, "tags must be a list of text, not 3"),
        ({"replace": [1]}, "replace must be a list of text, not [1]"),
        ({"prune": "no"}, "prune must be True or False, not 'no'"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_the_choices(option: dict[str, Any], message: str) -> None:
    """It is an error of the library's own; above all, a misspelt ``strict`` turns no check off."""
    runtime = Runtime(Registry())
    for call in (runtime.plan, runtime.apply):
        with pytest.raises(UsageError) as caught:
            call({"project": "p", "resources": {}}, **option)  # type: ignore[operator] # the mistake under test
        assert str(caught.value).startswith(message)


def test_a_misspelt_strict_is_refused_where_resources_are_read() -> None:
    """As it is for a run."""
    with pytest.raises(UsageError, match="one of error, warning, off"):
        Runtime(Registry.from_path()).resources("file", ["/"], strict="Warning")


def test_every_declared_option_exists() -> None:
    """The table has the fields of ``Options`` that callers set, the typed dictionaries those of their phases."""
    assert set(RUN_OPTIONS) == set(Options._fields) - set(INTERNAL)
    tree = ast.parse(Path(options_module.__file__).read_text(encoding="utf-8"))
    keys = {
        node.name: {field.target.id for field in node.body if isinstance(field, ast.AnnAssign)}
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith(("TypedDict", "Options")) for base in node.bases)
    }
    assert keys == {
        "ExecutionOptions": set(run_option_names("execution", "strictness")),
        "SelectionOptions": set(run_option_names("selection")),
        "PlanOptions": set(run_option_names("changes")),
    }


def test_lists_become_values_that_do_not_change() -> None:
    """What the caller does with a list afterwards changes no plan."""
    targets = ["File[a]"]
    options = to_options({"targets": targets, "tags": ["web"]})
    targets.append("File[b]")
    assert (options.targets, options.tags) == (("File[a]",), frozenset({"web"}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"state": 3}, "state must be sqlite:PATH, postgresql://..., memory:, None or a store, not 3"),
        ({"state": Path("state.db")}, "state must be sqlite:PATH"),
        ({"stack": None}, "stack must be a name; it is None"),
        ({"project": 3}, "project must be a name or None; it is 3"),
        ({"log": logging.getLogger("program")}, "log must be a Log or None; events go to the program's"),
        ({"lock_timeout": "60"}, "lock_timeout must be a number of seconds; it is '60'"),
    ],
)
def test_a_runtime_refuses_an_argument_of_another_kind(arguments: dict[str, Any], message: str) -> None:
    """The mistake is told where it is made, not by the first run that needs the argument."""
    with pytest.raises(UsageError, match=re.escape(message)):
        Runtime(Registry(), **arguments)
