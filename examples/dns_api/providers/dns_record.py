"""Read and change DNS records by requests to the hosting service."""

from __future__ import annotations

import ipaddress
import json
import os
import threading
import uuid
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from resource_api import BaseProvider, Planned, Problem, ResourceError, Sensitive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

    Name = tuple[str, str]

#: The number of names that fit into the URL of one request.
AT_ONCE = 50


class Provider(BaseProvider):
    """The records of one account."""

    def __init__(self) -> None:
        """Start without a configuration."""
        self.config: Mapping[str, Any] = {}
        self.stopped = threading.Event()

    def check_config(self, context: Context, config: dict[str, Any]) -> dict[str, Any]:
        """Take service and token from the environment if the manifest has none; refuse to send a token in clear."""
        if "url" not in config and "DNS_API_URL" in os.environ:
            config["url"] = os.environ["DNS_API_URL"]
        if "token" not in config and "DNS_API_TOKEN_FILE" in os.environ:
            config["token"] = Path(os.environ["DNS_API_TOKEN_FILE"]).read_text(encoding="utf-8").strip()
        parts = urlsplit(config.get("url", ""))
        if parts.scheme == "http" and parts.hostname not in {"127.0.0.1", "::1", "localhost"}:
            msg = f"the token would be readable on the way to {parts.hostname}: use https"
            raise ResourceError(msg)
        return config

    def diff_config(self, context: Context, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[str]:
        """Return ``url`` if it changed: another service has other records, another token shows the same ones."""
        return ["url"] if is_.get("url") != should.get("url") else []

    def configure(self, context: Context, config: Mapping[str, Any]) -> None:
        """Store the configuration; a wrong token is noticed at the first request."""
        self.config = config

    def cancel(self) -> None:
        """End the waiting for another attempt."""
        self.stopped.set()

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
        """Convert what version 1 has recorded: a single ``value``."""
        if "value" in values:
            values["values"] = [values.pop("value")]
        return values

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Read the records of each zone with as few requests as possible."""
        for zone in self._zones():
            wanted = None if names is None else sorted({name for name, _ in names if self._zone(name) == zone})
            starts = [0] if wanted is None else range(0, len(wanted), AT_ONCE)
            for start in starts:
                chosen = [] if wanted is None else [("name", name) for name in wanted[start:][:AT_ONCE]]
                for record in self._pages(f"zones/{quote(zone)}/records", chosen):
                    yield row(record)

    def set(self, context: Context, changes: Mapping[Name, Change]) -> None:
        """Send one request for each change."""
        for name, (is_, should) in changes.items():
            with context.processing(name, is_, should):
                if should["ensure"] == "absent":
                    self._delete(is_)
                elif is_ is None:
                    self._send("POST", f"zones/{quote(self._zone(name[0]))}/records", fields(should))
                else:
                    self._send("PATCH", f"records/{quote(is_['id'])}", fields(should))

    def zone_of(self, context: Context, name: str) -> str:
        """Return the zone of a name."""
        return self._zone(host(name))

    def _delete(self, is_: Resource) -> None:
        """Delete a record; one that somebody else has deleted meanwhile is no failure."""
        try:
            self._send("DELETE", f"records/{quote(is_['id'])}")
        except NotFoundError:
            return

    def _zones(self) -> list[str]:
        """Return the zones of the account, read once in a run."""
        if not hasattr(self, "zones"):
            self.zones = list(self._pages("zones"))
        return self.zones

    def _zone(self, name: str) -> str:
        """Return the longest zone that contains ``name``; empty if none does. A change there is refused."""
        zones = [zone for zone in self._zones() if f".{name}".endswith(f".{zone}")]
        return max(zones, key=len, default="")

    def _pages(self, path: str, query: Collection[tuple[str, str]] = ()) -> Iterator[Any]:
        """Yield the items of every page of a list."""
        number = 1
        while number is not None:
            answer = self._send("GET", f"{path}?{urlencode([*query, ('page', number)])}")
            yield from answer["items"]
            number = answer["next"]

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer to a request, which is repeated while the service cannot answer it."""
        headers = {
            "Authorization": f"Bearer {self.config['token'].reveal()}",
            "Content-Type": "application/json",
            "Idempotency-Key": uuid.uuid4().hex,  # the service carries out a repeated request once
        }
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.config['url']}/{path}", data, headers, method=method)  # noqa: S310 - http(s) by its type
        for left in reversed(range(self.config["attempts"])):
            try:
                with urlopen(request, timeout=self.config["timeout"]) as answer:  # noqa: S310 - as above
                    return json.loads(answer.read() or b"null")
            except HTTPError as error:
                with error:
                    reason = json.loads(error.read() or b"{}").get("error", error.reason)
                    self._wait_or_raise(error, f"{method} {path.partition('?')[0]}: {reason}", repeat=left > 0)
            except URLError as error:
                msg = f"the service at {self.config['url']} cannot be reached: {error.reason}"
                raise ResourceError(msg) from error
        return None

    def _wait_or_raise(self, error: HTTPError, request: str, *, repeat: bool) -> None:
        """Wait before another attempt of a request that failed; raise its error if there must be none."""
        passing = error.code == HTTPStatus.TOO_MANY_REQUESTS or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        if repeat and passing and not self.stopped.wait(float(error.headers.get("Retry-After", 1))):
            return
        kind = NotFoundError if error.code == HTTPStatus.NOT_FOUND else ResourceError
        msg = f"the service answers {error.code} to {request}"
        raise kind(msg) from error


class NotFoundError(ResourceError):
    """What a request is about does not exist."""


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


def fields(should: Resource) -> dict[str, Any]:
    """Return the declared attributes as the service takes them, with secrets unwrapped."""
    plain = {key: value.reveal() if isinstance(value, Sensitive) else value for key, value in should.items()}
    return {key: value for key, value in plain.items() if key != "ensure"}
