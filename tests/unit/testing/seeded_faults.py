"""Faults that authors make, each a small change of a provider of ``examples/``, and what reports it.

What reports each fault, and its message, is in ``docs/internals/faults.md``.
"""

# ruff: noqa: E501 - the changed text of a file stands on one line

from __future__ import annotations

import importlib.util
import inspect
import re
import shutil
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from resource_api import Registry
from resource_api.testing import ProviderCompliance
from resource_api.testing.examples import Examples, similar_resources
from resource_api.testing.harness import Harness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

ROOT: Final = Path(__file__).resolve().parents[3]
EXAMPLES: Final = ROOT / "examples"
PAGE: Final = ROOT / "docs" / "internals" / "faults.md"


class Fault(NamedTuple):
    """A change of an example: in ``file``, ``old`` becomes ``new``."""

    what: str
    file: str
    old: str
    new: str


LOADING: Final = "loading"
#: Characters of a message on the page.
SHOWN: Final = 300
#: Faults that are reported by no law: why.
TOLERATED: Final = {
    "the file changes the working directory": "it is restored after the file is loaded",
    "`get` prints": "what is printed goes to standard error; documents on standard output are not affected",
    "`get` changes the working directory": "it is restored after each call",
    "`get` changes the environment": "it is restored after each call",
    "`get` returns a parameter": "it is ignored: a parameter is never a reason for a change",
    "`canonicalize` fails for an accepted value": (
        "a `ValueError` is a refusal with its reason, a problem of the manifest; a `KeyError` or `TypeError` is found"
    ),
    "`set` opens a context without `with`": "nothing is reported, so the runtime reports what it reads",
    "a failure of a program is taken for an empty answer": (
        "**not found**: which exit codes mean absent is for the provider to decide; test it with a program that fails"
    ),
    "a deletion that was carried out before is a failure": (
        "**found by chance**: only if the service fails right after a deletion; test it with a service that does"
    ),
    "`upgrade` fails": "it needs values that a former version has recorded; test it with some, as `examples/dns_api/` does",
}
HEAD: Final = """\
# Faults and what reports them

Mistakes that authors of providers make. Each was put into one of the [examples](../testing-a-provider.md#more-tests), and
is reported either when the type is loaded (`loading`), by every command, or by the first law of
[`resource_api.testing`](../testing-a-provider.md) that fails. The tests put each fault in again and compare the message.

| fault | reported by | message |
| --- | --- | --- |"""
MIDDLE: Final = """
## Faults that no law reports

| fault | why |
| --- | --- |"""
QUEUE, QUEUE_TYPE = "daemon/providers/queue.py", "daemon/types/queue.py"
DNS, DNS_TYPE = "dns_api/providers/dns_record.py", "dns_api/types/dns_record.py"
ROLE, ROLE_TYPE = "postgresql/providers/postgresql_role.py", "postgresql/types/postgresql_role.py"

QUEUE_ROW = '**queue, "consumers": sorted(queue["consumers"])}'
NOOP = "                if noop:\n                    continue\n"
FAULTS: Final = [
    Fault("a method is misspelt", QUEUE, "def canonicalize(", "def canonicalise("),
    Fault(
        "a method lacks the argument `context`",
        QUEUE,
        "def canonicalize(self, context: Context, ",
        "def canonicalize(self, ",
    ),
    Fault(
        "a method lacks another argument",
        QUEUE,
        "attribute: str, is_: Resource, should: Resource) -> Any",
        "attribute: str, is_: Resource) -> Any",
    ),
    Fault("`set` of a type with `noop_handler` does not take `noop`", QUEUE, ", *, noop: bool = False", ""),
    Fault("a method has no feature", QUEUE_TYPE, '"refreshable", "validate"', '"refreshable"'),
    Fault("a feature has no method", QUEUE_TYPE, '"refreshable", "validate"', '"refreshable", "validate", "upgrade"'),
    Fault("a feature is misspelt", QUEUE_TYPE, '"canonicalize", ', '"canonicalise", '),
    Fault(
        "a default is not of its data type",
        QUEUE_TYPE,
        'kind="init_only", default="fifo"',
        'kind="init_only", default="fif0"',
    ),
    Fault("a data type is malformed", QUEUE_TYPE, "Optional[Integer[1]]", "Optional[Integer[1]"),
    Fault("no attribute is the name", QUEUE_TYPE, ', kind="namevar"', ""),
    Fault("a kind is misspelt", QUEUE_TYPE, 'kind="read_only"', 'kind="readonly"'),
    Fault(
        "the file prints when it is loaded", QUEUE, "#: Seconds by the last", 'print("loaded")\n#: Seconds by the last'
    ),
    Fault(
        "the file exits when it is loaded",
        QUEUE,
        "#: Seconds by the last",
        "raise SystemExit(3)\n#: Seconds by the last",
    ),
    Fault(
        "the file changes `sys.path`",
        QUEUE,
        "#: Seconds by the last",
        'import sys\nsys.path.insert(0, "/opt")\n#: Seconds by the last',
    ),
    Fault(
        "the file changes the working directory",
        QUEUE,
        "#: Seconds by the last",
        'os.chdir("/")\n#: Seconds by the last',
    ),
    Fault("a name is not imported", QUEUE, "import json\n", ""),
    Fault("a provider imports a package that is not there", QUEUE, "import json\n", "import json\nimport requestz\n"),
    Fault(
        "`get` exits",
        QUEUE,
        '        for name, queue in self._send("status")',
        '        raise SystemExit(3)\n        for name, queue in self._send("status")',
    ),
    Fault("`set` exits", QUEUE, NOOP, f"{NOOP}                raise SystemExit(3)\n"),
    Fault(
        "`get` prints",
        QUEUE,
        '        for name, queue in self._send("status")',
        '        print("reading")\n        for name, queue in self._send("status")',
    ),
    Fault(
        "`get` changes the working directory",
        QUEUE,
        '        for name, queue in self._send("status")',
        '        os.chdir("/tmp")\n        for name, queue in self._send("status")',
    ),
    Fault(
        "`get` changes the environment",
        QUEUE,
        '        for name, queue in self._send("status")',
        '        os.environ["QUEUED"] = "read"\n        for name, queue in self._send("status")',
    ),
    Fault(
        "`get` returns None",
        QUEUE,
        '        for name, queue in self._send("status").items():\n            yield',
        '        for name, queue in self._send("status").items():\n            _ =',
    ),
    Fault("`get` returns an undeclared attribute", QUEUE, QUEUE_ROW, f'"size": 1, {QUEUE_ROW}'),
    Fault(
        "`get` returns a text for a number", QUEUE, QUEUE_ROW, QUEUE_ROW.replace("}", ', "limit": str(queue["limit"])}')
    ),
    Fault(
        "`get` returns a value in another form",
        QUEUE,
        'sorted(queue["consumers"])',
        'sorted(queue["consumers"], reverse=True)',
    ),
    Fault("`get` returns a resource without its name", QUEUE, '"name": name, **queue', '"name": None, **queue'),
    Fault(
        "`get` returns a resource twice",
        QUEUE,
        '"ensure": "present", "name": name',
        '"ensure": "present", "name": name.rstrip("23-")',
    ),
    Fault("`get` returns a parameter", QUEUE, QUEUE_ROW, QUEUE_ROW.replace("}", ', "purge": True}')),
    Fault(
        "`get` remembers what it has read",
        QUEUE,
        'for name, queue in self._send("status").items()',
        'for name, queue in self.__dict__.setdefault("read", self._send("status")).items()',
    ),
    Fault(
        "`get` takes a daemon that does not answer for an empty one",
        QUEUE,
        '            raise ResourceError(f"queued does not answer at {self.socket}: {error}") from error\n',
        "            return {}\n",
    ),
    Fault(
        "`get` is slow",
        QUEUE,
        '        for name, queue in self._send("status")',
        '        __import__("time").sleep(0.35)\n        for name, queue in self._send("status")',
    ),
    Fault(
        "`get` changes what it reads",
        QUEUE,
        '        for name, queue in self._send("status")',
        '        self._edit("manual", {"ensure": "present", "limit": id(context) % 1000 + 1})\n        for name, queue in self._send("status")',
    ),
    Fault(
        "`canonicalize` is not idempotent",
        QUEUE,
        'sorted(set(resource["consumers"]))',
        'sorted({f"{each}-x" for each in resource["consumers"]})',
    ),
    Fault("`canonicalize` expects an attribute", QUEUE, 'resource.get("pause")', 'resource["pause"]'),
    Fault(
        "`canonicalize` adds a default",
        QUEUE,
        "            pause = resource",
        '            resource.setdefault("limit", 1000)\n            pause = resource',
    ),
    Fault("`canonicalize` returns nothing", QUEUE, "        return resources\n", ""),
    Fault("`canonicalize` fails for an accepted value", QUEUE, "int(pause[:-1])", "int(pause[:-1].lstrip('0'))"),
    Fault(
        "`insync` is always true",
        QUEUE,
        '        if attribute != "consumers" or not should["consumers"]:\n            return None',
        "        return True",
    ),
    Fault("`insync` is never true", QUEUE, "if missing else True", "if missing else False"),
    Fault("`insync` returns a text", QUEUE, "if missing else True", 'if missing else "yes"'),
    Fault("`validate` expects an attribute", QUEUE, 'should.get("pause")', 'should["pause"]'),
    Fault(
        "`validate` yields no problem but a number",
        QUEUE,
        '        pause = should.get("pause")\n',
        '        yield 24\n        pause = should.get("pause")\n',
    ),
    Fault("`validate` refuses what is valid", QUEUE, "24 * UNITS", "0 * UNITS"),
    Fault("`refresh` fails", QUEUE, '        self._send("reload")\n\n', '        self._send("restart")\n\n'),
    Fault("`set` changes something under noop", QUEUE, NOOP, ""),
    Fault(
        "an update resets what is not declared",
        QUEUE,
        "        if should.get(attribute) is not None:\n            assign(block, attribute, str(should[attribute]))",
        "        default = {'limit': 1000, 'pause': 60}.get(attribute)\n        if should.get(attribute, default) is not None:\n            assign(block, attribute, str(should.get(attribute, default)))",
    ),
    Fault(
        "`set` reports a resource twice",
        QUEUE,
        "                self._edit(name, should)\n",
        "                self._edit(name, should)\n            context.updated(name)\n",
    ),
    Fault(
        "`set` reports a name that it was not given",
        QUEUE,
        "with context.processing(name, is_",
        'with context.processing(f"{name}x", is_',
    ),
    Fault(
        "`set` opens a context without `with`",
        QUEUE,
        "            with context.processing(name, is_, should):\n",
        "            context.processing(name, is_, should)\n            if True:\n",
    ),
    Fault(
        "`set` forgets the last name",
        QUEUE,
        "in changes.items():\n            with",
        "in list(changes.items())[:-1]:\n            with",
    ),
    Fault(
        "`set` handles one change only",
        QUEUE,
        "        for name, (is_, should) in changes.items():\n            with",
        "        [_] = changes\n        for name, (is_, should) in changes.items():\n            with",
    ),
    Fault(
        "`set` expects a change",
        QUEUE,
        "        for name, (is_, should) in changes.items():\n            with",
        "        context.debug(next(iter(changes)))\n        for name, (is_, should) in changes.items():\n            with",
    ),
    Fault(
        "`set` does not make the change effective",
        QUEUE,
        '            self._send("reload")\n        except',
        "            pass\n        except",
    ),
    Fault(
        "`set` writes another value",
        QUEUE,
        "assign(block, attribute, str(should[attribute]))",
        'assign(block, attribute, str(should[attribute]).replace("5", "6"))',
    ),
    Fault("`set` forgets an attribute", QUEUE, '("discipline", "limit", "pause")', '("limit", "pause")'),
    Fault("`set` changes its argument", QUEUE, NOOP, f'{NOOP}                should["limit"] = 1\n'),
    Fault(
        "a deletion deletes others too", QUEUE, "joined(lines[: start - 1] + lines[end:])", "joined(lines[: start - 1])"
    ),
    Fault("a deletion does nothing", QUEUE, "joined(lines[: start - 1] + lines[end:])", "text"),
    Fault(
        "a deletion needs more than the name", QUEUE, 'should.get("purge")', 'should["limit"] and should.get("purge")'
    ),
    Fault(
        "`get` stops at the first page",
        DNS,
        'self.client.items(f"{path}?{urlencode(chosen)}", PAGING)',
        'self.client.get(f"{path}?{urlencode(chosen)}").body["items"]',
    ),
    Fault("`get` reads only the names of the first request", DNS, "range(0, len(own_names), AT_ONCE)", "[0]"),
    Fault(
        "`get` lists nothing",
        DNS,
        "        for zone in self._zones():\n",
        "        for zone in self._zones() if names else ():\n",
    ),
    Fault(
        "`get` returns the first of the names",
        DNS,
        "if self._zone(name) == zone})",
        "if self._zone(name) == zone})[:1]",
    ),
    Fault(
        "`get` takes a service that cannot be reached for an empty one",
        DNS,
        '            self.zones = [zone["name"] for zone in self.client.items("/zones", PAGING)]\n',
        '            try:\n                self.zones = [zone["name"] for zone in self.client.items("/zones", PAGING)]\n            except http.RequestError as error:\n                if not (error.status == 0):\n                    raise\n                return []\n',
    ),
    Fault("a request is not repeated after 429", DNS, "retries=retries", "retries=0"),
    Fault(
        "a repeated creation is carried out twice",
        DNS,
        "headers=key, repeat=True",
        "repeat=True",
    ),
    Fault(
        "a deletion that was carried out before is a failure",
        DNS,
        "self.client.delete(record_path(is_))",
        "self.client.request('DELETE', record_path(is_))",
    ),
    Fault("a form of the name is not canonical", DNS, 'name.lower().rstrip(".")', "name.lower()"),
    Fault(
        "`canonicalize` asks the system",
        DNS,
        '            resource["name"] = host(',
        '            __import__("socket").getaddrinfo("localhost", 80)\n            resource["name"] = host(',
    ),
    Fault(
        "`canonicalize` drops an attribute",
        DNS,
        '            resource["name"] = host(',
        '            resource.pop("update_key", None)\n            resource["name"] = host(',
    ),
    Fault("`plan` expects the resource to exist", DNS, 'is_ is not None and "view" in should', '"view" in should'),
    Fault(
        "`plan` returns a mapping",
        DNS,
        'return Planned(replace=["view"] if changed else [])',
        'return {"replace": ["view"] if changed else []}',
    ),
    Fault("`plan` names an unknown attribute", DNS, '["view"] if changed else []', '["views"]'),
    Fault("`check_config` returns nothing", DNS, "        return config\n", "        return None\n"),
    Fault("`check_config` drops a setting", DNS, "        return config\n", '        return {"url": config["url"]}\n'),
    Fault(
        "`configure` expects another setting",
        DNS,
        '        retries = config["attempts"] - 1\n',
        '        retries = config["attempts"] - 1\n        self.proxy = config["proxy"]\n',
    ),
    Fault(
        "a function lacks an input",
        DNS,
        "def zone_of(self, context: Context, name: str)",
        "def zone_of(self, context: Context)",
    ),
    Fault("a function is not implemented", DNS, "def zone_of(", "def _zone_of("),
    Fault("a type with `config` has no `configure`", DNS, "def configure(", "def _configure("),
    Fault("`upgrade` fails", DNS, 'if "value" in values', 'if values["value"]'),
    Fault(
        "an update sends empty values",
        DNS,
        'return {key: value for key, value in should.items() if key != "ensure"}',
        'return {"ttl": None} | {key: value for key, value in should.items() if key != "ensure"}',
    ),
    Fault(
        "a default is not of the declared data type",
        DNS,
        'return {key: value for key, value in should.items() if key != "ensure"}',
        'return {"ttl": 5} | {key: value for key, value in should.items() if key != "ensure"}',
    ),
    Fault("an update does nothing", DNS, "self.client.patch(record_path(is_), fields(should), repeat=True)", "pass"),
    Fault("`set` uses what does not exist yet", DNS, "elif is_ is None", "elif is_['id'] is None"),
    Fault(
        "calls side by side share a variable",
        DNS,
        "            with context.processing(name, is_, should):\n",
        "            self.body = fields(should)\n            __import__('time').sleep(0.002)\n            should = {**self.body, 'ensure': should['ensure']}\n            with context.processing(name, is_, should):\n",
    ),
    Fault(
        "a secret is in the log",
        DNS,
        "            with context.processing(name",
        "            plain = {key: getattr(value, 'reveal', lambda value=value: value)() for key, value in should.items()}\n            context.debug(f'sending {plain}')\n            with context.processing(name",
    ),
    Fault(
        "a secret is in the log, in base64",
        DNS,
        "            with context.processing(name",
        "            plain = {key: getattr(value, 'reveal', lambda value=value: value)() for key, value in should.items()}\n            context.debug(__import__('base64').b64encode(f\"k:{plain.get('update_key')}\".encode()).decode())\n            with context.processing(name",
    ),
    Fault(
        "the token of the configuration is in the log, in base64",
        DNS,
        "        self.zones: list[str] | None = None\n",
        "        self.zones: list[str] | None = None\n        context.debug(__import__('base64').b64encode(f\"u:{config['token'].reveal()}\".encode()).decode())\n",
    ),
    Fault(
        "a secret is printed",
        DNS,
        "            with context.processing(name",
        "            print({key: getattr(value, 'reveal', lambda value=value: value)() for key, value in should.items()})\n            with context.processing(name",
    ),
    Fault(
        "a secret is in another attribute", DNS, 'if key != "zone"}}', 'if key != "zone"}, "id": record["update_key"]}'
    ),
    Fault(
        "a secret is an argument of a program",
        ROLE,
        '        self._run("BEGIN;", f"CREATE',
        '        if "password" in should:\n            self.psql.attempt("-c", should["password"].reveal())\n        self._run("BEGIN;", f"CREATE',
    ),
    Fault(
        "`get` returns what is `write_only`",
        ROLE,
        '{"ensure": "present", **role',
        '{"ensure": "present", "password": "SCRAM-SHA-256", **role',
    ),
    Fault("an update never removes from a list", ROLE, 'if group not in should["member_of"])', "if False)"),
    Fault(
        "a failure of a program is taken for an empty answer",
        ROLE,
        "            raise ResourceError(done",
        '            return "[]"\n            raise ResourceError(done',
    ),
    Fault("a name is not quoted", ROLE, "return '\"' + name.replace('\"', '\"\"') + '\"'", "return name"),
    Fault("a text is not quoted", ROLE, 'text.replace("\'", "\'\'")', "text"),
    Fault(
        "nobody iterates over `lines()`",
        ROLE,
        '        self._run(f"DROP ROLE IF EXISTS {identifier(name)};")',
        '        self.psql.lines("-c", f"DROP ROLE IF EXISTS {identifier(name)};")',
    ),
    Fault(
        "`set` expects an optional attribute",
        ROLE,
        'should.get("connection_limit") is not None',
        'should["connection_limit"] is not None',
    ),
    Fault("a program that is not installed is used", ROLE, 'Command("psql"', 'Command("psqll"'),
]


def load(path: Path) -> ModuleType:
    """Return a module that is found by its path."""
    spec = importlib.util.spec_from_file_location(f"ra_fault_{path.parent.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Systems:
    """The systems that the examples manage, each started when it is first needed."""

    def __init__(self) -> None:
        """Start nothing."""
        self._stops: list[Callable[[], Any]] = []
        self._found: dict[str, Callable[[], dict[str, Any]]] = {}

    def config(self, example: str) -> dict[str, Any]:
        """Return the configuration of a provider; its system is as new."""
        if example not in self._found:
            self._found[example] = {"daemon": self._daemon, "dns_api": self._dns, "postgresql": self._role}[example]()
        return self._found[example]()

    def stop(self) -> None:
        """End all of them."""
        while self._stops:
            self._stops.pop()()

    def _serve(self, server: Any) -> None:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self._stops += [server.server_close, server.shutdown]

    def _daemon(self) -> Callable[[], dict[str, Any]]:
        module, home = load(EXAMPLES / "daemon" / "queued.py"), Path(tempfile.mkdtemp(prefix="ra-test-"))
        self._stops.append(lambda: shutil.rmtree(home))
        file, path = home / "queued.conf", str(home / "queued.sock")
        file.write_text("")
        server = module.Server(module.Daemon(file), path)
        self._serve(server)

        def new() -> dict[str, Any]:
            file.write_text("[queue manual]\nlimit = 5\n")
            server.daemon = module.Daemon(file)
            return {"file": str(file), "socket": path}

        return new

    def _dns(self) -> Callable[[], dict[str, Any]]:
        module = load(EXAMPLES / "dns_api" / "server.py")
        server = module.Server(module.Account(["example.org"]), "ra-test-token", trouble=7)
        self._serve(server)

        def new() -> dict[str, Any]:
            server.account = module.Account(["example.org"])
            server.requests.clear()
            return {"url": server.url, "token": "ra-test-token"}

        return new

    def _role(self) -> Callable[[], dict[str, Any]]:
        cluster = load(EXAMPLES / "postgresql" / "tests" / "conftest.py").Cluster()
        self._stops.append(cluster.stop)

        def new() -> dict[str, Any]:
            for name in cluster.sql("select rolname from pg_roles where rolname like 'ra-test-%'").split():
                cluster.sql(f'DROP ROLE "{name}"')
            return dict(cluster.config)

        return new


QUEUE_EXAMPLE: Final = {"name": "ra-test-a", "discipline": "lifo", "limit": 50, "pause": "5m", "consumers": ["b", "a"]}
DNS_EXAMPLE: Final = {
    "name": "RA-test-a.example.org.",
    "kind": "AAAA",
    "values": ["2001:DB8:0::2", "2001:db8::1"],
    "ttl": 300,
    "view": "internal",
    "update_key": "ra-test-secret-key",
}
ROLE_EXAMPLE: Final = {
    "name": "ra-test-A",
    "login": True,
    "connection_limit": 5,
    "member_of": ["pg_read_all_stats", "pg_monitor"],
    "comment": "it's a test",
    "password": "ra-test-secret",
}
#: By directory: the type, an example, what an update changes, and the size of a listing.
TESTED: Final[Mapping[str, tuple[str, dict[str, Any], dict[str, Any], int]]] = {
    "daemon": ("queue", QUEUE_EXAMPLE, {"limit": 60, "consumers": ["a", "b", "c"]}, 8),
    "dns_api": ("dns_record", DNS_EXAMPLE, {"values": ["2001:db8::3"], "update_key": "ra-test-other-key"}, 52),
    "postgresql": ("postgresql_role", ROLE_EXAMPLE, {"member_of": ["pg_monitor"], "password": "ra-test-other"}, 4),
}


@contextmanager
def seeded(fault: Fault | None, example: str = "") -> Iterator[Path]:
    """Yield a copy of an example with a fault."""
    example = fault.file.partition("/")[0] if fault else example
    with tempfile.TemporaryDirectory(prefix="ra-test-") as home:
        for part in ("types", "providers"):
            shutil.copytree(EXAMPLES / example / part, Path(home, part))
        if fault is not None:
            path = Path(home, fault.file.partition("/")[2])
            text = path.read_text(encoding="utf-8")
            assert text.count(fault.old) == 1, f"{fault.what}: {text.count(fault.old)} times in {fault.file}"
            path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        yield Path(home)


def harness(home: Path, example: str, config: dict[str, Any]) -> Harness:
    """Return a harness of an example. Raises ``DefinitionError`` if it cannot be loaded."""
    name, present, changed, listed = TESTED[example]
    registry = Registry.from_path(home)
    registry.provider(name)
    resources = similar_resources(registry.type(name), present)
    examples = Examples(present, {**present, **changed}, resources, config=config, listing_size=listed, slowest_get=0.3)
    return Harness(registry, name, examples)


def laws() -> list[str]:
    """Return the laws in the order in which pytest runs them, except the law of names, which repeats other failures."""
    classes = list(reversed(ProviderCompliance.__mro__))
    return list(
        dict.fromkeys(
            name for item in classes for name in vars(item) if name.startswith("test_") and "hostile" not in name
        )
    )


def report(fault: Fault | None, law: str, config: dict[str, Any], capfd: Any, example: str = "") -> str:
    """Return what a law, or loading, reports for a fault; empty if it reports nothing."""
    example = fault.file.partition("/")[0] if fault else example
    with seeded(fault, example) as home:
        try:
            tested = harness(home, example, config)
            if law != LOADING:
                method = getattr(ProviderCompliance(), law)
                with pytest.MonkeyPatch.context() as monkeypatch:
                    fixtures = {"capfd": capfd, "tmp_path": home, "monkeypatch": monkeypatch}
                    parameters = inspect.signature(method).parameters
                    method(tested, **{name: value for name, value in fixtures.items() if name in parameters})
        except pytest.skip.Exception:
            return ""
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever the author would see
            text = "\n".join([str(error), *getattr(error, "__notes__", [])])
            text = (
                text
                if isinstance(error, (AssertionError, pytest.fail.Exception))
                else f"{type(error).__name__}: {text}"
            )
            return text.partition("\nassert ")[0].replace(str(home), "DIRECTORY") or "AssertionError"
    return ""


def shown(message: str) -> str:
    """Return the first line of a message, or two if the first one announces it, as the page shows it."""
    lines = message.splitlines()
    text = " ".join(line.strip() for line in lines[: 2 if lines and lines[0].endswith(":") else 1])
    text = re.sub(r"/tmp/ra-test-[\w-]+", "DIRECTORY", text)  # noqa: S108 - a name in a text
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def rows(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the faults of the page: what, and (law, message)."""
    for subject, law, message in re.findall(r"^\| (.+?) \| `(\w+)` \| (.+) \|$", text, re.MULTILINE):
        yield subject, (law, message.replace("\\|", "|").strip("`"))


def page(mapping: Mapping[str, tuple[str, str]]) -> str:
    """Return the page of all faults, with what was found for each."""
    caught = [
        f"| {name} | `{law}` | `{shown(message).replace('|', chr(92) + '|').replace('`', chr(39))}` |"
        for name, (law, message) in mapping.items()
    ]
    tolerated = [f"| {key} | {reason} |" for key, reason in TOLERATED.items()]
    return "\n".join([HEAD, *caught, MIDDLE, *tolerated, ""])
