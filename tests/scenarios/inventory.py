"""The inventory service of the examples, for tests: a real server on loopback, and the command in processes."""

from __future__ import annotations

import threading
from pathlib import Path
from runpy import run_path
from textwrap import dedent
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from tests import command
from tests.scenarios.conftest import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLE: Final = ROOT / "examples" / "inventory"

service: Any = SimpleNamespace(**run_path(f"{EXAMPLE}/server.py"))


class Site:
    """A directory with manifests and a state, and the inventory services of its hosts."""

    def __init__(self, home: Path) -> None:
        """Keep everything below ``home``; no service runs yet."""
        self.home = home
        self.services: list[Any] = []
        self.environment = command.environment_of(
            home,
            PYTHONDONTWRITEBYTECODE="1",
            RESOURCE_API_STATE=f"sqlite:{home}/state.db",
            RESOURCE_API_MODULE_PATH=str(EXAMPLE),
        )

    def serve(self, token: str = "token-one", latency: float = 0.0) -> Any:  # noqa: S107 - of a service of this test
        """Start an inventory service, and return its server with its hosts."""
        server = service.Server(service.Inventory(), token, latency=latency)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.services.append(server)
        return server

    def close(self) -> None:
        """Stop every service."""
        for server in self.services:
            server.shutdown()
            server.server_close()

    def write(self, name: str, text: str) -> Path:
        """Write a file of the site, with its indentation removed."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def run(self, *arguments: str | Path, **environment: str) -> Outcome:
        """Run ``resource-api`` with ``arguments`` in the site's directory."""
        options = [str(argument) for argument in arguments]
        process = command.run(options, cwd=self.home, env=self.environment | environment, text=True)
        assert "Traceback" not in process.stderr, process.stderr
        return Outcome(process.returncode, process.stdout, process.stderr)

    def recorded(self) -> dict[str, Any]:
        """Return the recorded resources, by reference."""
        exported = self.run("state", "export")
        return (
            {resource["reference"]: resource for resource in exported.document["resources"]}
            if not exported.code
            else {}
        )


def names(server: Any) -> list[str]:
    """Return the names of the hosts in an inventory."""
    return sorted(host["name"] for host in server.inventory.find(None))


def served(site: Site, sections: str) -> Any:
    """Start the service of a site, and write a manifest whose hosts are in it; return the server."""
    server = site.serve()
    configured = f'{{inventory_host: {{config: {{url: "{server.url}", token: token-one}}}}}}'
    site.write("site.yaml", f"project: p\nproviders: {configured}\n" + dedent(sections).lstrip("\n"))
    return server


def site(home: Path) -> Iterator[Site]:
    """Yield a site for one test."""
    result = Site(home)
    yield result
    result.close()
