"""A type whose provider misbehaves as it is told, and jobs that use it: what the laws of carriers are shown with.

Its resources are files. Each effect is also noted in a list that nothing else writes, after the effect: a line that is
there twice is an effect that was done twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import sent_manifest
from resource_api.fleet.job import Job, with_id
from resource_api.fleet.payload import Archive, Payloads, modules, package
from resource_api.manifest.read import read_mapping
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


_TYPE: Final = '''"""Files whose provider misbehaves."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="effect",
    docs="A file.",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "path": Attribute("String", "Where it is.", kind="namevar"),
        "lines": Attribute("Integer", "So many lines of 1000 characters are logged.", kind="parameter", default=0),
        "raw": Attribute("Optional[String]", "Written to every pipe that this process has.", kind="parameter"),
        "wait": Attribute("Optional[String]", "The change ends when this file exists.", kind="parameter"),
        "die": Attribute("Boolean", "The process is killed before the change.", kind="parameter", default=False),
    },
    features={"simple_get_filter"},
)
'''

_PROVIDER: Final = '''"""Files whose provider misbehaves."""

import contextlib
import os
import signal
import stat
import time

from resource_api import BaseProvider


class Provider(BaseProvider):
    def get(self, context, names=None):
        return [{"path": name, "ensure": "present"} for name in names or () if os.path.exists(name)]

    def set(self, context, changes):
        for name, change in changes.items():
            should = change.should
            for number in range(should["lines"]):
                context.notice(name, message=f"{number} " + "x" * 1000)
            if should.get("raw"):
                for descriptor in range(3, 32):
                    with contextlib.suppress(OSError):
                        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                            os.write(descriptor, should["raw"].encode())
            if should["die"]:
                os.kill(os.getpid(), signal.SIGKILL)
            while should.get("wait") and not os.path.exists(should["wait"]):
                time.sleep(0.01)
            if should["ensure"] == "absent":
                os.unlink(name)
            else:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o600))
            with open(os.path.dirname(name) + "/.effects", "a") as file:
                file.write(f"{name} {should['ensure']}\\n")
'''


class Trial(NamedTuple):
    """A directory with what jobs need: archives, and a place for state and effects."""

    directory: str
    package: Archive
    modules: Archive

    @property
    def payloads(self) -> Payloads:
        """The archives of its jobs."""
        return Payloads(self.package, self.modules)

    def job(
        self,
        resources: Mapping[str, Mapping[str, Any]],
        *,
        host: str = "web1",
        generation: int = 1,
        command: str = "apply",
        **options: Any,
    ) -> Job:
        """Return a job for resources ``NAME`` of the type ``effect`` in a directory of the host's own."""
        place = self.place(host)
        Path(place).mkdir(exist_ok=True)
        declared = {f"Effect[{place}/{name}]": dict(body) for name, body in resources.items()}
        document = read_mapping({"project": "trial", "resources": declared}, "trial.yaml")
        job = Job(
            command,
            generation,
            payload=self.package.digest,
            modules=self.modules.digest,
            documents=[sent_manifest.to_fields(document)],
            host={"name": host, "groups": [], "address": host},
            options={"state": f"sqlite:{place}/state.db", **options},
        )
        return with_id(job)

    def place(self, host: str) -> str:
        """Return the directory of a host: its files, its state, its effects."""
        return f"{self.directory}/{host}"

    def effects(self, host: str) -> list[str]:
        """Return the effects on a host, as ``NAME present``, in their order."""
        noted = Path(self.place(host), ".effects")
        lines = noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
        return [line.removeprefix(f"{self.place(host)}/") for line in lines]


def trial(directory: Path, kept: Path) -> Trial:
    """Return a trial in an empty directory; ``kept``: where the archive of this package is kept between trials."""
    for kind, text in (("types", _TYPE), ("providers", _PROVIDER)):
        (directory / "modules" / kind).mkdir(parents=True)
        (directory / "modules" / kind / "effect.py").write_text(text)
    found = modules([str(directory / "modules")], _read)
    if found is None:
        msg = "there are no modules"
        raise ValueError(msg)
    return Trial(str(directory), package(str(kept)), found)


def _read(path: str) -> tuple[bytes, os.stat_result]:
    return Path(path).read_bytes(), Path(path).stat()
