"""Read and change hosts by requests to the inventory service, one after the other in each call."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resource_api import ResourceError, SimpleProvider, http

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Context

#: The number of names that fit into the URL of one request.
AT_ONCE = 200


class Provider(SimpleProvider):
    """Read and change the hosts of the configured service."""

    def check_config(self, context: Context, config: dict[str, Any]) -> dict[str, Any]:
        """Take the service and the token from the environment if the manifest does not declare them."""
        if "url" not in config and "INVENTORY_URL" in os.environ:
            context.debug("the service is the one of INVENTORY_URL")
            config["url"] = os.environ["INVENTORY_URL"]
        if "token" not in config and "INVENTORY_TOKEN_FILE" in os.environ:
            config["token"] = Path(os.environ["INVENTORY_TOKEN_FILE"]).read_text(encoding="utf-8").strip()
        return config

    def diff_config(self, context: Context, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[str]:
        """Return ``url`` if it changed: another service has other hosts, another token shows the same ones."""
        context.debug("comparing configurations")
        return ["url"] if is_.get("url") != should.get("url") else []

    def configure(self, context: Context, config: Mapping[str, Any]) -> None:
        """Store the configuration; a wrong token is noticed at the first request."""
        context.debug(f"the service is {config['url']}")
        self.client = http.Client(config["url"], token=config["token"], timeout=config["timeout"], retries=1)

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
        """Read many hosts with one request."""
        context.debug("asking for all hosts" if names is None else f"asking for {len(names)} hosts")
        hosts = None if names is None else list(names)
        starts = [0] if hosts is None else range(0, len(hosts), AT_ONCE)
        for start in starts:
            query = None if hosts is None else {"name": hosts[start:][:AT_ONCE]}
            for host in self._send("GET", "/hosts", query=query):
                yield {"ensure": "present", **host}

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Create a host."""
        context.debug("posting")
        self._send("POST", http.expand("/hosts/{name}", name=name), _fields(should))

    def update(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Change the declared attributes of a host."""
        context.debug("patching")
        self._send("PATCH", http.expand("/hosts/{name}", name=name), _fields(should))

    def delete(self, context: Context, name: str) -> None:
        """Delete a host."""
        context.debug("deleting")
        self._send("DELETE", http.expand("/hosts/{name}", name=name))

    def free_address(self, context: Context, network: str, host: str) -> str:
        """Return the address of a host, or a free one, as the service selects it."""
        context.debug(f"asking for an address of {host}")
        return str(self._send("GET", "/free", query={"network": network, "host": host})["address"])

    def _send(self, method: str, path: str, body: Any = None, *, query: Mapping[str, object] | None = None) -> Any:
        try:
            return self.client.request(method, path, body, query=query).body
        except http.RequestError as error:
            msg = f"the inventory refuses: {error}" if error.status else f"the inventory cannot be reached: {error}"
            raise ResourceError(msg) from error


def _fields(should: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that the service stores."""
    return {key: value for key, value in should.items() if key not in {"ensure", "name"}}
