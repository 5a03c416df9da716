"""What a caller wants of one run, beyond the manifest.

Plain data shared by planning and applying; where each wish comes from (command line, environment, a call) is not known.
"""

from __future__ import annotations

from resource_api.nouns.named import NamedTuple


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


def carried_out(planned: Options, now: Options) -> Options:
    """Give the wishes of a plan as it is carried out: what it shows stays, how it is done may be wished anew."""
    return planned._replace(
        noop=now.noop, parallel=max(planned.parallel, now.parallel), fail_fast=planned.fail_fast or now.fail_fast
    )
