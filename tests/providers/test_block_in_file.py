"""Blocks of real files, between marker lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ManifestError
from resource_api.files import Lines
from resource_api.testing import ProviderCompliance
from tests import bundled
from tests.providers.applied import converge, run
from tests.providers.parts_of_files import PartOfFile

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api import Resource

blocks = bundled.execute("providers", "block_in_file")
CONTENT = b"# caf\xe9\r\n# BEGIN a \r\none\r\n\r\n# END a\r\n<body>\r\nlast"
MARKER = {"marker": "<!-- {mark} {name} -->"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with a block, carriage returns, and no newline at its end."""
    path = tmp_path / "config"
    path.write_bytes(CONTENT)
    return path


@pytest.mark.parametrize(
    ("name", "attributes", "old", "new"),
    [
        ("a", {"block": "two\n\nthree\n"}, b"one\r\n\r\n", b"two\r\n\r\nthree\r\n"),
        ("a", {"block": ""}, b"one\r\n\r\n", b""),
        ("a", {"ensure": "absent"}, b"# BEGIN a \r\none\r\n\r\n# END a\r\n", b""),
        ("b", {"block": "x"}, b"last", b"last\r\n# BEGIN b\r\nx\r\n# END b"),
        (
            "b",
            {"block": "x", "after": "^<body", **MARKER},
            b"<body>\r\n",
            b"<body>\r\n<!-- BEGIN b -->\r\nx\r\n<!-- END b -->\r\n",
        ),
        ("b", {"block": "x", "insertbefore": "BOF"}, b"# caf\xe9", b"# BEGIN b\r\nx\r\n# END b\r\n# caf\xe9"),
        ("b", {"block": "x", "insertbefore": "^<body"}, b"<body>", b"# BEGIN b\r\nx\r\n# END b\r\n<body>"),
    ],
)
def test_only_the_block_changes(file: Path, name: str, attributes: dict[str, Any], old: bytes, new: bytes) -> None:
    """Every other byte stays, and a second run changes nothing."""
    converge({f"Block_in_file[{name}]": {"path": str(file), **attributes}})
    assert file.read_bytes() == CONTENT.replace(old, new)


@pytest.mark.parametrize("content", [b"# BEGIN a\nx\n", b"# END a\n# BEGIN a\n", CONTENT + b"\r\n# BEGIN a\n# END a\n"])
def test_a_block_whose_end_is_not_certain_is_not_changed(file: Path, content: bytes) -> None:
    """The lines up to another end might be somebody else's; other blocks of the file are changed."""
    file.write_bytes(content)
    names = {
        "Block_in_file[a]": {"path": str(file), "block": "y"},
        "Block_in_file[b]": {"path": str(file), "block": "z"},
    }
    report, _ = run(names)
    assert [(step.reference, "has not one" in step.error) for step in report.steps] == [
        ("Block_in_file[a]", True),
        ("Block_in_file[b]", False),
    ]
    end = b"" if content.endswith(b"\n") else b"\n"
    assert file.read_bytes().replace(b"\r\n", b"\n").startswith(content.replace(b"\r\n", b"\n") + end)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"block": "x\n# END a\ny"}, "a line of its own marker"),
        ({"block": "x", "marker": "# a"}, "with {mark}"),
        ({"block": "x", "after": "["}, "after is no regular expression"),
    ],
)
def test_what_could_not_be_found_again_is_refused(file: Path, attributes: dict[str, Any], message: str) -> None:
    """Nothing is read or written then."""
    with pytest.raises(ManifestError, match=message):
        run({"Block_in_file[a]": {"path": str(file), **attributes}})


@given(st.lists(st.sampled_from([*CONTENT.split(b"\n"), b"", b"\r"])).map(b"\n".join), st.text("ab #\n"))
def test_an_added_block_is_found_and_removed_without_a_trace(content: bytes, block: str) -> None:
    """It holds for any file, and a second edit changes nothing."""
    lines, key = Lines(content), ("ra-test", "# {mark} {name}")
    blocks.edit(lines, {key: {"block": block}})
    added = lines.content
    blocks.edit(lines, {key: {"block": block}})
    assert lines.content == added
    blocks.edit(lines, {key: None})
    assert lines.content == content


class TestBlockInFile(PartOfFile, ProviderCompliance):
    """A block of a file with another block."""

    type_name = "block_in_file"
    records = b"# BEGIN ra-test-a\n\xff evil\n# END ra-test-a\n"
    update: ClassVar[Resource] = {"block": "caf\u00e9\n\nthree"}

    @pytest.fixture
    def present(self, file: Path) -> Resource:
        return {"path": f"{file.parent}/./{file.name}", "name": "ra-test-a", "block": "one\r\n  two\n"}

    @pytest.fixture
    def others(self, present: Resource, tmp_path: Path) -> list[Resource]:
        return [{**present, "name": "a b"}, {**present, **MARKER}, {**present, "path": str(tmp_path / "new")}]
