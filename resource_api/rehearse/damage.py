"""Damage the resources of a manifest, and check that the next run detects and repairs it.

Created resources are removed, and each declared attribute gets another value, one after another and by the provider
itself, as ``resource-api resource`` would. It counts as damage if a file is different afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.action import CREATING
from resource_api.model.change import exists
from resource_api.model.values.errors import ManifestError, ResourceAPIError
from resource_api.model.values.reference import Reference
from resource_api.model.values.start_up import NamedTuple, regex
from resource_api.model.values.values import is_unknown, literal, reveal, same_value
from resource_api.rehearse import side_effects
from resource_api.rehearse.result import Finding, finding
from resource_api.runtime.runtime import Runtime
from resource_api.system.overlay.overlay import (
    comparable,
    describe_differing,
    differing_paths,
    in_any_order,
    read_contents,
)
from resource_api.transaction.verify import NOT_CONVERGED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from resource_api.model.datatypes.datatype import DataType
    from resource_api.model.report import RunReport, StepReport
    from resource_api.model.step import Step
    from resource_api.system.overlay.overlay import Contents

    #: The declarations that are tried until one changes a file: attribute → value.
    Bodies = Sequence[Mapping[str, Any]]

_UNREADABLE: Final = "what it does cannot be read back"
_WRITE_ONLY: Final = "its value cannot be read back"
#: Values that many data types and machines accept: the name of a user and of a group, numbers, a path.
_COMMON_VALUES: Final = ("daemon", "1", "/", True, False, 1)
_MOST_VALUES: Final = 12
#: Parts of a reason for programmers: the number of a system error, and the line of a provider.
_FOR_PROGRAMMERS: Final = regex(r"\[Errno \d+\] | \([^()\s]+:\d+ in \w+\)$")


class Damage(NamedTuple):
    """One damage to a resource."""

    step: Step
    #: The attribute that gets another value; empty: the resource is removed, or created where it was removed.
    attribute: str
    bodies: Bodies
    #: The reason why it cannot be done, or "".
    obstacle: str = ""

    @property
    def event(self) -> str:
        """The damage, as the beginning of a finding's text: ``it was removed``."""
        if self.attribute:
            return f"{self.attribute} was changed"
        return "it was removed" if exists(self.step.should) else "it was made again"

    @property
    def act(self) -> str:
        """The provider's action that does the damage, as the subject of a finding's text: ``a removal``."""
        if self.attribute:
            return f"an update of {self.attribute}"
        return "a removal" if exists(self.step.should) else "a creation"


class Damaged(NamedTuple):
    """The results of the damages that were tried on one overlay."""

    tried: int
    not_restored: Sequence[Finding]
    not_damaged: Sequence[Finding]
    #: The number of the next damage, for another overlay, or None after the last.
    next_damage: int | None


def damages(steps: Sequence[Step], first: RunReport) -> Iterator[Damage]:
    """Yield the damages to try after the run ``first``, for the ``steps`` of a plan after it.

    A damage that cannot be done has an obstacle, which is reported.
    """
    successes = {report.reference: report for report in first.steps if report.status == "success"}
    for step in steps:
        if step.noop or is_unknown(list(step.should.values())):  # unknown ones cannot be declared
            continue
        if "imperative" in step.definition.features:
            yield Damage(step, "", (), _UNREADABLE)
            continue
        before = successes.get(str(step.reference))
        yield from _existence(step, before)
        if exists(step.should):
            yield from _attributes(step, before, [peer for peer in steps if peer.definition.name == step.entry.type])


def _existence(step: Step, before: StepReport | None) -> Iterator[Damage]:
    """Yield the removal of a resource that the first run created, or the creation of one that it removed.

    ``before``: the report of the resource's step in that run, None if it did not change the resource. Then nothing is
    yielded. A resource to create again gets the values that it had before the removal, as ``absent`` declares none.
    """
    if before is None:
        return
    if exists(step.should) and before.action in CREATING and step.definition.ensurable:
        yield Damage(step, "", [_removal(step)])
    elif not exists(step.should) and (row := before.step.is_) is not None:
        values = {name: row[name] for name in step.definition.managed if row.get(name) is not None}
        yield Damage(step, "", [{**step.should, **values}])


def _attributes(step: Step, before: StepReport | None, alike: Sequence[Step]) -> Iterator[Damage]:
    """Yield a damage for each attribute with a declared value: another value, or the reason why it cannot be damaged.

    A data type does not determine the values that the machine accepts. The values to try are therefore the one before
    the run, those of resources of the same type (``alike``), and similar ones. ``before``: the report of the
    resource's step in the run, None if it did not change the resource.
    """
    definition, should = step.definition, step.should
    for name in definition.managed:
        if name == "ensure" or should.get(name) is None or name in step.entry.meta.lifecycle.ignore_changes:
            continue
        if name in definition.write_only:
            yield Damage(step, name, (), _WRITE_ONLY)
            continue
        candidates = [change.is_ for change in (before.changes if before else ()) if change.attribute == name]
        candidates += [peer.should.get(name) for peer in alike]
        yield Damage(step, name, _bodies(step, name, candidates))


def _bodies(step: Step, name: str, candidates: Iterable[object]) -> Bodies:
    """Return declarations of a resource with other values of the attribute ``name``, and if possible without it.

    They are tried one by one until a file changes: the machine may refuse a value, or not tell it from the present one.
    """
    plain, *plain_candidates = (literal(reveal(value)) for value in (step.should[name], *candidates))
    values = other_values(step.definition.attributes[name].datatype, plain, plain_candidates)
    bodies: list[Mapping[str, object]] = [{**step.should, name: value} for value in values]
    if name not in step.definition.mandatory:
        bodies.append({key: value for key, value in step.should.items() if key != name})
    return bodies


def _removal(step: Step) -> dict[str, Any]:
    """Return the declaration that removes a resource, to damage it.

    It has the names and the parameters, such as ``force``, which tell the provider how to remove; the other attributes
    would describe an existing resource.
    """
    definition = step.definition
    identity = {*definition.namevars, *definition.parameters}
    return {**{name: value for name, value in step.should.items() if name in identity}, "ensure": "absent"}


class Compared:
    """Compares the contents of an overlay before a damage and after its repair."""

    def __init__(self, first: Contents, second: Contents, shared: Collection[str]) -> None:
        """Compare with the overlay's contents after two creations, the ``first`` and the ``second``.

        Paths that differ between these, as by a time, are not compared, nor is the order of lines in ``shared`` files,
        to which more than one resource contributes.
        """
        self._shared = shared
        #: Paths that differ between the two creations; among them those that only one of the two has made.
        self._unsteady = differing_paths(first, second)
        self._in_one_only = first.keys() ^ second.keys()

    def differing(self, before: Contents, after: Contents) -> set[str]:
        """Return the paths at which contents differ, except those that are not compared."""
        paths = differing_paths(before, after) - self._in_one_only
        return {path for path in paths if self._fields(path, before.get(path)) != self._fields(path, after.get(path))}

    def _fields(self, path: str, entry: object) -> Any:
        """Return the fields of a path's entry that are compared, or None if there is no file.

        The digest is left empty for a path whose content differs even between two creations, as a repair need not
        restore it. Of a shared file it disregards the order of lines, which may be another after a repair.
        """
        fields = comparable(entry)
        if fields is None:
            return None
        *status, digest = fields
        if path in self._unsteady:
            digest = ""
        elif path in self._shared:
            digest = in_any_order(digest)
        return *status, digest


class Damager:
    """Damages a resource on an overlay, and repairs it by a run, one after another."""

    def __init__(self, runtime: Runtime, layers: int, apply: Callable[[], RunReport], compared: Compared) -> None:
        """Store the tools: ``runtime`` makes the damage, ``apply`` is the run that should repair it.

        The files are read from the overlay's ``layers`` before and after, and ``compared`` finds the differences.
        """
        self._runtime = runtime
        self._layers = layers
        self._apply = apply
        self._compared = compared
        #: The two latest readings of the overlay, see ``_read``.
        self._before: Contents = {}
        self._contents: Contents = {}

    def try_from(self, candidates: Sequence[Damage], start: int) -> Damaged:
        """Try damages from number ``start`` on, each with its repair, until one is not repaired; return the results.

        An unrepaired damage spoils the overlay: the caller continues on a new one, with ``next_damage``. A damage that
        changes no file does not count as tried; it is reported with the reason.
        """
        self._contents = read_contents(self._layers)
        tried, not_damaged = 0, []
        for next_damage, damage in enumerate(candidates[start:], start + 1):
            changed, obstacle = self._damage(damage)
            ineffective = obstacle.startswith(NOT_CONVERGED)  # the provider's fault, so it counts as tried
            if not (changed or ineffective):
                text = f"{damage.attribute}: {obstacle}" if damage.attribute else obstacle
                not_damaged.append(finding(damage.step, text, damage.attribute))
                continue
            tried += 1
            problem = f"{damage.act} {obstacle}" if ineffective else self._repair(damage, changed)
            if problem:
                bad = finding(damage.step, problem, damage.attribute)
                return Damaged(tried, [bad], not_damaged, next_damage if next_damage < len(candidates) else None)
        return Damaged(tried, (), not_damaged, None)

    def _damage(self, damage: Damage) -> tuple[set[str], str]:
        """Damage a resource; return the changed paths and "", or no path and the reason why no file changed.

        The declarations of the damage are applied one by one until a file changes. If none changes one, those without
        an error are tried again as replacements. There is no such second try after an update that does not converge:
        this is a fault of the provider and the reason to report, unlike a value that the machine refuses.
        """
        obstacle, without_error = damage.obstacle, []
        for body in damage.bodies:
            error = self._set(damage.step, body)
            if changed := self._changed():
                return changed, ""
            if not error:
                without_error.append(body)
            elif not obstacle.startswith(NOT_CONVERGED):
                obstacle = error
        if obstacle.startswith(NOT_CONVERGED):
            return set(), obstacle
        changed = self._changed_by_replacement(damage.step, without_error)
        return changed, "" if changed else obstacle or "no other value makes a difference"

    def _changed_by_replacement(self, step: Step, bodies: Bodies) -> set[str]:
        """Replace a resource by each of ``bodies`` until a file changes; return the changed paths, or none.

        An update with these declarations did nothing: a wrong ``get`` or ``insync`` of the provider reports no
        difference. A replacement does not depend on it.
        """
        for body in bodies:
            self._set(step, body, replaced=True)
            changed = self._changed()
            # Paths that differ between any two creations are no damage.
            if changed & self._compared.differing(self._before, self._contents):
                return changed
        return set()

    def _changed(self) -> set[str]:
        """Read the overlay again; return the paths, caches and logs left out, that the last action has changed."""
        return {path for path in self._read() if not side_effects.is_cache(path)}

    def _set(self, step: Step, body: Mapping[str, object], *, replaced: bool = False) -> str:
        """Apply the attributes ``body`` to one resource; return the error, without parts for programmers, or "".

        ``replaced``: delete and create it, so that the provider acts although its ``get`` reports no difference.
        """
        reference = str(Reference(step.definition.name, step.entry.title))
        # With an empty state of its own: the next run of the manifest must not know of the damage.
        runtime = Runtime(self._runtime.registry, run=self._runtime.run, facts=self._runtime.facts)
        declared = {step.definition.spelling(name): literal(reveal(value)) for name, value in body.items()}
        manifest = {"project": "damage", "resources": {reference: declared}}
        try:
            report = runtime.apply(manifest, replace=[reference] if replaced else [])
        except ManifestError as error:
            return "; ".join(problem.message for problem in error.problems)
        except ResourceAPIError as error:
            return _FOR_PROGRAMMERS.sub("", str(error))
        return _FOR_PROGRAMMERS.sub("", next((outcome.error for outcome in report.steps if outcome.error), ""))

    def _repair(self, damage: Damage, changed: set[str]) -> str:
        """Make the run that should repair a damage; return the problem that remains, as a finding's text, or "".

        ``changed``: the paths that the damage changed. The run has detected the damage if it reports a step for the
        resource. Three problems are possible: the run fails, does not see the damage, or does not restore the files.
        """
        before, damaged = self._before, self._contents  # the readings around the damage
        report = self._apply()
        self._read()
        after = self._contents
        failed = next((step for step in report.steps if step.status == "failed"), None)
        if failed is not None:
            who = "" if failed.reference == str(damage.step.reference) else f" of {failed.reference}"
            return f"{damage.event}; the next run{who} fails: {failed.error}"
        detected = any(step.reference == str(damage.step.reference) for step in report.steps)
        differing = changed & self._compared.differing(before, after)
        remaining = sorted(path for path in differing if not side_effects.is_common(path))
        if detected:
            return f"{damage.event}; after the next run {describe_differing(remaining)} still" if remaining else ""
        # Some contents are not compared, as with a time: their paths are still damaged if the run did not write them.
        still_damaged = changed - differing_paths(damaged, after)
        return f"{damage.event}; the next run does not see it" if remaining or still_damaged else ""

    def _read(self) -> set[str]:
        """Read the overlay again; return the paths that differ from the previous reading, which is kept."""
        self._before, self._contents = self._contents, read_contents(self._layers, self._contents)
        return differing_paths(self._before, self._contents)


def other_values(datatype: DataType, value: object, candidates: Iterable[object] = ()) -> list[Any]:
    """Return values other than ``value`` to damage an attribute with, beginning with the likeliest to be accepted.

    All are valid for the data type, but a machine may refuse some, so there is more than one. In this order:
    ``candidates``, which the machine has accepted elsewhere, the words of the data type, values similar to ``value``,
    common values.
    """
    values: list[object] = []
    words = [word for leaf in datatype.leaves for word in leaf.words]
    for candidate in (*candidates, *words, *_near(value), *_COMMON_VALUES):
        new = candidate is not None and not any(same_value(candidate, former) for former in (value, *values))
        if new and datatype.accepts(candidate):
            values.append(candidate)
    return values[:_MOST_VALUES]


def _near(value: object) -> Iterator[Any]:
    """Yield values that differ from ``value`` in a small part, which a machine is likely to accept as well.

    These are a neighbouring number, a text with another last letter, and a list or mapping with one member changed or
    removed; an empty list gets a member.
    """
    match value:
        case bool():
            yield not value
        case int() | float():
            yield from (value + 1, value - 1)
        case str():
            yield from _near_text(value)
        case []:
            yield from ([member] for member in _COMMON_VALUES)
        case [*others, last]:
            yield others
            yield from ([*others, member] for member in _near(last))
        case dict():
            for key, item in value.items():
                yield {name: member for name, member in value.items() if name != key}
                yield from ({**value, key: member} for member in _near(item))


def _near_text(text: str) -> Iterator[str]:
    """Yield texts with another last letter or digit, or one more: for ``0644`` 0645, 0644x, x0644 and 06441."""
    for index in reversed(range(len(text))):
        last = text[index]
        if last.isalnum():
            # An octal digit, as of a mode, or a letter.
            new = str((int(last) + 1) % 8) if last.isdecimal() else "b" if last == "a" else "a"
            yield f"{text[:index]}{new}{text[index + 1 :]}"
            break
    yield from (f"{text}x", f"x{text}", f"{text}1")
