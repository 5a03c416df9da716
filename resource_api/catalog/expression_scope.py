"""Resolve the names in expressions (``${inputs.x}``, ``${values.x}``, ``${facts.x}``), and the expressions in names.

The values of resources and the results of functions come in as plain functions, facts as a mapping.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import input_values, metaparameters
from resource_api.model.attribute import CARDINALITY, EVALUATED, RELATIONSHIPS
from resource_api.model.datatypes import referred_values
from resource_api.model.sealed_secrets import has_sealed
from resource_api.model.values import assets, document, expression, reference
from resource_api.model.values.errors import Problem, hint, suggestion
from resource_api.model.values.expression import EvaluationError, ExpressionPath
from resource_api.model.values.reference import Reference, parse
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import UNKNOWN, Sensitive, is_secret, is_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.model.declaration import Declaration, FilePosition, Manifest, Moved, Removed
    from resource_api.model.entry import ComponentInstance, Entry
    from resource_api.model.type_definition import FunctionCall
    from resource_api.model.values.assets import Content, ContentSpec

    Contents = Callable[[ContentSpec, str], Content]

    #: Returns the outputs of the stack of a name; raises ``ValueError`` with a message for users.
    StackOutputs = Callable[[str], Mapping[str, Any]]
    #: Returns the result of a pure function for known inputs.
    PureCall = Callable[[FunctionCall, Mapping[str, Any]], Any]


#: How many named values and outputs the evaluation of one path may look up.
_MAX_LOOKUPS: Final = 20_000


class _Expansion:
    """The lookups of one evaluation, of one path or more, to bound it like the aliases of YAML."""

    __slots__ = ("characters", "evaluated", "lookups")

    def __init__(self) -> None:
        self.lookups = self.characters = 0
        #: Name → its value, and the lookups and characters of evaluating it, which count for each use.
        self.evaluated: dict[str, tuple[object, int, int]] = {}

    def add(self, path: ExpressionPath, lookups: int, characters: int) -> None:
        """Count the lookups and characters of a named value or an output. Raise ``ValueError`` beyond the limits.

        Without limits a few short values that repeat each other could fill the memory.
        """
        self.lookups += lookups
        self.characters += characters
        if self.lookups > _MAX_LOOKUPS or self.characters > document.MAX_EXPANSION:
            raise ValueError(f"{path}: values that refer to each other expand beyond the limit")


class _Lookup(NamedTuple):
    """The functions and the progress of one evaluation."""

    of_resource: Callable[[ExpressionPath], Any]
    call: Callable[[FunctionCall, Mapping[str, Any]], Any]
    #: Whether outputs of components are looked up here; otherwise ``of_resource`` gets these paths too.
    expand_components: bool = True
    #: The names of the values that are being evaluated, to find circles.
    inside: tuple[str, ...] = ()
    #: Its lookups, or None before the first.
    expansion: _Expansion | None = None


class Scope:
    """Resolves the paths in expressions. It is complete when compiling ends and does not change afterwards."""

    def __init__(
        self,
        manifest: Manifest,
        inputs: Mapping[str, object],
        facts: Any,
        contents: Contents | None = None,
        stacks: StackOutputs | None = None,
        *,
        pure: PureCall | None = None,
    ) -> None:
        """Look names up in ``manifest``; ``inputs`` are values by name, an invalid one becomes ``UNKNOWN``.

        ``facts`` has ``[name]``, ``names()`` and ``host``, the host's properties; a mapping has no host. ``contents``
        makes an asset or archive from its description in a file, or None to keep descriptions. ``stacks`` returns the
        outputs of other stacks, or None if there are none. ``pure`` calls a pure function with known inputs.
        """
        self._manifest = manifest
        self._facts = facts
        self._contents = contents
        self._stacks = stacks
        self._pure = pure
        #: The results of pure functions of known inputs, by the name of the value.
        self.constants: dict[str, object] = {}
        #: The outputs of other stacks that were looked up, as ``(stack, output)``, in this order.
        self.stack_outputs: dict[tuple[str, str], None] = {}
        #: Components by reference and alias, as far as they have been built.
        self.components: dict[Reference, ComponentInstance] = {}
        #: Returns the entry of a name, as far as entries have been built.
        self.find: Callable[[Reference], Entry | None] = lambda _name: None
        #: The named values that are function calls, or None for an invalid named value.
        self.calls: Mapping[str, FunctionCall | None] = {}
        self.inputs, self.problems = dict[str, Any](), list[Problem]()
        if manifest.inputs or inputs:
            self.inputs, self.problems = input_values.input_values(manifest, inputs, self.make_contents)
        #: Name → value of the inputs to be masked in output.
        self.secret_inputs = {name: value for name, value in self.inputs.items() if is_secret(value)}

    def resolver(
        self,
        of_resource: Callable[[ExpressionPath], Any],
        call: Callable[[FunctionCall, Mapping[str, Any]], Any] = lambda _call, _given: UNKNOWN,
        *,
        expand_components: bool = True,
        once: bool = False,
    ) -> Callable[[ExpressionPath], Any]:
        """Return the function that resolves a path for ``expression.evaluate``; it raises ``ValueError`` for users.

        Stages differ in their knowledge: ``of_resource`` returns the value of a path into a resource (and a component
        unless ``expand_components``), ``call`` the result of a function with known inputs. ``once``, for many paths:
        each named value is evaluated once, and their texts share one limit.
        """
        lookup = _Lookup(of_resource, call, expand_components)
        if not once:
            return partial(self._resolve, lookup)
        expansion = _Expansion()
        lookup = lookup._replace(expansion=expansion)

        def resolve(path: ExpressionPath) -> Any:
            expansion.lookups = 0  # they are bounded for each path, the characters for all of them
            return self._resolve(lookup, path)

        return resolve

    def resolve_name(
        self, written: Reference, inside: tuple[str, ...] = (), expansion: _Expansion | None = None
    ) -> Reference | None:
        """Return a reference with its title evaluated; None if the title uses an invalid, reported input or value.

        Raise ``ValueError``. If the reference is part of another evaluation, ``inside`` and ``expansion`` are those of
        that evaluation, and the limits hold for both together.
        """
        if "${" not in written.title:
            return written
        name = self.known_value(str(written), "a title", inside, expansion)
        if name is UNKNOWN:
            return None
        # A title is shown in every message and written on command lines.
        problem = (
            "a title cannot hold a secret"
            if is_secret(name)
            else document.character_problem(name, key=True, noun="a title")
        )
        if problem:
            raise ValueError(problem)
        return reference.parse(name)

    def known_value(
        self, written: object, noun: str, inside: tuple[str, ...] = (), expansion: _Expansion | None = None
    ) -> Any:
        """Return the value of a title or metaparameter, which is needed before any resource is read.

        It is ``UNKNOWN`` if it uses an invalid input or value. Raise ``ValueError`` for a path into a resource, and for
        a function that is not pure; ``noun`` is the subject of the message: "a title".
        """
        refusals = partial(_refuse_resource, noun), partial(_refuse_function, noun)
        lookup = _Lookup(*refusals, expand_components=False, inside=inside, expansion=expansion)
        value = expression.evaluate(written, partial(self._resolve, lookup))
        return UNKNOWN if is_unknown(value) else value

    def uses_invalid(self, value: object) -> bool:
        """Return whether a value uses an invalid input or named value, whose error has been reported.

        A further error of the value itself would only repeat that one.
        """
        for path in self.paths(value):
            name = path.keys[0]
            if path.root == "inputs" and self.inputs.get(name) is UNKNOWN:
                return True
            if path.root == "values" and name in self.calls and self.calls[name] is None:
                return True
        return False

    def paths(self, value: object, *, of_configurations: bool = True) -> Iterator[ExpressionPath]:
        """Yield every path on which a value depends: its own, and those of the named values and outputs that it uses.

        A result of a function also depends on the configuration of its provider: its paths are yielded unless
        ``of_configurations`` is false. Raise ``ValueError`` for an invalid expression.
        """
        visited: set[ExpressionPath] = set()
        waiting = [value]
        while waiting:
            for path in filter(None, map(self._with_name, expression.find_paths(waiting.pop()))):
                yield path
                definition_path = path._replace(keys=path.keys[:1])
                if definition_path not in visited:
                    visited.add(definition_path)
                    definition = self._definition(definition_path, of_configurations=of_configurations)
                    if definition is not None:
                        waiting.append(definition)

    def ephemeral_input(self, value: object) -> str:
        """Return the name of an ephemeral input that a value uses, or "": such a value must not be recorded.

        Configurations of providers may use one, and do not make the results of their functions ephemeral.
        """
        ephemeral = {name for name, declared in self._manifest.inputs.items() if declared.ephemeral}
        paths = self.paths(value, of_configurations=False) if ephemeral else ()
        return next((path.keys[0] for path in paths if path.root == "inputs" and path.keys[0] in ephemeral), "")

    def _definition(self, path: ExpressionPath, *, of_configurations: bool) -> Any:
        """Return the declaration of the named value or output at a path, which ``paths`` searches for further paths.

        Return None for another path. A named value is returned in a list, to which ``of_configurations`` adds the
        configurations of the provider whose function it calls.
        """
        if path.root == "values":
            name = path.keys[0]
            value, call = self._manifest.values.get(name), self.calls.get(name)
            if call is None:
                return None if name in self.calls else [value]  # None in ``calls``: invalid, and reported
            configured = self._manifest.providers.values() if of_configurations else ()
            return [value, *(provider.config for provider in configured if provider.instance == call.instance)]
        component = self.components.get(path.root) if isinstance(path.root, tuple) else None
        return component.outputs.get(path.keys[0]) if component is not None else None

    def attribute_value(
        self, entry: Entry, name: str, written: object, resolve: Callable[[ExpressionPath], Any]
    ) -> Any:
        """Return an attribute's value: expressions evaluated, assets and archives made from their descriptions.

        A text asset becomes its text if the attribute accepts any text, so that both forms have the same value. Raise
        ``ValueError`` with a message for users.
        """
        value = expression.evaluate(written, resolve)
        if type(value) is not str and value is not UNKNOWN and name in entry.definition.attributes:
            value = referred_values.with_texts(entry.definition.attributes[name].datatype, written, value)
        if name in entry.definition.content_attributes:
            if is_unknown(value):
                # A description that is not completely known is no content yet.
                return UNKNOWN
            content = self.make_contents(value, entry.declaration.file)
            text = assets.text_of(content) if str in entry.definition.unrestricted_types[name] else None
            return content if text is None else text
        return value

    def make_contents(self, value: object, file: str) -> Any:
        """Return a value with the assets and archives that it describes, whose paths are relative to ``file``.

        A scope without ``contents``, as for checks without a host, returns the descriptions themselves.
        """
        contents, root = self._contents, self._manifest.root
        location = f"{root}/{file}" if root and not file.startswith("/") else file
        return value if contents is None else assets.build_contents(value, lambda spec: contents(spec, location))

    def _resolve(self, lookup: _Lookup, written: ExpressionPath) -> Any:
        """Return the value of a path; paths in its title and keys, as in ``${inputs.a[inputs.b]}``, come first."""
        path = self._with_name(written, lookup.inside, lookup.expansion)
        if path is None:
            return UNKNOWN
        if expression.has_choices(path):
            return self._chosen(path, lookup)
        return self._at(path, lookup)

    def _chosen(self, written: ExpressionPath, lookup: _Lookup) -> Any:
        """Return the value of a path with keys chosen by paths, as in ``${inputs.a[inputs.b]}``.

        The value is a secret if a chosen key is one, because it may reveal the key. Raise ``ValueError`` for a key that
        does not exist.
        """
        path, secret = expression.with_choices(written, partial(self._resolve, lookup))
        if path is None:
            return UNKNOWN
        try:
            value = self._at(path, lookup)
        except EvaluationError:
            if not secret:
                raise
            # The error names the key, which is a secret.
            raise EvaluationError(f"{written}: there is no such key") from None
        return value if value is UNKNOWN or not secret or isinstance(value, Sensitive) else Sensitive(value)

    def _at(self, path: ExpressionPath, lookup: _Lookup) -> Any:
        """Return the value at a path without chosen keys, by its root. Raise ``ValueError`` for an invalid path."""
        if path.root == "inputs":
            return _value_at(self.inputs, path, "input")
        if path.root == "facts":
            return self._fact(path)
        if path.root == "host":
            return _value_at(getattr(self._facts, "host", {}), path, "property of the host")
        if path.root == "values":
            return self._value(path, lookup)
        if path.root == "stacks":
            return self._stack_output(path)
        if path.root == "each":
            raise ValueError(f"{path}: each is known only in a resource or component with for_each")
        if lookup.expand_components and path.root in self.components:
            return self._output(path, lookup)
        return lookup.of_resource(path)

    def _with_name(
        self, written: ExpressionPath, inside: tuple[str, ...] = (), expansion: _Expansion | None = None
    ) -> ExpressionPath | None:
        """Return a path with its title evaluated and its attribute as the type names it; None for an invalid title.

        Manifests write ``retry_`` for an attribute with the name of a metaparameter. ``inside`` and ``expansion`` are
        those of the evaluation around it.
        """
        if not isinstance(written.root, tuple):
            return written
        name = written.root
        if "${" in name.title:
            resolved = self.resolve_name(name, inside, expansion)
            if resolved is None:
                return None
            name, written = resolved, written._replace(root=resolved)
        if written.keys[0][-1:] == "_" and (entry := self.find(name)) is not None:
            return written._replace(keys=(entry.definition.attribute_spelt(written.keys[0]), *written.keys[1:]))
        return written

    def _fact(self, path: ExpressionPath) -> Any:
        """Return the value of a path into a fact: ``${facts.os.name}``. Raise ``ValueError`` for an unknown one."""
        try:
            value = self._facts[path.keys[0]]
        except KeyError:
            names = self._facts.names() if hasattr(self._facts, "names") else self._facts
            raise _unknown_name(path, "fact", names) from None
        return expression.follow_keys(value, path, path.keys[1:])

    def _stack_output(self, path: ExpressionPath) -> Any:
        """Return another stack's output. Raise ``ValueError`` for a stack or output that cannot be read.

        Its use is recorded in ``stack_outputs`` for the plan. Of a sensitive output without a key only a digest is
        stored, so it has no value here.
        """
        stack, name = path.keys[:2]
        try:
            outputs = {} if self._stacks is None else self._stacks(stack)
        except ValueError as error:
            raise type(error)(f"{path}: {error}") from error
        if name not in outputs:
            hint = suggestion(name, outputs) or f"it has {', '.join(sorted(outputs)) or 'none'}"
            raise EvaluationError(f"{path}: the stack '{stack}' has no output '{name}'; {hint}")
        if has_sealed(outputs[name]):
            msg = (
                f"{path}: it is sensitive, and without a key only a digest of it is recorded; name a key in both stacks"
            )
            raise ValueError(msg)
        self.stack_outputs[stack, name] = None
        return expression.follow_keys(outputs[name], path, path.keys[2:])

    def _value(self, path: ExpressionPath, lookup: _Lookup) -> Any:
        """Return the value of a path into ``values``, or into the result of the function that the value calls.

        It is ``UNKNOWN`` if the value is invalid, or an input of the function is not known yet. A pure function with
        known inputs is called here; any other by ``lookup.call``, which depends on the readiness of its provider.
        """
        name = path.keys[0]
        if name not in self.calls:  # a value, and no call
            if name not in self._manifest.values:
                raise _unknown_name(path, "value", self._manifest.values)
            return self._evaluate(name, self._manifest.values[name], path, lookup)
        if (call := self.calls[name]) is None:  # it is invalid, and reported
            return UNKNOWN
        if name in self.constants:
            return expression.follow_keys(self.constants[name], path, path.keys[1:])
        arguments = self._evaluate(name, dict(call.arguments), path._replace(keys=path.keys[:1]), lookup)
        function = lookup.call
        if call.function.pure and self._pure is not None:
            function = self._pure
            document.check_inputs(arguments, f"{path}: the input of {call}")
        answer = UNKNOWN if is_unknown(arguments) else function(call, self._with_contents(name, call, arguments))
        return expression.follow_keys(answer, path, path.keys[1:])

    def _with_contents(self, name: str, call: FunctionCall, arguments: Mapping[str, object]) -> Mapping[str, Any]:
        """Return a function's inputs with assets and archives; paths are relative to the file of the value ``name``."""
        contents = call.function.inputs.content_attributes
        if contents.isdisjoint(arguments):
            return arguments
        file = self._manifest.place(("values", name)).file
        return {key: self.make_contents(value, file) if key in contents else value for key, value in arguments.items()}

    def _output(self, path: ExpressionPath, lookup: _Lookup) -> Any:
        """Return the value of a path into a component's output. Raise ``ValueError`` if it has no such output."""
        assert isinstance(path.root, tuple)  # the component's reference: type and title
        name, outputs = path.keys[0], self.components[path.root].outputs
        if name not in outputs:
            raise _unknown_name(path, "output", outputs)
        return self._evaluate(f"{path.root}.{name}", outputs[name], path, lookup)

    def _evaluate(self, name: str, value: object, path: ExpressionPath, lookup: _Lookup) -> Any:
        """Return the value at a path into the named value or output ``name``, which is written as ``value``.

        The expansion caches the result of each name. A cached result still counts with all its lookups and characters,
        so that a few values that repeat each other cannot expand to gigabytes. Raise ``ValueError`` for a cycle, and
        beyond the limits.
        """
        inside = (*lookup.inside, name)
        if name in lookup.inside:
            raise ValueError(f"{path}: values refer to each other in a circle: {' → '.join(inside)}")
        if len(inside) > document.MAX_DEPTH:
            raise ValueError(f"{path}: values refer to each other more than {document.MAX_DEPTH} deep")
        expansion = lookup.expansion or _Expansion()
        if name in expansion.evaluated:
            result, lookups, characters = expansion.evaluated[name]
            expansion.add(path, lookups, characters)
        else:
            lookups, characters = expansion.lookups, expansion.characters
            result = expression.evaluate(
                value, partial(self._resolve, lookup._replace(inside=inside, expansion=expansion))
            )
            expansion.add(path, 1, len(result) if type(result) is str else 0)
            expansion.evaluated[name] = result, expansion.lookups - lookups, expansion.characters - characters
        return expression.follow_keys(result, path, path.keys[1:])


def _value_at(values: Mapping[str, object], path: ExpressionPath, kind: str) -> Any:
    """Return the value of a path into ``values`` of a ``kind``: "input". Raise ``ValueError`` for an unknown name."""
    if path.keys[0] not in values:
        raise _unknown_name(path, kind, values)
    return expression.follow_keys(values[path.keys[0]], path, path.keys[1:])


def _refuse_function(noun: str, call: FunctionCall, _given: Mapping[str, object]) -> Any:
    """Raise ``ValueError``: a ``noun``, such as a title, is evaluated before functions that may read are called."""
    raise ValueError(f"{noun} cannot depend on a function, such as {call}, unless it is pure")


def _refuse_resource(noun: str, path: ExpressionPath) -> Any:
    """Raise ``ValueError``: a ``noun``, such as a title, is evaluated before any resource is."""
    msg = f"{path}: {noun} cannot depend on another resource; use inputs, facts and values that are made of them"
    raise ValueError(msg)


def _unknown_name(path: ExpressionPath, kind: str, names: Any) -> ValueError:
    return ValueError(f"{path}: unknown {kind} '{path.keys[0]}'{hint(path.keys[0], names, kind)}")


#: The paths in metaparameters that hold references.
_LIFECYCLE_REFERENCES: Final = (("lifecycle", "replace_triggered_by"), ("lifecycle", "deleted_with"))
#: Those that hold text, in which an Integer or a Boolean is written as in texts.
_TEXT_KEYS: Final = ("tag", "loglevel", "ignore_changes", "replace", "replace_on_changes", "aliases", "import")


def _takes_text(path: tuple[str | int, ...]) -> bool:
    """Return whether the part at a path of a metaparameter is text or texts: numbers become text there."""
    return not {*path[:2]}.isdisjoint(_TEXT_KEYS)


def _part_at(value: Any, path: Sequence[str | int]) -> Any:
    """Return the part of a value at the keys and indexes of ``path``, for a message, or None if there is none."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value


def have_literal_names(declarations: Sequence[Declaration]) -> bool:
    """Return whether no title or metaparameter has an expression, ``for_each`` or ``when``.

    Most large manifests are so: their declarations are used as they are, without the time to evaluate each.
    """
    if not CARDINALITY.isdisjoint(chain.from_iterable(map(attrgetter("meta"), declarations))):
        return False
    values = [value for declared in declarations for value in declared.meta.values()]
    return expression.are_literal(values) and "${" not in "\n".join([declared.title for declared in declarations])


#: A part of a metaparameter without a value, which is reported.
_INVALID: Final = object()


class NameEvaluator:
    """Evaluates names and metaparameters in a scope; invalid ones are reported."""

    def __init__(self, diagnostics: Diagnostics, scope: Scope) -> None:
        """Use the inputs, values and facts of ``scope``."""
        self._diagnostics = diagnostics
        self._scope = scope
        #: Position and message of the problems of metaparameters so far: ``defaults`` concern many declarations.
        self._reported: set[tuple[FilePosition, str]] = set()

    def evaluate_name_changes(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the titles in ``moved`` and ``removed`` evaluated, to compare them with references.

        Report invalid entries, and omit them.
        """
        moved = []
        for move in manifest.moved:
            source, target = self._name(move, move.source, "from"), self._name(move, move.target, "to")
            if source is not None and target is not None:
                moved.append(move._replace(source=source, target=target))
        pairs = ((removal, self._name(removal, removal.reference)) for removal in manifest.removed)
        removed = [removal._replace(reference=name) for removal, name in pairs if name is not None]
        return manifest._replace(moved=tuple(moved), removed=tuple(removed))

    def evaluate_declaration(self, declared: Declaration) -> Declaration | None:
        """Return a declaration with title and metaparameters evaluated, or None for a bad title; report errors.

        Titles and metaparameters must be known before any resource is read: they are the resource's identity and its
        place in the order.
        """
        if "${" in declared.title:
            try:
                name = self._scope.resolve_name(Reference(declared.type, declared.title))
            except ValueError as error:
                self._diagnostics.declaration_error(declared, str(error), "title")
                return None
            if name is None:
                return None
            declared = declared._replace(title=name.title)
        pending = [key for key, value in declared.meta.items() if expression.holds_expressions(value)]
        if not pending:
            return declared
        meta = dict(declared.meta)
        for key in pending:
            if key in EVALUATED:
                meta[key] = self._metaparameter(declared, key, meta[key])
            elif key in RELATIONSHIPS:
                meta[key] = self._references(declared, key, meta[key])
        return declared._replace(meta={key: value for key, value in meta.items() if value is not None})

    def _metaparameter(self, declared: Declaration, key: str, written: object) -> Any:
        """Return a metaparameter with its expressions evaluated, or None for an invalid one, which is reported.

        The manifest's reader could check literal metaparameters only, so the same rules are applied here. The message
        about a wrong value has its expression too: ``priority must be ...; ${inputs.p} is 5``.
        """
        before = len(self._diagnostics.problems)
        value = self._part(declared, (key,), written)
        lacks_part = len(self._diagnostics.problems) > before
        if value in (None, _INVALID):
            return None
        for violation in metaparameters.violations(key, value):
            if lacks_part and violation.path == (key,):
                continue  # the whole is wrong only because an invalid part is left out
            expression_text, part = (_part_at(whole, violation.path[1:]) for whole in (written, value))
            is_literal = part is expression_text or violation.code == "unknown_key" or _takes_text(violation.path)
            is_ = part if type(part) in {int, float} else expression.kind_of(part)
            origin = "" if is_literal else f"; {expression_text} is {is_}"
            self._report(declared, violation.path, f"{violation.message}{origin}", violation.hint)
        return value if len(self._diagnostics.problems) == before else None

    def _part(self, declared: Declaration, path: tuple[str | int, ...], written: object) -> Any:
        """Return the part at ``path`` of a metaparameter with its texts evaluated, recursively.

        Invalid texts, as ``_INVALID``, are reported, and omitted from mappings and lists, so that the other parts are
        checked too. In a reference only the title is an expression, so ``_references`` evaluates it.
        """
        if isinstance(written, dict):
            parts = {key: self._part(declared, (*path, key), item) for key, item in written.items()}
            return {key: part for key, part in parts.items() if part is not _INVALID}
        if path[:2] in _LIFECYCLE_REFERENCES:
            return self._references(declared, "lifecycle", written, ".".join(map(str, path[:2])))
        if isinstance(written, list):
            items = [self._part(declared, (*path, index), item) for index, item in enumerate(written)]
            return [item for item in items if item is not _INVALID]
        return self._text(declared, path, written) if type(written) is str and "${" in written else written

    def _text(self, declared: Declaration, path: tuple[str | int, ...], written: str) -> Any:
        """Return the value of a text at ``path`` in a metaparameter, or ``_INVALID`` for an invalid one.

        An invalid text is reported unless an invalid input or value is its cause. A number becomes text again if the
        metaparameter takes only text, as ``tag`` does.
        """
        value, message = UNKNOWN, ""
        try:
            value = self._scope.known_value(written, "a metaparameter")
        except ValueError as error:
            message = str(error)
        if is_secret(value):
            message = f"{written} is sensitive, and a metaparameter is shown and recorded; use what is no secret"
        if message:
            self._report(declared, path, f"{'.'.join(step for step in path if isinstance(step, str))}: {message}")
        if message or value is UNKNOWN:
            return _INVALID
        return expression.text_of(value) if _takes_text(path) and type(value) in {int, bool} else value

    def _report(self, declared: Declaration, path: tuple[str | int, ...], message: str, hint: str = "") -> None:
        """Report a problem at ``path`` in a declaration: a metaparameter, then keys within it.

        Many resources may inherit the metaparameter from ``defaults``, so each position and message is reported once.
        """
        attribute = str(path[0])
        position = self._diagnostics.manifest.place(declared, attribute, *path[1:])
        if (position, message) not in self._reported:
            self._reported.add((position, message))
            reference_text = str(declared.reference)
            problem = Problem(attribute, message, "error", reference_text, *position, code="metaparameter", hint=hint)
            self._diagnostics.problems.append(problem)

    def _references(self, declared: Declaration, attribute: str, value: object, label: str = "") -> Any:
        """Return the reference or references in the metaparameter ``attribute`` with their titles evaluated.

        Invalid ones are reported, and omitted. ``label`` is shown in messages in place of ``attribute``:
        ``lifecycle.deleted_with``.
        """
        if isinstance(value, list):
            references = [self._references(declared, attribute, text, label) for text in value]
            return [item for item in references if item is not None]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            name = self._scope.resolve_name(parse(value))
        except ValueError as error:
            advice = "name one of its titles, or all of the type, as in User[*]" if "${each." in value else ""
            message = f"{label or attribute}: {error}"
            self._diagnostics.declaration_error(declared, message, "reference", attribute, hint=advice)
            return None
        return None if name is None else str(name)

    def _name(self, change: Moved | Removed, written: Reference, *path: str) -> Reference | None:
        """Return a reference in ``moved`` or ``removed`` with its title evaluated, or None for an invalid title.

        The error is reported at the keys ``path`` of the entry; the entry then has no effect.
        """
        try:
            return self._scope.resolve_name(written)
        except ValueError as error:
            self._diagnostics.name_change_error(change, str(error), *path)
            return None


class InputError(ValueError):
    """The reason that inputs of a function are invalid; ``key`` is the first of them."""

    def __init__(self, message: str, key: str | None) -> None:
        """Keep the name of the input."""
        super().__init__(message)
        self.key = key
