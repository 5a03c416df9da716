"""Render plans, reports, resources, types and state; only here is output escaped and redacted."""
