"""Provider functions in manifest values: called when their inputs are known, and not before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.scenarios import inventory
from tests.scenarios.inventory import EXAMPLE, Site, names, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Yield a separate directory and stop the services that a test starts."""
    yield from inventory.site(tmp_path)


DNS_TYPE = """
    from resource_api import Attribute, Function, TypeDefinition

    TYPE = TypeDefinition(
        name="dns",
        functions={
            "dns_lookup": Function("Look a host up.", inputs={"host": Attribute("String")}, output="Array[String]"),
            "token_of": Function(inputs={"host": Attribute("String")}, output="Sensitive[String]"),
            "shout": Function(
                inputs={"text": Attribute("String"), "end": Attribute("String", default="!")}, output="String"
            ),
            "broken": Function(inputs={}, output="Integer"),
        },
    )
"""
DNS_PROVIDER = """
    import os
    from pathlib import Path

    class Provider:
        def dns_lookup(self, context, host):
            with Path(os.environ["HOME"], "asked").open("a") as file:
                print(host, file=file)
            return [f"{host}.example.org", "10.9.8.7"]

        def token_of(self, context, host):
            return f"hush-{host}"

        def shout(self, context, text, end):
            return text.upper() + end

        def broken(self, context):
            return "no number"
"""


TWIN = """
    from resource_api import Function, TypeDefinition

    TYPE = TypeDefinition(name="{}", functions={{"twin": Function()}})
"""


@pytest.fixture
def dns(site: Site) -> Site:
    """Return a site with a type that has functions and no resources."""
    site.write("m/types/dns.py", DNS_TYPE)
    site.write("m/providers/dns.py", DNS_PROVIDER)
    site.environment["RESOURCE_API_MODULE_PATH"] = f"{site.home}/m:{EXAMPLE}"
    return site


def asked(site: Site) -> list[str]:
    """Return the host names that the function was called with."""
    file = site.home / "asked"
    return file.read_text().split() if file.exists() else []


def test_a_function_is_called_once_per_run_and_not_by_validate(dns: Site) -> None:
    """``plan`` and ``apply`` call a function once for all uses of its result, and ``validate`` does not call it."""
    dns.write(
        "site.yaml",
        """
        project: p
        values:
          found: {invoke: dns_lookup, with: {host: "${values.name}"}}
          name: web
        resources:
          File[/nowhere/a]: {ensure: absent, content: "${values.found.0}"}
        outputs: {all: "${values.found}", second: "${values.found.1}"}
        """,
    )
    assert (dns.run("validate", "site.yaml").code, asked(dns)) == (0, [])
    assert (dns.run("plan", "site.yaml").code, asked(dns)) == (0, ["web"])
    applied = dns.run("apply", "site.yaml")
    assert (applied.code, asked(dns)) == (0, ["web", "web"]), applied.err
    assert "second: 10.9.8.7" in applied.out


def test_a_function_of_a_configured_provider_returns_a_value_of_the_service(site: Site) -> None:
    """The result is shown in the plan, applied, and unchanged in the next run."""
    server = site.serve()
    server.inventory.create("old", {"address": "10.0.0.1"})
    site.write(
        "site.yaml",
        f"""
        project: p
        providers: {{lab: {{type: inventory_host, config: {{url: "{server.url}", token: token-one}}}}}}
        values:
          address: {{invoke: Inventory_host.free_address, provider: lab, with: {{network: 10.0.0.0/24, host: new}}}}
        resources:
          Inventory_host[new]: {{provider: lab, address: "${{values.address}}"}}
        """,
    )
    assert "address: (none) → 10.0.0.2" in site.run("plan", "site.yaml").out
    assert site.run("apply", "site.yaml").code == 0
    again = site.run("apply", "site.yaml", "--detailed-exitcodes")
    assert (again.code, names(server)) == (0, ["new", "old"]), again.err


def test_a_function_is_not_called_with_unknown_inputs(dns: Site) -> None:
    """A function whose input is only known after apply is called once, after the resource that yields it."""
    server = served(
        dns,
        """
        values:
          found: {invoke: dns.dns_lookup, with: {host: "${Inventory_host[a].id}"}}
        resources:
          Inventory_host[b]: {role: "${values.found.0}"}
          Inventory_host[a]: {}
        """,
    )
    planned = dns.run("plan", "site.yaml")
    assert ("role: (none) → (known after apply)" in planned.out, asked(dns)) == (True, []), planned.err
    applied = dns.run("apply", "site.yaml")
    assert (applied.code, asked(dns)) == (0, ["host-000001"]), applied.err
    assert [host.get("role") for host in server.inventory.find(["b"])] == ["host-000001.example.org"]
    again = dns.run("apply", "site.yaml", "--detailed-exitcodes")
    assert (again.code, "2 unchanged" in again.out) == (0, True), again.err


def test_a_result_is_sensitive_by_declaration_or_by_its_inputs(dns: Site) -> None:
    """Neither result is in any stream or in state, and both reach the provider."""
    server = served(
        dns,
        """
        inputs: {word: {type: "Sensitive[String]", default: quiet}}
        values:
          token: {invoke: token_of, with: {host: web}}
          loud: {invoke: shout, with: {text: "${inputs.word}"}}
        resources:
          Inventory_host[a]: {role: "${values.token}", address: "${values.loud}"}
        """,
    )
    planned, applied = dns.run("plan", "site.yaml", "-d"), dns.run("apply", "site.yaml", "-d", "--json")
    assert (planned.code, applied.code) == (0, 0), applied.err
    assert [(host["role"], host["address"]) for host in server.inventory.find(None)] == [("hush-web", "QUIET!")]
    output = dns.run("state", "export").out + "".join(map(str, planned + applied))
    assert "hush-web" not in output
    assert "QUIET!" not in output


def test_a_python_manifest_calls_functions(dns: Site) -> None:
    """The result of ``m.invoke`` is used as a value, and an element of it by its index."""
    server = dns.serve()
    dns.write(
        "site.py",
        f"""
        PROVIDERS = {{"lab": {{"type": "inventory_host", "config": {{"url": "{server.url}", "token": "token-one"}}}}}}

        def manifest(m):
            found = m.invoke("dns_lookup", host="web")
            address = m.invoke("free_address", {{"network": "10.0.0.0/24"}}, provider="lab", host="a")
            m.inventory_host("a", provider="lab", role=m.text("for {{0}}", found[0]), address=address)
        """,
    )
    applied = dns.run("apply", "site.py")
    assert applied.code == 0, applied.err
    assert [(h["role"], h["address"]) for h in server.inventory.find(None)] == [("for web.example.org", "10.0.0.1")]


def test_configuration_and_functions_work_in_a_worker_process(site: Site) -> None:
    """The example is applied with ``--isolate``, and its secrets are in no output and not in state."""
    server = site.serve("s3cret-token")
    token = site.write("token", "s3cret-token")
    password = site.write("password", "pass-w0rd")
    run = ("apply", EXAMPLE / "site.yaml", "-i", f"url={server.url}", "-i", f"token=@{token}", "--isolate")
    applied = site.run(*run, "-i", f"password=@{password}", "-d")
    assert (applied.code, names(server)) == (0, ["db-1", "web-1", "web-2"]), applied.err
    assert server.inventory.find(["db-1"])[0]["address"] == "10.0.1.1"
    for secret in ("s3cret-token", "pass-w0rd"):
        assert secret not in applied.out + applied.err + (site.home / "state.db").read_bytes().decode("latin-1")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "{invoke: dns_lokup, with: {host: a}}",
            "3:4: value 'v': no type on the module path has a function 'dns_lokup'",
        ),
        ("{invoke: dns.dns_lokup}", "value 'v': type 'dns' has no function 'dns_lokup'; did you mean 'dns_lookup'?"),
        ("{invoke: dsn.x}", "value 'v': unknown type 'Dsn'; did you mean 'dns'?"),
        ("{invoke: dns_lookup, with: {hst: a}}", "function 'dns.dns_lookup' has no input 'hst'; did you mean 'host'?"),
        ("{invoke: dns_lookup}", "value 'v': function 'dns.dns_lookup' needs the input 'host'"),
        ("{invoke: dns_lookup, with: {host: 1}}", "value 'v': host must be a string, not an integer"),
        ("{invoke: dns_lookup, wiht: {host: a}}", "value 'v': unknown key 'wiht'; did you mean 'with'?"),
        ("{invoke: 3}", "value 'v': write {invoke: FUNCTION, with: {INPUT: VALUE}}"),
        ("{invoke: dns_lookup, provider: lab, with: {host: a}}", "value 'v': unknown provider 'lab'"),
        ("{invoke: twin}", "value 'v': several types have a function 'twin'; write one of one.twin, two.twin"),
    ],
)
def test_a_wrong_call_is_refused_before_any_function_is_called(dns: Site, value: str, expected: str) -> None:
    """``validate`` checks function names, inputs and their data types."""
    for name in ("one", "two"):
        dns.write(f"m/types/{name}.py", TWIN.format(name))
    manifest = dns.write("site.yaml", f"project: p\nvalues:\n   v: {value}\n")
    refused = dns.run("validate", manifest)
    assert (refused.code, expected in refused.err, asked(dns)) == (65, True, []), refused.err


def test_an_input_that_is_refused_when_it_is_known_is_explained(dns: Site) -> None:
    """A reference that is a whole value cannot be put in quotes: it keeps its data type."""
    values = "{f: 1.5, v: {invoke: dns_lookup, with: {host: '${values.f}'}}}"
    manifest = dns.write("site.yaml", f"project: p\nvalues: {values}\noutputs: {{o: '${{values.v}}'}}\n")
    refused = dns.run("plan", manifest)
    expected = "host must be a string, not a float; a reference that is the whole value keeps its data type"
    assert (refused.code, expected in refused.err, asked(dns)) == (1, True, []), refused.err


def test_a_title_cannot_depend_on_a_function(dns: Site) -> None:
    """The manifest is refused, since a title must be known before any function is called."""
    dns.write(
        "site.yaml", 'values: {v: {invoke: dns_lookup, with: {host: a}}}\nresources: {"File[/${values.v}]": {}}\n'
    )
    refused = dns.run("plan", "site.yaml")
    assert refused.code == 65
    assert "a title cannot depend on a function, such as dns.dns_lookup" in refused.err


def test_a_type_may_have_only_functions(dns: Site) -> None:
    """Such a type is described with its functions, and a resource of it is refused."""
    dns.write("site.yaml", "resources: {'Dns[a]': {}}")
    refused = dns.run("plan", "site.yaml")
    assert (refused.code, "Dns[a]: its type has functions and no resources" in refused.err) == (65, True), refused.err
    described = dns.run("describe", "dns")
    assert (described.code, "dns_lookup(host: String) gives Array[String]: Look a host up." in described.out) == (
        0,
        True,
    )


def test_a_failing_function_fails_only_the_resources_that_use_it(dns: Site) -> None:
    """A function that raises or returns another data type fails the resources that use its result."""
    server = served(
        dns,
        """
        values:
          number: {invoke: broken}
          address: {invoke: free_address, with: {network: nonsense, host: b}}
        resources:
          Inventory_host[a]: {role: "${values.number}"}
          Inventory_host[b]: {address: "${values.address}"}
          Inventory_host[c]: {}
        """,
    )
    applied = dns.run("apply", "site.yaml")
    assert (applied.code, names(server)) == (1, ["c"])
    result = "function dns.broken must return Integer: its result must be an integer, not a string"
    assert f"Inventory_host[a]: {result}" in applied.err
    assert "Inventory_host[b]: function inventory_host.free_address failed: the inventory refuses" in applied.err


def test_an_element_of_an_attribute_is_named_in_brackets(site: Site) -> None:
    """``${Type[title].attribute[0]}`` is an element of an attribute of another resource."""
    server = served(
        site,
        """
        resources:
          Inventory_host[a]: {tags: [x, y]}
          Inventory_host[c]: {role: "${Inventory_host[a].tags[1]}"}
        """,
    )
    applied = site.run("apply", "site.yaml")
    assert (applied.code, server.inventory.find(["c"])[0]["role"]) == (0, "y"), applied.err
    manifest = site.home / "site.yaml"
    manifest.write_text(manifest.read_text().replace("tags[1]", "tags[2]"))
    refused = site.run("apply", manifest)
    expected = f"{manifest}:5:23: Inventory_host[c]: ${{Inventory_host[a].tags[2]}}: there is no '2'"
    assert (refused.code, expected in refused.err) == (65, True), refused.err


def test_a_function_needs_no_resource_of_its_provider(site: Site) -> None:
    """A configured provider that only a function uses is configured, by ``providers:`` or by ``check_config``."""
    server = site.serve()
    token = str(site.write("token", "token-one"))
    call = "{invoke: Inventory_host.free_address, with: {network: 10.0.0.0/24, host: new}"
    site.write(
        "declared.yaml",
        f"""
        project: p
        providers: {{lab: {{type: inventory_host, config: {{url: "{server.url}", token: token-one}}}}}}
        values: {{address: {call}, provider: lab}}}}
        outputs: {{address: "${{values.address}}"}}
        """,
    )
    site.write("default.yaml", f'project: q\nvalues: {{a: {call}}}}}\noutputs: {{address: "${{values.a}}"}}\n')
    declared = site.run("apply", "declared.yaml")
    assert (declared.code, "address: 10.0.0.1" in declared.out) == (0, True), declared.err
    default = site.run("apply", "default.yaml", INVENTORY_URL=server.url, INVENTORY_TOKEN_FILE=token)
    assert (default.code, "address: 10.0.0.1" in default.out) == (0, True), default.err
    refused = site.run("apply", "default.yaml")
    assert refused.code == 65
    assert "default.yaml:2:10: value 'a': the configuration of its provider: 'url' is missing" in refused.err


def test_a_failing_function_of_an_output_fails_the_run(dns: Site) -> None:
    """``plan`` and ``apply``, also with ``--noop``, report the output with its place and exit with 1."""
    manifest = dns.write(
        "site.yaml",
        """
        project: p
        values: {number: {invoke: broken}}
        outputs:
          fine: 1
          number: ${values.number}
        """,
    )
    result = "function dns.broken must return Integer: its result must be an integer, not a string"
    expected = f"{manifest}:5:3: output 'number': {result}"
    for command in (["plan"], ["apply"], ["apply", "--noop"], ["apply", "--isolate"]):
        result = dns.run(*command, manifest)
        assert (result.code, expected in result.err) == (1, True), (command, result)
    streamed = dns.run("apply", manifest, "--json")
    lines = [json.loads(line) for line in streamed.out.splitlines()]
    (diagnostic,) = (line for line in lines if line["type"] == "diagnostic")
    assert (streamed.code, diagnostic["line"], lines[-1]["exit_code"]) == (1, 5, 1)
    assert dns.run("plan", manifest, "--json").document["problems"][0]["line"] == 5


def test_a_provider_cannot_be_configured_with_its_own_function(site: Site) -> None:
    """It is an error of the output with its place, and one of ``resource``."""
    manifest = site.write(
        "site.yaml",
        """
        project: p
        providers: {lab: {type: inventory_host, config: {url: "http://127.0.0.1:9", token: "${values.word}"}}}
        values: {word: {invoke: free_address, provider: lab, with: {network: a, host: b}}}
        outputs: {word: "${values.word}"}
        """,
    )
    for command in ("plan", "apply"):
        refused = site.run(command, manifest)
        assert (refused.code, f"{manifest}:4:11: output 'word': " in refused.err) == (1, True), refused.err
        assert "needs the result of its own function" in refused.err
    listed = site.run("resource", "inventory_host", "--provider", "lab", "--manifest", manifest)
    assert (listed.code, "needs the result of its own function" in listed.err) == (1, True), listed.err


def test_a_failing_function_of_an_output_may_wait_for_a_step(dns: Site) -> None:
    """A function that an earlier step makes succeed is no problem of the plan, nor of ``--noop``."""
    number = dns.home / "number"
    dns.write(
        "m/providers/dns.py", DNS_PROVIDER.replace('return "no number"', f'return int(Path("{number}").read_text())')
    )
    dns.write(
        "site.yaml",
        f"""
        project: p
        values: {{number: {{invoke: broken}}}}
        resources: {{"File[{number}]": {{content: "7"}}}}
        outputs: {{number: "${{values.number}}"}}
        """,
    )
    assert dns.run("plan", "site.yaml").code == 0
    assert dns.run("apply", "site.yaml", "--noop").code == 0
    applied = dns.run("apply", "site.yaml")
    assert (applied.code, "number: 7" in applied.out) == (0, True), applied.err


def test_elements_of_results_and_values_are_named_in_brackets(dns: Site) -> None:
    """``[0]`` is an element of a list, and ``.key`` one of a mapping, of named values, inputs and results."""
    dns.write(
        "site.yaml",
        """
        project: p
        inputs: {ports: {type: "Array[Integer]", default: [80, 443]}}
        values:
          found: {invoke: dns_lookup, with: {host: web}}
          z: [{key: [deep]}, b]
        resources:
          File[/nowhere/a]: {ensure: absent, content: "${values.z[1]}"}
        outputs:
          a: ${values.found[1]}
          b: ${values.z[0].key[0]}
          c: ${inputs.ports[1]}
          d: "${values.z.0.key.0} and ${values.z[1]}"
        """,
    )
    applied = dns.run("apply", "site.yaml")
    assert (applied.code, applied.out.splitlines()[:4]) == (
        0,
        ["a: 10.9.8.7", "b: deep", "c: 443", "d: deep and b"],
    ), applied.err


@pytest.mark.parametrize(
    ("value", "code", "expected"),
    [
        ("${values.z[2]}", 65, "site.yaml:5:12: output 'o': ${values.z[2]}: there is no '2'; it has 2 elements"),
        ("${values.z[0].kee}", 65, "${values.z[0].kee}: there is no 'kee'; did you mean 'key'?"),
        ("${values.z[1][0]}", 65, "${values.z[1][0]}: there is no '0'; it is no list and no mapping"),
        ("${facts.os[0]}", 65, "${facts.os[0]}: there is no '0'"),
        ("${values.z[-3]}", 65, "${values.z[-3]}: there is no '-3'; it has 2 elements"),
        ("${values.found[2]}", 1, "site.yaml:5:12: output 'o': ${values.found[2]}: there is no '2'; it has 2 elements"),
    ],
)
def test_a_missing_element_is_an_error_with_its_place(dns: Site, value: str, code: int, expected: str) -> None:
    """A missing element of what the manifest holds is refused; one of a function's result fails the run."""
    dns.write(
        "site.yaml",
        f"""
        project: p
        values:
          found: {{invoke: dns_lookup, with: {{host: web}}}}
          z: [{{key: [deep]}}, b]
        outputs: {{ o: "{value}" }}
        """,
    )
    result = dns.run("apply", "site.yaml")
    assert (result.code, expected in result.err) == (code, True), result.err
