"""Select and configure the provider that reads or changes resources without a manifest.

It comes from a manifest's ``providers:``, from ``providers.yaml`` on the module path, or from a direct configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from resource_api.catalog import canonicalize, provider_config
from resource_api.catalog.provider_config import invoke
from resource_api.manifest import read as reading
from resource_api.manifest.input_values import input_values
from resource_api.model.record import StackState
from resource_api.model.values import expression
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ManifestError, Problem, ProviderError, UsageError, hint, suggestion
from resource_api.model.values.reference import Reference, split_instance
from resource_api.model.values.start_up import NamedTuple
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.prior.provider_instances import ConfigurationError, ProviderInstances, deferred_configuration
from resource_api.runtime.manifest_compiler import PROVIDERS, ManifestCompiler, Source
from resource_api.system.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest, ProviderInstance
    from resource_api.model.type_definition import FunctionCall, TypeDefinition
    from resource_api.model.values.values import Values
    from resource_api.plugins.registry import Registry
    from resource_api.provider.context import RunContext


class SelectedProvider(NamedTuple):
    """A configured provider; every value of its ``config`` is known and checked."""

    instance: str
    config: Values
    version: str = ""
    implementation: str = ""
    #: Attribute of which declared members are compared → the members that the manifest's resources declare.
    declared: Mapping[str, Collection[str]] = {}

    @property
    def name(self) -> str:
        """The name of its entry; that of its type for the default provider."""
        type_name, provider = split_instance(self.instance)
        return provider or type_name

    @property
    def section(self) -> dict[str, Any]:
        """The section ``providers`` of the manifest in which a command declares its resource; ``${`` is not escaped."""
        body = {"type": split_instance(self.instance)[0], "version": self.version or None, "config": dict(self.config)}
        return {self.name: {**body, "implementation": self.implementation or None}}


class ProviderSelector:
    """Finds and configures providers with the types of a registry."""

    def __init__(self, registry: Registry, run: RunContext) -> None:
        """Use the types of ``registry``, and the log and the isolation of providers of ``run``."""
        self._registry = registry
        self._run = run
        self._compiler = ManifestCompiler(registry, Facts(), run.log)

    def select(
        self,
        type_name: str,
        provider: str | None,
        manifest: Source | None,
        inputs: Mapping[str, object],
        config: Mapping[str, object] | None,
    ) -> SelectedProvider:
        """Return the configured provider of a type, for a command that reads or changes resources without a manifest.

        With ``provider`` it is this entry of ``manifest`` or of ``providers.yaml``; with ``manifest`` alone the default
        provider there; otherwise one with the configuration ``config``. Raise ``UsageError`` for an unknown provider
        and an invalid ``config``, ``ManifestError`` for an invalid declaration, ``ProviderError`` if a function or
        ``check_config`` fails.
        """
        if config is not None and (provider is not None or manifest is not None):
            raise UsageError("a provider has its configuration where it is declared: give its name, or a configuration")
        if inputs and manifest is None and provider is None:
            raise UsageError("inputs are those of a manifest, or of providers.yaml: name a provider")
        with ProviderPool(self._registry, self._run) as providers:
            if manifest is not None:
                return self._from_manifest(type_name, provider, manifest, inputs, providers)
            if provider is None:
                return self._from_config(type_name, config, providers)
            if (declared := self._find(provider)) is None:
                raise UsageError(self._unknown_message(provider))
            return self._from_manifest(type_name, provider, declared, inputs, providers)

    def _from_config(
        self, type_name: str, config: Mapping[str, object] | None, providers: ProviderPool
    ) -> SelectedProvider:
        """Return a type's provider with ``config``, the configuration on the command line. Raise ``UsageError``.

        If it is None, return the provider with the type's own name in ``providers.yaml``; if there is none, a provider
        with the default values of its configuration.
        """
        if config is None and (declared := self._find(type_name)) is not None:
            return self._from_manifest(type_name, type_name, declared, {}, providers)
        functions = providers.functions(type_name)
        attributes, values = functions.definition.config, config or {}
        if unknown := [key for key in values if key not in attributes.attributes]:
            error = f"unknown configuration '{unknown[0]}'{hint(unknown[0], attributes.attributes)}"
            msg = f"{type_name}: {error if attributes.attributes else 'its provider takes no configuration'}"
            raise UsageError(msg)
        if problems := canonicalize.check_values(attributes, canonicalize.fill_defaults(attributes, dict(values))):
            raise UsageError(f"{type_name}: {'; '.join(problem.message for problem in problems)}")
        return SelectedProvider(type_name, provider_config.default_config(functions, values))

    def _from_manifest(
        self, type_name: str, provider: str | None, source: Source, inputs: Mapping[str, object], pool: ProviderPool
    ) -> SelectedProvider:
        """Return the provider that a manifest configures, for a command about resources outside of the manifest.

        Only the parts of the manifest on which the configuration depends are compiled, so that errors and missing
        inputs elsewhere do not prevent the command. Raise ``UsageError`` or ``ManifestError``.
        """
        manifest = self._compiler.read(source, inputs, pool)
        input_values(manifest, inputs)  # raises UsageError for a secret from the command line, needed or not
        if provider is None:
            provider = _default_provider(type_name, manifest)
        with errors_as(UsageError):
            instance = provider_config.select_instance(provider, type_name, manifest)
        needed = provider_config.reduce_to_provider(manifest, provider, self._registry.types_with_function)
        if problems := list(_resource_value_problems(needed)):
            raise ManifestError(problems)
        # Inputs that the manifest does not declare stay, and are reported as errors.
        unneeded = manifest.inputs.keys() - needed.inputs.keys()
        needed_inputs = {name: value for name, value in inputs.items() if name not in unneeded}
        needed = needed._replace(selected=instance)  # configured although no resource uses it
        catalog = self._compiler.compile(needed, needed_inputs, pool, from_file=not isinstance(source, Mapping))
        for warning in catalog.warnings:
            self._run.log.write("warning", "", f"{warning.file}: {warning.message}")
        if instance not in catalog.instances:  # without a configuration
            return SelectedProvider(instance, {})
        selected = catalog.instances[instance]
        config = _Configurations(catalog, pool).config(selected)
        declared = _declared_members(manifest, self._registry.type(type_name, selected.version), provider)
        return SelectedProvider(instance, config, selected.version, selected.implementation, declared)

    def _find(self, provider: str) -> Manifest | None:
        """Return the first ``providers.yaml`` on the module path that has a provider of that name, or None."""
        return next((manifest for manifest in self._declared() if provider in manifest.providers), None)

    def _declared(self) -> Iterator[Manifest]:
        """Return the manifests in ``providers.yaml`` of the module path's directories, each read when it is needed."""
        return map(reading.read_providers, self._registry.data_files(PROVIDERS))

    def _unknown_message(self, provider: str) -> str:
        """Return the message for a provider that no ``providers.yaml`` declares, with the nearest declared name."""
        near = suggestion(provider, [name for manifest in self._declared() for name in manifest.providers])
        advice = "declare it in providers.yaml in a directory of the module path, or name the manifest that declares it"
        return f"unknown provider '{provider}'; {advice}" + (f"; {near}" if near else "")


class _Configurations:
    """Evaluates the configurations of a catalog's providers on demand: a function may need another one."""

    def __init__(self, catalog: Catalog, providers: ProviderPool) -> None:
        """Evaluate configurations of ``catalog`` at the calls of ``config``, with functions of ``providers``."""
        self._catalog = catalog
        self._providers = providers
        #: The instances that are being configured: a call of a function of one of them would never end.
        self._begun: set[str] = set()
        # ``_resource_value_problems`` has refused paths to values of resources, so none needs a value here.
        self._resolve = catalog.scope.resolver(lambda path: path, self._call)

    def config(self, instance: ProviderInstance) -> Values:
        """Return the configuration of an instance, in which calls of functions are replaced by their results.

        Raise ``ProviderError`` with the position of the configuration.
        """
        if not instance.pending:
            return instance.config
        functions = self._providers.functions(instance.name)
        # An empty state: no recorded configuration is compared, as no resource of a stack is changed.
        with errors_as(ProviderError, ConfigurationError, f"{instance.position}: "):
            return deferred_configuration(instance, self._resolve, functions, ProviderInstances(StackState("", "")))

    def _call(self, call: FunctionCall, inputs: Mapping[str, object]) -> Any:
        """Return the result of a function for a configuration, after its own provider is configured.

        That configuration may need functions of other providers. Raise ``ValueError`` if a provider needs its own
        function, directly or through others, as its configuration would never end.
        """
        if call.instance in self._begun:
            raise ValueError(f"the provider '{call.instance}' needs the result of its own function to be configured")
        if (instance := self._catalog.instances.get(call.instance)) is not None:
            self._begun.add(call.instance)
            self._providers.configure(call.instance, self.config(instance))
            self._begun.discard(call.instance)
        return invoke(call, inputs, self._providers.call_function)


def _default_provider(type_name: str, manifest: Manifest) -> str:
    """Return the name of the provider that resources of a type have by default in a manifest: that of the type.

    Raise ``UsageError`` if the manifest does not declare it, so that the user must name a provider.
    """
    if type_name in manifest.providers:
        return type_name
    names = [name for name, declared in manifest.providers.items() if declared.type == type_name]
    declares = f"; it declares {', '.join(names)}" if names else ""
    raise UsageError(f"name the provider of the manifest: --provider NAME{declares}")


def _declared_members(manifest: Manifest, definition: TypeDefinition, provider: str) -> dict[str, set[str]]:
    """Return attribute → the members that a provider's resources declare in a manifest, for ``merged`` attributes.

    The command ``resource``, which prints read resources as a manifest, omits all other members of such an attribute:
    the system has added them. The manifest is not compiled yet, so the defaults of its files are added here.
    """
    declared: dict[str, set[str]] = {}
    for resource in manifest.resources if definition.merged else ():
        if resource.type != definition.name or (resource.meta.get("provider") or resource.type) != provider:
            continue
        values = {**manifest.defaults.get(resource.file, {}).get(resource.type, {}), **resource.attributes}
        for name in definition.merged:
            if isinstance(members := values.get(name), Mapping):
                declared.setdefault(name, set()).update(members)
    return declared


def _resource_value_problems(manifest: Manifest) -> Iterator[Problem]:
    """Yield a problem for each configuration or value that refers to a resource.

    A command that needs only the provider reads no resources, so such a configuration cannot be known.
    """
    for declared in manifest.providers.values():
        for key, value in declared.config.items():
            for message in _resource_path_errors(value):
                position, text = declared.origin.place("config", key), f"provider '{declared.name}': {key}: {message}"
                yield Problem(None, text, "error", "", *position, code="provider")
    for name, value in manifest.values.items():
        for message in _resource_path_errors(value):
            yield Problem(None, f"value '{name}': {message}", "error", "", *manifest.place(("values", name)))


def _resource_path_errors(value: object) -> list[str]:
    """Return an error message for each reference to a resource in a configured value.

    The value of a resource is known only during an apply, and these commands apply no manifest.
    """
    try:
        paths = [path for path in expression.find_paths(value) if isinstance(path.root, Reference)]
    except ValueError:
        return []  # reported by the compiler
    reason = "which is known only while the manifest is applied; give the configuration itself"
    return [f"{path} is a value of a resource, {reason}" for path in paths]
