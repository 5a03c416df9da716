"""Gauges: whatever a label holds, Prometheus reads the file."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from resource_api.render.junit_and_metrics import metrics
from tests.prometheus import promtool


@pytest.mark.parametrize("project", ['a"b', "a\\b", "a\nb", 'a"} 1\nother 2', "\u00e4\u2028\U0001f600", ""])
def test_a_label_is_text(project: str) -> None:
    """It has the value of the document, and ends no line."""
    text = metrics({"kind": "agent", "project": project, "stack": "x", "command": "apply", "ended": 1.5})
    promtool("check", "metrics", text=text)
    samples = {sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples}
    assert samples["resource_api_run_timestamp"].labels["project"] == project
    assert samples.keys() == {"resource_api_run_timestamp", "resource_api_generation"}


def test_a_byte_that_is_no_utf_8_does_not_make_the_file_unreadable() -> None:
    """It is written as its escape."""
    text = metrics({"kind": "agent", "project": "a\udcff", "stack": "x", "command": "apply"})
    promtool("check", "metrics", text=text)
    assert 'project="a\\\\udcff"' in text
