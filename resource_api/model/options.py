"""The options of one run, beside the manifest and its inputs.

Plain data that planning and applying share. Reading them from the command line, the environment or a call is for the
callers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import UsageError, hint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping


def _tags(given: Iterable[Any]) -> frozenset[Any]:
    """Return tags as resources have them; ``to_options`` refuses what is no text."""
    return frozenset(tag.lower() if isinstance(tag, str) else tag for tag in given)


_COLLECTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "targets": tuple,
    "excludes": tuple,
    "replace": tuple,
    "tags": _tags,
    "skip_tags": _tags,
}
#: The options that say how a plan is carried out, not what it contains.
_EXECUTION: Final = ("noop", "strict", "parallel", "fail_fast")
#: The options that the runtime decides.
INTERNAL: Final = ("destroy", "saved", "shown", "recorded")
#: The values of ``strict``.
STRICT: Final = ("error", "warning", "off")


class Options(NamedTuple):
    """The options of one run; the defaults are those of ``apply`` without arguments."""

    #: Plan, and change nothing.
    noop: bool = False
    #: References of the resources to plan; empty: all of the manifest.
    targets: tuple[str, ...] = ()
    #: References of the resources to leave out.
    excludes: tuple[str, ...] = ()
    #: Plan what the targets depend on, too.
    with_dependencies: bool = False
    #: Plan what depends on the targets, too.
    with_dependents: bool = False
    #: Plan only resources with one of these tags; empty: all.
    tags: frozenset[str] = frozenset()
    #: Leave out resources with one of these tags.
    skip_tags: frozenset[str] = frozenset()
    #: References of the resources to replace even if they have not changed.
    replace: tuple[str, ...] = ()
    #: Delete recorded resources that are not declared any more.
    prune: bool = False
    #: Delete them even if something that is declared has failed or was skipped.
    prune_always: bool = False
    #: How rows are treated that break a provider's promises: ``error``, ``warning`` or ``off``.
    strict: str = "error"
    #: How many calls of providers may run at the same time.
    parallel: int = 1
    #: Start no further step after the first failure.
    fail_fast: bool = False
    #: Plan the empty manifest of the project: whatever state records is not declared any more.
    destroy: bool = False
    #: Apply a saved plan: do nothing that it does not show.
    saved: bool = False
    #: Show the plan only, without applying it.
    shown: bool = False
    #: Whether there is a state, which records what is done.
    recorded: bool = True

    @property
    def bound(self) -> bool:
        """Whether somebody has agreed to the plan, so that nothing is done that it does not show."""
        return self.saved or self.destroy

    @property
    def partial(self) -> bool:
        """Whether only a part of the manifest is planned."""
        return bool(self.targets or self.excludes or self.tags or self.skip_tags)

    @property
    def plain(self) -> bool:
        """Whether no option changes which steps are planned."""
        return self == Options(noop=self.noop, parallel=self.parallel, fail_fast=self.fail_fast, shown=self.shown)


class CacheRequest(NamedTuple):
    """A run that may use the cached conclusion of an earlier one."""

    #: The manifest's file.
    source: str
    #: The key of the conclusion: file, directory, project, stack.
    label: str
    #: The inputs that were given.
    inputs: Mapping[str, Any]
    options: Options
    #: Start of the run in nanoseconds; code that was changed later is not what it executes.
    began: int


def to_options(given: Mapping[str, Any], **more: Any) -> Options:
    """Return the options of a run from keywords.

    Raise ``TypeError`` for one that does not exist or that the caller decides (``more``), and ``UsageError`` for one
    with a value of another kind.
    """
    allowed = set(Options._fields) - {*more, *INTERNAL}
    if unknown := next((name for name in given if name not in allowed), ""):
        msg = f"there is no option '{unknown}' here"
        if unknown not in Options._fields:
            msg += hint(unknown, allowed)
        raise TypeError(msg)
    found = {name: _value(name, value) for name, value in given.items()}
    if found.get("prune_always"):
        found["prune"] = True
    return Options(**found, **more)


def _value(name: str, value: Any) -> Any:
    """Return the value of an option, a collection as one that does not change. Raise ``UsageError``."""
    if name in _COLLECTIONS:
        texts = None if isinstance(value, str) or not hasattr(value, "__iter__") else _COLLECTIONS[name](value)
        if texts is None or not all(isinstance(text, str) for text in texts):
            raise _wrong(name, "a list of text", value)
        return texts
    if name == "strict" and value not in STRICT:
        raise _wrong(name, f"one of {', '.join(STRICT)}", value, hint(value, STRICT))
    if name == "parallel" and (type(value) is not int or value < 1):
        raise _wrong(name, "a whole number from 1", value)
    if isinstance(Options._field_defaults.get(name), bool) and type(value) is not bool:
        raise _wrong(name, "True or False", value)
    return value


def _wrong(name: str, wanted: str, value: Any, advice: str = "") -> UsageError:
    return UsageError(f"{name} must be {wanted}, not {value!r}{advice}")


def execution_options(planned: Options, inputs: Mapping[str, Any] | None, given: Mapping[str, Any]) -> Options:
    """Return the options for applying a plan: its own, but those of ``given``, which say how it is carried out.

    Whether anything is changed was not planned: without ``noop`` in ``given`` it is. Raise as ``to_options`` does, and
    ``UsageError`` for ``inputs`` and for an option that decides what a plan contains.
    """
    checked = to_options(given)
    check_execution(inputs, given, _EXECUTION, "a plan, which has its own")
    now = {name: getattr(checked, name) for name in given}
    return planned._replace(**{"noop": False, **now}, shown=False)


def check_execution(
    inputs: Mapping[str, Any] | None, given: Mapping[str, Any], allowed: Collection[str], what: str
) -> None:
    """Raise ``UsageError`` for what cannot be given with a plan: all but ``allowed``. ``what``: the plan, and why."""
    refused = [*(["inputs"] if inputs else []), *(name for name in given if name not in allowed)]
    if refused:
        msg = f"{refused[0]} cannot be given with {what}; plan again"
        raise UsageError(msg)
