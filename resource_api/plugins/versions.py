"""Several versions of one type on the module path: which of them a range of versions selects.

The newest version that fits the range (Pulumi's provider guide, "Lookup"), the first on the module path of two equals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.model.type_definition import TypeDefinition


class TypeVersion(NamedTuple):
    """One version of a type; ``directory`` holds it, None for the first on the module path."""

    definition: TypeDefinition
    directory: str | None = None


def newest(found: Sequence[TypeVersion], versions: str) -> TypeVersion:
    """Return the newest of ``found`` that fits ``versions``, a range of PEP 440. Raise ``DefinitionError``."""
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
        available = ", ".join(str(version) for version, _ in known) or "none that declares its version"
        msg = f"no version of type '{name}' fits '{versions}'; on the module path: {available}"
        raise DefinitionError(msg)
    return max(fitting, key=lambda pair: pair[0])[1]
