"""State files of Terraform, and the manifest that gets declarations for their resources."""

from __future__ import annotations

import pytest

from resource_api.manifest import yaml_reader
from resource_api.terraform import state_file


@pytest.mark.parametrize(
    "raw",
    [
        'resources:\r\n  File[/a]: {content: "a\u2028b\u2029c"}\r\n',
        'values: {v: "a\u2028b"}\nresources:\n  File[/a]: {}',
        "project: a",
    ],
)
def test_the_rest_of_a_manifest_stays_as_it_is(raw: str) -> None:
    """Line ends of Windows, a missing last one, and characters that other rules take for line ends."""
    written = state_file.with_resources(yaml_reader.read(raw.encode(), "x.yaml"), [["X[y]:", "  a: 1"]]).decode()
    before, after = (yaml_reader.read(text.encode(), "x.yaml").data for text in (raw, written))
    assert after == {**before, "resources": {"X[y]": {"a": 1}, **before.get("resources", {})}}
    assert set(raw.splitlines(keepends=True)[:-1]) <= set(written.splitlines(keepends=True))


@pytest.mark.parametrize("text", ["", "[]", "5", "null", "[" * 100_000, "{}"])
def test_another_file_is_no_state(text: str) -> None:
    """Whatever is in it."""
    with pytest.raises(ValueError, match=r"^it is no state file of Terraform"):
        state_file.parse(text)
