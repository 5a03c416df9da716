"""Packages of Terraform providers on this machine: addresses, versions, mirrors in both layouts, executables.

A mirror has unpacked packages, ``HOST/NAMESPACE/NAME/VERSION/linux_amd64/``, and packed ones,
``HOST/NAMESPACE/NAME/terraform-provider-NAME_VERSION_linux_amd64.zip``. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from resource_api.model.values.assets import Limits
from resource_api.model.values.errors import ResourceError
from resource_api.model.values.text import shell_word
from resource_api.system.filesystem import archive_members, private_files
from resource_api.system.filesystem.directories import make_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from resource_api.model.values.assets import Member

#: The registries whose packages are the same, under addresses without a host.
DEFAULT_HOSTS: Final = ("registry.opentofu.org", "registry.terraform.io")
_NAME: Final = re.compile(r"[0-9a-z](?:[0-9a-z_-]*[0-9a-z])?\Z")
_HOST: Final = re.compile(r"[0-9a-z-]+(?:\.[0-9a-z-]+)+(?::\d+)?\Z")
#: Machines of the kernel → architectures of Go.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv6l": "arm", "armv7l": "arm", "i686": "386"}
#: Terraform's operators of versions, and their forms here.
_TERRAFORM_OPERATORS: Final = re.compile(r"~>\s*|(?<![=!<>~])=(?!=)\s*")
#: The largest package: the ones of the big clouds have 800 MB.
_LIMITS: Final = Limits(size=4 << 30, members=1000)


class ProviderAddress(NamedTuple):
    """The address of a provider; one without a host is that of both default registries."""

    namespace: str
    name: str
    host: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return an address. Raise ``ValueError`` for a text that is none.

        Examples:
            >>> str(ProviderAddress.parse("registry.terraform.io/hashicorp/null"))
            'hashicorp/null'

        """
        host, namespace, name = ["", *text.split("/")][-3:] if text.count("/") in {1, 2} else ("", "", "")
        if not (_NAME.match(namespace) and _NAME.match(name) and (_HOST.match(host) or not host)):
            msg = f"'{text}' is no address of a provider; write [HOST/]NAMESPACE/NAME, such as hashicorp/vsphere"
            raise ValueError(msg)
        return cls(namespace, name, "" if host in DEFAULT_HOSTS else host)

    def __str__(self) -> str:
        """Return the address as it is written."""
        return f"{self.host}{'/' if self.host else ''}{self.namespace}/{self.name}"

    @property
    def directories(self) -> Sequence[str]:
        """The directories of the provider below a mirror."""
        return [f"{host}/{self.namespace}/{self.name}" for host in ([self.host] if self.host else DEFAULT_HOSTS)]


class Package(NamedTuple):
    """One version of a provider for this machine: a directory, or a zip file."""

    version: Version
    path: str

    @property
    def is_packed(self) -> bool:
        """Whether it is a zip file."""
        return self.path.endswith(".zip")


def platform() -> str:
    """Return the name of this machine's platform in mirrors."""
    machine = os.uname().machine
    return f"linux_{_ARCHITECTURES.get(machine, machine)}"


def version_range(text: str) -> SpecifierSet:
    """Return a range of versions. Raise ``ValueError``, with a hint for one in the form of Terraform.

    Examples:
        >>> version_range("~> 2.0")
        Traceback (most recent call last):
        ...
        ValueError: '~> 2.0' is not a range of versions; write '~=2.0'

    """
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        written = _TERRAFORM_OPERATORS.sub(lambda match: "~=" if match[0][0] == "~" else "==", text)
        with suppress(InvalidSpecifier):
            SpecifierSet(written)
            msg = f"'{text}' is not a range of versions; write '{written}'"
            raise ValueError(msg) from None
    msg = f"'{text}' is not a range of versions; write '>=1.2', '~=1.4' or '==2.0.1'"
    raise ValueError(msg)


def find(address: ProviderAddress, mirrors: Iterable[str]) -> Iterator[Package]:
    """Yield the packages of a provider in mirrors, in their order."""
    for mirror in mirrors:
        for directory in address.directories:
            path = os.path.join(mirror, directory)
            for name in _names(path):
                if (package := _package(path, name, address.name)) is not None:
                    yield package


def _names(path: str) -> list[str]:
    """Return the sorted entries of a directory, none where it is missing or cannot be read, as most mirrors are."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _package(directory: str, entry: str, name: str) -> Package | None:
    """Return the package at a directory entry, a zip file or a directory named by version; None for any other entry."""
    start, end = f"terraform-provider-{name}_", f"_{platform()}.zip"
    if entry.startswith(start) and entry.endswith(end):
        version, path = entry[len(start) : -len(end)], os.path.join(directory, entry)
    else:
        version, path = entry, os.path.join(directory, entry, platform())
        if not os.path.isdir(path):
            return None
    try:
        return Package(Version(version), path)
    except InvalidVersion:
        return None


def newest(packages: Iterable[Package], accepted: SpecifierSet) -> Package | None:
    """Return the newest accepted package, of equal ones the first; None where there is none."""
    fitting = [package for package in packages if accepted.contains(package.version)]
    return max(fitting, key=lambda package: package.version) if fitting else None


def executable(directory: str, name: str) -> str:
    """Return the path of the program in an unpacked package. Raise ``ResourceError`` unless there is exactly one."""
    start = f"terraform-provider-{name}"
    programs = [entry for entry in _names(directory) if entry == start or entry.startswith(f"{start}_")]
    if len(programs) != 1:
        msg = f"{directory} has {len(programs) or 'no'} program{'s' if programs else ''} {start}"
        raise ResourceError(msg)
    return os.path.join(directory, programs[0])


def unpacked(package: Package, open_trusted: Callable[[str], int], cache: str) -> str:
    """Return the directory of a package; a zip file is unpacked once, into ``cache``.

    ``open_trusted`` opens a file that nobody else can change. Raise ``ResourceError``, ``UntrustedCode``, ``OSError``.
    """
    if not package.is_packed:
        return package.path
    with os.fdopen(open_trusted(package.path), "rb") as file:
        status = os.fstat(file.fileno())
        identity = package.path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        directory = os.path.join(cache, hashlib.sha256(repr(identity).encode()).hexdigest())
        make_directory(cache)
        if not private_files.is_private_directory(cache):
            msg = f"{cache} is not a directory that only you can change; run: chmod 700 {shell_word(cache)}"
            raise ResourceError(msg)
        if os.path.isdir(directory):
            return directory
        temporary = tempfile.mkdtemp(dir=cache)
        try:
            for member in archive_members.members(file, _LIMITS):
                _write(temporary, member)
            with suppress(FileExistsError):  # another run was faster
                os.rename(temporary, directory)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return directory


def _write(directory: str, member: Member) -> None:
    """Unpack a member of a package; links are refused, because none has any."""
    path = os.path.join(directory, member.name)
    if member.kind == "directory":
        os.makedirs(path, exist_ok=True)
        return
    if member.kind != "file":
        msg = f"'{member.name}' is a link, which no package of a provider has"
        raise ResourceError(msg)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
    with os.fdopen(descriptor, "wb") as file:
        for part in member.parts:
            file.write(part)
