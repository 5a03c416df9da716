"""Writes a new type or component that works from the first moment; a type with a test by the laws of providers.

What is written is an example to be changed, in the project's own style; nothing that exists is ever overwritten.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from resource_api.model.values.errors import UsageError
from resource_api.model.values.reference import TYPE_NAME, capitalize_type
from resource_api.plugins.module_path import BUNDLED

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST: Final = 64

#: In these texts ``sample`` stands for the type's name, in the spelling of the place.
_TYPE: Final = r'''
"""Sample resources, each kept as a file."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="sample",
    docs="""Keep sample resources as files.

    Sample[example]:
      content: Hello!
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "name": Attribute(r"Pattern[/\A[\w-]{1,200}\z/]", "Its name, and that of its file.", kind="namevar"),
        "content": Attribute("String", "What it holds."),
        "priority": Attribute("Optional[Integer[0, 9]]", "How much it matters; left alone unless declared."),
        "length": Attribute("Optional[Integer]", "How many characters it holds.", kind="read_only"),
    },
    features={"simple_get_filter"},
)
'''
_PROVIDER: Final = r'''
"""Keeps sample resources as JSON files in one directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resource_api import ResourceError, SimpleProvider

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Context, Resource

#: The environment variable that says where the files are, and where they are without it.
VARIABLE = "SAMPLE_DIRECTORY"
DIRECTORY = "/var/lib/sample"


class Provider(SimpleProvider):
    """Reads, writes and removes one file for each resource."""

    def __init__(self) -> None:
        """Touch nothing yet."""
        self._directory = Path(os.environ.get(VARIABLE, DIRECTORY))

    def get(self, _context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Give the resources of these names that exist, or all; what cannot be read is an error, never absence."""
        for name in self._names() if names is None else names:
            kept = self._read(name)
            if kept is not None:
                yield {"name": name, "ensure": "present", **kept, "length": len(kept["content"])}

    def create(self, _context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Make the directory when it is missing, and the file."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._write(name, should)

    def update(self, _context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Set what is declared, and leave the rest as it is."""
        self._write(name, {**(self._read(name) or {}), **should})

    def delete(self, _context: Context, name: str) -> None:
        """Remove the file."""
        self._file(name).unlink()

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.json"

    def _names(self) -> Iterable[str]:
        if not self._directory.exists():
            return []
        return sorted(file.stem for file in self._directory.iterdir() if file.suffix == ".json")

    def _read(self, name: str) -> dict[str, Any] | None:
        file = self._file(name)
        try:
            kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            msg = f"{file} holds no JSON: {error}"
            raise ResourceError(msg) from error
        return kept

    def _write(self, name: str, values: Mapping[str, Any]) -> None:
        """Write beside the file and rename, so that nobody ever reads half of it."""
        kept = {attribute: values[attribute] for attribute in ("content", "priority") if attribute in values}
        beside = self._file(name).with_suffix(".new")
        beside.write_text(json.dumps(kept), encoding="utf-8")
        beside.replace(self._file(name))
'''
_TEST: Final = r'''
"""The laws of every provider, tried with this one in a directory of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from resource_api.testing import ProviderCompliance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api import Resource


class TestSample(ProviderCompliance):
    """Its resources can be created, read, changed and deleted."""

    type_name: ClassVar[str] = "sample"
    module_path: ClassVar[Sequence[Path]] = [Path(__file__).parent.parent]

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keep away from what is there."""
        monkeypatch.setenv("SAMPLE_DIRECTORY", str(tmp_path))

    @pytest.fixture
    def present(self) -> Resource:
        """Give a resource that the laws can create."""
        return {"name": "example", "content": "Hello!", "priority": 3}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        """Give what it can become."""
        return {**present, "content": "Good morning!"}
'''


_COMPONENT: Final = r'''
"""Sample components: what belongs together, declared as one."""

from __future__ import annotations

from typing import Any

from resource_api import Attribute, ComponentDefinition

COMPONENT = ComponentDefinition(
    name="sample",
    docs="""Keep a directory with a greeting in it.

    Sample[example]:
      directory: /tmp/example
""",
    inputs={
        "directory": Attribute("String[1]", "Where the greeting is."),
        "greeting": Attribute("String", "What it says.", default="Hello!"),
    },
    outputs={"path": "The file that holds the greeting."},
)


def build(m: Any) -> None:
    """Declare the resources of one use; nothing is touched here."""
    directory = m.file("directory", path=m.inputs.directory, ensure="directory")
    path = m.text("{0}/greeting", m.inputs.directory)
    m.file("greeting", path=path, content=m.text("{0}\n", m.inputs.greeting), require=directory)
    m.output("path", path)
'''


def new_component(name: str, directory: Path) -> list[Path]:
    """Write ``components/NAME.py`` into ``directory``; give the file. Raises ``UsageError`` as ``new_type`` does."""
    return _written(name, {directory / "components" / f"{name}.py": _COMPONENT})


def new_type(name: str, directory: Path) -> list[Path]:
    """Write ``types/NAME.py``, ``providers/NAME.py`` and ``tests/test_NAME.py`` into ``directory``; give the files.

    Raises ``UsageError`` for a name that no type can have, or that a bundled one has, and when one of the files
    exists or cannot be written; nothing is written then.
    """
    files = {"types": f"{name}.py", "providers": f"{name}.py", "tests": f"test_{name}.py"}
    places = [directory / kind / file for kind, file in files.items()]
    return _written(name, dict(zip(places, (_TYPE, _PROVIDER, _TEST), strict=True)))


def _written(name: str, texts: Mapping[Path, str]) -> list[Path]:
    if reason := _refusal(name):
        raise UsageError(reason)
    for path in texts:
        if path.exists() or path.is_symlink():
            msg = f"{path} exists already and is never overwritten; nothing was written"
            raise UsageError(msg)
    written: list[Path] = []
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(_named(text, name))
    except OSError as error:
        for path in written:
            with suppress(OSError):
                path.unlink()
        msg = f"{error.filename or next(iter(texts))}: cannot be written: {error.strerror}"
        raise UsageError(msg) from error
    return written


def _refusal(name: str) -> str:
    """Say why a type cannot be called ``name``, and what to do; nothing when it can."""
    if not TYPE_NAME.match(name):
        words = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_0123456789")
        hint = f"; did you mean '{words}'?" if TYPE_NAME.match(words) else ""
        return f"'{name}' cannot be the name of a type: it takes lower case letters, digits and underscores{hint}"
    if len(name) > LONGEST:
        return f"the name of a type has at most {LONGEST} characters, this one has {len(name)}"
    if Path(BUNDLED, "types", f"{name}.py").exists():
        return f"'{name}' is a type that comes with the package; choose another name"
    return ""


def _named(text: str, name: str) -> str:
    """Put the type's name into an example, as references, classes and environment variables spell it."""
    camel = "".join(word.capitalize() for word in name.split("_"))
    words = {"TestSample": f"Test{camel}", "Sample": capitalize_type(name), "SAMPLE": name.upper(), "sample": name}
    return re.sub("|".join(words), lambda found: words[found[0]], text).lstrip()
