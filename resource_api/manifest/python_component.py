"""Components in Python: ``components/NAME.py`` with ``def build(m)`` → the document of one use of it.

``m`` is that of Python manifests, with the inputs and the title of this use. A reference in a relationship means one of
the component's own resources, or else one of the whole manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from resource_api.manifest import mapping_reader
from resource_api.manifest.python_api import ManifestApi, PendingValue
from resource_api.manifest.python_manifest import check_executed, run_author_code
from resource_api.manifest.python_positions import positions, source
from resource_api.model.attribute import RELATIONSHIPS
from resource_api.model.component import LoadedComponent
from resource_api.model.values.expression import Expression, escape_expressions
from resource_api.model.values.reference import child_reference, parse
from resource_api.model.values.values import Sensitive
from resource_api.system.pure_code_guard import read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from resource_api.manifest.python_positions import Call
    from resource_api.model.component import ComponentDefinition
    from resource_api.model.values.document import Document
    from resource_api.model.values.reference import Reference


class ComponentApi(ManifestApi):
    """The ``m`` of ``def build(m)``: declares resources and outputs; holds its inputs, its title, and facts."""

    def __init__(self, file: str, parent: str, title: str, inputs: Mapping[str, Any], facts: Any) -> None:
        """Begin with no declarations; ``parent`` is the reference of this use of the component."""
        super().__init__(file, {name: _given(value) for name, value in inputs.items()}, facts)
        self._parent = parent
        self.title = title

    def _qualified(self, reference: Reference) -> Reference:
        return child_reference(self._parent, *reference)

    def invoke(self, function: str, *_given: Any, **_more: Any) -> NoReturn:
        """Raise ``TypeError``: a manifest calls functions and passes the answer as an input."""
        msg = f"a component cannot call '{function}'; call it in the manifest and pass the answer as an input"
        raise TypeError(msg)

    def data(self) -> tuple[dict[str, Any], dict[str, dict[str, Call]]]:
        """Return the declarations as a manifest's data, and the call that declared each key, by section."""
        data, calls = super().data()
        own = data["resources"]
        for body in own.values():
            self._qualify(body, RELATIONSHIPS, own)
            if isinstance(lifecycle := body.get("lifecycle"), dict):
                self._qualify(lifecycle, ("replace_triggered_by", "deleted_with"), own)
        return data, calls

    def _qualify(self, body: dict[str, Any], keys: Collection[str], own: Mapping[str, Any]) -> None:
        for key in keys:
            if body.get(key) is not None:
                body[key] = self._resolved(body[key], own)

    def _resolved(self, value: Any, own: Mapping[str, Any]) -> Any:
        """Return references with their names in the whole manifest; invalid ones stay, compiling reports them."""
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
    definition: ComponentDefinition,
    function: Callable[[ComponentApi], object],
    facts: Any,
    on_inputs: Callable[[Any], None],
) -> LoadedComponent:
    """Return the function that builds uses of a component; ``on_inputs`` is called with the inputs of each before."""
    code = getattr(function, "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else (definition.name, 1)

    def build(parent: str, title: str, inputs: Mapping[str, Any]) -> Document:
        on_inputs({name: value for name, value in inputs.items() if not _is_pending(value)})
        m = ComponentApi(file, parent, title, inputs, facts)
        with read_only("a component"):
            run_author_code(file, None, lambda: check_executed(function, function(m)))
        declared, calls = m.data()
        return mapping_reader.read(declared, file, lambda: positions(calls, source(file), (line, 1)))

    return LoadedComponent(definition, build)


def _is_pending(value: Any) -> bool:
    """Whether an input is an expression, whose own text is no secret."""
    return isinstance(value.reveal() if isinstance(value, Sensitive) else value, Expression)


def _given(value: Any) -> Any:
    """Return an input as authors see it: expressions as pending values."""
    if isinstance(value, Expression):
        return PendingValue(value)
    if isinstance(value, dict):
        return {key: _given(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_given(item) for item in value]
    return Sensitive(_given(value.reveal())) if isinstance(value, Sensitive) else value
