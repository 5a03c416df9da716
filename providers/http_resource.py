"""Read and change objects of a JSON API over HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lib import http_json
from lib.sensitive import reveal
from resource_api import CannotList, Problem, ResourceError, SimpleProvider

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Context, Resource

#: Most pages of a list.
PAGES = 10_000
#: Settings that other objects are behind.
PLACE = ("url", "path", "name", "list", "read")


class Provider(SimpleProvider):
    """The objects of one kind in one service."""

    def configure(self, _context: Context, config: Mapping[str, Any]) -> None:
        """Keep the paths, and how the service is reached."""
        self._config = config
        self._service = http_json.Service(config)

    def diff_config(self, _context: Context, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[str]:
        """Return the settings that lead to other objects: the address and the paths, not the token."""
        return [name for name in PLACE if is_.get(name) != should.get(name)]

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a field that is declared twice."""
        body, secrets = should.get("body"), should.get("secrets")
        if isinstance(body, dict) and isinstance(secrets, dict):
            for field in sorted(body.keys() & secrets.keys()):
                yield Problem("secrets", f"the field '{field}' is declared in body too")

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare the declared fields only."""
        if attribute != "body":
            return None
        present, wanted = reveal(is_["body"]), reveal(should["body"])
        if wanted != should["body"]:  # with a secret in it, of which nothing is shown
            return _within(wanted, present)
        changed = [
            f"{field} from {json.dumps(present.get(field))} to {json.dumps(value)}"
            for field, value in wanted.items()
            if not _within(value, present.get(field))
        ]
        return (False, f"changed: {'; '.join(changed)}") if changed else True

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Read the objects in ``names``, each by its own path if that has the name, otherwise by the list."""
        read = self._config.get("read")
        if names is not None and read is not None and "{id}" not in read:
            for name in names:
                found = self._service.send(context, "GET", self._path(read, name, {}), missing=True).value
                if found is not None:
                    yield self._row({self._config["name"]: name, **_object(found)})
            return
        for entry in self._listed(context):
            name = str(entry.get(self._config["name"]))
            if names is not None and name not in names:
                continue
            if read is None:
                yield self._row(entry)
            elif (
                found := self._service.send(context, "GET", self._path(read, name, entry), missing=True).value
            ) is not None:
                yield self._row({**entry, **_object(found)})

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Create an object with the declared fields."""
        method, path = self._request("create", "POST {path}")
        body = {} if "{name}" in path else {self._config["name"]: name}
        body |= _fields(should)
        self._service.send(context, method, self._path(path, name, {}), body)

    def update(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Send the declared fields, with PUT in the whole object."""
        method, path = self._request("update", "PATCH {path}/{id}")
        present = self._present(context, name)
        fields = _fields(should)
        body = fields if method == "PATCH" else _merged(present, fields)
        self._service.send(context, method, self._path(path, name, present), body)

    def delete(self, context: Context, name: str) -> None:
        """Delete an object; one that is gone is no error."""
        method, path = self._request("delete", "DELETE {path}/{id}")
        if present := self._present(context, name):
            self._service.send(context, method, self._path(path, name, present), missing=True)

    def _present(self, context: Context, name: str) -> dict[str, Any]:
        return next((row["body"] | {self._config["name"]: name} for row in self.get(context, [name])), {})

    def _request(self, attribute: str, default: str) -> tuple[str, str]:
        method, _, path = (self._config.get(attribute) or default.replace("{path}", self._config["path"])).partition(
            " "
        )
        return method, path

    def _path(self, path: str, name: str, entry: Mapping[str, Any]) -> str:
        """Return a path with the name and the identifier of an object."""
        number = entry.get(self._config["id"])
        if "{id}" in path and number is None:
            msg = f"the service returns no field '{self._config['id']}' for '{name}', which its path needs"
            raise ResourceError(msg)
        return path.replace("{id}", quote(str(number), safe="")).replace("{name}", quote(name, safe=""))

    def _listed(self, context: Context) -> Iterator[dict[str, Any]]:
        """Yield all objects in the list, page by page."""
        path = self._config.get("list") or self._config["path"]
        for _ in range(PAGES):
            answer = self._service.send(context, "GET", path, missing=True)
            if answer.status in {404, 405, 410}:
                msg = f"the service has no list at {path}"
                raise CannotList(msg)
            items = self._config.get("items")
            entries = answer.value if items is None else _object(answer.value).get(items)
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                msg = (
                    f"GET {path}: {'the answer' if items is None else f'the field {items!r}'} is not a list of objects"
                )
                raise ResourceError(msg)
            yield from entries
            field = self._config.get("next")
            following = answer.following if field is None else _object(answer.value).get(field)
            if not following:
                return
            path = self._service.relative(str(following))
        msg = f"the list has more than {PAGES} pages"
        raise ResourceError(msg)

    def _row(self, entry: dict[str, Any]) -> Resource:
        name, number = entry.pop(self._config["name"], None), entry.get(self._config["id"])
        row: Resource = {"ensure": "present", "name": str(name), "body": entry}
        return row if number is None else row | {"id": str(number)}


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        msg = f"the service answers with something else than an object: {json.dumps(value)[:80]}"
        raise ResourceError(msg)
    return value


def _fields(should: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is declared of an object, with secrets unwrapped."""
    return {**reveal(should["body"]), **reveal(should.get("secrets") or {})}


def _within(value: Any, present: Any) -> bool:
    """Return whether a declared value is the present one, in mappings as far as it is declared."""
    if isinstance(value, dict) and isinstance(present, dict):
        return all(key in present and _within(part, present[key]) for key, part in value.items())
    return json.dumps(value, sort_keys=True) == json.dumps(present, sort_keys=True)


def _merged(present: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with other fields, merged in mappings."""
    merged = dict(present)
    for field, value in fields.items():
        old = merged.get(field)
        merged[field] = _merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return merged
