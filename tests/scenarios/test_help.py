"""Help: short enough for a screen, complete where asked for, with examples that work."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import click
import pytest
from pyrage import x25519

from resource_api.cli import main as cli
from resource_api.cli.help import CommandGroup, GroupedCommand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scenarios.conftest import Bench, Outcome


def commands(group: click.Group = cli.cli, *names: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its name after that of the program, groups before their commands."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*names, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)


COMMANDS: Final = dict(commands())
#: What ends at a signal only.
ENDLESS: Final = ("resource-api watch ", "resource-api agent --from ")
#: What needs hosts, or an archive with an interpreter; ``tests/fleet`` has both. A server of PostgreSQL has others.
HOSTED: Final = ("resource-api hosts trust ", "resource-api hosts runtime add ")
#: What needs a Terraform provider, or a state of Terraform; ``tests/terraform`` has both.
TERRAFORM: Final = ("resource-api providers schema ", "resource-api import site.yaml --from-terraform ")
EXAMPLES: Final = sorted(
    line
    for line in {line for command in COMMANDS.values() for line in getattr(command, "examples", ())}
    if not line.startswith(ENDLESS + HOSTED + TERRAFORM) and " --on " not in line and " postgresql:" not in line
)

#: Commands that need a run before them.
APPLIED: Final = {"backup", "destroy", "history", "import", "output", "refresh", "report", "stack", "state"}
MAKE: Final = "resource-api bundle make site -o site.bundle"
SIGN: Final = "resource-api bundle sign site.bundle --key ~/.ssh/id_ed25519"
#: What has to be typed before an example, because its command needs it.
BEFORE: Final = {
    "resource-api show later.json": ("resource-api plan site.yaml -o later.json",),
    "resource-api show last": ("resource-api apply site.yaml",),
    "resource-api state untaint 'File[/etc/motd]'": ("resource-api state taint 'File[/etc/motd]'",),
    "resource-api state import web.json": ("resource-api state export > web.json",),
    "resource-api history diff last-1 last": ("resource-api apply site.yaml -i port=81",),
    "resource-api backup restore motd": ("resource-api apply site.yaml -i port=81",),
    "resource-api backup restore motd --at 1dead9bdf5e0": ("resource-api apply site.yaml -i port=81",),
    "resource-api state rekey --to file:state.key": ("resource-api new key state.key",),
    "resource-api agent status": ("resource-api agent once --from site site.yaml",),
    SIGN: (MAKE,),
    "resource-api bundle verify site.bundle --signers signers": (MAKE, SIGN),
}


class Screen:
    """A terminal of some width that shows what the command prints, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """Show nothing yet."""
        self._environment = monkeypatch
        self._output = capsys

    def shown(self, *arguments: str, columns: int = 100) -> str:
        """Return what a command that succeeds prints."""
        self._environment.setenv("COLUMNS", str(columns))
        assert cli.run(arguments) == 0
        return self._output.readouterr().out


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Screen:
    """Yield a terminal."""
    return Screen(monkeypatch, capsys)


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_on_a_screen(screen: Screen, name: str) -> None:
    """At most 40 lines of 100 columns, of commands 52; on a narrow terminal only what is to be copied is wider."""
    lines = screen.shown(*name.split(), "--help").splitlines()
    assert len(lines) <= (40 if name else 52)
    assert max(map(len, lines)) <= 100
    narrow = screen.shown(*name.split(), "--help", columns=60).splitlines()
    assert [line for line in narrow if len(line) > 60 and "resource-api" not in line] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_and_says_how_to_see_all_options(screen: Screen, name: str) -> None:
    """What ``--help`` leaves out is shown by ``help COMMAND --all``, with its environment variable."""
    command = COMMANDS[name]
    assert isinstance(command, GroupedCommand | CommandGroup)
    short, everything = screen.shown(*name.split(), "-h"), screen.shown("help", *name.split(), "--all")
    assert command.examples
    assert all(f"\n  {example}\n" in short for example in command.examples)
    options = [param for param in command.params if isinstance(param, click.Option)]
    for option in options:
        assert f" {option.opts[-1]}" in everything
        assert not option.envvar or f"[{option.envvar}]" in everything
    left_out = [item for item in options if f" {item.opts[-1]}" not in short]
    assert (f"help {name} --all" in short) == bool(left_out)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_works(bench: Bench, example: str) -> None:
    """It succeeds where its manifest exists, and was applied if that matters."""
    manifest = f"""
        project: web
        inputs:
          port: {{type: Integer, default: 80}}
        resources:
          File[/etc/motd]: {{path: {bench.home}/motd, content: "port ${{inputs.port}}", backup: {"backup" in example}}}
        outputs:
          checksum: ${{File[/etc/motd].checksum}}
    """
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    bench.environment["RESOURCE_API_BACKUPS"] = f"{bench.home}/copies"
    bench.write("site.yaml", manifest)
    bench.write("hosts.yaml", "hosts: {'web[1:2]': {}}")
    bench.write("playbook.yml", "[{hosts: all, tasks: [{copy: {dest: /etc/motd, content: hi}}]}]")
    bench.write("stacks/production.yaml.age.recipients", str(x25519.Identity.generate().to_public()))
    bench.environment["EDITOR"] = "true"
    if APPLIED.intersection(example.split()):
        assert bench.run("apply", "site.yaml").code == 0
    if {"agent", "bundle"}.intersection(example.split()):
        give_source(bench)
    for line in BEFORE.get(example, ()):
        assert typed(bench, line).code == 0
    result = typed(bench, example)
    assert result.code == 0, result.err


def give_source(bench: Bench) -> None:
    """Make the directory ``site`` with the manifest, a key that signs, and the file that names its owner."""
    bench.environment["RESOURCE_API_AGENT"] = f"{bench.home}/agent"
    bench.home.joinpath("site").mkdir()
    shutil.copy(bench.home / "site.yaml", bench.home / "site")
    key = bench.home / ".ssh/id_ed25519"
    key.parent.mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    bench.write("signers", f"alice {key.with_suffix('.pub').read_text(encoding='ascii')}")


def typed(bench: Bench, line: str) -> Outcome:
    """Run a command as a shell does; ``> FILE`` and ``~/`` are the only things of a shell that it may contain."""
    program, *words = shlex.split(line.replace(" ~/", f" {bench.home}/"))
    assert program == "resource-api"
    words, target = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, "")
    result = bench.run(*words)
    if target:
        bench.home.joinpath(target).write_text(result.out, encoding="utf-8")
    return result


def test_without_arguments_the_commands_are_shown_in_groups(bench: Bench) -> None:
    """Each once, the first steps first."""
    result, requested = bench.run(), bench.run("help")
    assert (result.code, requested.code) == (64, 0)
    assert requested.out == bench.run("--help").out
    assert "\n  Begin with 'resource-api resource user root' and 'resource-api help apply'.\n" in requested.out
    assert result.err.strip() == requested.out.strip()
    indexes = [requested.out.index(f"\n{title}:\n") for title in cli.COMMAND_GROUPS]
    assert indexes == sorted(indexes)
    assert next(iter(cli.COMMAND_GROUPS)) == "First steps"
    assert len(cli.COMMANDS) == sum(map(len, cli.COMMAND_GROUPS.values()))


@pytest.mark.parametrize("names", ["foo", "state foo", "apply foo"])
def test_help_of_an_unknown_command_is_wrong_usage(bench: Bench, names: str) -> None:
    """Also of one beneath a command that has none."""
    assert bench.run("help", *names.split()).code == 64
