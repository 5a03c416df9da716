"""Composes the stages into operations: the embedding API, saved plans, refresh, import, policies."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "configured_provider", "plan_checks", "purging", "saved_plan", "state_refresh")
