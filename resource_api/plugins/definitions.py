"""Load and check the definitions in files of the module path: types, providers, components and policies.

A file defines ``TYPE``, ``Provider``, ``COMPONENT`` and ``build``, or the functions of a policy. ``registry`` decides
when each file is loaded. The parts of a type are checked by ``TypeDefinition``, wherever it is created.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.attribute import Attribute
from resource_api.model.type_definition import ComponentDefinition, Function, TypeDefinition
from resource_api.model.values.errors import DefinitionError, ManifestError
from resource_api.plugins import provider_interface
from resource_api.plugins.loader import Library, builtins_with_libs, execute_in
from resource_api.plugins.module_path import BUNDLED

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.step import Policy
    from resource_api.plugins.loader import ReadCode

    #: A component, and the function that builds one use of it.
    Component = tuple[ComponentDefinition, Callable[[object], object]]

_ELSEWHERE: Final = "write it into the manifest that uses the component"
#: Constants of a component that are called like a section of manifests, and are not given to COMPONENT → the remedy.
_UNREAD: Final = {
    "INPUTS": "give it to COMPONENT as inputs",
    "RESOURCES": "declare resources in build(m), with m.resource('file', '/etc/motd', ...)",
    "OUTPUTS": "declare outputs in build(m), with m.output('name', value)",
    **dict.fromkeys(("DEFAULTS", "INCLUDE", "PROVIDERS", "VALUES", "MOVED", "REMOVED", "PURGE"), _ELSEWHERE),
}


class ExecutableProvider:
    """A provider in another language: ``executable`` is the path of a program that speaks the provider protocol."""

    executable: str


class DefinitionFiles:
    """Loads files of the module path; those of one directory share the modules of its ``lib/``."""

    def __init__(self, read: ReadCode) -> None:
        """Begin without any module loaded; ``read`` as for ``execute_in``, for all but the bundled files."""
        self._read = read
        self._libraries: dict[str, Library] = {}

    def type(self, path: str, *, first: bool = True) -> TypeDefinition:
        """Return the type that a file defines, the ``first`` of its name or another. Raise ``DefinitionError``."""
        value: TypeDefinition
        if path.endswith(".json"):
            value = _type_from_json(path, self._bytes(path))
        else:
            value = _defined(path, self._execute(path, first=first), "TYPE", TypeDefinition)
        _check_name(path, "TYPE", value.name)
        return value

    def provider(self, path: str, definition: TypeDefinition, *, first: bool = True) -> builtins.type[Any]:
        """Return the provider class that a file defines. Raise ``DefinitionError`` where it does not fit its type.

        The class of an executable is a subclass of ``ExecutableProvider``.
        """
        if not path.endswith(".py"):
            return self._executable(path)
        # It is one of several in providers/TYPE/NAME.py, and not providers/TYPE.py.
        in_directory = path.rsplit("/", 3)[1:3] == ["providers", definition.name]
        module = self._execute(path, first=first, deep=in_directory)
        value: builtins.type[object] = _defined(path, module, "Provider", type)
        check_interface(definition, value, f"{path}: ")
        return value

    def _executable(self, path: str) -> builtins.type[object]:
        """Return the class of a provider that is a program. Raise ``DefinitionError`` where it cannot be executed."""
        self._bytes(path)  # raises ``UntrustedCode``
        if not os.access(path, os.X_OK):
            msg = f"{path}: a provider without the ending .py is an executable, and this file cannot be executed"
            raise DefinitionError(msg)
        return type("Provider", (ExecutableProvider,), {"executable": path})

    def _bytes(self, path: str) -> bytes:
        """Return the bytes of a file. Raise ``UntrustedCode`` where other users could have changed it."""
        try:
            return self._read(path)[0]
        except OSError as error:
            msg = f"{path}: {error.strerror}"
            raise DefinitionError(msg) from error

    def component(self, path: str) -> Component:
        """Return the component that a file defines, and its function ``build``. Raise ``DefinitionError``."""
        module = self._execute(path)
        value: ComponentDefinition = _defined(path, module, "COMPONENT", ComponentDefinition)
        _check_name(path, "COMPONENT", value.name)
        build = getattr(module, "build", None)
        if not callable(build):
            msg = f"{path}: defines no function build(m)"
            raise DefinitionError(msg)
        mappings = (value.attributes, value.outputs)  # a constant that was given to COMPONENT is read
        if unread := [name for name in _UNREAD if hasattr(module, name) and getattr(module, name) not in mappings]:
            raise DefinitionError("\n".join(self._unread(path, unread)))
        return value, build

    def _unread(self, path: str, names: Sequence[str]) -> Iterator[str]:
        """Yield the problem of each constant of a component that is called like a section of manifests."""
        from resource_api.manifest.python_positions import constant_position

        raw = self._bytes(path)
        for name in names:
            line, column = constant_position(raw, name)
            yield f"{path}:{line}:{column}: {name} is not read; {_UNREAD[name]}, or give it another name"

    def policy(self, path: str) -> Policy:
        """Return the policy that a file defines. Raise ``DefinitionError``: a broken policy must not pass."""
        module = self._execute(path)
        return policy(_stem(path), path, {word: getattr(module, word, None) for word in ("resource", "plan")})

    def _execute(self, path: str, *, first: bool = True, deep: bool = False) -> ModuleType:
        """Execute a file; its module replaces an earlier registry's module, but not another version's.

        ``deep``: the file is in a directory of providers of one type. Raise ``DefinitionError`` as ``execute_in`` does.
        """
        directory, *kinds, _ = path.rsplit("/", 3 if deep else 2)
        read = None if directory == BUNDLED else self._read
        module = ModuleType(f"resource_api.{'.'.join(kinds)}.{_stem(path)}" + ("" if first else f"@{directory}"))
        execute_in(module, path, self._library(directory).builtins, read)
        return module

    def _library(self, directory: str) -> Library:
        """Return the ``lib/`` of a directory of the module path, the same at each call."""
        if directory not in self._libraries:
            self._libraries[directory] = Library(directory, None if directory == BUNDLED else self._read)
        return self._libraries[directory]

    def builtins_of_manifest(self, directories: Sequence[str]) -> dict[str, object]:
        """Return the built-in names for a Python manifest, which imports ``lib/`` of these directories."""
        return builtins_with_libs([self._library(directory) for directory in directories if directory != BUNDLED])


def check_interface(definition: TypeDefinition, provider: builtins.type[object], prefix: str = "") -> None:
    """Raise ``DefinitionError`` where a provider class does not fit its type; ``prefix`` begins each line."""
    if problems := provider_interface.interface_problems(definition, provider):
        raise DefinitionError("\n".join(f"{prefix}{problem}" for problem in problems))


def by_preference(providers: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the providers of a type by name, those of the highest ``priority`` first; equals keep their order."""
    return dict(sorted(providers.items(), key=lambda pair: -getattr(pair[1], "priority", 0)))


def policy(name: str, file: str, functions: Mapping[str, object]) -> Policy:
    """Return a policy of its functions. Raise ``DefinitionError`` when it has none, or one is not callable."""
    for word, function in functions.items():
        if function is not None and not callable(function):
            msg = f"{file}: '{word}' must be a function, not {type(function).__name__}"
            raise DefinitionError(msg)
    if not any(functions.values()):
        msg = f"{file}: defines neither resource(resource) nor plan(plan)"
        raise DefinitionError(msg)
    from resource_api.model.step import Policy  # policies are rare

    return Policy(name, file, functions["resource"], functions["plan"])  # type: ignore[arg-type] # callable, checked above


def _stem(path: str) -> str:
    """Return the name that a file must define: its own, without the ending."""
    return path.rpartition("/")[2].removesuffix(".py").removesuffix(".json")


def _defined(path: str, module: ModuleType, constant: str, expected: type[object]) -> Any:
    """Return the constant of a file. Raise ``DefinitionError`` if it is missing, misnamed or of another class."""
    value = getattr(module, constant, None)
    if value is None:
        candidates = [name for name, member in vars(module).items() if _is_candidate(member, expected, module)]
        hint = f"; rename '{candidates[0]}' to {constant}" if len(candidates) == 1 else ""
        msg = f"{path}: defines no {constant}{hint}"
        raise DefinitionError(msg)
    if not isinstance(value, expected):
        msg = f"{path}: {constant} must be a {expected.__name__}, not {type(value).__name__}"
        raise DefinitionError(msg)
    return value


def _is_candidate(value: object, expected: type[object], module: ModuleType) -> bool:
    """Return whether a value of a module may be the definition that its file lacks, under another name."""
    if expected is not type:
        return isinstance(value, expected)
    return isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "get")


def _check_name(path: str, constant: str, name: str) -> None:
    """Raise ``DefinitionError`` unless a definition has the name of its file."""
    if name != _stem(path):
        msg = f"{path}: {constant} is named '{name}' but its file is named '{_stem(path)}'"
        raise DefinitionError(msg)


def _type_from_json(path: str, data: bytes) -> TypeDefinition:
    """Return the type that a JSON file declares, for providers in other languages. Raise ``DefinitionError``.

    The members are the arguments of ``TypeDefinition``; only functions that compute titles cannot be written.
    """
    from resource_api.manifest import json_reader  # only for types of providers in other languages

    try:
        document = json_reader.read(data, path).data
    except ManifestError as error:
        raise DefinitionError(str(error)) from error
    fields = dict(_mapping(path, "the type", document))
    for word in ("attributes", "config"):
        if word in fields:
            fields[word] = _members(path, word, fields[word], _attribute)
    if "functions" in fields:
        fields["functions"] = _members(path, "functions", fields["functions"], _function)
    try:
        return TypeDefinition(**fields)
    except (DefinitionError, TypeError) as error:
        msg = f"{path}: {error}"
        raise DefinitionError(msg) from error


def _mapping(path: str, label: str, value: object) -> Mapping[str, Any]:
    """Return a value that must be a JSON object. Raise ``DefinitionError`` for another, which it calls ``label``."""
    if not isinstance(value, dict):
        msg = f"{path}: {label} must be an object, not {type(value).__name__}"
        raise DefinitionError(msg)
    return value


def _members(
    path: str, word: str, values: object, make: Callable[[str, str, Mapping[str, object]], object]
) -> dict[str, object]:
    """Return the values of an object, each built by ``make``. Raise ``DefinitionError`` that names the position."""
    members = {}
    for name, value in _mapping(path, word, values).items():
        key_path = f"{word}.{name}"
        try:
            members[name] = make(path, key_path, _mapping(path, key_path, value))
        except TypeError as error:
            msg = f"{path}: {key_path}: {error}"
            raise DefinitionError(msg) from error
    return members


def _attribute(_path: str, _key_path: str, fields: Mapping[str, Any]) -> Attribute:
    return Attribute(**fields)


def _function(path: str, key_path: str, fields: Mapping[str, Any]) -> Function:
    inputs = _members(path, f"{key_path}.inputs", fields.get("inputs", {}), _attribute)
    return Function(**{**fields, "inputs": inputs})
