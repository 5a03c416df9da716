"""SIGKILL of an agent's run at its own operations: fetching, verifying, recording, applying and reporting."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests import command
from tests.faults import tracer
from tests.faults.bench import MODULES, SEED, WHOLE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.tracer import Outcome, Point

#: A sweep of kills.
pytestmark = pytest.mark.whole

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": "/usr/bin:/bin"}


class Machine:
    """A machine on which an agent has applied one version, when the next one is there."""

    def __init__(self, home: Path, kind: str) -> None:
        """Make both versions, apply the first, and keep the machine as it is then."""
        self.home, self.place, self.kind = home, home / "place", kind
        self.place.mkdir()
        self.environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "RESOURCE_API_STATE": f"sqlite:{self.place}/state/state.db",
            "RESOURCE_API_AGENT": f"{self.place}/agent",
            "RESOURCE_API_MODULE_PATH": str(MODULES),
        }
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / "key")], check=True)
        (home / "signers").write_text(f"alice {(home / 'key.pub').read_text()}")
        (home / "site").mkdir()
        source = f"git+file://{home}/site#main" if kind == "git" else f"{home}/site.bundle"
        self.words = ["agent", "once", "--from", source, "--signers", "signers", "site.json"]
        self.publish(1)
        assert self.run().returncode == 0
        shutil.copytree(self.place, home / "base", symlinks=True)
        self.publish(2)

    def publish(self, number: int) -> None:
        """Let the source have a signed version whose thing has this text."""
        manifest = {"project": "web", "resources": {f"Thing[{self.place}/t]": {"text": f"text {number}"}}}
        (self.home / "site" / "site.json").write_text(json.dumps(manifest))
        if self.kind == "bundle":
            created = ["bundle", "make", "site", "-o", "site.bundle", "--generation", str(number)]
            for words in (created, ["bundle", "sign", "site.bundle", "--key", "key"]):
                environment = {**self.environment, "RESOURCE_API_MODULE_PATH": ""}
                assert command.run(words, cwd=self.home, env=environment).returncode == 0
            return
        settings = ("user.name=a", "user.email=a@b", "gpg.format=ssh", f"user.signingkey={self.home}/key")
        git = ["git", "-C", str(self.home / "site"), *(word for setting in settings for word in ("-c", setting))]
        for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-S", "-m", str(number)]):
            subprocess.run([*git, *words], env=GIT, check=True, capture_output=True)

    def run(self, point: Point | None = None) -> Outcome:
        """Let the agent run once, with a kill at a point."""
        watched = [str(self.place)]
        return tracer.run(self.words, cwd=self.home, env=self.environment, watched=watched, point=point)

    def reset(self) -> None:
        """Restore the machine as it was after the first version."""
        shutil.rmtree(self.place)
        shutil.copytree(self.home / "base", self.place, symlinks=True)

    @property
    def text(self) -> str:
        """What the thing of the manifest is."""
        return (self.place / "t").read_text().strip()


@pytest.mark.parametrize(("kind", "least"), [("bundle", 60), ("git", 100)])
def test_the_run_after_a_kill_converges(memory: Path, kind: str, least: int) -> None:
    """Whatever was written by then: the new version is applied, nothing of the killed run is left but its reports."""
    machine = Machine(memory, kind)
    whole = machine.run()
    assert (whole.returncode, machine.text, len(whole.points) >= least) == (0, "text 2", True), whole.stderr
    # The number of writes of git to its output, a file without a name, depends on the load of the machine.
    points = [point for point in whole.points if not point.text.endswith(" (deleted)")]
    points = points if WHOLE else random.Random(SEED).sample(points, 4)  # noqa: S311 - always the same
    for point in points:
        machine.reset()
        assert machine.run(point).returncode == -9, point
        result = machine.run()
        assert (result.returncode, machine.text) == (0, "text 2"), (point, result.stderr)
        (version,) = (machine.place / "agent" / "versions").iterdir()
        assert json.loads((version / "site.json").read_text())["project"] == "web", point
        status = command.run(["agent", "status", "--json"], cwd=machine.home, env=machine.environment)
        last = json.loads(status.stdout)["last"]
        assert (status.returncode, last["generation"], last["trust"]) == (0, 2, "verified"), (point, last)
        assert all(json.loads(path.read_text()) for path in (machine.place / "agent" / "reports").glob("*.json")), point
