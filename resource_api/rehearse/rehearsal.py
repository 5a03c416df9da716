"""Rehearse a manifest: what runs on the overlay, and what follows from it outside.

Inside, the manifest is applied, applied again, and destroyed if that is asked for; what was written is recorded for
each call. Outside, that is compared with the machine, and the verdicts are given.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Action, describe_difference
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceAPIError
from resource_api.rehearse import orders, recorded_effects, side_effects
from resource_api.rehearse.orders import Tried
from resource_api.rehearse.recorded_effects import Call, Change, Declared, EffectRecorder
from resource_api.rehearse.result import Finding, Rehearsal, RehearsalError, Verdict
from resource_api.system.overlay import isolated_run, layers
from resource_api.system.overlay.isolated_run import Isolation
from resource_api.system.overlay.layers import Written
from resource_api.system.process import interactive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.declaration import Declaration, Manifest
    from resource_api.model.report import Report, StepReport
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime
    from resource_api.system.overlay.isolated_run import Overlay

_KILLED: Final = "the rehearsal was killed from inside; nothing of it is left"
#: Files up to this size are compared by content.
_COMPARED: Final = 64 * 1024 * 1024


class Request(NamedTuple):
    """What is to be rehearsed, and how."""

    source: Source
    inputs: Mapping[str, Any] = {}
    #: The options of ``Runtime.apply``.
    options: Mapping[str, Any] = {}
    isolation: Isolation = Isolation()
    #: Commands that must succeed afterwards.
    tests: Sequence[str] = ()
    destroy: bool = False
    #: How many other orders are tried.
    orders: int = 0


def rehearse(runtime: Runtime, request: Request, show: Callable[[Report], None]) -> Rehearsal:
    """Rehearse a manifest and return the verdicts. ``show`` is called inside with the report of the first run.

    Raise ``ManifestError`` for a wrong manifest, ``IsolationError`` where this machine or user lacks what is needed.
    The process must have one thread.
    """
    manifest, left_out = _compiled(runtime, request)
    inside = runtime.with_copied_state()
    ended = isolated_run.run(lambda overlay: _Inside(inside, request, left_out, overlay).run(show), request.isolation)
    if ended.answer is None:
        if not ended.signal:
            raise RehearsalError(_KILLED)
        return Rehearsal((), (), left_out, 128 + ended.signal)
    document = json.loads(ended.answer)
    if "error" in document:
        raise RehearsalError(document["error"])
    found = _result(document, left_out, ended.signal)
    if not request.orders or found.exit_code == 1 or found.interrupted:
        return found

    def attempt(order: Sequence[Declaration]) -> Tried:
        other = request._replace(source=manifest._replace(resources=tuple(order)))
        tried = isolated_run.run(lambda overlay: _Inside(inside, other, left_out, overlay).once(), request.isolation)
        if tried.answer is None:
            raise RehearsalError(_KILLED)
        return _tried(json.loads(tried.answer))

    def writers(path: str) -> list[str]:
        calls = document["calls"][: document["effects"]]
        return [side_effects.subject(call[0]) for call in calls if any(path == each[0] for each in call[2])]

    first = _tried(document)
    free = orders.findings(manifest.resources, request.orders, first, attempt, writers)
    return found.with_verdict(Verdict("free in order", not free, f"{request.orders} other orders", free))


def _compiled(runtime: Runtime, request: Request) -> tuple[Manifest, list[str]]:
    """Return the manifest, and the references of its resources that act outside of the machine's files."""
    with _silent(runtime):  # inside, the same is shown
        catalog = runtime.validate(request.source, request.inputs)
    left_out = [
        str(entry.reference)
        for entry in catalog.entries
        if "not_rehearsable" in entry.definition.features or entry.definition.config.attributes
    ]
    return catalog.manifest, left_out


def _tried(document: Mapping[str, Any]) -> Tried:
    """Return what has come of one order: the owners are left out, as numbers are given to users in their order."""
    contents = {
        path: (fields[0], fields[1], digest)
        for path, (fields, digest) in document["contents"].items()
        if not side_effects.is_common(path)
    }
    return Tried({each[0]: each[1] for each in document["run"]}, contents)


class _Inside:
    """What is done on the overlay."""

    def __init__(self, runtime: Runtime, request: Request, left_out: Sequence[str], overlay: Overlay) -> None:
        excludes = [*request.options.get("excludes", ()), *left_out]
        self._runtime = runtime
        self._request = request
        self._options = {**request.options, "excludes": excludes}
        self._layers = overlay.layers
        self._recorder = EffectRecorder(overlay.layers, runtime.run.progress)
        runtime.run.progress = lambda: self._recorder

    def once(self) -> bytes:
        """Apply and show nothing; return what has failed and what is there as JSON."""
        with _silent(self._runtime):
            report = self._runtime.apply(self._request.source, self._request.inputs, **self._options)
        failed = [_finding(each) for each in report.steps if each.status == "failed"]
        return json.dumps({"run": failed, "contents": _contents(layers.read(self._layers))}).encode()

    def run(self, show: Callable[[Report], None]) -> bytes:
        """Do all that is asked for; return what happened as JSON."""
        try:
            document = self._document(show)
        except ResourceAPIError as error:
            document = {"error": str(error)}
        masked = self._runtime.log.mask.document(document)
        return json.dumps(masked).encode()

    def _document(self, show: Callable[[Report], None]) -> dict[str, Any]:
        runtime, request = self._runtime, self._request
        report = runtime.apply(request.source, request.inputs, **self._options)
        show(report)
        effects = len(self._recorder.calls)
        contents = _contents(layers.read(self._layers)) if request.orders else {}
        found: dict[str, Any] = {"run": [_finding(each) for each in report.steps if each.status == "failed"]}
        found |= {
            "contents": contents,
            "failed": report.exit_code != 0,
            "summary": str(report.summary),
            "effects": effects,
        }
        if not report.exit_code:
            with _silent(runtime):
                again = runtime.apply(request.source, request.inputs, **self._options)
            found["again"] = [finding for each in again.steps for finding in _again(each)]
        found["tests"] = [[command, interactive.shell(command)] for command in request.tests]
        found["calls"] = self._recorder.calls
        found["packages"] = recorded_effects.packages(self._recorder.calls)
        if request.destroy and not report.exit_code:
            found["destroy"] = self._destroy([each.reference for each in report.steps if each.status == "success"])
            found["left"] = _contents(layers.read(self._layers))
        found["full"] = layers.is_full(self._layers)
        return found

    def _destroy(self, made: list[str]) -> list[Finding]:
        """Destroy what the first run has made and nothing else that is recorded; return what has failed."""
        if not made:
            return []
        with _silent(self._runtime):
            gone = self._runtime.destroy(self._request.source, self._request.inputs, targets=made)
        return [_finding(each) for each in gone.steps if each.status in {"failed", "skipped"}]


@contextmanager
def _silent(runtime: Runtime) -> Iterator[None]:
    """Show nothing of the runs in the ``with`` block."""
    log, notify = runtime.log, runtime.notify
    sinks, log.sinks = log.sinks, []
    runtime.notify = lambda _event: None
    try:
        yield
    finally:
        log.sinks, runtime.notify = sinks, notify


def _finding(report: StepReport, text: str = "", attribute: str = "") -> Finding:
    """Return a finding about a step, why it has failed unless ``text`` is given, with its line in the manifest."""
    place = report.step.entry.declaration.place()
    where = f"{place.file}:{place.line}" if place.line else ""
    return Finding(report.reference, text or report.error or report.status, attribute, where)


def _again(report: StepReport) -> Iterator[Finding]:
    """Yield what a step of the second run has done that it should not have had to do."""
    if report.status != "success":
        yield _finding(report, f"{report.status} in the second run: {report.error}")
    elif report.changes:
        for each in report.changes:
            yield _finding(report, f"{_text(report, each)} again", each.attribute)
    elif report.action is Action.RUN:
        yield _finding(report, "runs again; say by 'creates', 'unless' or 'onlyif' when it is done")
    else:
        yield _finding(report, f"{report.action} again")


def _text(report: StepReport, difference: Any) -> str:
    return describe_difference(report.step.definition, difference)


def _contents(found: Mapping[str, Written]) -> dict[str, Any]:
    """Return what the layers hold, each file with a digest of its content."""
    return {path: [written, _digest(path) if written.kind == "file" else ""] for path, written in found.items()}


def _digest(path: str) -> str:
    """Return the digest of a file or of the target of a link; empty where it cannot be read or is too large."""
    try:
        if os.path.islink(path):
            return os.readlink(path)
        if not os.path.isfile(path) or os.path.getsize(path) > _COMPARED:
            return ""
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()
    except OSError:
        return ""


def _result(document: Mapping[str, Any], left_out: Sequence[str], signal: int) -> Rehearsal:
    """Return the result that follows from what happened inside."""
    calls = [_call(*each) for each in document["calls"]]
    verdicts = [Verdict("run", not document["failed"], document["summary"], _findings(document["run"]))]
    if "again" in document:
        again = _findings(document["again"])
        verdicts.append(Verdict("silent twice", not again, "nothing changes again", again))
    for command, code in document["tests"]:
        verdicts.append(Verdict(f"test {command}", code == 0, f"exit code {code}"))
    if "left" in document:
        left = [*_findings(document["destroy"]), *_left(document["left"], calls)]
        verdicts.append(Verdict("clean after destroy", not left, "nothing is left", left))
    if document["full"]:
        verdicts.append(Verdict("layer", ok=False, text="what may be written (--size) was full"))
    effects = side_effects.effects(calls[: document["effects"]], document["packages"])
    return Rehearsal(verdicts, effects, left_out, 128 + signal if signal else 0)


def _left(found: Mapping[str, Any], calls: Sequence[Call]) -> Iterator[Finding]:
    """Yield what differs from the machine, but for caches and logs."""
    changed_by = {change.path: side_effects.subject(call.references) for call in calls for change in call.changes}
    for path, (fields, digest) in sorted(found.items()):
        verb = side_effects.difference(path, Written(*fields), partial(_content_differs, path, digest))
        wanted = verb == "deleted" and any(side_effects.is_declared(path, call) for call in calls)
        if verb is not None and path in changed_by and not wanted:
            yield Finding(changed_by[path], f"leaves {path} {verb}")


def _content_differs(path: str, digest: str) -> bool:
    return _digest(path) != digest


def _findings(found: Sequence[Sequence[str]]) -> list[Finding]:
    return [Finding(*each) for each in found]


def _call(references: Sequence[str], declared: Mapping[str, Sequence[Any]], changes: Sequence[Any]) -> Call:
    read = [Change(path, first, None if written is None else Written(*written)) for path, first, written in changes]
    return Call(references, {each: Declared(*paths) for each, paths in declared.items()}, read)
