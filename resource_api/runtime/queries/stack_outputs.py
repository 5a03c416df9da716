"""The outputs of another stack, as they are recorded; secrets in clear where the key is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.sealed_secrets import open_sealed
from resource_api.model.values.errors import nearest
from resource_api.state.store import StackName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resource_api.state.store import StateStore


def outputs(store: StateStore, own: StackName, name: str) -> Mapping[str, Any]:
    """Return the outputs of the stack that a manifest calls ``name``, by name; ``own``: the stack of the manifest.

    A name is that of a stack of the same project, or ``PROJECT/STACK``. A secret of which only a digest is recorded
    stays sealed. Raise ``ValueError`` with a message for users.
    """
    project, slash, stack = name.rpartition("/")
    wanted = StackName(project if slash else own.project, stack)
    if wanted == own:
        msg = "this is the stack itself; refer to its resources"
        raise ValueError(msg)
    if wanted not in (known := store.stacks()):
        names = [each.stack if each.project == own.project else "/".join(each) for each in known if each != own]
        advice = nearest(name, names) or (f"recorded are: {', '.join(names)}" if names else "none is recorded")
        msg = f"unknown stack '{name}'; {advice}"
        raise ValueError(msg)
    found: Mapping[str, Any] = open_sealed(store.load(wanted).outputs)
    return found
