"""Several versions of one type on the module path, and which of them a configured provider gets.

The newest that fits the range that is asked for (Pulumi's provider guide, "Lookup"), the first found of two equals.
Also what a file must define to be a type or a provider. Where files lie is not known here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DefinitionError
from resource_api.plugins import loader
from resource_api.provider.base import broken_promises

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


class Edition(NamedTuple):
    """One version of a type; ``place`` is the directory that holds it, None for the one that is found first."""

    definition: TypeDefinition
    place: str | None = None

    @classmethod
    def load(cls, path: str) -> Edition:
        """Execute a type's file beside others of its name. Raises ``DefinitionError``."""
        place = path.rsplit("/", 2)[0]
        return cls(the_type(path, loader.execute(path, _module(place, "types", path))), place)


def provider_in(place: str, definition: TypeDefinition) -> type[Any]:
    """Give the provider that lies beside a type, executed anew. Raises ``DefinitionError``."""
    path = f"{place}/providers/{definition.name}.py"
    if not os.path.isfile(path):  # noqa: PTH113 - text
        msg = f"type '{definition.name}' {definition.version} has no provider beside it; expected {path}"
        raise DefinitionError(msg)
    return the_provider(path, loader.execute(path, _module(place, "providers", path)), definition)


def _module(place: str, kind: str, path: str) -> str:
    """Give a name that tells a file's module from that of another version."""
    return f"resource_api.{kind}.{_stem(path)}@{place}"


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".py")


def the_type(path: str, module: ModuleType) -> TypeDefinition:
    """Give the type that a file defines. Raises ``DefinitionError``."""
    value: TypeDefinition = _defined(path, module, "TYPE", TypeDefinition)
    if value.name != _stem(path):
        msg = f"{path}: TYPE is named '{value.name}' but its file is named '{_stem(path)}'"
        raise DefinitionError(msg)
    return value


def the_provider(path: str, module: ModuleType, definition: TypeDefinition) -> type[Any]:
    """Give the provider that a file defines, held to what its type promises. Raises ``DefinitionError``."""
    value: type[Any] = _defined(path, module, "Provider", type)
    if problems := broken_promises(definition, value):
        raise DefinitionError("\n".join(f"{path}: {problem}" for problem in problems))
    return value


def _defined(path: str, module: ModuleType, constant: str, expected: type[Any]) -> Any:
    value = getattr(module, constant, None)
    if value is None:
        msg = f"{path}: defines no {constant}"
        raise DefinitionError(msg)
    if not isinstance(value, expected):
        msg = f"{path}: {constant} must be a {expected.__name__}, not {type(value).__name__}"
        raise DefinitionError(msg)
    return value


def newest(found: Sequence[Edition], versions: str) -> Edition:
    """Give the newest edition that fits ``versions``, a range of PEP 440. Raises ``DefinitionError``."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - only where a range is written
    from packaging.version import Version  # noqa: PLC0415 - the same

    name = found[0].definition.name
    try:
        wanted = SpecifierSet(versions)
    except InvalidSpecifier as error:
        msg = f"'{versions}' is not a range of versions; write '>=1.2', '~=1.4' or '==2.0.1'"
        raise DefinitionError(msg) from error
    known = [(Version(each.definition.version), each) for each in found if each.definition.version is not None]
    fitting = [pair for pair in known if wanted.contains(pair[0])]
    if not fitting:
        there = ", ".join(str(version) for version, _ in known) or "none that says its version"
        msg = f"no version of type '{name}' fits '{versions}'; on the module path: {there}"
        raise DefinitionError(msg)
    return max(fitting, key=lambda pair: pair[0])[1]
