"""The verdict on other orders of a catalog: the relationships that are missing, as text to paste into the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values import reference
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.rehearse import contents, side_effects
from resource_api.rehearse.orders import Relationships, Search, Tried
from resource_api.rehearse.result import Finding, Verdict, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.catalog.compile import Catalog
    from resource_api.model.declaration import Declaration
    from resource_api.model.entry import ComponentInstance, Entry

    #: What a manifest declares: a resource, or a component with its resources.
    Declared = Entry | ComponentInstance


class FirstRun(NamedTuple):
    """What the order of the file has come to."""

    catalog: Catalog
    #: The references of what is not rehearsed.
    left_out: Collection[str]
    #: As of ``once``: reference → why it has failed, and contents.
    document: Mapping[str, Any]
    #: Path → the references of those that have written it, in their order.
    writers: Mapping[str, Sequence[str]]


def free_in_order(run: FirstRun, count: int, attempt: Callable[[tuple[str, ...]], Mapping[str, Any]]) -> Verdict:
    """Return whether up to ``count`` other orders come to the same; ``attempt`` applies references in an order."""
    names = [str(entry.reference) for entry in run.catalog.entries]
    pairs = [(first, then) for then, before in run.catalog.requires.items() for first in before]
    aside = [index for index, name in enumerate(names) if name in run.left_out]
    known = Relationships(len(names), pairs, aside)
    shared = shared_paths(run.catalog.entries, run.writers)

    def tried(order: Sequence[int]) -> Tried:
        return _tried(attempt(tuple(names[index] for index in order)), shared)

    def missing(first: int, then: int, worse: Tried, changed: Sequence[str]) -> Finding:
        return _missing(run, (first, then), worse, changed, known)

    search = Search(known, _tried(run.document, shared), tried, missing)
    found = search.run(count)
    text = f"{search.tried} other order{'s' * (search.tried != 1)}"
    if known.unturned:
        text += f", {known.unturned} pairs of resources in the order of the file each time"
    return Verdict("free in order", not found, text, found)


def _tried(document: Mapping[str, Any], shared: Collection[str]) -> Tried:
    """Return what has come of one order: the owners are left out, as numbers are given to users in their order."""
    found = {
        path: (fields[0], fields[1], contents.in_any_order(digest) if path in shared else digest)
        for path, (fields, digest) in document["contents"].items()
        if not side_effects.is_common(path)
    }
    return Tried({each[0]: each[1] for each in document["run"]}, found)


def shared_paths(found: Sequence[Entry], writers: Mapping[str, Collection[str]]) -> set[str]:
    """Return the paths of files in which resources have parts, so that the order of the parts is of no account.

    ``writers``: the references of those that have written a path.
    """
    entries = {str(entry.reference): entry for entry in found}
    imperative = {name for name, entry in entries.items() if "imperative" in entry.definition.features}
    return {
        path
        for path, those in writers.items()
        if not any(each in imperative or (each in entries and entries[each].name == path) for each in those)
    }


def _missing(
    run: FirstRun, pair: tuple[int, int], worse: Tried, changed: Sequence[str], known: Relationships
) -> Finding:
    """Return that the second of a pair needs a relationship to the first, and how that is seen."""
    first, then = (run.catalog.entries[index] for index in pair)
    outer_first, outer = _siblings(run.catalog, first, then)
    if _may_require(outer, outer_first, known):
        text = needs(_own_name(outer_first))
    else:
        outer, text = then, f"must come after {first.reference}"
    failed = next((each for each in worse.failed if each != str(then.reference)), "")
    if changed:
        wrote = [
            each for each in (str(first.reference), str(then.reference)) if each in run.writers.get(changed[0], ())
        ]
        both = len(wrote) == 2  # noqa: PLR2004 - of the pair
        text = f"writes {changed[0]}, as {first.reference} does: {text}" if both else f"{text}, or {changed[0]} differs"
    elif failed and str(then.reference) not in worse.failed:
        text = f"{text}, or {failed} fails"
    return Finding(str(outer.reference), text, "", outer.declaration.place().line_text)


def _siblings(catalog: Catalog, first: Entry, then: Entry) -> tuple[Declared, Declared]:
    """Return those that the same file declares: the resources themselves, or the components around them."""
    pair = list(zip(_path(catalog, first), _path(catalog, then), strict=False))
    return next(((ours, theirs) for ours, theirs in pair if ours is not theirs), (first, then))


def _path(catalog: Catalog, entry: Entry) -> list[Declared]:
    """Return the components around a resource, the outermost first, and the resource."""
    around = [reference.parse(each) for each in reference.enclosing_components(entry.parent)]
    return [*(catalog.components[each] for each in reversed(around)), entry]


def _may_require(then: Declared, first: Declared, known: Relationships) -> bool:
    """Return whether no resource of the first must come after one of the other."""
    return not any(known.is_before(later.index, each.index) for later in _members(then) for each in _members(first))


def _members(each: Any) -> Sequence[Entry]:
    return getattr(each, "members", None) or [each]


def _own_name(each: Declared) -> str:
    """Return a name as the file that declares it writes it."""
    declared: Declaration = each.declaration
    return str(reference.Reference(declared.type, each.title))
