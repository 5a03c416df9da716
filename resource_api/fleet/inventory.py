"""An inventory: the hosts of `hosts.yaml`, or of a program that prints the same, their groups, and whose input wins.

The file is read with the reader of manifests, so that every problem has its line and column. What an input must be is
known only with a manifest: see ``fleet/host_inputs``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import host_names
from resource_api.fleet.carriers.carrier import LIBRARY, PROGRAM, Host
from resource_api.fleet.value_sources import kind_of, source_of
from resource_api.manifest.read import READERS, read_file
from resource_api.model.values import document
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError, Problem, nearest
from resource_api.model.values.text import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.model.values.document import Document

#: The name of an inventory beside a manifest.
FILE: Final = "hosts.yaml"

_SECTIONS: Final = ("defaults", "hosts", "groups")
_BECOME: Final = ("none", "sudo", "doas")
_TRANSPORTS: Final = (LIBRARY, PROGRAM)
_HIGHEST_PORT: Final = 65535
#: Why a value cannot be a setting of a connection; empty: it can.
_CHECKS: Final[Mapping[str, Callable[[Any], str]]] = {
    "address": lambda value: "" if _is_host(value) else "must be a name or an address of a host",
    "port": lambda value: (
        "" if type(value) is int and 0 < value <= _HIGHEST_PORT else "must be a number from 1 to 65535"
    ),
    "user": lambda value: "" if _is_word(value) else "must be the name of a user",
    "become": lambda value: "" if value in _BECOME else "must be one of none, sudo, doas",
    "become_password": lambda value: (
        "" if kind_of(value) else "is no place for a password; write {file: PATH} or {command: PROGRAM}"
    ),
    "via": lambda value: "" if _is_word(value) else "must be a host, or several with a comma between them",
    "identity": lambda value: "" if _is_text(value) else "must be the path of a key",
    "transport": lambda value: "" if value in _TRANSPORTS else f"must be one of {', '.join(_TRANSPORTS)}",
    "timeout": lambda value: "" if _is_number(value) and value > 0 else "must be a number of seconds",
    "python": lambda value: "" if _is_text(value) and value.startswith("/") else "must be an absolute path",
}
#: The keys of an entry, by section. An address is that of one host.
_KEYS: Final[Mapping[str, Sequence[str]]] = {
    "defaults": (*list(_CHECKS)[1:], "inputs"),
    "groups": (*list(_CHECKS)[1:], "inputs", "hosts"),
    "hosts": (*_CHECKS, "inputs", "groups"),
}

Place = tuple[str, int, int]


class Value(NamedTuple):
    """A value, and where it is written: file, line and column."""

    value: Any
    place: Place


class Settings(NamedTuple):
    """What one entry says: settings of the connection, and inputs, by name."""

    connection: Mapping[str, Value]
    inputs: Mapping[str, Value]


_NOTHING: Final = Settings({}, {})


class Inventory(NamedTuple):
    """The hosts of one file, in its order."""

    file: str
    #: Host → the keys of the file that name it, by number, and its groups in the order of the file.
    hosts: Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]]
    #: Group → its hosts.
    groups: Mapping[str, Sequence[str]]
    #: What holds for the hosts that no key names.
    defaults: Settings
    #: Keys and groups of a host → what they say together.
    settings: Mapping[tuple[tuple[int, ...], tuple[str, ...]], Settings]

    def host(self, name: str) -> Host:
        """Return how a host is reached; one that the file does not name is an address. Raise ``ValueError``."""
        belongs = self.hosts.get(name)
        connection = self.settings_of(name).connection
        given = {key: each.value for key, each in connection.items()}
        given["connect_timeout"] = float(given.pop("timeout", 10.0))
        if (password := connection.get("become_password")) is not None:
            given["become_password"] = source_of(password, name)
        if belongs is not None:
            return Host(name, **given, groups=belongs[1])
        address = host_names.address(name)
        given |= {key: value for key, value in (("user", address.user), ("port", address.port)) if value is not None}
        return Host(name, address.host, **given)

    def transport(self, name: str) -> str:
        """Return what connects to a host: ``asyncssh`` or ``ssh``."""
        found = self.settings_of(name).connection.get("transport")
        return LIBRARY if found is None else str(found.value)

    def settings_of(self, name: str) -> Settings:
        """Return what holds for a host, the more particular setting before the more general."""
        belongs = self.hosts.get(name)
        return self.defaults if belongs is None else self.settings[belongs]


EMPTY: Final = Inventory("", {}, {}, _NOTHING, {})


def read(path: str) -> Inventory:
    """Return the inventory of a YAML or JSON file. Raise ``ManifestError`` with every problem."""
    suffix = os.path.splitext(path)[1].lower()
    try:
        raw, _ = read_file(path)
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise document.manifest_error(path, (0, 0), "unreadable", message) from error
    return parse(raw, path, suffix)


def parse(raw: bytes, file: str, suffix: str = ".json") -> Inventory:
    """Return the inventory that a text describes. Raise ``ManifestError`` with every problem."""
    builder = _Builder(READERS[suffix](raw, file))
    found = builder.build()
    if builder.problems:
        raise ManifestError(builder.problems)
    return found


class _Builder:
    """Collects what a document says, and all that is wrong with it."""

    def __init__(self, source: Document) -> None:
        self._source = source
        self._expanded = host_names.counted(host_names.expand)
        self.problems: list[Problem] = []

    def build(self) -> Inventory:
        """Return the inventory; it is of use only where there are no problems."""
        data = {} if self._source.data is None else self._source.data
        if not self._is_mapping(data, (), "an inventory"):
            return EMPTY
        self._check_keys(data, (), _SECTIONS)
        defaults = self._settings("defaults", data.get("defaults"), ("defaults",))
        bodies = self._entries(data, "hosts")
        groups = self._entries(data, "groups")
        for name in groups:
            if not _is_name(name):
                self._add(("groups", name), f"{show(name)} can be no name of a group")
        belongs, keys = self._belongs(bodies, groups)
        by_group = {name: self._settings("groups", body, ("groups", name)) for name, body in groups.items()}
        members = _members(belongs, groups)
        for name in members.keys() & belongs.keys():
            self._add(("hosts", name), f"'{name}' is a host and a group; give one of them another name")
        settings = {each: self._combined(each, defaults, by_group, keys) for each in dict.fromkeys(belongs.values())}
        return Inventory(self._source.file, belongs, members, defaults, settings)

    def _belongs(
        self, bodies: Mapping[str, Any], groups: Mapping[str, Any]
    ) -> tuple[dict[str, tuple[tuple[int, ...], tuple[str, ...]]], list[Settings]]:
        """Return each host with its keys and groups, and the settings of every key."""
        keys, settings = dict[str, list[int]](), list[Settings]()
        of_host: dict[str, dict[str, None]] = {}
        for number, (pattern, body) in enumerate(bodies.items()):
            path = ("hosts", pattern)
            settings.append(self._settings("hosts", body, path))
            own = self._names(body.get("groups"), (*path, "groups"), _is_name) if isinstance(body, dict) else []
            for name in self._expand(pattern, path):
                keys.setdefault(name, []).append(number)
                of_host.setdefault(name, {}).update(dict.fromkeys(own))
        for group, body in groups.items():
            listed = body.get("hosts") if isinstance(body, dict) else None
            for pattern in self._names(listed, ("groups", group, "hosts"), bool):
                for name in self._expand(pattern, ("groups", group, "hosts")):
                    keys.setdefault(name, [])
                    of_host.setdefault(name, {})[group] = None
        order = {name: place for place, name in enumerate(groups)}
        # Equal tuples are one object: of many hosts most belong to the same keys and groups.
        shared: dict[Any, Any] = {}
        found = {}
        for name, own_keys in keys.items():
            in_order = sorted(of_host[name], key=lambda group: order.get(group, len(order)))
            each = tuple(own_keys), tuple(in_order)
            found[name] = shared.setdefault(each, each)
        return found, settings

    def _combined(
        self,
        belongs: tuple[tuple[int, ...], tuple[str, ...]],
        defaults: Settings,
        by_group: Mapping[str, Settings],
        keys: Sequence[Settings],
    ) -> Settings:
        """Return what holds for the hosts of some keys and groups; groups must not disagree about what stays theirs."""
        of_groups = [by_group[name] for name in belongs[1] if name in by_group]
        of_keys = [keys[number] for number in belongs[0]]
        merged = []
        for field in range(len(Settings._fields)):
            own: dict[str, Value] = {name: value for each in of_keys for name, value in each[field].items()}
            shared = dict[str, Value]()
            for each in of_groups:
                for name, value in each[field].items():
                    first = shared.setdefault(name, value)
                    if first.value != value.value and name not in own:
                        self._add_conflict(name, first, value)
            merged.append({**defaults[field], **shared, **own})
        return Settings(*merged)

    def _add_conflict(self, name: str, first: Value, second: Value) -> None:
        message = f"two groups of one host disagree about {show(name)}: the other one is at line {first.place[1]}"
        problem = document.problem(second.place[0], second.place[1:], "conflict", message, "the host's own would win")
        if problem not in self.problems:
            self.problems.append(problem)

    # The parts of a document

    def _entries(self, data: Mapping[str, Any], section: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] | None = data.get(section)
        if found is None or not self._is_mapping(found, (section,), f"'{section}'"):
            return {}
        return found

    def _settings(self, section: str, body: Any, path: tuple[str, ...]) -> Settings:
        if body is None or not self._is_mapping(body, path, f"'{path[-1]}'"):
            return _NOTHING
        self._check_keys(body, path, _KEYS[section])
        connection = {}
        for key in body.keys() & _CHECKS.keys() & set(_KEYS[section]):
            if body[key] is None:
                continue
            if why := _CHECKS[key](body[key]):
                self._add((*path, key), f"{key} {why}", value=True)
            connection[key] = self._value(body[key], (*path, key))
        inputs = body.get("inputs")
        if inputs is None or not self._is_mapping(inputs, (*path, "inputs"), "'inputs'"):
            return Settings(connection, {})
        return Settings(
            connection, {name: self._value(value, (*path, "inputs", name)) for name, value in inputs.items()}
        )

    def _value(self, value: Any, path: tuple[str, ...]) -> Value:
        line, column = self._source.position(path)
        return Value(value, (self._source.file, line, column))

    def _names(self, found: Any, path: tuple[str, ...], accepts: Callable[[str], object]) -> list[str]:
        if found is None:
            return []
        if type(found) is not list or not all(type(name) is str and accepts(name) for name in found):
            self._add(path, f"'{path[-1]}' must be a list of names", value=True)
            return []
        return found

    def _expand(self, pattern: str, path: tuple[str, ...]) -> Iterable[str]:
        try:
            names = self._expanded(pattern)
        except ValueError as error:
            self._add(path, str(error))
            return ()
        if not _is_host(names[0]):
            self._add(path, f"{show(pattern)} is no name of a host", "user, port and address are keys beneath it")
        return names

    def _check_keys(self, body: Mapping[Any, Any], path: tuple[str, ...], known: Sequence[str]) -> None:
        for key in body:
            if key not in known:
                hint = nearest(str(key), known) or f"known are {', '.join(known)}"
                where = f" of {path[-1]}" if path else ""
                self._add((*path, key), f"unknown key {show(key)}{where}", hint)

    def _is_mapping(self, found: Any, path: tuple[str, ...], what: str) -> bool:
        if type(found) is dict:
            return True
        self._add(path, f"{what} must be a mapping", value=True)
        return False

    def _add(self, path: tuple[Any, ...], message: str, hint: str = "", *, value: bool = False) -> None:
        place = self._source.position(path, value=value)
        self.problems.append(document.problem(self._source.file, place, "inventory", message, hint))


def _members(belongs: Mapping[str, tuple[Any, tuple[str, ...]]], groups: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in groups}
    for name, (_, own) in belongs.items():
        for group in own:
            found.setdefault(group, []).append(name)
    return found


def _is_text(value: Any) -> bool:
    return type(value) is str and bool(value) and value.isprintable()


def _is_word(value: Any) -> bool:
    """Return whether a value is a text that no program takes for an option."""
    return _is_text(value) and not value.startswith("-") and " " not in value


def _is_number(value: Any) -> bool:
    return type(value) in {int, float}


def _is_name(value: str) -> bool:
    """Return whether a text can name a group: none of the signs of a selection, and no path."""
    return _is_word(value) and not set(value) & set("[]@!&,:/")


def _is_host(value: Any) -> bool:
    try:
        return type(value) is str and host_names.address(value).user is None and host_names.address(value).port is None
    except ValueError:
        return False
