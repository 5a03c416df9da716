"""The laws of providers and state stores, as test classes that an author inherits; and rehearsals.

Needs pytest and hypothesis; no other package imports this one. A test of a provider is a subclass with an example.
Which laws are skipped follows from the features that the type declares.
"""

import pytest

# Before the laws are imported: their assertions then show values in the author's tests too.
_LAWS = ("provider_compliance", "get_laws", "set_laws", "harness", "state_compliance")
pytest.register_assert_rewrite(*(f"resource_api.testing.{name}" for name in _LAWS))

from resource_api.testing.examples import Neighbour  # noqa: E402 - see above
from resource_api.testing.fixtures import rehearse_manifest as rehearse  # noqa: E402 - see above
from resource_api.testing.harness import MethodContext, context  # noqa: E402 - see above
from resource_api.testing.provider_compliance import ProviderCompliance  # noqa: E402 - see above
from resource_api.testing.state_compliance import SharedStateCompliance, StateCompliance  # noqa: E402 - see above

__all__ = [
    "MethodContext",
    "Neighbour",
    "ProviderCompliance",
    "SharedStateCompliance",
    "StateCompliance",
    "context",
    "rehearse",
]
