"""Files that were written on an overlay are unpacked into its directory and nowhere else, whatever it says."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from resource_api.model.values.errors import ResourceAPIError
from resource_api.system.overlay import overlay

if TYPE_CHECKING:
    from pathlib import Path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    """Return one member of an archive."""
    tar_info = tarfile.TarInfo(name)
    tar_info.type, tar_info.linkname, tar_info.size = kind, target, 4 if kind == tarfile.REGTYPE else 0
    return tar_info


def keep(data: bytes, directory: Path) -> None:
    """Unpack an archive."""
    with overlay.stored(str(directory)) as file:
        assert file is not None
        os.write(file, data)


@pytest.mark.parametrize(
    "members",
    [
        [member("../outside")],
        [member("a", tarfile.SYMTYPE, ".."), member("a/outside")],
        [member("a", tarfile.LNKTYPE, "{outside}")],
        [member("a", tarfile.CHRTYPE)],
        [member("a", tarfile.SYMTYPE, "{outside}"), member("a")],
    ],
)
def test_nothing_is_written_elsewhere(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    """Paths that lead out, links to follow and devices are refused."""
    outside = tmp_path / "outside"
    outside.write_text("kept")
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for item in members:
            item.linkname = item.linkname.replace("{outside}", str(outside))
            archive.addfile(item, io.BytesIO(b"gone") if item.isreg() else None)
    with pytest.raises(ResourceAPIError):
        keep(raw.getvalue(), tmp_path / "kept")
    assert outside.read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "outside"]


def test_what_is_no_archive_is_an_error(tmp_path: Path) -> None:
    """Something inside may write anything into the file."""
    with pytest.raises(ResourceAPIError):
        keep(b"no archive" * 1000, tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []
