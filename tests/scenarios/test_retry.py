"""``retry: {tries: N, delay: S}`` repeats failed changes and refreshes, alone and after a pause (contract §10.8)."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench, Outcome

#: A provider whose changes of a name fail as often as ``FAILS`` says, in the way that ``HOW`` says.
STUBBORN = """
    def _note(self, what):
        with Path(os.environ["BENCH"], "calls").open("a") as file:
            file.write(json.dumps([what, time.monotonic()]) + "\\n")
    def _fails(self, name):
        counts = Path(os.environ["BENCH"], "counts.json")
        tried = json.loads(counts.read_text()) if counts.exists() else {}
        tried[name] = tried.get(name, 0) + 1
        counts.write_text(json.dumps(tried))
        return tried[name] <= json.loads(os.environ.get("FAILS", "{}")).get(name, 0)
    def get(self, context, names=None):
        self._note("get")
        return list(self._rows().values())
    def set(self, context, changes):
        how = os.environ.get("HOW", "raise")
        self._note("set " + " ".join(changes) if how != "lazy" else "set")
        for name, (is_, should) in changes.items():
            self._note(name)
            if not self._fails(name):
                self._put(name, {**(is_ or {}), **should})
            elif how == "half":
                self._put(name, {**(is_ or {}), **should, "size": 0})
            elif how == "report":
                context.failed(name, message=f"{name} is stuck")
            elif how == "tainted":
                context.failed(name, message=f"{name} is spoilt", tainted=True)
            elif how == "context":
                with context.creating(name):
                    raise OSError(f"{name} is stuck")
            elif how != "lie":
                raise OSError(f"{name} is stuck")
    def refresh(self, context, names):
        self._note("refresh " + " ".join(names))
        for name in names:
            if self._fails(f"refresh {name}"):
                raise OSError(f"{name} does not start")
"""
ERRAND = """
    def _note(self, what):
        with Path(os.environ["BENCH"], "calls").open("a") as file:
            file.write(json.dumps([what, time.monotonic()]) + "\\n")
    def get(self, context, names=None):
        return []
    def due(self, context, name, should):
        return True
    def set(self, context, changes):
        for name in changes:
            self._note(name)
            lines = Path(os.environ["BENCH"], "calls").read_text().splitlines()
            tried = sum(json.loads(line)[0] == name for line in lines)
            if tried <= json.loads(os.environ.get("FAILS", "{}")).get(name, 0):
                raise OSError(f"{name} is stuck")
"""


@pytest.fixture
def stubborn(bench: Bench) -> Bench:
    """Return a bench with a stubborn type, an imperative one, and a state."""
    bench.probe(STUBBORN, features=("refreshable",))
    bench.type("errands", bench.NAMED.splitlines()[1], provider=ERRAND, base="BaseProvider", features=["imperative"])
    for name in ("probe", "errands"):
        provider = bench.modules / "providers" / f"{name}.py"
        provider.write_text("import time\n" + provider.read_text(encoding="utf-8"), encoding="utf-8")
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home / 'state.db'}"
    return bench


def fails(bench: Bench, how: str = "raise", **counts: int) -> None:
    """Let changes of names fail so many times."""
    bench.environment |= {"FAILS": json.dumps(counts), "HOW": how}


def calls(bench: Bench, prefix: str = "") -> list[tuple[str, float]]:
    """Return the calls so far with their times, without ``get`` unless the prefix says so."""
    path = bench.things_of / "calls"
    noted = [tuple(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return [(subject, at) for subject, at in noted if subject.startswith(prefix) and (prefix or subject != "get")]


def names(bench: Bench, prefix: str = "set") -> list[str]:
    """Return the calls of ``set`` so far, each with its names."""
    return [subject for subject, _ in calls(bench, prefix)]


def warnings(result: Outcome) -> list[str]:
    """Return the warnings of a run, without the places of exceptions."""
    lines = [re.sub(r" \([^()]*\.py:\d+ in \w+\)", "", line) for line in result.lines]
    return [line.removeprefix("Warning: ") for line in lines if line.startswith("Warning: ")]


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
@pytest.mark.parametrize("how", ["raise", "report", "context"])
def test_a_change_that_fails_is_repeated(stubborn: Bench, how: str, isolate: str) -> None:
    """Whether ``set`` raises or reports the failure; earlier failures are warnings, and the run succeeds."""
    stubborn.environment["RESOURCE_API_ISOLATE"] = isolate
    fails(stubborn, how, a=2)
    result = stubborn.stream("resources: {'Probe[a]': {size: 1, retry: {tries: 3}}}", "--detailed-exitcodes")
    assert result.code == 2, result.err
    assert names(stubborn) == ["set a"] * 3
    assert warnings(result) == [f"Probe[a]: try {number} of 3: a is stuck" for number in (1, 2)]
    assert not [line for line in result.lines if line.startswith("Error")]
    assert (result.ends()["Probe[a]"]["status"], result.ends()["Probe[a]"]["tries"]) == ("success", 3)


@pytest.mark.parametrize("how", ["raise", "report", "context"])
def test_the_last_failure_is_the_error(stubborn: Bench, how: str) -> None:
    """After its tries the resource has failed as without ``retry``: one error line, and dependents are skipped."""
    fails(stubborn, how, a=9)
    result = stubborn.stream(
        "resources: {'Probe[a]': {retry: {tries: 2}}, 'Probe[b]': {require: 'Probe[a]'}, 'Probe[c]': {}}"
    )
    assert result.code == 1
    statuses = {name: end["status"] for name, end in result.ends().items()}
    assert statuses == {"Probe[a]": "failed", "Probe[b]": "skipped", "Probe[c]": "success"}
    assert result.ends()["Probe[a]"]["error"].startswith("a is stuck")
    assert len([line for line in result.lines if line.startswith("Error")]) == 1
    assert warnings(result)[0] == "Probe[a]: try 1 of 2: a is stuck"
    assert [subject for subject, _ in calls(stubborn)].count("a") == 2


def test_what_does_not_converge_is_repeated(stubborn: Bench) -> None:
    """A change that raises nothing and is not seen as asked has failed too."""
    fails(stubborn, "half", a=1)
    result = stubborn.apply("resources: {'Probe[a]': {size: 3, retry: {tries: 2}}}")
    assert (result.code, warnings(result)) == (0, ["Probe[a]: try 1 of 2: did not converge: size is 0, should be 3"])


def test_a_creation_that_is_not_seen_is_not_repeated(stubborn: Bench) -> None:
    """It could be created twice: it stays unconfirmed (contract §10.2)."""
    fails(stubborn, "lie", a=1)
    result = stubborn.stream("resources: {'Probe[a]': {size: 3, retry: {tries: 5}}}")
    assert (result.code, names(stubborn), result.ends()["Probe[a]"]["unconfirmed"]) == (1, ["set a"], True)


def test_a_tainted_resource_is_not_repeated(stubborn: Bench) -> None:
    """A second try cannot help what must be replaced; the failure is logged as an error, once."""
    fails(stubborn, "tainted", a=1)
    result = stubborn.apply("resources: {'Probe[a]': {size: 3, retry: {tries: 5}}}")
    assert (result.code, names(stubborn)) == (1, ["set a"])
    assert [line for line in result.lines if "spoilt" in line] == ["Error: Probe[a]: a is spoilt"]


def test_one_try_is_one_call(stubborn: Bench) -> None:
    """``tries: 1`` excludes the second call, one by one, that others get after a call that raised."""
    fails(stubborn, a=1, b=1)
    result = stubborn.stream("resources: {'Probe[a]': {retry: {tries: 1}}, 'Probe[b]': {}, 'Probe[c]': {}}")
    assert names(stubborn) == ["set a b c", "set b", "set c"]
    assert {name: end["status"] for name, end in result.ends().items()} == {
        "Probe[a]": "failed",
        "Probe[b]": "failed",
        "Probe[c]": "success",
    }


def test_one_by_one_is_a_try(stubborn: Bench) -> None:
    """The second call counts, comes after the delay, and after the first call of the other names."""
    fails(stubborn, a=2)
    site = "resources: {'Probe[a]': {retry: {tries: 3, delay: 0.3}}, 'Probe[b]': {}, 'Probe[c]': {retry: {tries: 9}}}"
    result = stubborn.apply(site)
    assert result.code == 0, result.err
    assert names(stubborn) == ["set a b c", "set b", "set c", "set a", "set a"]
    first, second, third = [at for subject, at in calls(stubborn) if subject == "a"]
    assert min(second - first, third - second) >= 0.3
    assert [line for line in warnings(result) if "Probe[a]" in line] == [
        f"Probe[a]: try {number} of 3: a is stuck; again in 0.3 s" for number in (1, 2)
    ]


def test_the_name_is_read_before_each_try(stubborn: Bench) -> None:
    """What has become as declared in the meantime has succeeded, without another call."""
    provider = stubborn.modules / "providers" / "probe.py"
    late = '    def get(self, context, names=None):\n        row = {"name": "a", "ensure": "present", "size": 1}\n'
    late += '        began = calls[0] if (calls := [json.loads(line)[1] for line in Path(os.environ["BENCH"], "calls")'
    late += (
        '.read_text().splitlines() if "set" in line] if Path(os.environ["BENCH"], "calls").exists() else []) else 1e9\n'
    )
    late += "        return [row] if time.monotonic() > began + 0.3 else []\n"
    text = provider.read_text(encoding="utf-8")
    provider.write_text(text.replace("    def get(self", "    def get_(self") + late, encoding="utf-8")
    fails(stubborn, "report", a=9)
    result = stubborn.stream("resources: {'Probe[a]': {size: 1, retry: {tries: 3, delay: 0.6}}}")
    assert (result.code, names(stubborn)) == (0, ["set a"]), result.err
    assert result.ends()["Probe[a]"]["status"] == "success"


def test_dependents_in_the_same_call_begin_when_the_second_try_has_succeeded(stubborn: Bench) -> None:
    """They are left out of the call in which their prerequisite fails, and called together after it succeeds."""
    fails(stubborn, "report", a=1)
    site = """
    resources:
      Probe[a]: {retry: {tries: 2}}
      Probe[b]: {require: "Probe[a]"}
      Probe[c]: {require: "Probe[b]"}
      Probe[d]: {}
    """
    result = stubborn.stream(site)
    assert result.code == 0, result.err
    assert [subject for subject, _ in calls(stubborn) if len(subject) == 1] == ["a", "d", "a", "b", "c"]
    assert {end["status"] for end in result.ends().values()} == {"success"}


def test_each_try_has_the_whole_timeout(bench: Bench) -> None:
    """The time limit holds for a call, not for all of them."""
    bench.probe(
        """
        def set(self, context, changes):
            import time
            counts = Path(os.environ["BENCH"], "count")
            tried = int(counts.read_text()) if counts.exists() else 0
            counts.write_text(str(tried + 1))
            time.sleep(30 if tried < 1 else 0.6)
            self._done(changes)
        """
    )
    result = bench.apply("resources: {'Probe[a]': {timeout: 1, retry: {tries: 2}}}")
    assert result.code == 0, result.err
    assert warnings(result)[0].startswith("Probe[a]: try 1 of 2: ")


def test_a_refresh_is_repeated(stubborn: Bench) -> None:
    """Only the failed name, alone; the change before it is not."""
    fails(stubborn, **{"refresh a": 1})
    site = """
    resources:
      Widget[w]: {notify: ["Probe[a]", "Probe[b]"]}
      Probe[a]: {retry: {tries: 2, delay: 0.2}}
      Probe[b]: {retry: {tries: 2}}
    """
    result = stubborn.apply(site)
    assert result.code == 0, result.err
    assert names(stubborn, "refresh") == ["refresh a b", "refresh b", "refresh a"]
    assert "Probe[a]: try 1 of 2: refresh failed: a does not start; again in 0.2 s" in warnings(result)
    fails(stubborn, **{"refresh a": 9})
    (stubborn.things_of / "counts.json").unlink()
    stubborn.put("widget", w={"size": 7})
    failed = stubborn.apply(site.replace("notify", "size: 8, notify"))
    assert failed.code == 1
    assert len([line for line in failed.lines if line.startswith("Error: Probe[a]: refresh failed")]) == 1


def test_a_command_is_repeated_only_where_it_says_so(stubborn: Bench) -> None:
    """``retry`` from ``defaults`` or a component does not reach an imperative type; its own does."""
    fails(stubborn, x=1, y=1)
    result = stubborn.stream(
        "defaults: {Errands: {retry: {tries: 3}}}\nresources: {'Errands[x]': {}, 'Errands[y]': {retry: {tries: 2}}}"
    )
    assert {name: end["status"] for name, end in result.ends().items()} == {
        "Errands[x]": "failed",
        "Errands[y]": "success",
    }
    stubborn.write(
        "modules/components/chores.py",
        """
        from resource_api import ComponentDefinition
        COMPONENT = ComponentDefinition(name="chores", docs="Chores.")
        def build(m):
            m.errands("z")
            m.probe("p")
        """,
    )
    fails(stubborn, z=1, p=1)
    result = stubborn.stream("resources: {'Chores[all]': {retry: {tries: 2}}}")
    assert {name: end["status"] for name, end in result.ends().items()} == {
        "Chores[all]/Errands[z]": "failed",
        "Chores[all]/Probe[p]": "success",
    }


def test_defaults_and_null(stubborn: Bench) -> None:
    """A resource takes ``retry`` from ``defaults``; ``null`` takes it away."""
    fails(stubborn, "report", a=1, b=1)
    result = stubborn.stream(
        "defaults: {Probe: {retry: {tries: 2}}}\nresources: {'Probe[a]': {}, 'Probe[b]': {retry: null}}"
    )
    assert {name: end["status"] for name, end in result.ends().items()} == {"Probe[a]": "success", "Probe[b]": "failed"}


def test_fail_fast_waits_for_the_last_try(stubborn: Bench) -> None:
    """A failure that is repeated stops nothing; one after the last try does."""
    fails(stubborn, "report", a=1)
    site = "resources: {'Probe[a]': {retry: {tries: 2}}, 'Probe[b]': {}, 'Widget[w]': {}}"
    assert stubborn.apply(site, "--fail-fast").code == 0
    fails(stubborn, "report", c=9, d=9)
    site = "resources: {'Probe[c]': {retry: {tries: 2}}, 'Probe[d]': {retry: {tries: 9}}, 'Widget[v]': {}}"
    result = stubborn.stream(site, "--fail-fast")
    assert {name: end["status"] for name, end in result.ends().items()} == {
        "Probe[c]": "failed",
        "Probe[d]": "failed",
        "Widget[v]": "skipped",
    }
    assert names(stubborn)[-2:] == ["set c d", "set c"]


@pytest.mark.parametrize("parallel", ["1", "4"])
def test_an_interrupt_ends_the_wait(stubborn: Bench, parallel: str) -> None:
    """The resource has failed with its last reason; exit 130, and the state is written."""
    fails(stubborn, a=9)
    site = stubborn.write("site.yaml", "project: p\nresources: {'Probe[a]': {retry: {tries: 3, delay: 60}}}")
    words = [sys.executable, "-m", "resource_api", "apply", str(site), "--json", "--parallel", parallel]
    environment = stubborn.environment
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: calls(stubborn, "a"))
    time.sleep(0.3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    (end,) = [event for line in out.splitlines() if (event := json.loads(line))["type"] == "step_end"]
    assert (process.returncode, end["status"]) == (130, "failed"), err
    assert end["error"].startswith("a is stuck")
    assert names(stubborn) == ["set a"]


@pytest.mark.parametrize("how", ["raise", "half"])
def test_a_kill_between_two_tries_converges(stubborn: Bench, how: str) -> None:
    """The intent is still open: the next run reads the resource and goes on."""
    fails(stubborn, how, a=1)
    site = stubborn.write("site.yaml", "project: p\nresources: {'Probe[a]': {size: 1, retry: {tries: 3, delay: 60}}}")
    words = [sys.executable, "-m", "resource_api", "apply", str(site)]
    process = subprocess.Popen(words, env=stubborn.environment, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: calls(stubborn, "a"))
    time.sleep(0.3)
    process.kill()
    process.communicate(timeout=20)
    result = stubborn.run("apply", site)
    assert result.code == 0, result.err
    assert len([subject for subject, _ in calls(stubborn) if subject == "a"]) == 2
    assert stubborn.run("apply", site, "--detailed-exitcodes").code == 0


def test_the_wait_is_shown(stubborn: Bench) -> None:
    """While it waits the log says for which try; with ``-v`` each call says which one it is."""
    fails(stubborn, a=1)
    result = stubborn.apply("resources: {'Probe[a]': {retry: {tries: 2, delay: 5.4}}}", "-v")
    assert result.code == 0, result.err
    assert "Notice: Probe[a]: still waiting (try 2 of 2) (5 s)" in result.lines
    assert "Info: Probe[a]: creating (try 2 of 2)" in result.lines


def test_noop_and_a_saved_plan(stubborn: Bench) -> None:
    """A noop run tries nothing; a saved plan repeats as its manifest says, and shows it among the options."""
    fails(stubborn, a=1)
    site = stubborn.write("site.yaml", "project: p\nresources: {'Probe[a]': {retry: {tries: 2, delay: 0.1}}}")
    assert stubborn.run("apply", site, "--noop").code == 0
    assert not calls(stubborn)
    plan = stubborn.home / "plan.json"
    document = stubborn.run("plan", site, "-o", plan, "--json").document
    assert document["steps"][0]["options"]["retry"] == {"tries": 2, "delay": 0.1}
    assert stubborn.run("apply", plan).code == 0
    assert names(stubborn) == ["set a"] * 2
