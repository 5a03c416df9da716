"""Traces of runs, received by OTLP over HTTP: one trace a run, no secret, and no receiver can change a run."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.otlp_receiver import garbage, receiving, redirecting, refusing, silent, trickling

if TYPE_CHECKING:
    from tests.scenarios.conftest import Bench, Outcome

SITE: Final = "project: web\nresources:\n  Widget[a]: {size: 1}\n  Widget[b]: {size: 1}\n  Probe[bad]: {size: 1}\n"
GOOD: Final = "project: web\nresources: {'Widget[a]': {size: 1}}\n"
PARENT: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def command(bench: Bench, name: str, manifest: str, *options: str, **environment: str) -> Outcome:
    """Give a command with a manifest."""
    bench.write("site.yaml", manifest)
    return bench.run(name, "site.yaml", *options, **environment)


@pytest.fixture
def traced(bench: Bench) -> Bench:
    """Return the bench with a state, and a type that fails."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state/state.db"
    bench.probe("def set(self, context, changes): raise ResourceError('too large')")
    return bench


def test_a_run_is_one_trace(traced: Bench) -> None:
    """The command, its planning, each call of a provider, and each resource; failures have their reasons."""
    with receiving() as receiver:
        assert command(traced, "apply", SITE, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url).code == 1
    assert len({span.trace for span in receiver.spans}) == 1
    assert len({span.id for span in receiver.spans}) == len(receiver.spans)
    (root,) = (span for span in receiver.spans if not span.parent)
    assert (root.name, root.error) == ("resource-api apply", "Probe[bad]: too large")
    names = ("project", "stack", "command", "exit_code", "changes", "failures", "unchanged", "corrective", "noop")
    assert {name: root.attributes[f"resource_api.{name}"] for name in names} == {
        "project": "web", "stack": "default", "command": "apply", "exit_code": 1, "changes": 2, "failures": 1,
        "unchanged": 0, "corrective": 0, "noop": False,
    }  # fmt: skip
    planning, *calls = receiver.below(root)
    assert (planning.name, [call.name for call in calls]) == ("plan", ["set widget", "set probe"])
    assert root.started <= planning.started <= planning.ended <= calls[0].started <= calls[0].ended <= root.ended
    (first, second), (failed,) = receiver.below(calls[0]), receiver.below(calls[1])
    assert (first.name, second.attributes["resource_api.reference"]) == ("create Widget", "Widget[b]")
    assert (failed.error, failed.attributes["resource_api.status"]) == ("too large", "failed")
    assert receiver.resource["service.name"] == "resource-api"
    assert receiver.resource["host.name"]


def test_the_trace_of_ci_is_continued(traced: Bench) -> None:
    """The run is a child of the span that TRACEPARENT names; an invalid one begins a trace."""
    with receiving() as receiver:
        traced.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.url
        assert command(traced, "apply", GOOD, TRACEPARENT=PARENT).code == 0
        (root,) = receiver.named("resource-api apply")
        assert f"00-{root.trace}-{root.parent}-01" == PARENT
        for invalid in (
            "x",
            "00-" + "0" * 32 + "-b7ad6b7169203331-01",
            PARENT.upper(),
            PARENT + "-x",
            "ff" + PARENT[2:],
        ):
            assert command(traced, "plan", GOOD, TRACEPARENT=invalid).code == 0
        others = receiver.named("resource-api plan")
        assert [span.parent for span in others] == [""] * 5
        count = len(receiver.spans)
        assert command(traced, "plan", GOOD, TRACEPARENT=PARENT[:-1] + "0").code == 0
        assert len(receiver.spans) == count  # that trace is not sampled


def test_every_command_of_a_run_is_traced_and_none_that_reads(traced: Bench) -> None:
    """Plans, noop, refresh, destroy, an agent, and what ended before its run; each once."""
    traced.write("site/site.yaml", GOOD)
    with receiving() as receiver:
        traced.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.url
        traced.environment["RESOURCE_API_AGENT"] = f"{traced.home}/agent"
        command(traced, "apply", "resources: []\n")
        command(traced, "apply", GOOD, "--noop")
        command(traced, "plan", GOOD)
        traced.run("refresh", "site.yaml")
        traced.run("agent", "once", "--from", "site", "site.yaml")
        traced.run("destroy", "site.yaml", "--yes")
        for words in (["history"], ["types"], ["resource", "widget"], ["report"]):
            traced.run(*words)
    roots = [span for span in receiver.spans if not span.parent]
    assert [root.name.partition(" ")[2] for root in roots] == ["apply", "apply", "plan", "refresh", "apply", "destroy"]
    assert [root.attributes["resource_api.exit_code"] for root in roots] == [65, 0, 0, 0, 0, 0]
    assert "must be" in str(roots[0].error)


def test_the_variables_of_opentelemetry_are_honoured(traced: Bench) -> None:
    """Where it goes, its headers, its resource, compression, sampling, and that nothing is sent."""
    with receiving() as receiver:
        more = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{receiver.url}/v1/traces", "OTEL_SERVICE_NAME": "convergence"}
        more |= {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
        more |= {"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test"}
        assert command(traced, "apply", GOOD, **more).err.count("Warning") == 0
        assert receiver.headers[0]["authorization"] == "Bearer x"
        assert receiver.headers[0]["Content-Encoding"] == "gzip"
        assert receiver.resource["service.name"] == "convergence"
        assert receiver.resource["deployment.environment"] == "test"
        count = len(receiver.spans)
        for name, value in (
            ("OTEL_SDK_DISABLED", "true"),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_TRACES_SAMPLER", "always_off"),
        ):
            result = command(traced, "apply", GOOD, **more, **{name: value})
            assert (result.code, result.err) == (0, "")
        assert len(receiver.spans) == count
        result = command(traced, "apply", GOOD, **more, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
        assert (result.code, "the protocol is grpc, and only http/protobuf is supported" in result.err) == (0, True)


def test_no_secret_is_in_a_trace(bench: Bench) -> None:
    """Neither a sensitive input in a title or an error, nor a value of any resource."""
    bench.probe("def set(self, context, changes): raise ResourceError('cannot use correct-horse-7Q')")
    manifest = (
        "project: web\ninputs: {password: {type: 'Sensitive[String]'}}\nresources:\n"
        "  Account[alice]: {password: '${inputs.password}'}\n  'Probe[correct-horse-7Q]': {colour: mauve}\n"
    )
    with receiving() as receiver:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "RESOURCE_API_INPUT_password": "correct-horse-7Q"}
        result = command(bench, "apply", manifest, **environment)
    assert result.code == 1, result.err
    assert receiver.spans
    assert b"correct-horse" not in receiver.raw
    assert b"mauve" not in receiver.raw
    assert "<sensitive>" in str([span.error for span in receiver.spans])


@pytest.mark.parametrize("misbehave", [silent, trickling, garbage, refusing, redirecting], ids=lambda f: f.__name__)
def test_a_receiver_that_misbehaves_changes_nothing(traced: Bench, misbehave: object) -> None:
    """Output and exit code are the same, a warning names the receiver, and the delay has a limit."""
    before = time.monotonic()
    expected = command(traced, "apply", GOOD, "--json")
    seconds = time.monotonic() - before
    with receiving(misbehave) as receiver:  # type: ignore[arg-type] # one of the functions above
        url = receiver.url.replace("//", "//user:correct-horse@")
        before = time.monotonic()
        result = command(traced, "apply", GOOD, "--json", OTEL_EXPORTER_OTLP_ENDPOINT=f"{url}/?token=correct-horse")
        delay = time.monotonic() - before - seconds
    assert result.code == expected.code == 0
    assert [event["type"] for event in result.events()] == ["summary"]
    (line,) = result.err.splitlines()
    assert line.startswith(f"Warning: no trace to {receiver.url}/")
    assert "correct-horse" not in result.err
    assert line.isprintable()
    assert delay < 3 + 2.5


def test_a_receiver_that_is_down_fails_no_plan_and_no_run(traced: Bench) -> None:
    """Nothing listens there, or there is no such host; a failure keeps its exit code."""
    for url in ("http://127.0.0.1:1", "http://no-such-host.invalid:4318", "http://[", "file:///etc/passwd"):
        result = command(traced, "plan", GOOD, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        assert (result.code, result.err.count("Warning: no trace to ")) == (0, 1), result.err
    failed = command(traced, "apply", SITE, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    assert (failed.code, "no trace to http://127.0.0.1:1: Connection refused" in failed.err) == (1, True), failed.err


@pytest.mark.parametrize("variable", ["TRACEPARENT", "OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME"])
def test_nothing_is_imported_unless_a_receiver_is_configured(traced: Bench, variable: str) -> None:
    """Neither the libraries nor the modules of traces."""
    traced.write("site.yaml", GOOD)
    names = "opentelemetry", "requests", "google.protobuf", "resource_api.system.otlp", "resource_api.cli.tracing"
    code = (
        "import sys\nfrom resource_api.cli.main import run\nsys.argv[1:] = ['apply', 'site.yaml']\n"
        "try: run()\nexcept SystemExit: pass\n"
        f"sys.exit(str([name for name in {names!r} if name in sys.modules]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=traced.home,
        env=traced.environment | {variable: PARENT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr.splitlines()[-1] == "[]"


def test_without_the_libraries_a_warning_names_the_extra(traced: Bench) -> None:
    """The run is the same."""
    traced.write("site.yaml", GOOD)
    code = (
        "import sys\nsys.modules['opentelemetry'] = None\nfrom resource_api.cli.main import run\n"
        "sys.argv[1:] = ['apply', 'site.yaml']\nrun()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=traced.home,
        env=traced.environment | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0
    assert "opentelemetry is not installed; install resource-api[otel]" in result.stderr
