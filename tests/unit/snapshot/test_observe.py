"""What observing a plan's resources asks of the recorded state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import Attribute, BaseProvider, Runtime, TypeDefinition
from resource_api.model.record import Record, RecordKey, StackState
from resource_api.plugins.provider_pool import ProviderPool
from resource_api.prior.match import Prior
from resource_api.snapshot.batched_get import Snapshot
from resource_api.snapshot.observe import observe
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import ItemsView


class Records(dict[RecordKey, Record]):
    """Records that count how often all of them are looked at."""

    scans = 0

    def items(self) -> ItemsView[RecordKey, Record]:
        """Count a scan."""
        self.scans += 1
        return super().items()


@pytest.mark.parametrize(("settle", "scans"), [(0.0, 0), (5.0, 1)])
def test_records_are_scanned_for_late_changes_only_where_a_type_settles(settle: float, scans: int) -> None:
    """Once, however many types there are."""
    attributes = {"name": Attribute("String", kind="namevar")}
    methods: dict[str, Any] = dict.fromkeys(("get", "set"), lambda *_: [])
    types = [TypeDefinition(name=name, attributes=attributes, settle=settle) for name in ("thing", "other")]
    runtime = Runtime(registry_of(*((item, type("Things", (BaseProvider,), methods)) for item in types)))
    catalog = runtime.compile({"resources": {"Thing[a]": {}, "Other[a]": {}}})
    records = Records({("thing", "b"): Record("thing", "b", "b", {}, {}, {})})
    prior = Prior(StackState("project", "stack", records=records), {}, {})
    with ProviderPool(runtime.registry, runtime.run) as providers:
        observe(catalog, prior, None, Snapshot(providers))
    assert records.scans == scans
