"""Every error that leaves this library, sorted by whose mistake it is.

::

    ResourceAPIError          base; knows its exit code
    ├── UsageError            the command line or a call asks for something that does not exist
    ├── DefinitionError       a type or provider file breaks the contract: its author's mistake
    │   ├── UnknownType       a name that no type and no component has
    │   └── DataTypeError     a data type expression that cannot be read; knows the column
    ├── ManifestError         the manifest or an input is wrong; carries every problem
    ├── ProviderError         a provider lied or cannot answer at run time
    │   └── CannotList        it can read named resources but not enumerate them
    ├── ResourceError         the system refused; contained per resource
    │   └── CommandError      a program failed
    └── StateError            what is recorded is damaged, missing, older, or not writable
        └── StateLocked       somebody else holds the lock

Nothing but the tree and its ``Problem`` belongs here: it imports nothing of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Problem(NamedTuple):
    """One thing that is wrong, as data; a stage collects them and raises once.

    A provider's ``validate`` gives the first three; the runtime adds the place.
    ``line`` and ``column`` count from 1; 0 means not known.
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

    def __str__(self) -> str:
        """``site.yaml:14:5: File[/etc/motd]: unknown attribute 'x'; did you mean 'y'?``."""
        place = self.file
        if place and self.line:
            place += f":{self.line}:{self.column}"
        head = ": ".join(part for part in (place, self.reference) if part)
        text = f"{self.message}; {self.hint}" if self.hint else self.message
        return f"{head}: {text}" if head else text


def nearest(word: str, known: Iterable[str]) -> str:
    """Give the hint ``did you mean 'x'?`` for the nearest known word, or an empty string."""
    from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

    found = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"did you mean '{found[0]}'?" if found else ""


def reason(error: BaseException) -> str:
    """Give the sentence that an error says; its class too where the text alone would not be understood.

    Works for exceptions whose ``str`` raises.
    """
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001 - a foreign class may do anything
        text = ""
    if " " in text or isinstance(error, ResourceAPIError):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class ResourceAPIError(Exception):
    """The base of all our errors; ``exit_code`` is what the command ends with."""

    exit_code: ClassVar[int] = 1


class UsageError(ResourceAPIError):
    """The caller asked for something that does not exist or does not go together."""

    exit_code = 64


class DefinitionError(ResourceAPIError):
    """A type or provider breaks the contract; found when it is loaded."""

    exit_code = 65


class UnknownType(DefinitionError):  # noqa: N818 - reads as what it says
    """No type and no component has the name."""


class DataTypeError(DefinitionError):
    """A data type expression cannot be read; ``column`` counts from 1."""

    def __init__(self, message: str, column: int = 1) -> None:
        """Keep the bare message and where in the expression it applies."""
        super().__init__(f"{message} (column {column})")
        self.message = message
        self.column = column


class ManifestError(ResourceAPIError):
    """The manifest asks for something impossible; carries all problems, in file order."""

    exit_code = 65

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Sort ``problems`` by file and line so that people read from top to bottom."""
        self.problems: Sequence[Problem] = sorted(problems, key=lambda p: (p.file, p.line, p.column))
        super().__init__("\n".join(map(str, self.problems)))


class ProviderError(ResourceAPIError):
    """A provider lied at run time: undeclared, not canonical, not converged, or unavailable."""


class CannotList(ProviderError):  # noqa: N818 - reads as what it says
    """Raised by ``get`` for ``names=None`` by a provider that cannot enumerate; says why."""


class ResourceError(ResourceAPIError):
    """The system refused a change; contained in the resource that asked for it."""


class CommandError(ResourceError):
    """A program could not be run, ended with another code than zero, or had to be stopped."""

    def __init__(self, message: str, argv: Sequence[str] = (), exit_code: int | None = None, stderr: str = "") -> None:
        """Keep what was run (``argv``), how it ended (negative: by a signal) and the tail of stderr."""
        super().__init__(message)
        self.argv = tuple(argv)
        self.status = exit_code
        self.stderr = stderr


class StateError(ResourceAPIError):
    """What is recorded is damaged, missing, older than its marker, or cannot be written."""

    exit_code = 74


class StateLocked(StateError):  # noqa: N818 - reads as what it says
    """Somebody else holds the lock: the message names who, which command, since when."""

    exit_code = 75
