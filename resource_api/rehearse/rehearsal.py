"""Rehearse a manifest: its runs on the overlay, and their evaluation outside.

Inside, the manifest is applied, applied again, and destroyed if requested; the writes of each call are recorded.
Outside, they are compared with the machine, and the verdicts are given.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import CREATING, Action
from resource_api.model.change import describe_difference
from resource_api.model.values.errors import ResourceAPIError
from resource_api.model.values.start_up import NamedTuple
from resource_api.rehearse import cuts, damage, orders, side_effects
from resource_api.rehearse.orders import FirstRun
from resource_api.rehearse.result import Finding, Rehearsal, RehearsalError, Verdict, finding, needs
from resource_api.rehearse.side_effects import DeclaredPaths, Effect, EffectRecorder, PathChange, RecordedCall
from resource_api.state.store import MemoryStore
from resource_api.system.overlay import isolated_run, overlay
from resource_api.system.overlay.isolated_run import Isolation
from resource_api.system.overlay.overlay import Written, read_contents
from resource_api.system.process import interactive, process

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.model.report import RunReport, StepReport
    from resource_api.model.step import Step
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime
    from resource_api.system.overlay.overlay import Contents

_SECOND: Final = 1.0
_GREETING: Final = "A shell inside the rehearsal; all that it changes is discarded. 'exit' ends it."
_OFFLINE: Final = "is read with '--network host' only"

#: The attributes that state when an imperative resource is done.
_GUARDS: Final = ("creates", "unless", "onlyif")
#: Action → its participle.
_PARTICIPLES: Final[Mapping[Action, str]] = {
    Action.CREATE: "created",
    Action.REPLACE: "replaced",
    Action.DELETE: "deleted",
    Action.REFRESH: "refreshed",
    Action.RUN: "run",
}


class Request(NamedTuple):
    """A manifest to rehearse, and the options."""

    source: Source
    inputs: Mapping[str, object] = {}
    #: The options of ``Runtime.apply``.
    options: Mapping[str, Any] = {}
    isolation: Isolation = Isolation()
    #: Commands that must succeed afterwards.
    tests: Sequence[str] = ()
    destroy: bool = False
    #: The number of other orders to try.
    orders: int = 0
    #: Whether each result is damaged, to check that the next run repairs it.
    damage: bool = False
    #: The number of cut runs.
    kills: int = 0
    #: The descriptor of a terminal for a shell inside, or None.
    terminal: int | None = None
    #: The directory that keeps the written files, or "".
    keep: str = ""


def rehearse(runtime: Runtime, request: Request, show: Callable[[RunReport], None]) -> Rehearsal:
    """Rehearse a manifest and return the verdicts; ``show`` gets the report of the first run, in its process.

    After a first run that fails, or an interrupt, there are no further tests. Raise ``ManifestError`` for a wrong
    manifest, ``IsolationError`` where this machine or user lacks a prerequisite. The process must have one thread, as
    it is forked for each run.
    """
    outside = _Outside(runtime, request)
    planned = outside.planned()
    try:
        document = outside.first_run(show)
    except _Interrupted as error:
        stopped = Rehearsal((), (), ()) if error.document is None else _result(error.document, outside.position_of)
        return stopped._replace(interrupted=error.exit_code)
    end = time.monotonic()
    rehearsal = _result(document, outside.position_of)._replace(not_rehearsed=planned)
    if rehearsal.exit_code == 1:
        return rehearsal
    try:
        if request.orders:
            rehearsal = rehearsal.with_verdict(outside.free_in_order(document))
        if request.kills:
            rehearsal = rehearsal.with_verdict(outside.survives_cuts(document))
        if request.damage:
            # In another second: contents with a time then differ between the two creations, and are not compared.
            time.sleep(max(0.0, end + _SECOND - time.monotonic()))
            rehearsal = outside.damaged(rehearsal, document)
    except _Interrupted as error:
        return rehearsal._replace(interrupted=error.exit_code)
    return rehearsal


class _Interrupted(Exception):  # noqa: N818 - no error
    """A signal ended the process inside."""

    def __init__(self, number: int, document: Any) -> None:
        """Record the exit code for the signal ``number``, and the ``document`` of results so far, if there is one."""
        super().__init__(number)
        self.exit_code = 128 + number
        self.document = document


class _Outside:
    """The work outside of the overlays: it starts the runs on them, and judges their documents."""

    def __init__(self, runtime: Runtime, request: Request) -> None:
        """Compile the manifest; leave out resources, as of a service, whose changes an overlay could not discard."""
        with _silent(runtime):  # inside, the same is shown
            self._catalog = runtime.validate(request.source, request.inputs)
        self._runtime = runtime.with_copied_state(MemoryStore(), self._catalog)
        self._request = request
        #: References, in the order of the catalog.
        self._left_out = [
            str(entry.reference)
            for entry in self._catalog.entries
            if "not_rehearsable" in entry.definition.features or entry.definition.config.attributes
        ]
        #: Reference → the function that finds the position of its declaration, which only a finding needs.
        self._positions = {str(entry.reference): entry.declaration.place for entry in self._catalog.entries}

    def position_of(self, reference: str) -> str:
        """Return the position of a reference's declaration, ``site.yaml:14``, or ""."""
        return self._positions[reference]().line_text if reference in self._positions else ""

    def planned(self) -> list[Finding]:
        """Return the change of each left-out resource that a plan on the machine itself predicts.

        Types with a configuration act over the network: without access to it, such a resource is not planned.
        """
        configured = {str(entry.reference) for entry in self._catalog.entries if entry.definition.config.attributes}
        readable = [name for name in self._left_out if self._request.isolation.network or name not in configured]
        texts = {**dict.fromkeys(self._left_out, _OFFLINE), **(self._predictions(readable) if readable else {})}
        return [Finding(name, texts[name], "", self.position_of(name)) for name in self._left_out]

    def _predictions(self, references: Sequence[str]) -> dict[str, str]:
        """Return reference → the effect of its step in a plan on this machine, or the reason why there is none."""
        request = self._request
        try:
            with _silent(self._runtime):
                plan = self._runtime.plan(request.source, request.inputs, **{**request.options, "targets": references})
        except ResourceAPIError as error:
            return dict.fromkeys(references, f"cannot be planned: {error}")
        steps = {str(step.reference): step for step in plan.steps}
        return {name: _prediction(steps[name]) if name in steps else "is not planned" for name in references}

    def first_run(self, show: Callable[[RunReport], None]) -> Any:
        """Return the document of all work on the first overlay; ``show`` gets the report of the run there.

        The isolated process closes all other descriptors, so those of the terminal and of the file for ``keep``, which
        only this run uses, are added to the open ones.
        """
        with overlay.stored(self._request.keep) as file:
            descriptors = {descriptor for descriptor in (file, self._request.terminal) if descriptor is not None}
            inherited = self._request.isolation.open_descriptors
            isolation = self._request.isolation._replace(open_descriptors=lambda: {*inherited(), *descriptors})
            return self._isolated(lambda inside: inside.run(show, file), self._request._replace(isolation=isolation))

    def free_in_order(self, document: Mapping[str, Any]) -> Verdict:
        """Return the verdict whether other orders have the same result as the first run with ``document``."""

        def attempt(order: tuple[str, ...]) -> Any:
            source, options = self._catalog.manifest._replace(order=order), {**self._request.options, "parallel": 1}
            return self._isolated(_Inside.once, self._request._replace(source=source, options=options))

        process.starter()  # its slow imports are made here once: each attempt is a fork of this process
        first = FirstRun(self._catalog, self._left_out, document, _writers(document))
        return orders.free_in_order(first, self._request.orders, attempt)

    def survives_cuts(self, document: Mapping[str, Any]) -> Verdict:
        """Return the verdict whether runs that are cut reach the state of the first run's ``document``."""

        def attempt(point: int) -> Any:
            return self._isolated(lambda inside: inside.cut(point))

        writers = _writers(document)
        return cuts.survives_cuts(self._request.kills, document["contents"], attempt, writers, self.position_of)

    def damaged(self, rehearsal: Rehearsal, document: Mapping[str, Any]) -> Rehearsal:
        """Return the rehearsal with the verdict whether runs repair damages to the result of the first run.

        ``document`` is that of the first run. An unrepaired damage spoils its overlay: the next ones are tried on
        another.
        """
        shared = orders.shared_paths(self._catalog.entries, _writers(document))
        problems: list[Finding] = []
        not_damaged: list[Finding] = []
        tried, start = 0, 0
        while start is not None:
            outcome = self._isolated(partial(_Inside.damage, start=start, first=document["contents"], shared=shared))
            problems += _findings(outcome["not_restored"])
            not_damaged += _findings(outcome["not_damaged"])
            tried, start = tried + outcome["tried"], outcome["next_damage"]
        verdict = Verdict("mended", not problems, f"{tried} damages", problems)
        return rehearsal.with_verdict(verdict)._replace(not_damaged=not_damaged)

    def _isolated(self, work: Callable[[_Inside], dict[str, Any]], request: Request | None = None) -> Any:
        """Do ``work`` in a process isolated on a new overlay, and return its document; the overlay is discarded.

        Raise ``RehearsalError`` if the work failed, or was killed before it had a document, and ``_Interrupted`` with
        the document, if there is one, after a signal.
        """
        request = request or self._request

        def encoded(layers: int) -> bytes:
            """Do the work in the isolated process, and return its document or error as JSON: only bytes leave it."""
            try:
                document = work(_Inside(self._runtime, request, self._left_out, layers))
            except ResourceAPIError as error:
                document = {"error": str(error)}
            return json.dumps(self._runtime.log.mask.document(document)).encode()

        ended = isolated_run.run(encoded, request.isolation)
        document = None if ended.answer is None else json.loads(ended.answer)
        if document is not None and "error" in document:
            raise RehearsalError(document["error"])
        if ended.signal:
            raise _Interrupted(ended.signal, document)
        if document is None:
            raise RehearsalError("the rehearsal was killed from inside; nothing of it is left")
        return document


def _writers(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return path → the references of the resources whose calls wrote it in the first run, in order, for findings."""
    writers: dict[str, list[str]] = {}
    for references, _, changes in document["calls"][: document["first_calls"]]:
        for path, *_ in changes:
            writers.setdefault(path, []).extend(references)
    return writers


class _Inside:
    """The work on the overlay."""

    def __init__(self, runtime: Runtime, request: Request, left_out: Sequence[str], layers: int) -> None:
        """Exclude the resources ``left_out`` from all runs, and let ``runtime`` assume that they exist as declared.

        Resources that need them would otherwise fail.
        """
        excludes = [*request.options.get("excludes", ()), *left_out]
        runtime.assumed = frozenset(left_out)
        self._runtime = runtime
        self._request = request
        self._options = {**request.options, "excludes": excludes}
        self._layers = layers

    def _apply(self, runtime: Runtime | None = None) -> RunReport:
        """Apply the manifest without the resources left out, by ``runtime`` unless None."""
        return (runtime or self._runtime).apply(self._request.source, self._request.inputs, **self._options)

    def once(self) -> dict[str, Any]:
        """Apply without output; return the failures and the contents, to be compared with another order's."""
        with _silent(self._runtime):
            report = self._apply()
        return {"run": _failures(report), "contents": read_contents(self._layers)}

    def cut(self, point: int) -> dict[str, Any]:
        """Apply, killed before change ``point`` of a file (0: never), and apply again; return the document about it."""
        with _silent(self._runtime):
            return cuts.run(self._runtime, self._apply, self._layers, point)

    def damage(self, start: int, first: Contents, shared: Collection[str]) -> dict[str, Any]:
        """Apply the manifest, damage its resources one by one, and let runs repair them; return the outcome.

        ``start``: the number of the first damage. ``first``: the contents after another creation; differences between
        the two are not compared.
        """
        with _silent(self._runtime):
            report = self._apply()
            planned = self._runtime.plan(self._request.source, self._request.inputs, **self._options)
            candidates = list(damage.damages(planned.steps, report))
            compared = damage.Compared(first, read_contents(self._layers), shared)
            damager = damage.Damager(self._runtime, self._layers, self._apply, compared)
            return damager.try_from(candidates, start)._asdict()

    def run(self, show: Callable[[RunReport], None], archive: int | None) -> dict[str, Any]:
        """Do all work of the first overlay: a run, a second one, tests, a shell, the archive, ``destroy``.

        Return the document of results, from which the process outside computes the verdicts. ``destroy`` is last, as it
        removes all results of the run. ``show`` gets the report of the first run; ``archive``: a descriptor, or None.
        """
        runtime, request = self._runtime, self._request
        recorder = EffectRecorder(self._layers, runtime.run.progress)
        runtime.run.progress = lambda: recorder
        report, document = self._first_apply(show)
        first_calls = list(recorder.calls)  # the later ones are of the second run, the tests, the shell, the end
        document["first_calls"] = len(first_calls)
        if not report.exit_code:
            document["again"] = self._second_apply(first_calls)
        document["tests"] = [[command, interactive.shell(command)] for command in request.tests]
        if request.terminal is not None and not runtime.run.cancelled:
            interactive.run_shell(request.terminal, _GREETING, lambda: runtime.run.cancelled)
        if archive is not None:
            overlay.pack(self._layers, archive)
        document["packages"] = side_effects.packages(recorder.calls)
        if request.destroy and not report.exit_code:
            document["destroy"] = self._destroy(report)
            document["left"] = read_contents(self._layers)
        return {**document, "calls": recorder.calls, "full": overlay.is_full(self._layers)}

    def _first_apply(self, show: Callable[[RunReport], None]) -> tuple[RunReport, dict[str, object]]:
        """Apply the manifest, and return the report and the fields of the document about it.

        ``show`` gets the report at once, before the slow further work. The contents are read only if they are to be
        compared with those of other runs.
        """
        documents: list[object] = []
        self._runtime.on_document = documents.append
        report = self._apply()
        self._runtime.on_document = None
        show(report)
        is_compared = self._request.orders or self._request.kills or self._request.damage
        return report, {
            "run": _failures(report),
            "document": documents[0],
            "contents": read_contents(self._layers) if is_compared else {},
            "failed": report.exit_code != 0,
            "summary": str(report.summary),
        }

    def _second_apply(self, first_calls: Sequence[RecordedCall]) -> list[Finding]:
        """Apply the manifest again; return the findings about the steps that act although nothing should change."""
        with _silent(self._runtime):
            steps = self._apply().steps
        acted = {step.reference for step in steps}
        return [row for step in steps for row in _repeated(step, first_calls, acted)]

    def _destroy(self, first: RunReport) -> list[Finding]:
        """Destroy the resources that the first run created or changed; return the findings about failures.

        The state is a copy of the machine's: all other records are removed from it first, so that resources of earlier
        runs are not destroyed as well.
        """
        successes = [step for step in first.steps if step.status == "success"]
        created = {step.reference for step in successes if step.action is not Action.DELETE}
        store = self._runtime.store
        for name in store.stacks():
            state = store.load(name)
            records = {key: record for key, record in state.records.items() if str(record.reference) in created}
            store.overwrite(name, state._replace(records=records))
        with _silent(self._runtime):
            report = self._runtime.destroy(self._request.source, self._request.inputs)
        failures = [outcome for outcome in report.steps if outcome.status in {"failed", "skipped"}]
        return [finding(outcome.step, outcome.error or outcome.status) for outcome in failures]


@contextmanager
def _silent(runtime: Runtime) -> Iterator[None]:
    """Show nothing of the runs in the ``with`` block, neither log nor events: only the first run is for the user."""
    log, notify = runtime.log, runtime.notify
    level, log.level = log.level, "off"
    runtime.notify = lambda _event: None
    try:
        yield
    finally:
        log.level, runtime.notify = level, notify


def _failures(report: RunReport) -> list[Finding]:
    """Return a finding for each failed step of a run."""
    return [finding(outcome.step, outcome.error or "failed") for outcome in report.steps if outcome.status == "failed"]


def _result(document: Mapping[str, Any], position_of: Callable[[str], str]) -> Rehearsal:
    """Return the rehearsal from the document of ``_Inside.run``: a verdict for each part of its work."""
    calls = [_recorded_call(*call) for call in document["calls"]]
    verdicts = [Verdict("run", not document["failed"], document["summary"], _findings(document["run"]))]
    if "again" in document:
        again = _findings(document["again"])
        verdicts.append(Verdict("silent twice", not again, "nothing changes again", again))
    for command, code in document["tests"]:
        verdicts.append(Verdict(f"test {command}", code == 0, f"exit code {code}"))
    if "left" in document:
        failed = [failure._replace(place=position_of(failure.reference)) for failure in _findings(document["destroy"])]
        remaining = [*failed, *_remnants(document["left"], calls, document["packages"], position_of)]
        verdicts.append(Verdict("clean after destroy", not remaining, "nothing is left", remaining))
    if document["full"]:
        verdicts.append(Verdict("layer", ok=False, text="what may be written (--size) was full"))
    effects = side_effects.effects(calls[: document["first_calls"]], document["packages"], position_of)
    return Rehearsal(verdicts, effects, (), run=document["document"])


def _remnants(
    remaining: Mapping[str, Any],
    calls: Sequence[RecordedCall],
    packages: Mapping[str, str],
    position_of: Callable[[str], str],
) -> Iterator[Finding]:
    """Yield findings about the paths that still differ from the machine after ``destroy``, except caches and logs.

    A deletion of a path that a resource declares is no remnant. ``remaining``: path → the fields and digest of each
    written file. ``packages``: path → package; its files are counted, at the end, because there are many.
    ``position_of`` returns the position of a reference in the manifest.
    """
    is_declared = side_effects.declared_paths(calls)
    changed_by = {change.path: tuple(call.references) for call in calls for change in call.changes}
    undeclared = []
    for path, (fields, digest) in sorted(remaining.items()):
        difference = side_effects.difference(path, Written(*fields), digest)
        expected = difference == "deleted" and is_declared(path)
        if difference is not None and path in changed_by and not expected:
            references = changed_by[path]
            undeclared.append(Effect(references, difference, path, packages.get(path, ""), position_of(references[0])))
    for first, verb, text in side_effects.folded(_packages_last(undeclared)):
        remnant = f"leaves {text} {verb}".rstrip()  # without a verb for the files of a package
        yield Finding(side_effects.subject(first.references), remnant, "", first.place)


def _packages_last(all_effects: Sequence[Effect]) -> list[Effect]:
    """Return effects ordered for output: the many of resources that installed packages last, not to hide the others.

    ``folded`` makes one line of the files of a package, such as ``12 files of nginx``. Where one line with their common
    directory is possible, it is clearer: the package of these effects is removed, so that ``folded`` groups them by
    directory.
    """
    installing = {reference for effect in all_effects if effect.package for reference in effect.references}
    by_package: dict[str, list[Effect]] = {}
    for effect in sorted(all_effects, key=lambda effect: not installing.isdisjoint(effect.references)):
        by_package.setdefault(effect.package, []).append(effect)
    ordered = by_package.pop("", [])
    for group in by_package.values():
        by_directory = [effect._replace(package="") for effect in group]
        ordered += group if len(list(side_effects.folded(by_directory))) > 1 else by_directory
    return ordered


def _findings(rows: Sequence[Sequence[str]]) -> list[Finding]:
    """Return findings from a document, where named tuples are lists."""
    return [Finding(*row) for row in rows]


def _recorded_call(references: Sequence[str], declared: Mapping[str, Any], changes: Sequence[Any]) -> RecordedCall:
    """Return a recorded call from its form in the document, where named tuples are lists, ``declared`` by reference."""
    read = [PathChange(path, first, None if written is None else Written(*written)) for path, first, written in changes]
    return RecordedCall(references, {reference: DeclaredPaths(*paths) for reference, paths in declared.items()}, read)


def _prediction(step: Step) -> str:
    """Return the effect of a planned step, which is not rehearsed, as the end of a sentence: ``would be created``."""
    if step.error:
        return f"cannot be planned: {step.error}"
    if step.action is Action.SAME:
        return "would not change"
    if step.action in CREATING or not step.changes:
        return f"would be {_PARTICIPLES.get(step.action, 'updated')}"
    return "would change: " + ", ".join(describe_difference(step.definition, change) for change in step.changes)


def _repeated(report: StepReport, calls: Sequence[RecordedCall], acted: set[str]) -> list[Finding]:
    """Return the findings about a step that acted again in the second run, which should change nothing.

    ``calls``: those of the first run. ``acted``: the references of all steps of the second one. Both serve to find the
    resource that is the cause.
    """
    step = report.step
    if report.status != "success":
        return [finding(step, f"{report.status} in the second run: {report.error}")]
    if report.changes:
        cause = _overwritten(report, calls, acted)
        return [
            finding(step, f"{describe_difference(step.definition, change)} again{cause}", change.attribute)
            for change in report.changes
        ]
    if step.refreshed_by:
        return [finding(step, f"refreshed again, notified by {', '.join(step.refreshed_by)}")]
    if report.action is not Action.RUN:
        return [finding(step, f"{report.action} again")]
    guard = next((name for name in _GUARDS if name in step.entry.should), "")
    text = f", because by '{guard}' it is still due" if guard else _remedy(step.definition)
    return [finding(step, f"runs again{text}", guard)]


def _remedy(definition: TypeDefinition) -> str:
    """Return a hint how a resource of an imperative type, which runs each time, can state that it is done, or ""."""
    if definition.attributes.keys() >= set(_GUARDS):
        return "; say by 'creates', 'unless' or 'onlyif' when it is done"
    return "; by 'refreshonly: true' it runs only when notified" if "refreshonly" in definition.attributes else ""


def _overwritten(report: StepReport, calls: Sequence[RecordedCall], acted: set[str]) -> str:
    """Return, for a message, the resource that overwrote this one's file in the first run, or "".

    The file is that whose path is the name of the resource. Writers that came before the resource are no cause.
    """
    path = report.step.entry.name
    writers = list[str]()
    for call in calls:
        if any(path == change.path for change in call.changes):
            writers += call.references
    reference = report.reference
    later = writers[writers.index(reference) + 1 :] if reference in writers else writers
    rivals = [writer for writer in later if writer != reference]
    if not rivals:
        return ""
    last = rivals[-1]
    # A writer of both runs contradicts the declaration. One of the first run alone only came too late: with a
    # relationship it comes first.
    return f": {last} writes it too" if last in acted else f": {last} has overwritten it; {needs(last)}"
