"""The programs of the Terraform providers that a manifest declares, by path or by source."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from resource_api.model.values.errors import ManifestError, Problem
from resource_api.terraform.executable import ProgramError, ProviderProgram, check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.declaration import ConfiguredProvider, Manifest
    from resource_api.terraform.sources import PackageFinder


def find_all(
    manifest: Manifest, open_trusted: Callable[[str], int], environment: Mapping[str, str], *, locked: bool = True
) -> list[ProviderProgram]:
    """Return the programs of a manifest's providers. Raise ``ManifestError`` with the position of each error.

    ``open_trusted`` opens a file that nobody else can change. Unless ``locked`` the lock file does not matter.
    """
    beside = os.path.abspath(os.path.dirname(manifest.file))

    @cache
    def packages() -> PackageFinder:
        from resource_api.terraform.sources import PackageFinder  # a manifest of paths does not pay for versions

        return PackageFinder(beside, open_trusted, environment)

    def program(declared: ConfiguredProvider) -> ProviderProgram:
        """Return the checked program of one declaration. Raise ``ProgramError``."""
        if declared.source:
            return packages().find(declared, locked=locked)
        path = os.path.abspath(os.path.join(beside, os.path.expanduser(declared.path)))
        check(path, "path", open_trusted)
        return ProviderProgram(declared.name, path)

    programs, problems = [], []
    for declared in manifest.providers.values():
        if not declared.is_program:
            continue
        try:
            programs.append(program(declared))
        except ProgramError as error:
            text = f"{error.key} of the provider '{declared.name}': {error}"
            position = declared.origin.place(error.key)
            problems.append(Problem(None, text, file=position.file, line=position.line, column=position.column))
    if problems:
        raise ManifestError(problems)
    return programs
