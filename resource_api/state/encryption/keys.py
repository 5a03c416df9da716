"""The keys that people hold, by the text after ``--key``: a key file, a passphrase, an age identity.

Each wraps the data keys of stacks and saved plans and gives them back; secrets themselves never meet them. A key is
read when it is first needed, from a file that nobody else can read. ``pyrage`` is imported for age alone.
"""

from __future__ import annotations

import os
import stat
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final, Protocol

from resource_api.model.values.errors import UsageError
from resource_api.state.encryption import aes_gcm as cipher
from resource_api.system.filesystem.directories import Directories

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from types import ModuleType

#: What a wrapped data key is bound to, so that it is taken for nothing else.
_PURPOSE: Final = b"resource-api data key"
#: The variable that a passphrase is taken from.
PASSPHRASE_VARIABLE: Final = "RESOURCE_API_PASSPHRASE"  # noqa: S105 - a name
#: scrypt's cost, one of the equal choices of OWASP's Password Storage Cheat Sheet: 32 MiB; stored with what is wrapped.
_SCRYPT: Final = {"n": 2**15, "r": 8, "p": 3}
#: What is accepted of it: whoever altered it must not be able to keep a machine busy.
_COSTLIEST: Final = {"n": 2**20, "r": 32, "p": 16}
_LONGEST: Final = 64 * 1024
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Key(Protocol):
    """Wraps data keys. ``url`` names it and is no secret."""

    url: str

    def wrap(self, data_key: bytes) -> dict[str, Any]:
        """Give a data key as plain JSON data that only this key opens. Raises ``UsageError``."""
        ...

    def unwrap(self, wrapped: Mapping[str, Any]) -> bytes:
        """Give the data key. Raises ``ValueError`` when this is not the key, ``UsageError`` when it cannot be one."""
        ...


def key_from_url(url: str, environment: MutableMapping[str, str]) -> Key:
    """Give the key called ``file:PATH``, ``passphrase:[PATH]`` or ``age:PATH``; nothing is read yet.

    A passphrase is taken out of ``environment``, so that no child inherits it. Raises ``UsageError``.
    """
    scheme, colon, rest = url.partition(":")
    if scheme == "file" and rest:
        return FileKey(url, rest)
    if scheme == "passphrase" and colon:
        return PassphraseKey(url, rest, "" if rest else environment.pop(PASSPHRASE_VARIABLE, ""))
    if scheme == "age" and rest:
        path, _, recipients = rest.partition("?recipients=")
        return AgeKey(url, path, recipients)
    hint = "" if colon else f"; did you mean 'file:{url}'?"
    msg = f"the key {url}: write file:PATH, passphrase:, passphrase:PATH, or age:PATH{hint}"
    raise UsageError(msg)


class FileKey:
    """32 random bytes in a file, in base64."""

    def __init__(self, url: str, path: str) -> None:
        """Know where."""
        self.url = url
        self._path = path
        self._cipher: cipher.Cipher | None = None

    def wrap(self, data_key: bytes) -> dict[str, Any]:
        """Encrypt it under the file's key."""
        return {"kind": "file", "wrapped": self._opened().encrypt(data_key, _PURPOSE)}

    def unwrap(self, wrapped: Mapping[str, Any]) -> bytes:
        """Decrypt it."""
        return self._opened().decrypt(_of_kind("file", wrapped), _PURPOSE)

    def _opened(self) -> cipher.Cipher:
        if self._cipher is None:
            try:
                key = b64decode(read_private_file(self._path).strip(), validate=True)
            except ValueError:
                key = b""
            if len(key) != cipher.KEY:
                msg = f"{self._path}: is no key file; 'resource-api new key PATH' makes one"
                raise UsageError(msg)
            self._cipher = cipher.Cipher(key)
        return self._cipher


class PassphraseKey:
    """A passphrase, made a key by scrypt (RFC 7914), with a salt of its own for each data key."""

    def __init__(self, url: str, path: str, passphrase: str) -> None:
        """Take the passphrase, or know which file it is in."""
        self.url = url
        self._path = path
        self._passphrase = passphrase.encode()
        self._made: dict[tuple[Any, ...], cipher.Cipher] = {}

    def wrap(self, data_key: bytes) -> dict[str, Any]:
        """Encrypt it; what scrypt was given goes with it."""
        salt = os.urandom(16)
        wrapped = self._made_of(salt, _SCRYPT).encrypt(data_key, _PURPOSE)
        return {"kind": "passphrase", "salt": salt.hex(), **_SCRYPT, "wrapped": wrapped}

    def unwrap(self, wrapped: Mapping[str, Any]) -> bytes:
        """Decrypt it with what scrypt was given then."""
        text = _of_kind("passphrase", wrapped)
        cost = {name: wrapped.get(name) for name in _SCRYPT}
        if any(type(value) is not int or not 0 < value <= _COSTLIEST[name] for name, value in cost.items()):
            msg = "scrypt's parameters are not what was written"
            raise ValueError(msg)
        return self._made_of(bytes.fromhex(wrapped["salt"]), cost).decrypt(text, _PURPOSE)

    def _made_of(self, salt: bytes, cost: Mapping[str, Any]) -> cipher.Cipher:
        from hashlib import scrypt  # noqa: PLC0415 - only for a passphrase

        given = (salt, *cost.values())
        if given not in self._made:
            key = scrypt(self._given(), salt=salt, **cost, maxmem=2**31 - 1, dklen=cipher.KEY)
            self._made[given] = cipher.Cipher(key)
        return self._made[given]

    def _given(self) -> bytes:
        passphrase = self._passphrase or (read_private_file(self._path).strip(b"\r\n") if self._path else b"")
        if not passphrase:
            msg = f"--key {self.url}: " + (
                f"{self._path} is empty" if self._path else f"{PASSPHRASE_VARIABLE} is not set"
            )
            raise UsageError(msg)
        return passphrase


class AgeKey:
    """An identity of age (https://age-encryption.org/v1); everyone among the recipients can open what it wraps."""

    def __init__(self, url: str, path: str, recipients: str) -> None:
        """Know where the identities are, and the recipients beside them."""
        self.url = url
        self._path = path
        self._recipients = recipients

    def wrap(self, data_key: bytes) -> dict[str, Any]:
        """Encrypt it to the identities themselves and to the recipients that are listed."""
        pyrage = _pyrage()
        recipients = [identity.to_public() for identity in self._identities(pyrage)]
        if self._recipients:
            recipients += [_recipient(pyrage, line, self._recipients) for line in _lines(_read(self._recipients))]
        return {"kind": "age", "wrapped": b64encode(pyrage.encrypt(data_key, recipients)).decode("ascii")}

    def unwrap(self, wrapped: Mapping[str, Any]) -> bytes:
        """Decrypt it."""
        pyrage = _pyrage()
        data = b64decode(_of_kind("age", wrapped), validate=True)
        try:
            found: bytes = pyrage.decrypt(data, self._identities(pyrage))
        except pyrage.DecryptError as error:
            raise ValueError(str(error)) from error
        return found

    def _identities(self, pyrage: ModuleType) -> list[Any]:
        try:
            found = [pyrage.x25519.Identity.from_str(line) for line in _lines(read_private_file(self._path))]
        except pyrage.IdentityError:
            found = []
        if not found:
            msg = f"{self._path}: is no file of age identities (AGE-SECRET-KEY-1...); age-keygen makes one"
            raise UsageError(msg)
        return found


def create_key_file(path: str) -> None:
    """Write a new key file at ``path``, for us alone. Raises ``UsageError`` where something is already."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
            os.fchmod(file.fileno(), 0o600)
            file.write(b64encode(cipher.fresh_key()) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        msg = f"cannot make the key file {path}: {error.strerror}"
        raise UsageError(msg) from error


def read_private_file(path: str) -> bytes:
    """Give what is in a file that only we can read, reached by no link that others could have put there.

    Raises ``UsageError``.
    """
    try:
        with Directories() as held:
            directory, name = held.follow(os.path.join(os.getcwd(), path))  # noqa: PTH109, PTH118 - the path is text
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(name, flags, dir_fd=directory.fd), "rb") as file:  # noqa: PTH123 - a descriptor
                if why := _unfit(os.fstat(file.fileno()), path):
                    raise UsageError(why)
                return file.read(_LONGEST)
    except OSError as error:
        msg = f"{path}: the key cannot be read: {error.strerror}"
        raise UsageError(msg) from error


def _unfit(seen: os.stat_result, path: str) -> str:
    if not stat.S_ISREG(seen.st_mode):
        return f"{path}: is no file"
    if seen.st_uid not in {0, os.geteuid()}:
        return f"{path}: belongs to another user (uid {seen.st_uid}); a key must be root's or one's own"
    if seen.st_mode & _OTHERS:
        return f"{path}: others can use this key: chmod go= {path}"
    return ""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the path is text
            return file.read(_LONGEST)
    except OSError as error:
        msg = f"{path}: the recipients cannot be read: {error.strerror}"
        raise UsageError(msg) from error


def _lines(data: bytes) -> list[str]:
    lines = (line.strip() for line in data.decode("utf-8", "replace").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _recipient(pyrage: ModuleType, line: str, path: str) -> Any:
    kind = pyrage.ssh if line.startswith("ssh-") else pyrage.x25519
    try:
        return kind.Recipient.from_str(line)
    except pyrage.RecipientError as error:
        msg = f"{path}: '{line}' is no recipient: {error}"
        raise UsageError(msg) from error


def _of_kind(kind: str, wrapped: Mapping[str, Any]) -> str:
    """Give what was wrapped by a key of one kind. Raises ``UsageError`` for another kind, which is another key."""
    if wrapped.get("kind") != kind:
        msg = f"it was encrypted with another kind of key, {wrapped.get('kind')}:..."
        raise UsageError(msg)
    text: str = wrapped["wrapped"]
    return text


def _pyrage() -> ModuleType:
    try:
        import pyrage  # type: ignore[import-untyped]  # noqa: PLC0415 - only for age
    except ImportError:
        msg = "a key of age needs the package 'pyrage': pip install 'resource-api[age]'"
        raise UsageError(msg) from None
    found: ModuleType = pyrage
    return found
