"""The interface of a provider, with its obligations on the methods, and base classes for authors.

When the runtime calls the methods is decided in ``snapshot``, ``plan`` and ``transaction``.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingABC
from typing import TYPE_CHECKING, Any, Final, TypeVar

from resource_api.model.change import exists
from resource_api.model.values.errors import Problem, ProviderError, WrongAnswer
from resource_api.model.values.reference import hashable_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.change import Change
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.provider.context import Context

T = TypeVar("T")
#: The methods for the configuration of a type with ``config``; ``configure`` is required, the rest optional.
CONFIG_METHODS: Final = ("configure", "check_config", "diff_config")
#: Rows that one ``get`` may return: a limit for providers that never end.
MAX_ROWS = 5_000_000


def call_arguments(method: str, context: Context, arguments: Sequence[Any], call: Any) -> Sequence[Any]:
    """Return the arguments for a call of a provider's method: the context, then ``arguments``.

    Two methods differ: ``upgrade`` has no context, as it is a pure function, and ``check_config`` gets its second
    argument, the former configuration, only if the author has declared a parameter for it. ``call``: the method.
    """
    if method == "check_config" and not takes(call, "former", 3):  # parameters: self, context, config, former
        arguments = arguments[:1]
    return arguments if method == "upgrade" else (context, *arguments)


def takes(function: Any, keyword: str, position: int = 99) -> bool:
    """Return whether ``function`` takes an argument by the name ``keyword``, or at ``position``, counted from 0.

    The runtime passes an optional argument only to methods that declare a parameter for it; by default no position
    counts. A callable without Python code is assumed to take the argument, as its parameters cannot be read.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return keyword in names or code.co_argcount > position or variadic(function)


def variadic(function: Any) -> bool:
    """Return whether a function takes any keyword."""
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & 0x08)  # inspect.CO_VARKEYWORDS, without the import


def validation_answers(answer: Any) -> list[str | Problem]:
    """Return the answer of a provider's ``validate`` as a list, for uniform checks.

    Authors may return None, a text, a ``Problem``, or several of both. Raise ``WrongAnswer`` for anything else.
    """
    if answer is None:
        return []
    is_list = not isinstance(answer, (str, bytes, Problem, MappingABC)) and hasattr(answer, "__iter__")
    answers = list(answer) if is_list else [answer]
    for part in answers:
        if not isinstance(part, (str, Problem)):
            msg = f"validate must return texts or Problem(attribute, message), one or several, not {part!r:.80}"
            raise WrongAnswer(msg)
        if not (part if isinstance(part, str) else part.message):
            raise WrongAnswer("validate must return None, not an empty text, where nothing is wrong")
    return answers


class BaseProvider:
    """Reads and changes resources of one type; made with ``Provider()`` once per transaction, as late as possible.

    >>> from resource_api import Attribute, BaseProvider, Registry, Runtime, TypeDefinition
    >>> class Provider(BaseProvider):
    ...     names = set()
    ...
    ...     def get(self, context):
    ...         return [{"name": name, "ensure": "present"} for name in sorted(self.names)]
    ...
    ...     def set(self, context, changes):
    ...         for name, change in changes.items():
    ...             with context.processing(name, change.is_, change.should):
    ...                 self.names.add(name)
    >>> attributes = {
    ...     "name": Attribute("String", kind="namevar"),
    ...     "ensure": Attribute("Enum[present, absent]", default="present"),
    ... }
    >>> registry = Registry()
    >>> registry.register_type(TypeDefinition(name="queue", attributes=attributes))
    >>> registry.register_provider("queue", Provider)
    >>> str(Runtime(registry).apply({"resources": {"Queue[jobs]": {}}}).summary)
    '1 created'

    Its attributes are gone after the transaction. Features of the type require further methods, see
    ``model.type_definition.FEATURE_METHODS``; a method whose name starts with an underscore is a helper.

    The provider of a type with ``config`` is made once for each configured instance, and has further methods:

    1. ``configure(context, config)`` is called once before the first ``get`` or ``set``, with values that are all
       known; an exception fails the resources of this instance.
    2. ``check_config(context, config, former=None)`` returns the configuration, completed with values that only the
       provider can find out; an exception is a problem of the manifest. It is called before ``configure`` and uses
       nothing but its arguments and the environment. If another configuration is recorded, it is called a second time
       with that as ``former``; a method without this parameter is called without it.
    3. ``diff_config(context, is_, should)`` returns the names of attributes whose change makes resources of the
       configuration ``is_`` unreachable with ``should``: these resources are replaced. Secrets of which only a digest
       is recorded are left out of ``is_``.

    With the feature ``preflight``, ``preflight(context, changes)`` gets the names that a plan would create, change or
    run, each with its known values of ``should``, and returns pairs of a name and a ``Problem(attribute, message,
    needs=None)``: a requirement of the change that this machine lacks, such as an owner, a program or a package. It
    only reads, and is called only for plans and under noop. ``needs`` is the reference of the resource that would
    provide it, such as ``User[deploy]``; ``brought_by`` names types whose changes may provide it too, such as
    ``package``. Each is a warning, unless an earlier step provides it. With the feature ``preflight_of_removals`` it
    gets the names that a plan would delete, too.

    With the feature ``side_effects``, ``side_effects(context, changes)`` gets the arguments of one ``set``, and
    returns pairs of a name and a ``SideEffect`` of this call. It only reads. It is called for plans, with the values
    that are known, and right before each ``set``; an exception then counts as one of ``set``.

    Each function that the type declares is a method too: ``name(context, input=...)``, with inputs that are all known.
    It changes nothing, and returns a value of the function's data type.

    If a type has two or more providers, each may have ``suitable(context)``, which returns True, or the reason why it
    cannot be used on this machine, and an integer ``priority``: the suitable one with the highest is used.

    Any provider may have ``cancel()``, called in another thread at the first interrupt, and ``close()``, called last.
    """

    def get(self, context: Context, /, names: Collection[Name] | None = None) -> Iterable[Resource]:
        """Return the existing resources: one mapping of attribute → value for each, all canonical.

        1. With the feature ``simple_get_filter``, at least the ``names`` asked for; ``None`` means all. Without it,
           ``names`` is not passed and everything is returned.
        2. A resource that does not exist is left out (or has ``ensure: absent``).
        3. It changes nothing, and two calls without a change between them return the same.
        4. An unreadable resource is an exception, never absence; for single names,
           ``context.failed(name, message=...)``.
        5. A provider that cannot enumerate raises ``CannotList`` for ``names=None``.
        """
        raise NotImplementedError

    def set(self, context: Context, changes: Mapping[Name, Change], /) -> None:
        """Bring every name in ``changes`` from ``is_`` to ``should``.

        1. ``changes`` is in dependency order; go through it once. Its iterator leaves out names whose prerequisite
           in the same call has failed by then, and ends once the run is interrupted.
        2. ``should`` holds the declared values, defaults and parameters, nothing else; ``ensure: absent`` deletes.
        3. Progress and failures are reported to ``context``; the return value is ignored; afterwards ``get`` decides.
        """
        raise NotImplementedError


class SimpleProvider(BaseProvider):
    """A provider of ``create``, ``update`` and ``delete``, of which a subclass defines those that its type needs.

    Each name of a call has a logging context of its own.
    """

    def set(self, context: Context, changes: Mapping[Name, Change], /) -> None:
        """Call ``create``, ``update`` or ``delete`` for each name; a failure affects only its own name.

        The logging context of the name reports the exception and does not raise it further.
        """
        for name, (is_, should) in changes.items():
            if not exists(should):
                with context.deleting(name):
                    self.delete(context, name)
            elif not exists(is_):
                with context.creating(name):
                    self.create(context, name, should)
            elif type(self).update is SimpleProvider.update and _agree(is_ or {}, should):
                # Called because its last change has failed; it is as declared now, and no ``update`` is defined.
                context.unchanged(name)
            else:
                with context.updating(name):
                    self.update(context, name, should)

    def create(self, context: Context, name: Name, should: Mapping[str, Any], /) -> None:
        """Create the resource as it should be."""
        raise NotImplementedError(_missing("create"))

    def update(self, context: Context, name: Name, should: Mapping[str, Any], /) -> None:
        """Change an existing resource to its declared state."""
        raise NotImplementedError(_missing("update"))

    def delete(self, context: Context, name: Name, /) -> None:
        """Remove the resource."""
        raise NotImplementedError(_missing("delete"))


def _agree(is_: Mapping[str, Any], should: Mapping[str, Any]) -> bool:
    """Return whether a row has the declared values, so that no ``update`` is needed; no row has parameters."""
    return all(is_.get(name, value) == value for name, value in should.items())


def _missing(method: str) -> str:
    return f"the provider has no method '{method}'"


def collect_rows(definition: TypeDefinition, answer: Any) -> list[Resource]:
    """Return the rows that ``get`` returned as new dictionaries: the provider may change its own ones later.

    Raise ``ProviderError`` for an answer of another form.
    """
    if answer is None or isinstance(answer, (str, bytes, MappingABC)) or not hasattr(answer, "__iter__"):
        kind = type(answer).__name__
        msg = f"{definition.name}: get must return the resources as a list or another iterable, not {kind}"
        raise ProviderError(msg)
    rows: list[Resource] = []
    for row in answer:
        if len(rows) >= MAX_ROWS:
            raise ProviderError(f"{definition.name}: get returned more than {MAX_ROWS} resources")
        if type(row) is dict:
            rows.append(row.copy())
        elif isinstance(row, MappingABC):
            rows.append(dict(row))
        else:
            msg = f"{definition.name}: get must return mappings of attribute to value, not {type(row).__name__}"
            raise ProviderError(msg)
    return rows


def named_answers(subject: str, kind: type[T], answer: Any, names: Collection[Name]) -> Iterator[tuple[Name, T]]:
    """Check the answer of ``preflight`` or ``side_effects``, pairs of a name and a value of ``kind``, and yield them.

    None is an answer without pairs. Raise ``ProviderError``, whose message begins with ``subject``, for an answer of
    another form, and for a name that is not among ``names``.
    """
    if answer is None:
        return
    for pair in answer if hasattr(answer, "__iter__") else [answer]:
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2  # noqa: PLR2004 - a pair
        if not is_pair or not isinstance(pair[1], kind):
            raise ProviderError(f"{subject} must return pairs of a name and a {kind.__name__}, not {pair!r:.80}")
        name = hashable_name(pair[0])
        if name not in names:
            raise ProviderError(f"{subject} reports {name!r:.80}, which is not among the changes")
        yield name, pair[1]
