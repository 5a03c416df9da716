"""Completion, typed in bash, zsh and fish on a terminal: what is found, and that titles are only ever text."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.cli import completion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.scenarios.conftest import Bench

pytestmark = pytest.mark.process

#: A title with everything that a shell treats specially.
HOSTILE: Final = "d $(touch pwned)`touch pwned`;touch pwned&|<>*?[x]{a,b}#~'\"\\:=@^é"
#: A name that could only be recorded by another program; on a terminal it would change the colour.
CONTROL: Final = "z\n\x1b[31m\ty"

#: How a shell is started so that it reads nothing of the user's, and what it executes first: it loads the script, and
#: the key Control-G writes the line as it is into a file.
_STARTED: Final = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        """bind 'set enable-bracketed-paste off'
        bind -x '"\\C-g": printf %s "$READLINE_LINE" > line.new; mv line.new line'""",
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        """autoload -U compinit; compinit -u -D
        dump() { print -rn -- "$BUFFER" > line.new; mv line.new line }; zle -N dump; bindkey '^G' dump""",
    ),
    "fish": (["fish", "--no-config", "-i"], "bind \\cg 'commandline > line.new; mv line.new line'"),
}
#: What records the arguments of a command in place of executing it.
_RECORD: Final = {
    "bash": 'resource-api() {{ printf "%s\\0" "$@"; }}\n{}',
    "zsh": 'resource-api() {{ printf "%s\\0" "$@"; }}\n{}',
    "fish": "function resource-api; string join0 -- $argv; end\n{}",
}


class Shell:
    """An interactive shell on a terminal."""

    def __init__(self, name: str, bench: Bench) -> None:
        """Start it where the manifest of the bench is."""
        self.name, self._home = name, bench.home
        #: What has been written to the terminal.
        self.shown = b""
        program = bench.home / "bin" / "resource-api"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m resource_api "$@"\n')
        program.chmod(0o755)
        self.environment = bench.environment | {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "TERM": "dumb",
            "XDG_RUNTIME_DIR": str(bench.home),
        }
        bench.write("script", completion.script(name))
        words, prepare = _STARTED[name]
        pid, self._terminal = pty.fork()
        if pid == 0:
            os.chdir(bench.home)
            os.execvpe(words[0], words, self.environment)  # noqa: S606 - it is the shell
        self._pid = pid
        bench.write("prepare", f"{prepare}\n. ./script\necho > ready\n")
        self._type(". ./prepare\r")
        self._wait("ready")

    def close(self) -> None:
        """End the shell."""
        os.close(self._terminal)
        with suppress(ProcessLookupError):
            os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)

    def completed(self, typed: str) -> str:
        """Return the line after Tab was pressed behind ``typed``."""
        self._type(f"{typed}\t\x07")
        line = self._wait("line")
        self._type("\x05\x15")
        return line.rstrip("\n")

    def arguments(self, line: str) -> list[str]:
        """Return the arguments that the command gets from a line."""
        process = subprocess.run(
            [self.name, *(["--no-config"] if self.name == "fish" else []), "-c", _RECORD[self.name].format(line)],
            cwd=self._home,
            env=self.environment,
            check=False,
            capture_output=True,
        )
        return process.stdout.decode().split("\0")[:-1]

    def _type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def _wait(self, name: str) -> str:
        """Wait until the shell has written a file; return what is in it and remove it. Read what the shell shows."""
        path = self._home / name
        end = time.monotonic() + 30
        while not path.exists() and time.monotonic() < end:
            if select.select([self._terminal], [], [], 0.01)[0]:
                self.shown += os.read(self._terminal, 65536)
        assert path.exists(), self.shown.decode(errors="replace")
        text = path.read_text(encoding="utf-8")
        path.unlink()
        return text


@pytest.fixture
def shell_bench(bench: Bench) -> Bench:
    """Yield a bench with a manifest that was applied, whose titles are hostile."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    title = HOSTILE.replace("'", "''")
    manifest = f"""
        project: shells
        inputs:
          size: {{type: Integer, default: 1}}
          secret: {{type: "Sensitive[String]", default: hidden value}}
        resources:
          'Widget[{title}]': {{}}
          Widget[plain]: {{size: "${{inputs.size}}"}}
    """
    assert bench.apply(manifest).code == 0, bench.apply(manifest).err
    exported = bench.run("state", "export").out
    bench.write("named.json", exported.replace('"name": "plain"', f'"name": {json.dumps(CONTROL)}'))
    assert bench.run("state", "import", "named.json", "--force").code == 0
    return bench


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest, shell_bench: Bench) -> Iterator[Shell]:
    """Yield each shell."""
    shell = Shell(request.param, shell_bench)
    yield shell
    shell.close()


_CASES: Final[Sequence[tuple[str, list[str]]]] = [
    ("resource-api desc", ["describe"]),
    ("resource-api apply site.yaml --tar", ["apply", "site.yaml", "--target"]),
    ("resource-api resource widg", ["resource", "widget"]),
    ("resource-api resource user root sh", ["resource", "user", "root", "shell="]),
    ("resource-api resource user root ensure=a", ["resource", "user", "root", "ensure=absent"]),
    ("resource-api apply site.yaml -i si", ["apply", "site.yaml", "-i", "size="]),
    ("resource-api apply si", ["apply", "site.yaml"]),
    ("resource-api inputs si", ["inputs", "site.yaml"]),
    (
        "resource-api state show --project shells --stack default W",
        ["state", "show", "--project", "shells", "--stack", "default", "Widget["],
    ),
    ("resource-api describe std.semv", ["describe", "std.semver_compare"]),
    ("resource-api help state mv", ["help", "state", "mv"]),
    ("resource-api no-such --thing x", ["no-such", "--thing", "x"]),
    (r"resource-api state show Widget\[p", ["state", "show", "Widget[plain]"]),
    ("resource-api apply site.yaml --target=Widget\\[p", ["apply", "site.yaml", "--target=Widget[plain]"]),
    ("resource-api apply site.yaml --target 'Widget[p", ["apply", "site.yaml", "--target", "Widget[plain]"]),
    ("resource-api resource widget d", ["resource", "widget", HOSTILE]),
    ("resource-api apply site.yaml --target 'Widget[d", ["apply", "site.yaml", "--target", f"Widget[{HOSTILE}]"]),
    ('resource-api apply site.yaml --target "Widget[d', ["apply", "site.yaml", "--target", f"Widget[{HOSTILE}]"]),
    ("resource-api state show --project s", ["state", "show", "--project", "shells"]),
]


def test_tab_completes_names_and_executes_nothing(shell: Shell, shell_bench: Bench) -> None:
    """The command gets the whole name, however it is quoted and whatever is in it."""
    wrong = []
    for typed, expected in _CASES:
        line = shell.completed(typed)
        if shell.arguments(line) != expected:
            wrong.append((typed, line))
        if line != typed.rstrip("\t") and line.endswith(" ") == expected[-1].endswith(("=", "[")):
            wrong.append((typed, line))
    assert not wrong, "\n".join(map(repr, wrong))
    assert not shell_bench.home.joinpath("pwned").exists()
    assert b"\x1b[31m\ty" not in shell.shown


class Asked:
    """The command, asked what can be completed as the script of zsh asks."""

    def __init__(self, bench: Bench) -> None:
        """Ask in the directory of a bench."""
        self._bench = bench

    def __call__(self, *words: str, **environment: str) -> list[str]:
        """Return the values; whatever happens, nothing is written to stderr."""
        result = self._bench.run(*words, _RESOURCE_API_COMPLETE="zsh_complete", **environment)
        assert (result.code, result.err) == (0, "")
        return result.out.split("\0")[1:-1:2]


def test_completing_runs_no_manifest_and_no_provider(bench: Bench) -> None:
    """A manifest is read as text, a type is only its definition."""
    requested = Asked(bench)
    bench.write("site.py", "open('executed', 'w')\nINPUTS = {'size': {'type': 'Integer'}}\ndef manifest(m): pass\n")
    bench.type("loud", "'name': Attribute('String', kind='namevar'), 'size': Attribute('Integer', 'How big.')")
    bench.write("modules/providers/loud.py", "open('executed', 'w')\n")
    assert requested("apply", "site.py", "-i", "") == []
    assert requested("resource", "lou") == ["loud"]
    assert requested("resource", "user,lou") == ["user,loud"]
    assert requested("resource", "loud", "x", "s") == ["size="]
    assert not bench.home.joinpath("executed").exists()


def test_completing_a_command_imports_no_command(bench: Bench) -> None:
    """The names and summaries are known before any is imported."""
    program = "import atexit, sys; from resource_api.__main__ import main; atexit.register(lambda: print(*sys.modules))"
    process = subprocess.run(
        [sys.executable, "-c", f"{program}; main()", "sta"],
        env=bench.environment | {"_RESOURCE_API_COMPLETE": "zsh_complete"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert process.stdout.startswith("plain\0state\0")
    modules = process.stdout.splitlines()[-1].split()
    assert "resource_api.cli.completion" in modules
    assert "resource_api.cli.commands" not in modules


def test_inputs_and_resources_are_found_in_a_manifest_that_is_not_complete(bench: Bench) -> None:
    """A secret comes from a file, an enumeration has its values, and one that is given needs none."""
    requested = Asked(bench)
    bench.write(
        "site.yaml",
        """
        inputs:
          stage: {type: "Enum[test, production]"}
          # what others must not see
          token: {type: String, sensitive: true}

        resources:
          'Widget[it''s]': {}
          "Widget[b c]":
            size: 1
          Widget[${inputs.stage}]: {}
          Widget[a]: {size: "${inputs
        """,
    )
    bench.write("site.json", '{"inputs": {"port": {"type": "Integer"}}, "resources": {}}')
    assert requested("apply", "site.yaml", "-i", "") == ["stage=", "token=@"]
    assert requested("plan", "site.yaml", "--noop", "-i", "stage=p") == ["stage=production"]
    assert requested("apply", "site.json", "-i", "p") == ["port="]
    assert requested("apply", "site.yaml", "--target", "") == ["Widget[a]", "Widget[b c]", "Widget[it's]"]
    assert requested("import", "site.yaml", "Widget[b") == ["Widget[b c]"]
    assert requested("apply", "missing.yaml", "-i", "") == []


def test_a_command_that_may_be_left_out_is_completed_without_it(bench: Bench) -> None:
    """``inputs MANIFEST`` is ``inputs show MANIFEST``; hidden commands are in no list."""
    requested = Asked(bench)
    assert requested("inputs", "--js") == ["--json"]
    assert requested("inputs", "s") == ["show"]
    assert requested("agent", "--fr") == ["--from"]
    assert requested("agent", "--from", "site", "--mode", "n") == ["noop"]
    assert requested("agent", "st") == ["status"]
    assert requested("import", "--all", "user,gro") == ["user,group"]
    assert requested("state", "h") == requested("help", "state", "h") == []


def test_hosts_and_groups_of_the_inventory_are_completed(bench: Bench) -> None:
    """The last name of a list, also behind an exclusion; an inventory that is wrong, or a program, has none."""
    requested = Asked(bench)
    bench.write("hosts.yaml", "hosts: {'web[1:2]': {groups: [web]}, db1: {}}\n")
    assert requested("apply", "site.yaml", "--on", "") == ["db1", "web", "web1", "web2"]
    assert requested("apply", "site.yaml", "--on", "db1,!we") == ["db1,!web", "db1,!web1", "db1,!web2"]
    assert requested("apply", "site.yaml", "--on", "web&d") == ["web&db1"]
    bench.write("other.yaml", "hosts: [")
    assert requested("apply", "site.yaml", "--hosts", "other.yaml", "--on", "") == []
    bench.write("hosts.py", "open('executed', 'w')\n")
    assert requested("apply", "site.yaml", "--hosts", "hosts.py", "--on", "") == []
    assert not bench.home.joinpath("executed").exists()


def test_names_of_encrypted_state_need_no_key(bench: Bench) -> None:
    """No passphrase is asked for, because names are not encrypted; nor does anything need the file of a key."""
    requested = Asked(bench)
    state = {"RESOURCE_API_STATE": f"sqlite:{bench.home}/state/state.db"}
    bench.run("new", "key", "state.key")
    site = bench.write("site.yaml", "project: one\nresources: {'Widget[a]': {}}\n")
    assert bench.run("apply", site, RESOURCE_API_KEY=f"file:{bench.home}/state.key", **state).code == 0
    for key in ("", "passphrase:", f"file:{bench.home}/no.key"):
        assert requested("state", "show", "", RESOURCE_API_KEY=key, **state) == ["Widget[a]"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_whatever_is_wrong_completing_shows_no_error(bench: Bench, shell: str) -> None:
    """State is damaged, a manifest is none, a type is broken, a directory is missing."""
    bench.write("state.db", "no database")
    bench.write("site.yaml", "inputs: [\n")
    bench.write("modules/types/broken.py", "raise SystemExit('broken')\n")
    for line in (
        "state show W",
        "apply site.yaml -i s",
        "resource broken x s",
        "resource --module-path /no/such/directory wid",
        "state --state nonsense show x",
        "'",
    ):
        environment = {"_RESOURCE_API_COMPLETE": f"{shell}_complete", "_RESOURCE_API_LINE": f"resource-api {line}"}
        result = bench.run(*line.split(), RESOURCE_API_STATE=f"sqlite:{bench.home}/state.db", **environment)
        assert (result.code, result.err) == (0, ""), line


def test_completion_is_installed_where_the_shell_looks(bench: Bench) -> None:
    """In the user's own directories; ``SHELL`` is the shell unless one is named."""
    fish = bench.run("completion", "install", SHELL="/usr/bin/fish")
    path = bench.home / ".config/fish/completions/resource-api.fish"
    assert fish.out.splitlines()[0] == str(path)
    assert path.read_text(encoding="utf-8").strip() == bench.run("completion", "show", "fish").out.strip()
    zsh = bench.run("completion", "install", "zsh", XDG_DATA_HOME=f"{bench.home}/data", SHELL="/bin/bash")
    assert zsh.out.splitlines()[0] == f"{bench.home}/data/zsh/site-functions/_resource-api"
    assert f"fpath=({bench.home}/data/zsh/site-functions $fpath)" in zsh.out
    homeless = bench.run("completion", "install", "zsh", HOME="relative")
    assert (homeless.code, "you have no home directory to write into; set HOME or XDG_DATA_HOME" in homeless.err) == (
        64,
        True,
    )
    refused = bench.run("completion", "install", SHELL="/bin/csh")
    assert (refused.code, "bash, zsh, fish" in refused.err) == (64, True)
