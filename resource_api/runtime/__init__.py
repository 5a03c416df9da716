"""Composes the stages into operations: the embedding API, saved plans, refresh, import, policies."""
