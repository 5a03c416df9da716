"""Save the conclusion of a run that had nothing to do, and plan only the rest of the manifest while it is valid.

The conclusion is the resources that a later run need not plan: declaration, row and record alone decide about them,
all three are unchanged, nothing that they depend on changed, and no resource that is planned names them. The rest is a
manifest and a state of its own, for the one compiler and the one planner. A plan of it may show drift, where it is only
shown; any other plan of it must do and record nothing. Everything else is decided by a whole plan.

Fingerprints decide whether code, manifest and types are as they were. A file of code is the same while its size, its
inode and the time of its last status change are, which cannot be set back. The state is guarded by the store
(``load_conclusion``); the system is read in every run.
"""

from __future__ import annotations

import json
import marshal
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.graph import descendants, reverse
from resource_api.catalog.resource_table import matching_entries
from resource_api.manifest import read as reading
from resource_api.manifest.sections import assemble, without
from resource_api.model.step import SAME, Step
from resource_api.model.values.document import Document, Node
from resource_api.model.values.reference import Reference, hashable_name, parse
from resource_api.model.values.start_up import NamedTuple, blake2b
from resource_api.model.values.values import Sensitive, is_flat, leaves, same_value
from resource_api.plan.decide import required_references
from resource_api.prior.match import stated_implementations
from resource_api.state.store import CachedConclusion, StackName, StateStore
from resource_api.transaction.operation_run import OperationRun
from resource_api.transaction.recorder import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.options import CacheRequest
    from resource_api.model.record import RecordKey, StackState
    from resource_api.model.type_definition import Name, Resource
    from resource_api.model.values.masking import Mask
    from resource_api.model.values.values import Values
    from resource_api.plan.planner import ExecutionPlan
    from resource_api.plugins.implementations import Implementations
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.plugins.registry import Registry
    from resource_api.provider.stored_values import DerivedValues
    from resource_api.snapshot.batched_get import Snapshot


#: Nanoseconds by which the times of files may be behind the clock.
_CLOCK_TICK: Final = 10_000_000


class Fingerprints(NamedTuple):
    """The code, manifest files and types that a conclusion depends on, as plain data."""

    environment: Sequence[object]
    #: Files of code: path, size, time of the last status change, inode.
    code: Sequence[Sequence[Any]]
    #: Directories in which code is looked for, likewise, where a later run may need code that it does not load.
    directories: Sequence[Sequence[object]]
    #: Files of the manifest: path, where that leads, digest.
    files: Sequence[Sequence[str]]
    #: Type → its files, and its declaration.
    types: Mapping[str, Sequence[object]]
    #: Provider instance → the provider that the machine has chosen among those of its type.
    chosen: Mapping[str, str]

    def are_valid(self, registry: Registry) -> bool:
        """Return whether environment, files of code, directories, types and manifest are as in the saved run.

        No provider is called. Raises ``DefinitionError`` for a type that cannot be loaded.
        """
        return (
            self.environment == _environment()
            and _are_unchanged(self.code)
            and _are_unchanged(self.directories)
            and all(_type_declaration(registry, name) == declared for name, declared in self.types.items())
            and all(_is_same_file(*file) for file in self.files)
            # A whole run warns of a manifest that other users can change.
            and not any(registry.trust.who_can_change(path) for path, *_ in self.files)
        )

    def cover_loaded_code(self) -> bool:
        """Return whether all code that this process has loaded is in ``code``: a new file may shadow another module."""
        covered = {"", *(path for path, *_ in self.code)}
        return all(path in covered or _file_of(path) in covered for path in _module_paths())

    def are_chosen(self, chosen: Mapping[str, str]) -> bool:
        """Return whether ``chosen`` (instance → provider), the choice of the machine now, is that of the saved run."""
        return all(self.chosen.get(instance) == name for instance, name in chosen.items())

    def match(self, documents: Iterable[Document]) -> bool:
        """Return whether these documents are the manifest's files as in the saved run."""
        return [_digest(document.raw) for document in documents] == [digest for *_, digest in self.files]


def take_fingerprints(
    catalog: Catalog, providers: ProviderPool, began: int, derived: DerivedValues | None
) -> Fingerprints | None:
    """Return the fingerprints by which later runs check that a saved conclusion is still valid, or None if they cannot.

    They cannot if a provider ran in a worker, whose code is not loaded in this process, if a file was changed after the
    run began (``began``, in nanoseconds), or if a type or the manifest has no file to compare. ``derived``: results
    that providers have saved, some of which code of an earlier run has computed: that code is compared too.
    """
    definitions = {entry.definition for entry in catalog.entries}
    declared = {name: _type_declaration(providers.registry, name) for name in {entry.type for entry in catalog.entries}}
    types = {name: declaration for name, declaration in declared.items() if declaration is not None}
    if any(map(providers.run.isolates, definitions)) or len(types) < len(declared):
        return None
    files = _manifest_files(catalog.manifest)
    code = _stamps({*map(_file_of, _module_paths()), *(derived.code if derived else ())} - {""}, began)
    directories = _directory_stamps(began, code) if code and derived and derived.used else []
    if files is None or code is None or directories is None:
        return None
    return Fingerprints(_environment(), code, directories, files=files, types=types, chosen=providers.chosen())


# The process: its interpreter and code


def _environment() -> list[object]:
    """Return the interpreter, the user, and where code is looked for."""
    return [sys.version, os.geteuid(), list(sys.path)]


def _directory_stamps(began: int, code: Iterable[Sequence[Any]]) -> list[list[object]] | None:
    """Return a stamp of every directory with ``code`` or on the search path, or None if one changed after ``began``."""
    names = {os.path.dirname(path) for path, *_ in code} | {os.path.abspath(path) for path in sys.path}
    return _stamps(filter(os.path.isdir, names), began)


def _stamps(paths: Iterable[str], began: int) -> list[list[object]] | None:
    """Return a stamp of each file, by which later runs detect a change of it, or None if a stamp would prove nothing.

    A stamp proves nothing if the file cannot be read, or was changed after the run began (or a clock tick before): the
    run may have read its former content.
    """
    try:
        stamps = [_stamp(path) for path in sorted(paths)]
    except OSError:
        return None
    return None if any(changed >= began - _CLOCK_TICK for _, _, changed, _ in stamps) else stamps


def _are_unchanged(stamps: Iterable[Sequence[Any]]) -> bool:
    """Return whether every file or directory still has its stamp of the saved run; else its conclusion is not valid."""
    try:
        return all(_stamp(stamp[0]) == stamp for stamp in stamps)
    except OSError:
        return False


def _stamp(path: str) -> list[Any]:
    """Return the path, size, time of the last status change (nanoseconds) and inode of a file. Raise ``OSError``."""
    status = os.stat(path)
    return [path, status.st_size, status.st_ctime_ns, status.st_ino]


def _module_paths() -> set[str]:
    """Return the paths of all modules that this process has loaded."""
    return {path for module in list(sys.modules.values()) if (path := getattr(module, "__file__", None))}


def _file_of(path: str) -> str:
    """Return the file whose change would change a module: its path, or the archive ``a.zip`` of ``a.zip/m.py``.

    The search goes from the path upwards to the nearest existing file. Return "" if there is none.
    """
    while path and not os.path.isfile(path):
        path = os.path.dirname(path) if os.path.dirname(path) != path else ""
    return path


# The manifest and the types


def _manifest_files(manifest: Manifest) -> list[list[str]] | None:
    """Return the path, real path and digest of every file of a manifest, or None if a later run may read other files.

    A later run may read others if a program makes the manifest, if a file is included under a condition, or if the same
    file is included under two names, which may lead to two files later. The real path detects a link that has changed.
    """
    # The number of the first file and of all entries of ``include``. A file that is included twice is one document.
    files, expected = [], 1
    for document in manifest.documents:
        if os.path.splitext(document.file)[1].lower() not in reading.READERS:
            return None
        path = os.path.abspath(document.file)
        files.append([path, os.path.realpath(path), _digest(document.raw)])
        included = document.data.get("include") or () if type(document.data) is dict else ()
        if any(type(name) is dict for name in included):
            return None  # a condition on facts may decide about a file
        expected += len(included)
    return files if len(files) == expected else None


def _is_same_file(path: str, real: str, digest: str) -> bool:
    """Return whether a file of the manifest is the one that the saved run has read, by its real path and its digest."""
    try:
        return os.path.realpath(path) == real and _digest(reading.read_file(path)[0]) == digest
    except (OSError, ValueError):
        return False


def _digest(raw: bytes) -> str:
    return blake2b(raw, digest_size=32).hexdigest()


def _type_declaration(registry: Registry, name: str) -> list[object] | None:
    """Return a type's files, followed by its declaration as text, to compare with a saved run; None without a file.

    The files alone are not enough: the same code may declare other attributes in another environment.
    """
    files = registry.files_of(name)
    if files is None:
        return None
    definition = registry.type(name)
    attributes = [
        (key, attribute.type, attribute.kind, attribute.default) for key, attribute in definition.attributes.items()
    ]
    return [*files, repr([attributes, sorted(definition.features), definition.title_patterns])]


#: The marshal version without references among values: equal values have equal bytes.
_WITHOUT_REFERENCES: Final = 2
_DIGEST_BYTES: Final = 12
_EXPRESSION: Final = "${"


class InstanceRows(NamedTuple):
    """The resources of one provider instance that were read together, and digests of their rows."""

    instance: str
    names: Sequence[Name]
    #: By resource, its index in the order of execution.
    indexes: Sequence[int]
    #: By resource, the digest of its row, or "" if it is planned in every run.
    digests: Sequence[str]

    def changed(self, rows: Mapping[Name, Resource]) -> set[int]:
        """Return the indexes of the resources whose ``rows`` (name → row) differ from those of the saved run.

        These resources have drifted, so that they cannot be left out of the plan. A resource that is planned in every
        run (its saved digest is "") needs no comparison.
        """
        digests = row_digests([rows.get(name, {}) for name in self.names])
        if digests == self.digests:  # nearly always
            return set()
        by_resource = zip(self.indexes, self.digests, digests, strict=True)
        return {index for index, saved, digest in by_resource if saved not in {"", digest}}


class Conclusion(NamedTuple):
    """The resources of a manifest as a run has left them, by their index in the order of execution."""

    #: By index, the key in the manifest, or "" if the resource is planned in every run.
    keys: Sequence[str]
    rows: Sequence[InstanceRows]
    #: The indexes of the recorded resources, in the order of the saved records, and the number of providers after them.
    recorded: Sequence[int]
    providers: int
    #: index → the resources that directly come after it, and index → those that its declaration names.
    dependents: Mapping[int, Sequence[int]]
    references: Mapping[int, Sequence[int]]

    def to_json(self) -> dict[str, object]:
        """Return the conclusion as JSON data for the cache; the graphs become lists, as JSON has no numbers as keys."""
        return {
            **self._asdict(),
            "dependents": list(self.dependents.items()),
            "references": list(self.references.items()),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Conclusion:
        """Return the conclusion from JSON data of the cache.

        Raises an error of any class for damaged data, after which the run makes a whole plan.
        """
        # JSON has lists where names of several parts were tuples; the indexes and digests are as they were.
        rows = [
            InstanceRows(instance, list(map(hashable_name, names)), indexes, digests)
            for instance, names, indexes, digests in values["rows"]
        ]
        graph = {field: dict(values[field]) for field in ("dependents", "references")}
        return cls(**{**values, "rows": rows, **graph})

    def affected(self, rows: Mapping[str, Mapping[Name, Resource]]) -> set[int]:
        """Return the indexes of changed resources, by ``rows`` (instance → name → row), and of their dependents."""
        changed = [group.changed(rows[group.instance]) for group in self.rows if any(group.digests)]
        return descendants(set().union(*changed), self.dependents)

    def rest(self, affected: Collection[int] = ()) -> set[int]:
        """Return the indexes of the resources to plan: affected ones, those planned always, and all that they name."""
        always = (index for index, key in enumerate(self.keys) if not key)
        return descendants({*affected, *always}, self.references)

    def left_out(self, rest: Collection[int]) -> set[str]:
        """Return the keys in the manifest of the resources that need no plan: all but the ``rest`` (indexes)."""
        return {key for index, key in enumerate(self.keys) if index not in rest}

    def positions(self, rest: Collection[int]) -> list[int]:
        """Return the positions of the ``rest`` and of all providers among the saved records: only these are loaded."""
        positions = [position for position, index in enumerate(self.recorded) if index in rest]
        return [*positions, *range(len(self.recorded), len(self.recorded) + self.providers)]

    def indexes(self) -> Mapping[RecordKey, int]:
        """Return key → index of each resource, to check of each step in a new plan whether its resource may act."""
        return {
            (group.instance, name): index
            for group in self.rows
            for name, index in zip(group.names, group.indexes, strict=True)
        }

    def names_to_read(self, declared: Collection[RecordKey]) -> Iterator[tuple[str, list[Name]]]:
        """Yield the instances with a resource that may be left out, each with the names to read in one call.

        The resources that are planned in every run are read in the same call, since the planner needs their rows too.
        They are read only if they are still among the ``declared`` keys: an expression in a title may have another
        value than in the saved run.
        """
        for group in self.rows:
            if any(group.digests):
                pairs = zip(group.names, group.digests, strict=True)
                yield group.instance, [name for name, digest in pairs if digest or (group.instance, name) in declared]


def conclude(plan: ExecutionPlan) -> Conclusion | None:
    """Return the conclusion of a plan that had nothing to do; None if all resources are planned in every run.

    Its two graphs extend the set of resources that a later run plans. If a row has changed, the resources that require
    it are planned too (``dependents``). A planned resource can only be compiled together with the resources that its
    declaration names (``references``).
    """
    rows_read = row_digests(step.is_ or {} for step in plan.steps)
    digests = {step.entry.index: digest for step, digest in zip(plan.steps, rows_read, strict=True)}
    keys = _keys_to_leave_out(plan, digests)
    if not any(keys):
        return None
    digests = {index: digest if keys[index] else "" for index, digest in digests.items()}
    return Conclusion(
        keys,
        _rows_by_instance([step.entry for step in plan.steps], digests),
        recorded=sorted(plan.prior.records),
        providers=len(plan.prior.instances.recorded),
        dependents=reverse(plan.catalog.requires),
        references=dict(_referenced_entries(plan.catalog)),
    )


def _rows_by_instance(entries: Iterable[Entry], digests: Mapping[int, str]) -> list[InstanceRows]:
    """Return the resources by provider instance, because a later run reads all resources of an instance in one call.

    ``digests``: index → digest of the row, with which that run compares the rows.
    """
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.instance, []).append(entry)
    rows = []
    for instance, group in groups.items():
        indexes = [entry.index for entry in group]
        names = [entry.name for entry in group]
        rows.append(InstanceRows(instance, names, indexes, [digests[index] for index in indexes]))
    return rows


def _keys_to_leave_out(plan: ExecutionPlan, digests: Mapping[int, str]) -> list[str]:
    """Return, by index, the key in the manifest of each resource that a later run need not plan; "" for all others.

    Each was in sync, and stands alone in its file: no default of its type has an expression, no component declares it,
    and no output uses its values. ``digests``: index → digest of the row, "" for a row with more than plain data, of
    which a change could not be found.
    """
    catalog, in_sync = plan.catalog, plan.in_sync
    keys = [""] * len(catalog.entries)
    variable = _types_with_variable_defaults(catalog.manifest)
    for step in plan.steps:
        entry = step.entry
        is_fixed = entry.index in in_sync and not (entry.type in variable or entry.parent)
        if is_fixed and digests[entry.index] and _stands_alone(step):
            keys[entry.index] = _manifest_key(entry)
    for entry in _entries_in_outputs(catalog):
        keys[entry.index] = ""
    return keys


def row_digests(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Return a digest of each row, by which a later run sees that it is unchanged.

    The digest is "" for a row with other objects than plain data, such as a secret: its resource is always planned.
    """
    digests = []
    for row in rows:
        try:
            data = marshal.dumps(row if type(row) is dict else dict(row), _WITHOUT_REFERENCES)
        except ValueError:  # ``marshal``, the fastest serialization, accepts plain data only
            digests.append("")
        else:
            digests.append(blake2b(data, digest_size=_DIGEST_BYTES).hexdigest())
    return digests


def _types_with_variable_defaults(manifest: Manifest) -> set[str]:
    """Return the types of which a default in the manifest holds an expression, which may yield another value."""
    defaults = (items for of_file in manifest.defaults.values() for items in of_file.items())
    return {name for name, body in defaults if _has_expression(body)}


def _stands_alone(step: Step) -> bool:
    """Return whether declaration, row and record alone decide about the resource of a step that is in sync.

    Then it can be left out of a later plan while all three are unchanged. Its type has no secret and no configuration,
    its declaration no implementation and no expression. Its values are plain data, as only such rows have a digest, and
    equal the row's: a looser comparison of the provider may change without them.
    """
    entry, row, definition = step.entry, step.is_, step.entry.definition
    if row is None or definition.secret or definition.config.attributes:
        return False
    declaration, should = entry.declaration, entry.should
    if entry.meta.implementation is not None or _has_expression(declaration.attributes):
        return False
    if declaration.meta and _has_expression(declaration.meta):
        return False
    if not (is_flat(should) or all(row_digests([should]))):
        return False
    compared = definition.compared
    for name, value in should.items():  # noqa: SIM110 - a generator costs half as much again, in every run with changes
        if name in compared and not same_value(row.get(name), value):
            return False
    return True


def _has_expression(values: Values) -> bool:
    """Return whether declared values may hold an expression (``${...}``), whose result may change without the file."""
    try:
        text = "\n".join(values.values())
    except TypeError:  # not only texts: a ``${`` in a nested key counts too, and the resource is then planned
        text = repr(values)
    return _EXPRESSION in text


def _manifest_key(entry: Entry) -> str:
    """Return a resource's key in its file, by which later runs remove it from the file's data; "" if they cannot.

    They cannot if the resource is derived from another one or is in no file, and must not if its key has an expression,
    whose value can make it another resource.
    """
    declaration = entry.declaration
    if declaration.derivation is not None or declaration.document is None or _EXPRESSION in declaration.key:
        return ""
    return declaration.key


def _referenced_entries(catalog: Catalog) -> Iterator[tuple[int, list[int]]]:
    """Yield the index of each entry with references, and the indexes of the entries that its compilation needs.

    These are the resources in its expressions (``sources``), and those that its metaparameters refer to.
    """
    for entry in catalog.entries:
        if entry.declaration.meta or entry.sources:
            targets = [source for sources in entry.sources.values() for source in sources]
            for _, part in leaves(entry.declaration.meta):
                if type(part) is str:  # any text in the metaparameters may be a reference
                    targets += _entries_of_text(catalog, part)
            yield entry.index, sorted({target.index for target in targets})


def _entries_in_outputs(catalog: Catalog) -> Iterator[Entry]:
    """Yield the resources whose values are in the manifest's outputs: every run computes these, and needs them."""
    for value in catalog.manifest.outputs.values():
        for path in catalog.scope.paths(value):
            if isinstance(path.root, Reference) and (entry := catalog.find(path.root)) is not None:
                yield entry


def _entries_of_text(catalog: Catalog, text: str) -> Sequence[Entry]:
    """Return the entries that a text in a metaparameter refers to; none if it is no reference.

    A reference with wildcards, such as ``File[/etc/*]``, has every matching entry.
    """
    try:
        name = parse(text)
    except ValueError:
        return ()
    if (entry := catalog.find(name)) is not None:
        return (entry,)
    return matching_entries(name, catalog.entries) if {"*", "?"}.intersection(text) else ()


#: A longer rest of a manifest, in characters of JSON, is parsed again in each run.
_MAX_CHARACTERS: Final = 1 << 20


class Planner(NamedTuple):
    """How a run makes a catalog from a manifest, and a plan from that and its state."""

    compile: Callable[[Manifest], Catalog]
    plan: Callable[[Catalog, StackState], ExecutionPlan]


def save(request: CacheRequest, plan: ExecutionPlan, providers: ProviderPool, store: StateStore) -> None:
    """Save, for later runs, the conclusion of a run that had nothing to do and has written nothing.

    Nothing is saved where later runs could not repeat the plan, where state was written since the plan was made, or
    where no resource could be left out. The keys of all records are saved in a fixed order, because the conclusion
    refers to records by position: a later run loads only the records of the resources that it plans.
    """
    prior, derived = plan.prior, providers.run.derived
    name = StackName.of(prior.state)
    if not _is_repeatable(plan, providers) or store.load(name).serial != prior.state.serial:
        return
    if (conclusion := conclude(plan)) is None:
        return
    if (fingerprints := take_fingerprints(plan.catalog, providers, request.began, derived)) is None:
        return
    keys = [prior.records[index].key for index in sorted(prior.records)]
    keys += [record.key for record in prior.instances.recorded.values()]
    content = {
        "fingerprints": fingerprints,
        "conclusion": conclusion.to_json(),
        "derived": derived.used if derived else {},
        "rest": _rest_of_files(plan, conclusion, providers.run.log.mask),
    }
    store.save_conclusion(request.label, name, content, keys)


def _is_repeatable(plan: ExecutionPlan, providers: ProviderPool) -> bool:
    """Return whether later runs, with nothing changed, would have the same plan and print the same."""
    catalog = plan.catalog
    # Later runs would not print again what compiling has printed.
    printed = catalog.warnings or catalog.notes or providers.wrote_output
    ephemeral = any(parameter.ephemeral for parameter in catalog.manifest.inputs.values())
    needs_whole_plan = catalog.on_failure or catalog.purges or ephemeral
    # A plan that a conclusion has shortened lacks the resources left out.
    return not (plan.cached_unchanged or printed or needs_whole_plan)


class _WholePlanNeededError(Exception):
    """The cached conclusion cannot be used; never leaves this module, as ``plan`` then returns None."""


def plan(request: CacheRequest, cached: CachedConclusion, snapshot: Snapshot, planner: Planner) -> ExecutionPlan | None:
    """Return a plan without the resources that a cached conclusion leaves out, or None if a whole plan is needed.

    The caller makes the whole plan with the rows that ``snapshot`` has read by then; nothing is read twice.
    """
    try:
        return _plan_rest(request, cached, snapshot, planner)
    except Exception:  # noqa: BLE001 - a whole plan meets the same error and reports it, unless the entry is damaged
        return None


def _plan_rest(request: CacheRequest, cached: CachedConclusion, snapshot: Snapshot, planner: Planner) -> ExecutionPlan:
    """Return the plan of the rest: of the resources that the cached conclusion does not leave out.

    Rows are read into ``snapshot``. If some have changed, the rest grows by the affected resources and is compiled
    again. Each failed ``_require`` raises an exception, after which the caller makes a whole plan. A plan to apply must
    do nothing and record nothing, because a record names all required resources, some of which may be left out.
    """
    providers, content = snapshot.providers, cached.content
    fingerprints, conclusion = Fingerprints(*content["fingerprints"]), Conclusion.from_json(content["conclusion"])
    _require(fingerprints.are_valid(providers.registry))
    if (derived := providers.run.derived) is not None:
        derived.continue_from(content["derived"], [path for path, *_ in fingerprints.code])
    compile_rest = partial(_compile_rest, request, fingerprints, conclusion, planner)
    # The rest is compiled before anything is read, as in a whole run: then its secrets are masked, and a provider that
    # looks up declared resources has done so before it reads.
    documents = None if content["rest"] is None else saved_documents(content["rest"])
    catalog = compile_rest(conclusion.rest(), documents=documents)
    affected = conclusion.affected(_read_rows(catalog, conclusion, snapshot))
    # By now all providers are loaded, with their imports.
    _require(fingerprints.cover_loaded_code() and fingerprints.are_chosen(providers.chosen()))
    rest = conclusion.rest(affected)
    if affected:  # drift, which is only shown: to correct it takes a whole plan
        _require(request.options.shown or request.options.noop)
        catalog = compile_rest(rest)
    if (state := cached.state(conclusion.positions(rest))) is None:
        raise _WholePlanNeededError
    plan = planner.plan(catalog, _without_left_out(state, catalog))
    _require(_is_usable(plan, conclusion, rest, affected))
    _require(affected or not _would_record(plan, providers.several))  # a plan with drift is not applied at all
    return plan._replace(cached_unchanged=len(conclusion.keys) - len(rest))


def _require(condition: object) -> None:
    """Raise ``_WholePlanNeededError`` unless a condition holds."""
    if not condition:
        raise _WholePlanNeededError


def _compile_rest(
    request: CacheRequest,
    fingerprints: Fingerprints,
    conclusion: Conclusion,
    planner: Planner,
    rest: Collection[int],
    *,
    documents: Sequence[Document] | None = None,
) -> Catalog:
    """Return the catalog of the ``rest`` (indexes), compiled from the saved ``documents`` or, if None, from the files.

    The resources that ``conclusion`` leaves out are removed from the files' data first. Raise
    ``_WholePlanNeededError`` if the rest is more than half of all resources, which would take as long as a whole plan,
    and if files, number of resources or warnings are not those of the saved run.
    """
    _require(2 * len(rest) <= len(conclusion.keys))
    if documents is None:
        whole, problems = reading.load_documents(request.source)
        _require(not problems)
        documents = without(whole, conclusion.left_out(rest))
    _require(fingerprints.match(documents))
    catalog = planner.compile(assemble(documents)._replace(path=os.path.abspath(request.source)))
    _require(len(catalog.entries) == len(rest) and not (catalog.warnings or catalog.notes))
    return catalog


def _read_rows(catalog: Catalog, conclusion: Conclusion, snapshot: Snapshot) -> Mapping[str, Mapping[Name, Resource]]:
    """Return instance → name → row as read now, to compare them with the rows of the saved run."""
    # An instance with several implementations (``apt``, ``pip``) reads each resource with the one the manifest states.
    # Planning, which otherwise determines this, comes after the reading here.
    snapshot.providers.assigned = partial(stated_implementations, catalog, None)
    return {
        instance: snapshot.read_unchecked(snapshot.providers.functions(instance).definition, names)
        for instance, names in conclusion.names_to_read({entry.key for entry in catalog.entries})
    }


def _is_usable(plan: ExecutionPlan, conclusion: Conclusion, rest: Collection[int], affected: Collection[int]) -> bool:
    """Return whether a whole plan would do the same as this plan of the ``rest``: only ``affected`` resources may act.

    Side effects, orphans, moves, outputs and undeclared records could concern resources that are left out: they need a
    whole plan.
    """
    indexes, prior = conclusion.indexes(), plan.prior
    for step in plan.steps:
        index = indexes.get(step.entry.key, -1)
        # Deferred: decided in apply, so it may act. Previous: the step moves a record.
        acts = step.decision is not SAME or step.refreshed_by or step.deferred or step.previous
        if index not in rest or (acts and (index not in affected or step.asks_side_effects)):
            return False
    changes = plan.output_changes or prior.undeclared or prior.orphans or prior.moved_keys
    return not changes and not prior.instances.commit.changes_state


def _without_left_out(state: StackState, catalog: Catalog) -> StackState:
    """Return the state with the requirements that ``catalog``, which lacks the resources left out, has for its entries.

    A record that still required a resource left out would differ from the new plan, and count as a record to write.
    """
    required = {entry.key: required_references(catalog, entry) for entry in catalog.entries}
    records = {
        key: record._replace(requires=required[key]) if key in required else record
        for key, record in state.records.items()
    }
    return state._replace(records=records)


def _would_record(plan: ExecutionPlan, several: Mapping[str, Implementations]) -> bool:
    """Return whether an apply would write records, which only a whole plan may: they name all required resources."""
    operations = (operation for operation in plan.operations if operation.step.entry.index not in plan.in_sync)
    return bool(Records(plan, several).differing(map(OperationRun, operations)))


# The rest of the manifest: the resources that are planned in every run


def _rest_of_files(plan: ExecutionPlan, conclusion: Conclusion, mask: Mask) -> list[Any] | None:
    """Return a manifest's files without the resources that are left out, as plain data to save.

    None if the data may hold a secret, or more than JSON can: then later runs parse the files again.
    """
    catalog, rest = plan.catalog, conclusion.rest()
    shoulds = (entry.should for entry in catalog.entries if entry.index in rest)
    if mask or not all(row_digests(shoulds)) or _may_hold_secret(catalog.manifest):
        return None
    documents = without(catalog.manifest.documents, conclusion.left_out(rest))
    files = [[document.file, document.data, _positions_as(document.heads(), list)] for document in documents]
    try:
        text = json.dumps(files)
    except (TypeError, ValueError, RecursionError):
        return None
    # JSON changes some data, such as keys that are numbers: that is not saved.
    return files if len(text) <= _MAX_CHARACTERS and json.loads(text) == files else None


def saved_documents(files: Sequence[Any]) -> list[Document]:
    """Return saved files as documents, whose text is parsed when a position is needed. Raises ``OSError``."""
    return [_saved_document(*file) for file in files]


def _saved_document(file: str, data: object, heads: Mapping[str, Mapping[str, object]]) -> Document:
    """Return a file's saved data as a document, so that the file need not be parsed again.

    ``heads``: the saved positions, section → key → position. Any other position is only needed for a message, and the
    file is parsed then.
    """
    raw, _ = reading.read_file(file)

    def index() -> Node:
        return reading.parse(raw, file).root or Node((1, 1), {})

    return Document(data, file, raw, index, _positions_as(heads, tuple))


def _positions_as(heads: Mapping[str, Mapping[str, object]], kind: Callable[[Any], Any]) -> dict[str, dict[str, Any]]:
    """Return ``heads`` (section → key → position) with positions as lists, which JSON has, or as tuples."""
    return {section: {key: kind(position) for key, position in heads[section].items()} for section in heads}


def _may_hold_secret(manifest: Manifest) -> bool:
    """Return whether a manifest may hold a secret outside of resources: then no part of it is saved in the cache."""
    inputs = any(value.sensitive or "Sensitive" in value.type for value in manifest.inputs.values())
    outputs = any(type(value) in {dict, Sensitive} for value in manifest.outputs.values())
    return inputs or outputs or bool(manifest.providers)
