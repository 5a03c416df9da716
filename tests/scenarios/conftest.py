"""A bench for scenarios: the command as users run it, with types that keep their resources in JSON files.

Every run is a separate process with a clean environment, private directories and no recorded state. The tests call
nothing of the package, only the command.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, NamedTuple

import pytest

import resource_api
from tests import command, json_schemas

MODULES: Final = Path(__file__).parent / "modules"

#: The modules whose scenarios are run twice.
ISOLATED: Final = {"test_composite", "test_get", "test_insync", "test_logging", "test_noop", "test_set_failure"}
#: Scenarios in these modules that inspect the process of the provider or its standard streams.
IN_PROCESS: Final = {
    "test_the_provider_is_instantiated_once_and_lazily",
    "test_what_a_provider_prints_goes_to_stderr",
    "test_it_receives_the_name_and_both_states",
    "test_a_signal_ends_the_running_call_and_skips_the_rest",
}

#: Where the resource of an error is declared.
_PLACE: Final = re.compile(r" \((?:[^ ()]*/)?\w+\.(?:yaml|json|py):\d+(?:, [^()]*)?\)$")
_PREAMBLE: Final = "from resource_api import *\nimport json, os, sys\nfrom pathlib import Path\n"


class Outcome(NamedTuple):
    """The exit code and the output of one run of the command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines on stderr, without the source lines under problems and the places at the ends of errors."""
        output = [line for line in self.err.splitlines() if not re.match(r" *\d* \| ", line)]
        return [_PLACE.sub("", line) for line in output]

    @property
    def document(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the objects of a JSON stream on stdout, of one type or all."""
        documents = [json.loads(line) for line in self.out.splitlines()]
        return [item for item in documents if kind in (None, item["type"])]

    def ends(self) -> dict[str, dict[str, Any]]:
        """Return the ``step_end`` objects of a JSON stream by reference, without the places at the ends of errors."""
        ends = self.events("step_end")
        return {end["reference"]: {**end, "error": end["error"] and _PLACE.sub("", end["error"])} for end in ends}


class Bench:
    """Runs the command, and reads the resources and calls of the fixture types."""

    #: The first attributes of most types that a test writes, as Python source.
    NAMED: Final = """
    "name": Attribute("String", "n", kind="namevar"),
    "ensure": Attribute("Enum[present, absent]", "e", default="present"),
    """

    def __init__(self, home: Path) -> None:
        """Keep everything below ``home``."""
        self.home = home
        self.modules = home / "modules"
        self.things_of = home / "things"
        for directory in (self.modules / "types", self.modules / "providers", self.things_of):
            directory.mkdir(parents=True)
        self.environment = command.environment_of(
            home,
            PYTHONPATH=str(Path(resource_api.__file__).parent.parent),
            PYTHONDONTWRITEBYTECODE="1",
            RESOURCE_API_STATE="memory:",
            RESOURCE_API_MODULE_PATH=f"{self.modules}:{MODULES}",
            BENCH=str(self.things_of),
        )

    def run(self, *arguments: str | Path, **environment: str) -> Outcome:
        """Run ``resource-api`` with ``arguments`` in the bench's directory."""
        options = [str(argument) for argument in arguments]
        process = command.run(options, cwd=self.home, env=self.environment | environment, text=True)
        # With -d each line of a provider's traceback is a line of the log.
        assert not any(line.startswith("Traceback") for line in process.stderr.splitlines()), process.stderr
        json_schemas.check(options, process.stdout, process.returncode)
        return Outcome(process.returncode, process.stdout, process.stderr)

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of bash in the bench's directory, in which ``"$@"`` is ``resource-api``."""
        arguments = ["/bin/bash", "-c", line, "bash", sys.executable, "-P", "-m", "resource_api"]
        return subprocess.run(
            arguments, cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )

    def write(self, name: str, text: str) -> Path:
        """Write a file of the bench, with its indentation removed."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def apply(self, manifest: str, *options: str) -> Outcome:
        """Apply a manifest given as text."""
        return self.run("apply", self.write("site.yaml", manifest), *options)

    def stream(self, manifest: str, *options: str) -> Outcome:
        """Apply a manifest given as text, with ``--json``."""
        return self.apply(manifest, "--json", *options)

    def plan(self, manifest: str, *options: str) -> Outcome:
        """Plan a manifest given as text."""
        return self.run("plan", self.write("site.yaml", manifest), *options)

    def validate(self, manifest: str, *options: str) -> Outcome:
        """Validate a manifest given as text."""
        return self.run("validate", self.write("site.yaml", manifest), *options)

    def type(
        self, name: str, attributes: str, *, provider: str = "", base: str = "SimpleProvider", **more: Any
    ) -> None:
        """Write a type whose attributes are given as Python source, and its provider as the body of a class."""
        keywords = "".join(f", {key}={value!r}" for key, value in more.items())
        declared = f"name={name!r}, docs='A {name}.', attributes={{{attributes}}}{keywords}"
        self.write(f"modules/types/{name}.py", f"{_PREAMBLE}TYPE = TypeDefinition({declared})\n")
        if provider:
            body = "\n".join(f"    {line}" for line in dedent(provider).strip("\n").splitlines())
            self.write(f"modules/providers/{name}.py", f"{_PREAMBLE}\nclass Provider({base}):\n{body}\n")

    def probe(self, provider: str, *, features: tuple[str, ...] = (), base: str = "BaseProvider", **more: Any) -> None:
        """Write the type ``probe`` (name, ensure, size, colour) with a provider given as the body of its class.

        ``self._done(changes)`` stores the changes of ``set``, unless the body defines it differently.
        """
        keep = """
        def _file(self):
            return Path(os.environ["BENCH"], "probe.json")
        def _rows(self):
            return json.loads(self._file().read_text()) if self._file().exists() else {}
        def _put(self, name, row):
            self._file().write_text(json.dumps(self._rows() | {name: row}))
        def _done(self, changes):
            for name, (is_, should) in changes.items():
                self._put(name, {**(is_ or {}), **should})
        """
        reads = "    def get(self, context, names=None):\n        return list(self._rows().values())\n"
        body = dedent(keep) + ("" if "def get" in provider else dedent(reads)) + dedent(provider)
        self.type(
            "probe",
            self.NAMED
            + """
            "size": Attribute("Optional[Integer]", "s"), "colour": Attribute("Optional[String]", "c"),
            """,
            provider=body,
            base=base,
            features=list(features),
            **more,
        )

    def things(self, type_name: str) -> dict[str, dict[str, Any]]:
        """Return the resources of a fixture type, by name."""
        path = self.things_of / f"{type_name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def put(self, type_name: str, **objects: dict[str, Any]) -> None:
        """Make resources of a fixture type exist."""
        (self.things_of / f"{type_name}.json").write_text(
            json.dumps(self.things(type_name) | objects), encoding="utf-8"
        )

    def calls(self, type_name: str, method: str | None = None) -> list[Any]:
        """Return the calls of a fixture type's provider: (method, argument) in order, or one method's arguments."""
        path = self.things_of / f"{type_name}.calls"
        if not path.exists():
            return []
        documents = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [subject for name, subject in documents if name == method] if method else documents


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Compile the code once; without bytecode every run of the command takes twice as long."""
    command.compile_code(MODULES)


@pytest.fixture
def isolate() -> str:
    """Return the isolation of providers; empty: as the command decides."""
    return ""


@pytest.fixture
def bench(tmp_path: Path, isolate: str) -> Bench:
    """Return a new bench."""
    created = Bench(tmp_path)
    created.environment["RESOURCE_API_ISOLATE"] = isolate
    return created


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the scenarios of ``ISOLATED`` in workers too, with the same expected report."""
    module, name = str(metafunc.module.__name__).rpartition(".")[2], metafunc.function.__name__
    if "isolate" in metafunc.fixturenames and module in ISOLATED and name not in IN_PROCESS:
        metafunc.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the keys of alice and mallory, and a list of signers that names alice alone."""
    home = tmp_path_factory.mktemp("keys")
    for name in ("alice", "mallory"):
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(home / name)]
        subprocess.run(keygen, check=True)
    kind, key, _ = (home / "alice.pub").read_text().split()
    (home / "signers").write_text(f"alice@example.org {kind} {key}\n")
    return home
