"""The packages of Terraform providers that a manifest declares by source, found in mirrors as a lock file says."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from resource_api.model.values.errors import ResourceError, UntrustedCode
from resource_api.terraform import lock_file, mirrors, packages
from resource_api.terraform.executable import ProgramError, ProviderProgram, check
from resource_api.terraform.packages import ProviderAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packaging.specifiers import SpecifierSet

    from resource_api.model.declaration import ConfiguredProvider
    from resource_api.terraform.lock_file import LockedProvider
    from resource_api.terraform.packages import Package


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
        """The lock file, or None. Raise ``ProgramError``."""
        try:
            return lock_file.read(self.lock_path)
        except ValueError as error:
            raise ProgramError(str(error)) from error

    def find(self, declared: ConfiguredProvider, *, locked: bool = True) -> ProviderProgram:
        """Return the program of a provider, unless not ``locked`` the one that the lock file names.

        Raise ``ProgramError``.
        """
        try:
            return self._of_source(declared, locked=locked)
        except (ResourceError, UntrustedCode, OSError) as error:
            raise ProgramError(str(error)) from error

    def _of_source(self, declared: ConfiguredProvider, *, locked: bool) -> ProviderProgram:
        address, package = self._package(declared, locked=locked)
        directory = packages.unpacked(package, self._open_trusted, packages.cache_directory(self._environment))
        path = packages.executable(directory, address.name)
        check(path, "source", self._open_trusted)
        program = ProviderProgram(declared.name, path, address, str(package.version), directory)
        if locked and self.lock is not None:
            self._check_hash(program, self.lock[address])
        return program

    def _package(self, declared: ConfiguredProvider, *, locked: bool) -> tuple[ProviderAddress, Package]:
        """Return the address and the newest package that is declared, or the one of the lock file."""
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
        try:
            serving = [mirror for mirror in mirrors.mirrors(self._beside, self._environment) if mirror.serves(address)]
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
