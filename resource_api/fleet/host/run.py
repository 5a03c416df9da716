"""The run of one job on its host: the runtime, and the channel for its documents, with secrets masked."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import job as jobs
from resource_api.fleet.host.delivered_jobs import Journal
from resource_api.manifest.sections import project_name
from resource_api.model.report import StepStart
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.plugins.registry import Registry
from resource_api.provider.context import RunContext, current
from resource_api.render import json as documents
from resource_api.runtime.runtime import Runtime, state_settings
from resource_api.runtime.signals import Interrupts
from resource_api.state.open_store import default_path
from resource_api.state.store import MEMORY, StackName
from resource_api.system.facts import Facts
from resource_api.system.log import Log, line_stream
from resource_api.system.process import core_dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.fleet.job import HostJob
    from resource_api.model.declaration import Manifest
    from resource_api.model.report import Event, LogEvent, RunReport
    from resource_api.model.values.assets import Content, ContentSpec
    from resource_api.system.filesystem.asset_contents import SentReader


#: The types of documents in a job's report.
_REPORTED: Final = frozenset({"diagnostic", "outputs", "resource_drift", "result", "step_end", "summary"})


class HostRun:
    """A job with its runtime, log and interrupts."""

    def __init__(
        self,
        job: HostJob,
        emit: Callable[[Mapping[str, Any]], None],
        result: Callable[[Mapping[str, Any]], None],
        directories: Sequence[str],
    ) -> None:
        """Send events with ``emit``, and the document of a command that reads with ``result``.

        ``directories``: the cache, then the unpacked archives of modules.
        """
        self.job = job
        self.options = job.options
        self._emit, self._result = emit, result
        #: Whether the host may have been changed.
        self.began = False
        #: The documents of the job's report.
        self.report_documents: list[Mapping[str, Any]] = []
        self.log = Log(str(self.options.get("log_level") or "notice"), self._log)
        self.log.mask.on_secret = lambda _secret, _declared: core_dumps.forbid()
        sys.stdout, sys.stderr = (line_stream(self._printed, number, self.log.mask) for number in (1, 2))
        self.context = RunContext(self.log)
        self.context.isolate = bool(self.options.get("isolate")) or None
        self.interrupts = Interrupts(self.context, again="")
        cache, *archives = directories
        self._module_path = [path for archive in archives for path in _module_directories(archive)]
        trusted = [cache, *self.options.get("trust_path", ())]
        self.registry = Registry(ModulePath([*self._module_path, BUNDLED], distributions=False), trusted)

    @cached_property
    def runtime(self) -> Runtime:
        """The runtime that executes the job."""
        return Runtime(
            self.registry,
            **state_settings(self.options),
            on_event=self._on_event,
            run=self.context,
            facts=Facts(self.job.host),
            contents=self._content,
        )

    def _content(self, spec: ContentSpec, file: str) -> Content:
        return self._reader(spec, file)

    @cached_property
    def _reader(self) -> SentReader:
        """The reader of assets and archives, imported late: few manifests have any."""
        from resource_api.system.filesystem.asset_contents import SentReader

        return SentReader(self.job.files, self._module_path)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the manifest by name."""
        return jobs.decoded_inputs(self.job)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the job. Raise ``ManifestError``."""
        return jobs.read_manifest(
            self.job.documents, lambda raw, file: self.runtime.read_python(raw, file, self.inputs)
        )

    def selected(self, *names: str) -> dict[str, Any]:
        """Return the job's options among ``names``."""
        return {name: self.options[name] for name in names if name in self.options}

    def exit_code(self, code: int) -> int:
        """Return the exit code of an interrupt that came, else ``code``."""
        return self.interrupts.exit_code if self.interrupts.came else code

    def report(self, report: RunReport) -> int:
        """Send the summary of a run and return its exit code."""
        code = self.exit_code(report.exit_code)
        self.emit(documents.line("summary", documents.summary(report.summary, code, report.run)))
        return code

    def emit(self, document: Mapping[str, object]) -> None:
        """Send a document, secrets masked."""
        self.send_again(self.log.mask.document(document))

    def send_again(self, document: Mapping[str, object]) -> None:
        """Send a document whose secrets are masked already."""
        if document["type"] in _REPORTED:
            self.report_documents.append(document)
        if document["type"] == "result":
            self._result(document)
        else:
            self._emit(document)

    def result(self, value: object, *, reveal: bool = False) -> None:
        """Send the document of a command that reads; ``reveal``: with secrets in clear."""
        document = documents.line("result", {"document": value})
        if reveal:
            self._result(document)
        else:
            self.emit(document)

    def journal(self) -> Journal | None:
        """Return the journal of the stack; None for a job that changes nothing, and without durable state."""
        options = self.options
        if self.job.command not in jobs.CHANGING or options.get("noop") or options.get("state") in MEMORY:
            return None
        saved = options.get("saved_plan")
        project = saved["project"] if saved else options.get("project") or project_name(self.manifest)
        name = StackName(project, (saved or options).get("stack") or "default").checked()
        url = options.get("state")
        return Journal(os.path.abspath(url.partition(":")[2]) if url else default_path(os.environ), name)

    def _log(self, event: LogEvent) -> None:
        self.emit(documents.log(event))

    def _printed(self, text: str) -> None:
        context = current.get()
        self._log(self.log.event("notice", context.type.name if context else "", text))

    def _on_event(self, event: Event) -> None:
        self.began = self.began or isinstance(event, StepStart)
        if (document := documents.event_line(event)) is not None:
            self.emit(document)


def _module_directories(archive: str) -> list[str]:
    """Return the directories of the module path in an unpacked archive, in their order."""
    return [f"{archive}/{number}" for number in sorted(filter(str.isdigit, os.listdir(archive)), key=int)]
