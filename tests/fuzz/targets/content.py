"""Content of others: archives, and texts that hold secrets."""

from __future__ import annotations

import base64
import errno
import html
import io
import json
import shlex
import shutil
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus

from hypothesis import strategies as st

from resource_api.agent import bundle_format as bundles
from resource_api.agent.bundle_format import Bundle, BundleFile
from resource_api.model.values.archive_rules import Limits
from resource_api.model.values.assets import Archive
from resource_api.model.values.masking import Mask
from resource_api.model.values.text import escape
from resource_api.model.values.values import Sensitive
from resource_api.system.filesystem import archive_members, unpack
from tests.fuzz.target import target
from tests.fuzz.targets.state import JSON, directory

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES: Final = st.sampled_from(
    ["a", "a/b", "a/b/c", "../x", "/abs", "a/../b", "é", "a\0b", "a\nb", "a" * 120, "d/", ".", "", "a//b", "-x"]
) | st.text(max_size=6)
MEMBERS: Final = st.lists(
    st.tuples(NAMES, st.sampled_from("fdlhcx"), st.binary(max_size=20), NAMES, st.integers(0, 0o7777)), max_size=6
)


def _tar(members: list[Any], how: str) -> bytes:
    kinds = {
        "f": tarfile.REGTYPE,
        "d": tarfile.DIRTYPE,
        "l": tarfile.SYMTYPE,
        "h": tarfile.LNKTYPE,
        "c": tarfile.CHRTYPE,
    }
    out = io.BytesIO()
    formats = {"p": tarfile.PAX_FORMAT, "g": tarfile.GNU_FORMAT, "u": tarfile.USTAR_FORMAT}
    try:
        with tarfile.open(fileobj=out, mode="w:gz" if how[0] == "z" else "w", format=formats[how[1]]) as archive:
            for name, kind, content, link, mode in members:
                info = tarfile.TarInfo(name)
                info.type, info.linkname, info.mode, info.size = kinds.get(kind, b"S"), link, mode, len(content)
                archive.addfile(info, io.BytesIO(content))
    except (ValueError, UnicodeError, OSError):
        return out.getvalue()
    return out.getvalue()


def _zip(members: list[Any], how: str) -> bytes:
    out = io.BytesIO()
    try:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if how[0] == "z" else zipfile.ZIP_STORED) as archive:
            for name, kind, content, link, mode in members:
                info = zipfile.ZipInfo(name)
                kinds = {"f": 0o100000, "d": 0o040000, "l": 0o120000}
                info.external_attr = (kinds.get(kind, 0o020000) | mode) << 16
                info.create_system = 3
                archive.writestr(info, link.encode("utf-8", "replace") if kind == "l" else content)
    except (ValueError, UnicodeError, OSError):
        return out.getvalue()
    return out.getvalue()


@target(
    generate=st.builds(
        lambda make, members, how: make(members, how),
        st.sampled_from([_tar, _zip]),
        MEMBERS,
        st.sampled_from(["zp", "-g", "-u"]),
    ),
    words="PK\\x03\\x04 PK\\x01\\x02 PK\\x05\\x06 PK\\x06\\x06 ustar path= linkpath= size= GNU.sparse. ../ /",
)
def archive(data: bytes) -> None:
    """Archives: tar, gzipped tar and zip, every member read; nothing leaves the archive."""
    observed = set()
    for member in archive_members.members(io.BytesIO(data), Limits(size=1 << 22, members=1000)):
        assert not member.name.startswith("/"), "an absolute name"
        assert ".." not in member.name.split("/"), "a name leads out"
        observed.add(member.name)
        for _ in member.parts:
            pass


@target(
    generate=st.builds(
        lambda name, generation, files: Bundle(name, generation, [], files).raw,
        NAMES.filter(lambda name: name.isprintable()),
        st.integers(0, 1 << 64),
        st.dictionaries(
            NAMES.filter(lambda name: "\0" not in name and name.isprintable()),
            st.builds(BundleFile, st.binary(max_size=20), st.booleans()),
            max_size=3,
        ),
    ),
    words="bundle.json .modules/ ustar path= linkpath= ../ {} [] null true 1e999",
    readings=2,
)
def bundle(data: bytes) -> None:
    """Bundles: what is accepted is byte for byte what its own files make."""
    assert bundles.read(data).raw == data, "another archive of the same files"


#: Bytes.
LONG: Final = 20_000
SPELLINGS: Final[dict[str, Callable[[str], str]]] = {
    "itself": str,
    "repr": lambda s: repr(s)[1:-1],
    "ascii": lambda s: ascii(s)[1:-1],
    "json": lambda s: json.dumps(s)[1:-1],
    "json in json": lambda s: json.dumps(json.dumps(s))[1:-1],
    "unicode json": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "path": quote,
    "query": quote_plus,
    "component": lambda s: quote(s, safe="!'()*"),
    "lower percent": lambda s: quote(s).lower() if s.islower() else quote(s),
    "html": html.escape,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "url base64": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "basic": lambda s: base64.b64encode(b"user:" + s.encode()).decode(),
    "hex": lambda s: s.encode().hex(),
    "hex colons": lambda s: s.encode().hex(":"),
    "shell": shlex.quote,
    "escaped": escape,
}


def _core(spelling: str, text: str) -> str:
    """Return what of a spelt secret must not be seen: all of it, without what is around it."""
    return text[7:-4] if spelling == "basic" else text.strip("'=\"")


@target(
    generate=st.builds(
        lambda secret, before, after: f"{secret}\0{before}\0{after}".encode("utf-8", "surrogatepass"),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=40)
        | st.text("ab'\"\\&<>%é ", min_size=6),
        st.text("ab'\"\\&<>%é \n", max_size=30),
        st.text(max_size=20),
    ),
    words="\\\\ %25 &amp; &#39; '' \"\" \\u00e9 \\x00 swordfish",
    readings=4,
)
def masking(data: bytes) -> None:
    """A secret in all its spellings, in any text: never seen, and escapes are not doubled."""
    secret, _, rest = data.decode("utf-8", "surrogateescape").partition("\0")
    before, _, after = rest.partition("\0")
    mask = Mask()
    mask.add_inputs(Sensitive(secret))
    mask(before + after)
    try:
        secret.encode()
    except UnicodeEncodeError:
        return
    if len(secret.strip()) < 8 or len(secret) > 5000 or not secret.isprintable() or secret != secret.strip():
        mask(f"{before}{secret}{after}")
        return
    # Of a long text the time of one masking is examined, of a short one all spellings.
    spellings = SPELLINGS if len(data) < LONG else {"itself": str}
    for name, spell in spellings.items():
        core = _core(name, spelt := spell(secret))
        output = mask(f"{before} {spelt} {after}")
        if len(core) >= 8 and core not in before and core not in after and core not in "<sensitive>":
            rest = output.replace("<sensitive>", "\0")
            assert core not in rest, f"the spelling {name} is seen"


@target(generate=MEMBERS.map(lambda members: _tar(members, "-p")), grows=False)
def unpacking(data: bytes) -> None:
    """Archives that are unpacked into a directory, twice: nothing is written outside, the second changes nothing."""
    file = directory() / "unpacked"
    shutil.rmtree(file, ignore_errors=True)
    (file / "inner").mkdir(parents=True)
    path, options = str(file / "inner"), unpack.UnpackOptions(1 << 22, 1000)
    archive = Archive("0" * 64, "path", "given", lambda limits: archive_members.members(io.BytesIO(data), limits))
    try:
        unpack.unpack(path, archive, options, None)
        record = unpack.UnpackRecord.read(path)
        assert record is not None, "there is no record"
        assert unpack.altered_members(path, record) == [], "what was unpacked is not as it was unpacked"
        unpack.unpack(path, archive, options, record)
        unpack.remove_unpacked(path, record)
    except OSError as error:
        if error.errno not in {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR}:
            raise
    finally:
        assert {entry.name for entry in file.iterdir()} <= {"inner", f".inner{unpack._SUFFIX}"}, "something is outside"


@target(
    generate=st.fixed_dictionaries(
        {
            "format": st.integers(0, 2),
            "sha256": st.text(max_size=3),
            "members": JSON | st.lists(st.lists(JSON, max_size=4)),
        },
        optional=dict.fromkeys(("mode", "uid", "gid", "made"), JSON),
    ).map(lambda value: json.dumps(value).encode()),
    words='"format" "sha256" "mode" "uid" "gid" "members" "made" "file" "directory" "link" 420 null 1e999 "../x" "a/b"',
)
def unpack_record(data: bytes) -> None:
    """The record of an unpacked archive, read and compared with what is on disk."""
    location = directory() / "recorded"
    location.mkdir(exist_ok=True)
    path = str(location / "inner")
    file = Path(unpack._record_path(path))
    file.write_bytes(data)
    file.chmod(0o600)
    record = unpack.UnpackRecord.read(path)
    assert record is not None, "there is no record"
    with suppress(OSError):
        unpack.altered_members(path, record)
