"""What a run spends its time on, as a display needs it: calls of providers, and waiting for a lock.

How it is shown is for the command; a program that embeds the runtime shows nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class Activity(Protocol):
    """Something that takes time. Its methods are called in another thread while it goes on."""

    @property
    def started(self) -> float:
        """When it began, in seconds of ``time.monotonic``."""
        ...

    @property
    def place(self) -> str:
        """Its place among all steps of the run, ``3/14``; empty: it has none."""
        ...

    @property
    def subject(self) -> str:
        """What it is about: ``Package[nginx]``."""
        ...

    @property
    def verb(self) -> str:
        """What is being done: ``installing``."""
        ...

    @property
    def detail(self) -> str:
        """What it is doing now, for people; empty: that is not known."""
        ...

    def log(self, seconds: int) -> None:
        """Log a notice that it still goes on after ``seconds``."""
        ...


class ActivityDisplay(Protocol):
    """Shows the activities of a run while they go on."""

    def running(self, activity: Activity) -> AbstractContextManager[None]:
        """Return a context around an activity that may take long."""
        ...

    def waiting(self, activity: Activity) -> AbstractContextManager[Callable[[], None]]:
        """Return a context around a wait; the function that it yields is to be called several times a second."""
        ...
