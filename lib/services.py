"""The base class of all providers of services: the meaning of the name, comparisons and recorded options."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api import Change, Context, Resource, SideEffect

#: The kinds of units (systemd.unit(5)); any other last part of a name belongs to the name of a service.
SUFFIXES = (
    *(".service", ".socket", ".timer", ".target", ".path", ".mount"),
    *(".automount", ".swap", ".device", ".slice", ".scope"),
)
#: The state of a service that does not exist.
NOT_FOUND = "not-found"


class ServiceProvider(BaseProvider):
    """The base class of services' providers; methods that depend on the declaration alone are called on one for all."""

    #: The services that a refresh reloads instead of restarting them.
    _reloaded: ClassVar[set[Any]] = set()
    #: Name → the file that has the number of the process of a service.
    _pidfiles: ClassVar[dict[Any, str]] = {}

    def __init__(self) -> None:
        """Begin without a service that this run has started."""
        self.started: set[Any] = set()

    @abstractmethod
    def runs(self, name: Any) -> bool:
        """Return whether a service runs now."""

    @abstractmethod
    def restart(self, name: Any) -> None:
        """Restart a service that runs."""

    @abstractmethod
    def reload(self, name: Any) -> None:
        """Have a service that runs read its files again; restart one that cannot."""

    def preflight(self, context: Context, changes: Mapping[Any, Mapping[str, Any]]) -> Iterator[tuple[Any, Problem]]:
        """Yield a problem for each service that is to be running or enabled, and does not exist."""
        pairs = changes.items()
        started = [name for name, should in pairs if should.get("ensure") == "running" or should.get("enable") is True]
        for resource in self.get(context, started):
            if resource.get("state") == NOT_FOUND:
                name = self.name_of(resource)
                yield name, Problem(None, f"there is no service '{name}'")

    def side_effects(self, _context: Context, _changes: Mapping[Any, Change]) -> Iterable[tuple[Any, SideEffect]]:
        """Return the services that are started and stopped besides: none, unless an init system has relations."""
        return ()

    def refresh(self, context: Context, names: Sequence[Any]) -> None:
        """Restart or reload the services that run; those started by this run have read their new files already.

        It is called after a change of a resource that notifies them, such as their configuration.
        """
        for name in names:
            reloads = name in self._reloaded
            with context.updating(name, message="Reloading" if reloads else "Restarting"):
                if name in self.started:
                    context.unchanged(name)
                elif self.runs(name):
                    (self.reload if reloads else self.restart)(name)
                    context.updated(name, message="Reloaded" if reloads else "Restarted")
                else:
                    context.unchanged(name, message="Does not run: a refresh starts no service, 'ensure: running' does")

    def name_of(self, resource: Resource) -> Any:
        """Return the identity of a service."""
        return resource["name"]

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Leave out the suffix ``.service``, so that one service is not two resources, and record two parameters.

        The methods ``refresh`` and ``get`` need the parameters ``refresh`` and ``pidfile``, and receive only names.
        """
        for resource in resources:
            if resource.get("name") is not None:
                resource["name"] = short_name(resource["name"])
                if "refresh" in resource:  # rows of ``get`` have no parameters
                    self._record(self.name_of(resource), resource)
        return resources

    def _record(self, name: Any, resource: Resource) -> None:
        """Record whether a service is reloaded instead of restarted, and its pidfile, for ``refresh`` and ``get``.

        They replace those of an earlier declaration: the records outlive a run in one process.
        """
        self._reloaded.discard(name)
        self._pidfiles.pop(name, None)
        if resource["refresh"] == "reload":
            self._reloaded.add(name)
        if resource.get("pidfile"):
            self._pidfiles[name] = resource["pidfile"]

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse secrets, which would be arguments of a program."""
        return refused_secrets(should)

    def insync(
        self, _context: Context, _name: Any, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Explain differences that the two values do not show; None leaves any other comparison to the runtime.

        A row of ``get`` lacks ``ensure`` or ``enable`` if it is unknown. A unit of systemd, which has ``unit_file``,
        lacks ``enable`` where it cannot be enabled at all.
        """
        # Of a unit that fails and is started again and again, ``ensure`` is stopped in between.
        is_restarting = str(is_.get("state", "")).startswith("activating")
        if attribute == "ensure" and should["ensure"] == "stopped" and is_restarting:
            return False, f"changed from {is_['state']} to stopped"
        if attribute == "ensure" and "ensure" not in is_:
            return False, "it is not known whether it runs"
        if attribute == "enable" and is_.get("state") and "enable" not in is_ and "unit_file" not in is_:
            return False, "only a part of its links to runlevels is there"
        return None


def unit_name(name: str) -> str:
    """Return the name of a unit: ``nginx.service`` for ``nginx``, other units as they are."""
    return name if name.endswith(SUFFIXES) else f"{name}.service"


def short_name(unit: str) -> str:
    """Return the name of a unit without ``.service``, unless that is another unit's name."""
    short = unit.removesuffix(".service")
    return short if short and unit_name(short) == unit else unit
