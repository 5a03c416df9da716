"""One declared Terraform provider: its program, its schema, its types, and its processes by configuration."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import DefinitionError, ProviderError, UnknownType, hint
from resource_api.system.filesystem.in_place import file_version
from resource_api.terraform import cty
from resource_api.terraform.plugin_process import HandshakeError, PluginError, PluginProcess, start
from resource_api.terraform.programs import find_all
from resource_api.terraform.provider import Configurable, Functions, Resources, error_texts
from resource_api.terraform.schema import (
    ephemeral_function,
    fields_of_block,
    fields_of_resource,
    function_type,
    object_type,
    resource_type,
    schema_document,
)
from resource_api.terraform.type_names import TypeNames, TypeNamesFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.model.declaration import Manifest
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plugins.registry import Registry
    from resource_api.provider.base import BaseProvider
    from resource_api.system.log import Log
    from resource_api.terraform.messages import Message
    from resource_api.terraform.schema import SchemaField


#: The parts of a schema that are called as functions.
_CALLED: Final = ("data_source_schemas", "functions", "ephemeral_resource_schemas")


class Family:
    """The types of one program, which share configurations. Each configuration has a process of its own."""

    def __init__(
        self,
        name: str,
        path: str,
        log: Callable[[str, str], None],
        address: str = "",
        names_file: TypeNamesFile | None = None,
        *,
        position: tuple[str, int, int] = ("", 0, 0),
    ) -> None:
        """Use the program at ``path``, which is trusted, for types that begin with ``name``; start nothing yet.

        ``address`` and ``position``: the provider's in a manifest. Without a declared address one is guessed, because a
        program that converts the state of another type is told the address of the state's provider. ``names_file``:
        its types' names for completion; ``log`` is called with the level and the text of each line.
        """
        self.name = name
        whole = address or f"hashicorp/{name}"
        self.address = whole if whole.count("/") > 1 else f"registry.terraform.io/{whole}"
        self.path = path
        #: Equal for families of the same program whose file is unchanged.
        self._identity = (name, path, *file_version(os.stat(path)))
        self._log = log
        self._names_file = names_file
        self._position = position
        #: Digest of a configuration → its process; None: the one that only answers questions about types.
        self._running: dict[str | None, PluginProcess] = {}
        #: Digest of a configuration → the process to which it was sent, which may have ended since.
        self._configured: dict[str, PluginProcess] = {}
        #: For the processes; and for configuring one, which may wait for a service, while another thread ends that.
        self._lock, self._configuring = threading.RLock(), threading.RLock()

    def __eq__(self, other: object) -> bool:
        """Return whether another family is of the same program file: then the registry keeps the former."""
        return isinstance(other, Family) and self._identity == other._identity

    def __hash__(self) -> int:
        """Return a hash that fits the equality."""
        return hash(self._identity)

    @cached_property
    def schema(self) -> Message:
        """The schemas of the program, requested once. Raise ``DefinitionError`` for a failed request.

        A program without a handshake is no mistake of the manifest (contract §10.14): raise ``ProviderError``. Write
        the names of the types to their file, for completion.
        """
        try:
            answer = self.process().call("schema")
        except PluginError as error:
            kind = ProviderError if isinstance(error, HandshakeError) else DefinitionError
            failure = kind(f"the Terraform provider {self.name} ({self.path}): {error}")
            if isinstance(failure, ProviderError):
                failure.position = self._position
            raise failure from error
        if errors := error_texts(answer):
            raise DefinitionError(f"the Terraform provider {self.name} ({self.path}): {'; '.join(errors)}")
        if self._names_file is not None:
            try:
                self._names_file.write(_type_names(self.name, answer))
            except OSError as error:
                self._log("debug", f"the names of its types are not kept for completion: {error}")
        return answer

    @cached_property
    def config_fields(self) -> Mapping[str, SchemaField]:
        """The fields of the provider's configuration."""
        return fields_of_block(self.schema.get("provider", {}).get("block", {}))

    @cached_property
    def identities(self) -> Mapping[str, Message]:
        """The schemas of identities (attributes for imports) by resource type; empty for a program without them."""
        try:
            schemas: Mapping[str, Message] = self.process().call("identities")["identity_schemas"]
        except PluginError:
            return {}
        return schemas

    @cached_property
    def plans_destruction(self) -> bool:
        """Whether the provider is to plan deletions too."""
        return bool(self.schema.get("server_capabilities", {}).get("plan_destroy"))

    def definition(self, name: str) -> TypeDefinition:
        """Return the type of a resource, or of the provider's functions and data sources. Raise ``DefinitionError``."""
        with self._schema_errors(name):
            if name == self.name and any(map(self.schema.get, _CALLED)):
                return function_type(name, self.schema, self.config_fields)
            return resource_type(name, self.resource_schema(name), self.config_fields)

    def document(self, title: str) -> dict[str, object]:
        """Return the schemas as a document under a title. Raise ``DefinitionError``."""
        with self._schema_errors(self.name):
            return schema_document(title, self.schema)

    @contextmanager
    def _schema_errors(self, name: str) -> Iterator[None]:
        """Raise ``DefinitionError`` for a damaged schema of ``name``, whose parts are decoded at their first use."""
        try:
            yield
        except (ValueError, LookupError, RecursionError) as error:
            msg = f"the Terraform provider {self.name} ({self.path}) has a damaged schema of {name}: {error!r}"
            raise DefinitionError(msg) from error

    def resource_schema(self, name: str) -> Message:
        """Return the schema of a resource. Raise ``UnknownType`` with the nearest name."""
        declared: Message | None = self.schema["resource_schemas"].get(name)
        if declared is None:
            near = hint(name, self.schema["resource_schemas"])
            raise UnknownType(f"the Terraform provider {self.name} ({self.path}) has no resource '{name}'{near}")
        return declared

    def resource_fields(self, name: str) -> dict[str, SchemaField]:
        """Return the fields of a resource. Raise ``DefinitionError``, ``UnknownType``."""
        with self._schema_errors(name):
            return fields_of_resource(self.resource_schema(name)["block"])

    def names(self) -> list[str]:
        """Return the names of all types, with the one of data sources and functions. Raise ``DefinitionError``."""
        return list(_type_names(self.name, self.schema).types)

    def upgraded(self, name: str, version: int, attributes: Mapping[str, object]) -> dict[str, Any]:
        """Return a resource's values in a state file, converted by the program from schema ``version`` to its own.

        The import of a state file writes declarations from them, and the file may be of an older program. Raise
        ``DefinitionError``.
        """
        kind = object_type(self.resource_fields(name))
        raw = {"json": json.dumps(attributes).encode()}
        try:
            answer = self.process().call("upgrade", type_name=name, version=version, raw_state=raw)
            if errors := error_texts(answer):
                raise DefinitionError("; ".join(errors))
            values: dict[str, object] = cty.from_dynamic(kind, answer.get("upgraded_state")) or {}
        except (PluginError, ValueError) as error:
            raise DefinitionError(str(error)) from error
        return values

    def provider(self, name: str) -> type[BaseProvider]:
        """Return a new provider class for a type: for a resource, or with one method for each function.

        The functions, data sources and ephemeral resources are those of the type that is named like the provider.
        """
        configurable = (Configurable,) if self.config_fields else ()
        if name != self.name:
            return type("Provider", (*configurable, Resources), {"family": self, "type_name": name})
        sources, called, ephemeral = map(self.schema.__getitem__, _CALLED)
        methods: dict[str, object] = {source: _method(Functions.read_data_source, source) for source in sources}
        methods |= {function: _method(Functions.call_function, function) for function in called}
        methods |= {ephemeral_function(kind): _method(Functions.open_ephemeral, kind) for kind in ephemeral}
        return type("Provider", (*configurable, Functions), {"family": self, **methods})

    def process(self, key: str | None = None) -> PluginProcess:
        """Return the process of a configuration, started if missing. Raise ``PluginError``.

        ``key``: the digest of the configuration, as a program can be configured only once; None, for calls about types:
        any running process.
        """
        with self._lock:
            if key is None and self._running:
                return next(iter(self._running.values()))
            if key not in self._running:
                # One that has answered questions about types so far takes the configuration.
                answering = self._running.pop(None, None)
                self._running[key] = answering or start([self.path], self._log)
            return self._running[key]

    def configure(self, key: str, call: Callable[[], object]) -> None:
        """Call ``call``, which configures the process of a configuration, unless that was done since its start.

        All providers of the configuration share the process, and the protocol configures it once. A process that has
        ended is started again by ``process``, and must be configured anew.
        """
        with self._configuring:
            process = self.process(key)
            if self._configured.get(key) is not process:
                call()
                self._configured[key] = process

    def close(self) -> None:
        """End all processes; a later call starts a new one, which is configured again."""
        with self._lock:
            while self._running:
                self._running.popitem()[1].close()


def _method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a provider's method for one data source, ephemeral resource or function, which takes its inputs by name.

    No partial object: the runtime reads the arguments from the code of a function.
    """
    return lambda self, context, **inputs: method(self, context, name, inputs)


def _type_names(name: str, schema: Message) -> TypeNames:
    """Return the names of the types and functions in a program's schema, for completion.

    The type ``name``, called like the provider, has its data sources and functions.
    """
    sources, called, ephemeral = map(schema.__getitem__, _CALLED)
    functions = sorted([*sources, *called, *map(ephemeral_function, ephemeral)])
    return TypeNames(sorted([*([name] if functions else []), *schema["resource_schemas"]]), functions)


def register_families(registry: Registry, manifest: Manifest, log: Log) -> None:
    """Add the types of the Terraform providers that a manifest declares to ``registry``.

    Raise ``ManifestError`` for a program that is missing or that others can change; none is started yet.
    """
    for program in find_all(manifest, registry.trust.open, os.environ):
        declared = manifest.providers[program.name]
        names_file = TypeNamesFile(manifest.file, program.name, (declared.source, declared.path, declared.version))
        log_line = partial(_log_line, log, program.name)
        position = declared.origin.place("source" if declared.source else "path")
        address = str(program.address or "")
        family = Family(program.name, program.path, log_line, address, names_file, position=position)
        registry.register_family(program.name, family)


def _log_line(log: Log, name: str, level: str, text: str) -> None:
    """Log a line of a program: its warnings and errors as such, all else for debugging."""
    log.write("debug" if level == "info" else level, name, text)
