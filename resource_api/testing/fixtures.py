"""Rehearse a manifest in a test: as a function, and as the fixture ``rehearse`` for pytest.

The manifest is applied for real on an overlay of this machine, which is then discarded. A ``conftest.py`` has the
fixture by ``from resource_api.testing.fixtures import rehearse``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.plugins.registry import Registry
from resource_api.rehearse import rehearsal
from resource_api.runtime.runtime import Runtime
from resource_api.system.overlay.isolated_run import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.rehearse.result import Rehearsal


@pytest.fixture
def rehearse(request: pytest.FixtureRequest) -> Callable[..., Rehearsal]:
    """Return ``resource_api.testing.rehearse`` for manifests beside the test.

    If the test fails, the report of pytest includes the verdicts of the rehearsal.
    """

    def result(manifest: str | os.PathLike[str], *arguments: Any, **options: Any) -> Rehearsal:
        verdicts = rehearse_manifest(request.path.parent / manifest, *arguments, **options)
        request.node.add_report_section("call", "rehearsal", str(verdicts))
        return verdicts

    return result


def rehearse_manifest(
    manifest: str | os.PathLike[str],
    inputs: Mapping[str, object] | None = None,
    *,
    module_path: Iterable[str | os.PathLike[str]] = (),
    orders: int = 0,
    kills: int = 0,
    damage: bool = False,
    destroy: bool = False,
    tests: Sequence[str] = (),
    network: bool = False,
    size: str = "25%",
) -> Rehearsal:
    """Return the verdicts of a rehearsal of a manifest's file, without a state of earlier runs.

    Types are looked for in ``module_path``, beside the manifest, and among the bundled ones. ``network``: the machine's
    network; the other arguments are those of the command's options. Raise ``ManifestError`` for a wrong manifest,
    ``IsolationError`` if this machine or user lacks the prerequisites of an overlay.
    """
    file = os.fsdecode(manifest)
    registry = Registry.from_path(*module_path, os.path.dirname(os.path.abspath(file)))
    request = rehearsal.Request(
        file,
        inputs or {},
        {},
        isolation=Isolation(size, network),
        tests=tests,
        destroy=destroy,
        orders=orders,
        damage=damage,
        kills=kills,
    )
    return rehearsal.rehearse(Runtime(registry), request, lambda _report: None)
