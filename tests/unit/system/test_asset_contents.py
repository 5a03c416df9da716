"""Reading assets and archives: the content that was hashed is read, or an error is raised."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import ResourceError, Sensitive
from resource_api.model.values.archive_rules import Limits, link_stays_inside, member_name
from resource_api.model.values.assets import Archive, Asset, Content, ContentSpec, build_contents, spell_contents
from resource_api.system.filesystem import download
from resource_api.system.filesystem.asset_contents import AssetReader
from resource_api.system.filesystem.code_trust import CodeTrust
from tests.http_server import self_signed, serving

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = Limits(1 << 20, 100)
PART = 1 << 18


def sha(raw: bytes) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(raw).hexdigest()


def make(value: Any, path: Path | str = "/nowhere") -> Any:
    """Build the contents in ``value`` for a manifest in the directory ``path``."""
    assets = AssetReader(CodeTrust())
    return build_contents(value, lambda wish: assets(wish, f"{path}/site.yaml"))


def unpacked(archive: Archive, limits: Limits = LIMITS) -> dict[str, Any]:
    """Return the members of an archive: bytes of files, None for directories, targets of links."""
    return {
        member.name: {"file": b"".join(member.parts), "directory": None, "link": member.target}[member.kind]
        for member in archive.members(limits)
    }


class TestSpelling:
    """How a manifest declares contents."""

    @given(st.text(st.characters(exclude_categories=["Cs"])))
    def test_a_text_is_its_bytes_in_utf_8(self, text: str) -> None:
        """The digest is that of these bytes."""
        asset = make({"asset": {"text": text}})
        assert asset.sha256 == sha(text.encode())
        assert asset.open().read() == text.encode()
        assert asset.text == text

    def test_contents_are_found_at_any_depth(self) -> None:
        """Lists and mappings are searched; all other values stay as they are."""
        result = make({"a": [1, {"asset": {"text": "x"}}], "b": {"asset": {"text": "y"}, "c": 2}})
        assert result == {"a": [1, Asset(sha(b"x"))], "b": {"asset": {"text": "y"}, "c": 2}}

    def test_a_content_with_a_secret_is_a_secret(self) -> None:
        """Its digest is derived from the secret."""
        result = make({"archive": {"files": {"a": {"asset": {"text": Sensitive("hunter2")}}}}})
        assert isinstance(result, Sensitive)
        assert str(result) == "<sensitive>"
        assert isinstance(result.reveal(), Archive)

    @pytest.mark.parametrize(
        ("spelt", "message"),
        [
            ({"asset": {}}, "an asset is given by one of text, file, url: {asset: {text: ...}}"),
            ({"asset": "motd.txt"}, "an asset is given by one of"),
            ({"asset": {"text": "a", "file": "b"}}, "an asset is given by one of"),
            ({"asset": {"text": "a", "sha265": "b"}}, "an asset has no 'sha265'; did you mean 'sha256'?"),
            ({"asset": {"file": ""}}, "file of an asset must be a text"),
            ({"asset": {"file": 1}}, "file of an asset must be a text"),
            ({"asset": {"file": "x", "sha256": "ABC"}}, "sha256 must be 64 hexadecimal digits in lower case"),
            ({"asset": {"text": "x", "sha256": "0" * 64}}, f"the asset has the SHA-256 {sha(b'x')}, not {'0' * 64}"),
            ({"asset": {"file": "missing"}}, "missing cannot be read: no such file or directory"),
            ({"asset": {"file": "/dev/null"}}, "/dev/null cannot be read: not a regular file"),
            ({"asset": {"url": "https://example.org/x"}}, "an asset from a url needs sha256"),
            ({"asset": {"url": "file:///etc/passwd", "sha256": "0" * 64}}, "is not the URL of something to fetch"),
            ({"asset": {"url": "https://u:p@x/y", "sha256": "0" * 64}}, "a user or password cannot stand in a URL"),
            ({"archive": {"text": "x"}}, "an archive is given by one of file, url, directory, files"),
            ({"archive": {"files": ["a"]}}, "files of an archive must be a mapping of names to assets and archives"),
            ({"archive": {"files": {"a": "x"}}}, "'a' in an archive must be {asset: ...} or {archive: ...}"),
            ({"archive": {"files": {"../a": {"asset": {"text": ""}}}}}, "leads out of the archive's directory"),
            ({"archive": {"files": {"/a": {"asset": {"text": ""}}}}}, "leads out of the archive's directory"),
            (
                {"archive": {"files": {"a": {"asset": {"text": ""}}, "./a": {"asset": {"text": ""}}}}},
                "'a' is in the archive twice",
            ),
        ],
    )
    def test_an_invalid_content_raises_one_sentence(self, spelt: Any, message: str) -> None:
        """The message contains the correction."""
        with pytest.raises(ValueError, match=r".") as caught:
            make(spelt)
        assert message in str(caught.value)

    def test_contents_are_written_as_a_manifest_declares_them(self) -> None:
        """The result can be built again."""
        inner = {"a": {"asset": {"text": "x"}}, "b": {"asset": {"url": "https://x/y", "sha256": "0" * 64}}}
        written = {"one": [{"archive": {"files": inner}}], "two": 2}
        assert spell_contents(make(written)) == written

    def test_a_digest_alone_has_no_content(self) -> None:
        """A content from state raises an error when it is opened."""
        with pytest.raises(ResourceError, match="only the SHA-256 of this asset is known"):
            Asset("0" * 64).open()
        with pytest.raises(ResourceError, match="only the SHA-256 of this archive is known"):
            Archive("0" * 64).members(LIMITS)

    def test_contents_are_equal_by_kind_and_digest(self) -> None:
        """Their origin does not count."""
        assert Asset("a" * 64, "file", "x") == Asset("a" * 64, "url", "y") != Asset("b" * 64, "file", "x")
        assert Asset("a" * 64) != Archive("a" * 64)
        assert len({Asset("a" * 64), Asset("a" * 64, "file", "x"), Archive("a" * 64)}) == 2


class TestNames:
    """Names of members, and targets of links."""

    @given(st.lists(st.sampled_from(["a", "b", ".", "..", "", "/"]), max_size=8).map("/".join))
    def test_a_name_stays_inside_or_is_refused(self, spelt: str) -> None:
        """The kernel's path resolution from an empty directory is the reference."""
        try:
            name = member_name(spelt)
        except ValueError:
            assert spelt.startswith("/") or ".." in spelt.split("/")
        else:
            assert os.path.normpath(f"/top/{spelt}").rstrip("/") == f"/top/{name}".rstrip("/")

    @given(
        st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join),
        st.lists(st.sampled_from(["a", "b", ".", "..", ""]), min_size=1, max_size=6).map("/".join),
    )
    def test_a_link_leads_inside_or_is_refused(self, name: str, target: str) -> None:
        """A target may go up first and then down; one that goes down first may meet another link and is refused."""
        parts = [part for part in target.split("/") if part not in {"", "."}]
        ends_in = os.path.normpath(f"/top/{name}/../{target}")
        leads = parts == sorted(parts, key=lambda part: part != "..")
        stays = ends_in == "/top" or ends_in.startswith("/top/")
        assert link_stays_inside(name, target) == (leads and stays and target != "" and not target.startswith("/"))


class TestFiles:
    """Files and directories beside the manifest."""

    def test_a_file_is_relative_to_the_manifest(self, tmp_path: Path) -> None:
        """Its digest is computed at once, its bytes are read when needed."""
        (tmp_path / "logo").write_bytes(b"\x00\xff")
        asset = make({"asset": {"file": "logo"}}, tmp_path)
        assert (asset.sha256, asset.text) == (sha(b"\x00\xff"), None)
        with asset.open() as stream:
            assert stream.read() == b"\x00\xff"

    @pytest.mark.parametrize("size", [0, 5, PART, 3 * PART + 1])
    def test_reading_a_changed_file_ends_with_an_error(self, tmp_path: Path, size: int) -> None:
        """The error comes in place of the end of the file."""
        file = tmp_path / "f"
        file.write_bytes(bytes(size))
        asset = make({"asset": {"file": "f"}}, tmp_path)
        with asset.open() as stream:
            assert b"".join(iter(lambda: stream.read(PART), b"")) == bytes(size)
        file.write_bytes(bytes(size) + b"x")
        with asset.open() as stream, pytest.raises(ResourceError, match="f has changed since this run"):
            b"".join(iter(lambda: stream.read(PART), b""))

    def test_the_digest_of_a_directory_covers_its_content(self, tmp_path: Path) -> None:
        """Names, contents, links and execute permission count; times and the order of listing do not."""
        top = tmp_path / "site"
        (top / "a").mkdir(parents=True)
        (top / "a" / "x").write_text("x", encoding="utf-8")
        (top / "a" / "l").symlink_to("../a/x")
        first = make({"archive": {"directory": "site"}}, tmp_path)
        assert unpacked(first) == {"a": None, "a/x": b"x", "a/l": "../a/x"}
        os.utime(top / "a" / "x", (1, 1))
        assert make({"archive": {"directory": "site"}}, tmp_path) == first
        (top / "a" / "x").chmod(0o755)
        assert make({"archive": {"directory": "site"}}, tmp_path) != first

    @pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "a/../../../x"])
    def test_a_directory_with_a_link_out_of_it_is_refused(self, tmp_path: Path, target: str) -> None:
        """The link would lead elsewhere after unpacking."""
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "l").symlink_to(target)
        with pytest.raises(ValueError, match="the link 'l' leads out of"):
            make({"archive": {"directory": "site"}}, tmp_path)

    def test_a_directory_with_a_pipe_is_refused(self, tmp_path: Path) -> None:
        """Nothing waits for a writer."""
        (tmp_path / "site").mkdir()
        os.mkfifo(tmp_path / "site" / "p")
        with pytest.raises(ValueError, match="not a regular file"):
            make({"archive": {"directory": "site"}}, tmp_path)

    def test_reading_a_changed_file_of_a_directory_ends_with_an_error(self, tmp_path: Path) -> None:
        """The law for single files holds for directories too."""
        (tmp_path / "x").write_text("one", encoding="utf-8")
        archive = make({"archive": {"directory": "."}}, tmp_path)
        (tmp_path / "x").write_text("two", encoding="utf-8")
        with pytest.raises(ResourceError, match="x has changed since this run"):
            unpacked(archive)

    def test_a_mapping_consists_of_its_assets_and_archives(self) -> None:
        """It can be nested at any depth; directories above are implied."""
        text = {"asset": {"text": "x"}}
        archive = make({"archive": {"files": {"a/b/c": text, "d": {"archive": {"files": {"e": text}}}}}})
        assert unpacked(archive) == {"a": None, "a/b": None, "a/b/c": b"x", "d": None, "d/e": b"x"}

    def test_a_contradictory_mapping_is_refused(self) -> None:
        """Nothing can be below a file."""
        text = {"asset": {"text": "x"}}
        with pytest.raises(ResourceError, match="'a/b' is beneath 'a', which is a file"):
            unpacked(make({"archive": {"files": {"a": text, "a/b": text}}}))


class Server(BaseHTTPRequestHandler):
    """Answers by path, and counts requests."""

    asked: ClassVar[list[str]] = []
    elsewhere = ""
    body = b"content"

    def do_GET(self) -> None:
        """Answer one request."""
        self.asked.append(self.path)
        if self.path in {"/away", "/elsewhere"}:
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd" if self.path == "/away" else self.elsewhere)
            self.end_headers()
        elif self.path == "/on":
            self.send_response(302)
            self.send_header("Location", "/it")
            self.end_headers()
        elif self.path in {"/short", "/digits"}:
            self.send_response(200)
            self.send_header("Content-Length", "100" if self.path == "/short" else "9" * 5000)
            self.end_headers()
            self.wfile.write(self.body)
        elif self.path in {"/it", "/large"}:
            body = self.body if self.path == "/it" else bytes(1 << 20)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(bytes(1 << 10))
        elif self.path == "/slow":
            self.send_response(200)
            self.end_headers()
            self.drip()
        elif self.path == "/slow-head":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: ")
            self.drip()
        elif self.path == "/slow-chunk":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
            self.drip()
        else:
            self.send_error(404)

    def drip(self) -> None:
        """Send something all the time, and never an end."""
        with suppress(OSError):
            for _ in range(100):
                self.wfile.write(b"x")
                time.sleep(0.05)

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


class TestUrls:
    """Contents from URLs."""

    def test_a_url_is_fetched_once_and_only_when_it_is_opened(self) -> None:
        """Its digest is declared, so a plan needs no network."""
        Server.asked.clear()
        with serving(Server) as base:
            assets = AssetReader(CodeTrust())
            wish = {"asset": {"url": f"{base}/on", "sha256": sha(Server.body)}}
            first, second = (build_contents(wish, lambda item: assets(item, "site.yaml")) for _ in range(2))
            assert Server.asked == []
            for asset in (first, second, first):
                with asset.open() as stream:
                    assert stream.read() == Server.body
            assert Server.asked == ["/on", "/it"]

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("/missing", "cannot be fetched: HTTP Error 404: Not Found"),
            ("/short", "cannot be fetched|broke off"),
            ("/digits", "larger than 1000 bytes"),
            ("/large", "larger than 1000 bytes"),
            ("/endless", "larger than 1000 bytes"),
            ("/away", "cannot be fetched"),
        ],
    )
    def test_a_failed_download_raises_its_reason(self, path: str, message: str) -> None:
        """A truncated, too large or redirected response is refused."""
        with serving(Server) as base, pytest.raises(ResourceError, match=message):
            download.fetch(base + path, sha(Server.body), largest=1000)

    @pytest.mark.process
    def test_an_encrypted_download_stays_encrypted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a digest an attacker in the network could change what comes over HTTP."""
        encryption = self_signed(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "pem"))
        with serving(Server) as plain:
            monkeypatch.setattr(Server, "elsewhere", f"{plain}/it")
            with serving(Server, encryption) as encrypted:
                for path, digest in (("on", ""), ("elsewhere", sha(Server.body))):
                    with download.fetch(f"{encrypted}/{path}", digest) as file:
                        assert file.read() == Server.body
                with pytest.raises(ResourceError, match="fetched: it redirects to a URL without encryption"):
                    download.fetch(f"{encrypted}/elsewhere")

    def test_other_bytes_are_refused(self) -> None:
        """An attacker in the network cannot change the content."""
        refusal = f"has the SHA-256 {sha(Server.body)}, not 000"
        with serving(Server) as base, pytest.raises(ResourceError, match=refusal):
            download.fetch(f"{base}/it", "0" * 64)

    def test_an_unreachable_server_is_named(self) -> None:
        """The message contains the error of the system."""
        with pytest.raises(ResourceError, match=r"http://127.0.0.1:1/ cannot be fetched: connection refused$"):
            download.fetch("http://127.0.0.1:1/", "0" * 64)

    @pytest.mark.parametrize("path", ["/slow", "/slow-head", "/slow-chunk"])
    def test_a_slow_server_does_not_prolong_a_download(self, path: str) -> None:
        """The limit counts from the start of the transfer, not from the last byte, of whatever part of the answer."""
        begin = time.monotonic()
        with serving(Server) as base, pytest.raises(ResourceError, match="was not fetched within"):
            download.fetch(f"{base}{path}", timeout=0.2)
        assert time.monotonic() - begin < 3.0


def test_the_text_form_contains_the_origin() -> None:
    """A text is not repeated in it."""
    assert str(Asset("ab" * 32, "file", "motd.txt")) == "sha256:abababababab (motd.txt)"
    assert str(Asset("ab" * 32, "text", "secret")) == "sha256:abababababab"
    assert repr(Content("ab" * 32)) == "<content sha256:abababababab>"
    assert ContentSpec("asset", "text", "x").sha256 == ""
