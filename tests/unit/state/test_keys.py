"""The keys that people hold: each gives back what it wrapped, nobody else's does, and a careless file is refused."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.values.errors import UsageError
from resource_api.state.encryption import aes_gcm, keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Named = Callable[[str], keys.Key]

DATA_KEY = bytes(range(32))


def file_key(path: Path, name: str) -> str:
    """Make a key file."""
    keys.create_key_file(str(path / name))
    return f"file:{path / name}"


def passphrase_key(path: Path, name: str) -> str:
    """Write a passphrase."""
    file = path / name
    file.write_text(f"correct horse {name}\n", encoding="utf-8")
    file.chmod(0o600)
    return f"passphrase:{file}"


def age_key(path: Path, name: str) -> str:
    """Make an identity as age-keygen writes it."""
    import pyrage  # noqa: PLC0415 - the library is what is under test

    identity = pyrage.x25519.Identity.generate()
    file = path / name
    file.write_text(f"# public key: {identity.to_public()}\n{identity}\n", encoding="utf-8")
    file.chmod(0o600)
    return f"age:{file}"


@pytest.fixture(params=[file_key, passphrase_key, age_key], ids=["file", "passphrase", "age"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Give a function that makes a key of one kind and names it."""
    return lambda name: request.param(tmp_path, name)


class TestWrapping:
    """The laws of every kind of key."""

    def test_a_key_gives_back_what_it_wrapped(self, make: Callable[[str], str]) -> None:
        """Also when it is named anew, as the next command does."""
        url = make("a")
        wrapped = keys.key_from_url(url, {}).wrap(DATA_KEY)
        assert keys.key_from_url(url, {}).unwrap(wrapped) == DATA_KEY
        assert DATA_KEY.hex() not in str(wrapped)

    def test_no_two_wrappings_are_alike(self, make: Callable[[str], str]) -> None:
        """So that nothing can be told from comparing them."""
        key = keys.key_from_url(make("a"), {})
        assert key.wrap(DATA_KEY) != key.wrap(DATA_KEY)

    def test_another_key_opens_nothing(self, make: Callable[[str], str]) -> None:
        """Of the same kind."""
        wrapped = keys.key_from_url(make("a"), {}).wrap(DATA_KEY)
        with pytest.raises(ValueError, match=r".+"):
            keys.key_from_url(make("b"), {}).unwrap(wrapped)

    def test_what_was_altered_opens_nothing(self, make: Callable[[str], str]) -> None:
        """Whichever character it is."""
        key = keys.key_from_url(make("a"), {})
        wrapped = key.wrap(DATA_KEY)
        text = wrapped["wrapped"]
        for place in range(0, len(text) - 2, 7):
            other = "A" if text[place] != "A" else "B"
            with pytest.raises(ValueError, match=r".+"):
                key.unwrap({**wrapped, "wrapped": text[:place] + other + text[place + 1 :]})

    def test_a_key_of_another_kind_says_so(self, make: Callable[[str], str]) -> None:
        """It is the wrong option, no damage."""
        wrapped = {**keys.key_from_url(make("a"), {}).wrap(DATA_KEY), "kind": "other"}
        with pytest.raises(UsageError, match="another kind of key, other:"):
            keys.key_from_url(make("a2"), {}).unwrap(wrapped)


class TestFiles:
    """What a file must be before a key is taken from it."""

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o601])
    def test_others_may_do_nothing_with_it(self, make: Callable[[str], str], mode: int) -> None:
        """The message has the command that mends it."""
        url = make("a")
        path = url.partition(":")[2]
        os.chmod(path, mode)  # noqa: PTH101 - the path is text
        with pytest.raises(UsageError, match=f"others can use this key; run: chmod go= {path}"):
            keys.key_from_url(url, {}).wrap(DATA_KEY)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_it_belongs_to_root_or_to_the_caller(self, make: Callable[[str], str]) -> None:
        """Another owner could exchange it."""
        url = make("a")
        os.chown(url.partition(":")[2], 1234, 1234)
        with pytest.raises(UsageError, match="belongs to another user"):
            keys.key_from_url(url, {}).wrap(DATA_KEY)

    def test_a_link_that_others_could_have_put_there_is_not_followed(self, tmp_path: Path) -> None:
        """One of the caller's own is."""
        url = file_key(tmp_path, "a")
        own, public = tmp_path / "own", tmp_path / "public"
        own.symlink_to(tmp_path / "a")
        public.mkdir(mode=0o777)
        public.chmod(0o777)
        (public / "link").symlink_to(tmp_path / "a")
        wrapped = keys.key_from_url(url, {}).wrap(DATA_KEY)
        assert keys.key_from_url(f"file:{own}", {}).unwrap(wrapped) == DATA_KEY
        with pytest.raises(UsageError, match="a symbolic link on the path"):
            keys.key_from_url(f"file:{public}/link", {}).unwrap(wrapped)

    def test_what_is_no_key_is_refused_unshown(self, tmp_path: Path) -> None:
        """A wrong file may hold another secret."""
        for scheme, text in (("file", "c2VzYW1l"), ("file", "sesame!"), ("age", "sesame"), ("passphrase", "\n")):
            path = tmp_path / "wrong"
            path.write_text(text, encoding="utf-8")
            path.chmod(0o600)
            with pytest.raises(UsageError) as caught:
                keys.key_from_url(f"{scheme}:{path}", {}).wrap(DATA_KEY)
            assert str(path) in str(caught.value)
            assert text.strip() == "" or text not in str(caught.value)

    @pytest.mark.parametrize("scheme", ["file", "passphrase", "age"])
    def test_a_missing_file_is_named(self, tmp_path: Path, scheme: str) -> None:
        """With what the system says."""
        with pytest.raises(UsageError, match="missing: the key cannot be read: No such file"):
            keys.key_from_url(f"{scheme}:{tmp_path}/missing", {}).wrap(DATA_KEY)

    def test_a_directory_and_a_pipe_are_no_keys(self, tmp_path: Path) -> None:
        """And a pipe nobody writes to does not keep us waiting."""
        os.mkfifo(tmp_path / "pipe", 0o600)
        for name in (".", "pipe"):
            with pytest.raises(UsageError, match=r"is not a regular file|cannot be read"):
                keys.key_from_url(f"file:{tmp_path / name}", {}).wrap(DATA_KEY)

    def test_a_new_key_is_ours_alone_and_overwrites_nothing(self, tmp_path: Path) -> None:
        """Whatever the umask."""
        path = tmp_path / "k"
        before = os.umask(0)
        try:
            keys.create_key_file(str(path))
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o7777 == 0o600
        written = path.read_bytes()
        with pytest.raises(UsageError, match="File exists"):
            keys.create_key_file(str(path))
        assert path.read_bytes() == written


class TestPassphrases:
    """From the environment."""

    def test_it_is_taken_out_of_the_environment(self) -> None:
        """No child inherits it; the key still has it."""
        environment = {keys.PASSPHRASE_VARIABLE: "correct horse", "HOME": "/"}
        key = keys.key_from_url("passphrase:", environment)
        assert environment == {"HOME": "/"}
        assert (
            keys.key_from_url("passphrase:", {keys.PASSPHRASE_VARIABLE: "correct horse"}).unwrap(key.wrap(DATA_KEY))
            == DATA_KEY
        )

    def test_without_one_its_variable_is_named(self) -> None:
        """When it is first needed."""
        with pytest.raises(UsageError, match="RESOURCE_API_PASSPHRASE is not set"):
            keys.key_from_url("passphrase:", {}).wrap(DATA_KEY)

    @pytest.mark.parametrize("cost", [{"n": 2**40}, {"r": 0}, {"p": True}, {"n": "32768"}, {"r": 10**6}])
    def test_a_cost_that_nobody_chose_is_refused(self, cost: dict[str, Any]) -> None:
        """At once: an altered state must not keep the machine busy."""
        key = keys.key_from_url("passphrase:", {keys.PASSPHRASE_VARIABLE: "x"})
        wrapped = {"kind": "passphrase", "salt": "00", "n": 2**15, "r": 8, "p": 3, "wrapped": "", **cost}
        with pytest.raises(ValueError, match="scrypt's parameters"):
            key.unwrap(wrapped)


class TestAge:
    """Recipients beside the identity."""

    def test_each_recipient_opens_it_and_nobody_else(self, tmp_path: Path) -> None:
        """Who wraps it can always open it too."""
        mine, theirs, other = (age_key(tmp_path, name) for name in ("mine", "theirs", "other"))
        public = (tmp_path / "theirs").read_text(encoding="utf-8").splitlines()[0].removeprefix("# public key: ")
        (tmp_path / "team").write_text(f"# the team\n\n{public}\n", encoding="utf-8")
        wrapped = keys.key_from_url(f"{mine}?recipients={tmp_path}/team", {}).wrap(DATA_KEY)
        assert keys.key_from_url(mine, {}).unwrap(wrapped) == DATA_KEY
        assert keys.key_from_url(theirs, {}).unwrap(wrapped) == DATA_KEY
        with pytest.raises(ValueError, match=r".+"):
            keys.key_from_url(other, {}).unwrap(wrapped)

    def test_what_is_no_recipient_is_named(self, tmp_path: Path) -> None:
        """With the file that it stands in."""
        mine = age_key(tmp_path, "mine")
        (tmp_path / "team").write_text("age1nonsense\n", encoding="utf-8")
        with pytest.raises(UsageError, match="team: 'age1nonsense' is not a recipient"):
            keys.key_from_url(f"{mine}?recipients={tmp_path}/team", {}).wrap(DATA_KEY)
        with pytest.raises(UsageError, match="the recipients cannot be read"):
            keys.key_from_url(f"{mine}?recipients={tmp_path}/none", {}).wrap(DATA_KEY)


class TestNames:
    """``--key`` in words."""

    @pytest.mark.parametrize("url", ["", "key", "file:", "age:", "passphrase", "vault:x", "/etc/key"])
    def test_anything_else_is_refused(self, url: str) -> None:
        """The message says what to write."""
        with pytest.raises(UsageError, match="write file:PATH, passphrase:, passphrase:PATH, or age:PATH"):
            keys.key_from_url(url, {})

    def test_a_bare_path_gets_the_hint(self) -> None:
        """As with ``--state``."""
        with pytest.raises(UsageError, match=r"did you mean 'file:\./key'"):
            keys.key_from_url("./key", {})

    @pytest.mark.parametrize(("scheme", "package"), [("file", "cryptography"), ("age", "pyrage")])
    def test_a_missing_library_is_named_with_what_installs_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, package: str
    ) -> None:
        """It is an extra: most have no key."""
        url = {"file": file_key, "age": age_key}[scheme](tmp_path, "a")
        for name in [*sys.modules]:
            if name.partition(".")[0] == package:
                monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(UsageError, match=rf"package '{package}': pip install 'resource-api\[\w+\]'"):
            keys.key_from_url(url, {}).wrap(DATA_KEY)


class TestCipher:
    """What is bound stays where it is."""

    def test_another_place_opens_nothing(self) -> None:
        """Nor another key, nor what is no base64."""
        mine, other = aes_gcm.Cipher(aes_gcm.generate_key()), aes_gcm.Cipher(aes_gcm.generate_key())
        text = mine.encrypt(b"sesame", b"here")
        assert mine.decrypt(text, b"here") == b"sesame"
        for key, given, bound in (
            (mine, text, b"there"),
            (other, text, b"here"),
            (mine, "?", b""),
            (mine, "", b"here"),
        ):
            with pytest.raises(ValueError, match=r".+"):
                key.decrypt(given, bound)

    def test_keys_for_two_purposes_are_not_alike(self) -> None:
        """Each is as long as a key must be."""
        key = aes_gcm.generate_key()
        derived = {aes_gcm.derive_key(key, "a"), aes_gcm.derive_key(key, "b"), key}
        assert len(derived) == 3
        assert {len(each) for each in derived} == {aes_gcm.KEY_BYTES}
