"""What of a manifest is planned in every run, as it was parsed: a later run need not parse the files again.

Nothing is kept of a run that knows a secret or of a manifest that declares one. Whether the files are as they were is
for ``fingerprints``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from resource_api.cache.conclusion import row_digests
from resource_api.manifest import read as reading
from resource_api.manifest.sections import without
from resource_api.model.values.document import Document, Node
from resource_api.model.values.values import Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from resource_api.cache.conclusion import Conclusion
    from resource_api.model.declaration import Manifest
    from resource_api.model.values.masking import Mask
    from resource_api.plan.planner import Plan

#: More characters are parsed again.
_LONGEST: Final = 1 << 20


def always_planned(plan: Plan, conclusion: Conclusion, mask: Mask) -> list[Any] | None:
    """Return the files of a manifest without the resources that may be left out, as plain data; None: nothing is kept.

    What is planned in every run names others, which stay with it.
    """
    catalog, manifest, planned = plan.catalog, plan.catalog.manifest, conclusion.to_plan(())
    shoulds = (entry.should for entry in catalog.entries if entry.index in planned)
    if mask or not all(row_digests(shoulds)) or _may_hold_secret(manifest):
        return None
    kept = without(manifest.documents, conclusion.left_out(planned))
    found = [[each.file, each.data, _pairs(each.heads(), list)] for each in kept]
    try:
        text = json.dumps(found)
    except (TypeError, ValueError, RecursionError):
        return None
    return found if len(text) <= _LONGEST and json.loads(text) == found else None


def documents(kept: Sequence[Any]) -> list[Document]:
    """Return the kept files as documents, whose text is parsed when a position is asked for. Raise ``OSError``."""
    return [_document(*each) for each in kept]


def _document(file: str, data: Any, heads: Mapping[str, Mapping[str, Any]]) -> Document:
    raw, _ = reading.read_file(file)
    index = lambda: reading.parse(raw, file).root or Node((1, 1), {})  # noqa: E731 - of this file
    return Document(data, file, raw, index, _pairs(heads, tuple))


def _pairs(heads: Mapping[str, Mapping[str, Any]], kind: Callable[[Any], Any]) -> dict[str, dict[str, Any]]:
    """Return positions as lists, which JSON has, or as tuples."""
    return {section: {key: kind(place) for key, place in places.items()} for section, places in heads.items()}


def _may_hold_secret(manifest: Manifest) -> bool:
    """Return whether anything but a resource is declared as a secret, or is for a provider, which may need one."""
    inputs = any(each.sensitive or "Sensitive" in each.type for each in manifest.inputs.values())
    outputs = any(type(each) in {dict, Sensitive} for each in manifest.outputs.values())
    return inputs or outputs or bool(manifest.providers)
