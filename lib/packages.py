"""The base class of all providers of packages: the meaning of ``ensure``, ``purge`` and ``mark``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from lib.closure import closure
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from resource_api import Change, Context, Problem, Resource, SideEffect

    #: The arguments of the program for one transaction, and the packages that are declared in it.
    Transaction = tuple[Sequence[str], AbstractSet[str]]

#: The states of a working package, in dpkg's words. Those that are neither here nor in the next follow a failure.
WORKING = frozenset({"installed", "triggers-awaited", "triggers-pending"})
REMOVED = frozenset({"config-files", "not-installed"})


class PackageProvider(BaseProvider):
    """The base class of packages' providers; methods that depend on the declaration alone are called on one for all."""

    #: The packages that are declared as ``latest``, and those that are declared ``absent`` with ``purge``.
    _latest: ClassVar[set[str]] = set()
    _purged: ClassVar[set[str]] = set()

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write ``ensure: purged`` as ``absent`` with ``purge``; record names for ``get``, which has no declaration.

        They are the packages to be purged, whose removal is complete only without remaining files, and those declared
        as ``latest``: for these alone ``get`` asks for newer versions, which takes time.
        """
        for resource in resources:
            if resource.get("ensure") == "purged" and "purge" in resource:
                resource.update(ensure="absent", purge=True)
            if resource.get("ensure") == "latest" and "name" in resource:
                self._latest.add(resource["name"])
            if resource.get("ensure") == "absent" and resource.get("purge") and "name" in resource:
                self._purged.add(resource["name"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse secrets, which would be arguments of a program."""
        return refused_secrets(should)

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare ``ensure`` with the package's status and version, and ``mark`` with its mark, such as a hold.

        ``present`` accepts any version, ``latest`` the newest one available (the candidate), others name a version.
        """
        if attribute == "mark":
            return bool(is_.get("mark", "none") == should["mark"])
        if attribute != "ensure":
            return None
        ensure, status, version = should["ensure"], is_.get("status"), is_.get("version")
        if ensure == "absent":
            has_files_to_purge = status == "config-files" and should.get("purge")
            return status is None or (status in REMOVED and not has_files_to_purge)
        if status not in WORKING:
            return False, f"the package is {status}" if status else "the package is not installed"
        expected = {"present": version, "latest": is_.get("candidate")}.get(ensure, ensure)
        return version == expected or (False, f"changed from {version} to {expected or ensure}")

    def side_effects(self, context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield (declared package, effect) of all other installations, changes and removals by ``set``.

        The plan shows them before they happen; a simulation of the program returns them. An effect of a shared
        transaction comes with the packages that cause it, or with all if no link names a cause.
        """
        for arguments, names in self._transactions(context, changes):
            effects = list(self._simulated(arguments))
            declared = {name: changes[name] for name in changes if name in names}
            self._check_virtual(declared, effects)
            yield from _in_other_spellings(effects, names)
            side_effects = [effect for effect in effects if names.isdisjoint((effect.name, *effect.aliases))]
            # Where packages share a transaction, only the links among them tell which one causes an effect.
            is_shared = len(declared) > 1 and side_effects
            consequences = closure(self._links(context, declared, side_effects)) if is_shared else {}
            for effect in side_effects:
                causes = [name for name in declared if effect.name in consequences.get(name, ())]
                yield from ((name, effect) for name in causes or names)

    def _check_virtual(self, changes: Mapping[str, Change], effects: Sequence[SideEffect]) -> None:
        """Raise ``ResourceError`` for a virtual package, in whose place the program would install another one.

        ``get`` would never find the declared package, and each run would install it again.
        """
        changed = {name for effect in effects for name in (effect.name, *effect.aliases)}
        for name, (is_, should) in changes.items():
            creates = should["ensure"] != "absent" and (is_ or {}).get("ensure", "absent") == "absent"
            if creates and name not in changed and (providers := self._providers(name)):
                raise ResourceError(virtual(name, providers))

    def _providers(self, name: str) -> Sequence[str]:
        """Return the packages that provide a virtual one, sorted, or none for the name of a package."""
        raise NotImplementedError

    def _transactions(self, context: Context, changes: Mapping[str, Change]) -> Iterable[Transaction]:
        """Return the transactions that the changes need, in their order."""
        raise NotImplementedError

    def _simulated(self, arguments: Sequence[str]) -> Iterable[SideEffect]:
        """Return the effects of a transaction. Raise ``ResourceError`` or ``CommandError`` if it would fail."""
        raise NotImplementedError

    def _links(
        self, context: Context, changes: Mapping[str, Change], effects: Sequence[SideEffect]
    ) -> Iterable[tuple[str, str]]:
        """Return (cause, consequence) pairs of packages, to attribute each effect of a transaction to its causes.

        A transaction is one call of the program for all ``changes``; the plan shows an effect with the declared package
        that leads to it.
        """
        raise NotImplementedError


def _in_other_spellings(effects: Sequence[SideEffect], names: AbstractSet[str]) -> Iterator[tuple[str, SideEffect]]:
    """Yield the changes of declared packages under their other names: `nginx` and `nginx:amd64` are one package.

    Such a change is the declared one itself (``asked``) and is not shown as a side effect. But it is in conflict with
    another resource that declares the other name and would be undone.
    """
    for effect in effects:
        spellings = (effect.name, *effect.aliases)
        if declared := names & set(spellings):
            aliases = [effect._replace(name=name, aliases=(), asked=True) for name in spellings if name not in names]
            yield from ((name, alias) for name in sorted(declared) for alias in aliases)


def virtual(name: str, providers: Sequence[str]) -> str:
    """Return that a package cannot be declared, and which ones can be in its place."""
    return f"'{name}' is a virtual package, provided by {', '.join(providers)}; declare one of these"
