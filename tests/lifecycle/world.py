"""A world in memory, the types that describe it, and providers that fail, report falsely or are killed on demand.

A ``World`` outlasts many runs, as a machine does; ``Bench`` runs manifests against it through the library.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from resource_api import Attribute, BaseProvider, Runtime, TypeDefinition
from resource_api.model.change import exists
from resource_api.model.record import Commit
from resource_api.state.store import MemoryStore, StackName
from resource_api.system.log import ForwardedLog
from tests.lifecycle import invariants
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.record import Intent, Record, StackState
    from resource_api.model.report import Event, RunReport
    from resource_api.plan.planner import ExecutionPlan

PROJECT: Final = "world"
#: The lifecycle of a resource that is deleted before its replacement is created.
FIRST: Final = {"replace": "delete_first"}


class Kill(BaseException):
    """The process was killed: nothing after this is written."""


class Crash(BaseException):
    """An exception of a provider that is no ``Exception``."""


_NAME: Final = {"name": Attribute("String", "What it is called.", kind="namevar")}
_ENSURE: Final = {"ensure": Attribute("Enum[present, absent]", "Whether it exists.", default="present")}
_SIZE: Final = {"size": Attribute("Optional[Integer]", "How big it is.")}

TYPES: Final = (
    TypeDefinition(
        name="thing",
        docs="Something that can be made, changed and removed.",
        features={"simple_get_filter"},
        attributes={
            **_NAME,
            **_ENSURE,
            **_SIZE,
            "colour": Attribute("Optional[String]", "What it looks like."),
            "image": Attribute("Optional[String]", "What it is made from.", kind="init_only"),
            "serial": Attribute("Optional[String]", "Its number, known once it is made.", kind="read_only"),
            "password": Attribute("Optional[Sensitive[String]]", "Opens it.", write_only=True),
            "force": Attribute("Boolean", "Whether to press harder.", kind="parameter", default=False),
        },
    ),
    TypeDefinition(
        name="gizmo",
        docs="Something of another type that is made from something and gets a number.",
        attributes={
            **_NAME,
            **_ENSURE,
            **_SIZE,
            "image": Attribute("Optional[String]", "What it is made from.", kind="init_only"),
            "serial": Attribute("Optional[String]", "Its number, known once it is made.", kind="read_only"),
        },
    ),
    TypeDefinition(
        name="engine",
        docs="Something that can be made, changed, removed and refreshed.",
        features={"refreshable"},
        attributes={**_NAME, **_ENSURE, **_SIZE},
    ),
    TypeDefinition(
        name="setting",
        docs="Something that is there or not, and can only be set.",
        attributes={**_NAME, "value": Attribute("Optional[Integer]", "What it is set to.")},
    ),
    TypeDefinition(
        name="job",
        docs="Something that is done when it is due.",
        features={"imperative", "refreshable"},
        attributes={**_NAME, "size": Attribute("Optional[Integer]", "How much is to be done.")},
    ),
    TypeDefinition(
        name="gadget",
        docs="Something that cannot be looked at before the thing called tool exists.",
        attributes={**_NAME, **_ENSURE, **_SIZE},
    ),
)


class World:
    """The existing resources by type and name, and the failures that their changes meet."""

    def __init__(self) -> None:
        """Start without resources and failures."""
        self.things: dict[str, dict[str, dict[str, Any]]] = {definition.name: {} for definition in TYPES}
        #: (type, name) → what its next changes meet: fail, raise, lie, half, unmade (cannot be created), crash, kill,
        #: late (done, then killed).
        self.trouble: dict[tuple[str, str], str] = {}
        #: The types and the single resources, as (type, name), that cannot be read.
        self.unreadable: set[str | tuple[str, str]] = set()
        self.undue: set[str] = set()
        self.calls: list[tuple[str, str, str]] = []
        self.dead: Callable[[], None] = lambda: None

    def copy(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return a copy of the existing resources, for later comparison."""
        return deepcopy(self.things)

    def row(self, key: tuple[str, Any]) -> dict[str, Any] | None:
        """Return the row of a resource as its provider reads it; None if it does not exist."""
        row = self.things[key[0]].get(key[1])
        return None if row is None else {"name": key[1], **({"ensure": "present"} if _ensurable(key[0]) else {}), **row}

    def provider(self, definition: TypeDefinition) -> type[BaseProvider]:
        """Return the provider class of a type in this world."""
        world, kind = self, definition.name

        class Provider(BaseProvider):
            def get(self, context: Any, names: Collection[str] | None = None) -> Iterable[dict[str, Any]]:
                if kind in world.unreadable or (kind == "gadget" and "tool" not in world.things["thing"]):
                    raise RuntimeError(f"cannot look at any {kind}")
                expected = world.things[kind] if names is None else names
                for name in (name for name in expected if (kind, name) in world.unreadable):
                    context.failed(name, message=f"cannot look at {name}")
                return [row for name in expected if (row := world.row((kind, name))) is not None]

            def set(self, context: Any, changes: Mapping[str, Any]) -> None:
                for name, (is_, should) in changes.items():
                    assert "UNKNOWN" not in repr(should)
                    world.change(kind, name, is_, dict(should), context)

        members: dict[str, Any] = {}
        if "refreshable" in definition.features:
            members["refresh"] = lambda _self, context, names: [world.touch(kind, n, "refresh", context) for n in names]
        if "imperative" in definition.features:
            members["due"] = lambda _self, _context, name, _should: name not in world.undue
        return type("Provider", (Provider,), members)

    def touch(self, kind: str, name: str, verb: str, context: Any) -> str:
        """Record a call, and raise or report the failure of a name, if it has one."""
        self.calls.append((verb, kind, name))
        trouble = self.trouble.get((kind, name), "")
        if trouble == "raise":
            raise RuntimeError(f"{name} is broken")
        if trouble == "fail":
            context.failed(name, message=f"{name} does not want to")
        if trouble == "crash":
            raise Crash(name)
        if trouble == "kill":
            self.dead()
            raise Kill
        return trouble

    def change(self, kind: str, name: str, is_: Mapping[str, Any] | None, should: dict[str, Any], context: Any) -> None:
        """Make the requested change, or what the failure of that name leaves of it."""
        gone = not exists(should)
        verb = "delete" if gone else "create" if is_ is None else "update"
        trouble = self.touch(kind, name, verb, context)
        if trouble == "unmade" and verb == "create":
            raise RuntimeError(f"{name} cannot be made")
        if trouble in {"fail", "lie"}:
            return
        rows = self.things[kind]
        if gone:
            rows.pop(name, None)
        else:
            stored = {k: v for k, v in should.items() if k not in {"name", "ensure", "force", "password"}}
            if trouble == "half":
                stored.pop("size", None)
            rows[name] = {**rows.get(name, {}), **stored}
            if kind in {"thing", "gizmo"}:
                rows[name].setdefault("serial", f"S-{name}")
        if trouble == "half" and not gone:
            raise RuntimeError(f"{name} broke half way")
        if trouble == "late":
            self.dead()
            raise Kill


def _ensurable(kind: str) -> bool:
    return next(definition for definition in TYPES if definition.name == kind).ensurable


class MortalStore(MemoryStore):
    """A store that keeps what was written before a kill; the next run finds that, and nothing later."""

    def __init__(self) -> None:
        """Start alive."""
        super().__init__()
        self.dead = False
        self.fuse = -1

    def _live(self) -> None:
        if self.fuse == 0:
            self.dead = True
        self.fuse -= 1
        if self.dead:
            raise Kill

    def record_intents(self, name: StackName, intents: Sequence[Intent]) -> None:
        """Record intents, unless killed."""
        self._live()
        super().record_intents(name, intents)

    def commit(self, name: StackName, commit: Commit) -> StackState:
        """Commit, unless killed."""
        self._live()
        return super().commit(name, commit)

    def finish_run(self, name: StackName, run: Mapping[str, Any]) -> None:
        """Record the end of a run, unless killed."""
        self._live()
        super().finish_run(name, run)


class Bench:
    """Runs manifests against a world, and checks the invariants of every run."""

    def __init__(self) -> None:
        """Start with an empty world and an empty state."""
        self.world = World()
        self.store = MortalStore()
        self.lines: list[str] = []
        self.events: list[Event] = []
        #: Whose protection the manifest of the last run has lifted.
        self.lifted: set[tuple[str, str]] = set()
        self.world.dead = self._die
        self.registry = registry_of(*((definition, self.world.provider(definition)) for definition in TYPES))
        self.runtime = self._runtime()

    def _runtime(self) -> Runtime:
        log = ForwardedLog("notice", lambda line: self.lines.append(f"{line.level}: {line.subject}: {line.text}"))
        return Runtime(self.registry, state=self.store, project=PROJECT, log=log, on_event=self.events.append)

    def _die(self) -> None:
        self.store.dead = True

    # What is known and what is there

    @property
    def state(self) -> StackState:
        """The recorded state."""
        return self.store.load(StackName(PROJECT, "default"))

    def record(self, reference: str) -> Record | None:
        """Return the record of a reference; None if there is none."""
        return next((record for record in self.state.records.values() if str(record.reference) == reference), None)

    def put(self, kind: str, **rows: Mapping[str, Any]) -> None:
        """Make resources exist that we have not created."""
        self.world.things[kind].update({name: dict(row) for name, row in rows.items()})

    def names(self, kind: str = "thing") -> list[str]:
        """Return the names of the existing resources of a type."""
        return sorted(self.world.things[kind])

    @contextmanager
    def troubled(self, **trouble: str) -> Iterator[None]:
        """Make changes of the type ``thing`` fail within the block."""
        self.world.trouble = {("thing", name): subject for name, subject in trouble.items()}
        try:
            yield
        finally:
            self.world.trouble = {}

    # Runs

    def plan(self, resources: Mapping[str, Any], **options: Any) -> ExecutionPlan:
        """Plan, check the invariants of the plan, and that world and state do not change."""
        before, state = self.world.copy(), self.state
        plan = self.runtime.plan(manifest(resources, options), **options)
        invariants.of_plan(plan)
        assert (self.world.things, self.state) == (before, state)
        return plan

    def apply(self, resources: Mapping[str, Any], **options: Any) -> RunReport:
        """Apply, and check the invariants of plan, report, state and world."""
        return self._run(self.runtime.apply, resources, options)

    def destroy(self, resources: Mapping[str, Any], **options: Any) -> RunReport:
        """Destroy, with the same checks."""
        return self._run(self.runtime.destroy, resources, options)

    def _run(self, verb: Callable[..., RunReport], resources: Mapping[str, Any], options: dict[str, Any]) -> RunReport:
        self.lines.clear()
        self.events.clear()
        self.world.calls.clear()
        source = manifest(resources, options)
        self.lifted = _lifted(source["resources"])
        before, state = self.world.copy(), self.state
        report = verb(source, **options)
        invariants.of_run(self, invariants.Before(before, state), report, noop=bool(options.get("noop")))
        return report

    def killed(self, resources: Mapping[str, Any], **options: Any) -> None:
        """Apply and be killed; the next run finds what was written before."""
        source = manifest(resources, options)
        try:
            self.runtime.apply(source, **options)
        except Kill:
            self.revive()
            return
        raise AssertionError("nobody was killed")

    def revive(self) -> None:
        """Start a new process after a kill."""
        self.store.dead, self.store.fuse = False, -1
        self.runtime = self._runtime()
        invariants.of_state(self.state)

    def mend(self, key: tuple[str, Any], how: str) -> None:
        """Forget a record or taint it."""
        name = StackName(PROJECT, "default")
        if how == "forget":
            self.store.commit(name, Commit(drop=[key]))
        else:
            self.store.commit(name, Commit(put=[self.state.records[key]._replace(status="tainted")]))


def manifest(resources: Mapping[str, Any], options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the manifest of resources; the options ``moved``, ``removed`` and ``outputs`` are its keys."""
    more = {key: options.pop(key) for key in ("moved", "removed", "outputs") if options and key in options}
    return {"project": PROJECT, "resources": dict(resources), **more}


def _lifted(resources: Mapping[str, Any]) -> set[tuple[str, str]]:
    names = set()
    for reference, values in resources.items():
        if values.get("lifecycle", {}).get("protect") is False:
            kind, _, title = reference[:-1].partition("[")
            names.add((kind.lower(), values.get("name", title)))
    return names


def acted(report: RunReport) -> dict[str, tuple[str, str]]:
    """Return the outcome of each reported step: reference → (action, status), a change before its refresh."""
    entries: dict[str, tuple[str, str]] = {}
    for step in report.steps:
        if str(step.action) != "refresh" or step.reference not in entries:
            entries[step.reference] = (str(step.action), step.status)
    return entries


def calls(bench: Bench) -> str:
    """Return the changing calls of the last run, as ``-b +b``."""
    signs = {"create": "+", "delete": "-", "update": "~"}
    return " ".join(signs[verb] + name for verb, _, name in bench.world.calls if verb in signs)


def planned(plan: ExecutionPlan) -> dict[str, str]:
    """Return what a plan would do: reference → action, without unchanged resources."""
    return {str(step.reference): str(step.action) for step in plan.steps if str(step.action) != "same"}
