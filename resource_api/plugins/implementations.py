"""Choose between the providers of one type: suitability, and the provider that manages each resource.

One object stands for all of them in the rest of the program and passes each call on: a resource that states its
implementation is managed by that one, every other by the first that is suitable on this machine (Puppet's provider
suitability). ``registry`` finds the providers and orders them.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import Changes
from resource_api.model.values.errors import ProviderError, reason
from resource_api.model.values.reference import capitalize_type
from resource_api.model.values.start_up import NamedTuple
from resource_api.plugins.loader import by_preference
from resource_api.provider.base import collect_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from resource_api.model.change import Change
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.provider.context import Context

#: Methods that depend on their arguments alone, so that the first provider can answer them without being suitable.
_PURE: Final = frozenset(
    {"canonicalize", "validate", "insync", "plan", "upgrade", "check_config", "diff_config"}
    | {"validate_each", "insync_each"}
)


class Suitability(NamedTuple):
    """Whether an implementation can be used on this machine; ``reason`` is empty if it can."""

    name: str
    reason: str = ""


class Implementations:
    """The providers of one provider instance, called as if they were one; each is made at its first call.

    So the rest of the program needs no case for a type with several providers.
    """

    def __init__(
        self,
        definition: TypeDefinition,
        names: Sequence[str],
        make: Callable[[str], object],
        required: str,
        assigned: Callable[[], Mapping[Name, str]],
    ) -> None:
        """Begin without any provider made; ``make`` makes that of one of ``names``, which are in order of preference.

        ``required``: the implementation that the manifest states for the whole instance, or "". ``assigned`` returns
        name → implementation of the resources that state one of their own.
        """
        self._definition = definition
        self._names = names
        self._make = make
        self._required = required
        self._assigned = assigned
        #: Implementation → its provider, once made.
        self._made: dict[str, object] = {}
        #: The configuration of the instance, and the implementations that have received it. None: it needs none, or has
        #: none yet.
        self._config: Mapping[str, object] | None = None
        self._configured: set[str] = set()
        #: The names of suitable implementations.
        self._suitable: set[str] = set()
        #: The one that manages resources which state none, once it is known.
        self.chosen = ""
        #: Calls side by side may need a provider at once.
        self._lock = threading.RLock()

    @property
    def pure(self) -> str:
        """The name of the provider whose pure methods are called: the stated one, or the first."""
        return self._required if self._required in self._names else self._names[0]

    def implementation(self, name: Name) -> str:
        """Return the name of the implementation that manages a resource, or "" before the choice."""
        return self._assigned().get(name, self.chosen)

    def add_all(self, providers: Mapping[str, object]) -> None:
        """Use these existing providers by name: workers, whose ``priority`` is known only when they run."""
        self._made.update(providers)
        self._names = tuple(by_preference(providers))

    def suitability(self, context: Context) -> list[Suitability]:
        """Make the provider of each implementation and return whether it is suitable, in the order of preference."""
        return [Suitability(name, self._unsuitable(context, name)) for name in self._names]

    def get(self, context: Context, names: Collection[Name] | None = None) -> list[Resource]:
        """Return the resources, each read by its implementation.

        If one of several implementations fails, only the resources that it manages have failed. If there is only one,
        its exception is that of the whole call, as with a single provider.
        """
        assigned = self._assigned()
        parts: dict[str, list[Name] | None] = {**self._by_implementation(assigned if names is None else names)}
        if names is None:
            parts[""] = None  # resources without a declaration are read by the chosen one
        if len(parts) == 1:  # all rows are of this implementation
            [(implementation, part)] = parts.items()
            return self._rows(context, implementation, part)
        rows: list[Resource] = []
        for implementation, part in parts.items():
            try:
                answer = self._rows(context, implementation, part)
            except Exception as error:
                if part is None:
                    raise
                context.failed(part, message=reason(error))
                continue
            rows += (row for row in answer if self._is_managed_by(implementation, row, assigned))
        return rows

    def _rows(self, context: Context, implementation: str, names: Sequence[Name] | None) -> list[Resource]:
        """Return the rows that one implementation reads: at least those of ``names``, or all for None."""
        arguments = [names] if "simple_get_filter" in self._definition.features else []
        return collect_rows(self._definition, self._call(context, implementation, "get", *arguments))

    def set(self, context: Context, changes: Mapping[Name, Change], **extra: bool) -> None:
        """Change the resources in their order, because one may depend on another.

        So only neighbours in this order with the same implementation share a call. Without any stated implementation
        the chosen one gets all changes in one call.
        """
        assigned = self._assigned()
        if not assigned or not isinstance(changes, Changes):
            self._call(context, "", "set", changes, **extra)
            return
        for implementation, names in groupby(changes.offered, key=lambda name: assigned.get(name, "")):
            if context.cancelled and changes.begun:  # no further call begins
                return
            self._call(context, implementation, "set", changes.part(names), **extra)

    def refresh(self, context: Context, names: Sequence[Name]) -> None:
        """Refresh the resources, each with its implementation."""
        for implementation, part in self._by_implementation(names).items():
            self._call(context, implementation, "refresh", part)

    def due(self, context: Context, name: Name, should: Mapping[str, object]) -> object:
        """Return whether an imperative resource is due, as its implementation answers."""
        return self._call(context, self._assigned().get(name, ""), "due", name, should)

    def preflight(self, context: Context, changes: Mapping[Name, Mapping[str, object]]) -> Iterator[object]:
        """Return the needs of the changes that this machine lacks, as each implementation reports them."""
        return self._reports(context, "preflight", changes)

    def side_effects(self, context: Context, changes: Mapping[Name, Change]) -> Iterator[object]:
        """Return the side effects of the changes, as each implementation reports them."""
        return self._reports(context, "side_effects", changes)

    def _reports(self, context: Context, method: str, changes: Mapping[Name, object]) -> Iterator[object]:
        """Yield the answers of a method that takes changes, called once for each implementation that they need."""
        for implementation, part in self._by_implementation(changes).items():
            yield from self._call(context, implementation, method, {name: changes[name] for name in part}) or ()

    def configure(self, context: Context, config: Mapping[str, object]) -> None:
        """Choose and configure the implementation of resources that state none; each other one at its first call."""
        self._config = config
        self._usable(context, "")

    def __getattr__(self, name: str) -> object:
        """Return a pure method, which the stated or first provider answers, or a function of the type.

        A pure method depends on its arguments alone, so even a provider that is not suitable here can answer it. A
        function reads from the system, so the provider that is chosen on this machine answers it.
        """
        if name in _PURE:
            return getattr(self._provider(self.pure), name)
        if name not in self._definition.functions:
            raise AttributeError(name)
        return lambda context, **inputs: self._call(context, "", name, **inputs)

    def cancel(self) -> None:
        """Call ``cancel`` of every provider that has it."""
        self._call_each("cancel")

    def begin_close(self) -> None:
        """Ask the workers of each provider to end, without waiting, so that they end side by side."""
        self._call_each("begin_close")

    def close(self) -> None:
        """Call ``close`` of every provider that has it, also when another one's raises."""
        self._call_each("close")

    def _call_each(self, method: str) -> None:
        """Call a method such as ``close`` of each provider that has it.

        The first exception is raised after all calls, so that it prevents no other provider from being closed.
        """
        errors = []
        for provider in list(self._made.values()):
            try:
                call = getattr(provider, method, None)
                if call is not None:
                    call()
            except Exception as error:  # noqa: BLE001 - raised after all calls
                errors.append(error)
        if errors:
            raise errors[0]

    def _by_implementation(self, names: Collection[Name]) -> dict[str, list[Name]]:
        """Return the names by the implementation that their resources state, "" for none: each part is one call."""
        assigned = self._assigned()
        names_of: dict[str, list[Name]] = {}
        for name in names:
            names_of.setdefault(assigned.get(name, ""), []).append(name)
        return names_of

    def _is_managed_by(self, implementation: str, row: Resource, assigned: Mapping[Name, str]) -> bool:
        """Return whether an implementation manages the resource of a row that it has read.

        Two implementations may list the same resource: only the row of the one that manages it is returned. A row
        without a valid name is kept, because the check of all rows reports it.
        """
        with suppress(KeyError, TypeError):
            return assigned.get(self._definition.name_of(row), "") == implementation
        return True

    def _call(self, context: Context, implementation: str, method: str, *arguments: object, **inputs: object) -> Any:
        """Call a method of an implementation within the context of its provider; "" means this machine's choice."""
        provider = self._usable(context, implementation)
        with context.activate(provider):
            return getattr(provider, method)(context, *arguments, **inputs)

    def _usable(self, context: Context, implementation: str) -> object:
        """Return the provider of an implementation, suitable and configured; for "" that of this machine's choice.

        It is chosen, made and configured at the first call that needs it, since an earlier resource may install its
        program. Raise ``ProviderError`` if it is not suitable, or none is.
        """
        with self._lock:
            if not implementation and not self.chosen:
                self.chosen = self._choose(context)
            name = implementation or self.chosen
            if error := self._unsuitable(context, name):
                type_name = capitalize_type(self._definition.name)
                raise ProviderError(f"the implementation '{name}' of {type_name} is not suitable: {error}")
            provider = self._provider(name)
            if self._config is not None and name not in self._configured:
                with context.activate(provider):
                    provider.configure(context, self._config)
                self._configured.add(name)
            return provider

    def _choose(self, context: Context) -> str:
        """Return the implementation that the manifest requires, or the first suitable one.

        Raise ``ProviderError`` with the reason of each if none is suitable.
        """
        if self._required:
            return self._required
        reasons = []
        for name in self._names:
            if not (unsuitable := self._unsuitable(context, name)):
                return name
            reasons.append(f"{name} ({unsuitable})")
        msg = f"no implementation of {capitalize_type(self._definition.name)} is suitable here: {'; '.join(reasons)}"
        raise ProviderError(msg)

    def _unsuitable(self, context: Context, name: str) -> str:
        """Return the reason that an implementation cannot be used on this machine, or "".

        Only a positive answer is cached for the run: a resource of the run may install a program that is missing now.
        """
        if name in self._suitable:
            return ""
        if name not in self._names:
            return f"it is not on the module path; there are {', '.join(self._names)}"
        try:
            provider = self._provider(name)
            with context.activate(provider):
                answer = provider.suitable(context) if hasattr(provider, "suitable") else True
        except Exception as error:  # noqa: BLE001 - its exception is the reason
            return reason(error)
        if answer is True:
            self._suitable.add(name)
            return ""
        if isinstance(answer, str) and answer:
            return answer
        return f"suitable must return True or the reason why it is not, not {answer!r:.80}"

    def _provider(self, name: str) -> Any:
        """Return the provider of an implementation, made at its first call."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]
