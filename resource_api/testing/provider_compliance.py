"""The laws of every provider: test methods for authors to inherit.

The laws share no state and run in any order. The type's declaration decides which of them apply; there is no list to
maintain. The laws of state stores must not enter here.
"""

# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from resource_api.model.values.text import show
from resource_api.plugins.registry import Registry
from resource_api.render import json as documents
from resource_api.testing.examples import Examples, Neighbour, secret_texts, similar_resources
from resource_api.testing.get_laws import GetLaws
from resource_api.testing.harness import Harness
from resource_api.testing.imperative_laws import ImperativeLaws
from resource_api.testing.neighbour_laws import NeighbourLaws
from resource_api.testing.set_laws import SetLaws

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.type_definition import Resource

#: Shorter secrets could be part of any text.
SHORTEST_SECRET = 4


class ProviderCompliance(GetLaws, SetLaws, NeighbourLaws, ImperativeLaws):
    """The laws of providers. A subclass names the type and gives an example by the fixture ``present``.

    ``module_path``: directories that hold ``types/`` and ``providers/``; the bundled types are always found.
    ``implementation``: which of several providers of the type is tested; empty: the one that this machine chooses.
    """

    type_name: ClassVar[str]
    module_path: ClassVar[Sequence[str | os.PathLike[str]]] = ()
    implementation: ClassVar[str] = ""

    @pytest.fixture
    def present(self) -> Resource:
        """Return a resource as a manifest declares it, name included; it must not exist if its type is ensurable."""
        pytest.fail(f"{type(self).__name__} must define the fixture 'present', a resource to test the laws with")

    @pytest.fixture
    def updated(self) -> Resource | None:
        """Return the same resource with other values; None skips the laws about updates."""
        return None

    @pytest.fixture
    def others(self, registry: Registry, present: Resource) -> Sequence[Resource]:
        """Return more resources that can exist beside ``present``; by default ``present`` under other names."""
        definition = registry.type(self.type_name)
        return similar_resources(definition, present) if definition.ensurable else []

    @pytest.fixture
    def world(self) -> Callable[[], Any] | None:
        """Return a function whose result noop must not change, beside what ``get`` returns; for example a digest."""
        return None

    @pytest.fixture
    def neighbours(self) -> Sequence[Neighbour] | str | None:
        """Return the files of other users that the type reads, or the reason why it reads none; None: not tested."""
        return None

    @pytest.fixture
    def registry(self) -> Registry:
        """Return the registry that has the type and its provider."""
        return Registry.from_path(*self.module_path)

    @pytest.fixture
    def config(self) -> Mapping[str, Any]:
        """Return the configuration of the provider as in a manifest; a type without ``config`` needs none."""
        return {}

    @pytest.fixture
    def examples(  # noqa: PLR0917 - a fixture takes each other fixture by its name
        self,
        present: Resource,
        updated: Resource | None,
        others: Sequence[Resource],
        world: Callable[[], Any] | None,
        config: Mapping[str, Any],
        neighbours: Sequence[Neighbour] | str | None,
    ) -> Examples:
        """Return all examples as one value."""
        return Examples(present, updated, others, world, config, neighbours)

    @pytest.fixture
    def harness(self, registry: Registry, examples: Examples) -> Iterator[Harness]:
        """Yield the harness of the laws; afterwards everything is restored, also when a law has failed."""
        harness = Harness(registry, self.type_name, examples, self.implementation)
        yield harness
        harness.restore()

    def test_the_declaration_accepts_the_examples(self, harness: Harness) -> None:
        """A manifest of the examples is valid, their names differ, and an update keeps its name."""
        examples = harness.examples
        names = harness.names(*examples.all)
        if examples.updated is not None:
            [updated] = harness.names(examples.updated)
            assert updated == names[0], "'updated' must be the same resource as 'present': it has another name"

    def test_the_examples_are_absent_at_first(self, harness: Harness) -> None:
        """No example exists before a law creates it: tests leave nothing behind and delete nothing else."""
        harness.require("ensurable")
        there = harness.existing(harness.names(*harness.examples.all))
        assert not there, f"{', '.join(map(show, there))} exists already; choose names that nothing else uses"

    def test_no_secret_is_revealed(self, harness: Harness, capfd: pytest.CaptureFixture[str]) -> None:
        """A sensitive value is in no log line, report or plan, in nothing printed, and in no other attribute."""
        harness.require("secrets")
        examples = harness.examples
        absent = harness.absent(examples.present) if harness.definition.ensurable else None
        stages = [stage for stage in (examples.present, examples.updated, absent) if stage is not None]
        secrets = {text for stage in stages for text in secret_texts(harness.definition, stage)}
        assert secrets, (
            f"declare one of {sorted(harness.definition.sensitive)} in 'present': without it nothing can leak"
        )
        assert min(map(len, secrets)) >= SHORTEST_SECRET, "a secret this short is found in any text; give a longer one"
        texts: list[str] = []
        for stage in stages:
            texts += [str(documents.plan(harness.plan(stage))), str(harness.apply(stage))]
            if "imperative" not in harness.definition.features:
                texts += [str(_plain(harness, row)) for row in harness.existing(harness.names(stage)).values()]
        texts += [*harness.lines, *capfd.readouterr()]
        leaks = [text for text in texts if any(secret in text for secret in secrets)]
        assert not leaks, f"the secret is readable here: {leaks}"


def _plain(harness: Harness, row: Resource) -> Resource:
    return {name: value for name, value in row.items() if name not in harness.definition.sensitive}
