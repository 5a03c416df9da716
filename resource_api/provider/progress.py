"""The current activities of a run, for a display: calls of providers, and waiting for a lock.

The command displays them; a program that embeds the runtime displays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class Activity(Protocol):
    """An activity that takes time. Its methods are called in another thread."""

    @property
    def started(self) -> float:
        """When it began, in seconds of ``time.monotonic``."""
        ...

    @property
    def place(self) -> str:
        """Its number among all steps of the run, ``3/14``, or ""."""
        ...

    @property
    def subject(self) -> str:
        """Its subject: ``Package[nginx]``."""
        ...

    @property
    def verb(self) -> str:
        """Its participle: ``installing``."""
        ...

    @property
    def detail(self) -> str:
        """Its current detail as a text for users; empty if unknown."""
        ...

    def log(self, seconds: int) -> None:
        """Log a notice that it still goes on after ``seconds``."""
        ...


class ActivityDisplay(Protocol):
    """Displays the activities of a run."""

    def running(self, activity: Activity) -> AbstractContextManager[None]:
        """Return a context around an activity that may take long."""
        ...

    def waiting(self, activity: Activity) -> AbstractContextManager[Callable[[], None]]:
        """Return a context around a wait; the function that it yields is to be called several times a second."""
        ...
