"""What a provider may say, and the lines that people read: the wording of the documentation, to the letter."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

ONE = "resources: {'Probe[a]': {size: 1}}"


def said(bench: Bench, body: str, *options: str, manifest: str = ONE) -> list[str]:
    """Give the lines that a provider's ``set`` makes, whose body is given; it does its work afterwards."""
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    bench.probe(f"def set(self, context, changes):\n    try:\n{lines}\n    finally:\n        self._done(changes)\n")
    return bench.apply(manifest, *options).lines


def test_the_documented_lines_of_an_update(bench: Bench) -> None:
    """A context, a warning in it, a command, an attribute with a message, success."""
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
    done = bench.apply(ONE, "-d")
    lines = [line for line in done.lines if "Probe[a]" in line]
    assert lines == [
        "Debug: Probe[a]: Started updating",
        "Warning: Probe[a]: Updating: Original key not found",
        "Debug: Probe[a]: Executing '/bin/true del F1D2'",
        "Debug: Probe[a]: Successfully executed '/bin/true del F1D2'",
        "Notice: Probe[a]: Updating size: Replaced with content hash E242ED3B",
        "Notice: Probe[a]: Successfully updated",
    ]


def test_the_documented_lines_of_a_failure(bench: Bench) -> None:
    """The error is logged, swallowed, and fails the resource; execution goes on behind the context."""
    lines = said(
        bench,
        """
with context.updating("a"):
    raise RuntimeError("Something went wrong")
context.notice("behind it")
""",
        "-d",
    )
    shown = [line for line in lines if "probe" in line.lower()]
    assert shown == [
        "Debug: Probe[a]: Started updating",
        "Error: Probe[a]: Updating failed: Something went wrong",
        "Notice: probe: behind it",
    ]


def test_a_whole_type_is_spoken_of_by_its_name(bench: Bench) -> None:
    """Outside a context a plain message is about the type."""
    assert "Warning: probe: Unexpected state detected, continuing in degraded mode." in said(
        bench, 'context.warning("Unexpected state detected, continuing in degraded mode.")'
    )


@pytest.mark.parametrize(
    ("method", "word"), [("info", "Info"), ("notice", "Notice"), ("warning", "Warning"), ("err", "Error")]
)
def test_plain_messages_have_their_level(bench: Bench, method: str, word: str) -> None:
    """Of the type, of one resource, of several; an ``err`` alone fails nothing."""
    manifest = "resources: {'Probe[a]': {}, 'Probe[b]': {}}"
    body = f"context.{method}('x')\ncontext.{method}('a', 'y')\ncontext.{method}(['a', 'b'], message='z')"
    lines = said(bench, body, "-v", manifest=manifest)
    for line in (f"{word}: probe: x", f"{word}: Probe[a]: y", f"{word}: Probe[a, b]: z"):
        assert line in lines
    assert "Notice: Probe[a]: created" in lines


def test_debug_lines_need_d_and_info_lines_need_v(bench: Bench) -> None:
    """``-q`` leaves errors."""
    body = "for level in ('debug', 'info', 'notice', 'warning', 'err'):\n    getattr(context, level)(level + ' line')"

    def words(*options: str) -> list[str]:
        bench.things_of.joinpath("probe.json").unlink(missing_ok=True)
        return [line.split(": ")[0] for line in said(bench, body, *options) if line.endswith(" line")]

    assert words() == ["Notice", "Warning", "Error"]
    assert words("-v") == ["Info", "Notice", "Warning", "Error"]
    assert words("-d") == ["Debug", "Info", "Notice", "Warning", "Error"]
    assert words("-q") == ["Error"]


@pytest.mark.parametrize(
    ("opener", "started", "done"),
    [
        ("creating('a')", "Started creating", "Successfully created"),
        ("updating('a')", "Started updating", "Successfully updated"),
        ("deleting('a')", "Started deleting", "Successfully deleted"),
        ("creating('a', message='Zapping')", "Started zapping", "Successfully created"),
    ],
)
def test_contexts_say_what_they_do(bench: Bench, opener: str, started: str, done: str) -> None:
    """``message`` replaces the word, of the prefix too."""
    lines = said(bench, f"with context.{opener}:\n    context.notice('inside')", "-d")
    word = started.removeprefix("Started ").capitalize()
    expected = [f"Debug: Probe[a]: {started}", f"Notice: Probe[a]: {word}: inside", f"Notice: Probe[a]: {done}"]
    assert [line for line in lines if "Probe[a]" in line] == expected


def test_a_message_replaces_the_word_of_a_failure(bench: Bench) -> None:
    """``Zapping failed``."""
    lines = said(bench, "with context.creating('a', message='Zapping'):\n    context.fail('no power')")
    assert "Error: Probe[a]: Zapping failed: no power" in lines


def test_processing_reports_every_attribute_that_differs(bench: Bench) -> None:
    """With default messages, then the status."""
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 0, "colour": "red"})
    lines = said(
        bench,
        "is_, should = changes['a']\nwith context.processing('a', is_, should):\n    context.notice('inside')",
    )
    assert "Notice: Probe[a]: Processing: inside" in lines
    assert any(line.startswith("Notice: Probe[a]: ") and "size" in line and "from 0 to 1" in line for line in lines)
    assert sum("from 0 to 1" in line for line in lines) == 1
    assert not any("colour" in line for line in lines)


def test_processed_reports_the_same_without_a_context(bench: Bench) -> None:
    """After the fact."""
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 0})
    lines = said(bench, "context.processed('a', *changes['a'])")
    assert "Notice: Probe[a]: size changed from 0 to 1" in lines
    assert sum("from 0 to 1" in line for line in lines) == 1


@pytest.mark.parametrize("way", ["processed", "processing"])
def test_only_what_differs_is_reported_as_a_change(bench: Bench, way: str) -> None:
    """A parameter is no state, and ``get`` returns no write_only value, whether it is new or not."""
    bench.type(
        "probe",
        """
        "name": Attribute("String", "n", kind="namevar"),
        "ensure": Attribute("Enum[present, absent]", "e", default="present"),
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
        done = bench.stream(manifest.format(size, pin), *state)
        assert done.code == 0
        return [line.removeprefix("Notice: Probe[a]: ") for line in done.lines if line.startswith("Notice: Probe[a]")]

    assert reported(2, "one") == ["size changed from 1 to 2", "Updated"]
    assert reported(3, "two") == ["size changed from 2 to 3", "pin changed <sensitive>", "Updated"]


def test_failing_fails_in_any_case(bench: Bench) -> None:
    """Also when nothing is raised in it."""
    bench.probe(
        "def set(self, context, changes):\n    with context.failing('a'):\n        pass\n    self._done(changes)"
    )
    done = bench.stream(ONE)
    assert done.code == 1
    assert done.ends()["Probe[a]"]["status"] == "failed"


def test_failed_fails_the_resource(bench: Bench) -> None:
    """With its message, once; dependents are skipped."""
    bench.probe("def set(self, context, changes): context.failed('a', message='no such page')")
    done = bench.stream("resources: {'Probe[a]': {}, 'Token[1]': {require: 'Probe[a]'}}", "--detailed-exitcodes")
    assert done.code == 4
    assert done.ends()["Probe[a]"]["error"] == "no such page"
    assert done.ends()["Token[1]"]["status"] == "skipped"
    assert [line for line in done.lines if "no such page" in line] == ["Error: Probe[a]: no such page"]


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        ("created('a')", "Created"),
        ("updated('a')", "Updated"),
        ("deleted('a')", "Deleted"),
        ("updated('a', message='Turned')", "Turned"),
    ],
)
def test_actions_say_their_word(bench: Bench, action: str, shown: str) -> None:
    """Once: what a provider has reported the runtime does not repeat."""
    lines = [line for line in said(bench, f"context.{action}") if "Probe[a]" in line]
    assert lines == [f"Notice: Probe[a]: {shown}"]


def test_unchanged_says_nothing(bench: Bench) -> None:
    """The resource did not require a change."""
    assert not any("nchanged" in line for line in said(bench, "context.unchanged('a')"))


def test_attributes_are_reported_with_and_without_a_title(bench: Bench) -> None:
    """In a context the title is known; outside one it must be given; the runtime does not repeat them."""
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 0, "colour": "red"})
    manifest = "resources: {'Probe[a]': {size: 1, colour: blue}}"
    lines = said(
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
    inside = said(bench, "with context.updating('a'):\n    context.attribute_changed('size', 0, 1)")
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
    ],
)
def test_a_broken_rule_of_logging_is_an_error(bench: Bench, body: str, words: str) -> None:
    """Foreign names, two statuses, attributes after the status, a context after other lines."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    bench.probe(f"def set(self, context, changes):\n{lines}\n    self._done(changes)")
    done = bench.apply(ONE)
    assert done.code == 1
    assert any(line.startswith("Error: Probe[a]: ") and words in line for line in done.lines), done.err


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("context.created('a')\ncontext.updated('a')", "already"),
        ("context.created('a')\ncontext.attribute_changed('a', 'size', 0, 1)", "after"),
        ("context.created('a')\nraise OSError('the lamp went out')", "the lamp went out"),
    ],
)
def test_what_set_raises_after_the_last_status_is_told(bench: Bench, body: str, words: str) -> None:
    """It decides nothing, but nobody would find the mistake if it were kept silent."""
    assert any(words in line for line in said(bench, body))


def test_contexts_nest_and_the_outer_prefix_returns(bench: Bench) -> None:
    """Each has its own word."""
    lines = said(
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
        "Notice: Probe[a]: Successfully updated",
        "Notice: Probe[a, b]: Updating: three",
        "Notice: Probe[b]: Successfully updated",
    ]


def test_a_failure_of_several_fails_all_of_them(bench: Bench) -> None:
    """A context of a batch is one thing."""
    bench.probe(
        "def set(self, context, changes):\n    with context.creating(list(changes)):\n        context.fail('jam')"
    )
    done = bench.stream("resources: {'Probe[a]': {}, 'Probe[b]': {}}")
    assert {end["status"] for end in done.ends().values()} == {"failed"}
    assert [line for line in done.lines if "jam" in line] == ["Error: Probe[a, b]: Creating failed: jam"]


def test_titles_are_shown_as_the_user_wrote_them(bench: Bench) -> None:
    """Names that a provider speaks of are canonical; people read their own spelling."""
    done = bench.apply("resources: {'Token[0xabc]': {}}", "-d")
    assert "Debug: Token[0xabc]: Started creating" in done.lines


def test_the_runtime_reports_what_the_provider_did_not(bench: Bench) -> None:
    """``created``, ``deleted``, each attribute."""
    assert said(bench, "pass") == ["Notice: Probe[a]: created"]
    assert said(bench, "pass", manifest="resources: {'Probe[a]': {size: 2}}") == [
        "Notice: Probe[a]: size changed from 1 to 2"
    ]
    assert said(bench, "pass", manifest="resources: {'Probe[a]': {ensure: absent}}") == ["Notice: Probe[a]: deleted"]


@pytest.mark.parametrize("level", ["debug", "info", "notice", "warning", "err"])
def test_loglevel_moves_the_lines_of_changes_only(bench: Bench, level: str) -> None:
    """Of one resource; what else is said about it keeps its level, and the change counts."""
    bench.probe("def set(self, context, changes):\n    context.warning('a', message='hm')\n    self._done(changes)")
    done = bench.apply(
        f"resources: {{'Probe[a]': {{loglevel: {level}}}, 'Probe[b]': {{}}}}", "-d", "--detailed-exitcodes"
    )
    word = {"err": "Error"}.get(level, level.capitalize())
    assert done.code == 2
    assert f"{word}: Probe[a]: created" in done.lines
    assert "Notice: Probe[b]: created" in done.lines
    assert "Warning: Probe[a]: hm" in done.lines


def test_control_characters_are_escaped(bench: Bench) -> None:
    """No line can be forged and no terminal moved, by a title, a value or a provider."""
    lines = said(bench, r"context.notice('two\nlines \x1b[31m red')")
    assert any(r"two\nlines \x1b[31m red" in line for line in lines)
    done = bench.apply('resources: {"Probe[e]": {colour: "\\e[2J\\nError: x"}}')
    assert done.code == 0
    assert "\x1b" not in done.out + done.err
    assert not any(line.startswith("Error") for line in done.lines)


def test_secrets_never_appear(bench: Bench) -> None:
    """Not in lines of the runtime or of a careless provider, not in plans, JSON, or debug output."""
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


def test_log_lines_can_be_json(bench: Bench) -> None:
    """One object per line on stderr, stdout as ever."""
    done = bench.apply("resources: {'Widget[a]': {}}", "--log-format", "json")
    (line,) = map(json.loads, done.lines)
    assert line["level"] == "notice"
    assert line["subject"] == "Widget[a]"
    assert line["message"] == "Successfully created"
    assert line["timestamp"]
    assert done.out.startswith("Applied in ")


def test_colour_is_for_terminals_and_on_request(bench: Bench) -> None:
    """Never into a pipe unless asked for; ``NO_COLOR`` is honoured."""
    manifest = "resources: {'Widget[bad]': {}}"
    assert "\x1b[" not in bench.apply(manifest).err
    assert "\x1b[" in bench.apply(manifest, "--color", "always").err
    assert "\x1b[" not in bench.apply(manifest, "--color", "never").err


def test_messages_in_get_are_shown(bench: Bench) -> None:
    """A reading provider may speak of the type, and of any name."""
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


def test_messages_that_are_no_strings_do_no_harm(bench: Bench) -> None:
    """A provider may log what it has at hand."""
    lines = said(bench, "context.notice({'a': [1, None]})\ncontext.notice('a', message=3)")
    assert "Notice: probe: {'a': [1, None]}" in lines
    assert "Notice: Probe[a]: 3" in lines


def test_a_closed_log_stops_nothing(bench: Bench) -> None:
    """Nor does a full device."""
    manifest = bench.write("site.yaml", "resources: {'Widget[a]': {}}")
    for redirect in (">&- 2>&-", ">/dev/full 2>/dev/full"):
        bench.things_of.joinpath("widget.json").unlink(missing_ok=True)
        command = f'exec "{sys.executable}" -m resource_api apply "{manifest}" -d --detailed-exitcodes {redirect}'
        done = subprocess.run(["/bin/sh", "-c", command], env=bench.environment, check=False)
        assert done.returncode == 2
        assert "a" in bench.things("widget")


def test_a_reader_that_goes_away_stops_nothing(bench: Bench) -> None:
    """``| head`` is no error and no end."""
    manifest = bench.write("site.yaml", "resources: {'Widget[a]': {}, 'Token[1]': {}}")
    command = f'("{sys.executable}" -m resource_api apply "{manifest}" --json -d 2>&1; echo $? >code) | head -c 1'
    subprocess.run(["/bin/sh", "-c", command], env=bench.environment, cwd=bench.home, check=True, capture_output=True)
    assert (bench.home / "code").read_text(encoding="utf-8") == "0\n"
    assert bench.things("token")


def test_what_a_secret_takes_the_place_of_never_appears(bench: Bench) -> None:
    """A provider that speaks of what it changes does not know that the old value was a secret too."""
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
    for told in (bench.apply(manifest, *state), bench.stream(manifest, *state)):
        assert told.code == 1
        assert "cannot change <sensitive> to <sensitive>" in told.out + told.err
        assert "secret-value" not in told.out + told.err
