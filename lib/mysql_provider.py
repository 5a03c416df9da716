"""The base class of the providers of a MariaDB or MySQL server: its configuration, and one connection for a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.mysql import Server
from resource_api import BaseProvider, ResourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lib.mysql import Session
    from resource_api import Change, Context


def _checked(_context: Context, config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration whose files of TLS are used. Raise ``ResourceError`` otherwise."""
    if config["sslmode"] in {"disable", "prefer"}:
        for name in ("ca_file", "cert_file", "key_file"):
            if config.get(name) is not None:
                msg = f"{name} is for sslmode require, verify-ca or verify-full, not {config['sslmode']}"
                raise ResourceError(msg)
    return config


class ServerProvider(BaseProvider):
    """The base class of the providers of one server."""

    check_config = staticmethod(_checked)

    def configure(self, _context: Context, config: Mapping[str, Any]) -> None:
        """Keep the server's configuration."""
        self._server = Server(config)

    def diff_config(self, _context: Context, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[str]:
        """Return the settings that lead to another server."""
        return [name for name in ("host", "port") if is_.get(name) != should.get(name)]

    def set(self, context: Context, changes: Mapping[Any, Change]) -> None:
        """Change each resource through one connection; a failure of one leaves the others alone."""
        with self._server.session(context) as session:
            for name, (is_, should) in changes.items():
                if should["ensure"] == "absent":
                    action = context.deleting(name)
                else:
                    action = context.creating(name) if is_ is None else context.updating(name)
                with action:
                    self._change(session, name, is_, should)

    def _change(self, session: Session, name: Any, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Make one resource as it should be; ``is_``: None where it does not exist."""
        raise NotImplementedError
