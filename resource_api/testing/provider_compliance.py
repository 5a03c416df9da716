"""What every provider must keep, one method and one sentence each, for authors to inherit.

The laws share no state and run in any order. Which of them apply is told by the type's declaration, never by a list
that an author keeps. Stores of state have laws of their own, which do not belong here.
"""

# ruff: noqa: S101 - assert is how a law speaks

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from resource_api.model.values.text import show
from resource_api.plugins.registry import Registry
from resource_api.render import json as documents
from resource_api.testing import examples as trying
from resource_api.testing.get_laws import GetLaws
from resource_api.testing.harness import Bench
from resource_api.testing.imperative_laws import ImperativeLaws
from resource_api.testing.set_laws import SetLaws

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.type_definition import Resource

#: Shorter secrets are found in any text.
SHORTEST_SECRET = 4


class ProviderCompliance(GetLaws, SetLaws, ImperativeLaws):
    """The laws of providers. A subclass names the type and gives an example by the fixture ``present``.

    ``module_path``: directories that hold ``types/`` and ``providers/``; the bundled types are always found.
    """

    type_name: ClassVar[str]
    module_path: ClassVar[Sequence[str | os.PathLike[str]]] = ()

    @pytest.fixture
    def present(self) -> Resource:
        """Give a resource as a manifest declares it, name included; absent at first if its type is ensurable."""
        pytest.fail(f"{type(self).__name__} must define the fixture 'present', a resource to try the laws with")

    @pytest.fixture
    def updated(self) -> Resource | None:
        """Give the same resource with other values; None skips the laws about updates."""
        return None

    @pytest.fixture
    def others(self, registry: Registry, present: Resource) -> Sequence[Resource]:
        """Give more resources that can stand beside ``present``; without: ``present`` under other names."""
        definition = registry.type(self.type_name)
        return trying.alike(definition, present) if definition.ensurable else []

    @pytest.fixture
    def world(self) -> Callable[[], Any] | None:
        """Give a function that tells what nothing may change under noop, beyond what ``get`` sees; a digest, say."""
        return None

    @pytest.fixture
    def registry(self) -> Registry:
        """Give the registry that has the type and its provider."""
        return Registry.from_path(*self.module_path)

    @pytest.fixture
    def config(self) -> Mapping[str, Any]:
        """Give what the provider is configured with, as a manifest says it; a type without ``config`` needs none."""
        return {}

    @pytest.fixture
    def examples(
        self,
        present: Resource,
        updated: Resource | None,
        others: Sequence[Resource],
        world: Callable[[], Any] | None,
        config: Mapping[str, Any],
    ) -> trying.Examples:
        """Give all that an author says, in one."""
        return trying.Examples(present, updated, others, world, config)

    @pytest.fixture
    def bench(self, registry: Registry, examples: trying.Examples) -> Iterator[Bench]:
        """Give what the laws work with; afterwards everything is as it was, also when a law has failed."""
        bench = Bench(registry, self.type_name, examples)
        yield bench
        bench.restore()

    def test_the_declaration_accepts_the_examples(self, bench: Bench) -> None:
        """A manifest of the examples is valid, their names differ, and an update keeps its name."""
        ours = bench.examples
        names = bench.names(*ours.all)
        if ours.updated is not None:
            [updated] = bench.names(ours.updated)
            assert updated == names[0], "'updated' must be the same resource as 'present': it has another name"

    def test_the_examples_are_absent_at_first(self, bench: Bench) -> None:
        """Nothing of the examples exists before a law creates it: a test has left nothing, and takes nothing away."""
        bench.need("ensurable")
        there = bench.existing(bench.names(*bench.examples.all))
        assert not there, f"{', '.join(map(show, there))} exists already; choose names that nobody has"

    def test_no_secret_is_told(self, bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
        """A sensitive value is in no log line, report or plan, in nothing printed, and in no other attribute."""
        bench.need("secrets")
        ours = bench.examples
        gone = bench.absent(ours.present) if bench.definition.ensurable else None
        stages = [stage for stage in (ours.present, ours.updated, gone) if stage is not None]
        secrets = {text for stage in stages for text in trying.secrets(bench.definition, stage)}
        assert secrets, f"declare one of {sorted(bench.definition.sensitive)} in 'present': nothing can leak without it"
        assert min(map(len, secrets)) >= SHORTEST_SECRET, "a secret this short is found in any text; give a longer one"
        told: list[str] = []
        for stage in stages:
            told += [str(documents.plan(bench.plan(stage))), str(bench.apply(stage))]
            if "imperative" not in bench.definition.features:
                told += [str(_plain(bench, row)) for row in bench.existing(bench.names(stage)).values()]
        leaks = [text for text in (*told, *bench.lines, *capfd.readouterr()) if any(each in text for each in secrets)]
        assert not leaks, f"everybody could read the secret here: {leaks}"


def _plain(bench: Bench, row: Resource) -> Resource:
    return {name: value for name, value in row.items() if name not in bench.definition.sensitive}
