"""What errors are called in diagnostics."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.agent import trust
from resource_api.fleet import asyncssh_transport
from resource_api.fleet.host import execute
from resource_api.model.values import errors
from resource_api.plugins.worker import process
from resource_api.rehearse import result
from resource_api.runtime import purging
from resource_api.state.postgresql import database as postgresql_database
from resource_api.state.sqlite import database
from resource_api.system.overlay import isolated_run, overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The modules that define errors of the tree.
MODULES: Final = (
    errors,
    trust,
    asyncssh_transport,
    execute,
    process,
    result,
    purging,
    postgresql_database,
    database,
    isolated_run,
    overlay,
)
#: The errors that are made of more than a message.
MADE_OF: Final[dict[type[errors.ResourceAPIError], tuple[Any, ...]]] = {
    errors.UsageError: ("no such thing", "size"),
    errors.UnknownName: ("no such thing", "size"),
    errors.DataTypeError: ("unknown", 7),
    errors.ManifestError: ([errors.Problem("size", "is wrong", file="site.yaml", line=3, column=5, hint="mend it")],),
    purging.PurgeError: ([errors.Problem("size", "is wrong", file="site.yaml", line=3, column=5, hint="mend it")],),
    errors.CommandError: ("it failed", ["apt", "update"], 2, "no network"),
    errors.StateNotEncrypted: ("web", "production", "file:key"),
    errors.StateDamaged: ("it is damaged", "mends it"),
    process.WorkerLost: ("was killed", ", perhaps"),
}


def tree(base: type[errors.ResourceAPIError] = errors.ResourceAPIError) -> Iterator[type[errors.ResourceAPIError]]:
    """Yield every class of the tree that this program defines, but those of a module path's shared code."""
    if base.__module__.startswith("resource_api.") and "@" not in base.__module__:
        yield base
        for subclass in base.__subclasses__():
            yield from tree(subclass)


def pickled(error: errors.ResourceAPIError) -> object:
    """Return an error as another process gets it."""
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("kind", sorted(set(tree()), key=lambda kind: kind.__name__))
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_an_error_is_copied_and_pickled_with_its_fields(
    kind: type[errors.ResourceAPIError], duplicate: Callable[[Any], Any]
) -> None:
    """It passes from a process of a pool to another."""
    error = kind(*MADE_OF.get(kind, ("it failed",)))
    error.position = ("types/queue.py", 3, 1)  # type: ignore[attr-defined] # a field that is set later
    result = duplicate(error)
    assert (type(result), str(result), result.args, vars(result)) == (kind, str(error), error.args, vars(error))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError(""), "usage"),
        (errors.UnknownType(""), "unknown_type"),
        (errors.DataTypeError(""), "data_type"),
        (errors.ResourceAPIError(""), "failed"),
    ],
)
def test_a_diagnostic_has_the_name_of_its_error_as_code(error: errors.ResourceAPIError, code: str) -> None:
    """The class in lower case, in words; the base, which says nothing more, is a failure."""
    assert errors.diagnostic_code(error) == code
