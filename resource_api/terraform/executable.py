"""The executable of a declared Terraform provider, which nobody else can change."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from resource_api.model.values.errors import ResourceAPIError, UntrustedCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.terraform.packages import ProviderAddress


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


def check(path: str, key: str, open_trusted: Callable[[str], int]) -> None:
    """Raise ``ProgramError`` for a program that cannot be executed, or that others can change."""
    try:
        descriptor = open_trusted(path)
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        os.close(descriptor)
    except OSError as error:
        msg = f"{path}: {error.strerror}"
        raise ProgramError(msg, key) from error
    except UntrustedCode as error:
        raise ProgramError(str(error), key) from error
    if not is_file or not os.access(path, os.X_OK):
        msg = f"{path} is not executable" if is_file else f"{path} is no file; name the program in it"
        raise ProgramError(msg, key)
