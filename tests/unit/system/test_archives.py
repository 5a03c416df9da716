"""Archives as others make them: what is in an honest one comes out, and what could do harm is refused or bounded."""

from __future__ import annotations

import gzip
import io
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ResourceError
from resource_api.model.values.assets import Limits, Member
from resource_api.system.filesystem import archives

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LIMITS = Limits(1 << 20, 100)
#: name → bytes of a file, None for a directory, text for a link.
TREE: dict[str, Any] = {"a": None, "a/x": b"one\n", "a/b": None, "a/b/y": b"", "l": "a/b"}


def tarred(tree: Mapping[str, Any], form: int = tarfile.PAX_FORMAT, **extra: Any) -> bytes:
    """Pack a tree as tar does; ``extra`` are fields of every member."""
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
    """Pack a tree as zip does."""
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
    """Give what is in a packed tree, as ``TREE`` is written."""
    return {
        member.name: {"file": b"".join(member.parts), "directory": None, "link": member.target}[member.kind]
        for member in archives.members(io.BytesIO(raw), limits)
    }


class TestHonest:
    """What people pack."""

    @pytest.mark.parametrize("form", PACKERS)
    def test_what_was_packed_comes_out(self, form: str) -> None:
        """Files, directories and links of all formats."""
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
        """Whatever characters a name has, however long it is."""
        assert unpacked(PACKERS[form](tree)) == tree

    @pytest.mark.parametrize("form", ["gnu", "pax", "ustar"])
    def test_what_tar_packs_comes_out(self, tmp_path: Path, form: str) -> None:
        """The program itself, with names too long for the old format."""
        deep = tmp_path / "in" / ("d" * 90) / ("e" * 90)
        deep.mkdir(parents=True)
        (deep / "x").write_bytes(b"x" * 100_000)
        subprocess.run(["tar", f"--format={form}", "-C", tmp_path / "in", "-czf", tmp_path / "t", "."], check=True)
        found = unpacked((tmp_path / "t").read_bytes())
        assert found == {"d" * 90: None, f"{'d' * 90}/{'e' * 90}": None, f"{'d' * 90}/{'e' * 90}/x": b"x" * 100_000}

    def test_directories_that_nobody_packed_are_implied(self) -> None:
        """They come before what they hold."""
        assert list(unpacked(tarred({"a/b/x": b""}))) == ["a", "a/b", "a/b/x"]

    def test_members_that_nobody_looks_into_are_passed_over(self) -> None:
        """Their names alone are enough for a list."""
        for form in PACKERS.values():
            found = [member.name for member in archives.members(io.BytesIO(form(TREE)), LIMITS)]
            assert found == list(TREE)

    @pytest.mark.parametrize(
        ("packed", "file", "directory"),
        [
            *[(0o644, 0o644, 0o744), (0o4755, 0o755, 0o755), (0o777, 0o755, 0o755), (0o600, 0o600, 0o700)],
            *[(0o666, 0o644, 0o744), (0o055, 0o644, 0o755), (0o700, 0o700, 0o700), (0, 0o600, 0o700)],
        ],
    )
    def test_modes_lose_what_could_do_harm(self, packed: int, file: int, directory: int) -> None:
        """No set-id bits, no writing for others, nothing to run for others than the owner; the owner keeps reach."""
        assert (archives.packed_file_mode(packed), archives.packed_directory_mode(packed)) == (file, directory)

    def test_an_empty_archive_is_one(self) -> None:
        """There is nothing in it."""
        assert [unpacked(form({})) for form in PACKERS.values()] == [{}] * len(PACKERS)


class TestHostile:
    """What others may pack."""

    @pytest.mark.parametrize("form", PACKERS)
    @pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a/.."])
    def test_a_name_that_leads_out_is_refused(self, form: str, name: str) -> None:
        """Whatever it would reach."""
        with pytest.raises(ResourceError, match="leads out of the archive's directory"):
            unpacked(PACKERS[form]({name: b"x"}))

    @pytest.mark.parametrize("form", PACKERS)
    @pytest.mark.parametrize("target", ["/etc", "..", "../x", "a/../../x", "a/.."])
    def test_a_link_that_leads_out_is_refused(self, form: str, target: str) -> None:
        """Or could, by way of another link."""
        with pytest.raises(ResourceError, match="the link 'l' leads out of it, or up behind a name"):
            unpacked(PACKERS[form]({"l": target}))

    @pytest.mark.parametrize("form", PACKERS)
    def test_nothing_is_written_through_a_link(self, form: str) -> None:
        """Nor through a file."""
        with pytest.raises(ResourceError, match="'a/x' is beneath 'a', which is a link"):
            unpacked(PACKERS[form]({"b": None, "a": "b", "a/x": b"x"}))
        with pytest.raises(ResourceError, match="'a/x' is beneath 'a', which is a file"):
            unpacked(PACKERS[form]({"a": b"", "a/x": b"x"}))

    @pytest.mark.parametrize(
        ("first", "second"), [(b"1", b"2"), (b"1", "b"), ("b", b"1"), (b"1", None), (None, b"1"), (None, "b")]
    )
    def test_a_name_stands_once(self, first: Any, second: Any) -> None:
        """What comes later must not replace what was looked at."""
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
    def test_what_is_no_file_is_refused(self, kind: bytes, message: str) -> None:
        """Devices, pipes, and hard links."""
        with pytest.raises(ResourceError, match=message):
            unpacked(tarred({"a": b"", "x": b""}, type=kind, linkname="a", size=0))

    def test_a_file_with_holes_is_refused(self, tmp_path: Path) -> None:
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
        """Together, whoever reads how much of which."""
        raw = PACKERS[form]({"a": bytes(600), "b": bytes(600)})
        assert unpacked(raw, Limits(1200, 2))
        with pytest.raises(ResourceError, match="its files are larger than 1199 bytes together"):
            unpacked(raw, Limits(1199, 2))

    @pytest.mark.parametrize("form", PACKERS)
    def test_more_members_than_allowed_are_refused(self, form: str) -> None:
        """Directories that are only implied count."""
        with pytest.raises(ResourceError, match="it has more than 2 members"):
            unpacked(PACKERS[form]({"a/b/x": b""}), Limits(10, 2))

    def test_a_bomb_is_refused_before_it_bursts(self, tmp_path: Path) -> None:
        """A gibibyte of nothing in a mebibyte, described or real, costs neither memory nor time."""
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
            "from resource_api.system.filesystem import archives\n"
            "from resource_api.model.values.assets import Limits\n"
            "resource.setrlimit(resource.RLIMIT_AS, (256 << 20,) * 2)\n"
            "try: list(archives.members(open(sys.argv[1], 'rb'), Limits(1 << 40, 100)))\n"
            "except ResourceError as error: print(error)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, raw], check=True, capture_output=True, text=True, timeout=30
        )
        assert "its headers are too long" in done.stdout

    @pytest.mark.parametrize("form", PACKERS)
    def test_what_is_cut_is_not_taken_for_all(self, form: str) -> None:
        """At every length there is an error, never less than was packed."""
        raw = PACKERS[form]({"a": os.urandom(700), "b": b"x" * 10})
        whole = unpacked(raw)
        for length in range(0, len(raw), 61):
            try:
                found = unpacked(raw[:length])
            except ResourceError:
                continue
            assert found == whole

    @given(st.binary(max_size=2000), st.sampled_from([b"", b"PK\x03\x04", b"\x1f\x8b\x08"]))
    def test_what_is_no_archive_is_said_to_be_none(self, raw: bytes, start: bytes) -> None:
        """Whatever the bytes are."""
        with suppress(ResourceError):
            unpacked(start + raw)

    @given(st.integers(0, 3000), st.integers(0, 255), st.sampled_from(sorted(PACKERS)))
    def test_a_flipped_byte_never_leads_out(self, place: int, byte: int, form: str) -> None:
        """It may go unnoticed in a name; it is never more than another honest archive, or refused."""
        raw = bytearray(PACKERS[form](TREE))
        raw[place % len(raw)] = byte
        try:
            found = unpacked(bytes(raw))
        except ResourceError:
            return
        assert all(name and not name.startswith("/") and ".." not in name.split("/") for name in found)


def test_members_of_any_origin_are_held_to_the_same_rules() -> None:
    """Also those that come from nobody's file."""
    with pytest.raises(ResourceError, match="'a' is in it twice"):
        list(archives.bounded([Member("a", "file", 0), Member("a", "file", 0)], LIMITS))
