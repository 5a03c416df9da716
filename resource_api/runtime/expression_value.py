"""What an expression comes to: inputs, values, facts and outputs as in a run, attributes as they are recorded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from resource_api.model.sealed_secrets import open_sealed
from resource_api.model.values import expression
from resource_api.model.values.errors import UsageError, hint
from resource_api.runtime.queries import recorded_stack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.catalog.compile import Catalog
    from resource_api.model.values.expression import Path
    from resource_api.runtime.manifest_compiler import Source
    from resource_api.runtime.runtime import Runtime


def expression_value(runtime: Runtime, source: Source, inputs: Mapping[str, Any], text: str) -> Any:
    """Return the value of ``text`` in a manifest: an expression, with or without ``${`` and ``}``, or text with some.

    The answer of a function is ``UNKNOWN``: none is called. A secret is wrapped, or sealed where only its digest is
    recorded. Raise ``UsageError`` for what does not exist, ``ManifestError`` for a wrong manifest.
    """
    catalog = runtime.compile(source, inputs)
    resolve = catalog.scope.resolver(partial(_recorded, runtime, catalog))
    try:
        return expression.evaluate(text if "${" in text else f"${{{text}}}", resolve)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _recorded(runtime: Runtime, catalog: Catalog, path: Path) -> Any:
    """Return the recorded value that a path into a resource leads to. Raise ``ValueError`` where there is none."""
    assert isinstance(path.root, tuple)
    state = runtime.store.load(runtime.name(catalog))
    declared = catalog.find(path.root)
    record = state.records.get(declared.key) if declared is not None else None
    record = record or next((each for each in state.records.values() if each.reference == path.root), None)
    if record is None:
        msg = f"{path}: {recorded_stack.no_record(state, path.root)}"
        raise ValueError(msg)
    values = {**record.should, **(record.is_ or {})}
    if path.keys[0] not in values:
        msg = f"{path}: nothing is recorded of '{path.keys[0]}'{hint(path.keys[0], values)}"
        raise ValueError(msg)
    found = open_sealed(values[path.keys[0]])
    runtime.log.mask.add([found])
    return expression.follow_keys(found, path, path.keys[1:])
