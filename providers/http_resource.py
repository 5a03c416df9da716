"""Read and change objects of a JSON API over HTTP."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from lib import http_paths
from resource_api import CannotList, Planned, Problem, ResourceError, Sensitive, SimpleProvider, http

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from lib.http_paths import Request
    from resource_api import Context, Resource

#: Settings that select other objects.
LOCATION = ("url", "path", "name", "list", "read")
#: Answers to the reading of a missing list, and to a change of an object that another client has changed.
NO_LIST, CHANGED = frozenset({404, 405, 410}), 412
#: The number of times that an object is read again because another client changes it at the same time.
TRIES = 4
CONTENT_TYPES = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}


class Object(NamedTuple):
    """An object as the service has returned it, and its validator, which may be empty."""

    fields: dict[str, Any]
    etag: str = ""


class Provider(SimpleProvider):
    """The objects of one kind in one service."""

    def __init__(self) -> None:
        """Start without a configuration, which ``configure`` sets, and without objects that a run has read or made."""
        self._config: Mapping[str, Any] = {}
        #: The last objects that were read, and the identifiers of the objects created here, by name.
        self._read: dict[str, Object] = {}
        self._created: dict[str, Any] = {}

    def check_config(self, _context: Context, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse paths with a variable that has no value: an error of the provider, not of each of its resources."""
        # A path that is not known yet is missing here.
        if "path" in config:
            http_paths.paths(config)
        return config

    def configure(self, _context: Context, config: Mapping[str, Any]) -> None:
        """Keep the paths and the client for the service."""
        self._config, self._paths = config, http_paths.paths(config)
        self._paging = http.Paging(
            items=config.get("items") or "",
            next=config.get("next") or "",
            cursor=config.get("cursor") or "",
            page=config.get("page") or "",
            offset=config.get("offset") or "",
            first=config["first_page"],
            key=config["id"],
        )
        self._job = http.Job(**config["job"])
        self._client = http.Client(
            config["url"],
            headers=_headers(config),
            ca_file=config.get("ca_file"),
            timeout=config["timeout"],
            retries=config["retries"],
        )

    def diff_config(self, _context: Context, is_: Mapping[str, Any], should: Mapping[str, Any]) -> list[str]:
        """Return the settings that lead to other objects: the address and the paths, not the token."""
        return [name for name in LOCATION if is_.get(name) != should.get(name)]

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write whole numbers without a point, as a JSON service may return 1.0 as 1: both are equal."""
        for resource in resources:
            if "body" in resource:
                resource["body"] = _numbers(resource["body"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a field that is declared twice, plain in ``body`` and in ``secrets``: only one value can be sent."""
        body, secrets = should.get("body"), should.get("secrets")
        if isinstance(body, dict) and isinstance(secrets, dict):
            for field in sorted(body.keys() & secrets.keys()):
                yield Problem("secrets", f"the field '{field}' is declared in body too")

    def plan(self, _context: Context, _name: str, _is: Any, should: Mapping[str, Any]) -> Planned:
        """Plan a replacement if an immutable field changes; refuse to set fields that the service makes."""
        for field in self._service_fields():
            if http.field_at(should.get("body"), field) is not None:
                raise ResourceError(f"body.{field} is a field that the service makes: it is in the attribute output")
        fields = self._config.get("immutable", ())
        return Planned(replace=[f"body{field if field.startswith('[') else f'.{field}'}" for field in fields])

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the objects in ``names``, or all of a list.

        An object is read by its own path if that contains its name or identifier, otherwise from the list, which is
        read once for all names in it.
        """
        if names is None:
            if self._paths.parents:
                raise CannotList(f"objects are listed by a path without variables, and this one is {self._paths.list}")
            yield from self._listed(context, {}, None)
            return
        groups: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
        for name in names:
            self._read.pop(name, None)
            try:
                values = self._paths.values(name)
            except ResourceError as error:
                context.failed(name, message=str(error))
                continue
            identifier, by_name = self._created.get(name), self._paths.read_by_name
            object_ = None if identifier is None and not by_name else self._detail(values, identifier)
            if object_ is not None:
                yield self._row(context, name, object_)
            # By the list also if the identifier of the created object is no longer valid.
            elif not by_name:
                groups[tuple(values[parent] for parent in self._paths.parents)][values["name"]] = name
        for parents, group in groups.items():
            yield from self._listed(context, dict(zip(self._paths.parents, parents, strict=True)), group)

    def create(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Create an object with the declared fields, and record its identifier from the service.

        A service that creates objects in the background is waited for; then the identifier may be in its last answer
        only.
        """
        _store_secret_fields(context, name, should)
        method, path = self._paths.create
        values = self._paths.values(name)
        # A path with the name takes its place in the body.
        name_field = {} if self._paths.names(path) else http.with_field({}, self._config["name"], values["name"])
        body = http.merged(name_field, {**_fields(should.get("body")), **_fields(should.get("secrets"))})
        target = http_paths.fill(path, values, None, self._config["id"])
        response = self._client.request(method, target, self._wrap(body))
        identifier = self._identifier(response)
        last = self._client.finish(response, self._job)
        if identifier is None and last is not response:
            identifier = self._identifier(last)
        if identifier is not None:
            self._created[name] = identifier

    def update(self, context: Context, name: str, should: Mapping[str, Any]) -> None:
        """Send the declared fields that differ, with PUT in the whole object."""
        _store_secret_fields(context, name, should)
        self._change(context, name, lambda present: self._send_update(name, present, should))

    def delete(self, context: Context, name: str) -> None:
        """Delete an object; one that is gone is no error."""

        def send(present: Object) -> http.Response:
            method, path = self._paths.delete.method, self._member(self._paths.delete, name, present)
            return self._client.request(method, path, headers=_if_match(present), allow=(404, 410))

        self._change(context, name, send)
        self._created.pop(name, None)

    def _change(self, context: Context, name: str, send: Callable[[Object], http.Response]) -> None:
        """Change an object by ``send``; if another client has changed it since it was read, read it and try again.

        The service refuses such a request with the status 412, by the header ``If-Match``.
        """
        for remaining in reversed(range(TRIES)):
            present = self._present(context, name)
            if present is None:
                return
            try:
                self._client.finish(send(present), self._job)
            except http.RequestError as error:
                if error.status != CHANGED or not remaining:
                    raise
                self._read.pop(name, None)
            else:
                return

    def _send_update(self, name: str, present: Object, should: Mapping[str, Any]) -> http.Response:
        """Send the declared fields: the whole object by PUT, or by PATCH in the format of the setting ``patch``.

        Secret fields are sent each time: their present values are not compared.
        """
        method, path = self._paths.update.method, self._member(self._paths.update, name, present)
        body, secrets, form = _fields(should.get("body")), _fields(should.get("secrets")), self._config["patch"]
        headers = _if_match(present)
        sent: Any
        if method == "PUT":
            sent = self._wrap({**http.merged(present.fields, body), **secrets})
        elif method == "PATCH" and form == "json":
            sent = http.json_patch(present.fields, body) + http.json_patch({}, secrets)
        elif method == "PATCH" and form == "merge":
            sent = self._wrap({**http.merge_patch(present.fields, body), **secrets})
        else:
            sent = self._wrap({**http.changed_fields(present.fields, body), **secrets})
        if method == "PATCH" and form in CONTENT_TYPES:
            headers["Content-Type"] = CONTENT_TYPES[form]
        return self._client.request(method, path, sent, headers=headers, repeat=method == "PATCH")

    def _present(self, context: Context, name: str) -> Object | None:
        """Return an object as ``get`` has read it last, or None for a missing one.

        An object without an ETag that PUT sends as a whole is read again: older values would undo a change of another
        client.
        """
        object_ = self._read.get(name)
        whole = self._paths.update.method == "PUT" and self._paths.read_by_name
        if object_ is None or (whole and not object_.etag):
            for _ in self.get(context, [name]):  # which keeps the object in ``_read``
                pass
        return self._read.get(name)

    def _member(self, request: Request, name: str, present: Object) -> str:
        """Return the path of a request about an object, with its name and the identifier from the service."""
        field = self._config["id"]
        return http_paths.fill(request.path, self._paths.values(name), http.field_at(present.fields, field), field)

    def _detail(self, values: Mapping[str, str], identifier: Any) -> Object | None:
        """Return an object by its own path, or None if the kind has no such path or the service no such object.

        ``values`` of the resource's name and ``identifier`` replace the variables of the path.
        """
        if self._paths.read is None:
            return None
        response = self._client.find(http_paths.fill(self._paths.read, values, identifier, self._config["id"]))
        if response is None:
            return None
        return Object(_object(http.field_at(response.body, self._config.get("object") or "")), response.etag)

    def _listed(
        self, context: Context, parents: Mapping[str, str], names: Mapping[str, str] | None
    ) -> Iterator[Resource]:
        """Yield the objects in the list below ``parents``, the values of the variables in its path.

        ``names`` are the requested objects: name within the list → name of the resource; None requests all. If objects
        have a path of their own, each is read by it too, as lists often lack fields.
        """
        entries_by_name: dict[str, list[dict[str, Any]]] = {}
        for fields in self._entries(http.expand(self._paths.list, **parents), nested=bool(parents)):
            own_name = str(http.field_at(fields, self._config["name"]))
            if names is None or own_name in names:
                entries_by_name.setdefault(own_name if names is None else names[own_name], []).append(fields)
        for name, entries in entries_by_name.items():
            entry = self._only(context, name, entries)
            if entry is None:
                continue
            object_: Object | None = Object(entry)
            if self._paths.read is not None:
                detail = self._detail(self._paths.values(name), http.field_at(entry, self._config["id"]))
                object_ = None if detail is None else Object({**entry, **detail.fields}, detail.etag)
            if object_ is not None:
                yield self._row(context, name, object_, keep=names is not None)

    def _entries(self, path: str, *, nested: bool) -> Iterator[dict[str, Any]]:
        """Yield the entries of a list; a missing ``nested`` list is empty, as the object above may not exist yet."""
        try:
            yield from self._client.items(path, self._paging)
        except http.RequestError as error:
            if error.status not in NO_LIST:
                raise
            if not nested:
                raise CannotList(f"the service has no list at {path}") from error

    def _only(self, context: Context, name: str, entries: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the only entry of a name; else the one that this run has created, or the name fails as ambiguous."""
        field = self._config["id"]
        identifiers = [str(http.field_at(entry, field)) for entry in entries]
        created = str(self._created.get(name))
        if len(entries) > 1 and created not in identifiers:
            listed = ", ".join(identifiers)
            context.failed(name, message=f"the service has {len(entries)} objects of this name: {field} {listed}")
            return None
        return entries[0] if len(entries) == 1 else entries[identifiers.index(created)]

    def _row(self, context: Context, name: str, object_: Object, *, keep: bool = True) -> Resource:
        """Return the row of an object: its declarable fields in ``body``, those that the service makes in ``output``.

        The name, which is an attribute, and secret fields are left out. With ``keep`` the object itself is recorded
        too, as ``set`` needs it for a change.
        """
        if keep:
            self._read[name] = object_
        fields = body = object_.fields
        service_fields = {field: http.field_at(fields, field) for field in self._service_fields()}
        # The private data of an object are the names of its secret fields.
        for field in (self._config["name"], *service_fields, *(context.private(name) or ())):
            body = http.without_field(body, field)
        output: dict[str, Any] = {}
        for field, value in service_fields.items():
            output = output if value is None else http.with_field(output, field, value)
        row: Resource = {"ensure": "present", "name": name, "body": body, "output": output}
        identifier = http.field_at(fields, self._config["id"])
        return row if identifier is None else row | {"id": str(identifier)}

    def _service_fields(self) -> Iterable[str]:
        """Return the fields that only the service sets, which are in ``output`` and not in ``body`` of a row.

        They are those of the setting ``output``, and the identifier, unless this is the declared name too.
        """
        if not self._config:
            return []
        field = self._config.get("id", "")
        is_name = field == self._config.get("name")
        return [*([] if is_name else [field]), *self._config.get("output", ())]

    def _wrap(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a request, within the field ``wrap`` if the service expects that."""
        field = self._config.get("wrap")
        return http.with_field({}, field, body) if field else body

    def _identifier(self, response: http.Response) -> Any:
        """Return the identifier in the answer to a creation, by which the object is read from then on, or None.

        It is a field of the object, or the end of the header ``Location``.
        """
        field = self._config["id"]
        with suppress(ResourceError):  # not every service answers with JSON
            # An object can be in a field, ``object``, of some answers only.
            for wrapper in (self._config.get("object") or "", ""):
                if (identifier := http.field_at(http.field_at(response.body, wrapper), field)) is not None:
                    return identifier
        location = response.header("Location").partition("?")[0].rstrip("/")
        created = 201
        return unquote(location.rpartition("/")[2]) or None if response.status == created else None


def _headers(config: Mapping[str, Any]) -> dict[str, str | Sensitive[str]]:
    """Return the headers of all requests, with the credentials of the configuration."""
    headers: dict[str, str | Sensitive[str]] = dict(config["headers"])
    if config.get("user") is not None:
        headers["Authorization"] = http.basic_authorization(config["user"], config.get("password") or "")
    if config.get("token") is not None:
        header, _, prefix = config["token_header"].partition(":")  # "Authorization: Bearer "
        headers[header] = Sensitive(prefix.lstrip(" ") + config["token"].reveal())
    return headers


def _store_secret_fields(context: Context, name: str, should: Mapping[str, Any]) -> None:
    """Record the names of secret fields, which ``get`` must leave out: some services return them."""
    fields = sorted(_fields(should.get("secrets")))
    if fields != (context.private(name) or []):
        context.store_private(name, fields)


def _if_match(present: Object) -> dict[str, str]:
    """Return the header ``If-Match``: the service then refuses to change an object that changed since it was read."""
    return {"If-Match": present.etag} if present.etag else {}


def _object(value: Any) -> dict[str, Any]:
    """Return a value that must be a JSON object. Raise ``ResourceError`` with advice for another one."""
    if not isinstance(value, dict):
        msg = "the service answers with something else than an object; 'object' names the field that has it"
        raise ResourceError(msg)
    return value


def _numbers(value: Any) -> Any:
    """Return a value with its whole numbers as integers: in JSON 1 and 1.0 are equal, and services return either."""
    if isinstance(value, dict):
        return {key: _numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(_numbers, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _fields(declared: Any) -> dict[str, Any]:
    """Return declared fields to send, none for None; each value of a secret mapping becomes secret itself."""
    if isinstance(declared, Sensitive):
        return {name: Sensitive(value) for name, value in declared.reveal().items()}
    return dict(declared or {})
