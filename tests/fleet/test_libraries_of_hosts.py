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


#: The command without these libraries.
WITHOUT: Final = """\
import importlib.machinery as m, sys
find = m.PathFinder.find_spec
lacking = ('jinja2', 'tomlkit')
m.PathFinder.find_spec = staticmethod(lambda name, *more: None if name in lacking else find(name, *more))
from resource_api.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
PROGRAM: Final = """\
PROJECT = "web"

def manifest(m):
    m.file("/hosts/127.39.0.1/first", content="hi")
    m.settings("s")
"""
COMPONENT: Final = """\
from resource_api import ComponentDefinition
COMPONENT = ComponentDefinition(name="{name}", docs="Settings.")

def build(m):
    {body}
"""
SETTING: Final = 'm.toml_setting("port", path="/hosts/127.39.0.1/app.toml", key="server.port", value=80)'


@pytest.fixture
def within(fleet: SshFleet) -> SshFleet:
    """Return the host, and a Python manifest whose type with a library is in a component of a component."""
    fleet.write(PROGRAM, "site.py")
    fleet.write(COMPONENT.format(name="settings", body='m.inner("i")'), "components/settings.py")
    fleet.write(COMPONENT.format(name="inner", body=SETTING), "components/inner.py")
    return fleet


def test_a_host_without_them_refuses_before_its_first_change(fleet: SshFleet, server: Server) -> None:
    """Where they are not installed here either; the message names them."""
    result = fleet.run("apply", "site.yaml", "--on", "web1", program=("-c", WITHOUT))
    assert result.code == 65
    assert "refused: the manifest needs the Python library jinja2, tomlkit, which this host lacks" in result.out
    assert not server.path(f"/hosts/{ADDRESS}/first").exists()


REFUSED: Final = "refused: the manifest needs the Python library tomlkit, which this host lacks"


def test_types_of_components_and_programs_need_them_too(within: SshFleet, server: Server) -> None:
    """They are sent, or refused before the first change."""
    refused = within.run("apply", "site.py", "--on", "web1", program=("-c", WITHOUT))
    assert (refused.code, REFUSED in refused.out) == (65, True), refused
    assert not server.path(f"/hosts/{ADDRESS}/first").exists()
    assert within.run("apply", "site.py", "--on", "web1").code == 0


def test_a_type_that_only_the_plan_names_is_refused_before_the_first_change(within: SshFleet, server: Server) -> None:
    """A program may make the name of a type, which nothing of its code says."""
    hidden = SETTING.replace("m.toml_setting", 'getattr(m, "toml_" + "setting")')
    within.write(COMPONENT.format(name="inner", body=hidden), "components/inner.py")
    for command in ("plan", "apply"):
        refused = within.run(command, "site.py", "--on", "web1")
        assert (refused.code, REFUSED in refused.out) == (65, True), refused
    assert not server.path(f"/hosts/{ADDRESS}/first").exists()


def test_saved_plans_of_components_need_them_too(within: SshFleet, server: Server) -> None:
    """Only the steps of a plan name the types in components."""
    assert within.run("plan", "site.py", "--on", "web1", "-o", "plans").code == 0
    assert within.run("apply", "plans", "--on", "web1").code == 0
    assert "port = 80" in server.path(f"/hosts/{ADDRESS}/app.toml").read_text()


def test_a_manifest_without_them_sends_none() -> None:
    """Nor does a word in a text."""

    def needed(data: object) -> list[str]:
        return needed_libraries(data, [], [], pytest.fail)

    assert needed({"resources": {"File[/a]": {"content": "template", "mode": "toml_setting"}}}) == []
    assert needed([{"outputs": {"x": [{"invoke": "template"}]}}]) == ["jinja2", "markupsafe"]
