"""Unique secrets go through every command; no byte of them appears in any output, whatever a provider does."""

from __future__ import annotations

import base64
import json
import secrets
from typing import TYPE_CHECKING, Final

import pytest

from resource_api.state.encryption import keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.hostile.conftest import Box, Done

#: What is looked for is every stretch of this length: cut, quoted or wrapped, a secret is a secret.
WINDOW: Final = 10

LEAKS: Final = (
    *("get", "canonicalize", "validate", "validate_raises", "raise", "repr", "cause", "exit", "section", "print"),
    *("log", "change", "command", "nothing"),
)
COMMANDS: Final = (
    "validate site.yaml",
    "plan site.yaml",
    "plan site.yaml --json",
    "plan site.yaml -o plan.json",
    "apply site.yaml --noop -d",
    "apply site.yaml -d --json",
    "apply site.yaml -d --log-format json",
    "resource leaky a",
    "resource leaky a --json",
    "types",
    "describe leaky --json",
    "schema",
    "graph site.yaml",
    "import site.yaml Leaky[b]",
    "refresh site.yaml",
    "refresh site.yaml --json",
    "destroy site.yaml --yes -d --json",
    "state export",
    "state show Leaky[b]",
    "state show Leaky[a]",
    "state show Leaky[a] --json",
    "state list --json",
    "state history",
    "history --json",
    "history show",
    "report --format json",
    "report --format html",
    "state check",
    "state mv Leaky[a] Leaky[z]",
    "state taint Leaky[a]",
    "output",
    "output --json",
    "output password",
)

MANIFEST: Final = """\
inputs:
  password: {{type: "Sensitive[String]"}}
resources:
  Leaky[a]:
    size: 1
    secret: ${{inputs.password}}
    token: {token}
  Leaky[b]:
    size: 2
    colour: "in text ${{inputs.password}}"
  Good[c]:
    colour: ${{Leaky[a].token}}
outputs:
  password: ${{inputs.password}}
"""


def spellings(secret: str) -> Iterator[bytes]:
    """Return the encodings in which a secret could be written."""
    data = secret.encode()
    yield from (data, data[::-1], secret[::-1].encode(), data.hex().encode(), data.hex().upper().encode())
    yield from (repr(secret)[1:-1].encode(), repr(data)[2:-1].encode())
    yield from (json.dumps(secret)[1:-1].encode(), json.dumps(secret, ensure_ascii=False)[1:-1].encode())
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data)[4 * (offset > 0) : -4]
        yield from (encoded, encoded.replace(b"+", b"-").replace(b"/", b"_"))


def windows(secret: str) -> set[bytes]:
    """Return every part of every encoding."""
    return {spelling[i : i + WINDOW] for spelling in spellings(secret) for i in range(len(spelling) - WINDOW + 1)}


class Canary:
    """Two secrets in a box: an input with characters that every format escapes, and a token that ``get`` returns."""

    def __init__(self, box: Box, elsewhere: Path, *, key: bool) -> None:
        """Write the manifest; the input and the key come from files outside the box."""
        self.box = box
        self.key = key
        #: Every secret that there was, those of before too.
        self.secrets: list[str] = []
        self.file = elsewhere / "password"
        box.type("leaky", "canonicalize", "validate")
        box.provider("leaky", (box.modules / "leaky.py").read_text(encoding="utf-8"))
        box.store("leaky", {"b": {"size": 1}})
        self.rotate()
        if key:
            keys.create_key_file(str(elsewhere / "key"))
            box.env["RESOURCE_API_KEY"] = f"file:{elsewhere / 'key'}"

    def rotate(self) -> None:
        """Change both values."""
        self.password = f"{secrets.token_urlsafe(9)}\"\\'\t{secrets.token_urlsafe(9)}é\u2028{secrets.token_urlsafe(9)}"
        self.token = secrets.token_hex(16)
        self.secrets += [self.password, self.token]
        self.file.write_text(self.password, encoding="utf-8")
        self.box.write("site.yaml", MANIFEST.format(token=self.token))

    def run(self, command: str, leak: str) -> Done:
        """Run a command with the input where it takes one."""
        self.box.env |= {"LEAK": leak, "TOKEN": self.token}
        arguments = ["-i", f"password=@{self.file}"] if "site.yaml" in command else []
        path = [] if command.startswith(("state", "output")) else ["--module-path", str(self.box.path)]
        return self.box.run(*command.split(), *arguments, *path)

    def found(self, *streams: bytes) -> list[str]:
        """Return where a secret is visible: in a stream, or in any file except the manifest and the resources."""
        paths = {f"stream {number}": stream for number, stream in enumerate(streams, 1)}
        for path in self.box.path.rglob("*"):
            if path.is_file() and path.name not in {"site.yaml", "leaky.json", "good.json"}:
                paths[str(path)] = path.read_bytes()
        expected = set().union(*map(windows, self.secrets))
        return [f"{name}: {text[-2000:]!r}" for name, text in paths.items() if any(item in text for item in expected)]


@pytest.fixture(params=[False, True], ids=["digests", "encrypted"])
def either(request: pytest.FixtureRequest, box: Box, tmp_path_factory: pytest.TempPathFactory) -> Canary:
    """Return a canary in a new box, once without a key, once with an encrypted state."""
    return Canary(box, tmp_path_factory.mktemp("elsewhere"), key=request.param)


@pytest.fixture
def canary(box: Box, tmp_path_factory: pytest.TempPathFactory) -> Canary:
    """Return a canary in a new box without a key."""
    return Canary(box, tmp_path_factory.mktemp("elsewhere"), key=False)


def test_the_search_finds_a_secret_in_any_encoding(canary: Canary) -> None:
    """Whole or in part; in a run without a secret it finds nothing."""
    assert canary.found(b"nothing") == []
    for spelt in spellings(canary.password):
        assert canary.found(b"... " + spelt[5:-5] + b" ...")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_shows_a_secret(either: Canary, command: str) -> None:
    """Not in its output, its log, the state, or a file that it writes."""
    if command.startswith(("state", "output", "history", "report", "resource", "refresh", "destroy")):
        assert either.run("apply site.yaml", "nothing").code == 0
    result = either.run(command, "nothing")
    assert "No such command" not in result.text
    assert result.code == (1 if "-o" in command and not either.key else 0), result.text
    assert either.found(result.out, result.err) == []


def test_no_secret_is_recorded_in_clear(either: Canary) -> None:
    """Values that contain a secret are recorded sealed, as are values in which a provider repeats one."""
    assert either.run("apply site.yaml", "nothing").code == 0
    text = either.run("state show Leaky[b]", "nothing").out.decode()
    assert "echo: <sensitive>" in text
    assert either.found(*(path.read_bytes() for path in (either.box.path / "state").rglob("*") if path.is_file())) == []


def test_neither_the_old_nor_the_new_secret_is_shown(either: Canary) -> None:
    """Neither in the plan, nor during apply, nor as drift."""
    assert either.run("apply site.yaml", "nothing").code == 0
    either.rotate()
    for command in ("plan site.yaml", "plan site.yaml --json", "apply site.yaml -d --json", "refresh site.yaml --json"):
        result = either.run(command, "nothing")
        assert result.code == 0, result.text
        assert either.found(result.out, result.err) == []


@pytest.mark.parametrize("leak", ["kill", "raise"])
def test_a_killed_run_leaves_no_secret(either: Canary, leak: str) -> None:
    """Nor does the run that continues it."""
    cut = either.run("apply site.yaml -d", leak)
    assert cut.code == (-9 if leak == "kill" else 1)
    assert either.found(cut.out, cut.err) == []
    after = either.run("apply site.yaml -d --json", "nothing")
    assert after.code == 0, after.text
    assert either.found(after.out, after.err) == []


def test_a_saved_plan_shows_no_secret_and_can_be_applied(box: Box, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same for an exported state."""
    encrypted = Canary(box, tmp_path_factory.mktemp("elsewhere"), key=True)
    for command in (
        "plan site.yaml -o plan.json",
        "apply plan.json -d --json",
        "state rekey",
        "output",
        "plan site.yaml",
    ):
        result = encrypted.run(command, "nothing")
        assert result.code == 0, result.text
        assert encrypted.found(result.out, result.err) == []
    box.write("export.json", encrypted.run("state export", "nothing").out.decode())
    assert encrypted.found() == []
    assert json.loads(encrypted.run("output --reveal --json", "nothing").out) == {"password": encrypted.password}


def test_what_a_worker_writes_to_its_descriptors_is_masked(canary: Canary) -> None:
    """Output of its children too."""
    result = canary.run("apply site.yaml --isolate", "descriptor")
    assert result.code == 0, result.text
    assert result.text.count("<sensitive>") > 1
    assert canary.found(result.out, result.err) == []


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("options", ["-d --json", "-d --log-format json --color always"])
def test_no_provider_reveals_a_secret(canary: Canary, leak: str, options: str) -> None:
    """Everything that it prints, logs or raises is masked in the output of the process."""
    result = canary.run(f"apply site.yaml {options}", leak)
    assert result.code in {0, 1, 65}
    assert canary.found(result.out, result.err) == []
    if "--json" in options:
        assert result.events[-1]["type"] == "summary"
    if "--log-format" in options:
        lines = [line for line in result.text.splitlines() if not line.startswith("site.yaml")]
        assert all(isinstance(json.loads(line), dict) for line in lines if not line.startswith("Error: "))


BROKEN: Final = {
    "a bad mapping": "resources:\n  Leaky[a]: {{secret: {token}, size: }}}}\n",
    "a tab": "resources:\n  Leaky[a]:\n\tsecret: {token}\n",
    "an open quote": 'resources:\n  Leaky[a]:\n    secret: "{token}\n    size: 1\n',
    "a bad escape": 'resources:\n  Leaky[a]:\n    secret: "{token}\\q"\n',
    "a bad anchor": "resources:\n  Leaky[a]:\n    secret: *{token}\n",
    "a bad tag": "resources:\n  Leaky[a]:\n    secret: !!python/object:{token} x\n",
    "a wrong type": "resources:\n  Leaky[a]:\n    secret: [{token}]\n",
    "a wrong type inside": "resources:\n  Leaky[a]:\n    secret: {{{token}: {token}}}\n",
    "a title": "resources:\n  Leaky[a]:\n    require: {token}\n    secret: {token}\n    nonsense: {token}\n",
    "a reference": "resources:\n  Leaky[a]:\n    secret: '{token} ${{nonsense}}'\n",
    "an open reference": "resources:\n  Leaky[a]:\n    secret: '{token} ${{'\n",
    "a sensitive default of another type": (
        "inputs: {{password: {{type: 'Sensitive[Integer]', default: {token}}}}}\nresources: {{}}\n"
    ),
    "a sensitive default of another type, with the word beneath": (
        "inputs:\n  cargo:\n    type: Integer\n    default: {token}\n    sensitive: true\nresources: {{}}\n"
    ),
    "an output that is sensitive": (
        "resources: {{}}\noutputs: {{cargo: {{value: '{token} ${{nonsense}}', sensitive: true}}}}\n"
    ),
    "a sensitive value where it does not fit": (
        "inputs: {{password: {{type: 'Sensitive[String]', default: {token}}}}}\n"
        "resources:\n  Leaky[a]: {{size: '${{inputs.password}}', ensure: '${{inputs.password}}'}}\n"
    ),
}


SECRET_TITLE: Final = """\
inputs: {{password: {{type: 'Sensitive[String]', default: {token}}}}}
resources:
  'Leaky[${{inputs.password}}]': {{}}
"""


def test_a_title_cannot_contain_a_secret(canary: Canary) -> None:
    """Titles are shown everywhere."""
    canary.box.write("site.yaml", SECRET_TITLE.format(token=canary.token))
    canary.box.env["LEAK"] = "nothing"
    result = canary.box.run("validate", "site.yaml")
    assert result.code == 65
    assert canary.found(result.out, result.err) == []


@pytest.mark.parametrize("options", ["", "-d", "--json"])
@pytest.mark.parametrize(
    "spill",
    [
        "int(m.inputs.password.reveal())",
        "m.leaky(m.inputs.password.reveal(), nonsense=1)",
        "print(m.inputs.password.reveal())\n    raise SystemExit(m.inputs.password.reveal())",
    ],
)
def test_a_python_manifest_reveals_no_secret(canary: Canary, spill: str, options: str) -> None:
    """Its inputs are masked before its code runs: in exceptions, in titles and in its output."""
    text = f"INPUTS = {{'password': {{'type': 'Sensitive[String]'}}}}\n\ndef manifest(m):\n    {spill}\n"
    canary.box.write("site.py", text)
    canary.box.env["LEAK"] = "nothing"
    result = canary.box.run("validate", "site.py", "-i", f"password=@{canary.file}", *options.split())
    assert result.code == 65, result.text
    assert canary.found(result.out, result.err) == []


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("options", ["-d", "--json"])
def test_the_text_of_an_invalid_manifest_is_not_shown(canary: Canary, case: str, options: str) -> None:
    """An error names only the line."""
    text = BROKEN[case].format(token=canary.token)
    canary.box.write("site.yaml", text)
    canary.box.env["LEAK"] = "nothing"
    result = canary.box.run("validate", "site.yaml", options)
    assert result.code == 65, result.text
    assert canary.found(result.out, result.err) == []


def test_a_secret_on_the_command_line_is_refused_without_being_shown(canary: Canary) -> None:
    """The message explains that everybody can read a command line."""
    canary.box.env["LEAK"] = "nothing"
    result = canary.box.run("plan", "site.yaml", "-i", f"password={canary.token}")
    assert result.code == 64
    assert canary.found(result.out, result.err) == []


def test_a_traceback_shows_no_secret(canary: Canary) -> None:
    """With -d it shows neither local variables nor a secret in the error's message."""
    canary.box.write("sitecustomize.py", CRASH)
    canary.box.env["PYTHONPATH"] += f":{canary.box.path}"
    result = canary.run("apply site.yaml -d", "nothing")
    assert result.code == 70
    assert "Traceback" in result.text
    assert canary.found(result.out, result.err) == []


CRASH: Final = '''
"""Breaks one function of the program, as a bug would: its error quotes what it was given."""
from resource_api.transaction import transaction

def broken(self, *arguments, **options):
    should = next(iter(self.plan.steps)).should
    raise AssertionError(f"bug with {should['secret'].reveal()} and {should['token'].reveal()!r}")

transaction.Transaction.run = broken
'''


def test_a_secret_number_keeps_the_json_valid(canary: Canary) -> None:
    """Only texts are masked, so timestamps and counts that contain its digits stay valid."""
    canary.token = "20" + "26" + "11"
    canary.box.write("site.yaml", MANIFEST.format(token=json.dumps("0.0000")))
    result = canary.run("apply site.yaml --json", "nothing")
    assert result.events[-1]["type"] == "summary"


RUNS_SHELL: Final = """
import ctypes, os, resource, subprocess
from resource_api import Command, SimpleProvider


class Provider(SimpleProvider):
    sh = Command("/bin/sh")

    def get(self, context):
        return []
"""
#: Prints the secret in many ways; what it does is named by LEAK.
LOUD: Final = (
    RUNS_SHELL
    + """
    def create(self, context, name, should):
        secret = should["secret"].reveal()
        getattr(self, os.environ["LEAK"])(context, secret)

    def stderr(self, context, secret):
        self.sh("-c", "cat >&2; exit 3", input=secret + "\\\\n")

    def stderr_end(self, context, secret):
        self.sh("-c", "cat >&2; head -c 65000 /dev/zero | tr '\\\\\\\\0' y >&2; exit 3", input=secret)

    def stdout(self, context, secret):
        self.sh("-c", "head -c 60000 /dev/zero | tr '\\\\\\\\0' y; cat", input=secret)

    def shortened(self, context, secret):
        result = self.sh.attempt("-c", "cat >&2", input=secret)
        raise RuntimeError("it failed: " + result.stderr[-1500:])

    def error(self, context, secret):
        raise RuntimeError("y " * 32500 + secret)

    def prints(self, context, secret):
        print("y" * 60000 + secret)

    def descriptor(self, context, secret):
        os.write(2, b"y" * 60000 + secret.encode() + b"\\\\n")

    def child(self, context, secret):
        subprocess.run(["/bin/sh", "-c", "cat; echo; exit 0"], input=secret.encode(), check=True)
""".replace("\\\\", "\\")
)

PHRASE: Final = " ".join(f"word{number:05} of a phrase" for number in range(3000))
TOKENS: Final = "".join(f"{number:05}-x" for number in range(10000))
SIZES: Final = ("words", "long-token")


def cut_out(secret: str, text: str, length: int = 16) -> list[str]:
    """Return the parts of a secret that a text contains."""
    output = {text[i : i + length] for i in range(len(text))}
    return [secret[i : i + length] for i in range(len(secret) - length + 1) if secret[i : i + length] in output]


@pytest.mark.parametrize("options", ["", "--isolate"])
@pytest.mark.parametrize("secret", [PHRASE[:3000], TOKENS[:70000]], ids=SIZES)
@pytest.mark.parametrize("leak", ["stderr", "stderr_end", "stdout", "shortened", "error", "prints"])
def test_a_secret_is_masked_before_it_is_cut(
    box: Box, tmp_path_factory: pytest.TempPathFactory, leak: str, secret: str, options: str
) -> None:
    """However long it is, whoever shortens the text: of a secret without white space that holds for providers too."""
    if leak == "shortened" and " " in secret:
        pytest.skip("a provider that cuts an ordinary text leaves ordinary words")
    result = _loud(box, tmp_path_factory, leak, secret, options)
    assert "<sensitive>" in result.text
    assert cut_out(secret, result.text + result.out.decode()) == []


def _loud(box: Box, elsewhere: pytest.TempPathFactory, leak: str, secret: str, options: str) -> Done:
    file = elsewhere.mktemp("elsewhere") / "secret"
    file.write_text(secret, encoding="utf-8")
    box.type("loud")
    box.provider("loud", LOUD)
    box.env["LEAK"] = leak
    box.write("loud.yaml", LOUD_MANIFEST)
    return box.run("apply", "loud.yaml", "-d", "-i", f"secret=@{file}", *options.split())


LOUD_MANIFEST: Final = """\
inputs:
  secret: {type: "Sensitive[String]"}
resources:
  Loud[a]: {secret: "${inputs.secret}"}
"""


SHORT: Final = """\
inputs:
  pin: {type: "Sensitive[String]", default: "123"}
  code: {type: "Sensitive[String]", default: "1234"}
resources:
  Loud[a]: {secret: "${inputs.pin}"}
  Loud[b]: {secret: "${inputs.code}"}
  Loud[c]: {secret: abcde}
  Loud[d]: {secret: abcdef}
"""


def test_a_secret_that_is_too_short_to_be_masked_is_a_warning(box: Box) -> None:
    """In every run, naming the input or the attribute; one that is masked as a whole word is none."""
    box.type("loud")
    box.provider("loud", LIMITS)
    box.write("loud.yaml", SHORT)
    for _ in range(2):
        result = box.run("plan", "loud.yaml")
        assert [line.rpartition(" is too short to be masked")[0] for line in result.text.splitlines()] == [
            "loud.yaml:2:3: Warning: input 'pin'",
            "loud.yaml:7:13: Warning: Loud[c]: the secret 'secret'",
        ]


#: Reports the limits of core dumps.
LIMITS: Final = (
    RUNS_SHELL
    + """
    def create(self, context, name, should):
        ours, dumpable = resource.getrlimit(resource.RLIMIT_CORE)[0], ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
        theirs = self.sh("-c", "grep core /proc/self/limits").stdout.split()[4]
        context.notice(f"here {ours} {dumpable}, in a program {theirs}")
"""
)


@pytest.mark.parametrize("options", ["", "--isolate"])
def test_a_process_with_a_secret_leaves_no_core_dump(
    box: Box, tmp_path_factory: pytest.TempPathFactory, options: str
) -> None:
    """Not of the run, not of a worker; the programs that it runs have the limit of the caller."""
    file = tmp_path_factory.mktemp("elsewhere") / "secret"
    file.write_text("a secret word", encoding="utf-8")
    box.type("loud")
    box.provider("loud", LIMITS)
    box.write("loud.yaml", LOUD_MANIFEST)
    result = box.run_shell(f'ulimit -Sc 2048; "$@" apply loud.yaml -i secret=@{file} {options}')
    assert "here 0 0, in a program 2097152" in result.text, result.text


@pytest.mark.parametrize("options", ["", "--isolate"])
def test_without_a_secret_core_dumps_are_as_the_caller_wants_them(box: Box, options: str) -> None:
    """They help to debug a provider."""
    box.type("loud")
    box.provider("loud", LIMITS)
    box.write("loud.yaml", "resources:\n  Loud[a]: {}\n")
    result = box.run_shell('ulimit -Sc 2048; "$@" apply loud.yaml ' + options)
    assert "here 2097152 1, in a program 2097152" in result.text, result.text


def test_a_secret_of_the_manifest_forbids_core_dumps_too(box: Box) -> None:
    """An attribute may be secret without any input."""
    box.type("loud")
    box.provider("loud", LIMITS)
    box.write("loud.yaml", "resources:\n  Loud[a]: {secret: a secret word}\n")
    result = box.run_shell('ulimit -Sc 2048; "$@" apply loud.yaml')
    assert "here 0 0, in a program 2097152" in result.text, result.text
