"""What authors can do besides: Python manifests, predicted plans, programs, calls side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench

PYTHON = """
PROJECT = "py"
INPUTS = {"count": {"type": "Integer", "default": 2}}
DEFAULTS = {"Widget": {"colour": "red"}}


def manifest(m):
    first = m.widget("first", size=m.inputs["count"])
    for number in range(m.inputs["count"]):
        m.resource("widget", f"w{number}", {"colour": m.text("of {0}", first.serial)}, require=first)
    m.output("serial", first.serial)
"""


def test_a_python_manifest_makes_the_same_catalog(bench: Bench) -> None:
    """Loops and conditions are Python's; handles are references, problems have the Python line."""
    path = bench.write("site.py", PYTHON)
    done = bench.run("apply", path, "--json", "-i", "count=1")
    assert done.code == 0, done
    assert list(done.ends()) == ["Widget[first]", "Widget[w0]"]
    assert done.ends()["Widget[w0]"]["urn"] == "urn:resource:default::py::widget::w0"
    assert bench.things("widget")["w0"] == {"colour": "of S-first", "serial": "S-w0"}
    assert bench.things("widget")["first"] == {"colour": "red", "size": 1, "serial": "S-first"}
    assert done.events("outputs")[0]["outputs"] == {"serial": "S-first"}
    wrong = bench.run("apply", bench.write("wrong.py", PYTHON.replace("size=", "sise=")))
    assert wrong.code == 65
    assert "wrong.py:7" in wrong.err
    assert "did you mean 'size'?" in wrong.err


def test_a_python_manifest_that_raises_is_refused_with_its_line(bench: Bench) -> None:
    """Nothing is touched."""
    path = bench.write("site.py", "def manifest(m):\n    m.widget('a')\n    raise RuntimeError('no idea today')\n")
    done = bench.run("apply", path)
    assert done.code == 65
    assert "site.py:3" in done.err
    assert "no idea today" in done.err
    assert bench.calls("widget") == []


PLANNING = """
def plan(self, context, name, is_, should):
    return Planned(replace=["size"] if is_ and is_["size"] != should["size"] else [])
def set(self, context, changes):
    for name, (is_, should) in changes.items():
        rows = self._rows()
        rows.pop(name, None)
        if should["ensure"] == "present":
            rows[name] = dict(should)
        self._file().write_text(json.dumps(rows))
"""


def test_a_provider_may_say_that_a_change_needs_a_replacement(bench: Bench) -> None:
    """Its wish is as good as the user's, unless that is ``never``."""
    bench.probe(PLANNING, features=("plan",))
    bench.put("probe", a={"name": "a", "ensure": "present", "size": 1})
    done = bench.stream("resources: {'Probe[a]': {size: 2}}")
    assert done.code == 0, done
    assert done.ends()["Probe[a]"]["action"] == "replace"
    never = bench.apply("resources: {'Probe[a]': {size: 3, lifecycle: {replace: never}}}")
    assert never.code == 1
    assert bench.things("probe")["a"]["size"] == 2


def test_what_cannot_be_read_back_is_set_at_creation(bench: Bench) -> None:
    """And is no part of what is verified."""
    done = bench.stream("resources: {'Account[a]': {pin: '1234', password: hunter22}}")
    assert done.code == 0
    assert bench.calls("account", "set")[0]["pin"] == "Sensitive"


def test_a_command_that_is_missing_fails_its_resources(bench: Bench) -> None:
    """With the name of what is missing; others go on; a failing one says how it ended."""
    bench.probe(
        """
        gone = Command("ra-no-such-program")
        false = Command("/bin/false")
        def set(self, context, changes):
            for name in changes:
                with context.creating(name):
                    (self.gone if name == "a" else self.false)("x")
        """
    )
    done = bench.stream("resources: {'Probe[a]': {}, 'Probe[b]': {}, 'Widget[w]': {}}", "--detailed-exitcodes")
    assert done.code == 6
    assert "ra-no-such-program" in done.ends()["Probe[a]"]["error"]
    assert "/bin/false" in done.ends()["Probe[b]"]["error"]
    assert "1" in done.ends()["Probe[b]"]["error"]


def test_a_secret_is_refused_as_an_argument_of_a_command(bench: Bench) -> None:
    """Everybody could read it there; it goes by ``input``."""
    bench.probe(
        """
        echo = Command("/bin/echo")
        cat = Command("/bin/cat")
        def set(self, context, changes):
            secret = Sensitive("hunter2abc")
            with context.creating("a"):
                context.notice(str(len(self.cat(input=secret).stdout)))
                self.echo(secret)
        """
    )
    done = bench.apply("resources: {'Probe[a]': {}}", "-d")
    assert done.code == 1
    assert "Notice: Probe[a]: Creating: 10" in done.lines
    assert "Error: Probe[a]: Creating failed: " in done.err


def test_a_secret_that_a_provider_made_is_masked_once_a_command_has_had_it(bench: Bench) -> None:
    """What comes back on stdout is logged at debug, without it."""
    bench.probe(
        """
        cat = Command("/bin/cat")
        def set(self, context, changes):
            self.cat(input=Sensitive("hunter2abc"))
            self._done(changes)
        """
    )
    done = bench.apply("resources: {'Probe[a]': {}}", "-d")
    assert done.code == 0
    assert "hunter2abc" not in done.err + done.out


def test_output_of_a_command_is_logged(bench: Bench) -> None:
    """Stdout at debug, stderr at warning, with whom it is about."""
    bench.probe(
        """
        sh = Command("/bin/sh")
        def set(self, context, changes):
            with context.creating("a"):
                self.sh("-c", "echo out; echo err >&2")
                context.notice("/".join(self.sh.lines("-c", "echo x; echo y")))
                context.notice(str(self.sh.attempt("-c", "exit 3").exit_code))
            self._done(changes)
        """
    )
    done = bench.apply("resources: {'Probe[a]': {}}", "-d")
    assert done.code == 0, done
    assert any(line.startswith("Debug: Probe[a]: ") and line.endswith("out") for line in done.lines)
    assert any(line.startswith("Warning: Probe[a]: ") and line.endswith("err") for line in done.lines)
    assert "Notice: Probe[a]: Creating: x/y" in done.lines
    assert "Notice: Probe[a]: Creating: 3" in done.lines
