"""The laws of ``get`` and ``canonicalize``: what may be returned, in which form, and that reading changes nothing.

The laws of ``set`` must not enter here; it is used only to create what is read.
"""

# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, example, given, reject, settings

from resource_api.catalog import canonicalize
from resource_api.model.values.text import show
from resource_api.testing.examples import generated_resources, respelled_resources
from resource_api.testing.harness import PROGRAMMING_ERRORS, Harness, differences

if TYPE_CHECKING:
    from resource_api.model.type_definition import Resource


class GetLaws:
    """Rows are repeatable, as declared, canonical, and complete for the requested names."""

    def test_get_is_repeatable(self, harness: Harness) -> None:
        """``get`` changes nothing and returns the same again, in the same transaction or a new one."""
        harness.require("readable")
        harness.apply(harness.examples.present)
        provider = harness.provider()
        with harness.assert_unchanged("get"):
            assert harness.observe(provider) == harness.observe(provider), (
                "get returns something else when it is called again"
            )

    def test_get_honours_the_declaration(self, harness: Harness) -> None:
        """Every row has its name, nothing undeclared, and values of the declared data types, once per resource."""
        harness.require("readable")
        harness.apply(harness.examples.present)
        definition, seen = harness.definition, set()
        for row in harness.rows():
            missing = [namevar for namevar in definition.namevars if row.get(namevar) is None]
            assert not missing, f"get returns a resource without its namevar {missing}: it could not be identified"
            name = definition.name_of(row)
            undeclared = row.keys() - definition.attributes.keys()
            assert not undeclared, (
                f"the next plan would fail: get returns the undeclared {sorted(undeclared)} of {show(name)}"
            )
            kept = sorted(row.keys() & definition.write_only)
            assert not kept, f"get returns {kept} of {show(name)}, declared write_only"
            wrong = [problem.message for problem in canonicalize.check_values(definition, row)]
            assert not wrong, f"the next plan would fail: get returns of {show(name)} {'; '.join(wrong)}"
            assert name not in seen, f"the next plan would fail: get returns {show(name)} more than once"
            seen.add(name)

    def test_get_is_canonical(self, harness: Harness) -> None:
        """``canonicalize`` leaves every row of ``get`` as it is, name included."""
        harness.require("readable", "canonicalize")
        harness.apply(harness.examples.present)
        rows = harness.rows()
        for row, canonical in zip(rows, _canonicalize(harness, rows), strict=True):
            changed = differences(row, canonical)
            assert not changed, f"the next plan would not be empty: get returns {changed} of {row} in another form"

    def test_get_returns_at_least_the_requested_names(self, harness: Harness) -> None:
        """For some names ``get`` returns at least those that exist; a missing one is no error."""
        harness.require("readable", "simple_get_filter")
        resources = harness.examples.all if harness.definition.ensurable else [harness.examples.present]
        names = harness.names(*resources)
        harness.existing(names)
        harness.get([])
        harness.apply(*resources)
        for wanted in (names, *([name] for name in names)):
            found = harness.existing(wanted)
            lost = [name for name in wanted if name not in found]
            assert not lost, f"{lost} would be created again: get does not return it when called for {wanted}"

    def test_get_lists_what_it_returns_by_name(self, harness: Harness) -> None:
        """For all names ``get`` returns what it returns by name, unless it raises ``CannotList``."""
        harness.require("readable", "simple_get_filter")
        harness.apply(harness.examples.present)
        name = harness.names(harness.examples.present)[0]
        rows = harness.listing()
        if rows is None or not harness.listed(harness.examples.present):
            return
        found = harness.existing([name])[name]
        listed = next((row for row in rows if harness.definition.name_of(row) == name), None)
        assert listed is not None, (
            f"'resource {harness.definition.name}' would not show {show(name)}: get(None) leaves it out"
        )
        volatile = harness.definition.names_of_kind("read_only")
        changed = [each for each in differences(listed, found) if each not in volatile]
        assert not changed, f"get returns other {changed} of {show(name)} when called by name than when it lists all"

    def test_canonicalize_is_idempotent(self, harness: Harness) -> None:
        """Canonical values stay unchanged, for every value that the data types accept, whatever else is declared."""
        harness.require("canonicalize")
        examples = harness.examples
        resources = [each for each in (examples.present, examples.updated, *examples.others) if each is not None]

        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        @given(generated_resources(harness.definition, resources))
        def law(resource: Resource) -> None:
            once = _canonicalize_or_reject(harness, resource)
            changed = sorted(once.keys() ^ resource.keys())
            assert not changed, f"canonicalize adds or drops {changed}: it must keep {resource}"
            if canonicalize.check_values(harness.definition, once):
                reject()
            changed = differences(once, _canonicalize_or_reject(harness, once))
            assert not changed, f"the next plan would not be empty: a second canonicalize changes {changed}: {once}"

        for each in respelled_resources(harness.definition, examples.present):
            law = example(each)(law)
        law()


def _canonicalize(harness: Harness, resources: list[Resource]) -> list[Resource]:
    canonicalize = harness.runtime.tools(harness.definition.name).canonicalize
    assert canonicalize is not None
    return canonicalize(resources)


def _canonicalize_or_reject(harness: Harness, resource: Resource) -> Resource:
    """Canonicalize a resource that the declaration accepts; an error for the user rejects the example."""
    try:
        return _canonicalize(harness, [resource])[0]
    except PROGRAMMING_ERRORS as error:
        error.add_note(f"canonicalize fails on {resource}, which the declaration accepts")
        raise
    except Exception:  # noqa: BLE001 - a refusal
        reject()
