"""Configured providers: selected by name, configured before the first call, recorded and replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios import inventory
from tests.scenarios.inventory import EXAMPLE, Site, names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ONE = """
    project: p
    inputs:
      token: {{type: "Sensitive[String]", default: token-one}}
    providers:
      lab: {{type: inventory_host, config: {{url: "{url}", token: "${{inputs.token}}"}}}}
    defaults:
      Inventory_host: {{provider: lab}}
    resources:
      Inventory_host[a]: {{role: web}}
      Inventory_host[b]: {{role: db}}
"""


@pytest.fixture(params=["", "1"], ids=["here", "in_a_worker"])
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Yield a separate directory and stop the services that a test starts, with and without isolation."""
    for created in inventory.site(tmp_path):
        created.environment["RESOURCE_API_ISOLATE"] = request.param
        yield created


def test_a_resource_is_created_by_the_provider_that_it_selects(site: Site) -> None:
    """Two configurations of one type manage resources of the same name in two services, recorded separately."""
    first, second = site.serve(), site.serve("token-two")
    manifest = site.write(
        "site.yaml",
        f"""
        project: p
        providers:
          inventory_host: {{config: {{url: "{first.url}", token: token-one}}}}
          other: {{type: inventory_host, config: {{url: "{second.url}", token: token-two}}}}
        resources:
          Inventory_host[web]: {{role: here}}
          Inventory_host[web elsewhere]: {{name: web, role: there, provider: other}}
        """,
    )
    applied = site.run("apply", manifest)
    assert applied.code == 0, applied.err
    assert [host["role"] for host in first.inventory.find(None)] == ["here"]
    assert [host["role"] for host in second.inventory.find(None)] == ["there"]
    recorded = site.recorded()
    assert recorded["Inventory_host[web]"]["provider"] is None
    assert recorded["Inventory_host[web elsewhere]"]["provider"] == "other"
    assert {"Provider[inventory_host]", "Provider[inventory_host@other]"} <= recorded.keys()
    again = site.run("apply", manifest, "--detailed-exitcodes")
    assert (again.code, "2 unchanged" in again.out) == (0, True)


@pytest.mark.parametrize("ephemeral", ["", ", ephemeral: true"])
def test_a_deletion_takes_the_provider_secret_from_the_manifest(site: Site, ephemeral: str) -> None:
    """Without the secret of the provider nothing is deleted or forgotten; with it everything is deleted."""
    server = site.serve()
    manifest = site.write("site.yaml", ONE.format(url=server.url).replace(", default: token-one", ephemeral))
    token = site.write("token", "token-one")
    assert site.run("apply", manifest, "-i", f"token=@{token}").code == 0
    assert "2 unchanged" in site.run("apply", manifest, "-i", f"token=@{token}").out
    assert ("token" in site.recorded()["Provider[inventory_host@lab]"]["should"]) is not bool(ephemeral)
    refused = site.run("destroy", "--yes", manifest)
    assert refused.code == 1
    assert "is recorded without its secrets (token)" in refused.err
    assert names(server) == ["a", "b"]
    assert site.run("destroy", "--yes", manifest, "-i", f"token=@{token}").code == 0
    assert names(server) == []
    assert site.recorded() == {}


def test_an_undeclared_provider_still_prunes_its_resources(site: Site) -> None:
    """``--prune`` uses the recorded configuration with its encrypted secrets, and then forgets the provider."""
    server = site.serve()
    site.write("site.yaml", ONE.format(url=server.url))
    assert site.run("new", "key", "key").code == 0
    applied = site.run("apply", "site.yaml", "--key", "file:key")
    assert applied.code == 0, applied.err
    site.write("site.yaml", "project: p\nresources: {}\n")
    pruned = site.run("apply", "site.yaml", "--prune", "--key", "file:key")
    assert (pruned.code, names(server)) == (0, []), pruned.err
    assert site.recorded() == {}


@pytest.mark.parametrize(("order", "first"), [("", "DELETE"), ("delete_first", "DELETE"), ("create_first", "POST")])
def test_a_replaced_provider_replaces_its_resources(site: Site, order: str, first: str) -> None:
    """With another URL the resources are created there and deleted in the old service, in the declared order."""
    old, new = site.serve(), site.serve()
    text = ONE.format(url="URL").replace(
        "provider: lab}", f"provider: lab, lifecycle: {{replace: {order or 'null'}}}}}"
    )
    calls: list[str] = []
    for server in (old, new):
        server.inventory.create, server.inventory.delete = (
            _noting(calls, "POST", server.inventory.create),
            _noting(calls, "DELETE", server.inventory.delete),
        )
    site.write("site.yaml", text.replace("URL", old.url))
    assert site.run("apply", "site.yaml").code == 0
    calls.clear()
    site.write("site.yaml", text.replace("URL", new.url))
    planned = site.run("plan", "site.yaml")
    sign = "+/-" if first == "POST" else "-/+"
    assert f"{sign} Inventory_host[a]" in planned.out, planned.err
    assert "the configuration of its provider changed: url" in planned.out
    assert site.run("state", "list").out.split() == [
        "Provider[inventory_host@lab]",
        "Inventory_host[a]",
        "Inventory_host[b]",
    ]
    applied = site.run("apply", "site.yaml")
    assert (applied.code, "2 replaced" in applied.out) == (0, True), applied.err
    assert (names(old), names(new), calls[0]) == ([], ["a", "b"], first)
    assert sorted(site.recorded()) == ["Inventory_host[a]", "Inventory_host[b]", "Provider[inventory_host@lab]"]
    assert site.run("apply", "site.yaml", "--detailed-exitcodes").code == 0


def _noting(calls: list[str], word: str, function: Any) -> Any:
    def noted(*arguments: Any) -> Any:
        calls.append(word)
        return function(*arguments)

    return noted


def test_another_token_replaces_nothing(site: Site) -> None:
    """A changed token leaves all resources unchanged, and the new configuration is recorded."""
    server = site.serve()
    site.write("site.yaml", ONE.format(url=server.url))
    assert site.run("apply", "site.yaml").code == 0
    before = site.recorded()["Provider[inventory_host@lab]"]["should"]["token"]
    server.token = "token-two"
    site.write("site.yaml", ONE.format(url=server.url).replace("token-one", "token-two"))
    applied = site.run("apply", "site.yaml", "--detailed-exitcodes")
    assert (applied.code, "2 unchanged" in applied.out) == (0, True), applied.err
    assert site.recorded()["Provider[inventory_host@lab]"]["should"]["token"] != before


@pytest.mark.parametrize(
    ("lifecycle", "message"),
    [
        ("{replace: never}", "would be replaced, and lifecycle.replace is never"),
        ("{protect: true}", "is protected and would be replaced"),
    ],
)
def test_a_resource_that_must_not_be_replaced_keeps_its_provider(site: Site, lifecycle: str, message: str) -> None:
    """``never`` and ``protect`` fail the resource, nothing is deleted, and the old configuration still works."""
    old, new = site.serve(), site.serve()
    text = ONE.format(url="URL").replace("provider: lab}", f"provider: lab, lifecycle: {lifecycle}}}")
    site.write("site.yaml", text.replace("URL", old.url))
    assert site.run("apply", "site.yaml").code == 0
    site.write("site.yaml", text.replace("URL", new.url))
    refused = site.run("apply", "site.yaml")
    assert (refused.code, message in refused.err) == (1, True), refused.err
    assert (names(old), names(new)) == (["a", "b"], [])
    site.write("site.yaml", text.replace("URL", old.url))
    back = site.run("apply", "site.yaml", "--detailed-exitcodes")
    assert (back.code, "2 unchanged" in back.out) == (0, True), back.err
    assert "Provider[inventory_host@lab~1]" not in site.recorded()


def test_the_same_service_under_another_url_loses_nothing(site: Site) -> None:
    """A resource that already exists at the new URL is not deleted at the old one, and the old record is forgotten."""
    server = site.serve()
    site.write("site.yaml", ONE.format(url=server.url))
    assert site.run("apply", "site.yaml").code == 0
    site.write("site.yaml", ONE.format(url=server.url.replace("127.0.0.1", "localhost")))
    applied = site.run("apply", "site.yaml")
    assert (applied.code, names(server)) == (0, ["a", "b"]), applied.err
    assert sorted(site.recorded()) == ["Inventory_host[a]", "Inventory_host[b]", "Provider[inventory_host@lab]"]


def test_a_configuration_may_depend_on_a_resource(site: Site) -> None:
    """A configuration that is only known after apply is planned as such and used when it is known."""
    first, second = site.serve(), site.serve("host-000001")
    site.write(
        "site.yaml",
        f"""
        project: p
        providers:
          inventory_host: {{config: {{url: "{first.url}", token: token-one}}}}
          late: {{type: inventory_host, config: {{url: "{second.url}", token: "${{Inventory_host[a].id}}"}}}}
        resources:
          Inventory_host[b]: {{provider: late}}
          Inventory_host[a]: {{}}
        """,
    )
    assert site.run("new", "key", site.home / "key").code == 0
    planned = site.run("plan", "site.yaml")
    assert "is only known after apply: token" in planned.out, planned.err
    noop = site.run("apply", "site.yaml", "--noop")
    assert (noop.code, names(first), names(second)) == (0, [], []), noop.err
    applied = site.run("apply", "site.yaml", "--key", "file:key")
    assert (applied.code, names(first), names(second)) == (0, ["a"], ["b"]), applied.err
    again = site.run("apply", "site.yaml", "--key", "file:key", "--detailed-exitcodes")
    assert (again.code, "2 unchanged" in again.out) == (0, True), again.err
    destroyed = site.run("destroy", "--yes", "site.yaml", "--key", "file:key")
    assert (destroyed.code, names(first), names(second)) == (0, [], []), destroyed.err


@pytest.mark.parametrize(
    ("providers", "resource", "expected"),
    [
        ("{}", "{provider: lab}", "5:23: Inventory_host[a]: unknown provider 'lab'; name it under providers:"),
        (
            "{lab: {type: file}}",
            "{provider: lab}",
            "Inventory_host[a]: provider 'lab' is for File, not for Inventory_host",
        ),
        ("{lab: {type: file, config: {url: x}}}", "{}", "provider 'lab': type 'file' takes no configuration"),
        ("{lab: {type: filr}}", "{}", "provider 'lab': unknown type 'Filr'; did you mean 'file'?"),
        (
            "{lab: {type: inventory_host, config: {token: t}}}",
            "{provider: lab}",
            "3:41: provider 'lab': 'url' is missing; it is mandatory",
        ),
        (
            "{lab: {type: inventory_host, config: {tokn: t, url: 'http://x'}}}",
            "{provider: lab}",
            "3:50: provider 'lab': unknown configuration 'tokn'; did you mean 'token'?",
        ),
        (
            "{lab: {type: inventory_host, config: {url: x, token: '${inputs.t}'}}}",
            "{provider: lab}",
            "provider 'lab': ${inputs.t}: unknown input 't'",
        ),
        (
            "{lab: {type: inventory_host, config: {url: '${facts.os}'}}}",
            "{provider: lab}",
            "url must be a string that matches",
        ),
        (
            "{}",
            "{}",
            "the configuration of its provider: 'url' is missing; it is mandatory; configure it under providers:",
        ),
        (
            "{lab: {type: inventory_host, version: '>=2'}}",
            "{provider: lab}",
            "no version of type 'inventory_host' fits '>=2'; on the module path: 1.2.0",
        ),
        (
            "{lab: {type: inventory_host, version: newest}}",
            "{provider: lab}",
            "'newest' is not a range of versions; write '>=1.2', '~=1.4' or '==2.0.1'",
        ),
    ],
)
def test_a_wrong_provider_declaration_is_reported_with_its_position(
    site: Site, providers: str, resource: str, expected: str
) -> None:
    """``validate`` checks names, types, versions and configurations of providers."""
    manifest = site.write(
        "site.yaml", f"project: p\n# A comment.\nproviders: {providers}\nresources:\n  Inventory_host[a]: {resource}\n"
    )
    refused = site.run("validate", manifest)
    assert (refused.code, expected in refused.err) == (65, True), refused.err


def test_check_config_may_complete_a_configuration(site: Site) -> None:
    """``check_config`` adds a URL from the environment that the manifest does not declare."""
    server = site.serve()
    site.write(
        "site.yaml",
        """
        project: p
        providers: {inventory_host: {config: {token: token-one}}}
        resources: {"Inventory_host[a]": {}}
        """,
    )
    assert site.run("apply", "site.yaml", INVENTORY_URL=server.url).code == 0
    assert names(server) == ["a"]


@pytest.mark.parametrize("run", ["prune", "destroy", "destroy_without_manifest", "older"])
@pytest.mark.parametrize("token", ["same", "changed"])
def test_a_secret_from_check_config_is_read_again(site: Site, run: str, token: str) -> None:
    """A token that ``check_config`` reads from a file is read again for a deletion and never shown."""
    server, second = site.serve(), site.serve()
    site.environment["INVENTORY_TOKEN_FILE"] = str(site.write("token", "token-one"))
    text = """
        project: p
        providers: {{lab: {{type: inventory_host, config: {{url: "{url}"}}}}}}
        resources: {{"Inventory_host[a]": {{provider: lab}}, "Inventory_host[b]": {{provider: lab}}}}
    """
    site.write("site.yaml", text.format(url=server.url))
    applied = site.run("apply", "site.yaml")
    assert (applied.code, names(server)) == (0, ["a", "b"]), applied.err
    if run == "older":
        site.write("site.yaml", text.format(url=second.url))
        assert site.run("apply", "site.yaml", "--target", "Inventory_host[a]").code == 0
    if token == "changed":
        site.write("token", "token-two")
        server.token = second.token = "token-two"
    if run in {"prune", "destroy_without_manifest"}:
        site.write("site.yaml", "project: p\nresources: {}\n")
    result = site.run("apply", "site.yaml", "--prune") if run == "prune" else site.run("destroy", "--yes", "site.yaml")
    assert (result.code, names(server), names(second)) == (0, [], []), result.err
    assert site.recorded() == {}
    assert "token-" not in result.out + result.err


def test_a_secret_that_check_config_cannot_read_is_named(site: Site) -> None:
    """The error names the secret and the reason of ``check_config``, and nothing is deleted."""
    server = site.serve()
    site.environment["INVENTORY_TOKEN_FILE"] = str(site.write("token", "token-one"))
    site.write(
        "site.yaml",
        f"project: p\nproviders: {{inventory_host: {{config: {{url: '{server.url}'}}}}}}\n"
        "resources: {'Inventory_host[a]': {}}\n",
    )
    assert site.run("apply", "site.yaml").code == 0
    site.write("site.yaml", "project: p\nresources: {}\n")
    (site.home / "token").unlink()
    refused = site.run("apply", "site.yaml", "--prune")
    assert (refused.code, names(server)) == (1, ["a"])
    assert "is recorded without its secrets (token)" in refused.err
    assert "No such file" in refused.err


def test_a_single_resource_needs_no_manifest(site: Site) -> None:
    """``resource`` uses the default provider with the configuration that ``check_config`` completes."""
    server = site.serve()
    environment = {"INVENTORY_URL": server.url, "INVENTORY_TOKEN_FILE": str(site.write("token", "token-one"))}
    assert site.run("resource", "inventory_host", "a", "role=web", **environment).code == 0
    assert site.run("resource", "inventory_host", "--json", **environment).document[0]["role"] == "web"
    refused = site.run("resource", "inventory_host")
    assert (refused.code, "the configuration of its provider: 'url' is missing" in refused.err) == (1, True), (
        refused.err
    )


def test_a_replacement_may_take_several_runs(site: Site) -> None:
    """A resource that is not a target keeps the old configuration and is replaced in the next run."""
    old, new = site.serve(), site.serve()
    site.write("site.yaml", ONE.format(url=old.url))
    assert site.run("apply", "site.yaml").code == 0
    site.write("site.yaml", ONE.format(url=new.url))
    first = site.run("apply", "site.yaml", "--target", "Inventory_host[a]")
    assert (first.code, names(old), names(new)) == (0, ["b"], ["a"]), first.err
    assert "Provider[inventory_host@lab~1]" in site.recorded()
    second = site.run("apply", "site.yaml")
    assert (second.code, names(old), names(new)) == (0, [], ["a", "b"]), second.err
    assert "Provider[inventory_host@lab~1]" not in site.recorded()
    assert site.run("apply", "site.yaml", "--detailed-exitcodes").code == 0


def test_destroy_uses_both_configurations_during_a_replacement(site: Site) -> None:
    """``destroy`` in the middle of a replacement deletes the resources in both services."""
    old, new = site.serve(), site.serve()
    site.write("site.yaml", ONE.format(url=old.url))
    assert site.run("apply", "site.yaml").code == 0
    site.write("site.yaml", ONE.format(url=new.url))
    assert site.run("apply", "site.yaml", "--target", "Inventory_host[a]").code == 0
    destroyed = site.run("destroy", "--yes", "site.yaml")
    assert (destroyed.code, names(old), names(new)) == (0, [], []), destroyed.err
    assert site.recorded() == {}


def test_import_and_refresh_use_the_configured_provider(site: Site) -> None:
    """``import`` records the provider of a resource, and ``refresh`` reads the resource through it."""
    server = site.serve()
    server.inventory.create("a", {"role": "web"})
    site.write("site.yaml", ONE.format(url=server.url))
    imported = site.run("import", "site.yaml", "Inventory_host[a]")
    assert imported.code == 0, imported.err
    assert sorted(site.recorded()) == ["Inventory_host[a]", "Provider[inventory_host@lab]"]
    server.inventory.update("a", {"role": "db"})
    refreshed = site.run("refresh", "site.yaml")
    assert refreshed.code == 0, refreshed.err
    assert site.recorded()["Inventory_host[a]"]["is"]["role"] == "db"
    assert site.run("destroy", "--yes", "site.yaml").code == 0
    assert names(server) == []


def test_the_newest_type_version_in_range_is_used(site: Site) -> None:
    """A version range selects the newest matching type by PEP 440; without a range the first on the path is used."""
    for version in ("1.9.0", "1.10.0", "2.0.0"):
        site.write(f"v{version}/types/note.py", NOTE.format(version=version))
        site.write(f"v{version}/providers/note.py", NOTES.format(version=version))
    path = ":".join(str(site.home / f"v{version}") for version in ("1.9.0", "1.10.0", "2.0.0"))
    site.write(
        "site.yaml",
        """
        project: p
        providers: {old: {type: note, version: "<2"}, exact: {type: note, version: "==2.0.0"}}
        resources: {"Note[a]": {}, "Note[b]": {provider: old}, "Note[c]": {provider: exact}}
        """,
    )
    stderr = site.run("apply", "site.yaml", RESOURCE_API_MODULE_PATH=path).err
    assert [line for line in stderr.splitlines() if "made by" in line] == [
        "Notice: note: a made by 1.9.0",
        "Notice: note: b made by 1.10.0",
        "Notice: note: c made by 2.0.0",
    ]


NOTE = """
    from resource_api import Attribute, TypeDefinition

    TYPE = TypeDefinition(
        name="note",
        version="{version}",
        attributes={{
            "ensure": Attribute("Enum[present, absent]", default="present"),
            "name": Attribute("String", kind="namevar"),
        }},
    )
"""
NOTES = """
    from resource_api import BaseProvider

    KEPT = set()

    class Provider(BaseProvider):
        def get(self, context):
            return [{{"name": name, "ensure": "present"}} for name in KEPT]

        def set(self, context, changes):
            for name in changes:
                KEPT.add(name)
                context.notice(f"{{name}} made by {version}")
"""


def test_a_provider_is_closed_whatever_happens(site: Site) -> None:
    """A provider is configured once, closed once after the last call, and cancelled first after an interruption."""
    site.write(
        "m/types/held.py",
        NOTE.format(version="1").replace('name="note"', 'name="held", config={"file": Attribute("String")}'),
    )
    site.write("m/providers/held.py", HELD)
    site.write(
        "site.yaml",
        """
        project: p
        providers: {held: {config: {file: log}}}
        resources: {"Held[a]": {}, "Held[b]": {}}
        """,
    )
    environment = {"RESOURCE_API_MODULE_PATH": str(site.home / "m"), "RESOURCE_API_STATE": "memory:"}
    log = site.home / "log"
    for command, code, lines in (
        (("apply", "site.yaml"), 0, ["configure", "get", "set a b", "get", "close"]),
        (("plan", "site.yaml"), 0, ["configure", "get", "close"]),
        (("validate", "site.yaml"), 0, []),
    ):
        log.unlink(missing_ok=True)
        assert site.run(*command, **environment).code == code
        assert (log.read_text().splitlines() if log.exists() else []) == lines
    checked = (
        (site.home / "m/types/held.py").read_text().replace("attributes=", "features={'canonicalize'}, attributes=")
    )
    site.write("m/types/held.py", checked)
    site.write("m/providers/held.py", HELD + CHECKING)
    log.unlink(missing_ok=True)
    assert site.run("validate", "site.yaml", **environment).code == 0
    assert not log.exists()
    ended = site.run("apply", "site.yaml", INTERRUPT="1", **environment)
    assert ended.code in {1, 130}, ended.err
    assert log.read_text().splitlines()[-2:] == ["cancel", "close"]


CHECKING = """
        def canonicalize(self, context, resources):
            return resources
"""
HELD = """
    import os
    from pathlib import Path

    from resource_api import BaseProvider

    KEPT = set()

    class Provider(BaseProvider):
        def configure(self, context, config):
            self.file = Path(config["file"])
            self.file = Path(os.environ["HOME"]) / config["file"]
            self.note("configure")

        def note(self, text):
            with self.file.open("a") as file:
                file.write(text + "\\n")

        def get(self, context):
            self.note("get")
            return [{"name": name, "ensure": "present"} for name in sorted(KEPT)]

        def set(self, context, changes):
            self.note("set " + " ".join(changes))
            if "INTERRUPT" in os.environ:
                raise KeyboardInterrupt
            KEPT.update(changes)

        def cancel(self):
            self.note("cancel")

        def close(self):
            self.note("close")
            raise OSError("it is gone already")
"""


def test_a_replaced_provider_keeps_its_encrypted_secrets(site: Site) -> None:
    """When URL and token both change, the old resources are deleted with the old token over two runs."""
    old, new = site.serve("token-old"), site.serve("token-new")
    assert site.run("new", "key", "key").code == 0
    text = ONE.format(url=old.url).replace("role: db", "role: db, password: hidden-word")
    site.write("site.yaml", text.replace("token-one", "token-old"))
    assert site.run("apply", "site.yaml", "--key", "file:key").code == 0
    site.write("site.yaml", text.replace("token-one", "token-new").replace(old.url, new.url))
    first = site.run("apply", "site.yaml", "--key", "file:key", "--target", "Inventory_host[a]")
    assert (first.code, names(old), names(new)) == (0, ["b"], ["a"]), first.err
    second = site.run("apply", "site.yaml", "--key", "file:key")
    assert (second.code, names(old), names(new)) == (0, [], ["a", "b"]), second.err
    assert site.run("state", "check", "--key", "file:key").code == 0


FORMER = """
    from resource_api import Attribute, TypeDefinition

    TYPE = TypeDefinition(
        name="former",
        config={
            "endpoint": Attribute("String"),
            "previous": Attribute("Optional[String]"),
            "token": Attribute("Optional[Sensitive[String]]"),
        },
        attributes={
            "ensure": Attribute("Enum[present, absent]", default="present"),
            "name": Attribute("String", kind="namevar"),
        },
    )
"""
FORMERS = """
    from resource_api import BaseProvider

    KEPT = set()

    class Provider(BaseProvider):
        def check_config(self, context, config, former=None):
            if former is not None:
                context.notice(f"from {sorted(former)} {former['endpoint']} to {config['endpoint']}")
                if config["endpoint"] == "nowhere":
                    raise ValueError("the endpoint must not move to nowhere")
                config["previous"] = former["endpoint"]
            return config

        def configure(self, context, config):
            context.notice(f"configured {config['endpoint']} after {config.get('previous')}")

        def get(self, context):
            return [{"name": "a", "ensure": "present"}]

        def set(self, context, changes):
            pass
"""


@pytest.mark.parametrize("isolated", [(), ("--isolate",)])
def test_check_config_sees_the_former_configuration(site: Site, isolated: tuple[str, ...]) -> None:
    """It prepares a change of the endpoint, or refuses it with the provider's line; a first run has no former one."""
    site.write("m/types/former.py", FORMER)
    site.write("m/providers/former.py", FORMERS)
    environment = {"RESOURCE_API_MODULE_PATH": str(site.home / "m")}
    text = """
        project: p
        providers: {{lab: {{type: former, config: {{endpoint: {}, token: hush}}}}}}
        resources: {{"Former[a]": {{provider: lab}}}}
    """
    for endpoint, lines in (
        ("one", ["configured one after None"]),
        ("one", ["configured one after None"]),
        ("two", ["from ['endpoint', 'token'] one to two", "configured two after one"]),
    ):
        manifest = site.write("site.yaml", text.format(endpoint))
        result = site.run("apply", manifest, *isolated, **environment)
        assert result.code == 0, result.err
        assert [line.rpartition(": ")[2] for line in result.err.splitlines() if " one" in line] == lines, result.err
    before = site.recorded()
    site.write("site.yaml", text.format("nowhere"))
    for command in ("plan", "apply"):
        refused = site.run(command, manifest, *isolated, **environment)
        expected = f"{manifest}:2:13: provider 'lab': the endpoint must not move to nowhere"
        assert (refused.code, expected in refused.err) == (65, True), refused.err
    assert site.recorded() == before
    assert site.run("validate", manifest, **environment).code == 0


@pytest.mark.parametrize("isolated", [(), ("--isolate",)])
def test_a_configuration_lacks_what_check_config_expects(site: Site, isolated: tuple[str, ...]) -> None:
    """The mandatory attribute is named, and not the exception of the method."""
    site.write("m/types/former.py", FORMER)
    site.write("m/providers/former.py", FORMERS.replace("if former is not None", 'if config["endpoint"]'))
    environment = {"RESOURCE_API_MODULE_PATH": str(site.home / "m")}
    manifest = site.write("site.yaml", "providers: {lab: {type: former}}\nresources: {'Former[a]': {provider: lab}}\n")
    result = site.run("plan", manifest, *isolated, **environment)
    assert (result.code, "provider 'lab': 'endpoint' is missing; it is mandatory\n" in result.err) == (65, True), (
        result.err
    )
    result = site.run("resource", "former", *isolated, **environment)
    assert "former: the configuration of its provider: 'endpoint' is missing; it is mandatory; a man" in result.err


def test_types_and_describe_show_where_a_type_comes_from(site: Site) -> None:
    """A directory, the program itself, or a distribution, with versions, configuration and functions in all forms."""
    packages = site.home / "packages"
    site.write("packages/ra_notes/__init__.py", "")
    site.write(
        "packages/ra_notes/types/note.py", NOTE.format(version="3.1").replace('version="3', 'timeout=7, version="3')
    )
    site.write("packages/ra_notes/providers/note.py", NOTES.format(version="3.1"))
    site.write("packages/ra_notes-2.5.dist-info/entry_points.txt", "[resource_api.modules]\nnotes = ra_notes\n")
    site.write("packages/ra_notes-2.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: ra-notes\nVersion: 2.5\n")
    site.environment["PYTHONPATH"] += f":{packages}"
    listed = {line.split()[0]: line for line in site.run("types", "--all").out.splitlines()}
    assert listed["file"].endswith(" (bundled)")
    assert listed["note"].endswith(" (version 3.1; distribution ra-notes 2.5)")
    expected = f"(version 1.2.0; config: url, token, timeout; functions: free_address; {EXAMPLE})"
    assert listed["inventory_host"].endswith(expected)
    documents = {item["name"]: item for item in site.run("types", "--json").document}
    assert documents["note"]["origin"] == {
        "kind": "distribution",
        "directory": str(packages / "ra_notes"),
        "distribution": "ra-notes",
        "version": "2.5",
    }
    host = documents["inventory_host"]
    assert (host["version"], host["schema_version"], host["origin"]["kind"]) == ("1.2.0", 1, "directory")
    assert (host["config"], host["functions"]) == (["url", "token", "timeout"], ["free_address"])
    text, page = site.run("describe", "note").out, site.run("describe", "note", "--format", "markdown").out
    assert "- 3.1\n    - schema version 1" in text
    assert "ORIGIN\n\n    - distribution ra-notes 2.5" in text
    assert "TIME LIMITS\n\n    - each change: 7 s" in text
    assert "## Origin\n\n- distribution ra-notes 2.5" in page
    document = site.run("describe", "note", "--json").document
    assert (document["origin"], document["timeout"]) == (documents["note"]["origin"], 7)
    assert site.run("describe", "host_group", "--json").document["origin"]["directory"] == str(EXAMPLE)
