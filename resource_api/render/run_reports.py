"""Render a finished run or a plan as JUnit XML, for continuous integration.

Each step is a test case: a failed step is a failure, a skipped one is skipped; an error that ended the whole command is
an error. Resources in sync are no test cases: only their number is recorded.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from resource_api.model.values.text import escape_lines
from resource_api.render.run_document import located

if TYPE_CHECKING:
    from collections.abc import Mapping


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
