"""Help at the command line: examples, options in groups, and advice on a line that cannot be parsed.

Rare options are in the help only where all are requested. An option that deletes or replaces something, or shows a
secret, is never suggested.
"""

from __future__ import annotations

import inspect
import json
import re
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import augment_usage_errors

from resource_api.model.report import Summary
from resource_api.model.values.errors import Problem, suggested_word, suggestion
from resource_api.render import json as documents

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from click.shell_completion import CompletionItem

#: The titles of groups of options, in the order of the help; a command's own options belong to the first.
OWN: Final = "Options"
WHAT_TO_CHANGE: Final = "What to change"
HOW_TO_RUN: Final = "How to run"
MANY_HOSTS: Final = "On many hosts"
STATE: Final = "State, types and providers"
OUTPUT: Final = "Output"
GROUPS: Final = (OWN, WHAT_TO_CHANGE, HOW_TO_RUN, MANY_HOSTS, STATE, OUTPUT)
#: The entry of a context's ``meta`` that is True where all options are requested.
ALL: Final = "resource_api.help_all"
#: Options that delete, replace, or show a secret.
NEVER_SUGGESTED: Final = frozenset(
    {"--yes", "--force", "--replace", "--prune", "--prune-always", "--reveal", "--decrypt", "--drop-generations"}
)
#: The commands that write one object a line with ``--json``, the last of them a summary; with ``--on`` others do too.
_STREAMING: Final = frozenset({"apply", "destroy", "agent once", "agent run"})
_HOSTS: Final = frozenset({"--on", "--rerun"})
#: A plan that is only saved is one document.
_OUT: Final = frozenset({"-o", "--out"})


class GroupedOption(click.Option):
    """An option with its group in the help and its rank there; a ``rare`` one is shown with ``--all`` only."""

    def __init__(self, *arguments: Any, group: str = OWN, rank: int = 0, rare: bool = False, **settings: Any) -> None:
        """Create an option of click; ``rank`` orders the options of a group in the help.

        Options without a rank, a command's own, come first, in the order of their declaration.
        """
        super().__init__(*arguments, **settings)
        self.group = group
        self.rank = rank
        self.rare = rare


class _WithExamples(click.Command):
    """A command whose help shows examples."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        """Create a command of click; each of ``examples`` is a line for a shell, which a test runs."""
        super().__init__(*arguments, **settings)
        self.examples = examples

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option ``--help`` of the program, so that click need not create one for each command.

        A command that is not called through the program, which has no parent, gets click's own.
        """
        if ctx.parent is None:
            return super().get_help_option(ctx)
        return ctx.find_root().command.get_help_option(ctx)


class GroupedCommand(_WithExamples):
    """A command whose help shows examples, and its options in groups."""

    def __init__(self, *arguments: Any, rare: Iterable[str] = (), **settings: Any) -> None:
        """Create a command of click; ``rare``: the parameters that ``--help`` leaves out, beside the rare options."""
        super().__init__(*arguments, **settings)
        self.rare = frozenset(rare)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the remaining arguments. Raise ``UsageError`` for a wrong value, also of a variable, which it names.

        An empty value is refused, as of ``--target "$NAME"`` with an unset variable, which must not select a default.
        While a shell completes a line (``resilient_parsing``) it is no error.
        """
        try:
            with augment_usage_errors(ctx):  # an error of an option without its value has no command
                rest = super().parse_args(ctx, args)
        except click.BadParameter as error:
            _hint_at_variable(error, ctx)
            raise
        empty = [option for option in self.params if _is_empty(ctx.params.get(str(option.name)), option)]
        if empty and not ctx.resilient_parsing:
            raise click.UsageError(f"{_label(empty[0])} is empty: is a variable of the shell not set?", ctx)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and the groups of options, and how to see the rare ones."""
        _write_examples(self.examples, formatter)
        _write_groups(self, ctx, formatter)


class CommandGroup(_WithExamples, click.Group):
    """A command with subcommands, whose help shows examples."""

    command_class = GroupedCommand
    group_class = type  # a group within has this class too

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, and the subcommands with their summaries; a group may have options of its own, too."""
        _write_examples(self.examples, formatter)
        visible = [(name, command) for name, command in sorted(self.commands.items()) if not command.hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(name, f"{first_sentence(command.help or '')}.") for name, command in visible])
        if self.params:
            _write_groups(self, ctx, formatter)
        _write_line(f"Options of a command: resource-api help {_name(ctx)} COMMAND", formatter)


class DefaultingGroup(CommandGroup):
    """A group that calls its command ``default`` where none is named, and the words are ``least`` or more."""

    def __init__(self, *arguments: Any, default: str, least: int = 1, **settings: Any) -> None:
        """Create a command with subcommands."""
        super().__init__(*arguments, **settings)
        self._default, self._least = default, least

    def with_command(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments with the name of the default command before them, unless they begin with a command.

        ``agent --from SITE`` becomes ``agent run --from SITE``. Fewer than ``least`` arguments get no default command,
        because a single word may be a command that is misspelt, and click then reports that.
        """
        count = len(args) + ctx.resilient_parsing  # while a shell completes a word, that is not among the arguments
        is_too_short = not args or count < self._least
        if is_too_short or args[0] in {*self.commands, *ctx.help_option_names}:
            return args
        return [self._default, *args]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the remaining arguments as click does, with the default command added."""
        return super().parse_args(ctx, self.with_command(ctx, args))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the candidates for a word that may be a command, or an argument or option of the default command.

        They are the commands that begin with ``incomplete``; without any, the values of the default's first argument.
        """
        default = self.commands[self._default]
        context = click.Context(default, parent=ctx, resilient_parsing=True)
        if incomplete.startswith("-"):
            return default.shell_complete(context, incomplete)
        argument = next(parameter for parameter in default.params if isinstance(parameter, click.Argument))
        return super().shell_complete(ctx, incomplete) or argument.shell_complete(context, incomplete)


def _hint_at_variable(error: click.BadParameter, context: click.Context) -> None:
    """Put the name of the variable into the error of an option whose wrong value is from the environment.

    The user, who has not written the option, otherwise looks for the mistake on the command line.
    """
    option, environment = error.param, click.core.ParameterSource.ENVIRONMENT
    if isinstance(option, click.Option) and context.get_parameter_source(str(option.name)) is environment:
        name = next(flag for flag in option.opts if flag.startswith("--"))
        error.param_hint = f"'{name}' from {option.envvar}"


def _is_empty(value: object, parameter: click.Parameter) -> bool:
    """Return whether a parameter has an empty text, as from an unset variable of the shell, which is refused.

    Of an argument with several values only the first counts: the others may be arguments of a program that ``run``
    starts, where an empty text is valid.
    """
    if isinstance(value, tuple):
        return "" in (value if isinstance(parameter, click.Option) else value[:1])
    return value == ""


def _label(parameter: click.Parameter) -> str:
    """Return the name of a parameter for a message: ``--stop-after`` of an option, ``FILE`` of an argument."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    # The first word of ``[TYPE,...]``, ``PLAN.json|RUN``.
    words: list[str] = re.findall(r"\w+", parameter.metavar or str(parameter.name).upper())
    return words[0]


def command(
    name: str | None = None, *, examples: Sequence[str], rare: Iterable[str] = ()
) -> Callable[[Callable[..., object]], GroupedCommand]:
    """Return a decorator that makes a function a command, called like the function unless named."""
    return click.command(name, cls=GroupedCommand, examples=examples, rare=rare)


def group(*, examples: Sequence[str], **settings: Any) -> Callable[[Callable[..., object]], CommandGroup]:
    """Return a decorator that makes a function a group of commands."""
    return click.group(cls=CommandGroup, examples=examples, **settings)


def option_groups(command: click.Command, context: click.Context) -> dict[str, list[click.Option]]:
    """Return the options of a command by the title of their group, groups and options in the order of the help.

    ``--help`` is left out: its reader knows it. A group without options is left out too.
    """
    help_option = command.get_help_option(context)
    groups: dict[str, list[click.Option]] = {title: [] for title in GROUPS}
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden and option is not help_option:
            groups[getattr(option, "group", OWN)].append(option)
    return {
        title: sorted(options, key=lambda option: getattr(option, "rank", 0))
        for title, options in groups.items()
        if options
    }


def first_sentence(docs: str) -> str:
    """Return the first sentence of documentation, or its part before a semicolon, on one line without a period."""
    text = " ".join(inspect.cleandoc(docs).split("\n\n")[0].split())
    return text.partition("; ")[0].partition(". ")[0].removesuffix(".")


def _write_groups(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command by group into its help.

    Without ``--all`` rare options are omitted, and if there are any, a last line names the command that shows all.
    """
    everything, has_hidden = bool(context.meta.get(ALL)), False
    for title, options in option_groups(command, context).items():
        printed = options if everything else [option for option in options if not _is_rare(option, command)]
        has_hidden = has_hidden or len(printed) < len(options)
        if printed:
            with formatter.section(title):
                formatter.write_dl([_record(option, context, everything=everything) for option in printed])
    if has_hidden:
        _write_line(f"All options: resource-api help {_name(context)} --all", formatter)


def _is_rare(option: click.Option, command: click.Command) -> bool:
    """Return whether ``--help`` leaves out an option of a command."""
    return getattr(option, "rare", False) or option.name in getattr(command, "rare", ())


def _record(option: click.Option, context: click.Context, *, everything: bool) -> tuple[str, str]:
    """Return the flags and the help of an option; with ``everything``, for ``--all``, its environment variable too."""
    flags, text = option.get_help_record(context) or ("", "")
    return flags, f"{text}  [{option.envvar}]" if everything and option.envvar else text


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write the section of a command's examples, if it has any, into its help; long examples are not wrapped."""
    if examples:
        with formatter.section("Examples" if len(examples) > 1 else "Example"):
            for example in examples:
                _write_line(example, formatter, blank_above=False)


def _write_line(text: str, formatter: click.HelpFormatter, *, blank_above: bool = True) -> None:
    """Write a line into a help, unwrapped, so that it can be copied into a shell."""
    if blank_above:
        formatter.write_paragraph()
    formatter.write(f"{'':>{formatter.current_indent}}{text}\n")


def with_advice(error: click.ClickException, arguments: Sequence[str]) -> click.ClickException:
    """Return click's error for a command line, with advice for the user where there is any.

    The advice is a similar option or command, the manifests in this directory, or the term for one of another tool.
    """
    if isinstance(error, click.NoSuchOption):
        name = _as_written(error.option_name, arguments)
        return _usage_error(f"No such option '{name}'", _advice_on_option(name, error.ctx), error.ctx)
    if isinstance(error, click.NoSuchCommand):
        hint = _advice_on_command(error.command_name, error.ctx)
        return _usage_error(f"No such command '{error.command_name}'", hint, error.ctx)
    if isinstance(error, click.MissingParameter) and error.param and error.param.name == "manifest":
        return _usage_error("Missing argument 'MANIFEST'", _advice_on_manifest(error.ctx), error.ctx)
    if type(error) is click.UsageError:
        for word in arguments:
            if hint := suggestion(word, (), "argument"):
                return _usage_error(error.message, hint, error.ctx)
    return error


def write_json(error: click.ClickException, arguments: Sequence[str], exit_code: int) -> None:
    """Write a usage error in JSON to stdout if ``--json`` is among the ``arguments``, for a program that reads it.

    The arguments could not be parsed, so the option is searched for in them. Raise ``OSError``.
    """
    # Behind "--" there are no options.
    options = {word.partition("=")[0] for word in takewhile(lambda word: word != "--", arguments)}
    if "--json" not in options:
        return
    problem = documents.problem(Problem(None, error.format_message(), code="usage"))
    # In the form that a reader of the command's JSON expects: a stream of objects, or one document.
    if _streams(_name(error.ctx) if isinstance(error, click.UsageError) else "", options):
        summary = documents.summary(Summary(), exit_code)
        lines = (documents.line("diagnostic", problem), documents.line("summary", summary))
        click.echo("\n".join(map(json.dumps, lines)))
    else:
        click.echo(json.dumps({"diagnostics": [problem], "exit_code": exit_code}, indent=2))


def _streams(name: str, options: Collection[str]) -> bool:
    """Return whether the command ``name`` with these options writes one object a line with ``--json``."""
    runs = name in _STREAMING and _OUT.isdisjoint(options)
    return runs or (name != "resource" and not _HOSTS.isdisjoint(options))


def _as_written(name: str, arguments: Sequence[str]) -> str:
    """Return the option ``name`` of click's error as the user wrote it, for the message and the nearest option.

    Click splits ``-var`` into ``-v``, ``-a`` and ``-r`` and complains about ``-a``; the user must see ``-var``.
    """
    written = [word.partition("=")[0] for word in arguments if word.startswith("-")]
    if name in written or name.startswith("--"):
        return name
    return next((word for word in written if not word.startswith("--") and name[1:] in word), name)


def _advice_on_command(name: str, context: click.Context | None) -> str:
    """Return the advice on an unknown command: the nearest one of the same group; or ""."""
    if context is None or not isinstance(context.command, click.Group):
        return ""
    group_name = str(context.info_name) if context.parent else ""
    return suggestion(name, context.command.list_commands(context), "command", group_name)


def _advice_on_option(name: str, context: click.Context | None) -> str:
    """Return the advice on an unknown option: the nearest option of the command, or "" without one.

    An option that deletes or shows secrets is not named: a user must not copy it from a message without reading.
    """
    if context is None:
        return ""
    command = context.command
    flags = [option for parameter in command.params for option in parameter.opts if option.startswith("-")]
    flags += context.help_option_names
    # Of "-target" the flag is "--target".
    if f"-{name}" in flags and f"-{name}" not in NEVER_SUGGESTED:
        return f"did you mean '-{name}'?"
    nearest, hint = suggested_word(name, flags, "option", _name(context))
    if nearest in NEVER_SUGGESTED:
        return ""
    return hint or ("write options behind the command" if isinstance(command, click.Group) else "")


def _advice_on_manifest(context: click.Context | None) -> str:
    """Return the advice on a missing MANIFEST: the names of the manifests in the working directory; or ""."""
    if _name(context).startswith("agent"):  # its manifests are in its source
        return ""
    from resource_api.manifest.read import manifest_names

    try:
        names = manifest_names(".")
    except OSError:
        return ""
    return f"in this directory: {', '.join(names)}" if names else "this directory holds none"


def _usage_error(message: str, hint: str, context: click.Context | None) -> click.UsageError:
    """Return an error of usage whose message ends in the hint, unless it is empty."""
    return click.UsageError(f"{message}; {hint}" if hint else f"{message}.", context)


def _name(context: click.Context | None) -> str:
    """Return the name of a command without the program's, as ``help`` takes it; empty without a context."""
    return context.command_path.partition(" ")[2] if context is not None else ""
