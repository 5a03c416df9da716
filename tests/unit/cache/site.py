"""A site on which the same run is made with and without the cache."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest import mock

from resource_api import Registry, Runtime
from resource_api.model.values.errors import ResourceAPIError
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.render import plan as plan_text
from resource_api.render import text as render
from resource_api.system.log import ForwardedLog, line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.report import RunReport
    from resource_api.plan.planner import ExecutionPlan

MODULES: Final = Path(__file__).parents[2] / "scenarios" / "modules"
#: A type whose provider is configured.
CONFIGURED: Final = Path(__file__).parent / "modules"
#: The name of the cache directory beside the database.
CACHE_DIRECTORY: Final = "state.db.converged"


class Seen(NamedTuple):
    """What is visible of one run: its plan, its log, its result, and how many resources were left out of the plan."""

    plan: list[str]
    log: list[str]
    end: str
    cached_unchanged: int = 0


class CachedSite:
    """A directory with a manifest, a state, and the things of fixture types in files; every run is a new runtime."""

    def __init__(self, root: Path, *, use_cache: bool = True, modules: Path = MODULES) -> None:
        """Use the directory ``root``."""
        self.root = root
        self.use_cache = use_cache
        self.modules = modules
        self.key: str | None = None
        #: Whether providers run in workers.
        self.isolate = False
        self.manifest = root / "site.json"
        self.cache_directory = root / "state" / CACHE_DIRECTORY
        (root / "things").mkdir(parents=True, exist_ok=True)

    def write(self, resources: Mapping[str, Any], **sections: Any) -> None:
        """Write the manifest."""
        self.manifest.write_text(json.dumps({"project": "p", **sections, "resources": resources}))

    def things(self, kind: str = "widget") -> dict[str, dict[str, Any]]:
        """Return the things of a type."""
        path = self.root / "things" / f"{kind}.json"
        document: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
        return document

    def put(self, kind: str, objects: Mapping[str, Any]) -> None:
        """Write exactly these things of a type."""
        (self.root / "things" / f"{kind}.json").write_text(json.dumps(objects))

    def calls(self, kind: str = "widget") -> list[str]:
        """Return the names of the provider's methods that were called, in order."""
        path = self.root / "things" / f"{kind}.calls"
        return [json.loads(line)[0] for line in path.read_text().splitlines()] if path.exists() else []

    def runtime(self, log: Callable[[Any], None] = lambda _line: None) -> Runtime:
        """Return a new runtime."""
        registry = Registry(ModulePath([str(self.modules), str(CONFIGURED), BUNDLED], distributions=False))
        state = f"sqlite:{self.root}/state/state.db"
        return Runtime(registry, state=state, log=ForwardedLog("notice", log), key=self.key, isolate=self.isolate)

    def run(self, kind: str = "apply", inputs: Mapping[str, Any] | None = None, **options: Any) -> Seen:
        """Run ``plan``, ``noop`` or ``apply`` and return what is visible of it."""
        log: list[str] = []
        plans: list[ExecutionPlan] = []
        runtime = self.runtime(lambda event: log.append(line(event)))
        with mock.patch.dict(os.environ, {"BENCH": str(self.root / "things")}):
            try:
                end = self._end(runtime, kind, inputs or {}, plans.append, **options)
            except ResourceAPIError as error:
                return Seen([], log, f"{type(error).__name__}: {error}")
        return Seen(list(plan_text.lines(plans[0])), log, end, plans[0].cached_unchanged)

    def _end(
        self,
        runtime: Runtime,
        kind: str,
        inputs: Mapping[str, Any],
        see: Callable[[ExecutionPlan], None],
        **options: Any,
    ) -> str:
        if kind == "plan":
            see(runtime.plan(str(self.manifest), inputs, use_cache=self.use_cache, **options))
            return ""
        noop, use_cache = kind == "noop", self.use_cache
        report: RunReport = runtime.apply(
            str(self.manifest), inputs, on_plan=see, use_cache=use_cache, noop=noop, **options
        )
        return f"{report.exit_code} {render.report(report._replace(seconds=0.0))} {dict(report.outputs)}"

    def records(self) -> list[Any]:
        """Return what is recorded in every stack."""
        runtime = self.runtime()
        stacks = runtime.store.stacks()
        states = [runtime.store.load(name) for name in stacks]
        return [[list(s.records.values()), dict(s.owed), dict(s.intents), dict(s.outputs), s.serial] for s in states]

    def converge(self) -> None:
        """Apply until the conclusion that everything is in sync is cached."""
        self.run(prune=True)
        for _ in range(2):
            assert self.run().end.startswith("0 ")
