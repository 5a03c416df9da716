"""Why a value was refused, without jsonschema: for hosts that have only this package and the standard library.

The same words as ``json_schema.explain`` uses, from a walk over the value; what is not known is accepted, and what is
secret is not looked into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.datatypes import messages, predicates
from resource_api.model.values.expression import is_reference_at
from resource_api.model.values.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.model.datatypes.datatype import DataType

    Path = tuple[str | int, ...]


def problems(
    datatype: DataType, value: Any, words: str = "", written: Any = None, path: Path = ()
) -> Iterator[tuple[Path, str]]:
    """Yield what is wrong with ``value``, as (path within it, message); nothing if ``datatype`` accepts it.

    ``words`` describe what a ``Pattern`` in it accepts; ``written`` is the whole value with its references.
    """
    try:
        if datatype.accepts_known(value):
            return
    except RecursionError:
        yield path, f"must not be nested deeper than {predicates.DEPTH} levels"
        return
    if datatype.kind in {"Any", "Data"}:
        yield misfit(datatype, value, path)
        return
    meant = [branch for branch in datatype.branches if messages.meant_for(branch, type(value))]
    found = []
    if type(value) in {list, dict} and len(meant) == 1:
        found = list(_part_problems(meant[0], value, words, written, path))
    referred = is_reference_at(written, path)
    yield from found or [(path, messages.refusal(datatype, value, words, referred=referred))]


def _part_problems(datatype: DataType, value: Any, words: str, written: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield what is wrong with a list or a mapping that is of the right kind: its size, its keys, its parts."""
    if not datatype.has_size(value):
        yield path, messages.size_problem(datatype, value)
    if datatype.kind == "Struct":
        known = datatype.members
        yield from ((path, message) for message in messages.key_problems(datatype, value))
        parts = [(key, known[key], value[key]) for key in value if key in known]
    elif type(value) is dict:
        keys, items = datatype.parts
        for key in value:
            if not keys.accepts_known(key):
                yield path, f"has a key that {messages.refusal(keys, key, words)}"
        parts = [(key, items, item) for key, item in value.items()]
    else:
        parts = [(number, part, item) for number, (part, item) in enumerate(datatype.elements(value))]
    for step, part, item in parts:
        yield from problems(part, item, words, written, (*path, step))


def misfit(datatype: DataType, value: Any, path: Path) -> tuple[Path, str]:
    """Return the place and message of the first part that JSON cannot represent; secrets are not looked into."""
    if len(path) > 2 * predicates.DEPTH:
        return (), f"must not be nested deeper than {predicates.DEPTH} levels"
    members = enumerate(value) if type(value) is list else value.items() if type(value) is dict else ()
    for step, member in members:
        if type(value) is dict and type(step) is not str:
            return path, f"must have strings as keys, not {messages.kind_of(step)}"
        if not predicates.is_json(known(predicates.unwrap(member))):
            return misfit(datatype, member, (*path, step))
    shown = messages.quote_value(value) if type(value) is float else messages.describe_value(datatype, value)
    return path, f"must be a value that JSON can carry, not {shown}"


def known(value: Any) -> Any:
    """Return ``value`` with unknown values replaced by None, which is accepted."""
    if type(value) is list:
        return [known(item) for item in value]
    if type(value) is dict:
        return {key: known(item) for key, item in value.items()}
    return None if value is UNKNOWN else value
