"""The commands of ``resource-api``; here they are sent to other hosts, or answered by this process.

Each is in the module of its name, or with related ones.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from resource_api.cli import hosted_run, options
from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.model.json_documents import ProblemJson
    from resource_api.runtime.commands import Call
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime


def run_on_hosts(session: Session, command: str, manifest: str | None = None, **arguments: Any) -> int | None:
    """Run a command on the hosts that its options select, and return the exit code.

    Return None without such options: the caller then runs the command on this machine.
    """
    if not options.is_hosted(session.settings):
        return None
    return hosted_run.run(session, command, manifest, **arguments)


class LocalCall(NamedTuple):
    """A call of a command that this process answers, as ``runtime.commands.Call``; a host has its own one."""

    session: Session
    options: Mapping[str, Any]

    @property
    def runtime(self) -> Runtime:
        """The runtime with the call's state."""
        return self.session.runtime

    @property
    def manifest(self) -> Source:
        """The manifest, see ``Session.source``. Raise ``ManifestError``, ``UsageError``."""
        return self.session.source(self.options["manifest"])

    @property
    def inputs(self) -> Mapping[str, object]:
        """The values of the inputs by name, see ``CommandInputs.values``. Raise ``UsageError``, ``ManifestError``."""
        return self.session.inputs.values

    def warnings(self) -> Sequence[ProblemJson]:
        """Return the diagnostics of the manifest's warnings."""
        return self.session.console.warnings()


def show_document(
    session: Session,
    command: str,
    make: Callable[[Call], Any],
    lines: Callable[[Any], str | Iterable[str]],
    *,
    empty: Callable[[], str] | str = "",
    exit_code: Callable[[Any], int] = lambda _document: 0,
    **arguments: object,
) -> int:
    """Run a command that shows one document, here or with ``--on`` on hosts; return the exit code.

    ``make`` returns the document from a call: this machine and each host make it in the same way. ``lines`` renders it
    as text. ``empty``: the notice on a terminal for a list without lines. ``arguments``: those that only this command
    has.
    """
    if (code := run_on_hosts(session, command, session.settings.get("manifest"), **arguments)) is not None:
        return code
    document = make(LocalCall(session, {**session.settings, **arguments}))
    session.console.show(lambda: document, lambda: lines(document), empty)
    return exit_code(document)


class DeclinedError(Exception):
    """The user has answered no to a plan: raised by ``on_plan``, so that the run ends before it changes anything."""


def asker(session: Session, command: str, declined: str, needed: str = "--yes") -> Callable[[str], bool]:
    """Return a function that asks the user a question, and writes the text ``declined`` for any answer but yes.

    Raise ``UsageError`` now if there is no terminal to ask on, before the caller does any work for the question.
    ``needed``: the options that replace an answer, for that error.
    """
    if session.json or not sys.stdin.isatty():
        reason = "with --json" if sys.stdin.isatty() else "when standard input is no terminal"
        raise UsageError(f"{command} needs {needed} {reason}")

    def confirmed(question: str) -> bool:
        """Return whether the user's answer to the question is yes; otherwise write the text ``declined``."""
        if session.output.confirmed(question):
            return True
        session.output.stderr.write(f"{declined}.\n")
        return False

    return confirmed
