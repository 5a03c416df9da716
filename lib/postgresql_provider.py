"""The base class of the providers of a PostgreSQL server: its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.postgresql import Server
from resource_api import ResourceError, Sensitive, SimpleProvider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api import Context


def _checked(_context: Context, config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration whose password is on one line. Raise ``ResourceError`` otherwise."""
    password = config.get("password")
    if isinstance(password, Sensitive) and not str(password.reveal()).isprintable():
        msg = "the password is not one printable line"
        raise ResourceError(msg)
    return config


class ServerProvider(SimpleProvider):
    """The base class of the providers of one server."""

    check_config = staticmethod(_checked)

    def configure(self, _context: Context, config: Mapping[str, Any]) -> None:
        """Keep the server's configuration."""
        self._server = Server(config)

    def diff_config(self, _context: Context, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[str]:
        """Return the settings that lead to another server."""
        return [name for name in ("host", "port") if is_.get(name) != should.get(name)]
