"""Render a finished run or a plan as JUnit XML, and as metrics in Prometheus' text format.

In JUnit XML, as continuous integration shows it, each step is a test case: a failed step is a failure, a skipped one is
skipped; an error that ended the whole command is an error. Resources in sync are no test cases: only their number is
recorded. Metrics are for the textfile collector of the node exporter.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from resource_api.model.values.text import escape_lines
from resource_api.render.run_document import located

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


#: Characters that XML 1.0 cannot contain in any form and that ``escape_lines`` leaves.
_NO_XML: Final = re.compile("[\ufffe\uffff]")


def junit(document: Mapping[str, Any]) -> str:
    """Return the document of a run or a plan as JUnit XML."""
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
        suite.set(count, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("tests", str(len(cases)))
    suite.set("time", f"{document.get('seconds') or 0:.3f}")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _properties(document: Mapping[str, Any]) -> dict[str, Any]:
    properties = {name: document.get(name) for name in ("command", "run", "tool_version") if document.get(name)}
    return {**properties, **{name: count for name, count in document["summary"].items() if name != "noop"}}


def _result(step: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the element and the text of an unsuccessful step, or None."""
    if step.get("status") == "skipped":
        return "skipped", step["error"] or ""
    if step.get("status", "failed") == "failed" and step.get("error"):
        return "failure", located(step, step["error"])
    return None


def _case(suite: ET.Element, name: str, kind: str, seconds: float, result: tuple[str, str] | None) -> None:
    case = ET.SubElement(suite, "testcase", name=_safe(name), classname=_safe(kind), time=f"{seconds:.3f}")
    if result is not None:
        tag, message = result
        element = ET.SubElement(case, tag, message=_safe(message.partition("\n")[0]))
        if tag != "skipped":
            element.set("type", tag)
            element.text = _safe(message)


def _safe(value: object) -> str:
    return _NO_XML.sub("\ufffd", escape_lines(str(value)))


_PREFIX: Final = "resource_api"
#: Counts of a summary that are no changes.
_UNCHANGED: Final = frozenset(("unchanged", "failed", "skipped"))


def metrics(document: Mapping[str, object]) -> str:
    """Return the document of a run or a plan as gauges, labelled with project, stack and command."""
    return "".join(f"{line}\n" for line in _metric_lines(document))


def _metric_lines(document: Mapping[str, Any]) -> Iterator[str]:
    labels = {name: str(document.get(name) or "") for name in ("project", "stack", "command")}
    counts = dict(document["summary"])
    noop, code = counts.pop("noop", False), counts.pop("exit_code", None)
    outputs = counts.pop("outputs_changed", 0)
    failed = counts["failed"] or len(document.get("problems") or ())
    corrective = sum(bool(step.get("corrective")) for step in document.get("steps") or ())
    seconds, ended = document.get("seconds") or 0, document.get("ended") or 0
    yield from _metric_head("run_resources", "Resources by outcome; under noop and in a plan, what would be.")
    for outcome, count in counts.items():
        yield _sample("run_resources", {**labels, "outcome": outcome}, count)
    if "hosts" in document:
        yield from _metric_head("run_hosts", "Hosts by what has become of them.")
        for status, count in document["counts"].items():
            yield _sample("run_hosts", {**labels, "status": status}, count)
    values = {
        "run_exit_code": (code if code is not None else int(bool(failed)), "0: all resources are as declared."),
        "run_noop": (int(bool(noop)), "1: nothing was to be changed."),
        "run_changes": (sum(count for name, count in counts.items() if name not in _UNCHANGED), "Resources changed."),
        "run_outputs_changed": (outputs, "Outputs that differ from those that were recorded."),
        "run_failures": (failed, "Resources that failed, or problems that ended the command before there was one."),
        "run_corrective": (corrective, "Resources whose change corrected drift."),
        "run_drifted_resources": (len(document["drift"]), "Resources that differed from what was recorded."),
        "run_duration_seconds": (seconds, "Seconds of the run, without planning."),
        "run_seconds": (seconds, "The same under a shorter name."),
        "run_timestamp_seconds": (ended, "When it ended, in seconds since 1970."),
        "run_timestamp": (ended, "The same under a shorter name."),
        "generation": (document.get("generation") or 0, "Generation of the signed source; 0 without one."),
    }
    for name, (value, purpose) in values.items():
        yield from _metric_head(name, purpose)
        yield _sample(name, labels, value)


def _metric_head(name: str, purpose: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}_{name} {purpose}"
    yield f"# TYPE {_PREFIX}_{name} gauge"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{_PREFIX}_{name}{{{written}}} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
