"""A private directory with a good type, a bad one, a manifest of both, and the command run there as users run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests import command

ROOT: Final = Path(__file__).resolve().parent.parent.parent
MODULES: Final = Path(__file__).resolve().parent / "modules"

TYPE: Final = '''
"""Things of a kind."""
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name={name!r},
    docs="Things of a kind.",
    attributes={{
        "name": Attribute("String", "What it is called.", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "Whether it is there.", default="present"),
        "size": Attribute("Optional[Integer[0, 100]]", "How large it is."),
        "colour": Attribute("Optional[String]", "How it looks."),
        "ratio": Attribute("Optional[Float]", "How wide it is."),
        "parts": Attribute("Optional[Array[String]]", "What it is made of."),
        "tree": Attribute("Optional[Data]", "Anything else."),
        "secret": Attribute("Optional[Sensitive[String]]", "What is never shown.", write_only=True),
        "token": Attribute("Optional[Sensitive[String]]", "What only get returns."),
        "echo": Attribute("Optional[Data]", "What it reports about itself.", kind="read_only"),
    }},
    features={features!r},
)
'''


class Done(NamedTuple):
    """The exit code and the output of the command."""

    code: int
    out: bytes
    err: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every line of stdout as a JSON object."""
        return [json.loads(line) for line in self.out.decode().splitlines()]

    @property
    def steps(self) -> dict[str, dict[str, Any]]:
        """The reported step of each changed resource, by reference."""
        return {event["reference"]: event for event in self.events if event["type"] == "step_end"}

    @property
    def text(self) -> str:
        """The text on stderr."""
        return self.err.decode()


class Box:
    """A directory with ``types/``, ``providers/``, a manifest and the files of the providers."""

    modules = MODULES

    def __init__(self, path: Path) -> None:
        """Write the good type; of the bad type ``b`` exists with a smaller size, and ``d`` as declared."""
        self.path = path
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "STORE": str(path),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{MODULES / 'lib'}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "RESOURCE_API_STATE": f"sqlite:{path / 'state' / 'state.db'}",
        }
        self.type("good")
        self.provider("good", 'from json_store import JsonStore\n\nclass Provider(JsonStore):\n    kind = "good"\n')
        self.store("bad", {"b": {"size": 1}, "d": {"size": 4}})
        self.manifest()

    def type(self, name: str, *features: str) -> None:
        """Write a type with the common attributes."""
        self.write(f"types/{name}.py", TYPE.format(name=name, features=set(features)))

    def bad(self, case: str, *features: str) -> None:
        """Make the provider in ``modules/bad`` that of the bad type; invalid Python has the suffix ``.txt``."""
        self.type("bad", *features)
        (file,) = (MODULES / "bad").glob(f"{case}.*")
        self.provider("bad", file.read_text(encoding="utf-8"))

    def provider(self, name: str, text: str) -> None:
        """Write a provider's file."""
        self.write(f"providers/{name}.py", text)

    def manifest(self, resources: dict[str, Any] | None = None, **more: Any) -> None:
        """Write ``site.json``; by default good resources around four bad ones, one of which a good one requires."""
        resources = resources or {
            "Good[before]": {"size": 1},
            "Bad[a]": {"size": 1, "parts": ["x", "y"]},
            "Bad[b]": {"size": 2},
            "Bad[c]": {"size": 3},
            "Bad[d]": {"size": 4},
            "Good[after]": {"size": 2},
            "Good[dependent]": {"size": 3, "require": "Bad[a]"},
        }
        self.write("site.json", json.dumps({"resources": resources, **more}))

    def write(self, name: str, text: str) -> Path:
        """Write a file in the box."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def store(self, kind: str, objects: dict[str, Any]) -> None:
        """Make resources exist before a run."""
        self.write(f"{kind}.json", json.dumps(objects))

    def stored(self, kind: str) -> dict[str, Any]:
        """Return the existing resources."""
        path = self.path / f"{kind}.json"
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return document

    def calls(self, kind: str, method: str) -> list[list[str]]:
        """Return the names in every call of a provider's method so far."""
        path = self.path / f"{kind}.calls"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [names for called, names in map(json.loads, lines) if called == method]

    @property
    def command(self) -> list[str]:
        """The command line of the program under test."""
        return [sys.executable, "-P", "-m", "resource_api"]

    def run(self, *arguments: str, **options: Any) -> Done:
        """Run the command in the box; ``options`` are those of ``subprocess.run``."""
        process = command.run(arguments, cwd=self.path, env=self.env, **options)
        return Done(process.returncode, process.stdout or b"", process.stderr or b"")

    def run_shell(self, line: str) -> Done:
        """Run a line of bash in the box, in which ``"$@"`` is the command."""
        process = subprocess.run(
            ["bash", "-c", line, "bash", *self.command],
            cwd=self.path,
            env=self.env,
            check=False,
            timeout=50,
            capture_output=True,
        )
        return Done(process.returncode, process.stdout, process.stderr)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start the command in the box, to send it signals."""
        declared: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([*self.command, *arguments], cwd=self.path, env=self.env, **{**declared, **options})


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Compile the code once; without bytecode every run of the command takes twice as long."""
    command.compile_code(MODULES / "lib")


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """Return a new box for each test."""
    assert shutil.which("sleep")
    return Box(tmp_path)
