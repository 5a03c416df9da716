"""The programs of a manifest's Terraform providers, their lock file and their schemas.

Needs the extra ``terraform``; imported by the command ``providers`` alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import UsageError
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.system.filesystem import files
from resource_api.terraform import packages
from resource_api.terraform.family import Family
from resource_api.terraform.packages import LockedProvider
from resource_api.terraform.programs import find_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.declaration import Manifest
    from resource_api.runtime.environment import RunEnvironment
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.terraform.packages import ProviderAddress
    from resource_api.terraform.programs import ProviderProgram


def programs(environment: RunEnvironment, source: Source, inputs: Mapping[str, object]) -> Sequence[ProviderProgram]:
    """Return the programs of a manifest's providers. Raise ``ManifestError`` for one not found, or not trusted."""
    return find_all(_manifest(environment, source, inputs), environment.registry.trust.open, os.environ)


def _manifest(environment: RunEnvironment, source: Source, inputs: Mapping[str, object]) -> Manifest:
    """Return a manifest with its includes; no program of its providers is searched."""
    with ProviderPool(environment.registry, environment.run) as providers:
        return environment.compiler.read_declarations(source, inputs, providers)


def lock(
    environment: RunEnvironment, source: Source, inputs: Mapping[str, object]
) -> tuple[str, Mapping[ProviderAddress, LockedProvider]]:
    """Write the lock file of a manifest with the hashes of its providers' packages; return its path and its providers.

    Runs then accept only these packages. The former hashes of an unchanged version stay, as they may be those of its
    packages for other platforms. Raise ``UsageError`` for a damaged lock file.
    """
    manifest, open_trusted = _manifest(environment, source, inputs), environment.registry.trust.open
    path = os.path.join(os.path.abspath(os.path.dirname(manifest.file)), packages.LOCK_FILE)
    with errors_as(UsageError):
        before = packages.read_lock(path) or {}
    providers: dict[ProviderAddress, LockedProvider] = {}
    for program in find_all(manifest, open_trusted, os.environ, locked=False):
        if program.address is not None:  # a program that is declared by its path is no package to lock
            former = before.get(program.address, LockedProvider(""))
            hashes = {packages.package_hash(program.directory)}
            hashes |= set(former.hashes if former.version == program.version else ())
            providers[program.address] = LockedProvider(program.version, sorted(hashes))
    files.write_output(path, packages.lock_text(providers).encode(), 0o644)
    return path, providers


def schema(program: ProviderProgram, title: str) -> dict[str, object]:
    """Start the program of a provider, and return the document of its schemas with a title, for ``providers schema``.

    Raise ``DefinitionError`` if it cannot be used.
    """
    family = Family(program.name, program.path, lambda _level, _text: None)  # its log lines are dropped
    try:
        return family.document(title)
    finally:
        family.close()
