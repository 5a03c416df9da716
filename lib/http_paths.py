"""The paths of one kind of object in an API, and the names of objects: ``acme/site`` for ``/orgs/{org}/repos/{repo}``.

Nothing is sent here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from resource_api import ResourceError, http

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

VARIABLE = re.compile(r"\{(\w+)\}")


class Request(NamedTuple):
    """A method and a path in which variables are left."""

    method: str
    path: str


class Paths(NamedTuple):
    """The paths by which objects are listed, read, created, changed and deleted."""

    #: The variables of the list's path, in their order: the first parts of an object's name.
    parents: tuple[str, ...]
    #: The variables that stand for the last part, the object's own name.
    own_variables: frozenset[str]
    list: str
    #: None: an object is read from the list alone.
    read: str | None
    create: Request
    update: Request
    delete: Request

    def values(self, name: str) -> dict[str, str]:
        """Return variable → value by an object's name, to fill in the paths of its requests.

        ``acme/site`` gives ``{"org": "acme", "name": "site"}`` if objects are listed at ``/orgs/{org}/repos``. Raise
        ``ResourceError`` if the name has too few parts.
        """
        *parents, last = name.split("/", len(self.parents))
        if len(parents) < len(self.parents) or not all((*parents, last)):
            form = "/".join([*self.parents, "name"]).upper()
            msg = f"its name must be {form}, as its path has {' and '.join(f'{{{parent}}}' for parent in self.parents)}"
            raise ResourceError(msg)
        return dict(zip(self.parents, parents, strict=True)) | dict.fromkeys(self.own_variables, last)

    def names(self, path: str) -> bool:
        """Return whether a path contains a variable for the object's own name."""
        return not self.own_variables.isdisjoint(VARIABLE.findall(path))

    @property
    def read_by_name(self) -> bool:
        """Whether an object can be read without the list."""
        return self.read is not None and "{id}" not in self.read


def paths(config: Mapping[str, Any]) -> Paths:
    """Return the paths of all requests: configured, or else by REST's conventions from ``path``.

    ``/users/{login}`` is listed at ``/users`` and created there; ``/users`` alone means ``/users/{id}``. Raise
    ``ResourceError`` for a variable without a value from the list or an object's name.
    """
    path = config["path"]
    last_variable = re.fullmatch(r"(/.*)/\{(\w+)\}", path)
    collection, member = (last_variable[1], path) if last_variable else (path, f"{path}/{{id}}")
    # Any other last variable than {id} stands for the name, by which an object can be read.
    by_name = last_variable is not None and last_variable[2] != "id"
    listing = config.get("list") or collection
    read = config.get("read") or (member if by_name else None)
    defaults = {"create": f"POST {collection}", "update": f"PATCH {member}", "delete": f"DELETE {member}"}
    requests = [Request(*(config.get(key) or default).split(" ", 1)) for key, default in defaults.items()]
    parents = tuple(dict.fromkeys(VARIABLE.findall(listing)))
    own_names = _own_names([read or "", *(request.path for request in requests)], parents)
    return Paths(parents, frozenset({"name", *own_names}), listing, read, *requests)


def _own_names(templates: Iterable[str], parents: Collection[str]) -> list[str]:
    """Return the variable that stands for an object's own name beside ``{name}``, such as ``repo``; none or one.

    It is the one in the paths of single objects that is neither ``{id}`` nor among ``parents``, the variables of the
    list's path. Raise ``ResourceError`` for a variable that would have no value.
    """
    variables = {name for template in templates for name in VARIABLE.findall(template)}
    own_names = sorted(variables - {*parents, "id", "name"})
    if len(own_names) > 1 or {"id", "name"} & set(parents):
        wrong = own_names[1] if len(own_names) > 1 else next(name for name in parents if name in {"id", "name"})
        msg = f"the paths have no value for {{{wrong}}}: there are {{id}}, {{name}}, and the variables of the list"
        raise ResourceError(msg)
    return own_names


def fill(path: str, values: Mapping[str, str], number: Any, field: str) -> str:
    """Return a path with its variables replaced by their ``values``, and ``{id}`` by ``number``.

    Raise ``ResourceError`` if the object has no such number: the service has not returned its field ``field``.
    """
    if "{id}" in path and number is None:
        raise ResourceError(f"the service returns no field '{field}' for '{values['name']}', which its path needs")
    return http.expand(path, **values, id=number)
