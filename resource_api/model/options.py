"""What a caller wants of one run, beyond the manifest.

Plain data shared by planning and applying; where each wish comes from (command line, environment, a call) is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Options(NamedTuple):
    """The wishes of one run; the defaults are those of a bare ``apply``."""

    noop: bool = False
    targets: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    with_dependencies: bool = False
    with_dependents: bool = False
    tags: frozenset[str] = frozenset()
    skip_tags: frozenset[str] = frozenset()
    replace: tuple[str, ...] = ()
    prune: bool = False
    strict: str = "error"
    parallel: int = 1
    fail_fast: bool = False
    #: Whether a saved plan is carried out: then nothing is done that it does not show.
    saved: bool = False
    #: Whether the plan is only shown.
    shown: bool = False

    @property
    def partial(self) -> bool:
        """Whether only some of the manifest's resources are meant."""
        return bool(self.targets or self.excludes or self.tags or self.skip_tags)

    @property
    def plain(self) -> bool:
        """Whether nothing is wished that has a say in what must be planned."""
        return self == Options(noop=self.noop, parallel=self.parallel, fail_fast=self.fail_fast, shown=self.shown)


class CacheRequest(NamedTuple):
    """One run of the command that builds on what an earlier one has concluded of the same."""

    #: The manifest's file, and what is concluded of it is kept under: file, directory, project, stack.
    source: str
    label: str
    #: The inputs that were given.
    inputs: Mapping[str, Any]
    options: Options
    #: When it began, in nanoseconds: code that is newer is not what it runs.
    began: int


def apply_options(planned: Options, now: Options) -> Options:
    """Give the wishes of a plan as it is carried out: what it shows stays, how it is done may be wished anew."""
    return planned._replace(
        noop=now.noop, parallel=max(planned.parallel, now.parallel), fail_fast=planned.fail_fast or now.fail_fast
    )
