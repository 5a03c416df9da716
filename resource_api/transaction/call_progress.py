"""The progress of a call of ``set`` or ``refresh`` as it is shown: the resource that it has come to, and its place.

Everything is computed when it is asked for, in the thread that shows it: most calls end before.
"""

from __future__ import annotations

import time
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

from resource_api.model.action import Action
from resource_api.model.values.reference import capitalize_type
from resource_api.model.values.text import show_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.model.change import Changes
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.plan.planner import Plan
    from resource_api.provider.context import Context
    from resource_api.system.log import Log
    from resource_api.transaction.operation_run import OperationRun

#: Names of a call about several resources that are shown.
_MOST_NAMES: Final = 5


class Places:
    """The places of the steps of a plan that do something, in the order in which they are carried out."""

    def __init__(self, plan: Plan) -> None:
        """Number nothing yet."""
        self._plan = plan

    @cached_property
    def _places(self) -> Mapping[int, int]:
        """Entry's index → its place, from 1."""
        steps = (operation.step for operation in self._plan.operations)
        acting = (step for step in steps if step.decision.action is not Action.SAME or step.refreshed_by)
        indices = dict.fromkeys(step.entry.index for step in acting)
        return {index: place for place, index in enumerate(indices, 1)}

    def describe(self, indices: Collection[int]) -> str:
        """Return the place of entries among all: ``3/14``, ``3-5/14``; empty where one was not planned."""
        found = sorted(self._places.get(index, 0) for index in indices)
        if not found or not found[0]:
            return ""
        together = found[-1] - found[0] == len(found) - 1 > 0
        return f"{found[0]}-{found[-1]}/{len(self._places)}" if together else f"{found[0]}/{len(self._places)}"


class SettlingProgress:
    """The wait until changes can be seen."""

    place = detail = ""
    verb = "waiting to see"

    def __init__(self, definition: TypeDefinition, names: Callable[[], Sequence[Name]], log: Log) -> None:
        """Begin now; ``names`` returns those that cannot be seen yet."""
        self.started = time.monotonic()
        self._definition = definition
        self._names = names
        self._log = log

    @property
    def subject(self) -> str:
        """The references of the resources, of many only the first."""
        names = self._names()
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        titles = ", ".join(map(show_name, names[:_MOST_NAMES]))
        return f"{capitalize_type(self._definition.name)}[{titles}]{more}"

    def log(self, seconds: int) -> None:
        """Log a notice that it still goes on."""
        text = f"still {self.verb} it as declared ({seconds} s)"
        self._log.write("notice", self.subject, text, self._definition.name)


class RunningCall:
    """One call."""

    def __init__(self, runs: Sequence[OperationRun], context: Context, changes: Changes | None, places: Places) -> None:
        """Begin now; ``changes``: what a ``set`` was given."""
        self.started = time.monotonic()
        self.runs = runs
        self._context = context
        self._changes = changes
        self._places = places

    @property
    def _names(self) -> Sequence[Name]:
        """The names that the call has come to: those of the open logging context, or of the iteration, or all."""
        for opened in self._context.open_contexts[-1:]:
            return opened.names
        current = self._changes.current if self._changes is not None else None
        return [run.name for run in self.runs] if current is None else [current]

    @property
    def place(self) -> str:
        """The places of its resources among all that are changed."""
        names = set(self._names)
        found = {run.step.entry.index for run in self.runs if run.name in names}
        return self._places.describe(found)

    @property
    def subject(self) -> str:
        """The reference of the resources, of many only the first."""
        names = self._names
        reference = self._context.outcomes.reference(list(islice(names, _MOST_NAMES)))
        more = len(names) - _MOST_NAMES
        return f"{reference} and {more} more" if more > 0 else reference

    @property
    def verb(self) -> str:
        """The type's word for what is being done to the resources."""
        subjects = self._context.subjects
        return self._context.type.verb({subjects[name].action for name in self._names if name in subjects})

    @property
    def detail(self) -> str:
        """The last line that a program of this call has printed."""
        return self._context.last_printed

    def log(self, seconds: int) -> None:
        """Log a notice that it still goes on."""
        self._context.outcomes.write("notice", self.subject, f"still {self.verb} ({seconds} s)", self._names)
