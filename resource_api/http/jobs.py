"""Work that a service goes on with after its answer: where its status is, and which words mean that it is over. Pure.

Asking, waiting and failing are for ``client``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.http.fields import field_at
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from resource_api.http.response import Response

_ACCEPTED: Final = 202
_DONE: Final = ("succeeded", "success", "successful", "completed", "complete", "done", "finished", "ok", "ready")
_FAILED: Final = ("failed", "failure", "error", "errored", "canceled", "cancelled", "aborted", "rejected", "timedout")


class Job(NamedTuple):
    """How a service reports on a job; words are compared without regard to case.

    ``url`` is the field of the answer that names the job's URL; empty: it is in a header, ``Location`` or Azure's.
    ``status`` is the field of the job that has one of the words, or a Boolean: whether it is over.
    """

    url: str = ""
    status: str = "status"
    done: Collection[str] = _DONE
    failed: Collection[str] = _FAILED
    #: Seconds that it may take; the time limit of the provider's call ends it too.
    timeout: float = 600.0

    def place(self, response: Response) -> str:
        """Return the URL of the job that an answer has started; empty where it has started none."""
        if self.url:
            url = field_at(response.body, self.url)
            return url if isinstance(url, str) else ""
        return response.job

    def outcome(self, response: Response) -> bool | None:
        """Return whether a job has succeeded, from the answer about it; None: it is not over."""
        if response.status == _ACCEPTED:
            return None
        body = response.body
        word = field_at(body, self.status)
        if isinstance(word, bool):
            return None if not word else not (isinstance(body, dict) and body.get("error"))
        if not isinstance(word, str):
            return True
        lower = word.lower()
        return True if lower in _lower(self.done) else False if lower in _lower(self.failed) else None


def _lower(words: Collection[str]) -> set[str]:
    return {word.lower() for word in words}
