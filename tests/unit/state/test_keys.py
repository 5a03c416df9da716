"""The keys of users: each unwraps what it wrapped, no other does, and an unsafe file is refused."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.model.values.errors import UsageError
from resource_api.state.encryption import keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Named = Callable[[str], keys.Key]

DATA_KEY = bytes(range(32))


def file_key(path: Path, name: str) -> str:
    """Create a key file; return its URL."""
    keys.create_key_file(str(path / name))
    return f"file:{path / name}"


def passphrase_key(path: Path, name: str) -> str:
    """Write a passphrase; return its URL."""
    file = path / name
    file.write_text(f"correct horse {name}\n", encoding="utf-8")
    file.chmod(0o600)
    return f"passphrase:{file}"


def age_key(path: Path, name: str) -> str:
    """Create an identity file like age-keygen; return its URL."""
    import pyrage

    identity = pyrage.x25519.Identity.generate()
    file = path / name
    file.write_text(f"# public key: {identity.to_public()}\n{identity}\n", encoding="utf-8")
    file.chmod(0o600)
    return f"age:{file}"


@pytest.fixture(params=[file_key, passphrase_key, age_key], ids=["file", "passphrase", "age"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Return a function that creates a key of one kind and returns its URL."""
    return lambda name: request.param(tmp_path, name)


class TestWrapping:
    """The laws of every kind of key."""

    def test_a_key_unwraps_what_it_wrapped(self, make: Callable[[str], str]) -> None:
        """Also if it is loaded again, as in the next command."""
        url = make("a")
        wrapped = keys.key_from_url(url, {}).wrap(DATA_KEY)
        assert keys.key_from_url(url, {}).unwrap(wrapped) == DATA_KEY
        assert DATA_KEY.hex() not in str(wrapped)

    def test_two_wrappings_differ(self, make: Callable[[str], str]) -> None:
        """Comparing them reveals nothing."""
        key = keys.key_from_url(make("a"), {})
        assert key.wrap(DATA_KEY) != key.wrap(DATA_KEY)

    def test_another_key_opens_nothing(self, make: Callable[[str], str]) -> None:
        """Even of the same kind."""
        wrapped = keys.key_from_url(make("a"), {}).wrap(DATA_KEY)
        with pytest.raises(ValueError, match=r".+"):
            keys.key_from_url(make("b"), {}).unwrap(wrapped)

    def test_what_was_altered_opens_nothing(self, make: Callable[[str], str]) -> None:
        """Whichever character was changed."""
        key = keys.key_from_url(make("a"), {})
        wrapped = key.wrap(DATA_KEY)
        text = wrapped["wrapped"]
        for number in range(0, len(text) - 2, 7):
            second = "A" if text[number] != "A" else "B"
            with pytest.raises(ValueError, match=r".+"):
                key.unwrap({**wrapped, "wrapped": text[:number] + second + text[number + 1 :]})

    def test_a_key_of_another_kind_is_a_usage_error(self, make: Callable[[str], str]) -> None:
        """The option is wrong, nothing is damaged."""
        wrapped = {**keys.key_from_url(make("a"), {}).wrap(DATA_KEY), "kind": "other"}
        with pytest.raises(UsageError, match="another kind of key, other:"):
            keys.key_from_url(make("a2"), {}).unwrap(wrapped)


def test_a_passphrase_may_have_any_bytes(tmp_path: Path) -> None:
    """In a variable as in a file."""
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    (tmp_path / "latin").chmod(0o600)
    environment = {keys.PASSPHRASE_VARIABLE: os.fsdecode(b"caf\xe9")}
    wrapped = keys.key_from_url("passphrase:", environment).wrap(DATA_KEY)
    assert keys.key_from_url(f"passphrase:{tmp_path}/latin", {}).unwrap(wrapped) == DATA_KEY


class TestFiles:
    """The conditions of a key file."""

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o601])
    def test_no_other_user_has_any_permission(self, make: Callable[[str], str], mode: int) -> None:
        """The message contains the command to run."""
        url = make("a")
        path = url.partition(":")[2]
        os.chmod(path, mode)  # noqa: PTH101 - the path is text
        with pytest.raises(UsageError, match=f"others can use this key; run: chmod go= {path}"):
            keys.key_from_url(url, {}).wrap(DATA_KEY)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_it_belongs_to_root_or_to_the_caller(self, make: Callable[[str], str]) -> None:
        """Another owner could replace it."""
        url = make("a")
        os.chown(url.partition(":")[2], 1234, 1234)
        with pytest.raises(UsageError, match="belongs to another user"):
            keys.key_from_url(url, {}).wrap(DATA_KEY)

    def test_a_link_that_others_could_have_created_is_not_followed(self, tmp_path: Path) -> None:
        """A link of the caller is followed."""
        url = file_key(tmp_path, "a")
        path, public = tmp_path / "own", tmp_path / "public"
        path.symlink_to(tmp_path / "a")
        public.mkdir(mode=0o777)
        public.chmod(0o777)
        (public / "link").symlink_to(tmp_path / "a")
        wrapped = keys.key_from_url(url, {}).wrap(DATA_KEY)
        assert keys.key_from_url(f"file:{path}", {}).unwrap(wrapped) == DATA_KEY
        with pytest.raises(UsageError, match="a symbolic link on the path"):
            keys.key_from_url(f"file:{public}/link", {}).unwrap(wrapped)

    def test_an_invalid_key_is_refused_without_its_content(self, tmp_path: Path) -> None:
        """The file may contain another secret."""
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
        """With the error of the system."""
        with pytest.raises(UsageError, match="missing: the key cannot be read: No such file"):
            keys.key_from_url(f"{scheme}:{tmp_path}/missing", {}).wrap(DATA_KEY)

    def test_a_directory_and_a_pipe_are_no_keys(self, tmp_path: Path) -> None:
        """A pipe without a writer does not block."""
        os.mkfifo(tmp_path / "pipe", 0o600)
        for name in (".", "pipe"):
            with pytest.raises(UsageError, match=r"is not a regular file|cannot be read"):
                keys.key_from_url(f"file:{tmp_path / name}", {}).wrap(DATA_KEY)

    def test_a_new_key_file_is_private_and_overwrites_nothing(self, tmp_path: Path) -> None:
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
    """Passphrases from the environment."""

    def test_it_is_removed_from_the_environment(self) -> None:
        """No child process inherits it; the key still has it."""
        environment = {keys.PASSPHRASE_VARIABLE: "correct horse", "HOME": "/"}
        key = keys.key_from_url("passphrase:", environment)
        assert environment == {"HOME": "/"}
        assert (
            keys.key_from_url("passphrase:", {keys.PASSPHRASE_VARIABLE: "correct horse"}).unwrap(key.wrap(DATA_KEY))
            == DATA_KEY
        )

    def test_without_one_its_variable_is_named(self) -> None:
        """When the key is first used."""
        with pytest.raises(UsageError, match="RESOURCE_API_PASSPHRASE is not set"):
            keys.key_from_url("passphrase:", {}).wrap(DATA_KEY)

    @pytest.mark.parametrize("cost", [{"n": 2**40}, {"r": 0}, {"p": True}, {"n": "32768"}, {"r": 10**6}])
    def test_a_cost_out_of_range_is_refused(self, cost: dict[str, Any]) -> None:
        """Before it is computed: altered data must not keep the machine busy."""
        key = keys.key_from_url("passphrase:", {keys.PASSPHRASE_VARIABLE: "x"})
        wrapped = {"kind": "passphrase", "salt": "00", "n": 2**15, "r": 8, "p": 3, "wrapped": "", **cost}
        with pytest.raises(ValueError, match="scrypt's parameters"):
            key.unwrap(wrapped)


class TestAge:
    """Recipients in addition to the identity."""

    def test_only_recipients_open_it(self, tmp_path: Path) -> None:
        """The key that wraps it is always a recipient."""
        mine, theirs, second = (age_key(tmp_path, name) for name in ("mine", "theirs", "other"))
        public = (tmp_path / "theirs").read_text(encoding="utf-8").splitlines()[0].removeprefix("# public key: ")
        (tmp_path / "team").write_text(f"# the team\n\n{public}\n", encoding="utf-8")
        wrapped = keys.key_from_url(f"{mine}?recipients={tmp_path}/team", {}).wrap(DATA_KEY)
        assert keys.key_from_url(mine, {}).unwrap(wrapped) == DATA_KEY
        assert keys.key_from_url(theirs, {}).unwrap(wrapped) == DATA_KEY
        with pytest.raises(ValueError, match=r".+"):
            keys.key_from_url(second, {}).unwrap(wrapped)

    def test_an_invalid_recipient_is_named(self, tmp_path: Path) -> None:
        """With its file."""
        mine = age_key(tmp_path, "mine")
        (tmp_path / "team").write_text("age1nonsense\n", encoding="utf-8")
        with pytest.raises(UsageError, match="team: 'age1nonsense' is not a recipient"):
            keys.key_from_url(f"{mine}?recipients={tmp_path}/team", {}).wrap(DATA_KEY)
        with pytest.raises(UsageError, match="the recipients cannot be read"):
            keys.key_from_url(f"{mine}?recipients={tmp_path}/none", {}).wrap(DATA_KEY)


class TestUrl:
    """The URL after ``--key``."""

    @pytest.mark.parametrize("url", ["", "key", "file:", "age:", "passphrase", "vault:x", "/etc/key"])
    def test_anything_else_is_refused(self, url: str) -> None:
        """The message lists the valid forms."""
        with pytest.raises(UsageError, match="write file:PATH, passphrase:, passphrase:PATH, or age:PATH"):
            keys.key_from_url(url, {})

    def test_a_bare_path_gets_the_hint(self) -> None:
        """The hint is the URL of that path."""
        with pytest.raises(UsageError, match=r"did you mean 'file:\./key'"):
            keys.key_from_url("./key", {})

    @pytest.mark.parametrize(("scheme", "package"), [("file", "cryptography"), ("age", "pyrage")])
    def test_a_missing_library_is_named_with_what_installs_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, package: str
    ) -> None:
        """The libraries are optional."""
        url = {"file": file_key, "age": age_key}[scheme](tmp_path, "a")
        for name in [*sys.modules]:
            if name.partition(".")[0] == package:
                monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(UsageError, match=rf"package '{package}': pip install 'resource-api\[\w+\]'"):
            keys.key_from_url(url, {}).wrap(DATA_KEY)


class TestCipher:
    """The cipher."""

    def test_ciphertext_is_bound_to_its_place(self) -> None:
        """Another key or invalid base64 opens nothing either."""
        mine, cipher = keys.Cipher(keys.generate_key()), keys.Cipher(keys.generate_key())
        text = mine.encrypt(b"sesame", b"here")
        assert mine.decrypt(text, b"here") == b"sesame"
        for key, arguments, bound in (
            (mine, text, b"there"),
            (cipher, text, b"here"),
            (mine, "?", b""),
            (mine, "", b"here"),
        ):
            with pytest.raises(ValueError, match=r".+"):
                key.decrypt(arguments, bound)

    def test_keys_for_two_purposes_differ(self) -> None:
        """Each has the length of a key."""
        key = keys.generate_key()
        derived = {keys.derive_key(key, "a"), keys.derive_key(key, "b"), key}
        assert len(derived) == 3
        assert {len(item) for item in derived} == {keys.KEY_BYTES}
