"""Compute the values of a manifest's inputs: arguments, checked against the declared data types, and defaults.

Text from a command line, a file or the environment is coerced; its class says where it comes from. Nothing is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.attribute import MISSING
from resource_api.model.datatypes import datatype as datatypes
from resource_api.model.datatypes import from_text, messages
from resource_api.model.values import assets, expression
from resource_api.model.values.errors import DataTypeError, Problem, UsageError, suggestion
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import UNKNOWN, Sensitive, place_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.model.datatypes.datatype import DataType
    from resource_api.model.declaration import Input, Manifest
    from resource_api.model.values.assets import Content, ContentSpec

    #: Makes the assets and archives in a value from their descriptions in a file.
    Contents = Callable[[Any, str], Any]


class TextInput(str):
    """An input from the command line: text that is coerced to the declared data type."""

    __slots__ = ()


class FileInput(TextInput):
    """An input whose text comes from a file; only such a text may be a secret."""

    __slots__ = ()


class EnvironmentInput(FileInput):
    """An input from the environment, which manifests share: one that is not declared is ignored."""

    __slots__ = ()


class LocatedValue(NamedTuple):
    """An input, or a setting of an inventory, and its position; beside a file it has no line."""

    value: Any
    #: The file, or the option or variable that holds the value.
    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return the position for users."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def directory(self) -> str:
        """The directory that paths in the value are relative to."""
        return self.file.rpartition("/")[0] or ("/" if self.file.startswith("/") else "")

    def locate(self, problem: Problem) -> Problem:
        """Return a problem with the position of this value."""
        return problem._replace(file=self.file, line=self.line, column=self.column)


def input_values(
    manifest: Manifest, arguments: Mapping[str, object], contents: Contents | None = None
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the values of the declared inputs by name, and all problems of them.

    An invalid input has the value ``UNKNOWN``, with which compiling goes on to find further problems. ``arguments``:
    values by name, from the command line, files or the environment. ``contents`` makes assets and archives, or None to
    keep their descriptions. Raise ``UsageError`` for a secret on the command line, which other users can read.
    """
    values: dict[str, Any] = {}
    problems = list(_unknown_inputs(manifest, arguments))
    for name, declared in manifest.inputs.items():
        values[name] = UNKNOWN
        if declared.default is UNKNOWN:  # its declaration is invalid: whether it is a secret is not known
            continue
        try:
            values[name] = _input_value(name, declared, arguments, contents)
        except DataTypeError as error:
            position = declared.origin.place_in_value(error.column, "type")
            problems.append(Problem(name, f"input '{name}': {error.message}", "error", "", *position, "data_type"))
        except ValueError as error:
            is_default = name not in arguments and declared.default is not MISSING
            position = declared.origin.place("default") if is_default else declared.origin.place()
            code = "default" if is_default else "input"
            problems.append(Problem(name, f"input '{name}': {error}", "error", "", *position, code))
    return values, problems


def _unknown_inputs(manifest: Manifest, arguments: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a problem for each argument without a declared input, as of a misspelt name.

    Names from the environment are no problem, since several manifests share it. If some included file is not read, no
    name is a problem, because that file may declare it.
    """
    if manifest.with_includes is not None or manifest.skipped_includes:
        return
    for name, value in arguments.items():
        if name not in manifest.inputs and not isinstance(value, EnvironmentInput):
            message, hint = f"unknown input '{name}'", suggestion(name, manifest.inputs)
            yield Problem(name, message, file=manifest.file, code="unknown_input", hint=hint)


def _input_value(name: str, declared: Input, arguments: Mapping[str, object], contents: Contents | None) -> Any:
    """Return an input's value: the argument, the default or None, coerced and checked, with secrets wrapped.

    ``contents`` makes assets and archives of their descriptions in the value; if it is None, the descriptions are
    checked and kept. Raise ``ValueError`` for a missing or invalid value, ``UsageError`` for a secret on the command
    line.
    """
    datatype = datatypes.parse(declared.type)
    is_secret = declared.sensitive or declared.ephemeral  # else only the parts with the data type ``Sensitive[...]``
    if is_secret and not datatype.sensitive:
        datatype = datatypes.parse(f"Sensitive[{declared.type}]")
    value = _argument_or_default(name, declared, arguments, datatype)
    if isinstance(value, TextInput):
        value = from_text.coerce(datatype, str(value))
    checked = value
    if datatype.holds_contents:  # descriptions of assets are checked as assets, also where they are kept
        checked = contents(value, declared.origin.document.file) if contents else assets.build_contents(value, _unread)
        value = checked if contents else value
    if not datatype.accepts(checked) and (problems := messages.explain(datatype, checked)):
        # A message about a part is led by its key path: ``[1] must be an integer``.
        raise ValueError("; ".join(f"{place_text(path)} {message}".lstrip(" .") for path, message in problems))
    return Sensitive(value) if is_secret and value is not None else datatype.conceal(value)


def _argument_or_default(name: str, declared: Input, arguments: Mapping[str, object], datatype: DataType) -> Any:
    """Return the argument of an input, or else its default, or None if it is optional.

    Raise ``ValueError`` for a missing value, and ``UsageError`` for a secret on the command line, which the machine's
    other users can read; a secret from a file (``FileInput``) is accepted.
    """
    default = expression.literal_value(declared.default, "a default cannot hold ${...}; write it under values and use")
    if name in arguments:
        value = arguments[name]
        if datatype.sensitive and isinstance(value, TextInput) and not isinstance(value, FileInput):
            msg = f"input '{name}' is sensitive and cannot be given on the command line; write -i {name}=@FILE"
            raise UsageError(msg)
        return value
    if default is MISSING and not datatype.optional:
        placeholder = "@FILE" if datatype.sensitive else "VALUE"
        raise ValueError(f"is not given and has no default; give it with -i {name}={placeholder}")
    return None if default is MISSING else default


def _unread(spec: ContentSpec) -> Content:
    """Return an asset or archive for a check of its data type, without reading its content."""
    return assets.KINDS[spec.word](spec.sha256)
