"""The law of names: a name that shells, options, paths or terminals misread is refused, or is the resource's name."""

# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values.errors import ManifestError
from resource_api.model.values.text import show
from resource_api.testing.examples import minimal_resource
from resource_api.testing.foundation_laws import FoundationLaws
from resource_api.testing.harness import Harness, failures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from resource_api.model.type_definition import Name, Resource

#: Forms of the last component of a name; ``{0}`` is the example's. None of them names an existing resource: a provider
#: that breaks the law must not harm the machine that tests it.
FORMS: Final = (
    "-{0}",
    "--{0}=x",
    " {0} ",
    "{0}\tb",
    "{0}\nra-test-b",
    "{0}\x1b[31m",
    "{0}${{HOME}}",
    "{0}'\"",
    "{0}\\",
    "\u202e{0}",
    "{0}" * 20,
    "ra-test-none/../{0}",
)
#: Characters that are tried one by one if a name with all of them is refused.
CHARACTERS: Final = (
    " b",
    ";>ra-test-made",
    "$(>ra-test-made)",
    "`>ra-test-made`",
    "|tee ra-test-made",
    "#b",
    ":b,c=d",
    "%s%n",
    "[b]",
    "*",
    "é",
)


class NameLaws(FoundationLaws):
    """Names that another program would misread."""

    def test_a_hostile_name_is_refused_or_is_the_name(
        self, harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Names with quotes, spaces, options or commands are refused, or are the names of the created resources."""
        harness.require("ensurable", "readable")
        monkeypatch.chdir(tmp_path)
        accepted = dict(_accepted(harness))
        ours = {*accepted, *harness.names(*harness.examples.all)}
        foreign = [row for row in harness.observe() if row[0] not in ours]
        failed = failures(harness.apply(*accepted.values())) if accepted else {}
        created = {
            name: resource
            for name, resource in accepted.items()
            if str(harness.entries(resource)[0].reference) not in failed
        }
        rows = harness.existing(list(accepted)) if accepted else {}
        half = [name for name in rows if name not in created]
        assert not half, f"{show(half[0])} exists, though its creation has failed"
        if created:
            harness.assert_converged(*created.values())
            _assert_foreign_unchanged(harness, ours, foreign)
            harness.converge(*(harness.absent(resource) for resource in created.values()))
            remaining = harness.existing(list(created))
            assert not remaining, f"{show(next(iter(remaining)))} is left behind when it is deleted"
        _assert_foreign_unchanged(harness, ours, foreign)
        assert not list(tmp_path.rglob("ra-test-made")), "a command in the name of a resource is executed"


def _accepted(harness: Harness) -> Iterator[tuple[Name, Resource]]:
    """Yield resources with hostile names that a manifest may declare, with their canonical names.

    Each has the least attributes, and a hostile text in one of its names; examples are left out.
    """
    least = minimal_resource(harness.definition, harness.examples.present)
    for namevar in harness.definition.namevars:
        if not isinstance(name := least.get(namevar), str):
            continue
        directory, slash, last = name.rpartition("/")
        prefix = f"{directory}{slash}"
        whole = _declarable(harness, {**least, namevar: f"{prefix}{last}{''.join(CHARACTERS)}"})
        single = [] if whole else [f"{last}{character}" for character in CHARACTERS]
        yield from whole
        for hostile in [*(form.format(last) for form in FORMS), *single]:
            yield from _declarable(harness, {**least, namevar: f"{prefix}{hostile}"})


def _declarable(harness: Harness, resource: Resource) -> list[tuple[Name, Resource]]:
    """Return a resource with its canonical name, or nothing if no manifest may declare it or it is an example."""
    try:
        [entry] = harness.runtime.compile(harness.manifest(resource)).entries
    except ManifestError:
        return []
    return [] if entry.name in harness.names(*harness.examples.all) else [(entry.name, resource)]


def _assert_foreign_unchanged(harness: Harness, ours: set[Name], foreign: list[tuple[Any, Resource]]) -> None:
    rows = [row for row in harness.observe() if row[0] not in ours]
    assert rows == foreign, f"a resource with a hostile name has changed others: {foreign} have become {rows}"
