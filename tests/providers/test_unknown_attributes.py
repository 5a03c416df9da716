"""An attribute that an earlier step will provide: no method of a provider takes it for a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.bundled import types_with_resources
from tests.providers.applied import REGISTRY
from tests.providers.test_secret_attributes import METAPARAMETERS, examples, messages

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A value of any data type that is not known before the run, as the module is not there.
SOURCE: Final = {"Ansible_module[ra-test]": {"module": "command", "python": "/no/such/python"}}
UNKNOWN: Final = "${Ansible_module[ra-test].result.x}"
#: The message about an exception of a method.
FAILED: Final = re.compile(r"\b(canonicalize|validate|preflight|insync|plan)\b.* failed: ")


def unknown_parts(value: Any) -> Iterator[Any]:
    """Yield a value with one part of it unknown: the whole, or one of a list or mapping."""
    yield UNKNOWN
    if isinstance(value, list):
        yield [UNKNOWN, *value[1:]]
    if isinstance(value, dict):
        yield from ({**value, key: part} for key in value for part in unknown_parts(value[key]))


@pytest.mark.parametrize("name", types_with_resources())
def test_a_value_that_is_not_known_yet_raises_nowhere(name: str) -> None:
    """Whichever attribute has it: otherwise the manifest is refused, or the warnings of the whole type are lost."""
    attributes = REGISTRY.type(name).attributes
    settable = {key for key, attribute in attributes.items() if attribute.kind not in {"namevar", "read_only"}}
    for title, body in examples(name).items():
        declared = {key: body[key] for key in body.keys() - METAPARAMETERS}
        for attribute in settable - {"ensure"}:
            for value in unknown_parts(declared.get(attribute)):
                manifest = {"resources": {**SOURCE, title: {**declared, attribute: value}}}
                raised = list(filter(FAILED.search, messages(manifest)))
                assert not raised, (title, attribute, value, raised)
