"""The laws of ``get`` and ``canonicalize``: what may be read, in which form, and that reading changes nothing.

What ``set`` does is another module's; here it only makes what is to be read.
"""

# ruff: noqa: S101 - assert is how a law speaks

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, example, given, reject, settings

from resource_api.catalog import canonicalize
from resource_api.model.values.text import show
from resource_api.testing import examples as trying
from resource_api.testing.harness import BLUNDERS, Bench, differing

if TYPE_CHECKING:
    from resource_api.model.type_definition import Resource


class GetLaws:
    """Reading is repeatable, declared, canonical, and complete for the names asked for."""

    def test_get_is_repeatable(self, bench: Bench) -> None:
        """Reading changes nothing: asked again, in the same transaction or a new one, ``get`` gives the same."""
        bench.need("readable")
        bench.apply(bench.examples.present)
        provider = bench.provider()
        with bench.still("get"):
            assert bench.look(provider) == bench.look(provider), "get gives something else when it is asked again"

    def test_get_honours_the_declaration(self, bench: Bench) -> None:
        """Every row has its name, nothing undeclared, and values of the declared data types, once per resource."""
        bench.need("readable")
        bench.apply(bench.examples.present)
        definition, seen = bench.definition, set()
        for row in bench.rows():
            missing = [namevar for namevar in definition.namevars if row.get(namevar) is None]
            assert not missing, f"get returns a resource without its namevar {missing}: nobody could name it"
            name = definition.name_of(row)
            strange = row.keys() - definition.attributes.keys()
            assert not strange, (
                f"the next plan would fail: get returns the undeclared {sorted(strange)} of {show(name)}"
            )
            kept = sorted(row.keys() & definition.write_only)
            assert not kept, f"get returns {kept} of {show(name)}, declared write_only"
            wrong = [problem.message for problem in canonicalize.check_values(definition, row)]
            assert not wrong, f"the next plan would fail: get returns of {show(name)} {'; '.join(wrong)}"
            assert name not in seen, f"the next plan would fail: get returns {show(name)} more than once"
            seen.add(name)

    def test_get_is_canonical(self, bench: Bench) -> None:
        """``canonicalize`` leaves every row of ``get`` as it is, name included."""
        bench.need("readable", "canonicalize")
        bench.apply(bench.examples.present)
        rows = bench.rows()
        for row, canonical in zip(rows, _canonicalize(bench, rows), strict=True):
            changed = differing(row, canonical)
            assert not changed, f"the next plan would not be empty: get returns {changed} of {row} in another form"

    def test_get_returns_at_least_the_named(self, bench: Bench) -> None:
        """Asked for some names ``get`` gives those that exist, as it lists them; what is missing is no error."""
        bench.need("readable", "simple_get_filter")
        resources = bench.examples.all if bench.definition.ensurable else [bench.examples.present]
        names = bench.names(*resources)
        bench.existing(names)
        bench.get([])
        bench.apply(*resources)
        for wanted in (names, *([name] for name in names)):
            found = bench.existing(wanted)
            lost = [name for name in wanted if name not in found]
            assert not lost, f"{lost} would be created again: get does not return it when asked for {wanted}"

    def test_get_lists_what_it_finds_by_name(self, bench: Bench) -> None:
        """Asked for all ``get`` gives what it gives by name, unless it says that it cannot list."""
        bench.need("readable", "simple_get_filter")
        bench.apply(bench.examples.present)
        name = bench.names(bench.examples.present)[0]
        rows = bench.listing()
        if rows is None or not bench.listed(bench.examples.present):
            return
        found = bench.existing([name])[name]
        listed = next((row for row in rows if bench.definition.name_of(row) == name), None)
        assert listed is not None, (
            f"'resource {bench.definition.name}' would not show {show(name)}: get(None) leaves it out"
        )
        moving = bench.definition.names_of_kind("read_only")
        changed = [each for each in differing(listed, found) if each not in moving]
        assert not changed, f"get says other {changed} of {show(name)} when asked for it than when it lists all"

    def test_canonicalize_is_idempotent(self, bench: Bench) -> None:
        """What is canonical stays as it is, for every value that the data types accept, whatever else is declared."""
        bench.need("canonicalize")
        ours = bench.examples
        known = [each for each in (ours.present, ours.updated, *ours.others) if each is not None]

        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        @given(trying.drawn(bench.definition, known))
        def law(resource: Resource) -> None:
            once = _tried(bench, resource)
            moved = once.keys() ^ resource.keys()
            assert not moved, f"canonicalize adds or drops {sorted(moved)}: it gets only what is declared, {resource}"
            if canonicalize.check_values(bench.definition, once):
                reject()
            changed = differing(once, _tried(bench, once))
            assert not changed, f"the next plan would not be empty: canonicalize has no last form of {changed}: {once}"

        for each in trying.spelt(bench.definition, ours.present):
            law = example(each)(law)
        law()


def _canonicalize(bench: Bench, resources: list[Resource]) -> list[Resource]:
    canonicalize = bench.runtime.tools(bench.definition.name).canonicalize
    assert canonicalize is not None
    return canonicalize(resources)


def _tried(bench: Bench, resource: Resource) -> Resource:
    """Canonicalize what the declaration accepts; that may be refused, but with an error meant for the user."""
    try:
        return _canonicalize(bench, [resource])[0]
    except BLUNDERS as error:
        error.add_note(f"canonicalize does not expect {resource}, which the declaration accepts")
        raise
    except Exception:  # noqa: BLE001 - a refusal
        reject()
