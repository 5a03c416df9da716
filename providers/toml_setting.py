"""Read settings in TOML files, and change them with tomlkit, which keeps comments."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, ClassVar

from lib import kept_formatting, prerequisites, structured_settings
from resource_api import ResourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lib.structured_settings import Place


class Provider(structured_settings.SettingsProvider):
    """The settings of TOML files."""

    _MODULES: ClassVar = {"tomlkit": "Package[python3-tomlkit]"}

    @staticmethod
    def _parse(text: str) -> Any:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            msg = f"is no valid TOML: {error}"
            raise ResourceError(msg) from None

    @staticmethod
    def _edit(text: str, wanted: Mapping[Place, Any]) -> str:
        with prerequisites.needing("tomlkit", "pip install 'resource-api[settings]'"):
            import tomlkit  # noqa: PLC0415 - an extra
            from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415 - the same
        try:
            return kept_formatting.edit(
                text, wanted, parse=tomllib.loads, load=tomlkit.parse, dump=tomlkit.dumps, convert=lambda _old, new: new
            )
        except (TOMLKitError, TypeError, ValueError) as error:
            msg = f"cannot be written as TOML: {error}"
            raise ResourceError(msg) from None
