"""The laws of every provider: test methods for authors to inherit.

The laws share no state and run in any order. The type's declaration decides which of them apply; there is no list to
maintain.
"""

# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from resource_api.model.values.errors import UnknownType, UsageError
from resource_api.model.values.masking import encoded, written
from resource_api.plugins.registry import Registry
from resource_api.render import json as documents
from resource_api.testing.examples import Examples, Neighbour, secret_texts, similar_resources
from resource_api.testing.foundation_laws import skip_after_failure
from resource_api.testing.get_laws import GetLaws, NameLaws
from resource_api.testing.harness import Harness, shorten, without
from resource_api.testing.neighbour_laws import NeighbourLaws
from resource_api.testing.set_laws import ImperativeLaws, SetLaws
from resource_api.testing.system_calls import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.type_definition import Resource

#: Shorter secrets could be part of any text.
SHORTEST_SECRET = 4
#: Leaks in a message.
SHOWN_LEAKS = 3
#: Shorter pieces of base64 and hexadecimal as well.
SHORTEST_ENCODED = 8


# sh forks; CPython 3.12 and later warn about that as soon as any thread is alive.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
class ProviderCompliance(GetLaws, SetLaws, NameLaws, NeighbourLaws, ImperativeLaws):
    """The laws of providers. A subclass names the type and gives an example by the fixture ``present``.

    ``module_path``: one or several directories with ``types/`` and ``providers/``; the bundled types are always found.
    ``listing_size``: the number of resources in the test of a listing; by default 101 for a type with ``config``, since
    services list by pages, and otherwise the examples. ``slowest_get``: the time limit of ``get`` of the examples, in
    seconds; None: it is not timed.
    ``implementation``: the tested one of several providers of the type; empty: the one that this machine chooses.
    """

    type_name: ClassVar[str]
    module_path: ClassVar[Sequence[str | os.PathLike[str]] | str | os.PathLike[str]] = ()
    listing_size: ClassVar[int | None] = None
    slowest_get: ClassVar[float | None] = None
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
        """Return a function whose result noop must not change, beside the rows of ``get``; for example a digest."""
        return None

    @pytest.fixture
    def neighbours(self) -> Sequence[Neighbour] | str | None:
        """Return the files of other users that the type reads, the reason for reading none, or None if untested."""
        return None

    @pytest.fixture
    def registry(self) -> Registry:
        """Return the registry that has the type and its provider."""
        if not hasattr(self, "type_name"):
            pytest.fail(f"{type(self).__name__} must have 'type_name', the name of the type that is tested")
        directories = [self.module_path] if isinstance(self.module_path, (str, os.PathLike)) else self.module_path
        try:
            registry = Registry.from_path(*directories)
            registry.type(self.type_name)
        except UsageError as error:
            raise pytest.fail.Exception(str(error)) from None
        except UnknownType as error:
            text = f"{error}; 'module_path' has {', '.join(map(str, directories)) or 'no directory'}"
            raise pytest.fail.Exception(text) from None
        return registry

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
        config: Mapping[str, object],
        neighbours: Sequence[Neighbour] | str | None,
    ) -> Examples:
        """Return all examples as one value."""
        return Examples(
            present,
            updated,
            others,
            world=world,
            config=config,
            neighbours=neighbours,
            listing_size=self.listing_size,
            slowest_get=self.slowest_get,
        )

    @pytest.fixture
    def harness(self, registry: Registry, examples: Examples, request: pytest.FixtureRequest) -> Iterator[Harness]:
        """Yield the harness of the laws; afterwards everything is restored, also after a failed law."""
        skip_after_failure(type(self), request.node.originalname)
        harness = Harness(registry, self.type_name, examples, self.implementation)
        try:
            yield harness
            harness.restore()
        finally:
            harness.close()

    def test_no_secret_is_revealed(self, harness: Harness, capfd: pytest.CaptureFixture[str]) -> None:
        """A sensitive value is in no log line, report or plan, in nothing printed, and in no other attribute."""
        secrets = {text for stage in harness.stages for text in secret_texts(harness.definition.attributes, stage)}
        assert secrets or not harness.definition.sensitive, (
            f"declare one of {sorted(harness.definition.sensitive)} in 'present': without it nothing can leak"
        )
        config = harness.definition.config
        secrets |= secret_texts(config.attributes, harness.examples.config)
        if not secrets:
            pytest.skip("neither the type nor its configuration has a secret; the law does not apply")
        assert min(map(len, secrets)) >= SHORTEST_SECRET, "a secret this short is found in any text; give a longer one"
        texts: list[str] = []
        for stage in harness.stages:
            with recorded() as events:
                texts += [str(documents.plan(harness.plan(stage))), str(harness.apply(stage))]
            texts += [f"the arguments or the environment of a program: {text}" for _, text in events]
            if "imperative" not in harness.definition.features:
                texts += [
                    str(without(row, harness.definition.sensitive))
                    for row in harness.existing(harness.names(stage)).values()
                ]
        texts += [*harness.lines, *capfd.readouterr()]
        forms = {form for secret in secrets for form in _forms(secret)}
        leaks = [text for text in texts if any(form in text for form in forms)]
        first = "".join(f"\n  {shorten(text)}" for text in leaks[:SHOWN_LEAKS])
        assert not leaks, f"a secret is revealed, {len(leaks)} times:{first}"


def _forms(secret: str) -> set[str]:
    """Return the forms in which a secret can be read or decoded; short ones of base64 would be part of any text."""
    return {secret, *written(secret), *(form for form in encoded(secret) if len(form) >= SHORTEST_ENCODED)}
