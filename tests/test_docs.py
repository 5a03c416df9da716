"""What the README and ``docs/`` show is true: every block of code is run, and its output is compared.

Each page is a session of its own, from top to bottom, in a private directory with a private state. The pages speak of
the directory ``/tmp/hello``; here that is another one on every run, which the page has to make.

- A block after a line that ends in a file's name and a colon is that file.
- ``console``: lines after ``$`` are typed (``>`` continues them), the rest is what a terminal shows. ``...`` stands for
  anything: within a line, or as a line of its own for any lines. Seconds may differ.
- ``yaml``: a manifest, or some of its resources, that must be valid. ``json`` must be JSON.
- ``python``: a program, which is run; a piece that imports nothing is compiled only.
- ``sh``: typed by the reader, not here; ``TYPED_BY_READERS`` says why.
- No language: a picture or a listing, no code.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import takewhile
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import pytest

import resource_api
from resource_api import ManifestError, Registry, Runtime, files, http
from resource_api.cli import main as cli
from resource_api.manifest import metaparameters, sections, yaml_reader
from resource_api.model.action import Action
from resource_api.model.attribute import KINDS, METAPARAMETERS
from resource_api.model.datatypes import datatype as datatypes
from resource_api.model.type_definition import FEATURES
from tests import prose, type_table
from tests.command import offered
from tests.fleet.sshd import started_server
from tests.postgresql_server import Server
from tests.systemd_machine import Machine, download_packages, started_machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"
PAGES: Final = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
NAMES: Final = [page.relative_to(ROOT).as_posix() for page in PAGES]
#: The pages whose links and command lines are checked: also those for contributors, and of examples.
ALL_NAMES: Final = sorted(
    {*NAMES, *(page.relative_to(ROOT).as_posix() for page in (*ROOT.glob("*.md"), *ROOT.glob("examples/**/*.md")))}
)
#: The page whose command lines are mistakes.
ERRORS: Final = "docs/errors.md"
HOME: Final = "/tmp/hello"  # noqa: S108 - a name in texts, never a directory that is accessed

#: Lines of ``sh`` blocks, and why the tests do not type them.
TYPED_BY_READERS: Final = {
    "make run": "installs into .venv from the network; its recipe runs what the README shows",
    "pipx install ./resource_api-0.1.0-py3-none-any.whl": "installs from the network; tests/release installs the wheel",
    "resource-api plan site.yaml --on 'root@web[1:50]'": "fifty hosts; docs/fleet.md has three that are there",
    "resource-api apply site.yaml --on 'root@web[1:50]' --batches 1,10%,100%": "the same",
    "resource-api run --on 'root@web[1:50]' -- uptime": "the same",
    "make test": "it is what runs this",
    "make help": "lists the others",
    "pip install '.[testing]'": "needs the network",
    "pip install 'resource-api[testing]'": "the same",
    ". .venv/bin/activate": "there is no such environment here",
}

#: A page whose ``sh`` blocks are all typed by readers: they install, which needs the network.
INSTALLATION: Final = "docs/install.md"

#: The commands that people have after an installation, and the module of each; "": the interpreter.
COMMANDS: Final = {"resource-api": "resource_api", "pytest": "pytest", "python": ""}

#: What follows each command of a script: a separator, and the exit code once more.
_END: Final = "\n{ __code=$?; printf '\\036'; (exit $__code); } 2>/dev/null\n"

#: The line of progress of a long operation, which a terminal erases.
_PROGRESS: Final = re.compile(r"[^\n\r\x1b]*\r\x1b\[J")

#: The pages whose commands change a whole machine, which is one of their own, and the packages that it can install.
MACHINES: Final = {"README.md": ("nginx-light",), "docs/tutorial.md": ("nginx", "nftables", "cron")}

_FENCE: Final = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(_FENCE.pattern + r"|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"`([\w./-]+\.\w+)`:\n\n\Z")
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A block of a page: its language, its text, where it begins, and the file that it is, if any."""

    language: str
    text: str
    line: int
    file: str


class Typed(NamedTuple):
    """A command that a page shows, what it says that a terminal shows, and where."""

    command: str
    shown: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Yield the blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    entries = []
    for fence in _FENCE.finditer(text):
        file = _FILE.search(text, 0, fence.start())
        line = text.count("\n", 0, fence.start()) + 1
        entries.append(Block(fence[1], fence[2], line, file[1] if file and file.end() == fence.start() else ""))
    return entries


def typed(block: Block) -> Iterator[Typed]:
    """Yield the commands of a console block, each with what follows it."""
    command: list[str] = []
    output: list[str] = []
    start = 0
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ "):
            if command:
                yield Typed("\n".join(command), "\n".join(output), start)
            command, output, start = [line[2:]], [], number
        elif line.startswith("> ") and not output:
            command.append(line[2:])
        else:
            assert command, f"line {number}: a console block begins with a command"
            output.append(line)
    yield Typed("\n".join(command), "\n".join(output), start)


def pattern(output: str) -> str:
    """Return the expression that a terminal's text must match in full."""
    lines = []
    for line in output.splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            words = ".*?".join(re.escape(part) for part in line.split("..."))
            # The directory's name may be among what carets stand under.
            words = re.sub(r"(?:\\\^)+", lambda _: r"\^+", words)
            lines.append(re.sub(r"in\\ \d+\\\.\d\\ s", r"in \\d+\\.\\d s", words) + r"\n")
    return "".join(lines)


class Terminal:
    """A shell in a private directory, whose standard output and error are a terminal."""

    def __init__(self, path: Path) -> None:
        """Prepare the directory, and the commands that people have after an installation."""
        self.directory = path / "hello"  # the page makes it
        self._start = path / "start"
        self._start.mkdir()
        (path / "resource-api").symlink_to(ROOT)
        programs, temporary = path / "bin", path / "tmp"
        programs.mkdir()
        temporary.mkdir()
        for name, module in COMMANDS.items():
            start = [sys.executable, *(["-m", module] if module else [])]
            self.install(programs / name, start)
        self.environment = {
            # Without what measures coverage: its files would be differences that a rehearsal finds.
            **{name: value for name, value in os.environ.items() if name.startswith("HYPOTHESIS_")},
            "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(path),
            "TMPDIR": str(temporary),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "PYTHONPATH": str(Path(resource_api.__file__).parent.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
            "RESOURCE_API_STATE": f"sqlite:{path}/state/state.db",
            "XDG_STATE_HOME": f"{path}/state",
            "RESOURCE_API_FLEET": f"{path}/fleet",
        }
        self._script = path / "script"

    @staticmethod
    def install(program: Path, words: Sequence[str]) -> None:
        """Write a program that executes ``words`` with its own arguments."""
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)

    def run(self, commands: list[str]) -> list[str]:
        """Type ``commands`` into one shell; gives what was shown after each."""
        script = "".join(self.here(command) + _END for command in commands)
        self._script.write_text(script, encoding="utf-8")
        if any(name.startswith("COV") for name in self.environment):
            return self._run()
        with offered(self._script.with_name("socket")) as words:
            self.install(self._script.parent / "bin" / "resource-api", words)
            return self._run()

    def _run(self, within: Sequence[str] = ()) -> list[str]:
        """Run the script, in the directory or where the command ``within`` leads to."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*within, "/bin/bash", "--noprofile", "--norc", self._script],
            cwd=None if within else self._start,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        ):
            os.close(theirs)
            raw = b"".join(_read(ours))
        os.close(ours)
        text = _PROGRESS.sub("", raw.decode().replace("\r\n", "\n")).replace(str(self.directory), HOME)
        return text.split("\x1e")[:-1]

    def here(self, text: str) -> str:
        """Return ``text`` with the pages' directory replaced by this one."""
        return text.replace(HOME, str(self.directory))


class MachineTerminal(Terminal):
    """A shell of root on a machine of its own, in the very directory of the pages."""

    def __init__(self, machine: Machine) -> None:
        """Install the commands there."""
        self.directory = Path(HOME)
        self.environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "TERM": "xterm",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._machine = machine
        self._script = Path("/root/script")
        machine.write("/etc/sudoers.d/ra-test", 'Defaults env_keep += "COLUMNS NO_COLOR PYTHONPATH"\n')
        machine.run("rm", "-rf", HOME)
        machine.run("mkdir", HOME)
        for name, module in COMMANDS.items():
            words = [sys.executable, *(["-m", module] if module else [])]
            machine.write(f"/usr/local/bin/{name}", f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            machine.run("chmod", "0755", f"/usr/local/bin/{name}")

    def run(self, commands: list[str]) -> list[str]:
        """Type ``commands`` into one shell; gives what was shown after each."""
        self._machine.write(str(self._script), "".join(command + _END for command in commands))
        return self._run(["nsenter", "--target", str(self._machine.pid), "--all", "env", f"--chdir={HOME}"])


def _read(descriptor: int) -> Iterator[bytes]:
    """Return what arrives until the other end is closed, which a terminal reports as an error."""
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:
            return
        if not piece:
            return
        yield piece


def writing(file: str, text: str) -> str:
    """Return the command that writes a file of a page."""
    return f"mkdir -p \"$(dirname '{file}')\" && cat > '{file}' <<'END OF FILE'\n{text}END OF FILE"


@pytest.fixture
def workspace() -> Iterator[Path]:
    """Yield a private directory whose path contains nothing that any output escapes."""
    path = Path(tempfile.gettempdir()) / f"ra-test-{token_hex(8)}"
    path.mkdir(mode=0o755)
    yield path
    shutil.rmtree(path)


#: The pages whose commands are for other hosts, and these hosts: name → address.
HOSTS: Final = {
    "docs/fleet.md": {"web1": "127.99.1.1", "web2": "127.99.1.2", "db1": "127.99.2.1"},
    "docs/teams.md": {"state1": "127.99.3.1"},
}
#: The page whose state is on a server of PostgreSQL.
TEAM: Final = "docs/teams.md"
#: Makes the manifest of that page, and the state that the team had before.
_OLD_STATE: Final = f"""mkdir {HOME}
cd {HOME}
cat > cloud.yaml <<'END'
project: cloud
resources:
  File[{HOME}/zone]: {{content: "example.org", mode: "0644"}}
END
mkdir -m 0700 old
chmod 0711 ..
resource-api apply cloud.yaml --state sqlite:old/state.db"""
#: What the login shell of a host does: its directory of messages is its own, as those of hosts are.
_OWN_FILES: Final = """
if [ -z "$OWN_FILES" ]; then
    export OWN_FILES=1
    mkdir -p "$host/motd.d" /etc/motd.d
    exec unshare -m sh -c 'mount --bind "$0/motd.d" /etc/motd.d; exec /usr/local/bin/test-shell "$@"' "$host" "$@"
fi
"""


@pytest.fixture
def _hosts(request: pytest.FixtureRequest, workspace: Path) -> Iterator[None]:
    """Start the hosts of a page, which the configuration of ssh in ``place`` knows."""
    expected = HOSTS.get(request.getfixturevalue("name"), {})
    if not expected:
        yield
        return
    (workspace / "server").mkdir()
    (workspace / ".ssh").mkdir(mode=0o700)
    with started_server(workspace / "server", workspace) as server:
        server.known_hosts(workspace / ".ssh" / "known_hosts")
        lines = []
        for name, address in expected.items():
            server.profile(address, "" if request.getfixturevalue("name") == TEAM else _OWN_FILES)
            lines.append(f"Host {name}\n  HostName {address}\n  Port {server.port}\n  IdentityFile {server.identity}\n")
        (workspace / ".ssh" / "config").write_text("".join(lines))
        yield


@pytest.fixture
def _database(request: pytest.FixtureRequest, workspace: Path) -> Iterator[None]:
    """Start the server of a page with a database for a team, which the services in ``workspace`` name."""
    if request.getfixturevalue("name") != TEAM:
        yield
        return
    server = Server()
    services = f"[admin]\nhost={server.directory}\nport={server.port}\nuser=postgres\ndbname=postgres\n"
    services += f"[team]\nhost={server.directory}\nport={server.port}\ndbname=state\n"
    (workspace / ".pg_service.conf").write_text(services)
    yield
    server.remove()


@pytest.fixture
def machine(name: str, tmp_path: Path) -> Iterator[Machine]:
    """Start a machine without a network, with the packages of a page in the cache of apt."""
    download_packages(*MACHINES[name])
    mounts = tmp_path / "mounts"
    mounts.mkdir()
    with started_machine(mounts, stored=["nftables"], network=False) as started:
        started.run("rm", "-rf", "/usr/sbin/policy-rc.d", "/var/lib/resource-api")
        yield started


@pytest.mark.usefixtures("_hosts", "_database")
@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_a_page_print_what_it_shows(name: str, workspace: Path, request: pytest.FixtureRequest) -> None:
    """All commands of a page run in one session, in their order, and its Python code runs."""
    terminal = MachineTerminal(request.getfixturevalue("machine")) if name in MACHINES else Terminal(workspace)
    if name in HOSTS:
        del terminal.environment["RESOURCE_API_STATE"]  # the state of a host is its own
    if name == TEAM:
        terminal.environment |= {"PGUSER": "postgres", "PGPASSFILE": "/nonexistent"}
    steps: list[Typed] = [Typed(_OLD_STATE, "...", 0)] if name == TEAM else []
    for block in blocks(ROOT / name):
        if block.file:
            steps.append(Typed(writing(block.file, block.text), "", block.line))
        elif block.language == "console":
            steps += typed(block)
        elif block.language == "python" and "import " in block.text:
            steps.append(Typed(f"python - <<'END OF FILE'\n{block.text}END OF FILE", "", block.line))
    observed = terminal.run([step.command for step in steps]) if steps else []
    wrong = [
        f"{name}:{step.line}: $ {step.command}\n--- the page\n{step.shown}\n--- the terminal\n{text}"
        for step, text in zip(steps, observed, strict=True)
        if not re.fullmatch(pattern(step.shown), text if text.endswith("\n") or not text else text + "\n")
    ]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_manifests_on_a_page_are_valid(name: str, tmp_path: Path) -> None:
    """A YAML block that is no file is a manifest, or resources of one, without errors."""
    page = [block for block in blocks(ROOT / name) if not block.file or block.file.endswith(".py")]
    for block in page:
        if block.file:
            (tmp_path / block.file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    runtime = Runtime(Registry.from_path(tmp_path))
    wrong = []
    for block in page:
        if block.language != "yaml" or block.file:
            continue
        data = yaml_reader.read(block.text.encode(), name).data
        whole = data if data.keys() <= set(sections.SECTIONS) else {"resources": data}
        try:
            runtime.validate(whole)
        except ManifestError as error:
            wrong += [f"{name}:{block.line}: {problem}" for problem in error.problems if problem.code not in FRAGMENT]
    assert wrong == []


#: What may be wrong with some resources of a manifest: what they refer to stands in another part of it.
FRAGMENT: Final = frozenset({"unknown_resource"})


@pytest.mark.parametrize("name", NAMES)
def test_every_block_of_a_page_is_of_a_kind_that_is_tested(name: str) -> None:
    """JSON is parsed, Python is compiled, and commands for readers only are listed with a reason."""
    for block in blocks(ROOT / name):
        assert block.language in {"console", "yaml", "python", "json", "sh", ""} or block.file, block
        if block.language == "json" and not block.file:
            json.loads(block.text)
        if block.language == "python":
            compile(block.text, name, "exec")
        if block.language == "sh" and name != INSTALLATION:
            assert [line for line in block.text.splitlines() if line not in TYPED_BY_READERS] == []


@pytest.mark.parametrize("name", [name for name in ALL_NAMES if name != ERRORS])
def test_every_command_line_of_a_page_has_options_that_exist(name: str) -> None:
    """It names a command and options of that command, in blocks that no test runs and within the text."""
    text = (ROOT / name).read_text(encoding="utf-8")
    untested = [block.text.replace("\\\n", " ") for block in blocks(ROOT / name) if block.language in {"sh", ""}]
    lines = [line for block in untested for line in _COMMAND.findall(block)]
    for code in re.findall(r"`([^`\n]+)`", _FENCE.sub("", text)):
        short = code.split(" ")[0] in cli.COMMANDS and " --" in code
        lines += [code] if short else _COMMAND.findall(code)
    assert {line: wrong for line in lines if (wrong := wrong_words(line))} == {}


#: A command line of the program; the group is the text after its name.
_COMMAND: Final = re.compile(
    r"(?:^|[|;&] |\bsudo |\b[A-Z_]+=\S+ )(?:\.venv/bin/)?resource-api ([a-z][^\n]*)", re.MULTILINE
)


def wrong_words(line: str) -> list[str]:
    """Return the options of a command line that its command lacks, or the command if there is none."""
    known = dict(commands())
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(takewhile(lambda word: word != "--" and not set(word) <= set("|<>&;"), lexer))
    names = [name for name in known if f"{' '.join(words)} ".startswith(f"{name} ")]
    names = names or [name for name in known if name.split(" ")[0] == words[0]]
    options = {
        spelt
        for name in names
        for param in known[name].params
        if isinstance(param, click.Option)
        for spelt in param.opts
    }
    given = [word.partition("=")[0] for word in words if word.startswith("-")]
    return [word for word in given if word not in options | {"-h", "--help", "--version"}] if names else words[:1]


# Completeness: everything is documented, and nothing else.


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name, those beneath a group too."""
    context = click.Context(cli.cli)
    for name in cli.COMMANDS:
        command = cli.cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", item) for inner, item in command.commands.items())
        else:
            yield name, command


def quoted(name: str) -> str:
    """Return what a page writes as code within its text, one piece a line."""
    text = _FENCE.sub("", (DOCS / name).read_text(encoding="utf-8"))
    return "\n".join(re.findall(r"`([^`\n]+)`", text))


def test_every_command_is_documented() -> None:
    """Each has a section of its own, or a line in that of its group."""
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    missing = [
        name
        for name, _ in commands()
        if f"\n## {name}\n" not in text and not re.search(rf"`{re.escape(name)}[` ]", text)
    ]
    assert missing == []


def test_every_option_is_documented_and_no_other() -> None:
    """The options in ``commands.md`` are exactly those of the commands."""
    top = click.Context(cli.cli, **cli.cli.context_settings)
    real = {
        spelt
        for _, command in [*commands(), ("", cli.cli)]
        for parameter in command.get_params(click.Context(command, parent=top))
        if isinstance(parameter, click.Option)
        for spelt in parameter.opts
    }
    written = set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", quoted("commands.md")))
    assert real - written == set()
    assert written - real == set()


def test_every_variable_of_the_environment_is_documented_with_its_option() -> None:
    """The table has exactly the variables that the options of the commands have, and the page every other one."""
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    options = {param for _, command in commands() for param in command.params if isinstance(param, click.Option)}
    table = re.findall(r"^\| `(--[a-z-]+)` \| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(table) == sorted(
        {
            (next(name for name in option.opts if name.startswith("--")), option.envvar)
            for option in options
            if option.envvar
        }
    )
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "resource_api").rglob("*.py"))
    consumed = set(re.findall(r"\bRESOURCE_API_[A-Z_]*[A-Z]\b|\bXDG_[A-Z_]+|\bNO_COLOR\b", source))
    assert [name for name in sorted(consumed) if f"`{name}`" not in text and f"${name}" not in text] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("manifests.md", METAPARAMETERS),
        ("manifests.md", frozenset(metaparameters._LIFECYCLE)),
        ("manifests.md", frozenset(sections.SECTIONS)),
        ("manifests.md", frozenset(Runtime(Registry()).facts.names())),
        ("files.md", frozenset(files.__all__)),
        ("http.md", frozenset(http.__all__)),
        ("type-reference.md", FEATURES),
        ("type-reference.md", frozenset(KINDS)),
        ("type-reference.md", datatypes.KINDS),
        ("commands.md", frozenset(action.symbol.strip() for action in Action) - {""} | {"+/-"}),
    ],
    ids=[
        "metaparameters",
        "lifecycle",
        "sections",
        "facts",
        "files",
        "http",
        "features",
        "kinds",
        "data types",
        "signs",
    ],
)
def test_every_name_is_documented(page: str, names: frozenset[str]) -> None:
    """Each name that users write or see is on the page about it."""
    text = quoted(page)
    assert [name for name in sorted(names) if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)] == []


def test_every_public_name_is_documented() -> None:
    """Each name in ``__all__`` of ``resource_api`` is on a page for authors, or on the page for embedding programs."""
    pages = [DOCS / "type-reference.md", DOCS / "embedding.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in resource_api.__all__ if not re.search(rf"\b{name}\b", text)] == []


def test_the_readme_compares_by_yes_partly_and_no() -> None:
    """Each row of its table has a link to the page that shows the first column, and one word for each tool."""
    table = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("## Beside other tools\n")[2].partition("\n\n[")[0]
    )
    header, _, *rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.strip().splitlines()]
    assert header == ["here", "Puppet", "Ansible", "Terraform", "pyinfra"]
    assert len(rows) > 8
    for row, *answers in rows:
        assert _LINK.fullmatch(row), row
        assert answers[0] == "yes"
        assert len(answers) == 5
        assert set(answers) <= {"yes", "partly", "no"}


def test_the_pages_are_short() -> None:
    """The README has at most 1,200 words, the pages for users have 60,000, and one sentence in twenty is long."""
    readme, *pages = map(prose.measured, prose.pages_for_users())
    assert readme.words <= 1200
    assert sum(page.words for page in pages) <= 60_000
    assert sum(len(page.long) for page in pages) <= 0.05 * sum(len(page.sentences) for page in pages)


def test_the_glossary_explains_each_word_once() -> None:
    """Several words may stand in one row."""
    rows = re.findall(r"^\| ([^|]+) \|", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    words = Counter(word for row in rows if row not in {"word", "---"} for word in row.split(", "))
    assert [word for word, count in words.items() if count > 1] == []


def test_every_bundled_type_has_a_page() -> None:
    """The reference has a page for each type and a link to it."""
    overview = (DOCS / "reference" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "types").glob("*.py"):
        assert (DOCS / "reference" / f"{path.stem}.md").is_file()
        assert f"{path.stem}.md" in overview


def test_every_bundled_type_is_in_the_table_of_types() -> None:
    """The table says of each type which laws it has passed; each creates, or runs, what is declared."""
    rows = type_table.rows((DOCS / "types.md").read_text(encoding="utf-8"))
    assert sorted(rows) == type_table.TYPES, "outdated; run python -m tests.type_table TYPE"
    assert [name for name, cells in rows.items() if type_table.PASSED not in cells.values()] == []
    for name, cells in rows.items():
        facts = {
            column: cell for column, cell in type_table.cells(name, set()).items() if column not in type_table.COLUMNS
        }
        assert facts.items() <= cells.items(), f"outdated; run python -m tests.type_table {name}"


@pytest.mark.parametrize("name", ALL_NAMES)
def test_every_link_has_a_target(name: str) -> None:
    """The page exists, and the heading too if the link names one."""
    page = ROOT / name
    broken = []
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, heading = link.partition("#")
        if path.startswith(("http:", "https:")):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (heading and heading not in headings(target)):
            broken.append(link)
    assert broken == []


def headings(page: Path) -> set[str]:
    """Return the names under which links reach the headings of a page."""
    matches = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in matches}


@pytest.mark.parametrize("page", ["catalogue", "properties", "pulumi", "puppet", "terraform"])
def test_the_tests_of_every_property_exist(page: str) -> None:
    """Each test that a page names is a function or class in the file that it names."""
    matches = re.findall(
        r"`((?:tests|resource_api)/[\w/.]+)::(\w+)`", (DOCS / f"internals/{page}.md").read_text("utf-8")
    )
    assert matches
    assert [
        (file, law)
        for file, law in matches
        if not re.search(rf"^ *(def|class) {law}[(:]", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    ] == []


def test_every_property_of_the_catalogue_has_tests_or_a_reason() -> None:
    """Each row names tests, or is not claimed and has the reason; the counts are those of the rows."""
    text = (DOCS / "internals/catalogue.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!property|---)(.+?) \| (.+?) \|(.*)\|$", text, re.MULTILINE)
    claimed = [output for _, output, _ in rows if "::test_" in output]
    refused = [limits for _, printed, limits in rows if printed == "**Not claimed**" and limits.strip()]
    assert f"{len(rows)} properties: {len(claimed)} are claimed, {len(refused)} are not." in text
    assert len(claimed) + len(refused) == len(rows)


@pytest.mark.parametrize(
    ("page", "documents"),
    [
        ("pulumi", {"G": 66, "R": 34, "A": 16}),
        ("puppet", {"P": 122}),
        ("terraform", {"T": 72}),
    ],
)
def test_every_sentence_of_a_model_has_its_row(page: str, documents: dict[str, int]) -> None:
    """In order, each row names a test, and every module that a page names exists."""
    text = (DOCS / f"internals/{page}.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z])(\d+) \| (.+?) \| (.+?) \| (.*) \|$", text, re.MULTILINE)
    for document, count in documents.items():
        assert [int(number) for letter, number, *_ in rows if letter == document] == list(range(1, count + 1))
    assert len(rows) == sum(documents.values())
    assert [row for row in rows if "::test_" not in row[4]] == []
    modules = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text)
    assert [module for module in modules if not (ROOT / "resource_api" / module).is_file()] == []


def test_every_group_of_pulumis_tests_has_its_row() -> None:
    """Each row names tests, or states a difference."""
    text = (DOCS / "internals/pulumi.md").read_text(encoding="utf-8").partition("## Pulumi's own tests")[2]
    lives = re.findall(r"^\| .+ \| .+ \| (.+) \|$", text, re.MULTILINE)[2:]
    assert [life for life in lives if "::" not in life and "**" not in life] == []


def test_the_tests_that_contributing_runs_exist() -> None:
    """Each file that it names is there, and has a test whose name holds the word after ``-k``."""
    matches = re.findall(
        r"pytest (tests/\S+\.py)(?: -k (\w+))?", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    assert len(matches) > 2
    for path, word in matches:
        assert re.search(rf"^ *def test_\w*{word}", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), path


def test_every_page_can_be_reached() -> None:
    """Starting from the README, links lead to every page; one to the overview of a directory to all that is in it."""
    observed: set[Path] = set()
    remaining = [ROOT / "README.md"]
    while remaining:
        page = remaining.pop()
        if page in observed or page.suffix != ".md" or not page.is_file():
            continue
        observed.add(page)
        paths = [link.partition("#")[0] for link in _LINK.findall(page.read_text(encoding="utf-8"))]
        remaining += [(page.parent / path).resolve() for path in paths if path]
        if page.name == "README.md" and page.parent != ROOT:
            remaining += page.parent.glob("*.md")
    assert set(PAGES) - observed == set()


def test_the_index_names_every_page() -> None:
    """The navigation of the site is made from its links; a page in a directory belongs to the overview there."""
    names = {link.partition("#")[0] for link in _LINK.findall((DOCS / "index.md").read_text(encoding="utf-8"))}
    pages = {path.name for path in DOCS.glob("*.md")} | {
        f"{path.parent.name}/README.md" for path in DOCS.glob("*/*.md")
    }
    assert pages - names == {"index.md"}


EXAMPLES: Final = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in {".yaml", ".json", ".py"})


#: The examples that need a machine of their own, and no ``directory``.
_WHOLE_MACHINE: Final = {"server", "nginx", "website"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_valid(path: Path, tmp_path: Path) -> None:
    """It compiles without errors, and its text contains the command that applies it, with a directory that exists."""
    runtime = Runtime(Registry.from_path(path.parent))
    assert runtime.validate(path, {} if path.stem in _WHOLE_MACHINE else {"directory": str(tmp_path)}).entries
    text = path.read_text(encoding="utf-8")
    assert f"examples/{path.name}" in text
    assert all(map(os.path.isdir, re.findall(r"-i directory=(\S+)", text)))


def test_the_overview_of_the_examples_links_each() -> None:
    """Readers find every example there, whether it is a file or a directory."""
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in (ROOT / "examples").iterdir()} - {"README.md", "__pycache__"}
    assert [name for name in sorted(names) if f"]({name}" not in text] == []


@pytest.mark.parametrize(
    "path", [example for example in EXAMPLES if example.stem not in _WHOLE_MACHINE], ids=lambda path: path.name
)
def test_an_example_applies_and_then_changes_nothing(path: Path, tmp_path: Path) -> None:
    """A plan lists what apply then does, a second apply does nothing, and destroy leaves nothing."""
    runtime = Runtime(Registry.from_path(path.parent))
    inputs = {"directory": str(tmp_path)}
    planned = runtime.plan(path, inputs).summary
    assert planned.created > 0
    assert runtime.apply(path, inputs, noop=True).summary._replace(noop=False) == planned._replace(noop=False)
    assert list(tmp_path.iterdir()) == []
    result = runtime.apply(path, inputs)
    assert (result.exit_code, result.summary) == (0, planned)
    again = runtime.apply(path, inputs)
    assert (again.exit_code, again.summary.changed) == (0, 0)
    assert runtime.destroy(path, inputs).exit_code == 0
    assert list(tmp_path.iterdir()) == []
