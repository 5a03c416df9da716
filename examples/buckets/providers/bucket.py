"""Read and change buckets by requests to the storage service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import SimpleProvider, http

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Context, Resource

#: Up to so many names are read one by one; more by the list.
BY_NAME = 5


class Provider(SimpleProvider):
    """The buckets of one account."""

    def configure(self, _context: Context, config: Mapping[str, Any]) -> None:
        """Keep a client; it connects at its first request."""
        self.client = http.Client(config["url"])

    def get(self, _context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Yield the buckets as the service shows them now."""
        if names is not None and len(names) <= BY_NAME:
            answers = (self.client.find(http.expand("/buckets/{name}", name=name)) for name in names)
            yield from (row(answer.body) for answer in answers if answer is not None)
        else:
            yield from map(row, self.client.items("/buckets", http.Paging(items="buckets", next="next")))

    def create(self, _context: Context, name: str, should: Resource) -> None:
        """Create a bucket; the service shows it later."""
        self.client.post("/buckets", {"name": name, **fields(should)})

    def update(self, _context: Context, name: str, should: Resource) -> None:
        """Change the declared fields, and no others."""
        self.client.patch(http.expand("/buckets/{name}", name=name), fields(should))

    def delete(self, _context: Context, name: str) -> None:
        """Delete a bucket; one that is gone is no error."""
        self.client.delete(http.expand("/buckets/{name}", name=name))


def fields(should: Resource) -> dict[str, Any]:
    """Return the fields of a request."""
    return {field: should[field] for field in ("region", "versioning") if field in should}


def row(bucket: Mapping[str, Any]) -> Resource:
    """Return a bucket as its attributes."""
    return {field: bucket[field] for field in ("name", "region", "versioning", "id")}
