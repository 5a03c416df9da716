"""An HTTP client for authors of providers: retries, pages, jobs, time limits, and secrets that are never shown.

These laws hold (docs/http.md explains them, the tests in tests/unit/http prove them):

- A request that the service may have carried out is sent again only if that changes nothing: a POST never is.
- Credentials are sent to one origin only, whatever a redirect, a link or a location says.
- No secret is in a message, and under noop nothing is changed.
- An interrupt and the time limit of a call end a wait.

This module only re-exports names of its package; nothing must be defined here.
"""

from __future__ import annotations

from resource_api.http.client import Client, Job, Paging, RequestError, basic_authorization, expand
from resource_api.http.messages import (
    Response,
    changed_fields,
    field_at,
    json_patch,
    merge_patch,
    merged,
    with_field,
    without_field,
)

__all__ = [
    "Client",
    "Job",
    "Paging",
    "RequestError",
    "Response",
    "basic_authorization",
    "changed_fields",
    "expand",
    "field_at",
    "json_patch",
    "merge_patch",
    "merged",
    "with_field",
    "without_field",
]
