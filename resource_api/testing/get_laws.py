"""The laws of ``get`` and ``canonicalize``, and those on which all others build.

A row is in canonical form and complete, and reading changes nothing.
"""
# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

import json
import time
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, example, given, reject, settings

from resource_api.catalog import canonicalize
from resource_api.model.values.assets import Content
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.text import show
from resource_api.model.values.values import is_secret
from resource_api.render import yaml_manifest
from resource_api.testing.examples import example_problem, generated_resources, respelled_resources
from resource_api.testing.harness import PROGRAMMING_ERRORS, Harness, differences, failures, recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from resource_api.model.type_definition import Resource

#: The first of these laws that failed, by test class.
_failed: Final[dict[type, str]] = {}


def foundation(law: Callable[[Any, Harness], None]) -> Callable[[Any, Harness], None]:
    """Decorate a law on which the rest of its class builds: after its failure the others are skipped.

    Otherwise each of them would report the same mistake again.
    """

    @wraps(law)
    def checked(self: object, harness: Harness) -> None:
        """Run a law; remember its failure, so that laws that build on it are skipped."""
        try:
            law(self, harness)
        except pytest.skip.Exception:
            raise
        except (Exception, pytest.fail.Exception):
            _failed.setdefault(type(self), law.__name__)
            raise

    return checked


def skip_after_failure(tests: type, law: str) -> None:
    """Skip ``law`` of a class of tests if a law that it relies on has failed before: it would only repeat the failure.

    The failed law itself is not skipped when it runs again.
    """
    failed = _failed.get(tests)
    if failed not in {None, law}:
        pytest.skip(f"not checked: mend {failed} first, everything else relies on it")


class FoundationLaws:
    """The examples are valid and new, one can be created, and ``get`` returns it as the type declares."""

    @foundation
    def test_the_declaration_accepts_the_examples(self, harness: Harness) -> None:
        """A manifest of the examples is valid, their names differ, and an update keeps its name: all laws use them."""
        examples = harness.examples
        if problem := example_problem(harness.definition, examples):
            pytest.fail(problem)
        names = harness.names(*examples.all)
        if examples.updated is not None:
            [updated] = harness.names(examples.updated)
            assert updated == names[0], "'updated' must be the same resource as 'present': it has another name"

    @foundation
    def test_the_examples_are_absent_at_first(self, harness: Harness) -> None:
        """No example exists before a law creates it: tests leave nothing behind and delete nothing else."""
        harness.require("ensurable")
        there = harness.existing(harness.names(*harness.examples.all))
        assert not there, f"{', '.join(map(show, there))} exists already; choose names that nothing else uses"

    @foundation
    def test_get_honours_the_declaration(self, harness: Harness) -> None:
        """Every row has its name, nothing undeclared, and values of the declared data types, once per resource.

        The runtime checks the same in each run, and refuses any other row.
        """
        harness.require("readable")
        harness.apply(harness.examples.present)
        definition, names = harness.definition, set()
        for row in harness.rows():
            missing = [namevar for namevar in definition.namevars if row.get(namevar) is None]
            assert not missing, f"get returns a resource without its namevar {missing}: it could not be identified"
            name = definition.name_of(row)
            undeclared = row.keys() - definition.attributes.keys()
            assert not undeclared, (
                f"the next plan would fail: get returns the undeclared {sorted(undeclared)} of {show(name)}"
            )
            hidden = sorted(row.keys() & definition.write_only)
            assert not hidden, f"the next plan would fail: get returns {hidden} of {show(name)}, declared write_only"
            wrong = [problem.message for problem in canonicalize.check_values(definition, row)]
            assert not wrong, f"the next plan would fail: get returns of {show(name)} {'; '.join(wrong)}"
            assert name not in names, f"the next plan would fail: get returns {show(name)} more than once"
            names.add(name)

    @foundation
    def test_create_makes_what_is_declared(self, harness: Harness) -> None:
        """``get`` returns a created resource as it was declared, and the next plan is empty."""
        harness.require("ensurable")
        report = harness.converge(harness.examples.present)
        assert report.summary.created == 1, f"nothing was created: {report.summary}"
        [name] = harness.names(harness.examples.present)
        assert name in harness.existing([name]), f"get does not return {show(name)} after it has been created"


class GetLaws(FoundationLaws):
    """Rows are repeatable, as declared, canonical, and complete for the requested names."""

    def test_get_is_repeatable(self, harness: Harness) -> None:
        """``get`` changes nothing and returns the same when it is called again in the same transaction.

        Otherwise a plan would change the system, or show changes that the run does not make.
        """
        harness.require("readable")
        harness.apply(harness.examples.present)
        provider = harness.provider()
        with harness.assert_unchanged("get"):
            assert harness.observe(provider) == harness.observe(provider), (
                "get returns something else when it is called again"
            )

    def test_get_is_canonical(self, harness: Harness) -> None:
        """``canonicalize`` leaves every row of ``get`` as it is, name included; otherwise each plan has differences."""
        harness.require("readable", "canonicalize")
        harness.apply(harness.examples.present)
        rows = harness.rows()
        for row, canonical in zip(rows, _canonicalize(harness, rows), strict=True):
            changed = differences(row, canonical)
            assert not changed, f"the next plan would not be empty: get returns {changed} of {row} in another form"

    def test_get_returns_at_least_the_requested_names(self, harness: Harness) -> None:
        """``get`` for names returns each that exists: one left out would be created a second time.

        Further rows are allowed, and a name that does not exist is no error.
        """
        harness.require("readable", "simple_get_filter")
        names = harness.names(*harness.together)
        harness.existing(names)
        harness.get([])
        harness.apply(*harness.together)
        for requested in (names, *([name] for name in names)):
            rows = harness.existing(requested)
            lost = [name for name in requested if name not in rows]
            assert not lost, f"{lost} would be created again: get does not return it when called for {requested}"

    def test_get_lists_what_it_returns_by_name(self, harness: Harness) -> None:
        """For all names ``get`` returns the same row as by name, unless it raises ``CannotList``."""
        harness.require("readable", "simple_get_filter")
        harness.apply(harness.examples.present)
        name = harness.names(harness.examples.present)[0]
        if not harness.listed(harness.examples.present) or (rows := harness.settled_listing([name])) is None:
            return
        row_by_name = harness.existing([name])[name]
        listed = next((row for row in rows if harness.definition.name_of(row) == name), None)
        assert listed is not None, (
            f"'resource {harness.definition.name}' would not show {show(name)}: get(None) leaves it out"
        )
        volatile = harness.definition.names_of_kind("read_only")
        changed = [attribute for attribute in differences(listed, row_by_name) if attribute not in volatile]
        assert not changed, f"get returns other {changed} of {show(name)} when called by name than when it lists all"

    def test_a_listing_is_complete(self, harness: Harness) -> None:
        """For all names ``get`` returns every resource, also beyond the first page of a service.

        A frequent mistake is to read that page alone.
        """
        harness.require("readable", "ensurable", "others")
        resources = harness.many()
        failed = failures(harness.apply(*resources))
        assert not failed, (
            f"of {len(resources)} resources in one run {len(failed)} fail: {failed}; does get return only the first"
            " page, or fewer names than it is called for?"
        )
        names = harness.names(*resources)
        if not all(map(harness.listed, resources)) or (rows := harness.settled_listing(names)) is None:
            pytest.skip("these resources are not part of a listing")
        listed = {harness.definition.name_of(row) for row in rows}
        lost = [name for name in names if name not in listed]
        assert not lost, (
            f"'resource {harness.definition.name}' would show {len(resources) - len(lost)} of {len(resources)}:"
            f" get(None) leaves out {show(lost[0])} and others; are there further pages?"
        )

    def test_a_listing_is_a_manifest_without_changes(self, harness: Harness, tmp_path: Path) -> None:
        """The output of ``resource TYPE`` for the examples is a manifest with an empty plan: a start for users."""
        harness.require("readable")
        harness.apply(*harness.together)
        names = harness.names(*harness.together)
        rows = [row for row in harness.rows() if harness.definition.name_of(row) in names]
        if any(not _is_shown(row.get(name)) for row in rows for name in harness.definition.mandatory):
            pytest.skip("a listing cannot show a mandatory value of this type")
        path = tmp_path / "listed.yaml"
        providers = json.dumps(harness.manifest()["providers"])
        # The project of the manifests that the harness applies, so that this one has the same state.
        listed = yaml_manifest.manifest([(harness.definition, rows)], project="mapping")
        lines = (f"providers: {providers}", *listed, "")
        path.write_text("\n".join(lines), encoding="utf-8")
        try:
            harness.assert_converged(source=path)
        except ManifestError as error:
            text = f"'resource {harness.definition.name}' would print an invalid manifest: {error}"
            raise pytest.fail.Exception(text) from None

    def test_what_cannot_be_read_is_not_absent(self, harness: Harness) -> None:
        """Where ``get`` cannot read, it raises or reports the resource as failed; it never leaves the resource out.

        A resource that is left out counts as absent and would be created again. Every access of ``get`` is refused here
        with an input/output error.
        """
        harness.require("readable")
        harness.apply(harness.examples.present)
        [name] = harness.names(harness.examples.present)
        provider = harness.provider()
        with recorded(refuse=True) as events:
            rows = harness.rows_or_failure([name], provider)
        assert rows is None or name in rows, (
            f"{show(name)} would be created a second time: with an input/output error in"
            f" {' '.join(events[-1]) if events else 'what it reads'}, get leaves it out as if it were absent;"
            " let the exception pass, or call context.failed"
        )

    def test_get_is_quick(self, harness: Harness) -> None:
        """``get`` returns the examples within ``slowest_get`` seconds, because every plan waits for it.

        The best of three calls counts, as other programs may delay one.
        """
        harness.require("readable")
        if (bound := harness.examples.slowest_get) is None:
            pytest.skip("'slowest_get' is not set; get is not timed")
        harness.apply(*harness.together)
        names, provider, best = harness.names(*harness.together), harness.provider(), float("inf")
        for _ in range(3):
            began = time.perf_counter()
            harness.get(names, provider)
            best = min(best, time.perf_counter() - began)
        assert best <= bound, (
            f"every plan would wait {best:.3f} s for get of {len(names)} resources, more than the {bound} s that"
            " 'slowest_get' allows; read all of them by one request"
        )

    def test_canonicalize_asks_nothing(self, harness: Harness) -> None:
        """``canonicalize`` uses its arguments alone: it opens, connects to and starts nothing."""
        harness.require("canonicalize", "provider class")
        resources = [harness.examples.present, *respelled_resources(harness.definition, harness.examples.present)]
        with suppress(Exception):
            _canonicalize(harness, [dict(resources[0])])  # the provider is loaded
        for resource in resources:
            with recorded() as events, suppress(Exception):
                _canonicalize(harness, [dict(resource)])
            assert not events, (
                "the same manifest would mean something else on another machine, and validate could not check it:"
                f" canonicalize uses {events[0][0]} {events[0][1][:200]}"
            )

    def test_canonicalize_treats_each_resource_alike(self, harness: Harness) -> None:
        """Resources have the same canonical form in one call for all as in a call for each.

        A ``return`` within the loop over them is a frequent mistake.
        """
        harness.require("canonicalize")
        examples = harness.examples
        resources = [examples.present, *examples.others, *respelled_resources(harness.definition, examples.present)]
        alone = []
        for resource in resources:
            with suppress(Exception):  # refusals are the subject of other laws
                alone.append((resource, *_canonicalize(harness, [resource])))
        together = _canonicalize(harness, [resource for resource, _ in alone])
        for (resource, once), canonical in zip(alone, together, strict=True):
            changed = differences(once, canonical)
            assert not changed, (
                f"a second resource in a manifest would change the first one's meaning: canonicalize of {len(together)}"
                f" resources differs from that of {resource} alone in {changed}; does it return before the loop ends?"
            )

    def test_canonicalize_is_idempotent(self, harness: Harness) -> None:
        """``canonicalize`` leaves its own results unchanged, for all resources that the data types accept."""
        harness.require("canonicalize")
        examples = harness.examples
        candidates = (examples.present, examples.updated, *examples.others)
        resources = [resource for resource in candidates if resource is not None]

        @settings(deadline=None, suppress_health_check=list(HealthCheck))
        @given(generated_resources(harness.definition, resources))
        def law(resource: Resource) -> None:
            """Canonicalize twice: the second time nothing changes, otherwise each plan would show a difference."""
            once = _canonicalize_or_reject(harness, resource)
            changed = sorted(once.keys() ^ resource.keys())
            assert not changed, f"canonicalize adds or drops {changed}: it must keep {resource}"
            if canonicalize.check_values(harness.definition, once):
                reject()
            changed = differences(once, _canonicalize_or_reject(harness, once))
            assert not changed, f"the next plan would not be empty: a second canonicalize changes {changed}: {once}"

        for resource in respelled_resources(harness.definition, examples.present):
            law = example(resource)(law)
        law()


def _is_shown(value: object) -> bool:
    """Whether a manifest that lists a resource can have a value: secrets and contents of files are left out of it."""
    return value is not None and not is_secret(value) and not isinstance(value, Content)


def _canonicalize(harness: Harness, resources: list[Resource]) -> list[Resource]:
    """Return the canonical forms of resources by one call of the type's ``canonicalize``.

    The caller has skipped types without this method.
    """
    canonicalize = harness.functions.canonicalize
    assert canonicalize is not None
    return canonicalize(resources)


def _canonicalize_or_reject(harness: Harness, resource: Resource) -> Resource:
    """Return the canonical form of a generated resource.

    A resource that ``canonicalize`` refuses with an error for the user is no counterexample: hypothesis then generates
    another one. A programming error, such as a ``KeyError``, passes with the resource as a note.
    """
    try:
        return _canonicalize(harness, [resource])[0]
    except PROGRAMMING_ERRORS as error:
        error.add_note(f"canonicalize fails on {resource}, which the declaration accepts")
        raise
    except Exception:  # noqa: BLE001 - a refusal
        reject()
