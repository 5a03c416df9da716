"""The types of one run and who provides them, and the components that are made of them.

A registry is filled by hand (for embedding) or from files on a module path, each loaded when it is first asked for.
Features declared by a type are checked against its provider's methods here. Providers are not made here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from resource_api.model.component import ComponentDefinition
from resource_api.model.type_definition import TypeDefinition
from resource_api.model.values.errors import DefinitionError, nearest
from resource_api.model.values.reference import TYPE_NAME, capitalize_type
from resource_api.plugins import loader, policies
from resource_api.plugins.module_path import BUNDLED, ModulePath
from resource_api.plugins.versions import Edition, newest, provider_in, the_provider, the_type
from resource_api.provider.base import broken_promises

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence

    from resource_api.model.policy import Policy, PolicyPlan, PolicyResource

    #: A component, and the function that builds one use of it.
    Component = tuple[ComponentDefinition, Callable[[Any], object]]


class Registry:
    """Types and providers by name; a second one of the same name is refused."""

    def __init__(self, finder: ModulePath | None = None) -> None:
        """Begin empty, or with the files that ``finder`` finds."""
        self._finder = finder
        self._types: dict[str, TypeDefinition] = {}
        self._providers: dict[str, builtins.type[Any]] = {}
        self._components: dict[str, Component | None] = {}
        self._policies: list[Policy] = []
        self._broken: dict[tuple[str, str], DefinitionError] = {}
        #: What has come from a file, by kind and name.
        self._loaded: set[tuple[str, str]] = set()
        self._editions: dict[tuple[str, str], Edition] = {}
        self.warn: Callable[[str], None] = lambda _message: None

    @classmethod
    def from_path(cls, *directories: str | os.PathLike[str], bundled: bool = True) -> Self:
        """Give a registry of the types in ``directories`` (with ``types/`` and ``providers/``) and the bundled ones."""
        places = [os.path.realpath(directory) for directory in directories]
        return cls(ModulePath([*places, BUNDLED] if bundled else places))

    def register_type(self, definition: TypeDefinition) -> None:
        """Add a type. Raises ``DefinitionError`` when its name is taken."""
        if not isinstance(definition, TypeDefinition):
            msg = f"expected a TypeDefinition, got {type(definition).__name__}"
            raise DefinitionError(msg)
        if definition.name in self._types:
            msg = f"type '{definition.name}' is registered already"
            raise DefinitionError(msg)
        self._types[definition.name] = definition
        for warning in definition.warnings:
            self.warn(warning)

    def register_provider(self, name: str, provider: builtins.type[Any]) -> None:
        """Add the provider class of the type ``name``. Raises ``DefinitionError`` for broken promises."""
        if name in self._providers:
            msg = f"a provider of '{name}' is registered already"
            raise DefinitionError(msg)
        if not isinstance(provider, type):
            msg = f"the provider of '{name}' must be a class, not {type(provider).__name__}"
            raise DefinitionError(msg)
        if problems := broken_promises(self.type(name), provider):
            raise DefinitionError("\n".join(problems))
        self._providers[name] = provider

    def type(self, name: str, versions: str = "") -> TypeDefinition:
        """Give a type's definition: the first on the module path, or the newest that fits a range of ``versions``.

        Raises ``DefinitionError`` when there is none or its file is broken.
        """
        if versions:
            return self._edition(name, versions).definition
        if name not in self._types:
            self.register_type(self._load("types", name, "TYPE"))
        return self._types[name]

    def provider(self, name: str, versions: str = "") -> builtins.type[Any]:
        """Give the provider class of what ``type`` gives; raises ``DefinitionError`` likewise."""
        edition = self._edition(name, versions) if versions else None
        if edition is not None and edition.place is not None:
            return provider_in(edition.place, edition.definition)
        if name not in self._providers:
            self.register_provider(name, self._load("providers", name, "Provider"))
        return self._providers[name]

    def register_component(self, definition: ComponentDefinition, build: Callable[[Any], object]) -> None:
        """Add a component and the function that builds it. Raises ``DefinitionError`` when its name is taken."""
        if not isinstance(definition, ComponentDefinition):
            msg = f"expected a ComponentDefinition, got {type(definition).__name__}"
            raise DefinitionError(msg)
        if self._components.get(definition.name) or definition.name in self._types:
            msg = f"a type or component '{definition.name}' is registered already"
            raise DefinitionError(msg)
        self._components[definition.name] = definition, build

    def component(self, name: str) -> Component | None:
        """Give a component; None where the name is that of a type, or of nothing.

        Raises ``DefinitionError`` when its file is broken, or when a type has the name too.
        """
        if name not in self._components:
            path = self._component_file(self._finder, name) if self._finder and TYPE_NAME.match(name) else None
            self._components[name] = None if path is None else self._load("components", name, "COMPONENT")
        return self._components[name]

    def component_names(self) -> Sequence[str]:
        """Give the names of all components that can be found, sorted."""
        found = set(self._finder.names("components")) if self._finder else set()
        return sorted(found | {name for name, component in self._components.items() if component})

    def _component_file(self, finder: ModulePath, name: str) -> str | None:
        """Find a component's file; distributions are asked only for what nothing else on the module path is called."""
        path = finder.find("components", name, installed=False)
        other = finder.find("types", name, installed=False)
        if path is not None and (other is not None or name in self._types):
            msg = f"{path}: a component cannot be called like a type: {other or f'{name} is one'}"
            raise DefinitionError(msg)
        return path if path or other or name in self._types else finder.find("components", name)

    def places(self, name: str, versions: str = "") -> list[str]:
        """Give the part of the module path on which another process finds a type and its provider as they are here.

        Raises ``DefinitionError`` when they are in no files.
        """
        edition = self._edition(name, versions) if versions else None
        if edition is not None and edition.place is not None:
            return [edition.place]
        self.type(name)
        provided = name not in self._providers or ("providers", name) in self._loaded
        if self._finder is None or ("types", name) not in self._loaded or not provided:
            msg = f"type '{name}' was registered by a program; only one that is in files can run in a worker"
            raise DefinitionError(msg)
        if self._finder.find("providers", name) is None:
            raise DefinitionError(self._unknown("providers", name))
        return self._finder.places(name)

    def sources(self, name: str) -> list[str] | None:
        """Give where a type and its provider are found now; None where they are not, or a component has the name."""
        if self._finder is None or self._finder.find("components", name, installed=False):
            return None
        found = [self._finder.find(kind, name) for kind in ("types", "providers")]
        return None if None in found else list(map(str, found))

    def register_policy(
        self,
        name: str,
        *,
        resource: Callable[[PolicyResource], Any] | None = None,
        plan: Callable[[PolicyPlan], Any] | None = None,
    ) -> None:
        """Add a policy that judges each resource, each plan, or both. Raises ``DefinitionError``."""
        self._policies.append(policies.made(name, name, {"resource": resource, "plan": plan}))

    def policies(self) -> Sequence[Policy]:
        """Give what is registered, and all that is on the module path. Raises ``DefinitionError`` for a broken file."""
        return [*self._policies, *(policies.load(self._finder) if self._finder else ())]

    def owners(self, function: str) -> Sequence[str]:
        """Give the types that have a function of a name; a file that is broken has none."""
        found = []
        for name in self.names():
            with suppress(DefinitionError):
                found += [name] if function in self.type(name).functions else []
        return found

    def names(self) -> Sequence[str]:
        """Give the names of all types that can be found, sorted; a name says nothing about whether its file works."""
        found = set(self._finder.names("types")) if self._finder else set()
        return sorted(found | set(self._types))

    def _load(self, kind: str, name: str, constant: str) -> Any:
        """Load the constant of a file, once: what failed fails again with the same words."""
        if error := self._broken.get((kind, name)):
            raise error
        try:
            return self._execute(kind, name, constant)
        except DefinitionError as error:
            self._broken[kind, name] = error
            raise

    def _execute(self, kind: str, name: str, constant: str) -> Any:
        path = self._finder.find(kind, name) if self._finder and TYPE_NAME.match(name) else None
        if path is None:
            raise DefinitionError(self._unknown(kind, name))
        module = loader.execute(path, f"resource_api.{kind}.{name}")
        if kind == "components":
            return _component(path, name, getattr(module, constant, None), getattr(module, "build", None))
        value = the_type(path, module) if kind == "types" else the_provider(path, module, self.type(name))
        self._loaded.add((kind, name))
        return value

    def _edition(self, name: str, versions: str) -> Edition:
        """Give the newest of everything called ``name`` that fits ``versions``; one that was found stays found."""
        if (name, versions) not in self._editions:
            paths = self._finder.every("types", name) if self._finder and TYPE_NAME.match(name) else []
            if not paths and name not in self._types:
                raise DefinitionError(self._unknown("types", name))
            first = self.type(name)
            others = paths[1:] if ("types", name) in self._loaded else paths
            self._editions[name, versions] = newest([Edition(first), *map(Edition.load, others)], versions)
        return self._editions[name, versions]

    def _unknown(self, kind: str, name: str) -> str:
        if kind == "providers":
            return f"type '{name}' has no provider; expected providers/{name}.py on the module path"
        hint = nearest(name, [*self.names(), *self.component_names()])
        return f"unknown type '{capitalize_type(name)}'" + (f"; {hint}" if hint else "")


def _component(path: str, name: str, value: Any, build: Any) -> Component:
    """Check what a component's file defines."""
    if not isinstance(value, ComponentDefinition):
        msg = f"{path}: COMPONENT must be a ComponentDefinition, not {type(value).__name__}"
        raise DefinitionError(msg)
    if value.name != name:
        msg = f"{path}: COMPONENT is named '{value.name}' but its file is named '{name}'"
        raise DefinitionError(msg)
    if not callable(build):
        msg = f"{path}: defines no function build(m)"
        raise DefinitionError(msg)
    return value, build
