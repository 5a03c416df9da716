"""One job on its host: the runtime that carries it out, and where its documents go, secrets masked.

What each command does with it is in ``fleet/host/commands``.
"""

from __future__ import annotations

import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import job as jobs
from resource_api.fleet import sent_manifest
from resource_api.fleet.host.delivered_jobs import Journal
from resource_api.manifest.sections import project_name
from resource_api.model.event import StepStart
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

    from resource_api.fleet.job import Job
    from resource_api.model.declaration import Manifest
    from resource_api.model.event import Event, LogEvent
    from resource_api.model.values.assets import Content, ContentSpec
    from resource_api.system.filesystem.asset_contents import SentReader


#: The types of documents that a report is made of.
_KEPT: Final = frozenset({"diagnostic", "outputs", "resource_drift", "result", "step_end", "summary"})


class HostRun:
    """A job with what it needs on its host."""

    def __init__(
        self,
        job: Job,
        emit: Callable[[Mapping[str, Any]], None],
        result: Callable[[Mapping[str, Any]], None],
        places: Sequence[str],
    ) -> None:
        """Send documents with ``emit``, and that of a command that reads with ``result``.

        ``places``: the cache, and the directories in it that hold the directories of the module path.
        """
        self.job = job
        self.options = job.options
        self._emit, self._result = emit, result
        #: Whether something may have been done.
        self.began = False
        #: The documents that say what was done.
        self.kept: list[Mapping[str, Any]] = []
        self.log = Log(str(self.options.get("log_level") or "notice"), self._log)
        self.log.mask.on_secret = lambda _secret, _declared: core_dumps.forbid()
        sys.stdout, sys.stderr = (line_stream(self._printed, number, self.log.mask) for number in (1, 2))
        self.context = RunContext(self.log)
        self.context.isolate = bool(self.options.get("isolate")) or None
        self.interrupts = Interrupts(self.context, again="")
        cache, *archives = places
        directories = [path for archive in archives for path in _directories(archive)]
        self._directories = directories
        trusted = [cache, *self.options.get("trust_path", ())]
        self.registry = Registry(ModulePath([*directories, BUNDLED], distributions=False), trusted)

    @cached_property
    def runtime(self) -> Runtime:
        """The runtime that carries the job out."""
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
        """What reads assets and archives; few manifests have any."""
        from resource_api.system.filesystem.asset_contents import SentReader

        return SentReader(self.job.files, self._directories)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the manifest by name."""
        return jobs.given_inputs(self.job)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the job. Raise ``ManifestError``."""
        return sent_manifest.manifest(
            self.job.documents, lambda raw, file: self.runtime.read_python(raw, file, self.inputs)
        )

    def selected(self, *names: str) -> dict[str, Any]:
        """Return those of the named options that the job has."""
        return {name: self.options[name] for name in names if name in self.options}

    def exit_code(self, code: int) -> int:
        """Return the exit code of a command: its own, or that of an interrupt."""
        return self.interrupts.exit_code if self.interrupts.came else code

    def emit(self, document: Mapping[str, Any]) -> None:
        """Send one document, secrets masked."""
        self.send_again(self.log.mask.document(document))

    def send_again(self, document: Mapping[str, Any]) -> None:
        """Send a document in which secrets are masked already."""
        if document["type"] in _KEPT:
            self.kept.append(document)
        if document["type"] == "result":
            self._result(document)
        else:
            self._emit(document)

    def result(self, found: Any, *, reveal: bool = False) -> None:
        """Send the document of a command that reads; ``reveal``: with secrets in clear."""
        document = documents.line("result", {"document": found})
        if reveal:
            self._result(document)
        else:
            self.emit(document)

    def journal(self) -> Journal | None:
        """Return the journal of the stack, None for a job that changes nothing or where no state is kept."""
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


def _directories(archive: str) -> list[str]:
    """Return the directories of the module path in an archive, in their order."""
    return [f"{archive}/{name}" for name in sorted((each for each in os.listdir(archive) if each.isdigit()), key=int)]
