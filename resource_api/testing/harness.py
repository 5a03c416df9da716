"""The test harness of one type: calls through the runtime, direct calls of the provider, their records, the clean-up.

Everything that a law changes is tracked before the change and restored by ``restore``. ``recorded`` collects accesses
to the system from Python's audit events (PEP 578), so code in C and mere status calls (``stat``) are not seen.
"""
# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.catalog import provider_config
from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.values.errors import CannotList, ManifestError
from resource_api.model.values.masking import Mask
from resource_api.model.values.reference import Reference
from resource_api.model.values.text import show
from resource_api.model.values.values import literal, reveal, same_value
from resource_api.plugins.loader import ExecutableProvider
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.provider.context import Context, LoggingContext, RunContext
from resource_api.provider.outcomes import Subject
from resource_api.runtime import plan_checks
from resource_api.runtime.runtime import Runtime
from resource_api.snapshot.batched_get import Snapshot
from resource_api.system import process_guard
from resource_api.system.log import ForwardedLog, line
from resource_api.testing.examples import similar_resources

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from resource_api.model.change import Change
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import Due, ProviderFunctions
    from resource_api.model.report import RunReport
    from resource_api.model.step import Step
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.plugins.registry import Registry
    from resource_api.testing.examples import Examples

#: Exceptions that indicate a bug in a provider, as opposed to a refusal that a user can act on.
PROGRAMMING_ERRORS: Final = (KeyError, IndexError, TypeError, AttributeError, NameError)
#: Lines of the log in a message, which should fit on a screen.
SHOWN_LINES: Final = 12
SHOWN_COLUMNS: Final = 160
#: Failed resources in a message; further ones are counted.
SHOWN_FAILURES: Final = 3
#: More than one page of any service that lists by pages of a hundred or fewer.
LISTING_OF_A_SERVICE: Final = 101
#: Seconds between two listings of a service that lists changes late.
LISTING_PAUSE: Final = 0.2
#: Events that read something outside this process.
_READS: Final = {"open", "os.listdir", "os.scandir", "socket.connect", "socket.getaddrinfo", "sqlite3.connect"}
#: Events that start a program; with its arguments, and with its environment where Python reports it.
_STARTS: Final = {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.fork"}
#: Files of the interpreter, and code: they are read when something is imported.
_CODE: Final = (".py", ".pyc", ".so", ".pth")


class Harness:
    """A type, its provider, and the examples of one test. ``lines``: the log so far.

    ``implementation`` is the tested one of several providers; empty: the one that this machine chooses.
    """

    def __init__(self, registry: Registry, type_name: str, examples: Examples, implementation: str = "") -> None:
        """Prepare to test the type ``type_name`` of ``registry`` with the author's examples; change nothing yet.

        ``implementation`` names one of several providers of the type, "" the only one.
        """
        self.registry = registry
        self.implementation = implementation
        self.definition = registry.type(type_name)
        self.examples = examples
        self.lines: list[str] = []
        self.log = ForwardedLog("debug", lambda event: self.lines.append(line(event)))
        # A secret in the log that only the mask of the runtime would hide is a leak too.
        self.log.mask = _Unmasked()
        self.runtime = self.new_runtime(registry)
        #: Name → the resource that a law declared, and the row before its first change, or None.
        self._tracked: dict[Name, tuple[Resource, Resource | None]] = {}
        #: The providers that laws called directly, until ``close``.
        self._pools: list[ProviderPool] = []

    def close(self) -> None:
        """Close every provider that a law has called directly."""
        while self._pools:
            self._pools.pop().close()

    def new_runtime(self, registry: Registry) -> Runtime:
        """Return a runtime whose providers are in this process, where laws call them directly, never in workers."""
        run = RunContext(self.log)
        run.isolate = False
        return Runtime(registry, run=run)

    def require(self, *features: str) -> None:
        """Skip the present law unless the type or the examples have all ``features`` that it needs.

        Beside those that a type declares they are the keys of ``present`` below.
        """
        present = {
            "ensurable": self.definition.ensurable,
            "readable": "imperative" not in self.definition.features,
            "secrets": bool(self.definition.sensitive),
            "updated": self.examples.updated is not None,
            "others": bool(self.examples.others),
            "isolation": self.definition.isolation is not None,
            "settle": bool(self.definition.settle) or "settle" in self.definition.config.attributes,
            "provider class": not issubclass(self.provider_class, ExecutableProvider),
        }
        for feature in features:
            if not present.get(feature, feature in self.definition.features):
                pytest.skip(f"type '{self.definition.name}' has no '{feature}'; the law does not apply")

    @property
    def provider_class(self) -> type:
        """The class of the tested provider."""
        return self.registry.provider(self.definition.name, implementation=self.implementation)

    @cached_property
    def functions(self) -> ProviderFunctions:
        """The pure functions of the type, of one instance of its provider."""
        return self._new_pool().functions(self.definition.name)

    def manifest(self, *resources: Mapping[str, object]) -> dict[str, object]:
        """Return the manifest of ``resources`` that a user would write, with the provider's name and configuration."""
        fields = {"config": dict(self.examples.config), "implementation": self.implementation}
        provider = {key: value for key, value in fields.items() if value}
        providers = {self.definition.name: provider} if provider else {}
        return {"providers": providers, "resources": {str(self._reference(r)): self._declared(r) for r in resources}}

    def entries(self, *resources: Mapping[str, object]) -> list[Entry]:
        """Return the catalog's entries for ``resources``, in their order; an invalid manifest fails the law."""
        # The traceback of the compiler would be a hundred lines about this project before the one about the provider.
        __tracebackhide__ = True
        try:
            catalog = self.runtime.compile(self.manifest(*resources))
        except ManifestError as error:
            text = f"a user could not write this: {error}"
            raise pytest.fail.Exception(text) from None
        by_title = {entry.title: entry for entry in catalog.entries}
        return [by_title[self._reference(resource).title] for resource in resources]

    def names(self, *resources: Mapping[str, object]) -> list[Name]:
        """Return the canonical names of ``resources``."""
        __tracebackhide__ = True
        return [entry.name for entry in self.entries(*resources)]

    def plan(self, *resources: Mapping[str, object], runtime: Runtime | None = None) -> ExecutionPlan:
        """Return the plan of ``resources``."""
        return (runtime or self.runtime).plan(self.manifest(*resources))

    def apply(
        self, *resources: Mapping[str, object], runtime: Runtime | None = None, noop: bool = False, parallel: int = 1
    ) -> RunReport:
        """Apply ``resources`` and return the report, which may have failures; ``restore`` undoes it after the test."""
        self.track(*resources)
        return (runtime or self.runtime).apply(self.manifest(*resources), noop=noop, parallel=parallel)

    def converge(self, *resources: Mapping[str, object]) -> RunReport:
        """Apply ``resources`` and return the report; fail the law unless all succeed and the next plan is empty."""
        report = self.apply(*resources)
        assert not failures(report), f"the apply fails: {failures(report)}{self.log_text}"
        self.assert_converged(*resources)
        return report

    def assert_converged(
        self, *resources: Mapping[str, object], runtime: Runtime | None = None, source: Path | None = None
    ) -> None:
        """Fail unless the plan of ``resources``, or that of the manifest ``source``, is empty."""
        steps = (runtime or self.runtime).plan(self.manifest(*resources) if source is None else source).steps
        unconverged = [
            f"{step.reference}: {step.decision.error or step.deferred or step.action}{_differing(step)}"
            for step in steps
            if step.action is not Action.SAME or step.decision.error or step.deferred
        ]
        broken = any(step.decision.error for step in steps)
        consequence = "the next run would fail" if broken else "every run would change it again"
        assert not unconverged, f"the next plan would not be empty, {consequence}: {'; '.join(unconverged)}"

    @property
    def stages(self) -> list[Resource]:
        """The example in the stages of its life, for laws about all of them: created, updated and deleted.

        A stage without an example, or of a type that cannot delete, is left out.
        """
        absent = self.absent(self.examples.present) if self.definition.ensurable else None
        stages = (self.examples.present, self.examples.updated, absent)
        return [resource for resource in stages if resource is not None]

    @property
    def together(self) -> list[Resource]:
        """The examples; of a type that is not ensurable only the first, because the rest may not exist."""
        return self.examples.all if self.definition.ensurable else [self.examples.present]

    def absent(self, resource: Mapping[str, object], *, bare: bool = False) -> Resource:
        """Return ``resource`` with ``ensure: absent``; ``bare``: with nothing else but its name."""
        names = self.definition.namevars if bare else resource
        return {**{name: resource[name] for name in names if name in resource}, "ensure": "absent"}

    @property
    def log_text(self) -> str:
        """The end of the log so far, to append to a message."""
        more = [f"… {len(self.lines) - SHOWN_LINES} lines"] if len(self.lines) > SHOWN_LINES else []
        return "".join(f"\n  {shorten(line)}" for line in (*more, *self.lines[-SHOWN_LINES:]))

    def provider(self) -> Any:
        """Return a provider instance of a new transaction."""
        return self._providers().instance(self.definition.name)

    def _providers(self) -> ProviderPool:
        """Return the providers of a new transaction, with the implementation and configuration of this test.

        A law calls them directly, beside the runs through the runtime.
        """
        providers, name = self._new_pool(), self.definition.name
        providers.select_implementations({name: self.implementation})
        providers.configure(name, provider_config.validate_config(providers.functions(name), self.examples.config)[0])
        return providers

    def _new_pool(self) -> ProviderPool:
        """Return providers without a configuration, which ``close`` ends."""
        self._pools.append(ProviderPool(self.registry, self.runtime.run))
        return self._pools[-1]

    def get(self, names: Collection[Name] | None, provider: Any = None) -> list[Resource]:
        """Return the rows of one direct call of ``get``; ``names`` None: all. Fail the law if it reports a failure.

        Exceptions of ``get`` pass, including ``CannotList``.
        """
        provider = provider or self.provider()
        context = self.context(reading=True)
        with process_guard.protected(), context.activate(provider):
            returned = _returned(provider.get, context, *self._get_arguments(names))
            assert returned is not None, (
                "every plan would fail: get returns None; return a list, or yield each resource"
            )
            rows = [dict(row) for row in returned]
        failed = _failed(context)
        assert not failed, f"get cannot read what exists: {failed}"
        return rows

    def listing(self, provider: object = None) -> list[Resource] | None:
        """Return the rows of all resources, or None if the provider cannot list them, which is allowed."""
        try:
            return self.get(None, provider)
        except CannotList:
            return None

    def settled_listing(self, names: Collection[Name]) -> list[Resource] | None:
        """Wait until ``names`` are among all listed resources; return the rows of all, or None without a listing.

        Services may show changes late. After the ``settle`` seconds of the type the rows of the last listing are
        returned even if names are missing: the law reports these.
        """
        end = time.monotonic() + self._providers().settle(self.definition)
        while (rows := self.listing()) is not None and time.monotonic() < end:
            if {self.definition.name_of(row) for row in rows}.issuperset(names):
                break
            time.sleep(LISTING_PAUSE)
        return rows

    def _get_arguments(self, names: Collection[Name] | None) -> list[object]:
        """Return the arguments of ``get`` after the context: ``names`` if the type promises to honour them."""
        filtered = "simple_get_filter" in self.definition.features
        return [None if names is None else list(names)] if filtered else []

    def rows_or_failure(self, names: Collection[Name], provider: Any) -> dict[Name, Resource] | None:
        """Return existing name → row, or None after a failure of ``get``, for laws that allow both."""
        context = self.context(reading=True)
        try:
            with process_guard.protected(), context.activate(provider):
                returned = provider.get(context, *self._get_arguments(names))
                rows = {self.definition.name_of(row): row for row in returned if exists(row)}
        except Exception:  # noqa: BLE001 - whatever it raises
            return None
        return None if context.outcomes.any_failed else rows

    def preflight(self, *resources: Mapping[str, object]) -> list[str]:
        """Return the warnings of ``preflight`` in a plan of ``resources``."""
        return [problem.message for problem in plan_checks.preflight_warnings(self.plan(*resources), self._providers())]

    def context(self, *, reading: bool = False) -> Context:
        """Return the context of a call of its own."""
        return Context(self.definition, self.runtime.run, reading=reading)

    def many(self, count: int | None = None) -> list[Resource]:
        """Return the example and similar resources, ``count`` in all; by default enough for more than one page.

        For the law that ``get`` reads all pages of a service. If the type refuses similar names, return the examples.
        """
        if count is None:
            count = self.examples.listing_size
        if count is None:
            count = LISTING_OF_A_SERVICE if self.definition.config.attributes else 0
        similar = similar_resources(self.definition, self.examples.present, count - 1) if count > 1 else []
        return [self.examples.present, *similar] if len(similar) >= len(self.examples.others) else self.examples.all

    def existing(self, names: Collection[Name]) -> dict[Name, Resource]:
        """Return the rows of those ``names`` that exist."""
        rows = {self.definition.name_of(row): row for row in self.get(names) if exists(row)}
        return {name: rows[name] for name in names if name in rows}

    def row(self, resource: Mapping[str, object]) -> Resource:
        """Return the row of an existing resource."""
        [name] = self.names(resource)
        return self.existing([name])[name]

    def rows(self, provider: object = None) -> list[Resource]:
        """Return the rows that ``get`` lists, and those of the examples that it returns by name, but does not list.

        A law about rows needs those of the examples also from a provider that lists no or not all resources.
        """
        provider = provider or self.provider()
        rows = self.listing(provider) or []
        listed = {self.definition.name_of(row) for row in rows}
        hidden = [name for name in self.names(*self.examples.all) if name not in listed]
        if hidden and "simple_get_filter" in self.definition.features:
            rows += [row for row in self.get(hidden, provider) if self.definition.name_of(row) not in listed]
        return rows

    def observe(self, provider: object = None) -> list[tuple[Any, Resource]]:
        """Return all existing resources by name, to check that something has not changed them.

        ``read_only`` values are left out, because they may vary by themselves.
        """
        volatile = self.definition.names_of_kind("read_only")
        rows = [row for row in self.rows(provider) if exists(row)]
        return sorted(((self.definition.name_of(row), without(reveal(row), volatile)) for row in rows), key=repr)

    def listed(self, resource: Mapping[str, object]) -> bool:
        """Return whether ``get`` without names must return a resource.

        If namevars have defaults, such as the file of a setting, a listing has only the resources with these defaults:
        no type could list the settings of all files.
        """
        [entry] = self.entries(resource)
        attributes = self.definition.attributes
        defaults = [name for name in self.definition.namevars if attributes[name].has_default]
        return all(entry.should.get(name) == attributes[name].default for name in defaults)

    def call(self, method: str, changes: Iterable[Name] | Mapping[Name, Change]) -> RecordingContext:
        """Call ``set`` or ``refresh`` once, directly, with its changes or names.

        Return a context with its outcomes and every exception, handled or not: from the report of a run, a law could
        not distinguish a mistake in the provider's code from a refusal.
        """
        provider, subjects = self.provider(), {name: Subject(show(name)) for name in changes}
        context = RecordingContext(self.definition, self.runtime.run, subjects=subjects)
        try:
            with process_guard.protected(), context.activate(provider):
                getattr(provider, method)(context, changes)
        except Exception as error:  # noqa: BLE001 - the law judges it
            context.raised.append(error)
        return context

    def due(self, snapshot: Snapshot | None = None) -> Due:
        """Return the provider's answer whether the example, of an imperative type, is due.

        ``snapshot``: the transaction in which it is asked; by default a new one.
        """
        [entry] = self.entries(self.examples.present)
        answer = (snapshot or self.snapshot()).due(entry, entry.should)
        assert not answer.failure, f"the resource would fail before it runs: {answer.failure}"
        return answer

    def snapshot(self) -> Snapshot:
        """Return the snapshot of a new transaction."""
        return Snapshot(self._providers())

    @contextmanager
    def assert_unchanged(self, action: str) -> Iterator[None]:
        """Fail the law if the ``with`` block changes the system; ``action``: its name in the message."""
        before = self._system_state()
        yield
        after = self._system_state()
        assert before == after, f"{action} changes the system: a noop run would not be safe"

    def _system_state(self) -> tuple[object, ...]:
        """Return the rows, or of an imperative type whether it is due, and the author's own view of the system."""
        rows = self.observe() if "imperative" not in self.definition.features else self.due().run
        return rows, self.examples.world() if self.examples.world else None

    def track(self, *resources: Mapping[str, object]) -> None:
        """Record resources before a law changes them, for ``restore``.

        Fail if one exists already and can be deleted: it is not the law's, and ``restore`` would delete it.
        """
        if "imperative" in self.definition.features:
            return
        names = self.names(*resources)
        new = {n: dict(r) for n, r in zip(names, resources, strict=True) if n not in self._tracked}
        existing = self.existing(list(new)) if new else {}
        if existing and self.definition.ensurable:
            pytest.fail(f"{', '.join(map(show, existing))} exists already; the laws would change and delete it")
        self._tracked |= {name: (resource, existing.get(name)) for name, resource in new.items()}

    def restore(self) -> None:
        """Delete the resources that the laws created, and restore those that they configured, for the next test."""
        if not self._tracked:
            return
        failed: object = None
        # If the provider refuses a deletion by name alone, the whole resource is declared.
        for complete in (False, True):
            former = [self._former(resource, row, complete=complete) for resource, row in self._tracked.values()]
            try:
                failed = failures(self.runtime.apply(self.manifest(*former)))
                break
            except ManifestError as error:
                failed = error
        if failed:
            pytest.fail(f"what the law has created is left behind: {failed}{self.log_text}")

    def _former(self, resource: Resource, row: Resource | None, *, complete: bool) -> Resource:
        """Return the declaration that restores a resource: as it was before the laws, or absent.

        ``complete``: with all attributes that the law declared, where a deletion by name alone is refused.
        """
        kinds = {name: attribute.kind for name, attribute in self.definition.attributes.items()}
        declared = {name: v for name, v in resource.items() if complete or kinds[name] in {"namevar", "parameter"}}
        if self.definition.ensurable:
            return {**declared, "ensure": "absent"}
        changed = {*resource, *(self.examples.updated or {})}
        # Only properties, which have no kind, can be set back.
        return declared | {
            name: value for name, value in (row or {}).items() if name in changed and kinds[name] is None
        }

    def _reference(self, resource: Mapping[str, object]) -> Reference:
        """Return the reference of a resource, whose title is its declared names."""
        names = [str(resource[namevar]) for namevar in self.definition.namevars if namevar in resource]
        return Reference(self.definition.name, ", ".join(names))

    def _declared(self, resource: Mapping[str, object]) -> dict[str, object]:
        """Return a resource as it stands in a manifest.

        If its type has no default for ``ensure``, ``ensure: present`` is added: without it nothing would be created.
        """
        declared: dict[str, object] = literal(reveal(dict(resource)))
        ensure = self.definition.attributes.get("ensure")
        if self.definition.ensurable and ensure and not ensure.has_default and ensure.datatype.accepts("present"):
            declared.setdefault("ensure", "present")
        return declared


def _returned(method: Callable[..., object], *arguments: object) -> Any:
    """Return the result of a method, as a list if it is a generator; fail the law if the method calls ``sys.exit``.

    That would otherwise end the whole test session.
    """
    try:
        returned = method(*arguments)
        return list(returned) if isinstance(returned, Iterator) else returned
    except SystemExit as error:
        pytest.fail(
            f"every plan would fail: {method.__name__} exits (code {error.code}); raise ResourceError, which fails the"
            " resources alone"
        )


def _differing(step: Step) -> str:
    """Return the differences of a planned step as text; empty if there are none."""
    texts = [f"{d.attribute} is {show(d.is_)}, should be {show(d.should)}" for d in step.decision.differences]
    return f" ({'; '.join(texts)})" if texts else ""


def shorten(text: str) -> str:
    """Return a line that fits on a screen."""
    return text if len(text) <= SHOWN_COLUMNS else f"{text[:SHOWN_COLUMNS]}…"


class _Unmasked(Mask):
    """A mask that leaves secrets in the log, where the law about them finds those that a provider has written."""

    def __call__(self, text: str) -> str:
        """Return the text as it is."""
        return text


class Failures(dict[str, str]):
    """Reasons by reference; as text the first three, each as the user reads it, and the number of the rest."""

    def __str__(self) -> str:
        """Return the first failures and the number of the rest: many would hide the message of the law."""
        more = [f"and {len(self) - SHOWN_FAILURES} more"] if len(self) > SHOWN_FAILURES else []
        first = list(self.items())[:SHOWN_FAILURES]
        return "; ".join([*(f"{reference}: {reason}" for reference, reason in first), *more])


def failures(report: RunReport) -> Failures:
    """Return the reasons of failed and skipped steps, by reference."""
    return Failures({step.reference: step.error for step in report.steps if step.status in {"failed", "skipped"}})


def without(row: Mapping[str, object], names: Collection[str]) -> Resource:
    """Return a row without the attributes ``names``."""
    return {name: value for name, value in row.items() if name not in names}


def differences(row: Mapping[str, object], expected: Mapping[str, object]) -> list[str]:
    """Return the attributes whose values differ, sorted."""
    return sorted(name for name in {*row, *expected} if not same_value(row.get(name), expected.get(name)))


def _failed(context: Context) -> dict[Name, str]:
    """Return the reasons of the failed resources of a call by name."""
    return {name: outcome.reason for name, outcome in context.outcomes.items() if outcome.status == "failed"}


class RecordingContext(Context):
    """A context that records the exceptions that its sections, such as ``with context.updating(name)``, swallow.

    A law can so distinguish a mistake in the code from a failure that the provider reports.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Begin without exceptions; take the arguments of ``Context``."""
        super().__init__(*arguments, **keywords)
        #: The exceptions that the provider raised in its sections, in their order.
        self.raised: list[BaseException] = []

    @property
    def failure(self) -> list[BaseException] | dict[Name, str]:
        """The exceptions, otherwise the reasons of failed resources by name; empty where the call has succeeded."""
        return self.raised or _failed(self)

    def _open(
        self, titles: object, message: str, status: str, change: tuple[object, object] | None = None
    ) -> LoggingContext:
        """Return the logging context of a section, such as ``with context.updating(name)``, that records exceptions.

        The arguments are those of ``Context``.
        """
        return _RecordingSection(self, self.outcomes.names(titles), message, status, change).opened()


class _RecordingSection(LoggingContext):
    """A section that adds its exception to ``raised`` of its context, before that handles it."""

    def __init__(self, context: RecordingContext, *arguments: Any) -> None:
        """Begin a section of the recording ``context``."""
        super().__init__(context, *arguments)
        self._raised = context.raised

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Record the exception before the context turns it into the failure of a resource, which hides its type."""
        if error is not None and error not in self._raised:  # an inner section may have recorded it
            self._raised.append(error)
        return super().__exit__(kind, error, trace)


class MethodContext(RecordingContext):
    """A context that records log and reports. ``lines``: the log as the user would see it, secrets masked.

    ``statuses``: the reported status by name: ``created``, ``updated``, ``deleted``, ``unchanged`` or ``failed``.
    ``raised``: the exceptions that its logging contexts swallowed.
    """

    def __init__(self, *arguments: object, lines: list[str], **keywords: object) -> None:
        """Take the arguments of ``Context``, and the list that gets the lines of its log."""
        super().__init__(*arguments, **keywords)
        self.lines = lines

    @property
    def statuses(self) -> Mapping[Name, str]:
        """The statuses that were reported so far, by name."""
        return {name: outcome.status for name, outcome in self.outcomes.items() if outcome.status}


def context(
    definition: TypeDefinition,
    names: Iterable[Name] = (),
    *,
    noop: bool = False,
    reading: bool = False,
    provider: object = None,
) -> MethodContext:
    """Return a context for a test that calls a provider's method itself; ``names`` are the keys of its ``changes``.

    ``noop``: the call changes nothing. ``reading``: it is one of ``get`` or ``due``, which report nothing but failures.
    ``provider``: the instance that is called, if it runs programs: their lines then go to this context too.
    """
    lines: list[str] = []
    subjects = {name: Subject(show(name)) for name in names}
    run = RunContext(ForwardedLog("debug", lambda event: lines.append(line(event))))
    method_context = MethodContext(definition, run, lines=lines, subjects=subjects, noop=noop, reading=reading)
    if provider is not None:
        method_context.make_default(provider)
    return method_context


class _Recording(threading.local):
    """The events of the block in this thread, or None outside of one; and whether reads in it fail."""

    events: list[tuple[str, str]] | None = None
    refuse = False


_recording: Final = _Recording()
#: Whether the audit hook is installed. A hook cannot be removed, so one is added when first needed and shared.
_hook_installed: Final[list[bool]] = []


@contextmanager
def recorded(*, refuse: bool = False) -> Iterator[list[tuple[str, str]]]:
    """Yield a list of the audit events of this thread, such as ``open``: the accesses of a provider, as text.

    Laws check with it that a method accesses nothing, or passes no secret to a program. ``refuse``: raise ``OSError``
    (``EIO``) for each access, as a broken disk would.
    """
    if not _hook_installed:
        _hook_installed.append(True)
        sys.addaudithook(_audit)
    before = _recording.events, _recording.refuse
    events: list[tuple[str, str]] = []
    _recording.events, _recording.refuse = events, refuse
    try:
        yield events
    finally:
        _recording.events, _recording.refuse = before


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    """Record an access to the system in this thread, and refuse it if the law demands that.

    Python calls this audit hook for each event of every thread; outside of ``recorded`` it does nothing.
    """
    events = _recording.events
    if events is None or (event not in _READS and event not in _STARTS) or _is_uninteresting(event, arguments):
        return
    _recording.events = None  # forming the text may itself cause events, which are not the provider's
    try:
        events.append((event, " ".join(filter(None, map(_text, arguments)))))
    finally:
        _recording.events = events
    if _recording.refuse:
        raise OSError(errno.EIO, os.strerror(errno.EIO), f"{event} {_text(arguments[0]) if arguments else ''}".strip())


def _is_uninteresting(event: str, arguments: tuple[object, ...]) -> bool:
    """Return whether an event is the interpreter's own: code that is imported, or a descriptor that is open already."""
    first = arguments[0] if arguments else ""
    path = os.fsdecode(first) if isinstance(first, (str, bytes, os.PathLike)) else ""
    return (
        (event == "open" and isinstance(first, int))
        or path.endswith(_CODE)
        or path.startswith((sys.prefix, sys.base_prefix))
    )


def _text(value: object) -> str:
    """Return an argument of an audit event as text, in which laws search for secrets."""
    if isinstance(value, (list, tuple)):
        return " ".join(map(_text, value))
    if isinstance(value, socket.socket):
        return ""  # its address is another argument
    if hasattr(value, "items"):
        return " ".join(f"{_text(key)}={_text(item)}" for key, item in value.items())
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)
