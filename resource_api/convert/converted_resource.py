"""A resource of a converted manifest, and the merging of two declarations of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from resource_api.convert.playbook import as_list
from resource_api.model.values.reference import Reference

if TYPE_CHECKING:
    from resource_api.convert.playbook import Task

#: Attributes in which two declarations of a resource must agree, and those of which each may have more.
_CONDITIONAL: Final = ("when", "for_each", "on_failure")
_LISTS: Final = ("notify", "tag")


class ConvertedResource:
    """A resource of the manifest, with the task that declares it."""

    def __init__(self, type_name: str, title: str, attributes: dict[str, object], task: Task) -> None:
        """Keep the attributes as a manifest writes them."""
        self.type = type_name
        self.title = title
        self.attributes = attributes
        self.task = task

    @property
    def reference(self) -> str:
        """The reference as a manifest writes it."""
        return str(Reference(self.type, self.title))

    def merge(self, other: ConvertedResource) -> bool:
        """Add the attributes of another declaration of this resource; return False, and add none, if two contradict."""
        mine, theirs = self.attributes, dict(other.attributes)
        if any(mine.get(name) != theirs.get(name) for name in _CONDITIONAL):
            return False
        lists = {name: [*as_list(mine.get(name)), *as_list(theirs.pop(name))] for name in _LISTS if name in theirs}
        # `present` adds nothing to another `ensure`, and `file` nothing to a directory.
        if theirs.get("ensure") == "present" or (
            mine.get("ensure") in {"file", "directory"} and theirs.get("ensure") == "file"
        ):
            theirs.pop("ensure")
        if any(name in mine and mine[name] != value for name, value in theirs.items()):
            return False
        mine.update(theirs)
        mine.update({name: list(dict.fromkeys(values)) for name, values in lists.items()})
        return True
