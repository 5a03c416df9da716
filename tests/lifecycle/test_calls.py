"""What a provider may rely on during a call, and what it may keep after it."""

from __future__ import annotations

from io import StringIO
from threading import Thread
from typing import TYPE_CHECKING, Any

from resource_api import Attribute, BaseProvider, Runtime, TypeDefinition
from resource_api.system.log import Log, StreamLogger, render_line
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Context, Resource


class Boxes:
    """Boxes in memory; the provider keeps the changes of its last call, and other threads log while it compares."""

    def __init__(self) -> None:
        """Start without boxes."""
        self.boxes: dict[str, Resource] = {}
        self.last: Mapping[str, Change] = {}
        self.context: Context | None = None
        self.unheard = 0

    def provider(self) -> type[BaseProvider]:
        """Return the provider class of the type."""
        here = self

        class Provider(BaseProvider):
            def get(self, _context: Context, names: Collection[str] | None = None) -> list[Resource]:
                return [dict(box) for name, box in here.boxes.items() if names is None or name in names]

            def set(self, context: Context, changes: Mapping[str, Change]) -> None:
                here.context, here.last = context, changes
                here.boxes.update({name: dict(should) for name, (_, should) in changes.items()})

            def insync(self, _context: Context, _name: str, _attribute: str, *_states: Any) -> None:
                if here.context is not None:
                    speaker = Thread(target=here.context.notice, args=("meanwhile",), daemon=True)
                    speaker.start()
                    speaker.join(5)
                    here.unheard += speaker.is_alive()

        return Provider


def runtime(boxes: Boxes) -> Runtime:
    """Return a runtime with the type ``box``."""
    definition = TypeDefinition(
        name="box",
        attributes={
            "name": Attribute("String", kind="namevar"),
            "ensure": Attribute("Enum[present, absent]", default="present"),
            "inside": Attribute("Optional[Array[Integer]]"),
        },
        features={"custom_insync", "simple_get_filter"},
    )
    return Runtime(registry_of((definition, boxes.provider())))


def test_other_threads_may_log_while_a_provider_compares() -> None:
    """The lines of the changes are written together, and other threads need not wait for a comparison."""
    boxes = Boxes()
    runs = runtime(boxes)
    runs.log = runs.run.log = Log("notice", [render_line], StreamLogger(StringIO()), terse=True)
    report = runs.apply({"resources": {"Box[a]": {"inside": [1]}}})
    assert (report.summary.created, boxes.unheard) == (1, 0)


def test_the_changes_of_a_call_stay_as_they_were() -> None:
    """They can be read after the call, and a change that the reader makes to one copy does not appear in another."""
    boxes = Boxes()
    runs = runtime(boxes)
    runs.apply({"resources": {"Box[a]": {"inside": [1]}, "Box[b]": {}}})
    assert boxes.last["a"] == (None, {"name": "a", "ensure": "present", "inside": [1]})
    boxes.last["a"].should["inside"].append(2)
    assert boxes.last["a"].should["inside"] == [1]
    runs.apply({"resources": {"Box[a]": {"inside": [3]}, "Box[b]": {}}})
    assert list(boxes.last) == ["a"]
    assert (boxes.last["a"].is_ or {})["inside"] == [1]
    assert boxes.boxes["a"]["inside"] == [3]
