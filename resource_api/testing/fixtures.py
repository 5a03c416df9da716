"""The fixture ``rehearse`` for pytest: ``from resource_api.testing.fixtures import rehearse`` in ``conftest.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.testing import rehearsal

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from resource_api.rehearse.result import Rehearsal


@pytest.fixture
def rehearse(request: pytest.FixtureRequest) -> Callable[..., Rehearsal]:
    """Return ``resource_api.testing.rehearse`` for manifests beside the test; a failure shows the result."""

    def result(manifest: str | os.PathLike[str], *arguments: Any, **options: Any) -> Rehearsal:
        verdicts = rehearsal.rehearse(request.path.parent / manifest, *arguments, **options)
        request.node.add_report_section("call", "rehearsal", str(verdicts))
        return verdicts

    return result
