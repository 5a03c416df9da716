"""Read and change DNS records by requests to the hosting service."""

from __future__ import annotations

import ipaddress
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from resource_api import BaseProvider, Planned, Problem, ResourceError, http

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

    Name = tuple[str, str]

#: The number of names that fit into the URL of one request.
AT_ONCE = 50
#: The form of the service's lists: the number of the next page is in each page.
PAGING = http.Paging(items="items", next="next", cursor="page")


class Provider(BaseProvider):
    """The records of one account."""

    def check_config(self, context: Context, config: dict[str, Any]) -> dict[str, Any]:
        """Take service and token from the environment if the manifest has none; refuse to send a token in clear."""
        if "url" not in config and "DNS_API_URL" in os.environ:
            config["url"] = os.environ["DNS_API_URL"]
        if "token" not in config and "DNS_API_TOKEN_FILE" in os.environ:
            config["token"] = Path(os.environ["DNS_API_TOKEN_FILE"]).read_text(encoding="utf-8").strip()
        parts = urlsplit(config.get("url", ""))
        if parts.scheme == "http" and parts.hostname not in {"127.0.0.1", "::1", "localhost"}:
            raise ResourceError(f"the token would be readable on the way to {parts.hostname}: use https")
        return config

    def diff_config(self, context: Context, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[str]:
        """Return ``url`` if it changed: another service has other records, another token shows the same ones."""
        return ["url"] if is_.get("url") != should.get("url") else []

    def configure(self, context: Context, config: Mapping[str, Any]) -> None:
        """Create the client; a wrong token is noticed at the first request."""
        retries = config["attempts"] - 1
        self.client = http.Client(config["url"], token=config["token"], timeout=config["timeout"], retries=retries)
        self.zones: list[str] | None = None

    def canonicalize(self, context: Context, resources: list[Resource]) -> list[Resource]:
        """Write names and addresses in their usual form, and sort the values, whose order means nothing."""
        for resource in resources:
            resource["name"] = host(resource["name"])
            if resource.get("values") is not None:
                resource["values"] = sorted({canonical(resource["kind"], value) for value in resource["values"]})
        return resources

    def validate(self, context: Context, should: Resource) -> Iterator[Problem]:
        """Refuse values that are none of their type, and a second CNAME."""
        values = should.get("values")
        if not isinstance(values, list):
            return
        if should["kind"] == "CNAME" and len(values) > 1:
            yield Problem("values", "a name has only one CNAME")
        if should["kind"] in {"A", "AAAA"}:
            version = 4 if should["kind"] == "A" else 6
            for value in values:
                if isinstance(value, str) and not is_address(value, version):
                    yield Problem("values", f"'{value}' must be an IPv{version} address")

    def plan(self, context: Context, name: Name, is_: Resource | None, should: Resource) -> Planned:
        """Require a replacement where the view changes, which the service refuses to do."""
        changed = is_ is not None and "view" in should and should["view"] != is_["view"]
        return Planned(replace=["view"] if changed else [])

    def upgrade(self, version: int, values: dict[str, Any]) -> dict[str, Any]:
        """Convert a record of version 1, which has a single ``value``."""
        if "value" in values:
            values["values"] = [values.pop("value")]
        return values

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Read the records of each zone with as few requests as possible."""
        for zone in self._zones():
            own_names = None if names is None else sorted({name for name, _ in names if self._zone(name) == zone})
            path = http.expand("/zones/{zone}/records", zone=zone)
            starts = [0] if own_names is None else range(0, len(own_names), AT_ONCE)
            for start in starts:
                chosen = [] if own_names is None else [("name", name) for name in own_names[start:][:AT_ONCE]]
                for record in self.client.items(f"{path}?{urlencode(chosen)}", PAGING):
                    yield row(record)

    def set(self, context: Context, changes: Mapping[Name, Change]) -> None:
        """Send one request for each change; each may be repeated without harm."""
        for name, (is_, should) in changes.items():
            with context.processing(name, is_, should):
                if should["ensure"] == "absent":
                    self.client.delete(record_path(is_))
                elif is_ is None:
                    path = http.expand("/zones/{zone}/records", zone=self._zone(name[0]))
                    key = {"Idempotency-Key": uuid.uuid4().hex}  # the service carries out a repeated request once
                    self.client.request("POST", path, fields(should), headers=key, repeat=True)
                else:
                    self.client.patch(record_path(is_), fields(should), repeat=True)

    def zone_of(self, context: Context, name: str) -> str:
        """Return the zone of a name."""
        return self._zone(host(name))

    def _zones(self) -> list[str]:
        """Return the zones of the account, read once in a run."""
        if self.zones is None:
            self.zones = [zone["name"] for zone in self.client.items("/zones", PAGING)]
        return self.zones

    def _zone(self, name: str) -> str:
        """Return the longest zone that contains ``name``; empty if none does. A change there is refused."""
        zones = [zone for zone in self._zones() if f".{name}".endswith(f".{zone}")]
        return max(zones, key=len, default="")


def host(name: str) -> str:
    """Return a host name in lower case, without dots at its end."""
    return name.lower().rstrip(".")


def canonical(kind: str, value: str) -> str:
    """Return the usual form of a value; one that is none of its type stays as it is."""
    if kind in {"CNAME", "MX"}:
        return host(value)
    if kind in {"A", "AAAA"}:
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            return value
    return value


def is_address(value: str, version: int) -> bool:
    """Return whether a text is an address of a version of IP."""
    try:
        return ipaddress.ip_address(value).version == version
    except ValueError:
        return False


def row(record: Mapping[str, Any]) -> Resource:
    """Return a record of the service as a resource."""
    return {"ensure": "present", **{key: value for key, value in record.items() if key != "zone"}}


def record_path(record: Resource) -> str:
    """Return the path of a record of the service."""
    return http.expand("/records/{id}", id=record["id"])


def fields(should: Resource) -> dict[str, Any]:
    """Return the declared attributes as the service takes them; the client unwraps secrets."""
    return {key: value for key, value in should.items() if key != "ensure"}
