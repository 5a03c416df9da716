"""Render a finished run or a plan for other programs: as JUnit XML, and as gauges in Prometheus' text format.

In JUnit each step is a test case, except for resources in sync; an error that ended the command is an error. The labels
of gauges are equal in each run of the same command, so that a series continues from run to run.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import escape_lines
from resource_api.render.run_document import located

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Characters that XML 1.0 cannot contain in any form and that ``escape_lines`` leaves.
_NO_XML: Final = re.compile("[\ufffe\uffff]")
#: Counts of a summary that are no changes.
_UNCHANGED: Final = frozenset(("unchanged", "failed", "skipped"))
#: The results of looking for the newest version of an agent's source.
_TRUST: Final = ("verified", "directory", "untrusted", "unreachable")


def junit(document: Mapping[str, Any]) -> str:
    """Return the document of a run or a plan as JUnit XML, for continuous integration.

    Resources in sync are no test cases: there may be thousands. A problem that ended the whole command is one, of the
    class ``resource-api``.
    """
    name = f"{document.get('project') or 'unknown'}/{document.get('stack') or 'default'}"
    suite = ET.Element("testsuite", name=name)
    if isinstance(document.get("started"), (int, float)):
        suite.set("timestamp", datetime.fromtimestamp(document["started"], UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(document).items():
        ET.SubElement(properties, "property", name=key, value=_safe(value))
    for problem in document.get("problems") or ():
        result = "error", located(problem, problem["message"])
        _case(suite, str(document.get("command") or "plan"), "resource-api", 0.0, result)
    for step in document["steps"]:
        if step["action"] != "same" or step.get("error"):
            kind = step["reference"].partition("[")[0].lower()
            _case(suite, step["reference"], kind, step.get("seconds") or 0.0, _result(step))
    cases = suite.findall("testcase")
    for count, tag in (("errors", "error"), ("failures", "failure"), ("skipped", "skipped")):
        # Counted at the end, from the elements that were made.
        suite.set(count, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("tests", str(len(cases)))
    suite.set("time", f"{document.get('seconds') or 0:.3f}")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _properties(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of the JUnit suite: command, run, version and counts."""
    properties = {name: document.get(name) for name in ("command", "run", "tool_version") if document.get(name)}
    return {**properties, **{name: count for name, count in document["summary"].items() if name != "noop"}}


def _result(step: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the JUnit element for the result of a step, ``skipped`` or ``failure``, and its text; None for a success.

    The step of a plan has no status, which is why ``failed`` is the default here: it has failed if it has an error.
    """
    if step.get("status") == "skipped":
        return "skipped", step["error"] or ""
    if step.get("status", "failed") == "failed" and step.get("error"):
        return "failure", located(step, step["error"])
    return None


def _case(suite: ET.Element, name: str, kind: str, seconds: float, result: tuple[str, str] | None) -> None:
    """Add a test case to a JUnit suite; ``kind``: the class under which CI systems list it, such as ``file``.

    ``result``: tag and message, or None for a success. Only a failure or an error has a type and a longer text.
    """
    case = ET.SubElement(suite, "testcase", name=_safe(name), classname=_safe(kind), time=f"{seconds:.3f}")
    if result is not None:
        tag, message = result
        element = ET.SubElement(case, tag, message=_safe(message.partition("\n")[0]))
        if tag != "skipped":
            element.set("type", tag)
            element.text = _safe(message)


def _safe(value: object) -> str:
    """Return a text in which the characters that XML 1.0 cannot contain are replaced."""
    return _NO_XML.sub("\ufffd", escape_lines(str(value)))


class _Gauge(NamedTuple):
    """A gauge: its name without the prefix, its description, and its value, or its values by an additional label."""

    name: str
    description: str
    value: float | dict[str, float]
    #: The name of the additional label, or "".
    label: str = ""


def metrics(document: Mapping[str, object]) -> str:
    """Return the document of a run, a plan or a paused agent as gauges with the labels project, stack and command."""
    labels = {name: str(document.get(name) or "") for name in ("project", "stack", "command")}
    return "".join(f"{line}\n" for gauge in _gauges(document) for line in _lines(gauge, labels))


def _gauges(document: Mapping[str, Any]) -> Iterator[_Gauge]:
    """Yield the gauges of a document, each as far as it has the fields: of its run or plan, source and agent.

    A paused agent has no run, so that its document has no ``summary``.
    """
    if "summary" in document:
        yield from _run_gauges(document)
    if document.get("ended"):
        yield _Gauge("run_timestamp", "When the last run ended, in seconds since 1970.", document["ended"])
    yield _Gauge("generation", "Generation of the signed source; 0 without one.", document.get("generation") or 0)
    if (agent := document.get("agent")) is not None:
        yield from _agent_gauges(agent)


def _run_gauges(document: Mapping[str, Any]) -> Iterator[_Gauge]:
    """Yield the gauges of a run or a plan, by which monitoring sees failures, changes and drift.

    A run over many hosts has the number of hosts by status instead of drift, which is reported by each host.
    """
    counts = dict(document["summary"])
    noop, code = counts.pop("noop", False), counts.pop("exit_code", None)
    outputs = counts.pop("outputs_changed", 0)
    failed = counts["failed"] or len(document.get("problems") or ())
    changed = sum(count for name, count in counts.items() if name not in _UNCHANGED)
    code = int(bool(failed)) if code is None else code
    yield _Gauge("run_resources", "Resources by outcome; under noop and in a plan, of a run now.", counts, "outcome")
    yield _Gauge("run_exit_code", "Exit code of the run.", code)
    yield _Gauge("run_noop", "1 if nothing was to be changed, otherwise 0.", int(bool(noop)))
    yield _Gauge("run_changes", "Changed resources; under noop and in a plan, those of a run now.", changed)
    yield _Gauge("run_outputs_changed", "Outputs that differ from the recorded ones.", outputs)
    yield _Gauge("run_failures", "Failed resources, or problems that ended the command before the run.", failed)
    if document.get("seconds") is not None:
        yield _Gauge("run_seconds", "Duration of the run in seconds, without planning.", document["seconds"])
    if document.get("kind") == "fleet":  # each host has the drift of its run
        yield _Gauge("run_hosts", "Hosts by status.", document["counts"], "status")
        return
    corrective = sum(bool(step.get("corrective")) for step in document.get("steps") or ())
    yield _Gauge("run_corrective", "Resources whose change corrects drift.", corrective)
    yield _Gauge("run_drifted_resources", "Resources that differed from the recorded ones.", len(document["drift"]))


def _agent_gauges(agent: Mapping[str, Any]) -> Iterator[_Gauge]:
    """Yield the gauges of an agent, by which monitoring sees that it is late, paused or without a verified source.

    The state of the source is present only after a run.
    """
    yield _Gauge("agent_period_seconds", "Seconds from one run of the agent to the next.", agent["period"])
    yield _Gauge("agent_paused", "1 while the agent is paused, otherwise 0.", int(agent["paused"]))
    if "trust" in agent:
        sources: dict[str, float] = {trust: int(trust == agent["trust"]) for trust in _TRUST}
        yield _Gauge("agent_source", "1 for the state of the agent's source, 0 for the others.", sources, "trust")


def _lines(gauge: _Gauge, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a gauge in Prometheus' text format: ``resource_api_run_noop{project="web"} 0``.

    ``labels``: those that every gauge has, name → text, such as the project, by which queries select runs.
    """
    name = f"resource_api_{gauge.name}"
    yield f"# HELP {name} {gauge.description}"
    yield f"# TYPE {name} gauge"
    for text, value in (gauge.value if isinstance(gauge.value, dict) else {"": gauge.value}).items():
        own_labels = {**labels, gauge.label: text} if gauge.label else labels
        pairs = ",".join(f'{label}="{_escaped(content)}"' for label, content in own_labels.items())
        yield f"{name}{{{pairs}}} {value}"


def _escaped(text: str) -> str:
    """Return the value of a label as in Prometheus' text format between quotes."""
    # A byte that is no UTF-8 is written as its escape: one invalid label makes the whole file unreadable.
    printable = text.encode("utf-8", "backslashreplace").decode()
    return printable.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
