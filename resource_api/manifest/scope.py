"""What ``${inputs.x}``, ``${values.x}``, ``${facts.x}`` and the outputs of components lead to in one manifest.

Inputs are checked against their declared data types here. References to resources are answered by whoever knows
them; they come in as a function. Pure: facts come in as a mapping.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from resource_api.model.datatypes import build as datatypes
from resource_api.model.declaration import MISSING
from resource_api.model.values import assets, document, expression, reference
from resource_api.model.values.errors import DataTypeError, Problem, UsageError, nearest
from resource_api.model.values.values import UNKNOWN, Sensitive, is_secret, is_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.model.component_instance import ComponentInstance
    from resource_api.model.declaration import Manifest
    from resource_api.model.entry import Entry
    from resource_api.model.function import Call
    from resource_api.model.values.assets import Content, ContentSpec
    from resource_api.model.values.expression import Path
    from resource_api.model.values.reference import Reference

    Contents = Callable[[ContentSpec, str], Content]
    #: Who answers for resources, who for functions, and whether components are answered for here.
    _Ways = tuple[Callable[[Path], Any], Callable[[Call, Mapping[str, Any]], Any], bool]


class TextInput(str):
    """An input as text from the command line: coerced to its declared data type."""

    __slots__ = ()


class FileInput(TextInput):
    """An input whose text was read from a file: a secret may come this way."""

    __slots__ = ()


class Scope:
    """Resolves paths into inputs, values and facts; a path into a resource is left to ``of_resource``."""

    def __init__(
        self, manifest: Manifest, inputs: Mapping[str, Any], facts: Any, contents: Contents | None = None
    ) -> None:
        """Look names up in ``manifest``; ``inputs`` are values by name: of one that is a problem nothing is known.

        ``contents`` makes an asset or archive of what a file says of it; without it there are none.
        """
        self._manifest = manifest
        self._facts = facts
        self._contents = contents
        self._evaluating: list[str] = []
        self.inputs: dict[str, Any] = {}
        #: The components that have been built: their outputs are values with a name.
        self.components: dict[Reference, ComponentInstance] = {}
        #: Values that functions are asked for, by name; None: one that cannot be, whatever it is.
        self.calls: Mapping[str, Call | None] = {}
        #: The names of values that something has been looked up for.
        self.used: set[str] = set()
        self.problems: list[Problem] = []
        self._read_inputs(inputs)

    def resolver(
        self,
        of_resource: Callable[[Path], Any],
        invoke: Callable[[Call, Mapping[str, Any]], Any] = lambda _call, _given: UNKNOWN,
        *,
        built: bool = True,
    ) -> Callable[[Path], Any]:
        """Give the function that ``expression.evaluate`` asks; not ``built``: components are left to it too.

        ``invoke`` asks functions whose inputs are known; without it their answers are not.
        """
        return partial(self._lead, (of_resource, invoke, built))

    def _lead(self, ways: _Ways, written: Path) -> Any:
        of_resource, invoke, built = ways
        path = self._named(written)
        if path is None:
            return UNKNOWN
        if path.root == "inputs":
            return self._input(path)
        if path.root == "facts":
            return self._fact(path)
        # Not kept: a function that knows itself would hold all that it knows until circles are looked for.
        resolve = partial(self._lead, ways)
        if path.root == "values":
            return self._called(path, resolve, invoke) if path.keys[0] in self.calls else self._value(path, resolve)
        if built and path.root in self.components:
            return self._output(path, resolve)
        return of_resource(path)

    def name(self, written: Reference) -> Reference | None:
        """Give what a reference as it is written means: its title may use inputs and facts.

        None where it uses what has been refused. Raises ``ValueError`` with a sentence for people.
        """
        if "${" not in written.title:
            return written
        found = expression.evaluate(str(written), self.resolver(_no_resource, _no_function, built=False))
        if is_unknown(found):
            return None
        # It is shown in every message, and written on command lines.
        flaw = (
            "a title cannot hold a secret"
            if is_secret(found)
            else document.character_problem(found, key=True, what="a title")
        )
        if flaw:
            raise ValueError(flaw)
        return reference.parse(found)

    def _named(self, written: Path) -> Path | None:
        """Give a path into what a resource's title comes to; other paths as they are."""
        if not isinstance(written.root, tuple) or "${" not in written.root.title:
            return written
        found = self.name(written.root)
        return None if found is None else written._replace(root=found)

    def refuse(self, name: str) -> None:
        """Take it that a value with a name cannot be: nothing is known of it."""
        self.calls = {**self.calls, name: None}

    def refused(self, value: Any) -> bool:
        """Whether a value uses an input or a value with a name that cannot be: that has been said, of those."""
        return any(
            self.inputs.get(path.keys[0]) is UNKNOWN
            if path.root == "inputs"
            else path.root == "values" and self.calls.get(path.keys[0], path) is None
            for path in self.paths(value)
        )

    def paths(self, value: Any) -> Iterator[Path]:
        """Give every path in a value, and those in what they stand for: values and the outputs of components."""
        seen: set[Path] = set()
        waiting = [value]
        while waiting:
            for path in filter(None, map(self._named, expression.find_paths(waiting.pop()))):
                yield path
                named = path._replace(keys=path.keys[:1])
                if named not in seen and (behind := self._behind(named)) is not None:
                    seen.add(named)
                    waiting.append(behind)

    def _behind(self, path: Path) -> Any:
        """Give the value as written that a path stands for; None where it stands for none."""
        if path.root == "values":
            name, call = path.keys[0], self.calls.get(path.keys[0])
            self.used.add(name)
            # What is wrong with one that cannot be has been said.
            value = None if name in self.calls and call is None else self._manifest.values.get(name)
            configured = self._manifest.providers.values() if call else ()
            return [value, *(each.config for each in configured if call and each.instance == call.instance)]
        group = self.components.get(path.root) if isinstance(path.root, tuple) else None
        return group.outputs.get(path.keys[0]) if group is not None else None

    def value(self, entry: Entry, name: str, written: Any, resolve: Callable[[Path], Any]) -> Any:
        """Give an attribute's value, its references replaced, what stands for assets and archives made such.

        Where any text will do, an asset of text is that text. Raises ``ValueError`` with a sentence for people.
        """
        found = expression.evaluate(written, resolve)
        if name in entry.definition.content_attributes and not is_unknown(found):
            made = self._made(found, entry.declaration.file)
            text = assets.text_of(made) if str in entry.definition.unrestricted_types[name] else None
            return made if text is None else text
        return found

    def _made(self, value: Any, file: str) -> Any:
        contents, root = self._contents, self._manifest.root
        place = f"{root}/{file}" if root and not file.startswith("/") else file
        return value if contents is None else assets.build_contents(value, lambda wish: contents(wish, place))

    def _input(self, path: Path) -> Any:
        name = path.keys[0]
        if name not in self.inputs:
            raise ValueError(_unknown(path, "input", name, self._manifest.inputs))
        return expression.follow_keys(self.inputs[name], path, path.keys[1:])

    def _fact(self, path: Path) -> Any:
        try:
            value = self._facts[path.keys[0]]
        except KeyError:
            names = self._facts.names() if hasattr(self._facts, "names") else self._facts
            raise ValueError(_unknown(path, "fact", path.keys[0], names)) from None
        return expression.follow_keys(value, path, path.keys[1:])

    def _value(self, path: Path, resolve: Callable[[Path], Any]) -> Any:
        name = path.keys[0]
        if name not in self._manifest.values:
            raise ValueError(_unknown(path, "value", name, self._manifest.values))
        return self._evaluate(name, self._manifest.values[name], path, resolve)

    def _called(
        self, path: Path, resolve: Callable[[Path], Any], invoke: Callable[[Call, Mapping[str, Any]], Any]
    ) -> Any:
        """Give what a function answers; it is never asked about what is not known."""
        call = self.calls[path.keys[0]]
        if call is None:
            return UNKNOWN
        given = self._evaluate(path.keys[0], dict(call.given), path._replace(keys=path.keys[:1]), resolve)
        answer = UNKNOWN if is_unknown(given) else invoke(call, given)
        return expression.follow_keys(answer, path, path.keys[1:])

    def _output(self, path: Path, resolve: Callable[[Path], Any]) -> Any:
        assert isinstance(path.root, tuple)
        name, outputs = path.keys[0], self.components[path.root].outputs
        if name not in outputs:
            raise ValueError(_unknown(path, "output", name, outputs))
        return self._evaluate(f"{path.root}.{name}", outputs[name], path, resolve)

    def _evaluate(self, name: str, value: Any, path: Path, resolve: Callable[[Path], Any]) -> Any:
        if name in self._evaluating:
            msg = f"{path}: values refer to each other in a circle: {' → '.join((*self._evaluating, name))}"
            raise ValueError(msg)
        if len(self._evaluating) >= document.MAX_DEPTH:
            msg = f"{path}: values refer to each other more than {document.MAX_DEPTH} deep"
            raise ValueError(msg)
        self._evaluating.append(name)
        try:
            return expression.follow_keys(expression.evaluate(value, resolve), path, path.keys[1:])
        finally:
            self._evaluating.pop()

    def _read_inputs(self, given: Mapping[str, Any]) -> None:
        for name in given:
            if name not in self._manifest.inputs:
                hint = nearest(name, self._manifest.inputs)
                self.problems.append(
                    Problem(None, f"unknown input '{name}'", file=self._manifest.file, code="unknown_input", hint=hint)
                )
        for name, declared in self._manifest.inputs.items():
            try:
                self._read_input(name, declared, given)
            except (DataTypeError, ValueError) as error:
                self.inputs[name] = UNKNOWN
                place = declared.place()
                self.problems.append(
                    Problem(
                        None,
                        f"input '{name}': {error}",
                        file=place.file,
                        line=place.line,
                        column=place.column,
                        code="input",
                    )
                )

    def _read_input(self, name: str, declared: Any, given: Mapping[str, Any]) -> None:
        datatype = datatypes.parse(declared.type)
        if name in given:
            value = given[name]
        elif declared.default is not MISSING:
            value = declared.default
        elif datatype.optional:
            value = None
        else:
            wanted = "@FILE" if datatype.sensitive else "VALUE"
            msg = f"is not given and has no default; give it with -i {name}={wanted}"
            raise ValueError(msg)
        if isinstance(value, TextInput) and not isinstance(value, FileInput) and datatype.sensitive:
            msg = f"input '{name}' is sensitive and cannot be given on the command line; write -i {name}=@FILE"
            raise UsageError(msg)
        if isinstance(value, TextInput):
            from resource_api.model.datatypes import coerce as coercion  # noqa: PLC0415 - only for the command line

            value = coercion.coerce(datatype, str(value))
        if datatype.holds_contents:
            value = self._made(value, declared.place().file)
        if not datatype.accepts(value):
            from resource_api.model.datatypes import json_schema as schemas  # noqa: PLC0415 - the slow path: who accepts needs none of it

            if problems := schemas.explain(datatype, value):
                raise ValueError("; ".join(message for _, message in problems))
        self.inputs[name] = Sensitive(value) if datatype.sensitive and value is not None else value


def _no_function(call: Call, _given: Mapping[str, Any]) -> Any:
    msg = f"a title cannot depend on a function, such as {call}"
    raise ValueError(msg)


def _no_resource(path: Path) -> Any:
    msg = f"{path}: a title cannot depend on another resource"
    raise ValueError(msg)


def _unknown(path: Path, kind: str, name: str, known: Any) -> str:
    hint = nearest(name, known)
    return f"{path}: unknown {kind} '{name}'" + (f"; {hint}" if hint else "")
