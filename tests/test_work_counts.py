"""Bounds on counted work: calls of the system, providers and functions, commits, imports, objects. Nothing is timed."""

from __future__ import annotations

import gc
import io
import json
import re
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from io import StringIO
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, TextIO

import pytest

from resource_api import Attribute, BaseProvider, Registry, Runtime, TypeDefinition
from resource_api.cli.source_lines import SourceLines
from resource_api.fleet import run as fleet_run
from resource_api.fleet.connections import Host
from resource_api.fleet.job import HostJob, for_host, with_id
from resource_api.fleet.ledger import Ledger
from resource_api.fleet.merge import Merge
from resource_api.fleet.run import FleetRun
from resource_api.model.report import Finished
from resource_api.model.values.errors import ManifestError
from resource_api.state.store import MemoryStore, NoStore
from resource_api.system.log import Log, StreamLogger, render_line
from tests.unit.fleet import simulated
from tests.unit.fleet.simulated import SimulatedConnections

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from resource_api.model.change import Change
    from resource_api.model.record import Commit, Intent, StackState
    from resource_api.provider.context import Context
    from resource_api.state.store import StackName, StateStore

_COMMAND: Final = "from resource_api.__main__ import main; main()"
#: Modules that cost milliseconds to import, and the runs that need them.
_HEAVY: Final = {"jsonschema", "structlog", "sh", "yaml", "sqlite3", "subprocess", "socket", "tempfile"}
_COUNT: Final = 40
#: An invalid attribute, and the most function calls for it.
_MISTAKES: Final = [("sise: 1", 1200), ("require: Part[x]", 2100), ("tag: '${Part[x].size}'", 850)]

TYPE: Final = TypeDefinition(
    name="part",
    attributes={
        "name": Attribute("String", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", default="present"),
        "size": Attribute("Integer", default=1),
    },
    features=["simple_get_filter"],
)


class Counting(MemoryStore):
    """A store in memory that counts the calls of its methods."""

    def __init__(self) -> None:
        """Begin with all counts at zero."""
        super().__init__()
        self.calls: Counter[str] = Counter()

    def record_intents(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Count the call."""
        self.calls["intend"] += 1
        super().record_intents(name, intents)

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Count the call."""
        self.calls["commit"] += 1
        return super().commit(name, commit)


def console(stream: TextIO) -> Log:
    """Return a log that writes lines as the command does."""
    return Log("notice", [render_line], StreamLogger(stream), terse=True)


class World:
    """Resources in memory, and the number of calls of their provider."""

    def __init__(self, state: StateStore | None = None) -> None:
        """Begin without resources; ``state`` is a counting store unless another is given."""
        parts: dict[str, dict[str, Any]] = {}
        calls: Counter[str] = Counter()

        class Provider(BaseProvider):
            def get(self, _context: Context, names: Collection[str] | None = None) -> list[dict[str, Any]]:
                calls["get"] += 1
                return [dict(part) for name, part in parts.items() if names is None or name in names]

            def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
                calls["set"] += 1
                parts.update({name: dict(change.should) for name, change in changes.items()})

        registry = Registry()
        registry.register_type(TYPE)
        registry.register_provider("part", Provider)
        self.calls = calls
        self.store = Counting()
        # Lines as the command writes them; the log of a library costs what other tests have set up in this process.
        log = console(io.StringIO())
        self.runtime = Runtime(registry, state=state or self.store, log=log)

    def apply(self, resources: Mapping[str, Any]) -> tuple[Counter[str], Counter[str]]:
        """Apply once; return the calls of the provider and of the store."""
        self.calls.clear()
        self.store.calls.clear()
        assert self.runtime.apply({"project": "counts", "resources": resources}).exit_code == 0
        return Counter(self.calls), Counter(self.store.calls)


def flat(count: int) -> dict[str, Any]:
    """Return resources without relationships."""
    return {f"Part[{number}]": {"size": number} for number in range(count)}


def chain(count: int) -> dict[str, Any]:
    """Return resources each of which requires the one before."""
    return {f"Part[{n}]": {"require": f"Part[{n - 1}]"} if n else {} for n in range(count)}


def fan(count: int) -> dict[str, Any]:
    """Return resources all of which require the first."""
    return {f"Part[{n}]": {"require": "Part[0]"} if n else {} for n in range(count)}


@pytest.mark.parametrize("shape", [flat, chain, fan])
def test_a_segment_is_one_set_two_gets_one_intent_and_one_commit(shape: Any) -> None:
    """A run calls ``get`` once to plan and once to verify, whatever the number of resources."""
    provider, store = World().apply(shape(_COUNT))
    assert provider == {"get": 2, "set": 1}
    assert store["intend"] == 1
    assert store["commit"] <= 2  # the manifest's name and the outputs come with the end of the run


def test_a_run_without_changes_reads_once_and_writes_nothing() -> None:
    """A run without changes calls ``get`` once."""
    world = World()
    world.apply(flat(_COUNT))
    provider, store = world.apply(flat(_COUNT))
    assert provider == {"get": 1}
    assert not store


@pytest.mark.parametrize("shape", [flat, chain, fan])
def test_twice_the_resources_are_twice_the_calls(shape: Any) -> None:
    """The number of function calls grows linearly, for creations and for resources that are in sync."""
    World().apply(shape(_COUNT))  # what is imported or compiled once grows with nothing
    small, large = World(), World()
    for _ in ("made", "in order"):
        assert calls(large, shape(8 * _COUNT)) < 2.1 * calls(small, shape(4 * _COUNT))


@pytest.mark.parametrize(("shape", "most"), [(flat, 64), (chain, 100), (fan, 90)])
def test_a_resource_in_sync_costs_few_calls(shape: Any, most: int) -> None:
    """Bound the function calls for each further resource that is in sync, with and without relationships."""
    world = World()
    world.apply(shape(4 * _COUNT))
    assert calls(world, shape(4 * _COUNT)) - calls(world, shape(2 * _COUNT)) < most * 2 * _COUNT


@pytest.mark.parametrize(("shape", "most"), [(flat, 296), (chain, 329), (fan, 319)])
def test_a_created_resource_costs_few_calls(shape: Any, most: int) -> None:
    """Bound the function calls for each further resource that is planned, created, verified, logged and recorded."""
    World().apply(shape(_COUNT))
    few, many = calls(World(), shape(2 * _COUNT)), calls(World(), shape(4 * _COUNT))
    assert many - few < most * 2 * _COUNT


@pytest.mark.parametrize("chained", [False, True])
def test_twice_the_missing_directories_are_twice_the_calls(tmp_path: Path, *, chained: bool) -> None:
    """The calls to plan files in a directory that does not exist grow linearly, also of a chain."""

    def planned(count: int) -> int:
        names = [f"File[{tmp_path}/none/{number}]" for number in range(count)]
        before = [{}, *({"require": name} for name in names if chained)]
        resources = {
            name: {"content": "x", **dict(more)} for name, more in zip_longest(names, before[:count], fillvalue={})
        }
        runtime = Runtime(Registry.from_path(), state=NoStore(), log=console(io.StringIO()))
        return counted_calls(lambda: runtime.plan({"project": "counts", "resources": resources}))

    planned(_COUNT)
    assert planned(16 * _COUNT) < 2.1 * planned(8 * _COUNT)


def test_a_resource_of_a_collection_costs_at_most_a_seventh_more_calls_than_a_written_one() -> None:
    """Bound the calls to compile resources of a mapping of mappings by those of the same resources written out."""
    elements = {f"p{number}": {"size": number, "ensure": "present"} for number in range(8 * _COUNT)}
    values = {name: f"${{each.value.{name}}}" for name in ("size", "ensure")}
    repeated = {"Part[${each.key}]": {"for_each": "${inputs.all}", **values}}
    written = {f"Part[{key}]": element for key, element in elements.items()}

    def compiled(resources: Mapping[str, Any], **inputs: Any) -> int:
        manifest = {"project": "counts", "inputs": {name: {} for name in inputs}, "resources": resources}
        return counted_calls(lambda: World().runtime.compile(manifest, inputs))

    compiled(repeated, all=elements)
    assert compiled(repeated, all=elements) < 1.15 * compiled(written)


@pytest.mark.parametrize(("body", "most"), _MISTAKES)
@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_further_problem_costs_few_calls(tmp_path: Path, suffix: str, body: str, most: int) -> None:
    """Bound the function calls for each further problem with its place; all may be on one line."""
    name, _, value = body.partition(": ")
    path = tmp_path / f"site{suffix}"

    def problems(count: int) -> None:
        resources = {f"Part[{number}]": {name: value.strip("'")} for number in range(count)}
        lines = [f"  {reference}: # \n    {body}\n" for reference in resources]
        text = json.dumps({"resources": resources}) if suffix == ".json" else f"resources:\n{''.join(lines)}"
        path.write_text(text, encoding="utf-8")
        runtime = World().runtime
        with pytest.raises(ManifestError) as refused:
            runtime.plan(str(path))
        source_lines = SourceLines({}, lambda _name: TYPE, Log("notice"), time.time() + 1)
        output = [source_lines.under(problem) for problem in refused.value.problems]
        assert len([item for item in output if item]) == count

    # After so many problems no further name is compared with all names for a suggestion.
    few, many = (counted_calls(lambda count=count: problems(count)) for count in (110, 220))
    assert many - few < most * 110


def calls(world: World, resources: Mapping[str, Any]) -> int:
    """Count the calls of functions in one run."""
    return counted_calls(lambda: world.apply(resources))


def counted_calls(action: Callable[[], object]) -> int:
    """Return the number of calls of functions in Python and C during an action."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def test_a_resource_in_sync_leaves_few_objects() -> None:
    """Bound the objects that plan, catalog and snapshot hold for each resource."""
    world = World()
    world.apply(flat(2 * 1000))

    def blocks(count: int) -> int:
        manifest = {"project": "counts", "resources": flat(count)}
        gc.collect()
        before = sys.getallocatedblocks()
        plan = world.runtime.plan(manifest)
        gc.collect()
        after = sys.getallocatedblocks()
        assert plan.summary.unchanged == count
        return after - before

    blocks(1000)
    assert blocks(2 * 1000) - blocks(1000) < 10 * 1000


def test_a_created_resource_needs_little_memory() -> None:
    """Bound the peak memory in bytes for each further resource of a run without state; ``for_each`` costs a word."""

    def peak(count: int) -> int:
        world, manifest = World(NoStore()), {"project": "counts", "resources": flat(count)}
        gc.collect()
        tracemalloc.start()
        try:
            assert world.runtime.apply(manifest).summary.created == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)
    assert peak(4 * 1000) - peak(2 * 1000) < 2000 * 2010


def test_a_value_that_is_read_as_declared_is_held_once(tmp_path: Path) -> None:
    """After a run a long text is in memory once as a value and once in the manifest's bytes."""
    texts = [f"{number}" * 20_000 for number in range(10, 60)]
    expected = {f"File[{tmp_path}/{number}]": {"content": text} for number, text in enumerate(texts)}
    held: list[int] = []

    def look(event: Any) -> None:
        if isinstance(event, Finished):
            held.append(tracemalloc.get_traced_memory()[0])

    runtime = Runtime(Registry.from_path(), state=NoStore(), on_event=look)
    runtime.apply({"project": "counts", "resources": {f"File[{tmp_path}/first]": {"content": "what needs loading is"}}})
    tracemalloc.start()
    try:
        assert runtime.apply({"project": "counts", "resources": expected}).summary.created == len(texts)
    finally:
        tracemalloc.stop()
    assert held[-1] < 1.5 * sum(map(len, texts))


def files(directory: Path, count: int) -> Path:
    """Write a manifest of files that are in sync."""
    expected = {f"File[{directory}/{n:04d}]": {"content": f"{n}\n", "mode": "0644"} for n in range(count)}
    manifest = directory / f"site-{count}.json"
    manifest.write_text(json.dumps({"project": "counts", "resources": expected}))
    for number in range(count):
        path = directory / f"{number:04d}"
        path.write_text(f"{number}\n")
        path.chmod(0o644)
    return manifest


def test_ten_more_created_are_not_one_more_write_to_the_log() -> None:
    """The log lines of one segment are written by one call."""
    stream, world = Stream(), World()
    world.runtime.log.output = StreamLogger(stream)
    world.apply(flat(_COUNT))
    (text,) = stream.writes
    assert text == "".join(f"Notice: Part[{number}]: created\n" for number in range(_COUNT))


def test_a_line_that_is_logged_during_a_write_comes_after_it() -> None:
    """A line that is logged during a write, as by a signal handler, comes after it and appears once."""
    world = World()
    stream = Stream(lambda: world.runtime.log.write("notice", "", "interrupted"))
    world.runtime.log.output = StreamLogger(stream)
    world.apply(flat(15 * _COUNT))
    lines = [f"Notice: Part[{number}]: created" for number in range(15 * _COUNT)]
    assert sorted(stream.getvalue().splitlines()) == sorted([*lines, "Notice: interrupted"])


class Stream(StringIO):
    """A stream that records each call of ``write``."""

    def __init__(self, meanwhile: Callable[[], None] | None = None) -> None:
        """Begin empty; ``meanwhile`` is called once, during the first write."""
        super().__init__()
        self.writes: list[str] = []
        self._meanwhile = meanwhile

    def write(self, text: str) -> int:
        """Record the text."""
        happens, self._meanwhile = self._meanwhile, None
        if happens is not None:
            happens()
        self.writes.append(text)
        return super().write(text)


def system_calls(manifest: Path) -> Counter[str]:
    """Count the system calls of one run, by name; those that only manage memory are not counted."""
    trace = manifest.with_suffix(".trace")
    command = [sys.executable, "-c", _COMMAND, "apply", str(manifest), "--state", "memory:"]
    subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=%file,%desc,%process", "-o", str(trace), *command],
        check=True,
        capture_output=True,
    )
    lines = trace.read_text().splitlines()
    return Counter(line.split(maxsplit=1)[1].partition("(")[0] for line in lines if "(" in line)


def test_an_unchanged_file_costs_four_system_calls(tmp_path: Path) -> None:
    """They are ``lstat``, ``open``, ``read`` and ``close``."""
    few, many = files(tmp_path, 50), files(tmp_path, 250)
    system_calls(few)
    more = system_calls(many) - system_calls(few)
    assert {name for name, count in more.items() if count >= 200} == {"newfstatat", "openat", "read", "close"}
    assert sum(more.values()) < 4.1 * 200


def test_a_created_file_costs_twelve_system_calls(tmp_path: Path) -> None:
    """Two checks before the replacement, a complete temporary file without inherited rights, a rename, a check."""
    few, many = files(tmp_path, 50), files(tmp_path, 250)
    cost = []
    for manifest in (few, many):
        for path in tmp_path.glob("[0-9]*"):
            path.unlink()
        cost.append(system_calls(manifest))
    more = cost[1] - cost[0]
    assert sum(more.values()) < 12.1 * 200


def imported(*arguments: str) -> set[str]:
    """Return the modules that a command has imported when it ends."""
    script = (
        "import sys\n"
        "from resource_api.cli.main import run\n"
        "run(sys.argv[1:])\n"
        "sys.stderr.write('\\n'.join(['', 'modules:', *sys.modules]))"
    )
    process = subprocess.run([sys.executable, "-c", script, *arguments], check=True, capture_output=True, text=True)
    return set(process.stderr.partition("modules:\n")[2].splitlines())


@pytest.mark.usefixtures("_unmeasured")
def test_the_version_imports_one_module_of_ours() -> None:
    """Every other module is imported by the command that needs it."""
    version = {"resource_api.model", "resource_api.model.values", "resource_api.model.values.version"}
    ours = {name for name in imported("--version") if name.startswith("resource_api.")}
    assert ours == {"resource_api.cli", "resource_api.cli.main", *version}


@pytest.mark.usefixtures("_unmeasured")
def test_showing_a_resource_imports_nothing_heavy() -> None:
    """No parser, no database and nothing that starts programs is imported."""
    assert _HEAVY.isdisjoint(imported("resource", "user", "root"))


@pytest.mark.usefixtures("_unmeasured")
def test_a_run_from_json_without_changes_imports_nothing_heavy(tmp_path: Path) -> None:
    """Without errors, programs and state, no module for them is imported."""
    assert _HEAVY.isdisjoint(imported("apply", str(files(tmp_path, 3)), "--state", "memory:"))


@pytest.mark.usefixtures("_unmeasured")
def test_a_valid_input_imports_nothing_heavy(tmp_path: Path) -> None:
    """A valid input is accepted without jsonschema."""
    site = tmp_path / "site.json"
    site.write_text(json.dumps({"inputs": {"port": {"type": "Integer[1, 65535]"}}, "resources": {}}))
    assert _HEAVY.isdisjoint(imported("apply", str(site), "-i", "port=80", "--state", "memory:"))


@pytest.mark.usefixtures("_unmeasured")
def test_valid_files_of_providers_and_stacks_import_no_jsonschema(tmp_path: Path) -> None:
    """They are validated by their schemas, and only a refused one needs the library."""
    site, modules = tmp_path / "site.json", tmp_path / "modules"
    site.write_text(json.dumps({"inputs": {"port": {"type": "Integer"}}, "resources": {}}))
    for path, content in (("stacks/web.yaml", "port: 80\n"), ("modules/providers.yaml", "lab: {type: file}\n")):
        tmp_path.joinpath(path).parent.mkdir()
        tmp_path.joinpath(path).write_text(content)
    run = ("apply", str(site), "--stack", "web", "--state", "memory:", "--module-path", str(modules))
    modules_of_run = imported(*run)
    assert "resource_api.system.document_schema" in modules_of_run
    assert "jsonschema" not in modules_of_run


@pytest.mark.usefixtures("_unmeasured")
def test_the_no_change_cache_is_only_used_with_state(tmp_path: Path) -> None:
    """The no-change cache is neither written without state nor by a run that records changes, but by later ones."""
    manifest, text = str(files(tmp_path, 3)), f"sqlite:{tmp_path}/state/state.db"
    runs = [imported("apply", manifest, "--state", state) for state in ("memory:", "memory:", text, text, text)]
    concludes = ["resource_api.cache.incremental_plan" in modules for modules in runs]
    assert concludes == [False, False, False, True, True]


@pytest.mark.usefixtures("_unmeasured")
def test_reading_with_programs_imports_neither_sh_nor_asyncio(tmp_path: Path) -> None:
    """A guard is asked in every run; ``sh`` is there as soon as a program changes something."""
    manifest = tmp_path / "site.json"
    guard = {"command": "true", "unless": f"test -e {tmp_path}/made"}
    manifest.write_text(json.dumps({"resources": {"Exec[make it]": guard}}))
    changing = imported("apply", str(manifest), "--state", "memory:")
    (tmp_path / "made").touch()
    reading = imported("apply", str(manifest), "--state", "memory:")
    assert {"sh", "asyncio"} <= changing
    assert {"sh", "asyncio", "subprocess"}.isdisjoint(reading)
    assert "resource_api.system.process.process" in reading


@pytest.mark.usefixtures("_unmeasured")
def test_a_manifest_in_yaml_is_parsed_until_its_conclusion_is_cached(tmp_path: Path) -> None:
    """What is planned in every run, such as an expression, is kept as data."""
    resources = "".join(f"  File[{tmp_path}/{name}]: {{content: x}}\n" for name in "abc")
    manifest = tmp_path / "site.yaml"
    title = f"File[{tmp_path}/${{inputs.name}}]"
    manifest.write_text(f"inputs: {{name: {{default: d}}}}\nresources:\n{resources}  '{title}': {{content: x}}\n")
    runs = [imported("apply", str(manifest), "--state", f"sqlite:{tmp_path}/state/state.db") for _ in range(3)]
    assert ["yaml" in modules for modules in runs] == [True, True, False]


@pytest.mark.usefixtures("_unmeasured")
def test_certificates_without_changes_import_nothing_that_reads_them(tmp_path: Path) -> None:
    """What is in a key and in a certificate is known from the run before, by their contents."""
    text, key = f"X509_certificate[{tmp_path}/site.pem]", f"{tmp_path}/site.key"
    expected = {f"X509_key[{key}]": {}, text: {"private_key": key, "subject": {"CN": "a"}, "ca_certificate": None}}
    manifest = tmp_path / "site.json"
    resources = {**expected, f"File[{tmp_path}/fqdn]": {"content": "x"}}
    manifest.write_text(json.dumps({"resources": resources, "outputs": {"serial": f"${{{text}.serial}}"}}))
    runs = [imported("apply", str(manifest), "--state", f"sqlite:{tmp_path}/state/state.db") for _ in range(3)]
    assert ["cryptography" in modules for modules in runs] == [True, True, False]


@pytest.mark.usefixtures("_unmeasured")
@pytest.mark.parametrize(("arguments", "most"), [(("resource", "user", "root"), 75), (("apply",), 149)])
def test_a_command_imports_few_modules_of_ours(arguments: tuple[str, ...], most: int, tmp_path: Path) -> None:
    """Bound the imported modules of the package: each costs 0.2 ms at every start."""
    more = (str(files(tmp_path, 3)), "--state", "memory:") if arguments == ("apply",) else ()
    assert len([name for name in imported(*arguments, *more) if name.startswith("resource_api")]) <= most


def test_each_directory_of_code_is_checked_once(tmp_path: Path) -> None:
    """The number of types in it does not matter; their files are checked after they are opened."""
    for name in ("one", "two", "three"):
        for kind in ("types", "providers"):
            (tmp_path / kind).mkdir(exist_ok=True)
        declared = f'name="{name}", docs="A {name}.", attributes={{"name": Attribute("String", "It.", kind="namevar")}}'
        code = f"from resource_api import Attribute, TypeDefinition\nTYPE = TypeDefinition({declared})\n"
        (tmp_path / "types" / f"{name}.py").write_text(code)
        get = "    def get(self, context):\n        return [{'name': 'a'}]\n"
        provider = f"class Provider:\n{get}    def set(self, context, changes):\n        pass\n"
        (tmp_path / "providers" / f"{name}.py").write_text(provider)
    site = tmp_path / "site.json"
    site.write_text(json.dumps({"resources": {f"{name}[a]": {} for name in ("One", "Two", "Three")}}))
    trace = tmp_path / "trace"
    command = [sys.executable, "-c", _COMMAND, "apply", str(site), "--state", "memory:"]
    subprocess.run(["strace", "-f", "-qq", "-e", "trace=newfstatat", "-o", str(trace), *command], check=True)
    text = trace.read_text()
    looks = [
        len(re.findall(rf'"{re.escape(str(path))}", .*AT_SYMLINK_NOFOLLOW', text))
        for path in (tmp_path / "types", tmp_path / "providers", tmp_path)
    ]
    # The given directory is checked once more, because its links are followed.
    assert looks == [1, 1, 2]


_MANY_HOSTS: Final = ("asyncio", "asyncssh", "resource_api.fleet", "resource_api.cli.hosted")


@pytest.mark.usefixtures("_unmeasured")
@pytest.mark.parametrize("command", [("apply",), ("validate",), ("plan",)])
def test_a_command_without_other_hosts_imports_nothing_for_them(command: tuple[str, ...], tmp_path: Path) -> None:
    """Neither what goes over hosts nor what connects to them."""
    result = imported(*command, str(files(tmp_path, 3)), "--state", "memory:")
    assert not [name for name in result if name.startswith(_MANY_HOSTS)]


@pytest.mark.usefixtures("_unmeasured")
def test_a_run_with_state_on_this_machine_imports_nothing_for_a_server(tmp_path: Path) -> None:
    """Neither the library nor the store."""
    result = imported("apply", str(files(tmp_path, 3)), "--state", f"sqlite:{tmp_path}/state/state.db")
    assert not [name for name in result if name.startswith(("psycopg", "resource_api.state.postgresql"))]


def test_a_further_host_costs_few_calls_and_little_memory(tmp_path: Path) -> None:
    """Bound the function calls and the bytes for each further host of a run, with jobs, folding and the ledger."""

    def run(count: int) -> None:
        names = [f"web{number}" for number in range(count)]
        shared = with_id(HostJob("apply", "1", payload="digest", options={"noop": False}))
        ledger = Ledger(str(tmp_path / str(count)))
        record = ledger, ledger.begin({}, "digest", [(name, b"inputs") for name in names])
        merge = Merge()
        fleet = FleetRun(
            names,
            fleet_run.make_rollout(count, 50, None, None),
            SimulatedConnections(lambda _name: simulated.changes),
            lambda name: (Host(name), for_host(shared, {"name": name}, {}, {})),
            merge=merge,
            observer=simulated.Silent(),
            record=record,
        )
        assert fleet.run() == ""
        assert merge.counts()["changed"] == count
        assert [len(group.hosts) for group in merge.groups] == [count]
        ledger.close()

    run(10)
    few, many = counted_calls(lambda: run(200)), counted_calls(lambda: run(400))
    assert many - few < 900 * 200

    def peak(count: int) -> int:
        gc.collect()
        tracemalloc.start()
        try:
            run(count)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(1001) - peak(501) < 2000 * 500
