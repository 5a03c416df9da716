"""The examples in the docstrings of public classes."""

from __future__ import annotations

import doctest

import pytest

from resource_api import Attribute, BaseProvider, Command, Context, TypeDefinition


@pytest.mark.parametrize(
    "public",
    [Attribute, TypeDefinition, pytest.param(Command, marks=pytest.mark.process), Context, BaseProvider],
    ids=lambda public: public.__name__,
)
def test_the_example_in_a_docstring_has_the_results_that_it_shows(public: type) -> None:
    """What a reader types in has the results on the page."""
    examples = doctest.DocTestFinder(recurse=False).find(public, public.__name__, globs={})
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    results = [runner.run(example, clear_globs=False) for example in examples]
    assert sum(result.attempted for result in results) > 1
    assert sum(result.failed for result in results) == 0
