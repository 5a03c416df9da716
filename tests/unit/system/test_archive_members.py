"""Reading archives: an honest one is read completely, and a harmful one is refused or bounded."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import subprocess
import sys
import tarfile
import time
import tracemalloc
import zipfile
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ResourceError
from resource_api.model.values.archive_rules import MAX_DEPTH, Limits, Member, checked_members
from resource_api.system.filesystem import archive_members
from resource_api.system.filesystem.permissions import packed_directory_mode, packed_file_mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LIMITS = Limits(1 << 20, 100)
#: name → bytes of a file, None for a directory, text for a link.
TREE: dict[str, Any] = {"a": None, "a/x": b"one\n", "a/b": None, "a/b/y": b"", "l": "a/b"}


def tarred(tree: Mapping[str, Any], form: int = tarfile.PAX_FORMAT, **extra: Any) -> bytes:
    """Return a tree packed as tar does; ``extra`` are fields of every member."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as archive:
        for name, content in tree.items():
            info = tarfile.TarInfo(name)
            info.mode = 0o755 if content is None else 0o644
            info.type = {bytes: tarfile.REGTYPE, str: tarfile.SYMTYPE}.get(type(content), tarfile.DIRTYPE)
            info.size = len(content) if isinstance(content, bytes) else 0
            info.linkname = content if isinstance(content, str) else ""
            for field, value in extra.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return raw.getvalue()


def zipped(tree: Mapping[str, Any]) -> bytes:
    """Return a tree packed as zip does."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in tree.items():
            kind = {bytes: stat.S_IFREG | 0o644, str: stat.S_IFLNK | 0o777}.get(type(content), stat.S_IFDIR | 0o755)
            info = zipfile.ZipInfo(name + "/" * (content is None))
            info.create_system, info.external_attr = 3, kind << 16
            archive.writestr(info, content or b"")
    return raw.getvalue()


PACKERS: dict[str, Callable[[Mapping[str, Any]], bytes]] = {
    "tar": tarred,
    "gnu": lambda tree: tarred(tree, tarfile.GNU_FORMAT),
    "tar.gz": lambda tree: gzip.compress(tarred(tree)),
    "zip": zipped,
}


def unpacked(raw: bytes, limits: Limits = LIMITS) -> dict[str, Any]:
    """Return the content of a packed tree in the form of ``TREE``."""
    return {
        member.name: {"file": b"".join(member.parts), "directory": None, "link": member.target}[member.kind]
        for member in archive_members.members(io.BytesIO(raw), limits)
    }


class TestHonest:
    """Archives as users pack them."""

    @pytest.mark.parametrize("form", PACKERS)
    def test_packed_members_are_read(self, form: str) -> None:
        """Files, directories and links are read from all formats."""
        assert unpacked(PACKERS[form](TREE)) == TREE

    @pytest.mark.parametrize("form", PACKERS)
    @given(
        st.dictionaries(
            st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=60).filter(
                lambda name: name not in {".", ".."}
            ),
            st.binary(max_size=600),
            max_size=4,
        )
    )
    def test_names_and_contents_are_kept(self, form: str, tree: dict[str, bytes]) -> None:
        """Any characters and any length of a name are kept."""
        assert unpacked(PACKERS[form](tree)) == tree

    @pytest.mark.process
    @pytest.mark.parametrize("form", ["gnu", "pax", "ustar"])
    def test_the_output_of_tar_is_read(self, tmp_path: Path, form: str) -> None:
        """An archive of the tar program is read, with names too long for the old format."""
        deep = tmp_path / "in" / ("d" * 90) / ("e" * 90)
        deep.mkdir(parents=True)
        (deep / "x").write_bytes(b"x" * 100_000)
        subprocess.run(["tar", f"--format={form}", "-C", tmp_path / "in", "-czf", tmp_path / "t", "."], check=True)
        result = unpacked((tmp_path / "t").read_bytes())
        assert result == {"d" * 90: None, f"{'d' * 90}/{'e' * 90}": None, f"{'d' * 90}/{'e' * 90}/x": b"x" * 100_000}

    def test_directories_that_were_not_packed_are_implied(self) -> None:
        """They are yielded before their content."""
        assert list(unpacked(tarred({"a/b/x": b""}))) == ["a", "a/b", "a/b/x"]

    def test_members_need_not_be_read(self) -> None:
        """A list of names does not require reading contents."""
        for form in PACKERS.values():
            names = [member.name for member in archive_members.members(io.BytesIO(form(TREE)), LIMITS)]
            assert names == list(TREE)

    @pytest.mark.parametrize(
        ("packed", "file", "directory"),
        [
            *[(0o644, 0o644, 0o744), (0o4755, 0o755, 0o755), (0o777, 0o755, 0o755), (0o600, 0o600, 0o700)],
            *[(0o666, 0o644, 0o744), (0o055, 0o644, 0o755), (0o700, 0o700, 0o700), (0, 0o600, 0o700)],
        ],
    )
    def test_harmful_bits_of_modes_are_dropped(self, packed: int, file: int, directory: int) -> None:
        """Set-id bits and write permission for others are dropped; the owner keeps access."""
        assert (packed_file_mode(packed), packed_directory_mode(packed)) == (
            file,
            directory,
        )

    def test_an_empty_archive_is_valid(self) -> None:
        """It has no members."""
        assert [unpacked(form({})) for form in PACKERS.values()] == [{}] * len(PACKERS)


class TestHostile:
    """Archives as an attacker may pack them."""

    @pytest.mark.parametrize("form", PACKERS)
    @pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a/.."])
    def test_a_name_outside_the_archive_is_refused(self, form: str, name: str) -> None:
        """The target does not matter."""
        with pytest.raises(ResourceError, match="leads out of the archive's directory"):
            unpacked(PACKERS[form]({name: b"x"}))

    @pytest.mark.parametrize("form", PACKERS)
    @pytest.mark.parametrize("target", ["/etc", "..", "../x", "a/../../x", "a/.."])
    def test_a_link_out_of_the_archive_is_refused(self, form: str, target: str) -> None:
        """So is a link that could lead out through another link."""
        with pytest.raises(ResourceError, match="the link 'l' leads out of it, or up behind a name"):
            unpacked(PACKERS[form]({"l": target}))

    @pytest.mark.parametrize("form", PACKERS)
    def test_nothing_is_written_through_a_link(self, form: str) -> None:
        """A member below a link or a file is refused."""
        with pytest.raises(ResourceError, match="'a/x' is beneath 'a', which is a link"):
            unpacked(PACKERS[form]({"b": None, "a": "b", "a/x": b"x"}))
        with pytest.raises(ResourceError, match="'a/x' is beneath 'a', which is a file"):
            unpacked(PACKERS[form]({"a": b"", "a/x": b"x"}))

    @pytest.mark.parametrize(
        ("first", "second"), [(b"1", b"2"), (b"1", "b"), ("b", b"1"), (b"1", None), (None, b"1"), (None, "b")]
    )
    def test_a_name_occurs_once(self, first: Any, second: Any) -> None:
        """A later member must not replace one that was checked."""
        raw = tarred({"a": first})[: 512 * (1 + (first is not None and first != "b"))]
        with pytest.raises(ResourceError, match="'a' is in it twice"):
            unpacked(raw + tarred({"a": second}))

    @pytest.mark.parametrize(
        ("kind", "message"),
        [
            *[(kind, "neither a file") for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)],
            (tarfile.LNKTYPE, "is a hard link; pack it with tar --hard-dereference"),
        ],
    )
    def test_special_files_are_refused(self, kind: bytes, message: str) -> None:
        """Devices, pipes and hard links are refused."""
        with pytest.raises(ResourceError, match=message):
            unpacked(tarred({"a": b"", "x": b""}, type=kind, linkname="a", size=0))

    @pytest.mark.process
    def test_a_sparse_file_is_refused(self, tmp_path: Path) -> None:
        """It could claim to be larger than any disk."""
        with (tmp_path / "holes").open("wb") as file:
            file.truncate(1 << 19)
        for form in ("gnu", "pax"):
            subprocess.run(
                ["tar", f"--format={form}", "-S", "-C", tmp_path, "-cf", tmp_path / "t", "holes"], check=True
            )
            with pytest.raises(ResourceError, match="neither a file"):
                unpacked((tmp_path / "t").read_bytes())

    @pytest.mark.parametrize("form", PACKERS)
    def test_more_bytes_than_allowed_are_refused(self, form: str) -> None:
        """The limit is for all files together, however much of each is read."""
        raw = PACKERS[form]({"a": bytes(600), "b": bytes(600)})
        assert unpacked(raw, Limits(1200, 2))
        with pytest.raises(ResourceError, match="its files are larger than 1199 bytes together"):
            unpacked(raw, Limits(1199, 2))

    @pytest.mark.parametrize("form", PACKERS)
    def test_more_members_than_allowed_are_refused(self, form: str) -> None:
        """Implied directories count too."""
        with pytest.raises(ResourceError, match="it has more than 2 members"):
            unpacked(PACKERS[form]({"a/b/x": b""}), Limits(10, 2))

    def test_many_members_are_refused_by_their_headers(self) -> None:
        """At once: two hundred thousand empty files are a small archive. Extended headers are no members."""
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            for number in range(30_000):
                archive.addfile(tarfile.TarInfo(f"{number}"))
        began = time.process_time()
        with pytest.raises(ResourceError, match="it has more than 29999 members"):
            unpacked(raw.getvalue(), Limits(10, 29_999))
        assert time.process_time() - began < 1
        long, name = io.BytesIO(), f"{'é' * 60}/{'é' * 60}"
        with tarfile.open(fileobj=long, mode="w", format=tarfile.PAX_FORMAT) as archive:
            archive.addfile(tarfile.TarInfo(name))
        assert list(unpacked(long.getvalue(), Limits(10, 2))) == [name.partition("/")[0], name]

    @pytest.mark.parametrize("form", PACKERS)
    def test_deeper_members_than_allowed_are_refused(self, form: str) -> None:
        """As deep as allowed is fine; thousands of levels are refused before the first of them is read."""
        deepest = "/".join("d" * MAX_DEPTH)
        assert unpacked(PACKERS[form]({f"{deepest}": b"x"}), Limits(1 << 20, 1000))[deepest] == b"x"
        for tree in ({f"{deepest}/f": b"x"}, {"d/" * 5000 + "f": b"x"}, {"d/" * 5000 + "d": None}):
            with pytest.raises(ResourceError, match=f"'d/d/.*' is more than {MAX_DEPTH} levels deep") as caught:
                unpacked(PACKERS[form](tree), Limits(1 << 20, 10_000))
            assert len(str(caught.value)) < 200

    def test_a_decompression_bomb_is_refused(self, tmp_path: Path) -> None:
        """A gibibyte packed into a mebibyte, as headers or content, costs neither memory nor time."""
        raw = tmp_path / "bomb"
        with gzip.open(raw, "wb", compresslevel=1) as file:
            info = tarfile.TarInfo("x")
            info.type, info.size = tarfile.XHDTYPE, 1 << 30
            file.write(info.tobuf())
            for _ in range(1 << 10):
                file.write(bytes(1 << 20))
        program = (
            "import sys, resource\n"
            "from resource_api import ResourceError\n"
            "from resource_api.system.filesystem import archive_members\n"
            "from resource_api.model.values.archive_rules import Limits\n"
            "resource.setrlimit(resource.RLIMIT_AS, (256 << 20,) * 2)\n"
            "try: list(archive_members.members(open(sys.argv[1], 'rb'), Limits(1 << 40, 100)))\n"
            "except ResourceError as error: print(error)"
        )
        process = subprocess.run(
            [sys.executable, "-c", program, raw], check=True, capture_output=True, text=True, timeout=30
        )
        assert "its headers are too long" in process.stdout

    def test_a_member_beyond_the_limit_is_not_decompressed(self) -> None:
        """Two gibibytes of it are a small archive."""
        info = tarfile.TarInfo("x")
        info.size = 2 << 30
        packer = zlib.compressobj(1, wbits=31)
        parts = [info.tobuf(tarfile.USTAR_FORMAT), *(bytes(1 << 20) for _ in range(2048))]
        raw = b"".join([*map(packer.compress, parts), packer.flush()])
        began = time.process_time()
        with pytest.raises(ResourceError, match="its files are larger than 1048576 bytes together"):
            unpacked(raw)
        assert time.process_time() - began < 0.5

    @pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_methods_that_expand_everything_at_once_are_refused(self, method: int) -> None:
        """A kilobyte of zeros that bzip2 has packed is a gigabyte in memory."""
        raw = io.BytesIO()
        with zipfile.ZipFile(raw, "w", method) as archive:
            archive.writestr("x", b"x")
        with pytest.raises(ResourceError, match="'x' is compressed by another method than deflate; pack it with zip"):
            unpacked(raw.getvalue())

    def test_the_target_of_a_link_is_not_expanded_beyond_its_size(self) -> None:
        """A link that claims ten bytes and holds 64 MiB costs no more memory than a part of a file."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            info = zipfile.ZipInfo("l")
            info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, bytes(64 << 20), zipfile.ZIP_DEFLATED)
        raw = bytearray(file.getvalue())
        for place in (22, raw.rindex(b"PK\x01\x02") + 24):  # its size, in its header and in the directory
            struct.pack_into("<I", raw, place, 10)
        tracemalloc.start()
        try:
            with pytest.raises(ResourceError, match="a damaged one"):
                unpacked(bytes(raw))
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("form", PACKERS)
    def test_a_truncated_archive_is_an_error(self, form: str) -> None:
        """Truncation at every length raises an error."""
        raw = PACKERS[form]({"a": os.urandom(700), "b": b"x" * 10})
        whole = unpacked(raw)
        for length in range(0, len(raw), 61):
            try:
                result = unpacked(raw[:length])
            except ResourceError:
                continue
            assert result == whole

    @given(st.binary(max_size=2000), st.sampled_from([b"", b"PK\x03\x04", b"\x1f\x8b\x08"]))
    def test_bytes_that_are_no_archive_are_refused(self, raw: bytes, start: bytes) -> None:
        """It holds for any bytes."""
        with suppress(ResourceError):
            unpacked(start + raw)

    @given(st.integers(0, 3000), st.integers(0, 255), st.sampled_from(sorted(PACKERS)))
    def test_a_flipped_byte_never_leads_out(self, place: int, byte: int, form: str) -> None:
        """A changed byte yields another valid archive or an error, never a member outside."""
        raw = bytearray(PACKERS[form](TREE))
        raw[place % len(raw)] = byte
        try:
            result = unpacked(bytes(raw))
        except ResourceError:
            return
        assert all(name and not name.startswith("/") and ".." not in name.split("/") for name in result)


def test_the_same_rules_hold_for_members_of_any_origin() -> None:
    """``bounded`` checks members that come from no file too."""
    with pytest.raises(ResourceError, match="'a' is in it twice"):
        list(checked_members([Member("a", "file", 0), Member("a", "file", 0)], LIMITS))
