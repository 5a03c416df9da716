"""``agent``: apply the newest verified version of a manifest again and again, without anybody who asks for it."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any, Final

import click

from resource_api.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.agent.converge import Agent, Found
    from resource_api.agent.schedule import Schedule
    from resource_api.cli.session import Session
    from resource_api.runtime.reporters import Target

#: The entry of a context's ``meta`` with the arguments after the name of the subcommand, as they were given.
_ARGUMENTS: Final = "resource_api.agent_arguments"
#: Seconds that a run waits for one that was started by hand.
_LOCK_TIMEOUT: Final = 300.0
#: Options of ``apply`` that ``--help`` does not show here: they are for running a part of a manifest by hand.
_RARE: Final = ("splay", "targets", "excludes", "tags", "replace", "prune", "fail_fast")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(?:(\d{1,6})([smhd]))+")


class _Duration(click.ParamType[float]):
    """A length of time: ``30m``, ``1h30m``, ``90s``; a plain number is seconds."""

    name = "duration"

    def __init__(self, least: int) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        if isinstance(value, float):
            return value
        text = f"{value}s" if str(value).isdecimal() else str(value)
        if not _DURATION.fullmatch(text):
            self.fail(f"'{value}' is no length of time: write 90s, 30m, 1h30m or 1d", param, ctx)
        seconds = sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))
        if seconds < self._least:
            self.fail(f"'{value}' is less than {self._least} s", param, ctx)
        return float(seconds)


class _Agent(options.Group):
    """A group that runs where no subcommand is named: ``agent --from SOURCE MANIFEST`` is ``agent run ...``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments that are left, after the name of a subcommand."""
        if len(args) > 1 and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        ctx.meta[_ARGUMENTS] = args[1:]
        return super().parse_args(ctx, args)


@click.group(
    cls=_Agent,
    examples=(
        "resource-api agent --from git+https://git.example.org/web.git#main --signers signers site.yaml",
        "resource-api agent once --from site site.yaml",
        "resource-api agent status",
    ),
)
def agent() -> None:
    """Apply a signed manifest again and again, by itself."""


_directory_option = click.option(
    "--directory",
    envvar="RESOURCE_API_AGENT",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Where the agent keeps what it has verified; default: agent/ beside the default state.",
)


def _default_mode() -> str:
    """Return the mode where none is given: who has set the variable of ``--noop`` expects that nothing is changed."""
    return "noop" if click.BOOL.convert(os.environ.get("RESOURCE_API_NOOP") or "0", None, None) else "apply"


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
    click.option("--every", type=_Duration(1), default="30m", metavar="DURATION", help="The period; default: 30m."),
    click.option(
        "--splay",
        type=_Duration(0),
        metavar="DURATION",
        help="How long after the beginning of a period this machine may run; default: the whole period.",
    ),
    click.option(
        "--mode",
        type=options.Choice(["apply", "noop"]),
        default=_default_mode,
        help="Change the machine, or only report what differs; default: apply, or noop by RESOURCE_API_NOOP.",
    ),
    click.option("--signers", metavar="FILE", help="Whose signatures count: an allowed_signers file of OpenSSH."),
    _directory_option,
    options.full_run,
)


@agent.command(
    "run",
    examples=("resource-api agent --from https://site.example/web.bundle --signers signers site.yaml",),
    rare=_RARE,
)
@_converging
@click.pass_context
def run(context: click.Context, /, **settings: Any) -> int:
    """Apply MANIFEST of SOURCE once in every period, until a signal comes; what 'agent' does by default.

    Each machine has its own time within the period. What was missed is made up for once, within 5 minutes.
    """
    from resource_api.agent import loop, status

    _agent(settings)  # refuses what cannot be
    machine = loop.ThisMachine(["agent", "once", *context.meta[_ARGUMENTS]])

    def on_wait(seconds: float) -> None:
        if not settings["quiet"]:
            at = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() + seconds))
            click.echo(f"The next run is at {at}, in {_shown(seconds)}.", err=True)

    stopped = loop.run_until_stopped(_schedule(settings), machine, status.ended(_directory(settings)), on_wait)
    return 128 + stopped


def _schedule(settings: Mapping[str, Any]) -> Schedule:
    from resource_api.agent import loop, schedule

    subject = settings["project"] or os.path.basename(settings["manifest"]).partition(".")[0]
    return schedule.schedule(loop.machine_id(), subject, settings["every"], settings["splay"])


def _agent(settings: Mapping[str, Any]) -> Agent:
    """Return what the options describe. Raise ``click.UsageError`` for a source, manifest or signers that cannot be."""
    from resource_api.agent import sources
    from resource_api.agent.converge import Agent
    from resource_api.model.values.errors import UsageError

    manifest = settings["manifest"]
    if os.path.isabs(manifest) or ".." in manifest.split("/") or manifest == "-":
        msg = f"MANIFEST is a path in the source, such as site.yaml, not '{manifest}'"
        raise click.UsageError(msg)
    try:
        source = sources.parse(settings["source"])
        sources.check(source, settings["signers"])
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    return Agent(
        directory=_directory(settings),
        source=source,
        manifest=manifest,
        mode=settings["mode"],
        period=settings["every"],
        signers=settings["signers"],
        trusted=settings["trust_path"],
    )


def _directory(settings: Mapping[str, Any]) -> str:
    return os.path.abspath(settings["directory"] or f"{_base()}/agent")


def _base() -> str:
    from resource_api.state.open_store import default_path

    return os.path.dirname(default_path(os.environ))


@agent.command("once", examples=("resource-api agent once --from site site.yaml",), rare=_RARE)
@_converging
def once(**settings: Any) -> int:
    """Apply MANIFEST of SOURCE once, as 'agent run' does at each of its times; for a timer."""
    from resource_api.cli.session import Session

    doing, about = _agent(settings), dict[str, Any]()
    settings["reports"] = [_about(each, about) for each in settings["reports"] or _default_reports(settings)]
    settings["metrics"] = [_about(each, about) for each in settings["metrics"]]
    session = Session(settings, runs=True)
    return session.execute(lambda: _once(session, doing, about, settings))


def _default_reports(settings: Mapping[str, Any]) -> Sequence[Target]:
    """Return the directory of reports: in the agent's own one if that is given, otherwise beside it."""
    from resource_api.agent.root_only_files import make_directory
    from resource_api.runtime import reporters

    target = reporters.report_directory(f"{_directory(settings) if settings['directory'] else _base()}/reports")

    def report(document: Mapping[str, Any]) -> None:
        make_directory(target.text)  # raises for one that others can change
        target.reporter(document)

    return [target._replace(reporter=report)]


def _about(target: Target, about: Mapping[str, Any]) -> Target:
    """Return a target that also gets what is known of the source by then."""
    return target._replace(reporter=lambda document: target.reporter({**document, **about}))


def _once(session: Session, doing: Agent, about: dict[str, Any], settings: dict[str, Any]) -> int:
    from resource_api.agent import converge, status
    from resource_api.agent.root_only_files import make_directory

    make_directory(doing.directory)
    with converge.locked(doing.directory):
        if pause_ := status.paused(doing.directory):
            session.take_targets()
            session.log.write("notice", "", f"nothing is done: the agent is paused: {pause_['reason']}")
            return 0
        began = time.time()
        found = converge.find(doing)
        about.update(agent=found.about, generation=found.about["generation"])
        if found.directory is None and found.error is not None:
            failed = {"summary": {}, "problems": [{"severity": "error", "message": str(found.error)}]}
            code = found.error.exit_code
            _record(session, lambda: converge.record(doing, found, failed, code, began))
            raise found.error
        documents: list[Any] = []
        code = _apply(session, found, settings, documents.append)
        document = documents[-1] if documents else {"summary": {}}
        _record(session, lambda: converge.record(doing, found, document, code, began))
        return code


def _apply(session: Session, found: Found, settings: Mapping[str, Any], keep: Callable[[Any], None]) -> int:
    """Apply what was found, as the command ``apply`` does, and return its exit code; ``keep`` gets its document."""
    from resource_api.cli.commands.apply import apply
    from resource_api.model.values.errors import Problem
    from resource_api.runtime.reporters import Target

    if found.error is not None:
        text = f"{found.error}; the last verified version stays in force"
        session.announce(Problem(None, text, code=str(found.about["trust"])))
    given = {
        **settings,
        "manifest": os.path.join(str(found.directory), settings["manifest"]),
        "module_path": [*settings["module_path"], *found.modules],
        "noop": settings["mode"] == "noop",
        "explain": (),
        "instead_of_success": found.error.exit_code if found.error is not None else 0,
        "lock_timeout": settings["lock_timeout"] or _LOCK_TIMEOUT,
        "reports": [*session.take_targets(), Target("the agent", keep)],
        "metrics": [],
    }
    session.output.give_back_stdout()
    with click.Context(apply, info_name="apply"):
        code: int = apply.callback(**given) if apply.callback is not None else 1
    return code


def _record(session: Session, write: Callable[[], None]) -> None:
    """Record a run; where that cannot be written, the run keeps its exit code."""
    from resource_api.model.values.errors import Problem

    try:
        write()
    except OSError as error:
        session.report_problem(Problem(None, f"the status of the agent cannot be written: {error.strerror}"))


@agent.command("status", examples=("resource-api agent status",))
@_directory_option
@options.common
def status(**settings: Any) -> int:
    """Show what the agent did last. Exit code 0: well, 2: drift, 4: failing, 6: both, 1: stale, paused or unknown."""
    from resource_api.cli.session import Session

    session = Session(settings)
    return session.execute(lambda: _status(session, _directory(settings)))


def _status(session: Session, directory: str) -> int:
    from resource_api.agent import status as statuses

    last, pause_, now = statuses.last_run(directory), statuses.paused(directory), time.time()
    health = statuses.assess(last, pause_, now)
    document = {"code": health.code, "reasons": list(health.reasons), "paused": pause_, "last": last}
    session.show(lambda: document, lambda: _status_lines(last, health.reasons, now))
    return health.code


def _status_lines(last: Mapping[str, Any] | None, reasons: Sequence[str], now: float) -> list[str]:
    from resource_api.model.values.text import escape

    found = []
    if last is not None:
        version = f", generation {last['generation']}" if last["generation"] else ""
        signer = f", signed by {last['signer']}" if last["signer"] else ""
        found.append(f"{last['source']} {last['manifest']} ({last['mode']}){version}{signer}")
        found.append(
            f"The last run ended {_shown(max(now - last['ended'], 0))} ago with exit code {last['exit_code']}."
        )
    return [escape(line) for line in (*found, *(f"- {reason}" for reason in reasons or ("all is well",)))]


@agent.command("pause", examples=("resource-api agent pause 'Disk is being replaced'",))
@click.argument("reason")
@_directory_option
@options.common
def pause(reason: str, **settings: Any) -> int:
    """Let the agent make no more runs, for a REASON that 'agent status' shows; a running one ends."""
    from resource_api.agent import status as statuses
    from resource_api.agent.root_only_files import make_directory
    from resource_api.model.values.text import escape

    if not reason.strip():
        msg = "REASON is empty"
        raise click.UsageError(msg)

    def work(directory: str) -> str:
        make_directory(directory)
        statuses.pause(directory, reason, time.time())
        return f"Paused: {escape(reason)}"

    return _changing(settings, work)


@agent.command("resume", examples=("resource-api agent resume",))
@_directory_option
@options.common
def resume(**settings: Any) -> int:
    """Let a paused agent make runs again, from its next time on."""
    from resource_api.agent import status as statuses

    return _changing(settings, lambda path: "Resumed." if statuses.resume(path) else "The agent was not paused.")


def _changing(settings: Mapping[str, Any], work: Callable[[str], str]) -> int:
    """Do something with the agent's directory and print what was done."""
    from resource_api.cli.session import Session
    from resource_api.model.values.errors import ResourceError

    session = Session(settings)

    def command() -> None:
        try:
            done = work(_directory(settings))
        except OSError as error:
            msg = f"{error.filename or _directory(settings)}: {error.strerror}"
            raise ResourceError(msg) from error
        session.show(lambda: {"message": done}, lambda: done)

    return session.execute(command)


@agent.command(
    "unit",
    examples=("resource-api agent unit --from https://site.example/web.bundle --signers /etc/sign site.yaml",),
    rare=_RARE,
)
@click.option("--timer", is_flag=True, help="A timer that starts 'agent once', instead of a service that stays.")
@_converging
@click.pass_context
def unit(context: click.Context, /, **settings: Any) -> None:
    """Print the hardened systemd units of an agent with these options, to be written below /etc/systemd/system."""
    from resource_api.agent import unit as units
    from resource_api.model.values.errors import UsageError

    _agent(settings)  # refuses what cannot be
    arguments = [each for each in context.meta[_ARGUMENTS] if each != "--timer"]
    variables = {
        str(each.envvar): os.environ[str(each.envvar)]
        for each in context.command.params
        if context.get_parameter_source(str(each.name)) is click.core.ParameterSource.ENVIRONMENT
    }
    try:
        found = units.units(arguments, settings, variables, _base())
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    for name, text in found.items():
        click.echo(f"# /etc/systemd/system/{name}\n{text}")


def _shown(seconds: float) -> str:
    """Return a length of time for people."""
    for size, unit_ in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {unit_}"
    return f"{round(seconds)} s"
