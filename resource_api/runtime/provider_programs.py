"""The programs of the Terraform providers that a manifest declares, for the command that lists and locks them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from resource_api.plugins.provider_pool import ProviderPool
from resource_api.system.filesystem import files
from resource_api.terraform import lock_file
from resource_api.terraform.family import Family
from resource_api.terraform.lock_file import LockedProvider
from resource_api.terraform.programs import ProgramFinder, find_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.runtime.environment import RunEnvironment
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.terraform.messages import Message
    from resource_api.terraform.packages import ProviderAddress
    from resource_api.terraform.programs import ProviderProgram

#: The mode of a new lock file.
_MODE = 0o644


def programs(
    environment: RunEnvironment, source: Source, inputs: Mapping[str, object], *, locked: bool = True
) -> tuple[ProgramFinder, Sequence[ProviderProgram]]:
    """Return the programs of a manifest's providers, and their finder. Raise ``ManifestError`` for one not found.

    Unless ``locked`` the lock file does not matter.
    """
    with ProviderPool(environment.registry, environment.run) as providers:
        manifest = environment.compiler.read_declarations(source, inputs, providers)
    finder = ProgramFinder(os.path.dirname(manifest.file), environment.registry.trust.open, os.environ)
    return finder, find_all(finder, manifest, locked=locked)


def lock(
    environment: RunEnvironment, source: Source, inputs: Mapping[str, object]
) -> tuple[str, Mapping[ProviderAddress, LockedProvider]]:
    """Write the lock file of a manifest; return its path and its providers.

    Hashes for other platforms are kept where the version stays the same.
    """
    finder, declared = programs(environment, source, inputs, locked=False)
    before = finder.lock or {}
    providers: dict[ProviderAddress, LockedProvider] = {}
    for program in declared:
        if program.address is not None:
            former = before.get(program.address, LockedProvider(""))
            hashes = {lock_file.package_hash(program.directory)}
            hashes |= set(former.hashes if former.version == program.version else ())
            providers[program.address] = LockedProvider(program.version, sorted(hashes))
    files.write_output(finder.lock_path, lock_file.text(providers).encode(), _MODE)
    return finder.lock_path, providers


def schema(program: ProviderProgram) -> Message:
    """Return the schemas of a program, which is started. Raise ``DefinitionError``."""
    family = Family(program.name, program.path, lambda _level, _text: None)
    try:
        return family.schema
    finally:
        family.close()
