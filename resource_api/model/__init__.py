"""Frozen values that every package shares. Nothing here touches the world or imports another package."""
