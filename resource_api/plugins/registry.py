"""The types of one run, their providers, components and policies, by name.

A registry is filled by hand (for embedding) or from files on a module path, each loaded when it is first needed.
Provider classes are checked against their types here; instances are made in ``provider_pool``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, Self

from resource_api.model.attribute import AttributeSet
from resource_api.model.type_definition import ComponentDefinition, TypeDefinition
from resource_api.model.values.errors import DefinitionError, MissingModule, UnknownType, UsageError, suggestion
from resource_api.model.values.reference import TYPE_NAME, capitalize_type
from resource_api.model.values.start_up import NamedTuple
from resource_api.plugins.loader import DefinitionFiles, by_preference, check_interface, policy
from resource_api.plugins.module_path import BUNDLED, OWN, ModulePath, Origin
from resource_api.system.filesystem import code_trust

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.model.step import Policy, PolicyPlan, PolicyResource
    from resource_api.plugins.loader import Component


class _TypeVersion(NamedTuple):
    """One version of a type; ``directory`` holds it, None for the first on the module path."""

    definition: TypeDefinition
    directory: str | None = None


class TypeFamily(Protocol):
    """A source of types in no files, such as a Terraform provider: names with one first word, shared configurations."""

    def definition(self, name: str, /) -> TypeDefinition:
        """Return a type. Raise ``DefinitionError``."""

    def names(self) -> Sequence[str]:
        """Return the names of all types. Raise ``DefinitionError``."""

    def provider(self, name: str, /) -> builtins.type[object]:
        """Return the provider class of a type."""

    def close(self) -> None:
        """End its processes; a later call starts them again."""


class Registry:
    """Types and providers by name; a second one of the same name is refused."""

    def __init__(self, module_path: ModulePath | None = None, trust: Iterable[str | os.PathLike[str]] = ()) -> None:
        """Begin empty, or with the files on ``module_path``; code beneath a directory of ``trust`` is not checked."""
        self._module_path = module_path or ModulePath([], distributions=False)
        self.trusted_directories = tuple(map(os.path.realpath, trust))
        self._files = DefinitionFiles(self._read_code)
        self._types: dict[str, TypeDefinition] = {}
        #: Type → the classes of its providers by name, in the order of preference.
        self._providers: dict[str, Mapping[str, builtins.type[object]]] = {}
        #: Name → component; None: it was searched for, and there is none.
        self._components: dict[str, Component | None] = {}
        self._policies: list[Policy] = []
        #: Kind and name of the definitions that were loaded from a file.
        self._from_file: set[tuple[str, str]] = set()
        #: Kind and name → the error of a broken file, raised again at each use.
        self._broken: dict[tuple[str, str], DefinitionError] = {}
        #: Type and range of versions → the newest version in the range.
        self._versions: dict[tuple[str, str], _TypeVersion] = {}
        #: Type and directory → the same as in ``_providers``, of a version that is not the first on the module path.
        self._versioned: dict[tuple[str, str], Mapping[str, builtins.type[object]]] = {}
        #: The first word of the names of types → their source.
        self._families: dict[str, TypeFamily] = {}
        #: The warnings before ``send_warnings``.
        self._unsent_warnings: list[str] = []
        self._warn: Callable[[str], None] = self._unsent_warnings.append

    @classmethod
    def from_path(
        cls, *directories: str | os.PathLike[str], bundled: bool = True, trust: Iterable[str | os.PathLike[str]] = ()
    ) -> Self:
        """Return a registry of the types in ``directories``, and of the bundled ones unless ``bundled`` is false.

        Code that other users than root and the caller can change is refused (``UntrustedCode``), unless it is beneath a
        directory of ``trust``. Raise ``UsageError`` for a directory that does not exist.
        """
        for directory in directories:
            if not os.path.isdir(directory):
                raise UsageError(f"module path: there is no directory {os.fspath(directory)}")
        return cls(ModulePath.resolve(directories, bundled=bundled), trust)

    @cached_property
    def trust(self) -> code_trust.CodeTrust:
        """The check whether code may be executed; it looks at each directory once."""
        return code_trust.CodeTrust((*OWN, *self.trusted_directories), self._module_path.aliases)

    @property
    def user_directories(self) -> Sequence[str]:
        """The directories of the module path, without the bundled one and those of installed distributions."""
        return [directory for directory in self._module_path.directories if directory != BUNDLED]

    def add_manifest(self, manifest: str) -> None:
        """Look in the directory of a manifest too, after those that the user has named."""
        self._module_path.add_manifest(manifest)
        vars(self).pop("trust", None)  # it knows the links on the module path

    def register_type(self, definition: TypeDefinition) -> None:
        """Add a type of an embedding program. Raise ``DefinitionError`` when its name is taken, also by a file."""
        if not isinstance(definition, TypeDefinition):
            raise DefinitionError(f"expected a TypeDefinition, got {type(definition).__name__}")
        if definition.name in self._types:
            raise DefinitionError(f"type '{definition.name}' is registered already")
        if path := self._module_path.find("types", definition.name, installed=False):
            raise DefinitionError(f"type '{definition.name}' is registered already, by {path}")
        self._add_type(definition)

    def _add_type(self, definition: TypeDefinition) -> None:
        """Add a type whose name is free, and pass on the warnings of its declaration, such as of an unusual feature."""
        self._types[definition.name] = definition
        for warning in definition.warnings:
            self._warn(warning)

    def send_warnings(self, warn: Callable[[str], None]) -> None:
        """Pass warnings about definitions to ``warn`` from now on, first those that came before the log was open."""
        self._warn = warn
        for warning in self._unsent_warnings:
            warn(warning)
        self._unsent_warnings.clear()

    def register_provider(self, name: str, provider: builtins.type[object], implementation: str = "") -> None:
        """Add a provider class of the type ``name``; ``implementation`` is its own name if the type has several.

        Raise ``DefinitionError`` where it does not fit the type, or where another provider, also in a file, has its
        name.
        """
        key, registered = implementation or name, self._providers.get(name, {})
        path = self._module_path.providers(name, installed=False).get(key)
        if path or key in registered:
            msg = f"a provider of '{name}' is registered already" + (f" as '{key}'" if implementation else "")
            raise DefinitionError(msg + (f", by {path}" if path else ""))
        if not isinstance(provider, type):
            raise DefinitionError(f"the provider of '{name}' must be a class, not {type(provider).__name__}")
        check_interface(self.type(name), provider)
        self._providers[name] = by_preference({**registered, key: provider})

    def register_family(self, word: str, family: TypeFamily) -> None:
        """Use ``family``, such as a Terraform provider, for the types whose names begin with ``word``.

        A manifest registers its families each time it is compiled: an equal family stays in use, so its processes are
        not started again. A different one, such as an older version, is closed, and its types are removed, because the
        new ones may differ.
        """
        before = self._families.get(word)
        if before == family:
            return
        if before is not None:
            before.close()
        self._families[word] = family
        for name in [name for name in self._types if self._family(name) is family]:
            del self._types[name]
            self._providers.pop(name, None)

    def family(self, word: str) -> TypeFamily | None:
        """Return the source of types whose names begin with ``word``, or None."""
        return self._families.get(word)

    def family_definitions(self) -> list[TypeDefinition]:
        """Return the types of all families, for the list of all types; none is kept. Raise ``DefinitionError``."""
        return [family.definition(name) for family in self._families.values() for name in family.names()]

    def is_in_family(self, name: str) -> bool:
        """Return whether a type comes from a family, such as those of one Terraform provider, and from no file."""
        return bool(self._families) and self._family(name) is not None

    def close_families(self) -> None:
        """End the processes of all sources of types; a later call starts them again."""
        for family in self._families.values():
            family.close()

    def _family(self, name: str) -> TypeFamily | None:
        """Return the family of the type ``name``, ``aws`` of ``aws_instance``; None for a type in a file."""
        family = self._families.get(name.partition("_")[0])
        return None if family is None or self._module_path.find("types", name) else family

    def register_component(self, definition: ComponentDefinition, build: Callable[[object], object]) -> None:
        """Add a component and the function that builds it. Raise ``DefinitionError`` when its name is taken."""
        if not isinstance(definition, ComponentDefinition):
            raise DefinitionError(f"expected a ComponentDefinition, got {type(definition).__name__}")
        if self._components.get(definition.name) or definition.name in self._types:
            raise DefinitionError(f"a type or component '{definition.name}' is registered already")
        self._components[definition.name] = definition, build

    def register_policy(
        self,
        name: str,
        *,
        resource: Callable[[PolicyResource], object] | None = None,
        plan: Callable[[PolicyPlan], object] | None = None,
    ) -> None:
        """Add a policy that checks each resource, each plan, or both. Raise ``DefinitionError``."""
        self._policies.append(policy(name, name, {"resource": resource, "plan": plan}))

    def type(self, name: str, versions: str = "") -> TypeDefinition:
        """Return a type's definition: the first on the module path, or the newest in a range of ``versions``.

        Raise ``UnknownType`` when there is none, another ``DefinitionError`` when its file is broken.
        """
        if versions:
            return self._version(name, versions).definition
        if name not in self._types and (family := self._family(name)) is not None:
            self._add_type(family.definition(name))
        if name not in self._types:
            self._add_type(self._load("types", name, lambda: self._files.type(self._type_file(name))))
        return self._types[name]

    def provider(self, name: str, versions: str = "", implementation: str = "") -> builtins.type[object]:
        """Return the provider class named ``implementation`` of the type that ``type`` returns, or the preferred one.

        A name that no provider has gives the preferred one too: callers need a class for the type's pure functions, and
        report the name later. Raise ``DefinitionError`` as ``type`` does.
        """
        classes = self._provider_classes(name, versions)
        return classes.get(implementation) or next(iter(classes.values()))

    def implementations(self, name: str, versions: str = "", *, load: bool = True) -> Sequence[str]:
        """Return the names of a type's providers in the order in which they are preferred. Raise ``DefinitionError``.

        They are sorted by ``priority``, the module path, ``providers/TYPE.py`` before others, and name. ``load=False``
        is for isolated providers, whose code must not run in this process: their priorities are not known here.
        """
        if load or name in self._providers:
            return tuple(self._provider_classes(name, versions))
        directory = self._directory(name, versions)
        return tuple(self._module_path.providers(name, directory) if directory else self._provider_files(name))

    def needs_choice(self, name: str, versions: str = "") -> bool:
        """Return whether it depends on the machine or the manifest which provider of a type is used, if any."""
        classes = self._provider_classes(name, versions)
        return len(classes) > 1 or any(hasattr(kind, "suitable") for kind in classes.values())

    def component(self, name: str) -> Component | None:
        """Return a component, or None where no component has the name.

        Raise ``DefinitionError`` when its file is broken, or when a type has the name too. A missing one is remembered
        as None, as most names are those of types.
        """
        if name not in self._components:
            path = self._component_file(name)
            self._components[name] = (
                None if path is None else self._load("components", name, lambda: self._files.component(path))
            )
        return self._components[name]

    def attributes_of(self, name: str) -> AttributeSet | None:
        """Return the attributes of a type, or the inputs of a component; None for an unknown name or a broken file.

        An error message that quotes a line of a manifest hides the values of sensitive attributes by these. Installed
        distributions are not searched, as that takes long.
        """
        with suppress(DefinitionError):
            if name in self._types or self._module_path.find("types", name, installed=False):
                return self.type(name)
            if self._module_path.find("components", name, installed=False):
                component = self.component(name)
                return AttributeSet(component[0].attributes) if component is not None else None
        return None

    def policies(self) -> Sequence[Policy]:
        """Return the registered policies, and all on the module path. Raise ``DefinitionError`` for a broken file.

        Installed distributions bring no policies: they would hold for every run.
        """
        names = self._module_path.names("policies", installed=False)
        paths = [self._module_path.find("policies", name, installed=False) for name in names]
        return [*self._policies, *(self._files.policy(path) for path in paths if path is not None)]

    def origin(self, name: str) -> Origin:
        """Return the origin of the type or component with a name, such as its distribution, for lists and messages.

        A type that a program has registered comes from no file: its origin is empty.
        """
        kind = "components" if self.component(name) is not None else "types"
        path = self._module_path.find(kind, name) if (kind, name) in self._from_file else None
        return Origin() if path is None else self._module_path.origin(path)

    def builtins_of_manifest(self) -> dict[str, object]:
        """Return the built-in names for a Python manifest: with them it imports ``lib/`` of the module path."""
        return self._files.builtins_of_manifest(self._module_path.directories)

    def data_files(self, name: str) -> Sequence[str]:
        """Return the files of one name, no code, directly in the directories of the module path, in their order."""
        return self._module_path.data_files(name)

    def names(self) -> Sequence[str]:
        """Return the names of all types that can be found, sorted, also of those whose file is broken."""
        return sorted({*self._module_path.names("types"), *self._types})

    def component_names(self) -> Sequence[str]:
        """Return the names of all components that can be found, sorted."""
        registered = {name for name, component in self._components.items() if component}
        return sorted({*self._module_path.names("components"), *registered})

    def types_with_function(self, function: str) -> Sequence[str]:
        """Return the types that declare a function of this name, for a call without type; broken ones are left out."""
        types = []
        for name in self.names():
            with suppress(DefinitionError):
                if function in self.type(name).functions:
                    types.append(name)
        return types

    def module_path_of(self, name: str, versions: str = "") -> list[str]:
        """Return the module path for the worker of a type, in which the worker finds the type and its provider.

        Raise ``DefinitionError`` if a program has registered either: another process cannot load it.
        """
        if directory := self._directory(name, versions):
            return [directory]
        self.type(name)  # loads it, so that ``_from_file`` is true of it
        provided = name not in self._providers or ("providers", name) in self._from_file
        if ("types", name) not in self._from_file or not provided:
            msg = f"type '{name}' was registered by a program; only one that is in files can run in a worker"
            raise DefinitionError(msg)
        self._provider_files(name)  # raises where there is none
        return self._module_path.directories_of(name)

    def executable(self, name: str, versions: str, implementation: str) -> str:
        """Return the path of a provider that is an executable, by which its worker is started, or "" for one in Python.

        ``implementation``: one of several providers; "": the one with the name of its type. Raise ``DefinitionError``.
        """
        # A class that a program has registered has no file: ".py" treats it as Python.
        path = self._module_path.providers(name, self._directory(name, versions)).get(implementation or name, ".py")
        return "" if path.endswith(".py") else self._files.provider(path, self.type(name, versions)).executable

    def files_of(self, name: str) -> list[str] | None:
        """Return the files of a type and its providers, whose changes make a cached plan invalid.

        None for a component, and where one is missing: such a plan is not cached.
        """
        if self._module_path.find("components", name, installed=False):
            return None
        path, providers = self._module_path.find("types", name), self._module_path.providers(name)
        return [path, *providers.values()] if path is not None and providers else None

    def _read_code(self, path: str) -> tuple[bytes, os.stat_result]:
        """Return the bytes and status of a file of code; the check of trust is made for the first file."""
        return self.trust.read(path)

    def _component_file(self, name: str) -> str | None:
        """Return a component's file, or None. Raise ``DefinitionError`` if a type has the same name.

        A resource of that name could be either of them. Installed distributions take long to search, so they are
        searched only if the module path has neither a component nor a type with the name.
        """
        if not TYPE_NAME.match(name):
            return None
        path = self._module_path.find("components", name, installed=False)
        type_file = self._module_path.find("types", name, installed=False)
        if path is not None and (type_file is not None or name in self._types):
            raise DefinitionError(f"{path}: a component cannot be called like a type: {type_file or f'{name} is one'}")
        return path if path or type_file or name in self._types else self._module_path.find("components", name)

    def _provider_classes(self, name: str, versions: str) -> Mapping[str, builtins.type[object]]:
        """Return the provider classes of a type by name, in the order of preference, loaded once.

        ``versions`` selects the version of the type, whose providers are beside it. Raise ``DefinitionError``.
        """
        if directory := self._directory(name, versions):
            key = name, directory
            if key not in self._versioned:
                self._versioned[key] = self._classes_in(directory, self.type(name, versions))
            return self._versioned[key]
        if name not in self._providers and (family := self._family(name)) is not None:
            self._providers[name] = {name: family.provider(name)}
        if name not in self._providers:
            definition = self.type(name)
            self._providers[name] = self._load(
                "providers", name, lambda: self._classes(self._provider_files(name), definition)
            )
        return self._providers[name]

    def _classes(
        self, files: Mapping[str, str], definition: TypeDefinition, *, first: bool = True
    ) -> Mapping[str, builtins.type[object]]:
        """Return the provider classes in files by name, in order of preference.

        ``first``: the files belong to the first version of the type; the modules of others get a name of their own.
        """
        classes = {name: self._files.provider(path, definition, first=first) for name, path in files.items()}
        return by_preference(classes)

    def _classes_in(self, directory: str, definition: TypeDefinition) -> Mapping[str, builtins.type[object]]:
        """Return the provider classes in the ``directory`` of a type version that is not the first one.

        Providers of other directories belong to other versions. Raise ``DefinitionError`` if there is none.
        """
        if not (files := self._module_path.providers(definition.name, directory)):
            path = f"{directory}/providers/{definition.name}.py"
            msg = f"type '{definition.name}' {definition.version} has no provider beside it; expected {path}"
            raise DefinitionError(msg)
        return self._classes(files, definition, first=False)

    def _load(self, kind: str, name: str, load: Callable[[], object]) -> Any:
        """Return the result of ``load``, which reads files; note their kind and name in ``_from_file``.

        A file that failed fails again with the same error, unless it missed a module: a resource may have installed it.
        """
        error = self._broken.get((kind, name))
        if error is not None and not isinstance(error, MissingModule):
            raise error
        try:
            value = load()
        except DefinitionError as error:
            self._broken[kind, name] = error
            raise
        self._from_file.add((kind, name))
        return value

    def _type_file(self, name: str) -> str:
        """Return the path of the first file of a type. Raise ``UnknownType``."""
        path = self._module_path.find("types", name) if TYPE_NAME.match(name) else None
        if path is None:
            raise self._unknown_type(name)
        return path

    def _provider_files(self, name: str) -> Mapping[str, str]:
        """Return the files of a type's providers by name. Raise ``DefinitionError`` for none and for a bad name.

        Manifests write the name under ``implementation``, so it follows the rules for names of types.
        """
        if not (files := self._module_path.providers(name)):
            raise DefinitionError(f"type '{name}' has no provider; expected providers/{name}.py on the module path")
        for stem, path in files.items():
            if not TYPE_NAME.match(stem):
                msg = f"{path}: '{stem}' cannot name a provider; use lower-case letters, digits and '_'"
                raise DefinitionError(msg)
        return files

    def _directory(self, name: str, versions: str) -> str | None:
        """Return the directory with a type of such a version, or None for the first on the module path."""
        return self._version(name, versions).directory if versions else None

    def _version(self, name: str, versions: str) -> _TypeVersion:
        """Return the newest version of a type in the range ``versions``, computed once. Raise ``DefinitionError``.

        Every directory of the module path may have a version of the type. The first is loaded as ``type`` does, the
        others under module names of their own.
        """
        if (name, versions) not in self._versions:
            paths = self._module_path.find_all("types", name) if TYPE_NAME.match(name) else []
            if not paths and name not in self._types:
                raise self._unknown_type(name)
            first = self.type(name)
            # A type that a program has registered is the first, before all files.
            later = paths[1:] if ("types", name) in self._from_file else paths
            candidates = [_TypeVersion(self._files.type(path, first=False), path.rsplit("/", 2)[0]) for path in later]
            self._versions[name, versions] = _newest([_TypeVersion(first), *candidates], versions)
        return self._versions[name, versions]

    def _unknown_type(self, name: str) -> UnknownType:
        """Return the error for a type without a file, with a hint: a file under another name, or a similar type."""
        hint = self._hint_at_type(name)
        return UnknownType(f"unknown type '{capitalize_type(name)}'" + (f"; {hint}" if hint else ""))

    def _hint_at_type(self, name: str) -> str:
        """Return a hint at the probable mistake behind an unknown type, or ""; the surest mistakes are tried first."""
        file, right = self._module_path.unread(name)
        if file:
            remedy = "rename it to" if file.endswith(".py") else "it must be a Python file,"
            return f"{file} is not read; {remedy} {right}"
        if "[" in name:
            type_name, _, title = name.partition("[")
            return f"type and title are two words, as in 'resource {type_name} {title.removesuffix(']')}'"
        components = self.component_names()
        if name in components:
            return "it is a component: name the types of its resources"
        hint = suggestion(name, [*self.names(), *components], "type")
        word, underscore, _ = name.partition("_")
        if underscore and not hint:
            entry = f"{word}: {{source: NAMESPACE/{word}}}"
            return f"a type of a Terraform provider is known by its entry under providers, as in {entry}"
        return hint


def _newest(candidates: Sequence[_TypeVersion], versions: str) -> _TypeVersion:
    """Return the newest of ``candidates`` that fits ``versions``, a range of PEP 440. Raise ``DefinitionError``.

    Of two types with the same version it is the first on the module path (Pulumi's provider guide, "Lookup").
    """
    from packaging import specifiers, version  # only for ranges of versions

    name = candidates[0].definition.name
    try:
        accepted = specifiers.SpecifierSet(versions)
    except specifiers.InvalidSpecifier as error:
        msg = f"'{versions}' is not a range of versions; write '>=1.2', '~=1.4' or '==2.0.1'"
        raise DefinitionError(msg) from error
    declared = [
        (version.Version(candidate.definition.version), candidate)
        for candidate in candidates
        if candidate.definition.version is not None
    ]
    fitting = [(number, candidate) for number, candidate in declared if accepted.contains(number)]
    if not fitting:
        available = ", ".join(str(number) for number, _ in declared) or "none that declares its version"
        raise DefinitionError(f"no version of type '{name}' fits '{versions}'; on the module path: {available}")
    _, newest = max(fitting, key=itemgetter(0))
    return newest
