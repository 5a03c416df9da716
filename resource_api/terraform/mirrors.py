"""The directories in which packages of Terraform providers are searched.

They are those that ``init`` fills, and the mirrors and caches that the command-line tools of Terraform and OpenTofu
know: from their configuration file, or where it has no ``provider_installation``, their default ones.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.terraform import hcl
from resource_api.terraform.packages import DEFAULT_HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.terraform.packages import ProviderAddress

#: Where ``init`` puts packages, and where a project keeps its own, beside the manifest.
_BESIDE: Final = (".terraform/providers", "terraform.d/plugins")
_SYSTEM: Final = ("/usr/local/share", "/usr/share")
_TOOLS: Final = ("opentofu", "terraform")
#: The attributes of a mirror in a configuration file, with values of their type.
_MIRROR: Final[Mapping[str, Any]] = {"path": "", "include": [], "exclude": []}


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
            yield _declared(block.attributes, environment)
        return
    data = environment.get("XDG_DATA_HOME", "")
    data = data if os.path.isabs(data) else os.path.join(home, ".local/share")
    yield Mirror(os.path.join(home, ".terraform.d/plugins"))
    yield from (Mirror(os.path.join(base, tool, "plugins")) for base in (data, *_SYSTEM) for tool in _TOOLS)


def _declared(attributes: Mapping[str, Any], environment: Mapping[str, str]) -> Mirror:
    path, include, exclude = (attributes.get(name) or default for name, default in _MIRROR.items())
    if any(
        type(value) is not type(default)
        for value, default in zip((path, include, exclude), _MIRROR.values(), strict=True)
    ):
        msg = "a filesystem_mirror has a path, and may have lists include and exclude"
        raise ValueError(msg)
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
    """Return a path with ``~`` and the variables in it replaced."""
    for name, value in environment.items():
        path = path.replace(f"${{{name}}}", value).replace(f"${name}", value) if f"${name}" in path else path
    return os.path.join(environment.get("HOME", ""), path[2:]) if path.startswith("~/") else path
