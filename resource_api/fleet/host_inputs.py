"""The inputs of each host: whose value wins, and those that an inventory only names, from files and programs.

They are checked against what the manifest declares before any host is touched. A secret is never in an inventory, which
names its source (``value_sources``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.fleet import host_names
from resource_api.fleet.value_sources import HOST, ValueSource, kind_of, source_of
from resource_api.manifest.input_values import FileInput, input_values
from resource_api.model.datatypes import datatype as datatypes
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import DataTypeError, ManifestError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from resource_api.fleet.inventory import Inventory, Settings, Value
    from resource_api.model.declaration import Input, Manifest


class Given(NamedTuple):
    """The inputs that hold for every host: those that an inventory wins over, and those that win over it."""

    weaker: Mapping[str, Any]
    stronger: Mapping[str, Any]


class HostInputs:
    """Finds the inputs of hosts; what is equal for many of them is found once."""

    def __init__(
        self, manifest: Manifest | None, given: Given, read: Callable[[ValueSource], str] = ValueSource.read
    ) -> None:
        """Use what ``manifest`` declares; None: a program that declares its inputs where it is executed.

        ``read`` returns the text of a source, or raises ``ValueError``.
        """
        self._manifest = manifest
        self._given = given
        self._read = read
        self._secret = {name for name, each in manifest.inputs.items() if _is_secret(each)} if manifest else set[str]()
        self._texts: dict[ValueSource, str] = {}
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
        own = any(HOST in str(each.value) for each in settings.inputs.values() if kind_of(each.value))
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
        if (source := source_of(value, host)) is None:
            if name in self._secret:
                message = f"input '{name}' is sensitive and cannot be written here"
                hint = f"write {name}: {{file: PATH}} or {name}: {{command: PROGRAM}}"
                problems[_placed(Problem(name, message, code="secret", hint=hint), value)] = None
            return value.value
        try:
            if source not in self._texts:
                self._texts[source] = self._read(source)
        except ValueError as error:
            problems[_placed(Problem(name, f"input '{name}': {error}", code="input"), value)] = None
            return FileInput("")
        return FileInput(self._texts[source])


def _is_secret(declared: Input) -> bool:
    try:
        return declared.sensitive or declared.ephemeral or datatypes.parse(declared.type).sensitive
    except (DataTypeError, ValueError):
        return True  # what it is said where the type is checked


def _placed(problem: Problem, value: Value) -> Problem:
    file, line, column = value.place
    return problem._replace(file=file, line=line, column=column)
