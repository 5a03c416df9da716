"""The lock file ``providers.lock``: version and hashes of each provider, in the form of ``.terraform.lock.hcl``.

``h1:`` is the hash of a package's files, the same for a directory and its zip file. Source: Go's ``dirhash.Hash1``.
``sources`` compares a package with it before the package is executed.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from resource_api.terraform import hcl
from resource_api.terraform.packages import DEFAULT_HOSTS, ProviderAddress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The file beside the manifest.
NAME: Final = "providers.lock"
_HEADER: Final = "# Written by 'resource-api providers lock'. Keep it with the manifest.\n"


class LockedProvider(NamedTuple):
    """The version that a lock file names, and the hashes of its package for each platform."""

    version: str
    hashes: Sequence[str] = ()


def package_hash(directory: str) -> str:
    """Return the hash ``h1:`` of an unpacked package."""
    paths = (os.path.join(parent, name) for parent, _, names in os.walk(directory) for name in names)
    lines = hashlib.sha256()
    for name in sorted(os.path.relpath(path, directory) for path in paths):
        with open(os.path.join(directory, name), "rb") as file:
            lines.update(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n".encode())
    return f"h1:{base64.b64encode(lines.digest()).decode()}"


def read(path: str) -> dict[ProviderAddress, LockedProvider] | None:
    """Return the providers of a lock file by address; None where there is none. Raise ``ValueError``."""
    try:
        with open(path, encoding="utf-8") as file:
            blocks = hcl.parse(file.read()).of_type("provider")
            return {ProviderAddress.parse(block.labels[0]): _locked(block) for block in blocks}
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, OSError) as error:
        msg = f"{path} cannot be read: {error}"
        raise ValueError(msg) from error


def _locked(block: hcl.Block) -> LockedProvider:
    """Return a block ``provider`` of a lock file. Raise ``KeyError``, and ``TypeError`` for members of other types."""
    version, hashes = block.attributes["version"], block.attributes["hashes"]
    if not isinstance(version, str) or not isinstance(hashes, list):
        msg = f"provider '{block.labels[0]}' needs a version and hashes"
        raise TypeError(msg)
    return LockedProvider(version, hashes)


def text(providers: Mapping[ProviderAddress, LockedProvider]) -> str:
    """Return the text of a lock file.

    Examples:
        >>> print(text({ProviderAddress("hashicorp", "null"): LockedProvider("2.1.2", ["h1:a="])}))
        # Written by 'resource-api providers lock'. Keep it with the manifest.
        <BLANKLINE>
        provider "registry.opentofu.org/hashicorp/null" {
          version = "2.1.2"
          hashes = [
            "h1:a=",
          ]
        }
        <BLANKLINE>

    """
    blocks = [_HEADER]
    for address in sorted(providers):
        locked = providers[address]
        hashes = "".join(f'    "{value}",\n' for value in sorted(locked.hashes))
        name = address._replace(host=address.host or DEFAULT_HOSTS[0])
        blocks.append(f'provider "{name}" {{\n  version = "{locked.version}"\n  hashes = [\n{hashes}  ]\n}}\n')
    return "\n".join(blocks)
