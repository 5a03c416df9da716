"""The inputs of each host: whose value wins, and those that an inventory only names, from files and programs.

They are checked against what the manifest declares before any host is touched. A secret is never in an inventory: a
mapping whose only key is `file` or `command` says where its text is, and `${host.name}` in it is the host's name.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet import host_names
from resource_api.manifest.input_values import FileInput, input_values
from resource_api.manifest.read import read_file
from resource_api.model.datatypes import build as datatypes
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.document import MAX_BYTES
from resource_api.model.values.errors import DataTypeError, ManifestError, Problem
from resource_api.system.process import interactive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from resource_api.fleet.inventory import Inventory, Settings, Value
    from resource_api.model.declaration import Input, Manifest

_HOST: Final = "${host.name}"
_INDIRECT: Final = ("file", "command")


class Given(NamedTuple):
    """The inputs that hold for every host: those that an inventory wins over, and those that win over it."""

    weaker: Mapping[str, Any]
    stronger: Mapping[str, Any]


class HostInputs:
    """Finds the inputs of hosts; what is equal for many of them is found once."""

    def __init__(
        self, manifest: Manifest | None, given: Given, read: Callable[[str, str, str], str] | None = None
    ) -> None:
        """Use what ``manifest`` declares; None: a program that declares its inputs where it is executed.

        ``read`` returns the text that a file or a program has: see ``read_indirect``.
        """
        self._manifest = manifest
        self._given = given
        self._read = read or read_indirect
        self._secret = {name for name, each in manifest.inputs.items() if _is_secret(each)} if manifest else set[str]()
        #: What was read, by kind, text and directory.
        self._texts: dict[tuple[str, str, str], str] = {}
        self._found: dict[int, Mapping[str, Any]] = {}
        #: Problem → the hosts that have it.
        self._problems: dict[Problem, list[str]] = {}

    def of_all(self, found: Iterable[tuple[str, Inventory]]) -> dict[str, Mapping[str, Any]]:
        """Return the inputs of each host. Raise ``ManifestError`` with every problem and the hosts that have it."""
        inputs = {name: self._of(name, inventory.settings_of(name)) for name, inventory in found}
        if self._problems:
            raise ManifestError(
                problem._replace(reference=",".join(host_names.fold(names)))
                for problem, names in self._problems.items()
            )
        return inputs

    def _of(self, name: str, settings: Settings) -> Mapping[str, Any]:
        own = any(_HOST in str(each.value) for each in settings.inputs.values() if indirect(each.value))
        if own or (known := self._found.get(id(settings))) is None:
            problems = dict[Problem, None]()
            known = self._resolved(name, settings, problems)
            for problem in problems:
                self._problems.setdefault(problem, []).append(name)
            if not own and not problems:
                self._found[id(settings)] = known
        return known

    def _resolved(self, name: str, settings: Settings, problems: dict[Problem, None]) -> Mapping[str, Any]:
        """Return the inputs of one host, of their data types, secrets as such; what is wrong goes to ``problems``."""
        listed = {
            each: value
            for each, value in settings.inputs.items()
            if each not in self._given.stronger and (self._manifest is None or each in self._manifest.inputs)
        }
        values = {each: self._value(name, each, value, problems) for each, value in listed.items()}
        merged = {**self._given.weaker, **values, **self._given.stronger}
        if self._manifest is None:
            return merged
        resolved, wrong = input_values(self._manifest, merged)
        for problem in wrong:
            if (value := listed.get(problem.attribute or "")) is not None:
                problems[_placed(problem, value)] = None
            else:
                problems[problem] = None
        return {each: value for each, value in resolved.items() if each in merged}

    def _value(self, host: str, name: str, value: Value, problems: dict[Problem, None]) -> Any:
        if (where := source_of(value, host)) is None:
            if name in self._secret:
                message = f"input '{name}' is sensitive and cannot be written here"
                hint = f"write {name}: {{file: PATH}} or {name}: {{command: PROGRAM}}"
                problems[_placed(Problem(name, message, code="secret", hint=hint), value)] = None
            return value.value
        try:
            if where not in self._texts:
                self._texts[where] = self._read(*where)
        except (OSError, ValueError) as error:
            message = f"input '{name}': {unread(where, error)}"
            problems[_placed(Problem(name, message, code="input"), value)] = None
            return FileInput("")
        return FileInput(self._texts[where])


def source_of(value: Value, host: str) -> tuple[str, str, str] | None:
    """Return where the text of a value is, as ``read_indirect`` takes it; None for a value that is written in place."""
    if (kind := indirect(value.value)) is None:
        return None
    written = value.value[kind]
    text = (shlex.join(written) if type(written) is list else written).replace(_HOST, host)
    return kind, text, os.path.dirname(value.place[0])


def read_indirect(kind: str, text: str, directory: str) -> str:
    """Return what a file holds, or a program prints, without its last line end.

    A relative path, and the program's working directory, are the inventory's. Raise ``OSError``, or ``ValueError`` with
    the reason, which never quotes what was read.
    """
    if kind == "file":
        raw, _ = read_file(os.path.join(directory, text))
    else:
        raw = interactive.output(shlex.split(text), directory or ".")
    if len(raw) > MAX_BYTES:
        msg = f"it is larger than {MAX_BYTES // 1_000_000} MB"
        raise ValueError(msg)
    try:
        return raw.decode().removesuffix("\n")
    except UnicodeDecodeError:
        msg = "it is not UTF-8"
        raise ValueError(msg) from None


def unread(where: tuple[str, str, str], error: OSError | ValueError) -> str:
    """Return why a file or a program could not be read, with its name where that is known."""
    kind, text, _ = where
    named = text if kind == "file" else getattr(error, "filename", None)
    why = getattr(error, "strerror", None) or str(error)
    return f"{named}: {why}" if named else why


def indirect(value: Any) -> str | None:
    """Return ``file`` or ``command`` for a value that only names where an input is."""
    if type(value) is not dict or len(value) != 1:
        return None
    (kind,) = value
    written = value[kind]
    words = type(written) is list and bool(written) and all(type(word) is str for word in written)
    return kind if kind in _INDIRECT and (type(written) is str or (words and kind == "command")) else None


def _is_secret(declared: Input) -> bool:
    try:
        return declared.sensitive or declared.ephemeral or datatypes.parse(declared.type).sensitive
    except (DataTypeError, ValueError):
        return True  # what it is said where the type is checked


def _placed(problem: Problem, value: Value) -> Problem:
    file, line, column = value.place
    return problem._replace(file=file, line=line, column=column)
