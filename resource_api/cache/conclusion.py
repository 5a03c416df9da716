"""What a run has found in order and recorded just so, kept so that the next run need not conclude it again.

Compiling and planning are pure: where nothing that went into them has changed, nothing that came of them has. Of the
world only what was read went in, and of each row a digest is kept, never the row. How long it holds is decided by
whoever looks at the world (``cache.fingerprints``, the stores of state); what is left to be planned,
in ``convergence``.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._blake2 import blake2b
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from resource_api.model.type_definition import Name

#: Without references among values, so that equal values are spelt alike.
_SPELLING: Final = 2
_BYTES: Final = 12


class Standing(NamedTuple):
    """The resources of one instance that were asked for together: names, numbers, and digests of what was read."""

    instance: str
    names: Sequence[Name]
    #: Their places in the order of execution.
    numbers: Sequence[int]
    #: Empty for one of which more than its row decides: it is planned in every run.
    digests: Sequence[str]


class Converged(NamedTuple):
    """A manifest's resources as a run has left them, by their number in the order of execution."""

    project: str
    project_given: bool
    #: Whether the manifest says nothing but resources.
    bare: bool
    #: The file that relative names begin at, as it was named.
    file: str
    #: The key in the manifest of each that can be left out of it; None for the others.
    keys: Sequence[str | None]
    standing: Sequence[Standing]
    #: The numbers of those that are recorded, in this order.
    recorded: Sequence[int]
    #: number → the numbers that come after it, directly.
    after: Mapping[int, Sequence[int]]
    #: number → the numbers that its declaration names.
    names: Mapping[int, Sequence[int]]

    @classmethod
    def read(cls, values: Sequence[Any]) -> Converged:
        """Make it again of what JSON has made of it. Raises ``ValueError`` or ``TypeError`` for anything else."""
        *frame, standing, recorded, after, names = values
        groups = [Standing(instance, list(map(_name, found)), *more) for instance, found, *more in standing]
        return cls._make((*frame, groups, recorded, _numbered(after), _numbered(names)))


def digests(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Give what tells each of ``rows`` from any other; empty for one that holds more than plain data."""
    found = []
    for row in rows:
        try:
            found.append(
                blake2b(
                    marshal.dumps(row if type(row) is dict else dict(row), _SPELLING), digest_size=_BYTES
                ).hexdigest()
            )
        except ValueError:
            found.append("")
    return found


def _name(name: Any) -> Name:
    return tuple(name) if type(name) is list else name


def _numbered(edges: Mapping[str, Sequence[int]]) -> dict[int, Sequence[int]]:
    return {int(number): others for number, others in edges.items()}
