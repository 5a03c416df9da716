"""The inputs of a command and their precedence: the stack's file, the environment, other files, ``-i``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.document import manifest_error
from resource_api.model.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: The prefix of the variable of the environment that gives an input.
_PREFIX: Final = "RESOURCE_API_INPUT_"


def inputs(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a command by name. Raise as ``by_source`` does."""
    merged: dict[str, Any] = {}
    for values, _ in by_source(settings):
        merged |= values
    return merged


def by_source(settings: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Callable[[str], str]]]:
    """Yield the inputs of each source by name, with a function from a name to its location; later ones win.

    The sources are the stack's file, the environment, other files and ``-i``. Raise ``UsageError`` for an unreadable
    file, ``ManifestError`` for a wrong file of inputs.
    """
    from resource_api.manifest.input_values import EnvironmentInput, FileInput, TextInput

    if (path := stack_file(settings)) is not None:
        yield _input_file(path)
    yield {name: EnvironmentInput(value) for name, value in environment_inputs()}, f"{_PREFIX}{{}}".format
    for path in settings.get("input_files") or ():
        yield _input_file(path)
    texts: dict[str, Any] = {}
    for text in settings.get("given") or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            msg = f"-i {name}: write NAME=VALUE or NAME=@FILE"
            raise UsageError(msg)
        texts[name] = FileInput(_content(value[1:])) if value.startswith("@") else TextInput(value)
    yield texts, "-i {}".format


def files(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that the inputs of a command are read from."""
    if (path := stack_file(settings)) is not None:
        yield path
    yield from settings.get("input_files") or ()
    for text in settings.get("given") or ():
        value = text.partition("=")[2]
        if value.startswith("@"):
            yield value[1:]


def stack_file(settings: Mapping[str, Any]) -> str | None:
    """Return the path of the inputs of the selected stack, beside the manifest, or None."""
    manifest, name = settings.get("manifest"), settings.get("stack")
    if not manifest or not name:
        return None
    above, slash, _ = manifest.rpartition("/")
    path = f"{above}{slash}stacks/{name}.yaml"
    try:
        # Not lstat: watch knows the files that were opened, or could not be.
        with open(path, "rb"):
            return path
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return path  # reading it raises the error


def environment_inputs() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each input in the environment; an empty variable counts as not set."""
    for variable, text in os.environ.items():
        if variable.startswith(_PREFIX) and text:
            yield variable.removeprefix(_PREFIX), text


def indirect_value(option: str, text: str) -> str | None:
    """Return the value of ``@FILE`` or ``env:NAME``, or None for any other text.

    Raise ``UsageError`` for a missing file or variable; an empty variable counts as not set.
    """
    if text.startswith("@"):
        return _content(text[1:])
    if not text.startswith("env:"):
        return None
    if not (value := os.environ.get(text[4:])):
        msg = f"{option}: the environment has no variable '{text[4:]}'{'' if value is None else ' that is not empty'}"
        raise UsageError(msg)
    return value


def secret_value(option: str, text: str) -> str:
    """Return the secret of ``@FILE`` or ``env:NAME``. Raise ``UsageError``, also for any other text."""
    if (value := indirect_value(option, text)) is None:
        advice = f"write {option}=@FILE or {option}=env:NAME"
        msg = f"{option} is sensitive and cannot be given on the command line; {advice}"
        raise UsageError(msg)
    return value


def _content(path: str, errors: str = "strict") -> str:
    try:
        with open(path, encoding="utf-8", errors=errors) as file:
            return file.read().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise UsageError(msg) from error


def _input_file(path: str) -> tuple[dict[str, Any], Callable[[str], str]]:
    """Return the inputs of a file, and a function from a name to its line. Raise ``ManifestError``."""
    from resource_api.manifest import json_reader, yaml_reader

    # The reader refuses bytes that are not UTF-8, with their position.
    raw = _content(path, "surrogateescape").encode(errors="surrogateescape")
    read = (json_reader if path.endswith(".json") else yaml_reader).read(raw, path)
    if not isinstance(read.data, dict):
        raise manifest_error(path, (0, 0), "inputs", "inputs are a mapping of name to value")
    return read.data, lambda name: f"{path}:{read.position((name,))[0]}"
