"""The inputs of a command and their precedence: the stack's file, the environment, other files, ``-i``."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final

from resource_api.model.values.document import AGE, manifest_error
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.manifest.input_files import InputFiles
    from resource_api.manifest.input_values import LocatedValue
    from resource_api.model.options import Settings
    from resource_api.model.values.errors import Problem
    from resource_api.system.filesystem.code_trust import CodeTrust

#: The prefix of the variable of the environment that gives an input.
_PREFIX: Final = "RESOURCE_API_INPUT_"
#: The codes of problems of values that were given to inputs.
INPUT_CODES: Final = frozenset({"input", "unknown_input"})


class CommandInputs:
    """The inputs of one command, read when they are first needed.

    The later of these win: the stack's file, the environment, other files, ``-i``. Properties raise ``UsageError`` for
    an unreadable file, ``ManifestError`` for a wrong file of inputs.
    """

    def __init__(
        self, settings: Settings, trust: CodeTrust, check: Callable[[str], object] = lambda _path: None
    ) -> None:
        """Prepare to read the inputs of a command with the parameters ``settings``.

        ``trust`` checks files that name programs. ``check`` is called with each file that is the source of a value, to
        warn where other users can change that file.
        """
        self._check = check
        self._settings = settings
        self._trust = trust
        #: The files of inputs, and the source files that these name, once they have been read.
        self.files = list(files(settings))
        #: Name of an input → its value as it is written, such as ``{file: PATH}``, with its position for messages.
        self.located: dict[str, LocatedValue] = {}

    @cached_property
    def reader(self) -> InputFiles:
        """The reader of files of inputs and inventories, which decrypts them with the key of ``--inputs-key``."""
        from resource_api.manifest.input_files import InputFiles

        return InputFiles(self._trust, self._settings.get("inputs_key"))

    @cached_property
    def values(self) -> dict[str, object]:
        """The inputs by name."""
        return self._resolved({**self._of_stack, **self._of_command})

    @cached_property
    def weaker(self) -> dict[str, object]:
        """The inputs of the stack's file, which those of an inventory replace."""
        return self._resolved(self._of_stack)

    @cached_property
    def stronger(self) -> dict[str, object]:
        """The inputs that replace those of an inventory."""
        return self._resolved(self._of_command)

    def _resolved(self, located: Mapping[str, LocatedValue]) -> dict[str, object]:
        """Return the values of inputs; the text of its source replaces a value such as ``{file: PATH}``.

        Record the positions of the values and the files of their sources, for messages about them.
        """
        self.located |= located
        # Only a value of a file, which has a line, can name a source.
        if not any(value.line for value in located.values()):
            return {name: value.value for name, value in located.items()}
        for path in self.reader.source_files(located.values()):
            self.files.append(path)
            self._check(path)
        return self.reader.resolve(located)

    def locate(self, problem: Problem) -> Problem:
        """Return a problem with the position of the input's value, so that the user sees the text to correct.

        The position is a file and a line, or for a variable of the environment its name in the hint. A problem with a
        value of the command line, or with no input, is returned as it is.
        """
        value = self.located.get(problem.attribute or "") if problem.code in INPUT_CODES else None
        if value is None:
            return problem
        if not value.line:
            if not value.file.startswith(_PREFIX):  # "-i NAME"
                return problem
            return problem._replace(hint=problem.hint or f"it is the value of {value.file}")
        from resource_api.manifest.input_files import source_advice

        return value.locate(problem._replace(hint=problem.hint or source_advice(value.value)))

    @cached_property
    def _of_stack(self) -> dict[str, LocatedValue]:
        """The inputs of the file of the stack, ``stacks/STACK.yaml`` or, encrypted, ``stacks/STACK.yaml.age``."""
        paths = stack_files(self._settings)
        if len(paths) > 1:
            message = f"stands beside {paths[0]}, and only one of them can be the file of the stack; remove one"
            raise manifest_error(paths[1], (0, 0), "inputs", message)
        return self.reader.values(paths[0]) if paths else {}

    @cached_property
    def _of_command(self) -> dict[str, LocatedValue]:
        """The inputs of the environment, ``--inputs`` and ``-i``; a later one replaces an earlier one."""
        environment, options = dict(environment_inputs()), self._settings.get("given") or ()
        paths = self._settings.get("input_files") or ()
        if not (environment or options or paths):
            return {}
        from resource_api.manifest.input_values import EnvironmentInput, FileInput, LocatedValue, TextInput

        located = {name: LocatedValue(EnvironmentInput(text), f"{_PREFIX}{name}") for name, text in environment.items()}
        for path in paths:
            located |= self.reader.values(path)
        for text in options:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise UsageError(f"-i {name}: write NAME=VALUE or NAME=@FILE")
            is_file = value.startswith("@")
            typed = FileInput(read_text(value[1:]).removesuffix("\n")) if is_file else TextInput(value)
            located[name] = LocatedValue(typed, f"-i {name}")
        return located


def files(settings: Settings) -> Iterator[str]:
    """Yield the paths of the files with a command's inputs: the stack's, ``--inputs``, ``-i X=@FILE``.

    The user is warned of those that other users can change or read.
    """
    yield from stack_files(settings)
    yield from settings.get("input_files") or ()
    for text in settings.get("given") or ():
        value = text.partition("=")[2]
        if value.startswith("@"):
            yield value[1:]


def stack_files(settings: Settings) -> list[str]:
    """Return the existing files of a stack's inputs, ``stacks/STACK.yaml`` and ``.yaml.age`` beside the manifest.

    If both exist, reading the inputs raises an error, because it is unknown which one is in force.
    """
    manifest, name = settings.get("manifest"), settings.get("stack")
    if not manifest or not name:
        return []
    above, slash, _ = manifest.rpartition("/")
    directory = f"{above}{slash}stacks"
    path = f"{directory}/{name}.yaml"
    if os.path.isdir(directory) and not os.access(directory, os.X_OK):
        return [path]  # whether a file exists is unknown here: reading it raises the error for the user
    return [path for path in (path, path + AGE) if _exists(path)]


def _exists(path: str) -> bool:
    """Return whether a file exists; True also if it cannot be opened, so that reading it raises the error later."""
    try:
        # Opened, not only looked up: ``watch`` waits for changes of the files that a plan has tried to open.
        with open(path, "rb"):
            return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return os.path.lexists(path)


def environment_inputs() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each input in the environment, such as ``RESOURCE_API_INPUT_port=80``.

    An empty variable counts as not set, as click has it for the variables of options.
    """
    for variable, text in os.environ.items():
        if variable.startswith(_PREFIX) and text:
            yield variable.removeprefix(_PREFIX), text


def indirect_value(option: str, text: str) -> str | None:
    """Return the content of the file in ``@FILE``, or of the variable in ``env:NAME``, as an option's value.

    Return None for any other text, which callers use literally, or refuse for a secret. Raise ``UsageError``, which
    names the ``option``, for a missing file and for a missing or empty variable.
    """
    if text.startswith("@"):
        return read_text(text[1:]).removesuffix("\n")
    if not text.startswith("env:"):
        return None
    name = text.removeprefix("env:")
    value = os.environ.get(name)
    if not value:
        remark = "" if value is None else " that is not empty"
        raise UsageError(f"{option}: the environment has no variable '{name}'{remark}")
    return value


def secret_value(option: str, text: str) -> str:
    """Return the secret to which ``@FILE`` or ``env:NAME`` refers. Raise ``UsageError`` where it cannot be read.

    A ``text`` that is the secret itself is refused too, because other users can read the arguments of a command.
    """
    if (value := indirect_value(option, text)) is None:
        advice = f"write {option}=@FILE or {option}=env:NAME"
        raise UsageError(f"{option} is sensitive and cannot be given on the command line; {advice}")
    return value


def read_text(path: str) -> str:
    """Return the text of a file that an argument names, as ``@FILE`` or a path. Raise ``UsageError`` if unreadable."""
    unreadable = errors_as(UsageError, (OSError, UnicodeDecodeError), f"cannot read {path}: ")
    with unreadable, open(path, encoding="utf-8") as file:
        return file.read()
