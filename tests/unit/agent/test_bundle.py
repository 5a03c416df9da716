"""Bundles: one archive for given files, and nothing else is read as one."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.agent import bundle_format as bundle
from resource_api.agent.bundle_format import Bundle, BundleFile
from resource_api.agent.trust import Untrusted
from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

CONTENT = {"a.yaml": b"a", "types/b.py": b"b"}
PARTS = st.text("ab.é-", min_size=1, max_size=8).filter(lambda part: part not in {".", ".."})
NAMES = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
FILES = st.dictionaries(NAMES, st.builds(BundleFile, st.binary(max_size=40), st.booleans()), min_size=1, max_size=5)


def tar(members: list[tuple[str, bytes]], change: Callable[[tarfile.TarInfo], object] = lambda _: None) -> bytes:
    """Return an archive as ``bundle make`` writes it, but for what ``change`` does to each member."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            change(info)
            if info.size == len(content):
                archive.addfile(info, io.BytesIO(content))
            else:  # a size that is a lie: the header alone
                stream.write(info.tobuf(tarfile.PAX_FORMAT))
                archive.offset = stream.tell()
    return stream.getvalue()


def index(**changed: Any) -> bytes:
    """Return the list of digests of ``CONTENT``."""
    files = {name: [sha256(content).hexdigest(), False] for name, content in CONTENT.items()}
    whole = {"format": 1, "name": "x", "generation": 1, "modules": [], "files": files, **changed}
    return json.dumps(whole, indent=1, sort_keys=True).encode() + b"\n"


def whole(**changed: Any) -> list[tuple[str, bytes]]:
    """Return the members of a good bundle, with another index where one is given."""
    return [("bundle.json", index(**changed)), *CONTENT.items()]


def typed(kind: bytes) -> Callable[[tarfile.TarInfo], object]:
    """Return a change that gives the file ``a.yaml`` another type and a target."""

    def change(info: tarfile.TarInfo) -> None:
        if info.name == "a.yaml":
            info.type, info.linkname, info.size = kind, "types/b.py", 0

    return change


HOSTILE: dict[str, tuple[bytes, str]] = {
    "a link": (tar(whole(), typed(tarfile.SYMTYPE)), "'a.yaml' is a link"),
    "a hard link": (tar(whole(), typed(tarfile.LNKTYPE)), "'a.yaml' is a hard link"),
    "a device": (tar(whole(), typed(tarfile.CHRTYPE)), "'a.yaml' is neither a file"),
    "an absolute path": (tar([*whole(), ("/etc/x", b"")]), "'/etc/x' leads out of"),
    "a path that leads up": (tar([*whole(), ("a/../../x", b"")]), "leads out of"),
    "a name twice": (tar([*whole(), ("types/b.py", b"b")]), "'types/b.py' is in it twice"),
    "another order": (tar([whole()[0], *whole()[:0:-1]]), "its bytes are not those"),
    "a name with dots": (tar([*whole()[:2], ("types/./b.py", b"b")]), "its bytes are not those"),
    "a directory": (tar(whole(), typed(tarfile.DIRTYPE)), "'a.yaml' is listed and not there"),
    "a time": (tar(whole(), lambda info: setattr(info, "mtime", 1)), "its bytes are not those"),
    "an owner": (tar(whole(), lambda info: setattr(info, "uname", "root")), "its bytes are not those"),
    "a set-id bit": (tar(whole(), lambda info: setattr(info, "mode", 0o4755)), "its bytes are not those"),
    "other content": (tar([*whole()[:2], ("types/b.py", b"c")]), "'types/b.py' has another digest"),
    "a file that is not listed": (tar([*whole(), ("z", b"")]), "'z' is there and not listed"),
    "a file that is not there": (tar(whole()[:2]), "'types/b.py' is listed and not there"),
    "trailing data": (tar(whole()) + b"x", "its bytes are not those"),
    "a second archive behind": (tar(whole()) * 2, "its bytes are not those"),
    "a broken end": (tar(whole())[:1600], "damaged one: unexpected end of data"),
    "compression": (gzip.compress(tar(whole())), "its bytes are not those"),
    "no index": (tar(whole()[1:]), "it has no bundle.json"),
    "nothing": (b"", "damaged one: empty file"),
    "another format": (tar(whole(format=2)), "its bundle.json is damaged"),
    "a generation of 0": (tar(whole(generation=0)), "its bundle.json is damaged"),
    "a generation that is true": (tar(whole(generation=True)), "its bundle.json is damaged"),
    "a generation over 64 bits": (tar(whole(generation=1 << 63)), "its bundle.json is damaged"),
    "no name": (tar(whole(name=None)), "its bundle.json is damaged"),
    "a name with a control character": (tar(whole(name="x\x1b[2J")), "its bundle.json is damaged"),
    "files in a list": (tar(whole(files=[])), "its bundle.json is damaged"),
    "modules that are not there": (tar(whole(modules=["../x"])), "its bundle.json is damaged"),
    "modules that are a number": (tar(whole(modules=1)), "its bundle.json is damaged"),
    "a further key": (tar(whole(more=1)), "its bundle.json is damaged"),
    "an index that is no JSON": (tar([("bundle.json", b"{"), *CONTENT.items()]), "its bundle.json is damaged"),
    "an index that is a list": (tar([("bundle.json", b"[]"), *CONTENT.items()]), "its bundle.json is damaged"),
    "an index that is deep": (tar([("bundle.json", b"[" * 99999), *CONTENT.items()]), "its bundle.json is damaged"),
    "a large size": (
        tar(whole(), lambda info: setattr(info, "size", 1 << 40) if info.name == "a.yaml" else None),
        "its files are larger than",
    ),
}


def test_a_good_bundle_is_read() -> None:
    """Otherwise the hostile ones below could be refused for another reason."""
    text = bundle.read(tar(whole()))
    assert (text.name, text.generation, text.modules) == ("x", 1, [])
    assert {name: file.content for name, file in text.files.items()} == CONTENT


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_bundle_is_refused(case: str) -> None:
    """With what is wrong."""
    raw, reason = HOSTILE[case]
    with pytest.raises(Untrusted, match=reason.replace("'", ".")):
        bundle.read(raw)


@given(FILES, st.integers(1, (1 << 63) - 1))
def test_what_is_written_is_read(files: dict[str, BundleFile], generation: int) -> None:
    """All names, contents and modes; or it is refused where one name is a directory of another."""
    created = Bundle("name", generation, [], files)
    if any(file.startswith(f"{name}/") for name in files for file in files) or "bundle.json" in files:
        with pytest.raises(Untrusted):
            bundle.read(created.raw)
    else:
        assert bundle.read(created.raw) == created


@given(st.integers(0, 10239), st.integers(1, 255))
def test_no_byte_can_be_changed(place: int, difference: int) -> None:
    """Wherever it stands, the rest of the archive does not hide it."""
    raw = bytearray(tar(whole()))
    raw[place] ^= difference
    with pytest.raises(Untrusted):
        bundle.read(bytes(raw))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a directory with a manifest, a type, and what is left out."""
    for name, text in {"site.yaml": "a", "types/b.py": "b", ".git/config": "", "types/__pycache__/b.pyc": ""}.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(text)
    return tmp_path / "site"


def test_a_directory_is_collected_with_its_module_path(site: Path, tmp_path: Path) -> None:
    """In an order of its own; without repositories, compiled files, and the bundle itself."""
    (tmp_path / "more" / "providers").mkdir(parents=True)
    (tmp_path / "more" / "providers" / "b").write_text("#!/bin/sh\n")
    (tmp_path / "more" / "providers" / "b").chmod(0o700)
    (tmp_path / "empty").mkdir()
    (site / "out.bundle").write_text("")
    left_out = {os.path.realpath(site / "out.bundle")}
    result = bundle.collect(str(site), [str(tmp_path / "empty"), str(tmp_path / "more")], left_out)
    assert result.files == {
        "site.yaml": BundleFile(b"a", executable=False),
        "types/b.py": BundleFile(b"b", executable=False),
        ".modules/2/providers/b": BundleFile(b"#!/bin/sh\n", executable=True),
    }
    assert result.modules == [".modules/2"]
    names = result._replace(name="x", generation=7)
    bundle.extract(names, str(tmp_path / "out"))
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    again = bundle.collect(str(tmp_path / "out" / ".modules" / "2"))
    assert again.files == {"providers/b": result.files[".modules/2/providers/b"]}


def _empty(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("link", lambda path: Path(path).symlink_to("site.yaml"), "is a link"),
        ("pipe", os.mkfifo, "is no file"),
        ("bundle.json", _empty, "reserved"),
        (os.fsdecode(b"\xff"), _empty, "under this name"),
    ],
)
def test_what_cannot_stand_in_a_bundle_is_refused(site: Path, name: str, make: Any, reason: str) -> None:
    """Before anything is written."""
    make(os.path.join(site, name))  # noqa: PTH118 - not every name is text
    with pytest.raises(UsageError, match=reason):
        bundle.collect(str(site))


def test_an_empty_directory_makes_no_bundle(tmp_path: Path) -> None:
    """It would be applied as nothing."""
    with pytest.raises(UsageError, match="has no files"):
        bundle.collect(str(tmp_path))
