"""Providers in workers that end, hang or send invalid data (``modules/lost``): one call is lost, no more.

Every manifest also has good resources of another type, of which one depends on a bad one.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from resource_api import Attribute, DefinitionError, ManifestError, Runtime, SimpleProvider, TypeDefinition
from resource_api.plugins.worker.protocol import VERSION
from tests.hostile.test_bad_providers import AFTER, GOOD
from tests.registries import registry_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.conftest import Box, Done

MODULES: Final = Path(__file__).resolve().parent / "modules" / "lost"

#: What is lost when b's turn comes, and with which words.
LOST: Final = {
    "segfaults": "the worker of 'bad' was killed by SIGSEGV while in set",
    "aborts": "the worker of 'bad' was killed by SIGABRT while in set",
    "exits_hard": "the worker of 'bad' ended with exit code 3 while in set",
    "is_killed": "the worker of 'bad' was killed by SIGKILL while in set, perhaps for want of memory",
    "eats_memory": "MemoryError",
    "talks_nonsense": "the worker of 'bad' sent bytes that are no frame while in set: b'GET / HTTP/1.1\\r' is no frame",
}
#: Reading fails, for all of them.
UNREADABLE: Final = {
    "segfaults_reading": "the worker of 'bad' was killed by SIGSEGV while in get",
    "segfaults_made": "the worker of 'bad' was killed by SIGSEGV while in get",
    "answers_without_end": "sent more than 256 MiB at once",
}
#: Never ends, whatever it is told.
HANGING: Final = ("spins", "hangs_in_c")


def apply(box: Box, case: str, *arguments: str) -> Done:
    """Apply the manifest with a bad provider in a worker; stdout is JSON, and no traceback is shown."""
    put(box, case)
    result = box.run("apply", "site.json", "--json", "--isolate", *arguments)
    assert result.events[-1]["exit_code"] == result.code
    assert "Traceback" not in result.text
    assert "a bug in resource-api" not in result.text
    return result


def put(box: Box, case: str) -> None:
    """Make one of ``modules/lost`` the provider of the bad type."""
    box.type("bad")
    box.provider("bad", (MODULES / f"{case}.py").read_text(encoding="utf-8"))


def timed(box: Box, seconds: float) -> None:
    """Set a timeout for b, in a manifest with good resources before and after the bad ones."""
    bad: dict[str, Any] = {f"Bad[{name}]": {"size": AFTER[name]["size"]} for name in "abcd"}
    bad["Bad[b]"]["timeout"] = seconds
    box.manifest({"Good[before]": {"size": 1}, **bad, "Good[after]": {"size": 2}})


@pytest.fixture
def nothing_left(box: Box) -> Iterator[None]:
    """Check that no worker of this box outlives its run."""
    yield
    until = time.monotonic() + 5
    while remaining := [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(box.path)]:
        assert time.monotonic() < until, remaining
        time.sleep(0.05)


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("case", LOST)
def test_a_crash_of_a_worker_fails_alone(box: Box, case: str) -> None:
    """The message contains how the worker ended; the others of its call and every other resource converge."""
    result = apply(box, case)
    assert result.code == 1
    assert {ref for ref, step in result.steps.items() if step["status"] == "failed"} == {"Bad[b]"}
    assert LOST[case] in result.steps["Bad[b]"]["error"]
    assert f"Error: Bad[b]: {LOST[case]}" in result.text
    assert box.stored("good") == GOOD
    assert box.stored("bad") == {**AFTER, "b": {"size": 1}}
    assert box.calls("bad", "set") == [["a", "b", "c"], ["b"], ["c"]]


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_type_whose_worker_crashes_in_get_is_never_set(box: Box, case: str) -> None:
    """A type that cannot be read fails with that reason."""
    result = apply(box, case)
    assert result.code == 1
    assert {ref for ref, step in result.steps.items() if step["status"] == "failed"} == {f"Bad[{n}]" for n in "abcd"}
    assert all(UNREADABLE[case] in result.steps[f"Bad[{name}]"]["error"] for name in "abcd")
    assert result.steps["Good[dependent]"]["status"] == "skipped"
    assert box.calls("bad", "set") == []


def test_a_crash_while_loading_changes_nothing(box: Box) -> None:
    """The lines of its resources are named."""
    result = apply(box, "segfaults_loading")
    assert result.code == 65
    message = "the worker of 'bad' was killed by SIGSEGV while it loaded the type and its provider"
    assert f"site.json:1:45: Bad[a]: {message}" in result.text
    assert box.stored("good") == {}


@pytest.mark.parametrize("case", HANGING)
def test_a_hanging_call_is_ended_after_its_timeout(box: Box, case: str) -> None:
    """Asked to end at its timeout, killed some seconds later, not tried again."""
    timed(box, 1)
    begun = time.monotonic()
    result = apply(box, case)
    assert time.monotonic() - begun < 30
    assert result.code == 1
    message = "set timed out after 1 s and did not end when it was asked to; the worker of 'bad' has been ended"
    errors = {ref: step["error"] for ref, step in result.steps.items() if step["status"] == "failed"}
    assert errors == {"Bad[b]": f"{message} (site.json:1)"}
    assert box.calls("bad", "set") == [["a"], ["b"], ["c"]]
    assert {name: box.stored("bad")[name]["size"] for name in "abcd"} == {"a": 1, "b": 1, "c": 3, "d": 4}


def test_a_call_that_ends_on_request_succeeds(box: Box) -> None:
    """At its timeout ``context.cancelled`` is true."""
    timed(box, 1)
    result = apply(box, "waits_for_cancel")
    assert (result.code, result.steps["Bad[b]"]["status"]) == (0, "success")


def test_a_worker_that_closes_its_descriptors_loses_its_call(box: Box) -> None:
    """The change is found to be made; files that it opened afterwards stay empty."""
    result = apply(box, "closes_descriptors")
    assert result.code == 0
    assert "Warning: bad: set raised: the worker of 'bad' lost the descriptors that it answers on" in result.text
    assert [path.read_bytes() for path in box.path.glob("mine*.txt")] == [b""] * 8
    assert box.stored("bad") == AFTER


def test_reports_before_a_crash_count(box: Box) -> None:
    """A reported status stays, and log lines are shown; resources without one are read and tried once more."""
    result = apply(box, "statuses")
    assert {ref: step["status"] for ref, step in result.steps.items() if ref.startswith("Bad")} == {
        "Bad[a]": "failed",
        "Bad[b]": "success",
        "Bad[c]": "success",
    }
    assert result.steps["Bad[a]"]["error"] == "a is glued to the wall (site.json:1)"
    assert "Warning: bad: leaving" in result.text
    assert box.calls("bad", "set") == [["a", "b", "c"], ["c"]]


def test_a_worker_that_ends_between_calls_is_replaced(box: Box) -> None:
    """No call was running, so nothing is lost."""
    slow = "from json_store import JsonStore\nfrom time import sleep\n\nclass Provider(JsonStore):\n"
    slow += '    kind = "good"\n    def set(self, context, changes):\n        sleep(1)\n'
    box.provider("good", f"{slow}        super().set(context, changes)\n")
    result = apply(box, "dies_between_calls")
    assert (result.code, box.stored("bad"), box.stored("good")) == (0, AFTER, GOOD)
    messages = "Warning: bad: its worker ended with exit code 9 while it was idle; another is started"
    assert messages in result.text


def test_processes_of_a_crashed_worker_end_with_it(box: Box) -> None:
    """Programs that it ran, and children in its session."""
    apply(box, "leaves_a_program")
    assert sleeping(box, "3601", "3602") == []


@pytest.mark.parametrize("crash", ["SIGSEGV", "SIGKILL", "SIGABRT"])
def test_daemons_of_a_crashed_worker_end_with_it(box: Box, crash: str) -> None:
    """In sessions of their own, without a parent and with another environment: nothing that it has started goes on."""
    box.env["CRASH"] = crash
    result = apply(box, "leaves_daemons")
    assert f"the worker of 'bad' was killed by {crash} while in set" in result.steps["Bad[b]"]["error"]
    assert sleeping(box, "3603", "3604", "3605") == []


def test_a_daemon_that_a_provider_has_started_keeps_running(box: Box) -> None:
    """As it would without a worker."""
    assert apply(box, "leaves_children").code == 0
    remaining = sleeping(box, "3.61", "3.62")
    assert len(remaining) == 2
    psutil.wait_procs(remaining, timeout=10)


def sleeping(_box: Box, *seconds: str) -> list[psutil.Process]:
    """Return the processes that sleep for a given time."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [])[1:] in [[s] for s in seconds]
    ]


@pytest.mark.parametrize("signals", [1, 2])
def test_the_first_interrupt_lets_the_call_end_and_the_second_ends_the_worker(box: Box, signals: int) -> None:
    """State and summary are written, the rest is skipped."""
    put(box, "waits_for_cancel" if signals == 1 else "spins_from_the_start")
    process = box.start("apply", "site.json", "--json", "--isolate")
    wait_until((box.path / "begun").exists)
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    out, _err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b'"summary"' in out
    assert box.stored("good") == {"before": GOOD["before"]}
    assert box.stored("bad")["b"] == ({"size": 2} if signals == 1 else {"size": 1})


def test_a_worker_ends_with_its_run(box: Box) -> None:
    """Even one that sleeps in C; ``nothing_left`` checks it."""
    put(box, "hangs_in_c")
    timed(box, 60)
    process = box.start("apply", "site.json", "--isolate")
    until = time.monotonic() + 20
    while box.calls("bad", "set")[1:] != [["b"]] and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=10)


def test_all_output_of_a_worker_is_masked(box: Box) -> None:
    """Log lines, output of descriptors and children, and exceptions: no byte of the secret is shown."""
    secret = "xyzzy-plugh-3917"
    put(box, "spills_secrets")
    box.manifest({"Bad[b]": {"token": secret}})
    result = box.run("apply", "site.json", "--json", "-d", "--isolate")
    assert result.code == 1
    for line in ("printed", "written", "echoed"):
        assert f"Notice: bad: {line} <sensitive>" in result.text
    assert "Warning: bad: complained <sensitive>" in result.text
    assert "Error: Bad[b]: bad token <sensitive>" in result.text
    assert secret.encode() not in result.out + result.err


def test_a_crash_loses_only_one_of_several_parallel_calls(box: Box) -> None:
    """Each call has a worker of its own; cached values of one are dropped when another has changed something."""
    put(box, "sleeps_side_by_side")
    box.type("bad", "parallel")
    result = apply_only(box, "--parallel", "3")
    assert {name for name, step in result.steps.items() if step["status"] == "failed"} == {"Bad[b]"}
    assert "the worker of 'bad' ended with exit code 3 while in set" in result.steps["Bad[b]"]["error"]
    assert box.stored("bad") == {**AFTER, "b": {"size": 1}}
    assert sorted(box.calls("bad", "set")) == [["a"], ["c"]]


def apply_only(box: Box, *arguments: str) -> Done:
    """Apply the manifest in workers."""
    return box.run("apply", "site.json", "--json", "--isolate", *arguments)


def test_a_type_can_require_a_worker(box: Box) -> None:
    """Without the option, and only for itself."""
    put(box, "segfaults")
    file = box.path / "types" / "bad.py"
    file.write_text(file.read_text(encoding="utf-8").replace("features=", 'isolation="process", features='), "utf-8")
    asks = "import os\nfrom json_store import JsonStore\n\nclass Provider(JsonStore):\n    kind = 'good'\n"
    asks += "    def set(self, context, changes):\n        context.notice(f'in {os.getpid()}')\n"
    box.provider("good", f"{asks}        super().set(context, changes)\n")
    process = box.start("apply", "site.json", "--json")
    out, err = process.communicate(timeout=30)
    assert LOST["segfaults"].encode() in out
    assert f"Notice: good: in {process.pid}\n".encode() in err


def test_a_registered_type_cannot_run_in_a_worker() -> None:
    """There is no file that another process could load."""
    mine = TypeDefinition(name="mine", attributes={"name": Attribute("String", "n", kind="namevar")})
    registry = registry_of((mine, type("Mine", (SimpleProvider,), {"get": lambda *_: []})))
    with pytest.raises(ManifestError, match="type 'mine' was registered by a program; only one that is in files"):
        Runtime(registry, isolate=True).plan({"resources": {"Mine[a]": {}}})
    with pytest.raises(DefinitionError, match="isolation must be 'process' or None, not 'thread'"):
        TypeDefinition(name="mine", attributes={}, isolation="thread")  # type: ignore[arg-type]


@pytest.mark.parametrize("side", ["runtime", "worker"])
def test_a_worker_of_another_version_is_refused(box: Box, side: str) -> None:
    """A worker is started late in its run; the package may have been replaced in between."""
    worker = "'-c' in sys.orig_argv"
    box.write(
        "lib/sitecustomize.py",
        f"import sys\nif {worker if side == 'worker' else f'not ({worker})'}:\n"
        "    import resource_api.plugins.worker.protocol\n    resource_api.plugins.worker.protocol.VERSION = 7\n",
    )
    box.env["PYTHONPATH"] = f"{box.path / 'lib'}{os.pathsep}{box.env['PYTHONPATH']}"
    box.manifest({"Good[a]": {}})
    result = apply_only(box)
    ours, theirs = (VERSION, 7) if side == "worker" else (7, VERSION)
    assert f"the worker of 'good' uses protocol {theirs} and this run {ours}: resource-api or the" in result.text
    assert result.code != 0
    assert box.stored("good") == {}


def test_every_command_that_calls_providers_can_isolate_them(box: Box) -> None:
    """With the same result as without workers."""
    box.manifest({"Good[a]": {"size": 1}})
    assert box.run("plan", "site.json", "--isolate", "--detailed-exitcodes").code == 2
    assert box.run("apply", "site.json", "--isolate", "--noop").code == 0
    assert box.run("apply", "site.json", "--isolate").code == 0
    assert b"size: 1" in box.run("resource", "good", "a", "--isolate", "--module-path", ".").out
    assert box.run("resource", "good", "a", "size=2", "--isolate", "--module-path", ".").code == 0
    assert b"<= Good[a]" in box.run("refresh", "site.json", "--isolate").out
    assert box.run("state", "rm", "Good[a]").code == 0
    assert b"Good[a]: imported." in box.run("import", "site.json", "Good[a]", "--isolate").out
    assert box.run("destroy", "site.json", "--yes", "--isolate").code == 0
    assert box.stored("good") == {}


def test_contents_are_read_by_the_run(box: Box) -> None:
    """A worker receives the digests of assets, and requests their bytes in parts."""
    raw = os.urandom(700_000)
    (box.path / "raw.bin").write_bytes(raw)
    target = box.path / "copy.bin"
    box.manifest({f"File[{target}]": {"content": {"asset": {"file": "raw.bin"}}}})
    assert apply_only(box).code == 0
    assert target.read_bytes() == raw
    assert apply_only(box).steps == {}


def test_a_report_after_its_call_is_ignored(box: Box) -> None:
    """A thread that has kept a context neither takes messages of the next call nor disturbs it."""
    put(box, "speaks_later")
    result = apply_only(box)
    assert (result.code, box.stored("bad"), box.stored("good")) == (0, AFTER, GOOD)


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
def test_a_method_without_its_feature_is_never_called(box: Box, isolate: str) -> None:
    """Also if its name is that of a message of the protocol."""
    box.type("bad")
    body = "from json_store import JsonStore\n\nclass Provider(JsonStore):\n"
    for word in ("leave", "end", "kill", "lend", "terms", "verdicts", "compared"):
        body += f"    def {word}(self):\n        self._called('{word}', [])\n"
    box.provider("bad", body)
    box.env["RESOURCE_API_ISOLATE"] = isolate
    assert box.run("apply", "site.json").code == 0
    lines = (box.path / "bad.calls").read_text(encoding="utf-8").splitlines()
    assert {line.split('"')[1] for line in lines} == {"get", "set"}


@pytest.mark.parametrize("isolate", ["", "1"], ids=["here", "in_a_worker"])
@pytest.mark.parametrize("failure", ["raise OSError('it is gone already')", "raise SystemExit('it is gone already')"])
def test_a_close_that_raises_is_a_warning(box: Box, isolate: str, failure: str) -> None:
    """In a worker too, with the line that raised, and for an exit; it changes no outcome."""
    box.type("bad")
    raising = f"    def close(self):\n        {failure}\n"
    box.provider("bad", "from json_store import JsonStore\n\nclass Provider(JsonStore):\n" + raising)
    box.env["RESOURCE_API_ISOLATE"] = isolate
    result = box.run("apply", "site.json")
    assert result.code == 0
    assert "Warning: bad: close of its provider failed: it is gone already (providers/bad.py:5 in close)" in result.text
