"""The laws of finding resources among the rows that ``get`` returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Attribute, TypeDefinition
from resource_api.model.provider_functions import ProviderFunctions
from resource_api.model.values.errors import ProviderError
from resource_api.snapshot.batched_get import RowChecker

if TYPE_CHECKING:
    from resource_api.model.type_definition import Name, Resource

HOST = TypeDefinition(
    name="host",
    docs="A host.",
    attributes={
        "name": Attribute("String", "Its name.", kind="namevar"),
        "port": Attribute("Integer", "Its port.", kind="namevar"),
    },
)
CODE = TypeDefinition(
    name="code",
    docs="A code, also in capitals.",
    attributes={"name": Attribute("Variant[String, Integer]", "Its name.", kind="namevar")},
    features=["canonicalize"],
)
CODES = ProviderFunctions(CODE, {}, canonicalize=lambda rows: [{"name": row["name"].lower() or []} for row in rows])


def _find(
    functions: ProviderFunctions, names: list[Name] | None, rows: list[Resource], strict: str = "error"
) -> tuple[dict[Name, Resource], dict[Name, str], list[str]]:
    warnings: list[str] = []
    checker = RowChecker(strict, lambda _subject, message, *_more, **_fields: warnings.append(message))
    return (*checker.index_by_name(functions, names, rows), warnings)


NAMES = st.lists(st.tuples(st.text(max_size=3), st.integers(0, 9)), unique=True, max_size=6)


@given(names=NAMES, random=st.randoms(use_true_random=False), all_=st.booleans())
def test_every_row_is_found_by_its_name_in_any_order(names: list[Any], random: Any, *, all_: bool) -> None:
    """What was asked for and what was not; nothing is wrong with any."""
    rows: list[Resource] = [{"name": name, "port": port} for name, port in names]
    random.shuffle(rows)
    requested = None if all_ else names[::2]
    assert _find(ProviderFunctions(HOST, {}), requested, rows) == (
        {(row["name"], row["port"]): row for row in rows},
        {},
        [],
    )


def test_two_rows_of_one_name_are_a_problem_of_that_name() -> None:
    """The others are found."""
    rows: list[Resource] = [{"name": name, "port": 1} for name in "aba"]
    result, wrong, _ = _find(ProviderFunctions(HOST, {}), [("a", 1), ("b", 1)], rows)
    assert wrong == {("a", 1): "get returned 'a, 1' more than once"}
    assert result["b", 1] is rows[1]


@pytest.mark.parametrize("row", [{"name": "a"}, {"name": "a", "port": [1]}])
def test_a_row_without_a_name_is_a_problem_of_all(row: Resource) -> None:
    """Nothing can be said to be absent then."""
    with pytest.raises(ProviderError, match="namevar"):
        _find(ProviderFunctions(HOST, {}), [("a", 1)], [row])


def test_a_name_of_another_data_type_is_a_problem_of_the_name_that_was_meant() -> None:
    """It is not taken for absence; below ``error`` the row is found under the name that was asked for."""
    rows: list[Resource] = [{"name": "a", "port": "1"}, {"name": "b", "port": "1"}]
    message = "get returned port must be an integer, not a string"
    result, wrong, warnings = _find(ProviderFunctions(HOST, {}), [("a", 1)], rows)
    assert (wrong, warnings) == ({("a", 1): message}, [])
    for strict, warned in (("warning", [message]), ("off", [])):
        result, wrong, warnings = _find(ProviderFunctions(HOST, {}), [("a", 1)], rows, strict)
        assert result["a", 1] == {"name": "a", "port": 1}
        assert (wrong, warnings) == ({}, warned)


def test_a_name_of_another_data_type_that_the_type_has_too_is_another_name() -> None:
    """``1`` and ``'1'`` are two resources where both may be names."""
    result, wrong, _ = _find(ProviderFunctions(CODE, {}), ["1"], [{"name": 1}])
    assert (list(result), wrong) == ([1], {})


def test_a_name_that_is_not_canonical_is_a_problem_of_the_canonical_name() -> None:
    """Also among names for which ``canonicalize`` raises or returns no name."""
    rows: list[Resource] = [{"name": 7}, {"name": ""}, {"name": "A"}]
    _, wrong, _ = _find(CODES, ["a"], rows)
    assert wrong == {"a": "get returned the name A, which is not canonical; it should be a"}
    result, _, warnings = _find(CODES, ["a"], rows, "warning")
    assert result["a"] == {"name": "a"}
    assert warnings == list(wrong.values())
