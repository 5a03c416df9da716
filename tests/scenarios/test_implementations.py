"""Several providers of one type: the machine chooses, the manifest may state another, state records which it was."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from resource_api import Attribute, BaseProvider, DefinitionError, Registry, Runtime, TypeDefinition

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api import Context, Resource
    from tests.scenarios.conftest import Bench

TYPE = """
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="parcel",
    docs="Parcels.",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present"),
        "name": Attribute("String", "Its name.", kind="namevar"),
        "size": Attribute("Integer", "Its size.", default=1),
    },
    features=[FEATURES],
    isolation="ISOLATION",
)
"""

PROVIDER = """
import json
from pathlib import Path

from resource_api import SimpleProvider

HOME = Path("HOME_DIRECTORY")


class Provider(SimpleProvider):
    priority = PRIORITY

    def suitable(self, context):
        with (HOME / "asked").open("a") as asked:
            asked.write("NAME\\n")
        return (HOME / "NAME.tool").exists() or "there is no NAME.tool"

    def _load(self):
        file = HOME / "NAME.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def _store(self, parcels):
        (HOME / "NAME.json").write_text(json.dumps(parcels))

    def get(self, context, names=None):
        parcels = self._load()
        return [{"name": name, "size": size} for name, size in parcels.items() if names is None or name in names]

    def create(self, context, name, should):
        self._store({**self._load(), name: should["size"]})

    update = create

    def delete(self, context, name):
        parcels = self._load()
        del parcels[name]
        self._store(parcels)
"""


class Parcels:
    """The type ``parcel`` with two providers, ``barge`` and ``cart``; each needs a file as its tool."""

    def __init__(self, bench: Bench, isolation: str, features: str = '"simple_get_filter"') -> None:
        """Write the type and both providers."""
        self.bench = bench
        self.home = bench.home / "parcels"
        self.home.mkdir()
        source = TYPE.replace("FEATURES", features).replace('"ISOLATION"', repr(isolation) if isolation else "None")
        (bench.modules / "types" / "parcel.py").write_text(source)
        self.add("barge")
        self.add("cart")

    def add(self, name: str, priority: int = 0, *, path: str = "") -> Path:
        """Write a provider; by default as ``providers/parcel/NAME.py``."""
        file = self.bench.modules / "providers" / (path or f"parcel/{name}.py")
        file.parent.mkdir(exist_ok=True, parents=True)
        source = PROVIDER.replace("HOME_DIRECTORY", str(self.home)).replace("PRIORITY", str(priority))
        file.write_text(source.replace("NAME", name))
        return file

    def install(self, *names: str) -> None:
        """Make providers suitable."""
        for name in names:
            (self.home / f"{name}.tool").touch()

    def remove(self, name: str) -> None:
        """Make a provider unsuitable."""
        (self.home / f"{name}.tool").unlink()

    def of(self, name: str) -> dict[str, int]:
        """Return the parcels of one provider."""
        file = self.home / f"{name}.json"
        return json.loads(file.read_text()) if file.exists() else {}


@pytest.fixture(params=["", "process"], ids=["in process", "in workers"])
def parcels(bench: Bench, request: pytest.FixtureRequest) -> Parcels:
    """Return the type with two providers, of which none is suitable yet."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home / 'state.db'}"
    return Parcels(bench, request.param)


def test_the_first_suitable_provider_manages_the_resources(parcels: Parcels) -> None:
    """The order is that of the names; one that is not suitable is left out."""
    parcels.install("cart")
    assert parcels.bench.apply("resources: {'Parcel[a]': {}}").code == 0
    assert (parcels.of("barge"), parcels.of("cart")) == ({}, {"a": 1})
    parcels.install("barge")
    assert parcels.bench.apply("resources: {'Parcel[b]': {}}").code == 0
    assert (parcels.of("barge"), parcels.of("cart")) == ({"b": 1}, {"a": 1})


def test_a_higher_priority_is_preferred(parcels: Parcels) -> None:
    """The provider that wants to be the last resort declares a negative one."""
    parcels.install("barge", "cart")
    parcels.add("barge", priority=-1)
    assert parcels.bench.apply("resources: {'Parcel[a]': {}}").code == 0
    assert parcels.of("cart") == {"a": 1}


def test_without_a_suitable_provider_each_reason_is_shown(parcels: Parcels) -> None:
    """The resources fail; nothing is taken for absent."""
    outcome = parcels.bench.apply("resources: {'Parcel[a]': {}}")
    assert outcome.code == 1
    assert (
        "Parcel[a]: no implementation of Parcel is suitable here:"
        " barge (there is no barge.tool); cart (there is no cart.tool)"
    ) in outcome.err


def test_an_earlier_resource_can_make_a_provider_suitable(parcels: Parcels) -> None:
    """Which provider it is, is decided at the turn of the resource."""
    manifest = dedent(f"""
        resources:
          File[{parcels.home}/cart.tool]: {{content: ''}}
          Parcel[a]: {{}}
    """)
    planned = parcels.bench.run("plan", parcels.bench.write("other.yaml", manifest))
    assert "(decided at its turn: no implementation of Parcel is suitable here" in planned.out
    assert parcels.bench.apply(manifest).code == 0
    assert parcels.of("cart") == {"a": 1}


def test_a_stated_implementation_is_used_although_another_is_preferred(parcels: Parcels) -> None:
    """On the resource, and in the defaults of its type; the other resources keep the machine's choice."""
    parcels.install("barge", "cart")
    manifest = "resources: {'Parcel[a]': {implementation: cart}, 'Parcel[b]': {}, 'Parcel[c]': {implementation: cart}}"
    assert parcels.bench.apply(manifest).code == 0
    assert (parcels.of("barge"), parcels.of("cart")) == ({"b": 1}, {"a": 1, "c": 1})
    assert parcels.bench.apply(manifest).out.endswith("s: 3 unchanged.\n")
    defaults = "defaults: {Parcel: {implementation: cart}}\nresources: {'Parcel[d]': {}}"
    assert parcels.bench.apply(defaults).code == 0
    assert parcels.of("cart") == {"a": 1, "c": 1, "d": 1}


def test_a_provider_of_a_configured_instance_is_stated_under_providers(parcels: Parcels) -> None:
    """All its resources have it."""
    parcels.install("barge", "cart")
    manifest = "providers: {parcel: {implementation: cart}}\nresources: {'Parcel[a]': {}}"
    assert parcels.bench.apply(manifest).code == 0
    assert parcels.of("cart") == {"a": 1}
    assert parcels.bench.run("destroy", "--yes", parcels.bench.write("site.yaml", manifest)).code == 0
    assert parcels.of("cart") == {}


def test_a_stated_implementation_that_is_not_suitable_fails_its_resources_only(parcels: Parcels) -> None:
    """The others are managed by what the machine has."""
    parcels.install("barge")
    outcome = parcels.bench.apply("resources: {'Parcel[a]': {implementation: cart}, 'Parcel[b]': {}}")
    assert outcome.code == 1
    assert "Parcel[a]: the implementation 'cart' of Parcel is not suitable: there is no cart.tool" in outcome.err
    assert parcels.of("barge") == {"b": 1}


def test_an_unknown_implementation_is_an_error_of_the_manifest(parcels: Parcels) -> None:
    """The message names the others, and nothing is touched."""
    outcome = parcels.bench.apply("resources:\n  Parcel[a]:\n    implementation: carts")
    assert outcome.code == 65
    assert "unknown implementation 'carts' of Parcel; there are: barge, cart; did you mean 'cart'?" in outcome.err
    outcome = parcels.bench.apply("providers: {parcel: {implementation: x}}\nresources: {'Parcel[a]': {}}")
    assert outcome.code == 65
    assert "unknown implementation 'x' of Parcel; there are: barge, cart" in outcome.err


def test_a_resource_is_deleted_by_the_implementation_that_made_it(parcels: Parcels) -> None:
    """Also when the machine would choose another now; the identity of the resource is the same."""
    parcels.install("cart")
    assert parcels.bench.apply("project: p\nresources: {'Parcel[a]': {}, 'Parcel[b]': {}}").code == 0
    parcels.install("barge")
    outcome = parcels.bench.run(
        "apply", "--prune", parcels.bench.write("other.yaml", "project: p\nresources: {'Parcel[a]': {ensure: absent}}")
    )
    assert outcome.code == 0
    assert "2 deleted" in outcome.out
    assert parcels.of("cart") == {}


def test_the_implementation_is_recorded_and_exported(parcels: Parcels) -> None:
    """One of a type with a single provider is not."""
    parcels.install("cart")
    parcels.bench.apply("project: p\nresources: {'Parcel[a]': {}}")
    [record] = parcels.bench.run("state", "export").document["resources"]
    assert record["implementation"] == "cart"


def test_another_implementation_is_recorded_without_a_change(parcels: Parcels) -> None:
    """It is no part of the identity: nothing is created or deleted."""
    parcels.install("cart")
    parcels.bench.apply("project: p\nresources: {'Parcel[a]': {}}")
    parcels.install("barge")
    (parcels.home / "barge.json").write_text('{"a": 1}')
    for _ in range(2):
        outcome = parcels.bench.apply("project: p\nresources: {'Parcel[a]': {}}")
        assert outcome.code == 0
        assert "1 unchanged" in outcome.out
    [record] = parcels.bench.run("state", "export").document["resources"]
    assert record["implementation"] == "barge"


def test_a_cached_run_chooses_again(parcels: Parcels) -> None:
    """A conclusion that was reached with one provider does not hold for another."""
    parcels.install("cart")
    manifest = "project: p\nresources: {'Parcel[a]': {}, 'Parcel[b]': {}, 'Parcel[c]': {}}"
    for _ in range(3):
        assert parcels.bench.apply(manifest).code == 0
    parcels.install("barge")
    assert "3 created" in parcels.bench.apply(manifest).out
    parcels.remove("barge")
    assert "3 unchanged" in parcels.bench.apply(manifest).out


def test_refresh_reads_with_the_recorded_implementation(parcels: Parcels) -> None:
    """It is not taken for absent by the one that the machine prefers now."""
    parcels.install("cart")
    manifest = "project: p\nresources: {'Parcel[a]': {}}"
    parcels.bench.apply(manifest)
    parcels.install("barge")
    outcome = parcels.bench.run("refresh", parcels.bench.write("other.yaml", manifest))
    assert outcome.code == 0
    [record] = parcels.bench.run("state", "export").document["resources"]
    assert record["is"] == {"ensure": "present", "name": "a", "size": 1}


def test_describe_and_types_list_the_providers_with_their_reasons(parcels: Parcels) -> None:
    """As text, as Markdown and as JSON."""
    parcels.install("cart")
    run = parcels.bench.run
    for arguments in (("describe", "parcel"), ("describe", "parcel", "--format", "markdown")):
        out = run(*arguments).out
        assert "barge: not suitable: there is no barge.tool" in out
        assert "cart: suitable, used here" in out
    expected = [
        {"name": "barge", "suitable": False, "reason": "there is no barge.tool"},
        {"name": "cart", "suitable": True, "reason": None},
    ]
    assert run("describe", "parcel", "--json").document["providers"] == expected
    [listed] = [item for item in run("types", "--json").document if item["name"] == "parcel"]
    assert listed["providers"] == expected
    assert (
        "Parcels. (barge: not suitable: there is no barge.tool; cart: suitable, used here)" in run("types", "--all").out
    )
    assert "providers" not in run("describe", "group", "--json").document


def test_a_provider_beside_the_directory_has_the_name_of_its_type(parcels: Parcels) -> None:
    """It comes before those in the directory of the same priority."""
    parcels.add("parcel", path="parcel.py")
    parcels.install("parcel", "barge", "cart")
    assert parcels.bench.apply("resources: {'Parcel[a]': {}, 'Parcel[b]': {implementation: cart}}").code == 0
    assert (parcels.of("parcel"), parcels.of("cart")) == ({"a": 1}, {"b": 1})


def test_a_provider_can_be_added_to_a_type_of_another_directory(parcels: Parcels) -> None:
    """The module path is searched as a whole."""
    path = parcels.bench.home / "other"
    moved = path / "providers" / "parcel"
    moved.mkdir(parents=True)
    parcels.add("wagon").rename(moved / "wagon.py")
    parcels.install("wagon")
    parcels.bench.environment["RESOURCE_API_MODULE_PATH"] += f":{path}"
    assert parcels.bench.apply("resources: {'Parcel[a]': {}}").code == 0
    assert parcels.of("wagon") == {"a": 1}


def test_resource_lists_and_changes_what_the_chosen_provider_has(parcels: Parcels) -> None:
    """A listing is that of one provider."""
    parcels.install("cart")
    assert parcels.bench.run("resource", "parcel", "a", "size=2").code == 0
    assert parcels.of("cart") == {"a": 2}
    assert "Parcel[a]" in parcels.bench.run("resource", "parcel").out


def test_suitable_must_return_true_or_a_reason(parcels: Parcels) -> None:
    """Anything else is shown as the reason; an exception is one too."""
    parcels.install("cart")
    file = parcels.add("barge")
    source = file.read_text()
    file.write_text(source.replace('or "there is no barge.tool"', ""))
    outcome = parcels.bench.run("describe", "parcel")
    assert "suitable must return True or the reason why it is not, not False" in " ".join(outcome.out.split())
    file.write_text(source.replace("return (HOME", "raise OSError('no barge at all')\n        return (HOME"))
    assert "barge: not suitable: no barge at all" in " ".join(parcels.bench.run("describe", "parcel").out.split())


def test_a_type_that_is_read_as_a_whole_is_read_by_each_provider(bench: Bench) -> None:
    """The rows of each are used for its own resources only."""
    parcels = Parcels(bench, "", features="")
    parcels.install("barge", "cart")
    for name in ("barge", "cart"):
        (parcels.home / f"{name}.json").write_text('{"a": 1, "b": 1}')
    manifest = "resources: {'Parcel[a]': {size: 5}, 'Parcel[b]': {size: 6, implementation: cart}}"
    outcome = bench.apply(manifest)
    assert (outcome.code, parcels.of("barge"), parcels.of("cart")) == (0, {"a": 5, "b": 1}, {"a": 1, "b": 6})


def test_a_provider_of_an_unusable_name_or_priority_is_refused(parcels: Parcels) -> None:
    """The message names the file."""
    file = parcels.add("barge")
    file.write_text(file.read_text().replace("priority = 0", "priority = 'high'"))
    outcome = parcels.bench.apply("resources: {'Parcel[a]': {}}")
    assert outcome.code == 65
    assert "providers/parcel/barge.py: provider of 'parcel': priority must be an integer" in outcome.err
    file.unlink()
    parcels.add("Hand-Cart")
    outcome = parcels.bench.apply("resources: {'Parcel[a]': {}}")
    assert outcome.code == 65
    assert "'Hand-Cart' cannot name a provider" in outcome.err


def test_a_component_has_no_implementation(parcels: Parcels) -> None:
    """It holds resources of several types; the message says where to declare it."""
    parcels.bench.write(
        "modules/components/delivery.py",
        """
        from resource_api import ComponentDefinition

        COMPONENT = ComponentDefinition(name="delivery", docs="A delivery.", inputs={})


        def build(m):
            m.parcel("inside")
        """,
    )
    outcome = parcels.bench.apply("resources: {'Delivery[x]': {implementation: cart}}")
    assert outcome.code == 65
    assert "implementation is for resources: declare it in defaults of their type" in outcome.err


def test_a_version_has_the_providers_beside_it(bench: Bench) -> None:
    """A range of versions selects a type together with the providers of its directory."""
    parcels = Parcels(bench, "")
    parcels.install("barge", "cart", "wagon")
    newer = bench.home / "newer"
    (newer / "types").mkdir(parents=True)
    (newer / "providers" / "parcel").mkdir(parents=True)
    source = (bench.modules / "types" / "parcel.py").read_text()
    (newer / "types" / "parcel.py").write_text(source.replace('name="parcel",', 'name="parcel", version="2.0",'))
    parcels.add("wagon").rename(newer / "providers" / "parcel" / "wagon.py")
    bench.environment["RESOURCE_API_MODULE_PATH"] += f":{newer}"
    manifest = "providers: {two: {type: parcel, version: '>=2'}}\nresources: {'Parcel[a]': {provider: two}}"
    outcome = bench.apply(manifest)
    assert (outcome.code, parcels.of("wagon"), parcels.of("barge")) == (0, {"a": 1}, {}), outcome.err


def test_an_installed_distribution_brings_several_providers(bench: Bench) -> None:
    """Like a directory of the module path."""
    parcels = Parcels(bench, "")
    parcels.install("cart")
    packages = bench.home / "packages"
    for kind in ("types", "providers"):
        (packages / "ra_parcels" / kind).mkdir(parents=True)
    (bench.modules / "types" / "parcel.py").rename(packages / "ra_parcels" / "types" / "parcel.py")
    (bench.modules / "providers" / "parcel").rename(packages / "ra_parcels" / "providers" / "parcel")
    (packages / "ra_parcels" / "__init__.py").touch()
    points = packages / "ra_parcels-1.dist-info"
    points.mkdir()
    (points / "entry_points.txt").write_text("[resource_api.modules]\nparcels = ra_parcels\n")
    (points / "METADATA").write_text("Metadata-Version: 2.1\nName: ra-parcels\nVersion: 1\n")
    bench.environment["PYTHONPATH"] += f":{packages}"
    for options in ((), ("--isolate",)):
        outcome = bench.apply("resources: {'Parcel[a]': {}}", *options)
        assert (outcome.code, parcels.of("cart")) == (0, {"a": 1}), outcome.err


CONFIGURED = """
from resource_api import SimpleProvider


class Provider(SimpleProvider):
    stock = {}

    def suitable(self, context):
        return "NAME" != "boat" or "there is no river"

    def configure(self, context, config):
        self.place = config["place"]
        context.notice(f"NAME at {self.place}")

    def get(self, context):
        return []

    def create(self, context, name, should):
        raise ValueError(f"NAME cannot reach {self.place}")
"""


def write_configured_type(bench: Bench) -> None:
    """Write the type ``cargo``, whose providers are configured with a place."""
    bench.type(
        "cargo",
        '"name": Attribute("String", kind="namevar"), "ensure": Attribute("Enum[present, absent]", default="present")',
        config={},
    )
    source = bench.modules / "types" / "cargo.py"
    source.write_text(source.read_text().replace("config={}", 'config={"place": Attribute("String")}'))


def test_a_configured_provider_states_its_implementation(bench: Bench) -> None:
    """On a resource it is refused, because all resources of one configuration have one provider."""
    write_configured_type(bench)
    for name in ("boat", "truck", "zeppelin"):
        bench.write(f"modules/providers/cargo/{name}.py", CONFIGURED.replace("NAME", name))
    config = "config: {place: here}"
    resources = "resources: {'Cargo[a]': {ensure: absent}, 'Cargo[b]': {provider: far, ensure: absent}}"
    far = "far: {type: cargo, implementation: zeppelin, config: {place: there}}"
    outcome = bench.apply(f"providers: {{cargo: {{{config}}}, {far}}}\n{resources}")
    assert outcome.code == 0, outcome.err
    assert "truck at here" in outcome.err
    assert "zeppelin at there" in outcome.err
    refused = bench.apply(f"providers: {{cargo: {{{config}}}}}\nresources: {{'Cargo[a]': {{implementation: truck}}}}")
    assert refused.code == 65
    assert "implementation of a type with a configuration belongs under providers:" in refused.err


def test_a_program_registers_several_providers() -> None:
    """By a name of their own; a second one of the same name is refused."""
    definition = TypeDefinition(name="slip", attributes={"name": Attribute("String", kind="namevar")})

    class Slow(BaseProvider):
        priority = -1

        def get(self, _context: Context) -> list[Resource]:
            return [{"name": "slow"}]

        def set(self, _context: Context, changes: object) -> None:
            """Do nothing."""

    class Fast(Slow):
        priority = 0

        def get(self, _context: Context) -> list[Resource]:
            return [{"name": "fast"}]

    registry = Registry()
    registry.register_type(definition)
    registry.register_provider("slip", Slow)
    registry.register_provider("slip", Fast, "fast")
    assert registry.implementations("slip") == ("fast", "slip")
    assert Runtime(registry, state="memory:").resources("slip") == [{"name": "fast"}]
    # A plan that is applied keeps to the provider that its manifest states.
    runtime = Runtime(registry, state="memory:")
    stated = {"project": "p", "providers": {"slip": {"implementation": "slip"}}, "resources": {"Slip[slow]": {}}}
    assert runtime.apply(runtime.plan(stated)).summary.unchanged == 1
    with pytest.raises(DefinitionError, match="registered already as 'fast'"):
        registry.register_provider("slip", Slow, "fast")


def test_each_provider_is_closed_although_another_has_no_readable_close() -> None:
    """An attribute ``close`` that cannot be read is a warning, like a ``close`` that fails."""
    closed: list[str] = []

    class Whole(BaseProvider):
        def get(self, _context: Context) -> list[Resource]:
            return [{"name": "a"}, {"name": "b"}]

        def set(self, _context: Context, changes: object) -> None:
            """Do nothing."""

        def close(self) -> None:
            closed.append("whole")

    class Broken(BaseProvider):
        get, set = Whole.get, Whole.set

        def __getattr__(self, name: str) -> object:
            if name == "close":
                raise RuntimeError("no session")
            raise AttributeError(name)

    registry = Registry()
    registry.register_type(TypeDefinition(name="slip", attributes={"name": Attribute("String", kind="namevar")}))
    registry.register_provider("slip", Broken, "broken")
    registry.register_provider("slip", Whole, "whole")
    resources = {"Slip[a]": {"implementation": "broken"}, "Slip[b]": {"implementation": "whole"}}
    result = Runtime(registry, state="memory:").apply({"project": "p", "resources": resources})
    assert result.summary.unchanged == 2
    assert closed == ["whole"]


FREIGHT = """
import json
from pathlib import Path

from resource_api import SimpleProvider

FILE = Path("HOME_DIRECTORY/freight.json")


class Provider(SimpleProvider):
    def configure(self, context, config):
        context.notice(f"NAME at {config['place']}")

    def get(self, context, names=None):
        return json.loads(FILE.read_text()) if FILE.exists() else []

    def create(self, context, name, should):
        FILE.write_text(json.dumps([dict(should)]))

    def delete(self, context, name):
        FILE.write_text("[]")
"""


def test_an_undeclared_configured_provider_keeps_its_implementation(bench: Bench) -> None:
    """The resources of a provider that is no longer declared are deleted by the implementation that has made them."""
    write_configured_type(bench)
    for name in ("truck", "zeppelin"):
        text = FREIGHT.replace("NAME", name, 1).replace("HOME_DIRECTORY", str(bench.modules))
        bench.write(f"modules/providers/cargo/{name}.py", text)
    far = "providers: {far: {type: cargo, implementation: zeppelin, config: {place: there}}}"
    state = "--state", f"sqlite:{bench.home}/state.db"
    outcome = bench.apply(f"{far}\nresources: {{'Cargo[a]': {{provider: far}}}}", *state)
    assert outcome.code == 0, outcome.err
    outcome = bench.apply("resources: {}", "--prune", *state)
    assert outcome.code == 0, outcome.err
    assert "zeppelin at there" in outcome.err
    assert "truck" not in outcome.err
