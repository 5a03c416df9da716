"""``resource`` for types with a configuration: providers of a manifest, of ``providers.yaml``, and of ``--config``."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Registry, Runtime
from resource_api.model.values.errors import UsageError
from resource_api.system.log import Log
from tests.scenarios import inventory
from tests.scenarios.inventory import EXAMPLE, Site, names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Yield a separate directory and stop the services that a test starts."""
    yield from inventory.site(tmp_path)


@pytest.fixture
def server(site: Site) -> Any:
    """Return a service with a host, whose token is in the file ``token``."""
    site.write("token", "token-one")
    result = site.serve()
    result.inventory.create("old", {"role": "db"})
    return result


SITE = EXAMPLE / "site.yaml"


def of_manifest(server: Any) -> tuple[str, ...]:
    """Return the options that select the provider of the example's manifest."""
    return "--provider", "lab", "--manifest", str(SITE), "-i", f"url={server.url}", "-i", "token=@token"


def of_config(server: Any) -> tuple[str, ...]:
    """Return the options of a configuration."""
    return "--config", f"url={server.url}", "--config", "token=@token"


def of_config_in_workers(server: Any) -> tuple[str, ...]:
    """Return the options of a configuration, with the provider in a process of its own."""
    return *of_config(server), "--isolate"


@pytest.mark.parametrize("options", [of_manifest, of_config, of_config_in_workers])
def test_a_configured_type_is_listed_shown_and_changed(site: Site, server: Any, options: Any) -> None:
    """Without anything recorded, hosts are listed, shown, created, changed with and without ``--noop``, and deleted."""
    arguments = options(server)
    listed = site.run("resource", "inventory_host", *arguments, "--json")
    assert (listed.code, [host["name"] for host in listed.document]) == (0, ["old"]), listed.err
    output = site.run("resource", "inventory_host", "old", *arguments)
    assert (output.code, "role: db" in output.out) == (0, True), output.err
    assert ("provider: lab" in output.out) == ("--provider" in arguments)
    noop = site.run("resource", "inventory_host", "new", "role=web", "--noop", *arguments)
    assert (noop.code, names(server)) == (0, ["old"]), noop.err
    created = site.run("resource", "inventory_host", "new", "role=${web}", "--detailed-exitcodes", *arguments)
    assert (created.code, server.inventory.find(["new"])[0]["role"]) == (2, "${web}"), created.err
    deleted = site.run("resource", "inventory_host", "old", "ensure=absent", *arguments)
    assert (deleted.code, names(server)) == (0, ["new"]), deleted.err
    assert site.recorded() == {}
    everything = "".join(map(str, [listed, output, noop, created, deleted]))
    assert "token-one" not in everything


def test_a_change_of_a_recorded_resource_is_a_warning(site: Site, server: Any) -> None:
    """The same host of the same configured provider is recorded in a stack; one of another provider is not."""
    site.write(
        "lab.yaml",
        f"""
        project: p
        providers:
          lab: {{type: inventory_host, config: {{url: "{server.url}", token: token-one}}}}
          other: {{type: inventory_host, config: {{url: "{server.url}", token: token-one}}}}
        resources: {{"Inventory_host[old]": {{provider: lab}}}}
        """,
    )
    assert site.run("apply", "lab.yaml").code == 0
    for provider, warned in (("lab", True), ("other", False)):
        changed = site.run(
            "resource", "inventory_host", "old", f"role={provider}", "--provider", provider, "--manifest", "lab.yaml"
        )
        assert (changed.code, "is recorded in stack" in changed.err) == (0, warned), changed.err


def test_the_provider_with_the_name_of_the_type_is_the_default_of_a_manifest(site: Site, server: Any) -> None:
    """As for resources of the manifest, the option is not needed."""
    entry = f'{{config: {{url: "{server.url}", token: token-one}}}}'
    site.write("site.yaml", f"project: p\nproviders: {{inventory_host: {entry}}}\nresources: {{}}\n")
    listed = site.run("resource", "inventory_host", "--manifest", "site.yaml")
    assert (listed.code, "Inventory_host[old]" in listed.out, "provider:" in listed.out) == (0, True, False), listed.err


def test_providers_yaml_declares_providers_for_all_commands(site: Site, server: Any) -> None:
    """Its entries are used by ``resource`` and ``Runtime.resources``, and by no manifest."""
    entry = f'{{type: inventory_host, config: {{url: "{server.url}", token: token-one}}}}'
    site.write("m/providers.yaml", f"lab: {entry}\n")
    site.environment["RESOURCE_API_MODULE_PATH"] = f"{site.home}/m:{EXAMPLE}"
    assert site.run("resource", "inventory_host", "--provider", "lab", "--json").document[0]["name"] == "old"
    site.write("site.yaml", "project: p\nresources: {'Inventory_host[a]': {provider: lab}}\n")
    assert "unknown provider 'lab'" in site.run("plan", "site.yaml").err
    unknown = site.run("resource", "inventory_host", "--provider", "lba")
    assert (unknown.code, "unknown provider 'lba'" in unknown.err, "did you mean 'lab'?" in unknown.err) == (
        64,
        True,
        True,
    )
    site.write("m/providers.yaml", f"inventory_host: {entry}\n")
    default = site.run("resource", "inventory_host", "--json")
    assert (default.code, default.document[0]["role"]) == (0, "db"), default.err


def test_providers_yaml_may_have_inputs(site: Site, server: Any) -> None:
    """With the sections of a manifest, a token is an input; a section of resources is refused with its place."""
    text = f"""
    inputs: {{token: {{type: "Sensitive[String]"}}}}
    providers:
      lab: {{type: inventory_host, config: {{url: "{server.url}", token: "${{inputs.token}}"}}}}
    """
    path = site.write("m/providers.yaml", text)
    site.environment["RESOURCE_API_MODULE_PATH"] = f"{site.home}/m:{EXAMPLE}"
    run = ("resource", "inventory_host", "--provider", "lab")
    assert site.run(*run, "-i", "token=@token", "--json").document[0]["name"] == "old"
    variable = {"RESOURCE_API_INPUT_token": site.home.joinpath("token").read_text(encoding="utf-8").strip()}
    assert site.run(*run, "--json", **variable).document[0]["name"] == "old"
    missing = site.run(*run)
    assert (missing.code, f"{path}:1:10: input 'token': is not given" in missing.err) == (65, True), missing.err
    site.write("m/providers.yaml", dedent(text) + "resources: {}\n")
    refused = site.run(*run, "-i", "token=@token")
    message = f"{path}:4:1: unknown key resources; known are inputs, providers, values"
    assert (refused.code, message in refused.err) == (65, True), refused.err


def test_an_entry_of_providers_yaml_is_checked_with_its_place(site: Site, server: Any) -> None:
    """A wrong entry is an error with file, line and column; a file that others can write to is a warning."""
    path = site.write("m/providers.yaml", "other: {type: file}\nlab:\n  type: inventory_host\n  config: {tokn: a}\n")
    site.environment["RESOURCE_API_MODULE_PATH"] = f"{site.home}/m:{EXAMPLE}"
    refused = site.run("resource", "inventory_host", "--provider", "lab")
    assert f"{path}:4:12: provider 'lab': unknown configuration 'tokn'; did you mean 'token'?" in refused.err
    assert refused.code == 65
    second = site.run("resource", "inventory_host", "--provider", "other")
    assert (second.code, "provider 'other' is for File, not for Inventory_host" in second.err) == (64, True)
    site.write(
        "m/providers.yaml", f'lab: {{type: inventory_host, config: {{url: "{server.url}", token: token-one}}}}\n'
    )
    path.chmod(0o666)
    warned = site.run("resource", "inventory_host", "--provider", "lab")
    assert (warned.code, f"{path}: others can change this manifest" in warned.err) == (0, True), warned.err


def test_a_configuration_may_need_functions_and_no_resources(site: Site, server: Any) -> None:
    """A function's result is used, also of another configured provider; a value of a resource is refused."""
    server.inventory.create("entry", {"address": "10.0.0.7"})
    manifest = site.write(
        "site.yaml",
        f"""
        project: p
        inputs: {{unrelated: {{type: String}}}}
        providers:
          first: {{type: inventory_host, config: {{url: "{server.url}", token: token-one}}}}
          second: {{type: inventory_host, config: {{url: "{server.url}", token: "${{values.word}}"}}}}
          third: {{type: inventory_host, config: {{url: "${{Inventory_host[a].role}}", token: t}}}}
          fourth: {{type: inventory_host, config: {{url: "{server.url}", token: "${{values.bad}}"}}}}
          fifth: {{type: inventory_host, config: {{url: "{server.url}", token: t, unused: "${{values.bad}}"}}}}
        values:
          word: {{invoke: free_address, provider: first, with: {{network: 10.0.0.0/24, host: entry}}}}
          bad: {{invoke: free_address, provider: first, with: {{network: nonsense, host: entry}}}}
        resources: {{"Inventory_host[a]": {{provider: first}}}}
        """,
    )
    run = ("resource", "inventory_host", "--manifest", manifest, "--provider")
    refused = site.run(*run, "second")
    assert (refused.code, "token" in refused.err, "10.0.0.7" in refused.err) == (1, True, False), refused.err
    server.token = "10.0.0.7"
    assert site.run(*run, "first").code == 1
    server.token = "token-one"
    third = site.run(*run, "third")
    assert (
        third.code,
        f"{manifest}:6:42: provider 'third': url: ${{Inventory_host[a].role}} is a value" in third.err,
    ) == (
        65,
        True,
    ), third.err
    fourth = site.run(*run, "fourth")
    assert fourth.code == 1
    assert f"{manifest}:7:3: the configuration of its provider 'inventory_host@fourth': function" in fourth.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--config", "token=hush-word"), "--config token is sensitive and cannot be given on the command line"),
        (
            ("--config", "tokn=@token"),
            "unknown configuration 'tokn' of Inventory_host; did you mean 'token'?",
        ),
        (("--config", "token"), "--config token: write KEY=VALUE, KEY=@FILE or KEY=env:NAME"),
        (("--config", "token=env:NOWHERE"), "--config token: the environment has no variable 'NOWHERE'"),
        (("--config", "token=@nowhere"), "cannot read nowhere"),
        (("--config", "timeout=soon"), "--config timeout: "),
        (("--config", "url=ftp://x", "--config", "token=@token"), "--config url: must be a string that matches"),
        (("--config", "url=http://x", "--provider", "lab"), "give its name, or a configuration"),
        (("--manifest", str(SITE)), "name the provider of the manifest: --provider NAME; it declares lab"),
        (("--manifest", str(SITE), "--config", "url=http://x"), "give its name, or a configuration"),
        (("--manifest", str(SITE), "--provider", "lba"), "unknown provider 'lba'; name it under providers:; did you"),
        (("-i", "a=b"), "inputs are those of a manifest"),
    ],
)
def test_wrong_options_are_refused(site: Site, arguments: tuple[str, ...], expected: str) -> None:
    """They are wrong usage, exit code 64, and no secret is repeated."""
    site.write("token", "token-one")
    refused = site.run("resource", "inventory_host", *arguments)
    assert (refused.code, expected in refused.err) == (64, True), refused.err
    assert "hush-word" not in refused.err


def test_a_secret_may_be_in_the_environment(site: Site, server: Any) -> None:
    """``KEY=env:NAME`` reads the value of a variable, and shows it nowhere."""
    run = ("resource", "inventory_host", "--config", f"url={server.url}", "--config", "token=env:LAB_TOKEN", "-d")
    listed = site.run(*run, LAB_TOKEN="token-one")
    assert (listed.code, "Inventory_host[old]" in listed.out, "token-one" in str(listed)) == (0, True, False), (
        listed.err
    )


def test_a_type_without_configuration_takes_none(site: Site) -> None:
    """``--config`` of such a type, and ``resource`` of a type that has functions only, are wrong usage."""
    refused = site.run("resource", "file", "/etc/passwd", "--config", "a=b")
    assert (refused.code, "unknown configuration 'a' of File" in refused.err) == (64, True), refused.err
    site.write(
        "m/types/only.py",
        """
        from resource_api import Function, TypeDefinition

        TYPE = TypeDefinition(name="only", functions={"f": Function()})
        """,
    )
    none = site.run("resource", "only", RESOURCE_API_MODULE_PATH=str(site.home / "m"))
    assert (none.code, "Only: its type has functions and no resources" in none.err) == (64, True), none.err
    several = site.run("resource", "group,only", RESOURCE_API_MODULE_PATH=str(site.home / "m"))
    assert (several.code, several.err) == (64, none.err)
    alike = site.run("resource", "gro*,onl*", RESOURCE_API_MODULE_PATH=str(site.home / "m"))
    assert (alike.code, "Only" in alike.out + alike.err) == (0, False), alike.err


def test_a_program_selects_a_provider_too(server: Any) -> None:
    """``Runtime.resources`` takes a provider of a manifest, or a configuration."""
    runtime = Runtime(Registry.from_path(EXAMPLE), log=Log("off"))
    config = {"url": server.url, "token": "token-one"}
    assert [row["name"] for row in runtime.resources("inventory_host", config=config)] == ["old"]
    inputs = {"url": server.url, "token": "token-one"}
    rows = runtime.resources("inventory_host", ["old", "new"], provider="lab", manifest=str(SITE), inputs=inputs)
    assert [row["ensure"] for row in rows] == ["present", "absent"]
    manifest = {"providers": {"lab": {"type": "inventory_host", "config": config}}}
    assert len(runtime.resources("inventory_host", provider="lab", manifest=manifest)) == 1
    with pytest.raises(UsageError, match="unknown provider 'lab'"):
        runtime.resources("inventory_host", provider="lab")
    with pytest.raises(UsageError, match="timeout_ must be a number"):
        runtime.resources("inventory_host", config={**config, "timeout": "soon"})
    with pytest.raises(ManifestError, match="'url' is missing"):
        runtime.resources("inventory_host", provider="inventory_host", manifest={"providers": {"inventory_host": {}}})
