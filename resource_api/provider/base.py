"""What the author of a provider promises, and the base classes that make it short.

The obligations stand on the methods. How and when the runtime calls them is the stages' business.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingABC
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import exists
from resource_api.model.values.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from resource_api.model.change import Change
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.provider.context import Context

#: Feature → the method that it promises.
METHODS: Final[Mapping[str, str]] = {
    "canonicalize": "canonicalize",
    "custom_insync": "insync",
    "refreshable": "refresh",
    "imperative": "due",
    "validate": "validate",
    "plan": "plan",
    "upgrade": "upgrade",
}

#: More rows than this from one ``get`` are a provider running away.
MOST_ROWS = 5_000_000
#: What the provider of a type with ``config`` may have; ``configure`` it must.
CONFIGURING: Final = ("configure", "check_config", "diff_config")


def told(method: str, context: Context, arguments: Sequence[Any]) -> Sequence[Any]:
    """Give what a method is called with: values that are brought to another version concern no run."""
    return arguments if method == "upgrade" else (context, *arguments)


class BaseProvider:
    """Reads and changes resources of one type; made with ``Provider()`` once per transaction, as late as possible.

    Whatever it caches on itself lives for one transaction. Features of the type promise further methods, see
    ``METHODS``; a method whose name starts with an underscore is a helper.

    The provider of a type with ``config`` is made once for each configured instance, and has further methods:

    1. ``configure(context, config)``, called once before the first ``get`` or ``set``, with values that are all known;
       what it raises fails the resources of this instance.
    2. ``check_config(context, config)`` gives the configuration back, perhaps with values that only it can tell; what
       it raises is a problem of the manifest. It answers from its arguments and the environment, before ``configure``.
    3. ``diff_config(context, is_, should)`` gives the names of those whose change puts what was made with ``is_`` out
       of reach of ``should``: its resources are replaced. Secrets that are only known by a digest are left out of
       ``is_``.

    Each function that the type declares is a method too: ``name(context, input=...)``, with inputs that are all known.
    It changes nothing, and gives a value of the function's data type.

    Any provider may have ``cancel()``, called first when a run ends by an interruption, and ``close()``, called last.
    """

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterable[Resource]:
        """Give what exists: one mapping of attribute → value per resource, all canonical.

        1. With the feature ``simple_get_filter``, at least the ``names`` asked for; ``None`` means all. Without it,
           ``names`` is not passed and everything is returned.
        2. A resource that does not exist is left out (or has ``ensure: absent``).
        3. It changes nothing, and two calls without a change between them give the same.
        4. What cannot be read is an exception, never absence; for single names, ``context.failed(name, message=...)``.
        5. A provider that cannot enumerate raises ``CannotList`` for ``names=None``.
        """
        raise NotImplementedError

    def set(self, context: Context, changes: Mapping[Name, Change]) -> None:
        """Bring every name in ``changes`` from ``is_`` to ``should``.

        1. ``changes`` is in dependency order; go through it once. Its iterator leaves out names whose prerequisite
           in the same call has failed by then.
        2. ``should`` holds what is declared, defaults and parameters, nothing else; ``ensure: absent`` deletes.
        3. Progress and failures are told to ``context``; the return value is ignored; afterwards ``get`` decides.
        """
        raise NotImplementedError


class SimpleProvider(BaseProvider):
    """A provider of ``create``, ``update`` and ``delete``: each name of a call in a logging context of its own."""

    def set(self, context: Context, changes: Mapping[Name, Change]) -> None:
        """Call ``create``, ``update`` or ``delete`` for each name; a failure of one leaves the others alone."""
        for name, (is_, should) in changes.items():
            if not exists(should):
                with context.deleting(name):
                    self.delete(context, name)
            elif not exists(is_):
                with context.creating(name):
                    self.create(context, name, should)
            else:
                with context.updating(name):
                    self.update(context, name, should)

    def create(self, context: Context, name: Name, should: Mapping[str, Any]) -> None:
        """Make the resource as it should be."""
        raise NotImplementedError

    def update(self, context: Context, name: Name, should: Mapping[str, Any]) -> None:
        """Bring an existing resource to what it should be."""
        raise NotImplementedError

    def delete(self, context: Context, name: Name) -> None:
        """Remove the resource."""
        raise NotImplementedError


def collect(definition: TypeDefinition, answer: Any) -> list[Resource]:
    """Give the rows as dictionaries of our own; anything else is the provider's error."""
    if answer is None or isinstance(answer, (str, bytes, MappingABC)) or not hasattr(answer, "__iter__"):
        kind = type(answer).__name__
        msg = f"{definition.name}: get must return the resources as a list or another iterable, not {kind}"
        raise ProviderError(msg)
    rows: list[Resource] = []
    for row in answer:
        if len(rows) >= MOST_ROWS:
            msg = f"{definition.name}: get returned more than {MOST_ROWS} resources"
            raise ProviderError(msg)
        if type(row) is dict:
            rows.append(row.copy())
        elif isinstance(row, MappingABC):
            rows.append(dict(row))
        else:
            msg = f"{definition.name}: get must return mappings of attribute to value, not {type(row).__name__}"
            raise ProviderError(msg)
    return rows


def broken_promises(definition: TypeDefinition, provider: type[Any]) -> Sequence[str]:
    """Compare what a type declares with its provider's methods; give every promise that is not kept, both ways."""
    type_name, features = definition.name, definition.features
    needed = (*(("get", "set") if definition.attributes else ()), *definition.functions)
    missing = [method for method in needed if not _has(provider, method)]
    problems = [f"provider of '{type_name}' has no method '{method}'" for method in missing]
    for feature, method in METHODS.items():
        has = callable(getattr(provider, method, None))
        if feature in features and not has:
            problems.append(f"provider of '{type_name}' has no method '{method}', which feature '{feature}' promises")
        elif has and feature not in features:
            problems.append(
                f"provider of '{type_name}' has the method '{method}' but its type does not declare the feature"
                f" '{feature}'; declare it, or call the helper '_{method}'"
            )
    problems += _configuring(definition, provider)
    if not problems and definition.attributes:
        problems += _signatures(type_name, features, provider)
    return problems


def _has(provider: type[Any], method: str) -> bool:
    """Whether a provider has a method: those of the base class only say what it must do."""
    found = getattr(provider, method, None)
    return callable(found) and found not in (BaseProvider.get, BaseProvider.set)


def _configuring(definition: TypeDefinition, provider: type[Any]) -> list[str]:
    """Check that what is declared to be configured can be, and that nothing waits for a configuration in vain."""
    if definition.config.attributes:
        has = callable(getattr(provider, "configure", None))
        return [] if has else [f"provider of '{definition.name}' has no method 'configure', which 'config' promises"]
    return [
        f"provider of '{definition.name}' has the method '{method}' but its type declares no 'config'; declare it, or"
        f" call the helper '_{method}'"
        for method in CONFIGURING
        if callable(getattr(provider, method, None))
    ]


def _signatures(type_name: str, features: Collection[str], provider: type[Any]) -> list[str]:
    """Check the two methods whose parameters depend on a feature."""
    problems = []
    if "simple_get_filter" in features and not _takes(provider.get, "names", 2):
        problems.append(f"provider of '{type_name}': get takes no 'names', which feature 'simple_get_filter' promises")
    if "noop_handler" in features and not _takes(provider.set, "noop"):
        problems.append(f"provider of '{type_name}': set takes no 'noop', which feature 'noop_handler' promises")
    if "noop_handler" not in features and _takes(provider.set, "noop") and not _variadic(provider.set):
        problems.append(
            f"provider of '{type_name}': set takes 'noop' but its type does not declare the feature 'noop_handler'"
        )
    return problems


def _takes(function: Any, keyword: str, position: int = 99) -> bool:
    """Whether a parameter can be given by keyword or at a position; callables without code are trusted."""
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return keyword in names or code.co_argcount > position or _variadic(function)


def _variadic(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & 0x08)
