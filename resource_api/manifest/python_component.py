"""Components in Python: ``components/NAME.py`` with ``def build(m)`` → the document of one use of it.

The same ``m`` as in Python manifests, knowing its inputs and its title. What it declares becomes plain data; a name in
a relationship means the component's own resources first, then those of the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from resource_api.manifest import json_reader
from resource_api.manifest.python_handles import Value
from resource_api.manifest.python_manifest import Manifest, guarded, positions_of
from resource_api.model.component import LoadedComponent
from resource_api.model.values.expression import Expression, escape_expressions
from resource_api.model.values.reference import child_reference, parse
from resource_api.model.values.values import Sensitive
from resource_api.system.sandbox import read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.model.component import ComponentDefinition
    from resource_api.model.values.document import Document
    from resource_api.model.values.reference import Reference

_RELATIONS: Final = ("require", "before", "notify", "subscribe")


class Component(Manifest):
    """The ``m`` of ``def build(m)``: declares resources and outputs, knows its inputs, its title, and facts."""

    def __init__(self, file: str, parent: str, inputs: Mapping[str, Any], facts: Any) -> None:
        """Begin with nothing declared; ``parent`` is the reference of this use of the component."""
        super().__init__(file, {name: _given(value) for name, value in inputs.items()}, facts)
        self._parent = parent
        self.title = ""

    def _outside(self, reference: Reference) -> Reference:
        return child_reference(self._parent, *reference)

    def invoke(self, function: str, *_given: Any, **_more: Any) -> NoReturn:
        """Refuse: whoever uses the component asks, and hands the answer over as an input."""
        msg = f"a component cannot ask '{function}'; let the manifest ask, and hand the answer over as an input"
        raise TypeError(msg)

    def data(self) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
        """Give what was declared, as a manifest's data, and the line of each key."""
        data, lines = super().data()
        for body in data["resources"].values():
            for word in _RELATIONS:
                if body.get(word) is not None:
                    body[word] = self._resolved(body[word], data["resources"])
            lifecycle = body.get("lifecycle")
            for word in ("replace_triggered_by", "deleted_with"):
                if isinstance(lifecycle, dict) and lifecycle.get(word) is not None:
                    lifecycle[word] = self._resolved(lifecycle[word], data["resources"])
        return data, lines

    def _resolved(self, value: Any, own: Mapping[str, Any]) -> Any:
        """Give references as the whole manifest reads them; what is none is refused later, with its place."""
        if isinstance(value, list):
            return [self._resolved(item, own) for item in value]
        try:
            wanted = parse(value) if isinstance(value, str) else None
        except ValueError:
            return value
        return (
            str(child_reference(escape_expressions(self._parent), *wanted))
            if wanted is not None and str(wanted) in own
            else value
        )


def blueprint(
    definition: ComponentDefinition, function: Callable[[Component], object], facts: Any, told: Callable[[Any], None]
) -> LoadedComponent:
    """Give a component as the catalog builds it; ``told`` hears of its inputs before its code does."""
    file = function.__code__.co_filename if hasattr(function, "__code__") else definition.name

    def build(parent: str, title: str, inputs: Mapping[str, Any]) -> Document:
        told(inputs)
        m = Component(file, parent, inputs, facts)
        m.title = title
        with read_only("a component"):
            guarded(file, lambda: function(m))
        declared, lines = m.data()
        return json_reader.adopt(declared, file, lambda: positions_of(lines))

    return LoadedComponent(definition, build)


def _given(value: Any) -> Any:
    """Give an input as authors meet it: what is not known yet as a value to be handed on."""
    if isinstance(value, Expression):
        return Value(value)
    if isinstance(value, dict):
        return {key: _given(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_given(item) for item in value]
    return Sensitive(_given(value.reveal())) if isinstance(value, Sensitive) else value
