"""The programs of the Terraform providers that a manifest declares, which nobody else can change.

A provider is declared by the path of its program, or by a source: its package is searched in mirrors, and compared with
the lock file before it is executed.
"""

from __future__ import annotations

import os
import stat
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from resource_api.model.values.errors import ManifestError, Problem, ResourceAPIError, ResourceError, UntrustedCode
from resource_api.terraform import packages
from resource_api.terraform.type_names import cache_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packaging.specifiers import SpecifierSet

    from resource_api.model.declaration import ConfiguredProvider, Manifest
    from resource_api.terraform.packages import LockedProvider, Package, ProviderAddress


class ProgramError(ResourceAPIError):
    """A program that cannot be used; ``key`` is the key of the provider that it is about."""

    def __init__(self, message: str, key: str = "source") -> None:
        """Keep the message and the key, for the position of the error in the manifest."""
        super().__init__(message)
        self.key = key


class ProviderProgram(NamedTuple):
    """The program of a declared provider; for a source also its address, its version and its package's directory."""

    name: str
    path: str
    address: ProviderAddress | None = None
    version: str = ""
    directory: str = ""


def find_all(
    manifest: Manifest, open_trusted: Callable[[str], int], environment: Mapping[str, str], *, locked: bool = True
) -> list[ProviderProgram]:
    """Return the programs of a manifest's providers. Raise ``ManifestError`` with the position of each error.

    ``open_trusted`` opens a file that no other user can change. With ``locked`` the lock file, if there is one, decides
    the versions; the command that writes this file passes False.
    """
    finder = _ProgramFinder(os.path.abspath(os.path.dirname(manifest.file)), open_trusted, environment)
    programs, problems = [], []
    for declared in manifest.providers.values():
        if not declared.is_program:
            continue
        try:
            programs.append(finder.find(declared, locked=locked))
        except ProgramError as error:
            text = f"{error.key} of the provider '{declared.name}': {error}"
            position = declared.origin.place(error.key)
            problems.append(Problem(None, text, file=position.file, line=position.line, column=position.column))
    if problems:
        raise ManifestError(problems)
    return programs


def _check(path: str, key: str, open_trusted: Callable[[str], int]) -> None:
    """Raise ``ProgramError``, about a ``key`` of the manifest, for a program that is not executable or not trusted."""
    try:
        descriptor = open_trusted(path)
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        os.close(descriptor)
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}", key) from error
    except UntrustedCode as error:
        raise ProgramError(str(error), key) from error
    if not is_file or not os.access(path, os.X_OK):
        msg = f"{path} is not executable" if is_file else f"{path} is no file; name the program in it"
        raise ProgramError(msg, key)


class _ProgramFinder:
    """Finds and checks the programs of the providers of one manifest."""

    def __init__(self, beside: str, open_trusted: Callable[[str], int], environment: Mapping[str, str]) -> None:
        """Find programs for the manifest in the directory ``beside``, where its lock file and first mirrors are.

        ``open_trusted`` opens a file that no other user can change; ``environment`` has Terraform's own directories.
        """
        self._beside = beside
        self._lock_path = os.path.join(beside, packages.LOCK_FILE)
        self._open_trusted = open_trusted
        self._environment = environment

    @cached_property
    def lock(self) -> Mapping[ProviderAddress, LockedProvider] | None:
        """Address of a provider → its version and hashes in the lock file; None without one. Raise ``ProgramError``."""
        try:
            return packages.read_lock(self._lock_path)
        except ValueError as error:
            raise ProgramError(str(error)) from error

    def find(self, declared: ConfiguredProvider, *, locked: bool = True) -> ProviderProgram:
        """Return the program of a provider. Raise ``ProgramError``.

        A provider with a ``path`` has that program; one with a ``source`` has the locked version, or the newest one.
        """
        if not declared.source:
            path = os.path.abspath(os.path.join(self._beside, os.path.expanduser(declared.path)))
            _check(path, "path", self._open_trusted)
            return ProviderProgram(declared.name, path)
        try:
            return self._of_source(declared, locked=locked)
        except (ResourceError, UntrustedCode, OSError) as error:
            raise ProgramError(str(error)) from error

    def _of_source(self, declared: ConfiguredProvider, *, locked: bool) -> ProviderProgram:
        """Return the program of a provider with a ``source``, from its unpacked package.

        If ``locked`` and there is a lock file, the package must be the one in it.
        """
        address, package = self._package(declared, locked=locked)
        directory = packages.unpacked(package, self._open_trusted, cache_directory(self._environment, "providers"))
        path = packages.executable(directory, address.name)
        _check(path, "source", self._open_trusted)
        program = ProviderProgram(declared.name, path, address, str(package.version), directory)
        if locked and self.lock is not None:
            self._check_hash(program, self.lock[address])
        return program

    def _package(self, declared: ConfiguredProvider, *, locked: bool) -> tuple[ProviderAddress, Package]:
        """Return a provider's address and package: the locked version if ``locked``, otherwise the newest accepted.

        Without a lock file ``locked`` has no effect. Raise ``ProgramError`` with the wrong key of the manifest.
        """
        try:
            address = packages.ProviderAddress.parse(declared.source)
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
        """Return the directories that may have packages of a provider, in order of search. Raise ``ProgramError``."""
        try:
            serving = [mirror for mirror in packages.mirrors(self._beside, self._environment) if mirror.serves(address)]
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
        """Return the package of the version in the lock file, which must be in the range ``accepted``.

        ``locked``: the provider's entry in that file, None without one. Raise ``ProgramError`` with the remedy if the
        ``candidates``, from the ``searched`` directories, lack the version.
        """
        if locked is None:
            raise ProgramError(f"{self._lock_path} has no {address}; 'resource-api providers lock MANIFEST' adds it")
        if not accepted.contains(locked.version):
            msg = (
                f"{self._lock_path} names {locked.version}, which '{accepted}' does not accept;"
                " 'resource-api providers lock MANIFEST' chooses another"
            )
            raise ProgramError(msg, "version")
        package = packages.newest(candidates, packages.version_range(f"=={locked.version}"))
        if package is None:
            text = _not_found(address, f"=={locked.version}", candidates, searched)
            raise ProgramError(f"{text}; {self._lock_path} names that version")
        return package

    def _check_hash(self, program: ProviderProgram, locked: LockedProvider) -> None:
        """Raise ``ProgramError`` unless the unpacked package has a locked hash: it could be another program."""
        digest = packages.package_hash(program.directory)
        if digest not in locked.hashes:
            msg = (
                f"{program.directory} differs from {self._lock_path}: it has {digest};"
                " if that is right, 'resource-api providers lock MANIFEST' writes it"
            )
            raise ProgramError(msg)


def _not_found(address: ProviderAddress, versions: str, candidates: Sequence[Package], searched: Sequence[str]) -> str:
    """Return the error for a provider without a fitting package, with its versions or else the searched directories."""
    there = ", ".join(sorted({str(package.version) for package in candidates}))
    if there:
        return f"no version of {address} for {packages.platform()} fits '{versions}'; there are: {there}"
    fetch = "'tofu providers mirror DIR' puts it into one of them as DIR"
    return f"no {address} for {packages.platform()} in {', '.join(searched)}; {fetch}"
