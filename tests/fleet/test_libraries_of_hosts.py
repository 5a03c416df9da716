"""Libraries that a manifest needs on hosts without them: sent with the archive, or refused first (real hosts)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from resource_api.fleet.archives import needed_libraries
from tests.fleet.ssh_fleet import SshFleet

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.sshd import Server

pytestmark = pytest.mark.process

ADDRESS: Final = "127.39.0.1"
SITE: Final = """\
project: web
values:
  motd: {invoke: template, with: {source: "Hello {{ name | upper }}", variables: {name: "${host.name}"}}}
resources:
  File[/hosts/127.39.0.1/first]: {content: hi}
  File[/hosts/127.39.0.1/motd]: {content: "${values.motd}"}
  Toml_setting[port]: {path: /hosts/127.39.0.1/app.toml, key: server.port, value: 80}
"""


@pytest.fixture
def fleet(tmp_path: Path, home: Path, server: Server) -> SshFleet:
    """Return a host whose Python has neither Jinja2 nor tomlkit."""
    result = SshFleet(tmp_path / "site", home, server, {"web1": ADDRESS})
    result.write(SITE)
    server.run("mkdir", "-p", "-m", "1777", f"/hosts/{ADDRESS}")
    server.run("rm", "-f", *(f"/hosts/{ADDRESS}/{name}" for name in ("first", "motd", "app.toml")))
    server.path(f"/hosts/{ADDRESS}/app.toml").write_text("# kept\n")
    return result


def test_a_host_gets_the_libraries_that_a_manifest_needs(fleet: SshFleet, server: Server) -> None:
    """By digest, in place of the archive without them; comments of the file are kept."""
    result = fleet.run("apply", "site.yaml", "--on", "web1")
    assert result.code == 0, result.out
    assert server.path(f"/hosts/{ADDRESS}/motd").read_text() == "Hello WEB1"
    assert server.path(f"/hosts/{ADDRESS}/app.toml").read_text() == "# kept\n\n[server]\nport = 80\n"
    assert fleet.run("plan", "site.yaml", "--on", "web1", "--detailed-exitcodes").code == 0


def test_a_host_without_them_refuses_before_its_first_change(fleet: SshFleet, server: Server) -> None:
    """Where they are not installed here either; the message names them."""
    code = (
        "import importlib.machinery as m, sys\nfind = m.PathFinder.find_spec\n"
        "m.PathFinder.find_spec = staticmethod("
        "lambda name, *more: None if name in ('jinja2', 'tomlkit') else find(name, *more))\n"
        "from resource_api.cli.main import run\nsys.exit(run(sys.argv[1:]))"
    )
    result = fleet.run("apply", "site.yaml", "--on", "web1", program=("-c", code))
    assert result.code == 65
    assert "refused: the manifest needs the Python library jinja2, tomlkit, which this host lacks" in result.out
    assert not server.path(f"/hosts/{ADDRESS}/first").exists()


def test_a_manifest_without_them_sends_none() -> None:
    """Nor does a word in a text."""
    assert needed_libraries({"resources": {"File[/a]": {"content": "template", "mode": "toml_setting"}}}) == []
    assert needed_libraries([{"outputs": {"x": [{"invoke": "template"}]}}]) == ["jinja2", "markupsafe"]
