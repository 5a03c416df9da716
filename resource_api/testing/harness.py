"""One type under test: what the laws do with it through the runtime and beneath it, and the way back.

Everything that a law changes is remembered before it is touched and set right by ``restore``. What must hold is the
laws' part.
"""

# ruff: noqa: S101 - assert is how a law speaks

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.catalog import provider_config
from resource_api.model.change import Action, exists
from resource_api.model.values.errors import CannotList, ManifestError
from resource_api.model.values.masking import Mask
from resource_api.model.values.reference import Reference
from resource_api.model.values.text import show
from resource_api.model.values.values import reveal, same_value
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.runtime.runtime import Runtime
from resource_api.snapshot.snapshot import Snapshot
from resource_api.system import process_guard
from resource_api.system.log import Log
from resource_api.testing.examples import literal
from resource_api.testing.recording_context import Witness

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api.model.change import Change
    from resource_api.model.entry import Entry
    from resource_api.model.planner_queries import Due
    from resource_api.model.report import Report
    from resource_api.model.type_definition import Name, Resource
    from resource_api.plan.planner import Plan
    from resource_api.plugins.registry import Registry
    from resource_api.system.log import Line
    from resource_api.testing.examples import Examples

#: What the author of a provider did not think of, as opposed to a refusal that a user can act on.
BLUNDERS: Final = (KeyError, IndexError, TypeError, AttributeError, NameError)


class Bench:
    """A type, its provider, and the examples of one test."""

    def __init__(self, registry: Registry, type_name: str, examples: Examples) -> None:
        """Touch nothing yet."""
        self.registry = registry
        self.definition = registry.type(type_name)
        self.examples = examples
        self.lines: list[str] = []
        self.log = Log("debug", self._hear)
        # What the second net would catch is a leak all the same.
        self.log.mask = _Unmasked()
        self.runtime = Runtime(registry, log=self.log)
        self._touched: dict[Name, tuple[Resource, Resource | None]] = {}

    def need(self, *words: str) -> None:
        """Skip a law that the type's declaration, or the examples, leave without meaning."""
        ours = self.examples
        given = {
            "ensurable": self.definition.ensurable,
            "readable": "imperative" not in self.definition.features,
            "secrets": bool(self.definition.sensitive),
            "updated": ours.updated is not None,
            "others": bool(ours.others),
        }
        for word in words:
            if not given.get(word, word in self.definition.features):
                pytest.skip(f"type '{self.definition.name}' has no '{word}'; the law does not apply")

    # Through the runtime

    def manifest(self, *resources: Mapping[str, Any]) -> dict[str, Any]:
        """Give the manifest of ``resources`` that a user would write."""
        config = {self.definition.name: {"config": dict(self.examples.config)}} if self.examples.config else {}
        return {"providers": config, "resources": {str(self._reference(r)): self._declared(r) for r in resources}}

    def entries(self, *resources: Mapping[str, Any]) -> list[Entry]:
        """Give what the catalog makes of ``resources``, in their order. A refusal fails the law."""
        try:
            catalog = self.runtime.compile(self.manifest(*resources))
        except ManifestError as error:
            pytest.fail(f"a user could not write this: {error}")
        by_title = {entry.title: entry for entry in catalog.entries}
        return [by_title[self._reference(each).title] for each in resources]

    def names(self, *resources: Mapping[str, Any]) -> list[Name]:
        """Give the canonical names of ``resources``."""
        return [entry.name for entry in self.entries(*resources)]

    def plan(self, *resources: Mapping[str, Any], runtime: Runtime | None = None) -> Plan:
        """Give what a run would do."""
        return (runtime or self.runtime).plan(self.manifest(*resources))

    def apply(self, *resources: Mapping[str, Any], runtime: Runtime | None = None, noop: bool = False) -> Report:
        """Bring ``resources`` to what they say, remembered for ``restore``; failures are in the report."""
        self.touch(*resources)
        return (runtime or self.runtime).apply(self.manifest(*resources), noop=noop)

    def converge(self, *resources: Mapping[str, Any]) -> Report:
        """Apply; demand that nothing fails and that the next plan has nothing left to do."""
        report = self.apply(*resources)
        assert not failures(report), f"the apply fails: {failures(report)}{self.said}"
        self.settled(*resources)
        return report

    def settled(self, *resources: Mapping[str, Any], runtime: Runtime | None = None) -> None:
        """Demand that the plan of ``resources`` is empty."""
        left = [
            f"{step.reference}: {step.decision.error or step.deferred or step.action} {list(step.decision.differences)}"
            for step in self.plan(*resources, runtime=runtime).steps
            if step.action is not Action.SAME or step.decision.error or step.deferred
        ]
        assert not left, f"the next plan would not be empty, every run would change it again: {'; '.join(left)}"

    def absent(self, resource: Mapping[str, Any], *, bare: bool = False) -> Resource:
        """Give the wish that ``resource`` be gone, ``bare``: with nothing but its name."""
        kept = self.definition.namevars if bare else resource
        return {**{key: resource[key] for key in kept if key in resource}, "ensure": "absent"}

    @property
    def said(self) -> str:
        """The log so far, to be put behind a message."""
        return "".join(f"\n  {line}" for line in self.lines)

    # Beneath the runtime

    def provider(self) -> Any:
        """Give a provider as a new transaction has it."""
        return self._providers().instance(self.definition.name)

    def _providers(self) -> ProviderPool:
        providers, name = ProviderPool(self.registry, self.runtime.run), self.definition.name
        providers.configure(name, provider_config.validate_config(providers.functions(name), self.examples.config)[0])
        return providers

    def get(self, names: Collection[Name] | None, provider: Any = None) -> list[Resource]:
        """Give the rows of one call of ``get``, as they come. Raises what it raises, ``CannotList`` too."""
        provider = provider or self.provider()
        context = Context(self.definition, self.runtime.run, reading=True)
        arguments = [None if names is None else list(names)] if "simple_get_filter" in self.definition.features else []
        with process_guard.protected(), context.activate(provider):
            rows = [dict(row) for row in provider.get(context, *arguments)]
        failed = {name: outcome.reason for name, outcome in context.outcomes.items() if outcome.status == "failed"}
        assert not failed, f"get cannot read what is there: {failed}"
        return rows

    def listing(self, provider: Any = None) -> list[Resource] | None:
        """Give the rows of everything there is; None if that cannot be listed."""
        try:
            return self.get(None, provider)
        except CannotList:
            return None

    def existing(self, names: Collection[Name]) -> dict[Name, Resource]:
        """Give the rows of ``names`` that exist."""
        rows = {self.definition.name_of(row): row for row in self.get(names) if exists(row)}
        return {name: rows[name] for name in names if name in rows}

    def rows(self, provider: Any = None) -> list[Resource]:
        """Give what ``get`` lists, and what of the examples it has left out and gives when asked."""
        provider = provider or self.provider()
        rows = self.listing(provider) or []
        listed = {self.definition.name_of(row) for row in rows}
        hidden = [name for name in self.names(*self.examples.all) if name not in listed]
        if hidden and "simple_get_filter" in self.definition.features:
            rows += [row for row in self.get(hidden, provider) if self.definition.name_of(row) not in listed]
        return rows

    def look(self, provider: Any = None) -> list[tuple[Any, Resource]]:
        """Give everything of the type that exists, by name; ``read_only`` values may move by themselves."""
        moving = self.definition.names_of_kind("read_only")
        rows = [row for row in self.rows(provider) if exists(row)]
        return sorted(((self.definition.name_of(row), _without(reveal(row), moving)) for row in rows), key=repr)

    def listed(self, resource: Mapping[str, Any]) -> bool:
        """Whether a listing must have it: a namevar with a default says where ``get`` looks when it gets no names."""
        [entry] = self.entries(resource)
        attributes = self.definition.attributes
        places = [name for name in self.definition.namevars if attributes[name].has_default]
        return all(entry.should.get(name) == attributes[name].default for name in places)

    def set(self, changes: Mapping[Name, Change]) -> Witness:
        """Call ``set`` once, beneath the runtime; give what was said, and raised even if a context swallowed it."""
        subjects = {name: Subject(show(name)) for name in changes}
        provider, context = self.provider(), Witness(self.definition, self.runtime.run, subjects=subjects)
        try:
            with process_guard.protected(), context.activate(provider):
                provider.set(context, changes)
        except Exception as error:  # noqa: BLE001 - the law judges it
            context.raised.append(error)
        return context

    def due(self, snapshot: Snapshot | None = None) -> Due:
        """Ask whether the example is to be run; in a new transaction, or in that of ``snapshot``."""
        [entry] = self.entries(self.examples.present)
        answer = (snapshot or self.snapshot()).due(entry, entry.should)
        assert not answer.failure, f"the resource would fail before it is run: {answer.failure}"
        return answer

    def snapshot(self) -> Snapshot:
        """Give a new transaction's view."""
        return Snapshot(self._providers())

    # Before and after

    @contextmanager
    def still(self, what: str) -> Iterator[None]:
        """Demand that the world is the same after the block."""
        before = self._world()
        yield
        after = self._world()
        assert before == after, f"{what} changes the system: a noop run would not be safe"

    def _world(self) -> tuple[Any, ...]:
        rows = self.look() if "imperative" not in self.definition.features else self.due().run
        return rows, self.examples.world() if self.examples.world else None

    def touch(self, *resources: Mapping[str, Any]) -> None:
        """Remember what is there before it is changed; what could be deleted must be nobody's."""
        if "imperative" in self.definition.features:
            return
        new = {
            name: dict(each)
            for name, each in zip(self.names(*resources), resources, strict=True)
            if name not in self._touched
        }
        there = self.existing(list(new)) if new else {}
        if there and self.definition.ensurable:
            pytest.fail(f"{', '.join(map(show, there))} exists already; the laws would change and delete it")
        self._touched |= {name: (each, there.get(name)) for name, each in new.items()}

    def restore(self) -> None:
        """Delete what the laws have made, and set back what they have only configured."""
        if not self._touched:
            return
        failed: object = None
        # A provider that refuses the short wish must not leave behind what a law has made.
        for whole in (False, True):
            wishes = [self._former(each, row, whole=whole) for each, row in self._touched.values()]
            try:
                failed = failures(self.runtime.apply(self.manifest(*wishes)))
                break
            except ManifestError as error:
                failed = error
        if failed:
            pytest.fail(f"what the law has made is left behind: {failed}{self.said}")

    def _former(self, resource: Resource, row: Resource | None, *, whole: bool) -> Resource:
        kinds = {name: attribute.kind for name, attribute in self.definition.attributes.items()}
        kept = {name: value for name, value in resource.items() if whole or kinds[name] in {"namevar", "parameter"}}
        if self.definition.ensurable:
            return {**kept, "ensure": "absent"}
        ours = {*resource, *(self.examples.updated or {})}
        return {**kept, **{name: value for name, value in (row or {}).items() if name in ours and kinds[name] is None}}

    # Spelling

    def _reference(self, resource: Mapping[str, Any]) -> Reference:
        named = [str(resource[namevar]) for namevar in self.definition.namevars if namevar in resource]
        return Reference(self.definition.name, ", ".join(named))

    def _declared(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        declared = {name: literal(value) for name, value in resource.items()}
        ensure = self.definition.attributes.get("ensure")
        if self.definition.ensurable and ensure and not ensure.has_default and ensure.datatype.accepts("present"):
            declared.setdefault("ensure", "present")
        return declared

    def _hear(self, line: Line) -> None:
        self.lines.append(str(line))


class _Unmasked(Mask):
    """Lets secrets be seen."""

    def __call__(self, text: str) -> str:
        return text


def failures(report: Report) -> dict[str, str]:
    """Give what failed or was skipped, with the reasons."""
    return {step.reference: step.error for step in report.steps if step.status in {"failed", "skipped"}}


def _without(row: Mapping[str, Any], names: Collection[str]) -> Resource:
    return {name: value for name, value in row.items() if name not in names}


def differing(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    """Give the attributes whose values are not the same."""
    return sorted(name for name in {*left, *right} if not same_value(left.get(name), right.get(name)))
