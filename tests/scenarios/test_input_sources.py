"""Inputs from where they are: files, variables and programs, age files, and secrets within a value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.scenarios.encrypted_inputs import SECRET, Site

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

_USERS: Final = """
    project: p
    inputs:
      users: {type: "Hash[String, Struct[{shell => String, hash => Sensitive[String]}]]"}
    resources:
      Widget[a]: {colour: "${inputs.users.alice.shell}"}
      Account[b]: {password: "${inputs.users.alice.hash}"}
    outputs: {shell: "${inputs.users.alice.shell}", users: "${inputs.users}"}
"""


_FORMS: Final = {
    "site.json": json.dumps(
        {
            "project": "p",
            "inputs": {"port": {"type": "Integer"}, "token": {"type": "Sensitive[String]"}},
            "resources": {
                "Widget[a]": {"size": "${inputs.port}"},
                "Account[b]": {"password": "${inputs.token}"},
            },
        }
    ),
    "site.py": """
        PROJECT = "p"
        INPUTS = {"port": {"type": "Integer"}, "token": {"type": "Sensitive[String]"}}
        def manifest(m):
            m.widget("a", size=m.inputs.port)
            m.account("b", password=m.inputs.token)
    """,
}


@pytest.mark.parametrize("name", _FORMS)
def test_the_form_of_the_manifest_makes_no_difference(site: Site, name: str) -> None:
    """JSON and Python take the same inputs; a plan, a check and an expression have them too."""
    site.bench.write(name, _FORMS[name])
    site.encrypt("stacks/default.yaml.age", f"port: {{env: PORT}}\ntoken: {SECRET}")
    environment = {"PORT": "82", "RESOURCE_API_INPUTS_KEY": "age:key"}
    for words in (
        ["validate", name],
        ["plan", name],
        ["eval", "inputs.token", name],
        ["inputs", name],
        ["apply", name],
    ):
        result = site.bench.run(*words, **environment)
        assert result.code == 0, result.err
        assert SECRET not in result.out + result.err
    assert site.values == (82, SECRET)


@pytest.mark.parametrize("flag", ["sensitive", "ephemeral"])
def test_an_input_that_is_declared_secret_is_secret_as_a_whole(bench: Bench, flag: str) -> None:
    """Also where its data type has a secret member."""
    declared = f"{{type: 'Struct[{{a => String, b => Sensitive[String]}}]', {flag}: true}}"
    bench.write("site.yaml", f"inputs: {{x: {declared}}}\nresources: {{}}")
    bench.write("i.yaml", "x: {a: sesame-1, b: sesame-2}")
    assert bench.run("inputs", "site.yaml", "--inputs", "i.yaml").out == "x: <sensitive>  i.yaml:1\n"


def test_beside_a_sensitive_member_only_that_leaf_is_secret(bench: Bench) -> None:
    """The members beside it are shown in plans, outputs and problems, and their receivers are no secrets."""
    bench.write("site.yaml", _USERS)
    bench.write("users.yaml", "users: {alice: {shell: /bin/zsh, hash: sesame-4711}}")
    result = bench.run("apply", "site.yaml", "--inputs", "users.yaml", RESOURCE_API_STATE=f"sqlite:{bench.home}/s.db")
    assert result.code == 0
    assert "shell: /bin/zsh" in result.out
    assert "sesame-4711" not in result.out + result.err
    assert bench.things("widget")["a"]["colour"] == "/bin/zsh"
    assert bench.things("account")["b"]["password"] == "sesame-4711"
    assert b"sesame-4711" not in (bench.home / "s.db").read_bytes()
    assert "users: {alice: {shell: /bin/zsh, hash: <sensitive>}}" in result.out
    output = bench.run("inputs", "show", "site.yaml", "--inputs", "users.yaml").out
    assert "{alice: {shell: /bin/zsh, hash: <sensitive>}}" in output


@pytest.fixture
def site(bench: Bench) -> Site:
    """Return a new site."""
    return Site(bench)


@pytest.mark.parametrize("name", ["stacks/default.yaml", "secrets.yaml", "secrets.json"])
@pytest.mark.parametrize(
    "source",
    [
        {"file": "token.txt"},
        {"env": "TOKEN"},
        {"command": ["./token.sh", "a b"]},
        {"command": "./token.sh 'a b'"},
    ],
)
def test_a_value_is_read_from_its_source_beside_the_file(site: Site, name: str, source: dict[str, Any]) -> None:
    """A path is relative to the file, a program runs there without a shell, and one final newline is dropped."""
    above = Path(name).parent
    site.bench.write(f"{above}/token.txt", f"{SECRET}\n")
    site.bench.write(f"{above}/token.sh", '#!/bin/sh\n[ "$1" = "a b" ] && cat token.txt\n').chmod(0o755)
    site.bench.write(name, json.dumps({"port": {"command": ["echo", "80"]}, "token": source}))
    options = () if name.startswith("stacks") else ("--inputs", name)
    result = site.apply(*options, TOKEN=f"{SECRET}\n")
    assert result.code == 0, result.err
    assert site.values == (80, SECRET)


def test_a_literal_mapping_of_one_of_these_keys_is_written_as_value(site: Site) -> None:
    """What is beneath ``value`` is no source, and deeper mappings never are."""
    site.bench.write("i.yaml", f"port: 1\ntoken: {SECRET}\nlimits: {{value: {{file: /etc/passwd}}}}")
    assert site.apply("--inputs", "i.yaml").code == 0
    site.bench.write("i.yaml", f"port: 1\ntoken: {SECRET}\nlimits: {{a: {{env: HOME}}, b: {{file: x}}}}")
    assert "limits: {a: {env: HOME}, b: {file: x}}" in site.apply("--inputs", "i.yaml").out


def test_a_source_that_another_value_replaces_is_not_read(site: Site) -> None:
    """A program of the stack's file does not run where ``--inputs`` has the value."""
    site.bench.write("stacks/default.yaml", "port: {command: [touch, ran]}\ntoken: {file: missing}")
    site.bench.write("i.yaml", "port: 2\ntoken: {env: TOKEN}")
    assert site.apply("--inputs", "i.yaml", TOKEN=SECRET).code == 0
    assert not (site.bench.home / "stacks/ran").exists()
    assert site.values == (2, SECRET)


@pytest.mark.parametrize("armoured", [False, True])
@pytest.mark.parametrize("name", ["stacks/default.yaml.age", "secrets.yaml.age", "secrets.json.age"])
def test_an_encrypted_file_is_decrypted_in_memory(site: Site, name: str, *, armoured: bool) -> None:
    """The key comes from the option or the environment, also where state has another; sources work in it."""
    text = json.dumps({"port": {"command": "echo 81"}, "token": SECRET})
    site.encrypt(name, text, armoured=armoured)
    options = () if name.startswith("stacks") else ("--inputs", name)
    assert site.apply(*options, "--inputs-key", "age:key").code == 0
    assert site.apply(*options, RESOURCE_API_INPUTS_KEY="age:key").code == 0
    assert site.values == (81, SECRET)
    output = site.bench.run("inputs", "show", "site.yaml", *options, "--inputs-key", "age:key")
    assert f"token: <sensitive>  {name}:1" in output.out
    assert not any(SECRET in path.read_text(errors="replace") for path in site.bench.home.glob("**/*.yaml*"))


def test_the_keys_of_inputs_and_of_state_are_independent(site: Site) -> None:
    """State is encrypted with ``--key``, the inputs with theirs; in no file is the secret readable."""
    site.encrypt("stacks/default.yaml.age", f"port: 1\ntoken: {SECRET}")
    assert site.bench.run("new", "key", "state.key").code == 0
    state = f"sqlite:{site.bench.home}/state.db"
    options = ("--key", "file:state.key", "--state", state)
    assert site.apply(*options, "--inputs-key", "age:key").code == 0
    assert SECRET.encode() not in (site.bench.home / "state.db").read_bytes()
    refused = site.apply(*options, "--inputs-key", "file:state.key")
    assert refused.code == 64
    assert "'file:state.key' is no key of inputs: write age:PATH" in refused.err


_FAILING: Final = f"{{command: [sh, -c, 'echo {SECRET}; echo {SECRET} >&2; exit 3']}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("token: {file: missing}", "1:1: input 'token': stacks/missing: No such file or directory"),
        ("token: {file: .}", "1:1: input 'token': stacks/.: it is not a regular file"),
        ("token: {file: latin}", "1:1: input 'token': stacks/latin: it is not UTF-8"),
        ("token: {env: NOPE}", "1:1: input 'token': NOPE: the environment has no such variable, or it is empty"),
        ("token: {env: EMPTY}", "1:1: input 'token': EMPTY: the environment has no such variable, or it is empty"),
        (f"port: 1\ntoken: {_FAILING}", "2:1: input 'token': sh: it has failed with exit code 3"),
        ("token: {command: [sh, -c, 'kill -9 $$']}", "1:1: input 'token': sh: it was ended by signal 9"),
        ("token: {command: no-such-program}", "1:1: input 'token': no-such-program: No such file or directory"),
        ("token: {command: echo 'sesame-4711}", "1:1: input 'token': command: No closing quotation"),
        ("token: {command: ./theirs}", "1:1: input 'token': ./theirs: it is not executed, because others could have"),
        ("token: {command: []}", "1:1: input 'token': command must be a program and its arguments; a literal mapping"),
        ("token: {command: [sh, 1]}", "1:1: input 'token': command must be a program and its arguments"),
        (
            "token: {file: 3}",
            "1:1: input 'token': file must be the path of a file; a literal mapping is written {value:",
        ),
        ("token: {file: [a]}", "1:1: input 'token': file must be the path of a file"),
        ("token: {env: ''}", "1:1: input 'token': env must be the name of a variable of the environment"),
        ("token: {env: {a: 1}}", "1:1: input 'token': env must be the name of a variable of the environment"),
        ("port: {env: WORD}\ntoken: x", "1:1: input 'port': must be an integer, not 'word'"),
        ("port: 1\ntoken: {file: a, env: b}", "2:1: input 'token': must be a string, not a sensitive mapping"),
        ("port: 1\ntoken: x\nmore: {env: WORD}", "3:1: unknown input 'more'"),
        ("[1]", "1:1: inputs must be a mapping of name to value"),
        ("port: 1\nport: 2", "2:1: duplicate key 'port'; first at line 1, column 1"),
    ],
)
def test_a_mistake_in_a_file_of_inputs_has_its_place(site: Site, text: str, message: str) -> None:
    """Nothing that was read, or that a program has printed, is quoted, and nothing is done."""
    site.bench.write("stacks/default.yaml", text)
    site.bench.write("stacks/theirs", "#!/bin/sh").chmod(0o777)
    site.bench.write("stacks/latin", "").write_bytes(b"\xff")
    result = site.apply(EMPTY="", WORD="word")
    assert result.code == 65
    assert f"stacks/default.yaml:{message}" in result.err
    assert site.bench.things("widget") == {}


def test_all_sources_that_cannot_be_read_are_shown_at_once(site: Site) -> None:
    """In the order of their lines."""
    site.bench.write("i.yaml", "port: {env: A}\ntoken: {file: b}\n")
    lines = [line for line in site.apply("--inputs", "i.yaml").err.splitlines() if line.startswith("i.yaml:")]
    assert [line.split(" ")[0] for line in lines] == ["i.yaml:1:1:", "i.yaml:2:1:"]


_COMMANDS: Final = f"port: {{command: [sh, -c, 'touch ran; echo 1']}}\ntoken: {SECRET}"


@pytest.mark.parametrize("name", ["i.yaml", "i.yaml.age"])
@pytest.mark.parametrize("changed", ["file", "directory"])
def test_a_file_with_a_command_falls_under_the_rule_for_code(site: Site, name: str, changed: str) -> None:
    """One that others can change is refused before anything is run, unless its directory is trusted."""
    site.encrypt("open/i.yaml.age", _COMMANDS)
    path = site.bench.home / "open" / name
    if name == "i.yaml":
        path.write_text(_COMMANDS)
    (path if changed == "file" else path.parent).chmod(0o777)
    options = ("--inputs", f"open/{name}", "--inputs-key", "age:key")
    result = site.apply(*options)
    assert result.code == 65
    assert f"open/{name}: is not executed, because others could have changed it: " in result.err
    assert not (path.parent / "ran").exists()
    assert site.apply(*options, "--trust-path", "open").code == 0
    assert (path.parent / "ran").exists()
    site.bench.write("open/plain.yaml", f"port: 1\ntoken: {SECRET}").chmod(0o666)
    assert site.apply("--inputs", "open/plain.yaml").code == 0


@pytest.mark.parametrize(
    ("key", "content", "code", "message"),
    [
        (None, None, 64, "is encrypted; name its key with --inputs-key age:PATH or RESOURCE_API_INPUTS_KEY"),
        ("age:", None, 64, "'age:' is no key of inputs: write age:PATH"),
        ("passphrase:", None, 64, "'passphrase:' is no key of inputs: write age:PATH"),
        ("age:nosuch", None, 64, "nosuch: the key cannot be read: No such file or directory"),
        ("age:site.yaml", None, 64, "site.yaml: others can use this key; run: chmod go= site.yaml"),
        ("age:empty", None, 64, "empty: is not a file of age identities"),
        ("age:foreign", None, 65, "cannot be decrypted with --inputs-key age:foreign: "),
        ("age:key", b"port: 1", 65, "cannot be decrypted with --inputs-key age:key: "),
        ("age:key", b"", 65, "cannot be decrypted with --inputs-key age:key: "),
    ],
)
def test_a_file_that_is_not_opened_says_why(
    site: Site, key: str | None, content: bytes | None, *, code: int, message: str
) -> None:
    """A missing or wrong name of a key is wrong usage; a key that does not open the file is an error of the file."""
    path = site.encrypt("stacks/default.yaml.age", f"port: 1\ntoken: {SECRET}")
    site.bench.write("empty", "").chmod(0o600)
    if content is not None:
        path.write_bytes(content)
    result = site.apply(*(() if key is None else ("--inputs-key", key)))
    assert (result.code, message in result.err) == (code, True), result.err
    assert site.bench.things("widget") == {}


def test_an_altered_file_is_damage(site: Site) -> None:
    """Whatever byte is another one."""
    path = site.encrypt("stacks/default.yaml.age", f"port: 1\ntoken: {SECRET}")
    encrypted = path.read_bytes()
    for position in range(0, len(encrypted), 37):
        path.write_bytes(encrypted[:position] + bytes([encrypted[position] ^ 1]) + encrypted[position + 1 :])
        assert site.apply("--inputs-key", "age:key").code == 65, position


def test_a_plain_file_beside_an_encrypted_one_is_refused(site: Site) -> None:
    """Nobody could tell which one counts."""
    site.encrypt("stacks/default.yaml.age", f"port: 1\ntoken: {SECRET}")
    site.bench.write("stacks/default.yaml", "port: 1")
    result = site.apply("--inputs-key", "age:key")
    assert result.code == 65
    assert "stacks/default.yaml.age: stands beside stacks/default.yaml" in result.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"port: 1\n{SECRET}\n", ":3:1: not valid YAML: "),
        (f"port: 1\n{SECRET}: 1\n{SECRET}: 2", ":3:1: cannot be read here (duplicate)"),
        (f"port: 1\ntoken: [{SECRET}", ":2:8: not valid YAML: this [ has no ]"),
        (f"port: {SECRET}\ntoken: x", ":1:1: input 'port': must be an integer, not a string"),
        (f"port: 1\ntoken: [{SECRET}]", ":2:1: input 'token': must be a string, not a sensitive list"),
    ],
)
def test_a_mistake_in_an_encrypted_file_has_its_place_and_nothing_of_the_text(
    site: Site, text: str, message: str
) -> None:
    """There is no line under it."""
    site.encrypt("stacks/default.yaml.age", text, armoured=True)
    result = site.apply("--inputs-key", "age:key")
    assert result.code == 65
    assert f"stacks/default.yaml.age{message}" in result.err
    assert " | " not in result.err


def test_a_file_of_a_value_that_others_can_change_is_a_warning(site: Site) -> None:
    """As is a file of inputs itself."""
    site.bench.write("token.txt", SECRET).chmod(0o666)
    site.bench.write("i.yaml", "port: 1\ntoken: {file: token.txt}")
    result = site.apply("--inputs", "i.yaml")
    assert result.code == 0
    assert "token.txt: Warning: others can change these inputs: " in result.err


def test_a_program_is_run_once_and_may_not_ask_without_a_terminal(site: Site) -> None:
    """Its standard error is shown on a terminal only: elsewhere it might end in a log."""
    script = f"#!/bin/sh\necho run >>runs\necho {SECRET} >&2\necho {SECRET}\n"
    site.bench.write("token.sh", script).chmod(0o755)
    site.bench.write("i.yaml", "port: 1\ntoken: {command: ./token.sh}")
    assert site.apply("--inputs", "i.yaml", "-d").code == 0
    assert (site.bench.home / "runs").read_text() == "run\n"


def test_a_saved_plan_has_the_secret_parts_of_an_input_as_ciphertext(bench: Bench) -> None:
    """Without a key it is refused; with one it is applied, and the secret is in no file."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/s.db"
    bench.write("site.yaml", _USERS)
    inputs = bench.write("users.yaml", f"users: {{alice: {{shell: /bin/zsh, hash: {SECRET}}}}}")
    assert bench.run("plan", "site.yaml", "--inputs", "users.yaml", "-o", "plan.json").code == 1
    assert bench.run("new", "key", "key").code == 0
    bench.environment["RESOURCE_API_KEY"] = "file:key"
    assert bench.run("plan", "site.yaml", "--inputs", "users.yaml", "-o", "plan.json").code == 0
    inputs.unlink()
    assert SECRET not in (bench.home / "plan.json").read_text()
    assert bench.run("apply", "plan.json").code == 0
    assert bench.things("account")["b"]["password"] == SECRET
