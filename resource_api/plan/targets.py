"""Selects the resources of a run: targets, exclusions, tags; and the dependents that a partial run leaves out.

Only named resources are selected, unless options add their dependencies or dependents. A name that a resource has means
that resource alone; in any other, ``*`` and ``?`` are the only wildcards, because brackets are part of references. The
name of a component means all its resources. Pure.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from resource_api.catalog.graph import descendants, reverse
from resource_api.catalog.resource_table import matcher, selecting_names
from resource_api.model.action import Action
from resource_api.model.change import exists
from resource_api.model.values import reference
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import UsageError, hint
from resource_api.model.values.reference import capitalize_type, child_reference, component_chain, parse_name
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import show_first
from resource_api.plan.replacement import fail
from resource_api.prior.match import Prior, recorded_dependents

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.catalog.resource_table import LeftOuts
    from resource_api.model.entry import ComponentInstance, Entry
    from resource_api.model.options import Options
    from resource_api.model.provider_functions import PlannerQueries
    from resource_api.model.record import Record, StackState
    from resource_api.model.step import Step

#: The options whose names may be those of left-out resources.
_OF_LEFT_OUT: Final = ("--target", "--exclude")
#: How many undeclared resources a message names.
_NAMED: Final = 5
#: The number of left-out resources that the warning about them names.
_LEFT_OUT_NAMED: Final = 50


def select(
    catalog: Catalog,
    options: Options,
    recorded_dependents: Callable[[], Mapping[int, Iterable[int]]] = dict,
    undeclared: Collection[int] = (),
    untouched: Sequence[Record] = (),
    *,
    leftovers: Mapping[int, Collection[int]] = MappingProxyType({}),
) -> set[int]:
    """Return the indices of the resources that the options of a partial run select, such as ``--target``.

    Raises ``UsageError`` for a name without a match, and if a resource of ``--replace`` is not selected.
    ``recorded_dependents`` returns index → the dependents by records alone. ``undeclared``: indices of resources that
    only state has; ``untouched``: records that this run leaves alone. ``leftovers``: index → old resources of its name,
    not deleted by an earlier run, which the name selects too.
    """
    if _are_all(undeclared, catalog):  # the run destroys: its catalog is made of records alone
        for option, _ in _unmatched_tags(catalog, options):  # as for destroy, which has no declared tags
            advice = "nothing recorded has this type or title, and tags are not recorded; use --target or --exclude"
            raise UsageError(f"{option}: {advice}")
        undeclared = ()  # here a tag is a type or title, which is recorded
    chosen = set(range(len(catalog.entries)))
    if options.targets:
        indexes = _with_leftovers(matching(options.targets, catalog, "--target", untouched), leftovers)
        chosen = _with_related(indexes, catalog, options, recorded_dependents)
    chosen -= _with_leftovers(excluded(catalog, options, untouched), leftovers)
    if options.tags:
        chosen &= {entry.index for entry in catalog.entries if options.tags & tags(entry)}
    if options.skip_tags:  # tags are not recorded: any undeclared resource may have had one to skip
        chosen -= {entry.index for entry in catalog.entries if options.skip_tags & tags(entry)}.union(undeclared)
    for pattern in options.replace:
        if chosen.isdisjoint(matching([pattern], catalog, "--replace", untouched)):
            raise UsageError(f"--replace {pattern} is left out by {' '.join(_selection_options(options))}")
    return chosen


def _with_leftovers(indexes: set[int], leftovers: Mapping[int, Collection[int]]) -> set[int]:
    """Add to indices the old resources of the same name that an earlier run replaced and has not deleted yet."""
    return indexes.union(*(leftovers[index] for index in indexes & leftovers.keys()))


def excluded(catalog: Catalog, options: Options, untouched: Sequence[Record] = ()) -> set[int]:
    """Return the indices of the resources of ``--exclude``. Raises ``UsageError`` for a name without a match."""
    return matching(options.excludes, catalog, "--exclude", untouched) if options.excludes else set()


def _are_all(undeclared: Collection[int], catalog: Catalog) -> bool:
    """Return whether all resources of a catalog come from state alone, as for ``destroy``."""
    return 0 < len(undeclared) == len(catalog.entries)


def _unmatched_tags(catalog: Catalog, options: Options) -> Iterator[tuple[str, str]]:
    """Yield ``--tags TAG`` or ``--skip-tags TAG``, and a hint to the nearest tag, for each tag that no resource has.

    Such a tag is probably misspelt: it is a warning, or an error where tags can only be types and titles.
    """
    existing = {tag for entry in catalog.entries for tag in tags(entry)} if options.tags or options.skip_tags else ()
    for option, selected in (("--tags", options.tags), ("--skip-tags", options.skip_tags)):
        for tag in sorted(selected.difference(existing)):
            yield f"{option} {tag}", hint(tag, existing)


def _selection_options(options: Options) -> Iterator[str]:
    """Yield the options that select resources, such as ``--target File[/a]``, as on the command line, for a message."""
    yield from (f"--target {pattern}" for pattern in options.targets)
    yield from (f"--exclude {pattern}" for pattern in options.excludes)
    yield from (f"--tags {tag}" for tag in sorted(options.tags))
    yield from (f"--skip-tags {tag}" for tag in sorted(options.skip_tags))


def tag_warnings(catalog: Catalog, options: Options, undeclared: Collection[int]) -> Iterator[str]:
    """Yield a warning for each tag that no resource has, and one if ``--skip-tags`` leaves alone recorded resources.

    ``undeclared``: the indices of recorded resources that the manifest no longer declares. Their tags are not known.
    """
    for option, advice in _unmatched_tags(catalog, options):
        yield f"{option}: no resource has this tag{advice}"
    if options.skip_tags and undeclared and not _are_all(undeclared, catalog):
        names = show_first([catalog.entries[index].reference for index in undeclared], _NAMED)
        yield f"--skip-tags leaves alone what is no longer declared, because tags are not recorded: {names}"


def matching(patterns: Iterable[str], catalog: Catalog, option: str, untouched: Sequence[Record] = ()) -> set[int]:
    """Return the indices of a catalog's resources that ``patterns`` match. Raises ``UsageError`` for no match.

    With ``--target`` and ``--exclude`` the name of a resource whose ``when`` is false is no error.
    """
    entries = catalog.entries
    left_out = catalog.left_out if option in _OF_LEFT_OUT else None
    indices = matching_indices(patterns, entries, option, untouched, aliases(catalog), left_out=left_out)
    return {entries[index].index for index in indices}


def matching_indices(
    patterns: Iterable[str],
    resources: Sequence[Entry | Record],
    option: str,
    untouched: Sequence[Record] = (),
    aliases: Mapping[str, str] = MappingProxyType({}),
    *,
    left_out: LeftOuts | None = None,
) -> set[int]:
    """Return the indices of the ``resources`` that ``patterns`` match; an exact name comes before wildcards.

    Raises ``UsageError`` for a pattern without a match; its message names the matching ``untouched`` records, which
    only a run with ``--prune`` concerns. ``aliases``: second name → reference. ``left_out``: the resources whose
    condition (``when``) is false; their names are no error, and select nothing.
    """
    indices: set[int] = set()
    for pattern in patterns:
        text = _reference(pattern, option)
        text = aliases.get(text, text)
        whole = pattern.startswith("urn:")
        names = [selecting_names(resource, whole=whole) for resource in resources]
        untouched_names = [selecting_names(record, whole=whole) for record in untouched]
        matched, undeclared = _exact_matches(text, names), _exact_matches(text, untouched_names)
        if not (matched or undeclared):
            matched, undeclared = _pattern_matches(text, names), _pattern_matches(text, untouched_names)
        if not matched and not (left_out is not None and left_out.match(text, matcher(text))):
            records = [untouched[index] for index in sorted(undeclared)]
            similar = hint(pattern, (name for row in names for name in row))
            advice = f" that is declared: {_prune_advice(records, option)}" if records else similar
            raise UsageError(f"{option} {pattern} matches no resource{advice}")
        indices |= matched
    return indices


def _exact_matches(text: str, names: Sequence[Sequence[str]]) -> set[int]:
    """Return the indices of the resources with exactly this name: as reference, or else as another name."""
    matches = {index for index, candidate in enumerate(names) if text in candidate}
    return {index for index in matches if names[index][0] == text} or matches


def _pattern_matches(text: str, names: Sequence[Sequence[str]]) -> set[int]:
    """Return the indices of the resources of which any name matches the wildcards of a reference, or its type."""
    matches = matcher(text)
    return {index for index, candidate in enumerate(names) if any(map(matches, candidate))}


def aliases(catalog: Catalog) -> dict[str, str]:
    """Return alias → reference, both with the enclosing component, so that options match the second name too."""
    every: list[Entry | ComponentInstance] = [*catalog.entries, *catalog.components.values()]
    return {
        str(child_reference(declared.parent, declared.type, alias)): str(declared.reference)
        for declared in every
        for alias in declared.meta.aliases
    }


def _prune_advice(records: Sequence[Record], option: str) -> str:
    """Return the advice for an option that matched only undeclared ``records``: the effect of ``--prune`` on them."""
    verb, them = ("is", "it") if len(records) == 1 else ("are", "them")
    effect = " or ".join(sorted({record.prune_effect for record in records}))
    advice = f"without --prune nothing is done to {them}" if option == "--exclude" else f"--prune {effect} {them}"
    names = show_first([record.reference for record in records], _NAMED)
    return f"{names} {verb} recorded but no longer declared; {advice}"


def check_stack(patterns: Iterable[str], option: str, state: StackState) -> None:
    """Raise ``UsageError`` for a URN of another stack: its reference alone would mean a resource of this one."""
    for pattern in patterns:
        with errors_as(UsageError, begin=f"{option}: "):
            reference.check_stack(pattern, state.project, state.stack)


def check_stacks(options: Options, state: StackState) -> None:
    """Raise ``UsageError`` for a URN of another project or stack in the options that name resources.

    Only the reference in a URN selects resources, so such a URN would select one of this stack by mistake.
    """
    for option, patterns in (
        ("--target", options.targets),
        ("--exclude", options.excludes),
        ("--replace", options.replace),
    ):
        check_stack(patterns, option, state)


def _reference(pattern: str, option: str) -> str:
    """Return the reference of a URN or pattern: ``file[*]`` → ``File[*]``. Raise ``UsageError`` for a malformed URN."""
    if not pattern.startswith("urn:"):
        return capitalize_type(pattern)
    with errors_as(UsageError, begin=f"{option}: "):
        return str(parse_name(pattern))


def _with_related(
    chosen: set[int], catalog: Catalog, options: Options, recorded_dependents: Callable[[], Mapping[int, Iterable[int]]]
) -> set[int]:
    """Return the chosen entries with those that ``--with-dependencies`` and ``--with-dependents`` add.

    Dependents are those in the catalog, and those that only records name: a resource that is no longer declared can
    have dependents, too.
    """
    related = set(chosen)
    if options.with_dependencies:
        related |= descendants(chosen, catalog.requires)
    if options.with_dependents:
        dependents = reverse(catalog.requires)
        for index, more in recorded_dependents().items():
            dependents.setdefault(index, []).extend(more)
        related |= descendants(chosen, dependents)
    return related


def check_prune(catalog: Catalog, state: StackState, *, project_named: bool) -> None:
    """Raise ``UsageError`` if a run would prune resources that another manifest with the same file name has recorded.

    A manifest without ``project:`` has a project named after its file: two files of the same name share one state, and
    each would delete the resources of the other. ``project_named``: the user named the project by an option.
    """
    manifest = catalog.manifest
    if not (manifest.has_project or project_named or state.manifest in {"", manifest.recorded_as}):
        msg = (
            f"the state of project '{manifest.project}' was recorded from {state.manifest};"
            f" write 'project:' into {manifest.file} to delete what it records"
        )
        raise UsageError(msg)


def tags(entry: Entry) -> set[str]:
    """Return a resource's tags; as in Puppet, its type and title and those of enclosing components are tags too."""
    outer = (word for component in component_chain(entry.parent) for word in (component.type, component.title.lower()))
    return {*entry.meta.tags, entry.type, entry.title.lower(), *outer}


class IncompleteRun(NamedTuple):
    """Resources that a run leaves out because excluded ones that they need are missing."""

    entries: Collection[Entry]
    missing: Collection[Entry]

    def __str__(self) -> str:
        """Return the warning for the user, with the first resources that are missing, and those left out."""
        verb, them = ("is", "it") if len(self.missing) == 1 else ("are", "them")
        missing, entries = (
            show_first([entry.reference for entry in part], _LEFT_OUT_NAMED) for part in (self.missing, self.entries)
        )
        return f"--exclude: {missing} {verb} not there, and what needs {them} is left out too: {entries}"


def needed(catalog: Catalog, excluded: Collection[int], selected: Collection[int]) -> set[int]:
    """Return the ``excluded`` entries that a ``selected`` entry requires and that are declared present.

    The run does not change them, but reads whether they exist: without them the selected entry could not be applied,
    and ``leave_out`` removes it from the selection.
    """
    # The effect of an imperative resource cannot be read back.
    readable = [index for index in excluded if "imperative" not in catalog.entries[index].definition.features]
    missable = {index for index in readable if exists(catalog.entries[index].should)}
    return missable & descendants(selected, catalog.requires) if missable else missable


def leave_out(
    catalog: Catalog, prior: Prior, needed: Collection[int], selected: Collection[int], queries: PlannerQueries
) -> IncompleteRun | None:
    """Return the ``selected`` entries that cannot be applied because an excluded entry they require does not exist.

    The run leaves them out with a warning. None if there is no such entry. ``needed``: the excluded entries that
    selected ones require, as the function ``needed`` returns them.
    """
    missing = [index for index in sorted(needed) if not _is_there(catalog, prior, catalog.entries[index], queries)]
    if not missing:
        return None
    dependents = descendants(missing, reverse(catalog.requires)).intersection(selected)
    entries = [catalog.entries[index] for index in sorted(dependents.difference(prior.orphans))]
    entries = [entry for entry in entries if exists(entry.should)]
    return IncompleteRun(entries, [catalog.entries[index] for index in missing]) if entries else None


def _is_there(catalog: Catalog, prior: Prior, entry: Entry, queries: PlannerQueries) -> bool:
    """Return whether an excluded resource exists; if it cannot be read now, whether it is recorded as existing.

    Without the record, all resources that require it would be left out before the provider is installed or configured.
    """
    row, failure = queries.observation(entry)
    instance = catalog.instances.get(entry.instance)
    unread = entry.instance in catalog.missing or (instance is not None and instance.pending)
    record = prior.records.get(entry.index)
    return exists(row) or (bool(failure or unread) and record is not None and exists(record.is_))


def check_untargeted_dependents(
    catalog: Catalog, prior: Prior, steps: Mapping[int, Step], selected: Collection[int]
) -> None:
    """Raise ``UsageError`` if a run would delete an undeclared resource that resources outside of ``selected`` need.

    A partial run does not change these dependents, and would leave them without a requirement. The error names all of
    them, direct or not. ``steps`` are by the index of their entry.
    """
    deleted = [
        index
        for index in steps.keys() & prior.orphans.keys()
        if steps[index].decision.action is Action.DELETE and not steps[index].decision.error
    ]
    dependents = recorded_dependents(catalog, prior) if deleted else {}
    for index in sorted(deleted):
        if remaining := sorted(descendants([index], dependents) - set(selected)):
            name = catalog.entries[index].reference
            names = ", ".join(str(catalog.entries[dependent].reference) for dependent in remaining)
            msg = (
                f"deleting {name} would leave {names} without what they need;"
                f" add them with --with-dependents, or leave out {name} too"
            )
            raise UsageError(msg)


def fail_with_untargeted_dependents(steps: Iterable[Step], dependents: Mapping[int, str]) -> list[Step]:
    """Fail the replacements that would need a replacement outside of the targets, which the run must not make.

    ``dependents``: index of the replaced entry → an untargeted resource to be replaced with it.
    """
    errors = {
        index: f"would take {dependent} along, which is not among the targets; --with-dependents adds it"
        for index, dependent in dependents.items()
    }
    return [fail(step, errors[step.entry.index]) if step.entry.index in errors else step for step in steps]
