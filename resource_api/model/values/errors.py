"""All errors that leave this library.

::

    ResourceAPIError          base; has the exit code
    ├── UsageError            the command line or a call asks for something that does not exist
    │   └── UnknownName       the name in an argument NAME=VALUE does not exist
    ├── DefinitionError       a type or provider file breaks the contract
    │   ├── UnknownType       no type and no component has the name
    │   ├── UntrustedCode     other users can change the code
    │   ├── MissingModule     a file imports a module that does not exist
    │   └── DataTypeError     a data type expression is invalid; has the column
    ├── ManifestError         the manifest or an input is wrong; has all problems
    ├── ProviderError         a provider breaks the contract or fails at run time
    │   ├── CannotList        it can read named resources but not enumerate them
    │   └── WrongAnswer       a method returned an invalid value, for any resource
    ├── ResourceError         the system refused a change; affects one resource
    │   └── CommandError      a program failed
    └── StateError            state is damaged, missing, old, or not writable
        ├── StateDamaged      it is damaged, and a command restores it
        └── StateLocked       another process holds the lock
            └── StateLost     it was taken from this process, which had not renewed it
"""

from __future__ import annotations

from errno import ENOMEM
from typing import TYPE_CHECKING, Any, ClassVar, Final

from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import quote_command, shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


#: The severities of a problem.
SEVERITIES: Final = ("error", "warning")


class Problem(NamedTuple):
    """One problem, as data; a stage collects problems and raises them at once.

    A provider's ``validate`` returns the first three fields, and its ``preflight`` also ``needs``, the reference of the
    resource that would meet the requirement, and ``brought_by``, names of types whose changes may meet it too, such as
    ``package``; the runtime adds the position. ``line`` and ``column`` count from 1;
    0 means unknown.
    """

    attribute: str | None
    message: str
    severity: str = "error"
    reference: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    code: str = "invalid"
    hint: str = ""
    #: The corrected source line; it may contain secrets of the line, and is no part of the text.
    paste: str = ""
    needs: str | None = None
    brought_by: tuple[str, ...] = ()

    def checked(self) -> Problem:
        """Return this problem, which code of a user made. Raise ``ProviderError`` for a field that it cannot have."""
        types = self.brought_by if isinstance(self.brought_by, (tuple, list)) else [None]  # None is refused below
        if not all(isinstance(text, str) for text in (self.attribute or "", self.message, self.needs or "", *types)):
            fields = tuple(field for field in (self.attribute, self.message, self.needs, self.brought_by) if field)
            msg = f"a problem is made of texts, as in Problem('size', 'is too large'), not {fields!r:.80}"
            raise ProviderError(msg)
        if self.severity not in SEVERITIES:
            raise ProviderError(f"a problem is an 'error' or a 'warning', not {self.severity!s:.80}: {self.message}")
        return self

    def __str__(self) -> str:
        """Return ``site.yaml:14:5: File[/etc/motd]: unknown attribute 'x'; did you mean 'y'?``."""
        return f"{self.place}: {self.text}" if self.file else self.text

    @property
    def place(self) -> str:
        """``site.yaml:14:5``; the file alone if the line is unknown, empty if the file is."""
        return f"{self.file}:{self.line}:{self.column}" if self.file and self.line else self.file

    @property
    def text(self) -> str:
        """The reference, the message and the hint, without the place."""
        message = f"{self.message}; {self.hint}" if self.hint else self.message
        return f"{self.reference}: {message}" if self.reference else message

    @property
    def labelled(self) -> str:
        """``site.yaml:14:5: Warning: File[/etc/motd]: …``; ``Error`` stands only where there is no file."""
        label = "Warning" if self.severity != "error" else "" if self.file else "Error"
        return ": ".join(filter(None, (self.place, label, self.text)))


def suggestion(word: str, words: Iterable[str], context: str = "", type_name: str = "") -> str:
    """Return ``did you mean 'x'?`` with the nearest of ``words``, a sentence on a word of another tool, both, or "".

    ``context``, such as ``attribute``, and ``type_name`` select the words of other tools in ``foreign_terms.json``.
    """
    return suggested_word(word, words, context, type_name)[1]


def suggested_word(word: str, words: Iterable[str], context: str = "", type_name: str = "") -> tuple[str, str]:
    """Return the nearest word or "", to be offered for pasting, and the text of ``suggestion``."""
    # Its tables are only loaded for an error.
    from resource_api.model.values.suggestions import suggest

    return suggest(word, words, context, type_name)


def hint(word: object, words: Iterable[str], context: str = "") -> str:
    """Return the ``suggestion`` as the end of a message, ``; did you mean 'x'?``, or "" if there is none."""
    advice = suggestion(str(word), words, context)
    return f"; {advice}" if advice else ""


#: The name under which a module of a module path holds its file, relative to it: ``providers/dns.py``.
PLUGIN_FILE: Final = "__plugin_file__"


#: What a ``KeyboardInterrupt`` says that is raised in a call because the run is being stopped.
STOPPED: Final = "stopped, as the run was interrupted"


#: The most exceptions of a group that a message names.
_PARTS: Final = 3


def text_of(error: BaseException) -> str:
    """Return an exception's own text; for an exception group also the reasons of its first exceptions.

    Raise any exception that the ``__str__`` of a foreign class raises.
    """
    if not isinstance(error, BaseExceptionGroup):
        return str(error)
    return f"{error}: {'; '.join(reason(part, with_origin=False) for part in error.exceptions[:_PARTS])}"


def reason(error: BaseException, *, with_origin: bool = True) -> str:
    """Return an exception's message for users, with its class where the message alone would not be understood.

    The message of an exception of Python or a provider ends with the line of the provider that raised it (``origin``),
    unless ``with_origin`` is false. Works for exceptions whose ``str`` raises.
    """
    try:
        text = text_of(error).strip()
    except Exception:  # noqa: BLE001 - foreign code may raise anything
        text = ""
    is_interrupt = isinstance(error, KeyboardInterrupt)
    if isinstance(error, ResourceAPIError) or (is_interrupt and text == STOPPED):
        return text or type(error).__name__
    text += _hint_for_author(text, error)
    if " " not in text or is_interrupt:  # a single word, such as the key of a KeyError
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    source = origin(error) if with_origin else ""
    return f"{text} ({source})" if source else text


def _hint_for_author(text: str, error: BaseException) -> str:
    """Return advice for a provider's author on an exception of a name, or of read-only ``is_`` or ``should``; or ""."""
    if text == "tuple indices must be integers or slices, not str" and origin(error):
        return "; a name of several namevars is a tuple of their values"
    if "mappingproxy" not in text:
        return ""
    name = text.partition("has no attribute '")[2].partition("'")[0]
    # An attribute was meant: ``should.size``. A method of ``dict``, such as ``pop``, is refused because it changes.
    if name and not hasattr(dict, name):
        return f"; it is a mapping: write ['{name}']"
    return "; is_ and should are read-only: use a copy, such as {**should}"


def library_hint(error: BaseException, directory: str, exists: Callable[[str], bool]) -> str:
    """Return a hint for an import that failed in a file of the module path ``directory``, or "".

    The module may be in ``lib``, or beside it. ``exists`` returns whether a path exists.
    """
    name = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
    if name and exists(f"{directory}/lib/{name}.py"):
        return f"; write 'from lib import {name}'"
    if name and exists(f"{directory}/{name}.py"):
        return f"; move {name}.py into lib/, and write 'from lib import {name}'"
    return ""


def origin(error: BaseException) -> str:
    """Return ``providers/dns.py:41 in get``, the innermost line of a plug-in that an exception passed, or "".

    It names the author's file in a message, without a traceback. An exception from a worker has no such frames here,
    and carries its origin as an attribute.
    """
    line, trace = "", error.__traceback__
    while trace is not None:
        if file := trace.tb_frame.f_globals.get(PLUGIN_FILE):
            line = f"{file}:{trace.tb_lineno} in {trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return line or str(getattr(error, ORIGIN, ""))


#: The attribute that holds the origin of an exception of a worker.
ORIGIN: Final = "_resource_api_origin"


class ResourceAPIError(Exception):
    """The base of all errors; ``exit_code`` is the command's exit code."""

    exit_code: ClassVar[int] = 1
    #: The name in an argument ``NAME=VALUE`` of the command line that is wrong.
    attribute: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle its message and fields; ``Exception`` would call ``__init__`` with the message alone."""
        return Exception.__new__, (type(self), *self.args), self.__dict__


def diagnostic_code(error: ResourceAPIError) -> str:
    """Return the code of an error's diagnostic in JSON, from its class: ``data_type`` for ``DataTypeError``.

    The base class has the code ``failed``.
    """
    if type(error) is ResourceAPIError:
        return "failed"
    name = type(error).__name__.removesuffix("Error")
    return "".join("_" + character.lower() if character.isupper() else character for character in name).lstrip("_")


class UsageError(ResourceAPIError):
    """The caller asks for something that does not exist, or for options that exclude each other."""

    exit_code = 64

    def __init__(self, message: str, attribute: str | None = None) -> None:
        """Keep the message; ``attribute`` is the name in the argument ``NAME=VALUE`` that is wrong."""
        super().__init__(message)
        self.attribute = attribute


class StateNotEncrypted(UsageError):  # noqa: N818 - the name is a sentence
    """A key is named for a stack without encryption; the text has the command that encrypts it."""

    def __init__(self, project: str, stack: str, key: str) -> None:
        """Keep the stack; ``key`` is the URL of the key."""
        self.project, self.stack = project, stack
        super().__init__(self.with_options(f" --key {shell_word(key)}"))

    def with_options(self, options: str) -> str:
        """Return the message with the command to paste, and its ``options``, which select the store and the key.

        The command line, which alone knows its options, calls this to show the user a complete command.
        """
        command = f"resource-api state rekey{options} --project {self.project} --stack {self.stack}"
        return (
            f"the state of project {self.project}, stack {self.stack} is not encrypted, and a key is named;"
            f" {quote_command(command)} encrypts it, without --key it is used as it is"
        )


class UnknownName(UsageError):  # noqa: N818 - the name is a sentence
    """The name in an argument ``NAME=VALUE`` of the command line does not exist."""


class DefinitionError(ResourceAPIError):
    """A type or provider breaks the contract; raised when it is loaded."""

    exit_code = 65
    #: The file, line and column of its cause; without a file it is not known.
    position: tuple[str, int, int] = ("", 0, 0)


class UnknownType(DefinitionError):  # noqa: N818 - the name is a sentence
    """No type and no component has the name."""


class UntrustedCode(DefinitionError):  # noqa: N818 - the name is a sentence
    """Users other than root and the caller can change code that was to be executed."""


class MissingModule(DefinitionError):  # noqa: N818 - the name is a sentence
    """A file imports a module that does not exist, or a name that a module does not define."""


class DataTypeError(DefinitionError):
    """A data type expression is invalid; ``column`` counts from 1."""

    def __init__(self, message: str, column: int = 1) -> None:
        """Keep the message, and the column in the expression, from which a manifest's problem gets its position."""
        super().__init__(f"{message} (column {column})")
        self.message = message
        self.column = column


class ManifestError(ResourceAPIError):
    """The manifest is wrong; has all problems in the order of the files."""

    exit_code = 65

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Sort ``problems`` by file, line and column, as stages find them in another order; one line for each."""
        self.problems: Sequence[Problem] = sorted(
            problems, key=lambda problem: (problem.file, problem.line, problem.column)
        )
        super().__init__("\n".join(map(str, self.problems)))


class ProviderError(ResourceAPIError):
    """A provider broke its contract at run time (undeclared, not canonical, not converged) or is unavailable."""

    #: The file, line and column of the provider's declaration; without a file they are not known.
    position: tuple[str, int, int] = ("", 0, 0)


class CannotList(ProviderError):  # noqa: N818 - the name is a sentence
    """Raised by ``get`` for ``names=None`` if the provider cannot enumerate; its message says why."""


class WrongAnswer(ProviderError):  # noqa: N818 - the name is a sentence
    """A method of a provider returned an invalid value, for any resource; the message names method and type."""


class ResourceError(ResourceAPIError):
    """The system refused a change; affects only the resource."""


class CommandError(ResourceError):
    """A program could not be run, failed, or was stopped."""

    def __init__(self, message: str, argv: Sequence[str] = (), exit_code: int | None = None, stderr: str = "") -> None:
        """Keep the command line, the exit code (negative: the signal that ended it) and the end of stderr.

        The program's exit code is ``status``: ``exit_code`` is that of ``resource-api`` after this error.
        """
        super().__init__(message)
        self.argv = tuple(argv)
        self.status = exit_code
        self.stderr = stderr


class StateError(ResourceAPIError):
    """State is damaged, missing, older than its marker, or not writable."""

    exit_code = 74


class StateDamaged(StateError):  # noqa: N818 - the name is a sentence
    """State can be restored; the text ends with the command that does it, without the options of this call."""

    #: The effect of the command if a copy of the state exists.
    RESTORES: ClassVar[str] = "restores the newest intact generation"

    def __init__(self, message: str, effect: str = RESTORES) -> None:
        """Keep the description of the damage (``message``), and the effect of the command that repairs it.

        ``effect`` ends the sentence with the command, as in ``RESTORES``.
        """
        super().__init__(message)
        self.message = message
        self.effect = effect

    def __str__(self) -> str:
        """Return the message with the command."""
        return self.with_options("")

    def with_options(self, options: str) -> str:
        """Return the message with the command and its ``options``, which select the same state."""
        return f"{self.message}; 'resource-api state recover{options}' {self.effect}"


class StateLocked(StateError):  # noqa: N818 - the name is a sentence
    """Another process holds the lock; ``holder`` in the message names it, its command and its start."""

    exit_code = 75
    holder = "another process holds it"


class StateLost(StateLocked):
    """The lock was taken over, because it was not renewed in time; nothing more is written."""


#: The exit code after a bug in this program.
BUG: Final = 70
#: The exit codes of a command that changed nothing; after a bug it may have changed something.
NOTHING_DONE: Final = frozenset(error.exit_code for error in (UsageError, ManifestError, StateError, StateLocked))


def unexpected(error: Exception) -> tuple[Problem, int]:
    """Return the problem and the exit code of an unexpected error: lack of memory, or a bug.

    A command ends with these instead of a traceback.
    """
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == ENOMEM):
        return Problem(None, "out of memory; give this command more, then run it again", code="memory"), 1
    text = f"this is a bug in resource-api, please report it: {type(error).__name__}: {reason(error)}"
    return Problem(None, text, code="bug", hint="-d shows where"), BUG
