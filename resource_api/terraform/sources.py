"""The packages of Terraform providers that a manifest declares by source, found in mirrors as a lock file says.

Mirrors are the directories that ``init`` fills, and the mirrors and caches that the command-line tools of Terraform and
OpenTofu know: from their configuration file, or where it has no ``provider_installation``, their default ones.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from functools import cached_property
from string import Template
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.model.values.errors import ResourceError, UntrustedCode
from resource_api.terraform import hcl, lock_file, packages
from resource_api.terraform.executable import ProgramError, ProviderProgram, check
from resource_api.terraform.packages import DEFAULT_HOSTS, ProviderAddress
from resource_api.terraform.type_names import cache_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packaging.specifiers import SpecifierSet

    from resource_api.model.declaration import ConfiguredProvider
    from resource_api.terraform.lock_file import LockedProvider
    from resource_api.terraform.packages import Package

#: Where ``init`` puts packages, and where a project keeps its own, beside the manifest.
_BESIDE: Final = (".terraform/providers", "terraform.d/plugins")
_SYSTEM: Final = ("/usr/local/share", "/usr/share")
_TOOLS: Final = ("opentofu", "terraform")


class Mirror(NamedTuple):
    """A directory of packages; ``include`` and ``exclude`` are patterns of addresses, an empty ``include`` is all."""

    path: str
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def serves(self, address: ProviderAddress) -> bool:
        """Return whether packages of a provider may be in it."""
        included = not self.include or any(_matches(pattern, address) for pattern in self.include)
        return included and not any(_matches(pattern, address) for pattern in self.exclude)


def _matches(pattern: str, address: ProviderAddress) -> bool:
    """Whether a pattern ``HOST/NAMESPACE/NAME`` fits; an address without a host is in both default registries."""
    host, namespace, name = ["", *pattern.split("/")][-3:]
    hosts = [address.host] if address.host else ["", *DEFAULT_HOSTS]
    return any(fnmatchcase(host_name, host) for host_name in hosts) and all(
        map(fnmatchcase, (address.namespace, address.name), (namespace, name))
    )


def mirrors(beside: str, environment: Mapping[str, str]) -> Iterator[Mirror]:
    """Yield the directories to search, the first hit wins; ``beside`` is the directory of the manifest.

    Raise ``ValueError`` for a configuration file that is not understood.
    """
    yield from (Mirror(os.path.join(beside, directory)) for directory in _BESIDE)
    home = environment.get("HOME", "")
    configuration = _configuration(environment, home)
    cache = environment.get("TF_PLUGIN_CACHE_DIR") or configuration.attributes.get("plugin_cache_dir")
    if isinstance(cache, str):
        yield Mirror(_expanded(cache, environment))
    installations = list(configuration.of_type("provider_installation"))
    if installations:
        for block in installations[0].of_type("filesystem_mirror"):
            yield _filesystem_mirror(block.attributes, environment)
        return
    data = environment.get("XDG_DATA_HOME", "")
    data = data if os.path.isabs(data) else os.path.join(home, ".local/share")
    yield Mirror(os.path.join(home, ".terraform.d/plugins"))
    yield from (Mirror(os.path.join(base, tool, "plugins")) for base in (data, *_SYSTEM) for tool in _TOOLS)


def _filesystem_mirror(attributes: Mapping[str, Any], environment: Mapping[str, str]) -> Mirror:
    """Return a ``filesystem_mirror`` of the CLI configuration. Raise ``ValueError`` for wrong members."""
    path = attributes.get("path") or ""
    include, exclude = (attributes.get(key) or [] for key in ("include", "exclude"))
    if not (isinstance(path, str) and isinstance(include, list) and isinstance(exclude, list)):
        msg = "a filesystem_mirror has a path, and may have lists include and exclude"
        raise ValueError(msg)  # noqa: TRY004 - as for every mistake in the file
    return Mirror(_expanded(path, environment), include, exclude)


def _configuration(environment: Mapping[str, str], home: str) -> hcl.Block:
    """Return the configuration of Terraform's or OpenTofu's command, an empty one where there is none."""
    config_home = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    files = [os.path.join(home, ".tofurc"), f"{config_home}/opentofu/tofurc", os.path.join(home, ".terraformrc")]
    stated = environment.get("TF_CLI_CONFIG_FILE", "")
    for path in [stated] if stated else files:
        try:
            with open(path, encoding="utf-8") as file:
                return hcl.parse(file.read())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            msg = f"{path}: {error}"
            raise ValueError(msg) from error
    return hcl.Block("", (), {}, [])


def _expanded(path: str, environment: Mapping[str, str]) -> str:
    """Return a path with ``~`` and the variables in it replaced; unknown variables stay."""
    path = Template(path).safe_substitute(environment)
    return os.path.join(environment.get("HOME", ""), path[2:]) if path.startswith("~/") else path


class PackageFinder:
    """Finds the packages of the providers of one manifest, as the lock file says."""

    def __init__(self, beside: str, open_trusted: Callable[[str], int], environment: Mapping[str, str]) -> None:
        """Search from the directory ``beside`` on; ``open_trusted`` opens a file that nobody else can change."""
        self._beside = os.path.abspath(beside)
        self._open_trusted = open_trusted
        self._environment = environment

    @property
    def lock_path(self) -> str:
        """The path of the lock file."""
        return os.path.join(self._beside, lock_file.NAME)

    @cached_property
    def lock(self) -> Mapping[ProviderAddress, LockedProvider] | None:
        """The providers in the lock file by address, None without a file. Raise ``ProgramError``."""
        try:
            return lock_file.read(self.lock_path)
        except ValueError as error:
            raise ProgramError(str(error)) from error

    def find(self, declared: ConfiguredProvider, *, locked: bool = True) -> ProviderProgram:
        """Return the program of a provider: the version in the lock file, or the newest one for ``locked=False``.

        Raise ``ProgramError``.
        """
        try:
            return self._of_source(declared, locked=locked)
        except (ResourceError, UntrustedCode, OSError) as error:
            raise ProgramError(str(error)) from error

    def _of_source(self, declared: ConfiguredProvider, *, locked: bool) -> ProviderProgram:
        """Return the program of a provider with ``source``, unpacked into the cache and checked against the lock."""
        address, package = self._package(declared, locked=locked)
        directory = packages.unpacked(package, self._open_trusted, cache_directory(self._environment, "providers"))
        path = packages.executable(directory, address.name)
        check(path, "source", self._open_trusted)
        program = ProviderProgram(declared.name, path, address, str(package.version), directory)
        if locked and self.lock is not None:
            self._check_hash(program, self.lock[address])
        return program

    def _package(self, declared: ConfiguredProvider, *, locked: bool) -> tuple[ProviderAddress, Package]:
        """Return the address and the newest declared package, or that of the lock file. Raise ``ProgramError``."""
        try:
            address = ProviderAddress.parse(declared.source)
        except ValueError as error:
            raise ProgramError(str(error)) from error
        try:
            accepted = packages.version_range(declared.version)
        except ValueError as error:
            raise ProgramError(str(error), "version") from error
        searched = self._mirrors(address)
        candidates = list(packages.find(address, searched))
        lock = self.lock if locked else None
        if lock is not None:
            return address, self._locked_package(address, lock.get(address), accepted, candidates, searched)
        if (package := packages.newest(candidates, accepted)) is None:
            raise ProgramError(_not_found(address, declared.version, candidates, searched))
        return address, package

    def _mirrors(self, address: ProviderAddress) -> list[str]:
        """Return the directories that may have the provider, each once, the first to search first."""
        try:
            serving = [mirror for mirror in mirrors(self._beside, self._environment) if mirror.serves(address)]
        except ValueError as error:
            raise ProgramError(str(error)) from error
        return list(dict.fromkeys(mirror.path for mirror in serving))

    def _locked_package(
        self,
        address: ProviderAddress,
        locked: LockedProvider | None,
        accepted: SpecifierSet,
        candidates: Sequence[Package],
        searched: Sequence[str],
    ) -> Package:
        """Return the package of the version that the lock names. Raise ``ProgramError`` with the remedy."""
        if locked is None:
            msg = f"{self.lock_path} has no {address}; 'resource-api providers lock MANIFEST' adds it"
            raise ProgramError(msg)
        if not accepted.contains(locked.version):
            msg = (
                f"{self.lock_path} names {locked.version}, which '{accepted}' does not accept;"
                " 'resource-api providers lock MANIFEST' chooses another"
            )
            raise ProgramError(msg, "version")
        package = packages.newest(candidates, packages.version_range(f"=={locked.version}"))
        if package is None:
            text = _not_found(address, f"=={locked.version}", candidates, searched)
            msg = f"{text}; {self.lock_path} names that version"
            raise ProgramError(msg)
        return package

    def _check_hash(self, program: ProviderProgram, locked: LockedProvider) -> None:
        """Raise ``ProgramError`` unless the unpacked package has a hash of the lock."""
        digest = lock_file.package_hash(program.directory)
        if digest not in locked.hashes:
            msg = (
                f"{program.directory} differs from {self.lock_path}: it has {digest};"
                " if that is right, 'resource-api providers lock MANIFEST' writes it"
            )
            raise ProgramError(msg)


def _not_found(address: ProviderAddress, versions: str, candidates: Sequence[Package], searched: Sequence[str]) -> str:
    """Return the error for a source without a package, with all directories that were searched."""
    there = ", ".join(sorted({str(package.version) for package in candidates}))
    if there:
        return f"no version of {address} for {packages.platform()} fits '{versions}'; there are: {there}"
    fetch = "'tofu providers mirror DIR' puts it into one of them as DIR"
    return f"no {address} for {packages.platform()} in {', '.join(searched)}; {fetch}"
