"""The laws of sealed secrets: what is compared by a digest."""

from __future__ import annotations

from resource_api.model.sealed_secrets import digest_secret
from resource_api.model.values.assets import Asset

SALT = b"salt"


def test_a_sealed_asset_is_compared_by_content_only() -> None:
    """The same bytes from another origin are the same secret."""
    one, two, asset = Asset("a" * 64, "file", "x"), Asset("a" * 64, "text", "y"), Asset("b" * 64, "file", "x")
    assert digest_secret(one, SALT) == digest_secret(two, SALT) != digest_secret(asset, SALT)
