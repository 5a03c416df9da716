"""Protection: why a resource with ``lifecycle.protect`` is not deleted or replaced, and how to take that back. Pure.

What protects a resource is ``Entry.is_protected``. The refusal is the error of its step; what waits for that step is
blocked with it (``operation_order``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from resource_api.model.entry import Entry
    from resource_api.model.record import Record

#: A protection that is recorded outlives the line that has declared it.
_HINT: Final = "set lifecycle.protect to false first"


def deletion_refusal(entry: Entry, record: Record | None, *, declared: bool = True) -> str:
    """Return why a protected resource is not deleted; empty: it is not protected.

    ``declared``: whether a manifest declares it; an orphan has to be declared again first.
    """
    if not entry.is_protected(record):
        return ""
    if declared:
        return f"is protected and would be deleted; {_HINT}"
    return "is protected and would be deleted; declare it with lifecycle.protect: false first"


def replacement_refusal(entry: Entry, record: Record | None) -> str:
    """Return why a protected resource is not replaced; empty: it is not protected. ``record``: of the old one."""
    if not entry.is_protected(record):
        return ""
    return f"is protected and would be replaced; {_HINT}{untaint_hint(entry, record)}"


def untaint_hint(entry: Entry, record: Record | None) -> str:
    """Return how to keep a tainted resource, to be added to a refusal; empty where it is not tainted."""
    tainted = record is not None and record.status == "tainted"
    return f", or keep it as it is: state untaint {entry.reference}" if tainted else ""
