"""What a provider may rely on during a call, and what it may keep of one."""

from __future__ import annotations

from io import StringIO
from threading import Thread
from typing import TYPE_CHECKING, Any

from resource_api import Attribute, BaseProvider, Registry, Runtime, TypeDefinition
from resource_api.system.log import console

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Context, Resource


class Boxes:
    """Boxes in memory; keeps the changes of the last call, and while it compares lets somebody else speak."""

    def __init__(self) -> None:
        """Begin with none."""
        self.boxes: dict[str, Resource] = {}
        self.last: Mapping[str, Change] = {}
        self.context: Context | None = None
        self.unheard = 0

    def provider(self) -> type[BaseProvider]:
        """Give the class that provides them."""
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
    """Give a runtime with the type ``box``."""
    definition = TypeDefinition(
        name="box",
        attributes={
            "name": Attribute("String", kind="namevar"),
            "ensure": Attribute("Enum[present, absent]", default="present"),
            "inside": Attribute("Optional[Array[Integer]]"),
        },
        features={"custom_insync", "simple_get_filter"},
    )
    registry = Registry()
    registry.register_type(definition)
    registry.register_provider("box", boxes.provider())
    return Runtime(registry)


def test_others_may_speak_while_a_provider_compares() -> None:
    """What was done is told in one go, and nobody has to wait for a comparison meanwhile."""
    boxes = Boxes()
    runs = runtime(boxes)
    runs.log.sinks[:] = [console(StringIO())]
    report = runs.apply({"resources": {"Box[a]": {"inside": [1]}}})
    assert (report.summary.created, boxes.unheard) == (1, 0)


def test_what_a_call_has_asked_stays_what_it_has_asked() -> None:
    """To whoever looks at it when the call is over; and what one look has changed, the next one does not see."""
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
