"""Log messages: what a provider may log, and the documented wording of each line."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

ONE = "resources: {'Probe[a]': {size: 1}}"


def lines_of_set(bench: Bench, body: str, *options: str, manifest: str = ONE) -> list[str]:
    """Return the log lines of a ``set`` with the given body, which then makes the changes."""
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    bench.probe(f"def set(self, context, changes):\n    try:\n{lines}\n    finally:\n        self._done(changes)\n")
    return bench.apply(manifest, *options).lines


def test_the_documented_lines_of_an_update(bench: Bench) -> None:
    """An update with a warning, a command and a changed attribute is logged as documented."""
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 0})
    bench.probe(
        """
        true = Command("/bin/true")
        def set(self, context, changes):
            with context.updating("a"):
                context.warning("Original key not found")
                self.true("del", "F1D2")
                context.attribute_changed("size", None, 1, message="Replaced with content hash E242ED3B")
            self._done(changes)
        """
    )
    result = bench.apply(ONE, "-d")
    lines = [line for line in result.lines if "Probe[a]" in line]
    assert lines == [
        "Debug: Probe[a]: Started updating",
        "Warning: Probe[a]: Updating: Original key not found",
        "Debug: Probe[a]: Executing '/bin/true del F1D2'",
        "Debug: Probe[a]: Successfully executed '/bin/true del F1D2'",
        "Notice: Probe[a]: Updating size: Replaced with content hash E242ED3B",
        "Notice: Probe[a]: Successfully updated",
    ]


def test_a_context_without_a_block_lasts_until_the_action(bench: Bench) -> None:
    """The long-hand form logs as a block does, and what follows the action has no prefix."""
    lines = lines_of_set(
        bench,
        """
context.updating("a")
context.warning("Original key not found")
context.attribute_changed("size", None, 1, message="Replaced")
context.updated("a")
context.notice("behind it")
""",
        "-d",
    )
    assert [line for line in lines if "robe" in line][:5] == [
        "Debug: Probe[a]: Started updating",
        "Warning: Probe[a]: Updating: Original key not found",
        "Notice: Probe[a]: Updating size: Replaced",
        "Notice: probe: behind it",
        "Notice: Probe[a]: Updated",
    ]


def test_the_documented_lines_of_a_failure(bench: Bench) -> None:
    """An exception in a context is logged and suppressed, and the code after the context runs."""
    lines = lines_of_set(
        bench,
        """
with context.updating("a"):
    raise RuntimeError("Something went wrong")
context.notice("behind it")
""",
        "-d",
    )
    output = [re.sub(r"probe\.py:\d+", "probe.py:LINE", line) for line in lines if "probe" in line.lower()]
    assert [line for line in output if not line.startswith("Debug: Probe[a]: ")] == [
        "Error: Probe[a]: Updating failed: Something went wrong (providers/probe.py:LINE in set)",
        "Notice: probe: behind it",
    ]


def test_debug_shows_the_traceback_of_a_providers_exception(bench: Bench) -> None:
    """Its own frames are shown, and nothing before them."""
    lines = lines_of_set(bench, "with context.updating('a'):\n    raise RuntimeError('Something went wrong')\n", "-d")
    start = lines.index("Debug: Probe[a]: Traceback (most recent call last):")
    assert "providers/probe.py" in lines[start + 1]
    assert lines[start + 2] == "Debug: Probe[a]:     raise RuntimeError('Something went wrong')"
    assert lines[start + 3] == "Debug: Probe[a]: RuntimeError: Something went wrong"


def test_a_failure_that_a_provider_states_has_no_traceback(bench: Bench) -> None:
    """A ``ResourceError`` is an answer for the user: it has neither a traceback nor an origin."""
    lines = lines_of_set(bench, "with context.updating('a'):\n    raise ResourceError('It is in use')\n", "-d")
    assert "Error: Probe[a]: Updating failed: It is in use" in lines
    assert [line for line in lines if "Traceback" in line] == []


def test_a_message_without_a_title_names_the_type(bench: Bench) -> None:
    """A message outside a context has the name of the type as its subject."""
    assert "Warning: probe: Unexpected state detected, continuing in degraded mode." in lines_of_set(
        bench, 'context.warning("Unexpected state detected, continuing in degraded mode.")'
    )


@pytest.mark.parametrize(
    ("method", "word"), [("info", "Info"), ("notice", "Notice"), ("warning", "Warning"), ("err", "Error")]
)
def test_plain_messages_have_their_level(bench: Bench, method: str, word: str) -> None:
    """Each level is logged for the type, for one title and for several, and ``err`` fails nothing."""
    manifest = "resources: {'Probe[a]': {}, 'Probe[b]': {}}"
    body = f"context.{method}('x')\ncontext.{method}('a', 'y')\ncontext.{method}(['a', 'b'], message='z')"
    lines = lines_of_set(bench, body, "-v", manifest=manifest)
    for line in (f"{word}: probe: x", f"{word}: Probe[a]: y", f"{word}: Probe[a, b]: z"):
        assert line in lines
    assert "Notice: Probe[a]: created" in lines


def test_debug_lines_need_d_and_info_lines_need_v(bench: Bench) -> None:
    """``-d`` adds debug lines, ``-v`` adds info lines, and ``-q`` leaves errors only."""
    body = "for level in ('debug', 'info', 'notice', 'warning', 'err'):\n    getattr(context, level)(level + ' line')"

    def words(*options: str) -> list[str]:
        bench.things_of.joinpath("probe.json").unlink(missing_ok=True)
        return [line.split(": ")[0] for line in lines_of_set(bench, body, *options) if line.endswith(" line")]

    assert words() == ["Notice", "Warning", "Error"]
    assert words("-v") == ["Info", "Notice", "Warning", "Error"]
    assert words("-d") == ["Debug", "Info", "Notice", "Warning", "Error"]
    assert words("-q") == ["Error"]


@pytest.mark.parametrize(
    ("opener", "started", "result"),
    [
        ("creating('a')", "Started creating", "Successfully created"),
        ("updating('a')", "Started updating", "Successfully updated"),
        ("deleting('a')", "Started deleting", "Successfully deleted"),
        ("creating('a', message='Zapping')", "Started zapping", "Successfully created"),
    ],
)
def test_a_context_logs_its_action(bench: Bench, opener: str, started: str, result: str) -> None:
    """Start, prefix and end of a context have the word of its action or of ``message``."""
    lines = lines_of_set(bench, f"with context.{opener}:\n    context.notice('inside')", "-d")
    word = started.removeprefix("Started ").capitalize()
    expected = [f"Debug: Probe[a]: {started}", f"Notice: Probe[a]: {word}: inside", f"Notice: Probe[a]: {result}"]
    assert [line for line in lines if "Probe[a]" in line] == expected


def test_a_message_replaces_the_word_of_a_failure(bench: Bench) -> None:
    """A failure in a context with ``message='Zapping'`` is logged as ``Zapping failed``."""
    lines = lines_of_set(bench, "with context.creating('a', message='Zapping'):\n    context.fail('no power')")
    assert "Error: Probe[a]: Zapping failed: no power" in lines


def test_processing_reports_every_attribute_that_differs(bench: Bench) -> None:
    """``processing`` logs each differing attribute once, and no equal one."""
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 0, "colour": "red"})
    lines = lines_of_set(
        bench,
        "is_, should = changes['a']\nwith context.processing('a', is_, should):\n    context.notice('inside')",
    )
    assert "Notice: Probe[a]: Processing: inside" in lines
    assert any(line.startswith("Notice: Probe[a]: ") and "size" in line and "from 0 to 1" in line for line in lines)
    assert sum("from 0 to 1" in line for line in lines) == 1
    assert not any("colour" in line for line in lines)


def test_processed_reports_the_same_without_a_context(bench: Bench) -> None:
    """``processed`` logs each differing attribute once."""
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 0})
    lines = lines_of_set(bench, "context.processed('a', *changes['a'])")
    assert "Notice: Probe[a]: size changed from 0 to 1" in lines
    assert sum("from 0 to 1" in line for line in lines) == 1


@pytest.mark.parametrize("way", ["processed", "processing"])
def test_only_what_differs_is_reported_as_a_change(bench: Bench, way: str) -> None:
    """Parameters are not reported as changes, and a ``write_only`` value only when it differs from the recorded one."""
    bench.type(
        "probe",
        bench.NAMED
        + """
        "size": Attribute("Optional[Integer]", "s"),
        "speed": Attribute("Optional[Integer]", "p", kind="parameter"),
        "pin": Attribute("Optional[String]", "w", write_only=True),
        """,
        provider="""
        def get(self, context):
            file = Path(os.environ["BENCH"], "probe.json")
            return list(json.loads(file.read_text()).values()) if file.exists() else []
        def set(self, context, changes):
            rows = {name: {"name": name, "size": should["size"]} for name, (_, should) in changes.items()}
            Path(os.environ["BENCH"], "probe.json").write_text(json.dumps(rows))
            for name, (is_, should) in changes.items():
                """
        + {
            "processed": "context.processed(name, is_, should)",
            "processing": "with context.processing(name, is_, should): pass",
        }[way]
        + "\n",
    )
    state = ("--state", f"sqlite:{bench.things_of / 'state.db'}")
    manifest = "project: p\nresources: {{'Probe[a]': {{size: {}, speed: 9, pin: {}}}}}"
    assert bench.stream(manifest.format(1, "one"), *state).code == 0

    def reported(size: int, pin: str) -> list[str]:
        result = bench.stream(manifest.format(size, pin), *state)
        assert result.code == 0
        return [line.removeprefix("Notice: Probe[a]: ") for line in result.lines if line.startswith("Notice: Probe[a]")]

    assert reported(2, "one") == ["size changed from 1 to 2", "Updated"]
    assert reported(3, "two") == ["size changed from 2 to 3", "pin changed <sensitive>", "Updated"]


def test_failing_fails_in_any_case(bench: Bench) -> None:
    """A ``failing`` context fails the resource also without an exception."""
    bench.probe(
        "def set(self, context, changes):\n    with context.failing('a'):\n        pass\n    self._done(changes)"
    )
    result = bench.stream(ONE)
    assert result.code == 1
    assert result.ends()["Probe[a]"]["status"] == "failed"


def test_failed_fails_the_resource(bench: Bench) -> None:
    """``context.failed`` fails the resource, logs its message once, and dependents are skipped."""
    bench.probe("def set(self, context, changes): context.failed('a', message='no such page')")
    result = bench.stream("resources: {'Probe[a]': {}, 'Token[1]': {require: 'Probe[a]'}}", "--detailed-exitcodes")
    assert result.code == 4
    assert result.ends()["Probe[a]"]["error"] == "no such page"
    assert result.ends()["Token[1]"]["status"] == "skipped"
    assert [line for line in result.lines if "no such page" in line] == ["Error: Probe[a]: no such page"]


@pytest.mark.parametrize(
    ("action", "output"),
    [
        ("created('a')", "Created"),
        ("updated('a')", "Updated"),
        ("deleted('a')", "Deleted"),
        ("updated('a', message='Turned')", "Turned"),
    ],
)
def test_an_action_is_logged_once(bench: Bench, action: str, output: str) -> None:
    """An action that the provider reports is logged once with its word."""
    lines = [line for line in lines_of_set(bench, f"context.{action}") if "Probe[a]" in line]
    assert lines == [f"Notice: Probe[a]: {output}"]


def test_a_report_about_no_resource_logs_nothing(bench: Bench) -> None:
    """A provider may report a batch that is empty."""
    lines = lines_of_set(bench, "context.created([])\ncontext.failed([], message='lost')")
    assert [line for line in lines if "[]" in line or "lost" in line] == []


def test_unchanged_logs_nothing(bench: Bench) -> None:
    """``context.unchanged`` logs no line."""
    assert not any("nchanged" in line for line in lines_of_set(bench, "context.unchanged('a')"))


def test_attributes_are_reported_with_and_without_a_title(bench: Bench) -> None:
    """``attribute_changed`` takes the title from the context or as an argument, and the runtime does not repeat it."""
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 0, "colour": "red"})
    manifest = "resources: {'Probe[a]': {size: 1, colour: blue}}"
    lines = lines_of_set(
        bench,
        "context.attribute_changed('a', 'colour', 'red', 'blue')\n"
        "context.attribute_changed('a', 'size', 0, 1, message='up')",
        manifest=manifest,
    )
    assert [line for line in lines if "Probe[a]" in line] == [
        "Notice: Probe[a]: colour changed from red to blue",
        "Notice: Probe[a]: size: up",
    ]
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 0})
    inside = lines_of_set(bench, "with context.updating('a'):\n    context.attribute_changed('size', 0, 1)")
    assert inside == ["Notice: Probe[a]: Updating size: changed from 0 to 1", "Notice: Probe[a]: Successfully updated"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("context.created('z')", "z"),
        ("context.notice('z', message='x')", "z"),
        ("with context.updating(['a', 'z']): pass", "z"),
        ("context.attribute_changed('size', 0, 1)", "title"),
        ("context.notice('a', message='x')\nwith context.updating('a'): pass", "before"),
        ("context.attribute_changed('a', 'size', 0, 1)\nwith context.updating('a'): pass", "before"),
        ("context.nosuch('a')", "nosuch"),
        ("context.critical('x')", "critical"),
    ],
)
def test_a_wrong_use_of_the_context_is_an_error(bench: Bench, body: str, words: str) -> None:
    """A wrong use of the context fails the resource with a message that names the rule."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    bench.probe(f"def set(self, context, changes):\n{lines}\n    self._done(changes)")
    result = bench.apply(ONE)
    assert result.code == 1
    assert any(line.startswith("Error: Probe[a]: ") and words in line for line in result.lines), result.err


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("context.created('a')\ncontext.updated('a')", "already"),
        ("context.created('a')\ncontext.attribute_changed('a', 'size', 0, 1)", "after"),
        ("context.created('a')\nraise OSError('the lamp went out')", "the lamp went out"),
    ],
)
def test_an_exception_after_the_last_status_is_logged(bench: Bench, body: str, words: str) -> None:
    """An exception of ``set`` after all statuses are reported is logged."""
    assert any(words in line for line in lines_of_set(bench, body))


def test_a_context_without_an_end_is_a_mistake(bench: Bench) -> None:
    """A logging context with neither a block nor an action has no end, which a warning tells the author."""
    assert any("('Updating') was made without 'with'" in line for line in lines_of_set(bench, "context.updating('a')"))


def test_contexts_nest_and_the_outer_prefix_returns(bench: Bench) -> None:
    """Each nested context has its own prefix."""
    lines = lines_of_set(
        bench,
        """
with context.updating(['a', 'b']):
    context.notice('one')
    with context.updating('a', message='Polishing'):
        context.notice('two')
    context.notice('three')
""",
        manifest="resources: {'Probe[a]': {}, 'Probe[b]': {}}",
    )
    assert lines[:5] == [
        "Notice: Probe[a, b]: Updating: one",
        "Notice: Probe[a]: Polishing: two",
        "Notice: Probe[a, b]: Updating: three",
        "Notice: Probe[a]: Successfully updated",
        "Notice: Probe[b]: Successfully updated",
    ]


@pytest.mark.parametrize(
    ("message", "output"),
    [
        ("context.created(list(changes))", "Created"),
        ("context.creating(list(changes)).__enter__().__exit__(None, None, None)", "Successfully created"),
        ("for name, change in changes.items():\n    context.processed(name, *change)", "Created"),
    ],
)
def test_a_success_is_shown_once_it_is_verified(bench: Bench, message: str, output: str) -> None:
    """One that the next ``get`` does not find has only its error; the lines of the others keep their order."""
    stored = "self._file().write_text(json.dumps(self._rows() | {name: row}))"
    lost = f"def _put(self, name, row):\n    if name != 'b': {stored}\n"
    body = f"{message}\ncontext.notice('all are there')"
    indented = "\n".join(f"        {line}" for line in body.splitlines())
    bench.probe(
        f"{lost}def set(self, context, changes):\n    try:\n{indented}\n    finally:\n        self._done(changes)\n"
    )
    result = bench.apply("resources: {'Probe[a]': {}, 'Probe[b]': {}, 'Probe[c]': {}}")
    assert result.code == 1
    lines = [line.partition("; it was reported")[0] for line in result.lines if "ensure changed" not in line]
    assert lines == [
        "Notice: probe: all are there",
        *(
            [f"Notice: Probe[a, c]: {output}"]
            if "list" in message
            else [f"Notice: Probe[a]: {output}", f"Notice: Probe[c]: {output}"]
        ),
        "Error: Probe[b]: did not converge: ensure is absent, should be present",
    ]


@pytest.mark.parametrize(
    ("verb", "declared", "undone"),
    [
        ("created", "{size: 1}", "did not converge: ensure is absent, should be present"),
        ("updated", "{size: 1}", "did not converge: size is 0, should be 1"),
        ("deleted", "{ensure: absent}", "did not converge: ensure is present, should be absent"),
    ],
)
def test_no_success_is_said_of_what_did_not_come_true(bench: Bench, verb: str, declared: str, undone: str) -> None:
    """Of all three verbs, from a context and from an action; under ``--strict warning`` it counts, with a warning."""
    if verb != "created":
        bench.put("probe", a={"name": "a", "ensure": "present", "size": 0})
    gerund = {"created": "creating", "updated": "updating", "deleted": "deleting"}[verb]
    for message in (f"context.{verb}('a')", f"with context.{gerund}('a'): pass"):
        bench.probe(f"def set(self, context, changes):\n    {message}")
        manifest = f"resources: {{'Probe[a]': {declared}}}"
        assert [line.partition("; it")[0] for line in bench.apply(manifest).lines] == [f"Error: Probe[a]: {undone}"]
        text = f"Successfully {verb}" if "with" in message else verb.capitalize()
        lines = bench.apply(manifest, "--strict", "warning").lines
        assert lines[:2] == [f"Notice: Probe[a]: {text}", f"Warning: Probe[a]: {undone}"]


def test_what_was_verified_is_said_also_where_the_run_is_interrupted(bench: Bench) -> None:
    """A provider that ends the run has done what it reported before."""
    bench.probe(
        """
        def set(self, context, changes):
            for name, change in changes.items():
                if name == "b":
                    raise KeyboardInterrupt
                with context.creating(name):
                    self._done({name: change})
        """
    )
    result = bench.apply("resources: {'Probe[a]': {}, 'Probe[b]': {}}")
    assert result.lines[0] == "Notice: Probe[a]: Successfully created"


def test_a_failure_of_several_fails_all_of_them(bench: Bench) -> None:
    """A failure in a context of several resources fails all of them and is logged once."""
    bench.probe(
        "def set(self, context, changes):\n    with context.creating(list(changes)):\n        context.fail('jam')"
    )
    result = bench.stream("resources: {'Probe[a]': {}, 'Probe[b]': {}}")
    assert {end["status"] for end in result.ends().values()} == {"failed"}
    assert [line for line in result.lines if "jam" in line] == ["Error: Probe[a, b]: Creating failed: jam"]


def test_titles_are_shown_as_the_user_wrote_them(bench: Bench) -> None:
    """Messages about canonical names show the declared titles."""
    result = bench.apply("resources: {'Token[0xabc]': {}}", "-d")
    assert "Debug: Token[0xabc]: Started creating" in result.lines


def test_the_runtime_reports_what_the_provider_did_not(bench: Bench) -> None:
    """A creation, a change and a deletion that the provider does not report are logged by the runtime."""
    assert lines_of_set(bench, "pass") == ["Notice: Probe[a]: created"]
    assert lines_of_set(bench, "pass", manifest="resources: {'Probe[a]': {size: 2}}") == [
        "Notice: Probe[a]: size changed from 1 to 2"
    ]
    assert lines_of_set(bench, "pass", manifest="resources: {'Probe[a]': {ensure: absent}}") == [
        "Notice: Probe[a]: deleted"
    ]


@pytest.mark.parametrize("level", ["debug", "info", "notice", "warning", "err"])
def test_loglevel_applies_to_change_lines_only(bench: Bench, level: str) -> None:
    """``loglevel`` sets the level of change lines of one resource and of no other message."""
    bench.probe("def set(self, context, changes):\n    context.warning('a', message='hm')\n    self._done(changes)")
    result = bench.apply(
        f"resources: {{'Probe[a]': {{loglevel: {level}}}, 'Probe[b]': {{}}}}", "-d", "--detailed-exitcodes"
    )
    word = {"err": "Error"}.get(level, level.capitalize())
    assert result.code == 2
    assert f"{word}: Probe[a]: created" in result.lines
    assert "Notice: Probe[b]: created" in result.lines
    assert "Warning: Probe[a]: hm" in result.lines


def test_control_characters_are_escaped(bench: Bench) -> None:
    """A message or a value with control characters is escaped and cannot forge a line."""
    lines = lines_of_set(bench, r"context.notice('two\nlines \x1b[31m red')")
    assert any(r"two\nlines \x1b[31m red" in line for line in lines)
    result = bench.apply('resources: {"Probe[e]": {colour: "\\e[2J\\nError: x"}}')
    assert result.code == 0
    assert "\x1b" not in result.out + result.err
    assert not any(line.startswith("Error") for line in result.lines)


def test_secrets_never_appear(bench: Bench) -> None:
    """No plan, log, event or listing contains a secret, also where the provider prints it."""
    manifest = "resources: {'Account[a]': {password: hunter22xyz, pin: '48151623', key: opensesame, note: hello}}"
    bench.write("old.json", "{}")
    texts = []
    for run in (
        bench.plan(manifest),
        bench.plan(manifest, "--json"),
        bench.apply(manifest, "-d", "--noop"),
        bench.apply(manifest, "-d", "--log-format", "json"),
        bench.stream(manifest.replace("hunter22xyz", "hunter23abc"), "-d"),
        bench.run("resource", "account", "--json"),
        bench.run("resource", "account"),
    ):
        assert run.code == 0, run
        texts.append(run.out + run.err)
    for text in texts[:-2]:
        for secret in ("hunter22xyz", "hunter23abc", "48151623", "opensesame"):
            assert secret not in text
    assert "hunter23abc" not in texts[-1] + texts[-2]
    assert "password: <sensitive>" in texts[0]
    assert "password changed <sensitive>" in texts[4]
    assert bench.things("account")["a"]["password"] == "hunter23abc"


@pytest.mark.parametrize(
    "messages", ["return [f'bad {should}']", "raise ValueError(f'bad {should}')", "context.warning(f'bad {should}')"]
)
@pytest.mark.parametrize(("kind", "value"), [("String", "${inputs.p}"), ("Sensitive[String]", "hunter22xyz")])
def test_a_secret_is_masked_before_code_of_a_provider_is_called(
    bench: Bench, kind: str, value: str, messages: str
) -> None:
    """Of an input in an attribute that is not sensitive by its type, too, and in a worker."""
    bench.write("p", "hunter22xyz")
    body = f"should = dict(should, v=getattr(should['v'], 'reveal', lambda: should['v'])())\n    {messages}"
    bench.type(
        "checked",
        f'{bench.NAMED} "v": Attribute("{kind}", "v"),',
        provider=f"def get(self, context, names=None): return []\ndef validate(self, context, should):\n    {body}",
        features=["validate"],
    )
    inputs = "inputs: {p: {type: 'Sensitive[String]', default: x}}"
    manifest = f"{inputs}\nresources: {{'Checked[a]': {{v: '{value}'}}}}"
    for options in (["--noop"], ["--noop", "-d"], ["--noop", "--json"]):
        result = bench.apply(manifest, "-i", f"p=@{bench.home}/p", *options)
        assert "bad {" in result.out + result.err, result
        assert "hunter22xyz" not in result.out + result.err, result


def test_log_lines_can_be_json(bench: Bench) -> None:
    """With ``--log-format json`` each line on stderr is a JSON object, and stdout is unchanged."""
    result = bench.apply("resources: {'Widget[a]': {}}", "--log-format", "json")
    (line,) = map(json.loads, result.lines)
    assert line["level"] == "notice"
    assert line["subject"] == "Widget[a]"
    assert line["message"] == "Successfully created"
    assert line["timestamp"]
    assert result.out.startswith("Applied in ")


def test_colour_needs_a_terminal_or_an_option(bench: Bench) -> None:
    """A pipe gets no colour unless ``--color always`` is given."""
    manifest = "resources: {'Widget[bad]': {}}"
    assert "\x1b[" not in bench.apply(manifest).err
    assert "\x1b[" in bench.apply(manifest, "--color", "always").err
    assert "\x1b[" not in bench.apply(manifest, "--color", "never").err


def test_messages_in_get_are_shown(bench: Bench) -> None:
    """A message in ``get`` is logged for the type or for the name that it gives."""
    bench.probe(
        """
        def get(self, context):
            context.warning("slow today")
            context.info("other", message="strange")
            return self._rows().values()
        def set(self, context, changes): self._done(changes)
        """
    )
    lines = bench.apply(ONE, "-v").lines
    assert "Warning: probe: slow today" in lines
    assert "Info: Probe[other]: strange" in lines


def test_messages_that_are_no_strings_are_converted(bench: Bench) -> None:
    """A message that is no string is logged as text."""
    lines = lines_of_set(bench, "context.notice({'a': [1, None]})\ncontext.notice('a', message=3)")
    assert "Notice: probe: {'a': [1, None]}" in lines
    assert "Notice: Probe[a]: 3" in lines


def test_a_closed_log_does_not_stop_a_run(bench: Bench) -> None:
    """The run completes with closed streams and with a full device."""
    manifest = bench.write("site.yaml", "resources: {'Widget[a]': {}}")
    for redirect in (">&- 2>&-", ">/dev/full 2>/dev/full"):
        bench.things_of.joinpath("widget.json").unlink(missing_ok=True)
        process = bench.shell(f'"$@" apply "{manifest}" -d --detailed-exitcodes {redirect}')
        assert process.returncode == 2
        assert "a" in bench.things("widget")


def test_a_closed_pipe_does_not_stop_a_run(bench: Bench) -> None:
    """The run completes when the reader of its output ends early."""
    manifest = bench.write("site.yaml", "resources: {'Widget[a]': {}, 'Token[1]': {}}")
    assert bench.shell(f'set -o pipefail; "$@" apply "{manifest}" --json -d 2>&1 | head -c 1').returncode == 0
    assert bench.things("token")


def test_the_old_value_of_a_secret_never_appears(bench: Bench) -> None:
    """Messages of a provider contain neither the recorded nor the new value of a secret."""
    bench.probe(
        """
        def set(self, context, changes):
            for name, (is_, should) in changes.items():
                if is_:
                    print("from", is_["colour"])
                    raise ValueError(f"cannot change {is_['colour']} to {should['colour']}")
                self._put(name, {**should, "colour": should["colour"].reveal()})
        """
    )
    manifest = "inputs: {pw: {type: 'Sensitive[String]'}}\nresources: {'Probe[a]': {colour: 'user:${inputs.pw}'}}"
    state = ("--state", f"sqlite:{bench.home}/state.db", "-i", "pw=@pw")
    bench.write("pw", "first-secret-value")
    assert bench.apply(manifest, *state).code == 0
    bench.write("pw", "second-secret-value")
    for outcome in (bench.apply(manifest, *state), bench.stream(manifest, *state)):
        assert outcome.code == 1
        assert "cannot change <sensitive> to <sensitive>" in outcome.out + outcome.err
        assert "secret-value" not in outcome.out + outcome.err


def test_an_import_is_told_once(bench: Bench) -> None:
    """It is the result of the command, on standard output; the line of the log needs ``-v``."""
    bench.put("widget", a={"size": 1})
    bench.write("site.yaml", "resources: {'Widget[a]': {size: 1}}")
    words = ("import", "site.yaml", "Widget[a]", "--state=sqlite:state.db")
    for text in ("Widget[a]: imported.\n", "Widget[a]: recorded as ours already.\n"):
        result = bench.run(*words)
        assert (result.code, result.out, result.err) == (0, text, "")
    assert bench.run(*words, "-v").lines == ["Info: Widget[a]: is recorded as ours already"]
