"""The options of one run, beside the manifest and its inputs; ``RUN_OPTIONS`` is the one table of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import UsageError, hint
from resource_api.model.values.start_up import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Literal, TypedDict

    from resource_api.model.values.values import Values

    # Only type checkers need the following: the creation of its classes takes 4 million instructions.

    #: The values of a command's arguments and options, by the names of its parameters.
    Settings = Mapping[str, Any]

    #: Texts; a single text is refused, which would be taken letter by letter.
    Strings = list[str] | tuple[str, ...] | set[str] | frozenset[str]

    class ExecutionOptions(TypedDict, total=False):
        """How a plan is applied: the keyword arguments of ``Runtime.change`` and of ``Runtime.apply`` with a plan."""

        noop: bool
        strict: Literal["error", "warning", "off"]
        parallel: int
        fail_fast: bool

    class SelectionOptions(ExecutionOptions, total=False):
        """The keyword arguments of ``Runtime.destroy``: also the selection of resources; by default all."""

        targets: Strings
        excludes: Strings
        with_dependencies: bool
        with_dependents: bool
        tags: Strings
        skip_tags: Strings

    class PlanOptions(SelectionOptions, total=False):
        """The keyword arguments of ``Runtime.plan`` and ``Runtime.apply``: all options."""

        replace: Strings
        prune: bool
        prune_always: bool


class RunOption(NamedTuple):
    """An option of runs: its values, the phase of a run that it decides, and its form on a command line."""

    #: ``flag``, ``number``, ``references``, ``tags`` or ``strict``.
    kind: str
    #: ``selection``: the resources; ``changes``: the actions on declared and undeclared ones; ``strictness``: the
    #: treatment of providers that break their declaration; ``execution``: the way in which a plan is applied.
    phase: str
    help: str
    #: The variable of the environment that gives it, or None.
    variable: str | None = None
    #: Whether the help leaves it out unless all options are requested.
    rare: bool = False


#: Name → option, for every field of ``Options`` that the caller sets, in the order of the help.
RUN_OPTIONS: Final[Mapping[str, RunOption]] = {
    "noop": RunOption("flag", "execution", "Change nothing; show what would be done.", "RESOURCE_API_NOOP"),
    "targets": RunOption("references", "selection", "Exactly these resources; * and ? are wild."),
    "excludes": RunOption("references", "selection", "All but these resources."),
    "with_dependencies": RunOption("flag", "selection", "Also what the targets depend on.", rare=True),
    "with_dependents": RunOption("flag", "selection", "Also what depends on the targets.", rare=True),
    "tags": RunOption("tags", "selection", "Only resources with one of these tags."),
    "skip_tags": RunOption("tags", "selection", "No resources with one of these tags.", rare=True),
    "replace": RunOption("references", "changes", "Replace even if nothing differs."),
    "prune": RunOption("flag", "changes", "Delete what is recorded as ours and no longer declared."),
    "prune_always": RunOption(
        "flag", "changes", "As --prune, even if something declared fails or is skipped.", rare=True
    ),
    "parallel": RunOption(
        "number", "execution", "Run up to N calls side by side, on each host.", "RESOURCE_API_PARALLEL"
    ),
    "fail_fast": RunOption("flag", "execution", "Start nothing after the first failure."),
    "strict": RunOption(
        "strict",
        "strictness",
        "What happens when a provider breaks its type's declaration.",
        "RESOURCE_API_STRICT",
        rare=True,
    ),
}


def run_option_names(*phases: str) -> tuple[str, ...]:
    """Return the names of the options of some phases."""
    return tuple(name for name, option in RUN_OPTIONS.items() if option.phase in phases)


#: The options that can be given when a saved plan is applied.
EXECUTION: Final = run_option_names("execution")
#: The options that the runtime decides.
INTERNAL: Final = ("destroy", "saved", "shown", "recorded", "state_options")
#: The values of ``strict``.
STRICT: Final = ("error", "warning", "off")


class Options(NamedTuple):
    """The options of one run; the defaults are those of ``apply`` without arguments.

    ``RUN_OPTIONS`` describes those that the caller sets; resources are selected by reference or tag, empty for all.
    """

    noop: bool = False
    targets: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    with_dependencies: bool = False
    with_dependents: bool = False
    tags: frozenset[str] = frozenset()
    skip_tags: frozenset[str] = frozenset()
    replace: tuple[str, ...] = ()
    prune: bool = False
    prune_always: bool = False
    #: One of ``STRICT``.
    strict: str = "error"
    parallel: int = 1
    fail_fast: bool = False
    #: Plan the empty manifest of the project, in which no recorded resource is declared.
    destroy: bool = False
    #: Apply a saved plan: only the steps that it shows.
    saved: bool = False
    #: Show the plan only, without applying it.
    shown: bool = False
    #: Whether there is a state, which records the run.
    recorded: bool = True
    #: The options that select this state, for a command that an error advises, each with a space before it.
    state_options: str = ""

    @property
    def bound(self) -> bool:
        """Whether the user agreed to the plan, so that only its steps are done."""
        return self.saved or self.destroy

    @property
    def partial(self) -> bool:
        """Whether only a part of the manifest is planned."""
        return bool(self.targets or self.excludes or self.tags or self.skip_tags)

    @property
    def plain(self) -> bool:
        """Whether no option changes which steps are planned: all others have their defaults."""
        return self == Options(noop=self.noop, parallel=self.parallel, fail_fast=self.fail_fast, shown=self.shown)


class CacheRequest(NamedTuple):
    """A run that may use the cached conclusion of an earlier one: which resources were in sync and need no plan."""

    #: The manifest's file.
    source: str
    #: The key of the conclusion: file, directory, project, stack.
    label: str
    #: The inputs by name.
    inputs: Values
    options: Options
    #: Start of the run in nanoseconds; code that changed later is not the code that it executes.
    began: int


def to_options(arguments: Mapping[str, object], **internal: Any) -> Options:
    """Return the options of a run from a user's keyword arguments, and from ``internal`` ones of the runtime.

    A user must not set internal options, such as ``destroy`` or ``saved``. Raise ``TypeError`` for an argument that
    does not exist or is the runtime's, ``UsageError`` for a wrong value.
    """
    allowed = set(Options._fields) - {*internal, *INTERNAL}
    if unknown := next((name for name in arguments if name not in allowed), ""):
        msg = f"there is no option '{unknown}' here"
        if unknown not in Options._fields:
            # A field of ``Options`` that is not allowed is spelt correctly: no suggestion.
            msg += hint(unknown, allowed)
        raise TypeError(msg)
    values = {name: _checked(name, value) for name, value in arguments.items()}
    if values.get("prune_always"):  # it includes ``prune``
        values["prune"] = True
    return Options(**values, **internal)


def _checked(name: str, value: object) -> Any:
    """Return the value of an option, a list as an immutable collection. Raise ``UsageError`` for a wrong value."""
    kind = RUN_OPTIONS[name].kind
    if kind == "references":
        return tuple(_texts(name, value))
    if kind == "tags":
        return lower_tags(_texts(name, value))
    if kind == "strict" and value not in STRICT:
        raise _invalid(name, f"one of {', '.join(STRICT)}", value, hint(value, STRICT))
    if kind == "number" and (type(value) is not int or value < 1):
        raise _invalid(name, "a whole number from 1", value)
    if kind == "flag" and type(value) is not bool:
        raise _invalid(name, "True or False", value)
    return value


def _texts(name: str, value: Any) -> list[str]:
    """Return the texts of a list; raise ``UsageError`` for a single one, which would be taken letter by letter."""
    texts = None if isinstance(value, str) or not hasattr(value, "__iter__") else list(value)
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise _invalid(name, "a list of text", value)
    return texts


def lower_tags(tags: Iterable[str]) -> frozenset[str]:
    """Return tags in the form of resources' tags."""
    return frozenset(tag.lower() for tag in tags)


def _invalid(name: str, expected: str, value: object, advice: str = "") -> UsageError:
    return UsageError(f"{name} must be {expected}, not {value!r}{advice}")


def execution_options(
    planned: Options, inputs: Mapping[str, object] | None, arguments: Mapping[str, object]
) -> Options:
    """Return the options with which a plan is applied: those that it was ``planned`` with, replaced by ``arguments``.

    Changes are made unless ``arguments`` have ``noop``, even if the plan was made with noop. Raise ``TypeError`` for an
    unknown argument, ``UsageError`` for a wrong value, and for ``inputs`` and options that only a new plan can follow.
    """
    options = to_options(arguments)
    check_execution(inputs, arguments, (*EXECUTION, "strict"), "a plan, which has its own")
    replaced = {name: getattr(options, name) for name in arguments}
    return planned._replace(**{"noop": False, **replaced}, shown=False)


def check_execution(
    inputs: Mapping[str, object] | None, arguments: Mapping[str, object], allowed: Collection[str], plan: str
) -> None:
    """Raise ``UsageError`` for inputs, and for options that are not ``allowed``: the plan to apply is made already.

    ``plan``: its description in the message, such as "a saved plan".
    """
    refused = [*(["inputs"] if inputs else []), *(name for name in arguments if name not in allowed)]
    if refused:
        raise UsageError(f"{refused[0]} cannot be given with {plan}; plan again")
