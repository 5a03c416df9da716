"""Which resources of a catalog a run is about: targets, exclusions, tags.

Exactly what is named unless widened; ``*`` and ``?`` are the only wild characters (brackets are part of references).
The name of a component means all that it has made. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from resource_api.catalog.graph import descendants, reverse
from resource_api.model.values.errors import UsageError, nearest
from resource_api.model.values.reference import TYPE_NAME, Reference, component_chain, enclosing_components, parse_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.entry import Entry
    from resource_api.model.options import Options
    from resource_api.model.record import StackState


def matcher(pattern: str) -> Callable[[str], bool]:
    """Give a test for references: a reference with wild characters, or a bare type for all of it."""
    text = pattern[:1].upper() + pattern[1:]
    if "[" not in text and TYPE_NAME.match(text.lower()):
        text += "[*]"
    regex = re.compile("".join({"*": ".*", "?": "."}.get(c) or re.escape(c) for c in text), re.DOTALL)
    return lambda reference: regex.fullmatch(reference) is not None


def select(catalog: Catalog, options: Options) -> set[int] | None:
    """Give the indexes that the run is about; None means all. Raises ``UsageError`` for a name that matches nothing."""
    if not options.partial:
        return None
    chosen = set(range(len(catalog.entries)))
    if options.targets:
        chosen = _widened(matching(options.targets, catalog.entries, "--target"), catalog, options)
    if options.excludes:
        chosen -= matching(options.excludes, catalog.entries, "--exclude")
    if options.tags:
        chosen &= {entry.index for entry in catalog.entries if options.tags & tags(entry)}
    if options.skip_tags:
        chosen -= {entry.index for entry in catalog.entries if options.skip_tags & tags(entry)}
    return chosen


def matching(patterns: Iterable[str], entries: Sequence[Entry], option: str) -> set[int]:
    """Give the indexes of what each of ``patterns`` names; raises ``UsageError`` for one that names nothing."""
    found: set[int] = set()
    for pattern in patterns:
        matches = matcher(_reference(pattern, option))
        hits = {entry.index for entry in entries if any(map(matches, _names(entry)))}
        if not hits:
            hint = nearest(pattern, [name for entry in entries for name in _names(entry)])
            msg = f"{option} {pattern} matches no resource" + (f"; {hint}" if hint else "")
            raise UsageError(msg)
        found |= hits
    return found


def _reference(pattern: str, option: str) -> str:
    """Give a pattern for references; a URN means its resource."""
    if not pattern.startswith("urn:"):
        return pattern
    try:
        return str(parse_name(pattern))
    except ValueError as error:
        msg = f"{option}: {error}"
        raise UsageError(msg) from error


def _names(entry: Entry) -> list[str]:
    """Give what a resource may be called: its reference, its own part of that, and the components around it."""
    names = [str(entry.reference)]
    if entry.parent:
        names += [
            str(Reference(entry.type, entry.title)),
            *map(str, component_chain(entry.parent)),
            *enclosing_components(entry.parent),
        ]
    return names


def _widened(chosen: set[int], catalog: Catalog, options: Options) -> set[int]:
    found = set(chosen)
    if options.with_dependencies:
        found |= descendants(chosen, catalog.requires)
    if options.with_dependents:
        found |= descendants(chosen, reverse(catalog.requires))
    return found


def check_prune(catalog: Catalog, state: StackState, options: Options, *, named: bool) -> None:
    """A project that is only a file's name may be somebody else's: then nothing is deleted for being undeclared.

    ``named``: whoever runs it has named the project. Raises ``UsageError``.
    """
    manifest = catalog.manifest
    own = manifest.project_given or named or state.manifest in {"", manifest.file}
    if options.prune and not own:
        msg = (
            f"the state of project '{manifest.project}' was recorded from {state.manifest};"
            f" write 'project:' into {manifest.file} to delete what it records"
        )
        raise UsageError(msg)


def tags(entry: Entry) -> set[str]:
    """Give a resource's tags; its type's name and its title count as tags, and those of the components around it."""
    outer = (word for each in component_chain(entry.parent) for word in (each.type, each.title.lower()))
    return {*entry.meta.tags, entry.type, entry.title.lower(), *outer}
