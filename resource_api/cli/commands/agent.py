"""``agent``: apply the newest verified version of a manifest periodically, by a service or a timer."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, cast

import click

from resource_api.agent import run_schedule, systemd_units, verified_sources
from resource_api.agent.trust import make_directory
from resource_api.cli import options, reporting
from resource_api.cli.commands import run_on_hosts
from resource_api.cli.help import DefaultingGroup
from resource_api.cli.main import echo
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import Problem, ResourceAPIError, ResourceError, UsageError
from resource_api.model.values.text import escape, rough_duration
from resource_api.render import fleet
from resource_api.runtime import agent_status
from resource_api.state.open_store import default_path
from resource_api.system.facts import machine_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.agent.verified_sources import Agent, SourceVersion
    from resource_api.cli.reporting import Target
    from resource_api.cli.session import Session
    from resource_api.model.options import Settings

#: The entry of a context's ``meta`` with the raw arguments after the name of the subcommand.
_ARGUMENTS: Final = "resource_api.agent_arguments"
#: Seconds that a run waits for one that was started by hand.
_LOCK_TIMEOUT: Final = 300.0
#: Options of ``apply`` that are rare here: they are for running a part of a manifest by hand.
_RARE: Final = ("splay", "targets", "excludes", "tags", "replace", "prune", "fail_fast")


class _Agent(DefaultingGroup):
    """The commands of an agent, of which some need their raw arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the remaining arguments as click does, and record all as written, for ``once`` and the unit."""
        ctx.meta[_ARGUMENTS] = self.with_command(ctx, args)[1:]
        return super().parse_args(ctx, args)


@click.group(
    cls=_Agent,
    default="run",
    least=2,  # one word is a command that is misspelt
    examples=(
        "resource-api agent --from git+https://git.example.org/web.git#main --signers signers site.yaml",
        "resource-api agent once --from site site.yaml",
        "resource-api agent status",
    ),
)
def agent() -> None:
    """Apply a signed manifest periodically (agent mode)."""


_directory_option = click.option(
    "--directory",
    envvar="RESOURCE_API_AGENT",
    metavar="DIR",
    type=options.Path(file_okay=False),
    help="The agent's directory of verified versions; default: agent/ beside the default state.",
)


def _default_mode() -> str:
    """Return the default of ``--mode``: ``noop`` if RESOURCE_API_NOOP is true, as for ``apply``.

    Raise ``BadParameter`` for another text in it; the message names the variable, because the user gave no ``--mode``.
    """
    try:
        return "noop" if click.BOOL.convert(os.environ.get("RESOURCE_API_NOOP") or "0", None, None) else "apply"
    except click.BadParameter as error:
        error.param_hint = "'--mode' from RESOURCE_API_NOOP"
        raise


#: The options of an agent, and those of ``apply``.
_converging = options.together(
    options.manifest,
    click.option(
        "--from",
        "source",
        required=True,
        metavar="SOURCE",
        help="A directory, X.bundle, https://.../X.bundle, or git+ssh://, git+https://, git+file:// with #BRANCH.",
    ),
    click.option(
        "--every", type=options.Duration(1), default="30m", metavar="DURATION", help="The period; default: 30m."
    ),
    click.option(
        "--splay",
        type=options.Duration(0),
        metavar="DURATION",
        help="How long after the beginning of a period this machine may run; default: the whole period.",
    ),
    click.option(
        "--mode",
        type=options.Choice(["apply", "noop"]),
        default=_default_mode,
        help="Change the machine, or only report the differences; default: apply, or noop by RESOURCE_API_NOOP.",
    ),
    click.option("--signers", metavar="FILE", help="Whose signatures count: an allowed_signers file of OpenSSH."),
    _directory_option,
    options.full_run,
    options.common,
)


@agent.command(
    "run",
    examples=("resource-api agent --from https://site.example/web.bundle --signers signers site.yaml",),
    rare=_RARE,
)
@_converging
@click.pass_context
def run(context: click.Context, /, **settings: Any) -> int:
    """Apply MANIFEST of SOURCE once in every period, until a signal comes; the default of 'agent'.

    Each machine has its own time within the period. A missed run is made up for once, within 5 minutes.
    """
    agent = _agent(settings)

    def on_killed(killed: run_schedule.KilledRun) -> None:
        """Record and report a run that a signal has killed before it could do so itself.

        If this fails too, the error is logged, and the agent waits for its next run.
        """
        run_schedule.log_line(f"resource-api: {killed}")
        try:
            run_schedule.record_killed(agent, killed)
            _report_killed(agent, killed, settings)
        except (OSError, ResourceAPIError) as error:
            cause = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
            run_schedule.log_line(f"resource-api: it cannot be recorded: {cause}")

    # No manifest is read here: its name is enough to give this machine's agents different times.
    project = settings["project"] or os.path.basename(agent.manifest).partition(".")[0]
    schedule = run_schedule.schedule(machine_id(), str(project), agent.period, settings["splay"])
    machine = run_schedule.ThisMachine(["agent", "once", *context.meta[_ARGUMENTS]], on_killed)

    def on_wait(seconds: float) -> None:
        """Print the time of the next run, unless quiet: a user who starts the agent sees that it waits."""
        if not settings["quiet"]:
            at = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() + seconds))
            run_schedule.log_line(f"The next run is at {at}, in {rough_duration(seconds)}.")

    stopped = run_schedule.run_until_stopped(schedule, machine, run_schedule.last_end(_directory(settings)), on_wait)
    return 128 + stopped


def _agent(settings: Settings) -> Agent:
    """Return the agent of the options.

    Raise ``click.UsageError`` for an invalid option: click shows it, because ``agent run`` has no session.
    """
    manifest = settings["manifest"]
    if os.path.isabs(manifest) or ".." in manifest.split("/") or manifest == "-":
        raise click.UsageError(f"MANIFEST is a path in the source, such as site.yaml, not '{manifest}'")
    with errors_as(click.UsageError, UsageError):
        source = verified_sources.parse(settings["source"])
        verified_sources.check(source, settings["signers"])
    return verified_sources.Agent(
        directory=_directory(settings),
        source=source,
        manifest=manifest,
        mode=settings["mode"],
        period=settings["every"],
        signers=settings["signers"],
        trusted=settings["trust_path"],
    )


def _directory(settings: Settings) -> str:
    """Return the absolute path of the agent's directory of verified versions."""
    return os.path.abspath(settings["directory"] or f"{_default_directory()}/agent")


def _default_directory() -> str:
    """Return the directory of the default state, beside which an agent keeps its own files."""
    return os.path.dirname(default_path(os.environ))


def _session(settings: Settings, *, runs: bool = False) -> Session:
    """Return a session for a subcommand; ``runs``: it applies a manifest, see ``Session``.

    ``agent run`` stays in memory between its runs and needs no session, so the module is imported only here.
    """
    from resource_api.cli.session import Session

    return Session(settings, runs=runs)


@agent.command("once", examples=("resource-api agent once --from site site.yaml",), rare=_RARE)
@_converging
def once(**settings: Any) -> int:
    """Apply MANIFEST of SOURCE once, as 'agent run' does at each of its times; for a timer."""
    agent, source_fields = _agent(settings), dict[str, object]()
    # The targets are set before the run, so that also an error before the source's version is known is reported.
    # ``_once`` fills ``source_fields`` when it knows the version.
    settings["reports"] = [
        _with_source(target, source_fields) for target in settings["reports"] or [_default_report(settings)]
    ]
    settings["metrics"] = [_with_agent(target, agent, source_fields) for target in settings["metrics"]]
    session = _session(settings, runs=True)
    return session.execute(lambda: _once(session, agent, source_fields, settings))


def _default_report(settings: Settings) -> Target:
    """Return the target that receives the reports of runs without ``--report``, so that each run leaves one.

    It is the directory ``reports/`` in ``--directory``, or beside the default directory ``agent/``.
    """
    directory = _directory(settings) if settings["directory"] else _default_directory()
    target = reporting.report_directory(f"{directory}/reports")

    def report(document: Mapping[str, object]) -> None:
        """Write the report of a run, and make the directory. Raise ``Untrusted`` for one that others can change."""
        make_directory(target.text)
        target.reporter(document)

    return target._replace(reporter=report)


def _with_source(target: Target, source_fields: Mapping[str, object]) -> Target:
    """Return a target of ``--report`` with the source's version in ``source_fields``, set by ``_once``."""
    return target._replace(reporter=lambda document: target.reporter({**document, **source_fields}))


def _with_agent(target: Target, agent: Agent, source_fields: Mapping[str, Any]) -> Target:
    """Return a target of ``--metrics`` that adds the agent's period and pause and the source's version to each run.

    They show whether the agent works. ``_once`` sets the version in ``source_fields``.
    """

    def report(document: Mapping[str, Any]) -> None:
        """Write the metrics of a run together with those of the agent and the source.

        The fields ``agent`` of the document itself replace them, as for a pause, which is known only in the run.
        """
        fields = {
            "period": agent.period,
            "paused": False,
            **source_fields.get("agent", {}),
            **document.get("agent", {}),
        }
        target.reporter({**document, **source_fields, "command": "apply", "agent": fields})

    return target._replace(reporter=report)


def _report_killed(agent: Agent, killed: run_schedule.KilledRun, settings: Settings) -> None:
    """Write the metrics that a killed run could not write itself, so that monitoring sees the failure.

    Without ``--project`` the project is that of the last recorded run. Raise ``OSError`` or ``StateError``.
    """
    if not settings["metrics"]:
        return
    last: Mapping[str, object] = agent_status.last_run(agent.directory) or {}
    selection = {**settings, "project": settings["project"] or last.get("project", "")}
    problems = [Problem(None, str(killed))]
    document = reporting.failure_document(selection, "apply", killed.began, 128 + killed.signal, problems)
    for target in settings["metrics"]:
        _with_agent(target, agent, {}).reporter(document)


def _report_pause(session: Session, agent: Agent, settings: Settings) -> None:
    """Make the session write metrics at its end from which monitoring sees that the agent is paused, but no report.

    The document repeats the project, end and generation of the last run, because no new run takes place.
    """
    last: Mapping[str, object] = agent_status.last_run(agent.directory) or {}
    if session.reporting is not None:
        session.reporting.detach()  # a pause is no run: no report and no trace of it is written
        session.reporting.targets = settings["metrics"]
    session.set_document({
        "kind": "agent",
        "project": settings["project"] or last.get("project", ""),
        "stack": settings["stack"],
        "ended": last.get("ended"),
        "generation": last.get("generation", 0),
        "agent": {"paused": True},
    })  # fmt: skip


def _once(session: Session, agent: Agent, source_fields: dict[str, Any], settings: dict[str, object]) -> int:
    """Apply the newest version of the source once and record the outcome; return the exit code, 0 while paused.

    If the newest version cannot be verified, the last verified one is applied; if there is none, raise the error of the
    source. ``source_fields`` receives facts about the version, which the reporters add to their documents.
    """
    make_directory(agent.directory)
    with run_schedule.locked(agent.directory):
        if pause := agent_status.paused(agent.directory):
            _report_pause(session, agent, settings)
            session.log.write("notice", "", f"nothing is done: the agent is paused: {pause['reason']}")
            return 0
        began = time.time()
        version = verified_sources.verified_version(agent)
        source_fields.update(agent=version.fields, generation=version.fields["generation"])
        if version.directory is None and (error := version.error) is not None:
            document = run_schedule.failed_document(error)
            _record(session, lambda: run_schedule.record(agent, version, document, error.exit_code, began))
            raise error
        documents: list[Any] = [{"summary": {}}]  # the last one is recorded
        code = _apply(session, version, settings, documents.append)
        _record(session, lambda: run_schedule.record(agent, version, documents[-1], code, began))
        return code


def _apply(session: Session, version: SourceVersion, settings: Settings, keep: Callable[[Any], None]) -> int:
    """Apply a version of the source by the command ``apply``, and return the exit code.

    If the newest version cannot be verified, ``version`` is the last verified one: the error is shown, and its exit
    code replaces that of a success. ``keep`` is called with the document of the run, to record it.
    """
    if version.error is not None:
        text = f"{version.error}; the last verified version stays in force"
        session.console.emit_problem(Problem(None, text, code=str(version.fields["trust"])))
    # The command apply has a session of its own, which reports the run and writes to stdout.
    reporters = session.reporting.detach() if session.reporting is not None else ()
    parameters = {
        **settings,
        "manifest": os.path.join(str(version.directory), settings["manifest"]),
        "module_path": [*settings["module_path"], *version.modules],
        "noop": settings["mode"] == "noop",
        "explain": (),
        "instead_of_success": version.error.exit_code if version.error is not None else 0,
        "lock_timeout": settings["lock_timeout"] or _LOCK_TIMEOUT,
        "reports": [*reporters, reporting.Target("the agent", keep)],
        # Empty, because the targets of --metrics are among the reporters.
        "metrics": [],
    }
    session.output.restore_stdout()
    program = click.get_current_context().find_root()
    apply = cast("click.Command", cast("click.Group", program.command).get_command(program, "apply"))
    # A context of its own: documents of the run have the command's name from it.
    with click.Context(apply, info_name="apply"):
        code: int = apply.callback(**parameters) if apply.callback is not None else 1
    return code


def _record(session: Session, write: Callable[[], None]) -> None:
    """Record a run for ``agent status`` by calling ``write``.

    A failure is only shown: the exit code stays that of the run, which has ended already.
    """
    try:
        write()
    except OSError as error:
        problem = Problem(None, f"the status of the agent cannot be written: {error.strerror}")
        session.console.show_problem(problem)


@agent.command("status", examples=("resource-api agent status", "resource-api agent status --on all"))
@_directory_option
@options.common
@options.hosted_reading
def status(**settings: object) -> int:
    """Show the last run of the agent. Exit code 0: well, 2: drift, 4: failing, 6: both, 1: stale, paused or unknown.

    With --on: 1 where an agent is failing, stale, paused or unknown, or its host gave no answer.
    """
    session, context = _session(settings), click.get_current_context()
    # A directory from the environment is one of this machine: hosts do not get it.
    is_explicit = context.get_parameter_source("directory") is click.core.ParameterSource.COMMANDLINE
    if options.is_hosted(settings):
        directory = settings["directory"] if is_explicit else None
        return session.execute(lambda: run_on_hosts(session, "agent", subcommand="status", directory=directory))

    def show() -> int:
        """Show the status of this machine's agent; return its exit code, by which a script sees drift or failure."""
        time_now = time.time()
        document = agent_status.status(_directory(settings), time_now)
        session.console.show(lambda: document, lambda: fleet.agent_lines(document, time_now))
        return int(document["code"])

    return session.execute(show)


@agent.command("pause", examples=("resource-api agent pause 'Disk is being replaced'",))
@click.argument("reason")
@_directory_option
@options.common
def pause(reason: str, **settings: object) -> int:
    """Let the agent make no more runs, for a REASON that 'agent status' shows; a running one ends."""
    if not reason.strip():
        raise click.UsageError("REASON is empty")

    def pause_in(directory: str) -> str:
        """Record the pause in the agent's directory; return the message about it."""
        make_directory(directory)
        run_schedule.pause(directory, reason, time.time())
        return f"Paused: {escape(reason)}"

    return _edit_agent_directory(settings, pause_in)


@agent.command("resume", examples=("resource-api agent resume",))
@_directory_option
@options.common
def resume(**settings: object) -> int:
    """Let a paused agent make runs again, from its next time on."""
    return _edit_agent_directory(
        settings, lambda path: "Resumed." if run_schedule.resume(path) else "The agent was not paused."
    )


def _edit_agent_directory(settings: Settings, change: Callable[[str], str]) -> int:
    """Run ``pause`` or ``resume``: call ``change``, which writes or removes a file in the agent's directory.

    Print the message that ``change`` returns; return the exit code of the command.
    """
    session = _session(settings)

    def command() -> None:
        """Make the change and show its message; an error about a file includes its path."""
        directory = _directory(settings)
        with errors_as(ResourceError, OSError, f"{directory}: ", names_file=True):
            message = change(directory)
        session.console.show(lambda: {"message": message}, lambda: message)

    return session.execute(command)


@agent.command(
    "unit",
    examples=("resource-api agent unit --from https://site.example/web.bundle --signers /etc/sign site.yaml",),
    rare=_RARE,
)
@click.option("--timer", is_flag=True, help="A timer that starts 'agent once', instead of a service that stays.")
@_converging
@click.pass_context
def unit(context: click.Context, /, **settings: object) -> None:
    """Print the hardened systemd units of an agent with these options, to be written below /etc/systemd/system."""
    _agent(settings)  # refuses invalid options
    arguments = [argument for argument in context.meta[_ARGUMENTS] if argument != "--timer"]
    # A service does not get this environment: the variables that are used here become part of the unit.
    variables = {
        str(parameter.envvar): os.environ[str(parameter.envvar)]
        for parameter in context.command.params
        if context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.ENVIRONMENT
    }
    with errors_as(click.UsageError, UsageError):
        texts = systemd_units.units(arguments, settings, variables, _default_directory())
    for name, text in texts.items():
        echo(f"# /etc/systemd/system/{name}\n{text}")
