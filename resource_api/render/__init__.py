"""Render plans, reports, resources, types and state; only here is output escaped and redacted."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(
        __name__, "changes", "describe", "fleet", "html", "json", "plan", "run_document", "table"
    )
