"""What the laws need to be tested with types of files, or of parts of text files: examples, a hostile neighbour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from resource_api.testing import Neighbour
from tests.bundled import directory_of_nobody
from tests.providers.applied import converge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from resource_api import Resource


class WholeFiles:
    """Whatever is in the test's directory."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> Callable[[], Any]:
        # The times of reading, such as field 7, may change.
        return lambda: [(path, path.lstat()[:7], path.lstat().st_mtime_ns) for path in sorted(tmp_path.rglob("*"))]


class PartOfFile:
    """A part of the file of the fixture ``file``."""

    #: What a neighbour writes to a file of their own.
    records: ClassVar[bytes]
    #: The attributes that an update changes.
    update: ClassVar[Resource]

    @pytest.fixture
    def world(self, file: Path) -> Callable[[], Any]:
        return file.read_bytes

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, **self.update}

    @pytest.fixture
    def neighbours(self, present: Resource, tmp_path: Path) -> list[Neighbour]:
        """Return a file in a directory of another user."""
        mine = {**present, "path": str(directory_of_nobody(tmp_path) / "config")}
        return [Neighbour(mine["path"], self.records, "nobody", [mine, {**mine, "ensure": "absent"}])]


class Setting(PartOfFile):
    """A value of any kind beneath a key with a special character."""

    update: ClassVar[Resource] = {"value": 2.5}
    type_name: ClassVar[str]

    @pytest.fixture
    def present(self, file: Path) -> Resource:
        value = {"x": [1, True], "y": "caf\u00e9"}
        return {"path": f"{file.parent}/./{file.name}", "key": "['ra-test'].a", "value": value}

    def test_a_byte_order_mark_stays(self, file: Path, present: Resource) -> None:
        """It belongs to the file, which an editor of Windows has written."""
        before = file.read_bytes()
        reference = f"{self.type_name.capitalize()}[a]"
        converge({reference: present})
        after = file.read_bytes()
        file.write_bytes(b"\xef\xbb\xbf" + before)
        converge({reference: present})
        assert file.read_bytes() == b"\xef\xbb\xbf" + after

    @pytest.fixture
    def others(self, present: Resource, tmp_path: Path) -> list[Resource]:
        return [{**present, "key": "ra-test.b['c.d']"}, {**present, "path": str(tmp_path / "new")}]
