"""From a manifest's source to its catalog, with the types of a registry. Nothing is planned, no system is touched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog import for_each, provider_config
from resource_api.catalog.compile import Catalog, compile_catalog
from resource_api.catalog.diagnostics import Diagnostics
from resource_api.catalog.expression_scope import Scope
from resource_api.catalog.resource_table import Definitions
from resource_api.manifest import conditions, python_manifest
from resource_api.manifest import read as reading
from resource_api.manifest.input_values import input_values
from resource_api.model.declaration import ConfiguredProvider, Manifest
from resource_api.model.values.document import MAX_BYTES, Document
from resource_api.model.values.errors import ManifestError, Problem, UsageError
from resource_api.model.values.masking import Mask
from resource_api.model.values.text import shell_word
from resource_api.model.values.values import is_secret
from resource_api.system.filesystem import asset_contents
from resource_api.system.filesystem.directories import everybody_can_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import LoadedComponent
    from resource_api.model.values.assets import Content, ContentSpec
    from resource_api.model.values.values import Values
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.plugins.registry import Registry
    from resource_api.system.facts import Facts
    from resource_api.system.log import Log

    #: From the description of an asset or archive, and the file that it stands in, to its content.
    ReadContent = Callable[[ContentSpec, str], Content]

#: Where a manifest comes from: the path of a file, a mapping like the YAML's, or a manifest that has been read.
Source = str | os.PathLike[str] | Mapping[str, Any] | Manifest


#: The file of a module directory with configurations of providers.
PROVIDERS: Final = "providers.yaml"
_TOO_SHORT: Final = "is too short to be masked in what programs and providers print"
_READABLE: Final = "everybody can read these {}, and there is a secret in them; run: chmod o-r {}"


class ManifestCompiler:
    """Compiles manifests with the types of a registry."""

    def __init__(
        self,
        registry: Registry,
        facts: Facts,
        log: Log,
        stacks: Callable[[str, str], Values] | None = None,
        contents: ReadContent | None = None,
    ) -> None:
        """Use the types of ``registry`` and the values of ``facts``; notes about ignored parts go to ``log``.

        ``stacks`` returns the outputs of a stack, from the project of a manifest and the name that the manifest has.
        ``contents`` reads assets and archives; None: from the files of this machine.
        """
        #: The files that the inputs have been read from.
        self.input_files: Sequence[str] = ()
        self._contents = contents
        #: The files and directories that assets and archives of a catalog are made from → what they are called.
        self._content_files: dict[str, str] = {}
        self._stacks = stacks
        self._registry = registry
        self._facts = facts
        self._log = log

    def compile(
        self, source: Source, inputs: Mapping[str, object], providers: ProviderPool, *, from_file: bool = False
    ) -> Catalog:
        """Return the catalog of a manifest, with warnings of files that other users can change, or that show secrets.

        ``from_file``: warn of such files also if ``source`` is no path, but a manifest that was read from a file
        before. Raise ``ManifestError``, and ``UntrustedCode`` for a Python manifest that others can write to.
        """
        catalog = self._compile(self.read(source, inputs, providers), inputs, providers)
        is_sent_or_saved = bool(catalog.manifest.saved_in) or catalog.manifest.file == reading.STDIN
        if from_file or is_sent_or_saved or isinstance(source, (str, os.PathLike)):
            catalog = self._warn_of_writers(catalog)
        return self._warn_of_readers(catalog)

    def compile_providers(self, source: Source, inputs: Mapping[str, object], providers: ProviderPool) -> Catalog:
        """Return the catalog of a manifest's configured providers alone, for ``destroy``, which deletes by the records.

        Raise ``ManifestError`` for a wrong file, ``UntrustedCode`` for a Python manifest that others can write to.
        """
        catalog = self._compile_providers(self.read(source, inputs, providers, complete=False), inputs, providers)
        return self._warn_of_writers(catalog) if isinstance(source, (str, os.PathLike)) else catalog

    def _compile_providers(self, manifest: Manifest, inputs: Mapping[str, object], providers: ProviderPool) -> Catalog:
        """Return the catalog of a manifest's providers, or an empty one where they have problems, which are logged.

        ``destroy`` then uses the recorded configurations: a broken manifest must not prevent that its resources are
        deleted.
        """
        input_values(manifest, inputs)  # raises UsageError for a secret from the command line, needed or not
        # Without the sections that refer to resources, which would be errors now.
        frame = manifest._replace(
            resources=(),
            outputs={},
            output_conditions={},
            moved=(),
            removed=(),
            purges=(),
            defaults={},
            skipped_includes=(),
        )
        if frame.providers:
            needed = provider_config.reduce_to_providers(frame)
            needed_inputs = {name: value for name, value in inputs.items() if name in needed.inputs}
            try:
                return self._compile(needed, needed_inputs, providers)
            except ManifestError as error:
                self._log.write("info", "", f"the providers of the manifest are ignored: {error}")
        return self._compile(frame._replace(inputs={}, values={}, providers={}), {}, providers)

    def read(
        self, source: Source, inputs: Mapping[str, object], providers: ProviderPool, *, complete: bool = True
    ) -> Manifest:
        """Return a manifest with its includes, and make its types known: the versions and providers that it selects.

        Terraform providers are started, as only they know their types. ``complete``: an include whose condition lacks
        an input is an error. Otherwise it is omitted, for commands that need only a part, as ``destroy`` the providers.
        Raise ``UsageError`` for inputs that are no mapping.
        """
        manifest = self.read_declarations(source, inputs, providers, complete=complete)
        if families := [declared for declared in manifest.providers.values() if declared.is_program]:
            try:
                from resource_api.terraform.family import register_families
            except ImportError as error:
                raise ManifestError([_missing_extra(declared) for declared in families]) from error
            register_families(self._registry, manifest, self._log)
        select_declared(providers, manifest)
        return manifest

    def read_declarations(
        self, source: Source, inputs: Mapping[str, object], providers: ProviderPool, *, complete: bool = True
    ) -> Manifest:
        """Return a manifest with its includes as ``read`` does, but without starting its Terraform providers.

        The command ``providers lock`` calls this method, because it records the programs of these providers only now.
        ``complete``: as for ``read``. Raise ``UsageError`` for inputs that are no mapping.
        """
        if not isinstance(inputs, Mapping):
            raise UsageError(f"inputs must be a mapping of names to values, not {inputs!r:.80}")
        if not isinstance(source, (str, os.PathLike, Mapping, Manifest)):
            raise UsageError(f"a manifest is a path or a mapping, not {source!r:.80}")
        if not isinstance(source, Manifest):
            source = reading.read(source, partial(self.read_python, inputs=inputs), self._registry.trust.open)
        if source.with_includes is None:
            return source
        return self._with_includes(source, inputs, providers, complete=complete)

    def _with_includes(
        self, manifest: Manifest, inputs: Mapping[str, object], providers: ProviderPool, *, complete: bool
    ) -> Manifest:
        """Return a manifest with the included files whose conditions (``when``) hold by its inputs, values and facts.

        ``complete``: a condition that cannot be evaluated is a ``ManifestError``; otherwise its file is omitted. If any
        file is omitted, a given input without a declaration is ignored instead of an error.
        """
        assert manifest.with_includes is not None
        whole = manifest.with_includes(
            lambda partly, when: self._reason_to_leave_out(partly, when, inputs, providers, complete=complete)
        )
        for name in inputs.keys() - whole.inputs.keys() if whole.skipped_includes else ():
            self._log.write("debug", "", f"the input '{name}' is ignored: no file that is included declares it")
        return whole._replace(path=manifest.path)

    def _reason_to_leave_out(
        self, manifest: Manifest, when: object, inputs: Mapping[str, object], providers: ProviderPool, *, complete: bool
    ) -> str:
        """Return the reason to omit an include, or "" if its condition ``when`` holds.

        ``manifest``: the files before the include. If the condition cannot be evaluated because inputs are wrong or
        missing, its error is the reason. With ``complete`` raise a ``ManifestError`` with all problems of the inputs
        instead, which are the cause.
        """
        scope, definitions = self._scope(manifest, inputs, providers)
        diagnostics = Diagnostics(manifest, [*manifest.problems, *scope.problems])
        if manifest.values:  # a condition may refer to one, and that may be the call of a function
            scope.calls = provider_config.find_calls(diagnostics, definitions)
        try:
            return for_each.unmet_condition(when, scope)
        except conditions.ConditionError as error:
            if not diagnostics.problems:
                raise
            if complete:
                raise ManifestError(diagnostics.problems) from error
            return str(error)

    def read_python(self, raw: bytes, file: str, inputs: Mapping[str, object]) -> Document:
        """Return the document of a Python manifest, which is executed as ``file``. Raise ``ManifestError``."""
        names = self._registry.builtins_of_manifest()
        return python_manifest.read(raw, file, inputs, self._facts, self._log.mask.add_inputs, builtin_names=names)

    def _compile(self, manifest: Manifest, inputs: Mapping[str, object], providers: ProviderPool) -> Catalog:
        return compile_catalog(manifest, *self._scope(manifest, inputs, providers))

    def _scope(
        self, manifest: Manifest, inputs: Mapping[str, object], providers: ProviderPool
    ) -> tuple[Scope, Definitions]:
        """Return the scope of the expressions of a manifest, and the definitions of its types, for the compiler.

        From now on the secret inputs are masked in the log.
        """
        definitions = Definitions(providers.declared, self._component, self._registry.types_with_function)
        stacks = None if self._stacks is None else partial(self._stacks, manifest.project)
        pure = partial(provider_config.invoke, ask=providers.call_function)
        self._content_files.clear()
        scope = Scope(manifest, inputs, self._facts, self._contents or self._read_content, stacks, pure=pure)
        # Before any code of a type or a provider meets them, and may print them.
        self._log.mask.add_inputs(scope.secret_inputs)
        return scope, definitions

    @cached_property
    def _assets(self) -> asset_contents.AssetReader:
        """The reader of assets and archives, made with the first one: few catalogs have any."""
        return asset_contents.AssetReader(self._registry.trust)

    def _read_content(self, spec: ContentSpec, file: str) -> Content:
        """Return the content of an asset or archive of this machine.

        Its file is noted, so that ``_warn_of_writers`` can warn if other users can change it.
        """
        if spec.origin in {"file", "directory"}:
            self._content_files[os.path.join(os.path.dirname(file), str(spec.source))] = spec.word
        return self._assets(spec, file)

    def _warn_of_writers(self, catalog: Catalog) -> Catalog:
        """Return the catalog with a warning for each data file that it is made from and other users can change.

        Whoever can change it controls the runs of this user. Code that others can change is an error already.
        """
        if catalog.manifest.saved_in:
            kinds = {catalog.manifest.saved_in: "plan"}
        else:
            files = [document.file for document in catalog.manifest.documents]
            data_files = [file for file in files if os.path.splitext(file)[1].lower() in reading.READERS]
            kinds = {**self._content_files, **dict.fromkeys(data_files, "manifest")}
        warnings = []
        for file, kind in kinds.items():
            if writers := self._registry.trust.who_can_change(file):
                message = f"others can change this {kind}: {writers}"
                warnings.append(Problem(None, message, "warning", file=file, code="untrusted_manifest"))
        return catalog._replace(warnings=[*warnings, *catalog.warnings]) if warnings else catalog

    def _warn_of_readers(self, catalog: Catalog) -> Catalog:
        """Return the catalog with a warning for each file of inputs or configurations that exposes a secret.

        Such a file contains a secret of this manifest in clear, and all users of the machine can read it.
        """
        documents = [document.file for document in catalog.manifest.documents]
        kinds = {file: "configurations" for file in documents if os.path.basename(file) == PROVIDERS}
        kinds |= dict.fromkeys(self.input_files, "inputs")
        kinds = {file: kind for file, kind in kinds.items() if everybody_can_read(file)}
        if not kinds:
            return catalog
        secrets = Mask()
        secrets.add([catalog.scope.inputs, *(instance.config for instance in catalog.instances.values())])
        warnings = [
            Problem(None, _READABLE.format(kind, shell_word(file)), "warning", file=file, code="readable_secret")
            for file, kind in kinds.items()
            if secrets and _holds_secret(file, secrets)
        ]
        return catalog._replace(warnings=[*warnings, *catalog.warnings])

    def _component(self, name: str) -> LoadedComponent | None:
        """Return a component by its name, or None, for the compiler, which executes it to get its declarations.

        Its code gets the facts, and its secret inputs are masked in the log. Raise ``DefinitionError`` for broken code.
        """
        if (definition := self._registry.component(name)) is None:
            return None
        return python_manifest.blueprint(*definition, self._facts, self._log.mask.add_inputs)


def select_declared(providers: ProviderPool, manifest: Manifest) -> None:
    """Select the versions and implementations that a manifest declares for its providers.

    This precedes the first use of their types, whose attributes depend on the version.
    """
    configured = manifest.providers.values()
    providers.select_versions({declared.instance: declared.type_version for declared in configured})
    providers.select_implementations({declared.instance: declared.implementation for declared in configured})


def _holds_secret(file: str, secrets: Mask) -> bool:
    """Return whether a file contains one of ``secrets`` in clear, for a warning; False if it cannot be read."""
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            return bool(secrets.search([text.read(MAX_BYTES)]))
    except OSError:
        return False


def short_secret_warnings(
    manifest: Manifest, inputs: Mapping[str, object], entries: Iterable[Entry], mask: Mask
) -> Iterator[Problem]:
    """Yield a warning for each secret of ``inputs`` and ``entries`` that is too short for ``mask``.

    A short text is also part of other words, so it is not masked in the output. An attribute with the same value as
    such an input gets no warning of its own.
    """
    short = list[Any]()
    for name, value in inputs.items():
        if not mask.covers(value):
            short.append(value)
            position = manifest.place(("inputs", name))
            yield Problem(None, f"input '{name}' {_TOO_SHORT}", "warning", "", *position, code="short_secret")
    for entry in entries:
        for name in sorted(entry.definition.sensitive):
            value = entry.should.get(name)
            if is_secret(value) and not mask.covers(value) and value not in short:
                position = manifest.place(entry.declaration, name)
                message = f"the secret '{name}' {_TOO_SHORT}"
                yield Problem(name, message, "warning", str(entry.reference), *position, code="short_secret")


def _missing_extra(declared: ConfiguredProvider) -> Problem:
    """Return the problem of a Terraform provider if the optional client for such programs is not installed.

    Hosts of ``--on`` never have this client.
    """
    position = declared.origin.place("path" if declared.path else "source")
    message = f"provider '{declared.name}': programs of Terraform providers cannot be used here"
    hint = "pip install 'resource-api[terraform]'; with --on they are not available on hosts"
    return Problem(None, message, "error", "", *position, code="extra", hint=hint)
