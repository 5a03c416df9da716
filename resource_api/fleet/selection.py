"""Which hosts `--on` means: names, ranges and groups of inventories, other inventories, and addresses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from resource_api.fleet import host_names, inventory
from resource_api.fleet.value_sources import kind_of
from resource_api.manifest.read import READERS
from resource_api.model.values.document import MAX_BYTES, manifest_error
from resource_api.model.values.errors import UsageError
from resource_api.system.process import interactive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.fleet.inventory import Inventory
    from resource_api.system.filesystem.code_trust import CodeTrust

_FILE: Final = "@"


class Selection:
    """Finds hosts in inventories."""

    def __init__(self, default: str | None, trust: CodeTrust) -> None:
        """Search the inventory ``default``, None: there is none; ``trust`` opens those that are executed.

        Raise ``ManifestError``, ``UntrustedCode``.
        """
        self._trust = trust
        self._files: dict[str, Inventory] = {}
        self._default = inventory.EMPTY if default is None else self._load(default)

    @property
    def files(self) -> Sequence[str]:
        """The files of the inventories."""
        return list(self._files)

    def find(self, where: Sequence[str]) -> dict[str, Inventory]:
        """Return the selected hosts in their order, each with the inventory that it is in.

        Raise ``UsageError`` for what can be no selection and for one without hosts, ``ManifestError`` for a wrong
        inventory.
        """
        items = [item for text in where for item in host_names.split(text)]
        for name in _names(items):
            if name.startswith(_FILE):
                self._load(name.removeprefix(_FILE))
        try:
            found = host_names.select(items, self._members, list(self._default.hosts))
        except ValueError as error:
            msg = f"--on: {error}"
            raise UsageError(msg) from error
        if not found:
            msg = f"--on {','.join(where)}: no host is left"
            raise UsageError(msg)
        return {name: self.inventory_of(name) for name in found}

    def inventory_of(self, name: str) -> Inventory:
        """Return the inventory that a host is in; of an address the default one."""
        return next((each for each in self._searched if name in each.hosts), self._default)

    def suggestions(self, found: Mapping[str, Inventory]) -> Iterator[tuple[str, list[str]]]:
        """Yield the addresses that no inventory names, where there is one, with the names that may have been meant."""
        known = self._known
        for name, of in found.items():
            if known and name not in of.hosts:
                yield name, known

    def unused(self, where: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield the names after ``!`` and ``&`` that no inventory has and no host is selected by, as above."""
        terms = [host_names.term(item) for text in where for item in host_names.split(text)]
        known = self._known
        taken = {*known, *(host for each in terms for first in each.wanted[:1] for host in self._members(first))}
        for name in dict.fromkeys(name for each in terms for name in (*each.wanted[1:], *each.excluded)):
            if not name.startswith(_FILE) and taken.isdisjoint((name, *self._members(name))):
                yield name, known

    @property
    def _known(self) -> list[str]:
        return [name for each in self._searched for name in (*each.groups, *each.hosts)]

    @property
    def _searched(self) -> list[Inventory]:
        return [*(each for each in self._files.values() if each is not self._default), self._default]

    def _members(self, name: str) -> Sequence[str]:
        if name.startswith(_FILE):
            return list(self._load(name.removeprefix(_FILE)).hosts)
        for each in self._searched:
            if name in each.groups:
                return each.groups[name]
        names = host_names.expand(name)
        for host in names:
            if host not in self.inventory_of(host).hosts:
                host_names.address(host)
        return names

    def _load(self, path: str) -> Inventory:
        if path not in self._files:
            suffix = os.path.splitext(path)[1].lower()
            self._files[path] = inventory.read(path) if suffix in READERS else self._executed(path)
            self._check_commands(self._files[path])
        return self._files[path]

    def _executed(self, path: str) -> Inventory:
        """Return the inventory that a program prints."""
        try:
            os.close(self._trust.open(path))
            if not os.access(path, os.X_OK):
                ends = ", ".join(READERS)
                raise manifest_error(path, (0, 0), "inventory", f"an inventory ends in {ends}, or can be executed")
            raw = interactive.output([os.path.abspath(path)], ".", MAX_BYTES)
        except (OSError, ValueError) as error:
            message = f"cannot be executed: {getattr(error, 'strerror', None) or error}"
            raise manifest_error(path, (0, 0), "inventory", message) from error
        return inventory.parse(raw, path)

    def _check_commands(self, found: Inventory) -> None:
        """Raise ``UntrustedCode`` for an inventory that names programs and that others can change."""
        named = (
            each.value
            for settings in (found.defaults, *found.settings.values())
            for each in (*settings.inputs.values(), *settings.connection.values())
        )
        if any(kind_of(value) == "command" for value in named):
            os.close(self._trust.open(found.file))


def beside(manifest: str | None) -> str | None:
    """Return the inventory beside a manifest, or in the working directory where there is none; None: there is none.

    A directory is one of saved plans, which no inventory is beside.
    """
    above = "" if manifest is None or os.path.isdir(manifest) else os.path.dirname(manifest)
    path = os.path.join(above, inventory.FILE)
    return path if os.path.lexists(path) else None


def _names(items: Sequence[str]) -> Iterator[str]:
    """Yield every name in the items of a selection that can be read."""
    for item in items:
        for part in item.split("&"):
            yield part.strip().removeprefix("!").strip()
