"""Inventories: the hosts, groups and inputs of `hosts.yaml` or of a program's output; and the selection by `--on`.

The file is read with the reader of manifests, so that every problem has its line and column. The schema ``inventory``
validates it; data types of inputs are checked with the manifest: see ``fleet/job_inputs``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import host_names
from resource_api.fleet.connections import LIBRARY, Host, jump_host
from resource_api.manifest.input_files import InputFiles, source_of, source_problem, suffix
from resource_api.manifest.input_values import LocatedValue
from resource_api.manifest.read import READERS, read_file
from resource_api.model.values import document
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ManifestError, Problem, UsageError
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import show
from resource_api.system import document_schema
from resource_api.system.process import interactive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.model.values.document import Document
    from resource_api.system.filesystem.code_trust import CodeTrust

    #: The membership of a host: the numbers of the keys that name it, and its groups in the order of the file.
    Membership = tuple[tuple[int, ...], tuple[str, ...]]

#: The name of an inventory beside a manifest.
FILE: Final = "hosts.yaml"
#: Begins the name of an inventory in a selection.
_FILE_PREFIX: Final = "@"
#: The name of all hosts of the inventory.
ALL: Final = "all"
#: The keys beside the settings of a connection.
_NO_CONNECTION: Final = frozenset({"inputs", "groups", "hosts"})


class HostSettings(NamedTuple):
    """Settings of the connection, and inputs, by name."""

    connection: Mapping[str, LocatedValue]
    inputs: Mapping[str, LocatedValue]


_NO_SETTINGS: Final = HostSettings({}, {})


class Inventory(NamedTuple):
    """The hosts of one file, in its order."""

    file: str
    hosts: Mapping[str, Membership]
    #: Group → its hosts.
    groups: Mapping[str, Sequence[str]]
    #: The settings of hosts that no key names.
    defaults: HostSettings
    #: The merged settings of all hosts with the same membership.
    settings: Mapping[Membership, HostSettings]

    def host(self, name: str) -> Host:
        """Return a host with its connection settings and the jump hosts on the way to it, to connect to it.

        A name that is not in the file is an address, ``admin@web1:2222``. Raise ``ValueError`` for an invalid one.
        """
        jump_hosts = list[Host]()
        host = self._without_circle(self._host(name), {name}, jump_hosts)
        return host._replace(jump_hosts=tuple(jump_hosts))

    def _without_circle(self, host: Host, visited: set[str], jump_hosts: list[Host]) -> Host:
        """Return a host without the jump hosts that are themselves reached through it, a circle without a begin.

        ``visited``: the host and all hosts behind it, which must not be its jump hosts. The remaining jump hosts of the
        host that are in this inventory are appended to ``jump_hosts``, each once, each after its own jump hosts.
        """
        if not host.via:
            return host
        hops = list[str]()
        for hop in filter(None, host.via.split(",")):
            name = jump_host(hop).host
            if name in visited:
                continue
            hops.append(hop)
            if name in self.hosts and all(name != jump.name for jump in jump_hosts):
                jump_hosts.append(self._without_circle(self._host(name), {*visited, name}, jump_hosts))
        return host._replace(via=",".join(hops) or "none")

    def _host(self, name: str) -> Host:
        """Return the connection of a host from its merged settings; ``host`` then removes circles among its jump hosts.

        A name that the inventory lacks is an address, perhaps with user and port, and has the default settings.
        """
        connection = self.settings_of(name).connection
        fields = {key: setting.value for key, setting in connection.items()}
        fields["connect_timeout"] = float(fields.pop("timeout", 10.0))
        if (password := connection.get("become_password")) is not None:
            fields["become_password"] = source_of(password.value, password.directory, name)
        if (membership := self.hosts.get(name)) is not None:
            return Host(name, **fields, groups=membership[1])
        address = host_names.address(name)
        fields |= {key: value for key, value in (("user", address.user), ("port", address.port)) if value is not None}
        return Host(name, address.host, **fields)

    @property
    def values(self) -> list[LocatedValue]:
        """All settings and inputs of the file, to find commands in them that would be executed.

        A file with a command must not be writable by other users, as for code: ``InputFiles.check_programs``.
        """
        return [
            value
            for settings in (self.defaults, *self.settings.values())
            for value in (*settings.inputs.values(), *settings.connection.values())
        ]

    def transport(self, name: str) -> str:
        """Return the transport of a host: ``asyncssh`` or ``ssh``."""
        setting = self.settings_of(name).connection.get("transport")
        return LIBRARY if setting is None else str(setting.value)

    def settings_of(self, name: str) -> HostSettings:
        """Return the merged settings of a host: its own before its groups' before the defaults."""
        membership = self.hosts.get(name)
        return self.defaults if membership is None else self.settings[membership]


EMPTY: Final = Inventory("", {}, {}, _NO_SETTINGS, {})


def read(path: str, reader: InputFiles) -> Inventory:
    """Return the inventory of a YAML or JSON file. Raise ``ManifestError`` with all problems, and ``UsageError``."""
    try:
        raw, _ = read_file(path)
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise document.manifest_error(path, (0, 0), "unreadable", message) from error
    return build(reader.parse(raw, path))


def build(source: Document) -> Inventory:
    """Return the inventory in the document of a file or program. Raise ``ManifestError`` with all problems at once."""
    if source.data is None:
        return EMPTY
    document_schema.check("inventory", source, "inventory")
    builder = _Builder(source)
    inventory = builder.build()
    if builder.problems:
        raise ManifestError(builder.problems)
    return inventory


class _Builder:
    """Builds an inventory from a document and collects all problems."""

    def __init__(self, source: Document) -> None:
        """Read the inventory in ``source``, the document of a file or of a program."""
        self._source = source
        #: ``expand``, which raises ``ValueError`` for more hosts than a whole file may have.
        self._expanded = host_names.limited(host_names.expand)
        self.problems: list[Problem] = []

    def build(self) -> Inventory:
        """Return the inventory of the document, with the settings merged once for hosts of equal membership.

        Mistakes are collected in ``problems``: the caller raises all of them, and drops the inventory.
        """
        defaults = self._settings("defaults", body=self._source.data.get("defaults"))
        bodies, groups = (self._source.data.get(section) or {} for section in ("hosts", "groups"))
        keys = [self._settings("hosts", pattern, body=body) for pattern, body in bodies.items()]
        hosts = self._memberships(bodies, groups)
        by_group = {name: self._settings("groups", name, body=body) for name, body in groups.items()}
        members = _hosts_by_group(hosts, groups)
        for name in members.keys() & hosts.keys():
            self._add(("hosts", name), f"'{name}' is a host and a group; give one of them another name")
        settings = {
            membership: self._combined(membership, defaults, by_group, keys)
            for membership in dict.fromkeys(hosts.values())
        }
        return Inventory(self._source.file, hosts, members, defaults, settings)

    def _memberships(self, bodies: Mapping[str, Any], groups: Mapping[str, Any]) -> dict[str, Membership]:
        """Return host → its membership: the keys in ``hosts`` that match the host, by number, and the host's groups.

        Hosts with the same membership have the same settings, which are merged once for all of them. ``bodies`` and
        ``groups``: the sections ``hosts`` and ``groups`` of the file, key or group → its body, perhaps None.
        """
        #: Host → the numbers of its keys, and its groups, as the keys of a dict.
        named: dict[str, tuple[list[int], dict[str, None]]] = defaultdict(lambda: ([], {}))
        for number, (pattern, body) in enumerate(bodies.items()):
            for name in self._expand(pattern, ("hosts", pattern)):
                numbers, groups_of_host = named[name]
                numbers.append(number)
                groups_of_host.update(dict.fromkeys((body or {}).get("groups") or ()))
        for group, body in groups.items():
            for pattern in (body or {}).get("hosts") or ():
                for name in self._expand(pattern, ("groups", group, "hosts")):
                    named[name][1][group] = None
        order = {name: index for index, name in enumerate(groups)}
        # Equal memberships are one object: most of many hosts belong to the same keys and groups.
        shared: dict[Membership, Membership] = {}
        hosts = {}
        for name, (numbers, groups_of_host) in named.items():
            in_order = sorted(groups_of_host, key=lambda group: order.get(group, len(order)))
            membership = tuple(numbers), tuple(in_order)
            hosts[name] = shared.setdefault(membership, membership)
        return hosts

    def _combined(
        self,
        membership: Membership,
        defaults: HostSettings,
        by_group: Mapping[str, HostSettings],
        keys: Sequence[HostSettings],
    ) -> HostSettings:
        """Return the merged settings of all hosts with the same ``membership``: numbers of keys, and names of groups.

        ``defaults``: the settings for all hosts. ``by_group``: group → its settings. ``keys``: the settings of each key
        in ``hosts``, by number. Connection settings and inputs are merged separately, as their names may be equal.
        """
        of_groups = [by_group[name] for name in membership[1] if name in by_group]
        of_keys = [keys[number] for number in membership[0]]
        connections = [item.connection for item in of_groups], [item.connection for item in of_keys]
        inputs = [item.inputs for item in of_groups], [item.inputs for item in of_keys]
        return HostSettings(self._merged(defaults.connection, *connections), self._merged(defaults.inputs, *inputs))

    def _merged(
        self,
        defaults: Mapping[str, LocatedValue],
        of_groups: Iterable[Mapping[str, LocatedValue]],
        of_keys: Iterable[Mapping[str, LocatedValue]],
    ) -> dict[str, LocatedValue]:
        """Merge values: the host's own keys of ``hosts`` take precedence over its groups, and these over the defaults.

        Of several keys the last one has precedence. Groups have no order, so different values of two groups are a
        problem, unless a key of the host has a value.
        """
        from_keys = {name: value for values in of_keys for name, value in values.items()}
        from_groups = dict[str, LocatedValue]()
        for values in of_groups:
            for name, value in values.items():
                first = from_groups.setdefault(name, value)
                if first.value != value.value and name not in from_keys:
                    self._add_conflict(name, first, value)
        return {**defaults, **from_groups, **from_keys}

    def _add_conflict(self, name: str, first: LocatedValue, second: LocatedValue) -> None:
        """Report a setting for which two groups of a host have different values, once for all hosts in both groups."""
        message = f"two groups of one host disagree about {show(name)}: the other one is at line {first.line}"
        problem = document.problem(
            second.file, (second.line, second.column), "conflict", message, "the host's own would win"
        )
        if problem not in self.problems:
            self.problems.append(problem)

    def _settings(self, *path: str, body: Mapping[str, Any] | None) -> HostSettings:
        """Return the settings and inputs of one host key, group or the defaults, with positions for messages.

        ``path`` leads to ``body`` in the file. A value of null counts as absent.
        """
        settings = {key: value for key, value in (body or {}).items() if value is not None}
        connection = {
            key: self._value(value, (*path, key)) for key, value in settings.items() if key not in _NO_CONNECTION
        }
        inputs = settings.get("inputs", {}).items()
        return HostSettings(connection, {name: self._value(value, (*path, "inputs", name)) for name, value in inputs})

    def _value(self, value: object, path: tuple[str, ...]) -> LocatedValue:
        """Return the value at a path of the file with its position; report a mistake in a source ``{file: PATH}``."""
        if message := source_problem(value):
            self._add(path, message)
        return LocatedValue(value, self._source.file, *self._source.position(path))

    def _expand(self, pattern: str, path: tuple[str, ...]) -> Iterable[str]:
        """Return the hosts of a pattern ``web[1:9]``, none for an invalid range; report its mistakes at ``path``."""
        try:
            names = self._expanded(pattern)
        except ValueError as error:
            self._add(path, str(error))
            return ()
        if not _is_host(names[0]):  # the names of a pattern differ only by numbers and letters
            self._add(path, f"{show(pattern)} is no name of a host", "user, port and address are keys beneath it")
        return names

    def _add(self, path: tuple[str, ...], message: str, hint: str = "") -> None:
        """Report a problem at a path of the file."""
        position = self._source.position(path)
        self.problems.append(document.problem(self._source.file, position, "inventory", message, hint))


def _hosts_by_group(hosts: Mapping[str, Membership], groups: Mapping[str, object]) -> dict[str, list[str]]:
    """Return group → its hosts, in the order of the file, to find the hosts of a group in a selection.

    A host may also name a group that has no section of its own.
    """
    members: dict[str, list[str]] = {name: [] for name in groups}
    for host, (_numbers, host_groups) in hosts.items():
        for group in host_groups:
            members.setdefault(group, []).append(host)
    return members


def _items(selections: Iterable[str]) -> list[str]:
    """Return the items of all selections together."""
    return [item for text in selections for item in host_names.split(text)]


def _is_host(name: str) -> bool:
    """Whether a name consists of the host alone, as required in an inventory.

    There user and port are keys beneath the name, so that a setting has only one position.
    """
    try:
        return host_names.address(name)[1:] == (None, None)
    except ValueError:
        return False


class Selection:
    """Finds the hosts that `--on` selects: names, ranges and groups of inventories, other inventories, addresses."""

    def __init__(self, default: str | None, trust: CodeTrust, reader: InputFiles) -> None:
        """Select among the hosts of the inventory file ``default``, or if None, of the inventories in ``--on``.

        ``trust`` checks inventories that are executed. Raise ``ManifestError``, ``UntrustedCode``.
        """
        self._trust = trust
        self._reader = reader
        #: Path → inventory, in the order of reading.
        self._inventories: dict[str, Inventory] = {}
        self._default = EMPTY if default is None else self._load(default)

    @property
    def files(self) -> Sequence[str]:
        """The files of the inventories."""
        return list(self._inventories)

    def find(self, selections: Sequence[str], option: str = "--on") -> dict[str, Inventory]:
        """Return the selected hosts in their order, each with the inventory that has its settings.

        ``option``: the beginning of messages about the selection. Raise ``UsageError`` for an invalid or empty
        selection, ``ManifestError`` for an invalid inventory.
        """
        items = _items(selections)
        # Inventories are read first: the groups of each count for all items.
        for item in items:
            for part in item.split("&"):
                name = part.strip().removeprefix("!").strip()
                if name.startswith(_FILE_PREFIX):
                    self._load(name.removeprefix(_FILE_PREFIX))
        with errors_as(UsageError, begin=f"{option}: " if option else ""):
            hosts = host_names.select(items, self._members, list(self._default.hosts))
        if not hosts:
            subject = " ".join(filter(None, (option, ",".join(selections))))
            raise UsageError(f"{subject}: no host is left" if subject else "no host is left")
        return {name: self.inventory_of(name) for name in hosts}

    def inventory_of(self, name: str) -> Inventory:
        """Return the inventory of a host; for an address the default one."""
        return next((inventory for inventory in self._searched if name in inventory.hosts), self._default)

    def suggestions(self, hosts: Mapping[str, Inventory]) -> Iterator[tuple[str, list[str]]]:
        """Yield each selected address that is in no inventory, with all names of the inventories.

        The caller warns if the address is similar to a name, since it may be mistyped. ``hosts``: from ``find``.
        """
        names = self._all_names
        for name, inventory in hosts.items():
            if names and name not in inventory.hosts:
                yield name, names

    def unused(self, selections: Sequence[str]) -> Iterator[tuple[str, list[str], bool]]:
        """Yield each name after ``!`` and ``&`` that matches no host, to warn of a typing error in the selection.

        A name matches if it is in an inventory. An address outside the inventories matches if the first name of an item
        selects it, as in ``10.0.0.[1:9],!10.0.0.5``. Each name is yielded with all names of the inventories, of which
        the caller suggests a similar one, and with True if it is excluded.
        """
        names = self._all_names
        matched, intersected, excluded = set(names), list[str](), list[str]()
        for item in _items(selections):
            term = host_names.term(item)
            matched.update(*map(self._members, term.included[:1]))
            intersected += term.included[1:]
            excluded += term.excluded
        for name in dict.fromkeys([*intersected, *excluded]):
            if not name.startswith(_FILE_PREFIX) and matched.isdisjoint((name, *self._members(name))):
                yield name, names, name in excluded

    @property
    def _all_names(self) -> list[str]:
        """The names of all groups and hosts, for suggestions."""
        return [name for inventory in self._searched for name in (*inventory.groups, *inventory.hosts)]

    @property
    def _searched(self) -> list[Inventory]:
        """The inventories in the order of search: those of the selection precede the default one."""
        return [*(item for item in self._inventories.values() if item is not self._default), self._default]

    def _members(self, name: str) -> Sequence[str]:
        """Return the hosts of one name in a selection: ``@FILE``, a group, ``all``, or a host name or range.

        If a group or host is called ``all``, it is selected instead of all hosts. Raise ``ValueError`` for an invalid
        name.
        """
        if name.startswith(_FILE_PREFIX):
            return list(self._load(name.removeprefix(_FILE_PREFIX)).hosts)
        for inventory in self._searched:
            if name in inventory.groups:
                return inventory.groups[name]
        if name == ALL and not any(name in inventory.hosts for inventory in self._searched):
            if not self._default.hosts:
                raise ValueError(f"'{ALL}' means all hosts of an inventory, and there is none: --hosts names its file")
            return list(self._default.hosts)
        names = host_names.expand(name)
        for host in names:
            if host not in self.inventory_of(host).hosts:  # an address, which may be invalid
                host_names.address(host)
        return names

    def _load(self, path: str) -> Inventory:
        """Return the inventory of a file, read or executed at its first use only. Raise ``ManifestError``.

        Raise ``UntrustedCode`` if other users can change a file that is executed, or that contains commands.
        """
        if path not in self._inventories:
            inventory = read(path, self._reader) if suffix(path) in READERS else self._executed(path)
            self._reader.check_programs(path, inventory.values)
            self._inventories[path] = inventory
        return self._inventories[path]

    def _executed(self, path: str) -> Inventory:
        """Return the inventory in the JSON output of the program ``path``.

        Raise ``ManifestError``, and ``UntrustedCode`` if other users can change it.
        """
        try:
            os.close(self._trust.open(path))  # raises if other users can change it
            if not os.access(path, os.X_OK):
                message = f"an inventory ends in {', '.join(READERS)}, or can be executed"
                raise document.manifest_error(path, (0, 0), "inventory", message)
            raw = interactive.output([os.path.abspath(path)], ".", document.MAX_BYTES)  # its JSON
        except (OSError, ValueError) as error:
            verb = "read" if isinstance(error, FileNotFoundError) else "executed"
            message = f"cannot be {verb}: {getattr(error, 'strerror', None) or error}"
            raise document.manifest_error(path, (0, 0), "inventory", message) from error
        return build(READERS[".json"](raw, path))


def beside(manifest: str | None) -> str | None:
    """Return the inventory beside a manifest, which is used without ``--hosts``; None if it does not exist.

    Without a manifest, and for a directory of saved plans, it is the one in the working directory. Raise
    ``ManifestError`` where there are a plain and an encrypted inventory.
    """
    directory = "" if manifest is None or os.path.isdir(manifest) else os.path.dirname(manifest)
    path = os.path.join(directory, FILE)
    paths = [path for path in (path, path + document.AGE) if os.path.lexists(path)]
    if len(paths) > 1:
        message = (
            f"stands beside {path}, and only one of them can be the inventory; remove one, or name one with --hosts"
        )
        raise document.manifest_error(paths[1], (0, 0), "inventory", message)
    return paths[0] if paths else None
